"""Source files as blocks of triples: TSV, CSV, N-Triples, N-Quads, Turtle, JSON lines, RoG; also .gz, .zst.

    for block in read("films.tsv.gz", Options(), tally): ...

Memory is bounded by `Options.block_bytes`, whatever the size of the source. Knows nothing of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from kgwalk.kg.sources import jsonl, rdf
from kgwalk.kg.sources.block import FALLBACK_RANK, GIVEN_RANK, Block, Labels, Rows
from kgwalk.kg.sources.csvfile import csv_records, read_csv
from kgwalk.kg.sources.formats import FORMATS, check_format, detect_format
from kgwalk.kg.sources.layout import LABELS, TRIPLES, Record
from kgwalk.kg.sources.rdf import TIME_GRAPH
from kgwalk.kg.sources.source import RDFS_LABEL, TABLE_HINT, Options, Source, Tally
from kgwalk.kg.sources.table import table_facts
from kgwalk.kg.sources.table_look import noting_tables
from kgwalk.kg.sources.tsv import ESCAPED_MARK, escape, read_tsv, tsv_records, unescape

__all__ = [
    "ESCAPED_MARK",
    "FALLBACK_RANK",
    "FORMATS",
    "GIVEN_RANK",
    "RDFS_LABEL",
    "TIME_GRAPH",
    "Block",
    "Labels",
    "Options",
    "Rows",
    "Tally",
    "detect_format",
    "escape",
    "read",
    "read_labels",
    "unescape",
]

_B = TypeVar("_B", Rows, Labels, Block)

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
_TABLES: dict[str, Callable[[Source], Iterator[Record]]] = {"tsv": tsv_records, "csv": csv_records}


def read(path: str | Path, options: Options, tally: Tally) -> Iterator[Block]:
    """The triples and names of a source, block by block; `tally` is filled on the way. "-" is stdin."""
    form = detect_format(path) if options.format is None else check_format(options.format)
    source = Source(str(path), options, tally)
    return _not_empty(source, _blocks(source, form), "triples", TABLE_HINT if form in _TABLES else None)


def read_labels(path: str | Path, options: Options, tally: Tally) -> Iterator[Labels]:
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


def _rows(tables: Iterator[list[pa.StringArray]]) -> Iterator[Rows]:
    return (Rows(*columns) for columns in tables)


def _not_empty(source: Source, blocks: Iterator[_B], what: str, hint: str | None = None) -> Iterator[_B]:
    found, skipped = False, source.tally.skipped
    for block in blocks:
        found = True
        if isinstance(block, Rows):
            source.tally.rows += len(block.head)
        yield block
    if not found:
        left_out = source.tally.skipped - skipped
        malformed = f"; {left_out:,} malformed rows were left out" if left_out else ""
        maybe = hint if left_out and not source.options.table else None
        raise source.error(f"no {what}{malformed}", hint=maybe)
