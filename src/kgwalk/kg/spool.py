"""What a build has read and needs again later: kept in memory while it is little, in files when it grows.

A spool is appended to and then read back in the same order. Knows nothing of what it holds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgwalk.kg.name_arrays import from_parts, string_parts


class Pool:
    """Spools that share a budget: when together they hold more bytes in memory, all go to their files."""

    def __init__(self, budget: int) -> None:
        self._budget, self.held = budget, 0
        self.spools: list[NumberSpool] = []

    def relieve(self) -> None:
        if self.held > self._budget:
            for spool in self.spools:
                spool.flush()


class NumberSpool:
    """Numbers of one type. It grows in memory until its pool is relieved."""

    def __init__(self, pool: Pool, path: Path, dtype: npt.DTypeLike) -> None:
        self._pool, self._path, self._dtype = pool, path, np.dtype(dtype)
        self._held: list[npt.NDArray[Any]] = []
        self._held_bytes = self._filed = 0
        pool.spools.append(self)

    def append(self, values: npt.NDArray[Any]) -> None:
        self._held.append(values.astype(self._dtype, copy=False))
        self._hold(self._held_bytes + self._held[-1].nbytes)

    def _hold(self, count: int) -> None:
        self._pool.held += count - self._held_bytes
        self._held_bytes = count

    def flush(self) -> None:
        if self._held:
            values = np.concatenate(self._held)
            with open(self._path, "ab") as file:
                file.write(values.tobytes())
            self._filed += len(values)
            self._held = []
            self._hold(0)

    def read(self, start: int = 0, stop: int | None = None) -> npt.NDArray[Any]:
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
        """Hold these instead of what was appended."""
        self.remove()
        self.append(values)

    def remove(self) -> None:
        if self._filed:
            self._path.unlink()
        self._held, self._filed = [], 0
        self._hold(0)


class StringSpool:
    """Strings: their bytes, and their lengths."""

    def __init__(self, pool: Pool, path: Path) -> None:
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
