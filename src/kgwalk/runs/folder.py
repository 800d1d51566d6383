"""A run's folder: `run.json` says what was run, `README.md` says it to a person, the rest is the run's own.

    eval/run.json           kind, command, recipe as resolved, settings, seed, versions, commit, when
    eval/predictions.jsonl  one row an episode
    eval/metrics.json       written at the end

A folder holds one run. The same settings again go on where it stopped; other settings are refused.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from kgwalk import __version__
from kgwalk.types import KgwalkError

RUN = "run.json"
_LIBRARIES = ("numpy", "torch", "transformers", "peft", "accelerate", "vllm")


@dataclass(frozen=True)
class RunFolder:
    path: Path
    about: dict[str, Any]  # run.json

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


def begin_run(path: Path, kind: str, settings: dict[str, Any], *, force: bool = False) -> tuple[RunFolder, bool]:
    """The folder of this run, and whether it had begun before with the same settings (then it goes on).

    `settings` decide what is computed: recipe, data, seed, model. A folder of another run is not touched unless
    `force` says to start over.
    """
    settings = orjson.loads(orjson.dumps(settings))
    if path.exists() and not path.is_dir():
        raise KgwalkError(f"{path} is a file; give a folder for the run")
    if (path / RUN).exists() and not force:
        found = open_run(path)
        differing = _differing(found.about, kind, settings)
        if differing:
            raise KgwalkError(
                f"{path} holds another run: {'; '.join(differing)}. Choose another folder, or --force to start over"
            )
        return found, True
    if path.exists() and any(path.iterdir()):
        if not (path / RUN).exists():
            raise KgwalkError(f"{path} is not empty and holds no run; choose another folder")
        shutil.rmtree(path)
    path.mkdir(parents=True, exist_ok=True)
    about = {"kind": kind, "settings": settings, **surroundings()}
    write_json(path / RUN, about)
    return RunFolder(path, about), False


def open_run(path: Path) -> RunFolder:
    """A run that was begun before."""
    if not (path / RUN).exists():
        raise KgwalkError(f"{path} holds no run: there is no {RUN} in it")
    return RunFolder(path, read_json(path / RUN))


def surroundings() -> dict[str, Any]:
    """What else a figure depends on: the command, versions, the commit, the machine's kind, the time."""
    return {
        "command": ["kgwalk", *sys.argv[1:]],
        "versions": {"kgwalk": __version__, "python": platform.python_version(), **_versions()},
        "commit": _commit(),
        "machine": {"system": platform.platform(), "cores": os.cpu_count()},
        "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def write_json(path: Path, value: Any) -> None:
    beside = path.with_name(f".{path.name}.partial")
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


def _differing(about: dict[str, Any], kind: str, settings: dict[str, Any]) -> list[str]:
    if about.get("kind") != kind:
        return [f"its kind is {about.get('kind')!r}, not {kind!r}"]
    before = about.get("settings", {})
    return [
        f"`{key}` was {_short(before.get(key))}, is {_short(settings.get(key))}"
        for key in sorted({*before, *settings})
        if before.get(key) != settings.get(key)
    ]


def _short(value: Any, limit: int = 80) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= limit else f"{text[:limit]}..."


def _versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _commit() -> str | None:
    """The commit of the code that runs, if it runs from a checkout; with a + if that has changes."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
