"""Whether rows that were read as triples look like a table: whose first row has column names, with a thing a row.

Looked at are the first 10,000 facts of a file (fewer where they are long), if there are three or more with three or
more relations. They look like a table if the relations are values or names, where a graph has words such as
`directed_by`:

- if nearly all relations are numbers or dates (`France, 1990, 1.27`), and the heads, or the first relation, are not; or
- if most relations begin like a name, with a capital or a digit, and nearly every fact has a head of its own, where
  graphs say several things of one; and either the relations are nearly as many as the facts, or the first row's
  relation and tail, which would be column names, occur nowhere else in the file.

A table of lower-case words is not told from a graph, nor is one of words whose first column repeats itself.
Knows nothing of files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kgwalk.kg.sources.block import Rows
from kgwalk.kg.sources.source import Source

LOOKED_AT = 10_000  # facts
FEWEST = 3  # facts, and relations: of two there is nothing to tell
NEARLY = 0.9  # all
MOST = 0.5
LOOKED_INTO = 1 << 20  # bytes of names: those of long texts are fewer
_LISTED = 3  # relations in the note
_SHOWN = 60  # characters of a name


def noting_tables(source: Source, blocks: Iterator[Rows]) -> Iterator[Rows]:
    """The same blocks; after them a note, if they look like a table and no header said that they are triples."""
    headers, look = source.tally.headers, TableLook()
    for block in blocks:
        look.see(block)
        yield block
    if source.tally.headers == headers and look.like_a_table:
        head, relation, tail = map(_short, look.example)
        source.note(
            f"read as triples, such as ({head}, {relation}, {tail}), with the relations {look.relations_listed}; it "
            "looks like a table. If its first row has column names, build it with --table"
        )


class TableLook:
    """Is shown the blocks of a file one by one; keeps the first facts, and of the rest whether the first recurs."""

    def __init__(self) -> None:
        self._heads: list[str] = []
        self._relations: list[str] = []
        self._tails: list[str] = []
        self._first_is_alone = True  # no other fact has the first one's relation, or its tail
        self._bytes = 0

    def see(self, rows: Rows) -> None:
        columns = (rows.head, rows.relation, rows.tail)
        size = sum(column.nbytes for column in columns) / max(1, len(rows.head))  # of a fact
        wanted = min(LOOKED_AT - len(self._heads), math.ceil((LOOKED_INTO - self._bytes) / max(1, size)))
        start = min(len(rows.head), max(wanted, FEWEST - len(self._heads), 0))
        if start:
            for known, column in zip((self._heads, self._relations, self._tails), columns, strict=True):
                known += column.slice(0, start).to_pylist()
            self._bytes += int(start * size)
            self._first_is_alone &= all(column.count(column[0]) == 1 for column in (self._relations, self._tails))
        if self._first_is_alone and self._heads:
            rest = ((rows.relation, self._relations[0]), (rows.tail, self._tails[0]))
            self._first_is_alone = not any(_has(column.slice(start), name) for column, name in rest)

    @property
    def like_a_table(self) -> bool:
        facts, distinct = len(self._heads), len(set(self._relations))
        if facts < FEWEST or distinct < FEWEST:
            return False
        relations, heads = self._relations[1:], self._heads[1:]  # without what may be column names
        if _share(_is_value, relations) >= NEARLY:
            return _share(_is_value, heads) < 1 - NEARLY or not _is_value(self._relations[0])
        if _share(_begins_like_a_name, relations) < MOST or len(set(self._heads)) < NEARLY * facts:
            return False
        return distinct >= NEARLY * facts or self._first_is_alone

    @property
    def example(self) -> tuple[str, str, str]:
        """The second fact: of a table, the first row with a thing."""
        return self._heads[1], self._relations[1], self._tails[1]

    @property
    def relations_listed(self) -> str:
        names = list(dict.fromkeys(self._relations))
        return ", ".join(map(_short, names[:_LISTED])) + ", ..." * (len(names) > _LISTED)


def _short(name: str) -> str:
    flat = " ".join(name.split())
    return flat if len(flat) <= _SHOWN else f"{flat[:_SHOWN]}..."


def _has(column: pa.StringArray, name: str) -> bool:
    return bool(pc.any(pc.equal(column, name)).as_py())


def _share(test: Callable[[str], bool], names: list[str]) -> float:
    return sum(map(test, names)) / len(names)


def _is_value(name: str) -> bool:
    """Digits without letters: a number, a date."""
    return any(map(str.isdigit, name)) and not any(map(str.isalpha, name))


def _begins_like_a_name(name: str) -> bool:
    """
    >>> names = ("Porto", "1990", "born_in", "/film/director", "P17", "ACTED_IN")
    >>> [name for name in names if _begins_like_a_name(name)]
    ['Porto', '1990']
    """
    return name[:1].isdigit() or (name[:1].isupper() and not name.isupper())
