"""JSON lines: one triple a line, or one question with its graph a line (RoG).

A triple is {"head", "relation", "tail"} (or subject/predicate/object, or h/r/t) with an optional "time", or
[head, relation, tail] with an optional time as the fourth. A head, relation or tail is text, a number or true/false
(kept as JSON writes it), or {"id": key, "name": label}, which keeps two entities with one name apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

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

_FIELD_NAMES = (("head", "relation", "tail"), ("subject", "predicate", "object"), ("h", "r", "t"))
_TRIPLE = '{"head", "relation", "tail"} or [head, relation, tail], with an optional time'
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
            columns = [strings(column) for column in zip(*graph, strict=True)]
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # something other than text
            return False
        if any(column.null_count or pc.min(pc.binary_length(column)).as_py() == 0 for column in columns):
            return False
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
