"""Walks in training: rollouts of each question to learn from, and greedy walks to validate.

The engine runs the trained module itself. On a CPU the same weights and keys give the same episodes in every run, bit
for bit: sequences run in lockstep, no walk finds anything in the engine's cache, and tools are not run in threads. One
Python process cannot keep a GPU busy, so there everything but the model runs in worker processes (`workers`): the same
keys give the same draws, but which sequences run together depends on time.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from kgwalk.data.mixture import DATASET_KEY
from kgwalk.llm.engine import Sampling
from kgwalk.llm.torch_engine.engine import LocalEngine
from kgwalk.llm.torch_engine.model import longest_context
from kgwalk.training.curriculum import MeasuredEpisode, TrainingSet
from kgwalk.training.model import PolicyModel
from kgwalk.training.updater import Processes
from kgwalk.training.workers.messages import CannotTravel
from kgwalk.training.workers.pool import WorkerPool
from kgwalk.types import Episode, KgwalkError
from kgwalk.walk.protocol import Protocol, Task
from kgwalk.walk.rollout import Budget, rollout_async, without_garbage_collection

log = logging.getLogger(__name__)

MOST_WORKERS = 12  # the process with the model cannot answer more
Asked = Sequence[tuple[int, str]]  # the number of a question in a training set, and the key of a rollout
VALIDATED = ("f1", "hits_at_1", "hit_any", "exact_set", "retrieval_rate", "answered", "generated_tokens", "turns")


class _InPlace(asyncio.SelectorEventLoop):
    """Runs calls meant for a thread at once: in threads, which one ends first would change from run to run."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future: asyncio.Future[Any] = self.create_future()
        try:
            future.set_result(func(*args))
        except KgwalkError as error:
            future.set_exception(error)
        return future


class Walker:
    """Walks questions with the model as it is now. `workers` is a number of processes, or "auto" (`worker_count`)."""

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
        self.same = model.device == "cpu"  # whether the same keys give the same episodes in every run
        own, self._gather = model.loaded(), model.gather
        # No longer than an episode may be: on a GPU the memory of all sequences is taken at the start.
        context = min(budget.total_tokens, longest_context(own.module))
        self.engine = LocalEngine(own, lockstep=True, batch=batch, context=context)
        count = worker_count(model.device) if isinstance(workers, str) else workers
        self._pool = WorkerPool(self.engine, protocol, budget, count=count) if count else None

    def weights_changed(self) -> None:
        """Bring new weights to the engine. `walk` does so itself; needed by those who ask the engine directly."""
        self._gather()
        self.engine.weights_changed()

    def walk(self, training_set: TrainingSet, asked: Asked, sampling: Sampling) -> list[Episode]:
        """An episode for each (question's number, key); the key decides its draws."""
        self.weights_changed()
        walked = self._in_workers(training_set, asked, sampling)
        return self._here(training_set, asked, sampling) if walked is None else [one.episode for one in walked]

    def measured(self, training_set: TrainingSet, asked: Asked, sampling: Sampling) -> list[MeasuredEpisode]:
        """The same with their metrics, which the workers compute where there are any."""
        if self._pool is None:
            episodes = self.walk(training_set, asked, sampling)
        else:
            self.weights_changed()
            walked = self._in_workers(training_set, asked, sampling)
            if walked is not None:
                return walked
            episodes = self._here(training_set, asked, sampling)
        return [MeasuredEpisode.of(episode, training_set.environments) for episode in episodes]

    def _in_workers(self, training_set: TrainingSet, asked: Asked, sampling: Sampling) -> list[MeasuredEpisode] | None:
        """None if there are no workers, or they cannot be given what the walks need."""
        if self._pool is None:
            return None
        try:
            return self._pool.walk(
                training_set.environments, [(training_set.questions[number], key) for number, key in asked], sampling
            )
        except CannotTravel as why:
            log.warning("walking in this process alone, since its parts cannot be given to workers: %s", why)
            self._pool = None
            return None

    def _here(self, training_set: TrainingSet, asked: Asked, sampling: Sampling) -> list[Episode]:
        tasks = []
        for number, key in asked:
            question = training_set.questions[number]
            tasks.append((Task(question, question.topic_entities, key), training_set.environments.of(question)))
        with without_garbage_collection(), asyncio.Runner(loop_factory=_InPlace if self.same else None) as runner:
            return runner.run(rollout_async(tasks, self.protocol, self.engine, sampling=sampling, budget=self.budget))

    def validate(self, held_out: TrainingSet, processes: Processes) -> dict[str, float]:
        """Mean metrics of greedy walks; each process walks its share. For a mixture of datasets `f1/NAME` as well."""
        own = processes.share(len(held_out.questions))
        walked = self.measured(held_out, [(number, f"validate:{number}") for number in own], Sampling())
        found = processes.gathered(
            [(str(one.episode.question.extra.get(DATASET_KEY, "")), one.numbers) for one in walked]
        )
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
    """How many workers serve a model on this device.

    None on a CPU: they would take its time, and walks there must be the same in every run. Beside a GPU all cores but
    two, up to 12; with several `processes` each has its share of the cores.
    """
    if not device.startswith("cuda") or os.name != "posix":
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(0, min(cores // processes - 2, MOST_WORKERS))
