"""`kgwalk eval`: a recipe or a baseline over the questions of a dataset, scored strictly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgwalk.cli.options import (
    AdapterOption,
    DatasetOption,
    EngineOption,
    GraphDropOption,
    JsonOption,
    ProfileOption,
    RecipeArgument,
    StartOverOption,
    ValuesOption,
    WebOption,
    chosen_recipe,
    environment_values,
)
from kgwalk.cli.output import EVERY, counted, err, out, print_json, print_table, telling_what_is_kept
from kgwalk.types import Progress

if TYPE_CHECKING:
    from kgwalk.data.dataset import Dataset

COLUMNS = ("n", "f1", "precision", "recall", "hits_at_1", "retrieval_rate", "generated_tokens", "turns")
GOES_ON = "goes on from there"  # what the command does that was stopped
_TOGETHER = ("union", "majority", "oracle_max")
_LINES = 20  # of one table on the screen; --json has them all

EXAMPLES = (
    "kgwalk eval oracle --data world",
    "kgwalk eval kgwalk --data metaqa --limit 500 --adapter my-adapter",
    "kgwalk eval kg-r1 --data metaqa --runs 3 --engine api --model gpt-4o-mini -o runs/mini",
    "kgwalk eval oracle --data world --graph-drop 0.4 --web world.jsonl.gz",
)


def eval(
    recipe: RecipeArgument,
    data: DatasetOption,
    profile: ProfileOption = None,
    split: Annotated[str, typer.Option(help="Which questions.")] = "test",
    folder: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", "--output-dir", help="The run's folder (default: runs/eval-RECIPE-DATA-SPLIT...)."
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="A model's name or path (default: SmolLM2-135M).")] = None,
    adapter: AdapterOption = None,
    engine: EngineOption = "local",
    runs: Annotated[
        int | None, typer.Option(min=1, help="Walk every question so often; more than one is sampled.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="A seeded sample of so many questions.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0.0, help="Default: 0 for one run, 1 for several.")] = None,
    seed: Annotated[int, typer.Option(help="Of the sample and of the sampling.")] = 0,
    link: Annotated[
        bool, typer.Option("--link", help="Find the topics in the question instead of being given them.")
    ] = False,
    graph_drop: GraphDropOption = None,
    web: WebOption = None,
    judge: Annotated[
        str | None, typer.Option(metavar="ENGINE[:MODEL]", help="Let a language model judge the answers too.")
    ] = None,
    judge_kinds: Annotated[
        str, typer.Option(help="Separated by commas: equivalence, correct, reasoning, quality, plan.")
    ] = "equivalence,correct",
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Walk those again whose engine or tool had failed.")
    ] = False,
    force: StartOverOption = False,
    values: ValuesOption = None,
    json: JsonOption = False,
) -> None:
    """Evaluate a recipe or a baseline on a dataset.

    Every question counts, failures too. Each episode is written as it ends: the same command again goes on where it
    was stopped.
    """
    from kgwalk.data.dataset import load_dataset
    from kgwalk.evaluation.evaluate import evaluate

    folder = folder or Path("runs") / _folder_name(recipe, data, split, graph_drop, web)
    more = [
        f"eval.{name}={value}" for name, value in (("runs", runs), ("temperature", temperature)) if value is not None
    ] + environment_values(graph_drop, web)
    kinds = [kind.strip() for kind in judge_kinds.split(",")]
    if judge is not None:
        from kgwalk.config.recipe import read_section
        from kgwalk.evaluation.evaluate import check_judge, judge_run
        from kgwalk.score.judge.judge import JudgeSettings

        check_judge(judge, kinds)
        asking = read_section(JudgeSettings, chosen_recipe(recipe, profile, values), "judge")
    dataset = load_dataset(data)
    with telling_what_is_kept(folder, GOES_ON), _bars(quiet=json) as (progress, building):
        report = evaluate(
            chosen_recipe(recipe, profile, [*more, *(values or [])]),
            dataset,
            split,
            out=folder,
            engine=engine,
            model=model,
            adapter=_agent(adapter, recipe, dataset, model, engine, building),
            limit=limit,
            seed=seed,
            link=link,
            retry_failed=retry_failed,
            force=force,
            progress=progress,
            building=building,
        )
    if judge is not None:
        with telling_what_is_kept(folder, GOES_ON), _bars(quiet=json) as (progress, _):
            report = judge_run(folder, judge, kinds, settings=asking, progress=progress)
    if json:
        print_json(report)
    else:
        show(report)


def _agent(
    asked: str | None, recipe: str, dataset: Dataset, model: str | None, engine: str, building: Callable[..., None]
) -> str | None:
    """The adapter's folder: the one asked for, else what is found for the dataset's graph."""
    from kgwalk.config.recipe import load_recipe
    from kgwalk.walk.policy import choose_adapter, store_of

    chosen = load_recipe(recipe)
    looks = asked is None and "protocol" in chosen.sections and dataset.has_graph()
    choice = choose_adapter(
        asked, store_of(dataset.graph(building)) if looks else None, chosen, model=model, engine=engine
    )
    for words in choice.words:
        err.print(words)
    return choice.folder


def _folder_name(recipe: str, data: str, split: str, graph_drop: float | None, web: str | None) -> str:
    """
    >>> _folder_name("oracle", "world", "test", 0.4, "corpus.jsonl")
    'eval-oracle-world-test-drop0.4-web'
    """
    hidden = ("" if graph_drop is None else f"-drop{graph_drop:g}") + ("" if web is None else "-web")
    return f"eval-{Path(recipe).stem}-{Path(data).resolve().name}-{split}{hidden}"


@contextmanager
def _bars(*, quiet: bool) -> Iterator[tuple[Progress, Progress]]:
    """Two Progress: one for episodes, with the scores so far, and one for a graph that is being built.

    Where stderr is not a terminal, a line every EVERY seconds.
    """
    from rich import progress as rich

    clocks = (rich.TimeElapsedColumn(), rich.TimeRemainingColumn())
    columns = (
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn("{task.description}", markup=False),
        *clocks,
    )
    bar = rich.Progress(*columns, console=err, disable=quiet or not err.is_terminal)
    tasks: dict[str, Any] = {}
    said = time.monotonic()

    def tell(what: str, words: str, done: int, total: int | None) -> None:
        nonlocal said
        if not bar.disable:
            if what not in tasks:
                tasks[what] = bar.add_task(words, total=total)
            bar.update(tasks[what], completed=done, total=total, description=words)
        elif not quiet and time.monotonic() - said > EVERY:
            said = time.monotonic()
            err.print(f"{done:,} of {total:,}  {words}" if total else f"{done:,}  {words}")

    def progress(what: str, done: int, total: int | None, means: Mapping[str, float] = {}, /) -> None:
        tell("episodes", "  ".join(f"{name} {value:.3f}" for name, value in means.items()), done, total)

    with bar:
        yield progress, lambda what, done, total, figures={}, /: tell(what, what, done, total)


def show(report: dict[str, Any]) -> None:
    """The tables for a person."""
    print_table(_metrics(report))
    if (clusters := report.get("clusters")) is not None:
        out.print(
            f"by cluster: the questions come from {clusters['n']:,} seeds or topics, up to {clusters['largest']:,} "
            "from one; these are resampled whole"
        )
    if "several" in report:
        print_table(_several(report["several"]))
    for title, lines in report["by"].items():
        if len(lines) > 1:  # one line says what the table above says
            print_table(_grouped(title, lines))
    episodes = sum(entry["n"] for entry in report["stops"].values())
    wrong = sum(entry["n"] for entry in report["errors"].values())
    out.print(f"stopped by: {_listed(report['stops'])}")
    if wrong:
        out.print(f"not wholly right: {wrong:,} of {counted(episodes, 'episode')}; why: {_listed(report['errors'])}")
    if "calibration" in report:
        out.print(f"confidence: {told(report['calibration'])}")
    if "judge" in report:
        judge = report["judge"]
        spent = f"{counted(judge['calls'], 'call')}, {judge['cached']:,} from the cache, {judge['failed']:,} failed"
        out.print(f"judge: {judge['model']}, {counted(judge['verdicts'], 'verdict')}: {spent}")
    if (none := report["by"].get("answers", {}).get("0")) is not None:
        out.print(f"{counted(none['n'], 'question')} without a right answer: an empty list scores 1 there, all else 0")
    if report["metrics"]["failed"]:
        out.print("some failed by no fault of the model; --retry-failed walks those again")
    out.print(f"rows: {report['folder']}/predictions.jsonl")


def told(found: Mapping[str, Any]) -> str:
    """How far a confidence can be relied on, in a line.

    >>> told({"n": 4, "right": 0.75, "ece": 0.1, "auroc": 0.833, "above_90": 2, "above_90_right": 1.0})
    'ECE 0.100, AUROC 0.833 over 4 answers of which 75% are right; above 0.9: 2, of which 100% are right'
    """
    above = f", of which {found['above_90_right']:.0%} are right" if found["above_90"] else ""
    order = "" if found["auroc"] is None else f", AUROC {found['auroc']:.3f}"
    answers = f"{counted(found['n'], 'answer')} of which {found['right']:.0%} are right"
    return f"ECE {found['ece']:.3f}{order} over {answers}; above 0.9: {found['above_90']:,}{above}"


def _metrics(report: dict[str, Any]) -> Any:
    from rich.table import Table

    from kgwalk.evaluation.report import grouped

    runs = f", {report['runs']} runs each" if report["runs"] > 1 else ""
    table = Table(title=f"{counted(report['n'], 'question')}{runs}", title_justify="left")
    clusters = report.get("clusters")
    numbers = ("mean", "95% interval", *(["by cluster"] if clusters else []))
    for column in ("", "metric", *numbers):
        table.add_column(column, justify="right" if column in numbers else "left")
    values = report["metrics"]
    if not values.get("web_used"):  # most worlds have no web: three lines of zeros say nothing
        values = {name: value for name, value in values.items() if not name.startswith("web_")}
    for group, names in grouped(values).items():
        for at, name in enumerate(names):
            kinds = [report["intervals"], *([clusters["intervals"]] if clusters else [])]
            low_high = [" - ".join(_number(value) for value in each.get(name, [])) for each in kinds]
            of = f" (of {report['counts'][name]:,})" if name in report["counts"] else ""
            table.add_row("" if at else group, f"{name}{of}", _number(values[name]), *low_high)
        table.add_section()
    return table


def _several(values: dict[str, float]) -> Any:
    """What several runs give together: a line for each way, a column for each score."""
    from rich.table import Table

    ways: dict[str, dict[str, float]] = {}
    for name, value in values.items():
        way = next((way for way in _TOGETHER if name.startswith(f"{way}_")), "")
        ways.setdefault(way, {})[name.removeprefix(f"{way}_")] = value
    rest = ways.pop("", {})
    columns = list(dict.fromkeys(name for scores in ways.values() for name in scores))
    table = Table(title="the runs of a question together", title_justify="left")
    table.add_column("")
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for way, scores in ways.items():
        table.add_row(way, *(_number(scores[name]) if name in scores else "" for name in columns))
    table.caption = ", ".join(f"{name} {_number(value)}" for name, value in rest.items())
    return table


def _listed(entries: dict[str, Any]) -> str:
    return ", ".join(f"{name} {entry['n']:,} ({entry['share']:.1%})" for name, entry in entries.items())


def _grouped(title: str, lines: dict[str, Any]) -> Any:
    from rich.table import Table

    table = Table(title=f"by {title}", title_justify="left")
    table.add_column(title)
    columns = [*COLUMNS, *(["web_used"] if any(line.get("web_used") for line in lines.values()) else [])]
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")  # spaces, so that a narrow screen can break them
    largest = sorted(lines, key=lambda line: -lines[line]["n"])[:_LINES]
    for line in lines:
        if line in largest:
            table.add_row(line, *(_number(lines[line][column]) for column in columns))
    if len(lines) > _LINES:
        table.caption = f"and {len(lines) - _LINES} more with fewer questions; --json has all"
    return table


def _number(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3f}"
