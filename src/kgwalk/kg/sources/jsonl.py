"""JSON: one triple a line, one question with its graph a line (RoG), a list of triples, or records as tables.

A triple is {"head", "relation", "tail"} (or subject/predicate/object, or h/r/t) with an optional "time", or
[head, relation, tail] with an optional time as the fourth. A head, relation or tail is text, a number or true/false
(kept as JSON writes it), or {"id": key, "name": label}, which keeps two entities with one name apart.

Records are objects with fields of their own, in a `.json` file or one a line. They are rows of a table (`tables`); an
object inside a record is a row of a further table, called as its field is; a list is several cells of one column.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgwalk.kg.names import singular
from kgwalk.kg.sources.source import (
    ENCODING_HINT,
    GIVEN_RANK,
    Block,
    Labels,
    Source,
    TimeCheck,
    TripleBlock,
    line_blocks,
    not_utf8,
    open_stream,
    shown,
    strings,
)
from kgwalk.kg.sources.tables import Column, ForeignKey, Table, Tables

_FIELD_NAMES = (("head", "relation", "tail"), ("subject", "predicate", "object"), ("h", "r", "t"))
_TRIPLE = '{"head", "relation", "tail"} or [head, relation, tail], with an optional time'
_RECORDS = "a list of objects, an object of such lists, or one object"
_PEEKED = 1 << 20  # bytes that are read to tell the form of a file
_TEXT_LISTS = pa.list_(pa.string())
_QUESTION = '{"id", "graph": [[head, relation, tail], ...]}'


def read_triples(source: Source) -> Iterator[Block]:
    """One triple a line."""
    batch = _Batch(with_question=False)
    for number, raw, value in _values(source):
        try:
            batch.add(_triple(value, raw))
        except ValueError as error:
            source.refuse(str(error), line=number, text=shown(raw))
        batch.size += len(raw)
        if batch.size >= source.options.block_bytes:
            yield from batch.blocks()
            batch = _Batch(with_question=False)
    yield from batch.blocks()


def read_list(source: Source) -> Iterator[Block]:
    """A file that is one list of triples."""
    batch = _Batch(with_question=False)
    for place, value in enumerate(_whole(source)):
        try:
            batch.add(_parse(value))
        except ValueError as error:
            source.refuse(f"[{place}]: {error}", text=json.dumps(value, ensure_ascii=False)[:200])
    yield from batch.blocks()


def is_triple(value: Any) -> bool:
    """Whether a JSON value is meant as a triple, by its form."""
    if isinstance(value, dict):
        return any(all(name in value for name in names) for names in _FIELD_NAMES)
    return isinstance(value, list) and len(value) in (3, 4) and not any(isinstance(part, list) for part in value)


def first_value(source: Source) -> Any:
    """The first element of a JSON list, or the first value of JSON lines; None where it cannot be told."""
    with open_stream(source) as stream:
        text = shown(stream.read(_PEEKED)).lstrip()
    try:
        return json.JSONDecoder().raw_decode(text[1:].lstrip() if text.startswith("[") else text)[0]
    except (ValueError, RecursionError):
        return None


def begins_with_a_graph(source: Source) -> bool:
    """Whether the first line is a question with its graph; a line that is not JSON is left to the reader to refuse."""
    with open_stream(source) as stream:
        for lines in line_blocks(source, stream):
            if first := lines.data.lstrip().split(b"\n", 1)[0]:
                try:
                    value = orjson.loads(first)
                except orjson.JSONDecodeError:
                    return False
                return isinstance(value, dict) and isinstance(value.get("graph"), list)
    return False


def read_rog(source: Source) -> Iterator[Block]:
    """One question a line: its graph becomes rows with the question's id, or the line number if it has none."""
    batch = _Batch(with_question=True)
    empty = 0
    for number, raw, value in _values(source):
        try:
            question, graph = _question(value, raw, number)
        except ValueError as error:
            source.refuse(str(error), line=number, text=shown(raw))
            continue
        empty += not graph
        if not batch.add_plain(graph, question):
            _add_checked(source, batch, graph, question, raw, number)
        batch.size += len(raw) + len(question) * len(graph)
        if batch.size >= source.options.block_bytes:
            yield from batch.blocks()
            batch = _Batch(with_question=True)
    yield from batch.blocks()
    if empty:
        source.note(f"{empty:,} question{'' if empty == 1 else 's'} with an empty graph")


