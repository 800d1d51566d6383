"""A folder of arrays on disk: raw little-endian files, described by one checksummed header.

`FolderWriter` writes one and `Folder` opens it; a store is such a folder, and so are its question subgraphs. The header
`kgwalk.json` is written last, and the folder gets its name last, by a rename, so a folder that opens is complete.
No byte is used before its checksum was compared: a folder of up to `WHOLE_BYTES` is checked when it is opened, the
large arrays of a larger one by block when they are asked (`blocks`). So a changed file is an error, not another answer.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import glob
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import xxhash

from kgwalk.kg.blocks import BLOCK_BYTES, ArrayBytes, BlockArray, BlockPool, BlockSums, Sums, block_count
from kgwalk.types import InputError, StoreError

HEADER = "kgwalk.json"
BLOCKS = "blocks"  # the array with the checksums of all blocks, in folders larger than WHOLE_BYTES
WHOLE_BYTES = 256 << 20  # a folder of up to this size is checked when it is opened, at some 20 GB/s
SMALL_BYTES = 1 << 20  # and of a larger one, the arrays of up to this size
MOST_HEADER_BYTES = 16 << 20
_NAME = re.compile(r"[a-z_]+(\.[a-z_]+)?")
DTYPES = ("|u1", "<u2", "<u4", "<u8", "<i4")  # what a store's arrays hold
Array = npt.NDArray[Any]


class ArrayFile:
    """One array that grows by appending; its checksum is taken as it is written."""

    def __init__(self, path: Path, dtype: npt.DTypeLike) -> None:
        self.path, self.dtype, self.items = path, np.dtype(dtype).newbyteorder("<"), 0
        self._digest, self._blocks = xxhash.xxh3_64(), BlockSums()
        self._file: BinaryIO = open(path, "wb", buffering=0)  # noqa: SIM115 - closed by close()

    def append(self, values: Array | bytes) -> None:
        data = values if isinstance(values, bytes) else np.ascontiguousarray(values, self.dtype).tobytes()
        self._digest.update(data)
        self._blocks.update(data)
        view = memoryview(data)
        while view:  # an unbuffered write may take only a part of the bytes
            view = view[self._file.write(view) :]
        self.items += len(data) // self.dtype.itemsize

    def close(self) -> dict[str, Any]:
        """Flush to disk and describe the array, as it stands in the header."""
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()
        return {"dtype": self.dtype.str, "items": self.items, "xxh3": self._digest.hexdigest()}

    def block_sums(self) -> Sums:
        return self._blocks.values()

    def abandon(self) -> None:
        self._file.close()


class FolderWriter:
    """Writes a folder so that it appears whole or not at all; use as a context manager.

    A lock allows one writer for each target and refuses a second. So an unfinished folder that a writer finds was left
    by a killed process, and is removed. An exception inside the `with` leaves nothing behind.
    """

    def __init__(self, target: Path, *, kind: str, version: int, replace: bool = False) -> None:
        self.target, self.kind, self.version, self.replace = target, kind, version, replace
        self._arrays: dict[str, ArrayFile] = {}
        if target.exists() and not replace:
            raise StoreError(f"{target} exists; choose another name, or replace it with --force")
        if target.exists() and not (target / HEADER).is_file():
            raise StoreError(f"{target} exists and is not a kgwalk folder, so it will not be replaced")

    def __enter__(self) -> FolderWriter:
        parent = self.target.absolute().parent
        prefix = f".{self.target.name}.building-"
        with naming_disk_errors(f"cannot write {self.target}"):
            parent.mkdir(parents=True, exist_ok=True)
            self._lock_path = parent / f".{self.target.name}.lock"
            self._lock = locked(self._lock_path, self.target)
            for abandoned in parent.glob(glob.escape(prefix) + "*"):
                shutil.rmtree(abandoned, ignore_errors=True)
            self.folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        return self

    def array(self, name: str, dtype: npt.DTypeLike) -> ArrayFile:
        array = ArrayFile(self.folder / f"{name}.bin", dtype)
        self._arrays[name] = array
        return array

    def write(self, name: str, values: Array) -> None:
        self.array(name, values.dtype).append(values)

    def __getitem__(self, name: str) -> Array:
        """What has been written of an array so far, memory-mapped, for later steps of a build."""
        array = self._arrays[name]
        return np.memmap(array.path, array.dtype, "r") if array.items else np.empty(0, array.dtype)

    def finish(self, facts: dict[str, Any]) -> None:
        """Write the header and give the folder its name."""
        if sum(array.items * array.dtype.itemsize for array in self._arrays.values()) > WHOLE_BYTES:
            self.write(BLOCKS, np.concatenate([array.block_sums() for array in self._arrays.values()]))
            facts = {**facts, "block_bytes": BLOCK_BYTES}
        arrays = {name: array.close() for name, array in self._arrays.items()}
        body = {"kind": self.kind, "version": self.version, **facts, "arrays": arrays}
        write_header(self.folder, body)
        os.chmod(self.folder, 0o777 & ~_umask())  # mkdtemp's folders are for their owner only
        sync_folder(self.folder)
        if self.target.exists():
            _exchange(self.folder, self.target)
        else:
            os.rename(self.folder, self.target)
        sync_folder(self.target.absolute().parent)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for array in self._arrays.values():
            array.abandon()
        shutil.rmtree(self.folder, ignore_errors=True)  # what failed, or what was replaced
        self._lock_path.unlink(missing_ok=True)
        self._lock.close()


class Folder:
    """A store folder opened read-only: the header's facts, and each array, mapped, in memory or as a `BlockArray`.

    It goes on as it is when the folder is replaced by another or removed. With `private`, nothing is mapped, so it also
    outlives programs that write into its files: for a server, whose other graphs should not suffer.
    """

    def __init__(self, path: Path, *, kind: str, version: int, private: bool = False) -> None:
        self.path, self.private = path, private
        self.header = read_header(path, kind=kind, version=version)
        self._entries = {name: _entry(path, name, entry) for name, entry in self.header["arrays"].items()}
        small = SMALL_BYTES if self.size() > WHOLE_BYTES else WHOLE_BYTES
        self._arrays: dict[str, Any] = {}
        self._files: dict[str, ArrayBytes] = {}  # of the arrays that are read by block
        for name, entry in self._entries.items():
            file = ArrayBytes(path / f"{name}.bin", entry.size)
            if entry.size <= small or name == BLOCKS:
                self._arrays[name] = _whole(file, entry, mapped=not private)
            else:
                self._files[name] = file
        if self._files:
            sums, pool = self._block_sums(), BlockPool()
            for name, file in self._files.items():
                self._arrays[name] = BlockArray(file, self._entries[name].dtype, sums[name], pool)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __getitem__(self, name: str) -> Any:
        """An array: a NumPy array that cannot be written, or a `BlockArray`."""
        if name not in self._arrays:
            raise forged(self.path, f"it lists no array {name!r}")
        return self._arrays[name]

    def array(self, name: str, dtypes: str, items: int | None = None) -> Any:
        """The array, which has one of these types and so many items; StoreError for any other."""
        array = self[name]
        if array.dtype.str not in dtypes.split():
            raise forged(self.path, f"the array {name!r} holds {array.dtype.str}, not {dtypes}")
        if items is not None and len(array) != items:
            raise forged(self.path, f"the array {name!r} has {len(array):,} items, not {items:,}")
        return array

    def size(self) -> int:
        return sum(self.sizes().values())

    def sizes(self) -> dict[str, int]:
        return {name: entry.size for name, entry in self._entries.items()}

    def verify(self) -> Iterator[tuple[str, int]]:
        """Compare every byte with its checksum; yields (array, bytes) as it goes, raises StoreError at a wrong one.

        An array that is not read by block was compared when the folder was opened.
        """
        for name, size in self.sizes().items():
            if name in self._files:
                self._read_sums(name)
            yield name, size

    def _block_sums(self) -> dict[str, Sums]:
        """The checksums of the blocks of each array. A folder written before there were any is read once for them."""
        if BLOCKS not in self._arrays or self.header.get("block_bytes") != BLOCK_BYTES:
            return {name: self._read_sums(name) for name in self._files}
        counts = {name: block_count(size) for name, size in self.sizes().items() if name != BLOCKS}
        every = self.array(BLOCKS, "<u8", sum(counts.values()))
        return dict(zip(counts, np.split(every, np.cumsum([*counts.values()])[:-1]), strict=True))

    def _read_sums(self, name: str) -> Sums:
        """The checksums of an array's blocks, from its file, which is compared with its own checksum."""
        digest, sums = xxhash.xxh3_64(), BlockSums()
        for chunk in self._files[name].chunks():
            digest.update(chunk.data)
            sums.update(chunk.data)
        if digest.hexdigest() != self._entries[name].digest:
            raise self._files[name].corrupted()
        return sums.values()


