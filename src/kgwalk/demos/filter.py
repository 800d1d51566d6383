"""What a walk must pass to be a demonstration: named filters, the [demos] settings, and counts of the rejects.

    reason_against(walked, ["length", "format", "answer"])     # None, or "answer: F1 below 1"

After Graph-RFT, appendix A.1: the format (only its own tags, one plan), the answer, the retrieval (with a complete
graph it showed every answer and the web was not searched; with an incomplete one the web showed them) and the plan.
There GPT-4 judges the plan; here its steps must be those that were walked. Explore-on-Graph and KG-Hopper ask for the
right form and the right answer.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kgwalk.config.recipe import Parts, Recipe, read_section, setting, unknown
from kgwalk.demos.voice import STYLES
from kgwalk.score.episode import shown_to
from kgwalk.types import Answer, Call, Episode, KgwalkError, Question, StopReason, Turn
from kgwalk.walk.protocol import Environment
from kgwalk.walk.web.search import WEB_SEARCH, names

_TAG = re.compile(r"</?([A-Za-z][\w-]*)[^<>]*>")
_COMMON = {"think", "answer"}


@dataclass(frozen=True, slots=True)
class CandidateWalk:
    """A walk, and what the filters need to know of it."""

    episode: Episode
    protocol: str
    f1: float
    untrained: Collection[int] = ()  # turns that are wrong on purpose
    answer_f1: float = 1.0  # the least F1 for the filter "answer"
    counted: bool = False  # the answer is a count of what was shown
    lacking: bool = False  # the graph lacked a fact, and there was a web to ask


FILTERS: Parts[Callable[[CandidateWalk], str | None]] = Parts("filter", "demos")  # a system's own are in its demos.py


def reason_against(walked: CandidateWalk, filters: Sequence[str]) -> str | None:
    """Why the walk is not a demonstration, by the first filter that it fails; None if it passes all."""
    for name in filters:
        why = FILTERS.named(name)(walked)
        if why is not None:
            return f"{name}: {why}"
    return None


@FILTERS.add("length")
def by_length(walked: CandidateWalk) -> str | None:
    reasons = {StopReason.tokens: "the context is full", StopReason.prompt: "the prompt is too long"}
    return reasons.get(walked.episode.stop)


@FILTERS.add("format")
def by_format(walked: CandidateWalk) -> str | None:
    episode = walked.episode
    for place, turn in enumerate(episode.turns):
        if not turn.ok and place not in walked.untrained:
            return turn.error or "a call fails"
    if episode.stop != StopReason.answered:
        return f"no answer ({episode.stop})"
    own = _COMMON | {found.lower() for found in _TAG.findall(episode.prompt)}
    for turn in episode.turns:
        foreign = [found for found in _TAG.findall(turn.text) if found.lower() not in own]
        if foreign:
            return "a tag that is not the protocol's"
    return None


@FILTERS.add("answer")
def by_answer(walked: CandidateWalk) -> str | None:
    return None if walked.f1 >= walked.answer_f1 else f"F1 below {walked.answer_f1:g}"


@FILTERS.add("retrieval")
def by_retrieval(walked: CandidateWalk) -> str | None:
    """Every answer was retrieved from the right source: the graph, without a search of the web, if it was complete;
    else the web. So it is printed; a fact that the web gave on the way is not enough."""
    why = by_any_source(walked)
    if why is None and walked.lacking and not all(read_of(name, walked.episode) for name in walked.episode.answers):
        return "the web did not show every answer"
    return why


@FILTERS.add("any-source")
def by_any_source(walked: CandidateWalk) -> str | None:
    """Every answer was shown: in a set that a tool made, as an entity, as a number of entities, or in a document. The
    web was searched where the graph lacked a fact, and only there; it may have given a fact on the way."""
    episode, web = walked.episode, web_turns(walked.episode)
    if walked.lacking and not web:
        return "the web was not searched for what the graph lacks"
    if web and not walked.lacking:
        return "the web was searched, and the graph was complete"
    last = episode.turns[-1].step if episode.turns else None
    by_set = isinstance(last, Answer) and last.names and all(isinstance(name, int) for name in last.names)
    if by_set or walked.counted:
        return None
    shown = shown_to(episode)
    missing = [name for name in episode.answers if name not in shown and not read_of(name, episode)]
    sizes = {str(size) for size in _sizes(episode)}
    return "an answer was never shown" if any(name not in sizes for name in missing) else None


def lacking(environment: Environment) -> bool:
    """Whether a walk in this environment should ask the web."""
    return not environment.complete and environment.web is not None


def web_turns(episode: Episode) -> list[Turn]:
    return [turn for turn in episode.turns if isinstance(turn.step, Call) and turn.step.tool == WEB_SEARCH]


def read_of(name: str, episode: Episode) -> bool:
    """Whether a document that the walk was shown names it."""
    return any(names(document, name) for turn in web_turns(episode) for document in turn.documents)


def _sizes(episode: Episode) -> set[int]:
    """How many entities each relation was shown to lead to from each entity: the numbers that a count may be."""
    ends: dict[tuple[str, str, bool], set[str]] = {}
    for head, relation, tail, _ in episode.seen:
        ends.setdefault((head, relation, True), set()).add(tail)
        ends.setdefault((tail, relation, False), set()).add(head)
    return {len(names) for names in ends.values()}


# Settings


SOURCES = ("program", "dates", "gold", "evidence", "search", "teacher")


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The section [demos] of a recipe: where demonstrations come from, how they speak, and what they must pass."""

    sources: tuple[str, ...] = ("program", "gold", "evidence", "search")  # in order of preference
    styles: tuple[str, ...] = ()  # of the thoughts; empty: all that the protocol's writer has
    wrong: float = setting(0.1, least=0, most=1)  # share of demos with a wrong turn that is taken back
    distractors: float = setting(0.0, least=0, most=1)  # share of demos with a start that is not needed
    asked_kinds: float = setting(0.0, least=0, most=1)  # share of demos that ask for a kind that they would start from
    filters: tuple[str, ...] = ("length", "format", "answer", "retrieval", "plan")
    answer_f1: float = setting(1.0, least=0, most=1)  # of the filter "answer": the least F1
    per_question: int = setting(1, least=1)  # demos of one question, in other words and styles
    hops: int = setting(3, least=1)  # the longest chain that "search" looks for
    limit: int | None = setting(None, least=1)  # demos in all
    samples: int = setting(4, least=1)  # of a teacher, for each question
    temperature: float = setting(1.0, least=0)  # of a teacher
    examples_share: float = setting(0.5, least=0, most=1)  # of the demos, with `protocol.examples`: those with examples

    @classmethod
    def of(cls, recipe: Recipe) -> DemoSettings:
        """The recipe's settings; an unknown key or value is an error that names the nearest."""
        return read_section(cls, recipe, "demos").checked()

    def asked(self, questions: Iterable[Question], seed: int) -> Iterable[Question]:
        """The questions in the order in which they are tried: shuffled by the seed if there is a limit."""
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


