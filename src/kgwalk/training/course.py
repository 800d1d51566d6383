"""The questions of a run, the world that each is asked in, and the numbers of what came of them.

Needs no torch: the processes that walk import it. Knows nothing of models or rewards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgwalk.agent.worlds import Worlds
from kgwalk.score.episode import measure
from kgwalk.types import Episode, KgwalkError, Question


@dataclass(frozen=True, slots=True)
class Measured:
    """An episode with its numbers. `complete`: it was walked over a graph with all that the question needs."""

    episode: Episode
    numbers: dict[str, float]
    complete: bool

    @classmethod
    def of(cls, episode: Episode, worlds: Worlds) -> Measured:
        """Names are compared over the whole graph, as in an evaluation."""
        question = episode.question
        return cls(episode, measure(episode, worlds.graph_for(question)), worlds.of(question).complete)


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
        """Its numbers alone."""
        return Measured.of(episode, self.worlds).numbers
