"""Going back (KG-Reasoner, section 4.2.3): the paper's Figure 3 walked by a script, what holds on any graph, the
setting that forbids it, and demonstrations of a wrong entity that is left again.

The figure is known here by its text alone: a path 1, 2, 4, 5; 5 supports nothing, so the walk goes back to its parent 4
and selects another entity; where there is none, to 2, and so on up to the topic. Reconstructed: that 3 is a candidate
of 1, 6 of 4 and 7 of 2, that there are no others, and what the relation is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import few_names, temporary_store
from kgwalk.config.recipe import load_recipe
from kgwalk.demos.demo import Demo
from kgwalk.demos.filter import DemoSettings, Rejects
from kgwalk.demos.make import make_demos
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.systems.kg_reasoner.protocol import KgReasoner, KgReasonerWalk
from kgwalk.types import Call, Episode, KgwalkError, Malformed, Question, StopReason, Triple
from kgwalk.walk.policy import protocol_named, protocol_of
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.ranking import Candidate
from kgwalk.walk.rollout import Budget, rollout

Stores = Callable[..., StoredGraph]
FIGURE = [("1", "to", "2"), ("1", "to", "3"), ("2", "to", "4"), ("2", "to", "7"), ("4", "to", "5"), ("4", "to", "6")]
BACK = '<search backtrack="true"></search>'


class ByNumber:
    """In the place of the paper's trained ranker: the lower number is the better candidate."""

    def score(self, question: str, candidates: Sequence[Candidate], graph: Graph) -> list[float]:
        return [-float(one.name) for one in candidates]


def walked(graph: Graph, said: Sequence[str], **values: Any) -> Episode:
    task = Task(Question("q", "Where does 1 lead?", ["1"], []), ["1"])
    environment = Environment(graph, ranker=ByNumber())
    [episode] = rollout([(task, environment)], protocol_named("kg-reasoner", **values), ScriptedEngine(said))
    return episode


def observed(episode: Episode) -> list[str]:
    """What was told after each turn but the answer, without its tags."""
    tag = "searched_triples"
    return [turn.observation.removeprefix(f"<{tag}>").removesuffix(f"</{tag}>") for turn in episode.turns[:-1]]


# Figure 3


def test_the_walk_of_figure_3(store: Stores) -> None:
    """1, 2, 4, 5; back to 4, where 6 is the other candidate."""
    searches = ["<think><search>1</search>", *(f"<search>{name}</search>" for name in "245")]
    turns = [*searches, f"No. {BACK}", "<search>6</search>", '</think><answer>["6"]</answer>']
    episode = walked(store(FIGURE), turns)
    assert observed(episode) == [
        "(1, to, 2)\n(1, to, 3)",
        "(2, to, 4)\n(2, to, 7)\n(1, to, 2)",
        "(4, to, 5)\n(4, to, 6)\n(2, to, 4)",
        "(4, to, 5)",
        "Back at 4. Not tried yet:\n(4, to, 6)",
        "(4, to, 6)",
    ]
    assert episode.answers == ["6"]
    assert episode.evidence["6"] == [Triple("1", "to", "2"), Triple("2", "to", "4"), Triple("4", "to", "6")]


def test_where_4_has_no_other_candidate_the_walk_goes_back_to_2_and_then_to_1(store: Stores) -> None:
    graph = store([fact for fact in FIGURE if fact[2] != "6"])
    searches = ["<think><search>1</search>", *(f"<search>{name}</search>" for name in "245")]
    turns = [*searches, BACK, "<search>7</search>", BACK, "<search>3</search>", BACK, '</think><answer>["3"]</answer>']
    told = observed(walked(graph, turns))
    assert told[4:] == [
        "Back at 2. Not tried yet:\n(2, to, 7)",
        "(2, to, 7)",
        "Back at 1. Not tried yet:\n(1, to, 3)",
        "(1, to, 3)",
        "No candidate is left on the path from 1",
    ]


def test_going_back_again_passes_over_what_was_listed(store: Stores) -> None:
    """From 5 three times without a search: to 4, to 2, to 1, and there is no more; a search makes all of it new."""
    searches = ["<think><search>1</search>", *(f"<search>{name}</search>" for name in "245")]
    again = [BACK] * 4 + ["<search>2</search>", BACK, '</think><answer>["3"]</answer>']
    told = observed(walked(store(FIGURE), [*searches, *again], turns=12))
    assert told[4:8] == [
        "Back at 4. Not tried yet:\n(4, to, 6)",
        "Back at 2. Not tried yet:\n(2, to, 7)",
        "Back at 1. Not tried yet:\n(1, to, 3)",
        "No candidate is left on the path from 1",
    ]
    assert told[9] == "Back at 1. Not tried yet:\n(1, to, 3)"


