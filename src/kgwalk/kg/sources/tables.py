"""Tables as people export them: a thing a row, keys of each table's own, and columns that lead to other tables' rows.

    tables = Tables(scratch)
    tables.start("employees", source).add(...)      once for every table
    for block in tables.blocks(chosen): ...         facts and names

A row is a thing of the table's kind: (row, `is_a`, table), unless the table's name begins with `_`, which says no kind,
as it does of a label in a property graph. Its key column tells it from the others, and its label is
what people see. A cell is a fact (row, column's name, cell); where its column is a foreign key, the fact leads to the
other table's row. `table_keys` finds which columns are what. A text that is the name of just one row means that row.
Numbers, dates and all other text are what they say.

All tables have to be known before the first fact can be told, so they wait in an SQLite file, one table a column.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgwalk.kg.sources.source import GIVEN_RANK, Block, Columns, Labels, Source, TripleBlock, strings

IS_A = ("is_a", "instance_of")  # the relation from a row to its table: the first that is no column's name
SAMPLED = 200  # values of a column that are looked at to tell what they are
_HELD = 50_000  # cells that wait to be written, and names that are fetched at once
_CACHE_BYTES = 64 << 20  # of the database's pages in memory


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key: the table that a column leads to. `by_row` where its cells are numbers of rows, not keys."""

    table: Table
    by_row: bool = False


@dataclass(eq=False)
class Column:
    """A column: its name, where its cells wait, what they are like, and what was found about it."""

    name: str
    number: int  # of the SQLite table that holds it
    cells: int = 0
    distinct: int = 0
    integers: bool = False  # all cells are whole numbers
    values: bool = False  # all cells looked at are numbers, dates or times
    link: ForeignKey | None = None
    dangling: int = 0  # distinct cells of a link that are no key of the other table


@dataclass(eq=False)
class Table:
    """A table: its columns, and after `find_keys` its key, label and links."""

    name: str
    source: Source
    number: int
    columns: list[Column] = field(default_factory=list)
    rows: int = 0
    key: Column | None = None
    label: tuple[Column, ...] = ()  # one column, or first and last name
    joins: bool = False  # two foreign keys and nothing else: a relation between other tables' rows, and no rows
    bare: bool = True  # a row's id is its key alone, not `table/key`
    keyed_by: Sequence[str] | None = None  # the source declares the key; several columns are one together
    declared: dict[str, tuple[str, str]] = field(default_factory=dict)  # foreign keys that the source declares
    nested: bool = False  # rows that stand inside others: one thing may come again

    def column(self, name: str) -> Column | None:
        """The column of that name, or of that name in other case."""
        exact = (column for column in self.columns if column.name == name)
        alike = (column for column in self.columns if column.name.casefold() == name.casefold())
        return next(exact, None) or next(alike, None)

    def read_as(self) -> str:
        """The table in words, for a note."""
        links = ", ".join(f"{column.name} -> {column.link.table.name}" for column in self.columns if column.link)
        if self.joins:
            return f"read as a relation between rows: {links}"
        by = "row number" if self.key is None else f"column {self.columns.index(self.key) + 1} ({_named(self.key)})"
        said = f"read as a table of {self.name}, by {by}"
        if self.label:
            said += f", shown by {' and '.join(column.name for column in self.label)}"
        plain = [column.name for column in self.columns if column is not self.key and column.link is None]
        said += f"; {links}" if links else ""
        return said + (f"; the relations are {_some(plain)}" if plain else "")


@dataclass
class FoundTable:
    """What was found about one table, for the report of a build."""

    table: str
    source: str
    rows: int
    key: str | None
    label: list[str]
    links: dict[str, str]
    read_as: str  # "rows" or "relation"


