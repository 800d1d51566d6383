"""What KG-Hopper and KG-Reasoner share: a model thinks once, searches while it thinks, then answers.

    <think>... <search>Utah</search>          a first turn; the observation follows, and the thought goes on:
    ... so it is Mountain Time.</think><answer>["Mountain Time Zone"]</answer>

The only state is whether the thought is open, which depends on the turns before. A turn that does not begin inside an
open thought must open one, also when an earlier thought was closed without an answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

from kgwalk.types import Answer, Malformed, Message
from kgwalk.walk.facts import spell
from kgwalk.walk.protocol import Observation, Protocol, Walk, said, tag_pattern
from kgwalk.walk.tagged_text import escape_name, read_answer, write_answer

# KG-Hopper's section III-D and KG-Reasoner's 4.1 call the tag of the observations `triples`, KG-Hopper's III-B and
# KG-Reasoner's Algorithm 1 `searched_triples`: whichever is set, neither is the model's to write.
OBSERVATION_TAGS = ("searched_triples", "triples")

_OPENING = re.compile(r"\s*<think>")
_THINK_TAG = re.compile(r"<(/?)think>")
_END = re.compile(r"</(search|answer)>")
_SEARCH = re.compile(r"<search(\s[^<>]*)?>(.*)</search>", re.DOTALL)
_ANSWER = re.compile(r"</think>\s*<answer>(.*)</answer>", re.DOTALL)
_OWN_TAG = tag_pattern("think", "search", "answer")
_EXPECTED = (
    "Think inside one pair of think tags; in it, name one entity between search tags; "
    "or close it and answer between answer tags."
)


@dataclass(frozen=True, slots=True)
class WrittenSearch:
    """A search as written: what stands inside its opening tag, and between the tags."""

    attributes: str
    inside: str


def read_turn(text: str, opened: bool, observation: re.Pattern[str]) -> tuple[WrittenSearch | Answer | Malformed, bool]:
    """What a turn says, and whether the thought is open after it. `opened`: whether it was before."""
    marks = _THINK_TAG.findall(text)
    after = marks[-1] == "" if marks else opened
    return _read(text, opened, observation), after


def _read(text: str, opened: bool, observation: re.Pattern[str]) -> WrittenSearch | Answer | Malformed:
    if observation.search(text):
        return Malformed("Only the system writes what a search found. " + _EXPECTED)
    start = 0
    if not opened:
        opening = _OPENING.match(text)
        if opening is None:
            return Malformed("Begin with an opening think tag. " + _EXPECTED)
        start = opening.end()
    end = _END.search(text, start)
    if end is None:
        return Malformed(_EXPECTED)
    pattern = _SEARCH if end.group(1) == "search" else _ANSWER
    action = pattern.search(text, start, end.end())
    # No tag of its own before the action, nor inside it: what came first counts, and nothing is passed over.
    if action is None or _OWN_TAG.search(text[start : action.start()]) or _OWN_TAG.search(action.groups()[-1]):
        return Malformed(_EXPECTED)
    if pattern is _SEARCH:
        return WrittenSearch(action.group(1) or "", action.group(2))
    names = read_answer(action.group(1))
    return Malformed('Write the answer as a JSON list of names: ["..."].') if names is None else Answer(names)


def write_search(name: str, think: str, *, opened: bool, attributes: str = "") -> str:
    searched = spell(name) if name else ""
    return f"{'' if opened else '<think>'}{escape_name(think)}<search{attributes}>{searched}</search>"


def write_end(answer: Answer, think: str, *, opened: bool) -> str:
    names = write_answer([str(name) for name in answer.names])
    return f"{'' if opened else '<think>'}{escape_name(think)}</think><answer>{names}</answer>"


@dataclass(frozen=True)
class ThinkProtocol(Protocol):
    """`tag` is that of the observations."""

    stop = ("</search>", "</answer>")
    inline = True
    by_meaning = True
    tag: str = "searched_triples"


@dataclass
class ThinkWalk(Walk):
    """The prompt, the state of the thought, and words in the tags of the observations."""

    template: ClassVar[str]
    protocol: ThinkProtocol = field(kw_only=True)
    opened: bool = False  # whether the thought has begun, and not ended

    def offered(self) -> str:
        """What a protocol's prompt offers where its template has {offered}."""
        return ""

    def prompt(self) -> list[Message]:
        settings = {
            "turns": self.protocol.turns,
            "tag": self.protocol.tag,
            "offered": self.offered(),
            "question": self.task.asked,
            "topics": ", ".join(map(spell, self.task.topics)) or "no entity is given",
        }
        return [Message("user", self.template.format_map(settings))]

    def read(self, text: str) -> WrittenSearch | Answer | Malformed:
        """What the next turn says."""
        turn, self.opened = read_turn(text, self.opened, tag_pattern(self.protocol.tag, *OBSERVATION_TAGS))
        return turn

    @property
    def tags(self) -> tuple[str, str]:
        return f"<{self.protocol.tag}>", f"</{self.protocol.tag}>"

    def error(self, kind: str, message: str) -> Observation:
        told = self.tell(message)
        return Observation(told.opening, told.closing, told.listings, ok=False, error=kind)

    def tell(self, text: str) -> Observation:
        opening, closing = self.tags
        return said(opening, text, closing)

    def last_call(self) -> Observation | None:
        return self.tell("No searches are left. Close the thought and answer now.")
