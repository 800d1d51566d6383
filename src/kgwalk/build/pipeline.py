"""A recipe carried out: demonstrations, SFT, GRPO, evaluation, one after the other, in one run folder.

    run/run.json        what was run, resolved
    run/recipe.toml     the recipe as it was used
    run/demos.jsonl     the demonstrations, and demos.json: what fell out and why
    run/sft, run/grpo   checkpoints, metrics.jsonl, TensorBoard events, episodes.jsonl
    run/adapter         the result: what `--adapter` takes
    run/eval            the evaluation of it

Stages that are done are not done again, so a run that is resumed goes on where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgwalk.build.card import write_card
from kgwalk.build.checks import check_device
from kgwalk.build.run import Run
from kgwalk.build.stages import STAGES, check
from kgwalk.config.notebook import outside_a_loop
from kgwalk.config.recipe import Recipe, load_recipe, unknown
from kgwalk.config.section import read_section, setting
from kgwalk.data.dataset import Data
from kgwalk.data.mixture import load_data
from kgwalk.training.loop import Progress, silent
from kgwalk.training.processes import Processes

REPORT = "train.json"
DEV = "dev"


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """[train]: which stages a run has; of how many questions, if not of all."""

    stages: tuple[str, ...] = ("demos", "sft", "grpo")
    limit: int | None = setting(None, least=1)
    # where [world] hides facts: the share of the training questions that lose any; none: `world.share`
    incomplete: float | None = setting(None, least=0, most=1)

    def __post_init__(self) -> None:
        for stage in self.stages:
            if stage not in STAGES:
                raise unknown("stage", str(stage), STAGES)


def train(
    recipe: str | Recipe,
    data: str | Path | Data | Sequence[str | Path | Data],
    *,
    out: str | Path,
    profile: str | None = None,
    values: Iterable[str] = (),
    split: str = "train",
    dev: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    model: str | None = None,
    start: str | Path | None = None,
    demos: str | Path | None = None,
    judge: str | None = None,
    device: str = "auto",
    resume: bool = False,
    force: bool = False,
    report_to: str = "tensorboard",
    progress: Progress = silent,
    note: Callable[[str], None] = lambda words: None,
) -> dict[str, Any]:
    """Train a recipe on a dataset; the result is what `kgwalk train --json` prints.

    Several datasets are one course, each question over its own graph; of "name:0.5" half of the questions are taken, of
    "name:2000" so many, of every split.

    `start` is an adapter to go on from, `demos` a file of demonstrations to use instead of making them, `judge` an
    ENGINE[:MODEL] for rewards that ask one. `resume` goes on with the run in `out`. Started as several processes, all
    but the first return an empty report.

    `dev` is the split to validate on; without it `dev` if there is one. `note` is told, before the first stage, what
    has to be left out because a split is missing; the report has the same under `notes`.
    """
    check_device(device)
    chosen = load_recipe(recipe) if isinstance(recipe, str) else recipe
    chosen = chosen if profile is None else chosen.with_profile(profile)
    chosen = chosen.with_values([*([] if model is None else [f"model.name={json.dumps(model)}"]), *values])
    settings = read_section(TrainSettings, chosen, "train")
    dataset = load_data(data, seed)
    if dev is not None and dev not in dataset.splits():
        dataset.questions(dev)  # says which there are
    processes = Processes(device)
    run = Run(
        recipe=chosen,
        dataset=dataset,
        path=Path(out),
        split=split,
        dev=DEV if dev is None else dev,
        limit=settings.limit if limit is None else limit,
        incomplete=settings.incomplete,
        seed=seed,
        start=None if start is None else Path(start),
        demos=None if demos is None else Path(demos),
        judge=judge,
        device=device,
        report_to=report_to,
        progress=progress if processes.main else silent,
        processes=processes,
    )
    return outside_a_loop(lambda: _carry_out(run, settings.stages, note, resume=resume, force=force))


def _carry_out(
    run: Run, stages: tuple[str, ...], note: Callable[[str], None], *, resume: bool, force: bool
) -> dict[str, Any]:
    check(run, stages)
    notes = _left_out(run, stages)
    if run.evaluated is None:
        stages = tuple(stage for stage in stages if stage != "eval")
    with run.begun(resume=resume, force=force) as folder:
        main = run.processes.main
        if main:
            folder.file("recipe.toml").write_text(run.recipe.toml(), "utf-8")
            for words in notes:
                note(words)
        report: dict[str, Any] = {"folder": str(folder.path), "stages": {}, "notes": notes}
        for stage in stages:
            report["stages"][stage] = STAGES[stage](run)
            if main:
                folder.write(REPORT, report)
        if main:
            write_card(folder, run.recipe, run.dataset.name, report)
        return report if main else {}


def _left_out(run: Run, stages: tuple[str, ...]) -> list[str]:
    """What a run goes without because the dataset lacks a split for it."""
    there = f"{run.dataset.name} has only {', '.join(run.dataset.splits())}"
    notes = []
    if run.dev not in run.dataset.splits() and {"sft", "grpo"} & set(stages):
        notes.append(f"no validation: there is no split {run.dev}; {there} (--dev names another)")
    if run.evaluated is None and "eval" in stages:
        notes.append(f"no evaluation: there is no split test or {run.dev}; {there}")
    return notes
