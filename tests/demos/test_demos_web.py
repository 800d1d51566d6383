"""Demonstrations over an incomplete graph: a search shows that a fact is missing, the web is asked for it and read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kgwalk.demos.demo import Demo, encode
from kgwalk.demos.filter import DemoSettings, Rejects
from kgwalk.demos.make import make_demos, teacher_demos
from kgwalk.kg.store import StoredGraph
from kgwalk.kg.views import incomplete
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.types import Document, Question, RemoteError, Triple
from kgwalk.walk.environment import Environments, EnvironmentSettings
from kgwalk.walk.policy import ProtocolPolicy, protocol_named
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import Budget, rollout

Stores = Callable[..., StoredGraph]
# The web may give a fact on the way; by the paper's own filter, "retrieval", it must show the answers.
SHOWN = ("length", "format", "answer", "any-source", "plan")
WIDE = Budget(turn_tokens=1 << 12, observation_tokens=1 << 12, total_tokens=1 << 16)
CAPITAL, MAYOR = Triple("Norway", "capital", "Oslo"), Triple("Oslo", "mayor", "Anne Lindboe")
FACTS = [
    CAPITAL[:3],
    MAYOR[:3],
    ("Norway", "borders", "Sweden"),
    ("Norway", "borders", "Finland"),
    ("Oslo", "river", "Akerselva"),
    ("Sweden", "capital", "Stockholm"),
    ("Finland", "capital", "Helsinki"),
    ("Stockholm", "mayor", "Karin"),
]
NORWAY = Document("Norway", "Norway is a country in the north. Its capital is Oslo.")
OSLO = Document("Oslo", "A city on a fjord. The mayor of Oslo is Anne Lindboe.")
QUESTION = Question(
    "q", "who is the mayor of the capital of Norway?", ["Norway"], ["Anne Lindboe"], gold_paths=[[CAPITAL, MAYOR]]
)


class Web:
    """A web that finds the documents whose titles stand in the query."""

    def __init__(self, *documents: Document) -> None:
        self.documents = documents
        self.asked: list[str] = []

    def search(self, query: str, k: int = 3) -> list[Document]:
        self.asked.append(query)
        return [one for one in self.documents if one.title in query][:k]


def world_without(graph: StoredGraph, *hidden: Triple, web: Any = None) -> Environment:
    return (
        Environment(incomplete(graph, hidden, 1.0), web=web, complete=not hidden)
        if hidden
        else Environment(graph, web=web)
    )


def made(
    graph: StoredGraph,
    environment: Environment,
    question: Question = QUESTION,
    name: str = "graph-rft",
    **settings: Any,
) -> tuple[list[Demo], Rejects]:
    demos, rejects = make_demos(
        [question],
        lambda question: graph,
        protocol_named(name),
        settings=DemoSettings(**{"wrong": 0.0, "filters": SHOWN, **settings}),
        budget=WIDE,
        environment_of=lambda question: environment,
    )
    return list(demos), rejects


def dialogue(demo: Demo) -> list[str]:
    """What was asked, without thoughts and plan, and what was told."""
    texts = [message["content"] for message in demo.messages[1:]]
    return [text[text.rfind("</plan>" if "</plan>" in text else "</think>") :].partition(">")[2] if "</think>" in text
            else text for text in texts]  # fmt: skip


def test_a_hidden_fact_is_seen_to_be_missing_then_the_web_is_asked_and_the_walk_goes_on(store: Stores) -> None:
    graph, web = store(FACTS), Web(NORWAY, OSLO)
    environment = world_without(graph, CAPITAL, web=web)
    (demo,), rejects = made(graph, environment)
    assert dialogue(demo) == [
        '<relation_search>"Norway", "capital"</relation_search>',
        "<relation_information>borders</relation_information>",
        '<web_search>"Norway", "capital"</web_search>',
        "<web_information>Doc 1: Norway: Norway is a country in the north. Its capital is Oslo.</web_information>",
        '<relation_search>"Oslo", "mayor"</relation_search>',
        "<relation_information>mayor, river</relation_information>",
        '<neighbor_search>"Oslo", "mayor"</neighbor_search>',
        "<neighbor_information>(Oslo, mayor, ?): Anne Lindboe</neighbor_information>",
        '<answer>["Anne Lindboe"]</answer>',
    ]
    assert (demo.web, demo.f1) == (True, 1.0)
    assert web.asked == ["Norway capital"]
    assert rejects.as_json() == {"tried": 1, "kept": 1, "wrong": 0, "web": 1, "fallen": {}}
    engine = ScriptedEngine(demo.turns)
    [episode] = rollout([(Task(QUESTION, ["Norway"]), environment)], protocol_named("graph-rft"), engine, budget=WIDE)
    assert encode(demo, engine.tokens).ids == episode.flatten().ids


def test_what_is_hidden_may_be_the_answer_itself(store: Stores) -> None:
    graph = store(FACTS)
    (demo,), _ = made(graph, world_without(graph, MAYOR, web=Web(NORWAY, OSLO)))
    assert dialogue(demo)[4:] == [
        '<relation_search>"Oslo", "mayor"</relation_search>',
        "<relation_information>river, capital</relation_information>",
        '<web_search>"Oslo", "mayor"</web_search>',
        "<web_information>Doc 1: Oslo: A city on a fjord. The mayor of Oslo is Anne Lindboe.</web_information>",
        '<answer>["Anne Lindboe"]</answer>',
    ]


def test_where_nothing_is_hidden_the_web_is_not_asked(store: Stores) -> None:
    graph, web = store(FACTS), Web(NORWAY, OSLO)
    (demo,), _ = made(graph, world_without(graph, web=web))
    assert "web_search" in demo.messages[0]["content"]  # it could be
    assert not demo.web
    assert web.asked == []


CAPITALS = Question(
    "two",
    "what are the capitals of the countries that Norway borders?",
    ["Norway"],
    ["Stockholm", "Helsinki"],
    gold_paths=[
        [Triple("Norway", "borders", "Sweden"), Triple("Sweden", "capital", "Stockholm")],
        [Triple("Norway", "borders", "Finland"), Triple("Finland", "capital", "Helsinki")],
    ],
)
HELSINKI = Triple("Finland", "capital", "Helsinki")


def test_one_of_several_entities_has_lost_its_fact(store: Stores) -> None:
    """The neighbour search says that there is nothing, once the relation's name is known from the other."""
    graph = store([*FACTS, ("Finland", "borders", "Sweden")])
    web = Web(Document("Finland", "Its capital is Helsinki."))
    (demo,), _ = made(graph, world_without(graph, HELSINKI, web=web), CAPITALS)
    said = dialogue(demo)
    at = said.index('<web_search>"Finland", "capital"</web_search>')
    assert said[at - 2 : at] == [
        '<neighbor_search>"Finland", "capital"</neighbor_search>',
        "<neighbor_information>No information in the KG, please use web tool</neighbor_information>",
    ]
    assert sorted(demo.answers) == ["Helsinki", "Stockholm"]


