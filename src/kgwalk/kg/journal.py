"""The journal of a store: what was changed since it was built, a file inside its folder that only grows.

    {"kgwalk": "updates", "version": 1, "store": "5d1c...", "line": "77a0..."}
    {"batch": 1, "bytes": 79, "xxh3": "8c0e...", "line": "b1f4..."}
    ["+", "Big", "release_year", "1988"]
    ["-", "Big", "directed_by", "Ron Howard"]

A batch is a line that announces it and so many bytes of lines, one a change. It is on the disk before its writer says
that it is done. So a file that ends within a batch was cut by a kill or a power failure: that batch was never
acknowledged, readers pass it over, and the next writer cuts it off. Any other byte that differs from its checksum is an
error. Entities and relations are written by their keys: the source's ids where the store has ids, else the names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import xxhash

from kgwalk.kg.files import sync_folder
from kgwalk.kg.store import JOURNAL
from kgwalk.types import StoreError

VERSION = 1


class KeyedFact(NamedTuple):
    """A fact by the keys of its entities and relation; `time` is "" where it has none."""

    head: str
    relation: str
    tail: str
    time: str = ""


@dataclass
class NetChanges:
    """What a journal comes to: the facts that are new and those that are gone, and names that were given.

    A fact is added only where it is not there, and removed only where it is; so the later of two changes of one fact
    undoes the earlier.

    >>> changes = NetChanges()
    >>> for change in (["+", "Big", "year", "1988"], ["-", "Big", "by", "Ron"], ["-", "Big", "year", "1988"]):
    ...     changes.apply(change)
    >>> changes.added, changes.removed
    ({}, {KeyedFact(head='Big', relation='by', tail='Ron', time=''): None})
    """

    added: dict[KeyedFact, None] = field(default_factory=dict)  # in the order they came
    removed: dict[KeyedFact, None] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # of new entities' keys, where a store has ids
    relation_names: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)  # a further name, to the key that it means

    def apply(self, change: Sequence[str]) -> None:
        """One line of a journal; ValueError if it is none."""
        match change:
            case ["+", *parts] if len(parts) in (3, 4):
                self.add(KeyedFact(*parts))
            case ["-", *parts] if len(parts) in (3, 4):
                self.remove(KeyedFact(*parts))
            case ["name", key, name]:
                self.names[key] = name
            case ["relation", key, name]:
                self.relation_names[key] = name
            case ["alias", name, key]:
                self.aliases[name] = key
            case _:
                raise ValueError("no change")

    def add(self, fact: KeyedFact) -> None:
        if fact in self.removed:
            del self.removed[fact]
        else:
            self.added[fact] = None

    def remove(self, fact: KeyedFact) -> None:
        if fact in self.added:
            del self.added[fact]
        else:
            self.removed[fact] = None


class JournalState(NamedTuple):
    """A journal as it was read."""

    changes: NetChanges
    batches: int
    end: int  # bytes up to the end of the last whole batch
    digest: str  # of those bytes; "" where there is no batch


def read_journal(folder: Path, store_digest: str) -> JournalState:
    """What the journal inside a store's folder says; StoreError where it is damaged, or another store's."""
    path = folder / JOURNAL
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return JournalState(NetChanges(), 0, 0, "")
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    changes, batches, end = NetChanges(), 0, 0
    for lines, end_of_batch in _batches(path, data, store_digest):
        try:
            for line in lines:
                changes.apply(orjson.loads(line))
        except (orjson.JSONDecodeError, ValueError, TypeError) as error:
            raise _damaged(path, end) from error
        batches, end = batches + 1, end_of_batch
    return JournalState(changes, batches, end, xxhash.xxh3_64_hexdigest(data[:end]) if batches else "")


def _batches(path: Path, data: bytes, store_digest: str) -> Iterator[tuple[list[bytes], int]]:
    """The lines of each whole batch, and where it ends."""
    head, at = _line(data, 0)
    if at is None or (head is None and b"\0" in data):
        return
    if head is None:
        raise _damaged(path, 0)
    if head.get("kgwalk") != "updates" or head.get("version") != VERSION:
        raise StoreError(f"{path} is no journal that this kgwalk reads; build the store again")
    if head.get("store") != store_digest:
        raise StoreError(f"{path} belongs to another store than the one it lies in; take it away to use the store")
    number = 0
    while at < len(data):
        about, start = _line(data, at)
        if start is None:
            return
        body = b"" if about is None else data[start : start + about["bytes"]]
        short = about is not None and len(body) < about["bytes"]
        if about is None or short or xxhash.xxh3_64_hexdigest(body) != about["xxh3"] or about["batch"] != number + 1:
            # Zeros are a page that never reached the disk. After an acknowledged batch comes another one's line.
            if (short or b"\0" in data[at:]) and b'\n{"batch":' not in data[start:]:
                return
            raise _damaged(path, at)
        number, at = number + 1, start + len(body)
        yield body.splitlines(), at


def _line(data: bytes, at: int) -> tuple[dict[str, Any] | None, int | None]:
    """The object on the line that begins at a place, None if its checksum is wrong; and where the line ends, None for
    half a line.
    """
    end = data.find(b"\n", at)
    if end < 0:
        return None, None
    with suppress(orjson.JSONDecodeError):
        found = orjson.loads(data[at:end])
        if isinstance(found, dict) and found.pop("line", None) == xxhash.xxh3_64_hexdigest(orjson.dumps(found)):
            return found, end + 1
    return None, end + 1


def _written(about: dict[str, Any]) -> bytes:
    """A line that announces something, with a checksum of its own."""
    return orjson.dumps({**about, "line": xxhash.xxh3_64_hexdigest(orjson.dumps(about))}) + b"\n"


def _damaged(path: Path, at: int) -> StoreError:
    return StoreError(
        f"{path} is damaged after byte {at:,}: its bytes do not match their checksum; copy it again from where it is "
        "whole, or take it away and update the store again"
    )


def append(folder: Path, store_digest: str, state: JournalState, changes: Sequence[Sequence[str]]) -> None:
    """Write one batch after those of the state, and return when it is on the disk.

    Only one process may do so at a time. What is left of a batch that was cut off goes first.
    """
    path = folder / JOURNAL
    body = b"".join(orjson.dumps(change) + b"\n" for change in changes)
    about = {"batch": state.batches + 1, "bytes": len(body), "xxh3": xxhash.xxh3_64_hexdigest(body)}
    data = _written(about) + body
    if not state.batches:
        data = _written({"kgwalk": "updates", "version": VERSION, "store": store_digest}) + data
    new = not path.exists()
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        os.ftruncate(handle, state.end)
        os.lseek(handle, state.end, os.SEEK_SET)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            os.fsync(handle)
        except OSError:  # a full disk: leave nothing that looks like a batch
            with suppress(OSError):
                os.ftruncate(handle, state.end)
            raise
    finally:
        os.close(handle)
    if new:
        sync_folder(folder)


def stamp(folder: str | Path) -> tuple[int, int, int] | None:
    """What tells a journal from what it was before: its file, size and time; None if there is none."""
    try:
        found = os.stat(Path(folder) / JOURNAL)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
