"""One input with the settings it is read by, the tally of what came of it, and the one way to refuse a row.

Knows nothing of formats; each reader says in its own words what is wrong with a row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kgwalk.kg.times import parse_time
from kgwalk.types import InputError

STDIN = "-"
RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
SKIP_HINT = "give --on-error skip to leave such rows out"
TABLE_HINT = "if its first row has column names, it is a table, which `kgwalk kg build --table` reads"
ENCODING_HINT = "re-encode the file to UTF-8, or give --on-error skip to leave such rows out"
MOST_MESSAGES = 5


@dataclass
class Options:
    """How a source is read. The names of the formats are in `formats.FORMATS`."""

    format: str | None = None  # None: by the file's name
    on_error: Literal["stop", "skip"] = "stop"
    header: bool | None = None  # TSV, CSV; None: look at the first row
    table: bool = False  # TSV, CSV: column names in the first row and a thing a row, not triples
    label: str = RDFS_LABEL  # RDF: the predicate whose objects are names
    lang: str = "en"  # RDF: the language whose names are preferred
    block_bytes: int = 16 << 20  # the most text a block holds, unless a single line is longer


@dataclass
class Tally:
    """What reading came to so far; one tally may serve several sources, and then counts them together."""

    rows: int = 0
    skipped: int = 0
    first_skipped: list[str] = field(default_factory=list)
    bytes_read: int = 0  # as stored: compressed bytes of a compressed file
    bytes_total: int = 0  # the sizes of the files opened so far; stdin adds nothing
    notes: list[str] = field(default_factory=list)
    headers: int = 0  # first rows whose words say that triples follow


@dataclass(frozen=True)
class Source:
    """A path ("-" is stdin), the options, and the tally to fill."""

    path: str
    options: Options
    tally: Tally

    @property
    def name(self) -> str:
        return "stdin" if self.path == STDIN else self.path

    def error(
        self, message: str, *, line: int | None = None, text: str | None = None, hint: str | None = None
    ) -> InputError:
        return InputError(message, path=self.name, line=line, text=text, hint=hint)

    def refuse(self, message: str, *, line: int | None = None, text: str | None = None, hint: str = SKIP_HINT) -> None:
        """A row that cannot be read: an error, or counted and left out, as the options say."""
        if self.options.on_error == "stop":
            raise self.error(message, line=line, text=text, hint=hint)
        self.tally.skipped += 1
        if len(self.tally.first_skipped) < MOST_MESSAGES:
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
