"""A file of JSON rows that only grows, and survives being cut off anywhere.

A process that is killed leaves at most one line that is not whole; opening the file again drops it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import orjson

from kgwalk.types import InputError

_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
_SURROGATE = re.compile("[\ud800-\udfff]")


class Rows:
    """Appends rows; each is on disk for other processes as soon as `add` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        drop_cut_line(path)
        self._file: BinaryIO = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()

    def add(self, row: dict[str, Any]) -> None:
        view = memoryview(_line(row))
        while view:  # a raw write may take only a part
            view = view[self._file.write(view) :]

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.close()


def _line(row: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(row, option=_OPTIONS)
    except orjson.JSONEncodeError:  # half a surrogate pair, as a server's message may have: no file takes it
        return orjson.dumps(_writable(row), option=_OPTIONS)


def _writable(value: Any) -> Any:
    """The same with U+FFFD for each half of a surrogate pair."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_writable(key): _writable(inside) for key, inside in value.items()}
    return [_writable(inside) for inside in value] if isinstance(value, list | tuple) else value


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The whole rows of a file; a last line that was cut off is left out, any other that is not JSON is an error."""
    if not path.exists():
        return
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise InputError(f"not JSON: {error}", path=str(path), line=number) from None
            if not isinstance(row, dict):
                raise InputError("expected an object", path=str(path), line=number)
            yield row


def drop_cut_line(path: Path) -> None:
    """Truncate the file after its last newline."""
    if not path.exists():
        return
    with open(path, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        at = end
        while at > 0:
            begin = max(0, at - 65536)
            file.seek(begin)
            newline = file.read(at - begin).rfind(b"\n")
            if newline >= 0:
                at = begin + newline + 1
                break
            at = begin
        if at < end:
            file.truncate(at)
