"""`kgwalk bench train`: how many seconds a step of GRPO takes, and each of its parts.

The real trainer runs in a temporary folder. Its first step, in which passes are recorded and compiled, is shown apart.
A random number is added to every reward, so that every group differs and no step has less to do than another; the
learning rate is nearly 0, so that the model walks alike in every step.
"""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kgwalk.bench.machine import Machine, with_goals
from kgwalk.bench.rows import Figure
from kgwalk.config.recipe import Recipe, read_section
from kgwalk.data.dataset import Dataset
from kgwalk.score.rewards import Outcome, Rewarded, RewardFunction
from kgwalk.training.curriculum import MeasuredEpisode
from kgwalk.training.pipeline import check, grpo
from kgwalk.training.run import TrainingRun
from kgwalk.training.settings import GrpoSettings
from kgwalk.training.updater import Processes
from kgwalk.types import KgwalkError, Progress, silent

EPISODES = {"cuda": 1024, "cpu": 16}  # of a step
SECONDS = "_seconds"  # how the names of a step's parts end
NO_SPLIT = "-"  # no split to validate on


@dataclass(frozen=True)
class NoisyReward(RewardFunction):
    """Adds a random number to every episode's reward: a trained model often walks a question eight times alike, and a
    group without a difference is skipped.
    """

    draw: random.Random = field(default_factory=lambda: random.Random(0))

    def group(self, outcomes: Sequence[Outcome]) -> list[Rewarded]:
        return [replace(one, whole=one.whole + self.draw.random()) for one in super().group(outcomes)]


@dataclass(frozen=True)
class TrainBench:
    """`start` is an adapter to go on from: an untrained model walks differently from a trained one. Without `workers`
    the recipe says how many. `report` gets the seconds of each step when it is done.
    """

    machine: Machine
    recipe: Recipe
    dataset: Dataset
    episodes: int
    steps: int = 3
    start: Path | None = None
    progress: Progress = silent
    workers: int | None = None
    report: Callable[[Figure], None] = lambda row: None

    def run(self, folder: Path) -> list[Figure]:
        """`folder` is the caller's to remove."""
        seen: list[dict[str, float]] = []

        def progress(stage: str, step: int, steps: int | None, numbers: Mapping[str, float] = {}, /) -> None:
            seen.append(dict(numbers))
            for row in seconds_of(f"{self.recipe.name} on {self.dataset.name}: step {step}", dict(numbers)):
                self.report(row)
            self.progress(stage, step, steps)

        run = self._run(folder / "run", progress)
        tokens: list[int] = []
        self.progress("grpo", 0, self.steps)
        self.machine.free()
        check(run, ["grpo"])
        with run.begun(resume=False, force=False):
            _count(run.walker, tokens)
            rewards = NoisyReward(run.reward.turn_parts, run.reward.whole_parts)
            run.__dict__["reward"] = rewards  # in place of the recipe's, which is a cached property
            grpo(run)
            config = run.model.module.config
            episodes = round(seen[-1]["episodes"])
            label = f"{self.recipe.name} on {self.dataset.name}, {episodes:,} episodes"
            return with_goals([*step_rows(label, seen, tokens), *self.machine.most_rows(label)], self.machine, config)

    def _run(self, path: Path, progress: Progress) -> TrainingRun:
        return TrainingRun(
            recipe=self.recipe.with_values(self._values()),
            dataset=self.dataset,
            path=path,
            split="train",
            dev=NO_SPLIT,
            limit=None,
            incomplete=None,
            seed=0,
            start=self.start,
            demos=None,
            judge=None,
            device=self.machine.device,
            report_to="none",
            progress=progress,
            processes=Processes(self.machine.device),
        )

    def _values(self) -> Iterable[str]:
        group = read_section(GrpoSettings, self.recipe, "grpo").group
        if self.episodes < group:
            raise KgwalkError(
                f"a group of {self.recipe.name} has {group} rollouts; --episodes must be as many at least"
            )
        values: dict[str, Any] = {
            "grpo.steps": self.steps,
            "grpo.questions": self.episodes // group,
            "grpo.save_every": self.steps,
            "grpo.lr": 1e-12,
        }
        if self.workers is not None:
            values["grpo.rollout_workers"] = self.workers
        return [f"{name}={json.dumps(value)}" for name, value in values.items()]


def _count(walker: Any, tokens: list[int]) -> None:
    """Makes the walker note the tokens of each step's episodes, with prompts and observations."""
    walk = walker.measured

    def counted(*given: Any, **named: Any) -> list[MeasuredEpisode]:
        measured: list[MeasuredEpisode] = walk(*given, **named)
        tokens.append(sum(one.episode.total_tokens for one in measured))
        return measured

    walker.measured = counted


def seconds_of(label: str, step: dict[str, float]) -> list[Figure]:
    """A step's seconds, and those of its parts.

    >>> [(row.name, row.value) for row in seconds_of("step 2", {"seconds": 3.0, "update_seconds": 1.0, "f1": 0.5})]
    [('step 2', 3.0), ('step 2, update', 1.0)]
    """
    parts = [name for name in step if name.endswith(SECONDS)]
    return [
        Figure(label, step["seconds"], "s"),
        *(Figure(f"{label}, {_part(name)}", step[name], "s") for name in parts),
    ]


def step_rows(label: str, steps: Sequence[dict[str, float]], tokens: Sequence[int]) -> list[Figure]:
    """The first step, and medians of the others, by part.

    Three steps of 9, 2 and 4 s, of which the update took 6, 1 and 2, each of 1,000 tokens. The others' median is 3 s,
    their update learns from 1000 / 1 and 1000 / 2 tokens a second, 750 in the median.
    """
    if len(steps) < 2:
        raise KgwalkError("a first step and another are needed: give --steps 2 or more")
    parts = [name for name in steps[0] if name.endswith(SECONDS)]
    others = steps[1:]

    def median(name: str) -> float:
        return statistics.median(step[name] for step in others)

    learnt = [count / step["update_seconds"] for count, step in zip(tokens[1:], others, strict=True)]
    return [
        *seconds_of(f"{label}: first step", steps[0]),
        *seconds_of(f"{label}: step", {name: median(name) for name in ("seconds", *parts)}),
        Figure(f"{label}: rollouts, generated", median("tokens_a_second"), "tokens/s"),
        Figure(f"{label}: update, tokens of the episodes", statistics.median(learnt), "tokens/s"),
        Figure(f"{label}: tokens of an episode", statistics.median(tokens[1:]) / median("episodes"), "an episode"),
        Figure(f"{label}: groups without a difference", median("dropped_groups"), "groups"),
    ]


def _part(name: str) -> str:
    return name.removesuffix(SECONDS).replace("_", " ")
