"""One update of the weights from microbatches of any number and order: gradients add up, are clipped, and applied.

With several processes each brings its own microbatches, and gradients and totals are summed over all: the update is
that of one process with all of them. Where each holds a shard of the weights they also bring equally many (`pack`), as
every pass is one of all processes. Knows nothing of what the loss means.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch

from kgwalk.training.fused import MULTIPLE
from kgwalk.training.logprobs import TokenScorer, TokenScores
from kgwalk.training.loss import LossStats, Totals
from kgwalk.training.memory import pairs_a_token, tokens_that_fit
from kgwalk.training.microbatch import Batch, Packed, collate, pack
from kgwalk.training.model import PolicyModel
from kgwalk.training.probes import half_is_quicker
from kgwalk.training.shards import Processes, whole
from kgwalk.types import Flat, KgwalkError

ALIGNED = 16  # tokens: attention with a mask whose rows are no multiple of it would copy the mask in every layer
# Tokens: smaller microbatches would take longer than computing twice what larger ones need. A GPU waits for the program
# at each, a processor does not.
FEW = {True: 8192, False: 1024}
CACHED = 2048  # tokens: a processor, whose caches are small, is slower with more at once
Loss = Callable[[Batch, TokenScores], tuple[torch.Tensor, LossStats | None]]


class Diverged(KgwalkError):
    """The loss or the gradient is no number, or has exploded; the weights are as they were before the update."""


class Updater:
    """`most_loss` is where a loss counts as exploded; `clip` bounds the norm of the gradient. `half` lets a processor
    that is quicker in bfloat16 compute its passes in it; it has so many `threads` for an update, 0: as elsewhere.
    """

    def __init__(
        self,
        model: PolicyModel,
        *,
        lr: float,
        weight_decay: float,
        clip: float,
        most_loss: float,
        half: bool = False,
        threads: int = 0,
    ) -> None:
        self.model, self.lr, self.clip, self.most_loss = model, lr, clip, most_loss
        self.clock = model.clock
        self.processes = Processes(model.device)
        self.on_gpu = model.device.startswith("cuda")
        self.half = half and model.device == "cpu" and model.shards is None and half_is_quicker()
        self.threads = 0 if self.on_gpu else threads
        self._blank = _blank(self._pad).to(model.device)
        self.scorer = self._scorer()
        self._pairs = pairs_a_token(self.scorer)
        self.most = self._fit = 1 << 30  # tokens of a microbatch, once it is known what fits
        self.parameters = list(model.parameters().values())
        self.optimiser = torch.optim.AdamW(_groups(model, weight_decay), lr=lr, betas=(0.9, 0.95), fused=self.on_gpu)

    @property
    def _pad(self) -> int:
        return self.model.tokens.hf.pad_token_id or 0

    def _scorer(self) -> TokenScorer:
        """The same for all updaters of a model: it is tried once, and compiled once where that pays; in shards the
        weights are cut around it.
        """
        model, shards = self.model, self.model.shards
        if shards is None:
            if model.scorer is None:
                with self._own_precision():  # whoever comes later may compute in no other
                    model.scorer = TokenScorer(model.trained)
                    if model.settings.compile is True or (model.settings.compile == "auto" and self.on_gpu):
                        model.scorer.quicken()
            return cast(TokenScorer, model.scorer)
        if shards.root is None:
            scorer = TokenScorer(model.trained, tried=False)  # the whole model may be too large for the device
            model.cut(scorer)
            with torch.no_grad(), self._precision():
                scorer(self._blank)  # the first pass fixes what learns, and must not be one with the adapter off
                with shards.whole_root():
                    scorer.try_out()
        return cast(TokenScorer, shards.root)

    def expect(self, tokens: int) -> None:
        """Microbatches are to have so many tokens. If what they compute does not fit into memory they have as many as
        do; if these are few, it is computed twice instead.
        """
        self.most = tokens = tokens if self.on_gpu else min(tokens, CACHED)
        if self.model.settings.checkpoint_activations == "auto" and not self.model.checkpointing:
            with self._precision():
                fit = tokens_that_fit(self.scorer, self.model.device)
            self._settle()
            fit = min(self.processes.gathered([fit]))  # in one process, and so in all: their passes are alike
            self._fit = fit
            if fit < min(tokens, FEW[self.on_gpu]):
                self.model.checkpoint_activations()
            else:
                self.most = min(tokens, fit)

    def _settle(self) -> None:
        if self.model.shards is not None:
            self.model.shards.settle()

    def pack(self, flats: Sequence[Flat], advantages: Sequence[Sequence[float]] | None, tokens: int) -> list[Packed]:
        """Microbatches with room for so many tokens, on the model's device; in shards as many in every process, the
        last ones blank.
        """
        with self.clock.host("pack"):
            packed = pack(
                flats,
                advantages,
                budget=min(tokens, self.most),
                pad_id=self._pad,
                share=self.scorer.takes_trees,
                side_by_side=self.scorer.quick,
                pairs=self._pairs,
                multiple=MULTIPLE if self.scorer.quick else ALIGNED if self.on_gpu else 1,
            )
            found = [Packed(members, batch.to(self.model.device)) for members, batch in packed]
            if self.model.shards is None:
                # A sequence that is longer than what fits is a microbatch of its own.
                longest = max((batch.ids_RL.numel() for _, batch in found), default=0)
                if longest > self._fit and not self.model.checkpointing:
                    self.model.checkpoint_activations()
                return found
            return found + [Packed([], self._blank)] * (max(self.processes.gathered([len(found)])) - len(found))

    @torch.no_grad()
    def score(self, batch: Batch, *, entropy: bool = False) -> TokenScores:
        """Log-probabilities of the marked tokens as the model is now, dropout off."""
        self.model.module.eval()
        with self._precision(), self.clock.device("update"):
            scores: TokenScores = self.scorer(batch.to(self.model.device), entropy=entropy)
        self._settle()
        return scores

    def update(
        self, batches: Sequence[Batch], loss_of: Loss, *, rate: float = 1.0, entropy: bool = False
    ) -> tuple[dict[str, float], LossStats | None]:
        """The sum of the microbatches' losses is minimised by one step; returns `loss` and `grad_norm`, and tallies.

        The host hears nothing from the device before all gradients are there; then the loss and their norm, once, as
        the weights must stay as they are if these are no good.
        """
        with self.clock.device("update"), _threads(self.threads) if self.threads else contextlib.nullcontext():
            total, tally = self._gradients(batches, loss_of, entropy)
            self._sum_gradients()
            # All weights at once on a GPU; a norm that is no number is seen below.
            several = True if self.on_gpu else None
            norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.clip, error_if_nonfinite=False, foreach=several)
            value, size = torch.stack([self.processes.sum(total), whole(norm).to(total)]).tolist()
            if not math.isfinite(value) or not math.isfinite(size) or abs(value) > self.most_loss:
                self.optimiser.zero_grad(set_to_none=True)
                raise Diverged(f"the loss is {value:.4g} and the gradient's norm {size:.4g}")
            with self.clock.device("optimiser"):
                for group in self.optimiser.param_groups:
                    group["lr"] = self.lr * rate
                self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)
        return {"loss": value, "grad_norm": size, "lr": self.lr * rate}, tally

    def _gradients(
        self, batches: Sequence[Batch], loss_of: Loss, entropy: bool
    ) -> tuple[torch.Tensor, LossStats | None]:
        """Added up over the microbatches, with the losses and the tallies, all of which stay on the device."""
        self.model.module.train()
        self.optimiser.zero_grad(set_to_none=True)
        total, tally = torch.zeros((), device=self.model.device), None
        for given in batches:
            batch = given.to(self.model.device)
            with self._precision():
                scores = self.scorer(batch, entropy=entropy)
                loss, noted = (scores.logprobs_BT.sum(), None) if given is self._blank else loss_of(batch, scores)
            loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
            total += loss.detach()
            if noted is not None:
                tally = noted if tally is None else tally + noted
        return total, tally

    def totals(self, totals: Totals) -> Totals:
        """Over the processes."""
        everyones = self.processes.gathered([totals])
        return Totals(sum(one.tokens for one in everyones), sum(one.sequences for one in everyones))

    def _sum_gradients(self) -> None:
        if self.processes.count == 1 or self.model.shards is not None:  # of shards each pass has summed them
            return
        for parameter in self.parameters:
            if parameter.grad is None:  # this process had no microbatch
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.copy_(self.processes.sum(parameter.grad))

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        """Of the passes: the model's own type, or half."""
        if self.half:
            return torch.autocast(self.model.device, dtype=torch.bfloat16)
        return self._own_precision()

    def _own_precision(self) -> contextlib.AbstractContextManager[Any]:
        """Weights that learn, an adapter's or all, are float32; the passes run in the model's own type."""
        joined = self.model.scorer is not None and self.model.scorer.joined
        if self.model.dtype == "float32" or joined:
            return contextlib.nullcontext()
        return torch.autocast(self.model.device.split(":")[0], dtype=getattr(torch, self.model.dtype))


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """So many inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _blank(pad_id: int) -> Batch:
    """A microbatch that nothing is learnt from: its loss is 0, and so is every gradient."""
    return collate([Flat([pad_id, pad_id], [0, 0], [0.0, 0.0], [-1, -1])], None, pad_id)


def _groups(model: PolicyModel, weight_decay: float) -> list[dict[str, Any]]:
    """Biases and the weights of norms do not decay (KG-R1, appendix D.4)."""
    decayed = [value for value in model.parameters().values() if value.ndim >= 2]
    others = [value for value in model.parameters().values() if value.ndim < 2]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


# ----------------------------------------------------------------------------------------------------
# The learning rate of each update: a linear warm-up, then constant or a cosine down to zero, by updates or by time.
#
# Knows no clock: how much of the time is used is told to it.


def rate(update: int, updates: int, *, schedule: str, warmup: float, time: float = 0.0) -> float:
    """What the learning rate is multiplied by in update 0, 1, ... of `updates`; `warmup` is a share of all.

    >>> [rate(update, 10, schedule="constant", warmup=0.2) for update in (0, 1, 2, 9)]
    [0.5, 1.0, 1.0, 1.0]
    >>> [round(rate(update, 4, schedule="cosine", warmup=0), 4) for update in range(4)]  # (1 + cos(pi u / 4)) / 2
    [1.0, 0.8536, 0.5, 0.1464]

    `time` is the share of the time that is used, where that is limited (`Pace.progress`): an update counts as the one
    that would be due by then. Half of the time is over, so update 1 of 4 has the rate of update 2, and the warm-up of
    an update 0 that comes so late is over:

    >>> [rate(update, 4, schedule="cosine", warmup=0, time=0.5) for update in (1, 2)]
    [0.5, 0.5]
    >>> rate(0, 10, schedule="constant", warmup=0.2, time=0.5)
    1.0
    """
    now = max(update, time * updates)
    warm = math.ceil(warmup * updates)
    if now < warm:
        return min(1.0, (now + 1) / warm)
    if schedule == "constant":
        return 1.0
    return (1 + math.cos(math.pi * (now - warm) / max(1, updates - warm))) / 2
