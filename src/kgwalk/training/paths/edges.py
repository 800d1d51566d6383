"""Where facts lead from an entity, for a search: over a graph, or over a list of facts.

Knows nothing of topics, answers or chains.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kgwalk.kg.graph import Graph
from kgwalk.tools.facts import Way, ways
from kgwalk.types import Triple


class Edges(Protocol):
    def __contains__(self, entity: object) -> bool: ...

    def ways(self, entity: str) -> list[Way]:
        """The entity's relations in both directions."""
        ...

    def total(self, entity: str, way: Way) -> int:
        """How many entities the way leads to, told without listing them."""
        ...

    def others(self, entity: str, way: Way) -> list[str]:
        """The entities that the way leads to; none where the entity lacks the relation."""
        ...


class GraphEdges:
    """Edges of a graph. What was asked once is remembered, hubs too: make one for a question, or for a few."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._ways: dict[str, list[Way]] = {}
        self._total: dict[tuple[str, Way], int] = {}
        self._others: dict[tuple[str, Way], list[str]] = {}

    def __contains__(self, entity: object) -> bool:
        return entity in self.graph

    def ways(self, entity: str) -> list[Way]:
        if entity not in self._ways:
            self._ways[entity] = ways(self.graph, entity)
        return self._ways[entity]

    def total(self, entity: str, way: Way) -> int:
        key = entity, way
        if key not in self._total:
            self._total[key] = self.graph.neighbors(entity, way.relation, out=way.out, limit=0).total
        return self._total[key]

    def others(self, entity: str, way: Way) -> list[str]:
        key = entity, way
        if key not in self._others:
            self._others[key] = self.graph.neighbors(entity, way.relation, out=way.out).names
        return self._others[key]


class FactEdges:
    """Edges of some facts.

    >>> edges = FactEdges([Triple("Big", "star", "Tom Hanks")])
    >>> edges.ways("Tom Hanks"), edges.others("Tom Hanks", Way("star", False))
    ([Way(relation='star', out=False)], ['Big'])
    """

    def __init__(self, facts: Iterable[Triple]) -> None:
        self._around: dict[str, dict[Way, dict[str, None]]] = {}
        for head, relation, tail, _ in facts:
            self._around.setdefault(head, {}).setdefault(Way(relation, True), {})[tail] = None
            self._around.setdefault(tail, {}).setdefault(Way(relation, False), {})[head] = None

    def __contains__(self, entity: object) -> bool:
        return entity in self._around

    def ways(self, entity: str) -> list[Way]:
        return list(self._around.get(entity, ()))

    def total(self, entity: str, way: Way) -> int:
        return len(self.others(entity, way))

    def others(self, entity: str, way: Way) -> list[str]:
        return list(self._around.get(entity, {}).get(way, ()))


def back(way: Way) -> Way:
    """The same relation, walked the other way."""
    return Way(way.relation, not way.out)


def fact(entity: str, way: Way, other: str) -> Triple:
    """The fact that a step takes, in the graph's own direction."""
    return Triple(entity, way.relation, other) if way.out else Triple(other, way.relation, entity)
