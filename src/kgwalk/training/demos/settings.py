"""The section [demos] of a recipe: where demonstrations come from, how they speak, and what they must pass."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kgwalk.config.recipe import Recipe, unknown
from kgwalk.config.section import read_section, setting
from kgwalk.training.demos.filter import FILTERS
from kgwalk.training.demos.voice import STYLES
from kgwalk.types import KgwalkError, Question

SOURCES = ("program", "gold", "evidence", "search", "teacher")


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """Each setting is documented here, once."""

    sources: tuple[str, ...] = ("program", "gold", "evidence", "search")  # in the order of preference
    styles: tuple[str, ...] = ()  # of the thoughts; none given: all that the protocol's writer has
    wrong: float = setting(0.1, least=0, most=1)  # share of demos with a wrong turn that is taken back
    filters: tuple[str, ...] = ("length", "format", "answer", "retrieval", "plan")
    answer_f1: float = setting(1.0, least=0, most=1)  # of the filter "answer": the least F1
    per_question: int = setting(1, least=1)  # demos of one question, in other words and styles
    hops: int = setting(3, least=1)  # the longest chain that "search" looks for
    limit: int | None = setting(None, least=1)  # demos in all
    samples: int = setting(4, least=1)  # of a teacher, for each question
    temperature: float = setting(1.0, least=0)  # of a teacher

    @classmethod
    def of(cls, recipe: Recipe) -> DemoSettings:
        """What the recipe says; a key or value that is none is an error that names the nearest."""
        return read_section(cls, recipe, "demos").checked()

    def asked(self, questions: Iterable[Question], seed: int) -> Iterable[Question]:
        """The questions in the order in which they are tried: a seeded one where not all of them may be needed."""
        if self.limit is None:
            return questions
        shuffled = list(questions)
        random.Random(f"{seed}/demos").shuffle(shuffled)
        return shuffled

    def checked(self) -> DemoSettings:
        _known("source", self.sources, SOURCES)
        _known("style", self.styles, STYLES)
        _known("filter", self.filters, FILTERS)
        if not self.sources:
            raise KgwalkError(f"`demos.sources` is empty; there are {', '.join(SOURCES)}")
        return self


def _known(what: str, given: Iterable[object], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            raise unknown(what, str(name), known)
