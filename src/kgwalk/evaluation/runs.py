"""The run folders below a folder: which there are, how far each is, and what it was told to do.

    runs = RunsFolder(Path("runs"))
    runs.listed()                      # name, kind, state, recipe, stage, steps, F1 of each
    runs.about("kgwalk-world")         # its stages, its settings as resolved, a fit's progress, an evaluation's means

A run may be under way: everything is read from what its files hold now, and nothing is written or locked. Names are
paths below the folder, and no file outside it is read, through links neither. A damaged run is listed with what is
wrong; error messages name files as they lie below the folder.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, TypedDict

import orjson

from kgwalk.config.lock import is_written
from kgwalk.config.run_folder import RUN, RunFolder, flat_settings, open_run, read_json
from kgwalk.evaluation.html_report import STAGES, WITHIN
from kgwalk.evaluation.report import METRICS, PREDICTIONS, STEP_EPISODES, STEP_METRICS, grouped
from kgwalk.types import KgwalkError

RUNNING, FINISHED, STOPPED, DAMAGED = "running", "finished", "stopped", "damaged"
FIT_PLAN, FIT_TIME, FIT_REPORT = "plan.json", "time.json", "fit.json"
ENDS = {"train": "README.md", "eval": METRICS, "fit": FIT_REPORT}  # the file that a run writes last
EVALUATED = {"eval": (".",), "train": ("eval",), "fit": ("after", "before")}  # where a run's evaluation lies
DONE = "done.json"  # of a stage
DEEPEST = 5  # folders below the given one in which a run is looked for
MOST_FOLDERS = 20_000
TAIL = 1 << 16  # bytes read from the end of a file of rows, and more only if no row begins there
_OF_STAGE = (STEP_METRICS, STEP_EPISODES)
FIT_PARTS = ("questions", "speed", "worlds", "examples", "before", "training", "after")  # in this order


class RunSummary(TypedDict):
    """A line of the list. What is not known yet, or does not belong to this kind of run, is null."""

    name: str
    kind: str
    inside: str | None  # the run that this one is a part of
    state: str
    recipe: str | None
    data: str | None
    split: str | None
    model: str | None
    stage: str | None
    step: int | None
    steps: int | None  # planned
    f1: float | None
    f1_of: str | None  # evaluation, validation or training
    begun: str | None
    updated: float | None  # seconds since 1970
    error: str | None


class StageProgress(TypedDict):
    stage: str
    step: int | None
    steps: int | None
    done: bool
    validation: float | None  # the last F1 in validation
    best: float | None  # the best
    last: dict[str, float]  # the metrics of the last step


class FitPart(TypedDict):
    part: str
    planned: float | None  # seconds
    used: float | None
    state: str


class FitProgress(TypedDict):
    minutes: float | None
    spent: float  # seconds
    parts: list[FitPart]
    before: dict[str, float]
    after: dict[str, float]
    notes: list[str]


class EvaluatedMeans(TypedDict):
    """An evaluation: the mean of each metric, in groups as people are shown them, and what went wrong."""

    n: int
    groups: dict[str, list[str]]
    metrics: dict[str, float]
    intervals: dict[str, list[float]]
    errors: dict[str, int]
    stops: dict[str, int]


class RunAbout(TypedDict):
    summary: RunSummary
    parts: list[RunSummary]  # runs inside this one
    stages: list[StageProgress]
    fit: FitProgress | None
    evaluation: EvaluatedMeans | None
    evaluated: str | None  # the finished evaluation of this run, by name
    walks: bool  # whether there are walks to read
    settings: dict[str, Any]
    recipe: str | None  # recipe.toml, as it was used
    command: list[str]
    versions: dict[str, str]
    commit: str | None
    machine: dict[str, Any]
    notes: list[str]


class UnknownRun(KgwalkError):
    """No run of this name lies below the folder."""

    def __init__(self, name: str, nearest: list[str]) -> None:
        self.nearest = nearest
        hint = f"; did you mean {', '.join(nearest)}?" if nearest else ""
        super().__init__(f"there is no run {name[:200]!r}{hint}")


class RunsFolder:
    """The runs below one folder, read as they are now."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise KgwalkError(f"{root} is no folder; give one that holds runs, such as runs/")
        self.root = root.resolve()

    # Names and files

    def names(self) -> list[str]:
        """Every run, in the order of the names; those inside a run after it."""
        return sorted(self._below(self.root, 0, [MOST_FOLDERS]), key=lambda name: name.split("/"))

    def _below(self, folder: Path, depth: int, left: list[int]) -> Iterator[str]:
        """The names of the runs in a folder and below it. Links to folders are not followed, hidden ones not read."""
        left[0] -= 1
        is_run = (folder / RUN).is_file()
        if is_run:
            yield self._name(folder)
        if depth == DEEPEST or left[0] < 0:
            return
        try:
            with os.scandir(folder) as entries:
                found = [one.name for one in entries if one.is_dir(follow_symlinks=False)]
        except OSError:
            return
        for name in sorted(found):
            # what else lies in a run's folder is its own: checkpoints, adapters, questions
            if name in WITHIN or not (is_run or name.startswith(".")):
                yield from self._below(folder / name, depth + 1, left)

    def _name(self, folder: Path) -> str:
        return folder.relative_to(self.root).as_posix()  # "." for the folder itself

    def file(self, run: str, *parts: str) -> Path:
        """A file of a run, which may be missing; refused if it lies outside the folder, by its name or by a link."""
        try:
            path = (self.root / run).joinpath(*parts).resolve()
        except (OSError, ValueError, RuntimeError):  # a name with a zero byte; links in a circle
            raise UnknownRun(run, []) from None
        if not path.is_relative_to(self.root):
            if not parts:
                raise UnknownRun(run, [])
            raise KgwalkError(f"{'/'.join((run, *parts))} lies outside the folder of runs, and is not read")
        return path

    def run(self, name: str) -> RunFolder:
        """The run of this name. An error names files below the folder only."""
        folder = self.file(name)
        if name != self._name(folder) or not os.path.isfile(self.file(name, RUN)):  # of a name too long for a file too
            known = self.names()
            raise UnknownRun(name, difflib.get_close_matches(name[:200], known, 3))
        return open_run(folder)

    def checked(self, name: str) -> Path:
        """The folder of a run whose files all lie below ours, for readers that do not look where these are."""
        folder = self.run(name).path
        for part in (".", *WITHIN, *(f"train/{inner}" for inner in WITHIN)):
            for file in (RUN, METRICS, PREDICTIONS, *(f"{stage}/{rows}" for stage in STAGES for rows in _OF_STAGE)):
                self.file(name, part, file)
        return folder

    def said(self, error: Exception) -> str:
        """The message of an error, without where the folder lies."""
        return str(error).replace(f"{self.root}{os.sep}", "").replace(str(self.root), ".")

    # The list

    def listed(self) -> list[RunSummary]:
        names = self.names()
        known = set(names)
        return [self.summary(name, known) for name in names]

    def summary(self, name: str, known: set[str] | None = None) -> RunSummary:
        """A line of the list. A run that cannot be read has its line too."""
        try:
            return self._summary(self.run(name), name, known)
        except UnknownRun:
            raise
        except (KgwalkError, OSError) as error:
            nothing = dict.fromkeys(RunSummary.__annotations__)
            parent = self._parent(name, known)
            return nothing | {"name": name, "kind": "", "inside": parent, "state": DAMAGED, "error": self.said(error)}  # type: ignore[return-value]

    def _summary(self, run: RunFolder, name: str, known: set[str] | None) -> RunSummary:
        settings = run.about["settings"]
        stages = self._stages(run, name)
        stage, step, steps = self._furthest(run, name, stages)
        f1, of = self._f1(run, name, stages)
        model = settings.get("model") or _table(_table(settings.get("sections")).get("model")).get("name")
        return {
            "name": name,
            "kind": run.kind,
            "inside": self._parent(name, known),
            "state": state_of(run),
            "recipe": _text(settings.get("recipe")),
            "data": _data(settings.get("data") or settings.get("graph")),
            "split": _text(settings.get("split")),
            "model": _data(model),
            "stage": stage,
            "step": step,
            "steps": steps,
            "f1": f1,
            "f1_of": of,
            "begun": _text(run.about.get("begun")),
            "updated": self._updated(name),
            "error": None,
        }

    def _parent(self, name: str, known: set[str] | None) -> str | None:
        above, _, last = name.rpartition("/")
        parent = above or "."
        if last not in WITHIN or name == ".":
            return None
        return parent if (parent in known if known is not None else self.file(parent, RUN).is_file()) else None

    def _stages(self, run: RunFolder, name: str) -> list[StageProgress]:
        """How far the stages that learn are, those that have begun."""
        found: list[StageProgress] = []
        for stage in STAGES if run.kind == "train" else ():
            path, done = self.file(name, stage, STEP_METRICS), self.file(name, stage, DONE)
            if not path.is_file():
                continue
            rows = last_rows(path)
            last = {key: value for key, value in (rows[-1] if rows else {}).items() if _is_number(value)}
            report = _table(read_json(done)) if done.is_file() else {}
            planned = report.get("planned_steps") or report.get("steps")
            settings = _table(_table(run.about["settings"].get("sections")).get(stage))
            validated = [row["eval_f1"] for row in rows if _is_number(row.get("eval_f1"))]
            best = _table(report.get("best")).get("eval_f1", max(validated, default=None))
            found.append(
                {
                    "stage": stage,
                    "step": int(last["step"]) if "step" in last else None,
                    "steps": planned if type(planned) is int else _whole(settings.get("steps")),
                    "done": bool(report),
                    "validation": validated[-1] if validated else None,
                    "best": best if isinstance(best, int | float) else None,
                    "last": last,
                }
            )
        return found

    def _furthest(
        self, run: RunFolder, name: str, stages: list[StageProgress]
    ) -> tuple[str | None, int | None, int | None]:
        """The stage that a run has come to, its steps, and how many are planned; of an evaluation, its walks."""
        if run.kind == "fit":
            there = [part for part in ("questions", "before", "train", "after") if (run.path / part).is_dir()]
            return (there[-1] if there else "questions"), None, None
        if run.kind == "eval":
            report, rows = self.file(name, METRICS), self.file(name, PREDICTIONS)
            if report.is_file():
                count = _whole(_table(read_json(report)).get("n"))
                return "walks", count, count
            return "walks", _lines(rows) if rows.is_file() else 0, _whole(run.about["settings"].get("limit"))
        if (run.path / "eval" / RUN).is_file() and state_of(run) == RUNNING:
            return "eval", None, None
        if stages:
            return stages[-1]["stage"], stages[-1]["step"], stages[-1]["steps"]
        return ("demos" if (run.path / "demos.jsonl").exists() else "start"), None, None

    def _f1(self, run: RunFolder, name: str, stages: list[StageProgress]) -> tuple[float | None, str | None]:
        """The F1 to show: of the finished evaluation, else the last in validation, else of the training walks."""
        for part in EVALUATED.get(run.kind, ()):
            path = self.file(name, part, METRICS)
            found = _numbers(_table(read_json(path)).get("metrics")) if path.is_file() else {}
            if "f1" in found:
                return found["f1"], "evaluation"
        for stage in reversed(stages):
            for f1, words in ((stage["validation"], "validation"), (stage["last"].get("f1"), "training")):
                if f1 is not None:
                    return f1, words
        return None, None

    def _updated(self, name: str) -> float | None:
        """When something was last written, of what a run writes while it goes on."""
        files: list[tuple[str, ...]] = [(RUN,), (PREDICTIONS,), (METRICS,), (FIT_TIME,)]
        files += [(stage, STEP_METRICS) for stage in STAGES]
        files += [(part, PREDICTIONS) for part in WITHIN]
        files += [("train", stage, STEP_METRICS) for stage in STAGES]
        times = []
        for parts in files:
            path = self.file(name, *parts)
            if path.is_file():
                times.append(path.stat().st_mtime)
        return max(times, default=None)

    # One run

    def about(self, name: str) -> RunAbout:
        """All that there is to say of a run but its rows."""
        run = self.run(name)
        parts = [(PurePosixPath(name) / part).as_posix() for part in ("before", "train", "after", "eval")]
        toml, report = self.file(name, "recipe.toml"), self.file(name, "train.json")
        about = run.about
        walks = PREDICTIONS if run.kind == "eval" else f"grpo/{STEP_EPISODES}"
        return {
            "summary": self.summary(name),
            "parts": [self.summary(part) for part in parts if self.file(part, RUN).is_file()],
            "stages": self._stages(run, name),
            "fit": self._fit(run, name) if run.kind == "fit" else None,
            "evaluation": self._means(name) if run.kind == "eval" else None,
            "evaluated": self.evaluated(name),
            "walks": self.file(name, walks).is_file(),
            "settings": about["settings"],
            "recipe": toml.read_text("utf-8", errors="replace") if toml.is_file() else None,
            "command": [str(word) for word in about.get("command") or []],
            "versions": {str(key): str(value) for key, value in _table(about.get("versions")).items()},
            "commit": _text(about.get("commit")),
            "machine": _table(about.get("machine")),
            "notes": _texts(_table(read_json(report)).get("notes")) if report.is_file() else [],
        }

    def evaluated(self, name: str) -> str | None:
        """The finished evaluation that a run is compared by: itself, or the one inside a training or a fit."""
        kind = self.run(name).kind
        for part in EVALUATED.get(kind, ()):
            inner = (PurePosixPath(name) / part).as_posix()
            if self.file(inner, METRICS).is_file() and self.file(inner, RUN).is_file():
                return inner
        return None

    def _means(self, name: str) -> EvaluatedMeans | None:
        path = self.file(name, METRICS)
        if not path.is_file():
            return None
        report = _table(read_json(path))
        metrics = _numbers(report.get("metrics"))
        intervals = _table(report.get("intervals")) | _table(_table(report.get("clusters")).get("intervals"))
        return {
            "n": _whole(report.get("n")) or 0,
            "groups": grouped(metrics),
            "metrics": metrics,
            "intervals": {key: pair for key, pair in intervals.items() if key in metrics and _is_pair(pair)},
            "errors": _counts(report.get("errors")),
            "stops": _counts(report.get("stops")),
        }

    def _fit(self, run: RunFolder, name: str) -> FitProgress:
        """What a fit has done, with the seconds that its parts took; the first that is not done is under way."""
        read = {}
        for file in (FIT_TIME, FIT_PLAN, FIT_REPORT):
            path = self.file(name, file)
            read[file] = _table(read_json(path)) if path.is_file() else {}
        used, planned = _numbers(read[FIT_TIME].get("used")), _numbers(read[FIT_PLAN].get("planned"))
        planned["training"] = sum(planned.get(stage, 0.0) for stage in ("demos", *STAGES))
        ended, goes_on = bool(read[FIT_REPORT]), state_of(run) == RUNNING
        parts: list[FitPart] = []
        for part in FIT_PARTS:
            optional = part in ("speed", "worlds", "examples", "training")
            if optional and part not in used and (ended or read[FIT_PLAN]) and part != "training":
                continue
            if part == "training" and part not in used and (ended or not planned["training"]):
                continue
            first = not any(one["state"] != "done" for one in parts)
            state = "done" if part in used or ended else "running" if first and goes_on else "waiting"
            parts.append({"part": part, "planned": planned.get(part), "used": used.get(part), "state": state})
        minutes = run.about["settings"].get("minutes")
        return {
            "minutes": minutes if isinstance(minutes, int | float) else None,
            "spent": sum(used.values()),
            "parts": parts,
            "before": _numbers(read[FIT_REPORT].get("before")),
            "after": _numbers(read[FIT_REPORT].get("after")),
            "notes": _texts(read[FIT_REPORT].get("notes")),
        }

    def differing(self, first: str, second: str) -> list[tuple[str, Any, Any]]:
        """The settings of two runs that are not the same: the key, and the value of each."""
        one, other = (dict(flat_settings(self.run(name).about["settings"])) for name in (first, second))
        keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
        return [(key, one.get(key), other.get(key)) for key in keys]