def _values(source: Source) -> Iterator[tuple[int, bytes, Any]]:
    """The number, text and value of each line that is JSON; empty lines are left out, others refused."""
    with open_stream(source) as stream:
        for lines in line_blocks(source, stream):
            for number, raw in enumerate(lines.data.split(b"\n"), lines.first):
                if not raw.strip():
                    continue
                try:
                    value = orjson.loads(raw)
                except orjson.JSONDecodeError as error:
                    _refuse_line(source, number, raw, error)
                else:
                    yield number, raw, value


def _refuse_line(source: Source, number: int, raw: bytes, error: orjson.JSONDecodeError) -> None:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as why:
        source.refuse(not_utf8(why), line=number, text=shown(raw), hint=ENCODING_HINT)
    else:
        source.refuse(f"not JSON: {error.msg} (column {error.colno})", line=number, text=shown(raw))


class _Parsed(NamedTuple):
    keys: list[str]  # head, relation, tail
    time: str
    labels: list[tuple[str, str]]


class _NumberText(Exception):
    """A number whose text orjson does not keep (1.10, 1e3, integers past 64 bits); the json module does."""


def _triple(value: Any, raw: bytes) -> _Parsed:
    try:
        return _parse(value)
    except _NumberText:
        return _parse(_with_number_texts(raw))


def _with_number_texts(raw: bytes) -> Any:
    return json.loads(raw, parse_float=str, parse_int=str)


def _parse(value: Any) -> _Parsed:
    fields, given_time = _fields(value)
    time = "" if given_time is None else _scalar(given_time, "time")
    head, relation, tail = fields
    if type(head) is type(relation) is type(tail) is str and head and relation and tail:
        return _Parsed(fields, time, [])
    keys: list[str] = []
    labels: list[tuple[str, str]] = []
    for role, field in zip(_FIELD_NAMES[0], fields, strict=True):
        key, label = _key(field, role)
        keys.append(key)
        if label:
            labels.append((key, label))
    return _Parsed(keys, time, labels)


def _key(value: Any, role: str) -> tuple[str, str]:
    """The key of a head, relation or tail, and the label that {"id": key, "name": label} gives it, else ""."""
    label = ""
    if isinstance(value, dict):
        if "id" not in value:
            raise ValueError(f'expected {_TRIPLE}, got a {role} without an "id"')
        if (name := value.get("name")) is not None:
            label = _scalar(name, f"{role} name")
        value, role = value["id"], f"{role} id"
    key = _scalar(value, role)
    if not key:
        raise ValueError(f"expected {_TRIPLE}, got an empty {role}")
    return key, label


def _fields(value: Any) -> tuple[list[Any], Any]:
    """The head, relation and tail of a triple in either form, and its time, as JSON values."""
    if isinstance(value, list):
        if len(value) not in (3, 4):
            raise ValueError(f"expected {_TRIPLE}, got a list of {len(value)}")
        return value[:3], value[3] if len(value) == 4 else None
    if not isinstance(value, dict):
        raise ValueError(f"expected {_TRIPLE}, got {_kind(value)}")
    for head, relation, tail in _FIELD_NAMES:
        if head in value and relation in value and tail in value:
            return [value[head], value[relation], value[tail]], value.get("time")
    got = ", ".join(f'"{name}"' for name in list(value)[:5]) or "none"
    raise ValueError(f"expected {_TRIPLE}, got an object with the keys {got}")


