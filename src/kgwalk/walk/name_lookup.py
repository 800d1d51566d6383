"""The names of a graph as linking asks for them, and a part of a question that may mean one (`WeighedMatch`).

`GraphNames` gives equal names, near names, rows by their keys and the words of the relations, and says what a name is:
a thing, a value, a class, another thing's name. `Stored` has those of a store on this machine, read once, `RemoteNames`
those of a graph elsewhere, which is asked as little as possible. Which of the names is meant is for walk/linking.py to
say.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

from rapidfuzz import process
from rapidfuzz.distance import OSA

from kgwalk.kg.graph import Batched, Graph
from kgwalk.kg.names import normalise
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.types import Found
from kgwalk.walk.question_words import CLASS_STEMS, Text, initials, is_usual, stem

# The graph's names

CONSIDERED = 50  # names that a search proposes, of which the best connected is chosen
# An entity is well connected if it is among so many, or this share, of the graph's.
WELL_CONNECTED, WELL_CONNECTED_SHARE = 1000, 0.05
MOST_CLASSES = 1000  # of a graph with few names
FEW = 20_000  # names of a graph, without values in figures: metaqa's 43,000 have a film for many a word
MOST_COUNTED = 10 * FEW  # names that are looked at to see which are figures
MOST_ASKED = 24  # names asked of a graph that has no store here: each may be a request
MOST_INITIALS = 100_000  # names known by their initials: the best connected ones, one index a store
BESIDE, MOST_BESIDE = 3, 200  # a fact with another entity tells more than a word; of so many facts of one relation
LONGEST_PART, LONGEST_NAME = 4, 7  # words of a part of a name that is known by itself
MOST_SO_NAMED = 3  # things of one name that a walk starts from in its place
# Relations whose values are kinds, by the end of their names, normalised
TYPE_RELATIONS = frozenset({"type", "rdf type", "a", "is a", "isa", "instance of", "instanceof", "kind", "category"})
# Relations whose values are names of their things, and codes, where each thing has its own
NAMES = frozenset({"name", "label", "pref label"})
# Of these a thing may have several, in one cell too: "Big Blue; IBM Corp."
ALIASES = frozenset({"alias", "aliases", "aka", "also known as", "alt label", "alternative name", "alternative names"})
ALIASES |= {"nickname", "nicknames", "other name", "other names", "synonym", "synonyms", "former name", "former names"}
_LISTED = re.compile(r"\s*[;|,]\s*")
CODES = frozenset({"abbreviation", "acronym", "code", "symbol", "ticker", "surname", "designation", "identifier"})
CODES |= {"catalogue", "catalog", "iata", "icao", "isbn", "ean", "registration"}
MOST_TOLD_APART = 200_000  # names like `Paris (Q90)` known by their label: the best connected ones, one index a store


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
    said_words: frozenset[str]  # stems of words that say a relation or kind rather than a name that equals them

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

    def squeezed(self, letters: str) -> list[RankedName]:
        """Entities whose names, without spaces and hyphens, are these letters."""
        ...

    def begun(self, letters: str) -> list[RankedName]:
        """The only entity whose name is one word that begins with these letters: coop, cooperation."""
        ...

    def only_with(self, words: str) -> list[RankedName]:
        """The only entity whose name has these words in this order, and others."""
        ...

    def with_word_like(self, word: str) -> list[RankedName]:
        """Entities whose names are or have a word that is spelt nearly so, or begin as its parts do: infosec."""
        ...

    def of_kind(self, word: str, kind: str) -> list[RankedName]:
        """What things of a kind are or have, by the first word of its name: the sales team, of a Sales Department."""
        ...

    def one_relation(self, stems: Collection[str]) -> bool:
        """Whether one relation or class has all these words."""
        ...

    def keyed(self, key: str, said: str) -> list[RankedName]:
        """The rows of tables with this key, of the table that is said if it is one."""
        ...

    def context(self, one: RankedName, stems: Collection[str], others: Sequence[RankedName]) -> int:
        """How much a question says of an entity: words of its relations, and other entities that it has facts with."""
        ...

    def spoken_of(self, one: RankedName, stems: Collection[str]) -> int:
        """Of how many relations of an entity, in either direction, a question has a word."""
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

    few: bool
    own_words: frozenset[str]  # of its relations alone
    relation_words: frozenset[str]
    classes: list[str]
    class_words: frozenset[str]
    told_apart: dict[str, list[int]]  # normalised label or other name to the entities that have it
    said: list[frozenset[str]]  # the stems of each relation and class


_KNOWN: WeakKeyDictionary[Store, _Known] = WeakKeyDictionary()
_INITIALS: WeakKeyDictionary[Store, dict[str, list[int]]] = WeakKeyDictionary()
_WITH: WeakKeyDictionary[Store, dict[str, list[int]]] = WeakKeyDictionary()
_SQUEEZED: WeakKeyDictionary[Store, dict[str, list[int]]] = WeakKeyDictionary()
_WORDS: WeakKeyDictionary[Store, dict[str, list[str]]] = WeakKeyDictionary()  # of names, by their first letters


def _known(store: Store) -> _Known:
    known = _KNOWN.get(store)
    if known is None:
        relations = store.relation.several(store.live_relations())
        few = _has_few(store)
        classes = _classes(store, relations) if few else []
        labels = _told_apart(store)
        _add_other_names(labels, store, relations if few else ())
        if few:
            _add_codes(labels, store)
        known = _KNOWN[store] = _Known(
            few,
            _stems(relations),
            _relation_words(relations),
            classes,
            _stems(classes),
            labels,
            [_stems([name]) for name in (*relations, *classes)] if few else [],
        )
    return known


def _numbered(store: Store, most: int | None = None) -> Iterable[tuple[int, str]]:
    """The names of the entities with their numbers, of the best connected first."""
    numbers = store.live_entities()[:most]
    return zip(numbers, store.entity.several(numbers), strict=True)


def _has_few(store: Store) -> bool:
    """Whether few names have a letter: prices and coordinates may be many, and no question's word is one of them."""
    count = len(store.entity)
    if FEW < count <= MOST_COUNTED:
        count = sum(_LETTER.search(name) is not None for name in store.entity.several(range(count)))
    return count <= FEW


