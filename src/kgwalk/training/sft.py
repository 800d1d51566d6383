"""Supervised fine-tuning (SFT): imitate demonstrations, learning only from the model's own turns.

The last loss of each demonstration is kept (`losses.json`): the curriculum `hard` chooses questions by it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kgwalk.training.logprobs import TokenScores
from kgwalk.training.loop import Metrics, Stage, TimeBudget
from kgwalk.training.loss import LossStats, Totals, imitation_loss
from kgwalk.training.microbatch import Batch, computed
from kgwalk.training.settings import SftSettings
from kgwalk.training.updater import Updater, rate
from kgwalk.types import Flat, KgwalkError


@dataclass
class Sft:
    """The SFT stage. `flats` are the demonstrations as token ids; `ids` are their names in `losses`.

    `ahead` is told which demonstrations the next step will need while the device is busy with this one, so that they
    can be prepared; what is learnt does not depend on it.
    """

    updater: Updater
    flats: Sequence[Flat]
    ids: Sequence[str]
    settings: SftSettings
    seed: int
    losses: dict[str, float] = field(default_factory=dict)  # each demonstration's last
    time_budget: TimeBudget = field(default_factory=TimeBudget)
    ahead: Callable[[Sequence[int]], None] = lambda chosen: None
    _order: tuple[int, Sequence[int]] = field(default=(-1, ()), init=False)  # of an epoch's demonstrations

    def __post_init__(self) -> None:
        if not self.flats:
            raise KgwalkError("there are no demonstrations to learn from")
        self.updater.expect(self.settings.microbatch_tokens)

    def stage(self) -> Stage:
        return Stage("sft", self.steps, self.step, lambda: {"losses": self.losses}, self._restore, self.time_budget)

    @property
    def steps_an_epoch(self) -> int:
        return math.ceil(len(self.flats) / self.settings.batch)

    @property
    def steps(self) -> int:
        return self.settings.epochs * self.steps_an_epoch

    def chosen(self, step: int) -> list[int]:
        """The demonstrations of a step: each comes once an epoch, in an order drawn for the epoch."""
        epoch, place = divmod(step - 1, self.steps_an_epoch)
        if self._order[0] != epoch:
            order = list(range(len(self.flats)))
            random.Random(f"{self.seed}/sft/{epoch}").shuffle(order)
            self._order = epoch, order
        return list(self._order[1][place * self.settings.batch : (place + 1) * self.settings.batch])

    def step(self, number: int) -> Metrics:
        settings, updater = self.settings, self.updater
        chosen = self.chosen(number)
        self.ahead(chosen)
        found = [self.flats[index] for index in chosen]
        totals = Totals.of(flat.mask for flat in found)
        share = updater.processes.share(len(chosen))
        own, flats = [chosen[at] for at in share], [found[at] for at in share]
        packed = updater.pack(flats, None, settings.microbatch_tokens)
        each: list[torch.Tensor] = []  # losses of demonstrations, read from the device once at the end

        def loss_of(batch: Batch, scores: TokenScores) -> tuple[torch.Tensor, LossStats | None]:
            loss, each_B = imitation_loss(scores.logprobs_BT, batch.mask_BT, totals)
            each.append(each_B)
            return loss, None

        def meanwhile() -> None:  # not before: a thread that encodes takes Python's lock from the one that feeds a GPU
            if number < self.steps:
                self.ahead(self.chosen(number + 1))

        time = self.time_budget.progress
        now = rate(number - 1, self.steps, schedule=settings.schedule, warmup=settings.warmup, time=time)
        numbers, _ = updater.update([batch for _, batch in packed], loss_of, rate=now, meanwhile=meanwhile)
        names = [self.ids[own[at]] for members, _ in packed for at in members]
        losses = torch.cat(each).tolist() if each else []
        self.losses.update(updater.processes.gathered(list(zip(names, losses, strict=True))))
        return numbers | {
            "epoch": number / self.steps_an_epoch,
            "tokens": float(totals.tokens),
            "computed": computed([batch for _, batch in packed], flats),
            **updater.clock.read("pack", "update", "optimiser"),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.losses = dict(state["losses"])
