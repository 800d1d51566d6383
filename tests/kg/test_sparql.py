"""SparqlGraph against real SPARQL engines on a loopback port: Oxigraph, and Virtuoso by `make test-virtuoso`."""

from __future__ import annotations

import http.server
import os
import re
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pyoxigraph
import pytest
from benchmarks import virtuoso
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from commands import Cli
from kgwalk.config import http as http_module
from kgwalk.kg import sparql_facts
from kgwalk.kg.graph import Graph, LruCache
from kgwalk.kg.sparql import WIKIDATA_TIMEOUT, SparqlGraph
from kgwalk.kg.sparql_client import XSD, Term, iri, is_iri, is_wellformed, literal, local_part, render
from kgwalk.kg.sparql_names import rank
from kgwalk.kg.store import load_graph, open_graph, shown_address
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.types import (
    Call,
    Found,
    InputError,
    Neighbors,
    Question,
    RemoteError,
    Triple,
    UnknownEntity,
    UnknownRelation,
)
from kgwalk.walk.kind_listing import listed_kinds
from kgwalk.walk.kinds import kinds_of
from kgwalk.walk.language import Sets
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.sets import SetError

EX = "http://example.org/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
VIRTUOSO = os.environ.get("KGWALK_TEST_SPARQL") == "virtuoso"

# Two films called Titanic; two things called Twin whose IRIs end alike; Winslet and the relation `year`
# without a label; Cast Away with an untagged one; :paris with an Italian one only; a crew without an IRI.
FILMS = r"""
@prefix : <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .

:starring rdfs:label "starring"@en, "mit"@de .
:director rdfs:label "directed by"@en .
:wrote rdfs:label "made"@en .
:built rdfs:label "made"@en .

:hanks rdfs:label "Tom Hanks"@en, "Tom Jeffrey Hanks"@de ; :born "1956-07-09"^^xsd:date ; :wrote :apollo13 .
:howard rdfs:label "Ron Howard"@en ; :built :apollo13 .
:apollo13 rdfs:label "Apollo 13"@en ; :starring :hanks ; :director :howard ; :year "1995"^^xsd:gYear ;
    :crew [ :role "pilot" ] .
:cast_away rdfs:label "Cast Away" ; :starring :hanks ; :year "2000"^^xsd:gYear, "2000"^^xsd:integer .
:t1943 rdfs:label "Titanic"@en ; :year "1943"^^xsd:gYear .
:t1997 rdfs:label "Titanic"@en ; :starring :winslet ; :year "1997"^^xsd:gYear ;
    :tagline "Nothing \"on\" Earth\n\\o/" .
<http://example.org/a/twin> rdfs:label "Twin"@en ; :knows <http://example.org/b/twin> .
<http://example.org/b/twin> rdfs:label "Twin"@en ; :knows :paris .
:paris rdfs:label "Parigi"@it ; :motto "fluctuat"@la .
:only_a_label rdfs:label "Ghost"@en .
"""

FACTS = {  # all of FILMS that is a fact, by hand: no labels, no blank node
    Triple("Tom Hanks", f"{EX}born", "1956-07-09"),
    Triple("Tom Hanks", "made (wrote)", "Apollo 13"),
    Triple("Ron Howard", "made (built)", "Apollo 13"),
    Triple("Apollo 13", "starring", "Tom Hanks"),
    Triple("Apollo 13", "directed by", "Ron Howard"),
    Triple("Apollo 13", f"{EX}year", "1995"),
    Triple("Cast Away", "starring", "Tom Hanks"),
    Triple("Cast Away", f"{EX}year", "2000"),
    Triple("Titanic (t1943)", f"{EX}year", "1943"),
    Triple("Titanic (t1997)", "starring", f"{EX}winslet"),
    Triple("Titanic (t1997)", f"{EX}year", "1997"),
    Triple("Titanic (t1997)", f"{EX}tagline", 'Nothing "on" Earth\n\\o/'),
    Triple(f"{EX}a/twin", f"{EX}knows", f"{EX}b/twin"),
    Triple(f"{EX}b/twin", f"{EX}knows", f"{EX}paris"),
    Triple(f"{EX}paris", f"{EX}motto", "fluctuat"),
}

WIKIBASE = """
@prefix wd: <http://www.wikidata.org/entity/> .
@prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix p: <http://www.wikidata.org/prop/> .
@prefix wikibase: <http://wikiba.se/ontology#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .

wd:P31 wikibase:directClaim wdt:P31 ; wikibase:claim p:P31 ; rdfs:label "instance of"@en .
wd:P99 wikibase:directClaim wdt:P99 ; rdfs:label "never used"@en .
wd:Q42 rdfs:label "Douglas Adams"@en ; wdt:P31 wd:Q5 ; p:P31 <http://www.wikidata.org/entity/statement/1> .
wd:Q5 rdfs:label "human"@en .
"""

# Cleveland was president twice, McKinley from a year on; Roosevelt has a statement that is not of the best rank, one
# that ends before it starts, and one whose start nobody knows; Caesar's date is before the year 1, which RDF counts.
PRESIDENTS = """
@prefix wd: <http://www.wikidata.org/entity/> .
@prefix s: <http://www.wikidata.org/entity/statement/> .
@prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix p: <http://www.wikidata.org/prop/> .
@prefix ps: <http://www.wikidata.org/prop/statement/> .
@prefix pq: <http://www.wikidata.org/prop/qualifier/> .
@prefix pqv: <http://www.wikidata.org/prop/qualifier/value/> .
@prefix wikibase: <http://wikiba.se/ontology#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .

wd:P39 wikibase:directClaim wdt:P39 ; wikibase:claim p:P39 ; wikibase:statementProperty ps:P39 ;
    rdfs:label "position held"@en .
wd:P1082 wikibase:directClaim wdt:P1082 ; wikibase:claim p:P1082 ; wikibase:statementProperty ps:P1082 ;
    rdfs:label "population"@en .
wd:Q1 rdfs:label "president"@en . wd:Q2 rdfs:label "governor"@en . wd:Q3 rdfs:label "mayor"@en .

wd:Q11 rdfs:label "Grover Cleveland"@en ; wdt:P39 wd:Q1, wd:Q3 ; p:P39 s:a, s:b, s:c .
s:a a wikibase:BestRank ; ps:P39 wd:Q1 ;
    pq:P580 "1885-03-04T00:00:00Z"^^xsd:dateTime ; pq:P582 "1889-03-04T00:00:00Z"^^xsd:dateTime .
s:b a wikibase:BestRank ; ps:P39 wd:Q1 ;
    pq:P580 "1893-03-04T00:00:00Z"^^xsd:dateTime ; pq:P582 "1897-03-04T00:00:00Z"^^xsd:dateTime .
s:c a wikibase:BestRank ; ps:P39 wd:Q3 .

wd:Q12 rdfs:label "William McKinley"@en ; wdt:P39 wd:Q1 ; p:P39 s:d .
s:d a wikibase:BestRank ; ps:P39 wd:Q1 ; pq:P580 "1897-01-01T00:00:00Z"^^xsd:dateTime ;
    pqv:P580 [ wikibase:timeValue "1897-01-01T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 9 ] .

wd:Q13 rdfs:label "Theodore Roosevelt"@en ; wdt:P39 wd:Q1, wd:Q2, wd:Q3 ; p:P39 s:e, s:f, s:g, s:h .
s:e a wikibase:BestRank ; ps:P39 wd:Q1 ; pq:P580 _:unknown ; pq:P582 "1909-03-04T00:00:00Z"^^xsd:dateTime .
s:f ps:P39 wd:Q1 ; pq:P585 "1900-01-01T00:00:00Z"^^xsd:dateTime .
s:g a wikibase:BestRank ; ps:P39 wd:Q2 ;
    pq:P580 "1900-01-01T00:00:00Z"^^xsd:dateTime ; pq:P582 "1899-01-01T00:00:00Z"^^xsd:dateTime .
s:h a wikibase:BestRank ; ps:P39 wd:Q3 ; pq:P585 "1905-06-30T00:00:00Z"^^xsd:dateTime ;
    pqv:P585 [ wikibase:timeValue "1905-06-30T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 10 ] .

wd:Q14 rdfs:label "Buffalo"@en ; wdt:P1082 278349 ; p:P1082 s:i .
s:i a wikibase:BestRank ; ps:P1082 278349 ; pq:P585 "2020-04-01T00:00:00Z"^^xsd:dateTime .
wd:Q15 rdfs:label "Caesar"@en ; wdt:P39 wd:Q2 ; p:P39 s:j .
s:j a wikibase:BestRank ; ps:P39 wd:Q2 ; pq:P580 "-0057-01-01T00:00:00Z"^^xsd:dateTime ;
    pqv:P580 [ wikibase:timeValue "-0057-01-01T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 9 ] .
"""

