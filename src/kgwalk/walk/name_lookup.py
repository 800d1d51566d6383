"""A question as words, and the names of a graph as linking asks for them.

`Text` is the question: where each word begins and ends, and what its writing tells (quotation marks, capitals,
underscores, scripts without spaces). `GraphNames` gives equal names, near names and the words of the relations: of a
store on this machine, read once (`Stored`), or of a graph elsewhere, which is asked as little as possible
(`RemoteNames`). Which of the names is meant is for walk/linking.py to say.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from kgwalk.kg.graph import Graph
from kgwalk.kg.names import normalise
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.types import Found
from kgwalk.walk.word_forms import initials

# The question


LONGEST = 12.0  # words looked up together; of metaqa's 43,000 names 4 have more
CHARACTER = 0.3  # a character of a script without spaces, in words: names of up to 40 characters are found
MOST_WORDS = 600  # of a longer text only the beginning is read: bounds the time

# Words that join others or ask; a name made of these alone needs more evidence than being equal.
_FUNCTION = """
    a an the this that these those it its he him his she her hers they them their theirs we us our you your i me my
    myself yourself himself herself itself themselves and or but nor not no so if then than as of in on at by for with
    from to into onto over under about after before between during through without within against among upon up down
    out off per via since until while because is are was were be been being am do does did done doing has have had
    having can could will would shall should may might must s t d ll re ve m who whom whose what which when where why
    how whether there here all any both each every some many much more most other another such same own only also too
    very just now today currently ever still yet again once one ones first last next get got go goes went come came
    make made take took give gave given use used using say said name list tell show find know known called call mean
    want like kind type sort please
