"""Source files as blocks of triples: TSV, CSV, N-Triples, N-Quads, Turtle, JSON lines, RoG; also .gz, .zst.

    for block in read("films.tsv.gz", Options(), tally): ...

Memory is bounded by `Options.block_bytes`, whatever the size of the source. Knows nothing of the store.
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
from kgwalk.kg.sources.delimited import (
    LABELS,
    TRIPLES,
    TableRow,
    csv_records,
    read_csv,
    read_tsv,
    tsv_records,
)
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

# ----------------------------------------------------------------------------------------------------
# Which format a file has, by its name; for JSON lines also by what the first line holds.
#
# Knows the names of the formats, not how they are read.


FORMATS = ("tsv", "csv", "nt", "ttl", "nq", "jsonl", "rog")
_SUFFIXES = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".nt": "nt",
    ".ttl": "ttl",
    ".nq": "nq",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


def detect_format(path: str | Path) -> str:
    """The format by the suffix, `.gz` or `.zst` aside: `films.tsv.gz` is tsv."""
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
    if name in FORMATS:
        return name
    near = get_close_matches(name, FORMATS, 1)
    raise InputError(
        f"unknown format {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
        hint=f"known are {_listed()}",
    )


def _holds_graphs(path: str | Path) -> bool:
    """Whether the first line is a question with its graph; the reader will refuse one that is no JSON."""
    # Its own tally: these bytes are read again.
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


_B = TypeVar("_B", TripleBlock, Labels, Block)

_READERS: dict[str, Callable[[Source], Iterator[Block]]] = {
    "tsv": lambda source: noting_tables(source, _rows(read_tsv(source, TRIPLES))),
    "csv": lambda source: noting_tables(source, _rows(read_csv(source, TRIPLES))),
    "nt": lambda source: rdf.read_lines(source, "nt"),
    "nq": lambda source: rdf.read_lines(source, "nq"),
    "ttl": rdf.read_turtle,
    "jsonl": jsonl.read_triples,
    "rog": jsonl.read_rog,
}
assert set(_READERS) == set(FORMATS)
_TABLES: dict[str, Callable[[Source], Iterator[TableRow]]] = {"tsv": tsv_records, "csv": csv_records}


def read(path: str | Path, options: Options, tally: ReadCounts) -> Iterator[Block]:
    """The triples and names of a source, block by block; `tally` is filled on the way. "-" is stdin."""
    form = detect_format(path) if options.format is None else check_format(options.format)
    source = Source(str(path), options, tally)
    return _not_empty(source, _blocks(source, form), "triples", TABLE_HINT if form in _TABLES else None)


def read_labels(path: str | Path, options: Options, tally: ReadCounts) -> Iterator[Labels]:
    """The names of a TSV file with the columns id and label; a header is told by its words."""
    # `format` and `header` were said of the triples.
    source = Source(str(path), replace(options, format=None, header=None), tally)
    blocks = (Labels(key, label, GIVEN_RANK) for key, label in read_tsv(source, LABELS))
    return _not_empty(source, blocks, "labels")


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
