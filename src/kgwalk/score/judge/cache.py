"""Verdicts on disk: one SQLite file that several processes may share and that a kill at any moment leaves whole.

Each verdict is one transaction in a write-ahead log, so what was paid for is kept when the process dies a moment later.
Failures are listed beside the verdicts, for a person to read, and are never given back as verdicts: the next run asks
again. The file also holds the secret from which the judge's keys are made. Knows nothing of kinds or prompts.
"""

from __future__ import annotations

import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kgwalk.runs.sqlite import share
from kgwalk.score.judge.verdict import Verdict
from kgwalk.types import StoreError

FILE = "judge.sqlite"
FORMAT = 1
WAIT = 60.0  # seconds for which a write waits for another process's
SCHEMA = """
CREATE TABLE IF NOT EXISTS secret (only INTEGER PRIMARY KEY CHECK (only = 1), salt BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS verdicts (
    digest BLOB PRIMARY KEY, kind TEXT NOT NULL, model TEXT NOT NULL, reply TEXT NOT NULL, cut INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL, generated_tokens INTEGER NOT NULL, at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failures (
    id INTEGER PRIMARY KEY, digest BLOB NOT NULL, kind TEXT NOT NULL, model TEXT NOT NULL, why TEXT NOT NULL,
    reply TEXT NOT NULL, at REAL NOT NULL
);
"""


class Failed(NamedTuple):
    """A call that gave no verdict. `at` is in seconds since 1970."""

    kind: str
    model: str
    why: str
    reply: str
    at: float


class VerdictCache:
    """The file in `folder`, which is made if need be; without a folder, memory for the life of this object."""

    def __init__(self, folder: Path | None) -> None:
        self._lock = threading.Lock()
        self._place = ":memory:" if folder is None else str(folder / FILE)
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make the folder of the judge's cache, {folder}: {error.strerror}") from error
        with self._errors():
            # No implicit transactions: each statement stands alone, on disk when it returns.
            self._db = sqlite3.connect(self._place, timeout=WAIT, check_same_thread=False, isolation_level=None)
        try:
            self.salt = self._open()
        except BaseException:
            self._db.close()
            raise

    def _open(self) -> bytes:
        with self._errors():
            share(self._db, WAIT)
            self._db.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing; a power cut, the last few
            (found,) = self._db.execute("PRAGMA user_version").fetchone()
            if found not in (0, FORMAT):
                raise StoreError(f"{self._place} has format {found}, this kgwalk reads {FORMAT}; give another folder")
            self._db.executescript(SCHEMA)
            self._db.execute(f"PRAGMA user_version = {FORMAT}")
            # Of two processes that start at once, both read the one that came first.
            self._db.execute("INSERT OR IGNORE INTO secret VALUES (1, ?)", (secrets.token_bytes(32),))
            (salt,) = self._db.execute("SELECT salt FROM secret").fetchone()
        return bytes(salt)

    def get(self, digest: bytes) -> tuple[str, bool] | None:
        """The reply that held a verdict, to be read again with the same key, and whether the text had been cut."""
        with self._lock, self._errors():
            row = self._db.execute("SELECT reply, cut FROM verdicts WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else (row[0], bool(row[1]))

    def put(self, digest: bytes, model: str, verdict: Verdict) -> None:
        """A verdict is kept, a failure listed."""
        now = time.time()
        reply = verdict.reply.encode("utf-8", "replace").decode()  # half a surrogate pair is no text for a file
        with self._lock, self._errors():
            if verdict.value is None:
                failed = (digest, verdict.kind, model, verdict.failure, reply, now)
                self._db.execute(
                    "INSERT INTO failures (digest, kind, model, why, reply, at) VALUES (?, ?, ?, ?, ?, ?)", failed
                )
                return
            spent = (verdict.cut, verdict.prompt_tokens, verdict.generated_tokens, now)
            row = (digest, verdict.kind, model, reply, *spent)
            self._db.execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def __len__(self) -> int:
        with self._lock, self._errors():
            (count,) = self._db.execute("SELECT count(*) FROM verdicts").fetchone()
        return int(count)

    def failures(self) -> list[Failed]:
        """In the order they came."""
        with self._lock, self._errors():
            rows = self._db.execute("SELECT kind, model, why, reply, at FROM failures ORDER BY id").fetchall()
        return [Failed(*row) for row in rows]

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            hint = "move the file away, or give the judge another folder"
            raise StoreError(f"the judge's cache {self._place} cannot be used: {error}; {hint}") from error
