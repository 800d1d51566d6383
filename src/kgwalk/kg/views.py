"""Views: a store with some edges left out. Nothing is copied; a view of a view combines both.

A view keeps only some triples (a question's subgraph), hides some (an incomplete graph), or keeps those that hold in
a time window. An entity or relation without a fact left in the view is not in it.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kgwalk.kg.csr import I64, Edges
from kgwalk.kg.graph import find_among
from kgwalk.kg.question_sets import BothEdges, in_positions
from kgwalk.kg.store import StoredGraph, naming_damage
from kgwalk.kg.times import parse_window
from kgwalk.types import Found, Triple

Positions = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class _Pair:
    """Ascending edge positions in both directions that stand for one set of triples; indexed by `out`."""

    in_: Positions
    out: Positions

    def __getitem__(self, out: bool) -> Positions:
        return self.out if out else self.in_


@dataclass(frozen=True)
class _Filter:
    only: _Pair | None = None
    without: _Pair | None = None
    dates: npt.NDArray[np.bool_] | None = None  # for each date of the store, whether it is inside the window


class FilteredView(StoredGraph):
    """A store seen through a filter."""

    _where = "this part of the graph"

    def __init__(self, base: StoredGraph, filter_: _Filter) -> None:
        super().__init__(base.store)
        self._question_sets = base._question_sets
        self._filter = filter_
        self._relation_set: set[int] | None = None
        self._hidden_of: dict[int, int] | None = None

    @property
    def is_subgraph(self) -> bool:
        """Whether it has only some triples that were named, not all but a few or those of a time."""
        return self._filter.only is not None

    def _places(self, low: int, high: int, out: bool) -> I64 | range:
        """The edges among the positions low .. high that are in the view; a range where all of them are."""
        only, without, dates = self._filter.only, self._filter.without, self._filter.dates
        hidden = None if without is None else _within(without[out], low, high)
        if only is None and dates is None and (hidden is None or not len(hidden)):
            return range(low, high)
        places: I64 = np.arange(low, high) if only is None else _within(only[out], low, high).astype(np.int64)
        if hidden is not None and len(hidden):
            places = places[~np.isin(places, hidden, assume_unique=True)]
        if dates is not None and len(places):
            triples = places if out else self.store.triple_of_array[places]
            places = places[dates[self.store.date_of_array[triples]]]
        return places

    def _positions(self, low: int, high: int, out: bool) -> Sequence[int]:
        places = self._places(low, high, out)
        if isinstance(places, range):
            return places
        positions: Sequence[int] = places.tolist()
        return positions

    def _any(self, low: int, high: int, out: bool) -> bool:
        without = self._filter.without
        if self._filter.only is None and self._filter.dates is None and without is not None:
            return high - low > len(_within(without[out], low, high))
        return len(self._places(low, high, out)) > 0

    def _relation_numbers(self, edges: Edges, entity: int, out: bool) -> list[int]:
        return [edges.relation[group] for group in self._live_groups(edges, entity, out)]

    def _live_groups(self, edges: Edges, entity: int, out: bool) -> Sequence[int]:
        """The groups of an entity that have an edge."""
        low, high = edges.groups[entity], edges.groups[entity + 1]
        start = edges.start
        if self._filter.only is None:
            groups: Iterable[int] = range(low, high)
        else:
            groups = _groups_of(self._filter.only[out].data, start, low, high)
        if self._filter.without is None and self._filter.dates is None:
            return list(groups)
        return [g for g in groups if self._any(start[g], start[g + 1], out)]

    def _has_relation(self, relation: int) -> bool:
        if self._filter.only is None and self._filter.dates is None and self._filter.without is not None:
            return self._left_of(relation) > 0
        if self._relation_set is None:
            places = np.asarray(self._places(0, len(self.store.out.other), True))
            _, relations = self.store.out.owners(places)
            self._relation_set = set(np.unique(relations).tolist())
        return relation in self._relation_set

    def _left_of(self, relation: int) -> int:
        """How many facts of a relation are left; for a relation without a hidden fact, just 1 (it is not counted)."""
        if self._hidden_of is None:
            assert self._filter.without is not None  # only then is this asked
            _, relations = self.store.out.owners(self._filter.without.out.astype(np.int64))
            self._hidden_of = dict(zip(*(a.tolist() for a in np.unique(relations, return_counts=True)), strict=True))
        if relation not in self._hidden_of:
            return 0 if relation in self.store.gone_relations else 1
        edges = self.store.out
        groups = np.flatnonzero(np.asarray(edges.relation_array) == relation)
        total = int((edges.start_array[groups + 1].astype(np.int64) - edges.start_array[groups]).sum())
        return total - self._hidden_of[relation]

    def _is_live(self, entity: int) -> bool:
        return any(self._any(*self._edges[out].span(entity), out) for out in (True, False))

    def _scan(self, relation: int | None) -> Iterator[int]:
        if self._filter.only is None:
            yield from super()._scan(relation)
            return
        places = np.asarray(self._places(0, len(self.store.out.other), True))
        if relation is not None and len(places):
            places = places[self.store.out.owners(places)[1] == relation]
        yield from places.tolist()

    @naming_damage
    def live_entities(self) -> Sequence[int]:
        places = np.asarray(self._places(0, len(self.store.out.other), True))
        numbers: Sequence[int] = np.union1d(
            self.store.out.owners(places)[0], self.store.out.other_array[places]
        ).tolist()
        return numbers

    @naming_damage
    def live_relations(self) -> Sequence[int]:
        return [number for number in range(len(self.store.relation)) if self._has_relation(number)]

    @naming_damage
    def find(self, text: str, k: int = 5) -> list[Found]:
        if self._filter.only is None:  # nearly the whole graph: find more there than needed, keep what is in the view
            return [found for found in super().find(text, 10 * k) if found.name in self][:k]
        found = find_among(text, self.store.entity.several(self.live_entities()), k)
        return [replace(one, id=self.id_of(one.name)) for one in found]


def of_positions(graph: StoredGraph, out: Positions, in_: Positions) -> FilteredView:
    """The view that has only the triples at these ascending positions."""
    return _narrowed(graph, only=_Pair(in_, out))


def subgraph(graph: StoredGraph, triples: I64) -> FilteredView:
    """The view that has only these triples (by number)."""
    return _narrowed(graph, only=_pair(graph, np.unique(triples)))


def between(graph: StoredGraph, start: str | None, end: str | None, *, undated: bool = True) -> FilteredView:
    """The view of facts that hold at some time from `start` to `end`."""
    low, high = parse_window(start, end)
    store = graph.store
    if not store.timed:
        return _narrowed(graph, only=None if undated else _pair(graph, np.empty(0, np.int64)))
    no_date = store.date_first > store.date_last
    inside = (store.date_first <= high) & (store.date_last >= low)
    return _narrowed(graph, dates=np.where(no_date, undated, inside))


def incomplete(graph: StoredGraph, crucial: Sequence[Triple], drop: float, seed: int = 0) -> FilteredView:
    """The view without a share of the crucial triples, and without any other fact between their two entities.

    Which ones are hidden depends on the triples and the seed, not on their order. `drop` is rounded to whole triples,
    upwards from half. (Graph-RFT's incomplete graphs: 0.2, 0.4, 0.6.)
    """
    if not 0 <= drop <= 1:
        raise ValueError(f"drop is a share between 0 and 1, not {drop}")
    pairs = sorted({Triple(*triple) for triple in crucial})
    chosen = random.Random(seed).sample(pairs, int(drop * len(pairs) + 0.5))
    gone = [number for triple in chosen for number in _between_pair(graph, triple.head, triple.tail)]
    return _narrowed(graph, without=_pair(graph, np.unique(np.array(gone, np.int64))))


def _between_pair(graph: StoredGraph, first: str, second: str) -> list[int]:
    return [*graph._matching(first, None, second), *graph._matching(second, None, first)]


def _narrowed(
    graph: StoredGraph,
    only: _Pair | None = None,
    without: _Pair | None = None,
    dates: npt.NDArray[np.bool_] | None = None,
) -> FilteredView:
    old = graph._filter if isinstance(graph, FilteredView) else _Filter()
    if only is not None and old.only is not None:
        only = _Pair(np.intersect1d(only.in_, old.only.in_), np.intersect1d(only.out, old.only.out))
    if without is not None and old.without is not None:
        without = _Pair(np.union1d(without.in_, old.without.in_), np.union1d(without.out, old.without.out))
    if dates is not None and old.dates is not None:
        dates = dates & old.dates
    return FilteredView(graph, _Filter(only or old.only, without or old.without, old.dates if dates is None else dates))


def _pair(graph: StoredGraph, triples: I64) -> _Pair:
    store = graph.store
    if len(triples) and not 0 <= triples[0] <= triples[-1] < len(store.out.other):
        raise ValueError(f"triple numbers go from 0 to {len(store.out.other) - 1}")
    there = in_positions(BothEdges(store.out, store.in_, store.triple_of_array), triples)
    return _Pair(np.sort(there).astype(np.uint32), triples.astype(np.uint32))


def _within(positions: Positions, low: int, high: int) -> Positions:
    view = positions.data
    return positions[bisect_left(view, low) : bisect_left(view, high)]


def _groups_of(positions: memoryview, start: memoryview, low: int, high: int) -> list[int]:
    """The groups among low .. high that hold one of the positions, found by jumping from group to group."""
    groups = []
    at, end = bisect_left(positions, start[low]), bisect_left(positions, start[high])
    while at < end:
        group = bisect_right(start, positions[at], low, high + 1) - 1
        groups.append(group)
        low = group + 1
        at = bisect_left(positions, start[low], at, end)
    return groups
