"""One process at a time writes into a folder or a file; a second one is told who does.

    with sole_writer(Path("runs/eval")):        # a folder: the lock is a file inside it
        ...
    with sole_writer_of(Path("demos.jsonl")):   # a file: the lock is a file beside it
        ...

The lock is a file of its own, `.lock`, since what a run writes is replaced by renaming, and a lock on a file that was
replaced keeps nobody out. It is taken before anything there is looked at. The kernel holds it for the process, so it is
free as soon as that one ends, however it ends; a `.lock` that lies there is not yet a lock. Beside it,
`.lock.holder` says who writes: it is only read to tell others. At the end both files go.
"""

from __future__ import annotations

import errno
import os
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from kgwalk.config.runtime import command
from kgwalk.types import KgwalkError

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK = ".lock"
HOLDER = ".lock.holder"  # JSON: pid, host, command, since
LOCK_FILES = (LOCK, HOLDER)  # no part of what is written
WAIT = 0.2  # seconds: another process may be just about to let go
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """While this process writes into the folder no other may.

    The folder is made if it is missing, and goes again if nothing was written into it.
    """
    if folder.exists() and not folder.is_dir():
        raise KgwalkError(f"{folder} is a file; give a folder for the run")
    with _held(folder / LOCK, f"into {folder}", "choose another folder"):
        yield


@contextmanager
def sole_writer_of(file: Path) -> Iterator[None]:
    """While this process writes the file no other may; its folder is made if it is missing."""
    with _held(file.with_name(f".{file.name}{LOCK}"), str(file), "choose another name"):
        yield


@contextmanager
def _held(place: Path, what: str, otherwise: str) -> Iterator[None]:
    made = [folder for folder in (place.parent, *place.parent.parents) if not folder.exists()]
    holder = place.with_name(f"{place.name}.holder")
    try:
        lock = _acquire(place)
        if lock is not None:
            _tell(holder)
    except OSError as error:
        _remove(made)
        why = error.strerror or error
        if error.errno in _NO_LOCKS:
            why = "its file system has no locks"
        elif error.errno == errno.EEXIST:
            why = f"{place.parent} is a file"
        raise KgwalkError(f"cannot write {what}: {why}; {otherwise}") from error
    if lock is None:
        raise KgwalkError(f"another process is writing {what}: {_holder(holder)}, or {otherwise}")
    try:
        yield
    finally:
        with suppress(OSError):
            holder.unlink()
        # Before it is released: after that, the file may already be another process's lock.
        with suppress(OSError):  # Windows removes no open file; then it stays, and is nobody's lock
            place.unlink()
        lock.release()
        _remove(made)


def is_written(folder: Path, lately: float = 600.0) -> bool:
    """Whether a process writes into the folder now, as far as reading tells: the lock itself is not touched.

    Of a process on another machine nothing is known but that it said so: what it began counts while a file of the
    folder is younger than `lately` seconds.
    """
    try:
        about: Any = orjson.loads((folder / HOLDER).read_bytes())
        pid, host = int(about["pid"]), str(about["host"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    if host == socket.gethostname():
        return _runs(pid)
    with suppress(OSError):
        return time.time() - max(inside.stat().st_mtime for inside in folder.iterdir()) < lately
    return False


def _acquire(place: Path) -> BaseFileLock | None:
    """The lock, taken; None if another process has it."""
    from filelock import FileLock, Timeout  # slow to import

    until = time.monotonic() + 10 * WAIT
    while True:
        lock = FileLock(place, thread_local=False)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=WAIT, poll_interval=WAIT / 10)
        except Timeout:
            return None
        # The last to write here has just removed the folder, which it had made and not used: before the file was
        # opened, or after mkdir found it there and before it looked whether it is a folder.
        except (FileNotFoundError, FileExistsError):
            if place.parent.is_file() or time.monotonic() > until:
                raise
            continue
        # The one who had it removed its file at the end. Who opened that file before has now locked a file that is no
        # longer there, and a lock on the one that is would succeed as well.
        try:
            with FileLock(place, thread_local=False).acquire(timeout=0):
                lock.release()
        except Timeout:
            return lock


def _tell(holder: Path) -> None:
    """Say who writes. Two never write this at once, since it is done within the lock."""
    about = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "command": command(),
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    beside = holder.with_name(f"{holder.name}.{os.getpid()}")
    try:
        beside.write_bytes(orjson.dumps(about))
        beside.replace(holder)
    finally:
        beside.unlink(missing_ok=True)


def _holder(file: Path) -> str:
    """Who has the lock, and what to do, in words."""
    wait = "wait for it to end"
    try:
        about: Any = orjson.loads(file.read_bytes())
        pid, host, since = int(about["pid"]), str(about["host"]), str(about["since"])
        typed = shlex.join(str(word) for word in about["command"])
    except (OSError, ValueError, KeyError, TypeError):  # it has the lock, and has not said yet who it is
        return f"it has just begun; {wait}"
    if host != socket.gethostname():
        return f"process {pid} on {host}, since {since}, `{typed}`; {wait}, stop it there"
    if not _runs(pid):
        return f"process {pid}, since {since}, `{typed}`, has ended, and one that it started still runs; {wait}"
    return f"process {pid} on this machine ({host}), since {since}, `{typed}`; {wait}, stop it with `kill {pid}`"


def _runs(pid: int) -> bool:
    if sys.platform == "win32":  # there a signal ends the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _remove(made: list[Path]) -> None:
    """Remove the folders that were made, inmost first, up to one that holds something."""
    with suppress(OSError):
        for folder in made:
            folder.rmdir()
