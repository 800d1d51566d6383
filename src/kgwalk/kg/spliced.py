"""Arrays that are views: a base array with some items left out and others put in between. Nothing is copied.

    >>> splicer = Splicer(5)
    >>> splicer.keep(2); splicer.put(1); splicer.skip(4); splicer.keep(5)
    >>> array = SplicedArray(splicer.layout(), np.array([10, 11, 12, 13, 14]), np.array([99]))
    >>> array[0:4].tolist(), array[2], len(array)
    ([10, 11, 99, 14], 99, 4)

A `Splicer` walks along the base once and records the pieces; several arrays of one layout are spliced alike. They do
what a store asks of a NumPy array or a `blocks.BlockArray`: an item, a slice, the items at some places, a search.
An item costs one bisection among the pieces, whatever the length of the base.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
FEW = 4096  # values that are searched for one step at a time; for more, the array is made whole


class PieceLayout:
    """Pieces in order: where each begins, and from where in the base it is, or from where among the added items.

    A source up to `base` is a place in the base array, from there on one among the added items.
    """

    def __init__(self, first: list[int], source: list[int], length: int, base: int) -> None:
        self.first, self.source, self.length, self.base = array("q", first), array("q", source), length, base
        self._first_P, self._source_P = np.array(first, np.int64), np.array(source, np.int64)
        size_P = np.diff(self._first_P, append=length)
        old = self._source_P < base
        self._old_first, self._old_source = self._first_P[old], self._source_P[old]
        self._old_stop = self._old_source + size_P[old]
        self.stop = array("q", (self._first_P + size_P).tolist())
        self._begin = array("q", self._old_source.tolist())
        self._by = array("q", (self._old_first - self._old_source).tolist())

    def pieces(self, places: I64) -> I64:
        """The piece that each place is in."""
        return np.searchsorted(self._first_P, places, "right") - 1

    def sources(self, places: I64) -> I64:
        piece = self.pieces(places)
        return places - self._first_P[piece] + self._source_P[piece]

    def moved(self, old: I64) -> I64:
        """Where these places of the base are now; -1 for those left out. One past the end stays one past the end."""
        if not len(self._old_source):
            return np.where(old >= self.base, self.length, -1)
        piece = np.maximum(np.searchsorted(self._old_source, old, "right") - 1, 0)
        inside = (old >= self._old_source[piece]) & (old < self._old_stop[piece])
        found = np.where(inside, old - self._old_source[piece] + self._old_first[piece], -1)
        return np.where(old >= self.base, self.length, found)

    def moved_one(self, old: int) -> int:
        """Where a place of the base is now, which was not left out."""
        by: int = self._by[bisect_right(self._begin, old) - 1]
        return old + by


class Splicer:
    """Walks along a base of so many items and records what to keep, what to leave out, and where others go."""

    def __init__(self, base: int) -> None:
        self._base, self._at, self.length, self.added = base, 0, 0, 0
        self._first: list[int] = []
        self._source: list[int] = []

    def keep(self, stop: int) -> None:
        """The items of the base up to `stop`."""
        if stop > self._at:
            self._piece(self._at, stop - self._at)
            self._at = stop

    def skip(self, stop: int) -> None:
        """Without the items of the base up to `stop`."""
        self._at = max(self._at, stop)

    def put(self, count: int) -> None:
        """So many of the added items, in their order."""
        if count:
            self._piece(self._base + self.added, count)
            self.added += count

    def _piece(self, source: int, count: int) -> None:
        if not self._first or source == self._base or self._source[-1] + self.length - self._first[-1] != source:
            self._first.append(self.length)
            self._source.append(source)
        self.length += count

    def layout(self) -> PieceLayout:
        return PieceLayout(list(self._first), list(self._source), self.length, self._base)


class SplicedArray:
    """An array of a layout. `change` is done to the items of the base, `more` is added to them, one number a piece."""

    def __init__(
        self,
        layout: PieceLayout,
        base: Any,
        added: npt.NDArray[Any],
        *,
        change: Callable[[I64], I64] | None = None,
        more: I64 | None = None,
    ) -> None:
        self.layout, self._base, self._added = layout, base, added
        self._change, self._more_P = change, more
        self._more = None if more is None else more.tolist()
        self.dtype = np.result_type(base.dtype, added.dtype)
        plain = change is None and more is None
        self.data = SplicedView(self, base.data, added.data, plain)

    def __len__(self) -> int:
        return self.layout.length

    @property
    def shape(self) -> tuple[int]:
        return (self.layout.length,)

    def __getitem__(self, wanted: Any) -> Any:
        if isinstance(wanted, slice):
            low, high, _ = wanted.indices(self.layout.length)
            return self._slice(low, high)
        if isinstance(wanted, np.ndarray):
            return self._gather(np.flatnonzero(wanted) if wanted.dtype == np.bool_ else wanted.astype(np.int64))
        return self.data[wanted]

    def changed_item(self, item: int, piece: int) -> int:
        """An item of the base as it is now, in one of the pieces."""
        if self._change is not None:
            return int(self._change(np.array([item], np.int64))[0])
        return item if self._more is None else item + self._more[piece]

    def _slice(self, low: int, high: int) -> npt.NDArray[Any]:
        layout, parts = self.layout, []
        piece = bisect_right(layout.first, low) - 1
        while low < high:
            stop = layout.first[piece + 1] if piece + 1 < len(layout.first) else layout.length
            source = low - layout.first[piece] + layout.source[piece]
            stop = min(stop, high)
            if source >= layout.base:
                source -= layout.base
                parts.append(self._added[source : source + stop - low])
            else:
                parts.append(self._changed(np.asarray(self._base[source : source + stop - low]), piece))
            low, piece = stop, piece + 1
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty(0, self.dtype)

    def _changed(self, items: npt.NDArray[Any], piece: int) -> npt.NDArray[Any]:
        if self._change is not None:
            changed: npt.NDArray[Any] = self._change(items.astype(np.int64)).astype(self.dtype)
            return changed
        if self._more is not None and self._more[piece]:
            moved: npt.NDArray[Any] = (items.astype(np.int64) + self._more[piece]).astype(self.dtype)
            return moved
        return items

    def _gather(self, places: I64) -> npt.NDArray[Any]:
        layout = self.layout
        if not len(places):
            return np.empty(0, self.dtype)
        if not 0 <= int(places.min()) <= int(places.max()) < layout.length:
            raise IndexError(f"places go from 0 to {layout.length - 1}")
        source = layout.sources(places)
        old = source < layout.base
        found = np.empty(len(places), self.dtype)
        found[~old] = self._added[source[~old] - layout.base]
        items = self._base[source[old]].astype(np.int64)
        if self._change is not None:
            items = self._change(items)
        elif self._more_P is not None:
            items = items + self._more_P[layout.pieces(places[old])]
        found[old] = items
        return found

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        whole = self._slice(0, self.layout.length)
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def searchsorted(self, values: Any, side: str = "left", sorter: None = None) -> Any:
        """As NumPy's, of an array that ascends; `np.searchsorted` calls it."""
        wanted = np.asarray(values).reshape(-1)
        if len(wanted) > FEW:
            found = np.searchsorted(np.asarray(self), wanted, side)  # type: ignore[call-overload]
        else:
            found = self._bisect(wanted, side)
        return found if np.ndim(values) else found[0]

    def _bisect(self, wanted: npt.NDArray[Any], side: str) -> I64:
        low, high = np.zeros(len(wanted), np.int64), np.full(len(wanted), self.layout.length, np.int64)
        while (open_ := low < high).any():
            middle = (low + high) // 2
            items = self._gather(np.minimum(middle, self.layout.length - 1))
            below = open_ & ((items < wanted) if side == "left" else (items <= wanted))
            low = np.where(below, middle + 1, low)
            high = np.where(open_ & ~below, middle, high)
        return low


