"""Which names in a sentence are the head and which the tail of a relation.

Decided by where they stand around the relation's words:

    Norway's capital is Oslo.               a possessive: the owner is the head
    The capital of Norway is Oslo.          what follows "of" is the head, what follows "is" the tail
    Oslo is the capital of Norway.          the same, the tail comes first
    Oslo, the capital of Norway, ...        the same, in apposition
    Big was directed by Penny Marshall.     head, words, tail; turned around if just one of the two says "by"
    Host a visit: China to Japan.           an event

Names joined by commas and "and" are one list and share the role. A name that stands elsewhere has no role, so "The
capital of Sweden, a neighbour of Norway, is Stockholm" says nothing of Norway. Negation, hedging, the past ("until",
"former") and markup between the names end a reading. English only.

`Phrases` finds a relation's words in a sentence, `mentions` the names, and `roles` puts the two together.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kgwalk.kg.graph import Graph
from kgwalk.kg.names import normalise, split_words
from kgwalk.kg.store import StoredGraph
from kgwalk.walk.name_lookup import GraphNames, RemoteNames, Stored
from kgwalk.walk.question_words import FUNCTION_WORDS, KINDS, Text, stem

# What each other word costs in nearness: much after the relation's words, little before them, where a thing is often
# described ("Big is a 1988 American comedy film directed by").
COST_BEFORE, COST_AFTER = 0.05, 0.2
LEAST_NEAR = 0.2

_JOIN = re.compile(r"[\s,;&\"“”]*(?:(?:and|or|as well as)\b)?[\s\"“”]*(?:the\s+)?")
_PARENTHESES = re.compile(r"\([^()]*\)")
_MARKUP = re.compile(r"[<>{}|\[\]\\=]")
_BREAK = re.compile(r"[.,;:!?]")
_COPULA = re.compile(r"\b(?:is|are|was|were|been|became|becomes|remains|being|named|called)\b")
_OF = re.compile(r"\b(?:of|for|in|at)(?:\s+(?:the|an?))?[\s\"“]*$")
_POSSESSIVE = re.compile(r"(?:['’]s\b|(?<=s)['’](?=\s))\s*")
_UNSAID_WORDS = """
    not never no nor neither without cannot former formerly previously once until except unlike instead false wrongly
    incorrectly alleged allegedly reportedly rumored rumoured might could would if whether ex
"""
_UNSAID = frozenset(_UNSAID_WORDS.split())
_BY = re.compile(r"\bby\b")
_CAPITAL = re.compile(r"\b[A-Z]\w")
_NT = re.compile(r"n['’]t\b")
_CLAUSE = re.compile(
    r"(?:[;,]\s+|\s)(?:and|while|but|whereas)\s+(?=[^,;]*?\b(?:is|are|was|were)\b)|;\s+(?=[^,;]*?\b(?:is|are)\b)"
)


class Role(NamedTuple):
    """The heads and tails in a sentence, and how near they stand to the relation's words, from 0.2 to 1."""

    heads: tuple[SentenceMention, ...]
    tails: tuple[SentenceMention, ...]
    near: float


class _Sentence:
    """The sentence as lists of names and the gaps between them: gap 0, list 0, gap 1, list 1, ..., last gap."""

    def __init__(self, text: str, start: int, mentions: Sequence[SentenceMention]) -> None:
        self.text, self.start = text, start
        lists: list[list[SentenceMention]] = []
        for mention in mentions:
            if lists and _joins(text[lists[-1][-1].end : mention.start]):
                lists[-1].append(mention)
            else:
                lists.append([mention])
        standing = ([mention for mention in names if mention.stands] for names in lists)
        self.lists = [names for names in standing if names]

    def names(self, at: int) -> tuple[SentenceMention, ...]:
        return tuple(self.lists[at]) if 0 <= at < len(self.lists) else ()

    def gap(self, at: int) -> tuple[int, int]:
        """Where the gap before list `at` begins and ends."""
        start = self.lists[at - 1][-1].end if at > 0 else self.start
        return start, self.lists[at][0].start if at < len(self.lists) else len(self.text)

    def between(self, at: int) -> str:
        start, end = self.gap(at)
        return _PARENTHESES.sub(" ", self.text[start:end])


def roles(
    sentence: Text, mentions: Sequence[SentenceMention], place: PhraseMatch, phrase: RelationPhrase
) -> Role | None:
    """Who is who around the relation's words at this place; None if the sentence does not say."""
    start, end = sentence.span(place.first, place.last)
    clause_start, clause_end = _clause(sentence.question, mentions, start, end)
    inside = [one for one in mentions if clause_start <= one.start and one.end <= clause_end]
    text = sentence.question[:clause_end]
    told = _Sentence(text, clause_start, inside)
    at = next((n for n in range(len(told.lists) + 1) if told.gap(n)[0] <= start and end <= told.gap(n)[1]), None)
    if not told.lists or at is None or _unsaid(told):
        return None
    low, high = told.gap(at)
    before = _PARENTHESES.sub(" ", text[low:start])
    after = _PARENTHESES.sub(" ", text[end:high])
    for rule in (_owner, _event, _of, _direct):
        role = rule(told, at, before, after, phrase)
        if role is not None:
            return role if role.near > 0 and role.heads and role.tails else None
    return None


