"""Score an agent on the users' graphs: `python -m benchmarks.users [--only dev|sealed] [--agent ADAPTER] [--json]`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.users.answers import Answers
from benchmarks.users.graphs import UserGraph, dev, problems, seal, sealed
from benchmarks.users.run import Asked, run
from benchmarks.users.score import report

from kgwalk.types import KgwalkError

SETS = ("dev", "sealed")


def main() -> int:
    """Ask and score, or check the answers; the exit status is 1 where that fails."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.users",
        description="Ten users' graphs with 40 questions each: how right an agent is on them.",
        epilog="Of the sealed graphs only totals are printed. Examples: python -m benchmarks.users --only dev "
        "--engine cpu · python -m benchmarks.users --agent runs/mine/adapter --json · "
        "python -m benchmarks.users --check",
    )
    parser.add_argument("--only", choices=SETS, help="one of the two sets (default: both)")
    parser.add_argument("--graph", action="append", help="of dev, only the graph of this name; may be repeated")
    parser.add_argument("--agent", help="an adapter's folder, shipped or none (default: the shipped one)")
    parser.add_argument(
        "--recipe", default=Asked.recipe, help="the recipe or baseline that walks (default: %(default)s)"
    )
    parser.add_argument("--model", help="a model's name or file (default: that of the agent)")
    parser.add_argument("--engine", default=Asked.engine, help="auto, cpu, local, vllm or api (default: %(default)s)")
    parser.add_argument(
        "--keep", type=Path, metavar="RUN", help="of dev, keep the evaluation here, for `kgwalk calibrate RUN ...`"
    )
    parser.add_argument("--check", action="store_true", help="ask nobody: compute all answers again from the raw files")
    parser.add_argument("--seal", type=Path, metavar="FOLDER", help="write the sealed archive from a folder of graphs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    if given.graph and given.only != "dev":
        parser.error("--graph needs --only dev: single sealed graphs are not scored")
    if given.keep and given.only != "dev":
        parser.error("--keep needs --only dev: nothing is kept of the sealed graphs")
    try:
        if given.seal:
            seal(given.seal)
            return 0
        if given.check:
            return _check(given.only)
        who = Asked(given.recipe, given.agent, given.model, given.engine)
        found = {name: _scored(name, who, given.graph, given.keep) for name in SETS if given.only in (None, name)}
    except KgwalkError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if given.json:
        print(json.dumps({"asked": vars(who), **found}, ensure_ascii=False, indent=1))
    else:
        for name, figures in found.items():
            _print(name, figures)
    return 0


def _scored(name: str, who: Asked, only: Sequence[str] | None, keep: Path | None) -> dict[str, Any]:
    if name == "sealed":
        with sealed() as graphs:
            return report(run(graphs, who, progress=_tell), secret=True)
    graphs = dev()
    if unknown := set(only or ()) - {graph.name for graph in graphs}:
        raise KgwalkError(f"no graph {', '.join(sorted(unknown))}; there are {', '.join(g.name for g in graphs)}")
    return report(run([graph for graph in graphs if not only or graph.name in only], who, progress=_tell, keep=keep))


def _tell(what: str, done: int, total: int | None, figures: Mapping[str, float] = {}, /) -> None:
    if total and done % 20 == 0:
        print(f"{what}: {done} of {total}", file=sys.stderr, flush=True)


def _check(only: str | None) -> int:
    wrong: dict[str, list[str]] = {}
    if only in (None, "dev"):
        wrong["dev"] = [line for graph in dev() for line in checked(graph)]
    if only in (None, "sealed"):
        with sealed() as graphs:
            wrong["sealed"] = [line for graph in graphs for line in checked(graph)]
    for name, lines in wrong.items():
        print(f"{name}: {len(lines)} answers differ from the raw files" if lines else f"{name}: all answers hold")
    for line in wrong.get("dev", []):
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


def _line(one: dict[str, Any]) -> str:
    span = f", 95% by graph {one['interval'][0]:.3f} - {one['interval'][1]:.3f}" if one["interval"] else ""
    return f"{one['f1']:.3f} over {one['n']} questions{span}"


if __name__ == "__main__":
    sys.exit(main())