"""
FUNCTION_WORDS = frozenset(_FUNCTION.split())

_QUOTED = re.compile(
    r'"([^"]+)"|“([^”]+)”|„([^“”]+)[“”]|«([^»]+)»|「([^」]+)」|『([^』]+)』|《([^》]+)》|(?<!\w)[\'‘]([^\'‘’]+)[\'’](?!\w)'
)
# Thai and Lao, Burmese, Khmer, kana, Han, Hangul (which has spaces, but joins particles to names).
_UNSPACED = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x30FF), (0x3400, 0x9FFF), (0xAC00, 0xD7AF),
    (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip


def is_long(question: str) -> bool:
    """Whether it has words that are not read."""
    return next(islice(_words(question), MOST_WORDS, None), None) is not None


class _Word(NamedTuple):
    start: int
    end: int
    plain: str  # normalised
    size: float  # in words: 1, or CHARACTER


class Text:
    """The question, its words, and what their writing tells."""

    def __init__(self, question: str) -> None:
        self.question = question
        self.words = list(islice(_words(question), MOST_WORDS))
        words = self.words
        self.capital = [question[word.start].isupper() and word.plain != "i" for word in words]
        self.digits = [question[word.start].isdecimal() for word in words]
        # Capitals tell names apart only where other words have none. A sentence's first word tells nothing.
        small = [question[word.start].islower() for word in words]
        self.cased = any(self.capital[1:]) and any(small[1:])
        between = [question[one.end : other.start] for one, other in pairwise(words)]
        joined = [_joins(question, one, other) for one, other in pairwise(words)]
        hyphen = [glue in ("-", "‐", "‑", "–") for glue in between]
        count = len(words)
        self.joined_before, self.joined_after = [False, *joined][:count], [*joined, False][:count]
        self.hyphen_before, self.hyphen_after = [False, *hyphen][:count], [*hyphen, False][:count]
        self.function = [word.plain in FUNCTION_WORDS for word in words]
        self.quoted = set(self._quoted())

    def _quoted(self) -> Iterator[tuple[int, int]]:
        """The first and last word of each quotation."""
        end_of_words = self.words[-1].end + 1 if self.words else 0
        for found in _QUOTED.finditer(self.question, 0, end_of_words):
            start, end = found.span(found.lastindex or 0)
            inside = [at for at, word in enumerate(self.words) if start <= word.start and word.end <= end]
            if inside:
                yield inside[0], inside[-1]

    def stretches(self) -> Iterator[tuple[int, int]]:
        """First and last word of all that may be a name: LONGEST at most, where words joined by _ count as one.

        Joined words are not parted; a quotation may have any length.
        """
        for first, word in enumerate(self.words):
            if self.joined_before[first]:
                continue
            size = 0.0
            for last in range(first, len(self.words)):
                size += 0 if self.joined_before[last] else self.words[last].size
                if size > LONGEST + word.size / 2:  # half a word for rounding
                    break
                if not self.joined_after[last]:
                    yield first, last
        yield from (ends for ends in sorted(self.quoted) if self.size(*ends) > LONGEST)

    def capital_beside(self, first: int, last: int) -> bool:
        """Whether a capitalised word stands right before or after."""
        before = first > 0 and self.capital[first - 1] and self.question[self.words[first].start - 1] == " "
        return before or (last + 1 < len(self.words) and self.capital[last + 1])

    def span(self, first: int, last: int) -> tuple[int, int]:
        return self.words[first].start, self.words[last].end

    def size(self, first: int, last: int) -> float:
        return sum(word.size for word in self.words[first : last + 1])


def _joins(question: str, one: _Word, other: _Word) -> bool:
    """Whether two neighbouring words are one token of a name like anna_of_holstein-gottorp or 1._FC_Union."""
    glue = question[one.end : other.start]
    if "_" in glue:
        return not any(character.isspace() for character in glue)
    if glue not in ("-", "'", "’") or (glue != "-" and other.plain == "s"):
        return False
    return question[one.start - 1 : one.start] == "_" or question[other.end : other.end + 1] == "_"


class _Kinds(dict[str, str]):
    """What a character is to a word: "letter", "alone" (a word by itself), "mark" (goes with the last) or ""."""

    def __missing__(self, character: str) -> str:
        category = unicodedata.category(character)
        code = ord(character)
        if category[0] == "M" or category == "Cf":
            kind = "mark"
        elif category[0] not in "LN":
            kind = ""
        else:
            kind = "alone" if any(low <= code <= high for low, high in _UNSPACED) else "letter"
        self[character] = kind
        return kind


KINDS = _Kinds()


def _words(question: str) -> Iterator[_Word]:
    """Runs of letters and digits; single characters where a script has no spaces.

    >>> [word.plain for word in _words("Hanks's film, 東京?")]
    ['hanks', 's', 'film', '東', '京']
    """
    start, last = 0, ""
    for at, character in enumerate(question + " "):
        kind = KINDS[character]
        if kind == "mark" and last:
            continue
        if last and (kind != last or kind == "alone"):
            size = CHARACTER if last == "alone" else 1.0
            yield _Word(start, at, normalise(question[start:at]), size)
        if kind != last or kind == "alone":
            start = at
        last = "" if kind == "mark" else kind


# The graph's names

CONSIDERED = 50  # names that a search proposes, of which the best connected is chosen
# An entity is well connected if it is among so many, or this share, of the graph's.
WELL_CONNECTED, WELL_CONNECTED_SHARE = 1000, 0.05
MOST_CLASSES = 1000  # of a graph with few names
FEW = 20_000  # names of a graph: metaqa's 43,000 have a film for many a word
MOST_ASKED = 24  # names asked of a graph that has no store here: each may be a request
MOST_INITIALS = 100_000  # names known by their initials: the best connected ones, one index a store
BESIDE, MOST_BESIDE = 3, 200  # a fact with another entity tells more than a word; of so many facts of one relation
MOST_SO_NAMED = 3  # things of one name that a walk starts from in its place
# Relations whose values are kinds, by the end of their names, normalised
TYPE_RELATIONS = frozenset({"type", "rdf type", "a", "is a", "isa", "instance of", "instanceof", "kind", "category"})
# Relations whose values are names of their things, and codes, where each thing has its own
NAMES = frozenset({"name", "label", "pref label", "alt label", "alias", "aliases", "aka", "also known as", "nickname"})
CODES = frozenset({"abbreviation", "acronym", "code", "symbol", "ticker", "surname", "designation", "identifier"})
CODES |= {"catalogue", "catalog", "iata", "icao", "isbn", "ean", "registration"}
MOST_TOLD_APART = 200_000  # names like `Paris (Q90)` known by their label: the best connected ones, one index a store

# Words for kinds of things, which stand beside names in questions: as weak as the words of a relation.
_CLASSES = """
    person people man men woman women child children kid family father mother parent son daughter brother sister wife
    husband film movie picture show series episode season book novel story song album music band artist actor actress
    director writer screenwriter author character role place city town country state county nation continent world
    team club player coach company organization university college school language year date day time word number
    topic subject theme genre title part thing
