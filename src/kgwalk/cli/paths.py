"""`kgwalk paths ...`: gold paths for questions that have answers only."""

from __future__ import annotations

import os
import random
import time
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgwalk.cli.options import ENGINES, DatasetOption, ForceOption, JsonOption, QuietOption
from kgwalk.cli.output import counted, err, out, print_json, print_table, progress_bar
from kgwalk.types import KgwalkError

if TYPE_CHECKING:
    from kgwalk.training.paths import SplitPaths
    from kgwalk.types import Question

app = typer.Typer(help="Find the paths behind a question's answers.", no_args_is_help=True)


class Verify(StrEnum):
    rules = "rules"
    engine = "engine"
    both = "both"
    none = "none"


@app.callback()
def _group() -> None:
    """Find the paths behind a question's answers."""


@app.command(
    epilog="Examples: kgwalk paths find --data world --split dev · kgwalk paths find --data my-data --split train "
    "-o with-paths/train.jsonl.gz · kgwalk paths find --data my-data --split dev --verify both --engine api "
    "--model gpt-4o-mini -o dev.jsonl"
)
def find(
    data: DatasetOption,
    split: Annotated[str, typer.Option(help="Whose questions.")] = "train",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The split to write: NAME.jsonl or NAME.jsonl.gz.")
    ] = None,
    hops: Annotated[int, typer.Option(min=1, max=6, help="The longest chain of relations.")] = 3,
    verify: Annotated[Verify, typer.Option(help="By rules, by a model (engine), by both in turn, or not.")] = (
        Verify.rules
    ),
    paths: Annotated[int, typer.Option(min=1, help="Write so many paths of each chain, to different answers.")] = 3,
    limit: Annotated[int | None, typer.Option(min=1, help="A seeded sample of so many questions.")] = None,
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 0,
    engine: Annotated[str, typer.Option(help=f"How the model runs: {ENGINES}")] = "local",
    model: Annotated[str | None, typer.Option(help="The model that verifies: a name or path.")] = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Search the paths from topics to answers, and keep those that the question can mean.

    The gold paths that a dataset has are not looked at. What is written is the split with the paths found in their
    place; a question without a path stays as it is, without gold paths.
    """
    from kgwalk.config.lock import sole_writer_of
    from kgwalk.data.dataset import load_dataset
    from kgwalk.llm.engine import open_engine
    from kgwalk.training.paths import SplitPaths

    with nullcontext() if output is None else sole_writer_of(output):
        _check(output, force)
        dataset = load_dataset(data)
        questions = dataset.questions(split)
        if limit is not None and limit < len(questions):
            questions = random.Random(seed).sample(questions, limit)
        started = time.perf_counter()
        with progress_bar(quiet=quiet or json) as progress:
            dataset.graph(progress)
            finding = SplitPaths.of(questions, dataset.graph_for, hops=hops, paths=paths, progress=progress)
            finding.search()
            if verify in (Verify.rules, Verify.both):
                finding.apply_rules()
                finding.agree()
            if verify in (Verify.engine, Verify.both):
                _ask(finding, open_engine(engine, model))
        if output is not None:
            _write(output, finding.questions(questions))
    report = finding.as_json() | {"path": None if output is None else str(output)}
    report["seconds"] = round(time.perf_counter() - started, 3)
    print_json(report) if json else _show(report)


def _check(output: Path | None, force: bool) -> None:
    from kgwalk.data.folder import is_split_name, stem_and_suffix

    if output is None:
        return
    name, suffix = stem_and_suffix(output)
    if suffix != ".jsonl" or output.suffix not in (".jsonl", ".gz") or not is_split_name(name):
        raise KgwalkError(f"{output} names no split: call it train.jsonl, dev.jsonl.gz or the like")
    if output.exists() and not force:
        raise KgwalkError(f"{output} is there already; --force replaces it")


def _ask(finding: SplitPaths, engine: Any) -> None:
    import asyncio

    try:
        finding.ask(engine)
    finally:
        asyncio.run(engine.close())


def _write(output: Path, questions: list[Question]) -> None:
    import gzip

    from kgwalk.config.run_folder import row_of
    from kgwalk.data.folder import line_of

    output.parent.mkdir(parents=True, exist_ok=True)
    part = output.with_name(f".{output.name}.partial")
    text = b"".join(line_of(row_of(question)) for question in questions)
    try:
        part.write_bytes(gzip.compress(text, mtime=0) if output.suffix == ".gz" else text)
        os.replace(part, output)
    finally:
        part.unlink(missing_ok=True)


def _show(report: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(title="chains after each stage", title_justify="left")
    for column in ("stage", "removed", "left", "a question"):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for stage in report["stages"]:
        each = stage["left"] / max(1, report["with_paths"])
        table.add_row(stage["stage"], f"{stage['removed']:,}", f"{stage['left']:,}", f"{each:.2f}")
    print_table(table)
    for why, count in report["without"].items():
        out.print(f"without paths: {counted(count, 'question')}, {why}")
    for why, count in report["no_verdict"].items():
        err.print(f"note: no verdict for {counted(count, 'reply', 'replies')}, whose paths stay: {why}")
    if report["cut_short"]:
        err.print(f"note: of {counted(report['cut_short'], 'question')} not all paths were searched, hubs at both ends")
    place = f" in {report['path']}" if report["path"] else ""
    out.print(f"{report['with_paths']:,} of {counted(report['questions'], 'question')} have paths{place}")