class _Entry(NamedTuple):
    """An array as the header describes it."""

    dtype: np.dtype[Any]
    size: int  # bytes
    digest: str


def _entry(path: Path, name: str, entry: object) -> _Entry:
    if isinstance(entry, dict) and _NAME.fullmatch(name):
        dtype, items, digest = entry.get("dtype"), entry.get("items"), entry.get("xxh3")
        if dtype in DTYPES and type(items) is int and items >= 0 and isinstance(digest, str):
            return _Entry(np.dtype(dtype), items * np.dtype(dtype).itemsize, digest)
    raise forged(path, f"the array {name[:60]!r} is described wrongly")


def _whole(file: ArrayBytes, entry: _Entry, *, mapped: bool) -> Array:
    data = file.mapped() if mapped else file.read(0, file.size)
    if xxhash.xxh3_64_hexdigest(data.data) != entry.digest:
        raise file.corrupted()
    return data.view(entry.dtype)


def damaged(path: Path) -> StoreError:
    """The error for a store whose arrays contradict each other, found while reading one by a number from another."""
    return StoreError(
        f"the store {path} is damaged; `kgwalk kg verify {path}` says where, `kgwalk kg build` makes it anew"
    )


def forged(path: Path, what: str) -> StoreError:
    """The error for a header that has the right checksum and cannot be one of ours."""
    return StoreError(f"{path / HEADER} is no header that kgwalk wrote: {what}; build the store again")


