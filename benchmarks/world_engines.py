"""A graph in the engines that people have, each a real one on this machine, as its users would hold the same facts.

    with ENGINES["bolt"](store, folder) as opened, opened() as loaded:
        loaded.graph.neighbors("France", "capital"), loaded.queries()

While an engine runs, `opened` opens the graph in it, each time with nothing kept of the time before.

A relation that only leads to values (no tail of it has facts of its own) is an attribute: a literal in RDF, a property
of a node, a column. Any other leads to things: an IRI with a label, a relationship, a foreign key. A column holds whole
numbers where all of its values are, as they are written; else texts, so that "052" and "14.40" stay what they are.

The bundled graph says no classes. So its nodes and rows are of one label and one table that begin with `_`, which are
no kinds to kgwalk: with any other name they had a fact more, (France, is_a, Place).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import httpx
from benchmarks import virtuoso
from benchmarks.queries import BATCH, PASSWORD, ArcadeDb
from pyoxigraph import Literal, NamedNode, RdfFormat, serialize
from pyoxigraph import Triple as Statement

from kgwalk.config.cache import CACHE_VARIABLE
from kgwalk.kg.bolt import open_bolt
from kgwalk.kg.cypher import CypherGraph
from kgwalk.kg.graph import Graph
from kgwalk.kg.http import HttpGraph
from kgwalk.kg.ladybug import open_ladybug
from kgwalk.kg.sparql import SparqlGraph
from kgwalk.kg.sparql_client import XSD
from kgwalk.kg.sparql_facts import RDFS_LABEL
from kgwalk.kg.store import StoredGraph, load_graph
from kgwalk.types import KgwalkError

THING = "_Thing"  # the label of all nodes, and the table of all rows
BASE = "http://world.example/"


class NotInstalled(KgwalkError):
    """An engine that is not on this machine; the message says what to install."""


@dataclass(frozen=True)
class Loaded:
    """The graph in an engine, and how many queries the engine was sent so far."""

    graph: Graph
    queries: Callable[[], int]


Opened = Callable[[], AbstractContextManager[Loaded]]


@dataclass(frozen=True)
class Modelled:
    """The facts as they are modelled: attributes by relation and thing, relationships by relation."""

    things: Sequence[str]
    attributes: dict[str, dict[str, list[str]]]
    relationships: dict[str, list[tuple[str, str]]]

    @classmethod
    def of(cls, store: StoredGraph) -> Modelled:
        facts = list(store.match())
        heads = {fact.head for fact in facts}
        leading = {fact.relation for fact in facts if fact.tail in heads}
        attributes: dict[str, dict[str, list[str]]] = {}
        relationships: dict[str, list[tuple[str, str]]] = {}
        things = dict.fromkeys(fact.head for fact in facts)
        for head, relation, tail, _ in facts:
            if relation in leading:
                things[tail] = None
                relationships.setdefault(relation, []).append((head, tail))
            else:
                attributes.setdefault(relation, {}).setdefault(head, []).append(tail)
        return cls(list(things), attributes, relationships)

    @cached_property
    def whole(self) -> set[str]:
        """The attributes whose values are whole numbers."""
        return {
            name
            for name, values in self.attributes.items()
            if all(_is_whole(one) for some in values.values() for one in some)
        }

    @cached_property
    def several(self) -> set[str]:
        """The attributes of which a thing may have several values."""
        return {name for name, values in self.attributes.items() if any(len(some) > 1 for some in values.values())}

    def cell(self, relation: str, thing: str) -> Any:
        values = [int(one) if relation in self.whole else one for one in self.attributes[relation].get(thing, ())]
        return (values or None) if relation in self.several else next(iter(values), None)


def _is_whole(text: str) -> bool:
    return text.lstrip("-").isdecimal() and str(int(text)) == text


# RDF


def rdf(modelled: Modelled) -> bytes:
    """N-Triples: every thing and every relation has an IRI and a label."""

    def thing(name: str) -> NamedNode:
        return NamedNode(f"{BASE}thing/{quote(name, safe='')}")

    def relation(name: str) -> NamedNode:
        return NamedNode(f"{BASE}relation/{quote(name, safe='')}")

    label = NamedNode(RDFS_LABEL)
    statements = [Statement(thing(name), label, Literal(name)) for name in modelled.things]
    for name, values in modelled.attributes.items():
        statements.append(Statement(relation(name), label, Literal(name)))
        kind = NamedNode(f"{XSD}integer" if name in modelled.whole else f"{XSD}string")
        pairs = [(head, text) for head, texts in values.items() for text in texts]
        statements += [Statement(thing(head), relation(name), Literal(text, datatype=kind)) for head, text in pairs]
    for name, pairs in modelled.relationships.items():
        statements.append(Statement(relation(name), label, Literal(name)))
        statements += [Statement(thing(head), relation(name), thing(tail)) for head, tail in pairs]
    return serialize(statements, format=RdfFormat.N_TRIPLES) or b""


@contextmanager
def oxigraph(store: StoredGraph, folder: Path) -> Iterator[Opened]:
    """The server of the package oxigraph."""
    program = shutil.which("oxigraph", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        raise NotInstalled("oxigraph is not installed; pip install oxigraph")
    (folder / "world.nt").write_bytes(rdf(Modelled.of(store)))
    at = ["--location", str(folder / "oxigraph")]
    load = [program, "load", *at, "--file", str(folder / "world.nt")]
    subprocess.run(load, check=True, capture_output=True)
    port = _free_port()
    with _running([program, "serve-read-only", *at, "--bind", f"127.0.0.1:{port}"], port):
        yield partial(_endpoint, f"http://127.0.0.1:{port}/query")


@contextmanager
def in_virtuoso(store: StoredGraph, folder: Path) -> Iterator[Opened]:
    """Debian's virtuoso-opensource."""
    if problem := virtuoso.absent():
        raise NotInstalled(problem)
    server = virtuoso.running()
    named = server.load(rdf(Modelled.of(store)))
    yield partial(_endpoint, f"{server.url}?default-graph-uri={quote(named, safe='')}")


