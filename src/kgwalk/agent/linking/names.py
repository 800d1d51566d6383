"""The names of a graph, as linking asks for them: equal names, near names, and the words of its relations.

It knows a store here, read once, and a graph elsewhere, asked little. It does not know which of the names it gives is
meant, nor how much speaks for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

from kgwalk.agent.linking.words import Text
from kgwalk.kg.graph import Graph
from kgwalk.kg.normalise import normalise
from kgwalk.kg.store import Store, StoredGraph
from kgwalk.types import Found

CONSIDERED = 50  # names that a search proposes, of which the best connected is chosen
# An entity is well connected if it is among so many, or this share, of the graph's.
WELL_CONNECTED, WELL_CONNECTED_SHARE = 1000, 0.05
MOST_ASKED = 24  # names asked of a graph that has no store here: each may be a request
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


class Named(NamedTuple):
    rank: int  # 0 is the best connected entity
    found: Found


class Names(Protocol):
    """What linking asks of a graph."""

    well_connected: int  # ranks below this
    relation_words: frozenset[str]  # stems

    def stretches(self, text: Text) -> Iterable[tuple[int, int]]:
        """The stretches worth asking for."""
        ...

    def equal(self, text: str) -> list[Named]:
        """Entities of this name, normalised, best connected first."""
        ...

    def near(self, text: str) -> list[Named]:
        """Entities of names near to the text."""
        ...


class _Known(NamedTuple):
    """What is read from a store once."""

    relation_words: frozenset[str]
    told_apart: dict[str, list[int]]  # normalised label to the entities that share it


_KNOWN: WeakKeyDictionary[Store, _Known] = WeakKeyDictionary()


def _known(store: Store) -> _Known:
    known = _KNOWN.get(store)
    if known is None:
        relations = store.relation.several(range(len(store.relation)))
        known = _KNOWN[store] = _Known(_relation_words(relations), _told_apart(store))
    return known


def _relation_words(relations: Iterable[str]) -> frozenset[str]:
    # Of people.person.profession only the property: domains hold names (base.arizona.topic). And directedBy is two.
    properties = (re.split(r"[./#]", name.rstrip("./#"))[-1] for name in relations)
    spaced = (re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name) for name in properties)
    return CLASS_STEMS.union(stem(word) for name in spaced for word in normalise(name).split())


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

    def __init__(self, graph: StoredGraph) -> None:
        self._graph, self._store = graph, graph.store
        self.relation_words, self._told_apart = _known(graph.store)
        self.well_connected = max(WELL_CONNECTED, int(WELL_CONNECTED_SHARE * len(graph.store.entity)))

    def stretches(self, text: Text) -> Iterable[tuple[int, int]]:
        return text.stretches()

    def equal(self, text: str) -> list[Named]:
        store = self._store
        numbers = store.finder.equal(text)
        if self._told_apart:
            numbers = sorted({*numbers, *self._told_apart.get(normalise(text), ())})
        if store.entity_id is not None and (number := store.entity_id.number(text)) is not None:
            numbers = [number]  # the source's own id
        ids = store.entity_id
        named = [Named(n, Found(store.entity[n], 1.0, "normalised", None if ids is None else ids[n])) for n in numbers]
        return [one for one in named if one.found.name in self._graph]

    def near(self, text: str) -> list[Named]:
        found = self._graph.find(text, CONSIDERED)
        return [Named(self._store.entity_number(one.name) or 0, one) for one in found]


class Asked:
    """The names of a graph elsewhere: each lookup may be a request, so few are made and only as written."""

    relation_words = CLASS_STEMS
    well_connected = 1  # all: their ranks are not known

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

    def equal(self, text: str) -> list[Named]:
        return [Named(0, Found(text, 1.0, "exact"))] if text in self._graph else []

    def near(self, text: str) -> list[Named]:
        return [Named(0, one) for one in self._graph.find(text, CONSIDERED)]


def _promise(text: Text, first: int, last: int) -> tuple[int, int, float]:
    """Sorts first what has most capitals, then fewest function words, then most words."""
    capitals, function = sum(text.capital[first : last + 1]), sum(text.function[first : last + 1])
    return -capitals, function, -text.size(first, last)
