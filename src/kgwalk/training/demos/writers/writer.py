"""What a writer is: turns that walk a route in one protocol, each written when the answer to the one before is known.

A writer sees what a model would see: it calls the protocol's tools and reads their observations, so that it names no
entity before the graph did. It knows the route; the words come from a voice. Knows no protocol.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from kgwalk.kg.graph import Graph
from kgwalk.tools.facts import Way
from kgwalk.training.demos.route import CHOICES, HOPS, Route, way_of
from kgwalk.training.demos.voice import STYLES, Voice, listed, spoken, together
from kgwalk.types import Call, Question, Turn


class Unwritable(Exception):
    """The route cannot be walked in this protocol within its bounds; the message is the reason, for the counts."""


TURNS = "turns: the route takes more calls than the protocol allows"
NOT_SHOWN = "shown: what the route needs is not shown"
TURN_LENGTH = "length: a turn is too long"
CONTEXT_LENGTH = "length: the context is full"
PROMPT_LENGTH = "length: the prompt is too long"
FAILS = "route: a call fails"
NO_STEP = "route: the protocol has nothing for one of its steps"
GRAPH_FAILED = "graph: it did not answer"
PARTLY = "hidden: a part of a list, which nothing shows"
NO_WEB = "hidden: what the route needs, and there is no web to ask"
NOT_NAMED = "web: no document names what is hidden"
WEB_FAILED = "web: it did not answer"


@dataclass(frozen=True, slots=True)
class Said:
    """A turn. `train` is False for a wrong one: it stays in the context and is not learned."""

    text: str
    train: bool = True


Script = Generator[Said, Turn, None]  # a turn out, the same turn with its observation in


@dataclass
class Writer(ABC):
    """The turns of one demo. `walk` is the protocol's own walk, begun; `whole` the graph in which the route was found,
    of which the walk's may lack some facts; `wrong` asks for a wrong turn, if one can be."""

    styles: ClassVar[tuple[str, ...]] = STYLES[1:]

    question: Question
    route: Route
    walk: Any  # the protocol's Walk
    whole: Graph
    voice: Voice
    chance: random.Random
    wrong: bool = False
    strayed: bool = False  # whether a wrong turn was taken
    note: str = ""  # to be said with the next turn
    gist: str = ""  # after that: what was just found

    @abstractmethod
    def script(self) -> Script: ...

    # What is said on the way.

    def opening(self) -> str:
        text = self.question.question.strip()
        return self.voice.say(
            "start",
            topics=listed(self.route.topics),
            question=text if text.endswith(("?", ".", "!")) else f"{text}.",
            steps=outline(self.route.steps),
        )

    def intention(self, way: Way, entity: str) -> str:
        occasion = "forwards" if way.out else "backwards"
        return self.voice.say(occasion, entity=entity, relation=way.relation, words=spoken(way.relation))

    def finding(self, names: Sequence[str], relation: str) -> str:
        return self.voice.say("found", names=listed(names), words=spoken(relation))

    def before(self, *sentences: str) -> str:
        """The thought before a turn: what was to be said, and what the turn is for."""
        thought = together(self.note, self.gist, *sentences)
        self.note = self.gist = ""
        return thought

    def verdict(self, names: Sequence[str]) -> str:
        """The thought before the answer; names that it lists need not be listed as found as well."""
        last = self.voice.say("answer", names=listed(names))
        if listed(names) in last:
            self.gist = ""
        return self.before(last)


def outline(steps: Sequence[Call]) -> str:
    """The steps of a route in a sentence.

    >>> outline([Call("tail_entities", (1, "borders")), Call("argmax", (2, "population"))])
    'This takes 2 steps: borders, then the largest population.'
    """
    parts = [part for step in steps if (part := _part(step))]
    if len(parts) < 2:
        return f"One step should do: {parts[0]}." if parts else ""
    return f"This takes {len(parts)} steps: {', then '.join(parts)}."


def _part(step: Call) -> str:
    if step.tool in HOPS:
        return spoken(way_of(step).relation)
    if step.tool in CHOICES:
        value = spoken(str(step.args[1]))
        most = {"argmax": "the largest", "argmin": "the smallest"}
        return f"{most[step.tool]} {value}" if step.tool in most else f"{value} {bound(step)}"
    return {"intersect": "what is in both", "count": "how many there are", "minus": "leave out the others"}.get(
        step.tool, ""
    )


def bound(step: Call) -> str:
    """The condition of a filter as words.

    >>> bound(Call("filter", (2, "population", ">", "1000000")))
    'above 1000000'
    """
    said = {">": "above", ">=": "at least", "<": "below", "<=": "at most", "=": "equal to", "!=": "other than"}
    return f"{said[str(step.args[2])]} {step.args[3]}"
