"""What all readers share: a source with its options and tally, blocks of triples, the bytes of a file.

A reader takes a `Source`, opens it with `open_stream`, cuts it with `line_blocks`, and yields `TripleBlock`s and
`Labels`. A row that cannot be read goes to `Source.refuse`, with what is wrong in the reader's own words; the options
decide whether that stops the reading. Nothing here depends on a format.
"""

from __future__ import annotations

import bz2
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import IO, Literal, NamedTuple, Protocol, TypeAlias

import pyarrow as pa
from pyoxigraph import Literal as RdfLiteral

from kgwalk.kg.store import shown_address
from kgwalk.kg.times import parse_time
from kgwalk.types import InputError

STDIN = "-"
RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
SKIP_HINT = "give --on-error skip to leave such rows out"
TABLE_HINT = "if its first row has column names, it is a table, which `kgwalk kg build --table` reads"
ENCODING_HINT = "re-encode the file to UTF-8, or give --on-error skip to leave such rows out"
LONG_LINE_HINT = "break it into rows; if it is meant, give `kg build` more --memory: a line may have a 16th of it"
MOST_MESSAGES = 5


@dataclass
class Options:
    """How a source is read. The names of the formats are in `reading.FORMATS`."""

    format: str | None = None  # None: as the file's name says
    on_error: Literal["stop", "skip"] = "stop"  # at a row that cannot be read
    header: bool | None = None  # TSV, CSV: whether the first row is one; None: as its words say
    table: bool = False  # TSV, CSV: not triples, but column names in the first row and a thing in each further row
    keys: Sequence[str] = ()  # tables: TABLE=COLUMN chooses a key, TABLE.COLUMN=TABLE a foreign key
    label: str = RDFS_LABEL  # RDF: the predicate whose objects are names
    lang: str = "en"  # RDF, Wikidata: the language whose names are preferred
    ranks: Literal["best", "all"] = "best"  # Wikidata: the best statements of each property, or all but the deprecated
    external_ids: bool = False  # Wikidata: keep the ids of things in other catalogues
    block_bytes: int = 16 << 20  # the most text that a block holds, unless a single line is longer
    line_bytes: int | None = None  # a longer line is refused; None: 64 blocks
    messages: int = MOST_MESSAGES  # of rows that were left out, so many are told

    @property
    def longest_line(self) -> int:
        growth = LINE_GROWTH * max(1, self.block_bytes) if self.line_bytes is None else self.line_bytes
        return min(growth, MOST_LINE_BYTES)


@dataclass
class ReadCounts:
    """What has been read so far. One tally may serve several sources, and then counts them together."""

    rows: int = 0
    skipped: int = 0
    first_skipped: list[str] = field(default_factory=list)
    bytes_read: int = 0  # as stored: compressed bytes of a compressed file
    bytes_total: int = 0  # the sizes of the files opened so far; stdin adds nothing
    notes: list[str] = field(default_factory=list)
    headers: int = 0  # first rows that were headers of triples, by their words


@dataclass(frozen=True)
class Source:
    """A path ("-" is stdin), the options, and the tally to fill."""

    path: str
    options: Options
    tally: ReadCounts

    @property
    def name(self) -> str:
        return "stdin" if self.path == STDIN else shown_address(self.path)

    def error(
        self, message: str, *, line: int | None = None, text: str | None = None, hint: str | None = None
    ) -> InputError:
        return InputError(message, path=self.name, line=line, text=text, hint=hint)

    def refuse(self, message: str, *, line: int | None = None, text: str | None = None, hint: str = SKIP_HINT) -> None:
        """Refuse a row: raises an error, or counts the row and leaves it out, as the options say."""
        if self.options.on_error == "stop":
            raise self.error(message, line=line, text=text, hint=hint)
        self.tally.skipped += 1
        if len(self.tally.first_skipped) < self.options.messages:
            where = self.name if line is None else f"{self.name}:{line}"
            self.tally.first_skipped.append(f"{where}: {message}")

    def note(self, text: str) -> None:
        self.tally.notes.append(f"{self.name}: {text}")


