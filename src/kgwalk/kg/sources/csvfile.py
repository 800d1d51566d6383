"""Comma-separated rows by RFC 4180: quoted fields may hold commas, quotes and line ends.

The syntax is Python's csv module, strict. Knows nothing of what the columns mean beyond the layout given.
"""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice, zip_longest
from typing import NamedTuple

import pyarrow as pa

from kgwalk.kg.sources.block import Columns, strings
from kgwalk.kg.sources.layout import Layout, Record
from kgwalk.kg.sources.source import ENCODING_HINT, Source, TimeCheck, not_utf8, shown
from kgwalk.kg.sources.stream import LINE_GROWTH, MOST_LINE_BYTES, Lines, line_blocks, open_stream

# A quote that is never closed takes in all that follows; past this a row of many lines is held to be that.
_MOST_ROW_BYTES = 64 << 20


class _Feed:
    """The lines for csv.reader; those of the row being read are kept, so that reading can go back to them."""

    def __init__(self, blocks: Iterator[Lines], limit: int) -> None:
        self._blocks, self._limit = blocks, limit
        self._lines: Iterator[bytes] = iter(())
        self._again: deque[bytes] = deque()
        self.first = 1  # the number of the row's first line
        self.row: list[bytes] = []
        self.row_bytes = 0
        self.bad_utf8: tuple[int, UnicodeDecodeError] | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        raw = self._next_line()
        if not raw:
            raise StopIteration
        self.row.append(raw)
        self.row_bytes += len(raw)
        if len(self.row) > 1 and self.row_bytes > self._limit:
            raise csv.Error(f"a quoted field that does not end within {self._limit:,} bytes")
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            if self.bad_utf8 is None:
                self.bad_utf8 = (self.first + len(self.row) - 1, error)
            return raw.decode("utf-8", "surrogateescape")

    def _next_line(self) -> bytes:
        """b"" at the end of the file."""
        if self._again:
            return self._again.popleft()
        line = next(self._lines, b"")
        while not line and (block := next(self._blocks, None)):  # the row goes on in the next block
            self._lines = io.BytesIO(block.data)
            line = next(self._lines, b"")
        return line

    def start_block(self, block: Lines) -> None:
        self._lines = io.BytesIO(block.data)
        self.start_row(block.first)

    def block_ended(self) -> bool:
        """Whether all lines that were taken in are used up; asked between rows."""
        if not self._again and (line := next(self._lines, b"")):
            self._again.append(line)
        return not self._again

    def start_row(self, first: int) -> None:
        self.first, self.row, self.row_bytes, self.bad_utf8 = first, [], 0, None

    def give_up_first_line(self) -> None:
        """Take the row's first line as the bad one and read on from the second."""
        self._again.extendleft(reversed(self.row[1:]))
        self.start_row(self.first + 1)


def read_csv(source: Source, layout: Layout) -> Iterator[list[pa.StringArray]]:
    """Blocks of columns, as `read_tsv` gives them."""
    awaits_header = source.options.header is not False
    with open_stream(source) as stream:
        blocks = line_blocks(source, stream)
        feed = _feed(source, blocks)
        for lines in blocks:
            rest = lines
            if awaits_header and (opening := _first_record(lines)):
                awaits_header = False
                rest = _after_header(source, layout, lines, opening)
            columns = clean_columns(rest.data, layout)
            if columns is None:
                feed.start_block(rest)
                yield from _checked_columns(source, layout, _records(source, feed))
            elif len(columns[0]):
                yield columns


def csv_records(source: Source) -> Iterator[Record]:
    """The rows one by one, of any width; those that are not CSV or not UTF-8 are refused."""
    with open_stream(source) as stream:
        blocks = line_blocks(source, stream)
        feed = _feed(source, blocks)
        for lines in blocks:
            feed.start_block(lines)
            yield from _records(source, feed)


