"""One update of the weights from microbatches of any number and order: gradients add up, are clipped, and applied.

With several processes each brings its own microbatches, and gradients and totals are summed over all: the update is
that of one process with all of them. Knows nothing of what the loss means.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kgwalk.training.logprobs import TokenScorer, TokenScores
from kgwalk.training.loss import Tally, Totals
from kgwalk.training.memory import activations_fit, pairs_a_token
from kgwalk.training.microbatch import Batch, Packed, pack
from kgwalk.training.model import PolicyModel
from kgwalk.training.processes import Processes
from kgwalk.types import Flat, KgwalkError

ALIGNED = 16  # tokens: attention with a mask whose rows are no multiple of it would copy the mask in every layer
Loss = Callable[[Batch, TokenScores], tuple[torch.Tensor, Tally | None]]


class Diverged(KgwalkError):
    """The loss or the gradient is no number, or has exploded; the weights are as they were before the update."""


class Updater:
    """`most_loss` is where a loss counts as exploded; `clip` bounds the norm of the gradient."""

    def __init__(self, model: PolicyModel, *, lr: float, weight_decay: float, clip: float, most_loss: float) -> None:
        self.model, self.lr, self.clip, self.most_loss = model, lr, clip, most_loss
        self.clock = model.clock
        self.processes = Processes(model.device)
        self.on_gpu = model.device.startswith("cuda")
        with self._precision():
            self.scorer = TokenScorer(model.trained)
        self._pairs = pairs_a_token(self.scorer)
        self.parameters = list(model.parameters().values())
        self.optimiser = torch.optim.AdamW(_groups(model, weight_decay), lr=lr, betas=(0.9, 0.95), fused=self.on_gpu)

    def expect(self, tokens: int) -> None:
        """Microbatches will have so many tokens: if what they compute does not fit, it is computed twice instead."""
        if self.model.settings.checkpoint_activations == "auto" and not self.model.checkpointing:
            with self._precision():
                fit = activations_fit(self.scorer, self.model.device, tokens)
            if not fit:
                self.model.checkpoint_activations()

    def pack(self, flats: Sequence[Flat], advantages: Sequence[Sequence[float]] | None, tokens: int) -> list[Packed]:
        """Microbatches with room for so many tokens, on the model's device."""
        with self.clock.host("pack"):
            packed = pack(
                flats,
                advantages,
                budget=tokens,
                pad_id=self.model.tokens.hf.pad_token_id or 0,
                share=self.scorer.takes_trees,
                pairs=self._pairs,
                multiple=ALIGNED if self.on_gpu else 1,
            )
            return [Packed(members, batch.to(self.model.device)) for members, batch in packed]

    @torch.no_grad()
    def score(self, batch: Batch, *, entropy: bool = False) -> TokenScores:
        """Log-probabilities of the marked tokens as the model is now, dropout off."""
        self.model.module.eval()
        with self._precision(), self.clock.device("update"):
            scores: TokenScores = self.scorer(batch.to(self.model.device), entropy=entropy)
        return scores

    def update(
        self, batches: Sequence[Batch], loss_of: Loss, *, rate: float = 1.0, entropy: bool = False
    ) -> tuple[dict[str, float], Tally | None]:
        """The sum of the microbatches' losses is minimised by one step; returns `loss` and `grad_norm`, and tallies.

        The host hears nothing from the device before all gradients are there; then the loss and their norm, once, as
        the weights must stay as they are if these are no good.
        """
        with self.clock.device("update"):
            total, tally = self._gradients(batches, loss_of, entropy)
            self._sum_gradients()
            # All weights at once on a GPU; a norm that is no number is seen below.
            several = True if self.on_gpu else None
            norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.clip, error_if_nonfinite=False, foreach=several)
            value, size = torch.stack([self.processes.sum(total), norm]).tolist()
            if not math.isfinite(value) or not math.isfinite(size) or abs(value) > self.most_loss:
                self.optimiser.zero_grad(set_to_none=True)
                raise Diverged(f"the loss is {value:.4g} and the gradient's norm {size:.4g}")
            with self.clock.device("optimiser"):
                for group in self.optimiser.param_groups:
                    group["lr"] = self.lr * rate
                self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)
        return {"loss": value, "grad_norm": size, "lr": self.lr * rate}, tally

    def _gradients(self, batches: Sequence[Batch], loss_of: Loss, entropy: bool) -> tuple[torch.Tensor, Tally | None]:
        """Added up over the microbatches, with the losses and the tallies, all of which stay on the device."""
        self.model.module.train()
        self.optimiser.zero_grad(set_to_none=True)
        total, tally = torch.zeros((), device=self.model.device), None
        for batch in batches:
            batch = batch.to(self.model.device)
            with self._precision():
                loss, noted = loss_of(batch, self.scorer(batch, entropy=entropy))
            loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
            total += loss.detach()
            tally = noted if tally is None or noted is None else tally + noted
        return total, tally

    def totals(self, totals: Totals) -> Totals:
        """Over the processes."""
        everyones = self.processes.gathered([totals])
        return Totals(sum(one.tokens for one in everyones), sum(one.sequences for one in everyones))

    def _sum_gradients(self) -> None:
        if self.processes.count == 1:
            return
        for parameter in self.parameters:
            if parameter.grad is None:  # this process had no microbatch
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.copy_(self.processes.sum(parameter.grad))

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        """Weights that learn, an adapter's or all, are float32; the passes run in the model's own type."""
        if self.model.dtype == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self.model.device.split(":")[0], dtype=getattr(torch, self.model.dtype))


def _groups(model: PolicyModel, weight_decay: float) -> list[dict[str, Any]]:
    """Biases and the weights of norms do not decay (KG-R1, appendix D.4)."""
    decayed = [value for value in model.parameters().values() if value.ndim >= 2]
    others = [value for value in model.parameters().values() if value.ndim < 2]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
