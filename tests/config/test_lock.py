"""One process at a time writes into a folder; the second is told who does. Real processes, killed and interrupted."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from commands import Cli
from kgwalk.config.lock import sole_writer, sole_writer_of
from kgwalk.config.run_folder import begin_run, open_run, write_json
from kgwalk.types import KgwalkError

HOLD = """
import sys, time
from pathlib import Path
from kgwalk.config.lock import sole_writer, sole_writer_of
with {lock}(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""
COUNT = """
import sys
from pathlib import Path
from kgwalk.config.lock import sole_writer
from kgwalk.types import KgwalkError
folder, counter = map(Path, sys.argv[1:3])
done = 0
for _ in range(60):
    try:
        with sole_writer(folder):
            before = int(counter.read_text())
            counter.write_text(f"{before + 1:09}")
            done += 1
    except KgwalkError as error:
        assert "another process is writing into" in str(error), error
print(done)
"""


@contextmanager
def held(place: Path, lock: str = "sole_writer") -> Iterator[subprocess.Popen[str]]:
    """Another process that has the lock."""
    command = [sys.executable, "-c", HOLD.format(lock=lock), str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        try:
            yield other
        finally:
            other.kill()


def names(folder: Path) -> list[str]:
    return sorted(inside.name for inside in folder.iterdir())


def test_the_second_is_told_who_writes(tmp_path: Path) -> None:
    with held(tmp_path / "run") as other:
        with pytest.raises(KgwalkError) as refused, sole_writer(tmp_path / "run"):
            pass
        said = re.fullmatch(
            rf"another process is writing into {re.escape(str(tmp_path / 'run'))}: process {other.pid} on this machine "
            rf"\({re.escape(socket.gethostname())}\), since \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ, `-c .*`; wait for it to "
            rf"end, stop it with `kill {other.pid}`, or choose another folder",
            str(refused.value),
        )
        assert said, str(refused.value)


def test_the_second_of_another_machine_is_not_told_to_kill(tmp_path: Path) -> None:
    with held(tmp_path / "run"):
        about = '{"pid": 7, "host": "elsewhere", "command": ["kgwalk", "eval"], "since": "2026-01-02T03:04:05Z"}'
        (tmp_path / "run" / ".lock.holder").write_text(about)
        with (
            pytest.raises(
                KgwalkError, match=r"process 7 on elsewhere, since 2026-01-02T03:04:05Z, `kgwalk eval`"
            ) as no,
            sole_writer(tmp_path / "run"),
        ):
            pass
        assert "kill" not in str(no.value)
        for damaged in ("", "[]", '{"pid": "x"}', '{"pid": 1, "host": 2, "since": 3, "command": 4}'):
            (tmp_path / "run" / ".lock.holder").write_text(damaged)
            with pytest.raises(KgwalkError, match="it has just begun; wait"), sole_writer(tmp_path / "run"):
                pass


def test_a_run_that_replaces_its_own_files_stays_locked(tmp_path: Path) -> None:
    """run.json is replaced by renaming: a lock on it would be on a file that is no longer there."""
    code = "import sys; from pathlib import Path; from kgwalk.config.run_folder import begin_run\n"
    code += "with begin_run(Path(sys.argv[1]), 'eval', {}): print('in')"
    with begin_run(tmp_path / "run", "eval", {}) as (folder, _):
        write_json(tmp_path / "run" / "run.json", folder.about)
        command = [sys.executable, "-c", code, str(tmp_path / "run")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1
        assert f"another process is writing into {tmp_path / 'run'}: process {os.getpid()}" in done.stderr
        assert "in" not in done.stdout
    assert names(tmp_path / "run") == ["run.json"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_lock_of_a_process_that_ended_is_free(tmp_path: Path, number: signal.Signals) -> None:
    with held(tmp_path / "run") as other:
        other.send_signal(number)
        other.wait(20)
    if number == signal.SIGINT:  # Python ends in order: nothing is left, the empty folder too
        assert not (tmp_path / "run").exists()
    else:
        assert names(tmp_path / "run") == [".lock", ".lock.holder"]
    with sole_writer(tmp_path / "run"):
        (tmp_path / "run" / "result").touch()
    assert names(tmp_path / "run") == ["result"]


def test_what_a_killed_process_left_is_no_run(tmp_path: Path) -> None:
    with held(tmp_path / "run") as other:
        other.kill()
        other.wait(20)
    with begin_run(tmp_path / "run", "eval", {}) as (_, resumed):
        assert not resumed
    assert open_run(tmp_path / "run").kind == "eval"


def test_a_folder_that_comes_and_goes_is_never_two_processes(tmp_path: Path) -> None:
    """Each removes the folder with its lock when it is done; every change of the counter is there."""
    (tmp_path / "counter").write_text("0" * 9)
    command = [sys.executable, "-c", COUNT, str(tmp_path / "run"), str(tmp_path / "counter")]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    counted = [int(other.communicate(timeout=120)[0]) for other in others]
    assert all(counted)
    assert sum(counted) == int((tmp_path / "counter").read_text())
    assert not (tmp_path / "run").exists() or names(tmp_path / "run") == []


def test_a_folder_that_goes_while_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mkdir finds it there, and then that it is no folder: another process has removed it in between."""
    make, calls = Path.mkdir, []

    def mkdir(folder: Path, *given: Any, **options: Any) -> None:
        calls.append(folder)
        if len(calls) == 1:
            raise FileExistsError(errno.EEXIST, "File exists", str(folder))
        make(folder, *given, **options)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with sole_writer(tmp_path / "run"):
        assert (tmp_path / "run").is_dir()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(KgwalkError, match="is a file; give a folder"), sole_writer(tmp_path / "file"):
        pass
    with (
        pytest.raises(KgwalkError, match=r"cannot write into .*: Not a directory"),
        sole_writer(tmp_path / "file" / "x"),
    ):
        pass
    with (
        pytest.raises(KgwalkError, match=r"cannot write .*demos\.jsonl: .*file is a file; choose another name"),
        sole_writer_of(tmp_path / "file" / "demos.jsonl"),
    ):
        pass
    assert names(tmp_path) == ["file"]


def test_commands_are_refused_and_write_nothing(tmp_path: Path, cli: Cli) -> None:
    world = ("--data", "world", "--json", "-o")
    commands = {
        "eval": ("eval", "oracle", "--limit", 2, *world),
        "train": ("train", "kgwalk", "--smoke", *world),
        "rank": ("rank", "train", *world),
    }
    for name, command in commands.items():
        with held(tmp_path / name) as other:
            done = cli(*command, tmp_path / name)
            assert done.status == 1, done.stderr
            assert f"process {other.pid} on this machine" in done.json["error"]["message"]
            assert names(tmp_path / name) == [".lock", ".lock.holder"]
    with held(tmp_path / "demos.jsonl", "sole_writer_of") as other:
        done = cli("demos", "kgwalk", "--limit", 2, *world, tmp_path / "demos.jsonl")
        assert done.status == 1, done.stderr
        assert f"another process is writing {tmp_path / 'demos.jsonl'}: process {other.pid}" in done.stderr
        assert not (tmp_path / "demos.jsonl").exists()
    assert cli("demos", "kgwalk", "--limit", 2, *world, tmp_path / "demos.jsonl").status == 0
    assert [name for name in names(tmp_path) if "demos" in name] == ["demos.jsonl"]


def test_a_fit_is_refused(tmp_path: Path, cli: Cli) -> None:
    assert (
        cli("kg", "build", Path(__file__).parents[2] / "examples" / "films.tsv", "-o", tmp_path / "films.kg").status
        == 0
    )
    with held(tmp_path / "fit") as other:
        done = cli("fit", tmp_path / "films.kg", "--smoke", "-o", tmp_path / "fit", "--json")
        assert done.status == 1, done.stderr
        assert f"process {other.pid} on this machine" in done.json["error"]["message"]
        assert names(tmp_path / "fit") == [".lock", ".lock.holder"]
