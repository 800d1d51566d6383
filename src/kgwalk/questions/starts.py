"""Where a relation can be followed from: for each way, the entities that have it, and draws among them.

Entities are numbered with the most mentioned first, so a draw that leans to small numbers leans to the better known.
Knows nothing of questions.
"""

from __future__ import annotations

import random

import numpy as np

from kgwalk.kg.csr import I64
from kgwalk.kg.store import StoredGraph
from kgwalk.questions.recent import remember
from kgwalk.tools.facts import Way

COMPARED = 2000  # entities of a way that are compared with those of another


class Starts:
    """One pass over the facts of a graph or a view; then every draw is a few lookups."""

    def __init__(self, graph: StoredGraph) -> None:
        store = graph.store
        heads_E, relations_E, tails_E = graph.facts_by_number()
        self._entities = max(1, len(store.entity))
        self._name = store.entity.__getitem__
        self._number = {store.relation_name(number): number for number in np.unique(relations_E).tolist()}
        self._pairs = tuple(np.unique(relations_E * self._entities + ends) for ends in (tails_E, heads_E))
        self._all, self._heads = np.unique(np.concatenate((heads_E, tails_E))), np.unique(heads_E)
        self.ways = [Way(relation, out) for relation in self._number for out in (True, False)]
        self._spans: dict[Way, tuple[int, int]] = {}  # of each way, where its entities are among the pairs
        self._likeness: dict[tuple[Way, Way], float] = {}
        self._in_both: dict[str, I64] = {}

    def of(self, way: Way) -> I64:
        """The numbers of the entities that have the way, ascending."""
        low, high = self._span(way)
        found: I64 = self._pairs[way.out][low:high] - self._number[way.relation] * self._entities
        return found

    def _span(self, way: Way) -> tuple[int, int]:
        found = self._spans.get(way)
        if found is None:
            first = self._number[way.relation] * self._entities
            low, high = np.searchsorted(self._pairs[way.out], [first, first + self._entities]).tolist()
            found = self._spans[way] = (low, high)
        return found

    def draw(self, way: Way, chance: random.Random, known: float, *, both: bool = False) -> str:
        """One of them: u ** (1 + known) of the way down the list, so 0 draws them all alike.

        With `both`, one that has the relation in the other direction too, where there are such.
        """
        if both and len(some := self.both(way.relation)):
            return self._name(int(some[int(len(some) * chance.random() ** (1 + known))]))
        low, high = self._span(way)
        pair = int(self._pairs[way.out][low + int((high - low) * chance.random() ** (1 + known))])
        return self._name(pair % self._entities)

    def anyone(self, chance: random.Random, known: float, *, told_of: bool = False) -> str:
        """An entity of the graph, whatever ways it has; drawn as one of a way's is. `told_of`: a head of facts."""
        some = self._heads if told_of else self._all
        return self._name(int(some[int(len(some) * chance.random() ** (1 + known))]))

    def both(self, relation: str) -> I64:
        """The numbers of the entities that a relation leaves and enters: who reports to one, and has a boss too."""
        found = self._in_both.get(relation)
        if found is None:
            heads, tails = self.of(Way(relation, True)), self.of(Way(relation, False))
            found = remember(self._in_both, relation, np.intersect1d(heads, tails, assume_unique=True))
        return found

    def alike(self, one: Way, two: Way) -> float:
        """How many of the entities that two ways lead to are the same, as a share of the smaller set."""
        found = self._likeness.get((one, two))
        return remember(self._likeness, (one, two), self._alike(one, two)) if found is None else found

    def _alike(self, one: Way, two: Way) -> float:
        ends = [self.of(Way(way.relation, not way.out)) for way in (one, two)]
        small, large = sorted(ends, key=len)
        sample = small[:: max(1, len(small) // COMPARED)]
        places = np.minimum(np.searchsorted(large, sample), len(large) - 1)  # both are ascending
        return float((large[places] == sample).mean()) if len(sample) else 0.0
