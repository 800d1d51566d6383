"""What engines answered, on disk: one SQLite file that processes share, with an age limit.

A connection is opened for each look: threads and forked processes need no care, and it takes a tenth of a millisecond.
Knows documents by a key; no query's key holds a secret.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from kgwalk.config.cache import CACHE_VARIABLE
from kgwalk.runs.sqlite import share
from kgwalk.types import Document, StoreError

WAIT = 30.0  # seconds for which a write waits for another process's
DAY = 86_400.0
SCHEMA = "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, documents BLOB NOT NULL, at REAL NOT NULL)"


class ReplyCache:
    """The file at `path`; what is older than `days` counts as not there, and is removed in time."""

    def __init__(self, path: Path, days: float) -> None:
        self._path, self._age = path, days * DAY
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"cannot make the folder {path.parent}: {error.strerror}\n"
                f"  Set {CACHE_VARIABLE} to a folder that can be written to."
            ) from error
        with self._opened() as db:
            share(db, WAIT)
            db.execute(SCHEMA)
            db.execute("DELETE FROM replies WHERE at < ?", (time.time() - self._age,))

    def get(self, key: str) -> list[Document] | None:
        with self._opened() as db:
            row = db.execute(
                "SELECT documents FROM replies WHERE key = ? AND at >= ?", (key, time.time() - self._age)
            ).fetchone()
        return None if row is None else [Document(*fields) for fields in orjson.loads(row[0])]

    def put(self, key: str, documents: list[Document]) -> None:
        kept = orjson.dumps([(one.title, one.text, one.source) for one in documents])
        with self._opened() as db:
            db.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", (key, kept, time.time()))

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            db = sqlite3.connect(self._path, timeout=WAIT, isolation_level=None)
            try:
                yield db
            finally:
                db.close()
        except sqlite3.Error as error:
            raise StoreError(f"the cache {self._path} cannot be used: {error}; move that file away") from error
