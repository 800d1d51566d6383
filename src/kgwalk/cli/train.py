"""`kgwalk train`: the stages of a recipe on a dataset, from demonstrations to a tested adapter."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from kgwalk.cli.options import (
    DeviceOption,
    GraphDropOption,
    JsonOption,
    MixtureOption,
    ProfileOption,
    RecipeArgument,
    StartOverOption,
    ValuesOption,
    WebOption,
    environment_values,
)
from kgwalk.cli.output import EVERY, err, out, print_json, telling_what_is_kept
from kgwalk.types import Progress

EXAMPLES = (
    "kgwalk train kgwalk --data world",
    "kgwalk train kg-r1 --data metaqa --profile 135m -o runs/kg-r1",
    "kgwalk train kgwalk --data world --smoke",
    "kgwalk train kgwalk --data metaqa:0.1 --data world --data webqsp:500 -o runs/mixed",
    "kgwalk train graph-rft --data world --graph-drop 0.6 --web articles/",
    "torchrun --nproc_per_node 2 -m kgwalk train kg-r1 --data metaqa --backend trl --processes 2",
    "kgwalk train kgwalk --data metaqa --set grpo.steps=50 --set grpo.lr=1e-5 --resume",
)
RESUMED = "with --resume goes on"  # what a command does that was stopped
LEARNING = ("sft", "grpo")  # stages
# what a line of progress shows of a step, as far as the step has it
SHOWN = ("loss", "reward", "f1", "kl", "entropy", "tokens_a_second", "eval_f1")


def train(
    recipe: RecipeArgument,
    data: MixtureOption,
    folder: Annotated[
        Path | None,
        typer.Option("--output", "-o", "--output-dir", help="The run's folder (default: runs/RECIPE-DATA)."),
    ] = None,
    profile: ProfileOption = None,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="See that every stage runs and earns, in seconds (profile smoke).")
    ] = False,
    stages: Annotated[str | None, typer.Option(help="Only these, of rank,demos,sft,grpo,eval.")] = None,
    model: Annotated[str | None, typer.Option(help="Another model than the recipe's.")] = None,
    start: Annotated[
        str | None, typer.Option(metavar="ADAPTER|shipped|none", help="An adapter to go on from (default: none).")
    ] = None,
    demos: Annotated[Path | None, typer.Option(help="Demonstrations that are there already (kgwalk demos).")] = None,
    judge: Annotated[
        str | None, typer.Option(metavar="ENGINE[:MODEL]", help="For recipes whose rewards ask a judge.")
    ] = None,
    graph_drop: GraphDropOption = None,
    web: WebOption = None,
    split: Annotated[str, typer.Option(help="Questions to learn from.")] = "train",
    dev: Annotated[str | None, typer.Option(help="Questions to validate on (default: dev, if there are any).")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="A seeded sample of so many questions of each split.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
    device: DeviceOption = "auto",
    backend: Annotated[
        str, typer.Option(metavar="native|trl|verl", help="Who runs GRPO; the other stages are kgwalk's own.")
    ] = "native",
    processes: Annotated[
        int | None, typer.Option(min=1, help="Refuse to run unless the launcher started so many.")
    ] = None,
    report_to: Annotated[str, typer.Option(help="none, tensorboard, wandb or trackio.")] = "tensorboard",
    resume: Annotated[
        bool, typer.Option("--resume", "--resume-from-checkpoint", help="Go on with the run in the folder.")
    ] = False,
    force: StartOverOption = False,
    values: ValuesOption = None,
    json: JsonOption = False,
) -> None:
    """Train a recipe on a dataset, or on several at once: ranker, demonstrations, SFT, GRPO, evaluation.

    Killed at any moment, the same command with --resume goes on. Ctrl-C stops after the step under way, saved.
    """
    from kgwalk.training.pipeline import train as run
    from kgwalk.walk.policy import NONE, asked_for

    if smoke and profile:
        raise typer.BadParameter("--smoke is a profile of its own; leave --profile out")
    of = "+".join(Path(name).name for name in data)
    folder = folder or Path("runs") / f"{Path(recipe).stem}-{of}{'-smoke' if smoke else ''}"
    named = [] if stages is None else [f"train.stages={[stage.strip() for stage in stages.split(',')]}"]
    with telling_what_is_kept(folder, RESUMED), stage_lines(quiet=json) as progress:
        report = run(
            recipe,
            data,
            out=folder,
            profile="smoke" if smoke else profile,
            values=[*named, *environment_values(graph_drop, web), *(values or [])],
            split=split,
            dev=dev,
            limit=limit,
            seed=seed,
            model=model,
            start=None if start in (None, NONE) else asked_for(start),
            demos=demos,
            judge=judge,
            device=device,
            backend=backend,
            processes=processes,
            resume=resume,
            force=force,
            report_to=report_to,
            progress=progress,
            note=lambda words: None if json else err.print(f"note: {words}"),
        )
    if not report:  # one of several processes, and not the first
        return
    if json:
        print_json(report)
    else:
        _show(report)


@contextmanager
def stage_lines(*, quiet: bool) -> Iterator[Progress]:
    """A bar for each stage with its latest numbers and the time left.

    Where stderr is not a terminal: a line for each step of learning; for other stages a line at their beginning, at
    their end, and every EVERY seconds.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    bar = Bars(
        TextColumn("{task.fields[stage]:<5}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=err,
        disable=quiet or not err.is_terminal,
    )
    tasks: dict[str, Any] = {}
    said: dict[str, float] = {}

    def is_due(stage: str, step: int, steps: int | None, words: str) -> bool:
        if stage in LEARNING:
            return bool(words)
        return stage not in said or step == steps or time.monotonic() > said[stage] + EVERY

    def update(stage: str, step: int, steps: int | None, numbers: Mapping[str, float] = {}, /) -> None:
        words = "  ".join(f"{name} {_number(numbers[name])}" for name in SHOWN if name in numbers)
        if stage not in tasks:
            tasks[stage] = bar.add_task("", total=steps, stage=stage)
        bar.update(tasks[stage], completed=step, total=steps, description=words)
        if bar.disable and not quiet and is_due(stage, step, steps, words):
            said[stage] = time.monotonic()
            err.print(f"{stage} {step}/{steps}  {words}".rstrip())

    with bar:
        yield update


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}"


def _show(report: dict[str, Any]) -> None:
    from kgwalk.training.pipeline import dev_recall

    for name, made in report["stages"].items():
        if "kept" in made:
            out.print(f"demos: {made['kept']:,} kept of {made['tried']:,}")
            for reason, entry in list(made["fallen"].items())[:5]:
                out.print(f"  fell out: {entry['count']:,} {reason}")
        elif "expansions" in made:
            out.print(f"rank: {made['expansions']:,} expansions of {made['questions']:,} questions{dev_recall(made)}")
        elif "metrics" in made:
            shown = ", ".join(f"{key} {made['metrics'][key]:.3f}" for key in ("f1", "hits_at_1", "hit_any"))
            out.print(f"eval: {made['n']:,} questions, {shown}")
        elif "steps" in made:
            best = made.get("best")
            words = f", best F1 in validation {best['eval_f1']:.3f} at step {best['step']}" if best else ""
            out.print(f"{name}: {made['steps']:,} steps{words}")
            if "note" in made:
                out.print(f"  {made['note']}")
    out.print(f"adapter: {report['folder']}/adapter")
