"""Invented names of things by their kind, each given once, in the manner of one world.

    Namer(set()).manner(chance).name("film", chance)        # 'The Crooked Lantern'

Knows patterns and tongues; what facts the things have is for facts.py.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from kgwalk.kg.normalise import normalise
from kgwalk.questions.literals import askable
from kgwalk.questions.worlds import vocabulary
from kgwalk.questions.worlds.families import family_of
from kgwalk.questions.worlds.patterns import PATTERNS
from kgwalk.questions.worlds.sounds import TONGUES, WEIGHTS, Tongue

_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])")  # an engine
_PEOPLE = ("person", "character")
# How a world writes its names, and how often a world does so.
MANNERS: dict[str, float] = {
    "plain": 0.58,
    "underscored": 0.12,  # Anna_Kovar
    "lower": 0.07,  # anna kovar
    "lower underscored": 0.13,  # anna_kovar
    "loud family": 0.05,  # Anna_KOVAR
    "plain with kinds": 0.05,  # Anna Kovar, and The Lantern (film)
}
_TRIES = 30


def rewritten(name: str, manner: str, *, person: bool) -> str:
    """A name as a world of this manner writes it.

    >>> rewritten("Anna Kovar, Jr.", "lower underscored", person=True)
    'anna_kovar_jr'
    >>> rewritten("Anna Kovar", "loud family", person=True)
    'Anna_KOVAR'
    """
    if manner.startswith("plain"):
        return name
    text = name.lower() if manner.startswith("lower") else name
    if manner == "loud family" and person and " " in text:
        given, _, family = text.rpartition(" ")
        text = f"{given} {family.upper()}"
    if manner != "lower":
        text = "_".join(re.sub(r"[,.!?:;\"&()]", " ", text).split())
    return text


@dataclass(frozen=True)
class Manner:
    """How one world names things: its tongues, and a way of writing."""

    tongues: tuple[Tongue, ...]
    writing: str
    common: float  # the share of people with names that everyone knows
    ids: float  # the share of things that have an id for a name
    taken: set[str]  # normalised names of every world so far

    def name(self, kind: str, chance: random.Random) -> str:
        """A name that no thing has had before, in any world."""
        return self._given("id" if chance.random() < self.ids else family_of(kind), kind, chance)

    def id(self, chance: random.Random) -> str:
        """For a node that has no name."""
        return self._given("id", "", chance)

    def _given(self, family: str, kind: str, chance: random.Random) -> str:
        for attempt in range(_TRIES):
            name = self._once(family, kind, chance)
            if attempt > _TRIES // 2:  # short patterns run out first
                name = f"{name} {_number(chance)}"
            key = normalise(name)
            if key not in self.taken and (family == "id" or askable(name)):
                break
        else:
            name = f"{kind} {len(self.taken)}"
            key = normalise(name)
        self.taken.add(key)
        return name

    def _once(self, family: str, kind: str, chance: random.Random) -> str:
        tongue = chance.choice(self.tongues)
        name = filled(chance.choice(PATTERNS[family]), tongue, chance, common=self.common)
        if family == "id":
            return name
        if self.writing == "plain with kinds" and chance.random() < 0.3:
            name = f"{name} ({kind})"
        return rewritten(name, self.writing, person=family in _PEOPLE)


class Namer:
    """Remembers every name, so that worlds can stand in one graph."""

    def __init__(self, taken: set[str] | None = None) -> None:
        self.taken = set() if taken is None else taken

    def manner(self, chance: random.Random) -> Manner:
        """The manner of a new world."""
        tongues = chance.choices(TONGUES, WEIGHTS, k=chance.choice((1, 2, 3, 4, 6)))
        (writing,) = chance.choices(list(MANNERS), list(MANNERS.values()))
        ids = chance.uniform(0.03, 0.12) if chance.random() < 0.1 else 0.0
        return Manner(tuple(tongues), writing, chance.choice((0.0, 0.3, 0.7)), ids, self.taken)


def filled(pattern: str, tongue: Tongue, chance: random.Random, *, common: float = 0.0) -> str:
    """A pattern with its slots filled; `common` is the share of people's names taken from those that everyone knows."""

    def fill(slot: re.Match[str]) -> str:
        name = slot.group(1)
        known = {"given": vocabulary.GIVEN, "family": vocabulary.FAMILY}.get(name)
        return chance.choice(known) if known and chance.random() < common else _FILL[name](tongue, chance)

    return _ARTICLE.sub(r"\1n ", _SLOT.sub(fill, pattern))


def _several(noun: str) -> str:
    """
    >>> _several("fox"), _several("story"), _several("thief"), _several("lantern")
    ('foxes', 'stories', 'thieves', 'lanterns')
    """
    if noun.endswith("f") or noun == "child":
        return {"wolf": "wolves", "thief": "thieves", "child": "children"}.get(noun, f"{noun}s")
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh", "ss")) else f"{noun}s"


def _number(chance: random.Random) -> str:
    return str(chance.randrange(2, 100))


def _letters(chance: random.Random) -> str:
    return "".join(chance.choices("ABCDEFGHKMNRSTVWXZ", k=chance.choice((2, 3, 3, 4))))


def _code(chance: random.Random) -> str:
    return "".join(chance.choices("0123456789bcdfghjkmnpqrstvwxyz_", k=chance.choice((4, 5, 5, 6))))


_FILL: dict[str, Callable[[Tongue, random.Random], str]] = {
    "given": lambda tongue, chance: tongue.ended(chance, tongue.given),
    "family": lambda tongue, chance: tongue.ended(chance, tongue.family),
    "Place": lambda tongue, chance: tongue.ended(chance, tongue.place),
    "Word": lambda tongue, chance: tongue.word(chance).capitalize(),
    "word": lambda tongue, chance: tongue.word(chance),
    "Adj": lambda _, chance: chance.choice(vocabulary.ADJECTIVES).capitalize(),
    "adj": lambda _, chance: chance.choice(vocabulary.ADJECTIVES),
    "Noun": lambda _, chance: chance.choice(vocabulary.NOUNS).capitalize(),
    "noun": lambda _, chance: chance.choice(vocabulary.NOUNS),
    "Nouns": lambda _, chance: _several(chance.choice(vocabulary.NOUNS)).capitalize(),
    "nouns": lambda _, chance: _several(chance.choice(vocabulary.NOUNS)),
    "Verb": lambda _, chance: chance.choice(vocabulary.VERBS).capitalize(),
    "Field": lambda _, chance: chance.choice(vocabulary.FIELDS).capitalize(),
    "title": lambda _, chance: chance.choice(vocabulary.TITLES),
    "roman": lambda _, chance: chance.choice(vocabulary.ROMAN),
    "cap": lambda _, chance: chance.choice("ABCDEFGHJKLMNPRSTW"),
    "year": lambda _, chance: str(chance.randrange(1700, 2030)),
    "two": lambda _, chance: _number(chance),
    "CODE": lambda _, chance: _letters(chance),
    "code": lambda _, chance: _code(chance),
}
