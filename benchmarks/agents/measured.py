"""What was measured of an experiment: its tests, its steps of GRPO, its fit. What is not there is None.

Two places hold it: a work folder, with a folder a run, and docs/results, with a file a table (result_files.py). Tables
and figures are made from either.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks.agents import result_files
from benchmarks.agents.experiments import EXPERIMENTS, FIT, folder_name
from benchmarks.agents.result_files import FITS, NOTED, STEPS, TESTS

from kgwalk.config.run_folder import read_json, read_rows

LAST = 10  # steps that a speed is taken of


class Source(Protocol):
    """A place with reports, by section and name."""

    def find(self, section: str, name: str) -> Any | None: ...


@dataclass(frozen=True)
class WorkFolder:
    """What `run` wrote: WORK/evals has the tests, WORK/runs the trainings."""

    work: Path

    def find(self, section: str, name: str) -> Any | None:
        if section == STEPS:
            return list(read_rows(self.work / "runs" / name / "grpo" / "metrics.jsonl")) or None
        places = {TESTS: ("evals", name, "metrics.json"), FITS: ("runs", name, FIT)}
        file = self.work.joinpath(*places[section]) if section in places else None
        return read_json(file) if file is not None and file.exists() else None


@dataclass(frozen=True)
class ResultFiles:
    """What was published: all files of docs/results, or those named."""

    reports: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, folder: Path, names: Iterable[str] | None = None) -> ResultFiles:
        reports: dict[str, dict[str, Any]] = {}
        files = sorted(folder.glob("*.json")) if names is None else [folder / f"{name}.json" for name in names]
        for file in files:
            for section, found in result_files.read(file).items():
                reports.setdefault(section, {}).update(found)
        return cls(reports)

    def find(self, section: str, name: str) -> Any | None:
        return self.reports.get(section, {}).get(name)


@dataclass(frozen=True)
class Measured:
    """The questions that tables ask of a source."""

    source: Source

    @classmethod
    def of(cls, folder: Path) -> Measured:
        """Of a work folder, or of a folder of results files."""
        published = any(folder.glob("*.json"))
        return cls(ResultFiles.read(folder) if published else WorkFolder(folder))

    @property
    def published(self) -> bool:
        """Whether it is a folder of results files, not of a run's work."""
        return isinstance(self.source, ResultFiles)

    def test(self, name: str, data: str, way: str = "") -> dict[str, Any] | None:
        """The report of one test."""
        return self.source.find(TESTS, folder_name(name, data, way))

    def tested(self, name: str) -> bool:
        """Whether any test of an experiment is done."""
        experiment = EXPERIMENTS[name]
        return any(self.test(name, data, way) for data in experiment.tests for way in experiment.ways)

    def number(self, name: str, data: str, metric: str = "f1", way: str = "") -> float | None:
        report = self.test(name, data, way)
        return None if report is None else report["metrics"].get(metric)

    def interval(self, name: str, data: str, metric: str = "f1") -> list[float] | None:
        report = self.test(name, data)
        return None if report is None else report["intervals"].get(metric)

    def counts(self, names: list[str], data: str) -> list[int]:
        """How many questions of a set the experiments were tested on: one number, unless a test had a limit."""
        reports = [self.test(name, data) for name in names]
        return sorted({report["n"] for report in reports if report is not None})

    def steps(self, name: str) -> list[dict[str, Any]]:
        """What GRPO wrote down, a row a step."""
        return self.source.find(STEPS, name) or []

    def fit(self, name: str) -> dict[str, Any] | None:
        return self.source.find(FITS, name)

    def noted(self, name: str) -> dict[str, Any]:
        """Figures of runs whose reports were not kept, taken over from docs/results.md."""
        return self.source.find(NOTED, name) or {}


def seeds(stem: str) -> list[str]:
    """The experiments that differ in their seed alone.

    >>> seeds("grpo")
    ['grpo-0', 'grpo-1', 'grpo-2']
    """
    return [name for name in EXPERIMENTS if name.rpartition("-")[0] == stem and name.rpartition("-")[2].isdecimal()]


def episodes_a_second(steps: list[dict[str, Any]]) -> float | None:
    """Of the last steps; the first one is left out, as it compiles and fills caches.

    >>> slow, quick = {"episodes": 512.0, "rollout_seconds": 60.0}, {"episodes": 512.0, "rollout_seconds": 2.0}
    >>> episodes_a_second([slow, quick, quick]), episodes_a_second([slow])
    (256.0, None)
    """
    last = steps[1:][-LAST:]
    seconds = sum(row["rollout_seconds"] for row in last)
    return sum(row["episodes"] for row in last) / seconds if seconds else None
