"""Rollouts end to end, as a step of training makes them: episodes a second, and where their time goes.

Three runs of as many episodes, each of other questions: one in which passes are recorded and compiled, the one that is
measured, and one with timers in Python, which slow it. Where workers walk there is no third: their timers would be in
other processes. Knows recipes and datasets by their interfaces only.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from typing import Any

from kgwalk.agent.budget import Budget
from kgwalk.agent.from_recipe import budget_of, check_web, protocol_of
from kgwalk.agent.policy import Agent
from kgwalk.agent.protocol import Protocol, Task, World
from kgwalk.agent.world import world_for
from kgwalk.agent.worlds import Worlds, worlds_of
from kgwalk.bench.machine import Machine, growth_rows
from kgwalk.bench.rows import Row
from kgwalk.bench.watch import Clock, DeviceWatch, TimedProtocol, TimedTokens, engine_times
from kgwalk.config.recipe import Recipe
from kgwalk.data.dataset import Dataset
from kgwalk.llm.engine import Sampling
from kgwalk.llm.local import LocalEngine
from kgwalk.llm.models import LoadedModel
from kgwalk.llm.slot_model import longest_context
from kgwalk.training.collecting import without_collecting
from kgwalk.training.workers.luggage import CannotTravel
from kgwalk.training.workers.pool import Pool
from kgwalk.types import Episode, KgwalkError, Question, StopReason

GROUP = 8  # rollouts of a question
BLOCKS = 10  # of a soak; memory is read after each
MOST_GROWTH = 1.05  # times, from a fifth of a soak to its end
HOST = ("prompt", "parse", "graph", "tokenise")
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Place:
    """A recipe on a dataset: what is asked, where and how."""

    label: str
    protocol: Protocol
    budget: Budget
    worlds: Worlds
    questions: Sequence[Question]

    @classmethod
    def of(cls, recipe: Recipe, dataset: Dataset) -> Place:
        check_web(recipe)
        protocol = protocol_of(recipe)
        worlds = worlds_of(recipe, dataset.graph_for, partial(world_for, protocol=protocol))
        return cls(f"{recipe.name} on {dataset.name}", protocol, budget_of(recipe), worlds, _questions(dataset))

    def asked(self, count: int, run: int) -> list[tuple[Question, str]]:
        """So many episodes, a group of each question, with their keys; every run has questions of its own, while there
        are any left."""
        a_run = -(-count // GROUP)
        asked = islice(cycle(self.questions), run * a_run, (run + 1) * a_run)
        every = [(one, f"{run}:{number}:{rollout}") for number, one in enumerate(asked) for rollout in range(GROUP)]
        return every[:count]

    def tasks(self, asked: Iterable[tuple[Question, str]]) -> list[tuple[Task, World]]:
        return [(Task(one, one.topic_entities, key), self.worlds.of(one)) for one, key in asked]


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
    pool: Pool | None = None

    @classmethod
    @contextmanager
    def opened(cls, model: LoadedModel, place: Place, workers: int) -> Iterator[Rollouts]:
        """With slots as long as an episode of the place may be, as in training; closed at the end."""
        context = min(place.budget.total_tokens, longest_context(model.module))
        with opened(LocalEngine(model, context=context, lockstep=workers > 0)) as engine:
            if not workers:
                yield cls(engine)
                return
            with closing(Pool(engine, place.protocol, place.budget, count=workers)) as pool:
                yield cls(engine, pool)

    def walk(self, place: Place, asked: Sequence[tuple[Question, str]], protocol: Any = None) -> list[Episode]:
        """As in training: at temperature 1, with nothing in the engine's cache."""
        self.engine.weights_changed()
        sampling = Sampling(temperature=1.0, seed=0)
        if self.pool is not None:
            try:
                return _unbroken([one.episode for one in self.pool.walk(place.worlds, asked, sampling)])
            except CannotTravel as why:
                raise KgwalkError(f"{place.label} cannot be walked by workers: {why}; give --workers 0") from why
        agent = Agent(protocol or place.protocol, self.engine, place.budget, sampling)
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


def episode_rows(with_: Rollouts, place: Place, machine: Machine, count: int, progress: Progress) -> Iterator[Row]:
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
        clock = Clock()
        with TimedTokens(engine, clock):
            slowed, _ = run(2, TimedProtocol(place.protocol, clock))
        yield from _shares(f"{place.label}: Python", {name: clock.seconds[name] for name in HOST}, slowed)
    progress(place.label, runs, runs)
    yield from growth_rows(place.label, early, machine.held())
    yield from machine.most_rows(place.label)


def soak_rows(with_: Rollouts, place: Place, machine: Machine, count: int, progress: Progress) -> Iterator[Row]:
    """Many episodes in blocks: does anything grow after the first fifth of them?"""
    held = []
    begun = time.perf_counter()
    for block in range(BLOCKS):
        progress(f"{place.label}, soak", block, BLOCKS)
        with_.walk(place, place.asked(-(-count // BLOCKS), block))
        held.append(machine.held())
    label = f"{place.label}, {count:,} episodes"
    yield Row(f"{label}: episodes", count / (time.perf_counter() - begun), "episodes/s")
    yield from growth_rows(label, held[BLOCKS // 5 - 1], held[-1], ("<=", MOST_GROWTH))
    yield from machine.most_rows(label)


def _speed(label: str, episodes: Sequence[Episode], seconds: float, first: float) -> list[Row]:
    count = len(episodes)
    written = sum(one.generated_tokens for one in episodes)
    told = sum(one.total_tokens for one in episodes) - written
    return [
        Row(f"{label}: episodes", count / seconds, "episodes/s"),
        Row(f"{label}: generated", written / seconds, "tokens/s"),
        Row(f"{label}: turns", sum(len(one.turns) for one in episodes) / count, "an episode"),
        Row(f"{label}: generated tokens", written / count, "an episode"),
        Row(f"{label}: tokens told", told / count, "an episode"),
        Row(f"{label}: first run, passes recorded", first, "s"),
    ]


def _processors(
    label: str, before: tuple[float, float], after: tuple[float, float], episodes: int, pool: Pool | None
) -> Iterator[Row]:
    """Processor time; where it is more than the time that passed, it was several processors'."""
    own, theirs = (1000 * (late - early) / episodes for early, late in zip(before, after, strict=True))
    yield Row(f"{label}: processor, this process", own, "ms an episode")
    if pool is not None:
        yield Row(f"{label}: processor, {pool.count} workers", theirs, "ms an episode")


def _split(busy: dict[str, float], seconds: float) -> dict[str, float]:
    """What the device did in so many seconds.

    >>> _split({"prefill": 1.0, "steps": 2.0}, 4.0)
    {'prefill': 1.0, 'decode': 2.0, 'idle': 1.0}
    """
    return {"prefill": busy["prefill"], "decode": busy["steps"], "idle": max(0.0, seconds - sum(busy.values()))}


def _shares(label: str, seconds: dict[str, float], of: float) -> list[Row]:
    return [Row(f"{label}, {name.replace('_', ' ')}", value / of, "share") for name, value in seconds.items()]
