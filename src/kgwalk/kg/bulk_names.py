"""Names in bulk: Arrow arrays of strings to and from the arrays that a `names.NameTable` reads.

A build writes tables with `NameWriter`, or `write_table` where all names fit in memory; an export reads a whole
table back with `arrow_names`. `names` itself stays free of Arrow, so that a server opens a store without importing it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgwalk.kg.files import ArrayFile, FolderWriter
from kgwalk.kg.names import U32, U64, NameTable, name_hash


class NameWriter:
    """Writes one table: `append` the names in the order of their numbers, and `index` their hashes."""

    def __init__(self, folder: FolderWriter, prefix: str) -> None:
        self._folder, self._prefix = folder, prefix
        self._heap: ArrayFile = folder.array(f"{prefix}.heap", np.uint8)
        self._ends: ArrayFile = folder.array(f"{prefix}.offsets", np.uint64)
        self._ends.append(np.zeros(1, np.uint64))
        self._size = 0

    def append(self, names: pa.LargeStringArray) -> None:
        heap, offsets = string_parts(names)
        self._heap.append(heap.tobytes())
        self._ends.append((offsets[1:] - offsets[0]).astype(np.uint64) + np.uint64(self._size))
        self._size += len(heap)

    def index(self, hashes: Iterable[tuple[U64, U32]]) -> None:
        """Write the hash index from blocks of (hashes, numbers) whose hashes ascend."""
        hash_file = self._folder.array(f"{self._prefix}.hash", np.uint64)
        byhash_file = self._folder.array(f"{self._prefix}.byhash", np.uint32)
        for hashed, numbers in hashes:
            hash_file.append(hashed)
            byhash_file.append(numbers)


def write_table(folder: FolderWriter, prefix: str, names: Sequence[str]) -> None:
    """Write a whole table of names that fit in memory."""
    writer = NameWriter(folder, prefix)
    strings = pa.array(names, pa.large_string())
    writer.append(strings)
    hashes = hash_names(strings)
    order = np.argsort(hashes, kind="stable")
    writer.index([(hashes[order], order.astype(np.uint32))])


def arrow_names(table: NameTable) -> pa.LargeStringArray:
    """All names of an opened table, over its mapped bytes."""
    return from_parts(
        np.asarray(table.heap), np.asarray(table.offsets).view(np.int64)
    )  # offsets are uint64 on disk, far below 2**63


def hash_names(names: pa.LargeStringArray) -> U64:
    """The xxh3 hash of each name's UTF-8 bytes."""
    return np.fromiter(map(name_hash, names.cast(pa.large_binary()).to_pylist()), np.uint64, len(names))


def string_parts(names: pa.LargeStringArray) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """(bytes, offsets) of an Arrow array, without copying; the bytes start at offsets[0]."""
    _, offsets, data = names.buffers()
    ends = np.frombuffer(offsets, np.int64)[names.offset : names.offset + len(names) + 1]
    heap = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return heap[int(ends[0]) : int(ends[-1])], ends


def from_parts(heap: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> pa.LargeStringArray:
    """The inverse of `string_parts`; the arrays are used as they are, not copied."""
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(heap))
