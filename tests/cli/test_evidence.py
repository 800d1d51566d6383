"""The evidence of an answer, drawn on a terminal: chains from where the walk began, and names that stay names."""

from __future__ import annotations

import io
import re

import pytest

from kgwalk.cli import ask
from kgwalk.cli.evidence import evidence_tree
from kgwalk.cli.output import PlainConsole
from kgwalk.types import StopReason, Triple
from kgwalk.walk.agent import AskResult

STARRED, DIRECTED = Triple("Big", "starred_actors", "Tom Hanks"), Triple("Big", "directed_by", "Penny Marshall")


def drawn(name: str, facts: list[Triple], *, encoding: str = "utf-8", label: str | None = None) -> list[str]:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = PlainConsole(
        file=file, force_terminal=True, width=120, soft_wrap=True, no_color=True, legacy_windows=False
    )
    console.print(evidence_tree(name, facts, console, label=label))
    file.seek(0)
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in file.read().splitlines()]  # without weights


def test_two_hops_are_one_chain_and_arrows_point_as_the_facts_do() -> None:
    assert drawn("Penny Marshall", [STARRED, DIRECTED]) == [
        "Penny Marshall",
        "└── Tom Hanks ◀─ starred_actors ── Big ── directed_by ─▶ Penny Marshall",
    ]


def test_two_ways_are_two_branches() -> None:
    facts = [Triple("France", "borders", "Belgium"), Triple("Belgium", "borders", "Germany", "1920")]
    assert drawn("Belgium", facts, label="1. Belgium") == [
        "1. Belgium",
        "├── France ── borders ─▶ Belgium",
        "└── Germany ◀─ borders [1920] ── Belgium",
    ]


def test_three_hops_and_a_second_film() -> None:
    other = [Triple("Cast Away", "starred_actors", "Tom Hanks"), Triple("Cast Away", "directed_by", "Zemeckis")]
    born = Triple("Zemeckis", "born_in", "Chicago")
    assert drawn("Chicago", [*other, born]) == [
        "Chicago",
        "└── Tom Hanks ◀─ starred_actors ── Cast Away ── directed_by ─▶ Zemeckis ── born_in ─▶ Chicago",
    ]


def test_facts_that_were_counted_stand_alone_and_an_answer_may_have_none() -> None:
    facts = [Triple("Northwind", "makes", "Gale"), Triple("Northwind", "makes", "Storm")]
    assert drawn("2", facts) == ["2", "├── Northwind ── makes ─▶ Gale", "└── Northwind ── makes ─▶ Storm"]
    assert drawn("yes", []) == ["yes"]


def test_a_terminal_without_unicode_has_plain_arrows() -> None:
    assert drawn("Penny Marshall", [STARRED, DIRECTED], encoding="ascii")[1].endswith(
        "Tom Hanks <- starred_actors -- Big -- directed_by -> Penny Marshall"
    )


def test_what_would_steer_the_terminal_is_shown_escaped() -> None:
    evil = "\x1b[2Jowned[red]"
    text = "\n".join(drawn(evil, [Triple("Big", "made\nby", evil)]))
    assert "\\x1b[2Jowned[red]" in text
    assert "made\\nby" in text


def test_a_pipe_gets_the_facts_as_before(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    name = "Penny Marshall"
    asked = AskResult("who?", ["Big"], [name], {name: [DIRECTED]}, 2, {}, 0.1, StopReason.answered, {name: 1})
    ask.print_answer(asked, 50)
    assert capsys.readouterr().out == "Penny Marshall\n    (Big, directed_by, Penny Marshall)\n"
    shown = PlainConsole(force_terminal=True, soft_wrap=True, no_color=True)
    monkeypatch.setattr(ask, "out", shown)
    ask.print_answer(asked, 50)
    assert "── directed_by" in capsys.readouterr().out
