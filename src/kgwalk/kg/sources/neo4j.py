"""CSV dumps of Neo4j: the files of `neo4j-admin database import`, and the one that `apoc.export.csv.all` writes.

    personId:ID(Person),name,born:int,:LABEL            movieId:ID(Movie),title,:LABEL
    :START_ID(Person),roles:string[],:END_ID(Movie),:TYPE

Nodes and relationships are told as every property graph's (`property_graph`). What a header says is kept: ids of an id
space, types, which every cell is checked by, and arrays, which are several values. Empty cells say nothing.

    "_id","_labels","name","born","_start","_end","_type"

In apoc's one table the rows with `_start` are relationships. Its arrays are JSON lists.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any

import orjson

from kgwalk.kg.sources.delimited import TableRow, csv_records, tsv_records
from kgwalk.kg.sources.property_graph import PropertyGraph, node_key
from kgwalk.kg.sources.source import COMPRESSIONS, Block, Source, shown, table_name

_ROLES = ("ID", "START_ID", "END_ID", "TYPE", "LABEL", "IGNORE")
_WHOLE = ("int", "long", "byte", "short")
_TYPES = [
    *(*_WHOLE, "float", "double", "boolean", "char", "string", "point", "vector"),
    *("date", "time", "localtime", "datetime", "localdatetime", "duration"),
]
_FIELD = re.compile(
    r"(?P<name>.*?)(?::(?P<type>[A-Za-z_]+)(?P<array>\[\])?(?:\((?P<space>[^)]*)\))?(?:\{[^}]*\})?)?", re.DOTALL
)
_TELLING = re.compile(r".*:(ID|START_ID|END_ID)(\([^)]*\))?(\{[^}]*\})?", re.DOTALL)
_APOC = ("_id", "_labels", "_start", "_end", "_type")
_ARRAY = ";"  # between the values of an array, and between labels


@dataclass(frozen=True, slots=True)
class _Column:
    """A column as the header has it. `role` is ID, LABEL, ... or "" for a property."""

    name: str
    role: str
    type: str = "string"
    array: bool = False
    space: str = ""


def is_beginning(text: str, separator: str) -> bool:
    """Whether a file begins with one of Neo4j's headers.

    >>> is_beginning("movieId:ID,title,:LABEL", ","), is_beginning('"_start","_end","_type"', ",")
    (True, True)
    >>> is_beginning("id,a:b", ","), is_beginning("_id,name", ",")
    (False, False)
    """
    line = text.lstrip("\r\n").partition("\n")[0].rstrip("\r")
    if "_ID" not in line and ":ID" not in line and "_type" not in line and "_labels" not in line:
        return False  # as most files
    try:
        fields = next(csv.reader([line], delimiter=separator, strict=True), [])
    except csv.Error:
        return False
    apoc = {"_id", "_labels"} <= {*fields} or {"_start", "_end", "_type"} <= {*fields}
    return apoc or any(_TELLING.fullmatch(field.strip()) for field in fields)


def read_neo4j(source: Source) -> Iterator[Block]:
    """The nodes and relationships of one file. Files of one dump are given together; each has a header of its own."""
    suffixes = [suffix.lower() for suffix in PurePath(source.path).suffixes]
    parted_by_tabs = [suffix for suffix in suffixes if suffix not in COMPRESSIONS][-1:] == [".tsv"]
    records = tsv_records(source) if parted_by_tabs else csv_records(source)
    header = next(records, None)
    if header is None:
        return
    graph = PropertyGraph(source)
    tell = _apoc_row(source, graph, header) if _is_apoc(header.fields) else _typed_row(source, graph, header)
    before, found = source.tally.skipped, False
    for record in records:
        found = True
        if len(record.fields) != len(header.fields):
            problem = f"expected {len(header.fields)} columns, as the header has, got {len(record.fields)}"
            _refuse(source, record, problem)
            continue
        try:
            tell(record)
        except ValueError as error:
            _refuse(source, record, str(error))
        if graph.facts.is_full:
            yield from graph.facts.blocks()
    if not found and source.tally.skipped == before:
        raise source.error(
            "a header and no rows", hint="put a header and the file of its rows into one: cat header.csv rows.csv"
        )
    yield from graph.facts.blocks()
    graph.write_notes()


def _refuse(source: Source, record: TableRow, problem: str) -> None:
    source.refuse(problem, line=record.line, text=shown(record.raw).rstrip("\r\n"))


def _is_apoc(fields: Sequence[str]) -> bool:
    return not any(_TELLING.fullmatch(field.strip()) for field in fields) and any(one in _APOC for one in fields)


# The files of neo4j-admin


def _typed_row(source: Source, graph: PropertyGraph, header: TableRow) -> Callable[[TableRow], None]:
    """What tells a row of a file whose header says what each column is."""
    columns = [_column(source, header, field.strip()) for field in header.fields]
    places = {role: [at for at, column in enumerate(columns) if column.role == role] for role in _ROLES}
    for role in ("ID", "START_ID", "END_ID", "TYPE"):
        if len(places[role]) > 1:
            raise source.error(f"several columns are :{role}; one is read", line=header.line)
    wanted = ("START_ID", "END_ID") if places["START_ID"] or places["END_ID"] else ("ID",)
    for role in wanted:
        if not places[role]:
            raise source.error(
                f"expected a header with :ID, or with :START_ID and :END_ID; got no :{role}",
                line=header.line,
                text=",".join(header.fields),
            )
    properties = [(at, column) for at, column in enumerate(columns) if not column.role]
    if wanted == ("ID",):
        kinds = [] if places["LABEL"] else [table_name(source.path)]
        if kinds:
            source.note(f"no column is :LABEL; its nodes are `{kinds[0]}`, as the file is called")
        return partial(_tell_node, graph, columns, places["ID"][0], places["LABEL"], kinds, properties)
    relation = "" if places["TYPE"] else table_name(source.path)
    if relation:
        source.note(f"no column is :TYPE; its relationships are `{relation}`, as the file is called")
    ends = (places["START_ID"][0], places["END_ID"][0])
    return partial(_tell_relationship, graph, columns, ends, places["TYPE"], relation, properties)


def _column(source: Source, header: TableRow, text: str) -> _Column:
    found = _FIELD.fullmatch(text)
    assert found is not None  # every text is a name at least
    type = found["type"]
    if type is None:
        return _Column(text, "" if text else "IGNORE")
    if type in _ROLES:
        return _Column(found["name"], type, space=found["space"] or "")
    if type.lower() not in _TYPES:
        raise source.error(
            f"column {text!r}: {type} is no type of a property",
            line=header.line,
            hint=f"types are {' '.join(_TYPES)}, and the marks {' '.join(f':{role}' for role in _ROLES)}",
        )
    return _Column(found["name"], "", type.lower(), bool(found["array"]))


def _tell_node(
    graph: PropertyGraph,
    columns: Sequence[_Column],
    id_at: int,
    labels_at: Sequence[int],
    kinds: Sequence[str],
    properties: Sequence[tuple[int, _Column]],
    record: TableRow,
) -> None:
    id = record.fields[id_at]
    if not id:
        raise ValueError("expected an id, got an empty one")
    labels = [label for at in labels_at for label in record.fields[at].split(_ARRAY) if label]
    told = _properties(properties, record.fields)
    graph.node(node_key(id, columns[id_at].space), kinds=labels or kinds, properties=told, id=id)


def _tell_relationship(
    graph: PropertyGraph,
    columns: Sequence[_Column],
    ends: tuple[int, int],
    type_at: Sequence[int],
    relation: str,
    properties: Sequence[tuple[int, _Column]],
    record: TableRow,
) -> None:
    start, end = (record.fields[at] for at in ends)
    kind = record.fields[type_at[0]] if type_at else relation
    if not (start and end and kind):
        empty = "start" if not start else "type" if end else "end"
        raise ValueError(f"expected a relationship with a start, an end and a type, got an empty {empty}")
    head, tail = (node_key(id, columns[at].space) for id, at in zip((start, end), ends, strict=True))
    graph.edge(head, kind, tail, _properties(properties, record.fields))


def _properties(columns: Sequence[tuple[int, _Column]], fields: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for at, column in columns:
        parts = fields[at].split(_ARRAY) if column.array else [fields[at]]
        values = [_checked(part, column) for part in parts if part and not part.isspace()]
        if values:
            found.setdefault(column.name, []).extend(values)
    return found


def _checked(text: str, column: _Column) -> str:
    """A cell as the text of its value; ValueError for one that is not of the column's type.

    >>> _checked("042", _Column("age", "", "int")), _checked("TRUE", _Column("alive", "", "boolean"))
    ('42', 'true')
    """
    if column.type in _WHOLE:
        if re.fullmatch(r"\s*[+-]?\d+\s*", text) is None:
            raise ValueError(f"column {column.name}:{column.type}: expected a whole number, got {text!r}")
        return str(int(text)) if len(text) < 100 else text
    if column.type in ("float", "double"):
        try:
            float(text)
        except ValueError:
            raise ValueError(f"column {column.name}:{column.type}: expected a number, got {text!r}") from None
        return text.strip()
    if column.type == "boolean":
        return "true" if text.strip().lower() == "true" else "false"
    return text


# The table of apoc


def _apoc_row(source: Source, graph: PropertyGraph, header: TableRow) -> Callable[[TableRow], None]:
    """What tells a row of apoc's table."""
    places = {name: header.fields.index(name) for name in _APOC if name in header.fields}
    properties = [(at, name) for at, name in enumerate(header.fields) if name not in _APOC]

    def cell(record: TableRow, name: str) -> str:
        return record.fields[places[name]] if name in places else ""

    def tell(record: TableRow) -> None:
        told = {name: values for at, name in properties if (values := list(_listed(record.fields[at])))}
        start, end, kind = (cell(record, name) for name in ("_start", "_end", "_type"))
        if start or end or kind:
            if not (start and end and kind):
                raise ValueError("expected a relationship with _start, _end and _type, got an empty one")
            graph.edge(node_key(start), kind, node_key(end), told)
        elif id := cell(record, "_id"):
            labels = [label for label in cell(record, "_labels").split(":") if label]
            graph.node(node_key(id), kinds=labels, properties=told, id=id)
        else:
            raise ValueError("expected a node with _id, or a relationship with _start, _end and _type")

    return tell


def _listed(text: str) -> Iterator[str]:
    """The values of a cell: of an array, which is a JSON list, its parts. `null` is none; "null" in a list is a text.

    >>> list(_listed('["a",2]')), list(_listed("[sic]")), list(_listed(""))
    (['a', '2'], ['[sic]'], [])
    >>> list(_listed('["null",null]')), list(_listed("null"))
    (['null'], [])
    """
    value: Any = None
    if text.startswith("["):
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            value = None
    parts = value if isinstance(value, list) else [None if text == "null" else text]
    for part in parts:
        said = part if isinstance(part, str) else "" if part is None else orjson.dumps(part).decode()
        if said and not said.isspace():
            yield said
