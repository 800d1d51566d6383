"""A table of distinct names, each with a number: number to name by offset, name to number by hash.

On disk, four arrays: `heap` (the UTF-8 bytes of all names), `offsets` into it, `hash` (xxh3 of each name,
sorted) and `byhash` (the numbers in that order). A lookup bisects the hashes, then compares the bytes.
Knows nothing of what the names stand for, nor of Arrow: a server opens names without importing it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import xxhash

from kgwalk.kg.files import Folder, damaged

U64 = npt.NDArray[np.uint64]
U32 = npt.NDArray[np.uint32]
name_hash = xxhash.xxh3_64_intdigest


class NameTable:
    """Opened names. `table[3]` is the fourth name; `table.number("Paris")` its number, or None.

    A number that has no name, or a name that is no text, is a StoreError: numbers come from the store's own arrays.
    """

    def __init__(self, folder: Folder, prefix: str) -> None:
        self._path = folder.path
        self.heap = folder[f"{prefix}.heap"]
        self.offsets = folder[f"{prefix}.offsets"]
        # memoryviews give Python ints and bytes several times faster than NumPy scalars do
        self._heap = self.heap.data
        self._offsets = self.offsets.data
        self._hash = folder[f"{prefix}.hash"].data
        self._byhash = folder[f"{prefix}.byhash"].data

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> str:
        offsets = self._offsets
        try:
            return str(self._heap[offsets[number] : offsets[number + 1]], "utf-8")
        except (IndexError, UnicodeDecodeError) as error:
            raise damaged(self._path) from error

    def several(self, numbers: Iterable[int]) -> list[str]:
        heap, offsets = self._heap, self._offsets
        try:
            return [str(heap[offsets[number] : offsets[number + 1]], "utf-8") for number in numbers]
        except (IndexError, UnicodeDecodeError) as error:
            raise damaged(self._path) from error

    def number(self, name: str) -> int | None:
        try:
            data = name.encode()
        except UnicodeEncodeError:  # a lone surrogate: no stored name has one
            return None
        wanted = name_hash(data)
        hashes = self._hash
        at = bisect_left(hashes, wanted)
        while at < len(hashes) and hashes[at] == wanted:
            number = self._byhash[at]
            if number >= len(self):
                raise damaged(self._path)
            if self._heap[self._offsets[number] : self._offsets[number + 1]] == data:
                return int(number)
            at += 1
        return None

    def any_byte(self, wanted: bytes) -> bool:
        """Whether any name holds one of these bytes."""
        values = list(wanted)
        step = 1 << 24
        return any(
            bool(np.isin(self.heap[start : start + step], values).any()) for start in range(0, len(self.heap), step)
        )
