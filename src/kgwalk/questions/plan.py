"""A plan: how a made question is answered, as calls of tools/sets.py.

    Plan("chain", ("Toy Story",), (Call("tail_entities", (1, "directed_by")), Call("tail_entities", (2, "born_in"))))

The topics are $1, $2, ...; each step makes the next set, the last is the answer. Knows neither graphs nor words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kgwalk.tools.facts import Way
from kgwalk.types import Call

CHAIN, INTERSECTION, UNION, DIFFERENCE = "chain", "intersection", "union", "difference"
COUNT, SUPERLATIVE, COMPARISON, TIME = "count", "superlative", "comparison", "time"
PATTERNS = (CHAIN, INTERSECTION, UNION, DIFFERENCE, COUNT, SUPERLATIVE, COMPARISON, TIME)

HOPS = ("tail_entities", "head_entities", "between")  # a set, then the relation that is followed
CHOICES = ("argmax", "argmin", "filter")  # a set, then the relation whose values choose among its members
COMBINED = ("intersect", "union", "minus")


@dataclass(frozen=True, slots=True)
class Plan:
    """`pattern` is one of PATTERNS. In `steps`, a number among the arguments stands for a set, a text for itself."""

    pattern: str
    topics: tuple[str, ...]
    steps: tuple[Call, ...]

    def program(self) -> list[list[str]]:
        """As `extra["program"]` of a question has it.

        >>> Plan("chain", ("France",), (Call("tail_entities", (1, "capital")),)).program()
        [['tail_entities', '$1', 'capital']]
        """
        return [[step.tool, *(f"${arg}" if isinstance(arg, int) else arg for arg in step.args)] for step in self.steps]

    def made_by(self, number: int) -> Call | None:
        """The step that makes a set; None for a topic."""
        return None if number <= len(self.topics) else self.steps[number - len(self.topics) - 1]

    @property
    def last(self) -> int:
        """The number of the set that is the answer."""
        return len(self.topics) + len(self.steps)

    @property
    def hops(self) -> int:
        """Relations on the longest way from a topic to the answer; a value looked up to choose by is no hop.

        >>> borders = Call("tail_entities", (1, "borders"))
        >>> Plan("superlative", ("France",), (borders, Call("argmax", (2, "population")))).hops
        1
        """
        depth = [0] * len(self.topics)
        for step in self.steps:
            before = max((depth[arg - 1] for arg in step.args if isinstance(arg, int)), default=0)
            depth.append(before + (step.tool in HOPS))
        return depth[-1]

    def ways(self) -> Iterator[Way]:
        """The relations that are followed, each with its direction, and those whose values choose, in order."""
        for step in self.steps:
            if step.tool in HOPS + CHOICES:
                yield Way(str(step.args[1]), step.tool != "head_entities")

    @property
    def shape(self) -> str:
        """The program without names and values: what two questions share that differ in their topics alone.

        >>> Plan("chain", ("France",), (Call("tail_entities", (1, "capital")),)).shape
        'tail_entities($1, capital)'
        >>> above = Call("filter", (2, "population", ">", "5000000"))
        >>> Plan("comparison", ("France",), (Call("tail_entities", (1, "borders")), above)).shape
        'tail_entities($1, borders) filter($2, population, >)'
        """
        return " ".join(map(_without_values, self.steps))


def _without_values(step: Call) -> str:
    named = {"filter": 3, "between": 2}.get(step.tool, len(step.args))  # after these come numbers and dates
    return f"{step.tool}({', '.join(f'${arg}' if isinstance(arg, int) else arg for arg in step.args[:named])})"
