"""Rollouts: budgets and their reasons, failures that stay with their episode, many at once, one seed one result."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from conftest import FILMS, store_of
from kgwalk.bench.servers import ScanGraph
from kgwalk.kg.http import HttpGraph
from kgwalk.llm.engine import LOGPROB, Generation, Request, Sampling, ScriptedEngine
from kgwalk.types import (
    Answer,
    Call,
    EngineError,
    Episode,
    Malformed,
    Neighbors,
    Question,
    RemoteError,
    StopReason,
    Triple,
)
from kgwalk.walk.policy import protocol_named
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import Budget, rollout, rollout_async

QUESTION = Question("q", "who directed the films Tom Hanks starred in?", ["Tom Hanks"], [])
WALK = ['head_entities($1, "starred_actors")', 'tail_entities($2, "directed_by")', "<answer>$3</answer>"]


def run(script: Any, graph: Any = None, name: str = "kgwalk", **settings: Any) -> Episode:
    protocol = protocol_named(name, **settings.pop("protocol", {}))
    budget = Budget(**settings)
    engine = script if hasattr(script, "generate") else ScriptedEngine(script)
    (episode,) = rollout(
        [(Task(QUESTION, ["Tom Hanks"]), Environment(graph or ScanGraph(FILMS)))], protocol, engine, budget=budget
    )
    return episode


def test_a_walk_by_hand() -> None:
    episode = run(WALK)
    assert [turn.step for turn in episode.turns] == [
        Call("head_entities", (1, "starred_actors")),
        Call("tail_entities", (2, "directed_by")),
        Answer((3,)),
    ]
    assert episode.turns[1].observation == "$3 = 2: Penny Marshall, Robert Zemeckis\n<- directed_by"
    assert episode.answers == ["Penny Marshall", "Robert Zemeckis"]
    assert episode.evidence["Robert Zemeckis"] == [
        Triple("Cast Away", "starred_actors", "Tom Hanks"),
        Triple("Cast Away", "directed_by", "Robert Zemeckis"),
    ]
    assert (episode.stop, episode.failure, episode.trainable) == (StopReason.answered, None, True)
    flat = episode.flatten()
    assert sum(flat.mask) == episode.generated_tokens == len(WALK[0]) + len(WALK[1]) + 2 + len(WALK[2])
    assert len(flat.ids) == episode.total_tokens
    assert {p for p, m in zip(flat.logprobs, flat.mask, strict=True) if m} == {LOGPROB}


def test_mistakes_are_observations() -> None:
    episode = run(['tail_entities($9, "x")', "hm", 'head_entities($1, "directed")', "<answer>[]</answer>"])
    assert [turn.ok for turn in episode.turns] == [False, False, False, True]
    assert episode.turns[0].observation == "error: there is no set $9; the last is $1"
    assert episode.turns[1].step == Malformed(
        'Write one call such as tail_entities($1, "relation"), or <answer>$2</answer>.'
    )
    assert episode.turns[1].error == "malformed"
    assert episode.turns[2].observation == 'error: relation "directed" is not in the graph'
    assert episode.answers == []


def test_turns_run_out_with_one_forced_answer() -> None:
    episode = run([WALK[0], WALK[1], "<answer>$2</answer>"], protocol={"turns": 2})
    assert episode.stop == StopReason.answered
    assert episode.turns[1].observation.endswith("No calls are left. Answer now.")
    stubborn = run([WALK[0], WALK[0], WALK[0]], protocol={"turns": 2})
    assert (stubborn.stop, len(stubborn.turns)) == (StopReason.turns, 3)
    assert stubborn.turns[-1].observation == ""
    assert stubborn.answers == []


def test_each_budget_has_its_reason() -> None:
    long = run(WALK, total_tokens=100)
    assert (long.stop, long.turns) == (StopReason.prompt, [])
    assert long.failure == f"the prompt has {len(long.prompt_ids):,} tokens and there is room for 100"
    prompt = len(run(WALK).prompt_ids)
    full = run(WALK, total_tokens=prompt + 60)
    assert (full.stop, len(full.turns)) == (StopReason.tokens, 1)
    assert full.total_tokens <= prompt + 60
    short = run(WALK, turn_tokens=5, protocol={"turns": 1})
    assert [len(turn.ids) for turn in short.turns] == [5, 5]
    assert isinstance(short.turns[0].step, Malformed)

    class Slow(ScriptedEngine):
        async def generate(self, request: Request) -> Generation:
            await asyncio.sleep(0.05)
            return await super().generate(request)

    assert run(Slow([*WALK[:1] * 9]), seconds=0.02).stop == StopReason.time


def test_an_observation_is_cut_to_its_tokens_and_says_so() -> None:
    graph = ScanGraph([("hub", "r", f"name {n:03}") for n in range(200)])
    engine = ScriptedEngine(
        ['<think></think><kg-query>get_tail_entities("hub", "r")</kg-query>', "<think></think><answer>x</answer>"]
    )
    task = (Task(Question("q", "?", [], []), ["hub"]), Environment(graph))
    (episode,) = rollout([task], protocol_named("kg-r1"), engine, budget=Budget(observation_tokens=150))
    turn = episode.turns[0]
    assert len(turn.observation_ids) <= 150
    assert turn.observation.startswith('<information>Tail entities for relation "r" with head "hub": name 000, ')
    assert turn.observation.endswith(f"... (+{200 - len(turn.shown)} more)</information>")
    assert turn.shown == [f"name {n:03}" for n in range(len(turn.shown))]
    assert 3 < len(turn.shown) < 20


def test_a_name_of_ten_thousand_letters_does_not_open_the_tag() -> None:
    graph = ScanGraph([("x" * 10_000, "r", "b")])
    engine = ScriptedEngine(
        ['<think></think><kg-query>get_head_entities("b", "r")</kg-query>', "<think></think><answer>x</answer>"]
    )
    task = (Task(Question("q", "?", [], []), ["b"]), Environment(graph))
    (episode,) = rollout([task], protocol_named("kg-r1"), engine, budget=Budget(observation_tokens=100))
    assert episode.turns[0].observation.endswith("(+1 more)</information>")


class Failing(ScanGraph):
    """Fails as a remote graph does: the first `times` calls, or at random."""

    def __init__(self, triples: Any, fails: Callable[[], bool]) -> None:
        super().__init__(triples)
        self._fails = fails

    def neighbors(self, *args: Any, **settings: Any) -> Neighbors:
        if self._fails():
            raise RemoteError("the graph did not answer")
        return super().neighbors(*args, **settings)


def test_a_failing_tool_is_tried_once_more_then_recorded() -> None:
    once = iter([True, False, False, False, False, False, False])
    assert run(WALK, Failing(FILMS, lambda: next(once))).stop == StopReason.answered
    episode = run(WALK, Failing(FILMS, lambda: True))
    assert episode.stop == StopReason.tool_failed
    assert episode.failure == "head_entities: the graph did not answer"
    assert not episode.trainable


def test_a_failing_engine_is_recorded_and_our_bug_is_raised() -> None:
    episode = run(WALK[:1])
    assert (episode.stop, episode.failure) == (
        StopReason.engine_failed,
        "the script has 1 turns and was asked for turn 2",
    )

    def bug(request: Request) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(bug)


def test_one_slow_tool_holds_up_nobody_else() -> None:
    class Slow(ScanGraph):
        def neighbors(self, *args: Any, **settings: Any) -> Neighbors:
            time.sleep(0.4)
            return super().neighbors(*args, **settings)

    done: list[str] = []
    environments = [Environment(Slow(FILMS)), *[Environment(ScanGraph(FILMS))] * 20]
    tasks = [
        (Task(Question(str(n), "?", [], []), ["Tom Hanks"]), environment) for n, environment in enumerate(environments)
    ]
    rollout(
        tasks,
        protocol_named("kgwalk"),
        ScriptedEngine(WALK),
        watch=lambda episode, turn: done.append(episode.question.id) if turn is None else None,
    )
    assert done[-1] == "0"
    assert len(done) == 21


def test_one_seed_one_result_whatever_the_company() -> None:
    def draw(request: Request) -> str:
        rng = random.Random(request.sampling.seed)
        return f'<answer>["{rng.random()}"]</answer>'

    def answers(count: int, seed: int) -> list[list[str]]:
        tasks = [(Task(Question(str(n), "?", [], []), []), Environment(ScanGraph(FILMS))) for n in range(count)]
        episodes = rollout(tasks, protocol_named("kgwalk"), ScriptedEngine(draw), sampling=Sampling(1.0, seed=seed))
        return [episode.answers for episode in episodes]

    many = answers(50, seed=3)
    assert many[:5] == answers(5, seed=3)
    assert many[:5] != answers(5, seed=4)
    assert len({tuple(names) for names in many}) == 50


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    store_of(tmp_path, FILMS)
    settings = orjson.dumps({"graphs": {"g": str(tmp_path / "graph.kg")}, "port": 0}).decode()
    process = subprocess.Popen([sys.executable, "-m", "kgwalk.serve.run", settings], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    url = next(line for line in process.stderr if " serves at " in line).split(" serves at ")[1].split()[0]
    yield url, process
    process.kill()
    process.wait()
    process.stderr.close()


class Unreliable:
    """Another graph of which one call in twenty fails, as networks do."""

    def __init__(self, graph: Any, rng: random.Random) -> None:
        self._graph, self._rng, self._lock = graph, rng, threading.Lock()
        self.failures = 0

    def __contains__(self, entity: object) -> bool:
        return entity in self._graph

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._graph, name)

        def call(*args: Any, **settings: Any) -> Any:
            with self._lock:
                fails = self._rng.random() < 0.05
                self.failures += fails
            if fails:
                raise RemoteError("injected")
            return method(*args, **settings)

        return call


def _episodes(
    count: int, graph: Any, watch: Any = lambda episode, turn: None, budget: Budget | None = None
) -> list[Episode]:
    tasks = [(Task(Question(f"q{n}", "?", [], []), ["Tom Hanks"]), Environment(graph)) for n in range(count)]
    return rollout(tasks, protocol_named("kg-r1"), ScriptedEngine(KG_R1), watch=watch, budget=budget or Budget())


KG_R1 = [
    '<think></think><kg-query>get_head_relations("Tom Hanks")</kg-query>',
    '<think></think><kg-query>get_head_entities("Tom Hanks", "starred_actors")</kg-query>',
    '<think></think><kg-query>get_tail_entities("Big", "directed_by")</kg-query>',
    '<think></think><answer>["Penny Marshall"]</answer>',
]


def test_a_thousand_episodes_over_http_with_failing_tools(server: tuple[str, Any]) -> None:
    with HttpGraph(server[0], cache=0) as graph:
        unreliable = Unreliable(graph, random.Random(5))
        episodes = _episodes(1000, unreliable)
    assert len(episodes) == 1000
    stops = {reason: sum(e.stop == reason for e in episodes) for reason in StopReason}
    assert stops[StopReason.answered] + stops[StopReason.tool_failed] == 1000
    assert unreliable.failures > 100
    # a call fails for good when it fails twice: 1 in 400, three calls an episode
    assert 0 < stops[StopReason.tool_failed] < 40
    assert all(e.answers == ["Penny Marshall"] for e in episodes if e.stop == StopReason.answered)
    assert all(e.failure and "injected" in e.failure for e in episodes if e.stop == StopReason.tool_failed)


def test_a_server_killed_midway_is_a_recorded_failure_not_a_hang(server: tuple[str, subprocess.Popen[str]]) -> None:
    url, process = server
    done = 0

    def kill(episode: Episode, turn: object) -> None:
        nonlocal done
        done += turn is None
        if done == 100:
            process.send_signal(signal.SIGKILL)

    with HttpGraph(url, cache=0, retries=0, timeout=2) as graph:
        started = time.monotonic()
        episodes = _episodes(300, graph, kill, Budget(at_once=50))  # so 150 have not begun when it dies
    assert time.monotonic() - started < 60
    stops = [episode.stop for episode in episodes]
    assert stops.count(StopReason.answered) + stops.count(StopReason.tool_failed) == 300
    assert stops.count(StopReason.tool_failed) > 0
    assert stops.count(StopReason.answered) >= 100


def test_inside_a_running_loop() -> None:
    async def main() -> list[Episode]:
        task = (Task(QUESTION, ["Tom Hanks"]), Environment(ScanGraph(FILMS)))
        return await rollout_async([task], protocol_named("kgwalk"), ScriptedEngine(WALK))

    assert asyncio.run(main())[0].answers == ["Penny Marshall", "Robert Zemeckis"]


def test_an_engine_that_gives_up_on_one_episode_only() -> None:
    def say(request: Request) -> str:
        if "bad" in request.session:
            raise EngineError("overloaded")
        return "<answer>[]</answer>"

    tasks = [(Task(Question(i, "?", [], []), []), Environment(ScanGraph(FILMS))) for i in ("good", "bad", "good too")]
    episodes = rollout(tasks, protocol_named("kgwalk"), ScriptedEngine(say))
    assert [e.stop for e in episodes] == [StopReason.answered, StopReason.engine_failed, StopReason.answered]