class Tables:
    """Tables that wait to be told as facts, in a file of `scratch`."""

    def __init__(self, scratch: Path) -> None:
        self.tables: list[Table] = []
        self.keys: list[str] = []  # what the addresses of databases say of their tables' keys, as `Options.keys`
        self._columns = 0
        self._waiting: dict[str, list[tuple[int, int | str]]] = {}  # rows to write, by the query that does
        self._held = 0
        self.path = scratch / "tables.sqlite"
        self._db = sqlite3.connect(self.path, isolation_level=None)
        for pragma in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{_CACHE_BYTES >> 10}"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.create_function("is_value", 1, is_value, deterministic=True)
        self._db.execute("BEGIN")

    def close(self) -> None:
        self._db.close()
        self.path.unlink(missing_ok=True)

    # What comes in

    def start(self, name: str, source: Source) -> Table:
        """A new table. A second one of that name is told apart by a number."""
        taken = {table.name.casefold() for table in self.tables}
        free = next(f"{name} {n}" if n > 1 else name for n in range(1, len(taken) + 2) if _free(name, n, taken))
        table = Table(free, source, len(self.tables))
        self.tables.append(table)
        self._run(f"CREATE TABLE r{table.number} (row INTEGER PRIMARY KEY, line INTEGER)")
        return table

    def add_column(self, table: Table, name: str) -> Column:
        column = Column(name, self._columns)
        self._columns += 1
        table.columns.append(column)
        self._run(f"CREATE TABLE c{column.number} (row INTEGER, value TEXT)")
        return column

    def add_row(self, table: Table, cells: Iterable[tuple[Column, str]], line: int = 0) -> int:
        """Add a row by its cells that are not blank; returns its number. `line` is where it stands in its file."""
        table.rows += 1
        self._waiting.setdefault(f"INSERT INTO r{table.number} VALUES (?, ?)", []).append((table.rows, line))
        self._held += 1
        for column, value in cells:
            self._waiting.setdefault(f"INSERT INTO c{column.number} VALUES (?, ?)", []).append((table.rows, value))
            self._held += 1
        if self._held >= _HELD:
            self._write()
        return table.rows

    def _write(self) -> None:
        for query, rows in self._waiting.items():
            with _disk_errors():
                self._db.executemany(query, rows)
        self._waiting, self._held = {}, 0

    # What `table_keys` asks

    def look(self, table: Table) -> None:
        """See what the columns are like, once all rows are there."""
        self._write()
        for column in table.columns:
            at = f"c{column.number}"
            column.cells, column.distinct = self._one(f"SELECT count(*), count(DISTINCT value) FROM {at}")
            other = f"SELECT EXISTS (SELECT 1 FROM {at} WHERE value GLOB '*[^0-9]*')"
            column.integers = bool(column.cells) and not self._one(other)[0]
            some = f"SELECT min(is_value(value)) FROM (SELECT value FROM {at} LIMIT {SAMPLED})"
            column.values = bool(self._one(some)[0])

    def missing(self, column: Column, keys: Column) -> int:
        """How many distinct cells of a column are none of another column's."""
        found = f"SELECT DISTINCT value FROM c{column.number} WHERE value NOT IN (SELECT value FROM c{keys.number})"
        return int(self._one(f"SELECT count(*) FROM ({found})")[0])

    def shared(self, one: Column, other: Column) -> bool:
        """Whether two columns have a cell in common."""
        found = f"SELECT 1 FROM c{one.number} WHERE value IN (SELECT value FROM c{other.number})"
        return bool(self._one(f"SELECT EXISTS ({found})")[0])

    def varies(self, key: Column, column: Column) -> bool:
        """Whether rows of one key have several cells in a column."""
        joined = f"c{key.number} k JOIN c{column.number} c ON c.row = k.row"
        pairs = f"SELECT DISTINCT k.value AS a, c.value AS b FROM {joined}"
        return bool(self._one(f"SELECT EXISTS (SELECT 1 FROM ({pairs}) GROUP BY a HAVING count(*) > 1)")[0])

    def repeats(self, one: Column, other: Column) -> bool:
        """Whether two rows have the same cells in two columns."""
        joined = f"c{one.number} a JOIN c{other.number} b ON b.row = a.row"
        return bool(self._one(f"SELECT count(*) > count(DISTINCT a.value || char(0) || b.value) FROM {joined}")[0])

    # What goes out

    def blocks(self, block_bytes: int) -> Iterator[Block]:
        """All facts and names; the keys have been found. The tallies of the sources are filled."""
        for table in self.tables:
            self._refuse_rows_without_key(table)
            table.source.note(table.read_as())
        for table in self.tables:
            if not table.joins and (table.key is None or table.key.link is None):
                self._make_things(table)
        for table in self.tables:
            if not table.joins and table.key is not None and table.key.link is not None:
                self._make_things(table)
        self._make_names()
        for table in self.tables:
            yield from self._facts(table, block_bytes)
        yield from self._labels(block_bytes)

    def _refuse_rows_without_key(self, table: Table) -> None:
        if table.key is None or table.joins:
            return
        place = f"column {table.columns.index(table.key) + 1}"
        without = f"SELECT row, line FROM r{table.number} WHERE row NOT IN (SELECT row FROM c{table.key.number})"
        for row, line in self._run(without).fetchall():
            filled = [self._one(f"SELECT value FROM c{c.number} WHERE row = ?", row) for c in table.columns]
            text = ",".join(cell[0] if cell else "" for cell in filled)
            table.source.refuse(
                f"expected the name of a thing in {place}, got an empty one", line=line or None, text=text
            )

    def _make_things(self, table: Table) -> None:
        """The ids of a table's rows, in `e`; the id of each key, in `k`; what people see, in `labels`."""
        e, k, key = f"e{table.number}", f"k{table.number}", table.key
        self._run(f"CREATE TABLE {e} (row INTEGER PRIMARY KEY, id TEXT)")
        self._run(f"CREATE TABLE {k} (key TEXT PRIMARY KEY, id TEXT) WITHOUT ROWID")
        self._run("CREATE TABLE IF NOT EXISTS labels (id TEXT PRIMARY KEY, label TEXT) WITHOUT ROWID")
        if key is None:
            self._run(f"INSERT INTO {e} SELECT row, ? || '/' || row FROM r{table.number}", table.name)
        elif key.link is not None:  # further facts about another table's rows
            self._run(
                f"INSERT OR IGNORE INTO {e} SELECT c.row, coalesce(k.id, ? || '/' || c.value) FROM c{key.number} c "
                f"LEFT JOIN k{key.link.table.number} k ON k.key = c.value",
                key.link.table.name,
            )
        else:
            made = "value" if table.bare else "? || '/' || value"
            arguments = () if table.bare else (table.name,)
            self._run(f"INSERT OR IGNORE INTO {e} SELECT row, {made} FROM c{key.number}", *arguments)
        if key is not None:
            self._run(f"INSERT OR IGNORE INTO {k} SELECT value, id FROM c{key.number} JOIN {e} USING (row)")
        if key is None or key.link is None:
            self._make_labels(table)

    def _make_labels(self, table: Table) -> None:
        """A row is shown by its label; one without by its key, with the table's name where that is a number."""
        e, name = f"e{table.number}", table.name
        if table.label:
            joins = " ".join(f"LEFT JOIN c{c.number} l{n} ON l{n}.row = e.row" for n, c in enumerate(table.label))
            text = " || ' ' || ".join(f"coalesce(l{n}.value, '')" for n in range(len(table.label)))
            found = f"SELECT e.id AS id, trim({text}) AS label FROM {e} e {joins}"
            shown = "CASE WHEN is_value(label) THEN ? || ' ' || label ELSE label END"
            self._run(f"INSERT OR IGNORE INTO labels SELECT id, {shown} FROM ({found}) WHERE label <> ''", name)
        if not table.bare or table.key is None:
            short = f"substr(id, {len(name) + 2})"
            known = "AND NOT is_value(" + short + ")" if table.key is not None else "AND 0"
            shown = f"CASE WHEN 1 {known} THEN {short} ELSE ? || ' ' || {short} END"
            self._run(f"INSERT OR IGNORE INTO labels SELECT id, {shown} FROM {e}", name)

    def _make_names(self) -> None:
        """Which text means which row: the labels that just one row has."""
        self._run("CREATE TABLE IF NOT EXISTS labels (id TEXT PRIMARY KEY, label TEXT) WITHOUT ROWID")
        self._run("CREATE TABLE names (name TEXT PRIMARY KEY, id TEXT) WITHOUT ROWID")
        self._run("INSERT INTO names SELECT label, min(id) FROM labels GROUP BY label HAVING count(*) = 1")

    def _facts(self, table: Table, block_bytes: int) -> Iterator[Block]:
        if table.joins:
            first, second = (column for column in table.columns if column.link is not None)
            yield from self._told(
                table,
                second.name,
                f"SELECT {_target(first, 'a')}, {_target(second, 'b')} FROM c{first.number} a "
                f"JOIN c{second.number} b ON b.row = a.row {_to(first, 'a')} {_to(second, 'b')} ORDER BY a.rowid",
                block_bytes,
            )
            return
        columns = {column.name for other in self.tables for column in other.columns}
        is_a = next((name for name in IS_A if name not in columns), IS_A[0])
        kind = self._one("SELECT min(id) FROM names WHERE name = ?", table.name)[0] or table.name
        kinds = f"SELECT DISTINCT id, ? FROM e{table.number} ORDER BY row"
        for column in table.columns:
            if column is table.key:
                continue
            text = f"SELECT e.id, {_target(column, 'c')} FROM c{column.number} c JOIN e{table.number} e "
            text += f"ON e.row = c.row {_to(column, 'c')} ORDER BY c.rowid"
            yield from self._told(table, column.name, text, block_bytes)
        if not table.name.startswith("_"):
            yield from self._told(table, is_a, kinds, block_bytes, kind)

    def _told(self, table: Table, relation: str, query: str, block_bytes: int, *arguments: str) -> Iterator[Block]:
        facts, held = Columns(3), 0
        for head, tail in self._run(query, *arguments):
            size = len(head) + len(relation) + len(tail)
            if len(facts) and held + size > block_bytes:
                table.source.tally.rows += len(facts)
                yield TripleBlock(*facts.arrays())
                facts, held = Columns(3), 0
            facts.append((head, relation, tail))
            held += size
        if len(facts):
            table.source.tally.rows += len(facts)
            yield TripleBlock(*facts.arrays())

    def _labels(self, block_bytes: int) -> Iterator[Block]:
        found = self._run("SELECT id, label FROM labels WHERE id <> label ORDER BY id")
        while some := found.fetchmany(max(1, min(_HELD, block_bytes // 32))):
            keys, labels = zip(*some, strict=True)
            yield Labels(strings(keys), strings(labels), GIVEN_RANK)

    def found(self) -> list[FoundTable]:
        """What was found about each table."""
        return [
            FoundTable(
                table.name,
                table.source.name,
                table.rows,
                None if table.key is None or table.joins else table.key.name,
                [column.name for column in table.label],
                {column.name: column.link.table.name for column in table.columns if column.link is not None},
                "relation" if table.joins else "rows",
            )
            for table in self.tables
        ]

    # The database

    def _run(self, query: str, *arguments: object) -> sqlite3.Cursor:
        with _disk_errors():
            return self._db.execute(query, arguments)

    def _one(self, query: str, *arguments: object) -> tuple[Any, ...]:
        found: tuple[Any, ...] = self._run(query, *arguments).fetchone()
        return found


def is_value(text: str) -> bool:
    """Digits without letters: a number, a date, a time.

    >>> [is_value(text) for text in ("1990", "-0.5", "2013-02-18", "21:45", "Ann", "SO-1001", "-")]
    [True, True, True, True, False, False, False]
    """
    return any(map(str.isdigit, text)) and not any(map(str.isalpha, text))


def _free(name: str, number: int, taken: set[str]) -> bool:
    return (f"{name} {number}" if number > 1 else name).casefold() not in taken


def _to(column: Column, alias: str) -> str:
    """The joins from a cell to what it means."""
    names = f"LEFT JOIN names n{alias} ON n{alias}.name = {alias}.value"
    if column.link is None:
        return names
    target = column.link.table.number
    if column.link.by_row:
        return f"JOIN e{target} t{alias} ON t{alias}.row = CAST({alias}.value AS INTEGER)"
    return f"LEFT JOIN k{target} t{alias} ON t{alias}.key = {alias}.value {names}"


def _target(column: Column, alias: str) -> str:
    """What a cell means: a row by its key, the row of that name, or the text itself."""
    if column.link is None:
        return f"coalesce(n{alias}.id, {alias}.value)"
    return f"t{alias}.id" if column.link.by_row else f"coalesce(t{alias}.id, n{alias}.id, {alias}.value)"


def _named(column: Column) -> str:
    return column.name or "no name"


def _some(names: Sequence[str], most: int = 5) -> str:
    distinct = list(dict.fromkeys(names))
    return ", ".join(distinct[:most]) + (f" and {len(distinct) - most:,} more" if len(distinct) > most else "")


@contextmanager
def _disk_errors() -> Iterator[None]:
    """A full disk is told as everywhere else."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "full" in str(error):
            raise OSError(errno.ENOSPC, "No space left on device") from error
        raise
