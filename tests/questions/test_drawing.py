"""Draws from a graph: a cache with the same answers as the graph, within a bound, that keeps no graph open."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import store_of
from kgwalk.kg.store import StoredGraph
from kgwalk.questions import drawing
from kgwalk.questions.drawing import CachedGraph, WalkSampler
from kgwalk.questions.plan import MakeSettings
from kgwalk.types import UnknownEntity

HUB = [("Hub", "leads_to", f"Town {number}") for number in range(9)]
DATED = [("Ann", "visited", town, date) for town in ("Rome", "Oslo") for date in ("2001", "2002")]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> StoredGraph:
    return store_of(tmp_path_factory.mktemp("hub"), [*HUB, ("Town 1", "near", "Town 2")])


ASKED = st.tuples(
    st.sampled_from(["Hub", "Town 1", "Town 2"]),
    st.sampled_from(["leads_to", "near"]),
    st.booleans(),
    st.sampled_from([None, 1, 3, 8, 9, 100]),
)


@given(st.lists(ASKED, max_size=12))
def test_whatever_was_asked_before_the_answers_are_the_graphs(
    hub: StoredGraph, asked: list[tuple[str, str, bool, int | None]]
) -> None:
    near = CachedGraph(hub)
    for entity, relation, out, limit in asked:
        assert near.neighbors(entity, relation, out=out, limit=limit) == hub.neighbors(
            entity, relation, out=out, limit=limit
        )
        assert near.relations(entity, out=out) == hub.relations(entity, out=out)


def test_what_is_remembered_is_not_looked_up_again(hub: StoredGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "AT_LEAST", 4)
    near = CachedGraph(hub)
    few = near.neighbors("Hub", "leads_to", limit=3)
    assert (len(few.names), few.total, near.held) == (3, 9, 5)  # four were looked up
    assert near.neighbors("Hub", "leads_to", limit=2).names == few.names[:2]
    assert near.held == 5
    whole = near.neighbors("Hub", "leads_to")
    assert (len(whole.names), near.held) == (9, 10)  # the four are counted once
    assert near.neighbors("Hub", "leads_to", limit=100) is whole  # all that there are


def test_what_is_held_is_bounded(hub: StoredGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "HELD", 20)
    near = CachedGraph(hub)
    for number in range(9):  # each time two answers of one name: the relation, and the hub
        near.relations(f"Town {number}", out=False)
        near.neighbors(f"Town {number}", "leads_to", out=False)
        assert near.held <= 20
    near.neighbors("Hub", "leads_to")
    monkeypatch.setattr(drawing, "LONGEST", 5)
    longer = CachedGraph(hub)
    assert len(longer.neighbors("Hub", "leads_to").names) == 9
    assert longer.held == 0  # too long to be kept


def test_dates_come_along(tmp_path: Path) -> None:
    near = CachedGraph(store_of(tmp_path, DATED))
    assert near.neighbors("Ann", "visited").times == [["2001", "2002"], ["2001", "2002"]]
    assert near.neighbors("Ann", "visited", limit=1).times == [["2001", "2002"]]


def test_a_name_that_is_not_there_is_an_error_each_time(hub: StoredGraph) -> None:
    near = CachedGraph(hub)
    for _ in range(2):
        with pytest.raises(UnknownEntity):
            near.relations("Nobody")


def test_a_graph_that_was_drawn_from_can_go(tmp_path: Path) -> None:
    """At once, without anybody looking for garbage: random worlds are many, and each has its files open."""
    graph = store_of(tmp_path, [*HUB, ("Town 1", "near", "Town 2")])
    sampler = WalkSampler(graph, MakeSettings())
    sampler.path(1)
    sampler.alike(sampler.first_ways[0], sampler.first_ways[-1])
    gone = weakref.ref(graph.store)
    gc.disable()
    try:
        del sampler, graph
        assert gone() is None
    finally:
        gc.enable()


ROWS = [
    ("e1", "student", "Ann"),
    ("e1", "course", "Algebra"),
    ("e2", "student", "Ann"),
    ("e2", "course", "Botany"),
    ("e3", "student", "Bob"),
    ("e3", "course", "Algebra"),
]


def test_a_walk_over_rows_ends_at_the_other_thing_of_the_row(tmp_path: Path) -> None:
    sampler = WalkSampler(store_of(tmp_path, ROWS), MakeSettings(seed=3))
    walks = {sampler.over_rows() for _ in range(40)}
    ends = {(walk.topic, walk.end) for walk in walks if walk is not None}
    assert None not in walks
    takes = {("Ann", "Algebra"), ("Ann", "Botany"), ("Bob", "Algebra")}
    assert ends == takes | {(course, student) for student, course in takes}
    assert {tuple(way.out for way in walk.ways) for walk in walks if walk is not None} == {(False, True)}


def test_of_walks_over_rows_those_with_words_are_taken(tmp_path: Path) -> None:
    facts = [*ROWS, *((f"e{number}", "room", "Hall") for number in (1, 2, 3))]
    sampler = WalkSampler(store_of(tmp_path, facts), MakeSettings(seed=3))
    sampler.says_as_one = lambda ways: [way.relation for way in ways] == ["student", "course"]
    found = [sampler.over_rows() for _ in range(60)]
    spoken = [walk for walk in found if walk is not None and sampler.says_as_one(walk.ways)]
    assert len(spoken) > len(found) / 2


def test_a_graph_without_rows_has_no_walk_over_them(tmp_path: Path) -> None:
    sampler = WalkSampler(store_of(tmp_path, HUB), MakeSettings(seed=3))
    assert sampler.over_rows() is None
