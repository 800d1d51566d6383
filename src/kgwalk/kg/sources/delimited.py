"""TSV and CSV: blocks of lines in, columns of strings out.

TSV has raw text between tabs, one row a line, without quoting. A file whose first line is ESCAPED_MARK writes tab,
newline, return and backslash in names as `\\t \\n \\r \\\\`. CSV is RFC 4180, as Python's csv module reads it in strict
mode: quoted fields may hold commas, quotes and line ends.

Both read a block in two ways that give the same columns: a quick one for a block in which nothing is wrong, and a
careful one, row by row, that refuses the rows that are wrong. `ColumnLayout` says which columns a file must have.
"""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from kgwalk.kg.sources.source import (
    BOM,
    ENCODING_HINT,
    MOST_LINE_BYTES,
    SKIP_HINT,
    TABLE_HINT,
    Columns,
    Lines,
    Source,
    TimeCheck,
    line_blocks,
    not_utf8,
    open_stream,
    shown,
    strings,
)
from kgwalk.types import Triple

# The columns of a file


class TableRow(NamedTuple):
    """A row of a file, of any width."""

    line: int  # the number of its first line
    raw: bytes
    fields: list[str]


@dataclass(frozen=True)
class ColumnLayout:
    """The columns that a file must have, one that it may have, and the words that name them in a header.

    `words[i]` are the words for column i; a word belongs to one column only.
    """

    columns: tuple[str, ...]
    optional: str | None
    words: tuple[frozenset[str], ...]

    @property
    def widths(self) -> tuple[int, ...]:
        required = len(self.columns)
        return (required,) if self.optional is None else (required, required + 1)

    def problem(self, fields: Sequence[str], separator: str, times: TimeCheck) -> str | None:
        """What is wrong with a row, in words; None for a good one."""
        required = len(self.columns)
        if len(fields) not in self.widths:
            plural = "" if len(fields) == 1 else "s"
            return f"expected {self._expected(separator)}, got {len(fields)} column{plural}"
        if "" in fields[:required]:
            empty = self.columns[fields.index("")]
            return f"expected {self._expected(separator)}, got an empty {empty}"
        if len(fields) > required and (why := times.problem(fields[required])):
            return f"column {required + 1} is the time: {why}"
        return None

    def _expected(self, separator: str) -> str:
        optional = "" if self.optional is None else f" with an optional 4th column {self.optional}"
        return separator.join(self.columns) + optional

    def hint(self, source: Source, *, first: bool) -> str:
        """What to do about a row with a problem; `first` says whether it is the first row of its block.

        The first row of a file may be that of a table.
        """
        table = self is TRIPLES and first and not source.tally.rows
        return f"{SKIP_HINT}; {TABLE_HINT}" if table else SKIP_HINT

    def takes_header(self, fields: Sequence[str], source: Source, line: int) -> bool:
        """Whether a file's first row is left out as a header, as the options or its words say; a note tells."""
        if not source.options.header:
            if not self.is_header(fields, source, line):
                return False
            source.tally.headers += 1
        source.note(f"line {line} ({', '.join(fields)}) taken as a header")
        return True

    def is_header(self, fields: Sequence[str], source: Source, line: int) -> bool:
        """Whether a file's first row names the columns.

        Known names in another order are an error, since the rows would be read wrongly.
        """
        if not self.names_columns(fields):
            return False
        places = self._places(fields)
        if places != sorted(places):
            raise source.error(
                f"the header says {', '.join(fields)}; expected the order {', '.join(self.columns)}",
                line=line,
                hint="reorder the columns, or give --header to skip this line and read them in that order",
            )
        return True

    def names_columns(self, fields: Sequence[str]) -> bool:
        """Whether the fields are known names of distinct columns, in any order."""
        return len(fields) in self.widths and sorted(self._places(fields)) == list(range(len(fields)))

    def _places(self, fields: Sequence[str]) -> list[int]:
        words = [field.strip(' #"').casefold() for field in fields]
        return [next((i for i, known in enumerate(self.words) if word in known), -1) for word in words]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TRIPLES = ColumnLayout(
    columns=("head", "relation", "tail"),
    optional="time",
    words=(
        _words("head subject source from h s subj src head_entity source_entity entity1 start"),
        _words("relation predicate property relationship r p rel pred edge relation_type"),
        _words("tail object target to t o obj dst tail_entity target_entity entity2 end"),
        _words("time date timestamp year when period"),
    ),
)

LABELS = ColumnLayout(
    columns=("id", "label"),
    optional=None,
    words=(
        _words("id key entity mid qid iri uri entity_id"),
        _words("label name title entity_label entity_name"),
    ),
)


