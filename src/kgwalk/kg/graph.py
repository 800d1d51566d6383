"""The `Graph` protocol: all that an agent, a tool or a server may ask of a knowledge graph.

A store on disk (`store`), a view over it (`views`), a SPARQL endpoint (`sparql`) and another kgwalk server (`http`) all
answer it. Entities and relations are names (strings); a name that is not there raises UnknownEntity or UnknownRelation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from kgwalk.kg.find import LEAST_SCORE, similarity
from kgwalk.kg.names import normalise
from kgwalk.types import Found, Neighbors, Triple, UnknownName, UnknownRelation


@runtime_checkable
class Graph(Protocol):
    """A knowledge graph, asked by names."""

    def __contains__(self, entity: object) -> bool:
        """Whether an entity of this name has a fact here."""
        ...

    def has_relation(self, relation: str) -> bool:
        """Whether any fact here uses the relation."""
        ...

    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        """The distinct relations that leave the entity (`out`) or arrive at it, in alphabetical order."""
        ...

    def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
        """Tails of (entity, relation, ?) if `out`, else heads of (?, relation, entity); at most `limit` names."""
        ...

    def match(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        limit: int | None = None,
    ) -> Iterator[Triple]:
        """Facts that fit the pattern, where None fits anything. A name that is not there fits nothing."""
        ...

    def find(self, text: str, k: int = 5) -> list[Found]:
        """The k entities whose names are nearest to the text, best first."""
        ...

    def find_relation(self, text: str, k: int = 5) -> list[Found]:
        """The k relations whose names are nearest to the text, best first."""
        ...


def with_nearest(graph: Graph, error: UnknownName, k: int = 3) -> UnknownName:
    """The same error with the nearest names in the graph added. Looking for them takes milliseconds."""
    look = graph.find_relation if isinstance(error, UnknownRelation) else graph.find
    return type(error)(error.name, [found.name for found in look(error.name, k)], where=error.where)


def find_among(text: str, names: Sequence[str], k: int) -> list[Found]:
    """The k of a few names that are nearest to the text, best first; equals in the order given, far ones left out.

    It compares with every name: right for relations or a small subgraph. For all entities there is `find.Finder`.
    """
    query = normalise(text)
    plain = [normalise(name) for name in names]
    score_N = similarity(query, plain) if query else np.zeros(len(names))
    exact = [2.0 if name == text else 1.0 if same == query else 0.0 for name, same in zip(names, plain, strict=True)]
    order = np.lexsort((np.arange(len(names)), -score_N, -np.array(exact)))[:k]
    found = [_found(names[at], exact[at], float(score_N[at])) for at in order.tolist()]
    return [one for one in found if one.score >= LEAST_SCORE]


def _found(name: str, exact: float, score: float) -> Found:
    how = {2.0: "exact", 1.0: "normalised"}.get(exact, "fuzzy")
    return Found(name, score if how == "fuzzy" else 1.0, how)
