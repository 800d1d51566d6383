"""Figures as Markdown: tables, their cells and the statistics in them. A figure that is missing is a "-"."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

MISSING = "-"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """
    >>> print(table(["questions", "F1"], [["pq-2h", "0.500"]]))
    | questions | F1 |
    |---|---|
    | pq-2h | 0.500 |
    """
    lines = [_line(head), "|" + "---|" * len(head), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|"


def share(value: float | None, interval: Sequence[float] | None = None, *, best: bool = False) -> str:
    """A number between 0 and 1, with its 95% interval if that is given and not a point; the best of a row is bold.

    >>> share(0.6081), share(0.6081, [0.57, 0.645], best=True), share(1.0, [1.0, 1.0]), share(None)
    ('0.608', '**0.608** (0.570 to 0.645)', '1.000', '-')
    """
    if value is None:
        return MISSING
    shown = bold(f"{value:.3f}") if best else f"{value:.3f}"
    if interval is None or interval[0] == interval[1]:
        return shown
    return f"{shown} ({interval[0]:.3f} to {interval[1]:.3f})"


def bold(cell: str) -> str:
    """
    >>> bold("0.638"), bold("")
    ('**0.638**', '')
    """
    return f"**{cell}**" if cell else cell


def chance(p: float | None) -> str:
    """A p value: two decimals, below 0.01 one digit.

    >>> chance(0.0014), chance(0.404), chance(1.0), chance(None)
    ('0.001', '0.40', '1.0', '-')
    """
    if p is None:
        return MISSING
    return f"{p:.1g}" if p < 0.01 else "1.0" if p > 0.995 else f"{p:.2f}"


def amount(value: float | None, digits: int = 1) -> str:
    """
    >>> amount(45.57), amount(1234.5, 0), amount(None)
    ('45.6', '1,234', '-')
    """
    return MISSING if value is None else f"{value:,.{digits}f}"


def counted(numbers: Sequence[int]) -> str:
    """How many questions; several numbers where the figures of a row are not of the same questions.

    >>> counted([3000]), counted([300, 3000]), counted([])
    ('3,000', '300 / 3,000', '-')
    """
    return " / ".join(f"{number:,}" for number in numbers) or MISSING


def mean(values: Sequence[float | None]) -> float | None:
    """Of those that are there."""
    found = [value for value in values if value is not None]
    return statistics.fmean(found) if found else None


def deviation(values: Sequence[float | None]) -> float | None:
    """The standard deviation that seeds show, with n - 1: of 0.50, 0.52 and 0.54 it is sqrt(0.0008 / 2) = 0.02.

    >>> share(deviation([0.50, 0.52, 0.54])), deviation([0.50, None])
    ('0.020', None)
    """
    found = [value for value in values if value is not None]
    return statistics.stdev(found) if len(found) > 1 else None


def difference(value: float | None, base: float | None) -> str:
    """
    >>> difference(0.64, 0.60), difference(0.5, 0.6), difference(0.5, None)
    ('+0.040', '-0.100', '-')
    """
    return MISSING if value is None or base is None else f"{value - base:+.3f}"


def welch(first: Sequence[float | None], second: Sequence[float | None]) -> float | None:
    """The two-sided p of Welch's t test, which lets the two have different variances.

    With x = sqrt(v) tan(a) the tail of Student's t with v degrees of freedom is an integral of cos(a)^(v - 1).

    Of 1, 2, 3 and 2, 3, 4: t = 1 / sqrt(2 / 3) = 1.22, v = 4, and a table of t says 0.288.

    >>> share(welch([1, 2, 3], [2, 3, 4])), welch([0.5], [0.4, 0.3])
    ('0.288', None)
    """
    a, b = ([value for value in values if value is not None] for values in (first, second))
    if len(a) < 2 or len(b) < 2:
        return None
    u, w = statistics.variance(a) / len(a), statistics.variance(b) / len(b)
    if u + w == 0:
        return None
    t = abs(statistics.fmean(a) - statistics.fmean(b)) / math.sqrt(u + w)
    v = (u + w) ** 2 / (u**2 / (len(a) - 1) + w**2 / (len(b) - 1))
    start, points = math.atan(t / math.sqrt(v)), 2000
    return _integral(start, v - 1, points) / _integral(0.0, v - 1, points)


def _integral(start: float, power: float, points: int) -> float:
    """Of cos^power from `start` to pi / 2, by the midpoint rule."""
    width = (math.pi / 2 - start) / points
    return width * math.fsum(math.cos(start + (at + 0.5) * width) ** power for at in range(points))
