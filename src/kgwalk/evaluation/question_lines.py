"""Every line of a split, in turn: a question with its place, or a finding that says what is wrong with it.

Where reading a dataset stops at the first bad line, this goes on, so that all of them are listed; and it does not take
a number for a text, as reading does. Knows nothing of graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from kgwalk.data.questions import GRAPH
from kgwalk.evaluation.findings import Finding
from kgwalk.kg.build import Progress
from kgwalk.kg.sources import Options, Tally
from kgwalk.kg.sources.source import Source, not_utf8
from kgwalk.kg.sources.stream import line_blocks, open_stream
from kgwalk.runs.question_rows import kind, question_of
from kgwalk.types import InputError, Question


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and where it stands."""

    question: Question
    split: str
    path: Path
    line: int

    def finding(self, kind: str, text: str) -> Finding:
        return Finding(kind, text, self.path, self.split, self.question.id, self.line)


def read_lines(path: Path, split: str, progress: Progress) -> Iterator[Asked | Finding]:
    """The questions of a file and what is wrong with its other lines; a file that breaks off ends with a finding."""
    source = Source(str(path), Options(), Tally())
    empty = True
    try:
        with open_stream(source) as stream:
            for block in line_blocks(source, stream):
                for number, raw in enumerate(block.data.split(b"\n"), block.first):
                    if raw.strip():
                        empty = False
                        yield from _line(raw, number, split, path)
                progress(f"reading {path.name}", source.tally.bytes_read, source.tally.bytes_total)
    except InputError as error:
        yield unreadable(error, path, split)
    else:
        if empty:
            yield Finding("unreadable_file", "no questions", path, split)


def unreadable(error: Exception, path: Path, split: str | None = None, *, kind: str = "unreadable_file") -> Finding:
    """An error as a finding: its first line, without the place, which the finding has."""
    if isinstance(error, OSError):
        return Finding(kind, f"cannot be read: {error.strerror}", path, split)
    text, line = str(error).partition("\n")[0], None
    if isinstance(error, InputError) and error.path == str(path):
        line = error.line
        text = text.removeprefix(f"{path}:").removeprefix(f"{line}:").strip()
    return Finding(kind, text, path, split, line=line)


def _line(raw: bytes, number: int, split: str, path: Path) -> Iterator[Asked | Finding]:
    try:
        row = _row(raw)
        asked = Asked(_question(row, number), split, path, number)
    except ValueError as error:
        yield Finding("bad_line", str(error), path, split, line=number)
        return
    yield asked
    if "id" not in row:
        yield asked.finding("no_id", "no `id`: the line's number stands for it")


def _row(raw: bytes) -> dict[str, Any]:
    """The object of a line, without the question's own facts, which may be a thousand times the rest."""
    try:
        row = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as why:
            raise ValueError(not_utf8(why)) from None
        raise ValueError(f"not JSON: {error.msg} (column {error.colno})") from None
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, got {kind(row)}")
    row.pop(GRAPH, None)
    return row


def _question(row: dict[str, Any], number: int) -> Question:
    """The question of an object; ValueError says what is wrong."""
    if "question" not in row:
        raise ValueError("no `question`")
    for key, kinds in (("id", (str, int)), ("question", (str,))):
        if key in row and type(row[key]) not in kinds:
            raise ValueError(f"expected `{key}`, text, got {kind(row[key])}")
    question = question_of(row, str(number))
    if question.hops is not None and question.hops < 0:
        raise ValueError(f"expected `hops`, a whole number from 0 on, got {question.hops}")
    return question