def state_of(run: RunFolder) -> str:
    """Whether a process writes into the folder; else whether it came to its end."""
    if is_written(run.path):
        return RUNNING
    return FINISHED if (run.path / ENDS.get(run.kind, METRICS)).exists() else STOPPED


def last_rows(path: Path, size: int = TAIL) -> list[dict[str, Any]]:
    """The whole rows at the end of a file of rows, at least the last one; what is no JSON is left out.

    A row that is being written has no line break yet, and is left out.
    """
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        while True:
            begin = max(0, end - size)
            file.seek(begin)
            lines = file.read(end - begin).split(b"\n")[:-1]  # after the last line break nothing is whole
            rows = list(_rows(lines[1:] if begin else lines))
            if rows or begin == 0:
                return rows
            size *= 8


def _lines(path: Path) -> int:
    """How many whole lines a file has."""
    count = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            count += block.count(b"\n")
    return count


def _rows(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(row, dict):
            yield row


# Values of JSON that somebody may have edited


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _numbers(value: Any) -> dict[str, float]:
    return {str(key): float(one) for key, one in _table(value).items() if _is_number(one)}


def _counts(value: Any) -> dict[str, int]:
    return {key: _whole(_table(one).get("n")) or 0 for key, one in _table(value).items()}


def _data(value: Any) -> str | None:
    """The name of a dataset or a model, of which settings have the path; several are joined."""
    if isinstance(value, list):
        return ", ".join(Path(str(one)).name for one in value) or None
    return None if value is None else Path(str(value)).name
