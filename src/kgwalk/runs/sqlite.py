"""A SQLite file that several processes share: a write-ahead log, which readers and one writer use at once.

To begin such a log SQLite wants the file for itself, and does not wait for it as it waits for a write: of processes
that open a new file at the same moment, some are refused. They try again.
"""

from __future__ import annotations

import sqlite3
import time

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
