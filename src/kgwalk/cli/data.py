"""`kgwalk data ...`: public question sets as folders, fetched, converted and looked at."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgwalk.cli.options import ForceOption, JsonOption, QuietOption
from kgwalk.cli.output import counted, err, out, print_json, print_table, progress_bar
from kgwalk.types import KgwalkError

if TYPE_CHECKING:
    from kgwalk.data.convert import ConvertReport
    from kgwalk.data.dataset import Dataset
    from kgwalk.evaluation.findings import DataReport
    from kgwalk.types import Question

app = typer.Typer(help="Fetch, convert and look at question sets.", no_args_is_help=True)

SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave malformed records out, count and list them.")]

KNOWN_HELP = "webqsp, cwq, webquestions, 2wiki, trex, zsre, a hub's owner/name, or a folder laid out like one."
LISTED = 5  # malformed records shown; --json has all


class FormatName(StrEnum):
    rog = "rog"
    webqsp = "webqsp"
    cwq = "cwq"
    webquestions = "webquestions"
    grailqa = "grailqa"
    simplequestions = "simplequestions"
    qald = "qald"
    kilt = "kilt"
    creak = "creak"
    multitq = "multitq"
    metaqa = "metaqa"
    pathquestion = "pathquestion"
    twowiki = "2wiki"
    kgwalk = "kgwalk"


@app.callback()
def _group() -> None:
    """Fetch, convert and look at question sets."""


@app.command(
    epilog="Examples: kgwalk data convert metaqa MetaQA -o metaqa · kgwalk data convert qald qald_10.json -o qald "
    "--language de --split test · kgwalk data convert cwq ComplexWebQuestions -o cwq --graph freebase.nt.gz"
)
def convert(
    format: Annotated[FormatName, typer.Argument(metavar="FORMAT", help="What SRC is: " + ", ".join(FormatName) + ".")],
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A file, or the folder of a dataset.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The dataset folder to make.")],
    split: Annotated[
        str | None, typer.Option(help="A file: what to call its split. A folder: take this split alone.")
    ] = None,
    graph: Annotated[Path | None, typer.Option(help="The graph to put in: a file of facts or a store folder.")] = None,
    names: Annotated[Path | None, typer.Option(help="TSV of id and name: names for the ids in SRC.")] = None,
    language: Annotated[str, typer.Option(help="Of the questions, where SRC has several (qald).")] = "en",
    skip_bad: SkipBad = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Turn the files a question set is published in into a dataset folder.

    The folder appears whole or not at all. A malformed record stops it, with its place and what was expected.
    """
    from kgwalk.data.convert import convert as convert_files

    with progress_bar(quiet=quiet or json) as progress:
        report = convert_files(
            format.value,
            source,
            output,
            split=split,
            graph=graph,
            names=names,
            language=language,
            skip_bad=skip_bad,
            replace_target=force,
            progress=progress,
        )
    _print_report(output, report, json)


