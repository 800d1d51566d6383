"""The rollouts of a step of GRPO: which questions are walked, what the walks earn, what is watched and written.

    questions -> group of rollouts each -> rewards -> numbers to watch, episodes to read

It is the same whoever learns from the rollouts: the native trainer (`grpo`) or an outside one (`backends`). A rollout
that failed through no fault of the model (a broken engine or tool) earns nothing, is counted, and is left out of the
update and of its group's mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgwalk.config.run_folder import RowFile, episode_row
from kgwalk.evaluation.report import STEP_EPISODES
from kgwalk.llm.engine import Sampling
from kgwalk.score.rewards import Outcome, Rewarded, RewardFunction
from kgwalk.training.advantages import Credit, Rewards, group_credit
from kgwalk.training.curriculum import Curriculum, MeasuredEpisode, TrainingSet
from kgwalk.training.loop import Metrics, TimeBudget, keep_rows
from kgwalk.training.model import PartTimer
from kgwalk.training.rollouts import Walker
from kgwalk.training.settings import GrpoSettings
from kgwalk.training.updater import Processes
from kgwalk.types import Episode, KgwalkError, StopReason

WATCHED = ("f1", "hits_at_1", "retrieval_rate", "answered", "invalid_calls", "generated_tokens", "turns")
UNPAID = Rewarded([], 0.0)  # for an episode that is left out: no reward function is asked about it
Judged = Callable[[Sequence[Episode]], list[dict[str, float | None]]]


def no_verdicts(episodes: Sequence[Episode]) -> list[dict[str, float | None]]:
    """What is judged where no reward needs a verdict: nothing."""
    return [{} for _ in episodes]


@dataclass(frozen=True, slots=True)
class Rollout:
    """One rollout: the number of its question in the training set, what came of it, and its rewards."""

    number: int
    outcome: Outcome
    rewarded: Rewarded

    @property
    def episode(self) -> Episode:
        return self.outcome.episode

    @property
    def reward(self) -> float:
        """The number to watch: the reward of the whole plus the mean reward of the turns."""
        turns = self.rewarded.turns
        return self.rewarded.whole + (sum(turns) / len(turns) if turns else 0.0)

    @property
    def rewards(self) -> Rewards | None:
        """What the group's advantages are computed from; None where the rollout is left out."""
        return Rewards(self.rewarded.turns, self.rewarded.whole) if self.episode.trainable else None


@dataclass
class Collector:
    """`judged` gives the verdicts that some rewards need; `folder` is where episodes are recorded."""

    processes: Processes
    clock: PartTimer
    walker: Walker
    training_set: TrainingSet
    reward: RewardFunction
    curriculum: Curriculum
    settings: GrpoSettings
    seed: int
    folder: Path
    judged: Judged = no_verdicts
    time_budget: TimeBudget = field(default_factory=TimeBudget)
    _recorded: bool = field(default=False, init=False)  # whether this process has written episodes

    def collect(self, number: int, places: Sequence[int] | None = None) -> list[list[Rollout]]:
        """This process's share of the step's questions, walked and rewarded, in groups.

        `places` are those of its questions among the step's; None: every so many-th, as the native trainer shares.
        """
        settings = self.settings
        chosen = self.curriculum.questions(number)
        own = self.processes.share(len(chosen)) if places is None else places
        asked = [
            (chosen[place], f"{self.seed}:{number}:{place}:{rollout}")
            for place in own
            for rollout in range(settings.group)
        ]
        sampling = Sampling(temperature=settings.temperature, seed=self.seed)
        with self.clock.host("rollout"):
            measured = self.walker.measured(self.training_set, asked, sampling)
        self._check_backends([one.episode for one in measured])
        with self.clock.host("reward"):
            return self._rewarded(number, [question for question, _ in asked[:: settings.group]], measured)

    def credit(self, groups: Sequence[Sequence[Rollout]]) -> Credit:
        """The advantages of all turns of these groups."""
        return group_credit([[walked.rewards for walked in group] for group in groups], self.settings)

    def _rewarded(
        self, number: int, questions: Sequence[int], measured: Sequence[MeasuredEpisode]
    ) -> list[list[Rollout]]:
        """The rollouts with their rewards, one group for each of `questions`."""
        verdicts = self.judged([one.episode for one in measured])
        progress = max(number / self.settings.steps, self.time_budget.progress)
        outcomes = [
            Outcome(one.episode, one.numbers, one.complete, verdict, number, progress, one.web)
            for one, verdict in zip(measured, verdicts, strict=True)
        ]
        groups = []
        for place, question in enumerate(questions):
            group = outcomes[place * self.settings.group : (place + 1) * self.settings.group]
            paid = iter(self.reward.group([one for one in group if one.episode.trainable]))
            groups.append([Rollout(question, one, next(paid) if one.episode.trainable else UNPAID) for one in group])
        return groups

    def _check_backends(self, episodes: Sequence[Episode]) -> None:
        """Raises if every rollout failed: then something is wrong that the next step will not mend."""
        broken = (StopReason.engine_failed, StopReason.tool_failed)
        own = [episode.failure if episode.stop in broken else None for episode in episodes]
        failures = self.processes.gathered(own)
        if failures and all(failure is not None for failure in failures):
            raise KgwalkError(f"all {len(failures):,} rollouts failed, the first with: {failures[0]}")

    def watch(self, groups: Sequence[Sequence[Rollout]], credit: Credit) -> Metrics:
        """Means over the episodes of all processes, failed ones too, and how many were left out."""
        gathered, walked = self.processes.gathered, [one for group in groups for one in group]
        rows = gathered(
            [
                {
                    "reward": one.reward,
                    **{f"reward_{name}": value for name, value in one.rewarded.parts.items()},
                    "no_verdict": float(bool(one.rewarded.missing)),
                    **{name: one.outcome.metrics[name] for name in WATCHED},
                }
                for one in walked
            ]
        )
        names = dict.fromkeys(name for row in rows for name in row)
        means = {name: _mean([row[name] for row in rows if name in row]) for name in names}
        dropped = sum(gathered([credit.dropped]))
        failed = sum(gathered([sum(not one.episode.trainable for one in walked)]))
        return means | {"episodes": float(len(rows)), "dropped_groups": float(dropped), "left_out": float(failed)}

    def record(self, number: int, groups: list[list[Rollout]], credit: Credit) -> None:
        """Tell the curriculum the rewards and what was answered, and write a few episodes for people to read."""
        own = []
        for group in filter(None, groups):
            good = [one for one in group if one.episode.trainable]
            answered = all(one.outcome.right for one in good)
            own.append((group[0].number, [one.rewarded.whole for one in good], answered))
        self.curriculum.record(number, self.processes.gathered(own))
        if not self.processes.main or not self.settings.episodes:
            return
        if not self._recorded:  # steps after the checkpoint, before a kill, are run again
            keep_rows(self.folder / STEP_EPISODES, lambda row: row["step"] < number)
            self._recorded = True
        with RowFile(self.folder / STEP_EPISODES) as rows:
            for group, turns in list(zip(groups, credit.turns, strict=True))[: self.settings.episodes]:
                one = group[0]
                values = {} if turns[0] is None else {"advantages": turns[0]}  # none if it was left out
                rewarded = {"turns": one.rewarded.turns, "whole": one.rewarded.whole, "parts": one.rewarded.parts}
                rows.add({"step": number, "rewards": rewarded, **values, "episode": episode_row(one.episode)})

    def state(self) -> dict[str, Any]:
        return {"curriculum": self.curriculum.state()}

    def restore(self, state: dict[str, Any]) -> None:
        self.curriculum.restore(state["curriculum"])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))
