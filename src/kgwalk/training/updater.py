"""One update of the weights: gradients of microbatches add up, are clipped, and are applied.

`Processes` are started by `accelerate launch` or `torchrun`, on one machine; a run of one process works the same way.
With several processes each brings its own microbatches, and gradients and losses are summed over all of them: the
update is the one that a single process with all microbatches would make. Where each process holds a shard of the
weights, all must bring equally many microbatches, since every pass is done by all of them together (`Updater.pack`
fills up with blank ones). The loss is a function that the stage passes in; the learning rate's schedule is `rate`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, cast

import torch
from accelerate import PartialState
from accelerate.utils import gather_object, reduce

from kgwalk.llm.automaton import automaton_of
from kgwalk.training.fused import MULTIPLE
from kgwalk.training.host_pass import HostPass
from kgwalk.training.logprobs import TokenScorer, TokenScores
from kgwalk.training.loss import LossStats, Totals
from kgwalk.training.memory import pairs_a_token, tokens_that_fit
from kgwalk.training.microbatch import Batch, Packed, collate, pack
from kgwalk.training.model import PolicyModel, whole
from kgwalk.training.probes import bf16_is_faster
from kgwalk.types import Flat, KgwalkError

ALIGNED = 16  # tokens: rows are padded to a multiple, or attention would copy its mask in every layer
# Tokens of a microbatch, on a GPU (True) or a CPU. With fewer it is faster to compute activations twice in larger ones:
# a GPU waits for the program at each microbatch.
FEW = {True: 8192, False: 1024}
CACHED = 2048  # tokens: a CPU, whose caches are small, is slower with more at once
HALF_PAIRS = 8  # in bfloat16 a CPU's products are so many times as fast, beside its attention
WAIT = timedelta(hours=12)  # of processes for one another: only the first one makes demonstrations
Loss = Callable[[Batch, TokenScores], tuple[torch.Tensor, LossStats | None]]


class Diverged(KgwalkError):
    """The loss or the gradient is no number, or has exploded; the weights are as they were before the update."""


class Processes:
    """The processes of one run. Each computes its share; what they sum or gather is the same in all of them.

    `device` is auto, cpu or cuda.
    """

    def __init__(self, device: str = "auto") -> None:
        on_cpu = device.startswith("cpu") or not torch.cuda.is_available()
        self._state = PartialState(cpu=on_cpu, timeout=WAIT)

    @property
    def count(self) -> int:
        return int(self._state.num_processes)

    @property
    def number(self) -> int:
        return int(self._state.process_index)

    @property
    def main(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.number == 0

    def share(self, total: int) -> range:
        """This process's part of `total` things: of 5, two processes get 0, 2, 4 and 1, 3."""
        return range(self.number, total, self.count)

    def wait(self) -> None:
        """Wait until all processes have come here."""
        self._state.wait_for_everyone()

    def first(self, value: Any) -> Any:
        """The first process's value: the others may look too late, when it has already gone on."""
        return self.gathered([value])[0]

    def sum(self, value: torch.Tensor) -> torch.Tensor:
        if self.count == 1:
            return value
        summed: torch.Tensor = reduce(value, reduction="sum")
        return summed

    def gathered(self, values: list[Any]) -> list[Any]:
        """The lists of all processes, one after the other, in each of them."""
        if self.count == 1:
            return values
        found: list[Any] = gather_object(values)
        return found


