"""Reads a source file as blocks of triples, whatever its format, and tables as in spreadsheets.

    for block in read("films.tsv.gz", Options(), tally): ...

The formats are TSV, CSV, Neo4j's CSV, RDF's (N-Triples, N-Quads, Turtle, JSON-LD), GraphML, JSON, JSON lines, RoG's,
Wikidata's, Excel's, SQLite's and DuckDB's. The format is told by the file's name and beginning, or given in the
options; `.gz`, `.bz2` and `.zst` are decompressed on the way. Memory is bounded by `Options.block_bytes`, whatever the
size of the source (but `.json` and `.jsonld` files are held whole). `build` is what calls this.

Sheets, databases, JSON records, and with `Options.table` TSV and CSV files are read as tables, with `stage`: their
facts are told once all tables are there. A file that was read as triples and looks like a table gets a note in the
report (`TableLook`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from kgwalk.kg.sources import jsonl, neo4j, property_graph, rdf, wikidata
from kgwalk.kg.sources.databases import is_duckdb, stage_duckdb, stage_sqlite
from kgwalk.kg.sources.delimited import LABELS, TRIPLES, csv_records, read_csv, read_tsv, tsv_records
from kgwalk.kg.sources.source import (
    COMPRESSIONS,
    GIVEN_RANK,
    STDIN,
    SUFFIXES,
    TABLE_HINT,
    Block,
    Columns,
    Labels,
    Options,
    ReadCounts,
    Source,
    TimeCheck,
    TripleBlock,
    open_stream,
    shown,
    table_name,
)
from kgwalk.kg.sources.table_files import stage_rows, stage_workbook
from kgwalk.kg.sources.table_keys import find_keys
from kgwalk.kg.sources.tables import Tables, is_value
from kgwalk.kg.store import DATABASES, database_at, is_elsewhere, load_graph, shown_address
from kgwalk.types import InputError

_READERS: dict[str, Callable[[Source], Iterator[Block]]] = {
    "tsv": lambda source: noting_tables(source, _rows(read_tsv(source, TRIPLES))),
    "csv": lambda source: noting_tables(source, _rows(read_csv(source, TRIPLES))),
    "nt": lambda source: rdf.read_lines(source, "nt"),
    "ttl": lambda source: rdf.read_document(source, "ttl"),
    "nq": lambda source: rdf.read_lines(source, "nq"),
    "jsonld": lambda source: rdf.read_document(source, "jsonld"),
    "jsonl": jsonl.read_triples,
    "rog": jsonl.read_rog,
    "json": jsonl.read_list,
    "wikidata": wikidata.read_wikidata,
    "neo4j": neo4j.read_neo4j,
    "graphml": property_graph.read_graphml,
}
# Each puts the tables of a source with the others; the last argument is what a table without a name is called.
_TABLES: dict[str, Callable[[Source, Tables, str], None]] = {
    "tsv": lambda source, tables, name: stage_rows(source, tsv_records(source), tables, name),
    "csv": lambda source, tables, name: stage_rows(source, csv_records(source), tables, name),
    "jsonl": jsonl.stage_lines,
    "json": jsonl.stage_records,
    "xlsx": lambda source, tables, name: stage_workbook(source, tables, name),
    "sqlite": lambda source, tables, name: stage_sqlite(source, tables),
    "duckdb": lambda source, tables, name: stage_duckdb(source, tables),
}
_DELIMITED = ("tsv", "csv")
_ONLY_TABLES = ("xlsx", "sqlite", "duckdb")
FORMATS = (*_READERS, *_ONLY_TABLES)
_PEEKED = 256 << 10  # bytes that are read to tell a format by how the file begins
_JSON_LD = re.compile(r'\s*(\[\s*)?\{\s*"@(context|graph|id|type)"')
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
        return database_at(str(path)).format
    return detect_format(path, options) if options.format is None else check_format(options.format)


def read_labels(path: str | Path, options: Options, tally: ReadCounts) -> Iterator[Labels]:
    """The names of a TSV file with the columns id and label; a header is recognised by its words."""
    # The options `format` and `header` are about the triples.
    source = Source(str(path), replace(options, format=None, header=None), tally)
    blocks = (Labels(key, label, GIVEN_RANK) for key, label in read_tsv(source, LABELS))
    return _not_empty(source, blocks, "labels")


def detect_format(path: str | Path, options: Options | None = None) -> str:
    """The format that the suffix says, apart from `.gz` or `.zst`: `films.tsv.gz` is tsv.

    JSON, TSV and CSV are also told by how they begin: Wikidata's entities, JSON-LD, RoG's questions, Neo4j's headers.
    """
    if str(path) == STDIN:
        raise InputError("stdin has no file name to tell the format", hint=f"give --format: {_listed()}")
    name = PurePath(shown_address(path))
    suffixes = [suffix.lower() for suffix in name.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix not in SUFFIXES:
        raise InputError(
            f"unknown format: the name ends in {suffix!r}" if suffix else "unknown format: the name has no suffix",
            path=str(name),
            hint=f"known are {' '.join(SUFFIXES)}, also with {', '.join(COMPRESSIONS)}; "
            f"for other names `kgwalk kg build` has --format: {_listed()}",
        )
    found = SUFFIXES[suffix]
    if found == "sqlite" and is_duckdb(Path(path)):  # which people call .db as well
        return "duckdb"
    return _by_content(path, found, options or Options()) if found in ("json", "jsonl", *_DELIMITED) else found


def check_format(name: str) -> str:
    """The name, if a format is called so."""
    if name in FORMATS:
        return name
    near = get_close_matches(name, FORMATS, 1)
    raise InputError(
        f"unknown format {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
        hint=f"known are {_listed()}",
    )


def _by_content(path: str | Path, form: str, options: Options) -> str:
    """The format of a JSON, TSV or CSV file by how it begins; what cannot be read is left to the reader to refuse."""
    if not Path(path).exists() or (form in _DELIMITED and (options.table or options.header is not None)):
        return form
    # A tally of its own, since these bytes will be read and counted again.
    source = Source(str(path), Options(block_bytes=1 << 20, line_bytes=options.longest_line), ReadCounts())
    with open_stream(source) as stream:
        beginning = shown(stream.read(_PEEKED))
    if form in _DELIMITED:
        return "neo4j" if neo4j.is_beginning(beginning, "\t" if form == "tsv" else ",") else form
    if wikidata.is_beginning(beginning):
        return "wikidata"
    if form == "json":
        return "jsonld" if _JSON_LD.match(beginning) else "json"
    return "rog" if jsonl.begins_with_a_graph(source) else "jsonl"


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
    file = path
    if str(path).startswith(DATABASES):
        database = database_at(str(path))
        file = database.path
        tables.keys += database.keys
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
