"""`kgwalk demos`: demonstrations for supervised fine-tuning, as JSONL that a person can read."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from kgwalk.cli.options import (
    ENGINES,
    ForceOption,
    GraphDropOption,
    JsonOption,
    MixtureOption,
    ProfileOption,
    RecipeArgument,
    ValuesOption,
    WebOption,
    chosen_recipe,
    environment_values,
)
from kgwalk.cli.output import counted, err, out, print_json, print_table, progress_bar
from kgwalk.types import KgwalkError

if TYPE_CHECKING:
    from kgwalk.config.recipe import Recipe
    from kgwalk.demos.filter import Rejects
    from kgwalk.demos.make import DemoSources

EXAMPLES = (
    "kgwalk demos kgwalk --data world -o demos.jsonl",
    "kgwalk demos kg-reasoner --data metaqa -o demos.jsonl --limit 500 --set demos.wrong=0.5",
    "kgwalk demos graph-rft --data world -o demos.jsonl --graph-drop 0.6 --web articles/",
    "kgwalk demos graph-rft --data my-data -o demos.jsonl --source teacher --engine api --model gpt-4o-mini",
)


def demos(
    recipe: RecipeArgument,
    data: MixtureOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, a demo a line.")],
    profile: ProfileOption = None,
    split: Annotated[str, typer.Option(help="Whose questions.")] = "train",
    limit: Annotated[int | None, typer.Option(min=1, help="So many demos, of a seeded sample of questions.")] = None,
    source: Annotated[
        str | None, typer.Option(help="Separated by commas: program, gold, evidence, search, teacher.")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="The model that will learn: lengths are in its tokens (default: 4 bytes each).")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The teacher: a model's name or path.")] = None,
    engine: Annotated[str, typer.Option(help=f"How the teacher runs: {ENGINES}")] = "local",
    graph_drop: GraphDropOption = None,
    web: WebOption = None,
    seed: Annotated[int, typer.Option(help="Of wording, styles, wrong turns, and of the sample.")] = 0,
    force: ForceOption = False,
    values: ValuesOption = None,
    json: JsonOption = False,
) -> None:
    """Make demonstrations of how a recipe should walk.

    From a question's own program, gold paths or evidence, from a search between topics and answers where there are
    none, or from a teacher model. Only walks that pass the recipe's filters are written; the table says what fell out.
    Where facts are hidden (--graph-drop), they are hidden from the share `world.share` of the questions.
    """
    from kgwalk.config.lock import sole_writer_of

    if output.is_dir():
        raise KgwalkError(f"{output} is a folder; name a file to write, such as {output / 'demos.jsonl'}")
    values = [*environment_values(graph_drop, web), *(values or [])]
    with sole_writer_of(output):
        if output.exists() and not force:
            raise KgwalkError(f"{output} is there already; --force replaces it")
        chosen = chosen_recipe(recipe, profile, values)
        sources = _sources(chosen, data, split, limit, source, tokenizer, seed, engine, model)
        started = time.perf_counter()
        try:
            report = _write(sources, output, quiet=json)
        finally:
            _close(sources)
    report = {"path": str(output), "seconds": round(time.perf_counter() - started, 3), **report}
    if json:
        print_json(report)
    else:
        _show(report, sources)


def _sources(
    chosen: Recipe,
    data: list[str],
    split: str,
    limit: int | None,
    source: str | None,
    tokenizer: str | None,
    seed: int,
    engine: str,
    model: str | None,
) -> DemoSources:
    from dataclasses import replace
    from functools import partial

    from kgwalk.data.mixture import load_data
    from kgwalk.demos.filter import DemoSettings
    from kgwalk.demos.make import DemoSources
    from kgwalk.llm.engine import open_engine
    from kgwalk.training.settings import check_protocol
    from kgwalk.walk.environment import environment_for, environments_of
    from kgwalk.walk.policy import ProtocolPolicy, budget_of, check_web, protocol_of

    settings = DemoSettings.of(chosen)
    if source is not None:
        settings = replace(settings, sources=tuple(name.strip() for name in source.split(","))).checked()
    if limit is not None:
        settings = replace(settings, limit=limit)
    check_protocol(chosen, written=set(settings.sources) != {"teacher"})
    check_web(chosen)
    protocol, budget = protocol_of(chosen), budget_of(chosen)
    dataset = load_data(data, seed)
    teacher = None
    if "teacher" in settings.sources:
        teacher = ProtocolPolicy(protocol, open_engine(engine, model), budget)
    return DemoSources(
        dataset.questions(split),
        dataset.graph_for,
        protocol,
        settings,
        budget,
        _tokens(tokenizer),
        teacher,
        model or "teacher",
        seed,
        environments_of(chosen, dataset.graph_for, partial(environment_for, protocol=protocol)).of,
    )


def _tokens(model: str | None) -> Any:
    if model is None:
        return None
    from kgwalk.llm.models import model_folder, need

    need("transformers")
    from transformers import AutoTokenizer

    from kgwalk.llm.tokenizers import HfTokenizer

    return HfTokenizer(AutoTokenizer.from_pretrained(str(model_folder(model)), trust_remote_code=False))


def _write(sources: DemoSources, output: Path, *, quiet: bool) -> dict[str, Any]:
    """Write the file, which appears whole or not at all, and report on it."""
    from kgwalk.demos.demo import write_line

    by: dict[str, Counter[str]] = {name: Counter() for name in ("source", "style", "hops", "wrong", "web")}
    score = 0.0
    total = sources.settings.limit or len(sources.questions) * sources.settings.per_question
    part = output.with_name(f"{output.name}.part")
    opened = _opened(part, output)
    try:
        with opened as file, progress_bar(quiet=quiet) as progress:
            for demo in sources.demos():
                file.write(write_line(demo))
                score += demo.f1
                for name, counts in by.items():
                    counts[str(getattr(demo, name))] += 1
                done = sources.written.kept + sources.taught.kept
                tried = done if sources.settings.limit else sources.written.tried
                progress("demos", tried, total)
        os.replace(part, output)
    finally:
        part.unlink(missing_ok=True)
    kept = sources.written.kept + sources.taught.kept
    report = sources.written.as_json() | {
        "kept": kept,
        "web": sources.written.web + sources.taught.web,
    }
    if sources.teacher is not None:
        report["teacher"] = sources.taught.as_json()
    report["mean_f1"] = round(score / kept, 4) if kept else None
    report["by"] = {name: dict(sorted(counts.items())) for name, counts in by.items()}
    return report


def _opened(part: Path, output: Path) -> BinaryIO:
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        return part.open("wb")
    except OSError as error:
        raise KgwalkError(f"cannot write {output}: {error.strerror or error}; choose another place") from error


def _show(report: dict[str, Any], sources: DemoSources) -> None:
    from rich.table import Table

    table = Table(title=f"{counted(report['kept'], 'demo')} in {report['path']}", title_justify="left")
    for column in ("by", "", "demos"):
        table.add_column(column, justify="right" if column == "demos" else "left")
    for name, counts in report["by"].items():
        for value, count in counts.items():
            table.add_row(name, value, f"{count:,}")
    print_table(table)
    for title, fallen in (("fell out", sources.written), ("fell out of the teacher's walks", sources.taught)):
        if fallen.counts:
            print_table(_reasons(title, fallen))
    if not report["kept"]:
        err.print("note: no walk passed; the reasons above name questions to look at")
    out.print(f"mean F1 {report['mean_f1']}, {report['seconds']:.1f} s")


def _reasons(title: str, fallen: Rejects) -> Any:
    from rich.table import Table

    table = Table(title=f"{title}: {fallen.tried - fallen.kept:,} of {fallen.tried:,}", title_justify="left")
    for column in ("why", "walks", "such as"):
        table.add_column(column, justify="right" if column == "walks" else "left")
    for reason, entry in fallen.as_json()["fallen"].items():
        table.add_row(reason, f"{entry['count']:,}", ", ".join(entry["examples"][:3]))
    return table


def _close(sources: DemoSources) -> None:
    import asyncio

    if sources.teacher is not None:
        asyncio.run(sources.teacher.engine.close())