TERMS = {  # all of PRESIDENTS, by hand
    Triple("Grover Cleveland", "position held", "president", "1885-03-04..1889-03-04"),
    Triple("Grover Cleveland", "position held", "president", "1893-03-04..1897-03-04"),
    Triple("Grover Cleveland", "position held", "mayor"),
    Triple("William McKinley", "position held", "president", "1897.."),
    Triple("Theodore Roosevelt", "position held", "president", "..1909-03-04"),
    Triple("Theodore Roosevelt", "position held", "governor"),
    Triple("Theodore Roosevelt", "position held", "mayor", "1905-06"),
    Triple("Buffalo", "population", "278349", "2020-04-01"),
    Triple("Caesar", "position held", "governor", "-58.."),
}

FREEBASE = """
@prefix : <http://rdf.freebase.com/ns/> .

:m.02mjmr :type.object.name "Barack Obama"@en ; :people.person.place_of_birth :m.02hrh0_ .
:m.02hrh0_ :type.object.name "Honolulu"@en ; :location.location.containedby :m.nameless .
:people.person.place_of_birth :type.object.name "Place of birth"@en .
"""


IMPOSTORS = """
@prefix : <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:list :has :evil, :b1, :b2, :plain, <http://example.org/>, <http://example.org/c/b1> .
:evil rdfs:label "http://example.org/plain" .
:b1 rdfs:label "Berlin" . :b2 rdfs:label "Berlin" .
<http://example.org/c/b1> rdfs:label "Berlin (b2)" .
<http://example.org/> rdfs:label "Berlin" .
"""

CLIENT = httpx.Client()  # shared: making one costs 20 ms, and the server keeps no connection open


class Reply(NamedTuple):
    """What the server answers instead of asking the store."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


class Server:
    """A store behind HTTP. It answers with `script` while that lasts, then from the store."""

    def __init__(self, turtle: str = "") -> None:
        self.store = pyoxigraph.Store()
        self.store.load(turtle.encode(), format=pyoxigraph.RdfFormat.TURTLE)
        self.loaded = ""  # Virtuoso's graph, and what it holds
        self.held: bytes | None = None
        self.script: list[Reply] = []
        self.queries: list[str] = []
        self.requests: list[Any] = []
        self.release = threading.Event()  # a slow reply waits for it
        self.release.set()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        class Http(http.server.ThreadingHTTPServer):
            request_queue_size = 64  # the default of 5 turns threads away, and they come back a second later
            daemon_threads = False  # so that server_close waits for the last reply

        self._http = Http(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}/sparql"

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"])).decode()
        query = urllib.parse.parse_qs(body)["query"][0]
        self.queries.append(query)
        self.requests.append(request.headers)
        self.release.wait(5)
        reply = self.script.pop(0) if self.script else self.ask(query)
        try:
            request.send_response(reply.status)
            for name, value in reply.headers.items():
                request.send_header(name, value)
            request.end_headers()
            request.wfile.write(reply.body)
        except ConnectionError:
            pass  # the client stopped waiting, as the test of the timeout wants

    def ask(self, query: str) -> Reply:
        if VIRTUOSO:
            return self.ask_virtuoso(query)
        try:
            results = self.store.query(query)
        except SyntaxError as error:
            return Reply(400, str(error).encode())
        assert isinstance(results, pyoxigraph.QuerySolutions)
        return Reply(body=results.serialize(format=pyoxigraph.QueryResultsFormat.JSON) or b"")

    def ask_virtuoso(self, query: str) -> Reply:
        """The same data in Virtuoso, loaded anew where a test has changed the store."""
        data = self.store.dump(format=pyoxigraph.RdfFormat.N_TRIPLES, from_graph=pyoxigraph.DefaultGraph()) or b""
        if data != self.held:
            self.loaded, self.held = virtuoso.running().load(data), data
        reply = virtuoso.running().query(query, self.loaded, {"Accept": "application/sparql-results+json"})
        kept = {name: value for name, value in reply.headers.items() if name.startswith("x-sql")}
        return Reply(reply.status_code, reply.content, kept)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture(scope="module", autouse=True)
def _close_client() -> Iterator[None]:
    yield
    CLIENT.close()


@pytest.fixture(scope="module")
def films() -> Iterator[Server]:
    with Server(FILMS) as server:
        yield server


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of its own, for a test that scripts replies or counts queries."""
    with Server(FILMS) as server:
        yield server


