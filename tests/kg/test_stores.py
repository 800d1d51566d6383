"""Stores that people have, each a real one: property graphs over Bolt in an ArcadeDB server on loopback, one in
a Ladybug file, tables in SQLite and DuckDB files.

What is not installed is skipped: `make test-stores` installs all of it, pinned, in an environment of its own.
"""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from benchmarks.queries import PASSWORD, ArcadeDb

from commands import Cli
from kgwalk.config.cache import CACHE_VARIABLE
from kgwalk.kg.bolt import BoltEngine, open_bolt
from kgwalk.kg.build import build
from kgwalk.kg.cypher import CypherGraph
from kgwalk.kg.store import load_graph, open_graph
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.types import (
    Call,
    InputError,
    Neighbors,
    Question,
    RemoteError,
    StoreError,
    Triple,
    UnknownEntity,
    UnknownRelation,
)
from kgwalk.walk.kinds import kind_named
from kgwalk.walk.language import Sets
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.starts import starts_in

NO_DRIVER = "needs the driver: pip install 'kgwalk[neo4j]', or make test-stores"
NO_SERVER = "needs a server to ask: make test-stores installs one"
NO_LADYBUG = "needs Ladybug: pip install 'kgwalk[ladybug]', or make test-stores"
NO_DUCKDB = "needs DuckDB: pip install 'kgwalk[duckdb]', or make test-stores"

# Two films called Solaris; a person and a city called Paris; an order, which only has a number; a crew, which has
# nothing; a property in a list, one of a vector, one with a blank text; names that would end a quoted name or a text.
FILMS = """
CREATE (hanks:Person {name: 'Tom Hanks', born: 1956, city: 'Paris', note: ''}),
       (howard:Person:Director {name: 'Ron Howard', born: 1954}),
       (apollo:Movie {title: 'Apollo 13', id: 'm1', released: 1995,
                       tags: ['space', 'true story'], seen: date('2020-01-05')}),
       (s1972:Movie {title: 'Solaris', id: 'm2', released: 1972, vector: [0.5] + range(1, 200)}),
       (s2002:Movie {title: 'Solaris', id: 'm3', released: 2002}),
       (paris:City {name: 'Paris'}), (ms:Person {name: 'Paris'}),
       (order:Order {id: 12, at: datetime('2020-01-05T10:30:00Z'), open: true, total: 9.5}), (crew:Crew),
       (odd:Person {name: $odd}),
       (hanks)-[:ACTED_IN {year: 1995, role: 'Jim'}]->(apollo), (hanks)-[:ACTED_IN {since: 2001, until: 2002}]->(s2002),
       (howard)-[:DIRECTED]->(apollo), (hanks)-[:LIVED_IN]->(paris), (apollo)-[:HAS]->(crew),
       (odd)-[:`placed ``an` ]->(order)
"""
ODD = "x'}) DETACH DELETE n //` \\u0060 \""
FACTS = {  # all of it, by hand
    Triple("Tom Hanks", "born", "1956"), Triple("Ron Howard", "born", "1954"), Triple("Tom Hanks", "city", "Paris"),
    Triple("Apollo 13", "id", "m1"), Triple("Solaris (m2)", "id", "m2"), Triple("Solaris (m3)", "id", "m3"),
    Triple("Apollo 13", "released", "1995"), Triple("Solaris (m2)", "released", "1972"),
    Triple("Solaris (m3)", "released", "2002"), Triple("Apollo 13", "tags", "space"),
    Triple("Apollo 13", "tags", "true story"), Triple("Apollo 13", "seen", "2020-01-05"),
    Triple("Order 12", "at", "2020-01-05 10:30:00+00:00"), Triple("Order 12", "open", "true"),
    Triple("Order 12", "total", "9.5"), Triple("Tom Hanks", "ACTED_IN", "Apollo 13", "1995"),
    Triple("Tom Hanks", "ACTED_IN", "Solaris (m3)", "2001..2002"), Triple("Ron Howard", "DIRECTED", "Apollo 13"),
    Triple("Tom Hanks", "LIVED_IN", "Paris (City)"), Triple(ODD, "placed `an", "Order 12"),
    *(Triple(name, "is_a", kind) for name, kind in [
        ("Tom Hanks", "Person"), ("Ron Howard", "Person"), ("Ron Howard", "Director"), ("Apollo 13", "Movie"),
        ("Solaris (m2)", "Movie"), ("Solaris (m3)", "Movie"), ("Paris (City)", "City"), ("Paris (Person)", "Person"),
        ("Order 12", "Order"), (ODD, "Person")]),
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArcadeDb]:
    pytest.importorskip("neo4j", reason=NO_DRIVER)
    package = pytest.importorskip("arcadedb_embedded", reason=NO_SERVER)
    started = ArcadeDb(Path(package.__file__).parent, tmp_path_factory.mktemp("arcadedb"))
    try:
        started.ready()
        yield started
    finally:
        started.stop()


@pytest.fixture
def signed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_USERNAME", "root")
    monkeypatch.setenv("NEO4J_PASSWORD", PASSWORD)


