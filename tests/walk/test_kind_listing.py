"""The kinds that a prompt lists, and walks that ask for one: read at a glance over an office of nine facts a person."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from conftest import store_of
from kgwalk.demos.filter import DemoSettings
from kgwalk.demos.make import make_demos
from kgwalk.demos.route import RouteBuilder, kind_calls, route_from_program, with_asked_kind
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.systems.kgwalk.protocol import Kgwalk, program, run_program
from kgwalk.types import Call, KgwalkError, Question
from kgwalk.walk.kind_listing import listed_kinds
from kgwalk.walk.kinds import kind_named
from kgwalk.walk.language import Sets
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.queries import query_of
from kgwalk.walk.queries.program import program_of
from kgwalk.walk.rollout import rollout
from kgwalk.walk.sets import SetError
from kgwalk.walk.starts import NoTopic, start_of

OFFICE = [
    ("Ann", "is_a", "employees"),
    ("Bob", "is_a", "employees"),
    ("Ann", "name", "Ann"),
    ("Bob", "name", "Bob"),
    ("Ann", "hired", "2012"),
    ("Bob", "hired", "2009"),
    ("Ann", "city", "Porto"),
    ("Bob", "city", "Lisbon"),
    ("lamp", "is_a", "products"),
    ("lamp", "price", "20"),
    ("lamp", "city", "Porto"),
]
FULL = Kgwalk(language="full", documented=False, kinds=24)
LISTED = 'Kinds, for all("..."): employees (hired, city), products (price, city)'


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> StoredGraph:
    return store_of(tmp_path_factory.mktemp("office"), OFFICE)


def test_a_kind_is_listed_with_what_few_others_have_first(office: StoredGraph) -> None:
    """Both have a city, so that comes last; a name says nothing."""
    assert [str(one) for one in listed_kinds(office, 24)] == ["employees (hired, city)", "products (price, city)"]
    assert [one.kind.name for one in listed_kinds(office, 1)] == ["employees"]
    assert listed_kinds(office, 0) == ()


def test_a_graph_without_classes_lists_what_its_relations_lead_to(tmp_path: Path) -> None:
    graph = store_of(
        tmp_path, [("Big", "directed_by", "Marshall"), ("Big", "genre", "comedy"), ("Jaws", "genre", "thriller")]
    )
    assert [str(one) for one in listed_kinds(graph, 24)] == ["thing", "directed by", "genre"]
    assert listed_kinds(graph, 2) == [], "not a part of them"


def test_a_few_stray_classes_are_no_list(tmp_path: Path) -> None:
    facts = [(f"e{number}", "knows", f"e{number + 1}") for number in range(9)]
    assert listed_kinds(store_of(tmp_path, [*facts, ("e0", "is_a", "robots")]), 24) == []


def test_a_walk_asks_for_a_kind_that_nobody_named(office: StoredGraph) -> None:
    """No word of the question is an employee's; the model reads who is hired."""
    asked = Question("q", "who has been with us the longest?", [], [])
    turns = ['all("employees")', 'argmin($1, "hired")', "<answer>$2</answer>"]
    [episode] = rollout(
        [(Task(asked, [], kinds=[]), Environment(office))], FULL, ScriptedEngine(turns, constrained=True)
    )
    assert LISTED in episode.prompt
    assert "table, all" in episode.prompt
    assert episode.turns[0].observation.startswith("$1 = 2 employees: Ann, Bob")
    assert episode.answers == ["Bob"]
    assert [fact[:3] for fact in episode.evidence["Bob"]] == [("Bob", "is_a", "employees"), ("Bob", "hired", "2009")]


def test_without_a_list_there_is_no_such_call(office: StoredGraph) -> None:
    [episode] = rollout(
        [(Task(Question("q", "who?", ["Ann"], []), ["Ann"], kinds=[]), Environment(office))],
        Kgwalk(language="full", documented=False),
        ScriptedEngine(['all("employees")', "<answer>$1</answer>"]),
    )
    assert "Kinds, for" not in episode.prompt
    assert episode.turns[0].observation.startswith("error: there is no tool all")


def test_a_program_may_ask_for_a_kind(office: StoredGraph) -> None:
    walk = run_program(program('all("products"); tail_entities($1, "price")'), office)
    assert walk.answers == ["20"]
    with pytest.raises(KgwalkError, match='no kind "robots"'):
        run_program(program('all("robots")'), office)


