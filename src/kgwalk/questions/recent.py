"""A graph that remembers what it was asked lately: draws ask for the same neighbours and relations again and again.

    near = Recent(graph)
    near.neighbors("Toy Story", "directed_by")  # looked up
    near.neighbors("Toy Story", "directed_by")  # remembered

Answers are shared, so nobody may change one. What is held is bounded, however large the graph. Knows no questions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from kgwalk.kg.store import StoredGraph
from kgwalk.types import Found, Neighbors, Triple

HELD = 300_000  # names in all, some 50 MB with what holds them; then all is forgotten
AT_LEAST = 200  # names that are looked up, if fewer are asked for: soon more of them will be
LONGEST = 2000  # names of one answer; a longer one is looked up each time
REMEMBERED = 1 << 14  # things of one kind that are remembered; then all are forgotten

Key = TypeVar("Key")
Value = TypeVar("Value")


def remember(known: dict[Key, Value], key: Key, value: Value) -> Value:
    """The value, which is known from now on. (An `lru_cache` over a method of its owner would be a circle, and keep the
    files of a graph open until somebody looks for garbage.)
    """
    if len(known) >= REMEMBERED:
        known.clear()
    known[key] = value
    return value


class Recent:
    def __init__(self, graph: StoredGraph) -> None:
        self._graph, self.between = graph, graph.between
        self._near: dict[tuple[str, str, bool], Neighbors] = {}
        self._relations: dict[tuple[str, bool], list[str]] = {}
        self.held = 0

    def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
        key = (entity, relation, out)
        found = self._near.get(key)
        if found is None or (len(found.names) < found.total and (limit is None or limit > len(found.names))):
            most = None if limit is None else max(limit, AT_LEAST)
            found = self._graph.neighbors(entity, relation, out=out, limit=most)
            if len(found.names) > LONGEST:
                return found
            self._hold(len(found.names) - (len(self._near[key].names) + 1 if key in self._near else 0))
            self._near[key] = found
        if limit is None or limit >= len(found.names):
            return found
        return Neighbors(found.names[:limit], found.total, None if found.times is None else found.times[:limit])

    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        key = (entity, out)
        found = self._relations.get(key)
        if found is None:
            found = self._graph.relations(entity, out=out)
            self._hold(len(found))
            self._relations[key] = found
        return found

    def _hold(self, names: int) -> None:
        self.held += names + 1
        if self.held > HELD:
            self._near.clear()
            self._relations.clear()
            self.held = names + 1

    # What is not asked for often

    def __contains__(self, entity: object) -> bool:
        return entity in self._graph

    def has_relation(self, relation: str) -> bool:
        return self._graph.has_relation(relation)

    def match(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        limit: int | None = None,
    ) -> Iterator[Triple]:
        return self._graph.match(head, relation, tail, limit=limit)

    def find(self, text: str, k: int = 5) -> list[Found]:
        return self._graph.find(text, k)

    def find_relation(self, text: str, k: int = 5) -> list[Found]:
        return self._graph.find_relation(text, k)