@pytest.fixture
def graph(films: Server) -> Iterator[SparqlGraph]:
    with SparqlGraph(films.url, client=CLIENT) as graph:
        yield graph


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between tries, in seconds; none is slept."""
    slept: list[float] = []
    monkeypatch.setattr(http_module, "_sleep", slept.append)
    return slept


# --- the graph, by hand


def test_is_a_graph(graph: SparqlGraph, films: Server) -> None:
    assert isinstance(graph, Graph)
    assert repr(graph) == f"SparqlGraph('{films.url}')"


def test_contains_what_has_a_fact(graph: SparqlGraph) -> None:
    for name in ("Tom Hanks", "Cast Away", f"{EX}winslet", f"{EX}hanks", "1995"):
        assert name in graph, name
    for name in ("Ghost", "Parigi", "tom hanks", "", f"{EX}nobody", "pilot", 13, None):
        assert name not in graph, name


def test_has_relation(graph: SparqlGraph) -> None:
    for name in ("starring", "made", "made (built)", f"{EX}year", f"{EX}starring"):
        assert graph.has_relation(name), name
    for name in ("Starring", "mit", "year", "http://www.w3.org/2000/01/rdf-schema#label", f"{EX}role"):
        assert not graph.has_relation(name), name


def test_relations_are_alphabetical_without_labels_and_blank_nodes(graph: SparqlGraph) -> None:
    assert graph.relations("Apollo 13") == ["directed by", f"{EX}year", "starring"]
    assert graph.relations("Apollo 13", out=False) == ["made (built)", "made (wrote)"]
    assert graph.relations("Tom Hanks", out=False) == ["starring"]
    assert graph.relations(f"{EX}winslet") == []


def test_neighbors_both_ways(graph: SparqlGraph) -> None:
    assert graph.neighbors("Apollo 13", "starring") == Neighbors(["Tom Hanks"], 1)
    assert graph.neighbors("Tom Hanks", "starring", out=False) == Neighbors(["Apollo 13", "Cast Away"], 2)
    assert graph.neighbors("Ron Howard", "starring") == Neighbors([], 0)
    assert graph.neighbors(f"{EX}apollo13", f"{EX}director") == Neighbors(["Ron Howard"], 1)


def test_match_every_pattern(graph: SparqlGraph) -> None:
    everything = list(graph.match())
    assert set(everything) == FACTS
    assert len(everything) == len(FACTS)
    for fact in FACTS:
        for pattern in range(8):
            given = [name if pattern >> place & 1 else None for place, name in enumerate(fact[:3])]
            expected = {one for one in FACTS if all(g in (None, name) for g, name in zip(given, one, strict=False))}
            assert set(graph.match(*given)) == expected, given


def test_match_shows_the_name_of_what_was_given_by_iri_or_bare_label(graph: SparqlGraph) -> None:
    assert list(graph.match("Titanic", f"{EX}starring")) == [Triple("Titanic (t1997)", "starring", f"{EX}winslet")]


def test_match_limits(graph: SparqlGraph) -> None:
    assert list(graph.match(limit=0)) == []
    assert len(list(graph.match(limit=4))) == 4
    assert len(list(graph.match(limit=400))) == len(FACTS)


def test_unknown_names_raise_with_near_ones_that_were_shown(graph: SparqlGraph) -> None:
    graph.neighbors("Apollo 13", "starring")
    with pytest.raises(UnknownEntity, match="'Tom Hank' is not in the graph; did you mean 'Tom Hanks'") as unknown:
        graph.relations("Tom Hank")
    assert unknown.value.nearest == ["Tom Hanks"]
    with pytest.raises(UnknownRelation, match="'staring'"):
        graph.neighbors("Apollo 13", "staring")
    with pytest.raises(UnknownEntity):
        graph.neighbors("Ghost", "starring")
    for pattern in (("nobody", None, None), (None, "nothing", None), (None, None, "nobody")):
        assert list(graph.match(*pattern)) == []


# --- by its address


def opened(address: str) -> SparqlGraph:
    graph = load_graph(address)
    assert isinstance(graph, SparqlGraph)
    return graph


def read_as(address: str) -> dict[str, Any]:
    """The settings of the graph at an address, which nobody is asked for."""
    with opened(address) as graph:
        return {**graph._settings, "url": graph._endpoint.url, "seconds": graph._endpoint.timeout}


def test_an_address_is_a_graph(films: Server) -> None:
    with opened(f"sparql+{films.url}") as graph:
        assert graph.neighbors("Apollo 13", "starring") == Neighbors(["Tom Hanks"], 1)
        assert set(graph.match()) == FACTS


def test_an_address_carries_settings(films: Server) -> None:
    with opened(f"sparql+{films.url}?lang=de&namespace={urllib.parse.quote(EX, safe='')}&page=2") as graph:
        assert "Tom Jeffrey Hanks" in graph
        assert graph.neighbors("cast_away", "year").names == ["2000"]
    with opened(f"sparql+{films.url}?relation_label=&label=http://www.w3.org/2000/01/rdf-schema%23label") as graph:
        assert graph.relations("Apollo 13") == [f"{EX}director", f"{EX}starring", f"{EX}year"]
    with Server(WIKIBASE) as server, opened(f"sparql+{server.url}?wikibase=yes") as graph:
        assert graph.neighbors("Douglas Adams", "instance of").names == ["human"]


def test_what_is_not_ours_is_sent_to_the_endpoint() -> None:
    address = "sparql+http://host/sparql?default-graph-uri=http%3A%2F%2Ffilms&lang=de&key=a+b%26c&timeout=30&empty"
    settings = read_as(address)
    assert settings["url"] == "http://host/sparql?default-graph-uri=http%3A%2F%2Ffilms&key=a+b%26c&empty"
    assert (settings["lang"], settings["timeout"], settings["seconds"]) == ("de", 30.0, 30.0)
    assert read_as("sparql+http://host/sparql?page=7")["url"] == "http://host/sparql"
    # what the endpoint is told may be a key
    assert shown_address(address) == "sparql+http://host/sparql?default-graph-uri=***&lang=de&key=***&timeout=30&***"


@pytest.mark.parametrize("host", ["query.wikidata.org", "query-main.wikidata.org", "QUERY.WIKIDATA.ORG"])
def test_wikidata_is_recognised(host: str) -> None:
    settings = read_as(f"sparql+https://{host}/sparql")
    assert (settings["wikibase"], settings["times"], settings["seconds"]) == (True, True, WIKIDATA_TIMEOUT)
    settings = read_as(f"sparql+https://{host}/sparql?lang=fr&timeout=5&wikibase=no")
    assert (settings["wikibase"], settings["seconds"], settings["lang"]) == (False, 5.0, "fr")
    assert not settings["times"]
    assert not read_as(f"sparql+https://{host}/sparql?times=no")["times"]


def test_another_host_is_no_wikidata() -> None:
    for host in ("query.wikidata.org.example.org", "example.org/query.wikidata.org", "query.wikidata.org@example.org"):
        assert not read_as(f"sparql+https://{host}/sparql")["wikibase"]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("wikibse=yes", "unknown setting 'wikibse'; did you mean 'wikibase'"),
        ("Lang=de", "did you mean 'lang'"),
        ("relation-label=", "did you mean 'relation_label'"),
        ("timout=3", "did you mean 'timeout'"),
        ("wikibase=true", "wikibase=true: expected yes or no"),
        ("times=yes", "times are those of a Wikibase's statements"),
        ("time=yes", "did you mean 'times'"),
        ("timeout=soon", "timeout=soon: expected seconds"),
        ("timeout=inf", "timeout=inf: expected seconds"),
        ("page=0", "page=0: expected a number of rows"),
        ("label=", "label=: expected the IRI of a predicate"),
        ("label=name", "label is not an absolute IRI"),
        ("namespace=http://a/%3E%20%7D", "namespace is not an absolute IRI"),
        ("lang=en%22%20%7D", "lang is not a language tag"),
    ],
)
def test_settings_of_an_address_that_cannot_be(said: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as refused:
        load_graph(f"sparql+http://me:secret@host/sparql?key=secret&{said}")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("address", ["sparql+ftp://me:secret@host", "sparql+http://?lang=de&key=secret", "sparql+host"])
def test_an_address_of_no_endpoint(address: str) -> None:
    with pytest.raises(InputError, match="not the address of a SPARQL endpoint") as refused:
        load_graph(address)
    assert "secret" not in str(refused.value)


def test_commands_take_an_address(films: Server, tmp_path: Path, cli: Cli) -> None:
    address = f"sparql+{films.url}"
    told = cli("kg", "info", f"{address}?lang=de&page=500", "--json").json
    fact = told.pop("fact")
    assert told == {
        "address": films.url,
        "wikibase": False,
        "times": False,
        "lang": "de",
        "label": sparql_facts.RDFS_LABEL,
        "relation_label": sparql_facts.RDFS_LABEL,
        "namespace": "",
        "timeout": 10.0,
        "page": 500,
    }
    assert len(fact) == 3
    lines = cli("kg", "info", address).stdout.splitlines()
    assert lines[:3] == [
        f"address             {films.url}",
        "wikibase                        no",
        "times                           no",
    ]
    hop = cli("kg", "query", address, "Apollo 13", "starring", "-d", "out", "--json").json["out"]
    assert hop["names"] == ["Tom Hanks"]
    built = cli("kg", "build", address, "-o", tmp_path / "films.kg", "--json").json
    assert built["triples"] == len(FACTS)
    assert set(open_graph(tmp_path / "films.kg").match()) == FACTS
    program = 'tail_entities($1, "starring")'
    assert cli("kg", "walk", address, program, "--topic", "Cast Away", "--json").json["answers"] == ["Tom Hanks"]
    refused = cli("kg", "build", f"{address}?wikibse=yes", "-o", tmp_path / "none.kg")
    assert refused.status == 1
    assert "did you mean 'wikibase'" in refused.stderr
    refused = cli("fit", f"{address}?lang=de&page=5")
    assert refused.status == 1
    assert f"`kgwalk kg build '{address}?lang=de&page=5' -o my.kg` makes one" in refused.stderr


def test_an_endpoint_without_facts(cli: Cli) -> None:
    with Server() as server:
        assert "fact                          none" in cli("kg", "info", f"sparql+{server.url}").stdout.splitlines()


# --- many at once


def test_what_is_fetched_for_many_is_what_one_is_told(films: Server) -> None:
    names = [*{name for fact in FACTS for name in (fact.head, fact.tail)}, "Titanic", "Parigi", "nobody", f"{EX}hanks"]
    ways = [(relation, out) for relation in {fact.relation for fact in FACTS} for out in (True, False)]
    with SparqlGraph(films.url, client=CLIENT) as one, SparqlGraph(films.url, client=CLIENT) as many:
        many.fetch_names(names)
        assert [name in many for name in names] == [name in one for name in names]
        there = [name for name in names if name in one]
        for out in (True, False):
            many.fetch_relations(names, out=out)
            for name in there:
                assert many.relations(name, out=out) == one.relations(name, out=out)
        for fetched in (ways[:3], ways):  # a part of it is there already
            many.fetch_some(names, fetched, 1)
            for name in there:
                for relation, out in fetched:
                    told = one.neighbors(name, relation, out=out)
                    assert many.neighbors(name, relation, out=out) == told
        with pytest.raises(UnknownRelation):
            many.fetch_neighbors(names, "staring", out=True)


def staff(people: int) -> str:
    """So many people, each in one of ten teams, with a salary; a team has a site."""
    said = [f':t{n} rdfs:label "team {n}" ; :at :s{n} . :s{n} rdfs:label "site {n}" .' for n in range(10)]
    said += [f':e{n} rdfs:label "employee {n}" ; :works_in :t{n % 10} ; :salary {1000 + n} .' for n in range(people)]
    prefixes = "@prefix : <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> ."
    return "\n".join([prefixes, *said])


def queries_of_steps(people: int) -> tuple[list[int], list[int]]:
    """How many queries each step of a walk took, with the listing of what is around its set; and the sets' sizes."""
    with Server(staff(people)) as server, SparqlGraph(server.url, client=CLIENT, namespace=EX) as graph:
        protocol = Kgwalk(language="full", ahead=8, samples=True)
        walk = protocol.begin(Task(Question("q", "?", [], []), ["team 1"], kinds=[]), Environment(graph), len)
        counts, sizes = [], []
        steps = [("head_entities", (1, "works_in")), ("filter", (2, "salary", ">", "1000"))]
        for tool, args in [*steps, ("tail_entities", (3, "works_in/at"))]:
            before = len(server.queries)
            assert walk.act(Call(tool, args)).ok
            counts.append(len(server.queries) - before)
            sizes.append(len(walk.sets.made[-1]))
        return counts, sizes


