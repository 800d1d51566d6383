"""Group-relative policy optimisation (GRPO): roll out groups, reward them, credit every turn, update.

    questions -> group of rollouts each -> rewards -> advantages by turn -> clipped objective on the model's own tokens

`Grpo.step` is that line, in order; the mathematics is in `advantages` and `loss`, and `loop` repeats the step. A
rollout that failed through no fault of the model (a broken engine or tool) is left out of the update and of its group's
mean.
"""

from __future__ import annotations

import functools
import operator
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from kgwalk.config.run_folder import RowFile, episode_row
from kgwalk.evaluation.report import STEP_EPISODES
from kgwalk.llm.engine import Sampling
from kgwalk.score.rewards import Outcome, Rewarded, RewardFunction
from kgwalk.training.advantages import Credit, Rewards, group_credit, token_advantages
from kgwalk.training.curriculum import Curriculum, MeasuredEpisode, TrainingSet
from kgwalk.training.logprobs import TokenScores
from kgwalk.training.loop import Metrics, Stage, TimeBudget, keep_rows
from kgwalk.training.loss import LossStats, Totals, policy_loss, token_weights
from kgwalk.training.microbatch import Batch, computed
from kgwalk.training.rollouts import Walker
from kgwalk.training.settings import GrpoSettings
from kgwalk.training.updater import Updater, rate
from kgwalk.types import Episode, Flat, KgwalkError, StopReason

