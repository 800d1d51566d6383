"""Questions walked by the model in training: many rollouts of each to learn from, one greedy walk to validate.

The engine runs the trained module itself. On a CPU the same weights and keys give the same episodes in every run, bit
for bit: rows run in lockstep, no walk finds anything in the engine's cache, and no tool is waited for in a thread.
Knows nothing of rewards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kgwalk.agent.budget import Budget
from kgwalk.agent.policy import Agent
from kgwalk.agent.protocol import Protocol, Task
from kgwalk.agent.worlds import Worlds
from kgwalk.llm.engine import Sampling
from kgwalk.llm.local import LocalEngine
from kgwalk.llm.slot_model import longest_context
from kgwalk.score.episode import measure
from kgwalk.training.model import PolicyModel
from kgwalk.training.processes import Processes
from kgwalk.types import Episode, KgwalkError, Question

VALIDATED = ("f1", "hits_at_1", "hit_any", "exact_set", "retrieval_rate", "answered", "generated_tokens", "turns")


@dataclass(frozen=True)
class Course:
    """The questions of a run and the world that each is asked in."""

    questions: Sequence[Question]
    worlds: Worlds

    def __post_init__(self) -> None:
        if not self.questions:
            raise KgwalkError("there are no questions to train on")
        for question in self.questions:
            if not question.topic_entities:
                raise KgwalkError(f"question {question.id!r} has no topic entity; `kgwalk data check` lists all such")
            if not question.answers:
                raise KgwalkError(f"question {question.id!r} has no answer; `kgwalk data check` lists all such")

    def measure(self, episode: Episode) -> dict[str, float]:
        """Its numbers; names are compared over the whole graph, as in an evaluation."""
        return measure(episode, self.worlds.graph_for(episode.question))


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
    """Rolls out the model as it is now."""

    def __init__(self, model: PolicyModel, protocol: Protocol, budget: Budget, *, batch: int | None = None) -> None:
        self.protocol, self.budget = protocol, budget
        self.same = model.device == "cpu"  # the same episodes in every run
        own = model.loaded()
        # No longer than an episode may be: on a GPU the room for all rows is taken at once.
        context = min(budget.total_tokens, longest_context(own.module))
        self.engine = LocalEngine(own, lockstep=True, batch=batch, context=context)

    def weights_changed(self) -> None:
        """For whoever asks the engine himself; `walk` sees to it."""
        self.engine.weights_changed()

    def walk(self, course: Course, asked: Sequence[tuple[int, str]], sampling: Sampling) -> list[Episode]:
        """An episode for each (question's number, key); the key decides its luck."""
        agent = Agent(self.protocol, self.engine, self.budget, sampling)
        tasks = []
        for number, key in asked:
            question = course.questions[number]
            tasks.append((Task(question, question.topic_entities, key), course.worlds.of(question)))
        self.engine.weights_changed()
        with asyncio.Runner(loop_factory=_InPlace if self.same else None) as runner:
            return runner.run(agent.walk(tasks, lambda episode, turn: None))

    def validate(self, course: Course, processes: Processes) -> dict[str, float]:
        """Means over the course's questions, greedy; each process walks its share."""
        own = processes.share(len(course.questions))
        episodes = self.walk(course, [(number, f"validate:{number}") for number in own], Sampling())
        found = processes.gathered([course.measure(episode) for episode in episodes])
        return {name: sum(row[name] for row in found) / len(found) for name in VALIDATED}

    def close(self) -> None:
        asyncio.run(self.engine.close())
