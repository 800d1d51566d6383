"""A protocol: one way of talking to a graph, as a prompt, a parser, tools and their observations.

A `Protocol` is shared and holds settings; `begin` gives the `Walk` of one question, which holds its state. The rollout
knows these two classes and no system by name. A new protocol is one module with a subclass of each; it registers in
`PROTOCOLS`. `Environment` is what its tools may use, `Observation` what they tell the model: tagged text made of lists
that can be cut to fit, and that say how much was cut.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, NamedTuple

from kgwalk.config.recipe import Parts
from kgwalk.kg.graph import Graph
from kgwalk.llm.embeddings import Embedder
from kgwalk.llm.grammar import Grammar
from kgwalk.types import Answer, AnswerForm, Call, Document, Malformed, Message, Question, Step, Triple
from kgwalk.walk.examples import ExampleLibrary
from kgwalk.walk.facts import path_to
from kgwalk.walk.kinds import Kind
from kgwalk.walk.ranking import Ranker
from kgwalk.walk.tagged_text import escape_around, escape_name
from kgwalk.walk.web.search import WebSearch


@dataclass(frozen=True, slots=True)
class Environment:
    """What the tools of an episode may use."""

    graph: Graph
    web: WebSearch | None = None
    embed: Embedder | None = None  # texts are ranked by meaning with it, by their letters without
    ranker: Ranker | None = None  # of candidate entities; without one, their texts are ranked
    complete: bool = True  # the graph has all that the question needs; False: some of it was hidden on purpose
    examples: ExampleLibrary | None = None  # questions of the graph with their calls, for a protocol that shows some


@dataclass(frozen=True, slots=True)
class Task:
    """A question with where to start from. `key` enters the seed of its sampling: same key, same draw."""

    question: Question
    topics: Sequence[str]
    key: str = ""  # empty: its place among the tasks and the question's id
    kinds: Sequence[Kind] | None = None  # None: those that the question's dataset names, else those found in it

    @property
    def asked(self) -> str:
        """The question as the model reads it, with its topics written as they are everywhere else."""
        return escape_around(self.question.question, self.topics)


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
    # A part of the graph stands in the prompt, as much as there is room for.
    shows_graph: ClassVar[bool] = False
    # It walks a graph, so it needs an entity to start from; False: the model answers from memory.
    reads_graph: ClassVar[bool] = True
    turns: int = 7

    @property
    def starts_from_kinds(self) -> bool:
        """Whether a walk can start from all of a kind, so that a question need not name an entity."""
        return False

    def kinds_listed(self, graph: Graph) -> Sequence[str]:
        """The kinds of a graph that the prompt names, all of which a walk can ask for: a question need not name one."""
        return ()

    @property
    def shows_examples(self) -> int:
        """How many worked examples a prompt has, at most, where the graph has some."""
        return 0

    @abstractmethod
    def begin(self, task: Task, environment: Environment, count: Callable[[str], int]) -> Walk:
        """The walk of one question; `count` gives the tokens of a text."""


PROTOCOLS: Parts[type[Protocol]] = Parts("protocol", "protocol")  # by name: each system registers its own


@dataclass
class Walk(ABC):
    """One question's walk: where it stands, and what its turns mean."""

    task: Task
    environment: Environment
    seen: list[Triple] = field(default_factory=list)  # facts the model was told

    @abstractmethod
    def prompt(self) -> list[Message]:
        """The messages before the model's first turn."""

    def shortened(self, over: int) -> list[Message]:
        """The messages again, with so many tokens less of the graph: for a protocol that `shows_graph`."""
        return self.prompt()

    def grammar(self, *, answer: bool) -> Grammar | None:
        """What the next turn may be, where an engine can see to that; None: anything. `answer`: calls are used up."""
        return None

    @abstractmethod
    def parse(self, text: str) -> Step:
        """What the turn says. Never raises: anything else is Malformed, with words the model can act on."""

    @abstractmethod
    def act(self, call: Call) -> Observation:
        """Run a tool. A wrong call gives an observation with `ok=False`; a failing backend raises KgwalkError."""

    @abstractmethod
    def tell(self, text: str) -> Observation:
        """A sentence of the system's own (an error, the last call) in the protocol's observation tags."""

    def complain(self, step: Malformed) -> Observation:
        told = self.tell(step.why)
        return Observation(told.opening, told.closing, told.listings, ok=False, error="malformed")

    def last_call(self) -> Observation | None:
        """What is said before the forced answer turn; None where the protocol has no such turn."""
        return self.tell("No queries are left. Give the answer now.")

    def resolve(self, answer: Answer) -> list[str]:
        """The names that an answer stands for, each once."""
        return list(dict.fromkeys(str(name) for name in answer.names))

    def answer_form(self, answer: Answer) -> AnswerForm:
        """What the answer is: names, unless a protocol says more."""
        return AnswerForm()

    def evidence(self, name: str) -> list[Triple]:
        """Facts that lead from a topic to an answer, as far as the model saw them."""
        return path_to(name, self.task.topics, self.seen)