@app.command(
    epilog="Examples: kgwalk data get webqsp · kgwalk data get rmanluo/RoG-cwq -o cwq · "
    "HF_ENDPOINT=https://hub.example kgwalk data get owner/name --format kilt"
)
def get(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help=KNOWN_HELP),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The dataset folder to make; else one in the cache, by NAME.")
    ] = None,
    format: Annotated[
        FormatName | None, typer.Option(help="The format of the repository's files; else told by their keys.")
    ] = None,
    skip_bad: SkipBad = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Fetch a question set from the hub and write it as a dataset folder.

    HF_TOKEN, HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE are honoured. What is fetched without -o goes by its name.
    """
    from kgwalk.data.convert import get as get_dataset

    with progress_bar(quiet=quiet or json) as progress:
        folder, report = get_dataset(
            name,
            output,
            format=format.value if format else None,
            skip_bad=skip_bad,
            replace_target=force,
            bars=err.is_terminal and not (quiet or json),
            progress=progress,
        )
    _print_report(folder, report, json)


def _print_report(folder: Path, report: ConvertReport, json: bool) -> None:
    if json:
        print_json({"path": str(folder), **asdict(report)})
        return
    for split, count in report.questions.items():
        without = report.unanswered.get(split, 0)
        note = f" ({without:,} without answers)" if without else ""
        out.print(f"{folder}: {split}: {counted(count, 'question')}{note}")
    if report.facts is not None:
        out.print(f"{folder}: graph: {counted(report.facts, 'fact')}")
    elif report.graph is not None:
        out.print(f"{folder}: graph: {report.graph}")
    if report.own_graphs:
        out.print(f"{folder}: {counted(report.own_graphs, 'question')} with facts of their own")
    if report.facts is None and report.graph is None and not report.own_graphs:
        err.print("note: no graph came with it; put one in with --graph")
    if report.dropped:
        out.print(f"left out: {counted(len(report.dropped), 'malformed record')}")
        for why in report.dropped[:LISTED]:
            err.print(f"note: {why}")
        if len(report.dropped) > LISTED:
            err.print(f"note: and {len(report.dropped) - LISTED:,} more; --json lists all")


@app.command(
    epilog="Examples: kgwalk data show world · kgwalk data show metaqa --split test -n 5 · "
    "kgwalk data show metaqa --id metaqa-1h-dev-8137"
)
def show(
    dataset: Annotated[str, typer.Argument(metavar="DIR", help="A dataset folder, or a name (world, or fetched).")],
    split: Annotated[str | None, typer.Option(help="Look at this split alone.")] = None,
    id: Annotated[str | None, typer.Option("--id", help="Show the question of this id.")] = None,
    n: Annotated[int, typer.Option("-n", min=0, help="How many questions to show.")] = 3,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """How many questions of which kind there are, how large the graph is, and a few questions."""
    from kgwalk.data.dataset import graph_facts, load_dataset, question_facts, summary

    opened = load_dataset(dataset)
    asked = {name: opened.questions(name) for name in ([split] if split else opened.splits())}
    shown = _chosen(opened, asked, id, n)
    with progress_bar(quiet=quiet or json) as progress:
        graph = graph_facts(opened, progress)
    if json:
        examples = [question_facts(question, name) for name, question in shown]
        facts = {"name": opened.name, "path": str(opened.path), "splits": summary(asked), "graph": graph}
        print_json({**facts, "questions": examples})
        return
    if id is None:
        _print_summary(opened, summary(asked), graph)
    for name, question in shown:
        if id is None:
            out.print("")
        _print_question(name, question)


def _chosen(dataset: Dataset, asked: dict[str, list[Question]], id: str | None, n: int) -> list[tuple[str, Question]]:
    if id is None:
        first = next(iter(asked), None)
        return [] if first is None else [(first, question) for question in asked[first][:n]]
    found = [(name, question) for name, questions in asked.items() for question in questions if question.id == id]
    if not found:
        like = ", ".join(questions[0].id for questions in asked.values() if questions)
        raise KgwalkError(f"no question {id!r} in {dataset.name} ({', '.join(asked)}); ids look like {like}")
    return found


def _print_summary(dataset: Dataset, splits: dict[str, Any], graph: dict[str, Any] | None) -> None:
    out.print(dataset.name if dataset.name == str(dataset.path) else f"{dataset.name}  {dataset.path}")
    for name, facts in splits.items():
        out.print(
            f"{name:<12}{counted(facts['questions'], 'question'):>18}, {facts['answers_a_question']:.1f} answers each"
        )
        for what in ("hops", "type", "answer_kind"):
            if parts := facts[what]:
                shown = ", ".join(f"{key}: {count:,}" for key, count in list(parts.items())[:12])
                more = f", {len(parts) - 12} more" if len(parts) > 12 else ""
                out.print(f"  {what + ':':<13}{shown}{more}")
    if graph is None:
        out.print("graph       none")
        return
    sizes = ", ".join(f"{graph[key]:,} {key}" for key in ("triples", "entities", "relations"))
    extra = [f"{counted(graph['questions'], 'question')} with facts of their own"] if graph["questions"] else []
    extra += ["dated"] if graph["timed"] else []
    extra += [f"{counted(graph['skipped'], 'malformed row')} left out"] if graph["skipped"] else []
    out.print(f"graph       {'; '.join([sizes, *extra])}")


def _print_question(split: str, question: Question) -> None:
    out.print(f"{question.id}  ({split})")
    out.print(f"  {question.question}")
    out.print(f"  topics:  {', '.join(question.topic_entities) or 'none given'}")
    named = [
        f"{name} [{', '.join(question.aliases[name])}]" if name in question.aliases else name
        for name in question.answers
    ]
    more = f", {len(named) - 10} more" if len(named) > 10 else ""
    out.print(f"  answers: {', '.join(named[:10]) or 'none given'}{more}")
    for path in (question.gold_paths or [])[:3]:
        out.print(f"  path:    {' '.join(f'({fact.head}, {fact.relation}, {fact.tail})' for fact in path)}")


@app.command(
    epilog="Examples: kgwalk data check world · kgwalk data check metaqa --split test -n 3 · "
    "kgwalk data check my-questions --json"
)
def check(
    dataset: Annotated[str, typer.Argument(metavar="DIR", help="A dataset folder, or a name (world, or fetched).")],
    split: Annotated[
        str | None, typer.Option(help="Check this split alone; the others are read for leaks into it.")
    ] = None,
    n: Annotated[int, typer.Option("-n", min=0, help="How many examples to list of each kind of finding.")] = 10,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Look for what is wrong with a dataset: every line, name, gold path and score, repeats, and leaks between splits.

    Errors make a folder or a question useless, and the exit status 1; notes are what to know when reading results.
    """
    from kgwalk.data.bundled import BUNDLED
    from kgwalk.data.dataset import Dataset, load_dataset
    from kgwalk.evaluation.check import check as check_dataset
    from kgwalk.kg.files import is_store

    folder = Path(dataset).expanduser()
    # `load_dataset` would raise what is a finding here
    given = folder.is_dir() and dataset not in BUNDLED and not is_store(folder)
    opened = Dataset(folder.resolve().name, folder) if given else load_dataset(dataset)
    with progress_bar(quiet=quiet or json) as progress:
        checked = check_dataset(opened, split, progress)
    if json:
        print_json(checked.row(n))
    else:
        _print_checked(checked, n)
    if not checked.ok:
        raise typer.Exit(1)


