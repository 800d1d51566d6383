"""Whether an entity is of the kind that stands on one side of a relation, as far as a graph shows.

A graph says what a thing is by the relations it takes part in, so that set is its kind here. It is compared with the
kinds of entities that stand on this side of the relation already. Knows no names of types, and no texts.
"""

from __future__ import annotations

import re
from itertools import combinations

from kgwalk.kg.graph import Graph
from kgwalk.tools.facts import Way, ways
from kgwalk.types import Triple

SAMPLE = 30  # facts of a relation that are looked at
BY_WRITING = 0.5  # at most, where an end has no other fact and only its writing can be compared
UNTOLD = 0.5  # where the ends of a relation have nothing in common, their kinds tell nothing
ONE_VALUE = 0.95  # of the sampled heads have a single tail: then the relation has one value

Kind = frozenset[Way]


class Fit:
    """Fits over one graph, or one view of it; it must not have the facts that are judged."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._sampled: dict[str, list[Triple]] = {}
        self._kinds: dict[str, Kind] = {}
        self._ends: dict[tuple[str, Way], float] = {}
        self._cohesion: dict[Way, float] = {}

    def of(self, triple: Triple) -> float:
        """That of its worse end."""
        return min(self.end(triple.head, triple.relation, out=True), self.end(triple.tail, triple.relation, out=False))

    def end(self, entity: str, relation: str, *, out: bool) -> float:
        """From 0 to 1, as head (`out`) or as tail: is it as like those that stand there as they are like each other?

        1 if it stands there in another fact; 0 for a relation without a fact. Else the mean of `alike` over those that
        do, divided by the mean of `alike` among them, and at most 1. The relation itself is not counted. In a graph
        with nine relations two films share nearly all, in one with thousands two persons share few, and both fit.
        """
        way = Way(relation, out)
        if (entity, way) not in self._ends:
            self._ends[entity, way] = self._end(entity, way)
        return self._ends[entity, way]

    def _end(self, entity: str, way: Way) -> float:
        kind = self._kind(entity)
        if way in kind:
            return 1.0
        others = self._others(way)
        if not others:
            return 0.0
        among = self._among(way)
        if among == 0:
            return UNTOLD
        likeness = sum(alike(entity, kind, other, other_kind) for other, other_kind in others.items()) / len(others)
        return round(min(likeness / among, 1.0 if kind else BY_WRITING), 4)

    def _others(self, way: Way) -> dict[str, Kind]:
        """The entities of a sample that stand on this side, with their kinds."""
        ends = dict.fromkeys(fact.head if way.out else fact.tail for fact in self._facts(way.relation))
        return {entity: self._kind(entity) - {way} for entity in ends}

    def _among(self, way: Way) -> float:
        """How alike those are: the mean over all pairs; 1 for a single one."""
        if way not in self._cohesion:
            pairs = [alike(*one, *other) for one, other in combinations(self._others(way).items(), 2)]
            self._cohesion[way] = sum(pairs) / len(pairs) if pairs else 1.0
        return self._cohesion[way]

    def taken(self, triple: Triple) -> bool:
        """Whether the graph knows another tail, of a relation that has one value for each head."""
        if next(self.graph.match(triple.head, triple.relation, None, limit=1), None) is None:
            return False
        heads = dict.fromkeys(fact.head for fact in self._facts(triple.relation))
        single = sum(self.graph.neighbors(head, triple.relation, limit=1).total == 1 for head in heads)
        return single >= ONE_VALUE * len(heads)

    def _facts(self, relation: str) -> list[Triple]:
        if relation not in self._sampled:
            self._sampled[relation] = list(self.graph.match(None, relation, None, limit=SAMPLE))
        return self._sampled[relation]

    def _kind(self, entity: str) -> Kind:
        if entity not in self._kinds:
            self._kinds[entity] = frozenset(ways(self.graph, entity)) if entity in self.graph else frozenset()
        return self._kinds[entity]


def alike(one: str, kind: Kind, other: str, other_kind: Kind) -> float:
    """How much two kinds overlap: shared relations / those of the smaller set, so that a thing with few facts can fit.

    {country, timezone} and {country, timezone, population}: 2 / 2. {country, timezone} and {borders, timezone}: 1 / 2.
    An entity without other facts is compared by its writing.

    >>> none, small, big = (frozenset(Way(r, True) for r in names.split()) for names in ("", "country", "country area"))
    >>> alike("Moss", small, "Oslo", big), alike("Moss", none, "Oslo", big), alike("+47", none, "Oslo", big)
    (1.0, 0.5, 0.0)
    """
    if kind and other_kind:
        return len(kind & other_kind) / min(len(kind), len(other_kind))
    return BY_WRITING if writing(one) == writing(other) else 0.0


def writing(name: str) -> str:
    """The shape of a value, in which a run of digits is 9 and of capitals A; of anything else, that it is a name.

    >>> writing("+358-18"), writing("51.70"), writing("NOK"), writing(".no"), writing("Oslo"), writing("New York")
    ('+9-9', '9.9', 'A', '.a', 'name', 'name')
    """
    if not re.search(r"\d|^[A-Z]+$|^[^\w\s]", name):
        return "name"
    shape = re.sub(r"\d+", "9", name)
    return re.sub(r"[^\W\d_]+", lambda run: "A" if run.group().isupper() else "a", shape)
