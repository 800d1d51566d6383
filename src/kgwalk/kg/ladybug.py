"""A Ladybug database on this machine behind the Graph protocol: an embedded property graph that speaks Cypher.

    with open_ladybug("ladybug:///movies.lbug") as graph:
        graph.relations("Tom Hanks")

It is opened for reading, by the package itself and not by a server; another process may read it too, but not write to
it meanwhile. What becomes what, and the settings behind a `?`, are those of every property graph (`cypher`). Ladybug
has tables with typed columns, so its schema is declared, and a query is asked a table at a time.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from kgwalk.kg.cypher import CypherGraph, graph_over
from kgwalk.kg.cypher_schema import SAMPLED, SHOWN, Row, quoted
from kgwalk.types import KgwalkError, StoreError

_GIVEN = re.compile(r"\$(\w+)")
_UNTOLD = ("STRUCT", "MAP", "UNION", "BLOB", "NODE", "REL", "INTERNAL_ID")  # types of columns that have no text


def open_ladybug(address: str) -> CypherGraph:
    """The graph of a database file: `ladybug:///movies.lbug` from here, four slashes from the root."""
    path, _, query = address.partition(":///")[2].partition("?")
    return graph_over(LadybugEngine(Path(path)), parse_qs(query, keep_blank_values=True))


class LadybugEngine:
    """A `CypherEngine` over the package; threads take turns."""

    strict = True

    def __init__(self, path: Path) -> None:
        try:
            import ladybug
        except ModuleNotFoundError as error:
            raise KgwalkError(
                f"{path} is read by the package ladybug, which is not installed; pip install 'kgwalk[ladybug]'"
            ) from error
        if not path.exists():
            raise StoreError(f"{path} does not exist; ladybug:/// is followed by a path from here, or with / by one")
        self.shown, self.asked = f"ladybug:///{path}", 0
        self._connect, self._lock = ladybug.Connection, threading.RLock()
        with self._errors():
            self._database = ladybug.Database(str(path), read_only=True)
            self._connection = ladybug.Connection(self._database)
            self._tables = [(row[1], row[2]) for row in self.rows("CALL show_tables() RETURN *")]

    def close(self) -> None:
        self._connection.close()
        self._database.close()

    def rows(self, query: str, **parameters: Any) -> list[Row]:
        with self._lock, self._errors():
            return list(self._asked(self._connection, query, parameters))

    def stream(self, query: str, **parameters: Any) -> Iterator[Row]:
        with self._errors():
            connection = self._connect(self._database)
            try:
                yield from self._asked(connection, query, parameters)
            finally:
                connection.close()

    def _asked(self, connection: Any, query: str, parameters: dict[str, Any]) -> Iterator[Row]:
        self.asked += 1
        used = set(_GIVEN.findall(query))
        found = connection.execute(query, {name: value for name, value in parameters.items() if name in used})
        try:
            while found.has_next():
                yield found.get_next()
        finally:
            found.close()

    def union(self, parts: Sequence[str], **parameters: Any) -> list[Row]:
        """One after the other: the columns of several tables are of several types."""
        return [row for part in parts for row in self.rows(part, **parameters)]

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # which is all that the package raises
            raise StoreError(f"{self.shown}: {' '.join(str(error).split())[:300]}") from error

    # What is in it

    def labels(self) -> list[str]:
        return sorted(name for name, kind in self._tables if kind == "NODE")

    def types(self) -> list[str]:
        return sorted(name for name, kind in self._tables if kind == "REL")

    def sample(self, names: Sequence[str], *, nodes: bool) -> Iterator[tuple[str, str, int, int, list[Any]]]:
        pattern = "(n:{})" if nodes else "()-[n:{}]->()"
        for name in names:
            about = self.rows(f"CALL table_info({_text(name)}) RETURN *")
            columns = [row[1] for row in about if quoted(row[1]) and not str(row[2]).startswith(_UNTOLD)]
            if not columns:
                continue
            counted = ", ".join(f"count(n.{quoted(one)}), count(DISTINCT n.{quoted(one)})" for one in columns)
            start = f"MATCH {pattern.format(quoted(name))} WITH n LIMIT"
            [counts] = self.rows(f"{start} {SAMPLED} RETURN {counted}")
            some = self.rows(f"{start} {SHOWN} RETURN {', '.join(f'n.{quoted(one)}' for one in columns)}")
            for at, one in enumerate(columns):
                values = [row[at] for row in some if row[at] is not None]
                if not values:  # the first few have none; it is declared, so others may
                    filled = f"MATCH {pattern.format(quoted(name))} WHERE n.{quoted(one)} IS NOT NULL"
                    values = [row[0] for row in self.rows(f"{filled} RETURN n.{quoted(one)} LIMIT {SHOWN}")]
                yield name, one, int(counts[2 * at]), int(counts[2 * at + 1]), values

    # How it says things

    def node_id(self, variable: str) -> str:
        return f"cast(id({variable}) AS STRING)"

    def ids(self, texts: Iterable[str]) -> list[Any]:
        return [text for text in texts if not text.startswith("#")]

    def labels_of(self, variable: str) -> str:
        return f"[label({variable})]"

    def type_of(self, variable: str) -> str:
        return f"label({variable})"

    def filled(self, variable: str, properties: Iterable[str]) -> str:
        """Every table has all its columns, so it is asked of each whether it is filled."""
        said = [f"CASE WHEN {variable}.{quoted(one)} IS NULL THEN '' ELSE {_text(one)} END" for one in properties]
        return f"[{', '.join(said) or _text('')}]"

    def lower(self, expression: str) -> str:
        return f"lower(cast({expression} AS STRING))"


def _text(text: str) -> str:
    """A name of the schema as a text, where Ladybug takes no parameter."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
