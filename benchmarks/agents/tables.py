"""What was measured, as Markdown: a table of tests by experiment, in the order of the experiments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.agents.experiments import EXPERIMENTS, TESTED

from kgwalk.runs.folder import read_json

COLUMNS = {
    "F1": "f1",
    "Hits@1": "hits_at_1",
    "hit_any": "hit_any",
    "retrieval": "retrieval_rate",
    "tokens": "generated_tokens",
}


def tables(work: Path) -> str:
    """One section for each experiment that was tested."""
    found = []
    for name, experiment in EXPERIMENTS.items():
        rows = []
        for data in (*TESTED, "metaqa-23"):
            file = work / "evals" / f"{name}-{data}" / "metrics.json"
            if file.exists():
                rows.append(_row(data, read_json(file)))
        if rows:
            head = ["| questions | n | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 2) + "|"]
            found.append("\n".join([f"### {name}: {experiment.what}", "", *head, *rows]))
    return "\n\n".join(found)


def _row(data: str, report: dict[str, Any]) -> str:
    cells = [_cell(report["metrics"].get(key), report["intervals"].get(key)) for key in COLUMNS.values()]
    return f"| {data} | {report['n']:,} | " + " | ".join(cells) + " |"


def _cell(value: float | None, interval: Sequence[float] | None) -> str:
    """
    >>> _cell(0.6081, [0.57, 0.645]), _cell(45.57, [44.0, 47.0]), _cell(None, None)
    ('0.608 (0.570 to 0.645)', '45.6', '-')
    """
    if value is None:
        return "-"
    if interval is None or value > 1.5:
        return f"{value:.3f}" if value <= 1.5 else f"{value:.1f}"
    return f"{value:.3f} ({interval[0]:.3f} to {interval[1]:.3f})"
