"""What the stages of a training run share: the recipe's parts, the questions, one model and one engine for it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kgwalk.agent.from_recipe import budget_of, protocol_of
from kgwalk.config.cache import cache_folder
from kgwalk.config.recipe import Recipe
from kgwalk.config.section import read_section
from kgwalk.data.dataset import Dataset
from kgwalk.evaluation.run import chosen
from kgwalk.llm.open import open_engine
from kgwalk.runs.folder import RunFolder, read_json, write_json
from kgwalk.runs.rows import read_rows
from kgwalk.score.judge.cases import case_of
from kgwalk.score.judge.judge import Judge
from kgwalk.training.checkpoint import OPTIMISER, WEIGHTS
from kgwalk.training.loop import Progress
from kgwalk.training.model import PolicyModel
from kgwalk.training.settings import ModelSettings
from kgwalk.training.tracking import METRICS
from kgwalk.training.walks import Course, Walker
from kgwalk.types import Episode, KgwalkError, Question

ADAPTER = "adapter"
DONE = "done.json"
Judged = Callable[[Sequence[Episode]], list[dict[str, float | None]]]


@dataclass
class Run:
    """`start` is an adapter to begin with; `demos` a file of demonstrations instead of those that would be made."""

    recipe: Recipe
    dataset: Dataset
    folder: RunFolder
    split: str
    dev: str
    limit: int | None
    seed: int
    start: Path | None
    demos: Path | None
    judge: str | None
    device: str
    report_to: str
    progress: Progress

    @cached_property
    def protocol(self) -> Any:
        return protocol_of(self.recipe)

    @cached_property
    def budget(self) -> Any:
        return budget_of(self.recipe)

    @cached_property
    def model(self) -> PolicyModel:
        settings = read_section(ModelSettings, self.recipe, "model")
        return PolicyModel(settings, device=self.device, start=self.start)

    @cached_property
    def walker(self) -> Walker:
        return Walker(self.model, self.protocol, self.budget)

    def questions(self, split: str) -> list[Question]:
        return [question for _, question in chosen(self.dataset.questions(split), self.limit, self.seed)]

    def validation(self, count: int) -> Callable[[], dict[str, float]] | None:
        """Greedy walks of some questions of the dev split, if there is one."""
        if self.dev not in self.dataset.splits():
            return None
        sample = [question for _, question in chosen(self.dataset.questions(self.dev), count, self.seed)]
        course = Course(sample, self.dataset.graph_for)

        def validate() -> dict[str, float]:
            self.walker.weights_changed()
            return self.walker.validate(course, count)

        return validate

    @contextmanager
    def judged(self, kinds: set[str]) -> Iterator[Judged]:
        """Verdicts for the rewards that need them."""
        if not kinds:
            yield lambda episodes: [{} for _ in episodes]
            return
        if self.judge is None:
            listed = ", ".join(sorted(kinds))
            raise KgwalkError(
                f"the recipe {self.recipe.name} rewards what a judge says ({listed}): give one with --judge "
                "ENGINE[:MODEL], or set the weights of these rewards to 0"
            )
        kind, _, model = self.judge.partition(":")
        engine = open_engine(kind, model or None)
        try:
            with Judge(engine, model_name=self.judge, cache=cache_folder() / "judge") as judge:
                yield lambda episodes: _verdicts(judge, sorted(kinds), episodes)
        finally:
            asyncio.run(engine.close())

    def card(self) -> dict[str, Any]:
        """`kgwalk.json` of an adapter: how it is to be asked."""
        return {"recipe": self.recipe.name, "protocol": self.recipe.section("protocol"), "data": self.dataset.name}

    def done(self, stage: str) -> dict[str, Any] | None:
        """What a stage reported, if it was finished before; its weights are then those of the model."""
        place = self.folder.file(stage)
        if not (place / DONE).exists():
            return None
        self.take(place)
        return dict(read_json(place / DONE))

    def finish(self, stage: str) -> dict[str, Any]:
        """The stage is over: its best weights, by validation, are the model's and the run's result from now on."""
        place = self.folder.file(stage)
        rows = [row for row in read_rows(place / METRICS) if row["stage"] == stage]
        best = max((row for row in rows if "eval_f1" in row), key=lambda row: row["eval_f1"], default=None)
        report = {"steps": rows[-1]["step"], "last": rows[-1], "best": best}
        self.take(place)
        write_json(place / DONE, report)
        return report

    def take(self, place: Path) -> None:
        """The weights of a finished stage; also copied as the run's adapter."""
        best = place / "best"
        checkpoints = sorted(place.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
        source = best if best.exists() else checkpoints[-1]
        self.model.load(source)
        self.walker.weights_changed()
        beside, target = self.folder.file(f".{ADAPTER}.partial"), self.folder.file(ADAPTER)
        shutil.rmtree(beside, ignore_errors=True)
        shutil.copytree(source, beside, ignore=shutil.ignore_patterns(OPTIMISER, WEIGHTS, "trainer_state.json"))
        shutil.rmtree(target, ignore_errors=True)
        beside.rename(target)

    def close(self) -> None:
        if "walker" in self.__dict__:
            self.walker.close()


def _verdicts(judge: Judge, kinds: Sequence[str], episodes: Sequence[Episode]) -> list[dict[str, float | None]]:
    found: list[dict[str, float | None]] = [{} for _ in episodes]
    for kind in kinds:
        verdicts = judge.judge_all([case_of(kind, episode) for episode in episodes])
        for row, verdict in zip(found, verdicts, strict=True):
            row[kind] = verdict.number if verdict.scored else None
    return found
