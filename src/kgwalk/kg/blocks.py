"""An array in a file that is read by block; every block is checked against its checksum when it is read.

A large store is not read when it is opened. Its arrays are `BlockArray`s, which behave as read-only NumPy arrays do
for what a store does with them: one item, a slice, the items at some places, a binary search. Blocks that were read
are kept in a `BlockPool` of bounded size. They are read with `pread`, not mapped: a file that somebody cuts short while
it is open gives a StoreError, where a map would end the whole process with SIGBUS, and a block that is held does not
change when the file does.
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from kgwalk.types import StoreError

BLOCK_BYTES = 1 << 15  # a multiple of every item's size; 8 bytes of checksum for each are 0.02% of a store
POOL_BYTES = 256 << 20  # of blocks that an open store keeps; below it is the system's own cache of the files
STREAMED = 8  # a slice of more blocks than this is read past the pool, so that one scan does not empty it
CHUNK_BYTES = 512 * BLOCK_BYTES  # read at once where a whole file is read

block_sum = xxhash.xxh3_64_intdigest
Sums = npt.NDArray[np.uint64]


def block_count(size: int) -> int:
    """How many blocks so many bytes have."""
    return -(-size // BLOCK_BYTES)


class BlockSums:
    """The checksums of a file's blocks, taken as its bytes pass.

    >>> sums = BlockSums()
    >>> sums.update(b"a" * BLOCK_BYTES + b"b")
    >>> sums.update(b"c")
    >>> sums.values().tolist() == [block_sum(b"a" * BLOCK_BYTES), block_sum(b"bc")]
    True
    """

    def __init__(self) -> None:
        self._done: list[int] = []
        self._begun = xxhash.xxh3_64()  # the block that is not full yet
        self._held = 0

    def update(self, data: bytes | memoryview) -> None:
        view = memoryview(data).cast("B")
        at = 0
        if self._held:
            at = min(len(view), BLOCK_BYTES - self._held)
            self._begun.update(view[:at])
            self._held += at
            if self._held < BLOCK_BYTES:
                return
            self._done.append(self._begun.intdigest())
            self._begun, self._held = xxhash.xxh3_64(), 0
        full = at + (len(view) - at) // BLOCK_BYTES * BLOCK_BYTES
        self._done += [block_sum(view[start : start + BLOCK_BYTES]) for start in range(at, full, BLOCK_BYTES)]
        if full < len(view):
            self._begun.update(view[full:])
            self._held = len(view) - full

    def values(self) -> Sums:
        return np.array(self._done + ([self._begun.intdigest()] if self._held else []), np.uint64)


class ArrayBytes:
    """The bytes of an array's file, which stays open; the size was right when it was opened."""

    def __init__(self, path: Path, size: int) -> None:
        self.path, self.size = path, size
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, self._descriptor)
            actual = os.fstat(self._descriptor).st_size
        except OSError as error:
            raise StoreError(f"{path} is missing or unreadable ({error.strerror}); build the store again") from error
        if actual != size:
            raise StoreError(f"{path} holds {actual:,} bytes and should hold {size:,}; build the store again")

    def read(self, start: int, stop: int) -> npt.NDArray[np.uint8]:
        """The bytes start .. stop, in memory of their own."""
        data = np.empty(stop - start, np.uint8)
        view = data.data
        while view:
            try:
                taken = os.preadv(self._descriptor, [view], stop - len(view))
            except OSError as error:
                raise StoreError(f"{self.path} cannot be read: {error.strerror}; check the disk") from error
            if not taken:
                raise StoreError(
                    f"{self.path} was cut short while it was open: it ends before byte {stop:,} of {self.size:,}; "
                    "build the store again"
                )
            view = view[taken:]
        data.flags.writeable = False
        return data

    def mapped(self) -> npt.NDArray[np.uint8]:
        """All bytes, mapped into memory: ten times as fast as reading them, and shared between processes.

        For what nobody will change while it is open; a file that is cut short then ends the process with SIGBUS.
        """
        if not self.size:  # an empty file cannot be mapped
            return np.empty(0, np.uint8)
        try:
            return np.frombuffer(mmap.mmap(self._descriptor, self.size, access=mmap.ACCESS_READ), np.uint8)
        except (OSError, ValueError) as error:  # ValueError: it is shorter by now
            raise StoreError(f"{self.path} cannot be mapped into memory: {error}") from error

    def chunks(self) -> Iterator[npt.NDArray[np.uint8]]:
        for start in range(0, self.size, CHUNK_BYTES):
            yield self.read(start, min(start + CHUNK_BYTES, self.size))

    def corrupted(self) -> StoreError:
        return StoreError(
            f"{self.path} is corrupted: its bytes do not match their checksum; build the store again, "
            "or copy it again from where it is whole"
        )


