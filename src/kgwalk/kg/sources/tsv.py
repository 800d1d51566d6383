"""Tab-separated rows: raw text between tabs, one row a line, no quoting.

A file whose first line is ESCAPED_MARK has tab, newline, return and backslash in names as `\\t \\n \\r \\\\`.
A clean block goes to Arrow's parser whole; any other is read line by line, to find the line that is wrong.
Knows nothing of files; blocks of lines come in, columns go out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from kgwalk.kg.sources.block import Columns, strings
from kgwalk.kg.sources.layout import Layout, Record
from kgwalk.kg.sources.source import ENCODING_HINT, Source, TimeCheck, not_utf8, shown
from kgwalk.kg.sources.stream import BOM, Lines, line_blocks, open_stream

ESCAPED_MARK = "#kgwalk-tsv escaped"

_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_PLAIN = {escaped: plain for plain, escaped in _ESCAPES.items()}
_TO_ESCAPE = str.maketrans(_ESCAPES)
_ESCAPED = re.compile(r"\\.?", re.DOTALL)
_FIRST_LINE = re.compile(rb"[^\n]+")


def escape(text: str) -> str:
    r"""
    >>> print(escape("a\tb\\c"))
    a\tb\\c
    """
    return text.translate(_TO_ESCAPE)


def unescape(text: str) -> str:
    """The inverse of `escape`; any other sequence that starts with a backslash is a ValueError."""
    return _ESCAPED.sub(_plain, text)


def _plain(found: re.Match[str]) -> str:
    if (plain := _PLAIN.get(found.group())) is None:
        raise ValueError(f"expected one of the escapes \\t \\n \\r \\\\, got {found.group()!r}")
    return plain


def read_tsv(source: Source, layout: Layout) -> Iterator[list[pa.StringArray]]:
    """Blocks of columns, as many as the layout has; the optional one only where a row of the block has it."""
    escaped, awaits_header = False, source.options.header is not False
    with open_stream(source) as stream:
        for lines in line_blocks(source, stream):
            rest = lines
            if lines.first == 1 and (after := _after_mark(lines)):
                # A marked file is our own export and starts with data, be it a triple (head, relation, tail).
                rest, escaped, awaits_header = after, True, source.options.header is True
            if awaits_header and (opening := _first_row(rest)):
                awaits_header = False
                rest = _after_header(source, layout, rest, *opening)
            columns = clean_columns(rest.data, layout, escaped)
            if columns is None:
                columns = checked_columns(source, rest, layout, escaped)
            if len(columns[0]):
                yield columns


def tsv_records(source: Source) -> Iterator[Record]:
    """The rows one by one, of any width; those that are not UTF-8 are refused, and so is a marked file of triples."""
    with open_stream(source) as stream:
        for lines in line_blocks(source, stream):
            if lines.first == 1 and _after_mark(lines):
                raise source.error(
                    "a file of triples, as `kgwalk kg export` writes them, not a table", hint="leave out --table"
                )
            yield from _records(source, lines, escaped=False)


def _after_mark(lines: Lines) -> Lines | None:
    line, _, rest = lines.data.partition(b"\n")
    return Lines(lines.first + 1, rest) if line.removesuffix(b"\r") == ESCAPED_MARK.encode() else None


def _first_row(lines: Lines) -> tuple[int, int] | None:
    """Where the first line that is not empty starts and ends; None if all are."""
    for found in _FIRST_LINE.finditer(lines.data):
        if found.group() != b"\r":
            return found.span()
    return None


def _after_header(source: Source, layout: Layout, lines: Lines, start: int, end: int) -> Lines:
    number = lines.first + lines.data.count(b"\n", 0, start)
    fields = shown(lines.data[start:end]).removesuffix("\r").split("\t")
    if not layout.takes_header(fields, source, number):
        return lines
    return Lines(number + 1, lines.data[end + 1 :])


def clean_columns(data: bytes, layout: Layout, escaped: bool) -> list[pa.StringArray] | None:
    """The columns of a block in which nothing is wrong or unusual; None for any other block."""
    if data.startswith(BOM):  # Arrow would take it for the start of a file; here it is part of a name
        return None
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
        if b"\r" in data:  # Arrow would end the line there
            return None
    first = _FIRST_LINE.search(data)
    if first is None:
        return [strings([]) for _ in layout.columns]
    required, width = len(layout.columns), first.group().count(b"\t") + 1
    if width not in layout.widths:
        return None
    try:
        columns = _uniform_columns(data, width, layout)
        if escaped and b"\\" in data:
            columns = [_unescaped(column) for column in columns]
    except ValueError:  # columns missing or too many, bad UTF-8 (both ArrowInvalid), a bad escape
        return None
    if any(pc.min(pc.binary_length(column)).as_py() == 0 for column in columns[:required]):
        return None
    times = TimeCheck()
    if any(times.problem(time) for column in columns[required:] for time in column.unique().to_pylist()):
        return None
    return columns


def _uniform_columns(data: bytes, width: int, layout: Layout) -> list[pa.StringArray]:
    """Columns of a block whose rows all have a time or all have none, else of one that mixes them."""
    try:
        return _arrow_columns(data, width)
    except pa.ArrowInvalid:
        if layout.optional is None:
            raise
        return _arrow_columns(_padded(data, len(layout.columns)), len(layout.columns) + 1)


def _padded(data: bytes, required: int) -> bytes:
    """An empty last column for the lines that have just the required ones."""
    text = np.frombuffer(data if data.endswith(b"\n") else data + b"\n", np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    tabs = np.searchsorted(np.flatnonzero(text == ord("\t")), ends)  # up to each line's end
    short = np.diff(tabs, prepend=0) == required - 1
    return np.insert(text, ends[short], ord("\t")).tobytes()


def _arrow_columns(data: bytes, width: int) -> list[pa.StringArray]:
    names = [str(column) for column in range(width)]
    table = arrow_csv.read_csv(
        pa.BufferReader(data),
        # One parser block, so that each column is one array.
        read_options=arrow_csv.ReadOptions(column_names=names, block_size=len(data) + 1),
        parse_options=arrow_csv.ParseOptions(
            delimiter="\t", quote_char=False, double_quote=False, escape_char=False, ignore_empty_lines=True
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            null_values=[],
            strings_can_be_null=False,
            check_utf8=True,
        ),
    )
    return [column.combine_chunks() for column in table.columns]


def _unescaped(column: pa.StringArray) -> pa.StringArray:
    affected = pc.match_substring(column, "\\")
    if not pc.any(affected).as_py():
        return column
    plain = [unescape(text) for text in column.filter(affected).to_pylist()]
    return pc.replace_with_mask(column, affected, strings(plain))


def checked_columns(source: Source, lines: Lines, layout: Layout, escaped: bool) -> list[pa.StringArray]:
    """The same columns line by line, whatever is in the block; rows that are wrong are refused."""
    rows = Columns(len(layout.columns))
    times = TimeCheck()
    for record in _records(source, lines, escaped):
        if problem := layout.problem(record.fields, "<TAB>", times):
            hint = layout.hint(source, first=not len(rows))
            source.refuse(problem, line=record.line, text=shown(record.raw), hint=hint)
        else:
            rows.append(record.fields)
    return rows.arrays()


def _records(source: Source, lines: Lines, escaped: bool) -> Iterator[Record]:
    """The rows of a block; those that are not UTF-8, or have a bad escape, are refused."""
    for number, raw in enumerate(lines.data.split(b"\n"), lines.first):
        raw = raw.removesuffix(b"\r")
        if not raw:
            continue
        try:
            fields = raw.decode("utf-8").split("\t")
            if escaped and b"\\" in raw:
                fields = [unescape(field) for field in fields]
        except UnicodeDecodeError as error:
            source.refuse(not_utf8(error), line=number, text=shown(raw), hint=ENCODING_HINT)
            continue
        except ValueError as error:
            source.refuse(str(error), line=number, text=shown(raw))
            continue
        yield Record(number, raw, fields)
