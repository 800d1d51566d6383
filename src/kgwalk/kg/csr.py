"""Edges in one direction, grouped by entity, then relation: compressed sparse rows on two levels.

Four arrays: `groups[e] .. groups[e+1]` are the groups of entity e; `relation[g]` is a group's relation, ascending
within an entity; `start[g] .. start[g+1]` are its edges; `other[p]` is the entity at the far end of the edge at
position p, ascending within a group. So a hub lists its relations without reading its edges. Everything here is a
number; `names` has the names.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kgwalk.kg.blocks import BlockView
from kgwalk.kg.files import Folder, FolderWriter, forged
from kgwalk.kg.names import U32

I64 = npt.NDArray[np.int64]


class Edges:
    """One direction of a store."""

    def __init__(self, folder: Folder, name: str) -> None:
        self.groups_array: U32 = folder[f"{name}.groups"]
        self.relation_array: npt.NDArray[np.unsignedinteger] = folder[f"{name}.relation"]  # 16 or 32 bits
        self.start_array: U32 = folder[f"{name}.start"]
        self.other_array: U32 = folder[f"{name}.other"]
        # memoryviews give Python ints several times faster than NumPy scalars do
        self.groups: Any = self.groups_array.data
        self.relation = self.relation_array.data
        self.start = self.start_array.data
        self.other = self.other_array.data

    @classmethod
    def of(cls, folder: Folder, name: str, entities: int) -> Edges:
        """The edges of a store that has so many entities; StoreError if the arrays cannot be about them."""
        folder.array(f"{name}.groups", "<u4", entities + 1)
        folder.array(f"{name}.other", "<u4")
        groups = len(folder.array(f"{name}.relation", "<u2 <u4"))
        folder.array(f"{name}.start", "<u4", groups + 1)
        edges = cls(folder, name)
        if edges.groups[entities] != groups or edges.start[groups] != len(edges.other):
            raise forged(folder.path, f"the groups of {name!r} do not end where its edges do")
        return edges

    def group(self, entity: int, relation: int) -> int | None:
        """The group of (entity, relation), or None."""
        if isinstance(self.groups, BlockView):  # one call each, where every item would be one
            low, high = self.groups.pair(entity)
            some = self.relation[low:high]
            at = bisect_left(some, relation)
            return low + at if at < len(some) and some[at] == relation else None
        low, high = self.groups[entity], self.groups[entity + 1]
        at = bisect_left(self.relation, relation, low, high)
        return at if at < high and self.relation[at] == relation else None

    def row(self, entity: int) -> tuple[int, int]:
        """The first group of an entity, and the one after its last."""
        return self.groups[entity], self.groups[entity + 1]

    def relations(self, entity: int) -> list[int]:
        """The relations of an entity, ascending."""
        low, high = self.row(entity)
        numbers: list[int] = self.relation[low:high].tolist()
        return numbers

    def bounds(self, entity: int, relation: int) -> tuple[int, int] | None:
        """The positions of the edges of (entity, relation), or None."""
        group = self.group(entity, relation)
        return None if group is None else (self.start[group], self.start[group + 1])

    def span(self, entity: int) -> tuple[int, int]:
        """The positions of all edges of an entity."""
        return self.start[self.groups[entity]], self.start[self.groups[entity + 1]]

    def owners(self, positions: I64) -> tuple[I64, I64]:
        """(entity, relation) of the edges at these positions."""
        groups = _last_at_most(self.start_array, positions)
        return self._entities_of(groups), self.relation_array[groups].astype(np.int64)

    def having(self, relation: int) -> I64:
        """The entities that have a relation."""
        return self._entities_of(np.flatnonzero(np.asarray(self.relation_array) == relation))

    def having_any(self, relations: Sequence[int]) -> I64:
        """The entities that have at least one of some relations, ascending."""
        return np.unique(self._entities_of(np.flatnonzero(np.isin(self.relation_array, relations))))

    def by_relation(self) -> Callable[[int], I64]:
        """`having`, for who asks it of many relations: the groups are sorted once."""
        relation_G = np.asarray(self.relation_array)
        sorted_G = np.argsort(relation_G, kind="stable")
        bounds = np.concatenate([[0], np.cumsum(np.bincount(relation_G))])

        def having(relation: int) -> I64:
            groups = sorted_G[bounds[relation] : bounds[relation + 1]] if relation + 1 < len(bounds) else sorted_G[:0]
            return self._entities_of(groups)

        return having

    def _entities_of(self, groups: I64) -> I64:
        return _last_at_most(self.groups_array, groups)

    def groups_of(self, entities: I64, relations: I64) -> I64:
        """The group of each (entity, relation), all of which exist: a binary search for all of them at once."""
        low = self.groups_array[entities].astype(np.int64)
        high = self.groups_array[entities + 1].astype(np.int64)
        while True:
            open_ = low < high
            if not open_.any():
                return low
            middle = (low + high) // 2
            less = open_ & (self.relation_array[np.minimum(middle, len(self.relation_array) - 1)] < relations)
            low = np.where(less, middle + 1, low)
            high = np.where(open_ & ~less, middle, high)


def _last_at_most(bounds: U32, numbers: I64) -> I64:
    """The place of the last bound that is not above each number.

    The numbers take the type of the bounds. Of numbers of another type NumPy would first copy all the bounds into that
    type, so that a search for one edge would read the whole graph.

    >>> _last_at_most(np.array([0, 3, 3, 5], np.uint32), np.array([0, 2, 3, 4])).tolist()
    [0, 0, 2, 2]
    """
    return np.searchsorted(bounds, numbers.astype(bounds.dtype, copy=False), side="right") - 1


class CsrWriter:
    """Writes one direction from edges that arrive sorted by (entity, relation, other), in blocks."""

    _FILL = 1 << 20  # entities whose group bounds are written at once

    def __init__(self, folder: FolderWriter, name: str, entities: int, relations: int) -> None:
        self._groups = folder.array(f"{name}.groups", np.uint32)
        # one for each group, and there may be as many groups as edges: two bytes where they are enough
        self._relation = folder.array(f"{name}.relation", np.uint16 if relations <= 1 << 16 else np.uint32)
        self._start = folder.array(f"{name}.start", np.uint32)
        self._other = folder.array(f"{name}.other", np.uint32)
        self._entities = entities
        self._bounded = 0  # entities whose first group has been written
        self._last: tuple[int, int] | None = None

    def append(self, entity: U32, relation: U32, other: U32) -> None:
        fresh = np.empty(len(entity), np.bool_)
        fresh[0] = self._last != (int(entity[0]), int(relation[0]))
        fresh[1:] = (entity[1:] != entity[:-1]) | (relation[1:] != relation[:-1])
        at = np.flatnonzero(fresh)
        first_group = self._relation.items
        self._relation.append(relation[at])
        self._start.append((at + self._other.items).astype(np.uint32))
        self._other.append(other)
        self._bound(int(entity[-1]) + 1, entity[at], first_group)
        self._last = (int(entity[-1]), int(relation[-1]))

    def _bound(self, stop: int, group_entities: U32, first_group: int) -> None:
        """Write the first group of every entity below `stop` that has none yet."""
        for low in range(self._bounded, stop, self._FILL):
            wanted = np.arange(low, min(low + self._FILL, stop), dtype=np.uint32)
            self._groups.append((np.searchsorted(group_entities, wanted) + first_group).astype(np.uint32))
        self._bounded = max(self._bounded, stop)

    def finish(self) -> None:
        self._bound(self._entities + 1, np.empty(0, np.uint32), self._relation.items)
        self._start.append(np.array([self._other.items], np.uint32))
