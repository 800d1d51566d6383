"""More rows and names than memory holds: spools that overflow to files, sorted rows, numbered names.

- A spool (`NumberSpool`, `StringSpool`) is appended to and later read back in the same order. It keeps what it holds in
  memory until the spools that share its budget hold too much together; then all of them go to files.
- `RowSorter` gives the distinct rows it was shown in ascending order.
- `Interner` gives a number to each distinct name of a stream, in bounded memory; `FewNames` does so in memory, for
  relations, dates and questions.

`build` sees blocks of strings: it has their names numbered, and keeps its triples in spools and sorters until the final
numbers are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kgwalk.kg.bulk_names import from_parts, hash_names, string_parts
from kgwalk.kg.names import U32, U64
from kgwalk.kg.sources.source import FALLBACK_RANK
from kgwalk.types import InputError

IdRows = npt.NDArray[np.uint32]  # (n, columns), compared column by column
_BINS = 4096
PARTS = 64
_SHIFT = np.uint64(58)  # the top 6 bits of a hash choose its part, so parts in order are hashes in order
MOST_FEW = 1 << 24
MOST_ENTITIES = (1 << 32) - 1


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
            _append(self._file, *self._held)
            self._held, self._held_rows = [], 0

    def sorted(self) -> Iterator[IdRows]:
        held, self._held = self._held, []
        if self._file is None:
            if self._held_rows:
                yield sort_distinct(np.concatenate(held), self._keys)
            return
        _append(self._file, *held)
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
            rows = rows.take(order, axis=0)
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
        rows = rows.take(np.lexsort(rows[:, :keys].T[::-1]), axis=0)
        return rows[np.r_[True, differs_from_last(rows[:, :keys])]]
    if keys < rows.shape[1]:
        order = np.argsort(packed)
        packed = packed[order]
        return rows.take(order[np.r_[True, packed[1:] != packed[:-1]]], axis=0)
    packed.sort()
    return _unpack(packed[np.r_[True, packed[1:] != packed[:-1]]], bits, lows)


def differs_from_last(rows: IdRows) -> npt.NDArray[np.bool_]:
    """Whether each row but the first differs from the one before it.

    >>> differs_from_last(np.array([[1, 2], [1, 2], [1, 3]], np.uint32)).tolist()
    [False, True]
    """
    # column by column: NumPy takes ten times as long for a reduction over rows of a few numbers
    fresh: npt.NDArray[np.bool_] = rows[1:, 0] != rows[:-1, 0]
    for column in range(1, rows.shape[1]):
        fresh |= rows[1:, column] != rows[:-1, column]
    return fresh


def _pack(rows: IdRows) -> tuple[npt.NDArray[np.uint64] | None, list[int], IdRows]:
    lows = np.array([column.min() for column in rows.T], np.uint32)
    bits = [int(column.max() - low).bit_length() for column, low in zip(rows.T, lows, strict=True)]
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


def _append(path: Path, *blocks: IdRows) -> None:
    with open(path, "ab") as file:
        for rows in blocks:
            file.write(np.ascontiguousarray(rows).data)


# Interning


# Names beside the best one (in other languages) are kept of so many entities, the best connected, and so many of each:
# that bounds the memory, and what linking reads.
MOST_OTHERWISE_NAMED, MOST_OTHER_NAMES = 100_000, 16
_OtherNames = list[tuple[int, str]]


@dataclass(frozen=True)
class PartNames:
    """The distinct names of one part, in hash order."""

    keys: pa.LargeStringArray
    labels: pa.LargeStringArray  # the best label of each key, else the key itself
    hashes: U64
    numbers: U32
    other_names: _OtherNames  # entity and a label that is not its best one


class Interner:
    """Numbers for many names: `add` every block, `resolve` once, then ask `numbers(block)`.

    Each block is encoded against its own distinct names, and those are spilled to 64 parts by hash. A part holds every
    occurrence of its names, so each part can be made distinct on its own.

    Names are numbered by how often they are mentioned, most first, then by hash. So the numbers depend on the triples
    and not on their order, and a smaller number is a better connected entity.

    `budget` is how many bytes of names it holds in memory before they go to files in `scratch`.
    """

    def __init__(self, scratch: Path, budget: int) -> None:
        self._pool = SpoolPool(budget)
        self._parts = [_Part.at(self._pool, scratch, part) for part in range(PARTS)]
        self._filled: set[int] = set()  # parts with anything in them: few, for a small graph
        self._counts: list[npt.NDArray[np.int64]] = []  # per block: distinct names in each part
        self.labelled = False
        self.total = 0
        self.other_labels: dict[str, str] = {}

    def add(self, columns: Sequence[pa.Array]) -> list[U32]:
        """Encode one block; returns each column as positions among the block's own distinct names."""
        encoded = pa.concat_arrays([column.cast(pa.large_string()) for column in columns]).dictionary_encode()
        counts, order = _by_part(encoded.dictionary)
        names = encoded.dictionary.take(pa.array(order))
        local: U32 = inverse(order)[encoded.indices.to_numpy(zero_copy_only=False)]
        mentions = np.bincount(local, minlength=len(names))
        self._counts.append(counts)
        self._filled.update(np.flatnonzero(counts).tolist())
        for part, start, stop in _ranges(counts):
            self._parts[part].names.append(names.slice(start, stop - start))
            self._parts[part].mentions.append(mentions[start:stop])
        self._pool.relieve()
        return np.split(local, np.cumsum([len(column) for column in columns])[:-1])

    def add_labels(self, keys: pa.Array, labels: pa.Array, rank: int) -> None:
        """Labels for keys; of several for one key, the smallest rank wins, then the first by alphabet."""
        self.labelled = True
        counts, order = _by_part(keys.cast(pa.large_string()))
        keys, labels = (c.cast(pa.large_string()).take(pa.array(order)) for c in (keys, labels))
        self._filled.update(np.flatnonzero(counts).tolist())
        for part, start, stop in _ranges(counts):
            self._parts[part].label_keys.append(keys.slice(start, stop - start))
            self._parts[part].labels.append(labels.slice(start, stop - start))
            self._parts[part].label_ranks.append(np.full(stop - start, rank, np.uint8))
        self._pool.relieve()

    def resolve(self, others: Sequence[str] = ()) -> Iterator[PartNames]:
        """Make the names distinct and number them; yields each part's names in hash order.

        `others` are keys that are numbered elsewhere (the relations). Their labels came through `add_labels` too, and
        are in `other_labels` once all parts are resolved.
        """
        rank = _MentionRank()
        other_keys = pa.array(others, pa.large_string())
        parts = [self._parts[number] for number in sorted(self._filled)]
        for part in parts:
            self.total += _make_distinct(part, rank)
            self._pool.relieve()
        if self.total > MOST_ENTITIES:
            raise InputError(f"{self.total:,} distinct entities; a store holds at most {MOST_ENTITIES:,}")
        rank.start()
        for part in parts:
            keys = part.names.read()
            numbers = rank.next(part.mentions.read())
            part.numbers.replace(numbers[part.numbers.read()])
            labels = _read_labels(part)
            self._label_others(other_keys, labels)
            best = pc.coalesce(_best_labels(keys, labels), keys)
            yield PartNames(keys, best, hash_names(keys), numbers, _other_names(keys, numbers, best, labels))
            part.names.remove()
            self._pool.relieve()
        self._starts = np.cumsum([np.zeros(PARTS, np.int64), *self._counts], axis=0)

    def _label_others(self, keys: pa.LargeStringArray, labels: pa.Table) -> None:
        if len(keys) and len(labels):
            pairs = zip(keys.to_pylist(), _best_labels(keys, labels).to_pylist(), strict=True)
            self.other_labels.update((key, label) for key, label in pairs if label is not None)

    def numbers(self, block: int) -> U32:
        """The numbers of one block's distinct names, indexed by the positions that `add` returned."""
        starts, stops = self._starts[block].tolist(), self._starts[block + 1].tolist()
        ranges = zip(self._parts, starts, stops, strict=True)
        return np.concatenate([part.numbers.read(start, stop) for part, start, stop in ranges])


