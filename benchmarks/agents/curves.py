"""How the seeds of GRPO went: F1 on dev questions and the reward in training, by step.

Knows only what steps wrote down; nothing of tests.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.agents.experiments import EXPERIMENTS, plain
from benchmarks.agents.measured import Measured, seeds

FILE = "grpo-seeds.png"
STEM = "grpo"
REWARD, VALIDATED, F1 = "reward", "eval_f1", "F1, greedy"
OVER = 5  # steps: each asks other questions, so its reward says little
LEAST = 0.1  # of F1, from top to bottom
MEAN, SEED = "#1f4e79", "#8fb3d4"
Curve = dict[int, float]  # by step
Steps = Sequence[dict[str, Any]]  # rows of metrics.jsonl


@dataclass(frozen=True)
class Panel:
    title: str
    unit: str
    curves: list[Curve]  # of the seeds
    over: int = 1  # steps that the thick line is a mean of


def plot(work: Path, folder: Path) -> Path | None:
    """The figure's file; None if no seed has taken a step. `work`: a work folder, or one of results files."""
    names = seeds(STEM)
    steps = [rows for rows in map(Measured.of(work).steps, names) if rows]
    found = [panel for panel in _panels(steps, [plain(data) for data in EXPERIMENTS[names[0]].tests]) if panel.curves]
    return drawn(found, folder / FILE) if found else None


def _panels(steps: Sequence[Steps], sets: Sequence[str]) -> list[Panel]:
    """F1 by set if validation told the sets apart, and the reward."""
    by_set = [Panel(f"{data}, dev", F1, _curves(steps, f"{VALIDATED}/{data}")) for data in sets]
    validated = by_set if any(panel.curves for panel in by_set) else [Panel("dev", F1, _curves(steps, VALIDATED))]
    return [*validated, Panel(f"training (mean: of {OVER} steps)", "reward", _curves(steps, REWARD), OVER)]


def _curves(steps: Sequence[Steps], key: str) -> list[Curve]:
    return [found for rows in steps if (found := curve(rows, key))]


def curve(rows: Steps, key: str) -> Curve:
    """
    >>> curve([{"step": 1, "reward": 0.5}, {"step": 2, "reward": 0.6, "eval_f1": 0.4}], "eval_f1")
    {2: 0.4}
    """
    return {row["step"]: row[key] for row in rows if key in row}


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """At those steps that every seed has: one that is behind ends it.

    >>> mean_curve([{10: 0.25, 20: 0.5, 30: 1.0}, {10: 0.75, 20: 1.0}])
    {10: 0.5, 20: 0.75}
    """
    shared = set(curves[0]).intersection(*curves[1:])
    return {step: statistics.fmean(each[step] for each in curves) for step in sorted(shared)}


def smoothed(one: Curve, over: int) -> Curve:
    """Each point the mean of itself and those before it, so many in all.

    >>> smoothed({1: 0.0, 2: 1.0, 3: 2.0}, 2)
    {1: 0.0, 2: 0.5, 3: 1.5}
    """
    values = list(one.values())
    return {step: statistics.fmean(values[max(0, at + 1 - over) : at + 1]) for at, step in enumerate(one)}


def drawn(panels: Sequence[Panel], file: Path) -> Path:
    """A figure with the panels side by side; the thick line is the mean where there are several seeds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    size, layout = (3.6 * len(panels), 3.3), ConstrainedLayoutEngine(w_pad=0.12)  # inches
    figure, row = pyplot.subplots(1, len(panels), figsize=size, layout=layout, squeeze=False)
    tall = _height([panel for panel in panels if panel.unit == F1])
    for axes, panel in zip(row[0], panels, strict=True):
        for each in panel.curves:
            axes.plot(*_points(each), color=SEED, linewidth=1, label="one seed")
        mean = smoothed(mean_curve(panel.curves), panel.over)
        mark = "o" if panel.unit == F1 else None  # validated now and then only
        axes.plot(*_points(mean), color=MEAN, linewidth=2.4, marker=mark, markersize=4, label="mean of seeds")
        axes.set_title(panel.title, fontsize=10)
        axes.set(xlabel="GRPO step", ylabel=panel.unit)
        axes.set_xlim(left=0)
        if panel.unit == F1:
            low, high = _range(panel)
            axes.set_ylim((low + high - tall) / 2, (low + high + tall) / 2)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    if len(panels[0].curves) > 1:
        lines, _ = row[0][0].get_legend_handles_labels()
        figure.legend(handles=[lines[0], lines[-1]], loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150)
    pyplot.close(figure)
    return file


def _height(panels: Sequence[Panel]) -> float:
    """Of panels to be compared: what the largest needs, and no less than what makes noise look like noise."""
    return max([LEAST, *(1.1 * (high - low) for low, high in map(_range, panels))])


def _range(panel: Panel) -> tuple[float, float]:
    values = [value for each in panel.curves for value in each.values()]
    return min(values), max(values)


def _points(one: Curve) -> tuple[list[int], list[float]]:
    return list(one), list(one.values())
