"""What a work folder holds of an experiment: its tests, its steps of GRPO, its fit. What is not there is None.

Knows nothing of tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.agents.experiments import EXPERIMENTS, FIT, folder_name

from kgwalk.config.run_folder import read_json, read_rows

LAST = 10  # steps that a speed is taken of


@dataclass(frozen=True)
class Measured:
    work: Path

    def test(self, name: str, data: str, way: str = "") -> dict[str, Any] | None:
        """The report of one test."""
        return self._json("evals", folder_name(name, data, way), "metrics.json")

    def tested(self, name: str) -> bool:
        """Whether any test of an experiment is done."""
        experiment = EXPERIMENTS[name]
        return any(self.test(name, data, way) for data in experiment.tests for way in experiment.ways)

    def number(self, name: str, data: str, metric: str = "f1", way: str = "") -> float | None:
        report = self.test(name, data, way)
        return None if report is None else report["metrics"].get(metric)

    def counts(self, names: list[str], data: str) -> list[int]:
        """How many questions of a set the experiments were tested on: one number, unless a test had a limit."""
        reports = [self.test(name, data) for name in names]
        return sorted({report["n"] for report in reports if report is not None})

    def steps(self, name: str) -> list[dict[str, Any]]:
        """What GRPO wrote down, a row a step."""
        return list(read_rows(self.work / "runs" / name / "grpo" / "metrics.jsonl"))

    def fit(self, name: str) -> dict[str, Any] | None:
        return self._json("runs", name, FIT)

    def _json(self, *place: str) -> dict[str, Any] | None:
        file = self.work.joinpath(*place)
        return read_json(file) if file.exists() else None


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
