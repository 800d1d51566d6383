"""Reads a source file as blocks of triples, whatever its format, and tables as in spreadsheets.

    for block in read("films.tsv.gz", Options(), tally): ...

The formats are TSV, CSV, N-Triples, N-Quads, Turtle, JSON lines and RoG's. The format is told by the file's name, or
given in the options; `.gz` and `.zst` are decompressed on the way. Memory is bounded by `Options.block_bytes`, whatever
the size of the source. `build` is what calls this.

With `Options.table`, a TSV or CSV file is read as a table (`table_facts`). One that was read as triples and looks like
a table gets a note in the report (`TableLook`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import TypeVar

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgwalk.kg.sources import jsonl, rdf
from kgwalk.kg.sources.delimited import LABELS, TRIPLES, TableRow, csv_records, read_csv, read_tsv, tsv_records
from kgwalk.kg.sources.source import (
    COMPRESSIONS,
    GIVEN_RANK,
    STDIN,
    TABLE_HINT,
    Block,
    Columns,
    Labels,
    Options,
    ReadCounts,
    Source,
    TripleBlock,
    line_blocks,
    open_stream,
    shown,
)
from kgwalk.types import InputError

_READERS: dict[str, Callable[[Source], Iterator[Block]]] = {
    "tsv": lambda source: noting_tables(source, _rows(read_tsv(source, TRIPLES))),
    "csv": lambda source: noting_tables(source, _rows(read_csv(source, TRIPLES))),
    "nt": lambda source: rdf.read_lines(source, "nt"),
    "ttl": rdf.read_turtle,
    "nq": lambda source: rdf.read_lines(source, "nq"),
    "jsonl": jsonl.read_triples,
    "rog": jsonl.read_rog,
}
FORMATS = tuple(_READERS)
_TABLES: dict[str, Callable[[Source], Iterator[TableRow]]] = {"tsv": tsv_records, "csv": csv_records}
_SUFFIXES = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".nt": "nt",
    ".ttl": "ttl",
    ".nq": "nq",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_B = TypeVar("_B", TripleBlock, Labels, Block)


def read(path: str | Path, options: Options, tally: ReadCounts) -> Iterator[Block]:
    """The triples and names of a source, block by block; `tally` is filled on the way. "-" is stdin."""
    form = detect_format(path, options) if options.format is None else check_format(options.format)
    source = Source(str(path), options, tally)
    return _not_empty(source, _blocks(source, form), "triples", TABLE_HINT if form in _TABLES else None)


def read_labels(path: str | Path, options: Options, tally: ReadCounts) -> Iterator[Labels]:
    """The names of a TSV file with the columns id and label; a header is recognised by its words."""
    # The options `format` and `header` are about the triples.
    source = Source(str(path), replace(options, format=None, header=None), tally)
    blocks = (Labels(key, label, GIVEN_RANK) for key, label in read_tsv(source, LABELS))
    return _not_empty(source, blocks, "labels")


def detect_format(path: str | Path, options: Options | None = None) -> str:
    """The format that the suffix says, apart from `.gz` or `.zst`: `films.tsv.gz` is tsv.

    JSON lines are "rog" if the first line is a question with its graph.
    """
    if str(path) == STDIN:
        raise InputError("stdin has no file name to tell the format", hint=f"give --format: {_listed()}")
    name = PurePath(path)
    suffixes = [suffix.lower() for suffix in name.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix not in _SUFFIXES:
        raise InputError(
            f"unknown format: the name ends in {suffix!r}" if suffix else "unknown format: the name has no suffix",
            path=str(path),
            hint=f"known are {' '.join(_SUFFIXES)}, also with .gz or .zst; "
            f"for other names `kgwalk kg build` has --format: {_listed()}",
        )
    found = _SUFFIXES[suffix]
    return "rog" if found == "jsonl" and _holds_graphs(path, options or Options()) else found


def check_format(name: str) -> str:
    """The name, if a format is called so."""
    if name in FORMATS:
        return name
    near = get_close_matches(name, FORMATS, 1)
    raise InputError(
        f"unknown format {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
        hint=f"known are {_listed()}",
    )


def _holds_graphs(path: str | Path, options: Options) -> bool:
    """Whether the first line is a question with its graph; a line that is not JSON is left to the reader to refuse."""
    # A tally of its own, since these bytes will be read and counted again.
    source = Source(str(path), Options(block_bytes=1 << 20, line_bytes=options.longest_line), ReadCounts())
    with open_stream(source) as stream:
        for lines in line_blocks(source, stream):
            if first := lines.data.lstrip().split(b"\n", 1)[0]:
                try:
                    value = orjson.loads(first)
                except orjson.JSONDecodeError:
                    return False
                return isinstance(value, dict) and isinstance(value.get("graph"), list)
    return False


def _listed() -> str:
    return " ".join(FORMATS)


def _blocks(source: Source, form: str) -> Iterator[Block]:
    if not source.options.table:
        return _READERS[form](source)
    if form not in _TABLES:
        source.note(f"read as {form}; --table is about TSV and CSV")
        return _READERS[form](source)
    if source.options.header is False:
        raise source.error("a table has its column names in the first row", hint="leave out --no-header, or --table")
    return table_facts(source, _TABLES[form](source))


def _rows(tables: Iterator[list[pa.StringArray]]) -> Iterator[TripleBlock]:
    return (TripleBlock(*columns) for columns in tables)


def _not_empty(source: Source, blocks: Iterator[_B], what: str, hint: str | None = None) -> Iterator[_B]:
    """The same blocks, with their rows counted; an error at the end if there were none."""
    found, skipped = False, source.tally.skipped
    for block in blocks:
        found = True
        if isinstance(block, TripleBlock):
            source.tally.rows += len(block.head)
        yield block
    if not found:
        left_out = source.tally.skipped - skipped
        malformed = f"; {left_out:,} malformed rows were left out" if left_out else ""
        maybe = hint if left_out and not source.options.table else None
        raise source.error(f"no {what}{malformed}", hint=maybe)


# Reading a table

_LISTED = 5  # relations in a note


def table_facts(source: Source, records: Iterator[TableRow]) -> Iterator[TripleBlock]:
    """Blocks of facts from a table: column names in the first row, and a thing in each further row (`--table`).

    Every cell that is not blank is a fact, (the row's thing, the column's name, the cell). Refuses a row that has a
    cell under no column name, or no thing; blank rows are fine.
    """
    before = source.tally.skipped
    header = next(records, None)
    if header is None:
        return
    if source.tally.skipped > before:  # the next row's cells would be taken for the names
        raise source.error("the first row cannot be read, and it has to name the columns; mend it")
    relations = _relations(source, header)
    facts, held = Columns(3), 0
    for record in records:
        thing, *cells = record.fields
        if problem := _problem(thing, cells, relations):
            source.refuse(problem, line=record.line, text=shown(record.raw).rstrip("\r\n"))
            continue
        for relation, cell in zip(relations, cells, strict=False):
            if _blank(cell):
                continue
            size = len(thing) + len(relation) + len(cell)
            if len(facts) and held + size > source.options.block_bytes:
                yield TripleBlock(*facts.arrays())
                facts, held = Columns(3), 0
            facts.append((thing, relation, cell))
            held += size
    if len(facts):
        yield TripleBlock(*facts.arrays())


def _relations(source: Source, header: TableRow) -> list[str]:
    """The names of the columns after the first, "" for one without a name. Adds a note that lists them."""
    if TRIPLES.names_columns(header.fields):
        raise source.error(
            f"the first row ({', '.join(header.fields)}) names the columns of triples, not of a table",
            line=header.line,
            hint="leave out --table",
        )
    things, *relations = (name.strip() for name in header.fields)
    named = Counter(filter(None, relations))
    if not named:
        parted = "columns are parted by commas in CSV (not by semicolons), by tabs in TSV"
        raise source.error(
            "expected a row of column names, two at least, got 1",
            line=header.line,
            text=shown(header.raw).rstrip("\r\n"),
            hint="delete what stands above the names of the columns" if relations else parted,
        )
    more = f" and {len(named) - _LISTED:,} more" if len(named) > _LISTED else ""
    listed = ", ".join(list(named)[:_LISTED]) + more
    source.note(f"read as a table: the things are in column 1 ({things or 'no name'}), the relations are {listed}")
    if several := [name for name, count in named.items() if count > 1]:
        source.note(f"several columns are called {', '.join(several[:_LISTED])}; each such name is one relation")
    return relations


def _problem(thing: str, cells: Sequence[str], relations: Sequence[str]) -> str | None:
    """What is wrong with a row, in words; None for a good one, which may be short or blank."""
    filled = [at for at, cell in enumerate(cells) if not _blank(cell)]
    if filled and _blank(thing):
        return "expected the name of a thing in column 1, got an empty one"
    for at in filled:
        if at >= len(relations) or not relations[at]:
            return f"column {at + 2} has no name in the first row, and a cell here"
    return None


def _blank(cell: str) -> bool:
    return not cell or cell.isspace()


# Noticing a table that was read as triples

LOOKED_AT = 10_000  # facts at most
LOOKED_INTO = 1 << 20  # bytes of names at most
FEWEST = 3  # facts, and relations: fewer tell nothing
NEARLY = 0.9  # the share that counts as nearly all
MOST = 0.5  # the share that counts as most
_RELATIONS_SHOWN = 3  # in the note
_SHOWN = 60  # characters of a name


def noting_tables(source: Source, blocks: Iterator[TripleBlock]) -> Iterator[TripleBlock]:
    """The same blocks; at the end adds a note if they look like a table and no header said that they are triples."""
    headers, look = source.tally.headers, TableLook()
    for block in blocks:
        look.see(block)
        yield block
    if source.tally.headers == headers and look.like_a_table:
        head, relation, tail = map(_short, look.example)
        source.note(
            f"read as triples, such as ({head}, {relation}, {tail}), with the relations {look.relations_listed}; it "
            "looks like a table. If its first row has column names, build it with --table"
        )


class TableLook:
    """Whether the rows of a file, read as triples, look like a table; `see` its blocks one by one.

    Looks at the first 10,000 facts, fewer where they are long, if there are at least three facts with three relations.
    A graph has relations such as `directed_by`; in a table they would be values or names. So it looks like a table

    - if nearly all relations are numbers or dates (`France, 1990, 1.27`) and the heads, or the first relation, are not;
    - or if most relations begin like a name, with a capital or a digit, and nearly every fact has a head of its own
      (a graph says several things of one head); and either there are nearly as many relations as facts, or the first
      row's relation and tail, which would be column names, occur nowhere else in the file.

    A table of lower-case words is not told from a graph, nor one of words whose first column repeats itself.
    """

    def __init__(self) -> None:
        self._heads: list[str] = []
        self._relations: list[str] = []
        self._tails: list[str] = []
        self._first_is_alone = True  # no other fact has the first one's relation, or its tail
        self._bytes = 0

    def see(self, rows: TripleBlock) -> None:
        columns = (rows.head, rows.relation, rows.tail)
        size = sum(column.nbytes for column in columns) / max(1, len(rows.head))  # of a fact
        wanted = min(LOOKED_AT - len(self._heads), math.ceil((LOOKED_INTO - self._bytes) / max(1, size)))
        start = min(len(rows.head), max(wanted, FEWEST - len(self._heads), 0))
        if start:
            for known, column in zip((self._heads, self._relations, self._tails), columns, strict=True):
                known += column.slice(0, start).to_pylist()
            self._bytes += int(start * size)
            self._first_is_alone &= all(column.count(column[0]) == 1 for column in (self._relations, self._tails))
        if self._first_is_alone and self._heads:
            rest = ((rows.relation, self._relations[0]), (rows.tail, self._tails[0]))
            self._first_is_alone = not any(_has(column.slice(start), name) for column, name in rest)

    @property
    def like_a_table(self) -> bool:
        facts, distinct = len(self._heads), len(set(self._relations))
        if facts < FEWEST or distinct < FEWEST:
            return False
        relations, heads = self._relations[1:], self._heads[1:]  # without what may be column names
        if _share(_is_value, relations) >= NEARLY:
            return _share(_is_value, heads) < 1 - NEARLY or not _is_value(self._relations[0])
        if _share(_begins_like_a_name, relations) < MOST or len(set(self._heads)) < NEARLY * facts:
            return False
        return distinct >= NEARLY * facts or self._first_is_alone

    @property
    def example(self) -> tuple[str, str, str]:
        """The second fact: of a table, the first row with a thing."""
        return self._heads[1], self._relations[1], self._tails[1]

    @property
    def relations_listed(self) -> str:
        names = list(dict.fromkeys(self._relations))
        return ", ".join(map(_short, names[:_RELATIONS_SHOWN])) + ", ..." * (len(names) > _RELATIONS_SHOWN)


def _short(name: str) -> str:
    flat = " ".join(name.split())
    return flat if len(flat) <= _SHOWN else f"{flat[:_SHOWN]}..."


def _has(column: pa.StringArray, name: str) -> bool:
    return bool(pc.any(pc.equal(column, name)).as_py())


def _share(test: Callable[[str], bool], names: list[str]) -> float:
    return sum(map(test, names)) / len(names)


def _is_value(name: str) -> bool:
    """Digits without letters: a number, a date."""
    return any(map(str.isdigit, name)) and not any(map(str.isalpha, name))


def _begins_like_a_name(name: str) -> bool:
    """Whether a name starts with a digit, or with a capital without being all capitals.

    >>> names = ("Porto", "1990", "born_in", "/film/director", "P17", "ACTED_IN")
    >>> [name for name in names if _begins_like_a_name(name)]
    ['Porto', '1990']
    """
    return name[:1].isdigit() or (name[:1].isupper() and not name.isupper())
