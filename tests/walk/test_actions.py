"""The four actions: exact texts, the eight errors of KG-R1's Figure 5 word for word, and what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgwalk.bench.servers import ScanGraph
from kgwalk.kg.graph import Graph
from kgwalk.types import Neighbors, UnknownQuestion
from kgwalk.walk import actions
from kgwalk.walk.actions import ACTIONS, ErrorKind, Result, run, sample_not_found

GRAPH = ScanGraph(
    [
        ("Barack Obama", "people.person.nationality", "United States of America"),
        ("Barack Obama", "people.person.place_of_birth", "Honolulu"),
        ("Barack Obama", "people.person.children", "Malia Obama"),
        ("Barack Obama", "people.person.children", "Natasha Obama"),
        ("James Cameron", "film.director.film", "Titanic"),
    ]
)
DATED = ScanGraph(
    [
        ("Iran", "Engage in negotiation", "Malaysia", "2006-05"),
        ("Iran", "Engage in negotiation", "Malaysia", "2006-07"),
        ("Cambodia", "Engage in negotiation", "Malaysia", "2008-06"),
        ("Peru", "Engage in negotiation", "Malaysia"),
    ]
)


def test_tail_relations() -> None:
    result = run(GRAPH, "get_tail_relations", "Barack Obama")
    assert result.ok
    assert result.items == [
        "people.person.children",
        "people.person.nationality",
        "people.person.place_of_birth",
    ]
    assert (result.total, result.left_out, result.times) == (3, 0, None)
    assert result.text == (
        'Tail relations for entity "Barack Obama": '
        "people.person.children, people.person.nationality, people.person.place_of_birth"
    )


def test_head_relations() -> None:
    result = run(GRAPH, "get_head_relations", "Honolulu")
    assert result.text == 'Head relations for entity "Honolulu": people.person.place_of_birth'


def test_tail_entities() -> None:
    result = run(GRAPH, "get_tail_entities", "Barack Obama", "people.person.children")
    assert result.items == ["Malia Obama", "Natasha Obama"]
    assert result.text == (
        'Tail entities for relation "people.person.children" with head "Barack Obama": Malia Obama, Natasha Obama'
    )


def test_head_entities() -> None:
    result = run(GRAPH, "get_head_entities", "Titanic", "film.director.film")
    assert result.text == 'Head entities for relation "film.director.film" with tail "Titanic": James Cameron'


def test_dates_stand_in_brackets_and_semicolons_separate() -> None:
    result = run(DATED, "get_head_entities", "Malaysia", "Engage in negotiation")
    assert result.times == [["2008-06"], ["2006-05", "2006-07"], []]
    assert result.text == (
        'Head entities for relation "Engage in negotiation" with tail "Malaysia": '
        "Cambodia [2008-06]; Iran [2006-05; 2006-07]; Peru"
    )


def test_a_limit_says_exactly_what_it_left_out() -> None:
    result = run(DATED, "get_head_entities", "Malaysia", "Engage in negotiation", limit=1)
    assert (result.items, result.total, result.left_out) == (["Cambodia"], 3, 2)
    assert result.text.endswith('"Malaysia": Cambodia [2008-06] ... (+2 more)')
    result = run(GRAPH, "get_tail_relations", "Barack Obama", limit=2)
    assert (result.total, result.left_out) == (3, 1)
    assert result.text.endswith("people.person.children, people.person.nationality ... (+1 more)")


@pytest.mark.parametrize("relation_format", ["flat", "hierarchical"])
def test_a_limit_of_nothing_still_counts(relation_format: str) -> None:
    result = run(GRAPH, "get_tail_relations", "Barack Obama", limit=0, relation_format=relation_format)  # type: ignore[arg-type]
    assert result.ok
    assert result.text == 'Tail relations for entity "Barack Obama": ... (+3 more)'


def test_hierarchical_text_is_the_tree_of_table_10() -> None:
    relations = [
        "location.country.first_level_divisions",
        "location.location.containedby",
        "location.location.contains",
        "people.person.nationality",
        "people.person.place_of_birth",
        "government.government.government_for",
        "spouse",
        "a.b.c.d",
        "x..y",
    ]
    assert actions.hierarchical(relations) == (
        "location\n"
        "  country: first_level_divisions\n"
        "  location: containedby, contains\n"
        "people\n"
        "  person: nationality, place_of_birth\n"
        "government\n"
        "  government: government_for\n"
        "spouse, a.b.c.d, x..y"
    )
    result = run(GRAPH, "get_tail_relations", "Barack Obama", relation_format="hierarchical", limit=2)
    assert result.text == (
        'Tail relations for entity "Barack Obama":\npeople\n  person: children, nationality ... (+1 more)'
    )


ERRORS: list[tuple[str, str | None, str | None, ErrorKind, str]] = [
    (
        "get_entity_info",
        "Barack Obama",
        None,
        ErrorKind.INVALID_ACTION,
        'Action "get_entity_info" not available '
        "(use: get_head_relations, get_tail_relations, get_head_entities, get_tail_entities)",
    ),
    (
        "get_tail_entities",
        "Barack Obama",
        None,
        ErrorKind.MISSING_FIELDS,
        "Missing required fields for get_tail_entities: relation_name",
    ),
    (
        "get_head_entities",
        None,
        None,
        ErrorKind.MISSING_FIELDS,
        "Missing required fields for get_head_entities: entity_name, relation_name",
    ),
    (
        "get_head_relations",
        None,
        None,
        ErrorKind.MISSING_FIELDS,
        "Missing required fields for get_head_relations: entity_name",
    ),
    (
        "get_tail_relations",
        "Barack Obama",
        "people.person.children",
        ErrorKind.ARGUMENT_COUNT,
        "get_tail_relations accepts only one entity argument",
    ),
    (
        "get_tail_relations",
        "Barack Obamaa",
        None,
        ErrorKind.ENTITY_NOT_FOUND,
        'Entity "Barack Obamaa" not found in KG',
    ),
    (
        "get_tail_entities",
        "Barack Obama",
        "location.capital",
        ErrorKind.RELATION_NOT_FOUND,
        'Relation "location.capital" not found in KG',
    ),
    (
        "get_tail_relations",
        "Honolulu",
        None,
        ErrorKind.NO_RELATIONS,
        'No tail relations found for entity "Honolulu" in knowledge graph',
    ),
    (
        "get_head_relations",
        "Barack Obama",
        None,
        ErrorKind.NO_RELATIONS,
        'No head relations found for entity "Barack Obama" in knowledge graph',
    ),
    (
        "get_tail_entities",
        "Barack Obama",
        "film.director.film",
        ErrorKind.NO_ENTITIES,
        'No tail entities found for relation "film.director.film" with head "Barack Obama" in knowledge graph',
    ),
    (
        "get_head_entities",
        "Barack Obama",
        "film.director.film",
        ErrorKind.NO_ENTITIES,
        'No head entities found for relation "film.director.film" with tail "Barack Obama" in knowledge graph',
    ),
]


@pytest.mark.parametrize(("action", "entity", "relation", "kind", "message"), ERRORS)
def test_errors(action: str, entity: str | None, relation: str | None, kind: ErrorKind, message: str) -> None:
    result = run(GRAPH, action, entity, relation)
    assert not result.ok
    assert result.error == (kind, message)
    assert result.text == message
    assert (result.items, result.total, result.left_out) == ([], 0, 0)


def test_a_missing_sample() -> None:
    class Late(ScanGraph):
        def relations(self, entity: str, *, out: bool = True) -> list[str]:
            raise UnknownQuestion("sample_12345")

    result = run(Late([]), "get_tail_relations", "x")
    assert result.error == (ErrorKind.SAMPLE_NOT_FOUND, 'Sample "sample_12345" not found in KG')
    assert sample_not_found("get_tail_relations", "x", None, "sample_12345") == result


def test_the_eight_kinds_are_distinct_and_six_codes_cover_them() -> None:
    assert len(ErrorKind) == 8
    assert {kind.code for kind in ErrorKind} == {
        "KG_SERVER_ERROR",
        "KG_FORMAT_ERROR",
        "KG_SAMPLE_NOT_FOUND",
        "KG_ENTITY_NOT_FOUND",
        "KG_RELATION_NOT_FOUND",
        "KG_NO_RESULTS",
    }
    assert len({kind.title for kind in ErrorKind}) == 8


names = st.sampled_from(["a", "b", "c", "d"])


@given(st.lists(st.tuples(names, st.sampled_from("rst"), names)), names, st.sampled_from("rst"))
def test_actions_are_the_sets_of_the_definition(facts: list[tuple[str, str, str]], entity: str, relation: str) -> None:
    graph = ScanGraph(facts)
    assert set(run(graph, "get_tail_relations", entity).items) == {r for h, r, _ in facts if h == entity}
    assert set(run(graph, "get_head_relations", entity).items) == {r for _, r, t in facts if t == entity}
    tails = {t for h, r, t in facts if (h, r) == (entity, relation)}
    assert set(run(graph, "get_tail_entities", entity, relation).items) == tails
    heads = {h for h, r, t in facts if (r, t) == (relation, entity)}
    assert set(run(graph, "get_head_entities", entity, relation).items) == heads


part = st.text("abc_", min_size=1, max_size=4)


@given(st.lists(st.builds("{}.{}.{}".format, part, part, part), unique=True))
def test_the_tree_keeps_every_name(relations: list[str]) -> None:
    back = []
    domain = ""
    for line in actions.hierarchical(relations).splitlines():
        if line.startswith("  "):
            kind, _, props = line.strip().partition(": ")
            back += [f"{domain}.{kind}.{prop}" for prop in props.split(", ")]
        else:
            domain = line
    assert sorted(back) == sorted(relations)


class Instant(ScanGraph):
    """Answers at once, so that what is left is the cost of `run`."""

    found = Neighbors(["x"], 1)
    names: list[str] = ["r"]  # noqa: RUF012

    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        return self.names

    def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
        return self.found


def _median_us(call: Callable[[], object]) -> float:
    def once() -> float:
        start = time.perf_counter()
        for _ in range(200):
            call()
        return (time.perf_counter() - start) / 200 * 1e6

    return sorted(once() for _ in range(25))[12]


def test_run_adds_less_than_five_microseconds() -> None:
    graph: Graph = Instant([])
    for action in ACTIONS.values():
        relation = "r" if action.entities else None

        def whole(name: str = action.name, relation: str | None = relation) -> Result:
            return run(graph, name, "e", relation, limit=50)

        def bare(out: bool = action.out, relation: str | None = relation) -> object:
            if relation is None:
                return graph.relations("e", out=out)
            return graph.neighbors("e", relation, out=out, limit=50)

        assert _median_us(whole) - _median_us(bare) < 5
