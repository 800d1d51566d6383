"""The candidates of an expansion: all entities a fact away, in both directions, with the facts that lead there.

Knows no question: which of them matter is for a ranker to say.
"""

from __future__ import annotations

from collections.abc import Iterable

from kgwalk.kg.graph import Graph
from kgwalk.tools.facts import Fact, facts_along, ways
from kgwalk.tools.rank import Candidate


def candidates_around(graph: Graph, entity: str, each: int) -> list[Candidate]:
    """At most `each` of one relation and direction, the best connected first; in the graph's order."""
    return candidates_of(facts_along(graph, entity, ways(graph, entity), each)[0])


def candidates_of(facts: Iterable[Fact]) -> list[Candidate]:
    """Facts grouped by the entity that they lead to."""
    leading: dict[str, list[Fact]] = {}
    for fact in facts:
        leading.setdefault(fact.other, []).append(fact)
    return [Candidate(name, tuple(fact.triple for fact in there)) for name, there in leading.items()]