def _feed(source: Source, blocks: Iterator[Lines]) -> _Feed:
    csv.field_size_limit(max(csv.field_size_limit(), MOST_LINE_BYTES))  # the module's default is 128 KiB
    return _Feed(blocks, min(LINE_GROWTH * max(1, source.options.block_bytes), _MOST_ROW_BYTES))


class _Opening(NamedTuple):
    line: int
    fields: list[str]
    end: int  # where the row ends in its block


def _first_record(lines: Lines) -> _Opening | None:
    """The first row that is not empty, None if all are; without fields if it is broken: that is no header."""
    data = io.BytesIO(lines.data)
    reader = csv.reader(map(shown, data), strict=True)
    line = lines.first
    try:
        for fields in reader:
            if fields:
                return _Opening(line, fields, data.tell())
            line = lines.first + reader.line_num
    except csv.Error:
        return _Opening(line, [], 0)
    return None


def _after_header(source: Source, layout: Layout, lines: Lines, row: _Opening) -> Lines:
    if not (row.fields and layout.takes_header(row.fields, source, row.line)):
        return lines
    return Lines(lines.first + lines.data.count(b"\n", 0, row.end), lines.data[row.end :])


def clean_columns(data: bytes, layout: Layout) -> list[pa.StringArray] | None:
    """The columns of a block of whole rows in which nothing is wrong; None for any other block."""
    required = len(layout.columns)
    columns: list[list[str]] = [[] for _ in range(max(layout.widths))]
    found = {required}
    try:
        reader = csv.reader(io.StringIO(data.decode("utf-8"), newline="\n"), strict=True)
        # A few rows at a time: the garbage collector walks every list that is alive.
        while rows := list(islice(reader, 1000)):
            found.update(map(len, rows))
            turned = zip_longest(*filter(None, rows), fillvalue="")
            for column, fields in zip(columns, turned, strict=False):
                column.extend(fields)
            for column in columns[required:]:
                column.extend([""] * (len(columns[0]) - len(column)))
    except (UnicodeDecodeError, csv.Error):
        return None
    if found - {0, *layout.widths} or any("" in column for column in columns[:required]):
        return None
    times = TimeCheck()
    if any(times.problem(time) for column in columns[required:] for time in set(column)):
        return None
    return [strings(column) for column in columns[: max(found)]]


def _checked_columns(source: Source, layout: Layout, records: Iterable[Record]) -> Iterator[list[pa.StringArray]]:
    """The same columns row by row, whatever is in them; rows that are wrong are refused."""
    rows, held, times = Columns(len(layout.columns)), 0, TimeCheck()
    for record in records:
        if problem := layout.problem(record.fields, ",", times):
            hint = layout.hint(source, first=not len(rows))
            source.refuse(problem, line=record.line, text=_text(record.raw), hint=hint)
            continue
        size = len(record.raw)
        if len(rows) and held + size > source.options.block_bytes:
            yield rows.arrays()
            rows, held, times = Columns(len(layout.columns)), 0, TimeCheck()
        rows.append(record.fields)
        held += size
    if len(rows):
        yield rows.arrays()


def _records(source: Source, feed: _Feed) -> Iterator[Record]:
    """The rows up to the first that ends with its block; those that are not CSV or not UTF-8 are refused."""
    reader = csv.reader(feed, strict=True)
    while not feed.block_ended():
        try:
            fields = next(reader)
        except csv.Error as error:
            source.refuse(f"not CSV: {error}", line=feed.first, text=_text(feed.row[0]))
            feed.give_up_first_line()
            continue
        if feed.bad_utf8:
            line, why = feed.bad_utf8
            source.refuse(not_utf8(why), line=line, text=_text(why.object), hint=ENCODING_HINT)
        elif fields:
            yield Record(feed.first, b"".join(feed.row), fields)
        feed.start_row(feed.first + len(feed.row))


def _text(raw: bytes) -> str:
    return shown(raw).rstrip("\r\n")