def test_a_step_takes_as_many_queries_for_a_hundred_as_for_fifteen() -> None:
    few, of_few = queries_of_steps(150)
    many, of_many = queries_of_steps(1000)
    assert (of_few, of_many) == ([15, 15, 1], [100, 100, 1])
    assert many == few
    assert max(many) <= 30


def test_what_a_hub_leads_to_is_counted_and_the_first_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparql_facts, "FEW", 3)
    with Server(staff(50)) as server, SparqlGraph(server.url, client=CLIENT, namespace=EX) as graph:
        graph.fetch_some(["team 1", "team 2", "site 1"], [("works_in", False), ("at", False), ("at", True)], 2)
        asked = len(server.queries)
        assert graph.neighbors("team 1", "works_in", out=False, limit=2) == Neighbors(["employee 1", "employee 11"], 5)
        assert graph.neighbors("team 2", "at", limit=2) == Neighbors(["site 2"], 1)
        assert graph.neighbors("site 1", "at", out=False, limit=2) == Neighbors(["team 1"], 1)
        assert len(server.queries) == asked
        assert graph.neighbors("team 1", "works_in", out=False).total == 5  # all of them are asked for


def test_a_relation_is_fetched_by_whichever_name_it_is_asked_for() -> None:
    """Two relations are labelled "starring", so they are shown by their IRIs; the label means the first of them."""
    facts = f"<{EX}Big> <{EX}starring> <{EX}Tom> .\n<{EX}Big> <{EX}p/starring> <{EX}Ann> .\n"
    labels = {"starring": "starring", "p/starring": "starring", "Big": "Big", "Tom": "Tom", "Ann": "Ann"}
    facts += "".join(f'<{EX}{one}> <{LABEL}> "{label}" .\n' for one, label in labels.items())
    for names in (["starring"], [f"{EX}starring"], ["starring", f"{EX}starring"], [f"{EX}p/starring", "starring"]):
        with Server(facts) as server, SparqlGraph(server.url, client=CLIENT) as graph:
            expected = {one: graph.neighbors("Big", one).names for one in names}
        assert all(expected.values())
        with Server(facts) as server, SparqlGraph(server.url, client=CLIENT) as graph:
            graph.fetch_some(["Big"], [(one, True) for one in names], 5)
            assert {one: graph.neighbors("Big", one).names for one in names} == expected
        with Server(facts) as server, SparqlGraph(server.url, client=CLIENT) as graph:
            for one in names:
                graph.fetch_neighbors(["Big"], one, out=True)
            assert {one: graph.neighbors("Big", one).names for one in names} == expected


def test_an_endpoint_that_cannot_tell_its_kinds_in_time_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*names: object, **options: object) -> None:
        raise RemoteError("it took too long")

    monkeypatch.setattr(SparqlGraph, "fetch_relations", slow)
    with Server(staff(20)) as server, SparqlGraph(server.url, client=CLIENT, namespace=EX) as graph:
        assert dict(kinds_of(graph)) == {}
        before = len(server.queries)
        assert dict(kinds_of(graph)) == {}
        assert len(server.queries) == before  # it is not asked again


def test_kinds_that_no_class_says_are_told_by_relations() -> None:
    with Server(staff(60)) as server, SparqlGraph(server.url, client=CLIENT, namespace=EX) as graph:
        ends = {one.relation: (one.heads, one.tails) for one in graph.relation_ends(10, 2000, 5)}
        assert ends == {"at": (10, 10), "salary": (60, 60), "works_in": (60, 10)}
        assert graph.relation_ends(2, 2000, 5) == []  # more than two
        before = len(server.queries)
        assert [one.kind.name for one in listed_kinds(graph, 24)] == ["thing", "at", "works"]
        assert listed_kinds(graph, 24)
        assert len(server.queries) - before <= 12  # with those that name the ends, once
        sets = Sets(graph, [], empty=True)
        assert len(sets.made[sets.call("all", ["works"]) - 1]) == 60  # what works in a team
        assert len(sets.made[sets.call("all", ["thing"]) - 1]) == 70
        with pytest.raises(SetError, match='no kind "salary"'):
            sets.call("all", ["salary"])


