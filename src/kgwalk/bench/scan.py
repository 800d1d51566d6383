"""The slow graph: a plain list of triples, read from end to end for every question.

This is how the published KG-R1 server keeps its graphs, so it is the baseline of `kgwalk bench kg`; and since
it can hardly be wrong, property tests compare every other graph with it. It has no index, no views, no file.

One difference from a store: neighbours come in the order of their names, not most connected first. Compare
them as sets, or without a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import islice

from kgwalk.kg.normalise import normalise
from kgwalk.types import Found, Neighbors, Triple, UnknownEntity, UnknownRelation


class ScanGraph:
    """A Graph over (head, relation, tail[, time]) tuples; a repeated fact counts once."""

    def __init__(self, triples: Iterable[tuple[str, ...]]) -> None:
        self.triples = list(dict.fromkeys(Triple(*fact) for fact in triples))
        self._dated = any(fact.time for fact in self.triples)

    def __contains__(self, entity: object) -> bool:
        return any(entity == fact.head or entity == fact.tail for fact in self.triples)

    def has_relation(self, relation: str) -> bool:
        return any(relation == fact.relation for fact in self.triples)

    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        self._check(entity)
        return sorted({fact.relation for fact in self.triples if entity == (fact.head if out else fact.tail)})

    def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
        self._check(entity, relation)
        dates: dict[str, set[str]] = {}
        for fact in self.triples:
            near, far = (fact.head, fact.tail) if out else (fact.tail, fact.head)
            if near == entity and fact.relation == relation:
                dates.setdefault(far, set()).update([fact.time] if fact.time else [])
        names = sorted(dates)[:limit]
        return Neighbors(names, len(dates), [sorted(dates[name]) for name in names] if self._dated else None)

    def match(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        limit: int | None = None,
    ) -> Iterator[Triple]:
        """Facts in the order they were given. A name that is not in the graph fits nothing."""
        return islice((fact for fact in self.triples if _fits(fact, head, relation, tail)), limit)

    def find(self, text: str, k: int = 5) -> list[Found]:
        return _nearest(text, {name for fact in self.triples for name in (fact.head, fact.tail)}, k)

    def find_relation(self, text: str, k: int = 5) -> list[Found]:
        return _nearest(text, {fact.relation for fact in self.triples}, k)

    def _check(self, entity: str, relation: str | None = None) -> None:
        if entity not in self:
            raise UnknownEntity(entity)
        if relation is not None and not self.has_relation(relation):
            raise UnknownRelation(relation)


def _fits(fact: Triple, head: str | None, relation: str | None, tail: str | None) -> bool:
    return head in (None, fact.head) and relation in (None, fact.relation) and tail in (None, fact.tail)


def _nearest(text: str, names: set[str], k: int) -> list[Found]:
    found = [_compare(text, name) for name in names]
    order = {"exact": 0, "normalised": 1, "fuzzy": 2}
    return sorted((one for one in found if one.score > 0), key=lambda one: (order[one.how], -one.score, one.name))[:k]


def _compare(text: str, name: str) -> Found:
    if name == text:
        return Found(name, 1.0, "exact")
    left, right = normalise(text), normalise(name)
    if left == right:
        return Found(name, 1.0, "normalised")
    return Found(name, SequenceMatcher(None, left, right, autojunk=False).ratio(), "fuzzy")