class SplicedView:
    """The items of a `SplicedArray` as Python ints, and its slices: what one hop asks many times."""

    __slots__ = ("_array", "_base", "_first", "_items", "_new", "_plain", "_source", "_stop")

    def __init__(self, array: SplicedArray, items: Any, new: memoryview, plain: bool) -> None:
        """`plain`: the items of the base are as they were."""
        layout = array.layout
        self._array, self._items, self._new, self._plain = array, items, new, plain
        self._first, self._source, self._stop, self._base = layout.first, layout.source, layout.stop, layout.base

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, wanted: int | slice) -> Any:
        if type(wanted) is slice:
            low, high = wanted.start, wanted.stop
            if low is None or high is None or low >= high:
                return self._array[wanted]
            piece = bisect_right(self._first, low) - 1
            source = low - self._first[piece] + self._source[piece]
            if self._plain and low < high <= self._stop[piece] and source < self._base:
                return self._items[source : source + high - low]
            return self._array[wanted]
        if not 0 <= wanted < len(self._array):
            raise IndexError(f"places go from 0 to {len(self._array) - 1}")
        piece = bisect_right(self._first, wanted) - 1
        source = int(wanted) - self._first[piece] + self._source[piece]
        if source >= self._base:
            return self._new[source - self._base]
        item = self._items[source]
        return item if self._plain else self._array.changed_item(item, piece)