# --- names


def test_homonyms_are_told_apart_and_can_be_given_back(graph: SparqlGraph) -> None:
    assert graph.neighbors("Titanic (t1943)", f"{EX}year").names == ["1943"]
    assert graph.neighbors("Titanic (t1997)", f"{EX}year").names == ["1997"]
    assert graph.neighbors(f"{EX}a/twin", f"{EX}knows").names == [f"{EX}b/twin"]
    assert "Titanic (997)" not in graph
    assert "Twin (twin)" in graph  # carried by both: the first of them


def test_a_bare_label_means_the_thing_with_most_outgoing_facts(graph: SparqlGraph) -> None:
    assert graph.neighbors("Titanic", f"{EX}year").names == ["1997"]  # three facts against one
    assert graph.neighbors("Twin", f"{EX}knows").names == [f"{EX}b/twin"]  # one each: the first by IRI
    assert graph.neighbors("Ron Howard", "made").total == 1  # a relation: :built comes before :wrote


def test_a_name_does_not_depend_on_who_else_is_shown(graph: SparqlGraph) -> None:
    assert [fact.head for fact in graph.match(tail="1943")] == ["Titanic (t1943)"]


def test_every_name_comes_back_without_any_memory(films: Server) -> None:
    with SparqlGraph(films.url, client=CLIENT, cache=0) as graph:
        for head, relation, tail, _ in FACTS:
            if tail != "fluctuat":  # known by its language tag alone, which a name does not tell
                assert Triple(head, relation, tail) in set(graph.match(head, relation, tail))
        assert graph.cache_info()[:3:2] == (0, 0)


def test_a_shown_literal_leads_back(graph: SparqlGraph) -> None:
    with pytest.raises(UnknownEntity):
        graph.neighbors("fluctuat", f"{EX}motto", out=False)
    assert graph.neighbors(f"{EX}paris", f"{EX}motto").names == ["fluctuat"]
    assert graph.neighbors("fluctuat", f"{EX}motto", out=False).names == [f"{EX}paris"]
    assert graph.relations("fluctuat") == []
    assert graph.neighbors("fluctuat", "starring") == Neighbors([], 0)
    assert list(graph.match("fluctuat")) == []


def test_literals_of_two_types_that_read_the_same_are_one_name(films: Server) -> None:
    for page in (1, 2, 1000):
        with SparqlGraph(films.url, client=CLIENT, page=page) as graph:
            assert graph.neighbors("Cast Away", f"{EX}year") == Neighbors(["2000"], 1)
            assert graph.neighbors("Cast Away", f"{EX}year", limit=1) == Neighbors(["2000"], 1)
            assert graph.neighbors("2000", f"{EX}year", out=False) == Neighbors(["Cast Away"], 1)


def test_labels_in_another_language(films: Server) -> None:
    with SparqlGraph(films.url, client=CLIENT, lang="DE") as graph:
        assert list(graph.match("Tom Jeffrey Hanks", f"{EX}born")) == [
            Triple("Tom Jeffrey Hanks", f"{EX}born", "1956-07-09")
        ]
        assert graph.relations("Tom Jeffrey Hanks", out=False) == ["mit"]
        assert "Cast Away" in graph
        assert "Tom Hanks" not in graph
    with SparqlGraph(films.url, client=CLIENT, lang="") as graph:
        assert graph.neighbors("Cast Away", f"{EX}starring").names == [f"{EX}hanks"]


def test_names_that_would_pass_for_others_are_not_shown() -> None:
    with Server(IMPOSTORS) as server, SparqlGraph(server.url, client=CLIENT) as graph:
        shown = {one.id: one.name for name in ("Berlin", "Berlin (b2)") for one in graph.find(name)}
        assert shown == {
            f"{EX}b1": "Berlin (b1)",
            f"{EX}b2": f"{EX}b2",  # "Berlin (b2)" is another's label
            f"{EX}c/b1": "Berlin (b2)",
            EX: EX,  # no local part
        }
        assert f"{EX}plain (evil)" in graph.neighbors(f"{EX}list", f"{EX}has").names
        for name in graph.neighbors(f"{EX}list", f"{EX}has"):
            assert list(graph.match(tail=name)) == [Triple(f"{EX}list", f"{EX}has", name)]
        with SparqlGraph(server.url, client=CLIENT) as fresh:
            assert [fact.tail for fact in fresh.match(tail=f"{EX}plain")] == [f"{EX}plain"]


def test_a_namespace_shortens_what_has_no_label(films: Server) -> None:
    with SparqlGraph(films.url, client=CLIENT, namespace=EX) as graph:
        assert graph.relations("Apollo 13") == ["directed by", "starring", "year"]
        assert graph.neighbors("Titanic", "starring").names == ["winslet"]
        assert graph.neighbors("a/twin", "knows").names == [f"{EX}b/twin"]  # it has a label, only not one of its own
    with SparqlGraph(films.url, client=CLIENT, namespace=EX, cache=0) as graph:
        assert graph.neighbors("winslet", "starring", out=False).names == ["Titanic (t1997)"]


def test_freebase_names_relations_by_id() -> None:
    ns = "http://rdf.freebase.com/ns/"
    settings = {"label": f"{ns}type.object.name", "relation_label": None, "namespace": ns}
    with Server(FREEBASE) as server, SparqlGraph(server.url, client=CLIENT, **settings) as graph:
        assert list(graph.match()) == [
            Triple("Honolulu", "location.location.containedby", "m.nameless"),
            Triple("Barack Obama", "people.person.place_of_birth", "Honolulu"),
        ]
        assert graph.find_relation("place of birth", 1)[0].name == "people.person.place_of_birth"


def test_wikibase_relations_are_direct_claims_named_by_their_property() -> None:
    with Server(WIKIBASE) as server, SparqlGraph(server.url, client=CLIENT, wikibase=True) as graph:
        assert list(graph.match()) == [Triple("Douglas Adams", "instance of", "human")]
        assert graph.relations("human", out=False) == ["instance of"]
        assert graph.has_relation("http://www.wikidata.org/prop/direct/P31")
        assert not graph.has_relation("http://www.wikidata.org/prop/P31")
        assert [one.name for one in graph.find_relation("instance")] == ["instance of"]


# --- find


@pytest.fixture(scope="module")
def presidents() -> Iterator[Server]:
    with Server(PRESIDENTS) as server:
        yield server


def dated(server: Server, **settings: Any) -> SparqlGraph:
    return SparqlGraph(server.url, wikibase=True, times=True, client=CLIENT, **settings)


def test_relations_of_a_wikibase_are_told_without_a_look_at_all_facts(presidents: Server) -> None:
    with SparqlGraph(presidents.url, wikibase=True, client=CLIENT) as graph:
        before = len(presidents.queries)
        ends = {one.relation: (one.heads, one.tails) for one in graph.relation_ends(10, 100, 3)}
        assert ends == {"population": (1, 1), "position held": (4, 3)}
        assert "EXISTS" in presidents.queries[before]
        assert graph.relation_ends(1, 100, 3) == []  # there are two


