"""What every reader gives: blocks of triples and of display names, in columns.

Knows nothing of files or formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Rows:
    """A block of triples. The columns are of equal length and have no nulls."""

    head: pa.StringArray
    relation: pa.StringArray
    tail: pa.StringArray
    time: pa.StringArray | None = None  # "" where a row has none; None when the block has no time column at all
    question: pa.StringArray | None = None  # RoG: the id of the question whose graph the row belongs to


@dataclass(frozen=True, slots=True)
class Labels:
    """Display names for keys, entities and relations alike. A smaller rank is preferred."""

    key: pa.StringArray
    label: pa.StringArray
    rank: int


Block: TypeAlias = Rows | Labels

GIVEN_RANK = 0  # a name that the source itself gives to the key
FALLBACK_RANK = 200  # a name made from the key, for want of a better one; ranks fit in a byte


def strings(values: Sequence[str]) -> pa.StringArray:
    return pa.array(values, pa.string())


class Columns:
    """Rows gathered into columns; the last field of a row may be missing, and is "" where others have it."""

    def __init__(self, required: int) -> None:
        self._required: list[list[str]] = [[] for _ in range(required)]
        self._optional: list[str] | None = None

    def __len__(self) -> int:
        return len(self._required[0])

    def append(self, fields: Sequence[str]) -> None:
        if len(fields) > len(self._required) and self._optional is None:
            self._optional = [""] * len(self)
        # Columns of strings, not rows: the garbage collector does not walk strings.
        for column, field in zip(self._required, fields, strict=False):
            column.append(field)
        if self._optional is not None:
            self._optional.append(fields[-1] if len(fields) > len(self._required) else "")

    def arrays(self) -> list[pa.StringArray]:
        optional = [] if self._optional is None else [self._optional]
        return [strings(column) for column in self._required + optional]
