"""Routes by the dates of facts: who held an office in a year, when something began and ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import FILMS, store_of
from kgwalk.demos.dated_route import dates_in, route_from_dates
from kgwalk.demos.route import RouteBuilder
from kgwalk.kg.store import StoredGraph
from kgwalk.types import Call, Question, Triple

FACTS = [
    Triple("Poland", "head of state", "Lech", "2005..2010"),
    Triple("Poland", "head of state", "Bronislaw", "2010..2015"),
    Triple("Gary", "spouse", "Lucille", "1961..1989"),
    Triple("Gary", "spouse", "Susan", "1996..1999"),
    Triple("Gary", "significant event", "retirement", "1989"),
]


@pytest.fixture(scope="module")
def offices(tmp_path_factory: pytest.TempPathFactory) -> StoredGraph:
    return store_of(tmp_path_factory.mktemp("offices"), FACTS)


def route(
    graph: StoredGraph, text: str, topics: list[str], answers: list[str], kind: str = "entity"
) -> tuple[Call, ...]:
    question = Question("q", text, topics, answers, extra={"answer_kind": kind})
    found = route_from_dates(RouteBuilder(question, graph, full=True))
    assert found is not None
    assert found.f1 == 1
    return found.steps


def test_a_year_chooses_among_the_facts_of_a_relation(offices: StoredGraph) -> None:
    steps = route(offices, "who was president of poland in 2009", ["Poland"], ["Lech"])
    assert steps == (Call("between", (1, "head of state", "2009", "2009")),)


def test_a_year_in_which_facts_begin(offices: StoredGraph) -> None:
    """In 2010 both held the office; only one began to."""
    steps = route(offices, "who became head of state in 2010", ["Poland"], ["Bronislaw"])
    began = Call("filter", (2, "start(^head of state in $1)", "=", "2010"))
    assert steps == (Call("tail_entities", (1, "head of state")), began)


def test_when_something_ended_is_told_by_the_fact_between_both(offices: StoredGraph) -> None:
    """The retirement of the same year would do as well, but it has nothing to do with Lucille."""
    steps = route(offices, "when did gary and lucille get divorced", ["Gary", "Lucille"], ["1989"], "time")
    assert steps == (Call("greatest", (1, "end(spouse in $2)")),)


def test_when_something_began(offices: StoredGraph) -> None:
    steps = route(offices, "when did gary marry susan", ["Gary", "Susan"], ["1996"], "time")
    assert steps == (Call("least", (1, "start(spouse in $2)")),)


def test_the_first_and_the_last(offices: StoredGraph) -> None:
    assert route(offices, "gary's last wife", ["Gary"], ["Susan"]) == (Call("latest", (1, "spouse")),)


def test_nothing_without_dates(tmp_path: Path) -> None:
    films = store_of(tmp_path, FILMS)
    asked = Question("q", "what did Tom Hanks star in in 1988", ["Tom Hanks"], ["Big"])
    assert route_from_dates(RouteBuilder(asked, films, full=True)) is None


def test_dates_that_mean_a_year() -> None:
    assert dates_in("nominated, point in time is 2001-0-0") == ["2001"]