"""


def stem(plain: str) -> str:
    """A word without its ending, so that "directed", "director" and "directs" are one.

    >>> [stem(word) for word in ("directed", "directors", "starred", "star", "languages", "country", "sing")]
    ['direct', 'direct', 'star', 'star', 'languag', 'country', 'sing']
    """
    stem = re.sub(r"(?:ing|ed|ors?|ers?|es|s|e)$", "", plain)
    if len(stem) < 3:
        return plain
    return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] else stem


CLASS_STEMS = frozenset(map(stem, _CLASSES.split()))


class RankedName(NamedTuple):
    rank: int  # 0 is the best connected entity
    found: Found


class GraphNames(Protocol):
    """What linking asks of a graph."""

    well_connected: int  # ranks below this
    near_by: bool  # whether many may be asked for: they are on this machine
    few: bool  # so few that a word of a question is hardly one of them by chance
    relation_words: frozenset[str]  # stems
    class_words: frozenset[str]  # stems of the words of classes, where names are few

    def stretches(self, text: Text) -> Iterable[tuple[int, int]]:
        """The stretches worth asking for."""
        ...

    def equal(self, text: str) -> list[RankedName]:
        """Entities of this name, normalised, best connected first."""
        ...

    def near(self, text: str) -> list[RankedName]:
        """Entities of names near to the text."""
        ...

    def short_for(self, letters: str) -> list[RankedName]:
        """Entities whose names have these initials."""
        ...

    def keyed(self, key: str, said: str) -> list[RankedName]:
        """The rows of tables with this key, of the table that is said if it is one."""
        ...

    def context(self, one: RankedName, stems: Collection[str], others: Sequence[RankedName]) -> int:
        """How much a question says of an entity: words of its relations, and other entities that it has facts with."""
        ...

    def types(self, one: RankedName) -> frozenset[str]:
        """What it is, where the graph says so; empty for a value."""
        ...

    def is_class(self, one: RankedName) -> bool:
        """Whether it is what others are: Country, where France has the type Country."""
        ...

    def is_thing(self, one: RankedName) -> bool:
        """Whether it has facts of its own, so that it is more than a value of others."""
        ...

    def meant(self, named: Sequence[RankedName]) -> list[RankedName]:
        """The same, with things in place of what is nothing but their name or code."""
        ...


class _Known(NamedTuple):
    """What is read from a store once."""

    relation_words: frozenset[str]
    classes: list[str]
    class_words: frozenset[str]
    told_apart: dict[str, list[int]]  # normalised label to the entities that share it


_KNOWN: WeakKeyDictionary[Store, _Known] = WeakKeyDictionary()
_INITIALS: WeakKeyDictionary[Store, dict[str, list[int]]] = WeakKeyDictionary()


def _known(store: Store) -> _Known:
    known = _KNOWN.get(store)
    if known is None:
        relations = store.relation.several(range(len(store.relation)))
        classes = _classes(store, relations) if len(store.entity) <= FEW else []
        known = _KNOWN[store] = _Known(_relation_words(relations), classes, _stems(classes), _told_apart(store))
    return known


def _classes(store: Store, relations: Sequence[str]) -> list[str]:
    """The values of the relations of types: Country, employees."""
    types = [number for number, name in enumerate(relations) if last_words(name) in TYPE_RELATIONS - {"category"}]
    groups = np.flatnonzero(np.isin(store.in_.relation_array, types))
    numbers = np.unique(np.searchsorted(store.in_.groups_array, groups, side="right") - 1)
    return store.entity.several(numbers.tolist()[:MOST_CLASSES])


def is_naming(words: str) -> bool:
    """Whether a relation's values are names or codes of its things: "alias", "first name"."""
    return words in NAMES or words.endswith(" name") or _is_code(words)


