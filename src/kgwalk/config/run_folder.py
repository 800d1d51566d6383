"""A run's folder: `run.json` says what was run and with what, the rest is the run's own.

    eval/run.json           kind, settings (the recipe as resolved, data, seed, model), command, versions, commit, when
    eval/predictions.jsonl  one row an episode (`RowFile`)
    eval/metrics.json       written at the end

A folder holds one run, and one process at a time writes into it. With the same settings a run goes on where it stopped;
other settings are refused.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import orjson

from kgwalk import __version__
from kgwalk.types import InputError, KgwalkError

RUN = "run.json"
_LIBRARIES = ("numpy", "torch", "transformers", "peft", "accelerate", "vllm")


@dataclass(frozen=True)
class RunFolder:
    path: Path
    about: dict[str, Any]  # run.json
    made: tuple[Path, ...] = field(default=(), compare=False)  # folders that were made for it, inmost first

    @property
    def kind(self) -> str:
        return str(self.about["kind"])

    def file(self, name: str) -> Path:
        return self.path / name

    def write(self, name: str, value: Any) -> None:
        """A JSON file that is there whole or not at all."""
        write_json(self.path / name, value)

    def read(self, name: str) -> Any:
        return read_json(self.path / name)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While this process writes here no other may; the kernel frees a dead one's lock."""
        with open(self.path / RUN, "rb") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise KgwalkError(
                    f"another process is writing into {self.path}; wait for it to end, or choose another folder"
                ) from None
            yield

    @contextmanager
    def unless_refused(self) -> Iterator[None]:
        """A run that is refused before it has a result was never begun: run.json goes, and the folders made for it.

        Within `alone`, so that it is nobody else's.
        """
        try:
            yield
        except KgwalkError:
            if not any(_results(self.path)):
                for inside in self.path.iterdir():
                    inside.unlink()
                with suppress(OSError):  # another run has begun beside this one
                    for place in self.made:
                        place.rmdir()
            raise


def begin_run(path: Path, kind: str, settings: dict[str, Any], *, force: bool = False) -> tuple[RunFolder, bool]:
    """The folder of this run, and whether it had begun before with the same settings (then it goes on).

    `settings` decide what is computed: recipe, data, seed, model. A folder of another run is not touched unless
    `force` says to start over, or that run has written nothing yet.
    """
    settings = orjson.loads(orjson.dumps(settings))
    new = tuple(place for place in (path, *path.parents) if not place.exists())
    if path.exists() and not path.is_dir():
        raise KgwalkError(f"{path} is a file; give a folder for the run")
    try:
        if (path / RUN).exists():
            found = open_run(path)
            differing = _differing(found.about, kind, settings)
            if not differing and not force:
                return found, True
            if not force and any(_results(path)):
                raise KgwalkError(
                    f"{path} holds another run: {'; '.join(differing)}. "
                    "Choose another folder with -o, or start over with --force"
                )
            with found.alone():
                _clear(path)
        elif path.exists() and any(_results(path)):
            raise KgwalkError(f"{path} is not empty and holds no run; choose another folder")
        path.mkdir(parents=True, exist_ok=True)
        about = {"kind": kind, "settings": settings, **surroundings()}
        write_json(path / RUN, about)
    except OSError as error:
        raise KgwalkError(f"cannot write into {path}: {error.strerror or error}; choose another folder") from error
    return RunFolder(path, about, new), False


def open_run(path: Path) -> RunFolder:
    """A run that was begun before."""
    if not (path / RUN).exists():
        raise KgwalkError(f"{path} holds no run: there is no {RUN} in it")
    about = read_json(path / RUN)
    if not isinstance(about, dict) or not isinstance(about.get("settings"), dict) or "kind" not in about:
        raise KgwalkError(f"{path / RUN} is not of a run: it has no kind and settings")
    return RunFolder(path, about)


