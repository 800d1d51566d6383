"""Two evaluations, paired: differences and p-values to check by hand, and pairs that are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from commands import Cli
from films_questions import QUESTIONS, RIGHT, SCRIPT, TURNS, engine, write_films
from kgwalk.config.run_folder import begin_run
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.evaluation.report import compare
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.types import KgwalkError

approx = pytest.approx


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def films(tmp_path: Path) -> Path:
    return write_films(tmp_path / "films")


def run(films: Path, out: str, **answers: Any) -> Path:
    evaluate("kgwalk", films, engine=engine(**answers), values=[TURNS], out=out)
    return Path(out)


def test_the_comparison_by_hand(films: Path) -> None:
    """
    F1         big  hanks  year  zemeckis  star
    first      1    2/3    2/3   0         0
    second     0    1      2/3   0         1
    second-first  -1   +1/3   0     0         +1     sum 1/3

    p: of the 8 signs of 1, 1/3, 1 the sums are 7/3, 5/3, 1/3, 1/3 and their opposites: all as far as 1/3, so p = 1.
    """
    better = {
        "big": ['<answer>["Tom Hanks"]</answer>'],
        "hanks": RIGHT,
        "star": ['tail_entities($1, "starred_actors")', "<answer>$2</answer>"],
    }
    found = compare(run(films, "first"), run(films, "second", **better))
    assert list(found) == ["n", "left_out", "metrics", "gained", "lost"]
    assert (found["n"], found["left_out"]) == (5, [0, 0])
    f1 = found["metrics"]["f1"]
    assert (f1["first"], f1["second"]) == (approx((1 + 4 / 3) / 5), approx((1 + 2 / 3 + 1) / 5))
    assert f1["difference"] == approx((-1 + 1 / 3 + 1) / 5)
    low, high = f1["interval"]
    assert low < f1["difference"] < high
    assert f1["p"] == 1.0
    # recall: -1, +1/2, +1: sums 2.5, 1.5, 0.5, 0.5 and their opposites; the observed 0.5 is the least far of all
    assert found["metrics"]["recall"]["p"] == 1.0
    # turns: 2 3 1 0 3 against 1 3 1 0 2: twice -1, so ++ and -- of four: 1/2
    turns = found["metrics"]["turns"]
    assert (turns["difference"], turns["p"]) == (approx(-2 / 5), 0.5)
    assert "accuracy" not in found["metrics"]


def test_what_was_gained_and_lost(films: Path) -> None:
    star = ['tail_entities($1, "starred_actors")', "<answer>$2</answer>"]
    found = compare(run(films, "first"), run(films, "second", big=['<answer>["x"]</answer>'], hanks=RIGHT, star=star))
    assert found["gained"] == [
        {"number": 4, "id": "star", "question": "who starred in Big?", "f1": [0.0, 1.0]},
        {"number": 1, "id": "hanks", "question": QUESTIONS[1]["question"], "f1": [approx(2 / 3), 1.0]},
    ]
    assert found["lost"] == [{"number": 0, "id": "big", "question": "who directed Big?", "f1": [1.0, 0.0]}]
    back = compare(Path("second"), Path("first"))
    assert back["lost"] == [row | {"f1": row["f1"][::-1]} for row in found["gained"]]
    assert back["metrics"]["f1"]["difference"] == approx(-found["metrics"]["f1"]["difference"])


def test_a_p_value_of_few_pairs(films: Path) -> None:
    """All three that change rise: of the 8 ways to give them signs two are as far, so p = 1/4."""
    zemeckis = ['head_entities($1, "directed_by")', "<answer>$2</answer>"]
    star = ['tail_entities($1, "starred_actors")', "<answer>$2</answer>"]
    found = compare(run(films, "first"), run(films, "second", hanks=RIGHT, zemeckis=zemeckis, star=star))
    assert found["metrics"]["f1"]["p"] == 0.25
    assert found["metrics"]["exact_set"] == {
        "n": 5,
        "first": approx(0.2),
        "second": approx(0.8),
        "difference": approx(0.6),
        "interval": found["metrics"]["exact_set"]["interval"],
        "p": 0.25,
    }


def test_a_number_that_only_some_questions_have(tmp_path: Path) -> None:
    """Accuracy is of yes-or-no questions alone; it is compared over those, and says over how many."""
    yes = {
        "id": "yes",
        "question": "is it so?",
        "topic_entities": ["Big"],
        "answers": ["yes"],
        "answer_kind": "boolean",
    }
    films = write_films(tmp_path / "films", [*QUESTIONS, yes])
    for out, said in (("first", "no"), ("second", "true")):
        turns = ScriptedEngine(SCRIPT | {"is it so?": [f'<answer>["{said}"]</answer>']})
        report = evaluate("kgwalk", films, engine=turns, values=[TURNS], out=out)
        assert report["counts"]["accuracy"] == 1
    metrics = compare(Path("first"), Path("second"))["metrics"]
    assert (metrics["f1"]["n"], metrics["accuracy"]["n"]) == (6, 1)
    assert (metrics["accuracy"]["first"], metrics["accuracy"]["second"]) == (0.0, 1.0)


def test_several_runs_are_a_question_each(films: Path) -> None:
    """The pairs are questions, not runs: those would not be independent."""
    evaluate("random-walk", films, values=["eval.runs=4"], out="first")
    evaluate("oracle", films, out="second")
    found = compare(Path("first"), Path("second"))
    assert found["n"] == 5
    assert found["metrics"]["f1"]["second"] == approx(4 / 5)


def test_only_shared_questions_are_paired(films: Path) -> None:
    evaluate("oracle", films, limit=3, out="some")
    evaluate("random-walk", films, out="all")
    found = compare(Path("some"), Path("all"))
    assert (found["n"], found["left_out"]) == (3, [0, 2])


def test_the_same_data_elsewhere_is_the_same_data(films: Path, tmp_path: Path) -> None:
    evaluate("oracle", films, out="here")
    evaluate("oracle", Path(shutil.copytree(films, tmp_path / "moved")), out="there")
    assert compare(Path("here"), Path("there"))["metrics"]["f1"]["difference"] == 0.0


def test_what_cannot_be_paired(films: Path, tmp_path: Path) -> None:
    evaluate("oracle", films, out="films-run")
    evaluate("oracle", "world", out="world-run")
    with pytest.raises(KgwalkError, match=r"cannot be paired: question 0 differs \(.*films test; world test\)"):
        compare(Path("films-run"), Path("world-run"))
    other = write_films(tmp_path / "other", [*QUESTIONS[:4], QUESTIONS[4] | {"answers": ["Tom"]}])
    evaluate("oracle", other, out="other-run")
    with pytest.raises(KgwalkError, match="question 4 differs"):
        compare(Path("films-run"), Path("other-run"))
    other = write_films(tmp_path / "aliased", [*QUESTIONS[:4], QUESTIONS[4] | {"aliases": {"Tom Hanks": ["Tom"]}}])
    evaluate("oracle", other, out="aliased-run")
    with pytest.raises(KgwalkError, match="question 4 differs"):
        compare(Path("films-run"), Path("aliased-run"))
    evaluate("oracle", films, limit=1, seed=0, out="one")
    evaluate("oracle", films, limit=1, seed=1, out="another")
    with pytest.raises(KgwalkError, match="have no question in common"):
        compare(Path("one"), Path("another"))
    with begin_run(Path("training"), "train", {}):
        pass
    with pytest.raises(KgwalkError, match="is a run of kind 'train', not an evaluation"):
        compare(Path("films-run"), Path("training"))
    Path("films-run/metrics.json").unlink()
    with pytest.raises(KgwalkError, match="has not ended; the same `kgwalk eval` command goes on"):
        compare(Path("films-run"), Path("films-run"))
    with pytest.raises(KgwalkError, match="holds no run"):
        compare(Path("nowhere"), Path("films-run"))


# --- the command


def test_the_command(films: Path, cli: Cli) -> None:
    run(films, "first")
    run(films, "second", big=['<answer>["x"]</answer>'], hanks=RIGHT)
    status, out, err = cli("compare", "first", "second")
    assert (status, err) == (0, "")
    assert out.startswith("first:  first\nsecond: second\n5 questions in both")
    row = next(line for line in out.splitlines() if line.startswith("│ f1 "))
    assert [cell.strip() for cell in row.split("│")[1:5]] == ["f1", "0.467", "0.333", "-0.133"]
    assert "gained: 1 question by F1\n  0.67 -> 1.00  hanks  who directed the films" in out
    assert "lost: 1 question by F1\n  1.00 -> 0.00  big  who directed Big?" in out
    assert "left out" not in out
    status, out, err = cli("compare", "first", "second", "--json")
    assert json.loads(out) == compare(Path("first"), Path("second"))
    status, out, err = cli("compare", "first", "second", "-n", "0")
    assert "lost: 1 question by F1\n" in out
    assert "who directed Big?" not in out


def test_the_commands_errors(films: Path, cli: Cli) -> None:
    run(films, "first")
    status, out, err = cli("compare", "first", "nowhere", "--json")
    assert status == 1
    assert json.loads(out) == {
        "error": {"kind": "KgwalkError", "message": "nowhere holds no run: there is no run.json in it"}
    }
    assert "error: nowhere holds no run" in err
    assert cli("compare", "first")[0] == 2