# What a model is told after its turn


@dataclass(frozen=True, slots=True)
class Listing:
    """A line of names after a lead. `total` may exceed the names at hand: the tool had a limit of its own."""

    lead: str
    items: Sequence[str] = ()
    separator: str = ", "
    total: int | None = None
    most: int | None = None  # show no more than this, however much room there is
    entities: bool = False  # the items are entities (and count as shown), not relations or other text
    notes: Sequence[str] = ()  # beside each item, e.g. its dates
    asides: Sequence[str] = ()  # beside each item, where all of them fit
    layout: Callable[[list[str]], str] | None = None  # how the items are set, if not one after the other
    documents: Sequence[Document] = ()  # what the items are, if they are documents

    def render(self, limit: int, *, asides: bool = True) -> str:
        shown = self.items[: self.shown(limit)]
        texts = [escape_name(item) for item in shown]
        if self.notes:
            texts = [f"{text}{note}" for text, note in zip(texts, self.notes, strict=False)]
        if self.asides and asides:
            texts = [f"{text}{aside}" for text, aside in zip(texts, self.asides, strict=False)]
        if self.layout is not None:
            texts = [self.layout(texts)] if texts else []
        left_out = (len(self.items) if self.total is None else self.total) - len(shown)
        if left_out:
            texts.append(f"... (+{left_out} more)")
        return self.lead + self.separator.join(texts)

    def shown(self, limit: int) -> int:
        return min(limit, len(self.items), len(self.items) if self.most is None else self.most)


class FittedText(NamedTuple):
    """A text that fits, with the entities and the documents that are left in it."""

    text: str
    entities: list[str]
    documents: list[Document]


@dataclass(frozen=True, slots=True)
class Observation:
    """`opening` and `closing` are the protocol's tags; `triples` are the facts behind it, for evidence.

    `made` is the number of the set that the call made, and its size, where a protocol has named sets.
    """

    opening: str
    closing: str
    listings: Sequence[Listing]
    ok: bool = True
    error: str | None = None
    triples: Sequence[Triple] = field(default_factory=tuple)
    made: tuple[int, int] | None = None

    def render(self, limit: int, *, asides: bool = True) -> str:
        shown = (listing.render(limit, asides=asides) for listing in self.listings)
        return self.opening + "\n".join(shown) + self.closing

    def fit(self, count: Callable[[str], int], most: int) -> FittedText:
        """The text within `most` tokens, its closing tag included, and what is left in it."""
        longest = max((len(listing.items) for listing in self.listings), default=0)
        for asides in (True, False):
            text = self.render(longest, asides=asides)
            if count(text) <= most:
                return self._fitted(text, longest)
        low, high = 0, longest  # the most items of each listing that fit
        while low < high:
            middle = (low + high + 1) // 2
            if count(self.render(middle, asides=False)) <= most:
                low = middle
            else:
                high = middle - 1
        text = self.render(low, asides=False)
        return self._fitted(text, low) if count(text) <= most else FittedText(self._cut(count, most), [], [])

    def _fitted(self, text: str, limit: int) -> FittedText:
        entities = [name for part in self.listings if part.entities for name in part.items[: part.shown(limit)]]
        documents = [one for part in self.listings for one in part.documents[: part.shown(limit)]]
        return FittedText(text, entities, documents)

    def _cut(self, count: Callable[[str], int], most: int) -> str:
        """Even the leads are too long (a name of ten thousand characters): cut them, but close the tag."""
        body = self.render(0)[len(self.opening) : len(self.render(0)) - len(self.closing)]
        low, high = 0, len(body)
        while low < high:
            middle = (low + high + 1) // 2
            if count(f"{self.opening}{body[:middle]}... (cut){self.closing}") <= most:
                low = middle
            else:
                high = middle - 1
        return f"{self.opening}{body[:low]}... (cut){self.closing}"


def said(opening: str, text: str, closing: str) -> Observation:
    """An observation that is just a sentence."""
    return Observation(opening, closing, [Listing(text)])


# What several protocols use


def tag_pattern(*names: str) -> re.Pattern[str]:
    """Any opening or closing tag of these names, attributes, case and spaces aside.

    >>> bool(tag_pattern("think", "answer").search("no </Answer > here")), tag_pattern("think").search("<thinking>")
    (True, None)
    """
    return re.compile(rf"<[\s/]*(?:{'|'.join(map(re.escape, names))})(?![\w-])[^<>]*>", re.IGNORECASE)


def written(
    lead: str,
    entities: Sequence[str],
    texts: Sequence[str],
    *,
    separator: str = ", ",
    total: int | None = None,
    shows_entities: bool = True,
) -> Listing:
    """A list whose items are written in another way than by their names: `texts[i]` stands for `entities[i]`.

    The texts must be escaped already.
    """
    layout = partial(_joined, separator, texts)
    return Listing(lead, entities, separator, total=total, entities=shows_entities, layout=layout)


def _joined(separator: str, texts: Sequence[str], shown: list[str]) -> str:
    return separator.join(texts[: len(shown)])
