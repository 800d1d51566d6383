"""Questions as JSON lines, plain, .gz or .zst: read, checked, and written back the same.

What a line may hold stands in runs/question_rows.py. Knows nothing of graphs, nor of other formats.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from kgwalk.kg.sources import Options, Tally
from kgwalk.kg.sources.source import Source, shown
from kgwalk.kg.sources.stream import line_blocks, open_stream
from kgwalk.runs.question_rows import question_of
from kgwalk.types import KgwalkError, Question

GRAPH = "graph"  # the key of a question's own facts


def read_questions(path: str | Path, *, with_graph: bool = True) -> Iterator[Question]:
    """The questions of a file; a line that is not one is an InputError with its number.

    `with_graph=False` leaves out the questions' own facts, which may be a thousand times the rest.
    """
    source = Source(str(path), Options(), Tally())
    found = False
    with open_stream(source) as stream:
        for block in line_blocks(source, stream):
            for number, raw in enumerate(block.data.split(b"\n"), block.first):
                if raw.strip():
                    found = True
                    yield _question(source, number, raw, with_graph)
    if not found:
        raise source.error("no questions")


def _question(source: Source, number: int, raw: bytes, with_graph: bool) -> Question:
    try:
        row = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise source.error(f"not JSON: {error}", line=number, text=shown(raw)) from None
    if isinstance(row, dict) and not with_graph:
        row.pop(GRAPH, None)
    try:
        return question_of(row, str(number))
    except ValueError as error:
        raise source.error(str(error), line=number, text=shown(raw)) from None


def line_of(row: dict[str, Any]) -> bytes:
    """A line of JSON; KgwalkError for what JSON cannot hold."""
    try:
        return orjson.dumps(row) + b"\n"
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise KgwalkError(f"question {row.get('id')!r} cannot be written as JSON: {error}") from error