class TimeCheck:
    """What is wrong with a time, if anything; each distinct text is parsed once."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {"": None}

    def problem(self, time: str) -> str | None:
        if time not in self._known:
            try:
                parse_time(time)
                self._known[time] = None
            except ValueError as error:
                self._known[time] = str(error)
        return self._known[time]


def not_utf8(error: UnicodeDecodeError) -> str:
    return f"expected UTF-8, got the byte 0x{error.object[error.start]:02x} (column {error.start + 1})"


def shown(raw: bytes) -> str:
    """Bytes as text for a message, whatever they are."""
    return raw.decode("utf-8", "backslashreplace")


# What a reader yields


@dataclass(frozen=True, slots=True)
class TripleBlock:
    """A block of triples. The columns are of equal length and have no nulls."""

    head: pa.StringArray
    relation: pa.StringArray
    tail: pa.StringArray
    time: pa.StringArray | None = None  # "" where a row has none; None when the block has no time column at all
    question: pa.StringArray | None = None  # RoG: the id of the question whose graph the row belongs to


@dataclass(frozen=True, slots=True)
class Labels:
    """Names for keys, of entities and relations alike. A smaller rank is preferred."""

    key: pa.StringArray
    label: pa.StringArray
    rank: int


Block: TypeAlias = TripleBlock | Labels

GIVEN_RANK = 0  # a name that the source itself gives to the key
FALLBACK_RANK = 200  # a name made from the key itself; ranks fit in a byte


def strings(values: Sequence[str]) -> pa.StringArray:
    return pa.array(values, pa.string())


class Columns:
    """Rows gathered into columns. The optional last field is "" in rows that lack it, if any row has it."""

    def __init__(self, required: int) -> None:
        self._required: list[list[str]] = [[] for _ in range(required)]
        self._optional: list[str] | None = None

    def __len__(self) -> int:
        return len(self._required[0])

    def append(self, fields: Sequence[str]) -> None:
        if len(fields) > len(self._required) and self._optional is None:
            self._optional = [""] * len(self)
        # Columns of strings, not rows, since the garbage collector does not visit strings.
        for column, value in zip(self._required, fields, strict=False):
            column.append(value)
        if self._optional is not None:
            self._optional.append(fields[-1] if len(fields) > len(self._required) else "")

    def arrays(self) -> list[pa.StringArray]:
        optional = [] if self._optional is None else [self._optional]
        return [strings(column) for column in self._required + optional]


class FactBuffer:
    """Facts of things and of values, gathered into blocks: for formats whose things have ids, and names beside them.

    A value's key is its text as an RDF literal, so that the text Bell and a thing that is called Bell are two entities.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._start()

    def _start(self) -> None:
        self._facts = Columns(3)
        self._labels: dict[int, dict[tuple[str, str], None]] = {}  # rank to distinct keys and labels
        self.size = 0  # characters of text held

    @property
    def is_full(self) -> bool:
        return self.size >= self._source.options.block_bytes

    def fact(self, head: str, relation: str, tail: str, time: str = "") -> None:
        """A fact of two things, by their keys."""
        self._facts.append((head, relation, tail, time) if time else (head, relation, tail))
        self.size += len(head) + len(relation) + len(tail)

    def value(self, head: str, relation: str, text: str, time: str = "") -> None:
        """A fact of a thing and a value."""
        key = text_key(text)
        self.fact(head, relation, key, time)
        self.name(key, text, FALLBACK_RANK)

    def name(self, key: str, label: str, rank: int = GIVEN_RANK) -> None:
        self._labels.setdefault(rank, {})[key, label] = None
        self.size += len(key) + len(label)

    def blocks(self) -> Iterator[Block]:
        """What was gathered; the buffer is empty again."""
        facts, labels = self._facts, self._labels
        self._start()
        if len(facts):
            yield TripleBlock(*facts.arrays())
        for rank, pairs in sorted(labels.items()):
            keys, names = zip(*pairs, strict=True)
            yield Labels(strings(keys), strings(names), rank)