class FewNames:
    """Numbers for names that fit in memory: relations, dates, questions."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._seen: dict[str, int] = {}

    @property
    def keys(self) -> list[str]:
        """The names by their provisional numbers."""
        return list(self._seen)

    def add(self, column: pa.Array) -> U32:
        """Encode one block in provisional numbers, which `alphabetical` turns into final ones."""
        encoded = column.dictionary_encode()
        seen = self._seen
        numbers = [seen.setdefault(name, len(seen)) for name in encoded.dictionary.to_pylist()]
        if len(seen) > MOST_FEW:
            raise InputError(
                f"more than {MOST_FEW:,} distinct {self._what}; are the columns head, relation, tail in that order?"
            )
        numbered: U32 = np.array(numbers, np.uint32)[encoded.indices.to_numpy(zero_copy_only=False)]
        return numbered


def alphabetical(names: Sequence[str]) -> tuple[list[int], U32]:
    """The order that sorts names by their bytes, and the place of each name in it.

    >>> order, place = alphabetical(["b", "c", "a"])
    >>> order, place.tolist()
    ([2, 0, 1], [1, 2, 0])
    """
    order = sorted(range(len(names)), key=lambda at: names[at].encode())
    return order, inverse(np.array(order, np.int64))


def inverse(order: npt.NDArray[np.integer]) -> U32:
    """Where each of 0, 1, 2, ... stands in a permutation."""
    position = np.empty(len(order), np.uint32)
    position[order] = np.arange(len(order), dtype=np.uint32)
    return position


@dataclass
class _Part:
    """What was spilled of the names whose hash falls in one range."""

    names: StringSpool
    mentions: NumberSpool  # per spilled name, how often its block had it; per distinct name once resolved
    numbers: NumberSpool  # per spilled name, once resolved: its number
    label_keys: StringSpool
    labels: StringSpool
    label_ranks: NumberSpool

    @classmethod
    def at(cls, pool: SpoolPool, scratch: Path, part: int) -> _Part:
        return cls(
            names=StringSpool(pool, scratch / f"names-{part}"),
            mentions=NumberSpool(pool, scratch / f"mentions-{part}", np.uint32),
            numbers=NumberSpool(pool, scratch / f"numbers-{part}", np.uint32),
            label_keys=StringSpool(pool, scratch / f"label-keys-{part}"),
            labels=StringSpool(pool, scratch / f"labels-{part}"),
            label_ranks=NumberSpool(pool, scratch / f"label-ranks-{part}", np.uint8),
        )


def _make_distinct(part: _Part, rank: _MentionRank) -> int:
    """Keep a part's distinct names in hash order, with their mentions; returns how many there are."""
    encoded = part.names.read().dictionary_encode()
    indices = encoded.indices.to_numpy(zero_copy_only=False)
    mentions = np.bincount(indices, weights=part.mentions.read(), minlength=len(encoded.dictionary))
    order = np.argsort(hash_names(encoded.dictionary), kind="stable")
    part.numbers.append(inverse(order)[indices])
    part.names.replace(encoded.dictionary.take(pa.array(order)))
    part.mentions.replace(mentions[order])
    rank.count(part.mentions.read())
    return len(order)


