"""A balance: which drawn questions are taken now, so that no answer size, relation or program has more than its share.

What comes too often waits; if the draws run out before a cell is full, what waited is taken after all. What is taken is
finished first, put into words say, and what cannot be is left out; most of what waits never needs to be.
Knows counts only, no graph.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kgwalk.tools.facts import Way

PER_PROGRAM = 20  # a program's share of its cell is at most one in so many...
LEAST_OF_PROGRAM = 2  # ...but it may always come twice
PER_RELATION = 4  # a relation's share of all relations in questions, in multiples of an even share

Item = TypeVar("Item")


def quotas(shares: Mapping[tuple[str, int], float], count: int) -> dict[tuple[str, int], int]:
    """Whole numbers with a sum of `count`, by largest remainders.

    >>> quotas({("chain", 1): 0.5, ("chain", 2): 0.25, ("count", 1): 0.25}, 5)
    {('chain', 1): 3, ('chain', 2): 1, ('count', 1): 1}
    """
    exact = {cell: share * count / sum(shares.values()) for cell, share in shares.items()}
    whole = {cell: math.floor(value) for cell, value in exact.items()}
    order = sorted(exact, key=lambda cell: whole[cell] - exact[cell])  # stable: the first of equals comes first
    for cell in order[: count - sum(whole.values())]:
        whole[cell] += 1
    return whole


@dataclass
class Shares:
    """What was taken of each relation, over all cells."""

    relations: int
    taken: Counter[str] = field(default_factory=Counter)
    total: int = 0

    def take(self, ways: Sequence[Way]) -> None:
        self.taken.update(way.relation for way in ways)
        self.total += len(ways)

    def over(self, ways: Sequence[Way]) -> bool:
        even = self.total / max(1, self.relations)
        return any(self.taken[way.relation] > PER_RELATION * (even + 1) for way in ways)


@dataclass
class Cell(Generic[Item]):
    """The questions of one pattern and number of hops: `wanted` of them, `sizes` are shares by answer size."""

    wanted: int
    sizes: Mapping[str, float]
    shares: Shares
    finish: Callable[[Item], bool] = lambda item: True
    taken: list[Item] = field(default_factory=list)
    waiting: list[tuple[Item, Sequence[Way]]] = field(default_factory=list)
    offered: int = 0
    _of_size: Counter[str] = field(default_factory=Counter)
    _of_program: Counter[str] = field(default_factory=Counter)

    @property
    def full(self) -> bool:
        return len(self.taken) >= self.wanted

    def enough(self, patience: int) -> bool:
        """Whether so many times what is wanted was offered, and what waits would do."""
        return self.offered >= patience * self.wanted and len(self.taken) + len(self.waiting) >= self.wanted

    def offer(self, item: Item, size: str, program: str, ways: Sequence[Way]) -> bool:
        """Whether it is taken; if not, it waits, unless it cannot be finished."""
        share = self.sizes.get(size, 0.0) / sum(self.sizes.values())
        most_of_program = max(LEAST_OF_PROGRAM, math.ceil(self.wanted / PER_PROGRAM))
        fits = self._of_size[size] < math.ceil(share * self.wanted) and self._of_program[program] < most_of_program
        if not fits or self.shares.over(ways):
            self.offered += 1
            if len(self.waiting) < self.wanted:
                self.waiting.append((item, ways))
            return False
        if not self._take(item, ways):
            return False
        self.offered += 1
        self._of_size[size] += 1
        self._of_program[program] += 1
        return True

    def settle(self) -> None:
        """Take what waited, as far as it is needed, in the order in which it came."""
        tried = 0
        while tried < len(self.waiting) and not self.full:
            self._take(*self.waiting[tried])
            tried += 1
        del self.waiting[:tried]

    def _take(self, item: Item, ways: Sequence[Way]) -> bool:
        if not self.finish(item):
            return False
        self.taken.append(item)
        self.shares.take(ways)
        return True
