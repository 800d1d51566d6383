"""`kgwalk fit`: an agent for a graph, by examples or training from questions made of it, tested on others held out."""

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
    "kgwalk fit films.kg --minutes 10",
    "kgwalk fit films.kg --train --minutes 120",
    "kgwalk fit world --smoke",
    "kgwalk fit films.kg --start none --count 3000 -o runs/films --resume",
)


def fit(
    graph: Annotated[str, typer.Argument(help="A store folder, a dataset with a graph, or a bundled graph's name.")],
    folder: Annotated[
        Path | None, typer.Option("--output", "-o", "--output-dir", help="The run's folder (default: runs/fit-GRAPH).")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.1, help="How long it may take, at most (default: 3; of training 8 on a GPU, 40 on a CPU)."),
    ] = None,
    train: Annotated[
        bool | None,
        typer.Option(
            "--train/--no-train", help="Learn weights, or make worked examples alone (default: as there is a GPU)."
        ),
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
    """An agent for a graph, from the graph alone: no labelled question is needed.

    Questions are made. Without a GPU they become worked examples, of which a prompt has those nearest to what is asked:
    held-out questions are walked without and with them, and in a few minutes it is said whether they help; if so, they
    are kept beside the graph, where ask, eval and serve find them. With a GPU, or --train, a small model learns to walk
    the questions, and is tested on others that were held out. How much is learnt follows from the minutes and the
    machine's speed; a slow machine learns less, and ends in time. The agent lands beside the graph; if it walks no
    better than the one that the fit began from, that one does, unless it comes with kgwalk and is found anyway. Killed
    at any moment, the same command with --resume goes on; Ctrl-C stops after the step under way, saved.
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
            train=train,
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
    shown = f"with {report['examples']['shown']} examples"
    old, new = ("before", "after") if report["trained"] else ("without examples", shown)
    lines = [(old, before), (new if report["kept"] == "result" else f"{new} (not kept)", after)]
    lines += [(f"  {by} {name}", line) for by, found in after["by"].items() for name, line in found.items()]
    for title, line in lines:
        scores = (f"{line['f1']:.3f}", f"{line['hits_at_1']:.3f}", f"{line['generated_tokens']:.0f}")
        table.add_row(title, f"{line['n']:,}", *scores, f"{line['turns']:.1f}")
    print_table(table)
    gain = report["gain"]
    words = ("before", "after") if report["trained"] else ("without examples", "with")
    out.print(
        f"on the {gain['n']:,} that both walked, F1 {gain['first']:.3f} {words[0]} and {gain['second']:.3f} {words[1]}"
    )
    _show_time(report)
    if report["smoke"]:  # its agent would walk in circles
        out.print(f"every part runs; `kgwalk fit {graph}` trains an agent to ask", soft_wrap=True)
        return
    out.print(f"agent: {report['adapter']}", soft_wrap=True)
    examples, named = report["examples"], "" if report["found"] else f" --adapter {report['adapter']}"
    if examples["file"] is not None:
        out.print(f"examples: {examples['file']}", soft_wrap=True)
        named += "" if examples["learnt"] else f" --set protocol.examples={examples['shown']}"
    out.print(f"ask it: kgwalk ask 'YOUR QUESTION' --graph {graph}{named}", soft_wrap=True)


def _show_time(report: dict[str, Any]) -> None:
    """What was planned and what was used, in minutes."""

    def minutes(parts: dict[str, float]) -> str:
        listed = ", ".join(f"{name} {seconds / 60:.1f}" for name, seconds in parts.items())
        return f"{sum(parts.values()) / 60:.1f} ({listed})"

    if report["planned"]:
        out.print(f"minutes planned: {minutes(report['planned'])}", soft_wrap=True)
    out.print(f"minutes used: {minutes(report['used'])}; at most {report['minutes']:g}", soft_wrap=True)
