"""Bytes of a source: opened, decompressed by suffix, counted for progress, cut into blocks of whole lines.

Knows nothing of what the lines mean.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import PurePath
from typing import IO, NamedTuple, Protocol

import pyarrow as pa

from kgwalk.kg.sources.source import STDIN, Source, Tally

BOM = b"\xef\xbb\xbf"
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
LINE_GROWTH = 64  # a line may be this many times as long as a block
MOST_LINE_BYTES = 1 << 30  # Arrow's string columns address 2 GiB
_READ_BYTES = 256 << 10

# What a file starts with that cannot be the text its name promises.
_FOREIGN = {
    b"\x1f\x8b": ("gzip data where text was expected", "decompress it, or name the file .gz"),
    b"\x28\xb5\x2f\xfd": ("zstd data where text was expected", "decompress it, or name the file .zst"),
    b"\xff\xfe": ("UTF-16 text; expected UTF-8", "re-encode the file to UTF-8"),
    b"\xfe\xff": ("UTF-16 text; expected UTF-8", "re-encode the file to UTF-8"),
}


class Lines(NamedTuple):
    """A block of whole lines, counted from 1; only the last line of a file may lack its newline."""

    first: int
    data: bytes


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Counted(io.RawIOBase):
    """A file whose bytes are added to the tally as they are taken; closing it leaves the file open."""

    def __init__(self, file: IO[bytes], tally: Tally) -> None:
        self._file, self._tally = file, tally

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        taken = self._file.read(len(buffer))
        buffer[: len(taken)] = taken
        self._tally.bytes_read += len(taken)
        return len(taken)


class Stream:
    """The decompressed bytes of a source, without a byte order mark."""

    def __init__(self, source: Source, file: _Readable, compression: str | None) -> None:
        self._source, self._file, self._compression = source, file, compression
        self._opening = self._take(max(map(len, _FOREIGN)))
        for magic, (what, advice) in _FOREIGN.items():
            if self._opening.startswith(magic):
                raise source.error(what, hint=advice)
        self._opening = self._opening.removeprefix(BOM)

    def read(self, size: int = -1) -> bytes:
        """`size` bytes, fewer only at the end (any number, if `size` is negative)."""
        size = _READ_BYTES if size < 0 else size
        start, self._opening = self._opening[:size], self._opening[size:]
        return start + self._take(size - len(start))

    def _take(self, size: int) -> bytes:
        parts: list[bytes] = []
        try:
            while size > 0 and (part := self._file.read(size)):
                parts.append(part)
                size -= len(part)
        except (EOFError, OSError, zlib.error) as error:
            raise self._failure(error) from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _failure(self, error: Exception) -> Exception:
        if isinstance(error, OSError) and error.errno is not None:
            return self._source.error(f"cannot be read: {error.strerror}")
        if isinstance(error, EOFError) or "Truncated" in str(error):
            return self._source.error(f"truncated {self._compression} file: the end is missing")
        return self._source.error(f"corrupt {self._compression} file: {error}")


@contextmanager
def open_stream(source: Source) -> Iterator[Stream]:
    with ExitStack() as stack:
        if source.path == STDIN:
            file: IO[bytes] = sys.stdin.buffer
        else:
            try:
                file = stack.enter_context(open(source.path, "rb", buffering=0))
                source.tally.bytes_total += os.fstat(file.fileno()).st_size
            except OSError as error:
                raise source.error(f"cannot be read: {error.strerror}") from None
        compression = COMPRESSIONS.get(PurePath(source.path).suffix.lower())
        counted = io.BufferedReader(_Counted(file, source.tally), _READ_BYTES)
        yield Stream(source, _decompressed(counted, compression), compression)


def _decompressed(file: IO[bytes], compression: str | None) -> _Readable:
    if compression == "gzip":
        return gzip.GzipFile(fileobj=file)
    if compression == "zstd":
        # Not zstandard.stream_reader: it ends without an error where a file was cut off.
        decompressed: _Readable = pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")
        return decompressed
    return file


def line_blocks(source: Source, stream: Stream) -> Iterator[Lines]:
    """The stream in blocks of at most `block_bytes`; more only for a line that is longer, up to 64 times."""
    block_bytes = min(max(1, source.options.block_bytes), MOST_LINE_BYTES)
    limit = min(block_bytes * LINE_GROWTH, MOST_LINE_BYTES)
    first, begun, target = 1, b"", block_bytes  # `begun` is the start of a line whose end is not read yet
    while chunk := stream.read(target - len(begun)):
        cut = chunk.rfind(b"\n")
        data = begun + chunk
        if cut < 0:
            if len(data) >= limit:
                raise source.error(
                    f"a line of {limit:,} bytes or more; expected one row a line",
                    line=first,
                    text=data[:200].decode("utf-8", "backslashreplace"),
                )
            begun, target = data, min(2 * len(data), limit)
            continue
        end = len(begun) + cut + 1
        block, begun = data[:end], data[end:]
        yield Lines(first, block)
        first += block.count(b"\n")
        target = max(block_bytes, min(2 * len(begun), limit))
    if begun:
        yield Lines(first, begun)