def filled(server: ArcadeDb, name: str, *queries: str, **parameters: Any) -> str:
    """A database with what the queries create; its address."""
    import neo4j

    server.command(f"create database {name}")
    address = f"bolt://127.0.0.1:{server.bolt}"
    with (
        neo4j.GraphDatabase.driver(address, auth=("root", PASSWORD)) as driver,
        driver.session(database=name) as session,
    ):
        for query in queries:
            session.run(query, parameters).consume()
    return f"{address}/{name}"


@pytest.fixture(scope="module")
def films(server: ArcadeDb) -> str:
    return filled(server, "films", FILMS, odd=ODD)


@pytest.fixture
def graph(films: str, signed_in: None) -> Iterator[CypherGraph]:
    with open_bolt(films) as opened:
        yield opened


def crew_of(graph: CypherGraph) -> str:
    [name] = graph.neighbors("Apollo 13", "HAS").names
    return name


# --- what becomes what


def test_every_fact_of_a_property_graph(graph: CypherGraph) -> None:
    crew = crew_of(graph)
    assert crew.startswith("Crew #")
    assert set(graph.match()) == FACTS | {Triple("Apollo 13", "HAS", crew), Triple(crew, "is_a", "Crew")}


def test_what_names_nodes_is_found(graph: CypherGraph) -> None:
    named = {label: one["named by"] for label, one in graph.info()["labels"].items()}
    assert named == {
        "City": "name",
        "Crew": None,
        "Director": "name",
        "Movie": "title",
        "Order": "id",
        "Person": "name",
    }


def test_and_can_be_said(films: str, signed_in: None) -> None:
    with open_bolt(f"{films}?name=Movie.id") as graph:
        assert graph.neighbors("Tom Hanks", "ACTED_IN").names == ["m1", "m3"]
        assert graph.neighbors("m3", "title").names == ["Solaris"]
    with pytest.raises(InputError, match=r"name=Movie\.nam: 'Movie' has no property 'nam'"):
        open_bolt(f"{films}?name=Movie.nam")


@pytest.mark.parametrize(
    ("name", "leaving", "arriving"),
    [
        ("Tom Hanks", ["ACTED_IN", "LIVED_IN", "born", "city", "is_a"], []),
        ("Solaris (m2)", ["id", "is_a", "released"], []),
        ("Paris (City)", ["is_a"], ["LIVED_IN"]),
        ("Paris", ["is_a"], ["LIVED_IN", "city"]),  # the better connected of the two, and the value
        ("1995", [], ["released"]),
        ("space", [], ["tags"]),
        ("2020-01-05", [], ["seen"]),
        ("2020-01-05 10:30:00+00:00", [], ["at"]),
        ("true", [], ["open"]),
        ("9.5", [], ["total"]),
        ("Movie", [], ["is_a"]),
        (ODD, ["is_a", "placed `an"], []),
    ],
)
def test_relations_around_a_name(graph: CypherGraph, name: str, leaving: list[str], arriving: list[str]) -> None:
    assert name in graph
    assert (graph.relations(name), graph.relations(name, out=False)) == (leaving, arriving)


def test_neighbours_in_both_directions(graph: CypherGraph) -> None:
    assert graph.neighbors("Tom Hanks", "ACTED_IN") == Neighbors(
        ["Apollo 13", "Solaris (m3)"], 2, [["1995"], ["2001..2002"]]
    )
    assert graph.neighbors("Apollo 13", "DIRECTED", out=False).names == ["Ron Howard"]
    assert graph.neighbors("1995", "released", out=False).names == ["Apollo 13"]
    # those first that have most facts: seven, and four against three
    assert graph.neighbors("Movie", "is_a", out=False, limit=2) == Neighbors(["Apollo 13", "Solaris (m3)"], 3, [[], []])
    assert graph.neighbors(crew_of(graph), "HAS", out=False).names == ["Apollo 13"]
    assert graph.neighbors("Ron Howard", "ACTED_IN").names == []
    assert list(graph.match(tail="Paris")) == [
        Triple("Tom Hanks", "LIVED_IN", "Paris"),
        Triple("Tom Hanks", "city", "Paris"),
    ]


def test_names_that_are_not_there(graph: CypherGraph) -> None:
    for name in ("Tom Hank", "note", "", "1996", "Order 13", "Crew #9:9", "Solaris (m9)", "x\0y", "\ud800"):
        assert name not in graph
    with pytest.raises(UnknownEntity):
        graph.neighbors("Tom Hank", "born")
    # a name that is no relation is told so before anything of it is in a query
    asked = graph.queries
    with pytest.raises(UnknownRelation, match="did you mean 'ACTED_IN'"):
        graph.neighbors("Tom Hanks", "ACTED_ON")
    with pytest.raises(UnknownRelation):
        graph.neighbors("Tom Hanks", "born`]-() DETACH DELETE n //")
    assert graph.queries == asked
    assert len(set(graph.match())) == len(FACTS) + 2


def test_names_are_found_roughly(graph: CypherGraph) -> None:
    assert [one.name for one in graph.find("tom hankz")] == ["Tom Hanks"]
    assert [one.name for one in graph.find("solaris")][:2] == ["Solaris (m2)", "Solaris (m3)"]
    assert [one.name for one in graph.find("Paris")][:3] == ["Paris", "Paris (City)", "Paris (Person)"]
    assert graph.find_relation("acted in")[0].name == "ACTED_IN"


