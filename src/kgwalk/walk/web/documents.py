"""The documents of a local corpus: files read as text, and long texts cut into passages.

A corpus is a folder of text, Markdown, HTML and JSONL files, or one JSONL file. A JSONL line is {"title", "text"} and
may have "url" or "source" (where it comes from) or "id". HTML is read with the standard library's parser, so broken
markup gives text and never an error.
"""

from __future__ import annotations

import codecs
import gzip
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from html.parser import HTMLParser
from pathlib import Path
from typing import IO, NamedTuple

import orjson

from kgwalk.types import InputError

# Text out of HTML, and out of bytes in any encoding


SILENT = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object", "select", "textarea"})
HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_BLOCKS = (
    "address article aside blockquote body br dd details div dl dt fieldset figcaption figure footer form header hr li "
    "main nav ol p pre section table td th title tr ul"
)
BLOCKS = HEADINGS | frozenset(_BLOCKS.split())
_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def plain(text: str) -> str:
    """A line of text without markup, for titles and snippets.

    >>> plain("The <b>capital</b> of Norway &amp; its <script>alert(1)</script>fjords")
    'The capital of Norway & its fjords'
    >>> plain("2 < 3 and AT&T"), plain("&lt;b&gt;")
    ('2 < 3 and AT&T', '<b>')
    """
    if "<" not in text and "&" not in text:
        return " ".join(text.split())
    return " ".join(_read(text).text().split())


def page(html: str) -> tuple[str, str]:
    """The title of a page (else its first heading, else "") and its text, a block of it a line.

    >>> page("<title>Oslo</title><h1>Oslo city</h1><p>Oslo is the<br>capital.<style>p {}</style>")
    ('Oslo', 'Oslo city\\nOslo is the\\ncapital.')
    """
    reader = _read(html)
    lines = (" ".join(line.split()) for line in reader.text().splitlines())
    titles = (" ".join("".join(parts).split()) for parts in (reader.title, reader.heading))
    return next((title for title in titles if title), ""), "\n".join(line for line in lines if line)


def decode(data: bytes, declared: str | None = None) -> str:
    """Bytes as text: by a byte order mark, the declared encoding, a <meta> tag, else UTF-8; never an error.

    What the encoding cannot read becomes U+FFFD.

    >>> decode(b"caf\\xe9", "latin-1"), decode(b"caf\\xe9"), decode(b"Oslo", "no-such-encoding")
    ('café', 'caf�', 'Oslo')
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    if declared is None and (found := _CHARSET.search(data, 0, 4096)):
        declared = found.group(1).decode("ascii")
    try:
        # codecs such as "hex" are known too, but are no encodings of text
        known = codecs.lookup(declared or "utf-8")
        return data.decode(known.name, "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


class _Reader(HTMLParser):
    """Collects what a person would see."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self.heading: list[str] = []
        self._parts: list[str] = []
        self._silent: list[str] = []  # the silent tags that are open, outermost first
        self._inside = ""  # "title", or the first heading while it is read

    def text(self) -> str:
        return "".join(self._parts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in SILENT:
            self._silent.append(tag)
        elif not self._silent:
            if tag in BLOCKS:
                self._parts.append("\n")
            if tag == "title" or (tag in HEADINGS and not self.heading):
                self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        if tag in self._silent:
            del self._silent[self._silent.index(tag) :]
        elif tag in BLOCKS and not self._silent:
            self._parts.append("\n")
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        if self._inside == "title":
            self.title.append(data)
            return
        if self._inside:
            self.heading.append(data)
        self._parts.append(data)


def _read(html: str) -> _Reader:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader


TEXT = (".txt", ".md", ".markdown", ".html", ".htm")
LINES = (".jsonl", ".jsonl.gz")
# The files of a corpus

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


# Passages


CHARACTERS = 600  # about 100 words of English; what the Graph-RFT protocol shows of a document
# A sentence ends with a full stop and the like, perhaps a closing quote, and white space; or with a blank line. CJK
# full stops need no space.
_END = re.compile(r"""[.!?…]+["'”’)\]]*(?=\s)|[。！？]+[”’」』）]*|\n[ \t]*\n""")
# A full stop after one of these, or after an initial, ends no sentence.
_ABBREVIATIONS = (
    "approx bros ca capt co col corp dept dr eds etc fig ft gen gov inc jr lt ltd maj messrs mr mrs ms mt no nos op pp "
    "prof pt rep rev sen sgt sr st vol vols vs"
)
_SHORT = frozenset(_ABBREVIATIONS.split())
_LAST_WORD = re.compile(r"([^\W\d_]+(?:\.[^\W\d_]+)*)\.$")


def sentences(text: str) -> list[str]:
    """The sentences of a text, without white space around them.

    >>> sentences("St. Louis is big. It lies in the U.S. Midwest. Is it? Yes.")
    ['St. Louis is big.', 'It lies in the U.S. Midwest.', 'Is it?', 'Yes.']
    """
    return [text[start:end] for start, end in sentence_spans(text)]


def passages(text: str, characters: int = CHARACTERS) -> list[str]:
    """The text in pieces of whole sentences, as many as fit; a sentence that is longer is cut between words.

    Nothing is lost and the order is kept: one after the other, the passages are the text but for white space between
    them.

    >>> passages("One two. Three four. Five.", 20)
    ['One two. Three four.', 'Five.']
    >>> passages("one two three four", 9)
    ['one two', 'three', 'four']
    """
    return [text[start:end] for start, end in passage_spans(text, characters)]


def passage_spans(text: str, characters: int = CHARACTERS) -> list[tuple[int, int]]:
    """Where each passage starts and ends in the text.

    >>> passage_spans("One two. Three four. Five.", 20)
    [(0, 20), (21, 26)]
    """
    pieces: list[tuple[int, int]] = []
    begin = end = -1  # of the passage that is being filled
    for start, stop in sentence_spans(text):
        if begin >= 0 and stop - begin <= characters:
            end = stop
            continue
        if begin >= 0:
            pieces.append((begin, end))
        while stop - start > characters:
            cut = _cut(text, start, start + characters)
            pieces.append((start, start + len(text[start:cut].rstrip())))
            start = cut + len(text[cut:stop]) - len(text[cut:stop].lstrip())
        begin, end = start, stop
    if begin >= 0:
        pieces.append((begin, end))
    return pieces


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Where each sentence starts and ends."""
    spans: list[tuple[int, int]] = []
    start = 0
    ends = [found.end() for found in _END.finditer(text) if _ends(text, found.start(), found.end())]
    for end in [*ends, len(text)]:
        piece = text[start:end]
        first = start + len(piece) - len(piece.lstrip())
        last = start + len(piece.rstrip())
        if first < last:
            spans.append((first, last))
        start = end
    return spans


def _ends(text: str, start: int, end: int) -> bool:
    """Whether a full stop that was found ends a sentence: not after an abbreviation, nor before a small letter."""
    if text[start] != "." or end - start > 1:
        return True
    following = text[end : end + 40]
    if following.lstrip(" \t")[:1] == "\n" and not following.strip()[:1].islower():
        return True  # it ends the line as well
    if following.lstrip()[:1].islower():
        return False
    word = _LAST_WORD.search(text, max(0, start - 40), end)
    if word is None:
        return True
    last = word.group(1)
    return not (len(last) == 1 or "." in last or last.lower() in _SHORT)


def _cut(text: str, start: int, limit: int) -> int:
    """Where to cut a sentence that is too long: at the last space before the limit, else at the limit."""
    space = max(text.rfind(mark, start + 1, limit + 1) for mark in (" ", "\n", "\t"))
    return space if space > start else limit
