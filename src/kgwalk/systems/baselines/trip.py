"""An episode of a baseline without a protocol: its turns, its tools, and one place for failures.

`trips` runs many at once, as the rollout does for protocols. A tool whose backend fails is tried again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kgwalk.kg.store import StoredGraph
from kgwalk.types import EngineError, Episode, KgwalkError, Step, StopReason, Turn
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import Budget, Watch

_T = TypeVar("_T")


class ToolFailed(Exception):
    """A backend that failed as often as it was tried."""


class OutOfTime(Exception):
    """The episode used up its seconds."""


class Trip:
    """One episode under way; `key` stands for it in seeds."""

    def __init__(
        self, task: Task, environment: Environment, key: str, budget: Budget, watch: Watch, threads: ThreadPoolExecutor
    ) -> None:
        self.task, self.environment, self.key, self.budget = task, environment, key, budget
        self.episode = Episode(task.question, list(task.topics), [], "", key=task.key)
        self._watch, self._threads = watch, threads
        self._started = time.monotonic()
        # A store answers in microseconds: a hop to another thread would take longer than the answer.
        self._quick = isinstance(environment.graph, StoredGraph) and environment.embed is None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def check_time(self) -> None:
        if self.seconds > self.budget.seconds:
            raise OutOfTime

    def chance(self, seed: int | None) -> random.Random:
        """Draws that are the same for the same seed and key. None counts as 0: what is random here stays repeatable."""
        return random.Random(f"{seed or 0}/{self.key}")

    async def ask(self, what: str, call: Callable[[], _T], *, slow: bool = False) -> _T:
        """A call to the graph, tried again if its backend fails; raises ToolFailed, or OutOfTime.

        `slow`: it may wait for something else than the graph.
        """
        self.check_time()
        for attempt in range(self.budget.tool_retries + 1):
            try:
                if self._quick and not slow:
                    return call()
                return await asyncio.get_running_loop().run_in_executor(self._threads, call)
            except KgwalkError as error:
                if attempt == self.budget.tool_retries:
                    raise ToolFailed(f"{what}: {error}") from error
        raise AssertionError("unreachable")

    def add(self, turn: Turn) -> None:
        self.episode.turns.append(turn)
        self._watch(self.episode, turn)

    def told(self, step: Step, text: str, observation: str = "", shown: Sequence[str] = ()) -> None:
        """A turn that no model wrote: it has no tokens."""
        self.add(Turn([], [], text, step, observation, shown=list(shown)))

    def watch(self, turn: Turn | None) -> None:
        self._watch(self.episode, turn)


async def trips(
    tasks: Sequence[tuple[Task, Environment]],
    budget: Budget,
    watch: Watch,
    walk: Callable[[Trip], Awaitable[StopReason]],
) -> list[Episode]:
    """Walk every task, at most `budget.at_once` at the same time; the episodes come back in the tasks' order."""
    gate = asyncio.Semaphore(budget.at_once)
    threads = ThreadPoolExecutor(budget.threads, thread_name_prefix="kgwalk-tool")

    async def one(number: int, task: Task, environment: Environment) -> Episode:
        async with gate:
            trip = Trip(task, environment, task.key or f"{number}:{task.question.id}", budget, watch, threads)
            episode = trip.episode
            try:
                episode.stop = await walk(trip)
            except EngineError as error:
                episode.stop, episode.failure = StopReason.engine_failed, str(error)
            except ToolFailed as error:
                episode.stop, episode.failure = StopReason.tool_failed, str(error)
            except OutOfTime:
                episode.stop = StopReason.time
            episode.seconds = trip.seconds
            trip.watch(None)
            return episode

    try:
        return list(await asyncio.gather(*(one(n, task, environment) for n, (task, environment) in enumerate(tasks))))
    finally:
        # Not waited for: when the walks are cancelled, a slow tool must not hold up the event loop.
        threads.shutdown(wait=False, cancel_futures=True)
