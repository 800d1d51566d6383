"""A wording: plans put into words, at a level of freedom, with as much noise as wanted.

    Wording(NameLexicon(survey(graph)), level=1).say(plan, random.Random(0))

Level 0 uses the words of the relations' own names, 1 mixes them with what people say, 2 keeps to what people say and
orders it freely. Every topic's name stands in the text as the graph writes it. Knows plans and a lexicon, no graph.
"""

from __future__ import annotations

import random
import re

from kgwalk.questions.dress import dress
from kgwalk.questions.lexicon import Lexicon
from kgwalk.questions.noise import noisy
from kgwalk.questions.plan import Plan
from kgwalk.questions.speaker import FIRST_MARK, Speaker
from kgwalk.types import KgwalkError

LEVELS = (0, 1, 2)
LONGEST = 36  # words of a question, a name counted as one; nobody asks longer ones
_DOUBLED = re.compile(
    r"\b(the|a|an|of|in|by|is|was|are|has|have|that|who) \1\b|\bthe (?:a|an|all|those)\b|\b(?:has have|have has)\b",
    re.IGNORECASE,
)


class Wording:
    """`noise` is the share of words with a mistake; names are spared unless `noisy_names`."""

    def __init__(self, lexicon: Lexicon, *, level: int = 1, noise: float = 0.0, noisy_names: bool = False) -> None:
        if level not in LEVELS:
            raise KgwalkError(f"level {level} of wording: give 0 (plain), 1 (natural) or 2 (free)")
        if not 0 <= noise <= 1:
            raise KgwalkError(f"noise {noise} is no share of words: give 0 to 1")
        self.lexicon, self.level, self.noise, self.noisy_names = lexicon, level, noise, noisy_names

    def say(self, plan: Plan, chance: random.Random) -> str | None:
        """The plan's question; None where it cannot be said well."""
        if any(len(f".{name}.".splitlines()) > 1 for name in plan.topics):
            return None  # a question is one line
        speaker = Speaker(plan, self.lexicon, self.level, chance)
        text = speaker.ask()
        if text is None or not _is_well(text, len(plan.topics)):
            return None
        text = noisy(dress(_capital(text), self.level, chance), self.noise, chance)
        if self.noisy_names:
            speaker.marked[:] = [noisy(name, self.noise, chance) for name in speaker.marked]
        return speaker.unmarked(text)


def _is_well(text: str, topics: int) -> bool:
    every = all(chr(FIRST_MARK + number) in text for number in range(topics))
    return every and "{}" not in text and _DOUBLED.search(text) is None and len(text.split()) <= LONGEST


def _capital(text: str) -> str:
    """A phrase that opens a sentence gets a capital; what the bank writes in lower case is meant so."""
    return text[:1].upper() + text[1:] if text.endswith(".") else text
