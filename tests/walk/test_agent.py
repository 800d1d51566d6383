"""One call from a question to answers with evidence: topics, several runs, tokens, failures."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kgwalk
from conftest import FILMS
from kgwalk.bench.servers import ScanGraph
from kgwalk.kg.build import build
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.llm.api import ApiGeneration
from kgwalk.llm.engine import Generation, Request, Sampling, ScriptedEngine
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.types import EngineError, Episode, KgwalkError, StopReason, Turn, UnknownEntity
from kgwalk.walk import agent as agent_module
from kgwalk.walk.agent import Agent, AskResult, answer_question, as_json, ask
from kgwalk.walk.policy import Choice, protocol_named
from kgwalk.walk.protocol import Environment
from kgwalk.walk.rollout import Budget
from kgwalk.walk.starts import NoTopic, start_of

QUESTION = "who directed the films Tom Hanks starred in?"
WALK = ['head_entities($1, "starred_actors")', 'tail_entities($2, "directed_by")', "<answer>$3</answer>"]
GRAPH = ScanGraph(FILMS)


def saying(answer: Callable[[Request], list[str]]) -> ScriptedEngine:
    """An engine that answers at once with these names."""
    return ScriptedEngine(lambda request: f"<answer>{json.dumps(answer(request))}</answer>")


def run_of(request: Request) -> int:
    """The number of the run that asks, from the session's name."""
    return int(request.session.split(":")[1])


@pytest.mark.parametrize("stored", [True, False])
def test_the_whole_object(store: Callable[..., StoredGraph], stored: bool) -> None:
    graph = store(FILMS) if stored else GRAPH
    asked = ask(QUESTION, graph, protocol="kgwalk", engine=ScriptedEngine(WALK))
    value = as_json(asked)
    assert json.loads(json.dumps(value)) == {
        "answers": ["Penny Marshall", "Robert Zemeckis"],
        "evidence": {
            "Penny Marshall": [["Big", "starred_actors", "Tom Hanks"], ["Big", "directed_by", "Penny Marshall"]],
            "Robert Zemeckis": [
                ["Cast Away", "starred_actors", "Tom Hanks"],
                ["Cast Away", "directed_by", "Robert Zemeckis"],
            ],
        },
        "answer_kind": "entity",
        "topics": ["Tom Hanks"],
        "walk": [{"text": turn.text, "observation": turn.observation, "ok": True} for turn in asked.episodes[0].turns],
        "walks": 1,
        "turns": 3,
        "tokens": asked.tokens,
        "seconds": value["seconds"],
        "stop": "answered",
        "note": "the model was not sure of this walk; it may well be wrong",  # a script finds its tokens unlikely
        "confidence": round(math.exp(sum(sum(turn.logprobs) for turn in asked.episodes[0].turns)), 3),
        "calibrated": False,
    }
    # two turns end with the end token, the third with a stop text
    assert asked.tokens["generated"] == sum(map(len, WALK)) + 2
    assert asked.tokens["total"] == asked.tokens["generated"] + asked.tokens["prompt"]
    assert asked.episodes[0].total_tokens == asked.tokens["total"]
    assert 0 < value["seconds"] < 60


def test_of_several_runs_the_confidence_is_the_share_of_the_first_answer() -> None:
    engine = saying(lambda request: ["Big"] if run_of(request) else ["Contact"])
    asked = ask(QUESTION, GRAPH, protocol="kgwalk", engine=engine, runs=4)
    assert (asked.answers[0], asked.confidence) == ("Big", 0.75)
    nothing = ask(QUESTION, GRAPH, protocol="kgwalk", engine=ScriptedEngine(["hm"] * 12))
    assert nothing.confidence is None  # there is no answer to be sure of


def test_dates_are_no_part_of_the_evidence() -> None:
    graph = ScanGraph([("Iran", "visited", "Malaysia", "2006-05")])
    engine = ScriptedEngine(['tail_entities($1, "visited")', "<answer>$2</answer>"])
    asked = ask("where did Iran go?", graph, protocol="kgwalk", engine=engine)
    assert as_json(asked)["evidence"] == {"Malaysia": [["Iran", "visited", "Malaysia"]]}


# --- topics


