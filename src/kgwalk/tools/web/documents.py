"""The documents of a local corpus: a folder of text, Markdown, HTML and JSONL files, or one JSONL file.

A JSONL line is {"title", "text"} and may have "url" or "source" (where it comes from) or "id". Knows which files there
are and what they say, nothing of indexes.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NamedTuple

import orjson

from kgwalk.tools.web.html_text import decode, page
from kgwalk.types import InputError

TEXT = (".txt", ".md", ".markdown", ".html", ".htm")
LINES = (".jsonl", ".jsonl.gz")
MOST_BYTES = 64 << 20  # of one text file, or of one line
_FIELDS = '{"title": "...", "text": "..."}, and perhaps "url", "source" or "id"'


class SourceFile(NamedTuple):
    """A file of the corpus; `name` is its path below the corpus, with the corpus's own name first."""

    name: str
    path: Path
    size: int
    changed: int  # nanoseconds since 1970


class Entry(NamedTuple):
    """One document of a file: `place` is its line (0 for a file that is one document), `source` what it says itself."""

    place: int
    title: str
    text: str
    source: str = ""


def cited(name: str, place: int, source: str) -> str:
    """Where a document stands, for evidence.

    >>> cited("docs/a.md", 0, ""), cited("films.jsonl", 12, ""), cited("films.jsonl", 12, "https://example.org")
    ('docs/a.md', 'films.jsonl:12', 'https://example.org')
    """
    return source or (f"{name}:{place}" if place else name)


def is_corpus(path: Path) -> bool:
    return path.is_dir() or (path.is_file() and path.name.lower().endswith(LINES))


def source_files(source: Path) -> list[SourceFile]:
    """The files of a corpus, in the order of their names; hidden ones are left out."""
    if source.is_file():
        return [_file(source.name, source)]
    if not source.is_dir():
        raise InputError("no such folder or file", path=str(source), hint="a corpus is a folder, .jsonl or .jsonl.gz")
    found: list[SourceFile] = []
    top = source.resolve().name or "corpus"
    for folder, inside, names in os.walk(source, onerror=_unreadable):
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and name.lower().endswith((*TEXT, *LINES)):
                path = Path(folder) / name
                found.append(_file(f"{top}/{path.relative_to(source).as_posix()}", path))
    if not found:
        kinds = ", ".join((*TEXT, *LINES))
        raise InputError("a folder without documents", path=str(source), hint=f"documents are files in {kinds}")
    return found


def entries(file: SourceFile) -> Iterator[Entry]:
    """The documents of a file, one at a time."""
    if file.name.lower().endswith(LINES):
        yield from _lines(file)
        return
    if file.size > MOST_BYTES:
        hint = "cut it into several, or give it as JSONL"
        raise InputError(f"a text of {file.size:,} bytes; at most {MOST_BYTES:,} are read", path=file.name, hint=hint)
    try:
        data = file.path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=str(file.path)) from error
    yield Entry(0, *_titled(file, decode(data)))


def _titled(file: SourceFile, text: str) -> tuple[str, str]:
    """The title of a text file, and the text: a page's title, else the first heading or line if it is short."""
    stem = file.path.name.rsplit(".", 1)[0].replace("_", " ")
    if file.name.lower().endswith((".html", ".htm")):
        title, body = page(text)
        return title or stem, body
    first, _, rest = text.strip().partition("\n")
    heading = first.lstrip("#").strip()
    if first.startswith("#") and heading:
        return heading, rest.strip()
    # a first line that is a sentence, or long, begins the text rather than naming it
    named = rest and heading and len(heading) <= 100 and not heading.endswith((".", "!", "?", ":", ",", ";"))
    return (heading, rest.strip()) if named else (stem, text.strip())


def _lines(file: SourceFile) -> Iterator[Entry]:
    try:
        with ExitStack() as stack:
            raw: IO[bytes] = stack.enter_context(open(file.path, "rb"))
            packed = file.name.lower().endswith(".gz")
            stream = stack.enter_context(gzip.GzipFile(fileobj=raw)) if packed else raw
            number = 0
            while line := stream.readline(MOST_BYTES + 1):
                number += 1
                if len(line) > MOST_BYTES:
                    raise InputError(f"a line of more than {MOST_BYTES:,} bytes", path=str(file.path), line=number)
                if line.strip():
                    yield _entry(file, number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"a damaged gzip file: {error}", path=str(file.path)) from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=str(file.path)) from error


def _entry(file: SourceFile, number: int, line: bytes) -> Entry:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _malformed(file, number, line, f"not JSON ({error})") from error
    if not isinstance(row, dict):
        raise _malformed(file, number, line, "not an object")
    title, text = row.get("title", ""), row.get("text")
    if not isinstance(text, str) or not isinstance(title, str):
        raise _malformed(file, number, line, "no text" if text is None else "a title or text that is no string")
    source = next((str(row[key]) for key in ("url", "source") if row.get(key)), "")
    if not source and row.get("id") not in (None, ""):
        source = f"{file.name}#{row['id']}"
    return Entry(number, title, text, source)


def _malformed(file: SourceFile, number: int, line: bytes, what: str) -> InputError:
    shown = line[:200].decode("utf-8", "replace").rstrip()
    return InputError(what, path=str(file.path), line=number, text=shown, hint=f"a line is {_FIELDS}")


def _file(name: str, path: Path) -> SourceFile:
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=str(path)) from error
    return SourceFile(name, path, status.st_size, status.st_mtime_ns)


def _unreadable(error: OSError) -> None:
    raise InputError(f"cannot be read: {error.strerror}", path=str(error.filename))
