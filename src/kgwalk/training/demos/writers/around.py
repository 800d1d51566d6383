"""What is really there around an entity: wrong turns that a walker might take, and where a relation can be seen.

A wrong turn is another relation of the entity, or the right one in the wrong direction. Knows graphs and relations, no
protocol.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from kgwalk.kg.graph import Graph
from kgwalk.tools.facts import Way, ways
from kgwalk.tools.rank import rank
from kgwalk.training.demos.voice import spoken
from kgwalk.types import Neighbors, UnknownName

NEAR = 4  # the wrong relation is one of so many that are nearest to the right one


def wrong_way(
    graph: Graph, entities: Sequence[str], right: Way, answers: Collection[str], chance: random.Random
) -> Way | None:
    """Another relation of the first entity, near in its words, that leads elsewhere; None if there is none.

    Nor does it lead to an answer: that would not be wrong.
    """
    first = entities[0]
    others = [way for way in ways(graph, first) if way.relation != right.relation]
    order = rank(spoken(right.relation), [spoken(way.relation) for way in others])
    near = [others[at] for at in order[:NEAR]]
    chance.shuffle(near)
    target = _ends(graph, first, right)
    for way in near:
        ends = _ends(graph, first, way)
        if ends != target and not any(answer in ends for answer in answers):
            return way
    return None


def turned(graph: Graph, entities: Sequence[str], right: Way) -> Way | None:
    """The same relation in the other direction, where that leads nowhere."""
    other = Way(right.relation, not right.out)
    return None if any(_ends(graph, entity, other) for entity in entities) else other


def has(graph: Graph, entity: str, way: Way) -> bool:
    """Whether the entity has a fact of this relation, in this direction."""
    return bool(_ends(graph, entity, way))


def ends_of(graph: Graph, entity: str, way: Way, limit: int = 20) -> Neighbors:
    """Where the relation leads; nowhere from an entity or by a relation that the graph does not have."""
    try:
        return graph.neighbors(entity, way.relation, out=way.out, limit=limit)
    except UnknownName:
        return Neighbors([], 0)


def with_way(graph: Graph, entities: Sequence[str], way: Way) -> str:
    """The first entity that has the relation, else the first: where a look at its relations shows it."""
    return next((entity for entity in entities if has(graph, entity, way)), entities[0])


def _ends(graph: Graph, entity: str, way: Way) -> set[str]:
    return set(ends_of(graph, entity, way).names)
