"""Walks in worker processes: the same episodes as in one process, and no process left behind however a walk ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import FILMS, store_of
from kgwalk.data.dataset import load_dataset
from kgwalk.demos.make import GraphExamples, ShownExamples
from kgwalk.llm.engine import Request, Sampling
from kgwalk.llm.grammar import Grammar
from kgwalk.llm.tokenizers import ByteTokenizer
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.systems.kgwalk.turn_grammar import RelationForms, WalkSoFar, turn_rule
from kgwalk.training.curriculum import MeasuredEpisode, TrainingSet
from kgwalk.training.rollouts import Walker, worker_count
from kgwalk.training.workers.messages import IDS, Frames, framed, pack, pack_episode, unpack, unpack_episode, unpacked
from kgwalk.training.workers.process import RemoteEngine
from kgwalk.types import (
    Answer,
    AnswerForm,
    Call,
    Constraint,
    Document,
    Episode,
    KgwalkError,
    Malformed,
    Question,
    StopReason,
    Triple,
    Turn,
)
from kgwalk.walk.environment import Environments, EnvironmentSettings
from kgwalk.walk.policy import protocol_named
from kgwalk.walk.protocol import Environment
from kgwalk.walk.rollout import Budget, without_garbage_collection
from training_helpers import policy, worlds_over
from worker_parts import Buggy, Opened, Refuses, away

ROOT = Path(__file__).parents[2]
SAMPLED = Sampling(temperature=1.0, seed=1)
BUDGET = Budget(turn_tokens=6, total_tokens=900)
QUESTIONS = [Question(f"q{n}", f"who directed film {n}?", ["Big"], ["Penny Marshall"]) for n in range(4)]
ASKED = [(number, f"{number}:{rollout}") for number in range(4) for rollout in range(3)]


@pytest.fixture(scope="module")
def training_set(tmp_path_factory: pytest.TempPathFactory) -> TrainingSet:
    folder = tmp_path_factory.mktemp("films")
    store_of(folder, FILMS)
    return TrainingSet(QUESTIONS, Environments(Opened(folder / "graph.kg"), EnvironmentSettings(), Environment))


@pytest.fixture(scope="module")
def walker() -> Iterator[Walker]:
    made = Walker(policy(), Kgwalk(turns=2), BUDGET, workers=2)
    yield made
    made.close()


def pids(walker: Walker) -> list[int]:
    assert walker._pool is not None
    return walker._pool.pids()


def gone(pid: int, *, within: float = 0.0) -> bool:
    """Whether there is no such process, not even one that nobody has waited for."""
    until = time.monotonic() + within
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.02)


# The same walks.


def test_an_episode_from_a_worker_is_the_one_walked_here(walker: Walker, training_set: TrainingSet) -> None:
    """Token for token; log-probabilities up to which rows ran together. Questions are those that were asked."""
    here = Walker(policy(), Kgwalk(turns=2), BUDGET, workers=0)
    theirs, ours = walker.measured(training_set, ASKED, SAMPLED), here.measured(training_set, ASKED, SAMPLED)
    here.close()
    assert len(theirs) == len(ASKED)
    for (number, key), one, other in zip(ASKED, theirs, ours, strict=True):
        assert one.episode.question is QUESTIONS[number]
        assert one.episode.key == key
        assert like(one.episode) == like(other.episode)
        logprobs, others = one.episode.flatten().logprobs, other.episode.flatten().logprobs
        assert logprobs == pytest.approx(others, abs=1e-4)
        assert one.numbers | {"seconds": 0} == pytest.approx(other.numbers | {"seconds": 0}, abs=1e-4)
        assert one.complete is other.complete is True
    assert len({tuple(one.episode.turns[0].ids) for one in theirs}) > 6  # a luck of its own for each key


def like(episode: Episode) -> Episode:
    """Without what depends on time or rounding."""
    turns = [replace(turn, seconds=0.0, logprobs=[]) for turn in episode.turns]
    return replace(episode, seconds=0.0, turns=turns)


def test_walks_with_new_weights_and_fewer_questions_than_workers(walker: Walker, training_set: TrainingSet) -> None:
    walker.walk(training_set, ASKED[:2], SAMPLED)  # they are started by now
    before = pids(walker)
    assert len(before) == 2
    assert walker.measured(training_set, [], SAMPLED) == []
    one = walker.walk(training_set, [(2, "alone")], Sampling())
    assert one[0].question is QUESTIONS[2]
    assert pids(walker) == before  # they stay


def test_a_tool_that_fails_in_a_worker_is_recorded_on_the_episode(walker: Walker) -> None:
    broken = TrainingSet(QUESTIONS, Environments(away, EnvironmentSettings(), Environment))
    episodes = walker.walk(broken, ASKED[:4], SAMPLED)
    assert {one.stop for one in episodes} == {StopReason.tool_failed}
    assert episodes[0].failure == "the prompt: the graph is away"


def test_a_world_that_cannot_be_is_an_error_of_the_run(walker: Walker) -> None:
    """As in one process: what cannot be begun at all is told, with the same words."""
    settings = EnvironmentSettings(drop=0.5)
    hidden = replace(QUESTIONS[0], gold_paths=[[Triple("Big", "directed_by", "Penny Marshall")]])
    training_set = TrainingSet([hidden], Environments(away, settings, Environment))
    with pytest.raises(KgwalkError, match="facts can be hidden in a store only, not in a Away"):
        walker.walk(training_set, [(0, "key")], SAMPLED)


# What cannot travel.


def test_what_cannot_be_given_to_a_worker_is_walked_here(
    training_set: TrainingSet, caplog: pytest.LogCaptureFixture
) -> None:
    graph = training_set.environments.graph_for(QUESTIONS[0])
    for environments, why in (
        (worlds_over(graph), "local object"),  # a lambda, which pickle cannot name
        (
            Environments(Refuses(), EnvironmentSettings(), Environment),
            "OSError: no such device",
        ),  # found out in the worker
    ):
        walker = Walker(policy(), Kgwalk(turns=1), BUDGET, workers=1)
        asked = TrainingSet(QUESTIONS, environments)
        with caplog.at_level(logging.WARNING):
            if why == "local object":
                assert len(walker.measured(asked, ASKED[:2], SAMPLED)) == 2
            else:
                with pytest.raises(AssertionError, match="not called"):  # it walks here, over a graph that is none
                    walker.walk(asked, ASKED[:2], SAMPLED)
        assert "walking in this process alone" in caplog.text
        assert why in caplog.text
        walker.close()


# However a walk ends.


@contextmanager
def interrupted(walker: Walker, after: int, act: Callable[[], None]) -> Iterator[None]:
    """`act` is called when the engine has run so many rounds."""
    begin, done = walker.engine.begin_round, [0]

    def counted() -> bool:
        done[0] += 1
        if done[0] == after:
            act()
        return begin()

    walker.engine.begin_round = counted  # type: ignore[method-assign]
    yield
    del walker.engine.begin_round


def test_a_protocol_of_a_file_is_found_by_a_worker() -> None:
    """`file.py:Class` of a recipe: no module has the file's name, so the worker reads the file again."""
    packed = pack(protocol_named(f"{ROOT / 'examples' / 'own_protocol.py'}:Go", turns=3))
    code = "import sys; from kgwalk.training.workers.messages import unpack; print(unpack(sys.stdin.buffer.read()))"
    done = subprocess.run([sys.executable, "-c", code], input=packed, capture_output=True, check=True, timeout=60)
    assert done.stdout == b"Go(turns=3)\n"


