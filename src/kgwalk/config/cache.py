"""The cache folder, and how several processes share what lies in it.

What lies there is made once and could be made again: converted models, embeddings, downloaded data sets. A folder that
`made_once` has made has a list of checksums: one whose files have changed since is made again.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import xxhash
from platformdirs import user_cache_path

from kgwalk.types import EngineError, KgwalkError

log = logging.getLogger(__name__)

CACHE_VARIABLE = "KGWALK_CACHE"
CHECKSUMS = "checksums.json"  # of each file of a folder made once; written last, so it says that the folder is whole
PAUSE = 0.01  # seconds between two tries to begin a write-ahead log


def cache_folder() -> Path:
    """KGWALK_CACHE, else `kgwalk` in the user's cache folder: on Linux in XDG_CACHE_HOME, else in ~/.cache."""
    own = os.environ.get(CACHE_VARIABLE, "").strip()
    return Path(own).expanduser() if own else user_cache_path("kgwalk", appauthor=False)


@contextmanager
def exclusive(place: Path) -> Iterator[None]:
    """While one process makes `place`, others that want to wait here. The kernel frees the lock of a dead one."""
    from filelock import FileLock  # slow to import, and mostly there is nothing to make

    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(place.with_name(f"{place.name}.lock")):
        yield


def made_once(place: Path, make: Callable[[Path], object], what: str, room: str = "") -> Path:
    """The folder `place`, which `make` fills at the first call, and again if its files are damaged.

    It is filled under another name and then renamed, so there is never half a folder, even if the process is killed.
    `what` is kept there, for messages; `room` says how much space it takes.
    """
    if damage(place) is None:
        return place
    beside = place.with_name(f".{place.name}.partial")
    try:
        with exclusive(place):
            wrong = damage(place)
            if wrong is None:  # another process has made it meanwhile
                return place
            if place.exists():
                log.warning("%s: %s; it is made again", place, wrong)
            shutil.rmtree(beside, ignore_errors=True)  # left by a process that was killed: this one has the lock
            beside.mkdir()
            try:
                make(beside)
                for path in beside.iterdir():  # some libraries write private files; a cache may be shared
                    path.chmod(0o644)
                sums = {path.name: _checksum(path) for path in sorted(beside.iterdir())}
                (beside / CHECKSUMS).write_bytes(orjson.dumps({"files": sums, "all": _checksum_of(sums)}))
                shutil.rmtree(place, ignore_errors=True)
                beside.rename(place)
            finally:
                shutil.rmtree(beside, ignore_errors=True)
    except KgwalkError:
        raise
    except Exception as error:
        if not (isinstance(error, OSError) or cannot_write(error)):
            raise
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise EngineError(
            f"{what} cannot be kept as {place}: {why}\n"
            f"  {f'It takes about {room}; set' if room else 'Set'} {CACHE_VARIABLE} to a folder that has the room."
        ) from error
    return place


def damage(place: Path) -> str | None:
    """What is wrong with a folder that `made_once` made, in words; None if its files are as they were written."""
    try:
        found = orjson.loads((place / CHECKSUMS).read_bytes())
        sums = {str(name): str(value) for name, value in found["files"].items()}
        if found["all"] != _checksum_of(sums):
            return f"{CHECKSUMS} is damaged"
        changed = next((name for name, value in sums.items() if _checksum(place / name) != value), None)
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        return f"it cannot be read ({error})"
    return None if changed is None else f"{changed} is damaged"


def cannot_write(error: Exception) -> bool:
    """Whether the disk is full or read-only. Libraries raise errors of their own, with the number in the text."""
    numbers = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
    if isinstance(error, OSError):
        return error.errno in numbers
    return any(f"(os error {number})" in str(error) for number in numbers)


def _checksum(file: Path) -> str:
    digest = xxhash.xxh3_128()
    with file.open("rb") as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
    return str(digest.hexdigest())


def _checksum_of(sums: dict[str, str]) -> str:
    return str(xxhash.xxh3_128(orjson.dumps(sums)).hexdigest())


def use_write_ahead_log(db: sqlite3.Connection, wait: float) -> None:
    """Put a SQLite file into write-ahead mode, in which many readers and one writer use it at the same time.

    To begin the log, SQLite wants the file for itself and does not wait for it, as it waits for a write: when several
    processes open a new file at once, some are refused. They try again here, for `wait` seconds. On a file system that
    cannot have such a log SQLite keeps its older journal.
    """
    until = time.monotonic() + wait
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # the low byte: the code without its details
            if not busy or time.monotonic() > until:
                raise
            time.sleep(PAUSE)
        else:
            return