_LETTER = re.compile(r"[^\W\d_]")


def _classes(store: Store, relations: Sequence[str]) -> list[str]:
    """The values of the relations of types: Country, employees."""
    found = (store.relation.number(name) for name in relations if last_words(name) in TYPE_RELATIONS - {"category"})
    types = [number for number in found if number is not None]
    return store.entity.several(store.in_.having_any(types).tolist()[:MOST_CLASSES])


def is_naming(words: str) -> bool:
    """Whether a relation's values are names or codes of its things: "alias", "first name"."""
    return words in NAMES or words in ALIASES or words.endswith(" name") or _is_code(words)


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


def _add_other_names(labels: dict[str, list[int]], store: Store, relations: Sequence[str]) -> None:
    """Names beside the one that is shown: labels in other languages, and what relations of aliases lead to."""
    for name, number in store.other_names:
        labels.setdefault(normalise(name), []).append(number)
    for relation in relations:
        if last_words(relation) in ALIASES:
            for fact in StoredGraph(store).match(relation=relation):
                number = store.entity_number(fact.head) or 0
                for name in _LISTED.split(fact.tail):
                    if (plain := normalise(name)) and number not in labels.setdefault(plain, []):
                        labels[plain].append(number)


def _add_codes(labels: dict[str, list[int]], store: Store) -> None:
    """The source's ids that are codes of letters and figures, as people write them: app-03, pt1001."""
    ids = store.entity_id
    for number, own in enumerate(ids.several(range(len(ids))) if ids is not None else ()):
        code = re.split(r"[/#]", own)[-1]
        if own.startswith('"') or not _CODE.fullmatch(code) or code == store.entity[number]:
            continue
        for plain in {normalise(code), normalise(code).replace(" ", "")}:
            if number not in labels.setdefault(plain, []):
                labels[plain].append(number)


_CODE = re.compile(r"(?=.*[A-Za-z])(?=.*\d)[A-Za-z\d]+(?:[-_.]?[A-Za-z\d]+)?")


def _parts(words: Sequence[str]) -> set[str]:
    """Up to four words of a longer name, side by side; none of what is no name but a text."""
    if len(words) > LONGEST_NAME:
        return set()
    return {
        " ".join(words[first : first + length])
        for length in range(1, min(len(words), LONGEST_PART + 1))
        for first in range(len(words) - length + 1)
    }