def test_worked_examples_are_made_again_by_a_worker() -> None:
    """Of the questions alone: a question's own is not among its examples, there as here."""
    data = load_dataset("world")
    asked = data.questions("dev")[:40]
    protocol = protocol_named("kgwalk", examples=2)
    shown = ShownExamples(GraphExamples(asked, data.graph_for, protocol), share=1.0)
    environments = Environments(data.graph_for, EnvironmentSettings(), Environment, examples=shown)
    here, there = (one.of(asked[3]).examples for one in (environments, unpack(pack(environments))))
    assert here is not None
    assert there == here
    assert len(there.examples) > 20
    assert asked[3].question in {there.examples[place].question for place in there.hidden}


def test_a_worker_that_is_killed_ends_the_walk_and_is_named(walker: Walker, training_set: TrainingSet) -> None:
    walker.walk(training_set, ASKED[:1], SAMPLED)
    one, two = pids(walker)
    named = rf"worker 2 of 2 \(process {two}\) was killed by SIGKILL"
    with interrupted(walker, 3, lambda: os.kill(two, signal.SIGKILL)), pytest.raises(KgwalkError, match=named):
        walker.walk(training_set, ASKED, SAMPLED)
    assert gone(one)
    assert gone(two)
    assert len(walker.walk(training_set, ASKED, SAMPLED)) == len(
        ASKED
    )  # with new ones; nothing of the old walk is left
    assert not {one, two} & set(pids(walker))


def test_ctrl_c_is_for_the_first_process_and_ends_all(walker: Walker, training_set: TrainingSet) -> None:
    walker.walk(training_set, ASKED[:1], SAMPLED)
    there = pids(walker)
    for pid in there:
        os.kill(pid, signal.SIGINT)  # a terminal sends it to all of them
        os.kill(pid, signal.SIGTERM)
    assert len(walker.walk(training_set, ASKED[:2], SAMPLED)) == 2

    def stop() -> None:
        raise KeyboardInterrupt

    with interrupted(walker, 2, stop), pytest.raises(KeyboardInterrupt):
        walker.walk(training_set, ASKED, SAMPLED)
    assert all(map(gone, there))


def test_a_bug_in_a_worker_is_a_traceback(training_set: TrainingSet) -> None:
    walker = Walker(policy(), Buggy(), BUDGET, workers=1)
    with pytest.raises(RuntimeError, match=r"(?s)worker 1 of 1 .* failed:\nTraceback.*ZeroDivisionError: our own bug"):
        walker.walk(training_set, ASKED[:1], SAMPLED)
    walker.close()


