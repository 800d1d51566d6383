"""Routes: from a question's program, its gold paths or its evidence, and by search."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from conftest import FILMS, store_of
from kgwalk.demos.route import (
    RouteBuilder,
    route_from_evidence,
    route_from_gold,
    route_from_program,
    route_from_search,
    with_distractor,
)
from kgwalk.kg.store import StoredGraph
from kgwalk.types import Call, Question, Triple

HANKS = Question(
    "hanks",
    "Who directed the films that Tom Hanks starred in?",
    ["Tom Hanks"],
    ["Penny Marshall", "Robert Zemeckis"],
    hops=2,
    gold_paths=[
        [Triple("Big", "starred_actors", "Tom Hanks"), Triple("Big", "directed_by", "Penny Marshall")],
        [Triple("Cast Away", "starred_actors", "Tom Hanks"), Triple("Cast Away", "directed_by", "Robert Zemeckis")],
    ],
)


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> StoredGraph:
    return store_of(tmp_path_factory.mktemp("films"), FILMS)


def test_a_route_from_gold_paths(films: StoredGraph) -> None:
    route = route_from_gold(RouteBuilder(HANKS, films))
    assert route is not None
    assert route.steps == (Call("head_entities", (1, "starred_actors")), Call("tail_entities", (2, "directed_by")))
    assert (route.f1, route.hops, route.topics) == (1.0, 2, ("Tom Hanks",))
    assert set(route.walk(films).made[-1].members) == set(HANKS.answers)


def test_where_a_walk_comes_back_to_its_topic_that_is_left_out(films: StoredGraph) -> None:
    path = [Triple("Cast Away", "directed_by", "Robert Zemeckis"), Triple("Contact", "directed_by", "Robert Zemeckis")]
    question = Question("q", "what else did its director make?", ["Cast Away"], ["Contact"], gold_paths=[path])
    route = route_from_gold(RouteBuilder(question, films))
    assert route is not None
    assert route.steps[-1] == Call("minus", (3, 1))
    assert route.f1 == 1


def test_two_topics_are_two_conditions(films: StoredGraph) -> None:
    question = Question(
        "q",
        "which film has both?",
        ["Tom Hanks", "Robert Zemeckis"],
        ["Cast Away"],
        gold_paths=[
            [Triple("Cast Away", "starred_actors", "Tom Hanks")],
            [Triple("Cast Away", "directed_by", "Robert Zemeckis")],
        ],
    )
    for route in (route_from_gold(RouteBuilder(question, films)), route_from_search(RouteBuilder(question, films), 2)):
        assert route is not None
        assert route.steps[-1] == Call("intersect", (3, 4))
        assert (route.f1, route.hops) == (1.0, 1)


def test_paths_of_one_topic_are_united(store: Callable[..., StoredGraph]) -> None:
    graph = store([("a", "wrote", "b"), ("c", "written_by", "a"), ("a", "likes", "d")])
    paths = [[Triple("a", "wrote", "b")], [Triple("c", "written_by", "a")]]
    question = Question("q", "what did a write?", ["a"], ["b", "c"], gold_paths=paths)
    route = route_from_gold(RouteBuilder(question, graph))
    assert route is not None
    assert route.steps[-1] == Call("union", (2, 3))
    assert route.f1 == 1


def test_a_route_by_search_where_no_path_is_given(films: StoredGraph) -> None:
    question = replace(HANKS, gold_paths=None)
    assert route_from_gold(RouteBuilder(question, films)) is None
    route = route_from_search(RouteBuilder(question, films), 2)
    assert route is not None
    assert route.steps == (Call("head_entities", (1, "starred_actors")), Call("tail_entities", (2, "directed_by")))
    assert route_from_search(RouteBuilder(question, films), 1) is None
    unknown = replace(question, answers=["Nobody"])
    assert route_from_search(RouteBuilder(unknown, films), 3) is None


def test_evidence_says_which_facts_matter(store: Callable[..., StoredGraph]) -> None:
    graph = store([("x", "leads", "y"), ("x", "near", "y"), ("x", "near", "z")])
    question = Question("q", "near?", ["x"], ["y"], evidence=[Triple("x", "near", "y")])
    by_evidence, by_search = (
        route_from_evidence(RouteBuilder(question, graph), 2),
        route_from_search(RouteBuilder(question, graph), 2),
    )
    assert by_evidence is not None
    assert by_search is not None
    assert by_evidence.steps == (Call("tail_entities", (1, "near")),)
    assert by_search.steps == (Call("tail_entities", (1, "leads")),)  # the better F1, by accident


def test_a_program_that_does_not_run_is_no_route(films: StoredGraph) -> None:
    for program in (
        [["nonsense", "$1"]],
        [["tail_entities", "$1"]],
        [["tail_entities", "$9", "x"]],
        [["tail_entities", "$1", "no_such"]],
        "text",
        [],
    ):
        question = replace(HANKS, extra={"program": program})
        assert route_from_program(RouteBuilder(question, films)) is None
    question = replace(HANKS, extra={"program": [["head_entities", "$1", "starred_actors"], ["count", "$2"]]})
    route = route_from_program(RouteBuilder(replace(question, answers=["2"]), films))
    assert route is not None
    assert (route.f1, route.hops) == (1.0, 1)


def test_a_start_that_is_not_needed_moves_the_numbers_and_not_the_answer(store: Callable[..., StoredGraph]) -> None:
    graph = store(
        [("Ann", "wrote", "Dune"), ("Bob", "wrote", "Emma"), ("Ann", "edited", "Emma"), ("Cy", "read", "Emma")]
    )
    program = [["tail_entities", "$1", "wrote"], ["tail_entities", "$1", "edited"], ["union", "$2", "$3"]]
    question = Question("q", "what did Ann write or edit?", ["Ann"], ["Dune", "Emma"], extra={"program": program})
    seen = set()
    for seed in range(40):
        more = with_distractor(question, graph, random.Random(seed))
        builder = RouteBuilder(more, graph, full=True)
        route = route_from_program(builder)
        assert route is not None
        assert route.f1 == 1
        assert sorted(builder.members(len(builder.sets.made))) == ["Dune", "Emma"]
        seen.add((more.topic_entities.index("Ann"), len(more.topic_entities), len(more.extra.get("kinds", []))))
    assert {(0, 2, 0), (1, 2, 0), (0, 1, 1)} <= seen  # after Ann, before her, and a kind


def test_all_of_a_kind_has_no_other_start(store: Callable[..., StoredGraph]) -> None:
    graph = store([("Rex", "is_a", "dog"), ("Tom", "is_a", "cat")])
    question = Question("q", "all dogs", [], ["Rex"], extra={"program": [], "kinds": ["dog"]})
    assert all(with_distractor(question, graph, random.Random(seed)) is question for seed in range(9))
