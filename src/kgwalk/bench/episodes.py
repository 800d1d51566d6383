"""Rollouts end to end, as a step of training makes them: episodes a second, and where their time goes.

Three runs of as many episodes, each of other questions: one in which passes are recorded and compiled, the one that is
measured, and one with timers in Python, which slow it. Where workers walk there is no third: their timers would be in
other processes. Knows recipes and datasets by their interfaces only.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from typing import Any

import torch

from kgwalk.bench.rows import Figure, Machine, growth_rows
from kgwalk.config.recipe import Recipe
from kgwalk.config.runtime import without_collecting
from kgwalk.data.dataset import Dataset
from kgwalk.llm.engine import Sampling
from kgwalk.llm.models import LoadedModel
from kgwalk.llm.torch_engine.engine import LocalEngine
from kgwalk.llm.torch_engine.model import longest_context
from kgwalk.training.workers.messages import CannotTravel
from kgwalk.training.workers.pool import WorkerPool
from kgwalk.types import Episode, KgwalkError, Progress, Question, StopReason
from kgwalk.walk.budget import Budget
from kgwalk.walk.environment import Environments, environment_for, environments_of
from kgwalk.walk.policy import ProtocolPolicy, budget_of, check_web, protocol_of
from kgwalk.walk.protocol import Environment, Protocol, Task, Walk

# ----------------------------------------------------------------------------------------------------
# Where the time of a rollout goes: how long the device is at work, and what Python does meanwhile.
#
# Both are put around an engine from outside and taken off again. This is the one module of the benchmarks that reaches
# into the engine; it knows nothing of recipes or figures.


PASSES = ("prefill", "steps")
TOKENISED = ("encode", "decode", "open_chat", "next_turn")
WALKED = {"prompt": "prompt", "parse": "parse", "act": "graph", "resolve": "graph", "evidence": "graph"}
ENGINE = ("take_in", "prefill", "steps", "wait", "read")


def engine_times(engine: LocalEngine) -> dict[str, float]:
    """Seconds of the engine's thread so far. Reading the results has the waiting for them inside; here it has not."""
    times = {name: engine._batcher.times[name] for name in ENGINE}
    times["read"] -= times["wait"]
    return times


class TimedPasses(dict[Any, Any]):
    """Recorded passes by kind and size; each that is added is timed when replayed, until all are `plain` again."""

    def __init__(self, timed: Callable[[str, Callable[[], None]], Callable[[], None]]) -> None:
        self._timed = timed
        self._replays: dict[Any, Callable[[], None]] = {}

    def __setitem__(self, key: Any, one: Any) -> None:
        self._replays[key] = one.replay
        one.replay = self._timed(key[0], one.replay)
        super().__setitem__(key, one)

    def plain(self) -> dict[Any, Any]:
        for key, replay in self._replays.items():
            self[key].replay = replay
        return dict(self)


