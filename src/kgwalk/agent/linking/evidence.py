"""Equal names in a question, and how much speaks for each: a level, and why.

It knows how the words are written and how well connected an entity is. It does not know near spellings, nor what the
question means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kgwalk.agent.linking.names import Named, Names, stem
from kgwalk.agent.linking.words import KINDS, Text
from kgwalk.types import Found

# Times that a name must be better connected, by rank, to be meant by its beginning or end alone: "lincoln".
FAR_BETTER = 20

COMMON, WEAK, FAIR, STRONG = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Match:
    """A stretch of the question with the entities that may be meant, and how much speaks for that."""

    first: int  # words
    last: int
    start: int  # characters
    end: int
    named: list[Named]  # best first
    level: int
    size: float
    why: str

    @property
    def weight(self) -> tuple[int, float, bool, int, int]:
        best = self.named[0]
        return (self.level, self.size, best.found.how == "exact", -best.rank, -self.start)


def choose(matches: Iterable[Match]) -> list[Match]:
    """The best matches that do not overlap, best first."""
    chosen: list[Match] = []
    for match in sorted(matches, key=lambda match: match.weight, reverse=True):
        if all(match.end <= other.start or other.end <= match.start for other in chosen):
            chosen.append(match)
    return chosen


def overlapping(matches: Iterable[Match], first: int, last: int) -> list[Match]:
    return [match for match in matches if match.first <= last and first <= match.last]


def equal_names(text: Text, names: Names) -> Iterator[Match]:
    for first, last in names.stretches(text):
        if first == last and text.function[first] and not text.capital[first] and (first, last) not in text.quoted:
            continue
        match = _equal_name(text, names, first, last)
        if match is not None:
            yield match


def _equal_name(text: Text, names: Names, first: int, last: int) -> Match | None:
    start, end = text.span(first, last)
    stretch = text.question[start:end]
    named = names.equal(stretch)
    if not named:
        return None
    folded = stretch.casefold()
    # All in small letters, "king kong" is no more the tag king kong than the film King Kong.
    case_tells = text.cased or (first, last) in text.quoted or "_" in stretch
    ranked = []
    for one in named:
        place = _as_written(text.question, start, one.found)
        kept = one if place is None else one._replace(found=replace(one.found, how="exact"))
        as_written = -len(one.found.name) if place and case_tells else 0
        ranked.append((as_written, one.found.name.casefold() != folded, one.rank, kept, place))
    ranked.sort(key=lambda entry: entry[:3])
    level, why = _evidence(text, names, first, last, ranked[0][3])
    if level == 0:
        return None
    start, end = ranked[0][4] or (start, end)
    if text.cased and ranked[0][3].found.how != "exact":
        while first < last and not text.capital[first]:  # "the Eclipse": rather Eclipse, if there is one
            first += 1
    return Match(first, last, start, end, [entry[3] for entry in ranked], level, text.size(first, last), why)


def _as_written(question: str, start: int, found: Found) -> tuple[int, int] | None:
    """Where the name stands letter for letter, if its first word begins at `start`: "Airplane!", "(500) Days"."""
    before = next((at for at, character in enumerate(found.name) if KINDS[character] in ("letter", "alone")), 0)
    place = start - before
    if place >= 0 and question.startswith(found.name, place):
        return place, place + len(found.name)
    return None


def _evidence(text: Text, names: Names, first: int, last: int, best: Named) -> tuple[int, str]:
    """How much speaks for a name that equals these words, and what; 0 for nothing at all."""
    words = text.words[first : last + 1]
    exact = best.found.how == "exact"
    if (first, last) in text.quoted:
        return STRONG, "quoted"
    if any(text.joined_after[first:last]):
        return STRONG, "joined by _"
    if text.hyphen_before[first] or text.hyphen_after[last]:
        return COMMON, "part of a hyphenated word"
    plain = "".join(word.plain for word in words)
    if any(word.size < 1 for word in words):
        if len(words) == 1 or plain in names.relation_words:
            return COMMON, "one character" if len(words) == 1 else "a word of a relation"
        return (STRONG if len(words) > 2 else FAIR), f"{len(words)} characters"
    content = [at for at in range(first, last + 1) if not text.function[at]]
    shown = content or range(first, last + 1)
    capital = [text.capital[at] for at in range(first, last + 1) if at > 0]
    if text.cased and any(capital) and (exact or all(text.capital[at] or text.digits[at] for at in shown)):
        if (not content or len(plain) == 1) and text.capital_beside(first, last):
            return COMMON, "part of a longer run of capitals"
        return STRONG, "capitals"
    if not content:
        return (COMMON, "function words") if exact or len(words) > 1 else (0, "")
    if plain.isdecimal():
        return COMMON, "a number"
    if len(plain) == 1:
        return COMMON, "one letter"
    if of_relations(text, names, content):
        telling = len(content) > 2 or (len(content) == 2 and best.rank < names.well_connected // FAR_BETTER)
        return (FAIR if telling else COMMON), "words of relations"
    if text.cased and any(capital) and len(content) > 1:
        return FAIR, "some capitals"
    if text.cased and not exact:
        return COMMON, "small letters among capitals"
    if text.cased:
        return (FAIR if len(content) > 1 else WEAK), "small letters, as in the name"
    if len(content) > 1:
        return STRONG, f"{len(content)} telling words"
    known = len(words) > 2 or best.rank < names.well_connected
    return (FAIR if known else WEAK), "one telling word"


def of_relations(text: Text, names: Names, places: Iterable[int]) -> bool:
    """Whether these words are all words of relations or classes."""
    return all(stem(text.words[at].plain) in names.relation_words for at in places)
