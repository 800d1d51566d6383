"""What Think-on-Graph asks its model, in our words, and how the replies are read: scores, yes or no, an answer.

A prompt is its text, the text that ends the reply, and the entities it shows. Names are escaped, so that none can
stand for a tag. Knows nothing of graphs, engines or the search.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kgwalk.agent.observation import Observation
from kgwalk.agent.tags import written
from kgwalk.tools.facts import Fact, Way, spell, write_fact
from kgwalk.tools.text import escape, read_answer
from kgwalk.types import Answer, Malformed, Triple

_CHOICE = re.compile(r"<choice>(.*?)</choice>", re.DOTALL)
_ENOUGH = re.compile(r"<enough>(.*?)</enough>", re.DOTALL)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)

_SCORE = """Choose at most {width}, and score each from 0 to 1 by how likely it leads to the answer.
Reply with the choices as pairs of number and score, the best first, as a JSON list inside choice tags, such as \
<choice>[[2, 0.7], [1, 0.3]]</choice>. If none helps, reply <choice>[]</choice>."""

RELATIONS = """You look for the answer to a question by walking a knowledge graph from entity to entity.

Question: {question}
You are at: {entity}
Its facts have these relations; -> leads away from it, <- leads to it:
{listed}

Which relations should be followed? """
ENTITIES = """You look for the answer to a question by walking a knowledge graph from entity to entity.

Question: {question}
You were at: {entity}
You followed: {way}
It leads to these entities:
{listed}

Which entities should be looked at further? """
ENOUGH = """These facts of a knowledge graph were found for a question.

Question: {question}
Facts:
{listed}

Do these facts, together with what you know, suffice to answer the question? Reply <enough>yes</enough> or \
<enough>no</enough>."""
ANSWER = """Answer the question from the facts of a knowledge graph that were found for it; where they do not tell, \
from what you know.

Question: {question}
Facts:
{listed}

Reply with the answer inside answer tags as a JSON list of names, for example <answer>["first name", "second \
name"]</answer>. List all the answers."""


@dataclass(frozen=True, slots=True)
class Prompt:
    text: str
    stop: str
    shown: list[str]
    choices: int = 0  # how many are numbered in it


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts about one question; a list takes `room` tokens as `count` counts them, `width` may be chosen."""

    question: str
    width: int
    room: int
    count: Callable[[str], int]

    def relations(self, entity: str, ways: Sequence[Way]) -> Prompt:
        texts = [_way(way) for way in ways]
        return self._choice(RELATIONS, [way.relation for way in ways], texts, entities=False, entity=spell(entity))

    def entities(self, entity: str, way: Way, names: Sequence[str]) -> Prompt:
        return self._choice(
            ENTITIES, names, [spell(name) for name in names], entities=True, entity=spell(entity), way=_way(way)
        )

    def enough(self, facts: Sequence[Triple]) -> Prompt:
        return self._facts(ENOUGH, "</enough>", facts)

    def answer(self, facts: Sequence[Triple]) -> Prompt:
        return self._facts(ANSWER, "</answer>", facts)

    def _choice(
        self, form: str, items: Sequence[str], texts: Sequence[str], *, entities: bool, **values: str
    ) -> Prompt:
        lines = [f"{number}. {text}" for number, text in enumerate(texts, 1)]
        listed, choices = self._fit(items, lines)
        text = (form + _SCORE).format_map(
            {"question": escape(self.question), "width": self.width, "listed": listed, **values}
        )
        return Prompt(text, "</choice>", list(items[:choices]) if entities else [], choices)

    def _facts(self, form: str, stop: str, facts: Sequence[Triple]) -> Prompt:
        listed, kept = self._fit([fact.tail for fact in facts], [write_fact(Fact(fact, fact.tail)) for fact in facts])
        shown = list(dict.fromkeys(name for fact in facts[:kept] for name in (fact.head, fact.tail)))
        text = form.format_map({"question": escape(self.question), "listed": listed or "none"})
        return Prompt(text, stop, shown)

    def _fit(self, items: Sequence[str], lines: Sequence[str]) -> tuple[str, int]:
        """As many lines as there is room for, and how many these are."""
        listing = written("", items, lines, separator="\n")
        text, kept, _ = Observation("", "", [listing]).fit(self.count, self.room)
        return text, len(kept)


def _way(way: Way) -> str:
    return f"-> {spell(way.relation)}" if way.out else f"<- {spell(way.relation)}"


def read_choice(text: str, choices: int, width: int) -> list[tuple[int, float]] | Malformed:
    """Places, from 0, with their scores; the best first.

    >>> read_choice("<choice>[[2, 0.7], [1, 0.9]]</choice>", choices=3, width=3)
    [(0, 0.9), (1, 0.7)]
    >>> read_choice("<choice>[[4, 1]]</choice>", choices=3, width=3)
    Malformed(why='there is no choice 4: they are numbered from 1 to 3')
    """
    found = _CHOICE.search(text)
    pairs = None if found is None else _pairs(found.group(1))
    if pairs is None:
        return Malformed("the reply is no <choice> with a JSON list of pairs of number and score")
    if len(pairs) > width:
        return Malformed(f"{len(pairs)} were chosen, and {width} may be")
    for number, _ in pairs:
        if not 1 <= number <= choices:
            return Malformed(f"there is no choice {number}: they are numbered from 1 to {choices}")
    scores = {number - 1: score for number, score in pairs}
    if len(scores) < len(pairs):
        return Malformed("a number was chosen twice")
    return sorted(scores.items(), key=lambda item: -item[1])


def read_enough(text: str) -> bool | Malformed:
    """
    >>> read_enough("<enough> Yes </enough>"), read_enough("<enough>no</enough>"), read_enough("yes")
    (True, False, Malformed(why='the reply is neither <enough>yes</enough> nor <enough>no</enough>'))
    """
    found = _ENOUGH.search(text)
    said = "" if found is None else found.group(1).strip().lower()
    if said not in ("yes", "no"):
        return Malformed("the reply is neither <enough>yes</enough> nor <enough>no</enough>")
    return said == "yes"


def read_names(text: str) -> Answer | Malformed:
    found = _ANSWER.search(text)
    names = None if found is None else read_answer(found.group(1))
    return Malformed("the reply has no <answer> with a JSON list of names") if names is None else Answer(names)


def _pairs(text: str) -> list[tuple[int, float]] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, a thousand brackets
        return None
    if not isinstance(value, list):
        return None
    pairs: list[tuple[int, float]] = []
    for pair in value:
        match pair:
            case [bool(), _] | [_, bool()]:
                return None
            case [int(number), int(score) | float(score)] if 0 <= score <= 1:
                pairs.append((number, float(score)))
            case _:
                return None
    return pairs
