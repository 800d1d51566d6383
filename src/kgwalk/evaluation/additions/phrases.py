"""The words of a relation, and where a sentence has them.

`directed_by` is the stem "direct" with a "by" of its own; `people.person.place_of_birth` is read by its last part.
Knows no synonyms: "was born in" says nothing of place_of_birth here. Knows nothing of names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kgwalk.agent.linking.names import stem
from kgwalk.agent.linking.words import FUNCTION_WORDS, Text
from kgwalk.kg.normalise import normalise
from kgwalk.llm.embed import words

PREPOSITIONS = frozenset(["of", "by", "in", "at", "on", "to", "from", "for", "with", "as"])
LEAST_COVERAGE = 0.5
BETWEEN = 2  # function words between two words of a relation: "place of the birth"
BESIDE = 3  # words on each side, in which a longer relation is looked for


@dataclass(frozen=True, slots=True)
class Phrase:
    """`stems` are the telling words in order; `own` the prepositions at the end, as the "by" of directed_by."""

    stems: tuple[str, ...]
    own: tuple[str, ...] = ()


class Place(NamedTuple):
    """Where a sentence has a relation's words: first and last word, and the share of them that is there."""

    first: int
    last: int
    coverage: float


def phrase_of(relation: str) -> Phrase:
    """
    >>> phrase_of("directed_by")
    Phrase(stems=('direct',), own=('by',))
    >>> phrase_of("currency_used")
    Phrase(stems=('currency',), own=())
    >>> phrase_of("people.person.place_of_birth").stems, phrase_of("has_genre").stems, phrase_of("spansTimezone").stems
    (('plac', 'birth'), ('genr',), ('span', 'timezon'))
    """
    last = relation.rstrip("./#").replace("#", "/").rsplit("/", 1)[-1]
    parts = normalise(words(last if " " in last else last.rsplit(".", 1)[-1])).split()
    telling = [part for part in parts if part not in FUNCTION_WORDS]
    if not telling:
        return Phrase(tuple(parts))
    end = len(parts)
    while parts[end - 1] in PREPOSITIONS:
        end -= 1
    return Phrase(tuple(map(stem, telling)), tuple(parts[end:]))


class Phrases:
    """Finds a relation in a sentence whose words are not another relation's.

    "The official language of Morocco is Arabic" speaks of official_language and not of language; nor does "The language
    of Morocco is Berber" speak of official_language, where the graph has both.
    """

    def __init__(self, relations: Iterable[str]) -> None:
        self._all = {phrase_of(relation).stems for relation in relations}

    def places(self, sentence: Text, relation: str, named: Collection[int] = ()) -> Iterator[Place]:
        """Where the sentence has the relation's words; the words `named` belong to names."""
        stems = ["" if at in named else stem(word.plain) for at, word in enumerate(sentence.words)]
        wanted = phrase_of(relation).stems
        for first, last in _runs(sentence, stems, frozenset(wanted)):
            coverage = len(set(stems[first : last + 1]) & set(wanted)) / len(set(wanted))
            if coverage >= LEAST_COVERAGE and not self._another(sentence, stems, first, last, wanted):
                yield Place(first, last, coverage)

    def _another(self, sentence: Text, stems: list[str], first: int, last: int, wanted: tuple[str, ...]) -> bool:
        """Whether the words, or more words around them, are another relation's."""
        for low in range(max(0, first - BESIDE), first + 1):
            for high in range(last, min(len(stems), last + BESIDE + 1)):
                told = tuple(stems[at] for at in range(low, high + 1) if not sentence.function[at])
                if told != wanted and told in self._all:
                    return True
        return False


def _runs(sentence: Text, stems: list[str], wanted: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Stretches of wanted words with at most BETWEEN function words between two of them."""
    places = [at for at, one in enumerate(stems) if one in wanted]
    while places:
        first = last = places.pop(0)
        while places and all(sentence.function[last + 1 : places[0]]) and places[0] - last <= BETWEEN + 1:
            last = places.pop(0)
        yield first, last
