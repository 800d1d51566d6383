"""HttpGraph against a real server: the answers of the graph behind it, few requests, errors that help."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgwalk.bench.servers import ScanGraph
from kgwalk.kg import http, http_servers
from kgwalk.kg.graph import Graph
from kgwalk.kg.http import HttpGraph
from kgwalk.kg.store import open_graph
from kgwalk.serve.app import create_app
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings
from kgwalk.types import (
    Found,
    KgwalkError,
    Neighbors,
    RemoteError,
    Triple,
    UnknownEntity,
    UnknownQuestion,
    UnknownRelation,
)

if TYPE_CHECKING:  # a process that a test starts imports this module without the folder of `commands`
    from commands import Cli

FACTS = [("a", "r", "b"), ("a", "r", "c"), ("a", "s", "c"), ("b", "r", "a"), ("d", "r", "c")]


class Swapped:
    """A graph whose facts a test can exchange while it is served; counts the calls."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.calls = 0

    def __contains__(self, entity: object) -> bool:
        self.calls += 1
        return entity in self.graph

    def __getattr__(self, name: str) -> Any:
        self.calls += 1
        return getattr(self.graph, name)


@contextmanager
def remote(graph: Any, cache: int = 4096, **options: Any) -> Iterator[HttpGraph]:
    with (
        in_background(create_app(ServeSettings(**options), {"g": graph})) as url,
        HttpGraph(url, cache=cache) as far,
    ):
        yield far


@pytest.fixture(scope="module")
def swapped() -> Iterator[tuple[Swapped, HttpGraph]]:
    near = Swapped(ScanGraph(FACTS))
    with remote(near, cache=0) as far:
        yield near, far


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except (UnknownEntity, UnknownRelation) as error:
        return type(error), error.name, error.nearest


names = st.sampled_from(["a", "b", "c", "é", "x y", '"'])
relations = st.sampled_from(["r", "s", "t.u.v"])
facts = st.tuples(names, relations, names, st.sampled_from(["", "2005", "2006-07"]))
limits = st.none() | st.integers(0, 4)


@settings(max_examples=60, deadline=None)
@given(st.lists(facts, max_size=12), names, relations, names, limits, st.booleans(), st.text(max_size=4))
def test_it_answers_as_the_graph_behind_it(
    swapped: tuple[Swapped, HttpGraph],
    facts: list[tuple[str, str, str, str]],
    entity: str,
    relation: str,
    other: str,
    limit: int | None,
    out: bool,
    text: str,
) -> None:
    near, (server, far) = ScanGraph(facts), swapped
    server.graph = near
    assert (entity in far) == (entity in near)
    assert far.has_relation(relation) == near.has_relation(relation)
    calls: list[Callable[[Graph], object]] = [
        lambda graph: graph.relations(entity, out=out),
        lambda graph: graph.neighbors(entity, relation, out=out, limit=limit),
        lambda graph: list(graph.match(entity, limit=limit)),
        lambda graph: list(graph.match(None, relation, other)),
        lambda graph: list(graph.match()),
        lambda graph: graph.find(text, 3),
        lambda graph: graph.find_relation(text),
    ]
    for call in calls:
        assert outcome(lambda call=call: call(far)) == outcome(lambda call=call: call(near))  # type: ignore[misc]


def test_it_is_a_graph(swapped: tuple[Swapped, HttpGraph]) -> None:
    assert isinstance(swapped[1], Graph)
    assert 7 not in swapped[1]
    assert "\ud800" not in swapped[1]  # half a character


def test_long_lists_come_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PAGE", 3)
    many = [("hub", "r", f"n{number}", f"200{number}") for number in range(8)]
    near = ScanGraph(many)
    with remote(near) as far:
        for limit in (None, 0, 1, 3, 4, 7, 8, 9):
            assert far.neighbors("hub", "r", limit=limit) == near.neighbors("hub", "r", limit=limit)
            assert list(far.match(limit=limit)) == list(near.match(limit=limit))
        first = next(far.match())
    assert first == Triple("hub", "r", "n0", "2000")


def test_a_batch_is_one_request_and_errors_stand_in_their_places() -> None:
    with remote(ScanGraph(FACTS)) as far:
        values = far.batch(
            [
                {"op": "relations", "entity": "a"},
                {"op": "relations", "entity": "z"},
                {"op": "neighbors", "entity": "c", "relation": "r", "out": False},
                {"op": "match", "head": "b"},
                {"op": "find", "text": "A", "k": 1},
                {"op": "nonsense"},
                {"entity": "a"},
            ]
        )
        counts = httpx.get(f"{far._servers.all[0].url}/metrics", trust_env=False).text
    assert values[0] == ["r", "s"]
    assert isinstance(values[1], UnknownEntity)
    assert values[1].name == "z"
    assert values[2] == Neighbors(["a", "d"], 2)
    assert values[3] == [Triple("b", "r", "a")]
    assert values[4] == [Found("a", 1.0, "normalised")]
    assert isinstance(values[5], RemoteError)
    assert 'op "nonsense" is not there' in str(values[5])
    assert isinstance(values[6], RemoteError)
    assert 'kgwalk_requests_total{path="/kg/query",status="200"} 1.0' in counts


