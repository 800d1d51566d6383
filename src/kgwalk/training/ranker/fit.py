"""Fits the ranker's network: equation 4's cross-entropy over labelled rows, the best epoch by recall on dev kept.

Seeded, on the CPU, one batch of expansions at a time. Knows arrays and vectors; nothing of questions, graphs and files.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from kgwalk.tools.ranker.features import Rows, joined
from kgwalk.tools.ranker.network import Network, Shape, gather, score
from kgwalk.tools.ranker.recall import Recalls, best_first
from kgwalk.training.ranker.examples import Example

MEASURED_AT_ONCE = 16  # expansions; those of hubs have thousands of candidates
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class FitSettings:
    """`batch` counts expansions. The learning rate falls to zero along a cosine."""

    epochs: int = 6
    batch: int = 32
    lr: float = 1e-3
    weight_decay: float = 0.01
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """An expansion to measure on: its rows, the candidates' names and which of them are right."""

    rows: Rows
    names: list[str]
    gold: Collection[str]


@dataclass
class Fitted:
    """The network of the best epoch, and the figures of all."""

    network: Network
    best: int
    history: list[dict[str, float]] = field(default_factory=list)


def fit(
    train: Sequence[Example],
    dev: Sequence[Trial],
    vectors_TD: Tensor,
    shape: Shape,
    settings: FitSettings,
    progress: Progress = lambda what, done, total: None,
    told: Callable[[dict[str, float]], None] = lambda figures: None,
) -> Fitted:
    """`told` is given the figures of each epoch as it ends. Without dev expansions the last epoch is kept."""
    torch.manual_seed(settings.seed)
    network = Network(shape)
    optimiser = torch.optim.AdamW(network.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)
    batches = math.ceil(len(train) / settings.batch)
    steps = settings.epochs * batches
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda at: 0.5 * (1 + math.cos(math.pi * at / steps)))
    draw = random.Random(settings.seed)
    fitted, kept = Fitted(network, 0), dict[str, Tensor]()
    for epoch in range(1, settings.epochs + 1):
        order = draw.sample(range(len(train)), len(train))
        losses: list[float] = []
        network.train()
        for start in range(0, len(order), settings.batch):
            losses.append(
                _step(network, [train[at] for at in order[start : start + settings.batch]], vectors_TD, optimiser)
            )
            schedule.step()
            progress("training", (epoch - 1) * batches + len(losses), steps)
        figures = {"epoch": float(epoch), "loss": sum(losses) / len(losses), **measure(network, dev, vectors_TD)}
        fitted.history.append(figures)
        told(figures)
        if not dev or not kept or _better(figures, fitted.history[fitted.best - 1]):
            fitted.best, kept = epoch, {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(kept)
    network.eval()
    return fitted


def measure(network: Network, trials: Sequence[Trial], vectors_TD: Tensor) -> dict[str, float]:
    """Mean recall and hit at each k."""
    recalls = Recalls()
    network.eval()
    for start in range(0, len(trials), MEASURED_AT_ONCE):
        some = trials[start : start + MEASURED_AT_ONCE]
        scores = iter(score(network, joined([trial.rows for trial in some]), vectors_TD))
        for trial in some:
            ranked = best_first([next(scores) for _ in trial.names])
            recalls.add([trial.names[at] for at in ranked], trial.gold)
    return recalls.means()


def _step(network: Network, examples: Sequence[Example], vectors_TD: Tensor, optimiser: torch.optim.Optimizer) -> float:
    rows = joined([one.rows for one in examples])
    label_R = torch.cat([torch.from_numpy(one.label_R) for one in examples])
    loss = torch.nn.functional.cross_entropy(network(gather(rows, vectors_TD)), label_R)  # equation 4, mean over rows
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return loss.item()


def _better(one: dict[str, float], other: dict[str, float]) -> bool:
    """By recall at 5, then at 1: where few candidates are the rule, all are equal at 5."""
    return (one["recall@5"], one["recall@1"]) > (other["recall@5"], other["recall@1"])
