"""A table as spreadsheets have it: column names in the first row, and a thing in the first column of each other row.

Every other cell that is not blank is a fact: (the row's thing, the column's name, the cell).
Knows rows of fields, not how a file parts them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kgwalk.kg.sources.block import Columns, Rows
from kgwalk.kg.sources.layout import TRIPLES, Record
from kgwalk.kg.sources.source import Source, shown

_LISTED = 5  # relations in a note


def table_facts(source: Source, records: Iterator[Record]) -> Iterator[Rows]:
    """Blocks of facts. A row with a cell under no column name, or without a thing, is refused; blank rows are not."""
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
                yield Rows(*facts.arrays())
                facts, held = Columns(3), 0
            facts.append((thing, relation, cell))
            held += size
    if len(facts):
        yield Rows(*facts.arrays())


def _relations(source: Source, header: Record) -> list[str]:
    """The names of the columns after the first, "" for one that has none; a note says what they are."""
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
