"""The `Graph` protocol: all that an agent, a tool or a server may ask of a knowledge graph.

A store on disk (`store`), a view over it (`views`), a SPARQL endpoint (`sparql`), a property graph (`cypher`) and
another kgwalk server (`http`) all answer it. Entities and relations are names (strings); a name that is not there
raises UnknownEntity or UnknownRelation. Those elsewhere keep their latest answers in an `LruCache`; one that is asked
for many names at once is `Batched`.
"""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from kgwalk.kg.find import LEAST_SCORE, similarity
from kgwalk.kg.names import normalise
from kgwalk.kg.times import parse_time
from kgwalk.types import Found, Neighbors, Triple, UnknownName, UnknownRelation

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")


@runtime_checkable
class Graph(Protocol):
    """A knowledge graph, asked by names."""

    def __contains__(self, entity: object) -> bool:
        """Whether an entity of this name has a fact here."""
        ...

    def has_relation(self, relation: str) -> bool:
        """Whether any fact here uses the relation."""
        ...

    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        """The distinct relations that leave the entity (`out`) or arrive at it, in alphabetical order."""
        ...

    def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
        """Tails of (entity, relation, ?) if `out`, else heads of (?, relation, entity); at most `limit` names."""
        ...

    def match(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        limit: int | None = None,
    ) -> Iterator[Triple]:
        """Facts that fit the pattern, where None fits anything. A name that is not there fits nothing."""
        ...

    def find(self, text: str, k: int = 5) -> list[Found]:
        """The k entities whose names are nearest to the text, best first."""
        ...

    def find_relation(self, text: str, k: int = 5) -> list[Found]:
        """The k relations whose names are nearest to the text, best first."""
        ...


@runtime_checkable
class Batched(Protocol):
    """A graph elsewhere that answers for many names at once: who will ask for each of a set says so first, and finds
    the answers there. Names that are no entities are no error here.
    """

    def fetch_names(self, names: Iterable[str]) -> None:
        """Look up whether these are entities."""
        ...

    def fetch_relations(self, names: Iterable[str], *, out: bool) -> None:
        """Make `relations` of each of these ready."""
        ...

    def fetch_neighbors(self, names: Iterable[str], relation: str, *, out: bool) -> None:
        """Make `neighbors` of each of these along a relation ready; UnknownRelation if it is none."""
        ...

    def fetch_some(self, names: Iterable[str], ways: Iterable[tuple[str, bool]], limit: int) -> None:
        """Make `neighbors` with this limit, of each of these along each of these relations, ready. A way is a relation
        and whether it leaves; one that is none is passed over.
        """
        ...


@runtime_checkable
class HasClasses(Protocol):
    """A graph elsewhere that knows its classes without a look at its facts."""

    def classes(self) -> tuple[str, list[str]]:
        """The relation that leads from a thing to its class, and all classes."""
        ...


@dataclass(frozen=True, slots=True)
class RelationEnds:
    """What a relation comes from and leads to, by a look at some of its facts: how many things, and some of them."""

    relation: str
    heads: int
    tails: int
    some_heads: Sequence[str]
    some_tails: Sequence[str]


@runtime_checkable
class HasRelationEnds(Protocol):
    """A graph elsewhere that tells what its relations are like, in a few queries for all of them."""

    def relation_ends(self, most: int, looked_at: int, shown: int) -> list[RelationEnds]:
        """Of each relation a look at so many facts, and so many of its ends; nothing where there are more relations
        than `most`.
        """
        ...


