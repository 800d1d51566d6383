"""Questions walked by the model in training: many rollouts of each to learn from, one greedy walk to validate.

The engine runs the trained module itself. Knows nothing of rewards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kgwalk.agent.budget import Budget
from kgwalk.agent.policy import Agent
from kgwalk.agent.protocol import Protocol, Task
from kgwalk.kg.graph import Graph
from kgwalk.llm.engine import Sampling
from kgwalk.llm.local import LocalEngine
from kgwalk.score.episode import measure
from kgwalk.training.model import PolicyModel
from kgwalk.types import Episode, KgwalkError, Question

VALIDATED = ("f1", "hits_at_1", "hit_any", "exact_set", "retrieval_rate", "answered", "generated_tokens", "turns")


@dataclass(frozen=True)
class Course:
    """The questions of a run and the graph that each is asked of."""

    questions: Sequence[Question]
    graph_for: Callable[[Question], Graph]
    complete: Callable[[Question], bool] = lambda question: True  # whether its graph has all that it needs

    def __post_init__(self) -> None:
        if not self.questions:
            raise KgwalkError("there are no questions to train on")
        for question in self.questions:
            if not question.topic_entities:
                raise KgwalkError(f"question {question.id!r} has no topic entity; `kgwalk data check` lists all such")
            if not question.answers:
                raise KgwalkError(f"question {question.id!r} has no answer; `kgwalk data check` lists all such")


class Walker:
    """Rolls out the model as it is. Call `weights_changed` after every update."""

    def __init__(self, model: PolicyModel, protocol: Protocol, budget: Budget, *, batch: int | None = None) -> None:
        self.protocol, self.budget = protocol, budget
        # In lockstep a run that is resumed computes the same, bit for bit; a GPU must not wait for Python.
        self.engine = LocalEngine(model.loaded(), lockstep=model.device == "cpu", batch=batch)

    def weights_changed(self) -> None:
        self.engine.weights_changed()

    def walk(self, course: Course, asked: Sequence[tuple[int, str]], sampling: Sampling) -> list[Episode]:
        """An episode for each (question's number, key); the key decides its luck."""
        agent = Agent(self.protocol, self.engine, self.budget, sampling)
        tasks = []
        for number, key in asked:
            question = course.questions[number]
            graph = course.graph_for(question)
            tasks.append((Task(question, question.topic_entities, key), agent.world(graph)))
        return asyncio.run(agent.walk(tasks, lambda episode, turn: None))

    def validate(self, course: Course, count: int) -> dict[str, float]:
        """Means over the course's first `count` questions, greedy."""
        numbers = range(min(count, len(course.questions)))
        episodes = self.walk(course, [(number, f"validate:{number}") for number in numbers], Sampling())
        found = [measure(episode, course.graph_for(episode.question)) for episode in episodes]
        return {name: sum(row[name] for row in found) / len(found) for name in VALIDATED}

    def close(self) -> None:
        asyncio.run(self.engine.close())
