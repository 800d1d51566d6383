"""Score an agent on the users' graphs: `python -m benchmarks.users [--only SET] [--agent ADAPTER]`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.users.answers import Answers
from benchmarks.users.gold import oracle, starts_report
from benchmarks.users.graphs import UserGraph, dev, fresh, practice, problems, seal, sealed
from benchmarks.users.run import Asked, opened, run
from benchmarks.users.score import report

from kgwalk.llm.engine import Engine
from kgwalk.types import KgwalkError

OPEN = {"dev": dev, "practice": practice, "fresh": fresh}  # sets whose questions may be read
SETS = (*OPEN, "sealed")


def main() -> int:
    """Ask and score, or check the answers; the exit status is 1 where that fails."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.users",
        description="Users' graphs with 35 to 40 questions each: how right an agent is on them.",
        epilog="Of the sealed graphs only totals are printed. Examples: python -m benchmarks.users --only dev "
        "--engine cpu · python -m benchmarks.users --agent runs/mine/adapter --json · "
        "python -m benchmarks.users --check · python -m benchmarks.users --oracle --only dev",
    )
    parser.add_argument("--only", choices=SETS, help="one of the sets (default: all)")
    parser.add_argument(
        "--graph", action="append", help="of dev, practice or fresh, only the graph of this name; may be repeated"
    )
    parser.add_argument("--agent", help="an adapter's folder, shipped or none (default: the shipped one)")
    parser.add_argument(
        "--recipe", default=Asked.recipe, help="the recipe or baseline that walks (default: %(default)s)"
    )
    parser.add_argument("--model", help="a model's name or file (default: that of the agent)")
    parser.add_argument("--engine", default=Asked.engine, help="auto, cpu, local, vllm or api (default: %(default)s)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the recipe, such as ask.walks=5"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="keep the walks in FOLDER/dev, FOLDER/practice and FOLDER/fresh, to read failures; those of sealed never",
    )
    parser.add_argument("--oracle", action="store_true", help="ask nobody: run the gold programs, and score them")
    parser.add_argument(
        "--starts", action="store_true", help="ask nobody: how often linking finds where the gold programs start"
    )
    parser.add_argument("--check", action="store_true", help="ask nobody: compute all answers again from the raw files")
    parser.add_argument("--seal", type=Path, metavar="FOLDER", help="write the sealed archive from a folder of graphs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    if given.graph and given.only not in OPEN:
        parser.error("--graph needs --only dev, practice or fresh: single sealed graphs are not scored")
    if given.keep and given.only == "sealed":
        parser.error("--keep: what is asked of the sealed graphs is not read")
    try:
        if given.seal:
            seal(given.seal)
            return 0
        if given.check:
            return _check(given.only)
        who = Asked(given.recipe, given.agent, given.model, given.engine, given.keep, tuple(given.set))
        names = [name for name in SETS if given.only in (None, name)]
        if given.starts or given.oracle:
            told = _starts if given.starts else _oracle
            found = {name: _of_set(name, given.graph, told) for name in names}
        else:
            with opened(who) as engine:
                found = {name: _of_set(name, given.graph, partial(_asked, who, engine, name)) for name in names}
    except KgwalkError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if given.json:
        asked = "oracle" if given.oracle else "starts" if given.starts else {**vars(who), "keep": None}
        print(json.dumps({"asked": asked, **found}, ensure_ascii=False, indent=1))
    else:
        for name, figures in found.items():
            (_print_starts if given.starts else _print)(name, figures)
    return 0


Told = Callable[[Sequence[UserGraph], bool], dict[str, Any]]  # of some graphs, that may be secret, the figures


def _of_set(name: str, only: Sequence[str] | None, told: Told) -> dict[str, Any]:
    if name == "sealed":
        with sealed() as graphs:
            return told(graphs, True)
    graphs = OPEN[name]()
    if unknown := set(only or ()) - {graph.name for graph in graphs}:
        raise KgwalkError(f"no graph {', '.join(sorted(unknown))}; there are {', '.join(g.name for g in graphs)}")
    return told([graph for graph in graphs if not only or graph.name in only], False)


def _asked(who: Asked, engine: Engine | None, name: str, graphs: Sequence[UserGraph], secret: bool) -> dict[str, Any]:
    kept = None if secret or who.keep is None else who.keep / name
    return report(run(graphs, replace(who, keep=kept), engine=engine, progress=_tell), secret=secret)


def _oracle(graphs: Sequence[UserGraph], secret: bool) -> dict[str, Any]:
    return report(oracle(graphs), secret=secret)


def _starts(graphs: Sequence[UserGraph], secret: bool) -> dict[str, Any]:
    return starts_report(graphs, secret=secret)


def _tell(what: str, done: int, total: int | None, figures: Mapping[str, float] = {}, /) -> None:
    if total and done % 20 == 0:
        print(f"{what}: {done} of {total}", file=sys.stderr, flush=True)


def _check(only: str | None) -> int:
    wrong = {
        name: [line for graph in graphs() for line in checked(graph)]
        for name, graphs in OPEN.items()
        if only in (None, name)
    }
    if only in (None, "sealed"):
        with sealed() as graphs:
            wrong["sealed"] = [line for graph in graphs for line in checked(graph)]
    for name, lines in wrong.items():
        print(f"{name}: {len(lines)} answers differ from the raw files" if lines else f"{name}: all answers hold")
    for line in (line for name in OPEN for line in wrong.get(name, [])):
        print(f"  {line}")
    return int(any(wrong.values()))


def checked(graph: UserGraph) -> list[str]:
    """What is wrong with a graph's questions: badly made, or with other answers than the raw files give."""
    answers = Answers(graph)
    wrong = list(problems(graph))
    names = answers.names()
    for question in graph.questions:
        found = answers.answers(question)
        same = (
            found == question.answers
            if question.ordered
            else sorted(map(str, found)) == sorted(map(str, question.answers))
        )
        for name in set(question.starts.entities) - names:
            wrong.append(f"{question.id}: should start from {name!r}, which the raw files do not have")
        if not same:
            wrong.append(f"{question.id}: the file says {question.answers}, the raw files {found}")
    return wrong


def _print(name: str, figures: dict[str, Any]) -> None:
    total = figures["total"]
    print(f"\n{name}: F1 {_line(total)}")
    print(f"  the companies' graphs: {_line(figures['company'])}")
    for label, key in (
        ("questions without an answer that were refused", "refused_rightly"),
        ("questions with an answer that were refused", "refused_wrongly"),
        ("answers in the order asked for", "in_order"),
        ("all things to start from found", "starts_found"),
    ):
        if figures[key] is not None:
            print(f"  {label}: {figures[key]:.3f}")
    for by in ("by_graph", "by_answer_kind", "by_shape"):
        if by in figures:
            print(
                f"\n| {by.removeprefix('by_').replace('_', ' ')} | questions | F1 | 95% by graph |\n|---|---|---|---|"
            )
            for key, one in figures[by].items():
                span = " - ".join(f"{end:.3f}" for end in one["interval"])
                print(f"| {key} | {one['n']} | {one['f1']:.3f} | {span} |")


def _print_starts(name: str, figures: dict[str, Any]) -> None:
    total = figures["total"]
    print(f"\n{name}: all starts found in {total['found']:.3f} of {total['n']}, exactly those in {total['exact']:.3f}")
    for by in ("by_graph", "by_shape"):
        if by in figures:
            print(f"\n| {by.removeprefix('by_')} | questions | found | exactly |\n|---|---|---|---|")
            for key, one in figures[by].items():
                print(f"| {key} | {one['n']} | {one['found']:.3f} | {one['exact']:.3f} |")
    wrong = [one for one in figures.get("questions", []) if not one["exact"]]
    if wrong:
        print()
    for one in wrong:
        parts = [
            f"{label} {', '.join(one[key])}" for key, label in (("missing", "misses"), ("other", "has")) if one[key]
        ]
        print(f"  {one['id']} {one['question']}: {'; '.join(parts)}")


def _line(one: dict[str, Any]) -> str:
    span = f", 95% by graph {one['interval'][0]:.3f} - {one['interval'][1]:.3f}" if one["interval"] else ""
    return f"{one['f1']:.3f} over {one['n']} questions{span}"


if __name__ == "__main__":
    sys.exit(main())
