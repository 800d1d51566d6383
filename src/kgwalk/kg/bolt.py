"""A graph behind Bolt: Neo4j, and the databases that speak its protocol (Memgraph, ArcadeDB), by the official driver.

    with open_bolt("neo4j+s://host/movies?name=Person.fullName") as graph:
        graph.relations("Tom Hanks")

An address is `bolt://HOST:PORT/DATABASE` or `neo4j://...`, which asks the cluster's readers; with `+s` the connection
is encrypted, with `+ssc` also where nobody vouches for the certificate. Settings stand behind a `?`: `name` (which
property names nodes; may be repeated), `values=no` and `timeout`, in seconds; see `CypherGraph`. What is not said comes
from NEO4J_URI, NEO4J_USERNAME, NEO4J_PASSWORD and NEO4J_DATABASE.

Every query runs in a session for reading, in a transaction of its own that the driver tries again if that may help.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from kgwalk.kg.cypher import CypherGraph, graph_over
from kgwalk.kg.cypher_schema import SAMPLED, SHOWN, Row, quoted
from kgwalk.kg.store import shown_address
from kgwalk.types import InputError, KgwalkError, RemoteError

if TYPE_CHECKING:
    from neo4j import Driver

TIMEOUT = 60.0  # seconds that a query may take
CONNECTING = 10.0  # seconds for a connection, and for trying a query again
MOST_ROWS = 5_000_000  # of one answer that is held
AT_ONCE = 1000  # rows that the driver fetches at a time
LABELS_AT_ONCE = 20  # labels or types in one query of the schema
SETTINGS = ("name", "values", "timeout")  # behind the `?`; the rest is the server's (neo4j:// routes by it)
DEFAULT = "neo4j://localhost:7687"

T = TypeVar("T")


def open_bolt(address: str) -> CypherGraph:
    """The graph at an address; `neo4j://` alone is the one that NEO4J_URI names."""
    parts = urlsplit(address)
    if not parts.hostname:
        if parts.netloc or parts.path.strip("/"):  # a database or a person of another server than was meant
            hint = f"as in {parts.scheme}://HOST{parts.path}, with the host of NEO4J_URI or another"
            raise InputError(
                "an address with a database or a user needs a host", text=shown_address(address), hint=hint
            )
        given = os.environ.get("NEO4J_URI") or DEFAULT
        if not urlsplit(given).hostname:
            raise InputError("NEO4J_URI names no host", text=shown_address(given), hint=f"as in {DEFAULT}")
        return open_bolt(given + ("&" if "?" in given else "?") * bool(parts.query) + parts.query)
    said = parse_qs(parts.query, keep_blank_values=True)
    routing = urlencode([(name, one) for name, given in said.items() if name not in SETTINGS for one in given])
    engine = BoltEngine(
        f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{'?' * bool(routing)}{routing}",
        shown=shown_address(address).partition("?")[0],
        user=unquote(parts.username or "") or os.environ.get("NEO4J_USERNAME", ""),
        password=unquote(parts.password or "") or os.environ.get("NEO4J_PASSWORD", ""),
        database=unquote(parts.path.strip("/")) or os.environ.get("NEO4J_DATABASE") or None,
        timeout=_seconds(address, said.get("timeout", [str(TIMEOUT)])[-1]),
    )
    return graph_over(engine, said)


def _seconds(address: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise InputError(f"timeout={text}: expected seconds", text=shown_address(address))
    return seconds


class BoltEngine:
    """A `CypherEngine` over the driver; safe in threads."""

    strict = False

    def __init__(
        self, uri: str, *, shown: str, user: str, password: str, database: str | None, timeout: float = TIMEOUT
    ) -> None:
        self.shown, self.asked = shown, 0
        self._database, self._timeout = database, timeout
        self._driver = self._opened(uri, user, password)
        self._closing = weakref.finalize(self, self._driver.close)  # a command ends without
        self._by_element: bool | None = None
        try:
            with self._errors():
                self._driver.verify_connectivity()
        except KgwalkError:
            self.close()
            raise

    def _opened(self, uri: str, user: str, password: str) -> Driver:
        try:
            import neo4j
        except ModuleNotFoundError as error:
            raise KgwalkError(
                f"{self.shown} is asked by the package neo4j, which is not installed; pip install 'kgwalk[neo4j]'"
            ) from error
        auth = neo4j.basic_auth(user, password) if user or password else None
        try:
            return neo4j.GraphDatabase.driver(
                uri,
                auth=auth,
                connection_timeout=CONNECTING,
                connection_acquisition_timeout=CONNECTING,
                max_transaction_retry_time=CONNECTING,
                user_agent="kgwalk",
            )
        except (neo4j.exceptions.DriverError, ValueError) as error:
            raise InputError(f"not an address of Bolt: {error}", text=self.shown) from error

    def close(self) -> None:
        self._closing()

    def rows(self, query: str, **parameters: Any) -> list[Row]:
        import neo4j

        def work(transaction: neo4j.ManagedTransaction) -> list[Row]:
            self.asked += 1
            found = transaction.run(query, parameters)
            return [_plain_row(record.values()) for record in islice(found, MOST_ROWS + 1)]

        with self._errors(), self._session() as session:
            rows: list[Row] = session.execute_read(neo4j.unit_of_work(timeout=self._timeout)(work))
        if len(rows) > MOST_ROWS:
            raise RemoteError(f"{self.shown}: more than {MOST_ROWS:,} rows in one answer; ask for less at once")
        return rows

    def stream(self, query: str, **parameters: Any) -> Iterator[Row]:
        with self._errors(), self._session() as session, session.begin_transaction() as transaction:
            self.asked += 1
            for record in transaction.run(query, parameters):
                yield _plain_row(record.values())

    def _session(self) -> Any:
        from neo4j import READ_ACCESS

        return self._driver.session(database=self._database, default_access_mode=READ_ACCESS, fetch_size=AT_ONCE)

    def union(self, parts: Sequence[str], **parameters: Any) -> list[Row]:
        return self.rows(" UNION ALL ".join(parts), **parameters) if parts else []

    def sample(self, names: Sequence[str], *, nodes: bool) -> Iterator[tuple[str, str, int, int, list[Any]]]:
        pattern = "(n:{})" if nodes else "()-[n:{}]->()"
        for start in range(0, len(names), LABELS_AT_ONCE):
            some = names[start : start + LABELS_AT_ONCE]
            parts = [
                f"MATCH {pattern.format(quoted(name))} WITH n LIMIT {SAMPLED} UNWIND keys(n) AS k "
                f"WITH k, n[k] AS v RETURN {at} AS at, k, count(v) AS c, count(DISTINCT v) AS d, "
                f"collect(v)[0..{SHOWN}] AS some"
                for at, name in enumerate(some)
            ]
            for at, key, count, distinct, values in self.union(parts):
                yield some[at], key, count, distinct, values

    # What databases differ in

    def labels_of(self, variable: str) -> str:
        return f"labels({variable})"

    def type_of(self, variable: str) -> str:
        return f"type({variable})"

    def filled(self, variable: str, properties: Iterable[str]) -> str:
        return f"[k IN keys({variable}) WHERE NOT ({variable}[k] = '')]"

    def lower(self, expression: str) -> str:
        return f"toLower(toString({expression}))"

    def node_id(self, variable: str) -> str:
        """elementId(n); Memgraph and servers before Neo4j 5 have id(n) alone."""
        if self._by_element is None:
            self._by_element = self._answers("MATCH (n) RETURN elementId(n) LIMIT 1")
        return f"elementId({variable})" if self._by_element else f"id({variable})"

    def ids(self, texts: Iterable[str]) -> list[Any]:
        self.node_id("n")
        return list(texts) if self._by_element else [int(text) for text in texts if text.isdigit() and text.isascii()]

    def labels(self) -> list[str]:
        return self._listed("CALL db.labels()", "MATCH (n) UNWIND labels(n) AS name RETURN DISTINCT name")

    def types(self) -> list[str]:
        return self._listed("CALL db.relationshipTypes()", "MATCH ()-[r]->() RETURN DISTINCT type(r) AS name")

    def _listed(self, procedure: str, scan: str) -> list[str]:
        """By the procedure, where the database has it; else by a look at everything."""
        found = self._tried(lambda: self.rows(procedure))
        return sorted(row[0] for row in (self.rows(scan) if found is None else found))

    def _answers(self, query: str) -> bool:
        return self._tried(lambda: self.rows(query)) is not None

    def _tried(self, ask: Callable[[], T]) -> T | None:
        """What a query gives that not every database understands; None where this one does not."""
        from neo4j.exceptions import Neo4jError

        try:
            return ask()
        except RemoteError as error:
            if not isinstance(error.__cause__, Neo4jError) or error.kind == "auth":
                raise
            return None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """What the driver raises as RemoteError, with what to do."""
        from neo4j.exceptions import AuthError, DriverError, Neo4jError, ServiceUnavailable

        try:
            yield
        except AuthError as error:
            advice = "set NEO4J_USERNAME and NEO4J_PASSWORD"
            raise RemoteError(f"{self.shown}: name or password refused; {advice}", kind="auth") from error
        except ServiceUnavailable as error:
            told = " ".join(str(error).split())[:200]
            raise RemoteError(f"{self.shown}: no connection ({told}); check the address, and that it is up") from error
        except Neo4jError as error:
            advice = "check the address and the database"
            if "Timeout" in (error.code or "") or "TimedOut" in (error.code or ""):
                advice = f"give it longer with ?timeout={2 * self._timeout:g}, or do less at once with ?values=no"
            raise RemoteError(f"{self.shown}: {(error.message or str(error))[:300]}; {advice}") from error
        except DriverError as error:
            raise RemoteError(f"{self.shown}: {error}; check the address") from error


def _plain_row(values: list[Any]) -> list[Any]:
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    """A value of the driver as one of Python: its dates, in lists too; None for a point, which has no text."""
    if value is None or isinstance(value, str | int | float | date | datetime | time):
        return value
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, tuple) and hasattr(value, "srid"):  # else its coordinates were a list of values
        return None
    if hasattr(value, "to_native"):
        try:
            return value.to_native()
        except ValueError:  # a year that Python's dates do not reach
            return str(value.iso_format())
    return str(value.iso_format()) if hasattr(value, "iso_format") else value