def surroundings() -> dict[str, Any]:
    """What else a figure depends on: the command, versions, the commit, the machine's kind, the time."""
    return {
        "command": _command(),
        "versions": {"kgwalk": __version__, "python": platform.python_version(), **_versions()},
        "commit": _commit(),
        "machine": {"system": platform.platform(), "cores": os.cpu_count()},
        "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def write_json(path: Path, value: Any) -> None:
    beside = _partial(path)
    with open(beside, "wb") as file:
        file.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def read_json(path: Path) -> Any:
    try:
        return orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise KgwalkError(f"{path} is missing; the run did not get so far") from None
    except orjson.JSONDecodeError as error:
        raise KgwalkError(f"{path} is not JSON: {error}") from None


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def _results(path: Path) -> Iterator[Path]:
    """What is in the folder beside the beginning of a run: files that hold something, and folders."""
    for inside in path.iterdir():
        if inside.name not in (RUN, _partial(path / RUN).name) and (not inside.is_file() or inside.stat().st_size):
            yield inside


def _clear(path: Path) -> None:
    """Remove a run's results. run.json stays until it is replaced: killed in between, this is still a run's folder."""
    for inside in path.iterdir():
        if inside.is_dir() and not inside.is_symlink():
            shutil.rmtree(inside)
        elif inside.name != RUN:
            inside.unlink()


def _differing(about: dict[str, Any], kind: str, settings: dict[str, Any]) -> list[str]:
    if about["kind"] != kind:
        return [f"its kind is {about['kind']!r}, not {kind!r}"]
    before, now = dict(_flat(about["settings"])), dict(_flat(settings))
    return [
        f"`{key}` was {_short(before.get(key))}, is {_short(now.get(key))}"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
    ]


def _flat(settings: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Each single setting: {"rollout": {"turn_tokens": 64}} has `rollout.turn_tokens`."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _short(value: Any, limit: int = 80) -> str:
    text = "not set" if value is None else orjson.dumps(value).decode()
    return text if len(text) <= limit else f"{text[:limit]}..."


def _versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _command() -> list[str]:
    """As it was typed; of another program than `kgwalk`, that program's."""
    program, *arguments = sys.argv
    own = Path(program).name == "kgwalk" or program.endswith("kgwalk/cli/main.py")
    return ["kgwalk" if own else program, *arguments]


def _commit() -> str | None:
    """The commit of the code that runs, if it runs from a checkout of its own; with a + if that has changes."""
    git = ["git", "--no-optional-locks", "-C", str(Path(__file__).parent)]
    try:
        # installed inside another project's folder, git would speak of that project
        subprocess.run([*git, "ls-files", "--error-unmatch", Path(__file__).name], check=True, capture_output=True)
        describe = [*git, "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
        done = subprocess.run(describe, check=True, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


# Files of JSON rows that only grow


_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
_SURROGATE = re.compile("[\ud800-\udfff]")


class RowFile:
    """Appends rows; other processes can read each as soon as `add` returns.

    A process that is killed leaves at most one line that is cut off. Opening the file again drops it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        drop_cut_line(path)
        self._file: BinaryIO = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()

    def add(self, row: dict[str, Any]) -> None:
        view = memoryview(_line(row))
        while view:  # a raw write may take only a part
            view = view[self._file.write(view) :]

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> RowFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.close()


def _line(row: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(row, option=_OPTIONS)
    except orjson.JSONEncodeError:  # half a surrogate pair, as a server's message may have: no file takes it
        return orjson.dumps(_writable(row), option=_OPTIONS)


def _writable(value: Any) -> Any:
    """The same with U+FFFD for each half of a surrogate pair."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_writable(key): _writable(inside) for key, inside in value.items()}
    return [_writable(inside) for inside in value] if isinstance(value, list | tuple) else value


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The whole rows of a file; a last line that was cut off is left out, any other that is not JSON is an error."""
    if not path.exists():
        return
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise InputError(f"not JSON: {error}", path=str(path), line=number) from None
            if not isinstance(row, dict):
                raise InputError("expected an object", path=str(path), line=number)
            yield row


def drop_cut_line(path: Path) -> None:
    """Truncate the file after its last newline."""
    if not path.exists():
        return
    with open(path, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        at = end
        while at > 0:
            begin = max(0, at - 65536)
            file.seek(begin)
            newline = file.read(at - begin).rfind(b"\n")
            if newline >= 0:
                at = begin + newline + 1
                break
            at = begin
        if at < end:
            file.truncate(at)