class Stored:
    """The names of a store, or of those that are live in a view of one."""

    near_by = True

    def __init__(self, graph: StoredGraph) -> None:
        self._graph, self._store = graph, graph.store
        known = _known(graph.store)
        self.few, self._own_words, self.relation_words, self.classes, self.class_words, self._told_apart, _ = known
        # A shop's "novel" may be a genre: where names are few, only its own words are no names.
        self.said_words = self._own_words if self.few else self.relation_words
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
        return [one for one in named if self._has(one.rank)]

    def near(self, text: str) -> list[RankedName]:
        found = self._graph.find(text, CONSIDERED)
        return [RankedName(self._store.entity_number(one.name) or 0, one) for one in found]

    def short_for(self, letters: str) -> list[RankedName]:
        store = self._store
        if store not in _INITIALS:
            _INITIALS[store] = {}
            for number, name in _numbered(store, MOST_INITIALS):
                for short in initials(normalise(name)):
                    if 1 < len(short) < 7:
                        _INITIALS[store].setdefault(short, []).append(number)
        return [self._fuzzy(number) for number in _INITIALS[store].get(letters, ())[:CONSIDERED] if self._has(number)]

    def squeezed(self, letters: str) -> list[RankedName]:
        return [self._fuzzy(number) for number in self._squeezed.get(letters, ())[:CONSIDERED] if self._has(number)]

    @property
    def _squeezed(self) -> dict[str, list[int]]:
        store = self._store
        if store not in _SQUEEZED:
            _SQUEEZED[store] = {}
            for number, name in _numbered(store):
                _SQUEEZED[store].setdefault(normalise(name).replace(" ", ""), []).append(number)
        return _SQUEEZED[store]

    @property
    def _with(self) -> dict[str, list[int]]:
        store = self._store
        if store not in _WITH:
            _WITH[store] = {}
            for number, name in _numbered(store):
                for part in _parts(normalise(name).split()):
                    _WITH[store].setdefault(part, []).append(number)
        return _WITH[store]

    def with_word_like(self, word: str) -> list[RankedName]:
        store = self._store
        if store not in _WORDS:
            _WORDS[store] = {}
            for name in (*self._squeezed, *self._with):
                if " " not in name and not any(map(str.isdigit, name)):
                    _WORDS[store].setdefault(name[:1], []).append(name)
        begun = [] if word in self._with else _WORDS[store].get(word[:1], [])
        once = _once(word)
        doubled = [other for other in begun if _once(other) == once] if len(word) > 2 else []
        like = doubled or (
            [entry[0] for entry in process.extract(word, begun, scorer=OSA.normalized_similarity, score_cutoff=NEARLY)]
            if len(word) > ALIKE_LETTERS
            else []
        )
        like = doubled or [other for other in like if stem(other) not in self.relation_words and not is_usual(other)]
        numbers = {n for other in like for n in (*self._squeezed.get(other, ()), *self._with.get(other, ()))}
        if begun and not numbers and len(word) > ALIKE_LETTERS:
            numbers = {n for n in self._begun_with(word[:2]) if _blends(word, normalise(store.entity[n]).split())}
        found = [self._fuzzy(number) for number in sorted(numbers) if self._has(number)]
        return found if len(found) <= MOST_SO_NAMED else []

    def _begun_with(self, letters: str) -> Iterable[int]:
        """Names of several words that begin with these letters."""
        return (n for part, ns in self._with.items() if " " not in part and part.startswith(letters) for n in ns)

    def of_kind(self, word: str, kind: str) -> list[RankedName]:
        found = [self._fuzzy(number) for number in self._with.get(word, ())[:CONSIDERED] if self._has(number)]
        begun = [one for one in found if normalise(one.found.name).split()[0] == word]
        of_it = [one for one in begun if stem(kind) in _stems(self.types(one) or self._types_of_heads(one))]
        return of_it if len(of_it) <= MOST_SO_NAMED else []

    def _types_of_heads(self, one: RankedName) -> set[str]:
        """What the things are that have a value; nothing of what has facts itself."""
        heads = [
            head
            for relation in self._relations(one.rank, out=False)
            if not is_naming(last_words(relation)) and not self.is_thing(one)
            for head in self._graph.neighbors(one.found.name, relation, out=False, limit=1).names
        ]
        return {
            name
            for head in heads
            for name in self.types(RankedName(self._store.entity_number(head) or 0, replace(one.found, name=head)))
        }

    def one_relation(self, stems: Collection[str]) -> bool:
        return any(said.issuperset(stems) for said in _known(self._store).said)

    def only_with(self, words: str) -> list[RankedName]:
        found = self._with.get(words, ())
        return [self._fuzzy(number) for number in found if self._has(number)] if len(found) == 1 else []

    def begun(self, letters: str) -> list[RankedName]:
        found = [number for name, numbers in self._squeezed.items() if name.startswith(letters) for number in numbers]
        single = [number for number in found[:2] if " " not in normalise(self._store.entity[number])]
        return [self._fuzzy(number) for number in single if self._has(number)] if len(found) == 1 else []

    def _fuzzy(self, number: int) -> RankedName:
        return RankedName(number, Found(self._store.entity[number], 0.5, "fuzzy", self._id(number)))

    def _has(self, number: int) -> bool:
        return self._graph.is_live(number)

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
            several = last_words(relation) not in ALIASES and any(
                len(self._graph.neighbors(head, relation).names) > 1 for head in heads
            )
            if len(heads) > most or several:
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

    def spoken_of(self, one: RankedName, stems: Collection[str]) -> int:
        both = {*self._relations(one.rank, out=True), *self._relations(one.rank, out=False)}
        return sum(not _stems([relation]).isdisjoint(stems) for relation in both)

    def context(self, one: RankedName, stems: Collection[str], others: Sequence[RankedName]) -> int:
        name = one.found.name
        leaving, entering = self._relations(one.rank, out=True), self._relations(one.rank, out=False)
        return len(self._about(one, leaving, entering).intersection(stems)) + BESIDE * sum(
            other.found.name in self._graph.neighbors(name, relation, out=out, limit=MOST_BESIDE).names
            for other in others
            for out, relations in ((True, leaving), (False, entering))
            for relation in relations[:CONSIDERED]
        )

    def _about(self, one: RankedName, leaving: Sequence[str], entering: Sequence[str]) -> frozenset[str]:
        """The words of what there is around an entity: its relations, what it is, and what the things are that lead to
        it. Of Port of Kiel and Kiel Depot, the port has to do with ferry lines.
        """
        types = set(self.types(one))
        for relation in entering[:CONSIDERED]:
            for head in self._graph.neighbors(one.found.name, relation, out=False, limit=1).names:
                types |= self.types(RankedName(self._store.entity_number(head) or 0, replace(one.found, name=head)))
        return _stems([*leaving, *entering, *types])

    def _relations(self, number: int, *, out: bool) -> list[str]:
        name = self._store.entity[number]
        return list(self._graph.relations(name, out=out))