class _MentionRank:
    """Numbers by mentions, most first; equals in the order of asking. A counting sort, one part at a time."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}

    def count(self, mentions: U32) -> None:
        values, counts = np.unique(mentions, return_counts=True)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            self._next[value] = self._next.get(value, 0) + count

    def start(self) -> None:
        """Called once all are counted: from here on `_next` holds the next free number for each count of mentions."""
        free = 0
        for value in sorted(self._next, reverse=True):
            self._next[value], free = free, free + self._next[value]

    def next(self, mentions: U32) -> U32:
        """The numbers of one part's names."""
        order = np.argsort(mentions, kind="stable")
        values, firsts, counts = np.unique(mentions[order], return_index=True, return_counts=True)
        numbers = np.empty(len(mentions), np.uint32)
        for value, first, count in zip(values.tolist(), firsts.tolist(), counts.tolist(), strict=True):
            free = self._next[value]
            numbers[order[first : first + count]] = np.arange(free, free + count, dtype=np.uint32)
            self._next[value] = free + count
        return numbers


def _read_labels(part: _Part) -> pa.Table:
    """A part's labels, best first: of smallest rank, then in alphabetical order."""
    columns = {"rank": part.label_ranks.read(), "label": part.labels.read(), "key": part.label_keys.read()}
    for spool in (part.label_keys, part.labels, part.label_ranks):
        spool.remove()
    return pa.table(columns).sort_by([("rank", "ascending"), ("label", "ascending")])


def _best_labels(keys: pa.LargeStringArray, labels: pa.Table) -> pa.LargeStringArray:
    """The best label of each key, null for a key without one."""
    if not len(labels):
        return pa.nulls(len(keys), pa.large_string())
    # index_in gives the first place of a key among the label keys, which are sorted best first
    label_keys = labels["key"].combine_chunks()
    return labels["label"].combine_chunks().take(pc.index_in(keys, value_set=label_keys))


def _other_names(keys: pa.LargeStringArray, numbers: U32, best: pa.LargeStringArray, labels: pa.Table) -> _OtherNames:
    """The labels that sources give beside the best one, of the best connected entities, a few of each."""
    given = labels.filter(pc.less(labels["rank"], FALLBACK_RANK))
    if len(given) <= len(keys) and len(given) == len(pc.unique(given["key"])):
        return []
    at = pc.index_in(given["key"].combine_chunks(), value_set=keys)
    found: dict[int, list[str]] = {}
    for place, label in zip(at.to_pylist(), given["label"].to_pylist(), strict=True):
        if place is not None and numbers[place] < MOST_OTHERWISE_NAMED and label != best[place].as_py():
            others = found.setdefault(int(numbers[place]), [])
            if len(others) < MOST_OTHER_NAMES and label not in others:
                others.append(label)
    return [(number, label) for number, others in found.items() for label in others]


def _by_part(names: pa.LargeStringArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """How many names fall in each part, and the order that sorts them by part."""
    parts = (hash_names(names) >> _SHIFT).astype(np.int64)
    return np.bincount(parts, minlength=PARTS), np.argsort(parts, kind="stable")


def _ranges(counts: npt.NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """(part, start, stop) of each part that has names, among names sorted by part."""
    stops = np.cumsum(counts)
    for part in np.flatnonzero(counts).tolist():
        yield part, int(stops[part] - counts[part]), int(stops[part])