# TSV

ESCAPED_MARK = "#kgwalk-tsv escaped"

_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_PLAIN = {escaped: plain for plain, escaped in _ESCAPES.items()}
_TO_ESCAPE = str.maketrans(_ESCAPES)
_ESCAPED = re.compile(r"\\.?", re.DOTALL)
_FIRST_LINE = re.compile(rb"[^\n]+")


def escape(text: str) -> str:
    r"""A name as a marked file writes it.

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


def misread_first(fact: Triple) -> bool:
    """Whether a plain TSV file that starts with this fact would be misread: as having a header, a mark or a BOM."""
    words = {word for column in TRIPLES.words for word in column}
    is_header = all(name.strip(' #"').casefold() in words for name in fact[:3])
    return is_header or fact.head.startswith(("\ufeff", ESCAPED_MARK))


def read_tsv(source: Source, layout: ColumnLayout) -> Iterator[list[pa.StringArray]]:
    """Blocks of columns, one for each of the layout; the optional one only if a row of the block has it."""
    escaped, awaits_header = False, source.options.header is not False
    with open_stream(source) as stream:
        for lines in line_blocks(source, stream):
            rest = lines
            if lines.first == 1 and (after := _after_mark(lines)):
                # A marked file is our own export and has no header, even if its first row is head, relation, tail.
                rest, escaped, awaits_header = after, True, source.options.header is True
            if awaits_header and (opening := _first_row(rest)):
                awaits_header = False
                rest = _after_tsv_header(source, layout, rest, *opening)
            columns = clean_tsv_columns(rest.data, layout, escaped)
            if columns is None:
                columns = checked_columns(source, rest, layout, escaped)
            if len(columns[0]):
                yield columns


def tsv_records(source: Source) -> Iterator[TableRow]:
    """The rows one by one, of any width. Refuses rows that are not UTF-8, and a marked file, which holds triples."""
    with open_stream(source) as stream:
        for lines in line_blocks(source, stream):
            if lines.first == 1 and _after_mark(lines):
                raise source.error(
                    "a file of triples, as `kgwalk kg export` writes them, not a table", hint="leave out --table"
                )
            yield from _tsv_records(source, lines, escaped=False)


def _after_mark(lines: Lines) -> Lines | None:
    """The lines after the mark; None if there is no mark."""
    line, _, rest = lines.data.partition(b"\n")
    return Lines(lines.first + 1, rest) if line.removesuffix(b"\r") == ESCAPED_MARK.encode() else None


def _first_row(lines: Lines) -> tuple[int, int] | None:
    """Where the first line that is not empty starts and ends; None if all are empty."""
    for found in _FIRST_LINE.finditer(lines.data):
        if found.group() != b"\r":
            return found.span()
    return None


def _after_tsv_header(source: Source, layout: ColumnLayout, lines: Lines, start: int, end: int) -> Lines:
    number = lines.first + lines.data.count(b"\n", 0, start)
    fields = shown(lines.data[start:end]).removesuffix("\r").split("\t")
    if not layout.takes_header(fields, source, number):
        return lines
    return Lines(number + 1, lines.data[end + 1 :])


def clean_tsv_columns(data: bytes, layout: ColumnLayout, escaped: bool) -> list[pa.StringArray] | None:
    """The columns of a block in which nothing is wrong or unusual; None for any other block."""
    if data.startswith(BOM):  # Arrow would drop it, as at the start of a file; here it is part of a name
        return None
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
        if b"\r" in data:  # Arrow would take it for the end of a line
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


def _uniform_columns(data: bytes, width: int, layout: ColumnLayout) -> list[pa.StringArray]:
    """The columns of a block. If only some rows have a time, the others are given an empty one first."""
    try:
        return _arrow_columns(data, width)
    except pa.ArrowInvalid:
        if layout.optional is None:
            raise
        return _arrow_columns(_padded(data, len(layout.columns)), len(layout.columns) + 1)


def _padded(data: bytes, required: int) -> bytes:
    """The block with an empty last column added to the lines that have only the required ones."""
    text = np.frombuffer(data if data.endswith(b"\n") else data + b"\n", np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    tabs = np.searchsorted(np.flatnonzero(text == ord("\t")), ends)  # up to each line's end
    short = np.diff(tabs, prepend=0) == required - 1
    return np.insert(text, ends[short], ord("\t")).tobytes()


def _arrow_columns(data: bytes, width: int) -> list[pa.StringArray]:
    names = [str(column) for column in range(width)]
    table = arrow_csv.read_csv(
        pa.BufferReader(data),
        # A single parser block, so that each column is one array.
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


def checked_columns(source: Source, lines: Lines, layout: ColumnLayout, escaped: bool) -> list[pa.StringArray]:
    """The same columns, read line by line, whatever is in the block; refuses rows that are wrong."""
    rows = Columns(len(layout.columns))
    times = TimeCheck()
    for record in _tsv_records(source, lines, escaped):
        if problem := layout.problem(record.fields, "<TAB>", times):
            hint = layout.hint(source, first=not len(rows))
            source.refuse(problem, line=record.line, text=shown(record.raw), hint=hint)
        else:
            rows.append(record.fields)
    return rows.arrays()


def _tsv_records(source: Source, lines: Lines, escaped: bool) -> Iterator[TableRow]:
    """The rows of a block; refuses those that are not UTF-8 or have a bad escape."""
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
        yield TableRow(number, raw, fields)


# CSV

# A quote that is never closed takes in all that follows; a row of several lines that is longer is taken for one.
_MOST_ROW_BYTES = 64 << 20


class _Feed:
    """The lines for csv.reader. It keeps those of the row being read, so that reading can go back to them."""

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
        """The next line; b"" at the end of the file."""
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
        """Whether all lines of the block are used up; asked between rows."""
        if not self._again and (line := next(self._lines, b"")):
            self._again.append(line)
        return not self._again

    def start_row(self, first: int) -> None:
        self.first, self.row, self.row_bytes, self.bad_utf8 = first, [], 0, None

    def give_up_first_line(self) -> None:
        """Take the row's first line for the bad one and read on from the second."""
        self._again.extendleft(reversed(self.row[1:]))
        self.start_row(self.first + 1)