class DeviceWatch:
    """Seconds for which passes of each kind keep the device busy, while it is entered.

    On a GPU events are put before and after every replayed pass, which costs microseconds; what a round does besides
    (a few numbers copied to and fro) is not counted. Elsewhere a pass is over when its call returns.
    """

    def __init__(self, engine: LocalEngine) -> None:
        self._model: Any = engine._batcher.model
        self._events: list[tuple[str, Any, Any]] = []
        self._seconds: dict[str, float] = dict.fromkeys(PASSES, 0.0)

    def __enter__(self) -> DeviceWatch:
        if self._model.on_gpu:
            graphs = self._model._graphs
            timed = TimedPasses(self._on_gpu)
            for key, one in graphs._recorded.items():
                timed[key] = one
            graphs._recorded = timed
        else:
            for name in PASSES:
                setattr(self._model, name, self._in_place(name, getattr(self._model, name)))
        return self

    def __exit__(self, *error: object) -> None:
        if self._model.on_gpu:
            self._model._graphs._recorded = self._model._graphs._recorded.plain()
        else:
            for name in PASSES:
                delattr(self._model, name)

    def seconds(self) -> dict[str, float]:
        """By kind; waits for what is under way."""
        if self._events:
            torch.cuda.synchronize(self._model.device)
            for kind, begin, end in self._events:
                self._seconds[kind] += begin.elapsed_time(end) / 1000
            self._events.clear()
        return dict(self._seconds)

    def _on_gpu(self, kind: str, replay: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            begin: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call,unused-ignore]
            end: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call,unused-ignore]
            begin.record()
            replay()
            end.record()
            self._events.append((kind, begin, end))

        return run

    def _in_place(self, kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            begun = time.perf_counter()
            found = call(*given, **named)
            self._seconds[kind] += time.perf_counter() - begun
            return found

        return run


class ProcessorClock:
    """Processor time by kind, of all threads. What runs inside another kind counts for itself alone.

    Processor time and not time: a thread that waits for another one to let go of Python does nothing.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inside = threading.local()  # for each call under way in a thread, what those inside it took
        self._lock = threading.Lock()

    def timed(self, kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            inside: list[float] = self._inside.__dict__.setdefault("calls", [])
            inside.append(0.0)
            begun = time.thread_time()
            try:
                return call(*given, **named)
            finally:
                spent = time.thread_time() - begun
                own = spent - inside.pop()
                if inside:
                    inside[-1] += spent
                with self._lock:
                    self.seconds[kind] += own

        return run


class TimedProtocol:
    """A protocol whose walks are timed: `prompt`, `parse` and `graph`, which is tools and evidence."""

    def __init__(self, protocol: Protocol, clock: ProcessorClock) -> None:
        self._protocol, self._clock = protocol, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._protocol, name)

    def begin(self, task: Task, environment: Environment, count: Callable[[str], int]) -> Walk:
        walk: Walk = self._clock.timed("prompt", self._protocol.begin)(task, environment, count)
        for name, kind in WALKED.items():
            setattr(walk, name, self._clock.timed(kind, getattr(walk, name)))
        return walk


class TimedTokens:
    """The engine's tokenizer is timed while this is entered."""

    def __init__(self, engine: LocalEngine, clock: ProcessorClock) -> None:
        self._tokens, self._clock = engine.tokens, clock

    def __enter__(self) -> None:
        for name in TOKENISED:
            setattr(self._tokens, name, self._clock.timed("tokenise", getattr(self._tokens, name)))

    def __exit__(self, *error: object) -> None:
        for name in TOKENISED:
            delattr(self._tokens, name)


GROUP = 8  # rollouts of a question
BLOCKS = 10  # of a soak; memory is read after each
MOST_GROWTH = 1.05  # times, from a fifth of a soak to its end
HOST = ("prompt", "parse", "graph", "tokenise")


@dataclass(frozen=True)
class Workload:
    """A recipe on a dataset: what is asked, where and how."""

    label: str
    protocol: Protocol
    budget: Budget
    environments: Environments
    questions: Sequence[Question]

    @classmethod
    def of(cls, recipe: Recipe, dataset: Dataset) -> Workload:
        check_web(recipe)
        protocol = protocol_of(recipe)
        environments = environments_of(recipe, dataset.graph_for, partial(environment_for, protocol=protocol))
        return cls(f"{recipe.name} on {dataset.name}", protocol, budget_of(recipe), environments, _questions(dataset))

    def asked(self, count: int, run: int) -> list[tuple[Question, str]]:
        """So many episodes, a group of each question, with their keys; every run has questions of its own, while there
        are any left."""
        a_run = -(-count // GROUP)
        asked = islice(cycle(self.questions), run * a_run, (run + 1) * a_run)
        every = [(one, f"{run}:{number}:{rollout}") for number, one in enumerate(asked) for rollout in range(GROUP)]
        return every[:count]

    def tasks(self, asked: Iterable[tuple[Question, str]]) -> list[tuple[Task, Environment]]:
        return [(Task(one, one.topic_entities, key), self.environments.of(one)) for one, key in asked]


def _questions(dataset: Dataset) -> list[Question]:
    """Those of the training split, or of the first there is, shuffled: files begin with the easy ones."""
    splits = dataset.splits()
    if not splits:
        raise KgwalkError(f"{dataset.name} has no questions to ask")
    every = dataset.questions("train" if "train" in splits else splits[0])
    asked = [question for question in every if question.topic_entities]
    if not asked:
        raise KgwalkError(f"no question of {dataset.name} has a topic entity; `kgwalk data check` lists them")
    random.Random("kgwalk/bench").shuffle(asked)
    return asked


@contextmanager
def opened(engine: LocalEngine) -> Iterator[LocalEngine]:
    """Closed at the end."""
    try:
        yield engine
    finally:
        asyncio.run(engine.close())


@dataclass(frozen=True)
class Rollouts:
    """An engine, and the workers that walk with it; None: it is asked from an event loop here."""

    engine: LocalEngine
    pool: WorkerPool | None = None

    @classmethod
    @contextmanager
    def opened(cls, model: LoadedModel, place: Workload, workers: int) -> Iterator[Rollouts]:
        """With slots as long as an episode of the place may be, as in training; closed at the end."""
        context = min(place.budget.total_tokens, longest_context(model.module))
        with opened(LocalEngine(model, context=context, lockstep=workers > 0)) as engine:
            if not workers:
                yield cls(engine)
                return
            with closing(WorkerPool(engine, place.protocol, place.budget, count=workers)) as pool:
                yield cls(engine, pool)

    def walk(self, place: Workload, asked: Sequence[tuple[Question, str]], protocol: Any = None) -> list[Episode]:
        """As in training: at temperature 1, with nothing in the engine's cache."""
        self.engine.weights_changed()
        sampling = Sampling(temperature=1.0, seed=0)
        if self.pool is not None:
            try:
                return _unbroken([one.episode for one in self.pool.walk(place.environments, asked, sampling)])
            except CannotTravel as why:
                raise KgwalkError(f"{place.label} cannot be walked by workers: {why}; give --workers 0") from why
        agent = ProtocolPolicy(protocol or place.protocol, self.engine, place.budget, sampling)
        with without_collecting():
            return _unbroken(asyncio.run(agent.walk(place.tasks(asked), lambda episode, turn: None)))

    def processor_seconds(self) -> tuple[float, float]:
        """Of this process and of its workers, so far."""
        return time.process_time(), 0.0 if self.pool is None else sum(self.pool.processor_seconds())


def _unbroken(episodes: list[Episode]) -> list[Episode]:
    broken = [one for one in episodes if one.stop in (StopReason.engine_failed, StopReason.tool_failed)]
    if broken:
        raise KgwalkError(f"{len(broken):,} of {len(episodes):,} episodes failed, the first with: {broken[0].failure}")
    return episodes


def episode_rows(
    with_: Rollouts, place: Workload, machine: Machine, count: int, progress: Progress
) -> Iterator[Figure]:
    engine, runs = with_.engine, 3 if with_.pool is None else 2

    def run(number: int, protocol: Any = None) -> tuple[float, list[Episode]]:
        progress(place.label, number, runs)
        asked = place.asked(count, number)
        begun = time.perf_counter()
        episodes = with_.walk(place, asked, protocol)
        return time.perf_counter() - begun, episodes

    first, _ = run(0)
    early, before, used = machine.held(), engine_times(engine), with_.processor_seconds()
    with DeviceWatch(engine) as device:
        seconds, episodes = run(1)
        busy = device.seconds()
    threads = {name: value - before[name] for name, value in engine_times(engine).items()}
    yield from _speed(place.label, episodes, seconds, first)
    yield from _processors(place.label, used, with_.processor_seconds(), len(episodes), with_.pool)
    yield from _shares(f"{place.label}: device", _split(busy, seconds), seconds)
    yield from _shares(f"{place.label}: engine's thread", threads, seconds)
    if with_.pool is None:
        clock = ProcessorClock()
        with TimedTokens(engine, clock):
            slowed, _ = run(2, TimedProtocol(place.protocol, clock))
        yield from _shares(f"{place.label}: Python", {name: clock.seconds[name] for name in HOST}, slowed)
    progress(place.label, runs, runs)
    yield from growth_rows(place.label, early, machine.held())
    yield from machine.most_rows(place.label)


def soak_rows(with_: Rollouts, place: Workload, machine: Machine, count: int, progress: Progress) -> Iterator[Figure]:
    """Many episodes in blocks: does anything grow after the first fifth of them?"""
    held = []
    begun = time.perf_counter()
    for block in range(BLOCKS):
        progress(f"{place.label}, soak", block, BLOCKS)
        with_.walk(place, place.asked(-(-count // BLOCKS), block))
        held.append(machine.held())
    label = f"{place.label}, {count:,} episodes"
    yield Figure(f"{label}: episodes", count / (time.perf_counter() - begun), "episodes/s")
    yield from growth_rows(label, held[BLOCKS // 5 - 1], held[-1], ("<=", MOST_GROWTH))
    yield from machine.most_rows(label)


def _speed(label: str, episodes: Sequence[Episode], seconds: float, first: float) -> list[Figure]:
    count = len(episodes)
    written = sum(one.generated_tokens for one in episodes)
    told = sum(one.total_tokens for one in episodes) - written
    return [
        Figure(f"{label}: episodes", count / seconds, "episodes/s"),
        Figure(f"{label}: generated", written / seconds, "tokens/s"),
        Figure(f"{label}: turns", sum(len(one.turns) for one in episodes) / count, "an episode"),
        Figure(f"{label}: generated tokens", written / count, "an episode"),
        Figure(f"{label}: tokens told", told / count, "an episode"),
        Figure(f"{label}: first run, passes recorded", first, "s"),
    ]


def _processors(
    label: str, before: tuple[float, float], after: tuple[float, float], episodes: int, pool: WorkerPool | None
) -> Iterator[Figure]:
    """Processor time; where it is more than the time that passed, it was several processors'."""
    own, theirs = (1000 * (late - early) / episodes for early, late in zip(before, after, strict=True))
    yield Figure(f"{label}: processor, this process", own, "ms an episode")
    if pool is not None:
        yield Figure(f"{label}: processor, {pool.count} workers", theirs, "ms an episode")


def _split(busy: dict[str, float], seconds: float) -> dict[str, float]:
    """What the device did in so many seconds.

    >>> _split({"prefill": 1.0, "steps": 2.0}, 4.0)
    {'prefill': 1.0, 'decode': 2.0, 'idle': 1.0}
    """
    return {"prefill": busy["prefill"], "decode": busy["steps"], "idle": max(0.0, seconds - sum(busy.values()))}


def _shares(label: str, seconds: dict[str, float], of: float) -> list[Figure]:
    return [Figure(f"{label}, {name.replace('_', ' ')}", value / of, "share") for name, value in seconds.items()]