@contextmanager
def _endpoint(url: str) -> Iterator[Loaded]:
    with _Counting() as client, SparqlGraph(url, client=client, timeout=60) as graph:
        yield Loaded(graph, lambda: client.sent)


class _Counting(httpx.Client):
    """A client that counts its requests."""

    sent = 0

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        self.sent += 1
        return super().send(request, **options)


# Property graphs


@contextmanager
def bolt(store: StoredGraph, folder: Path) -> Iterator[Opened]:
    """The Bolt server of the package arcadedb-embedded, filled and asked by Neo4j's driver."""
    found = importlib.util.find_spec("arcadedb_embedded")
    if found is None or found.origin is None or importlib.util.find_spec("neo4j") is None:
        raise NotInstalled("needs a server and a driver: pip install arcadedb-embedded 'kgwalk[neo4j]'")
    place = folder / "arcadedb"
    place.mkdir()
    server = ArcadeDb(Path(found.origin).parent, place)
    try:
        server.ready()
        server.command("create database world")
        server.command(f"CREATE VERTEX TYPE {THING}", "command/world", language="sql")
        modelled = Modelled.of(store)
        for name in ["name", *modelled.attributes]:  # as docs/guides/stores.md advises: a walk looks for values
            if name not in modelled.several:
                kind = "LONG" if name in modelled.whole else "STRING"
                server.command(f"CREATE PROPERTY {THING}.{name} {kind}", "command/world", language="sql")
                unique = "UNIQUE" if name == "name" else "NOTUNIQUE"
                server.command(f"CREATE INDEX ON {THING} ({name}) {unique}", "command/world", language="sql")
        address = f"bolt://127.0.0.1:{server.bolt}"
        _fill(address, modelled)
        with patch.dict(os.environ, {"NEO4J_USERNAME": "root", "NEO4J_PASSWORD": PASSWORD}):
            yield partial(_property_graph, open_bolt, f"{address}/world")
    finally:
        server.stop()


@contextmanager
def _property_graph(open_: Callable[[str], CypherGraph], address: str) -> Iterator[Loaded]:
    with open_(address) as graph:
        yield Loaded(graph, lambda: graph.queries)