def test_a_named_entity_is_left_with_all_that_came_after_it(store: Stores) -> None:
    """The path is 1, 2, 4, 5; 4 was wrong already."""
    searches = ["<think><search>1</search>", *(f"<search>{name}</search>" for name in "245")]
    turns = [*searches, '<search backtrack="true">4</search>', "<search>7</search>", '</think><answer>["7"]</answer>']
    assert observed(walked(store(FIGURE), turns))[4] == "Back at 2. Not tried yet:\n(2, to, 7)"


# Whatever the graph


def begun(graph: Graph, **values: Any) -> KgReasonerWalk:
    return KgReasoner(**values).begin(Task(Question("q", "Where?", ["a"], []), ["a"]), Environment(graph), len)


def listed(walk: KgReasonerWalk, call: Call) -> list[str] | None:
    """The candidates that an observation has, each once; None after an error."""
    observation = walk.act(call)
    return list(dict.fromkeys(observation.listings[0].items)) if observation.ok else None


graphs = st.lists(st.tuples(few_names, st.sampled_from("rs"), few_names), min_size=1, max_size=12)
backs = st.builds(Call, st.just("backtrack"), st.just(()) | st.tuples(few_names))
calls = st.lists(st.builds(Call, st.just("search"), st.tuples(few_names)) | backs, max_size=20)


@settings(max_examples=60)  # each builds a store
@given(graphs, calls, st.integers(1, 4))
def test_going_back_lists_no_candidate_that_was_searched_and_none_twice(
    facts: list[tuple[str, str, str]], called: list[Call], candidates: int
) -> None:
    with temporary_store(facts) as graph:
        walk = begun(graph, candidates=candidates)
        since: set[str] = set()  # listed by going back, since the last search
        for call in called:
            path = [frame.entity for frame in walk.path]
            found = listed(walk, call)
            now = [frame.entity for frame in walk.path]
            assert len(set(now)) == len(now)  # no entity stands twice on a path
            if found is None:
                assert now == path
            elif call.tool == "search":
                assert now[-1] == call.args[0]
                since = set()
            else:
                assert found
                assert not since & set(found)
                assert not walk.searched & set(found)
                assert now == path[: len(now)]  # back along the path, to an entity of it
                assert all(walk.path[-1].shows(name) for name in found)
                since |= set(found)


@settings(max_examples=30)
@given(graphs, st.integers(1, 4))
def test_a_walk_that_tries_what_going_back_lists_searches_nothing_twice_and_ends(
    facts: list[tuple[str, str, str]], candidates: int
) -> None:
    with temporary_store(facts) as graph:
        walk = begun(graph, candidates=candidates)
        entities = {name for head, _, tail in facts for name in (head, tail)}
        found = listed(walk, Call("search", (facts[0][0],)))
        tried = [facts[0][0]]
        while (found := listed(walk, Call("backtrack"))) is not None:
            tried.append(found[0])
            walk.act(Call("search", (found[0],)))
            assert len(tried) <= len(entities)
        assert len(set(tried)) == len(tried)


@settings(max_examples=30)
@given(graphs)
def test_a_walk_that_does_nothing_but_go_back_ends(facts: list[tuple[str, str, str]]) -> None:
    """Each time at least one candidate is new: with six entities there are at most six times."""
    with temporary_store(facts) as graph:
        walk = begun(graph)
        for name in dict.fromkeys(fact[0] for fact in facts):
            walk.act(Call("search", (name,)))
        assert any(listed(walk, Call("backtrack")) is None for _ in range(7))
        assert listed(walk, Call("backtrack")) is None
        engine = ScriptedEngine(lambda request: f"<think>{BACK}" if len(request.messages) == 1 else BACK)
        task = Task(Question("q", "Where?", [facts[0][0]], []), [facts[0][0]])
        [episode] = rollout([(task, Environment(graph))], protocol_named("kg-reasoner", turns=5), engine)
        assert (episode.stop, len(episode.turns)) == (StopReason.turns, 6)


# Without it


def test_without_it_the_prompt_does_not_offer_it_and_the_tag_is_malformed(store: Stores) -> None:
    without = protocol_of(load_recipe("kg-reasoner").with_values(["protocol.backtrack=false"]))
    task = Task(Question("q", "Where does 1 lead?", ["1"], []), ["1"])
    turns = [
        "<think><search>1</search>",
        BACK,
        '<search backtrack="false">2</search>',
        '</think><answer>["3"]</answer>',
    ]
    [episode] = rollout([(task, Environment(store(FIGURE)))], without, ScriptedEngine(turns))
    assert "back" not in episode.prompt
    assert "backtrack" in walked(store(FIGURE), turns).prompt
    assert [turn.error for turn in episode.turns] == [None, "malformed", "malformed", None]
    assert episode.turns[1].step == Malformed("A search tag is plain.")
    assert "backtrack" not in "".join(observed(episode))
    assert load_recipe("kg-reasoner").section("protocol")["backtrack"] is True
    with pytest.raises(KgwalkError, match=r"`protocol\.backtrack` must be true or false, not 1"):
        protocol_of(load_recipe("kg-reasoner").with_values(["protocol.backtrack=1"]))


