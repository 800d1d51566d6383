"""Rewards into advantages: how much better each turn was than its group, by three named estimators.

A group is the rollouts of one question. Only turns that the model took count: there are no padding turns, and the turn
that answers has its advantage like any other. Plain numbers in, plain numbers out; knows nothing of tensors or models.

The estimators, with R the reward of a whole rollout n and r_t the reward of its turn t:

- `turn` (KG-R1, section 3.3): G_t = r_t + lam R; one mean and one standard deviation over all turns of the group.
- `turn-code` (KG-R1's published code): turn rewards and whole rewards are standardised apart, each over the group, then
  added: 0.5 z(r_t) + lam z(R). There the turn that answers is lost and finished rollouts are filled up with empty turns
  of reward 0; here neither happens.
- `trajectory` (GRPO; KG-R1, appendix E.3): G = mean over t of r_t + lam R, for every turn of the rollout. Without
  turn rewards this is GRPO as Graph-RFT, KG-Reasoner, KG-Hopper and EoG use it.

KG-R1's equation divides by the standard deviation of the population (ddof 0); its code, and verl which EoG ran on, by
that of a sample (ddof 1). Each estimator has its source's; `ddof` overrides it. No paper gives lam a value: it is 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kgwalk.config.recipe import unknown
from kgwalk.types import Flat, KgwalkError

if TYPE_CHECKING:
    from kgwalk.training.settings import GrpoSettings

TURN_WEIGHT = 0.5  # of the standardised turn rewards in KG-R1's published code
FLAT = 1e-9  # values nearer to each other than this are equal: what is left is rounding


class Rewards(NamedTuple):
    """Of one rollout: one for each turn it took, and one for the whole."""

    turns: Sequence[float]
    whole: float


Group = Sequence[Rewards]
Standardise = Callable[[Sequence[float]], list[float]]


@dataclass(frozen=True)
class AdvantageResult:
    """`values[g][n][t]` is the advantage of turn t of rollout n of group g; `live[g]` is False where all are 0."""

    values: list[list[list[float]]]
    live: list[bool]

    @property
    def dropped(self) -> int:
        """Groups whose rollouts were all as good as each other: they teach nothing and belong in no batch."""
        return self.live.count(False)


def standardised(
    values: Sequence[float], *, std: bool = True, ddof: int = 0, eps: float = 1e-6, flat: float = FLAT
) -> list[float]:
    """(x - mean) / (std + eps); without `std` only x - mean, as in Dr. GRPO. Equal values give exact zeros, where
    values that lie within `flat` are equal.

    >>> standardised([1, 2, 3, 6], eps=0)  # mean 3, squares 4 + 1 + 0 + 9 = 14, std sqrt(14 / 4) = 1.8708
    [-1.0690449676496976, -0.5345224838248488, 0.0, 1.6035674514745464]
    >>> standardised([1, 2, 3, 6], std=False)
    [-2.0, -1.0, 0.0, 3.0]
    >>> standardised([0.1, 0.1, 0.1])
    [0.0, 0.0, 0.0]
    """
    if not values or max(values) - min(values) <= flat:
        return [0.0] * len(values)
    mean = math.fsum(values) / len(values)
    scale = 1.0
    if std:
        scale = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - ddof)) + eps
    return [(value - mean) / scale for value in values]


def turn(group: Group, lam: float, z: Standardise) -> list[list[float]]:
    """A_t = z(r_t + lam R), pooled over all turns of all rollouts.

    Two rollouts: turns 0 and 1 with R = 1, and one turn 1 with R = 0. G = 1, 2 | 1; the mean is 4/3, the squares add up
    to 1/9 + 4/9 + 1/9 = 2/3, the deviation is sqrt(2/9) = 0.4714.

    >>> group = [Rewards([0, 1], 1), Rewards([1], 0)]
    >>> [[round(a, 4) for a in row] for row in turn(group, 1.0, standardised)]
    [[-0.7071, 1.4142], [-0.7071]]
    """
    pooled = z([reward + lam * rewards.whole for rewards in group for reward in rewards.turns])
    return _as_turns(group, pooled)


def turn_code(group: Group, lam: float, z: Standardise) -> list[list[float]]:
    """A_t = 0.5 z(r_t) + lam z(R): the first over all turns of the group, the second over its rollouts.

    >>> group = [Rewards([0, 1], 1), Rewards([1], 0)]  # z(r) = -1.4142, 0.7071 | 0.7071; z(R) = 1 | -1
    >>> [[round(a, 4) for a in row] for row in turn_code(group, 1.0, standardised)]
    [[0.2929, 1.3536], [-0.6464]]
    """
    local = _as_turns(group, z([reward for rewards in group for reward in rewards.turns]))
    whole = _once_a_rollout(group, z, lambda rewards: rewards.whole)
    return [[TURN_WEIGHT * a + lam * b for a in turns] for turns, b in zip(local, whole, strict=True)]


def trajectory(group: Group, lam: float, z: Standardise) -> list[list[float]]:
    """A = z(mean of r_t + lam R), the same for all turns of a rollout.

    >>> group = [Rewards([0, 1], 1), Rewards([1], 0)]  # G = 1.5 | 1
    >>> [[round(a, 4) for a in row] for row in trajectory(group, 1.0, standardised)]
    [[1.0, 1.0], [-1.0]]
    """
    whole = _once_a_rollout(group, z, lambda rewards: sum(rewards.turns) / len(rewards.turns) + lam * rewards.whole)
    return [[value] * len(rewards.turns) for rewards, value in zip(group, whole, strict=True)]


class Estimator(NamedTuple):
    """`of` maps a group, lam and a way to standardise to advantages by rollout and turn; `ddof` is its source's."""

    of: Callable[[Group, float, Standardise], list[list[float]]]
    ddof: int


