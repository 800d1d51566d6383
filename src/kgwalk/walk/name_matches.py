"""A part of a question that may mean a name (`WeighedMatch`): how much speaks for it, and how like its words are.

choose(matches)                         the best matches that do not overlap
alike_names(plain, near, least)         names spelt nearly so, of those that a graph proposes
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rapidfuzz.distance import OSA

from kgwalk.kg.names import normalise
from kgwalk.walk.name_lookup import ALIKE, ALIKE_LETTERS, TITLES, GraphNames, RankedName
from kgwalk.walk.question_words import Text, is_usual, stem

# Parts of a question that may mean a name

COMMON, WEAK, FAIR, STRONG = 1, 2, 3, 4  # how much speaks for it
PART_OF_NAME, SHARES_WORDS, INFLECTED = "part of the name", "shares words", "in the singular or plural"  # why
OF_KIND = "part of the name, before what it is"
# Times that a name must be better connected, by rank, to be meant by its beginning or end alone: "lincoln".
FAR_BETTER = 20
# Before the one letter or the small word that is a name: "written in c", "who works in sales"
BEFORE_A_NAME = frozenset({"in", "of", "with", "for", "on", "by", "from", "about", "to", "language"})


@dataclass(frozen=True, slots=True)
class WeighedMatch:
    """A stretch of the question with the entities that may be meant, and how much speaks for that."""

    first: int  # words
    last: int
    start: int  # characters
    end: int
    named: list[RankedName]  # best first
    level: int
    size: float
    why: str

    @property
    def weight(self) -> tuple[int, float, bool, int, int]:
        best = self.named[0]
        return (self.level, self.size, best.found.how == "exact", -best.rank, -self.start)


def choose(matches: Iterable[WeighedMatch]) -> list[WeighedMatch]:
    """The best matches that do not overlap, best first."""
    chosen: list[WeighedMatch] = []
    for match in sorted(matches, key=lambda match: match.weight, reverse=True):
        if all(match.end <= other.start or other.end <= match.start for other in chosen):
            chosen.append(match)
    return chosen


def overlapping(matches: Iterable[WeighedMatch], first: int, last: int) -> list[WeighedMatch]:
    return [match for match in matches if match.first <= last and first <= match.last]


def of_relations(text: Text, names: GraphNames, places: Iterable[int]) -> bool:
    """Whether these words are all words of relations or classes."""
    return all(stem(text.words[at].plain) in names.relation_words for at in places)


def is_unknown(text: Text, names: GraphNames, at: int) -> bool:
    plain = text.words[at].plain
    if plain in TITLES or text.function[at] or text.digits[at] or text.words[at].size < 1 or is_usual(plain):
        return False
    return stem(plain) not in names.relation_words and stem(plain) not in names.class_words


# How like words are to a name


def alike_names(plain: str, near: Iterable[RankedName], least: float) -> list[RankedName]:
    """Names spelt nearly so, the most alike first."""
    if len(plain) < ALIKE_LETTERS:
        return []
    figures = _FIGURES.findall(plain)  # SRV-099 is not a misspelt SRV-019
    named = [(normalise(one.found.name), one) for one in near]
    scored = [(_alike(plain, name), one) for name, one in named if not figures or _FIGURES.findall(name) == figures]
    scored = [entry for entry in scored if entry[0] >= least]
    return [one for _, one in sorted(scored, key=lambda entry: (-entry[0], entry[1].rank))]


_FIGURES = re.compile(r"\d+")


def holding(plain: str, near: Iterable[RankedName], anywhere: bool = False) -> list[RankedName]:
    """Names that have all these words and more, the best connected first; one word first or last, or `anywhere`."""
    words = plain.split()
    if len(plain) < 3:
        return []
    held = []
    for one in near:
        name = normalise(one.found.name).split()
        if len(name) > len(words):
            if len(words) == 1 and words[0] not in (name[0], name[-1]) and not (anywhere and len(plain) > 3):
                continue
            missing = set(words) - set(name)
            if not missing or (len(missing) < len(words) and all(_misspelt(word, name) for word in missing)):
                held.append((len(missing), one))
    # by rank, which all names of a graph elsewhere share
    return [one for _, one in sorted(held, key=lambda entry: (entry[0], entry[1].rank))]


def _misspelt(word: str, name: Iterable[str]) -> bool:
    if len(word) < ALIKE_LETTERS or is_usual(word):
        return False
    return any(OSA.normalized_similarity(word, other) >= ALIKE for other in name)


def _alike(plain: str, name: str) -> float:
    """The share of letters that are right, in this order of words or by alphabet."""
    in_order = OSA.normalized_similarity(plain, name)
    by_alphabet = OSA.normalized_similarity(" ".join(sorted(plain.split())), " ".join(sorted(name.split())))
    return max(in_order, 0.95 * by_alphabet)
