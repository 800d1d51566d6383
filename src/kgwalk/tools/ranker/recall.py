"""Recall at k of a ranking: how many of the right candidates stand among its first k.

Pure functions of scores and gold places. Knows nothing of where either comes from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

CUTS = (1, 5, 10)


def best_first(scores: Sequence[float]) -> list[int]:
    """Places by score, the highest first; among equals, in the order given.

    >>> best_first([0.1, 0.7, 0.7])
    [1, 2, 0]
    """
    order: list[int] = np.argsort(-np.asarray(scores, np.float64), kind="stable").tolist()
    return order


def recall_at(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """The share of the gold names that stand among the first k. A gold name that is nowhere counts as missed.

    >>> recall_at(["a", "b", "c"], {"b", "c"}, 2), recall_at(["a", "b", "c"], {"c", "z"}, 3)
    (0.5, 0.5)
    """
    return sum(name in gold for name in ranked[:k]) / len(gold)


@dataclass
class Recalls:
    """Means over expansions: `recall` as above, and `hit`, whether any gold name is among the first k."""

    cuts: tuple[int, ...] = CUTS
    _rows: list[list[float]] = field(default_factory=list)

    def add(self, ranked: Sequence[str], gold: Collection[str]) -> None:
        shares = [recall_at(ranked, gold, k) for k in self.cuts]
        self._rows.append([*shares, *(float(share > 0) for share in shares)])

    def means(self) -> dict[str, float]:
        names = [f"{kind}@{k}" for kind in ("recall", "hit") for k in self.cuts]
        if not self._rows:
            return dict.fromkeys(names, 0.0)
        return dict(zip(names, np.mean(self._rows, axis=0).tolist(), strict=True))


def best_of(score_R: Iterable[float], candidate_of_R: Iterable[int], count: int) -> list[float]:
    """A candidate's score is that of its best row; -1, below any probability, where it has none.

    >>> best_of([0.2, 0.9, 0.4], [0, 0, 1], 3)
    [0.9, 0.4, -1.0]
    """
    best = [-1.0] * count
    for score, candidate in zip(score_R, candidate_of_R, strict=True):
        best[candidate] = max(best[candidate], score)
    return best
