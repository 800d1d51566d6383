"""`kgwalk fit`: an agent for a graph, from questions made of it, tested on questions held out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from kgwalk.cli.options import DeviceOption, JsonOption, RecipeOption, StartOverOption, ValuesOption
from kgwalk.cli.output import err, out, print_json, print_table, telling_what_is_kept
from kgwalk.cli.train import RESUMED, stage_lines

EXAMPLES = (
    "kgwalk fit films.kg",
    "kgwalk fit films.kg --minutes 120",
    "kgwalk fit world --smoke",
    "kgwalk fit films.kg --start none --count 3000 -o runs/films --resume",
)


def fit(
    graph: Annotated[str, typer.Argument(help="A store folder, a dataset with a graph, or a bundled graph's name.")],
    folder: Annotated[
        Path | None, typer.Option("--output", "-o", "--output-dir", help="The run's folder (default: runs/fit-GRAPH).")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.1, help="How long it may take, at most (default: 40 on a CPU, 8 on a GPU).")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Learn from at most so many questions, if the minutes allow for them.")
    ] = None,
    recipe: RecipeOption = "kgwalk",
    start: Annotated[
        str | None,
        typer.Option(
            metavar="ADAPTER|shipped|none", help="What to go on from (default: the shipped agent where it fits)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
    device: DeviceOption = "auto",
    smoke: Annotated[
        bool, typer.Option("--smoke", help="See that every part runs, in a minute, with a model that knows nothing.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the fit in the folder.")] = False,
    force: StartOverOption = False,
    values: ValuesOption = None,
    json: JsonOption = False,
) -> None:
    """Train an agent for a graph, from the graph alone: no labelled question is needed.

    Questions are made, a small model learns to walk them, and is tested on others that were held out. How much is
    learnt follows from the minutes and the machine's speed; a slow machine learns less, and ends in time. The agent
    lands beside the graph, where ask, eval and serve find it; if it walks no better than the one that the fit began
    from, that one does, unless it comes with kgwalk and is found anyway. Killed at any moment, the same command with
    --resume goes on; Ctrl-C stops after the step under way, saved.
    """
    started = time.monotonic()  # imports take seconds
    from kgwalk.cli.options import stored_graph
    from kgwalk.training.fit.fit import fit as run

    name, opened = stored_graph(graph)
    folder = folder or Path("runs") / f"fit-{name}{'-smoke' if smoke else ''}"
    with telling_what_is_kept(folder, RESUMED), stage_lines(quiet=json) as progress:
        report = run(
            opened,
            out=folder,
            name=name,
            recipe=recipe,
            minutes=minutes,
            count=count,
            seed=seed,
            start=start,
            device=device,
            smoke=smoke,
            values=values or [],
            resume=resume,
            force=force,
            progress=progress,
            started=started,
        )
    if json:
        print_json(report)
    else:
        _show(report, graph)


def _show(report: dict[str, Any], graph: str) -> None:
    from rich.table import Table

    plan, before, after = report["plan"], report["before"], report["after"]
    counts = ", ".join(f"{plan[split]:,} {split}" for split in ("train", "dev", "test"))
    out.print(f"questions: {report['questions']['made']:,} made; {counts}")
    for note in report["notes"]:
        err.print(f"note: {note}")
    table = Table(title=f"{after['n']:,} questions held out", title_justify="left")
    for column in ("", "n", "F1", "Hits@1", "tokens", "turns"):
        table.add_column(column, justify="right" if column else "left")
    trained = "after" if report["kept"] == "result" else "after (not kept)"
    lines = [("before", before), (trained, after)]
    lines += [(f"  {by} {name}", line) for by, found in after["by"].items() for name, line in found.items()]
    for title, line in lines:
        scores = (f"{line['f1']:.3f}", f"{line['hits_at_1']:.3f}", f"{line['generated_tokens']:.0f}")
        table.add_row(title, f"{line['n']:,}", *scores, f"{line['turns']:.1f}")
    print_table(table)
    gain = report["gain"]
    out.print(f"on the {gain['n']:,} that both walked, F1 {gain['first']:.3f} before and {gain['second']:.3f} after")
    _show_time(report)
    if report["smoke"]:  # its agent would walk in circles
        out.print(f"every part runs; `kgwalk fit {graph}` trains an agent to ask", soft_wrap=True)
        return
    out.print(f"agent: {report['adapter']}", soft_wrap=True)
    named = "" if report["found"] else f" --adapter {report['adapter']}"
    out.print(f"ask it: kgwalk ask 'YOUR QUESTION' --graph {graph}{named}", soft_wrap=True)


def _show_time(report: dict[str, Any]) -> None:
    """What was planned and what was used, in minutes."""

    def minutes(parts: dict[str, float]) -> str:
        listed = ", ".join(f"{name} {seconds / 60:.1f}" for name, seconds in parts.items())
        return f"{sum(parts.values()) / 60:.1f} ({listed})"

    if report["planned"]:
        out.print(f"minutes planned: {minutes(report['planned'])}", soft_wrap=True)
    out.print(f"minutes used: {minutes(report['used'])}; at most {report['minutes']:g}", soft_wrap=True)
