"""Figures as Markdown: tables and their cells. A figure that is missing is a "-".

Knows nothing of experiments.
"""

from __future__ import annotations

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
    return f"| {' | '.join(cells)} |"


def share(value: float | None, interval: Sequence[float] | None = None) -> str:
    """A number between 0 and 1, with its 95% interval if that is given.

    >>> share(0.6081), share(0.6081, [0.57, 0.645]), share(None)
    ('0.608', '0.608 (0.570 to 0.645)', '-')
    """
    if value is None:
        return MISSING
    return f"{value:.3f}" if interval is None else f"{value:.3f} ({interval[0]:.3f} to {interval[1]:.3f})"


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
