"""The metrics of a stage as curves: a file of rows that grows, read once and then only where it is new.

    curves = StepCurves(Path("runs/kgwalk-world/grpo/metrics.jsonl"))
    curves.read(["reward", "f1"], most=400)          # a run of 100,000 steps: 400 points a curve, no extreme lost
    curves.read(["reward"], since=token)             # what came after the reading that gave the token

The numbers are kept as arrays, so that a second look at a long run reads only the rows that are new. A run that is
resumed writes some rows again into a new file; the token then begins anew, and the answer says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, TypedDict

import numpy as np
import orjson

from kgwalk.config.run_folder import RESTORE
from kgwalk.score.statistics import Float64Array
from kgwalk.types import InputError

DIGITS = 7  # of a number that is sent: more are not seen
_TOKEN = re.compile(r"([0-9a-f]{1,32})\.(\d{1,15})")


class StepCurve(TypedDict):
    """The points of one metric; only steps that have it."""

    steps: list[int]
    values: list[float]


class StepPoints(TypedDict):
    stage: str
    since: str | None  # the token that was given; null: from the beginning
    next: str  # the token for what comes after
    rows: int  # how many steps are in the file
    new: int  # how many of these came after `since`
    thinned: bool
    names: list[str]  # every metric that the last row, or a row before it, has
    curves: dict[str, StepCurve]


class StepCurves:
    """A `metrics.jsonl` as arrays. Several threads may ask."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._names: dict[str, None] = {}
        self._clear(0)

    def _clear(self, file: int) -> None:
        self._file, self._end = file, 0  # which file it is, and the bytes of whole rows read
        self._step_N = np.empty(0, np.int64)
        self._end_N = np.empty(0, np.int64)  # where each row ends in the file
        self._columns: dict[str, Float64Array] = {}  # NaN: the row has no such metric

    def read(self, names: Sequence[str], *, since: str | None = None, most: int = 400) -> StepPoints:
        """At most about `most` points of each curve, of the rows after the token."""
        with self._lock:
            self._catch_up(names)
            first = self._first(since)
            if first is None:
                since, first = None, 0
            curves, thinned = {}, False
            for name in names:
                column_N = self._columns[name]
                having = first + np.flatnonzero(np.isfinite(column_N[first:]))
                kept = having[extremes(column_N[having], most)]
                thinned |= len(kept) < len(having)
                if len(kept):
                    values = [_short(value) for value in column_N[kept].tolist()]
                    curves[name] = StepCurve(steps=self._step_N[kept].tolist(), values=values)
            return {
                "stage": self.path.parent.name,
                "since": since,
                "next": f"{self._file:x}.{self._end}",
                "rows": len(self._step_N),
                "new": len(self._step_N) - first,
                "thinned": thinned,
                "names": list(self._names),
                "curves": curves,
            }

    def _first(self, since: str | None) -> int | None:
        """The first row after the token; None if that is of another file, or of no row's end."""
        found = None if since is None else _TOKEN.fullmatch(since)
        if found is None or int(found[1], 16) != self._file:
            return None
        end = int(found[2])
        at = int(np.searchsorted(self._end_N, end))
        if end == 0:
            return 0
        return at + 1 if at < len(self._end_N) and self._end_N[at] == end else None

    def _catch_up(self, names: Sequence[str]) -> None:
        """Read the rows that are new; all of them if the file is another, or for a metric that was not asked before."""
        with open(self.path, "rb") as file:
            about = os.fstat(file.fileno())
            wanted = dict.fromkeys([*self._columns, *names])
            if about.st_ino != self._file or about.st_size < self._end or len(wanted) > len(self._columns):
                self._clear(about.st_ino)
                self._columns = {name: np.empty(0) for name in wanted}
            file.seek(self._end)
            self._add(file)

    def _add(self, file: BinaryIO) -> None:
        """The rows from here on. A hundred thousand take half a second, so the loop does as little as it can."""
        names = list(self._columns)
        steps: list[int] = []
        ends: list[int] = []
        found: list[list[Any]] = [[] for _ in names]
        adds = [(name, values.append) for name, values in zip(names, found, strict=True)]
        end, row = self._end, None
        for line in file:
            if not line.endswith(b"\n"):  # it is being written
                break
            try:
                row = orjson.loads(line)
                step = row["step"]
            except (orjson.JSONDecodeError, TypeError, KeyError) as error:
                raise self._damaged(f"not the row of a step ({error})", len(self._step_N) + len(steps) + 1) from None
            if type(step) is not int or not -(1 << 53) < step < 1 << 53:
                raise self._damaged("no proper `step`", len(self._step_N) + len(steps) + 1)
            end += len(line)
            steps.append(step)
            ends.append(end)
            get = row.get
            for name, add in adds:
                add(get(name))
            if "eval_f1" in row or len(steps) == 1:  # a step with a validation has metrics that others have not
                self._notice(row)
        if row is not None:
            self._notice(row)
        self._step_N = np.append(self._step_N, np.array(steps, np.int64))
        self._end_N = np.append(self._end_N, np.array(ends, np.int64))
        for name, values in zip(names, found, strict=True):
            self._columns[name] = np.append(self._columns[name], _numbers(values))
        self._end = end

    def _damaged(self, why: str, number: int) -> InputError:
        self._clear(0)
        return InputError(why, path=str(self.path), line=number, hint=RESTORE)

    def _notice(self, row: dict[str, Any]) -> None:
        self._names |= {name: None for name, value in row.items() if type(value) in (int, float) and name != "step"}


def extremes(value_N: Float64Array, most: int) -> list[int]:
    """The places of at most `most` values: the lowest and the highest of each stretch, the first and the last of all.

    >>> extremes(np.array([0.0, 1, 9, 1, 0, 1, -9, 1]), 6)  # of 0 1 9 1 and 0 1 -9 1, and both ends
    [0, 2, 5, 6, 7]
    >>> extremes(np.array([3.0, 1]), 6)
    [0, 1]
    """
    count = len(value_N)
    if count <= most:
        return list(range(count))
    stretches = max(1, (most - 2) // 2)
    kept = {0, count - 1}
    for stretch in range(stretches):
        begin, end = stretch * count // stretches, (stretch + 1) * count // stretches
        part = value_N[begin:end]
        kept |= {begin + int(part.argmin()), begin + int(part.argmax())}
    return sorted(kept)


def _numbers(values: list[Any]) -> Float64Array:
    """The values as numbers; NaN for what is none."""
    try:
        return np.array(values, np.float64)  # None is NaN
    except (ValueError, TypeError, OverflowError):
        return np.array([value if isinstance(value, float) else np.nan for value in values], np.float64)


def _short(value: float) -> float:
    """A number with as many digits as a screen can show.

    >>> _short(0.123456789), _short(1 / 3 * 1e6)
    (0.1234568, 333333.3)
    """
    return float(f"{value:.{DIGITS}g}")