@pytest.mark.parametrize("page", [2, 1000])
def test_times_of_wikidata_are_those_of_statements(presidents: Server, page: int) -> None:
    """In all ways that facts are asked for, one by one and many at once."""
    with dated(presidents, page=page) as graph:
        assert graph.timed
        assert set(graph.match()) == TERMS
        assert set(graph.match(tail="president")) == {fact for fact in TERMS if fact.tail == "president"}
    expected: dict[tuple[str, str, bool], dict[str, list[str]]] = {}
    for fact in TERMS:
        for key, other in (
            ((fact.head, fact.relation, True), fact.tail),
            ((fact.tail, fact.relation, False), fact.head),
        ):
            expected.setdefault(key, {}).setdefault(other, []).extend([fact.time] * bool(fact.time))
    for fetched in range(3):
        with dated(presidents, page=page) as graph:
            for (name, relation, out), others in expected.items():
                if fetched == 1:
                    graph.fetch_neighbors([name for name, *_ in expected], relation, out=out)
                elif fetched == 2:
                    graph.fetch_some([name for name, *_ in expected], [(relation, out)], 10)
                found = graph.neighbors(name, relation, out=out)
                assert found.times is not None
                assert dict(zip(found.names, found.times, strict=True)) == {
                    other: sorted(times) for other, times in others.items()
                }
                first = graph.neighbors(name, relation, out=out, limit=1)
                assert (first.total, first.times) == (len(others), found.times[:1])


def test_times_are_not_asked_for_where_nobody_wants_them(presidents: Server) -> None:
    with SparqlGraph(presidents.url, wikibase=True, client=CLIENT) as graph:
        assert set(graph.match()) == {fact._replace(time="") for fact in TERMS}
        assert graph.neighbors("Grover Cleveland", "position held").times is None
        with pytest.raises(ValueError, match="this graph has no dates"):
            graph.between("1885", None)
    with pytest.raises(InputError, match="times are those of a Wikibase's statements"):
        SparqlGraph(presidents.url, times=True, client=CLIENT)


def test_a_program_asks_for_times(presidents: Server, tmp_path: Path, cli: Cli) -> None:
    address = f"sparql+{presidents.url}?wikibase=yes&times=yes"
    for program, answers in (
        ('between($1, "position held", "1890", "1895")', ["president"]),
        ('between($1, "position held", "1890", "1892")', []),
        ('head_entities("president", "position held"); earliest($1, "position held")', ["president"]),
        ('when($1, "position held")', ["1885-03-04..1889-03-04", "1893-03-04..1897-03-04"]),
    ):
        topics = () if program.startswith("head") else ("--topic", "Grover Cleveland")
        assert cli("kg", "walk", address, program, *topics, "--json").json["answers"] == answers, program
    hop = ("kg", "query", address, "president", "position held", "-d", "in")
    assert cli(*hop, "--from", "1898", "--json").json["in"]["names"] == [
        "William McKinley",
        "Theodore Roosevelt",
    ]
    refused = cli(*(one.replace("&times=yes", "") for one in hop), "--from", "1898")
    assert refused.status != 0
    assert "this graph has no dates" in refused.stderr
    built = cli("kg", "build", address, "-o", tmp_path / "dated.kg", "--json").json
    assert (built["triples"], built["dates"]) == (len(TERMS), 7)
    assert set(open_graph(tmp_path / "dated.kg").match()) == TERMS


def test_times_of_a_set_take_one_query_more() -> None:
    """As many for a hundred as for two: the statements of all of them are looked up at once."""
    people = [
        f"wd:Q{number} rdfs:label 'person {number}'@en ; wdt:P39 wd:Q1 ; p:P39 s:{number} .\n"
        f"s:{number} a wikibase:BestRank ; ps:P39 wd:Q1 ; "
        f"pq:P585 '19{number % 100:02d}-01-01T00:00:00Z'^^xsd:dateTime ."
        for number in range(100, 200)
    ]

    def asked(server: Server, names: list[str], times: bool) -> int:
        with SparqlGraph(server.url, wikibase=True, times=times, client=CLIENT) as graph:
            before = len(server.queries)
            graph.fetch_neighbors(names, "position held", out=True)
            count = len(server.queries) - before
            for name in names:
                found = graph.neighbors(name, "position held")
                year = int(name.split()[-1]) - 100
                assert found == Neighbors(["president"], 1, [[f"19{year:02d}-01-01"]] if times else None)
            assert len(server.queries) == before + count
            return count

    names = [f"person {number}" for number in range(100, 200)]
    with Server(PRESIDENTS + "\n".join(people)) as server:
        assert asked(server, names, True) == asked(server, names[:2], True) == asked(server, names, False) + 1


def test_find_puts_the_exact_first(graph: SparqlGraph) -> None:
    assert graph.find("Titanic") == [
        Found("Titanic (t1997)", 1.0, "exact", f"{EX}t1997"),
        Found("Titanic (t1943)", 1.0, "exact", f"{EX}t1943"),
    ]
    assert graph.find("Titanic", 1) == [Found("Titanic (t1997)", 1.0, "exact", f"{EX}t1997")]
    assert graph.find("Titanic (t1943)")[0] == Found("Titanic (t1943)", 1.0, "exact", f"{EX}t1943")
    assert graph.find(f"{EX}winslet") == [Found(f"{EX}winslet", 1.0, "exact", f"{EX}winslet")]


def test_find_without_case_and_by_words(graph: SparqlGraph) -> None:
    for text in ("TOM HANKS", "tom_hanks", "Hanks, Tom"):
        [found] = graph.find(text, 1)
        assert found == Found("Tom Hanks", found.score, found.how, f"{EX}hanks")
        assert (found.how == "normalised") == (found.score == 1.0) == (text != "Hanks, Tom")
    [found] = graph.find("Thom Hanks")
    assert (found.name, found.how) == ("Tom Hanks", "fuzzy")
    assert 0.8 < found.score < 1
    assert [one.name for one in graph.find("apollo")] == ["Apollo 13"]
    for nothing in ("Ghost", "Parigi", "zzz", "", " ", "?"):
        assert graph.find(nothing) == [], nothing


def test_find_relation(graph: SparqlGraph) -> None:
    assert graph.find_relation("starring")[0] == Found("starring", 1.0, "exact", f"{EX}starring")
    assert graph.find_relation("Directed_By", 1) == [Found("directed by", 1.0, "normalised", f"{EX}director")]
    assert graph.find_relation(f"{EX}year", 1)[0].how == "exact"
    assert graph.find_relation("yaer", 1)[0].name == f"{EX}year"
    assert {one.name for one in graph.find_relation("made", 2)} == {"made (wrote)", "made (built)"}


def test_rank_and_local_part() -> None:
    ranked = rank("paris", {"a": "Parma", "b": "Paris", "c": "paris"}, 2)
    assert ranked == [("c", 1.0, "exact"), ("b", 1.0, "normalised")]
    assert [local_part(one) for one in (f"{EX}a#b", "urn:isbn:1", EX, f"{EX}x:y")] == ["b", "1", "", "x:y"]


# --- hostile names

HOSTILE = [
    '"} DROP ALL #',
    "> . ?s ?p ?o",
    "<http://example.org/hanks>",
    f"{EX}hanks> ?p ?o . <{EX}howard",
    'Tom Hanks"@en } UNION { ?x ?r ?t',
    "Tom Hanks\n",
    "\\u0022 } #",
    "\\",
    '\\"',
    "'''",
    '"""',
    "?x",
    "_:b0",
    "$e",
    "x:%zz",
    "http://[",
    "a\x00b",
    "\ud800",
    "Tom Hanks (hanks",
    "Tom Hanks ()",
    " ()",
]


