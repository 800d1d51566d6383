"""The facts that a question is walked over, as a check asks for them: is this name, this time, this fact there?

The whole graph or a question's own part of it; what was asked once is remembered. Knows nothing of right and wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kgwalk.kg.store import StoredGraph
from kgwalk.types import Question, Triple

COMPUTED_KINDS = ("boolean", "number")  # of `answer_kind`: worked out, so that a node of that name is another thing


class Ground:
    """A graph under a check."""

    def __init__(self, graph: StoredGraph) -> None:
        self.graph = graph
        self._numbers: dict[str, int | None] = {}
        self._facts: dict[Triple, bool] = {}

    def number(self, name: str) -> int | None:
        """The entity of this name or id; None where it has no fact here."""
        if name not in self._numbers:
            self._numbers[name] = self.graph.store.entity_number(name) if name in self.graph else None
        return self._numbers[name]

    def has(self, fact: Triple) -> bool:
        """Whether the fact is here, at its time if it has one."""
        if fact not in self._facts:
            found = self.graph._matching(*fact[:3])
            self._facts[fact] = any(fact.time in ("", self._time(triple)) for triple in found)
        return self._facts[fact]

    def _time(self, triple: int) -> str:
        store = self.graph.store
        return store.date[store.date_of[triple]] if store.timed else ""

    @cached_property
    def times(self) -> set[str]:
        """The times that facts here have, as an answer may give them: see `moments`."""
        store = self.graph.store
        if not store.timed:
            return set()
        triples = np.asarray(self.graph._positions(0, len(store.out.other), True), np.int64)
        dates = store.date.several(np.unique(store.date_of_array[triples]).tolist())
        return {moment for date in dates for moment in moments(date)}

    def locate(self, question: Question) -> Located:
        topics = [self.number(topic) for topic in question.topic_entities]
        if question.extra.get("answer_kind") in COMPUTED_KINDS:
            return Located(self, topics, [None] * len(question.answers))
        aliases = question.aliases
        return Located(self, topics, [self._any([name, *aliases.get(name, ())]) for name in question.answers])

    def _any(self, names: Sequence[str]) -> int | None:
        return next((number for number in map(self.number, names) if number is not None), None)


@dataclass(frozen=True, slots=True)
class Located:
    """The entities of a question's topics and answers, in their order; None for one that is not there.

    An answer is there by its own name or by one of its aliases; one that is worked out (a count) is not.
    """

    ground: Ground
    topics: list[int | None]
    answers: list[int | None]

    @property
    def starts(self) -> list[int]:
        return [number for number in self.topics if number is not None]

    @property
    def ends(self) -> list[int]:
        return [number for number in self.answers if number is not None]


def moments(time: str) -> set[str]:
    """Both ends of a time, to the day, the month and the year.

    >>> sorted(moments("1990-05..1994"))
    ['1990', '1990-05', '1994']
    """
    ends = {end.strip() for end in time.split("..")} - {""}
    return ends | {end[:at] for end in ends for at, sign in enumerate(end) if sign == "-" and at}
