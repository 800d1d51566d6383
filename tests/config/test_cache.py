"""The cache folder, its locks, and a SQLite file that several processes open at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import threading
import time
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import pytest

from kgwalk.config.cache import cache_folder, damage, exclusive, made_once, use_write_ahead_log
from kgwalk.types import EngineError


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KGWALK_CACHE", "~/here")
    assert cache_folder() == Path.home() / "here"
    monkeypatch.setenv("KGWALK_CACHE", " ")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "kgwalk"
    for empty in ("", " "):
        monkeypatch.setenv("XDG_CACHE_HOME", empty)
        assert cache_folder() == Path.home() / ".cache" / "kgwalk"
    assert not (tmp_path / "kgwalk").exists()  # to name it makes nothing


def _hold(place: Path, began: Event) -> None:
    with exclusive(place):
        began.set()
        time.sleep(600)


def test_a_process_that_dies_frees_its_lock(tmp_path: Path) -> None:
    """Another waits while the first lives, and goes on when it was killed."""
    place, began = tmp_path / "new" / "model", multiprocessing.Event()
    first = multiprocessing.Process(target=_hold, args=(place, began))
    first.start()
    assert began.wait(60)
    entered = threading.Event()

    def wait() -> None:
        with exclusive(place):
            entered.set()

    second = threading.Thread(target=wait)
    second.start()
    assert not entered.wait(0.3)
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    assert entered.wait(30)
    second.join()
    first.join()


def test_threads_take_turns_too(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        with exclusive(tmp_path / "made"):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.01)
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 4


def connect(path: Path, timeout: float = 10) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)


def test_one_that_has_the_file_for_itself_is_waited_for(tmp_path: Path) -> None:
    first, second = connect(tmp_path / "db"), connect(tmp_path / "db", timeout=0.05)  # the waiting is not SQLite's
    first.execute("BEGIN EXCLUSIVE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        use_write_ahead_log(second, 0.05)
    soon = threading.Timer(0.2, lambda: first.execute("COMMIT"))
    soon.start()
    began = time.monotonic()
    use_write_ahead_log(second, 30)
    assert 0.1 < time.monotonic() - began < 20
    assert second.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    soon.join()


def _open(path: Path, together: Barrier) -> None:
    together.wait()
    db = connect(path)
    use_write_ahead_log(db, 30)
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
        use_write_ahead_log(connect(tmp_path / "db"), 600)


def test_a_folder_is_made_once_and_again_when_damaged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made: list[Path] = []

    def make(beside: Path) -> None:
        made.append(beside)
        (beside / "a").write_text("1")
        (beside / "b").write_text("2")

    place = tmp_path / "models" / "one"
    assert made_once(place, make, "a model") == made_once(place, make, "a model") == place
    assert len(made) == 1
    assert not caplog.records
    (place / "b").write_text("3")
    assert damage(place) == "b is damaged"
    made_once(place, make, "a model")
    assert caplog.messages == [f"{place}: b is damaged; it is made again"]
    assert (place / "b").read_text() == "2"
    (place / "checksums.json").unlink()  # as folders of older versions are
    made_once(place, make, "a model")
    assert len(made) == 3
    assert [path.name for path in place.parent.iterdir() if path.is_dir()] == ["one"]


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), Exception("No space left on device (os error 28)")]
)
def test_a_full_disk_is_told_with_what_to_do(error: Exception, tmp_path: Path) -> None:
    def make(beside: Path) -> None:
        (beside / "half").write_text("1")
        raise error

    with pytest.raises(EngineError) as told:
        made_once(tmp_path / "one", make, "a model", "0.5 GB")
    assert str(told.value).startswith(f"a model cannot be kept as {tmp_path / 'one'}: No space left on device")
    assert str(told.value).endswith("It takes about 0.5 GB; set KGWALK_CACHE to a folder that has the room.")
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_bug_is_no_full_disk(tmp_path: Path) -> None:
    def make(beside: Path) -> None:
        raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        made_once(tmp_path / "one", make, "a model")