def test_topics_that_are_given() -> None:
    engine = saying(lambda request: [])
    assert ask("?", GRAPH, protocol="kgwalk", engine=engine, topics=["Big", "Big"]).topics == ["Big"]
    # the same name but for case is the same
    assert ask("?", GRAPH, protocol="kgwalk", engine=engine, topics=["tom hanks"]).topics == ["Tom Hanks"]
    assert ask(QUESTION, GRAPH, protocol="kgwalk", engine=engine, topics=[]).topics == []
    with pytest.raises(UnknownEntity, match="'Tom Henks' is not in the graph; did you mean 'Tom Hanks'"):
        ask("?", GRAPH, protocol="kgwalk", engine=engine, topics=["Tom Henks"])


def test_a_topic_given_by_its_id_is_the_thing_of_its_name(tmp_path: Path) -> None:
    """Is Greece among the neighbours of Albania? A set that held its id would not be in the set of names."""
    label = '<http://www.w3.org/2000/01/rdf-schema#label> "%s"@en .'
    names = [f"<urn:x/{code}> {label % name}" for code, name in (("gr", "Greece"), ("al", "Albania"))]
    (tmp_path / "lands.nt").write_text("\n".join([*names, "<urn:x/al> <urn:x/borders> <urn:x/gr> .\n"]))
    build([tmp_path / "lands.nt"], tmp_path / "lands.kg")
    turns = ['tail_entities($1, "borders")', "is_in($2, $3)", "<answer>$4</answer>"]
    given = ["urn:x/al", "urn:x/gr"]
    graph, engine = open_graph(tmp_path / "lands.kg"), ScriptedEngine(turns)
    asked = ask("?", graph, protocol=Kgwalk(language="full"), engine=engine, topics=given)
    assert asked.topics == ["Albania", "Greece"]
    assert asked.answers == ["yes"]


def test_a_mention_that_is_not_sure_is_told(store: Callable[..., StoredGraph]) -> None:
    asked = ask("films with Tom Henks?", store(FILMS), protocol="kgwalk", engine=saying(lambda request: []))
    (mention,) = as_json(asked)["mentions"]
    assert mention == {"text": "Tom Henks", "start": 11, "end": 20, "candidates": ["Tom Hanks"]}
    assert asked.topics == ["Tom Hanks"]


def unasked(request: Request) -> str:
    raise AssertionError("the engine was asked")


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("protocol", ["kgwalk", "kg-r1", "eog"])
def test_a_question_that_names_no_entity_is_refused(
    store: Callable[..., StoredGraph], stored: bool, protocol: str
) -> None:
    graph = store(FILMS) if stored else GRAPH
    engine = ScriptedEngine(unasked)
    with pytest.raises(NoTopic, match=r"names no entity of the graph, so .* start from. Name one .* topic") as refused:
        ask("which of them is the oldest?", graph, protocol=protocol, engine=engine)
    assert isinstance(refused.value, UnknownEntity)  # what a server takes for a mistake of the client's
    assert refused.value.nearest == []
    # a letter too few and one too many: too little to take it for a name, and enough to offer one
    with pytest.raises(NoTopic, match="Nearest to its words: 'Robert Zemeckis'") as refused:
        ask("what did zmecckis do?", graph, protocol=protocol, engine=engine)
    assert refused.value.nearest == ["Robert Zemeckis"]


def test_what_needs_no_entity_goes_on_without_one() -> None:
    engine = saying(lambda request: ["Big"])
    asked = ask("why?", GRAPH, protocol="kgwalk", engine=engine, topics=[])
    assert (asked.topics, asked.answers, asked.evidence) == ([], ["Big"], {"Big": []})
    assert ask("why?", GRAPH, protocol="vanilla", engine=engine).answers == ["Big"]  # no graph is read
    rft = protocol_named("graph-rft")
    assert start_of("why?", GRAPH, protocol=rft, web=True).topics == []  # the web may know one
    with pytest.raises(NoTopic):
        start_of("why?", GRAPH, protocol=rft)


def test_a_start_that_was_found_before_is_taken() -> None:
    start = start_of("films with Tom Henks?", GRAPH, protocol=protocol_named("kgwalk"))
    assert start.topics == ["Tom Hanks"]
    asked = ask("films?", GRAPH, protocol="kgwalk", engine=saying(lambda request: []), topics=start)
    assert (asked.topics, asked.unsure) == (["Tom Hanks"], start.unsure)


def test_an_environment_is_a_graph_with_more() -> None:
    asked = ask(QUESTION, Environment(GRAPH), protocol="kgwalk", engine=ScriptedEngine(WALK))
    assert asked.topics == ["Tom Hanks"]


# --- several runs


