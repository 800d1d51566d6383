"""All chains of relations between a topic and some answers: breadth first from both ends until they meet.

    Tom Hanks <-star- Big -director-> Penny Marshall      the chain (star backwards, director forwards)

Whichever end has fewer facts to look at takes the next hop. The hop in the middle follows each relation from the side
where it is rarer: a film with the genre Drama has one genre, Drama has ten thousand films. So a hub is listed only
where the other side is larger still, and no path is lost by a cap on hubs. A path may meet an entity again (the parents
of his children), but no step undoes the one before it: from a film by its actors to other films, not to itself. Used
for routes of demonstrations, and by `kgwalk paths`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from kgwalk.kg.graph import Graph
from kgwalk.types import Triple
from kgwalk.walk.facts import Chain, DirectedRelation, directed_relations

MOST = 300_000  # facts looked at for one hop; beyond that the search stops short, and says so
CALL = 16  # asking for another entity costs as much as listing so many names

Ways = tuple[DirectedRelation, ...]
Level = dict[Ways, dict[str, list[str]]]  # by part of a chain: its entities, each with those it was reached from
Meeting = tuple[
    str, DirectedRelation | None, str
]  # the two ends of the fact in the middle; None: the parts meet at one entity


@dataclass(frozen=True, slots=True)
class FoundChain:
    """`answers` are those that the chain reaches; `paths` lead to the first few of them, one to each."""

    chain: Chain
    answers: tuple[str, ...]
    paths: tuple[tuple[Triple, ...], ...]


@dataclass(frozen=True, slots=True)
class PathSearch:
    """`whole` is False where a hop would have looked at more than MOST facts: longer chains may be missing."""

    chains: list[FoundChain]
    whole: bool


def search(edges: EdgeSource, topic: str, answers: Iterable[str], hops: int, *, paths: int = 3) -> PathSearch:
    """The chains of at most `hops` relations; those that reach most answers first, then the shortest.

    >>> films = FactEdges([Triple("Big", "star", "Tom Hanks"), Triple("Big", "director", "Penny Marshall")])
    >>> [found.chain.ways for found in search(films, "Tom Hanks", ["Penny Marshall"], 2).chains]
    [(DirectedRelation(relation='star', out=False), DirectedRelation(relation='director', out=True))]
    """
    there = [answer for answer in dict.fromkeys(answers) if answer in edges]
    if topic not in edges or not there:
        return PathSearch([], True)
    both = _BothEnds(edges, _Side([topic], True), _Side(there, False))
    chains = []
    for ways, meetings in both.meet(hops).items():
        to = _paths(both, ways, meetings)
        reached = tuple(answer for answer in there if answer in to)
        if reached:
            shown = tuple(to[answer] for answer in reached[:paths])
            chains.append(FoundChain(Chain(topic, ways), reached, shown))
    chains.sort(key=lambda one: (-len(one.answers), len(one.chain.ways), one.chain.ways))
    return PathSearch(chains, both.whole)


class _Side:
    """What was reached from one end. `levels[n]` are chains of n relations, always written from topic to answer."""

    def __init__(self, starts: Iterable[str], forward: bool) -> None:
        self.forward = forward
        self.levels: list[Level] = [{(): {start: [] for start in starts}}]

    @property
    def frontier(self) -> set[str]:
        return {entity for entities in self.levels[-1].values() for entity in entities}

    def expand(self, edges: EdgeSource) -> None:
        level: Level = {}
        for ways, entities in self.levels[-1].items():
            for entity in entities:
                for way in edges.ways(entity):
                    longer = (*ways, way) if self.forward else (reverse(way), *ways)
                    reached = level.setdefault(longer, {})
                    for other in edges.others(entity, way):
                        reached.setdefault(other, []).append(entity)
        self.levels.append(level)

    def walks(self, ways: Ways, entity: str) -> Iterator[list[str]]:
        """The walks by this chain from the topic to an entity, or from it to an answer, as lists of entities."""
        if not ways:
            yield [entity]
            return
        shorter = ways[:-1] if self.forward else ways[1:]
        for nearer in self.levels[len(ways)][ways][entity]:
            for walk in self.walks(shorter, nearer):
                yield [*walk, entity] if self.forward else [entity, *walk]


@dataclass
class _BothEnds:
    edges: EdgeSource
    topic: _Side
    answers: _Side
    whole: bool = True
    meetings: dict[Ways, dict[Meeting, tuple[Ways, Ways]]] = field(default_factory=dict)

    def meet(self, hops: int) -> dict[Ways, dict[Meeting, tuple[Ways, Ways]]]:
        """Where the two parts of each chain meet."""
        while self._hops < hops - 1 and self._expand_cheaper():
            pass
        far = len(self.topic.levels) - 1
        for length in range(1, min(self._hops, hops) + 1):
            self._at_entities(min(far, length), max(0, length - far))
        if self._hops < hops:
            self._in_the_middle()
        return self.meetings

    @property
    def _hops(self) -> int:
        return len(self.topic.levels) + len(self.answers.levels) - 2

    def _expand_cheaper(self) -> bool:
        few, many = sorted((self.topic, self.answers), key=lambda side: len(side.frontier))
        side, cost = few, _cost(self.edges, few.frontier)
        if cost > CALL * len(many.frontier):  # else the other side cannot be cheaper
            other = _cost(self.edges, many.frontier)
            side, cost = min((few, cost), (many, other), key=lambda pair: pair[1])
        if cost > MOST:
            self.whole = False
            return False
        side.expand(self.edges)
        return True

    def _at_entities(self, first: int, last: int) -> None:
        ends = _chains_by_entity(self.answers.levels[last])
        for left, entities in self.topic.levels[first].items():
            for entity in entities:
                self._add_all([left], None, ends.get(entity, []), entity, entity)

    def _in_the_middle(self) -> None:
        """The hop between the two frontiers: of each relation, from the side that has fewer of its facts."""
        starts, ends = _chains_by_entity(self.topic.levels[-1]), _chains_by_entity(self.answers.levels[-1])
        forward = len(starts) <= len(ends)
        few, many = (starts, ends) if forward else (ends, starts)
        for way, sources in _by_way(self.edges, few).items():
            cost, turned = sum(sources.values()), False
            if cost > CALL * len(many):
                totals = {entity: self.edges.total(entity, reverse(way)) for entity in many}
                if sum(totals.values()) < cost:
                    sources, cost, turned = {entity: total for entity, total in totals.items() if total}, 0, True
                    cost = sum(sources.values())
            if cost > MOST:
                self.whole = False
                continue
            step = way if forward else reverse(way)  # as walked from topic to answer
            from_starts = forward != turned
            for entity in sources:
                for other in self.edges.others(entity, step if from_starts else reverse(step)):
                    one, two = (entity, other) if from_starts else (other, entity)
                    if one in starts and two in ends:
                        self._add_all(starts[one], step, ends[two], one, two)

    def _add_all(
        self, lefts: Sequence[Ways], way: DirectedRelation | None, rights: Sequence[Ways], one: str, two: str
    ) -> None:
        for left in lefts:
            for right in rights:
                self._add(left, way, right, one, two)

    def _add(self, left: Ways, way: DirectedRelation | None, right: Ways, one: str, two: str) -> None:
        whole = (*left, *right) if way is None else (*left, way, *right)
        self.meetings.setdefault(whole, {})[one, way, two] = left, right


def _paths(both: _BothEnds, ways: Ways, meetings: dict[Meeting, tuple[Ways, Ways]]) -> dict[str, tuple[Triple, ...]]:
    """A path to each answer that the chain reaches without undoing a step; if possible without repeated entities."""
    found: dict[str, tuple[Triple, ...]] = {}
    simple: set[str] = set()
    for (one, way, two), (left, right) in meetings.items():
        for after in both.answers.walks(right, two):
            answer = after[-1]
            for before in both.topic.walks(left, one) if answer not in simple else ():
                walk = [*before, *after] if way is not None else [*before, *after[1:]]
                path = tuple(fact(*step) for step in zip(walk, ways, walk[1:], strict=False))
                if len(set(walk)) == len(walk):
                    found[answer] = path
                    simple.add(answer)
                    break
                if answer not in found and not _takes_back(path, ways):
                    found[answer] = path
    return found


def _takes_back(path: Sequence[Triple], ways: Ways) -> bool:
    return any(one == two and ways[at] != ways[at + 1] for at, (one, two) in enumerate(pairwise(path)))


def _cost(edges: EdgeSource, entities: Iterable[str]) -> int:
    return sum(edges.total(entity, way) for entity in entities for way in edges.ways(entity))


def _chains_by_entity(level: Level) -> dict[str, list[Ways]]:
    found: dict[str, list[Ways]] = {}
    for ways, entities in level.items():
        for entity in entities:
            found.setdefault(entity, []).append(ways)
    return found


def _by_way(edges: EdgeSource, entities: Iterable[str]) -> dict[DirectedRelation, dict[str, int]]:
    """For each directed relation the entities that have it, and how many each leads to."""
    found: dict[DirectedRelation, dict[str, int]] = {}
    for entity in entities:
        for way in edges.ways(entity):
            found.setdefault(way, {})[entity] = edges.total(entity, way)
    return found


# Edges of a graph, or of a list of facts


class EdgeSource(Protocol):
    def __contains__(self, entity: object) -> bool: ...

    def ways(self, entity: str) -> list[DirectedRelation]:
        """The entity's relations in both directions."""
        ...

    def total(self, entity: str, way: DirectedRelation) -> int:
        """How many entities a directed relation leads to, without listing them."""
        ...

    def others(self, entity: str, way: DirectedRelation) -> list[str]:
        """The entities that it leads to; none where the entity lacks the relation."""
        ...


