"""One direction of a store's edges with facts added and removed: a view over the stored ones.

Only the entities that a change touches have their groups written anew, in memory; everything else is read from the
store, at other positions (`spliced`). Entities keep their numbers, and new ones follow them. Relations are numbered in
alphabetical order, so a new one moves those after it (`RelationNumbers`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kgwalk.kg.csr import I64, Edges
from kgwalk.kg.spliced import PieceLayout, SplicedArray, Splicer


class NewEdge(NamedTuple):
    """An edge to put in, of the fact that has this number among the added ones."""

    entity: int
    relation: int
    other: int
    time: bytes
    fact: int


class GoneEdge(NamedTuple):
    """A stored edge to leave out."""

    entity: int
    relation: int
    position: int


class RelationNumbers:
    """Relations as the store numbers them, and as they are numbered now that some are new.

    >>> numbers = RelationNumbers([0, 2], 3)  # a new one stands between the two of the store
    >>> numbers.now(np.array([1, 0])).tolist(), numbers.stored(2), numbers.stored(1)
    ([2, 0], 1, None)
    """

    def __init__(self, now: Sequence[int], total: int) -> None:
        """`now[r]` is the number that a stored relation has now; `total` are there."""
        self.numbers, self.total = list(now), total
        self._now = np.array(now, np.int64)
        self._stored = {number: at for at, number in enumerate(now)}
        self.same = self.numbers == list(range(len(now)))

    def now(self, relations: I64) -> I64:
        return relations if self.same else self._now[relations]

    def stored(self, relation: int) -> int | None:
        """The number that the store has for a relation; None for a new one."""
        return self._stored.get(relation)


@dataclass
class _Row:
    """What happens to an entity's edges, by relation."""

    new: defaultdict[int, list[NewEdge]] = field(default_factory=lambda: defaultdict(list))
    gone: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))  # stored positions