def _fill(address: str, modelled: Modelled) -> None:
    import neo4j

    with (
        neo4j.GraphDatabase.driver(address, auth=("root", PASSWORD)) as driver,
        driver.session(database="world") as session,
    ):

        def send(query: str, rows: Sequence[Any]) -> None:
            for at in range(0, len(rows), BATCH):
                session.run(query, rows=rows[at : at + BATCH]).consume()  # type: ignore[arg-type]

        nodes = []
        for name in modelled.things:
            cells = {relation: modelled.cell(relation, name) for relation in modelled.attributes}
            nodes.append({"name": name, **{key: cell for key, cell in cells.items() if cell is not None}})
        send(f"UNWIND $rows AS row CREATE (n:{THING}) SET n += row", nodes)
        for relation, pairs in modelled.relationships.items():
            ends = f"MATCH (a:{THING} {{name: r[0]}}) MATCH (b:{THING} {{name: r[1]}})"
            send(f"UNWIND $rows AS r {ends} CREATE (a)-[:`{relation}`]->(b)", [list(pair) for pair in pairs])


@contextmanager
def ladybug(store: StoredGraph, folder: Path) -> Iterator[Opened]:
    """A Ladybug file: a table of nodes, and one of each relationship."""
    if importlib.util.find_spec("ladybug") is None:
        raise NotInstalled("ladybug is not installed; pip install 'kgwalk[ladybug]'")
    import ladybug as package
    import pyarrow as pa

    modelled = Modelled.of(store)
    with package.Database(str(folder / "world.lbug")) as database, package.Connection(database) as connection:
        types = [pa.field("name", pa.string())]
        for relation in modelled.attributes:
            single = pa.int64() if relation in modelled.whole else pa.string()
            types.append(pa.field(relation, pa.list_(single) if relation in modelled.several else single))
        columns = ", ".join(f"`{one.name}` {_ladybug_type(one.type)}" for one in types)
        connection.execute(f"CREATE NODE TABLE {THING}({columns}, PRIMARY KEY(name))")
        cells = [
            modelled.things,
            *([modelled.cell(one, name) for name in modelled.things] for one in modelled.attributes),
        ]
        rows = pa.table([pa.array(some, one.type) for some, one in zip(cells, types, strict=True)], pa.schema(types))
        connection.execute(f"COPY {THING} FROM $rows", {"rows": rows})
        for relation, pairs in modelled.relationships.items():
            connection.execute(f"CREATE REL TABLE `{relation}`(FROM {THING} TO {THING})")
            ends = pa.table({"from": [head for head, _ in pairs], "to": [tail for _, tail in pairs]})
            connection.execute(f"COPY `{relation}` FROM $rows", {"rows": ends})
    yield partial(_property_graph, open_ladybug, f"ladybug:///{folder}/world.lbug")


def _ladybug_type(type_: Any) -> str:
    return {"string": "STRING", "int64": "INT64"}.get(str(type_)) or f"{_ladybug_type(type_.value_type)}[]"


# Tables


def tables(modelled: Modelled) -> Iterator[tuple[str, Sequence[tuple[Any, ...]]]]:
    """Statements that make the tables, each with the rows that it is run for: one table of things, with a column for
    what each has at most one of; two foreign keys for what it may have several of. Values that a thing may have several
    of are a table of their own.
    """
    pairs = dict(modelled.relationships)
    pairs |= {
        name: [(head, text) for head, texts in modelled.attributes[name].items() for text in texts]
        for name in modelled.several
    }
    single = {name: dict(some) for name, some in pairs.items() if len(dict(some)) == len(some)}
    plain = [name for name in modelled.attributes if name not in modelled.several]
    columns = [f'"{name}" {"BIGINT" if name in modelled.whole else "VARCHAR"}' for name in plain]
    columns += [f'"{name}" VARCHAR' for name in single]
    yield f"CREATE TABLE {THING} (name VARCHAR PRIMARY KEY, {', '.join(columns)})", [()]
    yield (
        _insert(THING, 1 + len(columns)),
        [
            (name, *(modelled.cell(one, name) for one in plain), *(some.get(name) for some in single.values()))
            for name in modelled.things
        ],
    )
    for name in pairs.keys() - single.keys():
        target, key = (f"_{name}", "value") if name in modelled.several else (THING, "name")
        if name in modelled.several:
            yield f'CREATE TABLE "{target}" ({key} VARCHAR PRIMARY KEY)', [()]
            yield _insert(target, 1), [(text,) for text in dict.fromkeys(text for _, text in pairs[name])]
        ends = f'"thing" VARCHAR REFERENCES {THING}(name), "{name}" VARCHAR REFERENCES "{target}"({key})'
        yield f'CREATE TABLE "_{name} of a thing" ({ends}, PRIMARY KEY (thing, "{name}"))', [()]
        yield _insert(f"_{name} of a thing", 2), pairs[name]