def test_workers_do_not_outlive_a_process_that_is_killed() -> None:
    code = "import os; from kgwalk.training.workers.pool import Link\n"
    code += "print(Link(1, 1).pid, flush=True); os.kill(os.getpid(), 9)"
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert gone(int(killed.stdout), within=30)


# What travels.


@given(st.lists(st.lists(st.integers() | st.text())), st.lists(st.integers(1, 30)))
def test_messages_come_whole_however_the_stream_is_cut(messages: list[Any], cuts: list[int]) -> None:
    data, frames, found = b"".join(map(framed, messages)), Frames(), []
    for cut in cuts:
        found += frames.feed(data[:cut])
        data = data[cut:]
    assert found + frames.feed(data) == messages


def test_an_episode_comes_back_as_it_was() -> None:
    fact = Triple("Big", "directed_by", "Penny Marshall", "1988")
    episode = Episode(
        QUESTIONS[0],
        ["Big"],
        [1, 2, 70_000],
        "prompt",
        [
            Turn([3], [-0.1], "a", Call("look", ("x", 2)), "seen", [4, 5], shown=["x"], seconds=0.5),
            Turn([], [], "", Malformed("why"), ok=False, error="malformed", counted=(3, 4)),
            Turn([6], [-1e-9], "b", Answer(("x", 1)), documents=[Document("t", "u")]),
        ],
        ["Penny Marshall"],
        {"Penny Marshall": [fact]},
        StopReason.answered,
        "none",
        1.5,
        ["Big"],
        [fact],
        "key",
        AnswerForm("table", True, ["name", "year"], [["Big", "1988"]]),
    )
    grammar = Grammar(turn_rule, (WalkSoFar(1, RelationForms.of(["directed_by"]), ("count",), False), False, False))
    episode.turns[0].constraint = Constraint(grammar, 64)
    row = pack_episode(7, MeasuredEpisode(episode, {"f1": 1.0}, False, True), {grammar: 3}.__getitem__)
    (travelled,) = Frames().feed(framed(row))
    assert travelled[0] == 7
    (came,) = Frames().feed(framed(grammar))
    assert came == grammar
    assert came is not grammar
    assert unpack_episode(travelled, QUESTIONS[0], {3: came}) == MeasuredEpisode(episode, {"f1": 1.0}, False, True)


def test_of_a_context_only_what_is_new_is_sent() -> None:
    """Each ask is (session, ids), and is answered with the token 9; what went out is (held, new ids)."""
    went: list[tuple[int, list[int]]] = []

    def send(message: Any) -> None:
        for number, _, _, held, new, _, _, _ in message if isinstance(message, list) else []:
            went.append((held, unpacked(IDS, new).tolist()))
            asyncio.get_running_loop().call_soon(engine.settle, [(number, [9], [-0.5], "length", None, None)])

    engine = RemoteEngine(ByteTokenizer(), 100, 256, 4, send)

    async def ask(session: str, *ids: int) -> None:
        assert (await engine.generate(Request(ids, [], Sampling(max_tokens=1), session))).ids == [9]

    async def all_of_them() -> None:
        await ask("a", 1, 2)
        await ask("a", 1, 2, 9, 3)
        await ask("a", 1, 2, 9, 3, 9, 4, 5)
        await ask("a", 1, 7)  # begun anew
        await asyncio.gather(ask("a", 1, 7, 9, 8), ask("a", 1, 7, 9, 6))  # two at once: the other end has the second
        await ask("a", 1, 7, 9, 8, 9, 2)
        await ask("b", 1, 7)
        await engine.forget("b")
        await ask("b", 1, 7, 9)

    asyncio.run(all_of_them())
    assert went[:4] == [(0, [1, 2]), (3, [3]), (5, [4, 5]), (0, [1, 7])]
    assert went[4:7] == [(3, [8]), (0, [1, 7, 9, 6]), (0, [1, 7, 9, 8, 9, 2])]
    assert went[7:] == [(0, [1, 7]), (0, [1, 7, 9])]


def test_what_is_collected_waits_until_the_walk_is_over() -> None:
    with without_garbage_collection():
        assert not gc.isenabled()
        with without_garbage_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.fixture
def _nothing_frozen() -> Iterator[None]:
    """As in a process of a user: who has frozen objects keeps them frozen, as the tests do (conftest.py)."""
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("_nothing_frozen")
def test_where_no_circles_were_made_all_counts_as_old() -> None:
    for circles in (True, False):
        with without_garbage_collection(circles=circles):
            made: list[object] = [[] for _ in range(10)]
        assert any(one is made for one in gc.get_objects(generation=2)) is not circles
    assert gc.isenabled()


def test_a_worker_needs_no_torch() -> None:
    code = "import sys, kgwalk.training.workers.process, kgwalk.llm.tokenizers; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_how_many_workers_there_are() -> None:
    assert worker_count("cpu") == 0
    cores = len(os.sched_getaffinity(0))
    assert worker_count("cuda:0") == max(0, min(cores - 2, 12))
    assert worker_count("cuda", processes=cores) == 0
