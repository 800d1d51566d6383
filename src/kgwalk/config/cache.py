"""The cache folder: where things lie that are made once and could be made again.

Knows its place and how processes wait for one another there, not what is kept.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE_VARIABLE = "KGWALK_CACHE"


def cache_folder() -> Path:
    """KGWALK_CACHE, else kgwalk in the user's cache folder (XDG_CACHE_HOME, else ~/.cache)."""
    own = os.environ.get(CACHE_VARIABLE, "").strip()
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(shared) if shared else Path.home() / ".cache") / "kgwalk"


@contextmanager
def one_at_a_time(place: Path) -> Iterator[None]:
    """While one process makes `place`, others that want to wait here; the kernel frees a dead one's lock."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(place.with_name(f"{place.name}.lock"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# ----------------------------------------------------------------------------------------------------
# A SQLite file that several processes share: a write-ahead log, which readers and one writer use at once.
#
# To begin such a log SQLite wants the file for itself, and does not wait for it as it waits for a write: of processes
# that open a new file at the same moment, some are refused. They try again.


PAUSE = 0.01  # seconds


def share(db: sqlite3.Connection, wait: float) -> None:
    """Begin the log, or find it begun, within `wait` seconds; where a file system cannot have one, SQLite keeps its
    older journal.
    """
    until = time.monotonic() + wait
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:  # without its details
                raise
            time.sleep(PAUSE)
        else:
            return