def test_a_node_that_is_asked_for_by_two_of_its_names_answers_to_both(graph: CypherGraph) -> None:
    """The bare name means the node with most facts: the city."""
    both = ["Paris", "Paris (City)"]
    graph.fetch_relations(both, out=False)
    graph.fetch_neighbors(both, "LIVED_IN", out=False)
    graph.fetch_some(both, [("is_a", True), ("LIVED_IN", False)], 5)
    for name in both:
        assert "LIVED_IN" in graph.relations(name, out=False)  # the bare name is a value of `city`, too
        assert graph.neighbors(name, "LIVED_IN", out=False).names == ["Tom Hanks"]
        assert graph.neighbors(name, "is_a").names == ["City"]


def test_times_of_relationships(graph: CypherGraph) -> None:
    during = graph.between("1999", "2001")
    assert during.neighbors("Tom Hanks", "ACTED_IN").names == ["Solaris (m3)"]
    assert during.relations("Apollo 13", out=False) == ["DIRECTED"]  # that has no date
    assert graph.between("1999", "2001", undated=False).relations("Apollo 13", out=False) == []
    sets = Sets(graph, ["Tom Hanks"])
    assert sets.made[sets.call("between", [1, "ACTED_IN", "1990", "1996"]) - 1].members == ("Apollo 13",)
    assert sets.made[sets.call("latest", [1, "ACTED_IN"]) - 1].members == ("Solaris (m3)",)


# --- walking


def test_labels_are_kinds(graph: CypherGraph) -> None:
    kind = kind_named("movies", graph)
    assert kind is not None
    assert kind.members(graph) == ["Apollo 13", "Solaris (m3)", "Solaris (m2)"]
    assert [one.name for one in starts_in("which movies were released after 1990?", graph)[1]] == ["Movie"]
    assert [one.candidates[0].name for one in starts_in("what did Tom Hanks act in?", graph)[0]] == ["Tom Hanks"]


def staff(server: ArcadeDb, people: int) -> str:
    """So many people, each in one of ten teams, with a salary; a team has a site."""
    fill = """
    UNWIND range(0, 9) AS t CREATE (:Team {name: 'team ' + t})-[:AT]->(:Site {name: 'site ' + t})
    """
    join = f"""
    UNWIND range(1, {people}) AS p MATCH (t:Team {{name: 'team ' + (p % 10)}})
    CREATE (:Employee {{name: 'employee ' + p, salary: 1000 + p}})-[:WORKS_IN]->(t)
    """
    return filled(server, f"staff{people}", fill, join)


def queries_of(address: str, program: Sequence[tuple[str, list[Any]]]) -> tuple[list[int], list[tuple[str, ...]]]:
    """How many queries each call of a program took, with the listing of the relations around its set; and its sets."""
    with open_bolt(address) as graph:
        kind = kind_named("employee", graph)
        assert kind is not None
        sets, counts = Sets(graph, [], kinds=[kind], empty=True), []
        for tool, args in program:
            before = graph.queries
            number = sets.call(tool, args)
            sets.relations_around(number, values=True)
            counts.append(graph.queries - before)
        return counts, [made.members for made in sets.made]


def test_a_step_takes_as_many_queries_for_a_thousand_as_for_ten(server: ArcadeDb, signed_in: None) -> None:
    program = [
        ("tail_entities", [1, "WORKS_IN"]),
        ("filter", [1, "salary", ">", "1005"]),
        ("tail_entities", [1, "WORKS_IN/AT"]),
        ("head_entities", [2, "WORKS_IN"]),
        ("argmax", [1, "salary"]),
        ("filter", [2, "count(^WORKS_IN)", ">", "0"]),
    ]
    few, _ = queries_of(staff(server, 10), program)
    many, sets = queries_of(staff(server, 1000), program)
    assert len(sets[1]) == 10  # teams
    assert len(sets[2]) == 995
    assert sets[5] == ("employee 1000",)
    assert many == few
    assert sum(many) <= 6 * len(program)


def listed_in(address: str) -> list[int]:
    """How many queries it took to list what is around three sets, with what lies behind it and samples."""
    with open_bolt(address) as graph:
        protocol = Kgwalk(language="full", ahead=8, samples=True)
        walk = protocol.begin(Task(Question("q", "?", [], []), ["team 3"], kinds=[]), Environment(graph), len)
        counts = []
        for call in (Call("head_entities", (1, "WORKS_IN")), Call("tail_entities", (2, "salary"))):
            before = graph.queries
            observation = walk.act(call)
            counts.append(graph.queries - before)
            assert observation.ok
        assert walk.shown(1) == "$1 = 1 Team: team 3\n-> AT\n<- WORKS_IN (Employee: salary)"
        assert walk.shown(2).endswith("\n-> WORKS_IN (Team: AT), salary = 1183")
        return counts