def test_a_set_is_asked_for_in_one_request() -> None:
    """Of each of these: whether it is there, its relations, its neighbours, and the first of those by all relations."""
    near = ScanGraph(FACTS)
    with remote(near) as far:
        url = far._servers.all[0].url
        far.fetch_names("abz")
        far.fetch_relations("abz", out=True)
        far.fetch_neighbors("abz", "r", out=True)
        far.fetch_some("abz", [("r", True), ("s", True), ("t", True), ("r", False)], 1)
        with pytest.raises(UnknownRelation):
            far.fetch_neighbors("ab", "t", out=True)
        sent = httpx.get(f"{url}/metrics", trust_env=False).text
        for name in "ab":
            assert name in far
            assert far.relations(name) == near.relations(name)
            assert far.neighbors(name, "r") == near.neighbors(name, "r")
            assert far.neighbors(name, "r", limit=1) == near.neighbors(name, "r", limit=1)
            assert far.neighbors(name, "s", limit=1) == near.neighbors(name, "s", limit=1)
        assert "z" not in far
        assert httpx.get(f"{url}/metrics", trust_env=False).text.count('status="200"} 5.0') >= 1
    assert 'kgwalk_requests_total{path="/kg/query",status="200"} 5.0' in sent


def test_answers_are_kept_and_not_shared() -> None:
    near = Swapped(ScanGraph(FACTS))
    with remote(near) as far:
        first = far.relations("a")
        first.append("changed by the caller")
        once = near.calls
        assert far.relations("a") == ["r", "s"]
        assert far.batch([{"op": "relations", "entity": "a", "out": True}] * 5) == [["r", "s"]] * 5
        with pytest.raises(UnknownEntity):
            far.relations("z")
        with pytest.raises(UnknownEntity):
            far.relations("z")
    assert near.calls == once + 1


def test_the_oldest_answers_go_first() -> None:
    near = Swapped(ScanGraph(FACTS))
    with remote(near, cache=2) as far:
        for entity in ("a", "b", "a", "c", "a"):  # c pushes b out, not a
            far.relations(entity)
        assert near.calls == 3
        far.relations("b")
    assert near.calls == 4


def test_batches_larger_than_the_server_takes_and_late_items() -> None:
    class Slow(ScanGraph):
        def __contains__(self, entity: object) -> bool:
            time.sleep(0.02)
            return super().__contains__(entity)

    with remote(Slow(FACTS), max_batch=8, time_limit=0.1) as far:
        values = far.batch([{"op": "contains", "entity": f"{letter}"} for letter in "abcdefghijklmnopqrst"])
    assert values == [True] * 4 + [False] * 16


def test_views_and_info() -> None:
    class Viewed(ScanGraph):
        def question(self, question: str) -> ScanGraph:
            if question != "q":
                raise UnknownQuestion(question, ["q"])
            return ScanGraph(self.triples[:1])

        def between(self, start: str | None, end: str | None) -> ScanGraph:
            return ScanGraph(self.triples[1:2])

        def info(self) -> dict[str, Any]:
            return {"triples": len(self.triples)}

    with remote(Viewed(FACTS)) as far:
        assert far.question("q").relations("a") == ["r"]
        assert far.between("2005", None).neighbors("a", "r").names == ["c"]
        assert far.relations("a") == ["r", "s"]
        with pytest.raises(UnknownQuestion, match="did you mean 'q'"):
            far.question("z").relations("a")
        with pytest.raises(ValueError, match="narrowed already"):
            far.question("q").question("q")
        assert far.info() == {"triples": 5}
        assert repr(far.question("q")).endswith(", question='q')")


def test_a_store_is_built_from_an_address(tmp_path: Path, cli: Cli) -> None:
    """Of two graphs on the other server, the one after the #."""
    dated, other = [*FACTS, ("d", "r", "e", "2005"), ("d", "r", "e", "2007-01")], [("x", "y", "z")]
    with in_background(create_app(ServeSettings(), {"g": ScanGraph(dated), "h": ScanGraph(other)})) as url:
        built = cli("kg", "build", f"{url}#g", "-o", tmp_path / "g.kg", "--json").json
        assert (built["triples"], built["dates"]) == (7, 2)
        assert set(open_graph(tmp_path / "g.kg").match()) == {Triple(*fact) for fact in dated}
        assert cli("kg", "build", f"{url}#h", "-o", tmp_path / "h.kg", "--json").json["triples"] == 1
        assert set(open_graph(tmp_path / "h.kg").match()) == {Triple(*fact) for fact in other}
        refused = cli("kg", "build", f"{url}#k", "-o", tmp_path / "k.kg")
        assert refused.status == 1
        assert 'graph "k" is not served; there are "g", "h"' in refused.stderr
        assert not (tmp_path / "k.kg").exists()