WATCHED = ("f1", "hits_at_1", "retrieval_rate", "answered", "invalid_calls", "generated_tokens", "turns")
PARTS = ("rollout", "reward", "pack", "update", "optimiser", "sync")  # of a step, for its seconds
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
class Grpo:
    """The GRPO stage. `judged` gives the verdicts that some rewards need; `folder` is where episodes are recorded."""

    updater: Updater
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

    def __post_init__(self) -> None:
        self.updater.expect(self.settings.microbatch_tokens)
        if self.settings.kl:
            self.updater.model.keep_reference()

    def stage(self) -> Stage:
        return Stage("grpo", self.settings.steps, self.step, self._state, self._restore, self.time_budget)

    def step(self, number: int) -> Metrics:
        clock = self.updater.clock
        clock.read()  # what validation took
        groups = self._roll_out(number)
        everyone = [walked for group in groups for walked in group]
        credit = group_credit([[walked.rewards for walked in group] for group in groups], self.settings)
        with clock.host("pack"):
            sequences = _sequences(groups, credit)
        numbers = self._learn(number, sequences)
        self._record(number, groups, credit)
        written = sum(self.updater.processes.gathered([w.episode.generated_tokens for w in everyone]))
        seconds = clock.read(*PARTS)
        return {
            **self._watch(everyone, credit),
            **numbers,
            **seconds,
            "tokens_a_second": written / max(1e-9, seconds["rollout_seconds"]),
        }

    def _roll_out(self, number: int) -> list[list[Rollout]]:
        """This process's share of the step's questions, walked and rewarded, in groups."""
        updater, settings = self.updater, self.settings
        chosen = self.curriculum.questions(number)
        asked = [
            (chosen[place], f"{self.seed}:{number}:{place}:{rollout}")
            for place in updater.processes.share(len(chosen))
            for rollout in range(settings.group)
        ]
        sampling = Sampling(temperature=settings.temperature, seed=self.seed)
        with updater.clock.host("rollout"):
            measured = self.walker.measured(self.training_set, asked, sampling)
        self._check_backends([one.episode for one in measured])
        with updater.clock.host("reward"):
            return self._rewarded(number, [question for question, _ in asked[:: settings.group]], measured)

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
        failures = self.updater.processes.gathered(own)
        if failures and all(failure is not None for failure in failures):
            raise KgwalkError(f"all {len(failures):,} rollouts failed, the first with: {failures[0]}")

    def _learn(self, number: int, sequences: list[tuple[Flat, list[float]]]) -> Metrics:
        settings, updater = self.settings, self.updater
        order = list(range(len(sequences)))
        random.Random(f"{self.seed}/grpo/{number}").shuffle(order)
        chunks = [[sequences[at] for at in order[part :: settings.minibatches]] for part in range(settings.minibatches)]
        totals = [updater.totals(Totals.of(flat.mask for flat, _ in chunk)) for chunk in chunks]
        prepared = [self._prepare(chunk) for chunk in chunks]
        time = self.time_budget.progress
        now = rate(number - 1, settings.steps, schedule=settings.schedule, warmup=settings.warmup, time=time)
        all_batches = [batch for batches in prepared for batch in batches]
        numbers: Metrics = {"updates": 0.0, "computed": computed(all_batches, [flat for flat, _ in sequences])}
        tallies: list[LossStats] = []
        for _ in range(settings.epochs):
            for batches, total in zip(prepared, totals, strict=True):
                if total.tokens == 0:
                    continue  # nothing to learn from in any process: all its groups were dropped
                made, tally = updater.update(batches, functools.partial(self._loss, total), rate=now, entropy=True)
                numbers |= made
                numbers["updates"] += 1
                tallies += [] if tally is None else [tally]
        return numbers | self._report(tallies)

    def _report(self, tallies: Sequence[LossStats]) -> Metrics:
        """The statistics of the loss, over all updates and all processes."""
        own = [functools.reduce(operator.add, tallies).cpu()] if tallies else []
        everyones = self.updater.processes.gathered(own)
        return functools.reduce(operator.add, everyones).report() if everyones else {}

    def _prepare(self, sequences: list[tuple[Flat, list[float]]]) -> list[Batch]:
        """Microbatches, with the log-probabilities that stay fixed while they are learnt from."""
        settings, updater = self.settings, self.updater
        packed = updater.pack(
            [flat for flat, _ in sequences], [row for _, row in sequences], settings.microbatch_tokens
        )
        batches = [batch for _, batch in packed]
        if settings.epochs * settings.minibatches > 1:  # with a single update they are the model's own, as it is
            batches = [replace(batch, start_logprobs_BT=updater.score(batch).logprobs_BT) for batch in batches]
        if settings.kl:
            with updater.model.reference():
                batches = [replace(batch, ref_logprobs_BT=updater.score(batch).logprobs_BT) for batch in batches]
        return batches

    def _loss(self, totals: Totals, batch: Batch, scores: TokenScores) -> tuple[torch.Tensor, LossStats]:
        """The objective on one microbatch of an update whose batch has these `totals`."""
        settings, start_BT = self.settings, batch.start_logprobs_BT
        constant = float(settings.sequence_tokens)
        return policy_loss(
            scores.logprobs_BT,
            scores.logprobs_BT.detach() if start_BT is None else start_BT,
            batch.advantages_BT,
            batch.mask_BT,
            token_weights(settings.aggregation, batch.mask_BT, totals, constant=constant),
            clip_low=settings.clip_low,
            clip_high=settings.clip_high,
            kl=settings.kl,
            ref_BT=batch.ref_logprobs_BT,
            sampler_BT=batch.old_logprobs_BT,
            importance_cap=settings.importance_cap,
            entropy_BT=scores.entropy_BT,
        )

    def _watch(self, walked: Sequence[Rollout], credit: Credit) -> Metrics:
        """Means over the episodes of all processes, failed ones too, and how many were left out."""
        gathered = self.updater.processes.gathered
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

    def _record(self, number: int, groups: list[list[Rollout]], credit: Credit) -> None:
        """Tell the curriculum the rewards and what was answered, and write a few episodes for people to read."""
        own = []
        for group in filter(None, groups):
            good = [one for one in group if one.episode.trainable]
            answered = all(one.outcome.right for one in good)
            own.append((group[0].number, [one.rewarded.whole for one in good], answered))
        self.curriculum.record(number, self.updater.processes.gathered(own))
        if not self.updater.processes.main or not self.settings.episodes:
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

    def _state(self) -> dict[str, Any]:
        return {"curriculum": self.curriculum.state()}

    def _restore(self, state: dict[str, Any]) -> None:
        self.curriculum.restore(state["curriculum"])


def _sequences(groups: list[list[Rollout]], credit: Credit) -> list[tuple[Flat, list[float]]]:
    """The episodes of groups whose rewards differ, with an advantage for every token."""
    sequences = []
    for group, turns, live in zip(groups, credit.turns, credit.live, strict=True):
        if live:
            for walked, per_turn in zip(group, turns, strict=True):
                flat = walked.episode.flatten()
                if per_turn is not None and any(flat.mask):
                    sequences.append((flat, token_advantages(flat, per_turn)))
    return sequences


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))
