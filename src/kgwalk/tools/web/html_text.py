"""Text out of HTML: tags gone, entities decoded, scripts and styles dropped; and bytes decoded whatever they hold.

Read with the standard library's parser, so broken markup gives text and never an error. Knows nothing of addresses.
"""

from __future__ import annotations

import codecs
import re
from html.parser import HTMLParser

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
