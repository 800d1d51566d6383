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
from kgwalk.training.microbatch import Batch
from kgwalk.training.model import PolicyModel
from kgwalk.training.processes import Processes
from kgwalk.types import KgwalkError

Loss = Callable[[Batch, TokenScores], tuple[torch.Tensor, Tally | None]]


class Diverged(KgwalkError):
    """The loss or the gradient is no number, or has exploded; the weights are as they were before the update."""


class Updater:
    """`most_loss` is where a loss counts as exploded; `clip` bounds the norm of the gradient."""

    def __init__(self, model: PolicyModel, *, lr: float, weight_decay: float, clip: float, most_loss: float) -> None:
        self.model, self.lr, self.clip, self.most_loss = model, lr, clip, most_loss
        self.processes = Processes(model.device)
        self.scorer = TokenScorer(model.trained)
        self.parameters = list(model.parameters().values())
        self.optimiser = torch.optim.AdamW(
            _groups(model, weight_decay), lr=lr, betas=(0.9, 0.95), fused=model.device != "cpu"
        )

    @torch.no_grad()
    def score(self, batch: Batch, *, entropy: bool = False) -> TokenScores:
        """Log-probabilities of the marked tokens as the model is now, dropout off."""
        self.model.module.eval()
        batch = batch.to(self.model.device)
        with self._precision():
            scores: TokenScores = self.scorer(
                batch.ids_BT, batch.attention_BT, batch.mask_BT, batch.position_BT, entropy=entropy
            )
        return scores

    def update(
        self, batches: Sequence[Batch], loss_of: Loss, *, rate: float = 1.0, entropy: bool = False
    ) -> tuple[dict[str, float], Tally | None]:
        """The sum of the microbatches' losses is minimised by one step; returns `loss` and `grad_norm`, and tallies."""
        self.model.module.train()
        self.optimiser.zero_grad(set_to_none=True)
        total, tally = torch.zeros((), device=self.model.device), None
        for batch in batches:
            batch = batch.to(self.model.device)
            with self._precision():
                scores = self.scorer(
                    batch.ids_BT, batch.attention_BT, batch.mask_BT, batch.position_BT, entropy=entropy
                )
                loss, noted = loss_of(batch, scores)
            loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
            total += loss.detach()
            tally = noted if tally is None or noted is None else tally + noted
        self._sum_gradients()
        value = float(self.processes.sum(total))
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, self.clip))
        if not math.isfinite(value) or not math.isfinite(norm) or abs(value) > self.most_loss:
            self.optimiser.zero_grad(set_to_none=True)
            raise Diverged(f"the loss is {value:.4g} and the gradient's norm {norm:.4g}")
        for group in self.optimiser.param_groups:
            group["lr"] = self.lr * rate
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return {"loss": value, "grad_norm": norm, "lr": self.lr * rate}, tally

    def totals(self, totals: Totals) -> Totals:
        """Over the processes."""
        both = self.processes.sum(torch.tensor([totals.tokens, totals.sequences], device=self.model.device))
        return Totals(int(both[0]), int(both[1]))

    def _sum_gradients(self) -> None:
        if self.processes.count == 1:
            return
        for parameter in self.parameters:
            if parameter.grad is None:  # this process had no microbatch
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.copy_(self.processes.sum(parameter.grad))

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        """Weights that are trained themselves are float32; the passes run in the model's own type."""
        if self.model.settings.lora_rank or self.model.dtype == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self.model.device.split(":")[0], dtype=getattr(torch, self.model.dtype))


def _groups(model: PolicyModel, weight_decay: float) -> list[dict[str, Any]]:
    """Biases and the weights of norms do not decay (KG-R1, appendix D.4)."""
    decayed = [value for value in model.parameters().values() if value.ndim >= 2]
    others = [value for value in model.parameters().values() if value.ndim < 2]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