def _is_code(words: str) -> bool:
    return words in CODES or words.endswith((" code", " number", " id", " symbol"))


def _relation_words(relations: Iterable[str]) -> frozenset[str]:
    return CLASS_STEMS | _stems(relations)


def _stems(names: Iterable[str]) -> frozenset[str]:
    return frozenset(stem(word) for name in names for word in last_words(name).split())


def last_words(name: str) -> str:
    """The words of a relation's or a class's name, without what comes before the last dot, slash, hash or colon.

    Of people.person.profession only the property: domains hold names (base.arizona.topic). And directedBy is two.
    """
    last = re.split(r"[./#:]", name.rstrip("./#:"))[-1] or name
    return normalise(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", last))


def _told_apart(store: Store) -> dict[str, list[int]]:
    """Labels that several entities share stand in the names with a suffix, `Paris (Q90)`: found by the label too."""
    labels: dict[str, list[int]] = {}
    if "entity.told" in store.folder:
        told = store.folder["entity.told"][:MOST_TOLD_APART].tolist()
        suffixes = store.folder["entity.suffix"][:MOST_TOLD_APART].tolist()
        for number, suffix in zip(told, suffixes, strict=True):
            name = store.entity[number].encode()
            labels.setdefault(normalise(name[: len(name) - suffix].decode()), []).append(number)
    return labels


class Stored:
    """The names of a store, or of those that are live in a view of one."""

    near_by = True

    def __init__(self, graph: StoredGraph) -> None:
        self._graph, self._store = graph, graph.store
        self.relation_words, self.classes, self.class_words, self._told_apart = _known(graph.store)
        self.few = len(graph.store.entity) <= FEW
        self.well_connected = max(WELL_CONNECTED, int(WELL_CONNECTED_SHARE * len(graph.store.entity)))

    def stretches(self, text: Text) -> Iterable[tuple[int, int]]:
        return text.stretches()

    def equal(self, text: str) -> list[RankedName]:
        store = self._store
        numbers = store.finder.equal(text)
        if self._told_apart:
            numbers = sorted({*numbers, *self._told_apart.get(normalise(text), ())})
        if store.entity_id is not None and (number := store.entity_id.number(text)) is not None:
            numbers = [number]  # the source's own id
        ids = store.entity_id
        named = [
            RankedName(n, Found(store.entity[n], 1.0, "normalised", None if ids is None else ids[n])) for n in numbers
        ]
        return [one for one in named if one.found.name in self._graph]

    def near(self, text: str) -> list[RankedName]:
        found = self._graph.find(text, CONSIDERED)
        return [RankedName(self._store.entity_number(one.name) or 0, one) for one in found]

    def short_for(self, letters: str) -> list[RankedName]:
        store = self._store
        if store not in _INITIALS:
            _INITIALS[store] = {}
            for number, name in enumerate(store.entity.several(range(min(len(store.entity), MOST_INITIALS)))):
                for short in initials(normalise(name)):
                    if 1 < len(short) < 7:
                        _INITIALS[store].setdefault(short, []).append(number)
        return [self._fuzzy(number) for number in _INITIALS[store].get(letters, ())[:CONSIDERED] if self._has(number)]

    def _fuzzy(self, number: int) -> RankedName:
        return RankedName(number, Found(self._store.entity[number], 0.5, "fuzzy", self._id(number)))

    def _has(self, number: int) -> bool:
        return self._store.entity[number] in self._graph

    def types(self, one: RankedName) -> frozenset[str]:
        relations = [name for name in self._relations(one.rank, out=True) if last_words(name) in TYPE_RELATIONS]
        found = (self._graph.neighbors(one.found.name, relation, limit=MOST_SO_NAMED).names for relation in relations)
        return frozenset(name for names in found for name in names)

    def is_class(self, one: RankedName) -> bool:
        return any(last_words(name) in TYPE_RELATIONS for name in self._relations(one.rank, out=False))

    def is_thing(self, one: RankedName) -> bool:
        return bool(self._relations(one.rank, out=True))

    def meant(self, named: Sequence[RankedName]) -> list[RankedName]:
        found: dict[str, RankedName] = {}
        for one in named:
            for thing in self._named_so(one) or [one]:
                found.setdefault(thing.found.name, thing)
        return list(found.values())

    def _named_so(self, one: RankedName) -> list[RankedName]:
        """The things whose name this is, where it is nothing else, and they have no other name of that kind."""
        relations = self._relations(one.rank, out=False)
        if self.is_thing(one) or not relations or not all(is_naming(last_words(name)) for name in relations):
            return []
        named = []
        for relation in relations:
            heads = self._graph.neighbors(one.found.name, relation, out=False).names
            most = 1 if _is_code(last_words(relation)) else MOST_SO_NAMED
            if len(heads) > most or any(len(self._graph.neighbors(head, relation).names) > 1 for head in heads):
                return []
            named += [(self._store.entity_number(head) or 0, head) for head in heads]
        return [
            RankedName(number, replace(one.found, name=head, id=self._id(number)))
            for number, head in sorted(set(named))
        ]

    def _id(self, number: int) -> str | None:
        return None if self._store.entity_id is None else self._store.entity_id[number]

    def keyed(self, key: str, said: str) -> list[RankedName]:
        ids = self._store.entity_id
        if ids is None:
            return []
        rows = {name: ids.number(f"{name}/{key}") for name in self.classes}
        named = [name for name in rows if stem(said) in _stems([name])]
        numbers = [rows[name] for name in named or rows]
        return [
            RankedName(number, Found(self._store.entity[number], 1.0, "normalised", ids[number]))
            for number in numbers
            if number is not None and self._has(number)
        ]

    def context(self, one: RankedName, stems: Collection[str], others: Sequence[RankedName]) -> int:
        name = one.found.name
        leaving, entering = self._relations(one.rank, out=True), self._relations(one.rank, out=False)
        spoken_of = sum(not _stems([relation]).isdisjoint(stems) for relation in leaving)
        return spoken_of + BESIDE * sum(
            other.found.name in self._graph.neighbors(name, relation, out=out, limit=MOST_BESIDE).names
            for other in others
            for out, relations in ((True, leaving), (False, entering))
            for relation in relations[:CONSIDERED]
        )

    def _relations(self, number: int, *, out: bool) -> list[str]:
        name = self._store.entity[number]
        return list(self._graph.relations(name, out=out))


class RemoteNames:
    """The names of a graph elsewhere: each lookup may be a request, so few are made and only as written."""

    relation_words = CLASS_STEMS
    class_words: frozenset[str] = frozenset()
    well_connected = 1  # all: their ranks are not known
    near_by = few = False

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def stretches(self, text: Text) -> Iterable[tuple[int, int]]:
        telling = [
            (first, last)
            for first, last in text.stretches()
            if all(text.capital[at] or not text.function[at] for at in (first, last))
        ]
        telling.sort(key=lambda ends: _promise(text, *ends))
        return telling[:MOST_ASKED]

    def equal(self, text: str) -> list[RankedName]:
        return [RankedName(0, Found(text, 1.0, "exact"))] if text in self._graph else []

    def near(self, text: str) -> list[RankedName]:
        return [RankedName(0, one) for one in self._graph.find(text, CONSIDERED)]

    def short_for(self, letters: str) -> list[RankedName]:
        return []

    def keyed(self, key: str, said: str) -> list[RankedName]:
        return []

    def context(self, one: RankedName, stems: Collection[str], others: Sequence[RankedName]) -> int:
        return 0

    def types(self, one: RankedName) -> frozenset[str]:
        return frozenset()

    def is_class(self, one: RankedName) -> bool:
        return False

    def is_thing(self, one: RankedName) -> bool:
        return True

    def meant(self, named: Sequence[RankedName]) -> list[RankedName]:
        return list(named)


def _promise(text: Text, first: int, last: int) -> tuple[int, int, float]:
    """Sorts first what has most capitals, then fewest function words, then most words."""
    capitals, function = sum(text.capital[first : last + 1]), sum(text.function[first : last + 1])
    return -capitals, function, -text.size(first, last)