@pytest.fixture(scope="module")
def shapes() -> set[str]:
    """The shapes of all queries that `in` and has_relation send for names that are not there."""
    with Server(FILMS) as server, SparqlGraph(server.url, client=CLIENT) as graph:
        for name in ("zzz", "zzz (zzz)", "zzz:zzz"):
            assert name not in graph
            assert not graph.has_relation(name)
        return {_shape(query) for query in server.queries}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_match_nothing_and_leave_the_query_as_it_is(server: Server, shapes: set[str], name: str) -> None:
    with SparqlGraph(server.url, client=CLIENT) as graph:
        assert name not in graph
        assert not graph.has_relation(name)
        assert {_shape(query) for query in server.queries} <= shapes
        with pytest.raises(UnknownEntity):
            graph.relations(name)
        assert list(graph.match(tail=name)) == []
        with pytest.raises(UnknownRelation):
            graph.neighbors("Tom Hanks", name)
        assert all(one.how != "exact" for one in graph.find(name) + graph.find_relation(name))


def _shape(query: str) -> str:
    """The query with its literals made one and the IRI that was asked for blotted out."""
    literal = r'"(?:[^"\\\n\r]|\\.)*"(?:@en|\^\^<[^<>]*>)?'
    return re.sub(rf"{literal}(?:\s*{literal})*", '""', query.replace("<zzz:zzz>", "<>"))


@pytest.mark.parametrize("name", [name for name in HOSTILE if name != "\ud800"])
def test_hostile_labels_and_literals_are_found_and_lead_back(name: str) -> None:
    label = pyoxigraph.NamedNode("http://www.w3.org/2000/01/rdf-schema#label")
    thing, says, other = (pyoxigraph.NamedNode(EX + local) for local in ("thing", "says", "other"))
    facts = [
        pyoxigraph.Quad(thing, label, pyoxigraph.Literal(name, language="en")),
        pyoxigraph.Quad(other, says, thing),
        pyoxigraph.Quad(other, says, pyoxigraph.Literal(f"{name}!", language="fr")),
    ]
    with Server() as server, SparqlGraph(server.url, client=CLIENT) as graph:
        server.store.extend(facts)
        assert graph.neighbors(f"{EX}other", f"{EX}says").total == 2
        for one in graph.neighbors(f"{EX}other", f"{EX}says"):
            assert graph.neighbors(one, f"{EX}says", out=False).names == [f"{EX}other"]
        assert graph.find(name)[0].id == f"{EX}thing"


EMPTY = pyoxigraph.Store()


@given(text=st.text(), lang=st.sampled_from(["", "en", "pt-BR"]))
def test_a_rendered_literal_reads_back(text: str, lang: str) -> None:
    assert _read_back(render(literal(text, lang=lang))) == pyoxigraph.Literal(text, language=lang or None)


@example(text="\\u0022 } \\U00000022")
@given(text=st.text(alphabet='\\uU0025Cc"n\n'))
def test_a_rendered_literal_reads_back_where_escapes_are_replaced_before_parsing(text: str) -> None:
    replaced = re.sub(r"\\u([0-9A-F]{4})", lambda match: chr(int(match[1], 16)), render(literal(text)))
    assert _read_back(replaced) == pyoxigraph.Literal(text)


def _read_back(rendered: str) -> object:
    [row] = EMPTY.query(f"SELECT ({rendered} AS ?x) {{}}")
    return row["x"]


@given(text=st.text() | st.from_regex(r"[a-z]+:[^ ]*", fullmatch=True))
def test_a_wellformed_iri_is_taken_by_the_engine(text: str) -> None:
    if is_wellformed(text):
        assert _read_back(f"IRI({render(literal(text))})") == pyoxigraph.NamedNode(text)
        assert list(EMPTY.query(f"SELECT ?o {{ {render(iri(text))} ?p ?o }}")) == []
    if not is_iri(text):
        with pytest.raises(ValueError):
            render(iri(text))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(alphabet=st.sampled_from('ab:/"\\<>{}()#?. \n') | st.characters()))
def test_any_name_is_answered(graph: SparqlGraph, name: str) -> None:
    assert name not in graph
    assert not graph.has_relation(name)


def test_terms_that_cannot_be_written_are_refused() -> None:
    assert render(literal("5", datatype=f"{XSD}integer")) == f'"5"^^<{XSD}integer>'
    assert render(literal("5", datatype=f"{XSD}string")) == '"5"'
    for term in (
        Term("bnode", "b0"),
        iri("relative/path"),
        iri("http://example.org/a b"),
        literal("x", lang='en" }'),
        literal("x", datatype="integer> }"),
        literal("\ud800"),
    ):
        with pytest.raises(ValueError):
            render(term)


# --- pages, counts and the cache


@pytest.mark.parametrize("page", [1, 2, 1000])
def test_pages_give_everything_once(films: Server, page: int) -> None:
    with SparqlGraph(films.url, client=CLIENT, page=page) as graph:
        assert sorted(graph.match()) == sorted(FACTS)
        assert graph.relations("Apollo 13") == ["directed by", f"{EX}year", "starring"]
        assert graph.neighbors("Tom Hanks", "starring", out=False).names == ["Apollo 13", "Cast Away"]
        assert graph.find_relation("starring")[0].name == "starring"


def test_match_streams_pages(server: Server) -> None:
    with SparqlGraph(server.url, client=CLIENT, page=2) as graph:
        facts = graph.match(relation="starring")
        next(facts)
        assert [query[-8:] for query in server.queries if "?h ?r ?t WHERE" in query] == ["OFFSET 0"]
        next(facts)
        next(facts)
        assert [query[-8:] for query in server.queries if "?h ?r ?t WHERE" in query] == [
            "OFFSET 0",
            "OFFSET 2",
        ]


def test_a_limit_fetches_only_so_many_and_counts_only_if_the_page_was_full(server: Server) -> None:
    with SparqlGraph(server.url, client=CLIENT) as graph:
        assert graph.neighbors("Tom Hanks", "starring", out=False, limit=1) == Neighbors(["Apollo 13"], 2)
        assert any("LIMIT 1 OFFSET 0" in query for query in server.queries)
        assert sum("COUNT(DISTINCT" in query for query in server.queries) == 1
        assert graph.neighbors("Tom Hanks", "starring", out=False, limit=3).total == 2
        assert graph.neighbors("Tom Hanks", "starring", out=False, limit=0) == Neighbors([], 2)
        assert sum("COUNT(DISTINCT" in query for query in server.queries) == 1  # the last came from the cache
        with pytest.raises(ValueError, match="less than none"):
            graph.neighbors("Tom Hanks", "starring", limit=-1)


def test_the_second_time_costs_no_request(server: Server) -> None:
    with SparqlGraph(server.url, client=CLIENT) as graph:
        first = graph.neighbors("Tom Hanks", "starring", out=False)
        asked, before = len(server.queries), graph.cache_info()
        assert before.misses == asked
        assert graph.neighbors("Tom Hanks", "starring", out=False) == first
        assert len(server.queries) == asked
        assert graph.cache_info().hits > before.hits
        assert graph.cache_info().misses == before.misses


def test_what_was_shown_is_given_back_without_a_lookup(server: Server) -> None:
    with SparqlGraph(server.url, client=CLIENT) as graph:
        graph.neighbors("Tom Hanks", "starring", out=False)
        asked = len(server.queries)
        graph.relations("Cast Away")
        assert [query for query in server.queries[asked:] if "?l" not in query] == server.queries[asked : asked + 1]


def test_the_cache_is_bounded_by_rows() -> None:
    lru: LruCache[str, str] = LruCache(6)
    lru.put("a", "A", weight=2)
    lru.put("b", "B", weight=2)
    assert lru.get("a") == "A"
    lru.put("c", "C")  # 3 + 3 + 1 is one too many, and b was used longest ago
    assert [lru.get(key) for key in "abc"] == ["A", None, "C"]
    lru.put("d", "D", weight=10)  # more than all there is room for
    assert lru.get("d") is None
    assert (lru.hits, lru.misses, lru.weight) == (3, 2, 0)


