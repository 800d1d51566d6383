"""Which relations of a graph say the same from the other end: `children` and `parents`, a symmetric one and itself.

Someone who asks for the children of X means `children`, where X has it, and not who has X for a parent; a graph that
lacks facts gives other answers for the second. So a plan goes backwards only where no such relation goes forwards.
Found by the facts alone; knows no names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import numpy as np

from kgwalk.kg.store import StoredGraph

COMPARED = 500  # facts of a relation, at most
# The share of facts, of either relation, that the other has turned round: PathQuestion's graph, which lacks many, has
# 0.31 of `parents` in `children` and 0.28 the other way.
MUTUAL = 0.25
# The smaller of the two shares over the larger: every `captain` of a club `plays_for` it, but few who do are captains.
EVEN = 0.6


class Inverses:
    """One pass over the facts of a graph or a view."""

    def __init__(self, graph: StoredGraph) -> None:
        store = graph.store
        heads_E, relations_E, tails_E = graph.facts_by_number()
        entities = max(1, len(store.entity))
        by_pair = np.argsort(heads_E * entities + tails_E, kind="stable")
        pairs_E, relation_of_pair_E = (heads_E * entities + tails_E)[by_pair], relations_E[by_pair]
        by_relation = np.argsort(relations_E, kind="stable")
        present, first, counts = np.unique(relations_E[by_relation], return_index=True, return_counts=True)
        share: dict[int, dict[int, float]] = {}  # of the facts of one, those that another has turned round
        for number, start, count in zip(present.tolist(), first.tolist(), counts.tolist(), strict=True):
            facts = by_relation[start : start + count : max(1, count // COMPARED)]
            turned = tails_E[facts] * entities + heads_E[facts]
            low, high = np.searchsorted(pairs_E, turned), np.searchsorted(pairs_E, turned, "right")
            found = Counter(
                other
                for begin, end in zip(low.tolist(), high.tolist(), strict=True)
                for other in set(relation_of_pair_E[begin:end].tolist())
            )
            share[number] = {other: times / len(facts) for other, times in found.items()}
        self._of: dict[str, frozenset[str]] = {}
        for number, others in share.items():
            mutual = [other for other, much in others.items() if _mutual(much, share[other].get(number, 0.0))]
            if mutual:
                self._of[store.relation_name(number)] = frozenset(map(store.relation_name, mutual))

    def of(self, relation: str) -> frozenset[str]:
        """The relations that say the same from the other end; a symmetric one is its own."""
        return self._of.get(relation, frozenset())

    def said_forwards(self, relation: str, leaving: Collection[str]) -> bool:
        """Whether one of the relations that leave here says what this one says backwards."""
        return not self.of(relation).isdisjoint(leaving)


def _mutual(one: float, two: float) -> bool:
    """
    >>> _mutual(0.31, 0.28), _mutual(1.0, 0.33), _mutual(0.1, 0.1)
    (True, False, False)
    """
    return min(one, two) >= MUTUAL and min(one, two) >= EVEN * max(one, two)