def write_header(folder: Path, body: dict[str, Any]) -> None:
    text = orjson.dumps({"xxh3": _header_digest(body), "header": body}, option=orjson.OPT_INDENT_2)
    with open(folder / HEADER, "wb") as file:
        file.write(text + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _header_digest(body: dict[str, Any]) -> str:
    return xxhash.xxh3_64_hexdigest(orjson.dumps(body))


def is_store(path: Path) -> bool:
    """Whether a folder has a header; InputError where the folder cannot be read."""
    with naming_read_errors(path):
        return (path / HEADER).is_file()


def read_header(path: Path, *, kind: str, version: int) -> dict[str, Any]:
    """The header of a folder of this kind and version; StoreError for any other, or a damaged one."""
    header = _checked_header(path)
    if header.get("kind") != kind:
        raise StoreError(f"{path} holds a {str(header.get('kind'))[:60]}, not a {kind}")
    if header.get("version") != version:
        raise StoreError(
            f"{path} was written in version {str(header.get('version'))[:60]} of the {kind} format and this kgwalk "
            f"reads version {version}; build it again from its source"
        )
    if not isinstance(header.get("arrays"), dict):
        raise forged(path, "it lists no arrays")
    return header


def _checked_header(path: Path) -> dict[str, Any]:
    with naming_read_errors(path):
        if not path.exists():
            raise StoreError(f"{path} does not exist; build it with `kgwalk kg build SRC -o {path}`")
        if path.is_dir() and not is_store(path):
            raise StoreError(_no_store(path))
    try:
        with open(path / HEADER, "rb") as file:
            text = file.read(MOST_HEADER_BYTES)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StoreError(
            f"{path} is not a kgwalk store (it has no {HEADER}); build one with `kgwalk kg build {path} -o NAME.kg`"
        ) from error
    except OSError as error:
        raise StoreError(f"cannot read {path / HEADER}: {error.strerror}") from error
    try:
        whole = orjson.loads(text)
        header: dict[str, Any] = whole["header"]
        good = isinstance(header, dict) and _header_digest(header) == whole["xxh3"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise StoreError(f"{path / HEADER} is truncated or corrupted; build the store again") from None
    if not good:
        raise StoreError(f"{path / HEADER} is corrupted: its checksum does not match; build the store again")
    return header


def _no_store(folder: Path) -> str:
    """The message for a folder that is no store; it names the stores inside it."""
    inside = sorted(str(path.parent) for path in folder.glob(f"*/{HEADER}"))
    instead = f"give {' or '.join(inside[:3])}" if inside else f"if it is a dataset, see `kgwalk data show {folder}`"
    return (
        f"{folder} is a folder without a store (it has no {HEADER}); {instead}\n"
        "  A store is made of files of facts: `kgwalk kg build FILE... -o NAME.kg`."
    )


@contextlib.contextmanager
def naming_read_errors(path: Path) -> Iterator[None]:
    """Turn an OSError from reading a path into an InputError that names it."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        hint = "choose one that you may read, or change its rights" if isinstance(error, PermissionError) else None
        raise InputError(f"cannot be read: {why}", path=str(error.filename or path), hint=hint) from error


@contextlib.contextmanager
def naming_disk_errors(doing: str) -> Iterator[None]:
    """Turn an OSError into a message that says what was being done and what helps."""
    advice = {
        errno.ENOSPC: "the disk is full; free some space or choose a folder on another disk",
        errno.EDQUOT: "the disk quota is used up; free some space or choose a folder on another disk",
        errno.EFBIG: "the file would pass the largest size allowed here (ulimit -f, or the file system's limit)",
        errno.EACCES: "no permission to write there; choose another folder",
        errno.EROFS: "that file system is read-only; choose another folder",
    }
    try:
        yield
    except OSError as error:
        why = advice.get(error.errno or 0, error.strerror or str(error))
        raise StoreError(f"{doing}: {why}") from error


def locked(path: Path, target: Path) -> BinaryIO:
    """The lock of a target, held while the file is open; the kernel releases it when the process dies."""
    while True:
        lock = open(path, "wb")  # noqa: SIM115 - closed by the writer
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise StoreError(f"another process is writing {target}; wait for it, or choose another name") from None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(path), os.fstat(lock.fileno())):
                return lock
        lock.close()  # its last holder removed the file between our open and our lock: try again with the new file


@contextlib.contextmanager
def sole_writer_of_store(target: Path, wait: float = 0.0) -> Iterator[None]:
    """While this process changes the store no other may, nor build it anew; waits so many seconds for another."""
    target = target.resolve()  # one lock for a store, however it is called
    place = target.parent / f".{target.name}.lock"
    until = time.monotonic() + wait
    while True:
        try:
            lock = locked(place, target)
            break
        except StoreError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.02)
    try:
        yield
    finally:
        place.unlink(missing_ok=True)
        lock.close()


def _exchange(new: Path, old: Path) -> None:
    """Swap two folders in one step where the system can (Linux); else by renames, with a moment of neither between."""
    at_cwd, exchange = -100, 2
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None or renameat2(at_cwd, os.fsencode(new), at_cwd, os.fsencode(old), exchange) != 0:
        aside = new.with_name(new.name + "-replaced")
        os.rename(old, aside)
        os.rename(new, old)
        os.rename(aside, new)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
