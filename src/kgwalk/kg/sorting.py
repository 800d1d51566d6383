"""Sorting rows of numbers that do not fit in memory.

Rows are dealt by their first column into files that do fit, and so on down the columns where one value alone is too
many (a hub with more edges than memory holds). Each file is then sorted in memory; equal rows come out once.
Knows nothing of triples.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.uint32]  # (n, columns), compared column by column
_BINS = 4096


class RowSorter:
    """`add` rows, then iterate `sorted()`: the distinct rows in ascending order, in arrays of bounded size.

    The first `keys` columns decide; the others ride along and must follow from them. Holds about 40 bytes for
    each of `limit` rows.
    """

    def __init__(self, scratch: Path, name: str, *, columns: int, limit: int, keys: int | None = None) -> None:
        self._path, self._columns, self._limit = scratch / f"{name}.rows", columns, limit
        self._keys = columns if keys is None else keys
        self._held: list[Rows] = []
        self._held_rows = 0
        self._file: Path | None = None

    def add(self, rows: Rows) -> None:
        self._held.append(np.ascontiguousarray(rows, np.uint32))
        self._held_rows += len(rows)
        if self._held_rows > self._limit:
            self._file = self._path
            _append(self._file, np.concatenate(self._held))
            self._held, self._held_rows = [], 0

    def sorted(self) -> Iterator[Rows]:
        held = np.concatenate(self._held) if self._held else np.empty((0, self._columns), np.uint32)
        self._held = []
        if self._file is None:
            if len(held):
                yield sort_distinct(held, self._keys)
            return
        _append(self._file, held)
        del held
        yield from self._sort_file(self._file, 0)

    def _sort_file(self, path: Path, column: int) -> Iterator[Rows]:
        size = path.stat().st_size // (4 * self._columns)
        if column == self._keys:  # every column is one value: the same row, again and again
            yield next(self._read(path))[:1]
        elif size <= self._limit:
            yield sort_distinct(np.fromfile(path, np.uint32).reshape(-1, self._columns), self._keys)
        else:
            low, high = self._extent(path, column)
            if low == high:
                yield from self._sort_file(path, column + 1)
                return
            for dealt in self._deal(path, column, low, high):
                yield from self._sort_file(dealt, column)
        path.unlink(missing_ok=True)

    def _extent(self, path: Path, column: int) -> tuple[int, int]:
        lows, highs = zip(*((int(r[:, column].min()), int(r[:, column].max())) for r in self._read(path)), strict=True)
        return min(lows), max(highs)

    def _deal(self, path: Path, column: int, low: int, high: int) -> list[Path]:
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

    def _read(self, path: Path) -> Iterator[Rows]:
        """A file in pieces: a quarter of the limit, because dealing holds a few copies of a piece."""
        piece = max(1, self._limit // 4) * self._columns
        with open(path, "rb") as file:
            while len(rows := np.fromfile(file, np.uint32, piece)):
                yield rows.reshape(-1, self._columns)


def sort_distinct(rows: Rows, keys: int) -> Rows:
    """Rows in ascending order of their first `keys` columns, equal ones once.

    Where the extents of those columns fit in 64 bits together, rows are compared as single numbers.
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


def _pack(rows: Rows) -> tuple[npt.NDArray[np.uint64] | None, list[int], Rows]:
    lows = rows.min(axis=0)
    bits = [int(extent).bit_length() for extent in rows.max(axis=0) - lows]
    if sum(bits) > 64:
        return None, bits, lows
    packed = np.zeros(len(rows), np.uint64)
    for column, width in enumerate(bits):
        packed <<= np.uint64(width)
        packed |= (rows[:, column] - lows[column]).astype(np.uint64)
    return packed, bits, lows


def _unpack(packed: npt.NDArray[np.uint64], bits: list[int], lows: Rows) -> Rows:
    rows = np.empty((len(packed), len(bits)), np.uint32)
    for column in range(len(bits) - 1, -1, -1):
        mask = np.uint64((1 << bits[column]) - 1)
        rows[:, column] = (packed & mask).astype(np.uint32) + lows[column]
        packed >>= np.uint64(bits[column])
    return rows


def _group(bins: npt.NDArray[np.int64], limit: int) -> npt.NDArray[np.int64]:
    """For each bin the file it goes to: neighbours together while their rows stay within the limit."""
    target = np.zeros(len(bins), np.int64)
    file, held = 0, 0
    for at, count in enumerate(bins.tolist()):
        if held and held + count > limit:
            file, held = file + 1, 0
        target[at] = file
        held += count
    return target


def _append(path: Path, rows: Rows) -> None:
    with open(path, "ab") as file:
        file.write(rows.tobytes())
