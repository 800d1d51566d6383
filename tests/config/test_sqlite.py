"""A file that several processes open at once: each gets its turn, and what is no database is told at once."""

from __future__ import annotations

import multiprocessing
import sqlite3
import threading
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from kgwalk.config.cache import share


def connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)


def test_one_that_has_the_file_for_itself_is_waited_for(tmp_path: Path) -> None:
    first, second = connect(tmp_path / "db"), connect(tmp_path / "db")
    first.execute("BEGIN EXCLUSIVE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        share(second, 0.05)
    soon = threading.Timer(0.2, lambda: first.execute("COMMIT"))
    soon.start()
    began = time.monotonic()
    share(second, 30)
    assert 0.1 < time.monotonic() - began < 20
    assert second.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    soon.join()


def _open(path: Path, together: Barrier) -> None:
    together.wait()
    db = connect(path)
    share(db, 30)
    db.execute("CREATE TABLE IF NOT EXISTS made (at INTEGER PRIMARY KEY)")


def test_a_new_file_is_opened_by_many_at_once(tmp_path: Path) -> None:
    for turn in range(5):
        together = multiprocessing.Barrier(4)
        processes = [multiprocessing.Process(target=_open, args=(tmp_path / f"{turn}", together)) for _ in range(4)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(60)
        assert [process.exitcode for process in processes] == [0] * 4


def test_what_is_no_database_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "db").write_bytes(b"no database, and long enough to be looked at" * 30)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        share(connect(tmp_path / "db"), 600)
