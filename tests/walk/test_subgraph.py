"""Which facts stay in Explore-on-Graph's prompt: personalised PageRank beside relevance, checked by hand."""

from __future__ import annotations

import doctest
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgwalk.config.recipe import load_recipe
from kgwalk.kg.store import StoredGraph
from kgwalk.systems.eog.protocol import Eog
from kgwalk.types import KgwalkError, Question, Triple
from kgwalk.walk import subgraph as ranking
from kgwalk.walk.policy import protocol_of
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.subgraph import SELECT, edge_flows, pagerank, scored_facts, subgraph_text

Stores = Callable[..., StoredGraph]


def dense(nodes: int, edges: list[tuple[int, int]], starts: list[int], restart: float) -> np.ndarray:
    """The same equation, solved as a linear system."""
    moves_NN = np.zeros((nodes, nodes))
    for one, two in edges:
        moves_NN[two, one] += 1
        moves_NN[one, two] += 1
    degree_N = moves_NN.sum(axis=0)
    moves_NN[:, degree_N > 0] /= degree_N[degree_N > 0]
    moves_NN[np.diag_indices(nodes)] += degree_N == 0
    start_N = np.bincount(starts, minlength=nodes) / len(starts)
    return np.linalg.solve(np.eye(nodes) - (1 - restart) * moves_NN, restart * start_N)


def test_the_docstrings_are_right() -> None:
    assert doctest.testmod(ranking).failed == 0


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12),
    st.lists(st.integers(0, 5), min_size=1, max_size=3),
    st.sampled_from([0.15, 0.5, 0.9]),
)
def test_power_iteration_is_the_dense_solution(edges: list[tuple[int, int]], starts: list[int], restart: float) -> None:
    share = pagerank(6, edges, starts, restart)
    assert share == pytest.approx(dense(6, edges, starts, restart), abs=1e-8)
    assert share.sum() == pytest.approx(1)


def test_a_star_by_hand() -> None:
    """From the centre of a star with four leaves, restart 1/2: half of the time is spent moving out, so

    p(centre) = 1/2 + 1/2 p(leaves), p(leaves) = 1/2 p(centre): 2/3 and 1/3, a twelfth for each leaf.
    An edge is taken from the centre (2/3 / 4) and from its leaf (1/12): 1/4 each.
    """
    star = [(0, leaf) for leaf in range(1, 5)]
    share = pagerank(5, star, [0], 0.5)
    assert share == pytest.approx([2 / 3, *[1 / 12] * 4])
    assert edge_flows(5, star, share) == pytest.approx([1 / 4] * 4)


# Two chains of two facts from the topic, one of them through a hub of many facts.
HUB = [("topic", "near", "small"), ("small", "next", "end"), ("topic", "near", "hub")]
HUB += [("hub", "holds", f"thing {number}") for number in range(15)]


def test_walks_prefer_what_few_facts_lead_to(store: Stores) -> None:
    """Whoever comes to `small` goes on to `end` half of the time; to a thing of the hub, one time in sixteen."""
    reached = scored_facts(store(HUB), ["topic"], "?", select="pagerank")
    score = {one.fact.triple: one.score for one in reached}
    assert score[Triple("small", "next", "end")] > 3 * score[Triple("hub", "holds", "thing 1")]
    _, facts = subgraph_text(store(HUB), ["topic"], "what does it hold?", room=90, count=len, select="pagerank")
    assert set(facts) == {Triple(*fact) for fact in HUB[:3]}, "three facts have room, none of them the hub's"


@pytest.mark.parametrize("select", SELECT)
def test_either_way_facts_stay_connected_and_within_the_room(select: str, store: Stores) -> None:
    for room in (2, 40, 80, 200, 2000):
        text, facts = subgraph_text(
            store(HUB), ["topic"], "what does the hub hold?", room=room, count=len, select=select
        )
        assert len(text) <= room
        met = {"topic"}
        for fact in facts:
            assert met & {fact.head, fact.tail}
            met |= {fact.head, fact.tail}
        assert room < 2000 or len(facts) == len(HUB)
    assert subgraph_text(store(HUB), ["nobody"], "?", room=99, count=len, select=select) == ("[]", [])


def test_no_more_is_asked_of_the_graph_than_the_neighbourhood(store: Stores) -> None:
    """A hundred facts further on are never touched: two hops from the topic there are three."""
    far = [("end", "on", "on 1"), *((f"on {n}", "on", f"on {n + 1}") for n in range(1, 100))]
    asked: list[str] = []
    graph = store([*HUB[:2], *far])

    class Watched:
        def __contains__(self, name: object) -> bool:
            return name in graph

        def relations(self, entity: str, *, out: bool = True) -> list[str]:
            asked.append(entity)
            return graph.relations(entity, out=out)

        def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> object:
            return graph.neighbors(entity, relation, out=out, limit=limit)

    reached = scored_facts(Watched(), ["topic"], "?", select="pagerank")  # type: ignore[arg-type]
    assert len(reached) == 2
    assert set(asked) == {"topic", "small"}


def test_the_recipe_names_the_selection(store: Stores) -> None:
    assert protocol_of(load_recipe("eog").with_values(['protocol.select="pagerank"'])).select == "pagerank"  # type: ignore[attr-defined]
    with pytest.raises(KgwalkError, match="did you mean `pagerank`"):
        protocol_of(load_recipe("eog").with_values(['protocol.select="pageranks"']))
    task = Task(Question("q", "what does the hub hold?", ["topic"], ["thing 3"]), ["topic"])
    prompts = {
        select: Eog(select=select, graph_tokens=90).begin(task, Environment(store(HUB)), len).prompt()[1].content
        for select in SELECT
    }
    assert prompts["relevance"] != prompts["pagerank"]
    assert "holds" in prompts["relevance"]
    assert "holds" not in prompts["pagerank"]
