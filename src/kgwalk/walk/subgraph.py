"""The part of a graph around a question's topics that fits into a prompt.

Explore-on-Graph puts the graph into the prompt and does not say how it is cut to size. Here facts are gathered hop by
hop (a hub shows only so many of each relation), scored, and taken best first, each with the facts that connect it to a
topic, until the room is used. There are two scores by name: `relevance`, how near the fact's relation is to the
question, and `pagerank`, how often a random walk from the topics takes the fact. Only relations and neighbours are
asked of the graph, so a view hides what it hides; over a network that is a request for each entity and relation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from kgwalk.kg.graph import Graph
from kgwalk.llm.embeddings import Embedder
from kgwalk.types import Triple
from kgwalk.walk.facts import DirectedRelation, Neighbour, directed_relations, facts_along
from kgwalk.walk.ranking import scores
from kgwalk.walk.tagged_text import quote

# Personalised PageRank


F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

RESTART = 0.15  # the usual value: 1 - the damping factor 0.85
CLOSE = 1e-10  # of the mass that still moves: 132 rounds at RESTART are always enough


def pagerank(nodes: int, edges: Sequence[tuple[int, int]], starts: Sequence[int], restart: float = RESTART) -> F64:
    """How often a walker is at each node, who follows random edges and now and then starts anew: shares of 1.

    Edges are walked both ways, parallel ones count each. Exact, by power iteration, so a caller gives the neighbourhood
    of the starts and never a whole graph.

    p = restart s + (1 - restart) W p, where s is even over the starts and W moves a node's share evenly over its edges.
    A line 0 - 1 - 2, from 0, restart 1/2:

        p0 = 1/2 + 1/2 (p1/2)    p1 = 1/2 (p0 + p2)    p2 = 1/2 (p1/2)    ->    7/12, 4/12, 1/12

    >>> [round(12 * share, 6) for share in pagerank(3, [(0, 1), (1, 2)], [0], 0.5).tolist()]
    [7.0, 4.0, 1.0]

    A node without edges keeps what it has: alone, a start has everything.

    >>> pagerank(1, [], [0]).tolist()
    [1.0]
    """
    ends_E2: I64 = np.asarray(edges, np.int64).reshape(-1, 2)
    source_M = np.concatenate([ends_E2[:, 0], ends_E2[:, 1]])  # M: moves, two for each edge
    target_M = np.concatenate([ends_E2[:, 1], ends_E2[:, 0]])
    degree_N = np.bincount(source_M, minlength=nodes).astype(np.float64)
    alone_N = degree_N == 0
    start_N = np.bincount(np.asarray(starts, np.int64), minlength=nodes) / max(1, len(starts))
    share_N: F64 = start_N.copy()
    while True:
        each_N = share_N / np.maximum(degree_N, 1)
        moved_N = np.bincount(target_M, weights=each_N[source_M], minlength=nodes).astype(np.float64)
        moved_N[alone_N] += share_N[alone_N]
        fresh_N = restart * start_N + (1 - restart) * moved_N
        if np.abs(fresh_N - share_N).sum() <= CLOSE:
            return fresh_N
        share_N = fresh_N


def edge_flows(nodes: int, edges: Sequence[tuple[int, int]], share_N: F64) -> F64:
    """How often each edge is taken, in either direction: p(u) / degree(u) + p(v) / degree(v).

    In the line above 7/12 + 4/24 = 9/12 and 4/24 + 1/12 = 3/12.

    >>> line = [(0, 1), (1, 2)]
    >>> [round(12 * flow, 6) for flow in edge_flows(3, line, pagerank(3, line, [0], 0.5)).tolist()]
    [9.0, 3.0]
    """
    ends_E2: I64 = np.asarray(edges, np.int64).reshape(-1, 2)
    each_N = share_N / np.maximum(np.bincount(ends_E2.ravel(), minlength=nodes), 1)
    flows_E: F64 = each_N[ends_E2[:, 0]] + each_N[ends_E2[:, 1]]
    return flows_E


SELECT = ("relevance", "pagerank")
ENTITIES_AT_ONCE = 64  # whose relations are scored together
# The room is as good as used when so many facts in a row, taken with their connections, did not fit.
MISFITS = 32


@dataclass(frozen=True, slots=True)
class Reached:
    """A fact at some distance from the topics. `via` is the place of the fact that led to it; None beside a topic."""

    fact: Neighbour
    hop: int
    score: float
    via: int | None


@dataclass
class Frontier:
    """Facts in the order in which they were met."""

    graph: Graph
    question: str
    embedder: Embedder | None
    hub: int
    most: int
    reached: list[Reached] = field(default_factory=list)
    _relation_score: dict[str, float] = field(default_factory=dict)
    _known: set[Triple] = field(default_factory=set)

    def grow(self, topics: Sequence[str], hops: int) -> list[Reached]:
        came: dict[str, int | None] = dict.fromkeys(topic for topic in topics if topic in self.graph)
        frontier = list(came)
        for hop in range(1, hops + 1):
            first = len(self.reached)
            for start in range(0, len(frontier), ENTITIES_AT_ONCE):
                for entity, along in self._relevant(frontier[start : start + ENTITIES_AT_ONCE]).items():
                    self._add(entity, along, hop, came[entity])
                    if len(self.reached) >= self.most:
                        return self.reached[: self.most]
            best_first = sorted(range(first, len(self.reached)), key=lambda at: -self.reached[at].score)
            frontier = [
                other for at in best_first if came.setdefault(other := self.reached[at].fact.other, at) == at
            ]  # each entity once, by the most relevant fact that leads there
        return self.reached

    def _relevant(self, entities: Sequence[str]) -> dict[str, list[DirectedRelation]]:
        """The relations of each entity, the most relevant first."""
        found = {entity: directed_relations(self.graph, entity) for entity in entities}
        score = self._relation_score
        fresh = list(dict.fromkeys(way.relation for along in found.values() for way in along))
        fresh = [relation for relation in fresh if relation not in score]
        score.update(zip(fresh, scores(self.question, fresh, self.embedder).tolist(), strict=True))
        return {entity: sorted(along, key=lambda way: -score[way.relation]) for entity, along in found.items()}

    def _add(self, entity: str, along: Sequence[DirectedRelation], hop: int, via: int | None) -> None:
        for fact in facts_along(self.graph, entity, along, self.hub)[0]:
            if fact.triple not in self._known:
                self._known.add(fact.triple)
                self.reached.append(Reached(fact, hop, self._relation_score[fact.triple.relation], via))


def by_walks(reached: Sequence[Reached], topics: Sequence[str]) -> list[Reached]:
    """The same facts, scored by how often a random walk that starts anew at the topics takes them."""
    number: dict[str, int] = {}
    edges = [
        (number.setdefault(one.fact.triple.head, len(number)), number.setdefault(one.fact.triple.tail, len(number)))
        for one in reached
    ]
    starts = [number[topic] for topic in topics if topic in number]
    flows = edge_flows(len(number), edges, pagerank(len(number), edges, starts)).tolist()
    return [replace(one, score=flow) for one, flow in zip(reached, flows, strict=True)]


def scored_facts(
    graph: Graph,
    topics: Sequence[str],
    question: str,
    *,
    select: str = "relevance",
    embedder: Embedder | None = None,
    hops: int = 2,
    hub: int = 20,
    most: int = 5000,
) -> list[Reached]:
    """The facts around the topics with their scores, in the order in which they were met."""
    if select == "relevance":
        return Frontier(graph, question, embedder, hub, most).grow(topics, hops)
    return by_walks(Frontier(graph, "", None, hub, most).grow(topics, hops), topics)


def choose(reached: Sequence[Reached], room: int, cost: Callable[[Neighbour], int]) -> list[Reached]:
    """The most relevant facts, each with those that connect it to a topic, at no more than `room` in all."""
    taken: dict[int, None] = {}
    misfits = 0
    for at in sorted(range(len(reached)), key=lambda at: (-reached[at].score, at)):
        chain: list[int] = []
        step: int | None = at
        while step is not None and step not in taken:
            chain.append(step)
            step = reached[step].via
        price = sum(cost(reached[place].fact) for place in chain)
        if price <= room:
            room -= price
            taken.update(dict.fromkeys(reversed(chain)))
            misfits = 0
        elif (misfits := misfits + 1) >= MISFITS:
            break
    return [reached[at] for at in taken]


def write_subgraph(chosen: Sequence[Reached]) -> str:
    """The facts as JSON, one a line: by distance from the topics, then the most relevant first."""
    ordered = sorted(chosen, key=lambda one: (one.hop, -one.score))
    return "[" + ",\n".join(write_row(one.fact) for one in ordered) + "]"


def write_row(fact: Neighbour) -> str:
    """
    >>> write_row(Neighbour(Triple("Iran", "visit", "Japan"), "Japan", ("2005-05",)))
    '["Iran", "visit", "Japan", "2005-05"]'
    """
    parts = [*fact.triple[:3], *(["; ".join(fact.dates)] if fact.dates else [])]
    return f"[{', '.join(map(quote, parts))}]"


def subgraph_text(
    graph: Graph,
    topics: Sequence[str],
    question: str,
    *,
    room: int,
    count: Callable[[str], int],
    select: str = "relevance",
    embedder: Embedder | None = None,
    hops: int = 2,
    hub: int = 20,
    most: int = 5000,
) -> tuple[str, list[Triple]]:
    """The text of the subgraph within `room` tokens, as `count` counts them, and the facts in it."""
    reached = scored_facts(graph, topics, question, select=select, embedder=embedder, hops=hops, hub=hub, most=most)
    chosen = choose(reached, room - count("[]"), lambda fact: count(write_row(fact) + ",\n"))
    text = write_subgraph(chosen)
    while chosen and count(text) > room:  # a tokenizer may need more for the whole than for its parts
        chosen.pop()  # connections were taken before what they connect
        text = write_subgraph(chosen)
    return text, [one.fact.triple for one in chosen]