def _owner(told: _Sentence, at: int, before: str, after: str, phrase: RelationPhrase) -> Role | None:
    owner = told.names(at - 1)[-1:]
    found = _POSSESSIVE.match(told.text, owner[0].end) if owner else None
    if found is None or not before.startswith(told.text[owner[0].end : found.end()]):
        return None
    adjectives = before[found.end() - owner[0].end :]
    if told.names(at) and (_links(after) or _apposes(after)):
        return Role(owner, told.names(at), _near(adjectives, after))
    ahead = told.lists[at - 1][:-1] or list(told.names(at - 2))
    gap = told.between(at - 1) if len(told.lists[at - 1]) == 1 else ","
    return Role(owner, tuple(ahead), _near(adjectives, gap)) if ahead and (_links(gap) or _apposes(gap)) else None


def _event(told: _Sentence, at: int, before: str, after: str, phrase: RelationPhrase) -> Role | None:
    if _other_words(before) or after.strip() != ":" or not told.names(at + 1) or told.between(at + 1).strip() != "to":
        return None
    return Role(told.names(at), told.names(at + 1), 1.0)


def _of(told: _Sentence, at: int, before: str, after: str, phrase: RelationPhrase) -> Role | None:
    """Not where the "of" is the relation's own, as in county_of; but "director of" speaks of directed_by."""
    heads = told.names(at)
    if after.split()[:1] == list(phrase.own[:1]) or not heads or _BREAK.search(after) or not _OF.search(after):
        return None
    if told.names(at - 1) and _links(before):
        return Role(heads, told.names(at - 1), _near(before, after))
    if told.names(at + 1) and _links(told.between(at + 1)):
        return Role(heads, told.names(at + 1), _near(told.between(at + 1), after))
    for further in range(at + 2, len(told.lists)):  # "the capital of Sweden, a neighbour of Norway, is Stockholm"
        gap = told.between(further)
        if gap.lstrip().startswith(",") and _links(gap.lstrip(" ,")):
            return Role(heads, told.names(further), _near(gap, after))
    if told.names(at - 1) and _apposes(before):
        return Role(heads, told.names(at - 1), _near(before, after))
    return Role((), (), 0.0)


def _direct(told: _Sentence, at: int, before: str, after: str, phrase: RelationPhrase) -> Role | None:
    first, second = told.names(at - 1), told.names(at)
    following = after.lstrip().removeprefix(":")
    if not first or not second or _BREAK.search(before) or _BREAK.search(following):
        return None
    by = _BY.search(before + following) is not None
    near = _near(before, following)
    return Role(first, second, near) if by == ("by" in phrase.own) else Role(second, first, near)


def _joins(gap: str) -> bool:
    """Whether a gap makes one list of the names on its two sides."""
    plain = _PARENTHESES.sub(" ", gap)
    return bool(plain.strip()) and _JOIN.fullmatch(plain) is not None


def _links(gap: str) -> bool:
    """Whether a gap says that what stands on one side is what stands on the other: "is the", "is also a", ":"."""
    if gap.strip() in (":", "-", "–", "—"):
        return True
    found = _COPULA.search(gap)
    return found is not None and not _BREAK.search(gap[found.end() :]) and not _other_words(gap[: found.start()])


def _apposes(gap: str) -> bool:
    """Whether a gap is a comma and an article: "Oslo, the capital"."""
    return gap.lstrip().startswith(",") and not _BREAK.search(gap.lstrip()[1:])


def _near(before: str, after: str) -> float:
    """1 less the cost of other words; 0 where markup, or a name that the graph does not know, stands between."""
    if _MARKUP.search(before) or _MARKUP.search(after) or _CAPITAL.search(after):
        return 0.0
    near = 1 - COST_BEFORE * _other_words(before) - COST_AFTER * _other_words(after)
    return round(near, 4) if near >= LEAST_NEAR else 0.0


def _other_words(gap: str) -> int:
    return sum(word not in FUNCTION_WORDS for word in normalise(gap).split() if any(map(str.isalnum, word)))


def _unsaid(told: _Sentence) -> bool:
    """Whether a word between the names takes back what is said; a name may hold such words itself."""
    gaps = " ".join(told.text[slice(*told.gap(at))] for at in range(len(told.lists) + 1))
    words = re.split(r"[\s,;:()]+", gaps[:1].lower() + gaps[1:])
    return not _UNSAID.isdisjoint(words) or _NT.search(gaps) is not None


def _clause(text: str, mentions: Sequence[SentenceMention], start: int, end: int) -> tuple[int, int]:
    """The part of a sentence around a place, parted from others by "and" or ";" where both have a verb of their own."""
    low = 0
    for found in _CLAUSE.finditer(text):
        inside_a_name = any(one.start < found.end() and found.start() < one.end for one in mentions)
        if inside_a_name or not _COPULA.search(text[low : found.start()]):
            continue
        if found.end() <= start:
            low = found.end()
        elif found.start() >= end:
            return low, found.start()
    return low, len(text)


