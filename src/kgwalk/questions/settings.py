"""What kinds of questions are made, and how many of each. Knows no graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgwalk.agent.protocols.kgwalk import Kgwalk
from kgwalk.config.recipe import unknown
from kgwalk.questions.plan import (
    CHAIN,
    COMPARISON,
    COUNT,
    DIFFERENCE,
    INTERSECTION,
    PATTERNS,
    SUPERLATIVE,
    TIME,
    UNION,
)
from kgwalk.types import KgwalkError

MOST_HOPS = {CHAIN: 4, INTERSECTION: 3, UNION: 2, DIFFERENCE: 2, COUNT: 3, SUPERLATIVE: 3, COMPARISON: 3, TIME: 2}
SIZES = ("1", "2-5", "6-20", "more")  # of answers; of a count, of what is counted
_SHARES = {CHAIN: 0.51, INTERSECTION: 0.15, UNION: 0.03, DIFFERENCE: 0.05, COUNT: 0.06, SUPERLATIVE: 0.07}


def size_of(count: int) -> str:
    """
    >>> [size_of(count) for count in (1, 2, 5, 6, 21)]
    ['1', '2-5', '2-5', '6-20', 'more']
    """
    return SIZES[(count > 1) + (count > 5) + (count > 20)]


@dataclass(frozen=True)
class MakeSettings:
    """Shares are relative to each other; what a graph cannot give goes to the patterns that it can."""

    count: int = 5000
    seed: int = 0
    name: str = "made"  # questions are name-00001, name-00002, ...
    patterns: Mapping[str, float] = field(default_factory=lambda: {**_SHARES, COMPARISON: 0.06, TIME: 0.07})
    hops: Mapping[int, float] = field(default_factory=lambda: {1: 0.25, 2: 0.35, 3: 0.3, 4: 0.1})
    sizes: Mapping[str, float] = field(default_factory=lambda: dict(zip(SIZES, (0.4, 0.3, 0.2, 0.1), strict=True)))
    most_answers: int = 100
    most_members: int = 2000  # of a set on the way
    most_onward: int = 150  # of a set that a walk goes on from, or chooses from by a value
    known: float = 0.5  # the pull towards entities with many facts; 0 draws them all alike
    # the share of topics, of relations between things of one kind, that have it in both directions: "who reports to X?"
    # can be walked either way, and only the words tell which is meant
    either: float = 0.8
    loops: float = 0.35  # of longer chains drawn; many come to nothing: the other films of a film's director
    literal_topics: bool = False  # whether numbers, dates and ids may be what a question is about
    shown: int = Kgwalk.relations  # a relation further down the list around a set is not asked for: nobody sees it

    def __post_init__(self) -> None:
        for pattern in self.patterns:
            if pattern not in PATTERNS:
                raise unknown("pattern", pattern, PATTERNS)
        if not self.patterns:
            raise KgwalkError(f"no pattern is given; there are {', '.join(PATTERNS)}")
        if not self.hops or not set(self.hops) <= {1, 2, 3, 4}:
            raise KgwalkError(f"hops {', '.join(map(str, self.hops)) or 'not given'}: give some of 1 to 4")
        shares = [*self.patterns.values(), *self.hops.values(), *self.sizes.values()]
        if min(shares) < 0 or self.count < 1:
            raise KgwalkError("shares are 0 or more, and the count at least 1")

    def cells(self) -> dict[tuple[str, int], float]:
        """The share of each pattern at each number of hops; together 1.

        Chains have the shares of hops. Other patterns have more to say than their hops, so of these each number of hops
        has its share divided by the number.
        """
        shares: dict[tuple[str, int], float] = {}
        for pattern, share in self.patterns.items():
            hops = {number: one for number, one in self.hops.items() if number <= MOST_HOPS[pattern] and one}
            hops = hops if pattern == CHAIN else {number: one / number for number, one in hops.items()}
            for number, one in hops.items():
                shares[pattern, number] = share * one / sum(hops.values())
        total = sum(shares.values())
        if not total:
            raise KgwalkError(
                f"no pattern among {', '.join(self.patterns)} has {' or '.join(map(str, self.hops))} hops"
            )
        return {cell: share / total for cell, share in shares.items() if share}