ADVANTAGES: dict[str, Estimator] = {
    "turn": Estimator(turn, 0),
    "turn-code": Estimator(turn_code, 1),
    "trajectory": Estimator(trajectory, 1),
}


def advantages(
    name: str,
    groups: Sequence[Group],
    *,
    lam: float = 1.0,
    std: bool = True,
    ddof: int | None = None,
    eps: float = 1e-6,
    flat: float = FLAT,
) -> AdvantageResult:
    """The advantages of every group by the estimator of that name; a rollout without turns takes no part.

    >>> same, differ = [Rewards([1], 1), Rewards([1], 1)], [Rewards([1], 1), Rewards([1], 0)]
    >>> result = advantages("turn", [same, differ], std=False)
    >>> result.values, result.live, result.dropped
    ([[[0.0], [0.0]], [[0.5], [-0.5]]], [False, True], 1)
    """
    if name not in ADVANTAGES:
        raise unknown("advantage", name, ADVANTAGES)
    estimator = ADVANTAGES[name]
    used_ddof = estimator.ddof if ddof is None else ddof

    def z(values: Sequence[float]) -> list[float]:
        return standardised(values, std=std, ddof=used_ddof, eps=eps, flat=flat)

    values = []
    for number, group in enumerate(groups):
        _check(number, group)
        values.append(estimator.of(group, lam, z))
    return AdvantageResult(values, [any(a != 0 for turns in group for a in turns) for group in values])


@dataclass(frozen=True)
class Credit:
    """`turns[g][n]` has the advantages of the turns of rollout n of group g; None where the rollout was left out.

    `live[g]` is False where all are 0: such a group teaches nothing, and belongs in no batch.
    """

    turns: list[list[list[float] | None]]
    live: list[bool]

    @property
    def dropped(self) -> int:
        """Groups that teach nothing."""
        return self.live.count(False)


def group_credit(groups: Sequence[Sequence[Rewards | None]], settings: GrpoSettings, *, flat: float = FLAT) -> Credit:
    """The credit of every turn by the settings of [grpo]: what the native trainer and outside ones learn from. `flat`
    is for rewards that were rounded on their way: those nearer to each other are equal.

    None is a rollout that failed through no fault of the model. It is left out of its group's mean:

    >>> from kgwalk.training.settings import GrpoSettings
    >>> group_credit([[Rewards([1], 1), None, Rewards([1], 0)]], GrpoSettings(std=False))
    Credit(turns=[[[0.5], None, [-0.5]]], live=[True])
    """
    kept = [[rewards for rewards in group if rewards is not None] for group in groups]
    found = advantages(settings.advantage, kept, lam=settings.whole_weight, std=settings.std, flat=flat)
    turns: list[list[list[float] | None]] = []
    for group, values in zip(groups, found.values, strict=True):
        rows = iter(values)
        turns.append([None if rewards is None else next(rows) for rewards in group])
    return Credit(turns, found.live)


def token_advantages(flat: Flat, per_turn: Sequence[float]) -> list[float]:
    """Each turn's advantage on the tokens the model wrote in it, 0 on the prompt and on observations.

    >>> flat = Flat([1, 2, 7, 8, 3, 9], [0, 0, 1, 1, 0, 1], [0.0] * 6, [-1, -1, 0, 0, -1, 1])
    >>> token_advantages(flat, [0.5, -2.0])
    [0.0, 0.0, 0.5, 0.5, 0.0, -2.0]
    """
    turns = max(flat.turn_index, default=-1) + 1
    if turns > len(per_turn):
        raise KgwalkError(
            f"the episode has {turns} turns and {len(per_turn)} advantages; every turn needs one, the answer's too"
        )
    return [per_turn[index] if index >= 0 else 0.0 for index in flat.turn_index]


def _as_turns(group: Group, pooled: Sequence[float]) -> list[list[float]]:
    """A flat list cut into one list a rollout."""
    values = iter(pooled)
    return [[next(values) for _ in rewards.turns] for rewards in group]


def _once_a_rollout(group: Group, z: Standardise, value: Callable[[Rewards], float]) -> list[float]:
    """One standardised number a rollout, over the rollouts that have turns; 0 for those that have none."""
    inside = iter(z([value(rewards) for rewards in group if rewards.turns]))
    return [next(inside) if rewards.turns else 0.0 for rewards in group]


def _check(number: int, group: Group) -> None:
    for rollout, rewards in enumerate(group):
        if not all(map(math.isfinite, (*rewards.turns, rewards.whole))):
            raise KgwalkError(
                f"group {number}, rollout {rollout}: rewards must be finite; the turns have {list(rewards.turns)}, "
                f"the whole has {rewards.whole}"
            )
