"""Files that are tables: TSV and CSV with the names of columns in the first row, and Excel sheets.

Each `stage_...` puts the tables of one source with the others in `Tables`, which tells their facts once all are there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from zipfile import BadZipFile

from kgwalk.kg.names import value_text
from kgwalk.kg.sources.databases import plain_file
from kgwalk.kg.sources.delimited import TRIPLES, TableRow
from kgwalk.kg.sources.source import Source, shown
from kgwalk.kg.sources.tables import Column, Tables
from kgwalk.types import InputError

_LISTED = 5  # columns in a note


def stage_rows(source: Source, records: Iterator[TableRow], tables: Tables, name: str) -> None:
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


def stage_workbook(source: Source, tables: Tables, name: str) -> None:
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
            stage_rows(source, rows, tables, name if alone else sheet.title)
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