class RemoteNames:
    """The names of a graph elsewhere: each lookup may be a request, so few are made and only as written."""

    relation_words = CLASS_STEMS
    class_words: frozenset[str] = frozenset()
    said_words = CLASS_STEMS
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
        if isinstance(self._graph, Batched):
            spans = (text.span(*ends) for ends in telling[:MOST_ASKED])
            self._graph.fetch_names([text.question[start:end] for start, end in spans])
        return telling[:MOST_ASKED]

    def equal(self, text: str) -> list[RankedName]:
        return [RankedName(0, Found(text, 1.0, "exact"))] if text in self._graph else []

    def near(self, text: str) -> list[RankedName]:
        return [RankedName(0, one) for one in self._graph.find(text, CONSIDERED)]

    def short_for(self, letters: str) -> list[RankedName]:
        return []

    def squeezed(self, letters: str) -> list[RankedName]:
        return []

    def begun(self, letters: str) -> list[RankedName]:
        return []

    def only_with(self, words: str) -> list[RankedName]:
        return []

    def with_word_like(self, word: str) -> list[RankedName]:
        return []

    def of_kind(self, word: str, kind: str) -> list[RankedName]:
        return []

    def one_relation(self, stems: Collection[str]) -> bool:
        return False

    def keyed(self, key: str, said: str) -> list[RankedName]:
        return []

    def spoken_of(self, one: RankedName, stems: Collection[str]) -> int:
        return 0

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


# How like words are to a name

# A near spelling: letters right, of ten. One typo in five letters is 0.8, two in ten as well.
ALIKE = 0.8
ALIKE_LETTERS = 5  # of a shorter word one typo leaves too little
NEARLY = 0.85  # for a word of a name, which there are more of
TITLES = frozenset(
    {"mr", "mrs", "ms", "miss", "dr", "prof", "professor", "sir", "herr", "frau", "mme", "doctor", "nurse"}
)
TITLES |= {"councillor", "councilwoman", "councilman", "mayor", "senator", "president", "minister", "judge", "captain"}


def _once(word: str) -> str:
    """A word without its doubled letters, which people leave out: galery.

    >>> _once("gallery") == _once("galery"), _once("eggs")
    (True, 'egs')
    """
    return re.sub(r"([a-z])\1+", r"\1", word)


def _blends(word: str, parts: Sequence[str]) -> bool:
    """Whether a word is made of the beginnings of several.

    >>> _blends("infosec", ["information", "security"]), _blends("infosec", ["information", "desk"])
    (True, False)
    """
    if not parts:
        return not word
    longest = next((at for at, pair in enumerate(zip(word, parts[0], strict=False)) if pair[0] != pair[1]), None)
    most = min(len(word), len(parts[0])) if longest is None else longest
    return any(_blends(word[size:], parts[1:]) for size in range(most, 1, -1))