# Demonstrations of a mistake

LANDS = [
    ("Norway", "capital", "Oslo"),
    ("Norway", "borders", "Sweden"),
    ("Norway", "anthem", "Ja, vi elsker"),
    ("Sweden", "capital", "Stockholm"),
    ("Oslo", "mayor", "Anne Lindboe"),
    ("Oslo", "river", "Akerselva"),
]
MAYOR = Question(
    "mayor",
    "who is the mayor of the capital of Norway?",
    ["Norway"],
    ["Anne Lindboe"],
    hops=2,
    gold_paths=[[Triple("Norway", "capital", "Oslo"), Triple("Oslo", "mayor", "Anne Lindboe")]],
)


def demos_of(name: str, graph: Graph, seeds: range = range(8), **protocol: Any) -> tuple[list[Demo], Rejects]:
    """One demonstration for each seed, all with a mistake if there can be one."""
    made: list[Demo] = []
    own = DemoSettings(wrong=1.0, styles=("plain",))
    for seed in seeds:
        demos, fallen = make_demos(
            [MAYOR],
            lambda question: graph,
            protocol_named(name, **protocol),
            settings=own,
            budget=Budget(turn_tokens=1 << 12, observation_tokens=1 << 12, total_tokens=1 << 16),
            seed=seed,
            environment_of=lambda question: Environment(graph),
        )
        made += demos
    return made, fallen


def said(demo: Demo) -> list[tuple[str, bool]]:
    """Each turn without its thought, and whether it is learned."""
    turns = [message for message in demo.messages if message["role"] == "assistant"]
    return [(turn["content"][turn["content"].rfind("<search") :], turn.get("train", True)) for turn in turns[:-1]]


def test_kg_reasoner_shows_a_wrong_entity_noticed_the_way_back_and_the_right_one(store: Stores) -> None:
    """Sweden has facts to be looked at; the anthem has none but the one that led to it."""
    demos, fallen = demos_of("kg-reasoner", store(LANDS))
    ways_back = set()
    for demo in demos:
        first, wrong, back, right = said(demo)
        assert (first, wrong, right) == (
            ("<search>Norway</search>", True),
            ("<search>Sweden</search>", False),
            ("<search>Oslo</search>", True),
        )
        ways_back.add(back)
        told = [message["content"] for message in demo.messages if message["role"] == "user"][3]
        assert told.startswith("<searched_triples>Back at Norway. Not tried yet:\n")
        assert "(Norway, capital, Oslo)" in told
        assert "Sweden" not in told
        noticed = demo.turns[2].partition("<search")[0]
        assert "Sweden" in noticed
        assert demo.wrong
    assert ways_back == {(BACK, True), ('<search backtrack="true">Sweden</search>', True)}  # plain and named
    assert fallen.as_json() == {"tried": 1, "kept": 1, "wrong": 1, "web": 0, "fallen": {}}


@pytest.mark.parametrize(("name", "protocol"), [("kg-hopper", {}), ("kg-reasoner", {"backtrack": False})])
def test_where_there_is_no_way_back_the_right_entity_is_searched_at_once(
    name: str, protocol: dict[str, Any], store: Stores
) -> None:
    demos, _ = demos_of(name, store(LANDS), range(2), **protocol)
    for demo in demos:
        assert said(demo) == [
            ("<search>Norway</search>", True),
            ("<search>Sweden</search>", False),
            ("<search>Oslo</search>", True),
        ]
        assert "Sweden" in demo.turns[2].partition("<search")[0]
        assert "backtrack" not in "".join(demo.turns)


def test_the_share_of_mistakes_is_the_recipes_and_counted(store: Stores) -> None:
    graph = store(LANDS)
    recipe = load_recipe("kg-reasoner")
    assert DemoSettings.of(recipe).wrong == 0.3
    assert DemoSettings.of(load_recipe("kg-hopper")).wrong == 0.0
    questions = [Question(str(n), MAYOR.question, ["Norway"], MAYOR.answers, 2, MAYOR.gold_paths) for n in range(200)]
    own = DemoSettings(wrong=0.3, styles=("terse",))
    made, fallen = make_demos(
        questions,
        lambda question: graph,
        protocol_of(recipe),
        settings=own,
        environment_of=lambda q: Environment(graph),
    )
    strayed = [demo.wrong for demo in made]
    assert fallen.as_json()["wrong"] == sum(strayed)
    assert 40 <= sum(strayed) <= 80  # 60 are expected of 200, with a deviation of 6.5
