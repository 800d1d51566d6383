"""Reads a source file as blocks of triples, whatever its format, and tables as in spreadsheets.

    for block in read("films.tsv.gz", Options(), tally): ...

The formats are TSV, CSV, N-Triples, N-Quads, Turtle, JSON, JSON lines, RoG's, Excel's, SQLite's and DuckDB's. The
file's name tells which, or the options do; `.gz` and `.zst` are decompressed on the way. Memory is bounded by
`Options.block_bytes`, whatever the size of the source (but a `.json` file is held whole). `build` is what calls this.

Sheets, databases, JSON records, and with `Options.table` TSV and CSV files are read as tables, with `stage`: their
facts are told once all tables are there. A file that was read as triples and looks like a table gets a note in the
report (`TableLook`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from zipfile import BadZipFile

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgwalk.kg.names import value_text
from kgwalk.kg.sources import jsonl, rdf
from kgwalk.kg.sources.databases import is_duckdb, plain_file, stage_duckdb, stage_sqlite
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
    TimeCheck,
    TripleBlock,
    line_blocks,
    open_stream,
    shown,
)
from kgwalk.kg.sources.table_keys import find_keys
from kgwalk.kg.sources.tables import Column, Tables, is_value
from kgwalk.kg.store import DATABASES, database_file, is_elsewhere, load_graph
from kgwalk.types import InputError

_READERS: dict[str, Callable[[Source], Iterator[Block]]] = {
    "tsv": lambda source: noting_tables(source, _rows(read_tsv(source, TRIPLES))),
    "csv": lambda source: noting_tables(source, _rows(read_csv(source, TRIPLES))),
    "nt": lambda source: rdf.read_lines(source, "nt"),
    "ttl": rdf.read_turtle,
    "nq": lambda source: rdf.read_lines(source, "nq"),
    "jsonl": jsonl.read_triples,
    "rog": jsonl.read_rog,
    "json": jsonl.read_list,
}
# Each puts the tables of a source with the others; the last argument is what a table without a name is called.
_TABLES: dict[str, Callable[[Source, Tables, str], None]] = {
    "tsv": lambda source, tables, name: _stage_rows(source, tsv_records(source), tables, name),
    "csv": lambda source, tables, name: _stage_rows(source, csv_records(source), tables, name),
    "jsonl": jsonl.stage_lines,
    "json": jsonl.stage_records,
    "xlsx": lambda source, tables, name: _stage_workbook(source, tables, name),
    "sqlite": lambda source, tables, name: stage_sqlite(source, tables),
    "duckdb": lambda source, tables, name: stage_duckdb(source, tables),
}
_DELIMITED = ("tsv", "csv")
_ONLY_TABLES = ("xlsx", "sqlite", "duckdb")
FORMATS = (*_READERS, *_ONLY_TABLES)
SUFFIXES = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".nt": "nt",
    ".ttl": "ttl",
    ".nq": "nq",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".xlsx": "xlsx",
    ".db": "sqlite",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".duckdb": "duckdb",
    ".ddb": "duckdb",
}
_LISTED = 5  # columns in a note
_FACTS_AT_ONCE = 10_000  # of a graph elsewhere in a block
_B = TypeVar("_B", TripleBlock, Labels, Block)


def read(path: str | Path, options: Options, tally: ReadCounts) -> Iterator[Block]:
    """The triples and names of a source, block by block; `tally` is filled on the way. "-" is stdin.

    A table is read here as if there were no other; `stage` puts several together, whose facts depend on each other.
    """
    if is_elsewhere(str(path)):
        return _elsewhere(Source(str(path), options, tally))
    if holds_tables(path, options):
        return _only_table(path, options, tally)
    form = _format(path, options)
    source = Source(str(path), options, tally)
    if options.table:
        source.note(f"read as {form}; --table is about TSV and CSV, and JSON lines of records")
    return _not_empty(source, _READERS[form](source), "triples", TABLE_HINT if form in _DELIMITED else None)


def holds_tables(path: str | Path, options: Options) -> bool:
    """Whether a source is read as tables: a workbook, a database, JSON that is no list of triples; others if asked."""
    if is_elsewhere(str(path)):
        return False
    form = _format(path, options)
    if form in _ONLY_TABLES or form in _DELIMITED:
        return form in _ONLY_TABLES or options.table
    if form == "json" or (form == "jsonl" and options.table):
        # A tally of its own, since these bytes will be read and counted again.
        return not jsonl.is_triple(jsonl.first_value(Source(str(path), options, ReadCounts())))
    return False


def _elsewhere(source: Source) -> Iterator[TripleBlock]:
    """All facts of a graph elsewhere, by the names that it shows."""
    graph: Any = load_graph(source.path)
    try:
        facts = (tuple(fact) if getattr(graph, "timed", True) else tuple(fact[:3]) for fact in graph.match())
        while some := list(islice(facts, _FACTS_AT_ONCE)):
            rows = Columns(3)
            for fact in some:
                rows.append(fact)
            source.tally.rows += len(rows)
            yield TripleBlock(*rows.arrays())
    finally:
        graph.close()


def _format(path: str | Path, options: Options) -> str:
    if str(path).startswith(DATABASES):
        return database_file(str(path))[1]
    return detect_format(path, options) if options.format is None else check_format(options.format)


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
    if suffix not in SUFFIXES:
        raise InputError(
            f"unknown format: the name ends in {suffix!r}" if suffix else "unknown format: the name has no suffix",
            path=str(path),
            hint=f"known are {' '.join(SUFFIXES)}, also with .gz or .zst; "
            f"for other names `kgwalk kg build` has --format: {_listed()}",
        )
    found = SUFFIXES[suffix]
    if found == "sqlite" and is_duckdb(Path(path)):  # which people call .db as well
        return "duckdb"
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
        raise source.error(f"no {what}{malformed}", hint=hint if left_out else None)


# Reading tables


def stage(path: str | Path, options: Options, tally: ReadCounts, tables: Tables) -> None:
    """Read the tables of a source and put them with the others."""
    form = _format(path, options)
    file = database_file(str(path))[0] if str(path).startswith(DATABASES) else path
    source = Source(str(file), options, tally)
    if options.header is False:
        raise source.error("a table has its column names in the first row", hint="leave out --no-header, or --table")
    skipped, before = tally.skipped, len(tables.tables)
    _TABLES[form](source, tables, "stdin" if source.path == STDIN else table_name(path))
    if not any(table.rows for table in tables.tables[before:]):
        left_out = tally.skipped - skipped
        raise source.error("no triples" + (f"; {left_out:,} malformed rows were left out" if left_out else ""))


def looks_like_a_table(path: str | Path) -> bool:
    """Whether a TSV or CSV file is a table rather than triples: by its width, or as `TableLook` tells."""
    source = Source(str(path), Options(on_error="skip"), ReadCounts())
    form = _format(path, source.options)
    if form not in _DELIMITED:
        return False
    first = next(tsv_records(source) if form == "tsv" else csv_records(source), None)
    if first is None or TRIPLES.names_columns(first.fields):
        return False
    required, width = len(TRIPLES.columns), len(first.fields)
    if width not in TRIPLES.widths or (width > required and TimeCheck().problem(first.fields[required])):
        return width > 1
    look = TableLook()
    for columns in islice((read_tsv if form == "tsv" else read_csv)(source, TRIPLES), 1):
        look.see(TripleBlock(*columns))
    return look.like_a_table


def _only_table(path: str | Path, options: Options, tally: ReadCounts) -> Iterator[Block]:
    with TemporaryDirectory(prefix="kgwalk-tables-") as scratch, closing(Tables(Path(scratch))) as tables:
        stage(path, options, tally, tables)
        find_keys(tables, options.keys)
        yield from tables.blocks(options.block_bytes)


def table_name(path: str | Path) -> str:
    """What a file's table is called: its name without suffixes, and without a date or a number of a copy after it.

    >>> table_name("exports/customers.csv.gz"), table_name("orders_2024-01-31 (2).csv"), table_name("2019.csv")
    ('customers', 'orders', '2019')
    """
    name = PurePath(path).name
    for suffix in (*COMPRESSIONS, *SUFFIXES):
        if name.lower().endswith(suffix):
            name = name[: -len(suffix)]
    return re.sub(r"(?:[\s_.-]+\(?\d+\)?)+$", "", name) or name or "table"


def _stage_rows(source: Source, records: Iterator[TableRow], tables: Tables, name: str) -> None:
    """A table with the names of its columns in the first row.

    Refuses a row that has a cell under no column name; blank rows are fine.
    """
    before = source.tally.skipped
    header = next(records, None)
    if header is None:
        return
    if source.tally.skipped > before:  # the next row's cells would be taken for the names
        raise source.error("the first row cannot be read, and it has to name the columns; mend it")
    names = _column_names(source, header)
    table = tables.start(name, source)
    columns: list[Column | None] = [tables.add_column(table, names[0])]
    known: dict[str, Column] = {}
    for name in names[1:]:
        if name and name not in known:
            known[name] = tables.add_column(table, name)
        columns.append(known[name] if name else None)

    for record in records:
        cells = [(at, cell) for at, cell in enumerate(record.fields) if not _blank(cell)]
        nameless = next((at for at, _ in cells if at >= len(columns) or columns[at] is None), None)
        if nameless is not None:
            problem = f"column {nameless + 1} has no name in the first row, and a cell here"
            source.refuse(problem, line=record.line, text=shown(record.raw).rstrip("\r\n"))
        elif cells:
            tables.add_row(table, [(column, cell) for at, cell in cells if (column := columns[at])], record.line)


def _column_names(source: Source, header: TableRow) -> list[str]:
    """The names of the columns, "" for one without a name."""
    if TRIPLES.names_columns(header.fields):
        raise source.error(
            f"the first row ({', '.join(header.fields)}) names the columns of triples, not of a table",
            line=header.line,
            hint="leave out --table",
        )
    names = [name.strip() for name in header.fields]
    named = Counter(filter(None, names[1:]))
    if not named:
        parted = "columns are parted by commas in CSV (not by semicolons), by tabs in TSV"
        raise source.error(
            "expected a row of column names, two at least, got 1",
            line=header.line,
            text=shown(header.raw).rstrip("\r\n"),
            hint="delete what stands above the names of the columns" if names[1:] else parted,
        )
    if several := [name for name, count in named.items() if count > 1]:
        source.note(f"several columns are called {', '.join(several[:_LISTED])}; each such name is one relation")
    return names


def _stage_workbook(source: Source, tables: Tables, name: str) -> None:
    """Every sheet of an Excel file is a table; one that has no more than a title is none."""
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ModuleNotFoundError:
        raise source.error(
            "Excel files need openpyxl, which is not installed",
            hint="pip install 'kgwalk[xlsx]'; or save each sheet as CSV, and give --table",
        ) from None
    path = plain_file(source)
    try:
        workbook = load_workbook(path, read_only=True, data_only=True)
        sheets = [sheet for sheet in workbook.worksheets if hasattr(sheet, "iter_rows")]
        for sheet in sheets:
            alone = len(sheets) == 1 and re.fullmatch(r"(?i)(sheet|tabelle|feuille?|hoja|foglio)\s*\d*", sheet.title)
            rows = _sheet_rows(sheet.iter_rows(values_only=True))
            _stage_rows(source, rows, tables, name if alone else sheet.title)
        workbook.close()
    except (InvalidFileException, BadZipFile, KeyError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise source.error(f"not an Excel file (.xlsx): {error}") from None


def _sheet_rows(rows: Iterator[Sequence[Any]]) -> Iterator[TableRow]:
    """The rows as text, from the first that has two cells; what stands above is a title."""
    begun = False
    for line, row in enumerate(rows, 1):
        cells = [value_text(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        begun = begun or sum(map(bool, cells)) > 1
        if begun and cells:
            yield TableRow(line, "\t".join(cells).encode(), cells)


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
        if _share(is_value, relations) >= NEARLY:
            return _share(is_value, heads) < 1 - NEARLY or not is_value(self._relations[0])
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


def _begins_like_a_name(name: str) -> bool:
    """Whether a name starts with a digit, or with a capital without being all capitals.

    >>> names = ("Porto", "1990", "born_in", "/film/director", "P17", "ACTED_IN")
    >>> [name for name in names if _begins_like_a_name(name)]
    ['Porto', '1990']
    """
    return name[:1].isdigit() or (name[:1].isupper() and not name.isupper())
