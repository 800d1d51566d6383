"""The loss, from log-probabilities and advantages: clipped objective, KL term, imitation.

Pure functions of (B, T) tensors aligned with `Flat`: entry [b, t] belongs to token t itself. Where the mask is False
nothing counts, whatever stands there. A batch larger than the memory is cut into microbatches whose losses add up to
the loss of the whole: each token's weight is fixed by totals of the whole batch (`Totals`), never by the microbatch it
happens to be in. Knows nothing of models, rewards or optimisers.

By hand, with two tokens in the vocabulary and one parameter x: p = 1 / (1 + e^-x), and d log p / dx = 1 - p. At x = 0,
p = 1/2 and the slope is 1/2. A token that was drawn with probability 0.4 has the ratio 0.5 / 0.4 = 1.25:

>>> x = torch.zeros(1, 1, requires_grad=True)
>>> new, old, one = torch.nn.functional.logsigmoid(x), torch.tensor([[0.4]]).log(), torch.ones(1, 1)
>>> loss, _ = policy_loss(new, old, one, one.bool(), one, clip_low=0.2, clip_high=0.28)
>>> slope = torch.autograd.grad(loss, x)[0]
>>> round(loss.item(), 4), round(slope.item(), 4)  # -1.25, and -1.25 * 1/2: inside 1.28, so p is pushed up further
(-1.25, -0.625)
>>> new = torch.nn.functional.logsigmoid(x)
>>> loss, tally = policy_loss(new, old, one, one.bool(), one, clip_low=0.2, clip_high=0.2)
>>> round(loss.item(), 4), torch.autograd.grad(loss, x)[0].item()  # past 1.2: the value is capped, nothing is pushed
(-1.2, 0.0)
>>> tally.report()["clip_fraction"]
1.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch

from kgwalk.config.recipe import unknown
from kgwalk.types import KgwalkError

LOG_LIMIT = 20.0  # of log ratios: e^20 is 5e8, past anything meant, and far from the overflow that makes NaN


@dataclass(frozen=True)
class Totals:
    """Of the whole batch of one update, over all its microbatches and devices.

    Where gradients are averaged over devices, as DDP does, the loss is to be multiplied by their number.

    >>> Totals.of([[0, 1, 1], [0, 0, 1], [0, 0, 0]])
    Totals(tokens=3, sequences=2)
    """

    tokens: int  # that the model wrote
    sequences: int  # that have any of these

    @classmethod
    def of(cls, masks: Iterable[Sequence[int]]) -> Totals:
        counts = [sum(mask) for mask in masks]
        return cls(sum(counts), sum(count > 0 for count in counts))


def _token_mean(mask_BT: torch.Tensor, totals: Totals, constant: float) -> torch.Tensor:
    return mask_BT / max(totals.tokens, 1)


def _sequence_mean(mask_BT: torch.Tensor, totals: Totals, constant: float) -> torch.Tensor:
    return mask_BT / mask_BT.sum(-1, keepdim=True).clamp(min=1) / max(totals.sequences, 1)


def _sequence_sum_constant(mask_BT: torch.Tensor, totals: Totals, constant: float) -> torch.Tensor:
    return mask_BT / (constant * max(totals.sequences, 1))


AGGREGATIONS: dict[str, Callable[[torch.Tensor, Totals, float], torch.Tensor]] = {
    "token-mean": _token_mean,  # each token of the batch counts the same (verl's default, DAPO; EoG ran with it)
    "sequence-mean": _sequence_mean,  # each sequence counts the same (GRPO as published)
    "sequence-sum-constant": _sequence_sum_constant,  # a token's weight does not depend on any length (Dr. GRPO)
}


def token_weights(
    aggregation: str, mask_BT: torch.Tensor, totals: Totals, *, constant: float | None = None
) -> torch.Tensor:
    """How much each token counts: the loss is the sum over tokens of weight times loss.

    `constant` is for `sequence-sum-constant` alone: the most tokens a sequence may have, say.

    >>> mask, totals = torch.tensor([[True, True, False], [True, False, False]]), Totals(tokens=3, sequences=2)
    >>> token_weights("token-mean", mask, totals)
    tensor([[0.3333, 0.3333, 0.0000],
            [0.3333, 0.0000, 0.0000]])
    >>> token_weights("sequence-mean", mask, totals)
    tensor([[0.2500, 0.2500, 0.0000],
            [0.5000, 0.0000, 0.0000]])
    >>> token_weights("sequence-sum-constant", mask, totals, constant=5)
    tensor([[0.1000, 0.1000, 0.0000],
            [0.1000, 0.0000, 0.0000]])
    """
    if aggregation not in AGGREGATIONS:
        raise unknown("aggregation", aggregation, AGGREGATIONS)
    if aggregation == "sequence-sum-constant" and (constant is None or constant <= 0):
        raise KgwalkError(f"sequence-sum-constant divides by a constant above 0; it is {constant}")
    return AGGREGATIONS[aggregation](mask_BT.float(), totals, constant or 1.0)


def clipped_objective(
    ratio: torch.Tensor, advantages: torch.Tensor, clip_low: float, clip_high: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """min(ratio A, clip(ratio, 1 - low, 1 + high) A), and where the clip decides: there the gradient is 0.

    `clip_high` above `clip_low` lets unlikely tokens that were good grow further (clip-higher; EoG: 0.2 and 0.28).

    >>> ratio, advantages = torch.tensor([1.5, 1.5, 0.5, 0.5]), torch.tensor([1.0, -1.0, 1.0, -1.0])
    >>> clipped_objective(ratio, advantages, 0.2, 0.2)  # only what would move still further away is clipped
    (tensor([ 1.2000, -1.5000,  0.5000, -0.8000]), tensor([ True, False, False,  True]))
    """
    free = ratio * advantages
    bound = ratio.clamp(1 - clip_low, 1 + clip_high) * advantages
    return torch.minimum(free, bound), bound < free


def k3(new: torch.Tensor, ref: torch.Tensor) -> torch.Tensor:
    """The K3 estimate of KL(new || ref) from tokens drawn by new: e^d - d - 1 with d = ref - new; never negative.

    >>> k3(torch.tensor([0.5]).log(), torch.tensor([0.25]).log())  # e^d = 1/2, d = -ln 2: 0.5 + 0.6931 - 1
    tensor([0.1931])
    """
    difference = (ref - new).clamp(-LOG_LIMIT, LOG_LIMIT)
    return difference.exp() - difference - 1


def truncated_importance(trainer: torch.Tensor, sampler: torch.Tensor, cap: float) -> torch.Tensor:
    """min(p_trainer / p_sampler, cap), without gradient: weighs tokens by how likely they are to the trainer's own
    arithmetic before the update, where the engine that drew them computes a little differently.

    >>> truncated_importance(torch.tensor([0.5, 0.5]).log(), torch.tensor([0.4, 0.1]).log(), 2.0)
    tensor([1.2500, 2.0000])
    """
    return (trainer - sampler).detach().clamp(-LOG_LIMIT, LOG_LIMIT).exp().clamp(max=cap)


@dataclass
class LossStats:
    """What to watch, as sums and bounds over tokens, so that the tallies of microbatches add up with `+`."""

    tokens: torch.Tensor
    sums: dict[str, torch.Tensor] = field(default_factory=dict)
    lowest: dict[str, torch.Tensor] = field(default_factory=dict)
    highest: dict[str, torch.Tensor] = field(default_factory=dict)

    @torch.no_grad()
    def note(self, name: str, value_BT: torch.Tensor, mask_BT: torch.Tensor) -> None:
        self.sums[name] = torch.where(mask_BT, value_BT.detach().float(), 0.0).sum()

    @torch.no_grad()
    def note_bounds(self, name: str, value_BT: torch.Tensor, mask_BT: torch.Tensor) -> None:
        value_BT = value_BT.detach().float()
        self.lowest[name] = torch.where(mask_BT, value_BT, float("inf")).amin()
        self.highest[name] = torch.where(mask_BT, value_BT, float("-inf")).amax()

    def __add__(self, other: LossStats) -> LossStats:
        return LossStats(
            self.tokens + other.tokens,
            {name: value + other.sums[name] for name, value in self.sums.items()},
            {name: torch.minimum(value, other.lowest[name]) for name, value in self.lowest.items()},
            {name: torch.maximum(value, other.highest[name]) for name, value in self.highest.items()},
        )

    def cpu(self) -> LossStats:
        """The same on the host, in one transfer: to be read, or sent to other processes."""
        parts = (self.sums, self.lowest, self.highest)
        values = iter(torch.stack([self.tokens.float(), *(value for part in parts for value in part.values())]).cpu())
        return LossStats(next(values), *({name: next(values) for name in part} for part in parts))

    def report(self) -> dict[str, float]:
        """On the host. Means a token under their names, bounds as `_min` and `_max`; empty if there was no token."""
        if not float(self.tokens):
            return {}
        return {
            **{name: float(value / self.tokens) for name, value in self.sums.items()},
            **{f"{name}_min": float(value) for name, value in self.lowest.items()},
            **{f"{name}_max": float(value) for name, value in self.highest.items()},
        }


def policy_loss(
    new_BT: torch.Tensor,
    old_BT: torch.Tensor,
    advantages_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    weights_BT: torch.Tensor,
    *,
    clip_low: float,
    clip_high: float,
    kl: float = 0.0,
    ref_BT: torch.Tensor | None = None,
    sampler_BT: torch.Tensor | None = None,
    importance_cap: float | None = None,
    entropy_BT: torch.Tensor | None = None,
) -> tuple[torch.Tensor, LossStats]:
    """Sum over tokens of weight * ( -importance * min(ratio A, clip(ratio) A) + kl * K3(new, ref) ), ratio = new / old.

    All but the weights, the mask and the advantages are log-probabilities: `new_BT` of the model that learns, `old_BT`
    of the same model before the update (its own `detach()` for the first), `ref_BT` of the model not to stray from,
    `sampler_BT` as the engine that drew the tokens reported them. Old and sampler are compared; with `importance_cap`
    they also weigh the tokens (`truncated_importance`).

    Tally: ratio (and bounds), clip_fraction, kl, mismatch = |old - sampler| (and bounds), truncated_fraction, entropy.
    """
    if kl and ref_BT is None:
        raise KgwalkError(f"the KL term has weight {kl} and no reference log-probabilities were given")
    if importance_cap is not None and sampler_BT is None:
        raise KgwalkError("importance weights need the sampler's log-probabilities, and none were given")
    new_BT, old_BT, advantages_BT = (torch.where(mask_BT, x, 0.0) for x in (new_BT, old_BT.detach(), advantages_BT))
    tally = LossStats(mask_BT.sum())
    ratio_BT = (new_BT - old_BT).clamp(-LOG_LIMIT, LOG_LIMIT).exp()
    objective_BT, clipped_BT = clipped_objective(ratio_BT, advantages_BT, clip_low, clip_high)
    tally.note("ratio", ratio_BT, mask_BT)
    tally.note_bounds("ratio", ratio_BT, mask_BT)
    tally.note("clip_fraction", clipped_BT, mask_BT)
    if sampler_BT is not None:
        sampler_BT = torch.where(mask_BT, sampler_BT, 0.0)
        mismatch_BT = (old_BT - sampler_BT).abs()
        tally.note("mismatch", mismatch_BT, mask_BT)
        tally.note_bounds("mismatch", mismatch_BT, mask_BT)
        if importance_cap is not None:
            importance_BT = truncated_importance(old_BT, sampler_BT, importance_cap)
            tally.note("truncated_fraction", importance_BT >= importance_cap, mask_BT)
            objective_BT = objective_BT * importance_BT
    loss_BT = -objective_BT
    if ref_BT is not None:
        kl_BT = k3(new_BT, torch.where(mask_BT, ref_BT.detach(), 0.0))
        tally.note("kl", kl_BT, mask_BT)
        if kl:
            loss_BT = loss_BT + kl * kl_BT
    if entropy_BT is not None:
        tally.note("entropy", entropy_BT, mask_BT)
    return (loss_BT * weights_BT).sum(), tally


def imitation_loss(new_BT: torch.Tensor, mask_BT: torch.Tensor, totals: Totals) -> tuple[torch.Tensor, torch.Tensor]:
    """SFT: the mean of -log p over the marked tokens of the whole batch, and that of each sequence, without gradient.

    The second tells hard cases from easy ones (KG-Reasoner keeps the questions whose loss is above a threshold).

    >>> new = torch.tensor([[0.0, 0.5, 0.25], [0.0, 0.5, 0.0]]).log()  # log 0 where nothing is marked
    >>> mask = torch.tensor([[False, True, True], [False, True, False]])
    >>> imitation_loss(new, mask, Totals(3, 2))  # (ln 2 + ln 4 + ln 2) / 3; (ln 2 + ln 4) / 2 and ln 2
    (tensor(0.9242), tensor([1.0397, 0.6931]))
    """
    nll_BT = -torch.where(mask_BT, new_BT, 0.0)
    per_sequence_B = nll_BT.detach().sum(-1) / mask_BT.sum(-1).clamp(min=1)
    return (nll_BT * token_weights("token-mean", mask_BT, totals)).sum(), per_sequence_B