def test_a_listing_takes_as_many_queries_for_a_hundred_as_for_twenty(server: ArcadeDb, signed_in: None) -> None:
    few, many = listed_in(staff(server, 200)), listed_in(staff(server, 1001))
    assert many == few
    assert max(many) <= 20


# --- who is asked


class ClusterMember:
    """A server that speaks enough of Bolt 5.4 for the driver: it tells who reads and who writes, and answers every
    query with no rows. It keeps the messages that it was sent.
    """

    NAMES: ClassVar = {0x01: "HELLO", 0x10: "RUN", 0x11: "BEGIN", 0x66: "ROUTE"}

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listening.getsockname()[1]}"
        self.table: list[dict[str, Any]] = []
        self.sent: list[tuple[str, list[Any]]] = []
        self.open: list[socket.socket] = []
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):  # closed at the end
            while True:
                connection, _ = self.listening.accept()
                self.open.append(connection)
                self.threads.append(threading.Thread(target=self.serve, args=[connection]))
                self.threads[-1].start()

    def serve(self, connection: socket.socket) -> None:
        from neo4j._codec.packstream.v1 import PackableBuffer, Packer, UnpackableBuffer, Unpacker

        with connection, connection.makefile("rb") as stream:
            stream.read(20)  # its magic number, and the versions that the driver speaks
            connection.sendall(bytes([0, 0, 4, 5]))
            while message := self.message(stream):
                unpacker = Unpacker(UnpackableBuffer(message))
                size, tag = unpacker.unpack_structure_header()
                fields = [unpacker.unpack() for _ in range(size)]
                name = self.NAMES.get(tag[0], "")
                self.sent += [(name, fields)] * bool(name)
                told: dict[str, Any] = {"fields": [], "has_more": False}
                if name == "HELLO":
                    told = {"server": "Neo4j/5.4.0", "connection_id": "bolt-1"}
                if name == "ROUTE":
                    told = {"rt": {"ttl": 300, "db": "films", "servers": self.table}}
                buffer = PackableBuffer()
                Packer(buffer).pack_struct(b"\x70", [told])
                packed = bytes(buffer.data)
                with contextlib.suppress(OSError):  # the driver says goodbye and leaves
                    connection.sendall(len(packed).to_bytes(2, "big") + packed + bytes(2))

    @staticmethod
    def message(stream: Any) -> bytearray:
        """The chunks of one message; nothing at the end."""
        whole = bytearray()
        while head := stream.read(2):
            if head == bytes(2):
                break
            whole += stream.read(int.from_bytes(head, "big"))
        return whole

    def stop(self) -> None:
        for one in (self.listening, *self.open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self.threads:
            thread.join(5)


def test_neo4j_addresses_ask_the_readers_of_a_cluster() -> None:
    pytest.importorskip("neo4j", reason=NO_DRIVER)
    router, reader, writer = members = [ClusterMember() for _ in range(3)]
    router.table = [
        {"addresses": [reader.address], "role": "READ"},
        {"addresses": [writer.address], "role": "WRITE"},
        {"addresses": [router.address], "role": "ROUTE"},
    ]
    try:
        engine = BoltEngine(
            f"neo4j://{router.address}", shown="neo4j://cluster", user="", password="", database="films", timeout=5
        )
        assert engine.rows("MATCH (n) RETURN n") == list(engine.stream("MATCH (m) RETURN m")) == []
        engine.close()
    finally:
        for member in members:
            member.stop()
    assert "ROUTE" in {name for name, _ in router.sent} <= {"HELLO", "ROUTE"}
    assert writer.sent == []
    begun = [fields[0] for name, fields in reader.sent if name == "BEGIN"]
    assert [(one["mode"], one["db"]) for one in begun] == [("r", "films")] * 2
    assert [fields[0] for name, fields in reader.sent if name == "RUN"] == ["MATCH (n) RETURN n", "MATCH (m) RETURN m"]


# --- what the driver brings, and what is written meanwhile


def test_a_point_is_no_fact() -> None:
    spatial = pytest.importorskip("neo4j.spatial", reason=NO_DRIVER)
    from kgwalk.kg.bolt import _plain_row

    point = spatial.WGS84Point((9.19, 45.46))  # a tuple to Python
    assert _plain_row([point, [1, point], "Milan"]) == [None, [1, None], "Milan"]


@pytest.mark.parametrize("address", ["neo4j:///movies", "bolt://me:secret@", "neo4j://me@/movies"])
def test_a_database_or_a_user_needs_a_host(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_URI", "bolt://127.0.0.1:1")  # whose default database would be asked
    with pytest.raises(InputError, match="needs a host") as refused:
        open_bolt(address)
    assert "secret" not in str(refused.value)


def test_times_are_those_of_the_same_data_as_csv(server: ArcadeDb, signed_in: None, tmp_path: Path) -> None:
    held: list[dict[str, Any]] = [
        {"began": 1990, "endedOn": 1995},
        {"timestamp": "2013-02-18", "at": "home"},
        {"validFrom": 2001, "to_year": 2003},
        {"point in time": 1999},
        {"year": 1988, "date": "1988-06-03"},
        {"time": 130},
        {"role": "Jim"},
    ]
    queries, files = [], [tmp_path / "people.csv"]
    files[0].write_text("id:ID,name,:LABEL\na,Ann,Person\nb,Bob,Person\n")
    for number, one in enumerate(held):
        told = ", ".join(f"`{name}`: {value!r}" for name, value in one.items())
        queries.append(
            f"MERGE (a:Person {{name: 'Ann'}}) MERGE (b:Person {{name: 'Bob'}}) CREATE (a)-[:R{number} {{{told}}}]->(b)"
        )
        files.append(tmp_path / f"R{number}.csv")
        files[-1].write_text(
            f":START_ID,:TYPE,:END_ID,{','.join(one)}\na,R{number},b,{','.join(map(str, one.values()))}\n"
        )
    build(files, tmp_path / "csv.kg")
    with open_bolt(filled(server, "times", *queries)) as graph:
        over_bolt = {fact.relation: fact.time for fact in graph.match(head="Ann", tail="Bob")}
    from_csv = {fact.relation: fact.time for fact in open_graph(tmp_path / "csv.kg").match(head="Ann", tail="Bob")}
    times = ["1990..1995", "2013-02-18", "2001..2003", "1999", "1988-06-03", "", ""]
    assert over_bolt == from_csv == {f"R{number}": time for number, time in enumerate(times)}


def test_a_node_made_while_all_is_read(server: ArcadeDb, signed_in: None) -> None:
    import neo4j

    address = filled(server, "growing", "CREATE (:Person {name: 'Ann'})-[:KNOWS]->(:Person {name: 'Bob'})")
    with open_bolt(address) as graph:
        facts = graph.match()
        found = [next(facts)]  # the nodes are named by now
        uri, _, database = address.rpartition("/")
        with (
            neo4j.GraphDatabase.driver(uri, auth=("root", PASSWORD)) as driver,
            driver.session(database=database) as session,
        ):
            query = "MATCH (a:Person {name: 'Ann'}) CREATE (a)-[:KNOWS]->(:Person {name: 'Cleo'})"
            session.run(query).consume()
        found += facts
    assert {Triple("Ann", "KNOWS", "Bob"), Triple("Ann", "is_a", "Person")} <= set(found)
    assert Triple("Cleo", "is_a", "Person") in found  # whose label is read after the relationships


# --- as a store, and on the command line


def test_a_store_built_from_it_says_the_same(films: str, graph: CypherGraph, tmp_path: Path, cli: Cli) -> None:
    built = cli("kg", "build", films, "-o", tmp_path / "films.kg", "--json").json
    assert built["triples"] == len(FACTS) + 2
    store = open_graph(tmp_path / "films.kg")
    assert set(store.match()) == set(graph.match())
    for name in {name for fact in FACTS for name in (fact.head, fact.tail)} - {"Paris"}:  # which has no such node there
        for out in (True, False):
            assert store.relations(name, out=out) == sorted(graph.relations(name, out=out))
            for relation in store.relations(name, out=out):
                ours, theirs = (one.neighbors(name, relation, out=out) for one in (graph, store))
                assert dict(zip(ours.names, ours.times or [], strict=True)) == dict(
                    zip(theirs.names, theirs.times or [], strict=True)
                )


def test_the_command_line(films: str, signed_in: None, cli: Cli) -> None:
    program = 'tail_entities($1, "ACTED_IN"); filter($2, "released", ">", "2000")'
    reply = cli("kg", "walk", films, program, "--topic", "Tom Hanks", "--json").json
    assert reply["answers"] == ["Solaris (m3)"]
    assert reply["evidence"]["Solaris (m3)"] == [
        ["Tom Hanks", "ACTED_IN", "Solaris (m3)"],
        ["Solaris (m3)", "released", "2002"],
    ]
    shown = cli("kg", "info", films, "--json").json
    assert (shown["nodes"], shown["relationships"], shown["timed"]) == (10, 6, True)
    lines = cli("kg", "info", films).stdout.splitlines()
    assert "  Movie               named by: title, properties: id, released, seen, tags, title" in lines
    refused = cli("fit", films)
    assert refused.status == 1
    assert f"`kgwalk kg build {films} -o my.kg` makes one" in refused.stderr


def test_what_goes_wrong_is_told(films: str, server: ArcadeDb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_USERNAME", "root")
    monkeypatch.setenv("NEO4J_PASSWORD", "wrong")
    with pytest.raises(RemoteError, match="set NEO4J_USERNAME and NEO4J_PASSWORD") as refused:
        load_graph(films)
    assert "wrong" not in str(refused.value)
    address = films.replace("//", f"//root:{PASSWORD}@")
    with closing(load_graph(address)) as graph:  # type: ignore[type-var]
        assert PASSWORD not in repr(graph)
        assert "Tom Hanks" in graph
    monkeypatch.setenv("NEO4J_URI", films)
    monkeypatch.setenv("NEO4J_PASSWORD", PASSWORD)
    with open_bolt("neo4j://") as graph:
        assert "Tom Hanks" in graph
    with pytest.raises(RemoteError, match="no connection"):
        load_graph("bolt://127.0.0.1:1")
    with pytest.raises(InputError, match="expected yes or no"):
        load_graph(f"{films}?values=maybe")


def test_without_a_look_for_values(films: str, signed_in: None) -> None:
    with open_bolt(f"{films}?values=no") as graph:
        assert "1995" not in graph
        assert graph.neighbors("Apollo 13", "released").names == ["1995"]
        assert graph.relations("1995", out=False) == ["released"]  # which was met


# --- a property graph in a file

TABLES = """
CREATE NODE TABLE Person(name STRING, born INT64, tags STRING[], PRIMARY KEY(name));
CREATE NODE TABLE Movie(id INT64, title STRING, released INT64, seen DATE, about STRUCT(a INT64), PRIMARY KEY(id));
CREATE NODE TABLE City(name STRING, PRIMARY KEY(name));
CREATE REL TABLE ACTED_IN(FROM Person TO Movie, year INT64);
CREATE REL TABLE `born in`(FROM Person TO City);
CREATE (:Person {name: 'Tom Hanks', born: 1956, tags: ['x', 'y']}), (:Person {name: 'Paris'}), (:City {name: 'Paris'}),
       (:Movie {id: 1, title: 'Solaris', released: 1972}), (:Movie {id: 2, title: 'Solaris', released: 2002}),
       (:Movie {id: 3, title: '1917', seen: date('2020-01-05')});
MATCH (p:Person), (m:Movie {id: 2}) WHERE p.name = 'Tom Hanks' CREATE (p)-[:ACTED_IN {year: 2001}]->(m);
MATCH (p:Person), (c:City) WHERE p.name = 'Tom Hanks' CREATE (p)-[:`born in`]->(c);
"""


@pytest.fixture
def ladybug_films(tmp_path: Path) -> str:
    ladybug = pytest.importorskip("ladybug", reason=NO_LADYBUG)
    database = ladybug.Database(str(tmp_path / "films.lbug"))
    connection = ladybug.Connection(database)
    for query in filter(str.strip, TABLES.split(";\n")):
        connection.execute(query)
    connection.close()
    database.close()
    return f"ladybug:///{tmp_path}/films.lbug"


def test_a_ladybug_file_is_a_graph(ladybug_films: str, cli: Cli) -> None:
    with closing(cast(CypherGraph, load_graph(ladybug_films))) as graph:
        named = {"Tom Hanks": "Person", "Paris (Person)": "Person", "Paris (City)": "City"}
        named |= {"Solaris (1)": "Movie", "Solaris (2)": "Movie", "Movie 1917": "Movie"}  # a number is no name alone
        assert set(graph.match()) == {
            *(Triple(name, "is_a", kind) for name, kind in named.items()),
            *(
                Triple(name, "id", key)
                for name, key in [("Solaris (1)", "1"), ("Solaris (2)", "2"), ("Movie 1917", "3")]
            ),
            Triple("Tom Hanks", "born", "1956"),
            Triple("Tom Hanks", "tags", "x"),
            Triple("Tom Hanks", "tags", "y"),
            Triple("Solaris (1)", "released", "1972"),
            Triple("Solaris (2)", "released", "2002"),
            Triple("Movie 1917", "seen", "2020-01-05"),
            Triple("Tom Hanks", "ACTED_IN", "Solaris (2)", "2001"),
            Triple("Tom Hanks", "born in", "Paris (City)"),
        }
        for fact in graph.match():
            assert fact.relation in graph.relations(fact.head)
            assert fact.relation in graph.relations(fact.tail, out=False)
            assert fact.tail in graph.neighbors(fact.head, fact.relation).names
            assert fact.head in graph.neighbors(fact.tail, fact.relation, out=False).names
        assert "released" not in graph.relations("Movie 1917")  # a column of its table, but empty
        assert graph.find("tom hankz")[0].name == "Tom Hanks"
        assert "'nobody" not in graph
    program = 'filter($1, "released", ">", "2000"); head_entities($2, "ACTED_IN")'
    assert cli("kg", "walk", ladybug_films, program, "--kind", "movies", "--json").json["answers"] == ["Tom Hanks"]


def test_a_store_built_from_a_ladybug_file_says_the_same(ladybug_films: str, tmp_path: Path, cli: Cli) -> None:
    with closing(cast(CypherGraph, load_graph(ladybug_films))) as graph:
        facts = set(graph.match())
    built = cli("kg", "build", ladybug_films, "-o", tmp_path / "films.kg", "--json").json
    assert (built["triples"], built["dates"]) == (len(facts), 1)
    assert set(open_graph(tmp_path / "films.kg").match()) == facts
    # as it is read by its address
    by_id = cli("kg", "build", f"{ladybug_films}?name=Movie.id", "-o", tmp_path / "ids.kg", "--json").json
    assert by_id["triples"] == len(facts)
    assert Triple("Movie 2", "title", "Solaris") in set(open_graph(tmp_path / "ids.kg").match())


def test_a_column_that_the_first_rows_leave_empty(tmp_path: Path) -> None:
    ladybug = pytest.importorskip("ladybug", reason=NO_LADYBUG)
    with ladybug.Database(str(tmp_path / "a.lbug")) as database, ladybug.Connection(database) as connection:
        connection.execute("CREATE NODE TABLE Film(name STRING, year INT64, PRIMARY KEY(name))")
        connection.execute("UNWIND range(1, 3000) AS n CREATE (:Film {name: 'film ' + cast(n AS STRING)})")
        connection.execute("CREATE (:Film {name: 'Big', year: 1988})")
    with closing(load_graph(f"ladybug:///{tmp_path}/a.lbug")) as graph:  # type: ignore[type-var]
        assert graph.relations("Big") == ["is_a", "year"]
        assert graph.neighbors("1988", "year", out=False).names == ["Big"]


def test_a_ladybug_file_that_is_not_there_or_is_none(tmp_path: Path) -> None:
    pytest.importorskip("ladybug", reason=NO_LADYBUG)
    with pytest.raises(StoreError, match="does not exist"):
        load_graph(f"ladybug:///{tmp_path}/none.lbug")
    (tmp_path / "text.lbug").write_text("no database")
    with pytest.raises(StoreError, match=r"text\.lbug: "):
        load_graph(f"ladybug:///{tmp_path}/text.lbug")


# --- tables

SHOP = """
CREATE TABLE suppliers (id INTEGER PRIMARY KEY, name VARCHAR, country VARCHAR);
CREATE TABLE products (sku VARCHAR PRIMARY KEY, title VARCHAR, price DECIMAL(8, 2),
                       supplier_id INTEGER REFERENCES suppliers(id));
CREATE TABLE accessories (product VARCHAR REFERENCES products(sku), accessory VARCHAR REFERENCES products(sku),
                          PRIMARY KEY (product, accessory));
INSERT INTO suppliers VALUES (1, 'Rossi', 'Italy'), (2, 'Weber', 'Germany'), (3, 'Bianchi', 'Italy');
INSERT INTO products VALUES ('B-1', 'city bike', 499.5, 1), ('B-2', 'cargo bike', 2400, 2), ('L-1', 'lamp', 20, 3),
                            ('L-2', 'lock', 35, 2);
INSERT INTO accessories VALUES ('B-1', 'L-1'), ('B-2', 'L-1'), ('B-1', 'L-2');
"""


def sqlite_shop(path: Path) -> str:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(SHOP)
    return f"sqlite:///{path}"


def duckdb_shop(path: Path) -> str:
    duckdb = pytest.importorskip("duckdb", reason=NO_DUCKDB)
    with closing(duckdb.connect(str(path))) as database:
        database.execute(SHOP)
    return f"duckdb:///{path}"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


@pytest.mark.parametrize(("make", "price"), [(sqlite_shop, "2400"), (duckdb_shop, "2400.00")])
def test_a_database_of_tables_is_a_graph(make: Callable[[Path], str], price: str, tmp_path: Path, cli: Cli) -> None:
    address = make(tmp_path / "shop.data")  # by its address the format is known, whatever the name
    graph = load_graph(address)
    assert graph.neighbors("city bike", "supplier_id").names == ["Rossi"]  # a foreign key leads to the row
    leads_to = graph.neighbors("lamp", "accessory", out=False)  # a table of two foreign keys is a relation
    assert sorted(leads_to.names) == ["cargo bike", "city bike"]
    assert graph.neighbors("cargo bike", "price").names == [price]
    assert sorted(graph.neighbors("products", "is_a", out=False).names) == ["cargo bike", "city bike", "lamp", "lock"]
    told = {table["table"]: table for table in cli("kg", "info", address, "--json").json["tables"]}
    assert told["products"]["links"] == {"supplier_id": "suppliers"}
    assert (told["products"]["key"], told["products"]["label"]) == ("sku", ["title"])
    assert told["accessories"]["read_as"] == "relation"
    lines = cli("kg", "info", address).stdout.splitlines()
    assert "table               products: 4 rows by sku, shown by title; supplier_id -> suppliers" in lines
    built = cli("kg", "build", address, "-o", tmp_path / "shop.kg", "--json").json
    assert built["triples"] == len(graph)


def test_a_database_that_changed_is_read_again(tmp_path: Path) -> None:
    address = sqlite_shop(tmp_path / "shop.db")
    assert "Verdi" not in load_graph(address)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("INSERT INTO suppliers VALUES (4, 'Verdi', 'Italy')")
        database.commit()  # which is in the file beside the database, while it is open
        assert "Verdi" in load_graph(address)


@pytest.mark.parametrize("make", [sqlite_shop, duckdb_shop])
def test_an_address_corrects_keys(make: Callable[[Path], str], tmp_path: Path, cli: Cli) -> None:
    """As `kg build --key`; each reading has a copy of its own in the cache."""
    address = make(tmp_path / "shop.data")
    by_title = f"{address}?key=products=title&key=products.supplier_id=none"
    assert load_graph(address).neighbors("city bike", "supplier_id").names == ["Rossi"]
    read = load_graph(by_title)
    assert read.neighbors("city bike", "supplier_id").names == ["1"]
    assert load_graph(address).neighbors("city bike", "supplier_id").names == ["Rossi"]
    told = {table["table"]: table for table in cli("kg", "info", by_title, "--json").json["tables"]}
    assert (told["products"]["key"], told["products"]["links"]) == ("title", {})
    said = ("--key", "products=title", "--key", "products.supplier_id=none")
    cli("kg", "build", address, *said, "-o", tmp_path / "said.kg", "--json")
    cli("kg", "build", by_title, "-o", tmp_path / "address.kg", "--json")
    facts = set(open_graph(tmp_path / "said.kg").match())
    assert facts == set(open_graph(tmp_path / "address.kg").match()) == set(read.match())
    # one that is said by both is the option's; a name may be encoded
    cli("kg", "build", f"{address}?key=products%3Dsku", *said, "-o", tmp_path / "both.kg", "--json")
    assert set(open_graph(tmp_path / "both.kg").match()) == facts


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("key=products=skuu", "key products=skuu: no column of products is called 'skuu'; did you mean 'sku'"),
        ("key=product=sku", "key product=sku: no table is called 'product'; did you mean 'products'"),
        ("key=products", "expected TABLE=COLUMN"),
        ("keys=products=sku", r"unknown setting 'keys=products=sku'; as in sqlite:.*\?key=TABLE=COLUMN"),
        ("key=", "unknown setting 'key='"),
    ],
)
def test_keys_of_an_address_that_are_wrong(query: str, message: str, tmp_path: Path) -> None:
    with pytest.raises((InputError, StoreError), match=message):
        load_graph(f"{sqlite_shop(tmp_path / 'shop.db')}?{query}")


def test_tables_beside_a_virtual_one(tmp_path: Path) -> None:
    """A virtual table keeps what it holds in tables called after it; others may be called so, too."""
    with closing(sqlite3.connect(tmp_path / "films.db")) as database:
        database.executescript("""
            CREATE VIRTUAL TABLE film USING fts5(title);
            CREATE TABLE film_actor (film VARCHAR PRIMARY KEY, actor VARCHAR);
            INSERT INTO film VALUES ('Big');
            INSERT INTO film_actor VALUES ('Big', 'Tom Hanks');
        """)
    graph = load_graph(f"sqlite:///{tmp_path / 'films.db'}")
    assert set(graph.match()) == {Triple("Big", "actor", "Tom Hanks"), Triple("Big", "is_a", "film_actor")}


def test_a_table_that_begins_with_an_underscore_is_no_kind(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "places.db")) as database:
        database.executescript("""
            CREATE TABLE _place (name VARCHAR PRIMARY KEY, capital VARCHAR REFERENCES _place(name));
            INSERT INTO _place VALUES ('France', 'Paris'), ('Paris', NULL);
        """)
    assert set(load_graph(f"sqlite:///{tmp_path / 'places.db'}").match()) == {Triple("France", "capital", "Paris")}


