"""Questions walked by the model in training: many rollouts of each to learn from, one greedy walk to validate.

The engine runs the trained module itself. On a CPU the same weights and keys give the same episodes in every run, bit
for bit: rows run in lockstep, no walk finds anything in the engine's cache, and no tool is waited for in a thread. On a
GPU, which Python cannot keep busy from one process, all but the model runs in workers (`workers`): the same keys give
the same luck there, and which rows run together depends on time. Knows nothing of rewards.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from kgwalk.config.runtime import without_collecting
from kgwalk.data.mixture import OF
from kgwalk.llm.engine import Sampling
from kgwalk.llm.torch_engine.engine import LocalEngine
from kgwalk.llm.torch_engine.model import longest_context
from kgwalk.training.curriculum import Course, MeasuredEpisode
from kgwalk.training.model import PolicyModel
from kgwalk.training.shards import Processes
from kgwalk.training.workers.messages import CannotTravel
from kgwalk.training.workers.pool import WorkerPool
from kgwalk.types import Episode, KgwalkError
from kgwalk.walk.budget import Budget
from kgwalk.walk.policy import ProtocolPolicy
from kgwalk.walk.protocol import Protocol, Task

log = logging.getLogger(__name__)

MOST_WORKERS = 12  # more than the process with the model can answer
VALIDATED = ("f1", "hits_at_1", "hit_any", "exact_set", "retrieval_rate", "answered", "generated_tokens", "turns")


class _InPlace(asyncio.SelectorEventLoop):
    """Calls meant for a thread are made here and now: which ends first would depend on the machine's mood."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future: asyncio.Future[Any] = self.create_future()
        try:
            future.set_result(func(*args))
        except KgwalkError as error:
            future.set_exception(error)
        return future


class Walker:
    """Rolls out the model as it is now. `workers` is a number of processes, or "auto": see `worker_count`."""

    def __init__(
        self,
        model: PolicyModel,
        protocol: Protocol,
        budget: Budget,
        *,
        batch: int | None = None,
        workers: int | str = "auto",
    ) -> None:
        self.protocol, self.budget = protocol, budget
        self.same = model.device == "cpu"  # the same episodes in every run
        own, self._gather = model.loaded(), model.gather
        # No longer than an episode may be: on a GPU the room for all rows is taken at once.
        context = min(budget.total_tokens, longest_context(own.module))
        self.engine = LocalEngine(own, lockstep=True, batch=batch, context=context)
        count = worker_count(model.device) if isinstance(workers, str) else workers
        self._pool = WorkerPool(self.engine, protocol, budget, count=count) if count else None

    def weights_changed(self) -> None:
        """For whoever asks the engine himself; `walk` sees to it."""
        self._gather()
        self.engine.weights_changed()

    def walk(self, course: Course, asked: Sequence[tuple[int, str]], sampling: Sampling) -> list[Episode]:
        """An episode for each (question's number, key); the key decides its luck."""
        self.weights_changed()
        walked = self._in_workers(course, asked, sampling)
        return self._here(course, asked, sampling) if walked is None else [one.episode for one in walked]

    def measured(self, course: Course, asked: Sequence[tuple[int, str]], sampling: Sampling) -> list[MeasuredEpisode]:
        """The same with their numbers, which the workers see to where there are any."""
        if self._pool is None:
            return [MeasuredEpisode.of(episode, course.environments) for episode in self.walk(course, asked, sampling)]
        self.weights_changed()
        walked = self._in_workers(course, asked, sampling)
        if walked is not None:
            return walked
        return [MeasuredEpisode.of(episode, course.environments) for episode in self._here(course, asked, sampling)]

    def _in_workers(
        self, course: Course, asked: Sequence[tuple[int, str]], sampling: Sampling
    ) -> list[MeasuredEpisode] | None:
        """None if there are none, or none that can be given what the walks need."""
        if self._pool is None:
            return None
        try:
            return self._pool.walk(
                course.environments, [(course.questions[number], key) for number, key in asked], sampling
            )
        except CannotTravel as why:
            log.warning("walking in this process alone, since its parts cannot be given to workers: %s", why)
            self._pool = None
            return None

    def _here(self, course: Course, asked: Sequence[tuple[int, str]], sampling: Sampling) -> list[Episode]:
        agent = ProtocolPolicy(self.protocol, self.engine, self.budget, sampling)
        tasks = []
        for number, key in asked:
            question = course.questions[number]
            tasks.append((Task(question, question.topic_entities, key), course.environments.of(question)))
        with without_collecting(), asyncio.Runner(loop_factory=_InPlace if self.same else None) as runner:
            return runner.run(agent.walk(tasks, lambda episode, turn: None))

    def validate(self, course: Course, processes: Processes) -> dict[str, float]:
        """Means over the course's questions, greedy; each process walks its share. Of a mixture, `f1/NAME` as well."""
        own = processes.share(len(course.questions))
        walked = self.measured(course, [(number, f"validate:{number}") for number in own], Sampling())
        found = processes.gathered([(str(one.episode.question.extra.get(OF, "")), one.numbers) for one in walked])
        means = {name: _mean([row[name] for _, row in found]) for name in VALIDATED}
        parts = sorted({part for part, _ in found if part})
        return means | {f"f1/{part}": _mean([row["f1"] for of, row in found if of == part]) for part in parts}

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
        asyncio.run(self.engine.close())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def worker_count(device: str, processes: int = 1) -> int:
    """How many workers serve a model there: none on a CPU, which they would take from it, and where walks are promised
    to be the same in every run; beside a GPU all cores but two, of each of so many processes its share, up to 12.
    """
    if not device.startswith("cuda") or os.name != "posix":
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(0, min(cores // processes - 2, MOST_WORKERS))
