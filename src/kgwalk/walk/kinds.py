"""Kinds: all countries, our suppliers. A walk can start from all of a kind, where a question names no entity.

A graph says in three ways what kind a thing is: by a relation of types (`rdf:type`, `is_a`, `instance of`), whose
values are the kinds; by the tables it was built from; and by its relations (what `country` leads to are countries,
what has a `capital` has one). `kinds_of` lists them all, once a graph; `walk/linking.py` finds them in a question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from kgwalk.kg.graph import Graph
from kgwalk.types import Triple, UnknownName

# Names of relations whose values are kinds, as sources write them, without case and signs
TYPE_RELATIONS = (
    "rdf:type",
    "type",
    "a",
    "is a",
    "isa",
    "instance of",
    "instanceof",
    "kind",
    "category",
    "class",
)
OF_TYPE, HEADS, TAILS = "type", "heads", "tails"


@dataclass(frozen=True, slots=True)
class Kind:
    """All things of a kind. `how` says what makes them so: the value of a relation of types (OF_TYPE), that they have
    a relation (HEADS), or that it leads to them (TAILS).
    """

    name: str
    how: str
    relation: str
    value: str = ""  # of OF_TYPE: the entity that is the kind

    def members(self, graph: Graph) -> Iterable[str]:
        """In the order of the graph, each once."""
        if self.how == OF_TYPE:
            try:
                return list(graph.neighbors(self.value, self.relation, out=False).names)
            except UnknownName:
                return []
        return list(dict.fromkeys(self._ends(graph)))

    def _ends(self, graph: Graph) -> Iterator[str]:
        for fact in graph.match(relation=self.relation):
            yield fact.head if self.how == HEADS else fact.tail

    def fact(self, graph: Graph, name: str) -> Triple | None:
        """A fact by which a thing is of this kind."""
        pattern = {
            OF_TYPE: (name, self.relation, self.value),
            HEADS: (name, self.relation, None),
            TAILS: (None, self.relation, name),
        }[self.how]
        return next(iter(islice(graph.match(*pattern), 1)), None)