def test_the_answers_of_several_runs_by_votes() -> None:
    said = [["a", "b"], ["b"], ["c", "b"]]
    engine = saying(lambda request: said[run_of(request)])
    asked = ask("?", GRAPH, protocol="kgwalk", engine=engine, topics=["Big"], runs=3)
    assert asked.answers == ["b", "a", "c"]
    assert as_json(asked)["votes"] == {"b": 3, "a": 1, "c": 1}
    assert (asked.turns, len(asked.episodes)) == (3, 3)
    assert asked.tokens["total"] == sum(episode.total_tokens for episode in asked.episodes)


def test_evidence_is_the_first_that_there_is() -> None:
    def turn(request: Request) -> str:
        if run_of(request) == 0:
            return '<answer>["Penny Marshall"]</answer>'  # known by heart
        return WALK[sum(message.role == "assistant" for message in request.messages)]

    asked = ask(QUESTION, GRAPH, protocol="kgwalk", engine=ScriptedEngine(turn), runs=2)
    assert asked.answers == ["Penny Marshall", "Robert Zemeckis"]
    assert len(asked.evidence["Penny Marshall"]) == 2


def test_how_runs_are_sampled() -> None:
    seen: list[Sampling] = []

    def answer(request: Request) -> list[str]:
        seen.append(request.sampling)
        return []

    def sampled(runs: int, sampling: Sampling | None) -> list[tuple[float, int | None]]:
        seen.clear()
        ask("?", GRAPH, protocol="kgwalk", engine=saying(answer), topics=["Big"], runs=runs, sampling=sampling)
        return [(one.temperature, one.seed) for one in seen]

    assert sampled(1, None) == [(0.0, None)]
    assert sampled(2, None) == [(1.0, None)] * 2
    seeded = sampled(2, Sampling(temperature=0.5, seed=7))
    assert {temperature for temperature, _ in seeded} == {0.5}
    assert len(set(seeded)) == 2  # a seed of its own for each run
    assert sampled(2, Sampling(temperature=0.5, seed=7)) == seeded  # and the same ones again


def test_questions_at_once_do_not_share_sessions() -> None:
    engine = ScriptedEngine(WALK)

    async def both() -> None:
        questions = (answer_question(QUESTION, GRAPH, protocol="kgwalk", engine=engine) for _ in range(5))
        for asked in await asyncio.gather(*questions):
            assert asked.answers == ["Penny Marshall", "Robert Zemeckis"]

    asyncio.run(both())


# --- engines that send text


class TextEngine(ScriptedEngine):
    """As an API engine: bytes for tokens, and the server's own counts beside each generation."""

    exact = False

    def __init__(self, script: list[str], reported: tuple[int, int] | None) -> None:
        super().__init__(script, context=500)
        self.reported = reported
        self.most: list[int] = []

    async def generate(self, request: Request) -> Generation:
        self.most.append(request.sampling.max_tokens)
        text = await super().generate(request)
        if self.reported is None:
            return text
        usage = SimpleNamespace(prompt_tokens=self.reported[0], completion_tokens=self.reported[1])
        return ApiGeneration(text.ids, [], text.finish, usage=usage)  # type: ignore[arg-type]


def test_budgets_are_in_tokens_where_ids_are_bytes() -> None:
    engine = TextEngine(WALK, reported=(100, 10))
    # as bytes, the prompt alone would be over the context and the total
    budget = Budget(turn_tokens=50, observation_tokens=40, total_tokens=400)
    asked = ask(QUESTION, GRAPH, protocol="kgwalk", engine=engine, budget=budget)
    assert asked.stop is StopReason.answered
    assert engine.most == [50, 50, 50]
    assert asked.tokens == {"generated": 30, "prompt": 300, "total": 330}


