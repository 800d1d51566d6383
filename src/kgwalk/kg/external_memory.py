"""More numbers and strings than memory holds: spools that overflow to files, and a sort of rows.

A spool is appended to and later read back in the same order. It keeps what it holds in memory until the spools that
share its budget hold too much together; then all of them go to files. `RowSorter` gives the distinct rows it was shown
in ascending order. `build` keeps its triples in both until their final numbers are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgwalk.kg.bulk_names import from_parts, string_parts

IdRows = npt.NDArray[np.uint32]  # (n, columns), compared column by column
_BINS = 4096

# Spools


class SpoolPool:
    """Spools that share a budget of bytes: once they hold more in memory, `relieve` writes them all to files."""

    def __init__(self, budget: int) -> None:
        self._budget, self.held = budget, 0
        self.spools: list[NumberSpool] = []

    def relieve(self) -> None:
        if self.held > self._budget:
            for spool in self.spools:
                spool.flush()


class NumberSpool:
    """Numbers of one type, in the order they came. Held in memory until its pool is relieved."""

    def __init__(self, pool: SpoolPool, path: Path, dtype: npt.DTypeLike) -> None:
        self._pool, self._path, self._dtype = pool, path, np.dtype(dtype)
        self._held: list[npt.NDArray[Any]] = []
        self._held_bytes = self._filed = 0
        pool.spools.append(self)

    def append(self, values: npt.NDArray[Any]) -> None:
        self._held.append(values.astype(self._dtype, copy=False))
        self._hold(self._held_bytes + self._held[-1].nbytes)

    def flush(self) -> None:
        if self._held:
            values = np.concatenate(self._held)
            with open(self._path, "ab") as file:
                file.write(values.tobytes())
            self._filed += len(values)
            self._held = []
            self._hold(0)

    def read(self, start: int = 0, stop: int | None = None) -> npt.NDArray[Any]:
        """The numbers from `start` to `stop`, counted over all that was appended."""
        if len(self._held) > 1:
            self._held = [np.concatenate(self._held)]
        held = self._held[0] if self._held else np.empty(0, self._dtype)
        stop = self._filed + len(held) if stop is None else stop
        if start >= self._filed:
            return held[start - self._filed : stop - self._filed]
        size = self._dtype.itemsize
        filed = np.fromfile(self._path, self._dtype, min(stop, self._filed) - start, offset=start * size)
        return np.concatenate([filed, held[: stop - self._filed]]) if stop > self._filed else filed

    def replace(self, values: npt.NDArray[Any]) -> None:
        """Hold these instead of what was appended so far."""
        self.remove()
        self.append(values)

    def remove(self) -> None:
        if self._filed:
            self._path.unlink()
        self._held, self._filed = [], 0
        self._hold(0)

    def _hold(self, count: int) -> None:
        """Tell the pool that this spool now holds so many bytes in memory."""
        self._pool.held += count - self._held_bytes
        self._held_bytes = count


class StringSpool:
    """Strings, as one spool of their bytes and one of their lengths."""

    def __init__(self, pool: SpoolPool, path: Path) -> None:
        self._bytes = NumberSpool(pool, path.with_suffix(".bytes"), np.uint8)
        self._lengths = NumberSpool(pool, path.with_suffix(".lengths"), np.uint32)

    def append(self, strings: pa.LargeStringArray) -> None:
        heap, offsets = string_parts(strings)
        self._bytes.append(heap)
        self._lengths.append(np.diff(offsets).astype(np.uint32))

    def read(self) -> pa.LargeStringArray:
        lengths = self._lengths.read()
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return from_parts(self._bytes.read(), offsets)

    def replace(self, strings: pa.LargeStringArray) -> None:
        heap, offsets = string_parts(strings)
        self._bytes.replace(heap)
        self._lengths.replace(np.diff(offsets).astype(np.uint32))

    def remove(self) -> None:
        self._bytes.remove()
        self._lengths.remove()


# Sorting rows


class RowSorter:
    """`add` rows, then iterate `sorted()`: the distinct rows in ascending order, in arrays of bounded size.

    Rows past `limit` go to a file. That file is split by ranges of the first column into files of at most `limit`
    rows, and by the next column where one value alone has more rows (a hub with more edges than memory holds). Each
    file is then sorted in memory.

    The first `keys` columns decide the order, and rows that agree in them are the same row; the other columns are
    carried along. Takes about 40 bytes of memory for each of `limit` rows.
    """

    def __init__(self, scratch: Path, name: str, *, columns: int, limit: int, keys: int | None = None) -> None:
        self._path, self._columns, self._limit = scratch / f"{name}.rows", columns, limit
        self._keys = columns if keys is None else keys
        self._held: list[IdRows] = []
        self._held_rows = 0
        self._file: Path | None = None

    def add(self, rows: IdRows) -> None:
        self._held.append(np.ascontiguousarray(rows, np.uint32))
        self._held_rows += len(rows)
        if self._held_rows > self._limit:
            self._file = self._path
            _append(self._file, np.concatenate(self._held))
            self._held, self._held_rows = [], 0

    def sorted(self) -> Iterator[IdRows]:
        held = np.concatenate(self._held) if self._held else np.empty((0, self._columns), np.uint32)
        self._held = []
        if self._file is None:
            if len(held):
                yield sort_distinct(held, self._keys)
            return
        _append(self._file, held)
        del held
        yield from self._sort_file(self._file, 0)

    def _sort_file(self, path: Path, column: int) -> Iterator[IdRows]:
        size = path.stat().st_size // (4 * self._columns)
        if column == self._keys:  # every key column has a single value: all rows are one
            yield next(self._read(path))[:1]
        elif size <= self._limit:
            yield sort_distinct(np.fromfile(path, np.uint32).reshape(-1, self._columns), self._keys)
        else:
            low, high = self._extent(path, column)
            if low == high:
                yield from self._sort_file(path, column + 1)
                return
            for smaller in self._split(path, column, low, high):
                yield from self._sort_file(smaller, column)
        path.unlink(missing_ok=True)

    def _extent(self, path: Path, column: int) -> tuple[int, int]:
        """The smallest and largest value of a column."""
        lows, highs = zip(*((int(r[:, column].min()), int(r[:, column].max())) for r in self._read(path)), strict=True)
        return min(lows), max(highs)

    def _split(self, path: Path, column: int, low: int, high: int) -> list[Path]:
        """Split a file by ranges of one column, each of at most `limit` rows where a range can be that narrow."""
        shift = max(0, (high - low).bit_length() - (_BINS.bit_length() - 1))
        bins = np.zeros(((high - low) >> shift) + 1, np.int64)
        for rows in self._read(path):
            bins += np.bincount((rows[:, column] - low) >> shift, minlength=len(bins))
        target = _group(bins, self._limit)
        files = [path.with_name(f"{path.name}.{column}-{at}") for at in range(int(target[-1]) + 1)]
        for rows in self._read(path):
            to = target[(rows[:, column] - low) >> shift]
            order = np.argsort(to, kind="stable")
            rows = rows[order]
            cuts = np.searchsorted(to[order], np.arange(len(files) + 1))
            for at, file in enumerate(files):
                if cuts[at] < cuts[at + 1]:
                    _append(file, rows[cuts[at] : cuts[at + 1]])
        path.unlink()
        return files

    def _read(self, path: Path) -> Iterator[IdRows]:
        """A file in pieces of a quarter of the limit, because `_split` holds a few copies of a piece."""
        piece = max(1, self._limit // 4) * self._columns
        with open(path, "rb") as file:
            while len(rows := np.fromfile(file, np.uint32, piece)):
                yield rows.reshape(-1, self._columns)


def sort_distinct(rows: IdRows, keys: int) -> IdRows:
    """Rows in ascending order of their first `keys` columns, equal ones once.

    Where the ranges of those columns fit in 64 bits together, each row is packed into one number and those are sorted.
    """
    packed, bits, lows = _pack(rows[:, :keys])
    if packed is None:
        order = np.lexsort(rows[:, :keys].T[::-1])
        rows = rows[order]
        fresh = np.any(rows[1:, :keys] != rows[:-1, :keys], axis=1)
        return rows[np.r_[True, fresh]]
    if keys < rows.shape[1]:
        order = np.argsort(packed)
        packed = packed[order]
        return rows[order[np.r_[True, packed[1:] != packed[:-1]]]]
    packed.sort()
    return _unpack(packed[np.r_[True, packed[1:] != packed[:-1]]], bits, lows)


def _pack(rows: IdRows) -> tuple[npt.NDArray[np.uint64] | None, list[int], IdRows]:
    lows = rows.min(axis=0)
    bits = [int(extent).bit_length() for extent in rows.max(axis=0) - lows]
    if sum(bits) > 64:
        return None, bits, lows
    packed = np.zeros(len(rows), np.uint64)
    for column, width in enumerate(bits):
        packed <<= np.uint64(width)
        packed |= (rows[:, column] - lows[column]).astype(np.uint64)
    return packed, bits, lows


def _unpack(packed: npt.NDArray[np.uint64], bits: list[int], lows: IdRows) -> IdRows:
    rows = np.empty((len(packed), len(bits)), np.uint32)
    for column in range(len(bits) - 1, -1, -1):
        mask = np.uint64((1 << bits[column]) - 1)
        rows[:, column] = (packed & mask).astype(np.uint32) + lows[column]
        packed >>= np.uint64(bits[column])
    return rows


def _group(bins: npt.NDArray[np.int64], limit: int) -> npt.NDArray[np.int64]:
    """The file that each bin goes to: neighbouring bins share one while their rows stay within the limit."""
    target = np.zeros(len(bins), np.int64)
    file, held = 0, 0
    for at, count in enumerate(bins.tolist()):
        if held and held + count > limit:
            file, held = file + 1, 0
        target[at] = file
        held += count
    return target


def _append(path: Path, rows: IdRows) -> None:
    with open(path, "ab") as file:
        file.write(rows.tobytes())