# Rejects


EXAMPLES = 5  # question ids kept for each reason


@dataclass
class Rejects:
    """Counts of the walks that were kept, and of those that were rejected, by reason; filled while demos are made.

    A reason is a filter's name and what it found, such as `answer: F1 below 1`.

    >>> rejects = Rejects()
    >>> rejects.add("route: none was found", "q7"); rejects.keep(wrong=True)
    >>> rejects.as_json()
    {'tried': 2, 'kept': 1, 'wrong': 1, 'web': 0, 'fallen': {'route: none was found': {'count': 1, 'examples': ['q7']}}}
    """

    kept: int = 0
    wrong: int = 0  # of those kept: with a wrong turn
    web: int = 0  # with a web search
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    @property
    def tried(self) -> int:
        return self.kept + sum(self.counts.values())

    def keep(self, *, wrong: bool = False, web: bool = False) -> None:
        self.kept += 1
        self.wrong += wrong
        self.web += web

    def add(self, reason: str, example: str) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + 1
        shown = self.examples.setdefault(reason, [])
        if len(shown) < EXAMPLES and example not in shown:
            shown.append(example)

    def as_json(self) -> dict[str, Any]:
        most_first = sorted(self.counts, key=lambda reason: (-self.counts[reason], reason))
        fallen = {reason: {"count": self.counts[reason], "examples": self.examples[reason]} for reason in most_first}
        return {"tried": self.tried, "kept": self.kept, "wrong": self.wrong, "web": self.web, "fallen": fallen}