def read_csv(source: Source, layout: ColumnLayout) -> Iterator[list[pa.StringArray]]:
    """Blocks of columns, as `read_tsv` gives them."""
    awaits_header = source.options.header is not False
    with open_stream(source) as stream:
        blocks = line_blocks(source, stream)
        feed = _feed(source, blocks)
        for lines in blocks:
            rest = lines
            if awaits_header and (opening := _first_record(lines)):
                awaits_header = False
                rest = _after_csv_header(source, layout, lines, opening)
            columns = clean_csv_columns(rest.data, layout)
            if columns is None:
                feed.start_block(rest)
                yield from _checked_columns(source, layout, _csv_records(source, feed))
            elif len(columns[0]):
                yield columns


def csv_records(source: Source) -> Iterator[TableRow]:
    """The rows one by one, of any width; refuses those that are not CSV or not UTF-8."""
    with open_stream(source) as stream:
        blocks = line_blocks(source, stream)
        feed = _feed(source, blocks)
        for lines in blocks:
            feed.start_block(lines)
            yield from _csv_records(source, feed)


def _feed(source: Source, blocks: Iterator[Lines]) -> _Feed:
    csv.field_size_limit(max(csv.field_size_limit(), MOST_LINE_BYTES))  # the module's default is 128 KiB
    return _Feed(blocks, min(source.options.longest_line, _MOST_ROW_BYTES))


class _Opening(NamedTuple):
    line: int
    fields: list[str]
    end: int  # where the row ends in its block


def _first_record(lines: Lines) -> _Opening | None:
    """The first row that is not empty; None if all are. A broken row has no fields here, so it is no header."""
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


def _after_csv_header(source: Source, layout: ColumnLayout, lines: Lines, row: _Opening) -> Lines:
    if not (row.fields and layout.takes_header(row.fields, source, row.line)):
        return lines
    return Lines(lines.first + lines.data.count(b"\n", 0, row.end), lines.data[row.end :])


def clean_csv_columns(data: bytes, layout: ColumnLayout) -> list[pa.StringArray] | None:
    """The columns of a block of whole rows in which nothing is wrong; None for any other block."""
    required = len(layout.columns)
    columns: list[list[str]] = [[] for _ in range(max(layout.widths))]
    found = {required}
    try:
        reader = csv.reader(io.StringIO(data.decode("utf-8"), newline="\n"), strict=True)
        # A few rows at a time, since the garbage collector visits every list that is alive.
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


def _checked_columns(
    source: Source, layout: ColumnLayout, records: Iterable[TableRow]
) -> Iterator[list[pa.StringArray]]:
    """The same columns, read row by row, whatever is in them; refuses rows that are wrong."""
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


def _csv_records(source: Source, feed: _Feed) -> Iterator[TableRow]:
    """The rows up to the first that ends where its block ends; refuses those that are not CSV or not UTF-8."""
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
            yield TableRow(feed.first, b"".join(feed.row), fields)
        feed.start_row(feed.first + len(feed.row))


def _text(raw: bytes) -> str:
    return shown(raw).rstrip("\r\n")