def test_threads_share_a_graph(films: Server) -> None:
    with SparqlGraph(films.url, client=CLIENT, page=5, cache=20) as graph, ThreadPoolExecutor(8) as pool:
        for facts in pool.map(lambda _: set(graph.match()), range(8)):
            assert facts == FACTS


# --- an endpoint in trouble


def test_tries_again_after_a_503_and_waits_longer_each_time(server: Server, waits: list[float]) -> None:
    server.script = [Reply(503), Reply(500)]
    with SparqlGraph(server.url) as graph:
        assert "Tom Hanks" in graph
    assert 0.25 <= waits[0] <= 0.5 <= waits[1] <= 1.0


def test_waits_as_long_as_a_429_asks(server: Server, waits: list[float]) -> None:
    later = formatdate(time.time() + 20, usegmt=True)
    server.script = [Reply(429, headers={"Retry-After": told}) for told in ("7", "86400", later, "soon", "")]
    with SparqlGraph(server.url, retries=5) as graph:
        assert "Tom Hanks" in graph
    assert waits[:2] == [7.0, http_module.LONGEST_PAUSE]
    assert 17 < waits[2] <= 20
    assert waits[3] <= 4
    assert waits[4] <= 8


def test_gives_up_after_the_retries(server: Server, waits: list[float]) -> None:
    server.script = [Reply(503, b"down\n for   repairs")] * 9
    with (
        SparqlGraph(server.url) as graph,
        pytest.raises(RemoteError, match=r"503 Service Unavailable: down for repairs, tried 3 times; .*retries"),
    ):
        graph.relations("Tom Hanks")
    assert len(server.queries) == 3
    assert len(waits) == 2


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(400, b"Parse error " + b"x" * 1000), r"400 Bad Request: Parse error x+\.\.\.; check"),
        (Reply(401), "401 Unauthorized; check the credentials in headers"),
        (Reply(404), "404 Not Found; check the address"),
        (
            Reply(302, headers={"Location": "https://new.example.org/"}),
            "302 Found; .* https://new.example.org/",
        ),
        (Reply(206, b"{}"), "only part of the rows"),
        (
            Reply(200, b"{}", {"X-SQL-State": "S1TAT", "X-SQL-Message": "timed out"}),
            r"\(timed out\); lower page",
        ),
    ],
)
def test_a_refusal_is_told_at_once(server: Server, waits: list[float], reply: Reply, message: str) -> None:
    server.script = [reply] * 2
    with SparqlGraph(server.url, client=CLIENT) as graph, pytest.raises(RemoteError, match=message) as error:
        graph.relations("Tom Hanks")
    assert server.url in str(error.value)
    assert len(str(error.value)) < 400
    assert len(server.queries) == 1
    assert waits == []


@pytest.mark.parametrize(
    "body",
    [
        b"<html>a form</html>",
        b"",
        b"[]",
        b'{"boolean": true}',
        b'{"results": {"bindings": 5}}',
        b'{"results": {"bindings": [5]}}',
        b'{"results": {"bindings": [{"x": {"type": "uri"}}]}}',
        b'{"results": {"bindings": [{"x": {"type": "uri", "value": 5}}]}}',
        b'{"results": {"bindings": [{"x": {"type": "triple", "value": "a"}}]}}',
        b'{"results": {"bindings": [{"x": {"ty',
    ],
)
def test_a_reply_that_is_not_sparql_json(server: Server, body: bytes) -> None:
    server.script = [Reply(body=body)]
    with SparqlGraph(server.url, client=CLIENT) as graph:
        with pytest.raises(RemoteError, match="not SPARQL JSON results"):
            graph.relations("Tom Hanks")
        assert "Tom Hanks" in graph  # the bad reply was not kept


def test_a_count_that_is_no_number(server: Server) -> None:
    with SparqlGraph(server.url) as graph:
        graph.neighbors("Tom Hanks", "starring", out=False)
        server.script = [Reply(body=b'{"results": {"bindings": []}}')]
        with pytest.raises(RemoteError, match="no number"):
            graph.neighbors("Tom Hanks", "starring", out=False, limit=0)


def test_a_broken_encoding(server: Server) -> None:
    server.script = [Reply(body=b"not gzip", headers={"Content-Encoding": "gzip"})]
    with SparqlGraph(server.url, client=CLIENT) as graph, pytest.raises(RemoteError, match="unreadable reply"):
        graph.relations("Tom Hanks")


def test_a_slow_endpoint(server: Server, waits: list[float]) -> None:
    server.release.clear()
    with (
        SparqlGraph(server.url, timeout=0.1) as graph,
        pytest.raises(RemoteError, match=r"no answer within 0\.1 s; raise timeout"),
    ):
        graph.relations("Tom Hanks")
    assert waits == []


def test_no_endpoint_there(waits: list[float]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens: connections are refused
        url = f"http://user:secret@127.0.0.1:{taken.getsockname()[1]}/sparql?key=secret"
        with (
            SparqlGraph(url) as graph,
            pytest.raises(RemoteError, match=r"no connection .*, tried 3 times") as error,
        ):
            graph.relations("Tom Hanks")
    assert "secret" not in str(error.value) + repr(graph)
    assert len(waits) == 2


def test_no_connection_in_time(waits: list[float]) -> None:
    def connect(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectTimeout("slow", request=request)

    with httpx.Client(transport=httpx.MockTransport(connect)) as client:
        graph = SparqlGraph("http://example.org/sparql", client=client, retries=0)
        with pytest.raises(RemoteError, match="no connection within 10 s, tried once"):
            graph.relations("Tom Hanks")
    assert waits == []


def test_requests_say_who_asks(server: Server) -> None:
    """Wikimedia asks for a program's name and version, where to find its people, and the library that it uses."""
    with SparqlGraph(server.url, client=CLIENT) as graph:
        assert "Tom Hanks" in graph
    [agent] = server.requests[0].get_all("User-Agent")
    assert re.fullmatch(r"kgwalk/\d+\.\d+\.\d+ \(https://github\.com/kgwalk/kgwalk\) httpx/\d+\.\d+.*", agent)


def test_a_client_and_headers_of_the_caller(server: Server) -> None:
    with httpx.Client() as client:
        with SparqlGraph(server.url, client=client, headers={"user-agent": "me", "X-Key": "1"}) as graph:
            assert "Tom Hanks" in graph
        assert not client.is_closed
    [headers, *_] = server.requests
    assert headers.get_all("User-Agent") == ["me"]
    assert headers["X-Key"] == "1"
    assert headers["Accept"] == "application/sparql-results+json"
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    "make",
    [
        lambda: SparqlGraph("ftp://example.org"),
        lambda: SparqlGraph("example.org/sparql"),
        lambda: SparqlGraph("http://"),
        lambda: SparqlGraph("http://example.org:port"),
        lambda: SparqlGraph("http://example.org", label="label"),
        lambda: SparqlGraph("http://example.org", relation_label="a b:"),
        lambda: SparqlGraph("http://example.org", namespace="> }"),
        lambda: SparqlGraph("http://example.org", lang='en" }'),
        lambda: SparqlGraph("http://example.org", page=0),
    ],
)
def test_settings_that_cannot_be(make: Callable[[], SparqlGraph]) -> None:
    with pytest.raises(InputError):
        make()
