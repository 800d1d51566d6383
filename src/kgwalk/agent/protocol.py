"""What makes one way of talking to a graph: a prompt, a parser, tools and their observations.

A `Protocol` is shared and holds settings; `begin` gives the `Walk` of one question, which holds its state. The rollout
knows these two classes and no system by name. A new protocol is one module with a subclass of each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from kgwalk.agent.evidence import path_to
from kgwalk.agent.observation import Listing, Observation
from kgwalk.kg.graph import Graph
from kgwalk.llm.embed import Embedder
from kgwalk.tools.rank import Ranker
from kgwalk.tools.web.search import WebSearch
from kgwalk.types import Answer, Call, Malformed, Message, Question, Step, Triple


@dataclass(frozen=True, slots=True)
class World:
    """What the tools of an episode may use."""

    graph: Graph
    web: WebSearch | None = None
    embed: Embedder | None = None  # texts are ranked by meaning with it, by their letters without
    ranker: Ranker | None = None  # of candidate entities; without one, their texts are ranked
    complete: bool = True  # the graph has all that the question needs; False: some of it was hidden on purpose


@dataclass(frozen=True, slots=True)
class Task:
    """A question with the entities to start from. `key` enters the seed of its sampling: same key, same draw."""

    question: Question
    topics: Sequence[str]
    key: str = ""  # empty: its place among the tasks and the question's id


@dataclass(frozen=True)
class Protocol(ABC):
    """Settings that hold for every walk. Subclasses add their own as fields."""

    name: ClassVar[str]
    # A turn ends with the token that completes one of these.
    stop: ClassVar[tuple[str, ...]]
    # Observations continue the model's own message (True), or come as messages of the user's (False).
    inline: ClassVar[bool]
    # Its tools rank relations or entities by meaning, if there is an embedder.
    by_meaning: ClassVar[bool] = False
    # One of its tools searches the web.
    searches_web: ClassVar[bool] = False
    # It walks a graph, so it needs an entity to start from; False: the model answers from memory.
    reads_graph: ClassVar[bool] = True
    turns: int = 7

    @abstractmethod
    def begin(self, task: Task, world: World, count: Callable[[str], int]) -> Walk:
        """The walk of one question; `count` gives the tokens of a text."""


@dataclass
class Walk(ABC):
    """One question's walk: where it stands, and what its turns mean."""

    task: Task
    world: World
    seen: list[Triple] = field(default_factory=list)  # facts the model was told

    @abstractmethod
    def prompt(self) -> list[Message]:
        """The messages before the model's first turn."""

    @abstractmethod
    def parse(self, text: str) -> Step:
        """What the turn says. Never raises: anything else is Malformed, with words the model can act on."""

    @abstractmethod
    def act(self, call: Call) -> Observation:
        """Run a tool. A wrong call gives an observation with `ok=False`; a failing backend raises KgwalkError."""

    @abstractmethod
    def tell(self, text: str) -> Observation:
        """Words of the system's own (an error, the last call) in the protocol's observation tags."""

    def complain(self, step: Malformed) -> Observation:
        told = self.tell(step.why)
        return Observation(told.opening, told.closing, told.listings, ok=False, error="malformed")

    def last_call(self) -> Observation | None:
        """What is said before the forced answer turn; None where the protocol has no such turn."""
        return self.tell("No queries are left. Give the answer now.")

    def resolve(self, answer: Answer) -> list[str]:
        """The names that an answer stands for, each once."""
        return list(dict.fromkeys(str(name) for name in answer.names))

    def evidence(self, name: str) -> list[Triple]:
        """Facts that lead from a topic to an answer, as far as the model saw them."""
        return path_to(name, self.task.topics, self.seen)


def said(opening: str, text: str, closing: str) -> Observation:
    """An observation that is just a sentence."""
    return Observation(opening, closing, [Listing(text)])
