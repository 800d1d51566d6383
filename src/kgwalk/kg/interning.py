"""Interning: a number for each distinct name of a stream, in bounded memory.

A build sees blocks of strings and needs numbers. `Interner` is for entities, which may not fit in memory: each block is
encoded against its own distinct names, and those are spilled to 64 parts by hash. A part holds every occurrence of its
names, so each part can be made distinct on its own. `FewNames` does the same in memory, for relations, dates and
questions.

Entities are numbered by how often they are mentioned, most first, then by hash. So the numbers depend on the triples
and not on their order, and a smaller number is a better connected entity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kgwalk.kg.bulk_names import hash_names
from kgwalk.kg.external_memory import NumberSpool, SpoolPool, StringSpool
from kgwalk.kg.names import U32, U64
from kgwalk.types import InputError

PARTS = 64
_SHIFT = np.uint64(58)  # the top 6 bits of a hash choose its part, so parts in order are hashes in order
MOST_FEW = 1 << 24
MOST_ENTITIES = (1 << 32) - 1


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


@dataclass(frozen=True)
class PartNames:
    """The distinct names of one part, in hash order."""

    keys: pa.LargeStringArray
    labels: pa.LargeStringArray  # the best label of each key, else the key itself
    hashes: U64
    numbers: U32


class Interner:
    """Numbers for many names: `add` every block, `resolve` once, then ask `numbers(block)`.

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
            yield PartNames(keys, pc.coalesce(_best_labels(keys, labels), keys), hash_names(keys), numbers)
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


# Resolving the parts


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


def _by_part(names: pa.LargeStringArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """How many names fall in each part, and the order that sorts them by part."""
    parts = (hash_names(names) >> _SHIFT).astype(np.int64)
    return np.bincount(parts, minlength=PARTS), np.argsort(parts, kind="stable")


def _ranges(counts: npt.NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """(part, start, stop) of each part that has names, among names sorted by part."""
    stops = np.cumsum(counts)
    for part in np.flatnonzero(counts).tolist():
        yield part, int(stops[part] - counts[part]), int(stops[part])


def inverse(order: npt.NDArray[np.integer]) -> U32:
    """Where each of 0, 1, 2, ... stands in a permutation."""
    position = np.empty(len(order), np.uint32)
    position[order] = np.arange(len(order), dtype=np.uint32)
    return position
