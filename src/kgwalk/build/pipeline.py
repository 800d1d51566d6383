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

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgwalk.build.card import write_card
from kgwalk.build.run import Run
from kgwalk.build.stages import STAGES
from kgwalk.config.recipe import Recipe, load_recipe, unknown
from kgwalk.config.section import read_section, setting
from kgwalk.data.dataset import Dataset, load_dataset
from kgwalk.runs.folder import begin_run
from kgwalk.training.loop import Progress
from kgwalk.types import KgwalkError

REPORT = "train.json"


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """[train]: which stages a run has; of how many questions, if not of all."""

    stages: tuple[str, ...] = ("demos", "sft", "grpo")
    limit: int | None = setting(None, least=1)

    def __post_init__(self) -> None:
        for stage in self.stages:
            if stage not in STAGES:
                raise unknown("stage", str(stage), STAGES)


def train(
    recipe: str | Recipe,
    data: str | Path | Dataset,
    *,
    out: str | Path,
    profile: str | None = None,
    values: Iterable[str] = (),
    split: str = "train",
    dev: str = "dev",
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
    progress: Progress = lambda stage, step, steps, numbers: None,
) -> dict[str, Any]:
    """Train a recipe on a dataset; the result is what `kgwalk train --json` prints.

    `start` is an adapter to go on from, `demos` a file of demonstrations to use instead of making them, `judge` an
    ENGINE[:MODEL] for rewards that ask one. `resume` goes on with the run in `out`.
    """
    chosen = load_recipe(recipe) if isinstance(recipe, str) else recipe
    chosen = chosen if profile is None else chosen.with_profile(profile)
    chosen = chosen.with_values([*([] if model is None else [f'model.name="{model}"']), *values])
    settings = read_section(TrainSettings, chosen, "train")
    limit = settings.limit if limit is None else limit
    dataset = data if isinstance(data, Dataset) else load_dataset(data)
    folder, begun = begin_run(
        Path(out),
        "train",
        {
            "recipe": chosen.name,
            "sections": chosen.resolved(),
            "data": str(Path(dataset.path).resolve()),
            "split": split,
            "dev": dev,
            "limit": limit,
            "seed": seed,
            "start": None if start is None else str(Path(start).resolve()),
            "demos": None if demos is None else str(Path(demos).resolve()),
            "judge": judge,
        },
        force=force,
    )
    if begun and not resume:
        raise KgwalkError(f"{out} holds this run already; --resume goes on with it, --force starts over")
    folder.file("recipe.toml").write_text(chosen.toml(), "utf-8")
    run = Run(
        chosen,
        dataset,
        folder,
        split,
        dev,
        limit,
        seed,
        None if start is None else Path(start),
        None if demos is None else Path(demos),
        judge,
        device,
        report_to,
        progress,
    )
    report: dict[str, Any] = {"folder": str(folder.path), "stages": {}}
    try:
        for stage in settings.stages:
            report["stages"][stage] = STAGES[stage](run)
            folder.write(REPORT, report)
    finally:
        run.close()
    write_card(folder, chosen, dataset.name, report)
    return report