def test_an_update_of_a_store_from_an_address(tmp_path: Path, cli: Cli) -> None:
    address = sqlite_shop(tmp_path / "shop.db")
    assert cli("kg", "build", address, "-o", tmp_path / "shop.kg").status == 0
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute("INSERT INTO suppliers VALUES (4, 'Verdi', 'Italy')")
        database.commit()
    assert cli("kg", "update", tmp_path / "shop.kg", address, "--json").json["added"] == 3  # country, id, is_a
    assert cli("kg", "update", tmp_path / "shop.kg", "--remove", address, "--json").json["triples"] == 0


def test_a_walk_over_a_database(tmp_path: Path, cli: Cli) -> None:
    address = sqlite_shop(tmp_path / "shop.db")
    program = 'head_entities("Italy", "country"); head_entities($1, "supplier_id"); argmax($2, "price")'
    assert cli("kg", "walk", address, program, "--json").json["answers"] == ["city bike"]


def test_a_duckdb_file_by_any_name(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "shop.db"  # as people call them
    duckdb_shop(path)
    assert cli("kg", "build", path, "-o", tmp_path / "shop.kg", "--json").json["triples"] == 28


def test_a_list_in_a_cell_is_several_facts(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason=NO_DUCKDB)
    with closing(duckdb.connect(str(tmp_path / "a.duckdb"))) as database:
        database.execute("CREATE TABLE films (title VARCHAR, tags VARCHAR[], about STRUCT(a INT), seen DATE)")
        database.execute("INSERT INTO films VALUES ('Big', ['comedy', 'fantasy'], {'a': 1}, '1988-06-03')")
    graph = load_graph(f"duckdb:///{tmp_path / 'a.duckdb'}")
    assert sorted(graph.neighbors("Big", "tags").names) == ["comedy", "fantasy"]
    assert graph.neighbors("Big", "seen").names == ["1988-06-03"]
    assert not graph.has_relation("about")


def test_a_database_that_is_not_there_or_is_none(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no file"):
        load_graph(f"sqlite:///{tmp_path}/none.db")
    (tmp_path / "text.db").write_text("no database, whatever its name says, and long enough")
    with pytest.raises(InputError, match="cannot be read as an SQLite database"):
        load_graph(f"sqlite:///{tmp_path}/text.db")
    pytest.importorskip("duckdb", reason=NO_DUCKDB)
    with pytest.raises(InputError, match="cannot be read as a DuckDB database"):
        load_graph(f"duckdb:///{tmp_path}/text.db")
