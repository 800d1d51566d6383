"""A graph with a few facts more, learnt while walking it. The graph itself stays as it is.

Answers what a walk along relations asks; looking for names is the graph's own affair. Knows nothing of where the facts
come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from kgwalk.kg.graph import Graph
from kgwalk.types import Found, Neighbors, Triple, UnknownName


class Learned:
    """`add` facts and they are there, after those of the graph. They have no dates: a time window has none of them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.facts: dict[Triple, None] = {}  # in the order of learning

    def add(self, fact: Triple) -> None:
        self.facts[fact] = None

    def __contains__(self, entity: object) -> bool:
        return entity in self.graph or any(entity in (fact.head, fact.tail) for fact in self.facts)

    def has_relation(self, relation: str) -> bool:
        return self.graph.has_relation(relation) or any(fact.relation == relation for fact in self.facts)

    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        more = {fact.relation for fact in self.facts if entity == (fact.head if out else fact.tail)}
        if more and entity not in self.graph:
            return sorted(more)
        return sorted({*self.graph.relations(entity, out=out), *more})

    def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
        ends = ((head, tail) if out else (tail, head) for head, r, tail, _ in self.facts if r == relation)
        learnt = [other for here, other in ends if here == entity]
        try:
            found = self.graph.neighbors(entity, relation, out=out)
        except UnknownName:
            if not learnt:
                raise
            return Neighbors(learnt[:limit], len(learnt))
        names = list(dict.fromkeys([*found.names, *learnt]))
        times = None if found.times is None else [*found.times, *([""] for _ in names[len(found.names) :])]
        return Neighbors(names[:limit], len(names), None if times is None else times[:limit])

    def match(
        self, head: str | None = None, relation: str | None = None, tail: str | None = None, *, limit: int | None = None
    ) -> Iterator[Triple]:
        wanted = (head, relation, tail)
        more = (fact for fact in self.facts if all(w is None or w == g for w, g in zip(wanted, fact, strict=False)))
        return islice(chain(self.graph.match(head, relation, tail), more), limit)

    def find(self, text: str, k: int = 5) -> list[Found]:
        return self.graph.find(text, k)

    def find_relation(self, text: str, k: int = 5) -> list[Found]:
        return self.graph.find_relation(text, k)

    def __getattr__(self, name: str) -> Any:
        """What else the graph can do, such as time windows."""
        return getattr(self.graph, name)