# The words of a relation in a sentence

PREPOSITIONS = frozenset(["of", "by", "in", "at", "on", "to", "from", "for", "with", "as"])
LEAST_COVERAGE = 0.5
BETWEEN = 2  # function words may stand between two words of a relation: "place of the birth"
BESIDE = 3  # words on each side are searched for a longer relation


@dataclass(frozen=True, slots=True)
class RelationPhrase:
    """`stems` are the content words in order; `own` the prepositions at the end, as the "by" of directed_by."""

    stems: tuple[str, ...]
    own: tuple[str, ...] = ()


class PhraseMatch(NamedTuple):
    """Where a sentence has a relation's words: the first and last word, and the share of them that is there."""

    first: int
    last: int
    coverage: float


def phrase_of(relation: str) -> RelationPhrase:
    """The words of a relation's name, of which only the last part counts.

    There are no synonyms: "was born in" says nothing of place_of_birth.

    >>> phrase_of("directed_by")
    RelationPhrase(stems=('direct',), own=('by',))
    >>> phrase_of("currency_used")
    RelationPhrase(stems=('currency',), own=())
    >>> phrase_of("people.person.place_of_birth").stems, phrase_of("has_genre").stems, phrase_of("spansTimezone").stems
    (('plac', 'birth'), ('genr',), ('span', 'timezon'))
    """
    last = relation.rstrip("./#").replace("#", "/").rsplit("/", 1)[-1]
    parts = normalise(split_words(last if " " in last else last.rsplit(".", 1)[-1])).split()
    telling = [part for part in parts if part not in FUNCTION_WORDS]
    if not telling:
        return RelationPhrase(tuple(parts))
    end = len(parts)
    while parts[end - 1] in PREPOSITIONS:
        end -= 1
    return RelationPhrase(tuple(map(stem, telling)), tuple(parts[end:]))


class Phrases:
    """Finds a relation's words in a sentence, unless they are another relation's.

    "The official language of Morocco is Arabic" speaks of official_language and not of language; nor does "The language
    of Morocco is Berber" speak of official_language, where the graph has both.
    """

    def __init__(self, relations: Iterable[str]) -> None:
        self._all = {phrase_of(relation).stems for relation in relations}

    def places(self, sentence: Text, relation: str, named: Collection[int] = ()) -> Iterator[PhraseMatch]:
        """Where the sentence has the relation's words; the words at `named` belong to names and do not count."""
        stems = ["" if at in named else stem(word.plain) for at, word in enumerate(sentence.words)]
        wanted = phrase_of(relation).stems
        for first, last in _runs(sentence, stems, frozenset(wanted)):
            coverage = len(set(stems[first : last + 1]) & set(wanted)) / len(set(wanted))
            if coverage >= LEAST_COVERAGE and not self._another(sentence, stems, first, last, wanted):
                yield PhraseMatch(first, last, coverage)

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


# The names of entities in a sentence

_INSIDE_NUMBERS = ".,:/-"


class SentenceMention(NamedTuple):
    """A stretch of the sentence and the entities of this name; those written exactly so come first.

    Only one that `stands` may have a role; any other is just a word in a list of names.
    """

    start: int  # characters
    end: int
    names: tuple[str, ...]
    words: range
    stands: bool = True


def names_of(graph: Graph) -> GraphNames:
    return Stored(graph) if isinstance(graph, StoredGraph) else RemoteNames(graph)


def mentions(sentence: Text, names: GraphNames) -> list[SentenceMention]:
    """The mentions in order, longest names first where they would overlap.

    Stricter than the linking of questions, since nobody looks at each result: a name stands as the graph writes it, or
    differs only in accents and punctuation. "us" is not US, "music" does not contain it, "30" is not in "15.30", York
    is not in New York.
    """
    found: list[SentenceMention] = []
    covered: set[int] = set()
    for first, last in sorted(names.stretches(sentence), key=lambda ends: (-sentence.size(*ends), ends)):
        mention = _mention(sentence, names, first, last) if covered.isdisjoint(range(first, last + 1)) else None
        if mention is not None:
            found.append(mention)
            covered.update(mention.words)
    return sorted((one for one in found if not _goes_on(sentence, one, covered)), key=lambda one: one.start)


def _mention(sentence: Text, names: GraphNames, first: int, last: int) -> SentenceMention | None:
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
        return SentenceMention(low, high, (name, *alike), words) if _whole(text, low, high) else None
    return SentenceMention(low, high, tuple(alike), words) if alike else None


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


def _goes_on(sentence: Text, mention: SentenceMention, covered: set[int]) -> bool:
    """Whether a capitalised word that belongs to no name stands right beside it: then it is part of a longer name."""
    words, text = sentence.words, sentence.question
    before, after = mention.words.start - 1, mention.words.stop
    beside = [(before, text[words[before].end : mention.start])] if before >= 0 else []
    beside += [(after, text[mention.end : words[after].start])] if after < len(words) else []
    return any(
        glue == " " and at not in covered and sentence.capital[at] and not sentence.function[at] for at, glue in beside
    )
