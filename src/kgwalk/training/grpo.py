"""Group-relative policy optimisation (GRPO): roll out groups, reward them, credit every turn, update.

    questions -> group of rollouts each -> rewards -> advantages by turn -> clipped objective on the model's own tokens

`Grpo.step` is that line, in order; the rollouts are in `collect`, the mathematics is in `advantages` and `loss`, and
`loop` repeats the step. A rollout that failed through no fault of the model is left out of the update and of its
group's mean.
"""

from __future__ import annotations

import functools
import operator
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from kgwalk.score.rewards import RewardFunction
from kgwalk.training.advantages import Credit, token_advantages
from kgwalk.training.collect import Collector, Judged, Rollout, no_verdicts
from kgwalk.training.curriculum import Curriculum, TrainingSet
from kgwalk.training.logprobs import TokenScores
from kgwalk.training.loop import Metrics, Stage, TimeBudget
from kgwalk.training.loss import LossStats, Totals, policy_loss, token_weights
from kgwalk.training.microbatch import Batch, computed
from kgwalk.training.rollouts import Walker
from kgwalk.training.settings import GrpoSettings
from kgwalk.training.updater import Updater, rate
from kgwalk.types import Flat

PARTS = ("rollout", "reward", "pack", "update", "optimiser", "sync")  # of a step, for its seconds


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

    def __post_init__(self) -> None:
        self.collector = Collector(
            self.updater.processes,
            self.updater.clock,
            self.walker,
            self.training_set,
            self.reward,
            self.curriculum,
            self.settings,
            self.seed,
            self.folder,
            self.judged,
            self.time_budget,
        )
        self.updater.expect(self.settings.microbatch_tokens)
        if self.settings.kl:
            self.updater.model.keep_reference()

    def stage(self) -> Stage:
        collector = self.collector
        return Stage("grpo", self.settings.steps, self.step, collector.state, collector.restore, self.time_budget)

    def step(self, number: int) -> Metrics:
        clock, collector = self.updater.clock, self.collector
        clock.read()  # what validation took
        groups = collector.collect(number)
        credit = collector.credit(groups)
        with clock.host("pack"):
            sequences = _sequences(groups, credit)
        numbers = self._learn(number, sequences)
        collector.record(number, groups, credit)
        watched = collector.watch(groups, credit)
        seconds = clock.read(*PARTS)
        written = watched["generated_tokens"] * watched["episodes"]
        return watched | numbers | seconds | {"tokens_a_second": written / max(1e-9, seconds["rollout_seconds"])}

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
