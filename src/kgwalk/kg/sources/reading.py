"""Reads a source file as blocks of triples: TSV, CSV, N-Triples, N-Quads, Turtle, JSON lines, RoG.

    for block in read("films.tsv.gz", Options(), tally): ...

The format is told by the file's name, or given in the options; `.gz` and `.zst` are decompressed on the way. Memory is
bounded by `Options.block_bytes`, whatever the size of the source. `build` is what calls this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import TypeVar

import orjson
import pyarrow as pa

from kgwalk.kg.sources import jsonl, rdf
from kgwalk.kg.sources.delimited import LABELS, TRIPLES, TableRow, csv_records, read_csv, read_tsv, tsv_records
from kgwalk.kg.sources.source import (
    COMPRESSIONS,
    GIVEN_RANK,
    STDIN,
    TABLE_HINT,
    Block,
    Labels,
    Options,
    ReadCounts,
    Source,
    TripleBlock,
    line_blocks,
    open_stream,
)
from kgwalk.kg.sources.tables import noting_tables, table_facts
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
    form = detect_format(path) if options.format is None else check_format(options.format)
    source = Source(str(path), options, tally)
    return _not_empty(source, _blocks(source, form), "triples", TABLE_HINT if form in _TABLES else None)


def read_labels(path: str | Path, options: Options, tally: ReadCounts) -> Iterator[Labels]:
    """The names of a TSV file with the columns id and label; a header is recognised by its words."""
    # The options `format` and `header` are about the triples.
    source = Source(str(path), replace(options, format=None, header=None), tally)
    blocks = (Labels(key, label, GIVEN_RANK) for key, label in read_tsv(source, LABELS))
    return _not_empty(source, blocks, "labels")


def detect_format(path: str | Path) -> str:
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
    return "rog" if found == "jsonl" and _holds_graphs(path) else found


def check_format(name: str) -> str:
    """The name, if a format is called so."""
    if name in FORMATS:
        return name
    near = get_close_matches(name, FORMATS, 1)
    raise InputError(
        f"unknown format {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
        hint=f"known are {_listed()}",
    )


def _holds_graphs(path: str | Path) -> bool:
    """Whether the first line is a question with its graph; a line that is not JSON is left to the reader to refuse."""
    # A tally of its own, since these bytes will be read and counted again.
    source = Source(str(path), Options(block_bytes=1 << 20), ReadCounts())
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