@pytest.mark.parametrize("reported", [None, (0, 0)])
def test_tokens_are_estimated_where_nobody_counts(reported: tuple[int, int] | None) -> None:
    """A server that reports nothing has zeros beside its replies."""
    asked = ask(QUESTION, GRAPH, protocol="kgwalk", engine=TextEngine(WALK, reported=reported))
    (episode,) = asked.episodes
    assert asked.tokens["generated"] == -(-episode.generated_tokens // 4)


# --- what happens on the way


def test_watching() -> None:
    seen: list[str] = []

    def watch(episode: Episode, turn: Turn | None) -> None:
        seen.append("end" if turn is None else turn.text)

    ask(QUESTION, GRAPH, protocol="kgwalk", engine=ScriptedEngine(WALK), watch=watch)
    assert seen == [*WALK, "end"]


def test_inside_a_running_loop_as_in_a_notebook() -> None:
    async def cell() -> list[str]:
        return ask(QUESTION, GRAPH, protocol="kgwalk", engine=ScriptedEngine(WALK)).answers

    assert asyncio.run(cell()) == ["Penny Marshall", "Robert Zemeckis"]


def test_an_engine_that_fails() -> None:
    def turn(request: Request) -> str:
        if run_of(request) == 0:
            raise EngineError("no model today")
        return '<answer>["Big"]</answer>'

    alone = ask("?", GRAPH, protocol="kgwalk", engine=ScriptedEngine(turn), topics=["Big"])
    assert (alone.stop, alone.answers, alone.failure) == (StopReason.engine_failed, [], "no model today")
    assert as_json(alone)["failure"] == "no model today"
    both = ask("?", GRAPH, protocol="kgwalk", engine=ScriptedEngine(turn), topics=["Big"], runs=2)
    assert (both.stop, both.answers, both.failure) == (StopReason.answered, ["Big"], None)
    assert "failure" not in as_json(both)


def test_a_walk_without_an_answer() -> None:
    asked = ask(QUESTION, GRAPH, protocol="kgwalk", engine=ScriptedEngine(["hm"] * 20))
    assert (asked.stop, asked.answers, asked.evidence) == (StopReason.turns, [], {})
    assert as_json(asked)["stop"] == "turns"


def test_wrong_arguments() -> None:
    engine = saying(lambda request: [])
    with pytest.raises(KgwalkError, match="the question is empty"):
        ask("  ", GRAPH, protocol="kgwalk", engine=engine)
    with pytest.raises(KgwalkError, match="runs must be at least 1, not 0"):
        ask("?", GRAPH, protocol="kgwalk", engine=engine, runs=0)
    with pytest.raises(KgwalkError, match="unknown protocol"):
        ask("?", GRAPH, protocol="walk", engine=engine)


# --- with defaults, as the command line has them

CAPITAL = ['tail_entities($1, "capital")', "<answer>$2</answer>"]


class Opened(ScriptedEngine):
    """What was asked of `open_engine`, and whether it was closed."""

    def __init__(self, script: list[str], kind: str, model: str | None, options: dict[str, object]) -> None:
        super().__init__(script)
        self.kind, self.model, self.options, self.closed = kind, model, options, 0

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[Opened]:
    """The engines that were opened, each with a script for a capital in place of a model."""
    opened: list[Opened] = []

    def open_engine(kind: str, model: str | None = None, **options: object) -> Opened:
        opened.append(Opened(CAPITAL, kind, model, options))
        return opened[-1]

    monkeypatch.setattr(agent_module, "open_engine", open_engine)
    return opened


def test_a_question_alone_is_asked_of_the_bundled_graph_by_the_shipped_agent(
    engines: list[Opened], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KGWALK_AGENT", raising=False)  # of other tests
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path))  # where an agent fitted to the bundled graph would be
    asked = kgwalk.ask("what is the capital of France?")
    assert (asked.answers, asked.topics) == (["Paris"], ["France"])
    (engine,) = engines
    assert (engine.kind, engine.model, engine.closed) == ("auto", None, 1)
    shipped = Agent(GRAPH).chosen("shipped").folder
    assert engine.options == {"adapter": shipped}


def test_a_graph_by_its_folder_a_recipe_by_its_name(store: Callable[..., StoredGraph], engines: list[Opened]) -> None:
    stored = store(FILMS)
    folder = stored.store.folder.path
    asked = ask("who directed Big?", folder, recipe="vanilla", model="tiny-random", adapter="none", engine="local")
    assert (asked.topics, asked.turns) == (["Big"], 1)  # the first line of the script is taken for the answer
    (engine,) = engines
    assert (engine.kind, engine.model, engine.options, engine.closed) == ("local", "tiny-random", {}, 1)
    with pytest.raises(KgwalkError, match="unknown recipe `kgr1`; did you mean `kg-r1`"):
        ask("who directed Big?", str(folder), recipe="kgr1")


def test_a_question_that_names_no_entity_loads_no_model(engines: list[Opened]) -> None:
    with pytest.raises(NoTopic):
        kgwalk.ask("which of them is the oldest?")
    assert engines == []