class UpdatedEdges(Edges):
    """The edges of a store with some added and some removed."""

    def __init__(
        self,
        base: Edges,
        entities: int,
        relations: RelationNumbers,
        new: Iterable[NewEdge],
        gone: Iterable[GoneEdge],
        time_at: Callable[[int], bytes],
    ) -> None:
        """`entities` are there now; `time_at` is the time of the fact at a stored position."""
        self.base, self._relations, self._time_at = base, relations, time_at
        self._stored = len(base.groups) - 1  # entities of the store
        rows: defaultdict[int, _Row] = defaultdict(_Row)
        for edge in new:
            rows[edge.entity].new[edge.relation].append(edge)
        for one in gone:
            rows[one.entity].gone[one.relation].append(one.position)
        self.touched = frozenset(rows)
        self._new: list[NewEdge] = []  # in the order of their positions
        self.position_of: dict[int, int] = {}  # of each added fact
        self._splice(rows, entities)

    def _splice(self, rows: dict[int, _Row], entities: int) -> None:
        base = self.base
        edges, groups = Splicer(len(base.other)), Splicer(len(base.relation))
        relation_A: list[int] = []
        start_A: list[int] = []
        moved_from, moved_by = [0], [0]  # from an entity on, by how much its first group has moved
        ends: list[int] = []  # of the groups of each new entity
        for entity in sorted({*rows, *range(self._stored, entities)}):
            low, high = base.row(entity) if entity < self._stored else (len(base.relation),) * 2
            groups.keep(low)
            edges.keep(base.start[low])
            before = len(relation_A)
            for relation, begin in self._row(rows[entity], low, high, edges):
                relation_A.append(relation)
                start_A.append(begin)
            groups.skip(high)
            groups.put(len(relation_A) - before)
            if entity < self._stored:
                moved_from.append(entity + 1)
                moved_by.append(groups.length - high)
            else:
                ends.append(groups.length)
        groups.keep(len(base.relation))
        edges.keep(len(base.other))
        self.layout, of_relations = edges.layout(), groups.layout()
        groups.put(1)  # the last item of `start` is where the last group ends
        start_A.append(self.layout.length)
        self._set_edges(of_relations, groups.layout(), relation_A, start_A)
        self._set_groups(moved_from, moved_by, ends)

    def _row(self, row: _Row, low: int, high: int, edges: Splicer) -> Iterator[tuple[int, int]]:
        """Splice the edges of an entity, whose stored groups are low .. high; yields each relation that has an edge
        now, and where its edges begin.
        """
        base = self.base
        now = self._relations.now(np.asarray(base.relation_array[low:high]).astype(np.int64))
        stored = dict(zip(now.tolist(), range(low, high), strict=True))
        for relation in sorted({*stored, *row.new}):
            begin, group = edges.length, stored.get(relation)
            if relation not in row.new and relation not in row.gone:
                edges.keep(base.start[stored[relation] + 1])
                yield relation, begin
                continue
            changes: list[tuple[int, int, bytes, NewEdge | None]] = []
            if group is None:
                changes += [(-1, edge.other, edge.time, edge) for edge in row.new[relation]]
            else:
                first, last = base.start[group], base.start[group + 1]
                changes += [(position, -1, b"", None) for position in row.gone.get(relation, ())]
                changes += [
                    (self._place(first, last, edge), edge.other, edge.time, edge) for edge in row.new.get(relation, ())
                ]
            changes.sort(key=lambda change: (change[0], change[3] is None, *change[1:3]))
            for position, _, _, edge in changes:
                edges.keep(position)
                if edge is None:
                    edges.skip(position + 1)
                else:
                    self.position_of[edge.fact] = edges.length
                    self._new.append(edge)
                    edges.put(1)
            if group is not None:
                edges.keep(base.start[group + 1])
            if edges.length > begin:
                yield relation, begin

    def _place(self, first: int, last: int, edge: NewEdge) -> int:
        """The stored position before which an edge goes: by the other end, then by time."""
        at = bisect_left(self.base.other, edge.other, first, last)
        while at < last and self.base.other[at] == edge.other and self._time_at(at) < edge.time:
            at += 1
        return at

    def _set_edges(
        self, of_relations: PieceLayout, of_starts: PieceLayout, relation_A: list[int], start_A: list[int]
    ) -> None:
        base = self.base
        narrow = self._relations.total <= 1 << 16
        relations = np.array(relation_A, base.relation_array.dtype if narrow else np.uint32)
        change = None if self._relations.same else self._relations.now
        self.relation_array: Any = SplicedArray(of_relations, base.relation_array, relations, change=change)
        # A stored group that is kept begins where its first edge is now.
        first = np.array([source for source in of_starts.source if source < of_starts.base], np.int64)
        begin = base.start_array[first].astype(np.int64)
        moved = dict(zip(first.tolist(), (self.layout.moved(begin) - begin).tolist(), strict=True))
        more = np.array([moved.get(source, 0) for source in of_starts.source], np.int64)
        self.start_array: Any = SplicedArray(of_starts, base.start_array, np.array(start_A, np.uint32), more=more)
        self.other_array: Any = self.beside(base.other_array, [edge.other for edge in self._new])
        self.relation, self.start, self.other = self.relation_array.data, self.start_array.data, self.other_array.data
        self._new_entity = np.array([edge.entity for edge in self._new], np.int64)
        self._new_relation = np.array([edge.relation for edge in self._new], np.int64)

    def _set_groups(self, moved_from: list[int], moved_by: list[int], ends: list[int]) -> None:
        stored = self._stored + 1
        layout = PieceLayout(
            [*moved_from, *([stored] if ends else [])], [*moved_from, *([stored] if ends else [])],
            stored + len(ends), stored,
        )  # fmt: skip
        more = np.array([*moved_by, *([0] if ends else [])], np.int64)
        self._moved_from, self._moved_by = array("q", moved_from), array("q", moved_by)
        self.groups_array: Any = SplicedArray(layout, self.base.groups_array, np.array(ends, np.uint32), more=more)
        self.groups = self.groups_array.data

    def beside(self, base: Any, of_new: Sequence[int], change: Callable[[I64], I64] | None = None) -> SplicedArray:
        """Another array with an item for each edge: the stored one, and the items of the new edges in their order."""
        return SplicedArray(self.layout, base, np.array(of_new, np.uint32), change=change)

    @property
    def new_facts(self) -> list[int]:
        """The numbers of the added facts, in the order of their edges."""
        return [edge.fact for edge in self._new]

    # What a walk asks most, without the arrays where nothing was touched

    def row(self, entity: int) -> tuple[int, int]:
        if entity in self.touched or entity >= self._stored:
            return self.groups[entity], self.groups[entity + 1]
        low, high = self.base.row(entity)
        more = self._moved_by[bisect_right(self._moved_from, entity) - 1]
        return low + more, high + more

    def relations(self, entity: int) -> list[int]:
        if entity in self.touched or entity >= self._stored:
            return super().relations(entity)
        stored, now = self.base.relations(entity), self._relations.numbers
        return stored if self._relations.same else [now[relation] for relation in stored]

    def group(self, entity: int, relation: int) -> int | None:
        low, _ = self.row(entity)
        some = self.relations(entity)
        at = bisect_left(some, relation)
        return low + at if at < len(some) and some[at] == relation else None

    def bounds(self, entity: int, relation: int) -> tuple[int, int] | None:
        if entity in self.touched or entity >= self._stored:
            return super().bounds(entity, relation)
        stored = self._relations.stored(relation)
        found = None if stored is None else self.base.bounds(entity, stored)
        if found is None:
            return None
        begin = self.layout.moved_one(found[0])
        return begin, begin + found[1] - found[0]

    def owners(self, positions: I64) -> tuple[I64, I64]:
        source = self.layout.sources(positions)
        new = source >= self.layout.base
        if not new.any():
            entities, relations = self.base.owners(source)
            return entities, self._relations.now(relations)
        entities, relations = np.empty(len(source), np.int64), np.empty(len(source), np.int64)
        entities[~new], stored = self.base.owners(source[~new])
        relations[~new] = self._relations.now(stored)
        at = source[new] - self.layout.base
        entities[new], relations[new] = self._new_entity[at], self._new_relation[at]
        return entities, relations