class GraphEdges:
    """Edges of a graph. Every answer is kept, also of hubs, so make one for each question or for a few."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._ways: dict[str, list[DirectedRelation]] = {}
        self._total: dict[tuple[str, DirectedRelation], int] = {}
        self._others: dict[tuple[str, DirectedRelation], list[str]] = {}

    def __contains__(self, entity: object) -> bool:
        return entity in self.graph

    def ways(self, entity: str) -> list[DirectedRelation]:
        if entity not in self._ways:
            self._ways[entity] = directed_relations(self.graph, entity)
        return self._ways[entity]

    def total(self, entity: str, way: DirectedRelation) -> int:
        key = entity, way
        if key not in self._total:
            self._total[key] = self.graph.neighbors(entity, way.relation, out=way.out, limit=0).total
        return self._total[key]

    def others(self, entity: str, way: DirectedRelation) -> list[str]:
        key = entity, way
        if key not in self._others:
            self._others[key] = self.graph.neighbors(entity, way.relation, out=way.out).names
        return self._others[key]


class FactEdges:
    """Edges of some facts.

    >>> edges = FactEdges([Triple("Big", "star", "Tom Hanks")])
    >>> edges.ways("Tom Hanks"), edges.others("Tom Hanks", DirectedRelation("star", False))
    ([DirectedRelation(relation='star', out=False)], ['Big'])
    """

    def __init__(self, facts: Iterable[Triple]) -> None:
        self._around: dict[str, dict[DirectedRelation, dict[str, None]]] = {}
        for head, relation, tail, _ in facts:
            self._around.setdefault(head, {}).setdefault(DirectedRelation(relation, True), {})[tail] = None
            self._around.setdefault(tail, {}).setdefault(DirectedRelation(relation, False), {})[head] = None

    def __contains__(self, entity: object) -> bool:
        return entity in self._around

    def ways(self, entity: str) -> list[DirectedRelation]:
        return list(self._around.get(entity, ()))

    def total(self, entity: str, way: DirectedRelation) -> int:
        return len(self.others(entity, way))

    def others(self, entity: str, way: DirectedRelation) -> list[str]:
        return list(self._around.get(entity, {}).get(way, ()))


def reverse(way: DirectedRelation) -> DirectedRelation:
    """The same relation in the other direction."""
    return DirectedRelation(way.relation, not way.out)


def fact(entity: str, way: DirectedRelation, other: str) -> Triple:
    """The fact of a step, in the graph's own direction."""
    return Triple(entity, way.relation, other) if way.out else Triple(other, way.relation, entity)
