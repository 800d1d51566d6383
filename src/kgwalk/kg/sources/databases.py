"""Tables of databases: SQLite and DuckDB files, with the keys and foreign keys that they declare.

They are opened for reading, and nothing of theirs is run but a SELECT of each table's rows: the file may be a
stranger's. Views and other schemas' system tables are left out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from kgwalk.kg.names import value_text
from kgwalk.kg.sources.source import COMPRESSIONS, STDIN, Source, shown
from kgwalk.kg.sources.tables import Tables

_ROWS = 10_000  # of a DuckDB table that are fetched at once
# What the tables end in where SQLite's full text (fts3, fts4, fts5) and rtree keep what they hold
_KEPT_IN = ("content", "segments", "segdir", "docsize", "stat", "data", "idx", "config", "node", "rowid", "parent")


class _Declared(NamedTuple):
    """What a database says of a table: its columns, its key, and which columns lead to which table's column."""

    columns: Sequence[str]
    key: Sequence[str]
    foreign: dict[str, tuple[str, str]]


def stage_sqlite(source: Source, tables: Tables) -> None:
    """Every table of an SQLite file."""
    path = plain_file(source)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.execute("PRAGMA trusted_schema = OFF")  # no functions of its schema
            database.text_factory = shown
            listed = database.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
            ).fetchall()
            virtual = {name for name, sql in listed if (sql or "").upper().startswith("CREATE VIRTUAL")}
            kept = virtual | _shadows(database, virtual)
            for name, _ in listed:
                if not name.startswith("sqlite_") and name not in kept:
                    rows = database.execute(f"SELECT * FROM {_quoted(name)}")
                    _stage(source, tables, name, _declared_in_sqlite(database, name), rows)
    except sqlite3.DatabaseError as error:
        raise source.error(f"cannot be read as an SQLite database: {error}") from None


def _shadows(database: sqlite3.Connection, virtual: Iterable[str]) -> set[str]:
    """The tables where virtual tables keep what they hold: as SQLite tells of modules that it has, and by their names
    of full text and rtree, which it may lack.
    """
    told = database.execute("PRAGMA table_list").fetchall()  # schema, name, type, ...; none before SQLite 3.37
    return {row[1] for row in told if row[2] == "shadow"} | {f"{name}_{end}" for name in virtual for end in _KEPT_IN}


def _declared_in_sqlite(database: sqlite3.Connection, name: str) -> _Declared:
    about = database.execute(
        f"PRAGMA table_info({_quoted(name)})"
    ).fetchall()  # place, name, type, not null, default, key
    key = [row[1] for row in sorted(about, key=lambda row: int(row[5])) if row[5]]
    foreign: dict[int, list[tuple[str, str, str]]] = {}
    for number, _, other, column, target, *_ in database.execute(f"PRAGMA foreign_key_list({_quoted(name)})"):
        foreign.setdefault(number, []).append((column, other, target or ""))
    single = (found for found in foreign.values() if len(found) == 1)
    return _Declared([row[1] for row in about], key, {column: (other, to) for [(column, other, to)] in single})


def stage_duckdb(source: Source, tables: Tables) -> None:
    """Every table of a DuckDB file."""
    try:
        import duckdb
    except ModuleNotFoundError:
        raise source.error(
            "DuckDB files need duckdb, which is not installed",
            hint="pip install 'kgwalk[duckdb]'; or let DuckDB write each table as CSV, and give --table",
        ) from None
    path = plain_file(source)
    try:
        with closing(duckdb.connect(str(path), read_only=True, config={"enable_external_access": "false"})) as database:
            own = "NOT internal AND NOT temporary AND database_name = current_database()"
            listed = database.execute(
                f"SELECT schema_name, table_name, table_oid FROM duckdb_tables() WHERE {own} ORDER BY table_oid"
            ).fetchall()
            for schema, name, number in listed:
                declared = _declared_in_duckdb(database, number)
                rows = database.cursor().execute(f"SELECT * FROM {_quoted(schema)}.{_quoted(name)}")
                _stage(source, tables, name, declared, _fetched(rows))
    except duckdb.Error as error:
        told = str(error).splitlines()[0]
        hint = "close the program that writes to it, or copy the file" if "lock" in told else None
        raise source.error(f"cannot be read as a DuckDB database: {told}", hint=hint) from None


def _fetched(rows: Any) -> Iterator[Sequence[Any]]:
    while some := rows.fetchmany(_ROWS):
        yield from some


def _declared_in_duckdb(database: Any, number: int) -> _Declared:
    columns = database.execute(
        "SELECT column_name FROM duckdb_columns() WHERE table_oid = ? ORDER BY column_index", [number]
    ).fetchall()
    constraints = database.execute(
        "SELECT constraint_type, constraint_column_names, referenced_table, referenced_column_names "
        "FROM duckdb_constraints() WHERE table_oid = ?",
        [number],
    ).fetchall()
    key: list[str] = next((names for kind, names, _, _ in constraints if kind == "PRIMARY KEY"), [])
    foreign = {
        names[0]: (other, targets[0])
        for kind, names, other, targets in constraints
        if kind == "FOREIGN KEY" and len(names) == 1
    }
    return _Declared([name for (name,) in columns], key, foreign)


def _stage(source: Source, tables: Tables, name: str, declared: _Declared, rows: Iterable[Sequence[Any]]) -> None:
    table = tables.start(name, source)
    table.keyed_by = declared.key or None
    table.declared = declared.foreign
    columns = [tables.add_column(table, column) for column in declared.columns]
    untold = 0
    for row in rows:
        untold += sum(isinstance(value, bytes | dict) for value in row)
        tables.add_row(
            table, [(column, text) for column, value in zip(columns, row, strict=True) for text in _cells(value)]
        )
    if untold:
        source.note(f"{name}: {untold:,} cells that are no text left out")


def _cells(value: Any) -> Iterator[str]:
    """The texts of a cell: none of an empty one, each of a list."""
    for one in value if isinstance(value, list | tuple) else [value]:
        text = "" if isinstance(one, dict | list | tuple) else value_text(one).strip()
        if text:
            yield text


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def is_duckdb(path: Path) -> bool:
    """Whether a file begins as DuckDB's do."""
    try:
        with path.open("rb") as file:
            return file.read(12)[8:] == b"DUCK"
    except OSError:  # which is told where it is read
        return False


def plain_file(source: Source) -> Path:
    """The path of a source that cannot be read as a stream."""
    if source.path == STDIN or PurePath(source.path).suffix.lower() in COMPRESSIONS:
        raise source.error("this format is read from a file that is not compressed", hint="decompress it into a file")
    path = Path(source.path)
    try:
        with path.open("rb"):
            source.tally.bytes_total += path.stat().st_size
            source.tally.bytes_read += path.stat().st_size
    except OSError as error:
        raise source.error(f"cannot be read: {error.strerror}") from None
    return path
