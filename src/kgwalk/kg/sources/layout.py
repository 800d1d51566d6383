"""The columns a table must have: how many, which may be empty, and by which words a header names them.

Shared by the TSV and the CSV reader; knows nothing of either's syntax.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kgwalk.kg.sources.source import SKIP_HINT, TABLE_HINT, Source, TimeCheck


class Record(NamedTuple):
    """A row as a file has it."""

    line: int  # the number of its first line
    raw: bytes
    fields: list[str]


@dataclass(frozen=True)
class Layout:
    """`words[i]` are the names that column i goes by in headers; a word belongs to one column only."""

    columns: tuple[str, ...]
    optional: str | None
    words: tuple[frozenset[str], ...]

    @property
    def widths(self) -> tuple[int, ...]:
        required = len(self.columns)
        return (required,) if self.optional is None else (required, required + 1)

    def problem(self, fields: Sequence[str], separator: str, times: TimeCheck) -> str | None:
        """What is wrong with a row, in words; None for a good one."""
        required = len(self.columns)
        if len(fields) not in self.widths:
            plural = "" if len(fields) == 1 else "s"
            return f"expected {self._expected(separator)}, got {len(fields)} column{plural}"
        if "" in fields[:required]:
            empty = self.columns[fields.index("")]
            return f"expected {self._expected(separator)}, got an empty {empty}"
        if len(fields) > required and (why := times.problem(fields[required])):
            return f"column {required + 1} is the time: {why}"
        return None

    def _expected(self, separator: str) -> str:
        optional = "" if self.optional is None else f" with an optional 4th column {self.optional}"
        return separator.join(self.columns) + optional

    def hint(self, source: Source, *, first: bool) -> str:
        """What to do about a row with a problem. It may be the first of a table: `first` says if it is in its block."""
        table = self is TRIPLES and first and not source.tally.rows
        return f"{SKIP_HINT}; {TABLE_HINT}" if table else SKIP_HINT

    def takes_header(self, fields: Sequence[str], source: Source, line: int) -> bool:
        """Whether a file's first row is left out as a header, with a note: by the options, else by its words."""
        if not source.options.header:
            if not self.is_header(fields, source, line):
                return False
            source.tally.headers += 1
        source.note(f"line {line} ({', '.join(fields)}) taken as a header")
        return True

    def is_header(self, fields: Sequence[str], source: Source, line: int) -> bool:
        """Whether a file's first row names the columns. Known names in another order are an error:
        the rows would be read wrongly."""
        if not self.names_columns(fields):
            return False
        places = self._places(fields)
        if places != sorted(places):
            raise source.error(
                f"the header says {', '.join(fields)}; expected the order {', '.join(self.columns)}",
                line=line,
                hint="reorder the columns, or give --header to skip this line and read them in that order",
            )
        return True

    def names_columns(self, fields: Sequence[str]) -> bool:
        """Whether each field is a known name of another column, in any order."""
        return len(fields) in self.widths and sorted(self._places(fields)) == list(range(len(fields)))

    def _places(self, fields: Sequence[str]) -> list[int]:
        words = [field.strip(' #"').casefold() for field in fields]
        return [next((i for i, known in enumerate(self.words) if word in known), -1) for word in words]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TRIPLES = Layout(
    columns=("head", "relation", "tail"),
    optional="time",
    words=(
        _words("head subject source from h s subj src head_entity source_entity entity1 start"),
        _words("relation predicate property relationship r p rel pred edge relation_type"),
        _words("tail object target to t o obj dst tail_entity target_entity entity2 end"),
        _words("time date timestamp year when period"),
    ),
)

LABELS = Layout(
    columns=("id", "label"),
    optional=None,
    words=(
        _words("id key entity mid qid iri uri entity_id"),
        _words("label name title entity_label entity_name"),
    ),
)