class Updater:
    """Updates a model with AdamW.

    `clip` bounds the norm of the gradient; a loss above `most_loss` has exploded. `half` lets a CPU compute its passes
    in bfloat16 if the bf16 probe finds it faster. `threads` are a CPU's for an update; 0: as many as elsewhere.
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
        half = half and not self.on_gpu and model.shards is None and bf16_is_faster()
        self.threads = 0 if self.on_gpu else threads
        self._blank = _blank(self._pad).to(model.device)
        self.scorer = self._scorer()
        compiled = model.settings.compile is True and not self.on_gpu and model.shards is None
        self.host_pass = HostPass(self.scorer, half=half, compiled=compiled) if half or compiled else None
        self._pairs = pairs_a_token(self.scorer) // (HALF_PAIRS if half else 1)
        self.most = self._fit = 1 << 30  # tokens of a microbatch; `expect` finds out what fits
        self.parameters = list(model.parameters().values())
        self.optimiser = optimiser_of(model, lr=lr, weight_decay=weight_decay)

    @property
    def _pad(self) -> int:
        return self.model.tokens.hf.pad_token_id or 0

    def _scorer(self) -> TokenScorer:
        """The model's scorer, shared by all its updaters: it is probed once, and compiled once where that pays.

        With shards, the weights are cut around it.
        """
        model, shards = self.model, self.model.shards
        if shards is None:
            if model.scorer is None:
                with self._own_precision():  # a later updater of the model shares the scorer
                    model.scorer = TokenScorer(model.trained)
                    if self.on_gpu and model.settings.compile in (True, "auto"):
                        model.scorer.fuse()
            return cast(TokenScorer, model.scorer)
        if shards.root is None:
            scorer = TokenScorer(model.trained, probe=False)  # the whole model may be too large for the device
            model.cut(scorer)
            with torch.no_grad(), self._own_precision():
                scorer(self._blank)  # the first pass fixes what learns, and must not be one with the adapter off
                with shards.whole_root():
                    scorer.probe()
        return cast(TokenScorer, shards.root)

    def expect(self, tokens: int) -> None:
        """Prepare for microbatches of so many tokens.

        If their activations do not fit into memory, microbatches get as many tokens as do fit. If those are too few,
        activations are computed again in the backward pass instead (`checkpoint_activations`).
        """
        self.most = tokens = tokens if self.on_gpu else min(tokens, CACHED)
        if self.model.settings.checkpoint_activations == "auto" and not self.model.checkpointing:
            with self._weights_in_place(), self._precision():
                fit = tokens_that_fit(self.scorer, self.model.device)
            self._settle()
            fit = min(self.processes.gathered([fit]))  # the least of all processes: they must decide alike
            self._fit = fit
            if fit < min(tokens, FEW[self.on_gpu]):
                self.model.checkpoint_activations()
            else:
                self.most = min(tokens, fit)

    def _settle(self) -> None:
        if self.model.shards is not None:
            self.model.shards.settle()

    def pack(self, flats: Sequence[Flat], advantages: Sequence[Sequence[float]] | None, tokens: int) -> list[Packed]:
        """Microbatches of at most so many tokens, on the model's device.

        With shards every process gets equally many; the last ones may be blank.
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
                automaton=automaton_of(self.model.tokens) if any(flat.constraints for flat in flats) else None,
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
        with self._weights_in_place(), self._precision(), self.clock.device("update"):
            scores: TokenScores = self.scorer(batch.to(self.model.device), entropy=entropy)
        self._settle()
        return scores

    def update(
        self,
        batches: Sequence[Batch],
        loss_of: Loss,
        *,
        rate: float = 1.0,
        entropy: bool = False,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> tuple[dict[str, float], LossStats | None]:
        """One step on the sum of the microbatches' losses; returns `loss`, `grad_norm` and `lr`, and the statistics.

        `loss_of(batch, scores)` is the loss of one microbatch. The host waits for the device only once, when all
        gradients are there: it reads the loss and the norm, since the weights must not change if either is bad. Before
        it waits, it calls `meanwhile`: a GPU is then still busy with what it was told.
        """
        with self.clock.device("update"), _threads(self.threads) if self.threads else contextlib.nullcontext():
            with self._weights_in_place():
                total, tally = self._gradients(batches, loss_of, entropy)
            self._sum_gradients()
            # `foreach` handles all weights at once on a GPU. A norm that is not finite is caught below.
            several = True if self.on_gpu else None
            norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.clip, error_if_nonfinite=False, foreach=several)
            both = torch.stack([self.processes.sum(total), whole(norm).to(total)])
            meanwhile()
            value, size = both.tolist()
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
        """Add up gradients over the microbatches; returns the summed loss and statistics, which stay on the device."""
        if not self.model.module.training:  # of 2,500 parts of a small model with an adapter, each is asked to
            self.model.module.train()
        self.optimiser.zero_grad(set_to_none=True)
        total, tally = torch.zeros((), device=self.model.device), None
        for microbatch in batches:
            blank = microbatch.ids_RL is self._blank.ids_RL  # its tensors may have been put into another Batch
            batch = microbatch.to(self.model.device)
            with self._precision():
                scores = self.scorer(batch, entropy=entropy)
                loss, noted = (scores.logprobs_BT.sum(), None) if blank else loss_of(batch, scores)
            loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
            total += loss.detach()
            if noted is not None:
                tally = noted if tally is None else tally + noted
        return total, tally

    def totals(self, totals: Totals) -> Totals:
        """Summed over the processes."""
        everyones = self.processes.gathered([totals])
        return Totals(sum(one.tokens for one in everyones), sum(one.sequences for one in everyones))

    def _sum_gradients(self) -> None:
        if self.processes.count == 1 or self.model.shards is not None:  # with shards each backward pass has summed them
            return
        for parameter in self.parameters:
            if parameter.grad is None:  # this process had no microbatch
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.copy_(self.processes.sum(parameter.grad))

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        """The type that passes run in: bfloat16 in the `host_pass` of a half, else the model's own."""
        return self.host_pass.precision() if self.host_pass is not None else self._own_precision()

    def _weights_in_place(self) -> contextlib.AbstractContextManager[Any]:
        """Around forward and backward passes: the weights and layers that a CPU computes with."""
        return self.host_pass.inside() if self.host_pass is not None else contextlib.nullcontext()

    def _own_precision(self) -> contextlib.AbstractContextManager[Any]:
        """Weights that learn are float32; the passes run in the model's own type."""
        joined = self.model.scorer is not None and self.model.scorer.joined
        if self.model.dtype == "float32" or joined:
            return contextlib.nullcontext()
        return torch.autocast(self.model.device.split(":")[0], dtype=getattr(torch, self.model.dtype))


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """Inside, torch has so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _blank(pad_id: int) -> Batch:
    """A microbatch that nothing is learnt from: its loss is 0, and so is every gradient."""
    return collate([Flat([pad_id, pad_id], [0, 0], [0.0, 0.0], [-1, -1])], None, pad_id)


def optimiser_of(model: PolicyModel, *, lr: float, weight_decay: float) -> torch.optim.AdamW:
    """The optimiser of what learns in a model."""
    on_gpu = model.device.startswith("cuda")
    return torch.optim.AdamW(_groups(model, weight_decay), lr=lr, betas=(0.9, 0.95), fused=on_gpu)


def _groups(model: PolicyModel, weight_decay: float) -> list[dict[str, Any]]:
    """Biases and the weights of norms do not decay (KG-R1, appendix D.4)."""
    decayed = [value for value in model.parameters().values() if value.ndim >= 2]
    others = [value for value in model.parameters().values() if value.ndim < 2]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def rate(update: int, updates: int, *, schedule: str, warmup: float, time: float = 0.0) -> float:
    """The learning rate's factor in update 0, 1, ... of `updates`: a linear warm-up, then constant or a cosine to 0.

    `warmup` is a share of all updates.

    >>> [rate(update, 10, schedule="constant", warmup=0.2) for update in (0, 1, 2, 9)]
    [0.5, 1.0, 1.0, 1.0]
    >>> [round(rate(update, 4, schedule="cosine", warmup=0), 4) for update in range(4)]  # (1 + cos(pi u / 4)) / 2
    [1.0, 0.8536, 0.5, 0.1464]

    `time` is the share of the time budget that is used (`TimeBudget.progress`). An update then counts as the one that
    would be due by that time: with half of the time used, update 1 of 4 has the rate of update 2, and an update 0 that
    comes so late is past its warm-up:

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