def _scalar(value: Any, role: str) -> str:
    """Text as it is; a number or true/false as JSON writes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        raise _NumberText
    raise ValueError(f"expected text or a number for the {role}, got {_kind(value)}")


def _kind(value: Any) -> str:
    kinds = {type(None): "null", dict: "an object", list: "a list", str: "a string"}
    return kinds.get(type(value), "a number or true/false")


def _question(value: Any, raw: bytes, number: int) -> tuple[str, list[Any]]:
    if not isinstance(value, dict) or not isinstance(value.get("graph"), list):
        raise ValueError(f'expected {_QUESTION}, got no "graph" list')
    if value.get("id") is None:
        return str(number), value["graph"]
    try:
        question = _scalar(value["id"], "id")
    except _NumberText:
        question = _scalar(_with_number_texts(raw)["id"], "id")
    return question or str(number), value["graph"]


def _add_checked(source: Source, batch: _Batch, graph: list[Any], question: str, raw: bytes, number: int) -> None:
    """Add the triples of a question's graph one by one; refuses those that are wrong."""
    exact: list[Any] | None = None
    for place, value in enumerate(graph):
        try:
            try:
                parsed = _parse(value)
            except _NumberText:
                exact = exact or _with_number_texts(raw)["graph"]
                parsed = _parse(exact[place])
            batch.add(parsed, question)
        except ValueError as error:
            source.refuse(f"graph[{place}]: {error}", line=number, text=shown(orjson.dumps(value)))


class _Batch:
    """One block being filled: triples one at a time, or a plain graph at once."""

    def __init__(self, with_question: bool) -> None:
        self._with_question = with_question
        self._time_check = TimeCheck()
        self._labels: dict[tuple[str, str], None] = {}  # a set that keeps its order
        self._arrays: list[list[pa.StringArray]] = []  # head, relation, tail, time, question of rows so far
        self._start_rows()
        self.size = 0  # bytes of text held

    def _start_rows(self) -> None:
        self._rows: tuple[list[str], ...] = ([], [], [], [], [])

    def add(self, parsed: _Parsed, question: str = "") -> None:
        if problem := self._time_check.problem(parsed.time):
            raise ValueError(f"the time: {problem}")
        heads, relations, tails, times, questions = self._rows
        head, relation, tail = parsed.keys
        heads.append(head)
        relations.append(relation)
        tails.append(tail)
        times.append(parsed.time)
        questions.append(question)
        if parsed.labels:
            self._labels.update(dict.fromkeys(parsed.labels))

    def add_plain(self, graph: list[Any], question: str) -> bool:
        """Add a graph in which every triple is three texts; for any other, adds nothing and returns False."""
        if set(map(type, graph)) != {list} or set(map(len, graph)) != {3}:
            return not graph
        try:
            texts = pa.array(graph, _TEXT_LISTS).values  # head, relation, tail, head, ...
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # something other than text
            return False
        if texts.null_count or pc.min(pc.binary_length(texts)).as_py() == 0:
            return False
        columns = [texts.take(pa.array(np.arange(role, len(texts), 3))) for role in range(3)]
        self._end_rows()
        self._arrays.append([*columns, _repeated("", len(graph)), _repeated(question, len(graph))])
        return True

    def _end_rows(self) -> None:
        if self._rows[0]:
            self._arrays.append([strings(column) for column in self._rows])
            self._start_rows()

    def blocks(self) -> Iterator[Block]:
        self._end_rows()
        if self._arrays:
            head, relation, tail, time, question = map(pa.concat_arrays, zip(*self._arrays, strict=True))
            timed = pc.max(pc.binary_length(time)).as_py() > 0
            yield TripleBlock(head, relation, tail, time if timed else None, question if self._with_question else None)
        if self._labels:
            keys, labels = zip(*self._labels, strict=True)
            yield Labels(strings(keys), strings(labels), GIVEN_RANK)


def _repeated(text: str, times: int) -> pa.StringArray:
    return pa.repeat(pa.scalar(text, pa.string()), times)


# Records


