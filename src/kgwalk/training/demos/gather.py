"""Demonstrations from all the sources that a recipe names: written ones, then a teacher's where no route would do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from kgwalk.agent.budget import Budget
from kgwalk.agent.policy import Agent
from kgwalk.agent.protocol import Protocol, World
from kgwalk.kg.graph import Graph
from kgwalk.llm.tokens import Tokenizer
from kgwalk.training.demos.demo import Demo
from kgwalk.training.demos.fallen import Fallen
from kgwalk.training.demos.make import make_demos
from kgwalk.training.demos.settings import DemoSettings
from kgwalk.training.demos.teacher import teacher_demos
from kgwalk.types import KgwalkError, Question


@dataclass
class Gathering:
    """What is asked for. `written` and `taught` are filled as `demos` goes on; `world_of` is that of `make_demos`."""

    questions: Sequence[Question]
    graph_for: Callable[[Question], Graph]
    protocol: Protocol
    settings: DemoSettings
    budget: Budget = field(default_factory=Budget)
    tokens: Tokenizer | None = None  # the learner's
    teacher: Agent | None = None
    teacher_name: str = "teacher"
    seed: int = 0
    world_of: Callable[[Question], World] | None = None
    written: Fallen = field(default_factory=Fallen)
    taught: Fallen = field(default_factory=Fallen)

    def __post_init__(self) -> None:
        if "teacher" in self.settings.sources and self.teacher is None:
            raise KgwalkError("the source `teacher` needs a language model; give one, or leave it out of the sources")

    def demos(self) -> Iterator[Demo]:
        questions, settings = self.questions, self.settings
        if set(settings.sources) != {"teacher"}:
            made, self.written = make_demos(
                questions,
                self.graph_for,
                self.protocol,
                settings=settings,
                budget=self.budget,
                tokens=self.tokens,
                seed=self.seed,
                world_of=self.world_of,
            )
            done = set()
            for demo in made:
                done.add(demo.id.rsplit("#", 1)[0] if settings.per_question > 1 else demo.id)
                yield demo
            questions = [question for question in questions if question.id not in done]
        yield from self._taught(questions)

    def _taught(self, questions: Sequence[Question]) -> Iterator[Demo]:
        settings = self.settings
        if settings.limit is not None:
            settings = replace(settings, limit=settings.limit - self.written.kept)
        if "teacher" not in settings.sources or settings.limit == 0:
            return
        assert self.teacher is not None
        made, self.taught = teacher_demos(
            questions,
            self.graph_for,
            self.teacher,
            settings=settings,
            name=self.teacher_name,
            seed=self.seed,
            world_of=self.world_of,
        )
        yield from made
