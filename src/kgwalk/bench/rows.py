"""A measured figure beside its baseline and its goal.

A benchmark is a list of figures; `table` shows them, `Figure.as_json` is a row of `--json`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """`goal` is the project's own: ("<=", 20.0) or (">=", 900.0)."""

    name: str
    value: float
    unit: str
    baseline: float | None = None
    goal: tuple[str, float] | None = None

    @property
    def ratio(self) -> float | None:
        """How many times better than the baseline: more of a rate, less of anything else."""
        if not self.baseline or not self.value:
            return None
        return self.value / self.baseline if self.unit.endswith("/s") else self.baseline / self.value

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        if self.goal is None:
            return None
        sign, bound = self.goal
        return self.value <= bound if sign == "<=" else self.value >= bound

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "met": self.met}


def line(row: Figure) -> str:
    """A figure on one line, to be shown as soon as it is known.

    >>> line(Figure("kgwalk on world: episodes", 1234.5, "episodes/s", goal=(">=", 1000)))
    'kgwalk on world: episodes  1,234 episodes/s  (goal >= 1,000: yes)'
    """
    goal = "" if row.goal is None else f"  (goal {row.goal[0]} {row.goal[1]:,g}: {'yes' if row.met else 'NO'})"
    return f"{row.name}  {_figure(row.value)} {row.unit}{goal}"


def table(title: str, rows: list[Figure], baseline: str = "list scan") -> Table:
    """All figures; `baseline` is the title of that column."""
    shown = Table(title=title, title_justify="left")
    for column in ("figure", "value", "unit", baseline, "times better", "goal", "met"):
        shown.add_column(column, justify="left" if column in ("figure", "unit") else "right")
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:,.1f}"
        goal = "" if row.goal is None else f"{row.goal[0]} {row.goal[1]:,g}"
        met = {None: "", True: "yes", False: "NO"}[row.met]
        beside = "" if row.baseline is None else _figure(row.baseline)
        shown.add_row(row.name, _figure(row.value), row.unit, beside, ratio, goal, met)
    return shown


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"