def test_many_threads_share_one() -> None:
    near = ScanGraph(FACTS)
    with remote(near, cache=0) as far, ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda number: far.relations("abcd"[number % 4]), range(400)))
    assert answers == [near.relations("abcd"[number % 4]) for number in range(400)]


# --- what goes wrong


def test_key_and_graph() -> None:
    app = create_app(ServeSettings(api_key="k"), {"g": ScanGraph(FACTS), "h": ScanGraph(FACTS[:1])})
    with in_background(app) as url:
        with (
            HttpGraph(url, retries=0) as far,
            pytest.raises(RemoteError, match="HTTP 401: this server wants a key"),
        ):
            far.relations("a")
        with HttpGraph(url, api_key="k") as far:
            with pytest.raises(RemoteError, match='"graph" is missing; there are "g", "h"'):
                far.relations("a")
            with pytest.raises(RemoteError, match="serves g, h; choose one"):
                far.info()
        with HttpGraph(url + "/", "h", api_key="k") as far:
            assert far.relations("a") == ["r"]


def test_no_address() -> None:
    with pytest.raises(KgwalkError, match="expected http://HOST:PORT"):
        HttpGraph("graph.kg")


@contextmanager
def scripted(*replies: tuple[int, str]) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives these (status, body) in turn; and the requests it got."""
    left, asked = list(replies), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["Content-Length"])))
            status, body = left.pop(0)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


YES = json.dumps({"results": [{"ok": True, "value": True}]})


def test_an_overloaded_server_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_servers, "FIRST_PAUSE", 0.001)
    with scripted((503, ""), (429, ""), (200, YES)) as (url, asked), HttpGraph(url) as far:
        assert "a" in far
    assert asked == [b'{"queries":[{"op":"contains","entity":"a"}]}'] * 3
    said = r"could not be reached in 2 tries: HTTP 502\n.*kgwalk serve"
    with (
        scripted((503, ""), (502, "")) as (url, _),
        HttpGraph(url, retries=1) as far,
        pytest.raises(RemoteError, match=said),
    ):
        far.relations("a")


def test_a_password_in_the_address_is_not_shown() -> None:
    with scripted((503, "")) as (url, _), HttpGraph(url.replace("//", "//me:secret@"), retries=0) as far:
        with pytest.raises(RemoteError, match=f"{url}/kg/query could not be reached in 1 tries: HTTP 503") as failed:
            far.relations("a")
        assert "secret" not in str(failed.value) + repr(far)


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (200, "<html>", "HTTP 200 without JSON; is it a kgwalk server?"),
        (200, "{}", "did not give one result for each query; is it a kgwalk server?"),
        (404, '{"detail": "Not Found"}', "HTTP 404: no reason given"),
        (500, '{"error": {"kind": "internal", "message": "oh"}}', "HTTP 500: oh"),
        (413, '{"error": {"kind": "body_too_large", "message": "big"}}', "HTTP 413: big"),
    ],
)
def test_replies_of_the_wrong_kind(status: int, body: str, message: str) -> None:
    with (
        scripted((status, body)) as (url, _),
        HttpGraph(url) as far,
        pytest.raises(RemoteError, match=re.escape(message)),
    ):
        far.relations("a")


def test_a_server_that_is_too_slow() -> None:
    class Slow(ScanGraph):
        def relations(self, entity: str, *, out: bool = True) -> list[str]:
            time.sleep(0.3)
            return super().relations(entity, out=out)

    app = create_app(ServeSettings(), {"g": Slow(FACTS)})
    with (
        in_background(app) as url,
        HttpGraph(url, timeout=0.1, retries=0) as far,
        pytest.raises(RemoteError, match=r"no answer within 0\.1 s"),
    ):
        far.relations("a")


SERVER = """
from kgwalk.bench.servers import ScanGraph
from kgwalk.serve.run import run_server
from kgwalk.serve.settings import ServeSettings
graph = ScanGraph([("a", "r", "b")])
run_server(ServeSettings(port=0), graphs={"g": graph}, ready=lambda url: print(url, flush=True))
"""


def test_a_server_that_dies() -> None:
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            with HttpGraph(url, retries=1, cache=0) as far:
                assert far.relations("a") == ["r"]
                server.kill()
                server.wait()
                with pytest.raises(RemoteError, match="could not be reached in 2 tries") as failed:
                    far.relations("a")
            assert f"{url}/kg/query" in str(failed.value)
            assert "Check the address, and that `kgwalk serve` runs there." in str(failed.value)
        finally:
            server.kill()
