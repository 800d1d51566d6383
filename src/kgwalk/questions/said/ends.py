"""What is said for a relation read one way, and the kinds of its ends, while it is put together.

Knows no relations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kgwalk.questions.english.kinds import PERSON, VAGUE, VALUES, asked, is_person


class Said(NamedTuple):
    """Questions, nouns, bare nouns, and the kind of what is reached."""

    questions: list[str]
    nouns: list[str]
    bare: list[str]
    kind: str


@dataclass(frozen=True, slots=True)
class Ends:
    """The kinds of a fact's ends; "" is unknown."""

    head: str
    tail: str

    def turned(self) -> Ends:
        return Ends(self.tail, self.head)


def opening(kind: str) -> str:
    """The word or words that open a question for a kind: `Who`, `What`, `Which film`."""
    return asked(kind).capitalize() if kind in (PERSON, *VAGUE) or kind in VALUES else f"Which {kind}"


def relative(kind: str) -> str:
    return "who" if is_person(kind) else "that"
