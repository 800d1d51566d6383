"""Shortest paths: how two entities are connected, by facts that are followed in either direction.

    found = shortest_paths(graph, "Tom Hanks", "Chicago")
    found.hops, next(found.paths())      3, [(Cast Away, starred_actors, Tom Hanks), (Cast Away, directed_by, ...), ...]

The search goes from both ends at once, a hop at a time and from the smaller side, until the sides meet. So all shortest
paths are found, and no others. A hub has more neighbours than anyone can look at: of one relation `each` are followed,
of all together `most`, and `cut` says that something was left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kgwalk.kg.graph import Graph
from kgwalk.types import Triple
from kgwalk.walk.facts import directed_relations, facts_along

HOPS = 4
EACH = 1_000  # neighbours of an entity by one relation
MOST = 200_000  # neighbours in all


@dataclass(slots=True)
class _Side:
    """What is reached from one end: how many hops away, and by which facts from the hop before."""

    edge: list[str]  # reached by the last hop
    hops: dict[str, int]
    came: dict[str, list[tuple[Triple, str]]] = field(default_factory=dict)  # a fact, and its end nearer to the start
    far: int = 0

    def back(self, name: str) -> Iterator[list[Triple]]:
        """Every way from the end of this side to the name."""
        if self.hops[name] == 0:
            yield []
            return
        for fact, before in self.came[name]:
            for way in self.back(before):
                yield [*way, fact]


@dataclass(slots=True)
class ShortestPaths:
    """`hops` is how long the shortest paths are; None where there is none within the limits."""

    hops: int | None = None
    cut: bool = False
    _sides: tuple[_Side, _Side] | None = None
    _met: list[str] = field(default_factory=list)

    def paths(self) -> Iterator[list[Triple]]:
        """The shortest paths, each from the first entity to the second, in a fixed order."""
        if self._sides is None:
            return
        here, there = self._sides
        for name in self._met:
            for one in here.back(name):
                for other in there.back(name):
                    yield [*one, *reversed(other)]


def shortest_paths(
    graph: Graph,
    start: str,
    end: str,
    *,
    hops: int = HOPS,
    passes: Callable[[str], bool] = lambda name: True,
    each: int = EACH,
    most: int = MOST,
) -> ShortestPaths:
    """The shortest paths of at most so many hops. One leads on from an entity only if `passes` says so: two countries
    are not connected by the number of their regions. Raises UnknownEntity.
    """
    here, there = _Side([start], {start: 0}), _Side([end], {end: 0})
    for name in (start, end):
        directed_relations(graph, name)  # which raises where the name is not there
    found = ShortestPaths()
    if start == end:
        return ShortestPaths(0, False, (here, there), [start])
    while here.far + there.far < hops and here.edge and there.edge and most > 0:
        side, other = (here, there) if len(here.edge) <= len(there.edge) else (there, here)
        side.far += 1
        reached: dict[str, None] = {}
        for name in side.edge:
            if most <= 0:
                found.cut = True
                break
            along = directed_relations(graph, name)
            facts, total = facts_along(graph, name, along, each)
            found.cut |= total > len(facts)
            most -= len(facts)
            for fact in facts:
                if side.hops.setdefault(fact.other, side.far) == side.far:
                    reached[fact.other] = None
                    side.came.setdefault(fact.other, []).append((fact.triple, name))
        met = [name for name in reached if name in other.hops and (name in (start, end) or passes(name))]
        if met:
            return ShortestPaths(here.far + there.far, found.cut, (here, there), met)
        side.edge = [name for name in reached if passes(name)]
    return found
