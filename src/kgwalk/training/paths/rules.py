"""Which of the chains that were found may be meant: rules that compare the chains of one topic with the best of them.

| rule | a chain stays if |
|---|---|
| coverage | it reaches at least half as many answers as the best |
| type | its last relation is one that nearly as many of the answers have |
| precision | the F1 of all its ends, taken as the answer, is at least 0.8 of the best |
| words | its relations are nearly as close to the question's words as the closest |

The best always stays, so no rule leaves a topic without a chain. The values were chosen on training questions of
metaqa and pq-3h: a gold chain is lost in one of a hundred questions (docs/guides/paths.md). Knows no graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kgwalk.training.paths.measure import Measured

COVERAGE = 0.5
TYPE = 0.9
PRECISION = 0.8
WORDS = 0.25  # cosine of MiniLM, or the likeness of letters without it

Rule = Callable[[Sequence[Measured]], list[Measured]]


def coverage(chains: Sequence[Measured]) -> list[Measured]:
    return _share(chains, lambda one: one.coverage, COVERAGE)


def type_(chains: Sequence[Measured]) -> list[Measured]:
    return _share(chains, lambda one: one.typed, TYPE)


def precision(chains: Sequence[Measured]) -> list[Measured]:
    return _share(chains, lambda one: one.f1, PRECISION)


def words(chains: Sequence[Measured]) -> list[Measured]:
    best = max((one.near for one in chains), default=0.0)
    return [one for one in chains if one.near >= best - WORDS]


# in this order; each sees what those before it left
RULES: dict[str, Rule] = {"coverage": coverage, "type": type_, "precision": precision, "words": words}


def _share(chains: Sequence[Measured], value: Callable[[Measured], float], share: float) -> list[Measured]:
    least = share * max(map(value, chains), default=0.0)
    return [one for one in chains if value(one) >= least - 1e-9]
