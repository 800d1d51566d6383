"""The facts that a question is walked over, as a check asks for them: is this name, this time, this fact there?

The whole graph or a question's own part of it; what was asked once is remembered. Knows nothing of right and wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from kgwalk.kg.csr import I64
from kgwalk.kg.store import StoredGraph
from kgwalk.types import Question, Triple

COMPUTED_KINDS = ("boolean", "number")  # of `answer_kind`: worked out, so that a node of that name is another thing


class Ground:
    """A graph under a check."""

    def __init__(self, graph: StoredGraph) -> None:
        self.graph = graph
        self._numbers: dict[str, int | None] = {}
        self._facts: dict[Triple, bool] = {}

    def number(self, name: str) -> int | None:
        """The entity of this name or id; None where it has no fact here."""
        if name not in self._numbers:
            self._numbers[name] = self.graph.store.entity_number(name) if name in self.graph else None
        return self._numbers[name]

    def has(self, fact: Triple) -> bool:
        """Whether the fact is here, at its time if it has one."""
        if fact not in self._facts:
            found = self.graph._matching(*fact[:3])
            self._facts[fact] = any(fact.time in ("", self._time(triple)) for triple in found)
        return self._facts[fact]

    def _time(self, triple: int) -> str:
        store = self.graph.store
        return store.date[store.date_of[triple]] if store.timed else ""

    @cached_property
    def times(self) -> set[str]:
        """The times that facts here have, as an answer may give them: see `moments`."""
        store = self.graph.store
        if not store.timed:
            return set()
        triples = np.asarray(self.graph._positions(0, len(store.out.other), True), np.int64)
        dates = store.date.several(np.unique(store.date_of_array[triples]).tolist())
        return {moment for date in dates for moment in moments(date)}

    def locate(self, question: Question) -> Located:
        topics = [self.number(topic) for topic in question.topic_entities]
        if question.extra.get("answer_kind") in COMPUTED_KINDS:
            return Located(self, topics, [None] * len(question.answers))
        aliases = question.aliases
        return Located(self, topics, [self._any([name, *aliases.get(name, ())]) for name in question.answers])

    def _any(self, names: Sequence[str]) -> int | None:
        return next((number for number in map(self.number, names) if number is not None), None)


@dataclass(frozen=True, slots=True)
class Located:
    """The entities of a question's topics and answers, in their order; None for one that is not there.

    An answer is there by its own name or by one of its aliases; one that is worked out (a count) is not.
    """

    ground: Ground
    topics: list[int | None]
    answers: list[int | None]

    @property
    def starts(self) -> list[int]:
        return [number for number in self.topics if number is not None]

    @property
    def ends(self) -> list[int]:
        return [number for number in self.answers if number is not None]


def moments(time: str) -> set[str]:
    """Both ends of a time, to the day, the month and the year.

    >>> sorted(moments("1990-05..1994"))
    ['1990', '1990-05', '1994']
    """
    ends = {end.strip() for end in time.split("..")} - {""}
    return ends | {end[:at] for end in ends for at, sign in enumerate(end) if sign == "-" and at}


# ----------------------------------------------------------------------------------------------------
# How many hops from one set of entities to another, for many questions at once: a breadth-first search by bits.
#
# Every entity has a word of 64 bits, one for each set of starts; a hop makes an entity's word the OR of its own and its
# neighbours'. So one pass over the edges moves 64 searches a hop on. Questions with the same starts share a bit.
# Knows entity numbers and edges, walked both ways; nothing of names or relations.


_WORD = 64
_U64 = npt.NDArray[np.uint64]


def distances(
    graph: StoredGraph,
    starts: Sequence[Sequence[int]],
    ends: Sequence[Sequence[int]],
    most: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[int | None]:
    """For each question the fewest hops from any of its starts to any of its ends; None for more than `most`, or none.

    Over a -> b <- c, d -> e: from a to c are 2 hops (there and against the arrow), from a to a 0, from a to e none.
    An entity without a fact in the graph (a view may lack it) is neither a start nor an end.
    """
    around = _around(graph)
    found_Q = np.full(len(starts), -1, np.int64)
    column_of: dict[tuple[int, ...], int] = {}
    column_Q = np.array([column_of.setdefault(tuple(sorted(one)), len(column_of)) for one in starts], np.int64)
    sets = [around.places([one])[1] for one in column_of]
    question_P, end_P = around.places(ends)  # P: pairs of a question and one of its ends, ordered by the column
    order_P = np.argsort(column_Q[question_P], kind="stable")
    question_P, end_P = question_P[order_P], end_P[order_P]
    columns_P = column_Q[question_P]
    for low in range(0, len(sets) if len(around.nodes) else 0, _WORD):
        first, last = np.searchsorted(columns_P, (low, low + _WORD))
        bit_P = (columns_P[first:last] - low).astype(np.uint64)
        _search(around, sets[low : low + _WORD], end_P[first:last], bit_P, question_P[first:last], most, found_Q)
        progress(min(low + _WORD, len(sets)), len(sets))
    return [None if hops < 0 else hops for hops in found_Q.tolist()]


@dataclass(frozen=True, slots=True)
class _Around:
    """The neighbours of every entity that has a fact: those of `nodes[i]` begin at `neighbour[first[i]]`."""

    nodes: I64  # ascending entity numbers; a place in this array stands for the entity
    neighbour: I64  # places
    first: I64

    def places(self, lists: Sequence[Sequence[int]]) -> tuple[I64, I64]:
        """All entities of the lists as (which list, place), those without a fact left out."""
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        entity = np.fromiter(chain.from_iterable(lists), np.int64, int(lengths.sum()))
        which = np.repeat(np.arange(len(lists)), lengths)
        if not len(self.nodes):
            return which[:0], entity[:0]
        place = np.minimum(np.searchsorted(self.nodes, entity), len(self.nodes) - 1)
        there = self.nodes[place] == entity
        return which[there], place[there]


def _around(graph: StoredGraph) -> _Around:
    head, _, tail = graph.facts_by_number()
    nodes, place = np.unique(np.concatenate([head, tail]), return_inverse=True)
    one, other = place[: len(head)].astype(np.uint64), place[len(head) :].astype(np.uint64)
    # A pair is one key: sorted by the entity, and several relations between two entities are one edge.
    size = np.uint64(max(1, len(nodes)))
    keys = np.unique(np.concatenate([one * size + other, other * size + one]))
    owner, neighbour = (keys // size).astype(np.int64), (keys % size).astype(np.int64)
    return _Around(nodes, neighbour, np.searchsorted(owner, np.arange(len(nodes))))


def _search(
    around: _Around, sets: Sequence[I64], end_P: I64, bit_P: _U64, question_P: I64, most: int, found_Q: I64
) -> None:
    """One word of searches. A pair asks when the search of its bit meets its end; a question's first meeting counts."""
    reached_N = np.zeros(len(around.nodes), np.uint64)
    for bit, places in enumerate(sets):
        reached_N[places] |= np.uint64(1 << bit)
    for hop in range(most + 1):
        met_P = (reached_N[end_P] >> bit_P) & np.uint64(1) == 1
        found_Q[question_P[met_P]] = hop
        open_P = found_Q[question_P] < 0
        end_P, bit_P, question_P = end_P[open_P], bit_P[open_P], question_P[open_P]
        if not len(end_P) or hop == most:
            return
        spread_N = reached_N | np.bitwise_or.reduceat(reached_N[around.neighbour], around.first)
        if np.array_equal(spread_N, reached_N):
            return
        reached_N = spread_N