def stage_records(source: Source, tables: Tables, name: str) -> None:
    """The tables of a `.json` file.

    A list of objects is a table of the file's name; an object of lists of objects is a table of each field's name; an
    object of objects is a table whose keys are the names of its fields; any other object is one row.
    """
    records, value = _Records(tables, source), _whole(source)
    if isinstance(value, dict):
        fields = {field: part for field, part in value.items() if _is_records(part)}
        if fields:
            for field, part in fields.items():
                records.add_all(field, part)
            if other := ", ".join(field for field in value if field not in fields):
                source.note(f"beside the tables, left out: {other}")
            return
        rows = list(value.values())
        if len(rows) > 1 and all(isinstance(row, dict) for row in rows):
            keyed = [row if "id" in row else {"id": key, **row} for key, row in value.items()]
            records.add_all(name, keyed)
            return
        value = [value]
    if not _is_records(value):
        got = _kind(value) if not isinstance(value, list) else "a list with values in it" if value else "an empty list"
        raise source.error(f"expected {_RECORDS}, got {got}")
    records.add_all(name, value)


def stage_lines(source: Source, tables: Tables, name: str) -> None:
    """A record a line; refuses lines that are none."""
    records = _Records(tables, source)
    table = records.table(name, nested=False)
    for number, raw, value in _values(source):
        if isinstance(value, dict):
            records.add(table, _with_number_texts(raw), number)
        else:
            source.refuse(f"expected an object, got {_kind(value)}", line=number, text=shown(raw))


def _whole(source: Source) -> Any:
    """The value of a file, with numbers as the text that they have."""
    with open_stream(source) as stream:
        parts = iter(lambda: stream.read(_PEEKED), b"")
        raw = b"".join(parts)
    try:
        return _with_number_texts(raw)
    except UnicodeDecodeError as error:
        raise source.error(not_utf8(error), hint="re-encode the file to UTF-8") from None
    except json.JSONDecodeError as error:
        hint = "a file with a value on each line is called .jsonl" if error.msg == "Extra data" else None
        raise source.error(f"not JSON: {error.msg} (column {error.colno})", line=error.lineno, hint=hint) from None
    except RecursionError:
        raise source.error("lists and objects are nested too deeply") from None


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


class _Records:
    """JSON objects put into tables."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._by_name: dict[str, Table] = {}
        self._columns: dict[tuple[int, str, int], Column] = {}  # table, field, table that it leads to (-1: none)

    def table(self, name: str, *, nested: bool) -> Table:
        """The table of that name; what stands inside a `customer` field goes to `customers`, if that is one."""
        plain = " ".join([*name.lower().split()[:-1], singular(name.lower().split()[-1])]) if name.strip() else name
        if plain not in self._by_name:
            self._by_name[plain] = self._tables.start(name or "records", self._source)
        table = self._by_name[plain]
        table.nested |= nested
        return table

    def add_all(self, name: str, records: list[dict[str, Any]]) -> None:
        table = self.table(name, nested=False)
        for record in records:
            self.add(table, record)

    def add(self, table: Table, record: dict[str, Any], line: int = 0) -> int:
        """Add an object and all that is inside it; returns its row."""
        cells: list[tuple[Column, str]] = []
        for field, value in record.items():
            for part in _parts(value):
                if isinstance(part, dict):
                    inside = self.table(field, nested=True)
                    cells.append((self._column(table, field, inside), str(self.add(inside, part))))
                elif text := _cell(part):
                    cells.append((self._column(table, field, None), text))
        return self._tables.add_row(table, cells, line)

    def _column(self, table: Table, field: str, inside: Table | None) -> Column:
        known = (table.number, field, -1 if inside is None else inside.number)
        if known not in self._columns:
            column = self._columns[known] = self._tables.add_column(table, field)
            column.link = None if inside is None else ForeignKey(inside, by_row=True)
        return self._columns[known]


def _parts(value: Any) -> Iterator[Any]:
    """The value, or what is in a list, and in lists inside it."""
    if isinstance(value, list):
        for part in value:
            yield from _parts(part)
    else:
        yield value


def _cell(value: Any) -> str:
    """A value as a cell; blank for none. Numbers are text already."""
    text = "" if value is None else ("true" if value else "false") if isinstance(value, bool) else str(value)
    return "" if text.isspace() else text
