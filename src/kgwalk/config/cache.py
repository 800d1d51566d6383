"""The cache folder, and how several processes share what lies in it.

What lies there is made once and could be made again: converted models, embeddings, downloaded data sets.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_cache_path

CACHE_VARIABLE = "KGWALK_CACHE"
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