def test_an_entity_that_lost_all_its_facts_gives_an_error_that_is_not_imitated(store: Stores) -> None:
    graph = store([*FACTS[:2], *FACTS[4:]])
    (demo,), _ = made(graph, world_without(graph, CAPITAL, web=Web(NORWAY, OSLO)))
    first = next(message for message in demo.messages if message["role"] == "assistant")
    assert first["train"] is False
    assert "Entity Norway not found in KG. No information in the KG, please use web tool" in demo.messages[2]["content"]
    assert demo.f1 == 1.0


class Away:
    def search(self, query: str, k: int = 3) -> list[Document]:
        raise RemoteError("the engine is away")


@pytest.mark.parametrize(
    ("web", "reason"),
    [
        (Web(OSLO), "web: no document names what is hidden"),
        (Web(Document("Norway", "Its capital is Osloborg.")), "web: no document names what is hidden"),
        (Away(), "web: it did not answer"),
        (None, "hidden: what the route needs, and there is no web to ask"),
    ],
)
def test_a_fact_that_no_document_tells_lets_the_question_fall_out(web: Any, reason: str, store: Stores) -> None:
    graph = store(FACTS)
    assert made(graph, world_without(graph, CAPITAL, web=web))[1].counts == {reason: 1}


def test_a_list_that_merely_is_shorter_shows_no_gap(store: Stores) -> None:
    """Norway borders Sweden and Finland; with one of them hidden, nobody could know what to ask the web for."""
    graph = store(FACTS)
    environment = world_without(graph, Triple("Norway", "borders", "Finland"), web=Web(NORWAY))
    assert made(graph, environment, CAPITALS)[1].counts == {"hidden: a part of a list, which nothing shows": 1}


def test_a_protocol_without_a_web_has_demos_of_what_is_left(store: Stores) -> None:
    graph = store(FACTS)
    assert not made(graph, world_without(graph, CAPITAL), name="kg-r1")[0]
    assert made(graph, world_without(graph, Triple("Oslo", "river", "Akerselva")), name="kg-r1")[0]


def test_a_teacher_too_must_ask_the_web_where_a_fact_is_hidden_and_only_there(store: Stores) -> None:
    graph = store(FACTS)
    hidden, whole = world_without(graph, MAYOR, web=Web(OSLO)), world_without(graph, web=Web(OSLO))
    plan = '<plan>Step 1: x\nAns1 = SearchKG(t="person" | h="Oslo", r="mayor")</plan>'
    question = replace(QUESTION, topic_entities=["Oslo"], gold_paths=[[MAYOR]])
    asks = [f'<think>x</think>{plan}<web_search>"Oslo", "mayor"</web_search>']
    searches = [f'<think>x</think>{plan}<neighbor_search>"Oslo", "mayor"</neighbor_search>']
    answer = '<think>x</think><answer>["Anne Lindboe"]</answer>'

    def rejects(environment: Environment, turns: Sequence[str]) -> dict[str, int]:
        agent = ProtocolPolicy(protocol_named("graph-rft"), ScriptedEngine([*turns, answer]), WIDE)
        settings = DemoSettings(samples=1)
        demos, out = teacher_demos(
            [question], lambda question: graph, agent, settings=settings, environment_of=lambda question: environment
        )
        assert all(demo.web == (turns is asks) for demo in demos)
        return out.counts

    assert rejects(hidden, asks) == {}
    assert rejects(whole, searches) == {}
    assert rejects(hidden, searches) == {"retrieval: the web was not searched for what the graph lacks": 1}
    both = [*searches, '<think>x</think><web_search>"Oslo", "mayor"</web_search>']
    assert rejects(whole, both) == {"retrieval: the web was searched, and the graph was complete": 1}


def test_the_worlds_of_a_recipe(store: Stores) -> None:
    """All facts of the question are hidden, and the documents tell both."""
    graph = store(FACTS)
    environments = Environments(lambda question: graph, EnvironmentSettings(drop=1.0), Environment, Web(NORWAY, OSLO))
    demos, _ = make_demos(
        [QUESTION], environments.graph_for, protocol_named("graph-rft"), environment_of=environments.of, budget=WIDE
    )
    (demo,) = demos
    assert [turn[turn.find("<web_search>") :] for turn in demo.turns if "<web_search>" in turn] == [
        '<web_search>"Norway", "capital"</web_search>',
        '<web_search>"Oslo", "mayor"</web_search>',
    ]
