"""Tables as in spreadsheets: column names in the first row, and a thing in each further row.

`table_facts` reads one (`--table`): every cell that is not blank is a fact, (the row's thing, the column's name, the
cell). `noting_tables` watches what is read as triples, and adds a note to the report if it looks like a table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kgwalk.kg.sources.delimited import TRIPLES, TableRow
from kgwalk.kg.sources.source import Columns, Source, TripleBlock, shown

# Reading a table

_LISTED = 5  # relations in a note


def table_facts(source: Source, records: Iterator[TableRow]) -> Iterator[TripleBlock]:
    """Blocks of facts. Refuses a row that has a cell under no column name, or no thing; blank rows are fine."""
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