class BlockPool:
    """Bounds the memory of the blocks that some arrays hold: beyond it, the block read first is let go first."""

    def __init__(self) -> None:
        self._limit, self._bytes = POOL_BYTES, 0
        self._order: deque[tuple[list[memoryview | None], int, int]] = deque()
        self._lock = threading.Lock()

    def hold(self, held: list[memoryview | None], at: int, block: memoryview) -> None:
        with self._lock:
            if held[at] is not None:
                return  # another thread was faster
            held[at] = block
            self._order.append((held, at, block.nbytes))
            self._bytes += block.nbytes
            while self._bytes > self._limit and len(self._order) > 1:
                there, which, size = self._order.popleft()
                there[which] = None  # a reader that has the block keeps it while it reads
                self._bytes -= size


class BlockArray:
    """A read-only array in a file, whose blocks are read and checked when they are first used.

    `blocks` holds a memoryview of each block that is in memory, `shift` is the logarithm of a block's items, and
    `mask` gives the place inside a block: item i is `blocks[i >> shift][i & mask]`. An item is a NumPy scalar or, by
    way of `data`, a Python int, as of a NumPy array.
    """

    def __init__(self, file: ArrayBytes, dtype: npt.DTypeLike, sums: Sums, pool: BlockPool) -> None:
        self.dtype = np.dtype(dtype)
        self.nbytes = file.size
        self.shift = (BLOCK_BYTES // self.dtype.itemsize).bit_length() - 1
        self.mask = (1 << self.shift) - 1
        self._file, self._sums, self._pool = file, sums.data, pool
        self._length = file.size // self.dtype.itemsize
        self.blocks: list[memoryview | None] = [None] * block_count(file.size)
        self.data = BlockView(self)

    def __len__(self) -> int:
        return self._length

    @property
    def shape(self) -> tuple[int]:
        return (self._length,)

    def reshape(self, rows: int, width: int) -> BlockRows:
        """The array as rows, as many as there are."""
        assert rows == -1
        return BlockRows(self, width)

    def block(self, at: int) -> memoryview:
        """The items of one block."""
        held = self.blocks[at]
        if held is None:
            start = at * BLOCK_BYTES
            data = self._file.read(start, min(start + BLOCK_BYTES, self.nbytes))
            if block_sum(data.data) != self._sums[at]:
                raise self._file.corrupted()
            held = data.view(self.dtype).data
            self._pool.hold(self.blocks, at, held)
        return held

    def __getitem__(self, wanted: Any) -> Any:
        if isinstance(wanted, slice):
            low, high, _ = wanted.indices(self._length)
            return self._slice(low, high)
        if isinstance(wanted, np.ndarray):
            return self._gather(wanted)
        return self.block(wanted >> self.shift)[wanted & self.mask]

    def _slice(self, low: int, high: int) -> npt.NDArray[Any]:
        if low >= high:
            return np.empty(0, self.dtype)
        first, last = low >> self.shift, (high - 1) >> self.shift
        if first == last:
            return np.asarray(self.block(first)[low & self.mask : ((high - 1) & self.mask) + 1])
        if last - first < STREAMED:
            parts = np.concatenate([np.asarray(self.block(at)) for at in range(first, last + 1)])
        else:
            parts = self._stream(first, last + 1).view(self.dtype)
        return parts[low - (first << self.shift) : high - (first << self.shift)]

    def _stream(self, first: int, stop: int) -> npt.NDArray[np.uint8]:
        """The bytes of some blocks, checked, past the pool."""
        data = self._file.read(first * BLOCK_BYTES, min(stop * BLOCK_BYTES, self.nbytes))
        view, sums = data.data, self._sums
        for at in range(first, stop):
            start = (at - first) * BLOCK_BYTES
            if block_sum(view[start : start + BLOCK_BYTES]) != sums[at]:
                raise self._file.corrupted()
        return data

    def _gather(self, places: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The items at these places, block by block."""
        if places.dtype == np.bool_:
            places = np.flatnonzero(places)
        if not len(places):
            return np.empty(0, self.dtype)
        if not 0 <= int(places.min()) <= int(places.max()) < self._length:
            raise IndexError(f"places go from 0 to {self._length - 1}")
        found = np.empty(len(places), self.dtype)
        of_block = places >> self.shift
        order = np.argsort(of_block, kind="stable")
        cuts = np.flatnonzero(np.diff(of_block[order], prepend=-1))
        for start, stop in zip(cuts.tolist(), [*cuts[1:].tolist(), len(order)], strict=True):
            some = order[start:stop]
            found[some] = np.asarray(self.block(int(of_block[some[0]])))[places[some] & self.mask]
        return found

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        whole = self._slice(0, self._length)
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def searchsorted(self, values: Any, side: str = "left", sorter: None = None) -> Any:
        """As NumPy's, of an array that ascends; `np.searchsorted` calls it. Reads the blocks that the search meets."""
        wanted = np.asarray(values).reshape(-1)
        order = np.argsort(wanted, kind="stable")
        ascending = wanted[order]
        found = np.zeros(len(wanted), np.int64)
        at, block, last_block = 0, 0, len(self.blocks) - 1
        while at < len(ascending) and last_block >= 0:
            block = self._ending_after(int(ascending[at]), side, block)
            items = np.asarray(self.block(block))
            inside = len(ascending)
            if block < last_block:
                inside = int(np.searchsorted(ascending, items[-1], "right" if side == "left" else "left"))
            found[order[at:inside]] = (block << self.shift) + np.searchsorted(items, ascending[at:inside], side)  # type: ignore[call-overload]
            at = max(inside, at + 1)  # a damaged order must not stop the search from ending
        return found if np.ndim(values) else found[0]

    def _ending_after(self, value: int, side: str, low: int) -> int:
        """The first block from `low` on that ends above the value (for "left": not below it), else the last."""
        high = len(self.blocks) - 1
        step = 1
        middle = low  # what is looked for next is often near what was looked for last
        while low < high:
            end = self.block(middle)[-1]
            if end > value or (side == "left" and end == value):
                high = middle
            else:
                low = middle + 1
            middle = min(low + step, (low + high) // 2)
            step *= 2
        return low

    def bisect_uniform(self, value: int) -> int:
        """`bisect_left` among 64-bit hashes, which lie evenly: the block is guessed, and mostly right."""
        at = value * self._length >> 64 + self.shift
        block = self.blocks[at] or self.block(at)
        while at and block[0] >= value:
            at -= 1
            block = self.block(at)
        while block[-1] < value and at + 1 < len(self.blocks):
            at += 1
            block = self.block(at)
        return (at << self.shift) + bisect_left(block, value)


class BlockView:
    """The items of a `BlockArray` as Python ints, its slices as memoryviews: what one hop asks many times."""

    __slots__ = ("array", "blocks", "mask", "shift")

    def __init__(self, array: BlockArray) -> None:
        self.array, self.blocks, self.shift, self.mask = array, array.blocks, array.shift, array.mask

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, wanted: int | slice) -> Any:
        shift = self.shift
        if type(wanted) is slice:
            low, last = wanted.start, wanted.stop - 1
            at = low >> shift
            if low > last or last >> shift != at:
                return self.array[wanted].data
            return (self.blocks[at] or self.array.block(at))[low & self.mask : (last & self.mask) + 1]
        at = wanted >> shift
        return (self.blocks[at] or self.array.block(at))[wanted & self.mask]

    def pair(self, at: int) -> tuple[int, int]:
        """The items at this place and the next."""
        block = at >> self.shift
        held, place = self.blocks[block] or self.array.block(block), at & self.mask
        return held[place], held[place + 1] if place < self.mask else self[at + 1]

    def name(self, offsets: BlockView, number: int) -> str:
        """The UTF-8 text from `offsets[number]` to the next offset: `str(self[...], "utf-8")` without its calls."""
        start, stop = offsets.pair(number)
        at, first = start >> self.shift, start & self.mask
        last = first + stop - start
        if last > self.mask or start == stop:  # in two blocks, or in none
            return str(self.array[start:stop], "utf-8")
        return str((self.blocks[at] or self.array.block(at))[first:last], "utf-8")


class BlockRows:
    """A `BlockArray` as rows of so many items, for passes over all; kept in memory if a pool would hold it."""

    def __init__(self, array: BlockArray, width: int) -> None:
        self.shape = (len(array) // width, width)
        self._array, self._width = array, width
        self._whole: npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        if self._whole is None and self._array.nbytes <= POOL_BYTES:
            self._whole = np.asarray(self._array).reshape(-1, self._width)
        if self._whole is not None:
            return self._whole[rows]
        low, high, _ = rows.indices(len(self))
        some: npt.NDArray[Any] = self._array[low * self._width : high * self._width]
        return some.reshape(-1, self._width)