def _print_checked(checked: DataReport, n: int) -> None:
    from rich.table import Table

    from kgwalk.evaluation.findings import ERROR, KINDS, NOTE

    groups = checked.by_kind()
    if groups:
        table = Table()
        for column in ("", "finding", *checked.questions, "all"):
            table.add_column(column, justify="left" if column in ("", "finding") else "right")
        for kind, found in groups.items():
            counts = [sum(one.split == split for one in found) for split in checked.questions]
            table.add_row(KINDS[kind][0], KINDS[kind][1], *(f"{count:,}" for count in (*counts, len(found))))
        print_table(table)
    for kind, found in groups.items() if n else ():
        out.print(f"{KINDS[kind][0]}: {KINDS[kind][1]}")
        for one in found[:n]:
            out.print(f"  {one.where}: {f'{one.id}: ' if one.id else ''}{one.text}")
        if len(found) > n:
            out.print(f"  and {len(found) - n:,} more (-n)")
    for split, reach in checked.reach.items():
        out.print(f"{split}: hops to the nearest answer: {', '.join(f'{h}: {c:,}' for h, c in reach.items())}")
    errors, notes = counted(checked.count(ERROR), "error"), counted(checked.count(NOTE), "note")
    out.print(f"checked {counted(sum(checked.questions.values()), 'question')}: {errors}, {notes}")
