"""Rollouts end to end, as in a step of training: episodes a second, and where their time goes.

There are three runs of as many episodes, each with other questions: one in which passes are recorded and compiled, one
that is measured, and one with timers in Python, which slow it down (`timers`). With workers there is no third run, as
the timers would be in other processes.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from typing import Any, TypeVar

from kgwalk.bench.machine import Machine, growth_rows
from kgwalk.bench.rows import Figure
from kgwalk.bench.timers import DeviceWatch, ProcessorClock, TimedProtocol, TimedTokens, engine_times
from kgwalk.config.recipe import Recipe
from kgwalk.data.dataset import Dataset
from kgwalk.llm.engine import Engine, Sampling
from kgwalk.llm.models import LoadedModel
from kgwalk.llm.torch_engine.engine import LocalEngine
from kgwalk.llm.torch_engine.model import longest_context
from kgwalk.training.workers.messages import CannotTravel
from kgwalk.training.workers.pool import WorkerPool
from kgwalk.types import Episode, KgwalkError, Progress, Question, StopReason
from kgwalk.walk.environment import Environments, environment_for, environments_of
from kgwalk.walk.policy import budget_of, check_web, protocol_of
from kgwalk.walk.protocol import Environment, Protocol, Task
from kgwalk.walk.rollout import Budget, rollout, without_garbage_collection

GROUP = 8  # rollouts of a question
BLOCKS = 10  # parts of a soak; memory is read after each
MAX_GROWTH = 1.05  # times, from a fifth of a soak to its end
HOST = ("prompt", "parse", "graph", "tokenise")
SAMPLED = Sampling(temperature=1.0, seed=0)  # as in training
SomeEngine = TypeVar("SomeEngine", bound=Engine)


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
        """The questions of so many episodes, a group for each question, with their keys. Every run has other questions,
        as long as there are any left."""
        a_run = -(-count // GROUP)
        asked = islice(cycle(self.questions), run * a_run, (run + 1) * a_run)
        every = [(one, f"{run}:{number}:{rollout}") for number, one in enumerate(asked) for rollout in range(GROUP)]
        return every[:count]

    def tasks(self, asked: Iterable[tuple[Question, str]]) -> list[tuple[Task, Environment]]:
        return [(Task(one, one.topic_entities, key), self.environments.of(one)) for one, key in asked]


def _questions(dataset: Dataset) -> list[Question]:
    """The questions of the training split, or else of the first one; shuffled, as files begin with easy ones."""
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
def opened(engine: SomeEngine) -> Iterator[SomeEngine]:
    """The engine, closed at the end."""
    try:
        yield engine
    finally:
        asyncio.run(engine.close())


@dataclass(frozen=True)
class Rollouts:
    """An engine, and the workers that walk with it; without a pool an event loop in this process does."""

    engine: LocalEngine
    pool: WorkerPool | None = None

    @classmethod
    @contextmanager
    def opened(cls, model: LoadedModel, workload: Workload, workers: int) -> Iterator[Rollouts]:
        """With slots as long as an episode of the workload may be, as in training; all is closed at the end."""
        context = min(workload.budget.total_tokens, longest_context(model.module))
        with opened(LocalEngine(model, context=context, lockstep=workers > 0)) as engine:
            if not workers:
                yield cls(engine)
                return
            with closing(WorkerPool(engine, workload.protocol, workload.budget, count=workers)) as pool:
                yield cls(engine, pool)

    def walk(self, workload: Workload, asked: Sequence[tuple[Question, str]], protocol: Any = None) -> list[Episode]:
        """Walks as in training: at temperature 1, and the engine's cache is empty."""
        self.engine.weights_changed()
        if self.pool is None:
            return walked(self.engine, workload, asked, protocol)
        try:
            return _unbroken([one.episode for one in self.pool.walk(workload.environments, asked, SAMPLED)])
        except CannotTravel as why:
            raise KgwalkError(f"{workload.label} cannot be walked by workers: {why}; give --workers 0") from why

    def processor_seconds(self) -> tuple[float, float]:
        """Processor time of this process and of its workers, so far."""
        return time.process_time(), 0.0 if self.pool is None else sum(self.pool.processor_seconds())


def walked(
    engine: Engine, workload: Workload, asked: Sequence[tuple[Question, str]], protocol: Any = None
) -> list[Episode]:
    """Walks with an engine of any kind, in an event loop of this process."""
    with without_garbage_collection():
        tasks, how = workload.tasks(asked), protocol or workload.protocol
        return _unbroken(rollout(tasks, how, engine, sampling=SAMPLED, budget=workload.budget))


def _unbroken(episodes: list[Episode]) -> list[Episode]:
    broken = [one for one in episodes if one.stop in (StopReason.engine_failed, StopReason.tool_failed)]
    if broken:
        raise KgwalkError(f"{len(broken):,} of {len(episodes):,} episodes failed, the first with: {broken[0].failure}")
    return episodes


def episode_rows(
    rollouts: Rollouts, workload: Workload, machine: Machine, count: int, progress: Progress
) -> Iterator[Figure]:
    """Speed, and shares of the time: of the device, of the engine's thread, of Python."""
    engine, runs = rollouts.engine, 3 if rollouts.pool is None else 2

    def run(number: int, protocol: Any = None) -> tuple[float, list[Episode]]:
        progress(workload.label, number, runs)
        asked = workload.asked(count, number)
        begun = time.perf_counter()
        episodes = rollouts.walk(workload, asked, protocol)
        return time.perf_counter() - begun, episodes

    first, _ = run(0)
    early, before, used = machine.held(), engine_times(engine), rollouts.processor_seconds()
    with DeviceWatch(engine) as device:
        seconds, episodes = run(1)
        busy = device.seconds()
    threads = {name: value - before[name] for name, value in engine_times(engine).items()}
    yield from _speed(workload.label, episodes, seconds, first)
    yield from _processors(workload.label, used, rollouts.processor_seconds(), len(episodes), rollouts.pool)
    yield from _shares(f"{workload.label}: device", _split(busy, seconds), seconds)
    yield from _shares(f"{workload.label}: engine's thread", threads, seconds)
    if rollouts.pool is None:
        clock = ProcessorClock()
        with TimedTokens(engine, clock):
            slowed, _ = run(2, TimedProtocol(workload.protocol, clock))
        yield from _shares(f"{workload.label}: Python", {name: clock.seconds[name] for name in HOST}, slowed)
    progress(workload.label, runs, runs)
    yield from growth_rows(workload.label, early, machine.held())
    yield from machine.most_rows(workload.label)


def soak_rows(
    rollouts: Rollouts, workload: Workload, machine: Machine, count: int, progress: Progress
) -> Iterator[Figure]:
    """Many episodes in blocks: does anything grow after the first fifth of them?"""
    held = []
    begun = time.perf_counter()
    for block in range(BLOCKS):
        progress(f"{workload.label}, soak", block, BLOCKS)
        rollouts.walk(workload, workload.asked(-(-count // BLOCKS), block))
        held.append(machine.held())
    label = f"{workload.label}, {count:,} episodes"
    yield Figure(f"{label}: episodes", count / (time.perf_counter() - begun), "episodes/s")
    yield from growth_rows(label, held[BLOCKS // 5 - 1], held[-1], ("<=", MAX_GROWTH))
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
    """Processor time an episode; it is more than the time that passed if several processors worked."""
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
