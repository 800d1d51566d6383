"""Builds an uploaded graph: `python -m kgwalk.serve.build_process`, a process of its own for files of strangers.

It reads one JSON object from stdin (`BuildOrder`), and its working folder has the files and gets the store, graph.kg.
On stdout it tells a JSON object a line: how far it is, and at the end what came of it (`BuildTold`). It has bounds on
memory, processor time and the size of a file, so a file that unpacks to far more than it is ends this process alone.
All rows that cannot be read are listed, also where they make the build fail.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping
from time import monotonic
from typing import Any, TypedDict

from kgwalk.serve.explore_shapes import MOST_BAD_ROWS, BadRow, JobReport
from kgwalk.types import InputError, KgwalkError

TARGET = "graph.kg"
MEMORY = 256 << 20  # bytes that the build may use for its own arrays
MOST_MEMORY = 4 << 30  # bytes of data in all, libraries included
MOST_SECONDS = 1800  # of processor time
EVERY = 0.1  # seconds between two lines about how far it is
_WHERE = re.compile(r"(?P<file>[^:]+):(?:(?P<line>\d+):)? (?P<message>.*)", re.DOTALL)


class BuildOrder(TypedDict):
    sources: list[str]
    table: bool | None
    skip_bad_rows: bool
    most_bytes: int  # of one file that is written


class BuildTold(TypedDict, total=False):
    stage: str
    done: int
    total: int | None
    failed: str
    bad_rows: list[BadRow]
    bad: int
    notes: list[str]
    report: JobReport


def main() -> int:
    order: BuildOrder = json.load(sys.stdin)
    _bound(order["most_bytes"])
    try:
        told = built(order)
    except InputError as error:
        row: BadRow = {"file": error.path, "line": error.line, "message": error.message}
        told = {"failed": str(error).partition("\n")[0], "bad_rows": [row] if error.path else [], "bad": 0}
    except KgwalkError as error:
        told = {"failed": str(error)}
    except MemoryError:
        told = {"failed": f"the files need more than {MOST_MEMORY >> 30} GiB of memory to be read"}
    _tell(told)
    return 0


def built(order: BuildOrder) -> BuildTold:
    """Build the store, and what to tell. Raises KgwalkError."""
    from kgwalk.kg.build import build
    from kgwalk.kg.sources.reading import looks_like_a_table
    from kgwalk.kg.sources.source import Options

    table = any(map(looks_like_a_table, order["sources"])) if order["table"] is None else order["table"]
    options = Options(on_error="skip", table=table, messages=MOST_BAD_ROWS)
    report = build(order["sources"], TARGET, options=options, memory=MEMORY, progress=_Progress())
    told: BuildTold = {
        "bad_rows": [bad_row(text) for text in report.first_skipped],
        "bad": report.skipped,
        "notes": report.notes,
    }
    if report.skipped and not order["skip_bad_rows"]:
        shutil.rmtree(TARGET)
        few = report.skipped == 1
        rows, them = ("1 row", "it") if few else (f"{report.skipped:,} rows", "them")
        return told | {"failed": f"{rows} cannot be read; mend {them}, or leave {them} out"}
    return told | {
        "report": {
            "triples": report.triples,
            "entities": report.entities,
            "relations": report.relations,
            "duplicates": report.duplicates,
            "tables": [_about(one) for one in report.tables],
        }
    }


def bad_row(text: str) -> BadRow:
    """A message of the reader's, taken apart.

    >>> bad_row("people.csv:3: expected 3 columns, got 2")
    {'file': 'people.csv', 'line': 3, 'message': 'expected 3 columns, got 2'}
    """
    found = _WHERE.fullmatch(text)
    if found is None:
        return {"file": None, "line": None, "message": text}
    line = found["line"]
    return {"file": found["file"], "line": None if line is None else int(line), "message": found["message"]}


def _about(table: Any) -> str:
    """What was found about one table, in a sentence."""
    links = ", ".join(f"{column} leads to {other}" for column, other in table.links.items())
    key = f"key {table.key}" if table.key else "no key"
    return f"{table.table}: {table.rows:,} rows, {key}{'; ' if links else ''}{links}"


class _Progress:
    """Tells how far the build is, a few times a second."""

    def __init__(self) -> None:
        self._stage, self._last = "", 0.0

    def __call__(self, stage: str, done: int, total: int | None, values: Mapping[str, float] = {}, /) -> None:
        if stage != self._stage or monotonic() - self._last >= EVERY:
            self._stage, self._last = stage, monotonic()
            _tell({"stage": stage, "done": int(done), "total": None if total is None else int(total)})


def _tell(told: BuildTold) -> None:
    print(json.dumps(told), flush=True)


def _bound(most_bytes: int) -> None:
    try:
        import resource
    except ModuleNotFoundError:  # not on this system
        return
    bounds = {"CORE": 0, "CPU": MOST_SECONDS, "DATA": MOST_MEMORY, "FSIZE": most_bytes}
    for name, bound in bounds.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(kind)
        most = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(kind, (most, hard))


if __name__ == "__main__":
    sys.exit(main())
