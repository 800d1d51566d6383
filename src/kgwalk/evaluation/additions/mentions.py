"""The names of a graph's entities in a sentence: whole names, the longest first, written as names are.

Stricter than the linking of questions, because nobody looks at each result: a name stands as the graph writes it, or
differs in accents and punctuation only; "us" is not US, "music" does not hold it, "30" is not in "15.30", York is not
in New York. Knows nothing of what the sentence says.
"""

from __future__ import annotations

from typing import NamedTuple

from kgwalk.agent.linking.names import Asked, Names, Stored
from kgwalk.agent.linking.words import KINDS, Text
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import StoredGraph

_INSIDE_NUMBERS = ".,:/-"


class Mention(NamedTuple):
    """A stretch of the sentence and the entities of this name; those written just so come first.

    One that `stands` may have a role; any other is only a word in a list of names.
    """

    start: int  # characters
    end: int
    names: tuple[str, ...]
    words: range
    stands: bool = True


def names_of(graph: Graph) -> Names:
    return Stored(graph) if isinstance(graph, StoredGraph) else Asked(graph)


def mentions(sentence: Text, names: Names) -> list[Mention]:
    """The mentions in order, none overlapping."""
    found: list[Mention] = []
    covered: set[int] = set()
    for first, last in sorted(names.stretches(sentence), key=lambda ends: (-sentence.size(*ends), ends)):
        mention = _mention(sentence, names, first, last) if covered.isdisjoint(range(first, last + 1)) else None
        if mention is not None:
            found.append(mention)
            covered.update(mention.words)
    return sorted((one for one in found if not _goes_on(sentence, one, covered)), key=lambda one: one.start)


def _mention(sentence: Text, names: Names, first: int, last: int) -> Mention | None:
    text, words = sentence.question, range(first, last + 1)
    start, end = sentence.span(first, last)
    if sentence.hyphen_before[first] or sentence.hyphen_after[last]:
        return None
    found = [one.found.name for one in names.equal(text[start:end])]
    places = {name: place for name in found if (place := _as_written(text, start, name)) is not None}
    alike = [name for name in found if name not in places and _alike(text[start:end], name, beginning=first == 0)]
    name = max(places, key=len, default=None)
    low, high = (start, end) if name is None else places[name]
    if first == last and sentence.function[first] and (first == 0 or not sentence.capital[first]) and low == start:
        return None  # "is", "to": but .to is a name
    if name is not None:
        return Mention(low, high, (name, *alike), words) if _whole(text, low, high) else None
    return Mention(low, high, tuple(alike), words) if alike else None


def _as_written(text: str, start: int, name: str) -> tuple[int, int] | None:
    """Where the name stands letter for letter, if its first word begins at `start`."""
    before = next((at for at, character in enumerate(name) if KINDS[character] in ("letter", "alone")), 0)
    place = start - before
    return (place, place + len(name)) if place >= 0 and text.startswith(name, place) else None


def _alike(stretch: str, name: str, *, beginning: bool) -> bool:
    """Whether a stretch equal but for case, accents and punctuation is written as a name of this kind is."""
    letters = [character for character in name if character.isalpha()]
    if not letters or (len(letters) <= 3 and name.isupper()):
        return False  # numbers and abbreviations: only as they are
    first = next(character for character in name if character.isalnum())
    return first.isupper() == stretch[0].isupper() or (beginning and stretch[0].isupper())


def _whole(text: str, low: int, high: int) -> bool:
    """Whether a number is not a part of a longer one."""
    if text[low].isdecimal():
        before = text[max(0, low - 2) : low]
        if before[-1:] in ("-", "+") or (
            before[-1:] in _INSIDE_NUMBERS and before[:1].isdecimal() and len(before) == 2
        ):
            return False
    if text[high - 1].isdecimal():
        after = text[high : high + 2]
        if after[:1] in _INSIDE_NUMBERS and after[1:2].isdecimal():
            return False
    return True


def _goes_on(sentence: Text, mention: Mention, covered: set[int]) -> bool:
    """Whether a capitalised word that belongs to no name stands right beside it: then it is part of a longer name."""
    words, text = sentence.words, sentence.question
    before, after = mention.words.start - 1, mention.words.stop
    beside = [(before, text[words[before].end : mention.start])] if before >= 0 else []
    beside += [(after, text[mention.end : words[after].start])] if after < len(words) else []
    return any(
        glue == " " and at not in covered and sentence.capital[at] and not sentence.function[at] for at, glue in beside
    )