def text_key(text: str) -> str:
    """The key of a value: its text as N-Triples writes it.

    >>> print(text_key('the "Bell"'))
    "the \\"Bell\\""
    """
    return str(RdfLiteral(text))


# The bytes of a source

BOM = b"\xef\xbb\xbf"
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bzip2"}
SUFFIXES = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".nt": "nt",
    ".ttl": "ttl",
    ".nq": "nq",
    ".jsonld": "jsonld",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".graphml": "graphml",
    ".xlsx": "xlsx",
    ".db": "sqlite",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".duckdb": "duckdb",
    ".ddb": "duckdb",
}
LINE_GROWTH = 64  # a line may be this many times as long as a block, unless the options say how long
MOST_LINE_BYTES = 1 << 30  # Arrow's string columns address 2 GiB
_READ_BYTES = 256 << 10

# The first bytes of files that are not text in UTF-8.
_FOREIGN = {
    b"\x1f\x8b": ("gzip data where text was expected", "decompress it, or name the file .gz"),
    b"BZh91AY&SY": ("bzip2 data where text was expected", "decompress it, or name the file .bz2"),
    b"\x28\xb5\x2f\xfd": ("zstd data where text was expected", "decompress it, or name the file .zst"),
    b"\xff\xfe": ("UTF-16 text; expected UTF-8", "re-encode the file to UTF-8"),
    b"\xfe\xff": ("UTF-16 text; expected UTF-8", "re-encode the file to UTF-8"),
}


class Lines(NamedTuple):
    """A block of whole lines; `first` is the number of its first line. A file's last line may lack its newline."""

    first: int
    data: bytes


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Counted(io.RawIOBase):
    """A file whose bytes are added to the tally as they are read; closing it leaves the file open."""

    def __init__(self, file: IO[bytes], tally: ReadCounts) -> None:
        self._file, self._tally = file, tally

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        taken = self._file.read(len(buffer))
        buffer[: len(taken)] = taken
        self._tally.bytes_read += len(taken)
        return len(taken)


class ByteStream:
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

    def is_blank(self) -> bool:
        """Whether nothing follows but white space, as far as can be seen from here."""
        self._opening += self._take(_READ_BYTES)
        return not self._opening.strip()

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
def open_stream(source: Source) -> Iterator[ByteStream]:
    """Open a source: decompressed by its suffix, its bytes counted in the tally."""
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
        yield ByteStream(source, _decompressed(counted, compression), compression)


def _decompressed(file: IO[bytes], compression: str | None) -> _Readable:
    if compression == "gzip":
        return gzip.GzipFile(fileobj=file)
    if compression == "bzip2":
        return bz2.BZ2File(file)
    if compression == "zstd":
        # Not zstandard.stream_reader, which reports no error for a file that was cut off.
        decompressed: _Readable = pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")
        return decompressed
    return file


def table_name(path: str | Path) -> str:
    """What a file's table is called: its name without suffixes, and without a date or a number of a copy after it.

    >>> table_name("exports/customers.csv.gz"), table_name("orders_2024-01-31 (2).csv"), table_name("2019.csv")
    ('customers', 'orders', '2019')
    """
    name = PurePath(path).name
    for suffix in (*COMPRESSIONS, *SUFFIXES):
        if name.lower().endswith(suffix):
            name = name[: -len(suffix)]
    return re.sub(r"(?:[\s_.-]+\(?\d+\)?)+$", "", name) or name or "table"


def line_blocks(source: Source, stream: ByteStream) -> Iterator[Lines]:
    """The stream in blocks of whole lines, of at most `block_bytes`; a line may be longer, up to `longest_line`."""
    limit = source.options.longest_line
    block_bytes = min(max(1, source.options.block_bytes), limit)
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
                    hint=LONG_LINE_HINT,
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