def _insert(table: str, columns: int) -> str:
    return f'INSERT INTO "{table}" VALUES ({", ".join("?" * columns)})'


@contextmanager
def sqlite(store: StoredGraph, folder: Path) -> Iterator[Opened]:
    with closing(sqlite3.connect(folder / "world.db")) as database, database:
        for statement, rows in tables(Modelled.of(store)):
            database.executemany(statement, rows)
    yield partial(_from_tables, f"sqlite:///{folder}/world.db", folder)


@contextmanager
def duckdb(store: StoredGraph, folder: Path) -> Iterator[Opened]:
    if importlib.util.find_spec("duckdb") is None:
        raise NotInstalled("duckdb is not installed; pip install 'kgwalk[duckdb]'")
    import duckdb as package
    import pyarrow as pa

    with closing(package.connect(str(folder / "world.duckdb"))) as database:
        for statement, rows in tables(Modelled.of(store)):
            if statement.startswith("INSERT"):  # row by row it takes minutes
                given = pa.table(
                    [pa.array(column) for column in zip(*rows, strict=True)], [*map(str, range(len(rows[0])))]
                )
                table = statement.split('"')[1]
                database.execute(f'INSERT INTO "{table}" SELECT * FROM given')
                del given
            else:
                database.execute(statement)
    yield partial(_from_tables, f"duckdb:///{folder}/world.duckdb", folder)


@contextmanager
def _from_tables(address: str, folder: Path) -> Iterator[Loaded]:
    with patch.dict(os.environ, {CACHE_VARIABLE: str(folder / "cache")}):
        graph = load_graph(address)
    yield Loaded(graph, lambda: 0)


# The store itself, and behind a kgwalk server


@contextmanager
def store(store: StoredGraph, folder: Path) -> Iterator[Opened]:
    yield lambda: nullcontext(Loaded(store, lambda: 0))


@contextmanager
def http(store: StoredGraph, folder: Path) -> Iterator[Opened]:
    """`kgwalk serve` in a process of its own."""
    port = _free_port()
    command = [sys.executable, "-m", "kgwalk", "serve", "--graph", str(store.store.folder.path), "--adapter", "none"]
    with _running([*command, "--port", str(port)], port):
        yield partial(_served, f"http://127.0.0.1:{port}")


@contextmanager
def _served(url: str) -> Iterator[Loaded]:
    with HttpGraph(url) as graph:
        sent = _counted_requests(graph)
        yield Loaded(graph, lambda: len(sent))


def _counted_requests(graph: HttpGraph) -> list[str]:
    """A list that grows with each request of the graph's clients."""
    sent: list[str] = []
    for server in graph._servers.all:
        send = server.send

        def counted(method: str, path: str, body: bytes | None, send: Any = send) -> Any:
            sent.append(path)
            return send(method, path, body)

        server.send = counted  # type: ignore[method-assign]
    return sent


ENGINES: dict[str, Callable[[StoredGraph, Path], AbstractContextManager[Opened]]] = {
    "store": store,
    "sqlite": sqlite,
    "duckdb": duckdb,
    "ladybug": ladybug,
    "bolt": bolt,
    "oxigraph": oxigraph,
    "virtuoso": in_virtuoso,
    "http": http,
}


def differing(graph: Graph, store: StoredGraph) -> tuple[list[Any], list[Any]]:
    """The facts of the store that a graph does not have, and those that it has beyond them."""
    mine, theirs = set(store.match()), set(graph.match())
    return sorted(mine - theirs), sorted(theirs - mine)


@contextmanager
def _running(command: Sequence[str], port: int) -> Iterator[None]:
    """A server, from when it takes connections on."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_for(port, server)
            yield
        finally:
            server.terminate()


def _wait_for(port: int, server: subprocess.Popen[Any], seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                return
        except OSError:
            if time.monotonic() > ends or server.poll() is not None:
                raise
            time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