def test_the_query_of_such_a_walk(office: StoredGraph) -> None:
    walk = run_program(program('all("employees"); argmin($1, "hired")'), office)
    sql = query_of(program_of(walk.turns, [], []), office, "sql")
    assert "relation = 'is_a' AND tail = 'employees'" in sql


def test_a_question_that_names_nothing_is_walked_where_kinds_are_listed(office: StoredGraph) -> None:
    assert start_of("hello", office, protocol=FULL).topics == []
    with pytest.raises(NoTopic):
        start_of("hello", office, protocol=Kgwalk(language="full"))
    with pytest.raises(NoTopic):  # a name that is not there is still refused
        start_of("who lives in Ulaanbaatar", office, protocol=FULL)


# Demonstrations


def test_a_demonstration_asks_for_a_kind_that_it_would_start_from(office: StoredGraph) -> None:
    question = Question(
        "q", "which employees live in Porto", ["Porto"], ["Ann"],
        extra={"kinds": ["employees"], "program": [["head_entities", "$1", "city"], ["intersect", "$3", "$2"]]},
    )  # fmt: skip
    asked = with_asked_kind(question, ["employees"], office, random.Random(0))
    assert asked.extra["kinds"] == []
    assert asked.extra["program"] == [
        ["all", "employees"], ["head_entities", "$1", "city"], ["intersect", "$3", "$2"]
    ]  # fmt: skip
    route = route_from_program(RouteBuilder(asked, office, full=True))
    assert route is not None
    assert route.f1 == 1
    assert with_asked_kind(question, ["products"], office, random.Random(0)) is question, "it is not listed"
    demos, _ = make_demos([question], lambda _: office, FULL, settings=DemoSettings(styles=("none",), asked_kinds=1.0))
    [demo] = demos
    said = [turn["content"] for turn in demo.messages if turn["role"] == "assistant"]
    assert said == ['all("employees")', 'head_entities($1, "city")', "intersect($3, $2)", "<answer>$4</answer>"]


def test_what_a_class_leads_to_is_asked_for_in_two_steps(tmp_path: Path) -> None:
    """All trades are what the clients' `trade` leads to."""
    graph = store_of(
        tmp_path,
        [("Ox", "is_a", "client"), ("Ox", "trade", "steel"), ("Elk", "is_a", "client"), ("Elk", "trade", "wood")],
    )
    trade = kind_named("trade", graph)
    assert trade is not None
    assert kind_calls(trade, ["client"], graph) == [Call("all", ("client",)), Call("tail_entities", (0, "trade"))]
    question = Question(
        "q",
        "how many trades",
        [],
        ["2"],
        extra={"kinds": ["trade"], "program": [["count", "$1"]], "answer_kind": "number"},
    )
    asked = with_asked_kind(question, ["client"], graph, random.Random(0))
    assert asked.extra["program"] == [["all", "client"], ["tail_entities", "$1", "trade"], ["count", "$2"]]


def test_a_question_without_an_answer_has_nothing_to_ask_for(office: StoredGraph) -> None:
    question = Question("q", "how old is our staff", [], [], extra={"kinds": ["employees"], "answer_kind": "none"})
    asked = with_asked_kind(question, ["employees"], office, random.Random(0))
    assert (asked.extra["kinds"], asked.extra.get("program")) == ([], None)
    demos, _ = make_demos([asked], lambda _: office, FULL, settings=DemoSettings(styles=("none",)))
    [demo] = demos
    assert demo.messages[-1]["content"] == "<answer>[]</answer>"


class Elsewhere:
    """A graph far away that tells its classes; to match everything would read all of it."""

    def __init__(self, graph: StoredGraph) -> None:
        self.graph = graph

    def __getattr__(self, name: str) -> object:
        if name in ("store", "match", "kind_members"):
            raise AttributeError(name)
        return getattr(self.graph, name)

    def __contains__(self, name: object) -> bool:
        return name in self.graph

    def classes(self) -> tuple[str, list[str]]:
        return "is_a", ["employees", "products"]


def test_of_a_graph_elsewhere_there_are_its_classes_and_no_other_kind(office: StoredGraph) -> None:
    graph = Elsewhere(office)
    assert [str(one) for one in listed_kinds(graph, 24)] == ["employees", "products"]  # type: ignore[arg-type]
    sets = Sets(graph, [], empty=True)  # type: ignore[arg-type]
    assert sets.made[sets.call("all", ["employees"]) - 1].members == ("Ann", "Bob")
    for kind in ("thing", "city"):
        with pytest.raises(SetError, match=f'no kind "{kind}"'):
            sets.call("all", [kind])
