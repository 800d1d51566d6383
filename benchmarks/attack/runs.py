"""Run folders: pairs of commands in one folder at the same moment, and evaluations and trainings killed at any moment.

Of each pair one is refused and says who writes, or comes after the other has ended; no row is there twice. A killed run
goes on where it stopped: at its end each row is there once, whole, and the same as that of a run that nobody killed.
The commands are real processes: forks of one that has imported torch already, as its import takes longer than they do.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.attack import Result, environment

PAIRS = 100  # more are not tried, also where there is time
QUESTIONS = 40  # of an evaluation in a pair
KILLS = 3  # of one run, before it may end
LONGEST = 120.0  # seconds for one command: one that takes longer has failed
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_CONTEXT = multiprocessing.get_context("forkserver")


def attack(seconds: float, seed: int) -> Result:
    """Half of the time for pairs, the rest for kills of evaluations and of trainings."""
    began, draw, result = time.monotonic(), random.Random(seed), Result()
    with tempfile.TemporaryDirectory(prefix="kgwalk-runs-") as made, _environment(Path(made)):
        folder = Path(made)
        pairs = _pairs(result, draw, folder, began + 0.5 * seconds)
        evals = _killed_evals(result, draw, folder, began + 0.7 * seconds)
        trainings = _killed_trainings(result, draw, folder, began + seconds)
    result.figures = {
        "pairs": f"{pairs.total()} ({pairs['refused']} one refused, {pairs['after']} one after the other)",
        "evaluations": f"{evals['runs']} with {evals['kills']} kills",
        "trainings": f"{trainings['runs']} with {trainings['kills']} kills",
    }
    return result


@contextmanager
def _environment(folder: Path) -> Iterator[None]:
    """A cache of its own, and no agent that comes with kgwalk; the forks inherit both."""
    own = {"KGWALK_CACHE": str(folder / "cache"), "KGWALK_AGENT": "none", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    _CONTEXT.set_forkserver_preload(["kgwalk.cli.main", "kgwalk.cli.train", "kgwalk.training.pipeline", __name__])
    with environment(own):
        yield


# Commands as processes


class _Command:
    """One `kgwalk` under way; with a `gate`, it begins when all who share the gate are there."""

    def __init__(self, files: Path, *arguments: str | Path, gate: Any = None) -> None:
        self._error = files.with_suffix(".err")
        words = [str(word) for word in arguments]
        self._process = _CONTEXT.Process(target=_run, args=(words, str(self._error), gate))
        self._process.start()
        self.pid = self._process.pid or 0

    def wait(self, seconds: float = LONGEST) -> int | None:
        """Its exit status; None if it still runs after so many seconds."""
        self._process.join(seconds)
        return self._process.exitcode

    def end(self, number: signal.Signals = signal.SIGKILL) -> int | None:
        if self._process.exitcode is None:
            os.kill(self.pid, number)
        status = self.wait(30)
        if status is None:
            self._process.kill()
            self._process.join()
        return status

    @property
    def said(self) -> str:
        return self._error.read_text("utf-8", "replace") if self._error.exists() else ""


def _run(words: list[str], error: str, gate: Any) -> None:
    """In the new process: the command, as the console script calls it."""
    from kgwalk.cli.main import main

    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number, place in ((1, os.devnull), (2, error)):
        opened = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = ["kgwalk", *words]
    if gate is not None:
        gate.wait(60)
    main()


# Pairs


def _pairs(result: Result, draw: random.Random, folder: Path, until: float) -> Counter[str]:
    """Two commands begin at the same moment in one new folder."""
    counts: Counter[str] = Counter()
    for number in range(PAIRS):
        if time.monotonic() > until:
            break
        place = folder / f"pair-{number}"
        kind = draw.choice(
            ("eval", "eval", "eval --force", "eval, other", "demos", *(["train"] if number % 10 == 9 else []))
        )
        gate = _CONTEXT.Barrier(2)
        commands = [_Command(folder / f"{number}-{at}", *_words(kind, place, at), gate=gate) for at in range(2)]
        statuses = [command.wait() for command in commands]
        for command in commands:
            command.end()
        wrong = _wrong_pair(kind, place, commands, statuses)
        counts["refused" if sorted(map(str, statuses)) == ["0", "1"] else "after"] += 1
        result.check(not wrong, f"pair {number} ({kind}): {wrong}; statuses {statuses}")
    return counts


def _words(kind: str, place: Path, at: int) -> list[str | Path]:
    """The first and the second command of a pair."""
    if kind == "demos":
        return ["demos", "kgwalk", "--data", "world", "--limit", "30", "-o", place.with_suffix(".jsonl")]
    if kind == "train":
        stages = 'train.stages=["demos", "sft"]'
        return ["train", "kgwalk", "--data", "world", "--smoke", "--device", "cpu", "--set", stages, "-o", place]
    limit = QUESTIONS + (at if kind == "eval, other" else 0)
    words: list[str | Path] = ["eval", "oracle", "--data", "world", "--limit", str(limit), "-o", place]
    return [*words, "--force"] if kind == "eval --force" and at else words


def _wrong_pair(kind: str, place: Path, commands: list[_Command], statuses: list[int | None]) -> str:
    """What is wrong with what a pair has left behind, in words; "" if nothing is."""
    if 0 not in statuses:
        return f"neither was done: {commands[0].said[-300:]} | {commands[1].said[-300:]}"
    for at, status in enumerate(statuses):
        said, other = commands[at].said, commands[1 - at].pid
        if "Traceback" in said:
            return f"a traceback: {said[-300:]}"
        told = f": process {other} on this machine" in said if "another process is writing" in said else None
        after = any(words in said for words in ("holds another run", "is there already", "--resume goes on"))
        just_begun = "it has just begun" in said
        if status and not (told or just_begun or (told is None and after)):
            return f"refused for another reason: {said[-300:]}"
    left = [path.name for path in place.parent.glob("**/.*lock*") if "cache" not in path.parts]
    if left:
        return f"left behind: {left}"
    if kind == "demos":
        return _wrong_rows(place.with_suffix(".jsonl"), ("id",))
    if kind == "train":
        return _wrong_rows(place / "sft" / "metrics.jsonl", ("stage", "step"))
    limit = json.loads((place / "run.json").read_bytes())["settings"]["limit"]
    return _wrong_rows(place / "predictions.jsonl", ("number", "run"), limit)


def _wrong_rows(file: Path, key: tuple[str, ...], count: int | None = None) -> str:
    """Rows that are cut, doubled, or too few, in words."""
    if not file.exists():
        return f"there is no {file.name}"
    content = file.read_bytes()
    if not content.endswith(b"\n"):
        return f"{file.name} ends within a row"
    try:
        keys = [tuple(json.loads(line)[part] for part in key) for line in content.splitlines()]
    except (ValueError, KeyError, TypeError) as error:
        return f"{file.name} has a row that is damaged: {error}"
    if len(set(keys)) < len(keys):
        return f"{file.name} has {len(keys)} rows for {len(set(keys))}"
    return f"{file.name} has {len(keys)} rows, not {count}" if count not in (None, len(keys)) else ""


# Kills


def _killed_evals(result: Result, draw: random.Random, folder: Path, until: float) -> Counter[str]:
    """An evaluation is killed a few times, then ends; its rows are those of one that nobody killed."""
    counts: Counter[str] = Counter()
    words = ("eval", "oracle", "--data", "world", "-o")
    began = time.monotonic()
    whole = folder / "whole"
    if _Command(folder / "whole-eval", *words, whole).wait() != 0:
        result.check(False, "an evaluation that nobody killed did not end")
        return counts
    took = time.monotonic() - began
    wanted = _rows(whole)
    while time.monotonic() + 2 * took < until or not counts["runs"]:
        place = folder / f"eval-{counts['runs']}"
        kills = _killed(draw, took, folder / f"{place.name}-log", [*words, place], [])
        last = _Command(folder / f"{place.name}-last", *words, place)
        status = last.wait()
        wrong = _wrong_rows(place / "predictions.jsonl", ("number", "run"), len(wanted))
        if not wrong and _rows(place) != wanted:
            wrong = "its rows are not those of a run that nobody killed"
        result.check(status == 0 and not wrong, f"evaluation {counts['runs']}: {wrong or last.said[-300:]}")
        counts["runs"] += 1
        counts["kills"] += kills
    return counts


def _killed_trainings(result: Result, draw: random.Random, folder: Path, until: float) -> Counter[str]:
    """A training is killed a few times, then ends; each step has one row, and the adapter is there."""
    counts: Counter[str] = Counter()
    words = ("train", "kgwalk", "--data", "world", "--smoke", "--device", "cpu", "-o")
    began = time.monotonic()
    if _Command(folder / "whole-train", *words, folder / "whole-train").wait() != 0:
        result.check(False, "a training that nobody killed did not end")
        return counts
    took = time.monotonic() - began
    while time.monotonic() + 2 * took < until or not counts["runs"]:
        place = folder / f"train-{counts['runs']}"
        kills = _killed(draw, took, folder / f"{place.name}-log", [*words, place], ["--resume"])
        last = _Command(folder / f"{place.name}-last", *words, place, "--resume")
        status = last.wait()
        files = {f"{stage}/metrics.jsonl": ("stage", "step") for stage in ("sft", "grpo")}
        files["eval/predictions.jsonl"] = ("number", "run")
        wrong = next((said for name, key in files.items() if (said := _wrong_rows(place / name, key))), "")
        if not wrong and not (place / "adapter" / "adapter_model.safetensors").is_file():
            wrong = "there is no adapter"
        result.check(status == 0 and not wrong, f"training {counts['runs']}: {wrong or last.said[-300:]}")
        counts["runs"] += 1
        counts["kills"] += kills
    return counts


def _killed(draw: random.Random, took: float, log: Path, words: list[str | Path], again: list[str]) -> int:
    """Begin the command and end it at a random moment, so often; returns how often it was still running then."""
    kills = 0
    for number in range(KILLS):
        command = _Command(log.with_name(f"{log.name}-{number}"), *words, *(again if number else []))
        if command.wait(draw.uniform(0, 0.8 * took)) is None:
            command.end(draw.choice(SIGNALS))
            kills += 1
    return kills


def _rows(folder: Path) -> list[Any]:
    """The rows of an evaluation in the order of the questions, without the times that they took."""
    rows = [json.loads(line) for line in (folder / "predictions.jsonl").read_bytes().splitlines()]
    keep = ("number", "run", "id", "answers", "stop", "error")
    return sorted(([row[key] for key in keep] for row in rows), key=lambda row: (row[0], row[1]))