def test_a_recipe_with_an_engine_that_is_open(engines: list[Opened]) -> None:
    engine = Opened(WALK, "given", None, {})
    assert ask(QUESTION, GRAPH, recipe="kgwalk", engine=engine).answers == ["Penny Marshall", "Robert Zemeckis"]
    with Agent(Environment(GRAPH), engine=engine) as agent:
        assert agent.ask(QUESTION).answers == ["Penny Marshall", "Robert Zemeckis"]
    assert asyncio.run(agent.ask_async(QUESTION)).stop is StopReason.answered  # whoever gave the engine closes it
    assert (engine.closed, engines) == (0, [])


def test_an_agent_takes_the_choice_that_was_made(engines: list[Opened], monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(GRAPH)
    choice = agent.chosen("none")
    monkeypatch.setattr(agent, "chosen", lambda *args, **more: pytest.fail("chosen twice"))
    with agent.opened(choice, engine="local"):
        assert agent.choice is choice
    assert choice == Choice()
    assert engines[0].options == {}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"protocol": "kgwalk"}, "`protocol` needs an open `engine` and no `recipe`"),
        ({"protocol": "kgwalk", "engine": ScriptedEngine([]), "recipe": "kgwalk"}, "`protocol` needs an open `engine`"),
        ({"engine": ScriptedEngine([]), "model": "x"}, "`model` and `adapter` are for an engine that is opened here"),
    ],
)
def test_what_does_not_go_together(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(KgwalkError, match=message):
        ask(QUESTION, GRAPH, **settings)


# --- answers of every kind, and none


def full(text: str, *, topics: Sequence[str], question: str = "?") -> AskResult:
    """A walk by the full language that makes these calls, one a line, and answers with the last set."""
    calls = text.splitlines()
    turns = [*calls, f"<answer>${len(topics) + len(calls)}</answer>"]
    return asyncio.run(
        answer_question(
            question,
            GRAPH,
            protocol=protocol_named("kgwalk", language="full"),
            engine=ScriptedEngine(turns),
            topics=list(topics),
        )
    )


def test_a_table_is_told_with_its_columns() -> None:
    found = as_json(full('head_entities($1, "directed_by")\ntable($2, "release_year")', topics=["Robert Zemeckis"]))
    assert found["answer_kind"] == "table"
    assert (found["columns"], found["rows"]) == (["name", "release_year"], [["Cast Away", "2000"], ["Contact", ""]])
    assert [turn["text"] for turn in found["walk"]][:1] == ['head_entities($1, "directed_by")']


def test_an_ordered_answer_says_so() -> None:
    found = as_json(full('head_entities($1, "starred_actors")\ntop($2, "release_year", "all")', topics=["Tom Hanks"]))
    assert (found["answers"], found["ordered"], found["answer_kind"]) == (["Cast Away", "Big"], True, "entity")


def test_yes_or_no_and_a_number() -> None:
    yes = full('tail_entities($1, "starred_actors")\nis_in("Tom Hanks", $2)', topics=["Big"])
    assert (yes.answers, yes.kind) == (["yes"], "boolean")
    two = full('head_entities($1, "starred_actors")\ncount($2)', topics=["Tom Hanks"])
    assert (two.answers, two.kind) == (["2"], "number")


def test_the_graph_does_not_say_and_what_it_does_say() -> None:
    """Of the films of 2000, none is of 1988: the set is empty. The last set with a member is Cast Away."""
    found = full('filter($1, "release_year", "=", "1988")', topics=["Cast Away"], question="who directed it in 1988")
    value = as_json(found)
    assert (value["answers"], value["answer_kind"], value["stop"]) == ([], "none", "answered")
    assert value["nearest"][0] == ["Cast Away", "directed_by", "Robert Zemeckis"]
    assert "confidence" not in value


def test_a_limit_is_never_silent_and_a_guess_is_named() -> None:
    found = full('head_entities($1, "starred_actors")', topics=["Tom Hanks"])
    value = as_json(found, limit=1, least=0.5)
    assert (value["answers"], value["left_out"], list(value["evidence"])) == (["Big"], 1, ["Big"])
    assert value["guess"] is True  # a script finds its tokens unlikely
    assert as_json(found, least=0.0)["guess"] is False
    assert "guess" not in as_json(found)


def test_a_refusal_has_the_nearest_facts() -> None:
    with pytest.raises(NoTopic, match="the graph does not say: the question names no entity") as refused:
        start_of("who won the marshal prize", GRAPH, protocol=protocol_named("kgwalk"))
    assert refused.value.facts == [("Big", "directed_by", "Penny Marshall", "")]
    assert "It does say: Big -> directed_by: Penny Marshall." in str(refused.value)
