"""A file of docs/results: the reports behind one table, in a form that is small and easy to diff.

A file has up to four sections, each with reports by name: `tests` (what an evaluation wrote), `fits` (what a fit says
of itself), `steps` (GRPO, a row a step) and `noted` (figures of runs whose reports were not kept, taken over from
docs/results.md). A line is one field of one report. Numbers have six digits. Rows with the same keys are a table:

    >>> pack({"1": {"n": 160, "f1": 0.935833333}, "2": {"n": 184, "f1": 0.969374266}})
    {'columns': ['n', 'f1'], 'rows': {'1': [160, 0.935833], '2': [184, 0.969374]}}
    >>> unpack(pack([{"step": 1, "reward": 0.5}, {"step": 2, "reward": 0.6, "eval_f1": 0.4}]))
    [{'step': 1, 'reward': 0.5}, {'step': 2, 'reward': 0.6, 'eval_f1': 0.4}]
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DIGITS = 6  # of a number; tables show three or four
DEPTH = 3  # section, report, field: what is deeper stands on one line
SECTIONS = TESTS, FITS, STEPS, NOTED = "tests", "fits", "steps", "noted"
COLUMNS, ROWS = "columns", "rows"

Reports = dict[str, dict[str, Any]]  # by section, by name


def read(file: Path) -> Reports:
    return {section: {name: unpack(each) for name, each in found.items()} for section, found in _load(file).items()}


def write(file: Path, reports: Reports) -> None:
    """Sections that are empty are left out."""
    present = [section for section in SECTIONS if reports.get(section)]
    packed = {section: {name: pack(reports[section][name]) for name in sorted(reports[section])} for section in present}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_lines(packed, DEPTH) + "\n")


def pack(value: Any) -> Any:
    """Rounded, with rows of the same keys as tables. A key that only some rows of a list have is null in the others."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        columns = list(dict.fromkeys(key for row in value for key in row))
        return {COLUMNS: columns, ROWS: [[pack(row.get(key)) for key in columns] for row in value]}
    if isinstance(value, list):
        return [pack(each) for each in value]
    if not isinstance(value, dict):
        return value
    rows = list(value.values())
    if len(rows) > 1 and all(isinstance(row, dict) and list(row) == list(rows[0]) for row in rows) and rows[0]:
        return {
            COLUMNS: list(rows[0]),
            ROWS: {key: [pack(cell) for cell in row.values()] for key, row in value.items()},
        }
    return {key: pack(each) for key, each in value.items()}


def unpack(value: Any) -> Any:
    if isinstance(value, list):
        return [unpack(each) for each in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {COLUMNS, ROWS}:
        return {key: unpack(each) for key, each in value.items()}
    columns, rows = value[COLUMNS], value[ROWS]
    if isinstance(rows, dict):
        return {key: dict(zip(columns, map(unpack, row), strict=True)) for key, row in rows.items()}
    return [{key: unpack(cell) for key, cell in zip(columns, row, strict=True) if cell is not None} for row in rows]


def _lines(value: Any, depth: int, indent: str = "") -> str:
    if not isinstance(value, dict) or not value or depth == 0:
        return json.dumps(value, ensure_ascii=False)
    inner = indent + " "
    fields = [
        f"{inner}{json.dumps(key, ensure_ascii=False)}: {_lines(each, depth - 1, inner)}" for key, each in value.items()
    ]
    return "{\n" + ",\n".join(fields) + f"\n{indent}}}"


def _load(file: Path) -> Reports:
    found: Reports = json.loads(file.read_text())
    return found
