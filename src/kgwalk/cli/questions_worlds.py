"""`kgwalk questions worlds`: a dataset of random worlds, to learn to read relations never seen before."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgwalk.cli.output import counted, err, first_of, out, print_json, print_table, progress_bar
from kgwalk.types import KgwalkError

if TYPE_CHECKING:
    from kgwalk.questions.worlds.join import JoinReport
    from kgwalk.types import Question

EXAMPLES = (
    "kgwalk questions worlds -o worlds --worlds 300 --per-world 60",
    "kgwalk questions worlds -o films --domains film,person,place --worlds 50",
    "kgwalk questions worlds -o strict --without-graph metaqa --without-phrasings metaqa",
)
SHOWN = 8  # example questions
FIRST = 3  # answers of each


def worlds(
    output: Annotated[Path, typer.Option("--output", "-o", help="The dataset folder to make.")],
    worlds: Annotated[int, typer.Option("--worlds", min=1, help="How many worlds.")] = 300,
    per_world: Annotated[int, typer.Option("--per-world", min=1, help="Questions of each world, at most.")] = 60,
    seed: Annotated[int, typer.Option(help="The same seed makes the same worlds.")] = 0,
    domains: Annotated[
        str | None, typer.Option(help="Of the bank, separated by commas: film,person,place. All unless told.")
    ] = None,
    held_out: Annotated[
        float, typer.Option("--held-out", min=0, max=0.5, help="Share of the concepts kept out of the train worlds.")
    ] = 0.1,
    dev: Annotated[float, typer.Option(min=0, max=0.5, help="Share of the worlds that are for dev.")] = 0.05,
    test: Annotated[float, typer.Option(min=0, max=0.49, help="Share of the worlds that are for test.")] = 0.05,
    noise: Annotated[float, typer.Option(min=0, max=1, help="Share of questions with typos and the like.")] = 0.1,
    dated: Annotated[float, typer.Option(min=0, max=1, help="Share of relations whose facts have a time.")] = 0.0,
    without_labels: Annotated[
        Path | None, typer.Option("--without-labels", help="File of relation names, one a line, not to be used.")
    ] = None,
    without_graph: Annotated[
        list[str] | None,
        typer.Option("--without-graph", help="A graph or dataset whose relation names are not used; repeatable."),
    ] = None,
    without_phrasings: Annotated[
        list[str] | None,
        typer.Option(
            "--without-phrasings",
            help="A dataset, or a file of questions, whose (test) questions are not phrased alike; repeatable.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the dataset that stands there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Make random worlds from the bank of relation concepts, and questions about them.

    Each world is a small graph with relations and a way of naming of its own; its names are invented. Whole worlds go
    to train, dev or test, and some concepts come up in dev and test alone. With --without-... nothing is used that a
    graph or its test questions have, so that a score on it is zero-shot.
    """
    from kgwalk.data.bank.concepts import load_bank
    from kgwalk.data.folder import check_target
    from kgwalk.questions.worlds.join import JoinSettings, write_worlds
    from kgwalk.questions.worlds.left_out import LeftOut, asked_in, keys_of
    from kgwalk.questions.worlds.world import WorldSettings

    check_target(output, replace=force)
    started = time.perf_counter()
    names = [*_lines(without_labels), *(name for graph in without_graph or () for name in _relations(graph))]
    questions = (question for name in without_phrasings or () for question in _questions(name))
    left_out = LeftOut(keys_of(names), asked_in(questions))
    chosen = None if domains is None else [name.strip() for name in domains.split(",") if name.strip()]
    concepts, gone = left_out.of(load_bank(chosen))
    settings = JoinSettings(worlds, per_world, seed, dev, test, held_out, noise, world=WorldSettings(dated=dated))
    with progress_bar(quiet=quiet or json) as progress:
        report = write_worlds(output, settings, concepts, left_out, replace_target=force, progress=progress)
    seconds = round(time.perf_counter() - started, 1)
    if json:
        print_json({"path": str(output), "seconds": seconds, "left_out": dict(gone), **_plain(report)})
        return
    _print(output, report, seconds)
    if names or left_out.phrasings:
        out.print(
            f"left out of the bank: {counted(gone['labels'], 'label')}, {counted(gone['phrasings'], 'phrasing')}, "
            f"and {counted(gone['concepts'], 'concept')} of which nothing was left"
        )


def _lines(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        return [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise KgwalkError(f"{path} cannot be read: {error}") from error


def _relations(name: str) -> Iterable[str]:
    """The relation names of a store, or of the graph of a dataset."""
    from kgwalk.cli.graphs import stored_graph

    graph = stored_graph(name)[1]
    return graph.store.relation.several(graph.live_relations())


def _questions(name: str) -> Iterable[Question]:
    """The questions of a file, or of the test split of a dataset."""
    from kgwalk.data.dataset import load_dataset
    from kgwalk.data.questions import read_questions

    return read_questions(name, with_graph=False) if Path(name).is_file() else load_dataset(name).questions("test")


def _plain(report: JoinReport) -> dict[str, Any]:
    values = {name: dict(value) if isinstance(value, Counter) else value for name, value in vars(report).items()}
    return {**values, "examples": [example(text, answers) for text, answers in report.examples[:SHOWN]]}


def example(question: str, answers: Sequence[str]) -> dict[str, Any]:
    """A question with its first answers, and how many more there are."""
    return {"question": question, "answers": answers[:FIRST], "left_out": len(answers[FIRST:])}


def _print(folder: Path, report: JoinReport, seconds: float) -> None:
    from rich.table import Table

    table = Table("split", "worlds", "questions", "about unseen concepts")
    for split, count in report.worlds.items():
        table.add_row(split, f"{count:,}", f"{report.questions[split]:,}", f"{report.unseen[split]:,}")
    print_table(table)
    for what, counts in (("by pattern", report.by_type), ("by hops", report.by_hops)):
        out.print(f"{what}: {', '.join(f'{name}: {count:,}' for name, count in counts.most_common())}")
    for text, answers in report.examples[:SHOWN]:
        out.print(f"  {text}  ->  {first_of(answers[:FIRST], len(answers[FIRST:]))}")
    out.print(f"{folder}: {counted(report.facts, 'fact')}, {counted(report.relations, 'relation')}, {seconds:,} s")
    thrown = ", ".join(f"{why}: {count:,}" for why, count in report.thrown.most_common(6))
    err.print(f"draws thrown away: {thrown}")
