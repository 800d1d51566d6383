"""How sure a mean is, and whether two runs on the same questions differ by more than chance.

All draws are seeded: the same values give the same interval and the same p.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from kgwalk.types import KgwalkError

Float64Array = npt.NDArray[np.float64]

BINS = 10  # of chances from 0 to 1
HIGH = 0.9  # a chance above it should be worth relying on
_CELLS_AT_ONCE = 1 << 21  # draws in memory at a time, whatever the number of questions
_FEW_VALUES = 64  # a score of 0 or 1: how often each value comes up is drawn, forty times as fast
_EXACT_PAIRS = 16  # 2^16 ways to flip the signs are all tried; with more pairs, some
_ROUNDING = 1e-9  # sums that differ by less, relative to the largest possible, are ties


class Paired(TypedDict):
    """Two runs on the same questions: their means, second minus first, its interval, and the p of no difference."""

    first: float
    second: float
    difference: float
    interval: list[float]
    p: float


class McNemar(NamedTuple):
    """Questions that one of two runs alone gets right, and the p of no difference."""

    only_first: int
    only_second: int
    p: float


class Calibration(TypedDict):
    """Whether chances hold what they promise, over `n` of them of which the share `right` was right.

    `ece` is the expected calibration error in ten bins, `auroc` how often the right one of a right and a wrong one had
    the higher chance (None where all are alike), `above_90` how many were above 0.9, and `above_90_right` the share of
    these that was right (None where there are none).
    """

    n: int
    right: float
    ece: float
    auroc: float | None
    above_90: int
    above_90_right: float | None


class CalibrationSpread(TypedDict):
    """How far chance moves a calibration: 95% intervals of `ece` and `auroc` where whole clusters are resampled (None
    without a right and a wrong one), and `perfect_ece`, the mean error of chances that hold exactly what they promise.

    Few answers in a bin are never just as often right as promised, so an error near `perfect_ece` is none.
    """

    ece: list[float]
    auroc: list[float] | None
    perfect_ece: float


class ReliabilityBin(TypedDict):
    """The `n` chances of one bin of a reliability diagram: their mean, the share that was `right`, and its interval."""

    n: int
    chance: float
    right: float
    interval: list[float]


def calibration(chances: Sequence[float], right: Sequence[bool]) -> Calibration:
    """
    >>> found = calibration([0.95, 0.95, 0.35, 0.35], [True, True, True, False])
    >>> round(found["ece"], 3), round(found["auroc"] or 0, 3), found["above_90"], found["above_90_right"]
    (0.1, 0.833, 2, 1.0)

    Of the two at 0.95 both were right, 0.05 off; of the two at 0.35 one, 0.15 off. Of the three pairs of one right and
    one wrong, two are in order and one is a tie.
    """
    chance_N, right_N = np.asarray(chances, np.float64), np.asarray(right, bool)
    bin_N = _bins(chance_N)
    gaps = [abs(float((right_N[bin_N == at] - chance_N[bin_N == at]).sum())) for at in range(BINS)]
    high_N = chance_N > HIGH
    return {
        "n": len(chance_N),
        "right": float(right_N.mean()),
        "ece": sum(gaps) / len(chance_N),
        "auroc": _auroc(chance_N, right_N),
        "above_90": int(high_N.sum()),
        "above_90_right": float(right_N[high_N].mean()) if high_N.any() else None,
    }


def reliability(chances: Sequence[float], right: Sequence[bool]) -> list[ReliabilityBin]:
    """The bins of `calibration` that hold a chance, from low to high.

    >>> [(one["n"], one["chance"], one["right"]) for one in reliability([0.95, 0.95, 0.35, 0.35], [1, 1, 1, 0])]
    [(2, 0.35, 0.5), (2, 0.95, 1.0)]
    """
    chance_N, right_N = np.asarray(chances, np.float64), np.asarray(right, np.float64)
    bin_N = _bins(chance_N)
    return [
        {
            "n": int((bin_N == at).sum()),
            "chance": float(chance_N[bin_N == at].mean()),
            "right": float(right_N[bin_N == at].mean()),
            "interval": list(bootstrap_interval(right_N[bin_N == at].tolist())),
        }
        for at in np.unique(bin_N)
    ]


def _bins(chance_N: Float64Array) -> npt.NDArray[np.int64]:
    return np.minimum((chance_N * BINS).astype(np.int64), BINS - 1)


def calibration_spread(
    chances: Sequence[float], right: Sequence[bool], clusters: Sequence[str], *, draws: int = 1_000, seed: int = 0
) -> CalibrationSpread:
    """
    >>> spread = calibration_spread([0.95] * 20 + [0.05] * 20, [True] * 20 + [False] * 20, ["a", "b"] * 20)
    >>> [round(end, 3) for end in spread["ece"]], spread["auroc"], 0.02 < spread["perfect_ece"] < 0.06
    ([0.05, 0.05], [1.0, 1.0], True)
    """
    chance_N, right_N, name_N = np.asarray(chances), np.asarray(right), np.asarray(clusters)
    places = [np.flatnonzero(name_N == name) for name in np.unique(name_N)]
    rng = np.random.default_rng(seed)
    drawn: list[Calibration] = []
    for _ in range(draws):
        at = np.concatenate([places[place] for place in rng.integers(0, len(places), len(places))])
        drawn.append(calibration(chance_N[at].tolist(), right_N[at].tolist()))
    perfect = [calibration(chances, (rng.random(len(chance_N)) < chance_N).tolist())["ece"] for _ in range(draws)]
    orders = [one["auroc"] for one in drawn if one["auroc"] is not None]
    return {
        "ece": np.quantile([one["ece"] for one in drawn], [0.025, 0.975]).tolist(),
        "auroc": np.quantile(orders, [0.025, 0.975]).tolist() if orders else None,
        "perfect_ece": float(np.mean(perfect)),
    }


def _auroc(chance_N: Float64Array, right_N: npt.NDArray[np.bool_]) -> float | None:
    """By ranks, of which equal chances share their mean (Mann and Whitney)."""
    rights, wrongs = int(right_N.sum()), int((~right_N).sum())
    if not rights or not wrongs:
        return None
    _, place_N, count_U = np.unique(chance_N, return_inverse=True, return_counts=True)
    rank_N = (np.cumsum(count_U) - (count_U - 1) / 2)[place_N]
    return float(rank_N[right_N].sum() - rights * (rights + 1) / 2) / (rights * wrongs)


def bootstrap_interval(
    values: Sequence[float], *, confidence: float = 0.95, draws: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """The percentile interval of the mean: what the middle 95% of resampled means span.

    One value has no spread; of a hundred coins with 50 heads the mean is 0.5 +- 1.96 * 0.05, in steps of 0.01:

    >>> bootstrap_interval([0.5])
    (0.5, 0.5)
    >>> low, high = bootstrap_interval([0.0, 1.0] * 50)
    >>> round(low, 3), round(high, 3)
    (0.4, 0.6)
    """
    if not len(values):
        raise KgwalkError("an interval needs at least one value")
    _check_confidence(confidence)
    value_N = np.asarray(values, np.float64)
    rng = np.random.default_rng(seed)
    mean_R = np.concatenate([_resampled(value_N, rows, rng) for rows in _blocks(draws, len(value_N))])
    tail = (1 - confidence) / 2
    low, high = np.quantile(mean_R, [tail, 1 - tail])
    return float(low), float(high)


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise KgwalkError(f"the confidence must lie between 0 and 1, not {confidence}")


def _resampled(value_N: Float64Array, rows: int, rng: np.random.Generator) -> Float64Array:
    """Means of as many values drawn with putting back."""
    total = len(value_N)
    value_D, count_D = np.unique(value_N, return_counts=True)
    if len(value_D) <= _FEW_VALUES:
        sum_R: Float64Array = rng.multinomial(total, count_D / total, rows) @ value_D
        return sum_R / total
    return np.asarray(value_N[rng.integers(0, total, (rows, total), np.int32)].mean(axis=1))


def cluster_interval(
    values: Sequence[float],
    clusters: Sequence[str],
    *,
    confidence: float = 0.95,
    draws: int = 10_000,
    seed: int = 0,
) -> tuple[float, float]:
    """The same where values come in clusters, such as questions written from one seed: whole clusters are resampled.

    Values of a cluster rise and fall together, so there is less to go by than their number says. A hundred questions
    from two seeds, all of the one right and none of the other: two clusters are drawn, and a quarter of the draws has
    the wrong one twice, a quarter the right one.

    >>> cluster_interval([1.0] * 50 + [0.0] * 50, ["a"] * 50 + ["b"] * 50)
    (0.0, 1.0)
    >>> cluster_interval([1.0, 1.0, 1.0, 0.0], ["a", "a", "a", "b"], confidence=0.4)  # a and b: 3 of 4, in half of them
    (0.75, 0.75)
    """
    if len(values) != len(clusters) or not len(values):
        raise KgwalkError(f"each of at least one value needs a cluster: got {len(values)} and {len(clusters)}")
    _check_confidence(confidence)
    _, place_N = np.unique(np.asarray(clusters), return_inverse=True)
    sum_C = np.bincount(place_N, np.asarray(values, np.float64)).astype(np.float64)
    size_C = np.bincount(place_N).astype(np.float64)
    rng = np.random.default_rng(seed)
    mean_R = np.concatenate([_resampled_clusters(sum_C, size_C, rows, rng) for rows in _blocks(draws, len(sum_C))])
    tail = (1 - confidence) / 2
    low, high = np.quantile(mean_R, [tail, 1 - tail])
    return float(low), float(high)


def _resampled_clusters(sum_C: Float64Array, size_C: Float64Array, rows: int, rng: np.random.Generator) -> Float64Array:
    """Means over the values of as many clusters drawn with putting back."""
    drawn_RC = rng.integers(0, len(sum_C), (rows, len(sum_C)), np.int32)
    return np.asarray(sum_C[drawn_RC].sum(axis=1) / size_C[drawn_RC].sum(axis=1))


def paired_test(
    first: Sequence[float], second: Sequence[float], *, confidence: float = 0.95, draws: int = 10_000, seed: int = 0
) -> Paired:
    """The difference of two runs over the same questions in the same order, with its bootstrap interval and `flip_p`.

    >>> paired_test([0.0, 0.0, 1.0], [1.0, 1.0, 1.0])["difference"]
    0.6666666666666666
    """
    difference = _differences(first, second)
    low, high = bootstrap_interval(difference.tolist(), confidence=confidence, draws=draws, seed=seed)
    return {
        "first": float(np.mean(first)),
        "second": float(np.mean(second)),
        "difference": float(difference.mean()),
        "interval": [low, high],
        "p": flip_p(difference.tolist(), draws=draws, seed=seed),
    }


def flip_p(differences: Sequence[float], *, draws: int = 10_000, seed: int = 0) -> float:
    """How often the sum of the differences is as far from 0 if each may have either sign: two-sided.

    Three times +1: of the 8 ways to give signs, +++ and --- are as far, so 2/8. A zero has no sign and changes
    nothing. With up to 16 pairs that differ all ways are tried, else `draws` of them, the one observed among them.

    >>> flip_p([1, 1, 1]), flip_p([1, 1, 1, 0]), flip_p([1, -1]), flip_p([])
    (0.25, 0.25, 1.0, 1.0)
    >>> flip_p([3, 1, -1])  # the sum is 3; of the 8 sums 5, 3, 3, 1 and their opposites, 6 are as far
    0.75
    """
    value_N = np.asarray(differences, np.float64)
    value_N = value_N[value_N != 0]
    if not len(value_N):
        return 1.0
    size_N, pairs = np.abs(value_N), len(value_N)
    bound = abs(value_N.sum()) - _ROUNDING * size_N.sum()
    if pairs <= _EXACT_PAIRS:
        sign_WN = 2 * (np.arange(1 << pairs)[:, None] >> np.arange(pairs) & 1) - 1
        return float(np.mean(np.abs(sign_WN @ size_N) >= bound))
    rng = np.random.default_rng(seed)
    far = 0
    for rows in _blocks(draws, pairs):
        plus_RN = rng.integers(0, 2, (rows, pairs), np.int8)
        far += int(np.sum(np.abs(2 * (plus_RN @ size_N) - size_N.sum()) >= bound))
    return (far + 1) / (draws + 1)


def mcnemar(first: Sequence[float], second: Sequence[float]) -> McNemar:
    """For scores of 0 and 1: the exact two-sided test on the questions that one run alone gets right.

    One question lost, four gained: P(at most 1 of 5 fair coins) = (1 + 5) / 32, twice that is 0.375.

    >>> mcnemar([1, 0, 0, 0, 0, 1], [0, 1, 1, 1, 1, 1])
    McNemar(only_first=1, only_second=4, p=0.375)
    """
    if not set(first) | set(second) <= {0, 1}:
        raise KgwalkError("McNemar's test takes scores of 0 and 1; for others there is `paired_test`")
    difference = _differences(first, second)
    lost, gained = int(np.sum(difference < 0)), int(np.sum(difference > 0))
    total = lost + gained
    ways = choose = 1
    for count in range(min(lost, gained)):
        choose = choose * (total - count) // (count + 1)  # C(n, i + 1) from C(n, i)
        ways += choose
    return McNemar(lost, gained, min(1.0, 2 * ways / 2**total))


def _differences(first: Sequence[float], second: Sequence[float]) -> Float64Array:
    if len(first) != len(second) or not len(first):
        raise KgwalkError(
            f"a paired test needs the same questions in both runs, at least one: got {len(first)} and {len(second)}"
        )
    return np.asarray(second, np.float64) - np.asarray(first, np.float64)


def _blocks(draws: int, columns: int) -> Iterator[int]:
    """How many rows to draw at a time."""
    rows = max(1, _CELLS_AT_ONCE // columns)
    for start in range(0, draws, rows):
        yield min(rows, draws - start)
