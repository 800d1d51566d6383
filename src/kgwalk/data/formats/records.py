"""The records of a file: JSON lines, a JSON array or an object that holds one, parquet, lines of text.

`json_records` and `line_records` give each record with its place, for messages. Files may be compressed. Arrays are
read a record at a time, so a file may be larger than memory.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from kgwalk.config.run_folder import kind
from kgwalk.kg.sources.source import Options, ReadCounts, Source, line_blocks, not_utf8, open_stream, shown
from kgwalk.types import InputError

SKIP_HINT = "give --skip-bad to leave such records out"
_SPACE = re.compile(r"[ \t\n\r]*")
_CHUNK = 1 << 20
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Record:
    """One record and its place: the number of its line, or of the record where a file is not made of lines."""

    value: Any
    path: Path
    number: int
    in_lines: bool = True
    broken: str | None = None  # why it could not be decoded; `value` is then its text

    def error(self, why: str) -> InputError:
        text = self.value if isinstance(self.value, str) else json.dumps(self.value, default=str)
        if self.in_lines:
            return InputError(why, path=str(self.path), line=self.number, text=text, hint=SKIP_HINT)
        return InputError(f"record {self.number}: {why}", path=str(self.path), text=text, hint=SKIP_HINT)


def json_records(path: Path, key: str | None = None) -> Iterator[Record]:
    """Records of JSON lines, of an array, of the array `key` of an object, or of a parquet file."""
    if path.suffix == ".parquet":
        return _parquet(path)
    source = _source(path)
    with open_stream(source) as stream:
        first = stream.read(_CHUNK).lstrip()[:1]
    if first == b"[":
        return _array(path)
    return _lines(path) if key is None else _array_of_object(path, key)


def line_records(path: Path) -> Iterator[Record]:
    """The lines of a text file that are not empty."""
    source = _source(path)
    with open_stream(source) as stream:
        for block in line_blocks(source, stream):
            for number, raw in enumerate(block.data.split(b"\n"), block.first):
                line = raw.removesuffix(b"\r")
                if line.strip():
                    yield _decoded(line, path, number)


def _decoded(line: bytes, path: Path, number: int) -> Record:
    try:
        return Record(line.decode("utf-8"), path, number)
    except UnicodeDecodeError as error:
        return Record(shown(line), path, number, broken=not_utf8(error))


def _lines(path: Path) -> Iterator[Record]:
    for record in line_records(path):
        try:
            yield record if record.broken else replace(record, value=orjson.loads(record.value))
        except orjson.JSONDecodeError as error:
            yield replace(record, broken=f"not JSON: {error}")


def _array_of_object(path: Path, key: str) -> Iterator[Record]:
    """The values of the array `key`; the whole file is held in memory."""
    source = _source(path)
    with open_stream(source) as stream:
        parts = list(iter(lambda: stream.read(_CHUNK), b""))
    try:
        whole = orjson.loads(b"".join(parts))
    except orjson.JSONDecodeError as error:
        raise source.error(f"not JSON: {error.msg}", line=error.lineno) from None
    held = whole.get(key) if isinstance(whole, dict) else None
    if not isinstance(held, list):
        raise source.error(f"expected an object with the list `{key}`, got {kind(held)} there")
    for number, value in enumerate(held, 1):
        yield Record(value, path, number, in_lines=False)


def _array(path: Path) -> Iterator[Record]:
    """The values of an array one after the other, holding no more in memory than the longest needs."""
    source = _source(path)
    with open_stream(source) as stream:
        text = _Text(source, stream.read)
        text.skip("[")
        number = 0
        while not text.skip("]", optional=True):
            if number:
                text.skip(",")
            number += 1
            yield Record(text.value(number), path, number, in_lines=False)
        text.end()


class _Text:
    """The text of a file, seen through a window that grows to hold one JSON value."""

    def __init__(self, source: Source, read: Any) -> None:
        self._source, self._read = source, read
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._window, self._at, self._ended = "", 0, False

    def skip(self, mark: str, *, optional: bool = False) -> bool:
        """Step over white space and the mark; returns whether it was there. It must be, unless `optional`."""
        while True:
            found = _SPACE.match(self._window, self._at)
            assert found is not None  # the pattern matches the empty text
            self._at = found.end()
            if self._at < len(self._window) or not self._more(_CHUNK):
                break
        there = self._window.startswith(mark, self._at)
        if not there and not optional:
            ahead = self._window[self._at : self._at + 60]
            raise self._source.error(f"not JSON: expected {mark!r}, got {ahead!r}" if ahead else "not JSON: cut off")
        self._at += len(mark) * there
        return there

    def end(self) -> None:
        """Only white space may be left: anything after the array would be lost without a message."""
        self.skip("", optional=True)
        if ahead := self._window[self._at : self._at + 60]:
            raise self._source.error(f"not JSON: expected the end of the file after the array, got {ahead!r}")

    def value(self, number: int) -> Any:
        self.skip("", optional=True)
        size = _CHUNK
        while True:
            try:
                value, end = _DECODER.raw_decode(self._window, self._at)
            except json.JSONDecodeError as error:
                if not self._more(size):
                    raise self._source.error(f"record {number}: not JSON: {error.msg}") from None
                size *= 2  # so that a long or broken value is not tried too often
                continue
            if end == len(self._window) and self._more(_CHUNK):
                continue  # a number might go on
            self._at = end
            return value

    def _more(self, size: int) -> bool:
        """Read on, dropping what was used; returns whether there was more."""
        if self._ended:
            return False
        data = self._read(size)
        self._ended = not data
        try:
            self._window = self._window[self._at :] + self._decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise self._source.error(not_utf8(error)) from None
        self._at = 0
        return bool(data)


def _parquet(path: Path) -> Iterator[Record]:
    import pyarrow as pa
    from pyarrow import parquet

    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=64):
                for value in batch.to_pylist():
                    number += 1
                    yield Record(value, path, number, in_lines=False)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"not a parquet file that can be read: {error}", path=str(path)) from error


def _source(path: Path) -> Source:
    return Source(str(path), Options(), ReadCounts())