class ClosedAtEnd(ABC):
    """A graph with connections, which the end of a `with` closes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None: ...


class TimeWindow:
    """The facts of a graph elsewhere that hold at some time in a window, in days; a store has a view of its own.

    Which relations there are around an entity is known from its facts, so that takes a look along each.
    """

    def __init__(self, graph: Graph, first: int, last: int, *, undated: bool = True) -> None:
        self._graph, self._first, self._last, self._undated = graph, first, last, undated

    def _holds(self, time: str) -> bool:
        if not time:
            return self._undated
        start, end = parse_time(time)
        return start <= self._last and end >= self._first

    def __contains__(self, entity: object) -> bool:
        return (
            isinstance(entity, str)
            and entity in self._graph
            and any(self.relations(entity, out=out) for out in (True, False))
        )

    def has_relation(self, relation: str) -> bool:
        return self._graph.has_relation(relation)

    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        every = self._graph.relations(entity, out=out)
        return [one for one in every if self.neighbors(entity, one, out=out, limit=1).total]

    def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
        found = self._graph.neighbors(entity, relation, out=out)
        every = found.times or [[] for _ in found.names]
        kept = [
            (name, [time for time in times if self._holds(time)])
            for name, times in zip(found.names, every, strict=True)
            if any(map(self._holds, times or [""]))
        ]
        return Neighbors([name for name, _ in kept[:limit]], len(kept), [times for _, times in kept[:limit]])

    def match(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        limit: int | None = None,
    ) -> Iterator[Triple]:
        facts = (fact for fact in self._graph.match(head, relation, tail) if self._holds(fact.time))
        return itertools.islice(facts, limit)

    def find(self, text: str, k: int = 5) -> list[Found]:
        return [one for one in self._graph.find(text, k) if one.name in self]

    def find_relation(self, text: str, k: int = 5) -> list[Found]:
        return self._graph.find_relation(text, k)


def with_nearest(graph: Graph, error: UnknownName, k: int = 3) -> UnknownName:
    """The same error with the nearest names in the graph added. Looking for them takes milliseconds."""
    look = graph.find_relation if isinstance(error, UnknownRelation) else graph.find
    return type(error)(error.name, [found.name for found in look(error.name, k)], where=error.where)


def find_among(text: str, names: Sequence[str], k: int) -> list[Found]:
    """The k of a few names that are nearest to the text, best first; equals in the order given, far ones left out.

    It compares with every name: right for relations or a small subgraph. For all entities there is `find.Finder`.
    """
    query = normalise(text)
    plain = [normalise(name) for name in names]
    score_N = similarity(query, plain) if query else np.zeros(len(names))
    exact = [2.0 if name == text else 1.0 if same == query else 0.0 for name, same in zip(names, plain, strict=True)]
    order = np.lexsort((np.arange(len(names)), -score_N, -np.array(exact)))[:k]
    found = [_found(names[at], exact[at], float(score_N[at])) for at in order.tolist()]
    return [one for one in found if one.score >= LEAST_SCORE]


def _found(name: str, exact: float, score: float) -> Found:
    how = {2.0: "exact", 1.0: "normalised"}.get(exact, "fuzzy")
    return Found(name, score if how == "fuzzy" else 1.0, how)


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of at most so many."""
    rest = iter(items)
    while some := list(itertools.islice(rest, size)):
        yield some


class LruCache(Generic[K, V]):
    """A dictionary that forgets the least recently used entry: the cache of graphs elsewhere.

    Holds entries up to `capacity` in weight, where an entry weighs 1 + its `weight`; safe in threads.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity, self.weight = capacity, 0
        self.hits = self.misses = 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """The value of a key, which is now the most recently used; None if it is not there."""
        with self._lock:
            if key not in self._entries:
                self.misses += 1
                return None
            self.hits += 1
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: K, value: V, weight: int = 0) -> None:
        with self._lock:
            _, before = self._entries.pop(key, (None, 0))
            self._entries[key] = (value, 1 + weight)
            self.weight += 1 + weight - before
            while self.weight > self.capacity:
                _, (_, freed) = self._entries.popitem(last=False)
                self.weight -= freed

    def recent(self, most: int) -> list[K]:
        """The keys that were used last, the latest first."""
        with self._lock:
            return [key for key, _ in zip(reversed(self._entries), range(most), strict=False)]
