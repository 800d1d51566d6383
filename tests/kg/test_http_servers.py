"""Several servers and workers behind one graph: calls share requests, and kills cost no answer."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from conftest import store_of
from kgwalk.bench.servers import ScanGraph
from kgwalk.kg import http_servers
from kgwalk.kg.http import HttpGraph
from kgwalk.kg.http_servers import ByKey, GraphServers, _SharedRequests
from kgwalk.kg.store import load_graph
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.serve.app import create_app
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings
from kgwalk.types import KgwalkError, Question, RemoteError, StopReason, UnknownEntity
from kgwalk.walk.policy import protocol_named
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import Budget, rollout

# thing n --next--> thing n+1, and its own colour
FACTS = [fact for n in range(500) for fact in ((f"t{n}", "next", f"t{n + 1}"), (f"t{n}", "colour", f"c{n}"))]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("things")
    store_of(folder, FACTS)
    return folder / "graph.kg"


@contextmanager
def serving(store: Path, port: int = 0, workers: int = 1) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server process and its address."""
    settings = json.dumps({"graphs": {"things": str(store)}, "port": port, "workers": workers})
    command = [sys.executable, "-m", "kgwalk.serve.run", settings]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            line = server.stderr.readline()
            found = re.search(r"http://\S+:\d+", line)
            assert found is not None, line + server.stderr.read()
            yield server, found[0]
        finally:
            server.terminate()
            try:
                server.wait(15)
            finally:
                server.kill()


def colours(graph: HttpGraph, numbers: range, threads: int = 16) -> list[list[str]]:
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda n: graph.neighbors(f"t{n % 500}", "colour").names, numbers))


def answered(url: str) -> int:
    """How many queries a server says it answered."""
    counts = httpx.get(f"{url}/metrics", trust_env=False).text
    return int(sum(map(float, re.findall(r"kgwalk_queries_total\{[^}]*\} (\S+)", counts))))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls wait for the requests under way as long as those take."""
    monkeypatch.setattr(http_servers, "PATIENCE", 60.0)


def eventually(holds: Callable[[], bool], seconds: float = 10) -> bool:
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:
        time.sleep(0.005)
    return holds()


# Sharing requests


class Gated(ScanGraph):
    """A graph whose answers wait until a test lets them go; `asked` are the entities in the order they came."""

    def __init__(self) -> None:
        super().__init__(FACTS[:20])
        self.gate, self.asked = threading.Event(), list[str]()

    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        self.asked.append(entity)
        self.gate.wait(10)
        return super().relations(entity, out=out)


@pytest.mark.usefixtures("patient")
def test_calls_under_way_together_share_a_request() -> None:
    """With one request at once: the first has one call, and the nine calls that wait meanwhile go in the second."""
    near = Gated()
    with in_background(create_app(ServeSettings(), {"g": near})) as url, HttpGraph(url, cache=0, at_once=1) as far:
        with ThreadPoolExecutor(10) as pool:
            first = pool.submit(far.relations, "t0")
            assert eventually(lambda: near.asked == ["t0"])
            others = [pool.submit(far.relations, f"t{n}") for n in range(1, 10)]
            assert eventually(lambda: len(far._servers._shared._waiting) == 9)
            near.gate.set()
            assert [one.result(10) for one in [first, *others]] == [["colour", "next"]] * 10
        assert far._servers.all[0].requests == 2
        assert sorted(near.asked) == [f"t{n}" for n in range(10)]  # each once


@pytest.mark.usefixtures("patient")
def test_equal_calls_are_asked_once() -> None:
    near = Gated()
    with in_background(create_app(ServeSettings(), {"g": near})) as url, HttpGraph(url, cache=0, at_once=1) as far:
        with ThreadPoolExecutor(10) as pool:
            first = pool.submit(far.relations, "t0")
            assert eventually(lambda: len(near.asked) == 1)
            others = [pool.submit(far.relations, "t1") for _ in range(9)]
            assert eventually(lambda: len(far._servers._shared._waiting) == 9)
            near.gate.set()
            assert [one.result(10) for one in [first, *others]] == [["colour", "next"]] * 10
        assert near.asked == ["t0", "t1"]


@pytest.mark.usefixtures("patient")
def test_a_call_that_fails_does_not_fail_those_beside_it() -> None:
    """The body of 40,000 bytes is refused, alone and beside others; they are answered, each for itself."""
    near = Gated()
    with (
        in_background(create_app(ServeSettings(max_body=20_000), {"g": near})) as url,
        HttpGraph(url, cache=0, at_once=1) as far,
        ThreadPoolExecutor(10) as pool,
    ):
        first = pool.submit(far.relations, "t0")
        assert eventually(lambda: len(near.asked) == 1)
        names = ["t1", "x" * 40_000, "t2", "nobody"]
        others = [pool.submit(far.relations, name) for name in names]
        assert eventually(lambda: len(far._servers._shared._waiting) == 4)
        near.gate.set()
        assert first.result(10) == others[0].result(10) == others[2].result(10) == ["colour", "next"]
        with pytest.raises(RemoteError, match="HTTP 413"):
            others[1].result(10)
        with pytest.raises(UnknownEntity):
            others[3].result(10)


def test_more_calls_than_one_request_takes(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_servers, "BATCH", 3)
    near = Gated()
    near.gate.set()
    with in_background(create_app(ServeSettings(), {"g": near})) as url, HttpGraph(url, cache=0, at_once=1) as far:
        with ThreadPoolExecutor(16) as pool:
            assert list(pool.map(far.relations, [f"t{n % 10}" for n in range(200)])) == [["colour", "next"]] * 200
        queries = [{"op": "relations", "entity": f"t{n}"} for n in range(10)]
        assert far.batch(queries) == [["colour", "next"]] * 10


@pytest.mark.usefixtures("patient")
def test_an_interrupted_thread_leaves_the_others_their_answers() -> None:
    """b, c and d wait for a's request. b leads the next one, and is interrupted; c and d are answered."""
    gate, sent = threading.Event(), list[list[bytes]]()

    def send(queries: ByKey) -> dict[bytes, dict[str, Any]]:
        sent.append(sorted(queries))
        gate.wait(10)
        if b"b" in queries:
            raise KeyboardInterrupt
        return {key: {"ok": True, "value": key} for key in queries}

    shared, outcomes = _SharedRequests(send, 1), dict[bytes, object]()

    def ask(key: bytes) -> None:
        try:
            outcomes[key] = shared.ask({key: {}})[key]["value"]
        except KeyboardInterrupt:
            outcomes[key] = "interrupted"

    threads = [threading.Thread(target=ask, args=(key,)) for key in (b"a", b"b", b"c", b"d")]
    for number, thread in enumerate(threads):
        thread.start()
        assert eventually(lambda number=number: bool(sent) and len(shared._waiting) == number)  # type: ignore[misc]
    gate.set()
    for thread in threads:
        thread.join(10)
    assert outcomes == {b"a": b"a", b"b": "interrupted", b"c": b"c", b"d": b"d"}
    assert sent == [[b"a"], [b"b", b"c", b"d"], [b"c", b"d"]]
    assert shared._free == 1


def test_slow_requests_hold_up_others_only_for_a_moment() -> None:
    """The only lane has a slow request. b and c wait for a moment, then go beside it; in the end there is one lane."""
    slow, sent = threading.Event(), list[list[bytes]]()

    def send(queries: ByKey) -> dict[bytes, dict[str, Any]]:
        sent.append(sorted(queries))
        if b"a" in queries:
            slow.wait(10)
        return {key: {"ok": True, "value": key} for key in queries}

    shared = _SharedRequests(send, 1)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(shared.ask, {b"a": {}})
        assert eventually(lambda: sent == [[b"a"]])
        others = [pool.submit(shared.ask, {key: {}}) for key in (b"b", b"c")]
        assert [one.result(5)[key]["value"] for one, key in zip(others, (b"b", b"c"), strict=True)] == [b"b", b"c"]
        assert not first.done()
        slow.set()
        assert first.result(5) == {b"a": {"ok": True, "value": b"a"}}
    assert shared._free == 1
    assert shared._waiting == []


# Balance, and addresses


def test_two_servers_share_the_work(store: Path) -> None:
    with serving(store) as (_, one), serving(store) as (_, two), HttpGraph(f"{one}, {two}", cache=0) as far:
        assert colours(far, range(400)) == [[f"c{n}"] for n in range(400)]
        asked = [server.requests for server in far._servers.all]
        assert answered(one) + answered(two) == 400
    assert min(asked) > sum(asked) / 4


def test_the_server_with_least_to_do_is_asked() -> None:
    with ExitStack() as stack:
        slow, quick = Gated(), Gated()
        quick.gate.set()
        urls = [
            stack.enter_context(in_background(create_app(ServeSettings(), {"g": graph}))) for graph in (slow, quick)
        ]
        far = stack.enter_context(HttpGraph(urls, cache=0))
        pool = stack.enter_context(ThreadPoolExecutor(4))
        held = pool.submit(far.relations, "t0")
        assert eventually(lambda: slow.asked == ["t0"])
        assert [far.relations(f"t{n}") for n in range(1, 6)] == [["colour", "next"]] * 5
        assert (slow.asked, len(quick.asked)) == (["t0"], 5)
        slow.gate.set()
        assert held.result(10) == ["colour", "next"]


def test_addresses_as_text(store: Path) -> None:
    with serving(store) as (_, one), serving(store) as (_, two):
        graph = load_graph(f"{one},{two}#things")
        assert isinstance(graph, HttpGraph)
        assert graph.relations("t0") == ["colour", "next"]
        assert repr(graph) == f"HttpGraph('{one}, {two}', graph='things')"
        assert graph.info()["triples"] == 1000
        graph.close()
    with pytest.raises(KgwalkError, match="'' is not the address of a server"):
        HttpGraph("http://127.0.0.1:1,")
    with pytest.raises(KgwalkError, match="no address of a server"):
        GraphServers([])


def test_servers_of_different_graphs_are_refused(store: Path, tmp_path: Path) -> None:
    """A fact less: an answer would depend on who gives it."""
    store_of(tmp_path, FACTS[:-1])
    with serving(store) as (_, one), serving(tmp_path / "graph.kg") as (_, two), HttpGraph([one, two], cache=0) as far:
        assert far.relations("t0") == ["colour", "next"]
        with pytest.raises(RemoteError, match=rf"{one} and {two} serve different graphs: triples is 1000 and 999\n"):
            far.relations("t1")
        assert colours(far, range(50)) == [[f"c{n}"] for n in range(50)]  # the first goes on alone


# Kills


def test_one_of_two_servers_is_killed_while_200_walks_run(store: Path) -> None:
    """A walk of two calls for each: thing n, the next one, its colour. All are right, whoever answered."""
    protocol = protocol_named("kgwalk")
    script = ['tail_entities($1, "next")', 'tail_entities($2, "colour")', "<answer>$3</answer>"]
    tasks = [Task(Question(f"q{n}", "?", [f"t{n}"], []), [f"t{n}"], key=f"{n}") for n in range(200)]
    with serving(store) as (victim, one), serving(store) as (_, two), HttpGraph([one, two], cache=0) as far:
        first, second = far._servers.all

        def kill() -> None:
            if eventually(lambda: first.requests >= 10):
                victim.kill()

        killing = threading.Thread(target=kill)
        killing.start()
        episodes = rollout(
            [(task, Environment(far)) for task in tasks],
            protocol,
            ScriptedEngine(lambda request: script[len([m for m in request.messages if m.role == "assistant"])]),
            budget=Budget(tool_retries=0),
        )
        killing.join()
        assert victim.wait(5) == -signal.SIGKILL
        assert first.failures > 0  # walks went on after the kill, and met the dead server
        assert second.requests > first.requests
        assert [episode.answers for episode in episodes] == [[f"c{n + 1}"] for n in range(200)]
        assert {(episode.stop, episode.failure) for episode in episodes} == {(StopReason.answered, None)}


def test_a_server_that_is_killed_and_comes_back(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_servers, "FIRST_REST", 0.3)
    with ExitStack() as stack:
        victim, one = stack.enter_context(serving(store))
        _, two = stack.enter_context(serving(store))
        far = stack.enter_context(HttpGraph([one, two], cache=0))
        stop, wrong, right = threading.Event(), list[object](), [0] * 8

        def ask(client: int) -> None:
            n = client
            while not stop.is_set():
                n += 8
                try:
                    found: object = far.neighbors(f"t{n % 500}", "colour").names
                except KgwalkError as error:
                    found = error
                if found == [f"c{n % 500}"]:
                    right[client] += 1
                else:
                    wrong.append(found)

        threads = [threading.Thread(target=ask, args=(client,)) for client in range(8)]
        for thread in threads:
            thread.start()
        first, _ = far._servers.all
        assert eventually(lambda: first.requests > 20)
        victim.kill()
        victim.wait()
        assert eventually(lambda: first.failures > 0)
        left_alone = first.requests
        assert eventually(lambda: sum(right) > 500)
        assert first.requests < left_alone + 20  # tried again now and then, and no more
        stack.enter_context(serving(store, port=int(one.rsplit(":", 1)[1])))
        assert eventually(lambda: first.failures == 0)
        back = first.requests
        assert eventually(lambda: first.requests > back + 20)  # it has its share again
        stop.set()
        for thread in threads:
            thread.join()
        assert wrong == []


def test_a_worker_behind_one_address_is_killed(store: Path) -> None:
    """Three of the workers that serve it are killed in turn; each call is answered once, by who is left."""
    with serving(store, workers=2) as (server, url), HttpGraph(url, cache=0) as far:
        assert eventually(lambda: len(psutil.Process(server.pid).children()) == 2)
        stop = threading.Event()

        def kill() -> None:
            for _ in range(3):
                if stop.wait(0.3):
                    return
                with suppress(psutil.Error, ValueError):  # the last one killed is just being replaced
                    children = psutil.Process(server.pid).children()
                    os.kill(max(children, key=lambda child: child.cpu_times().user).pid, signal.SIGKILL)

        killing = threading.Thread(target=kill)
        killing.start()
        found: list[list[str]] = []
        while killing.is_alive():
            found += colours(far, range(len(found), len(found) + 200))
        stop.set()
        killing.join()
        found += colours(far, range(len(found), len(found) + 200))
    assert found == [[f"c{n % 500}"] for n in range(len(found))]


def test_all_servers_are_dead(store: Path) -> None:
    with serving(store) as (one, first), serving(store) as (two, second), HttpGraph([first, second], cache=0) as far:
        assert far.relations("t0") == far.relations("t1") == ["colour", "next"]
        for server in (one, two):
            server.kill()
            server.wait()
        with pytest.raises(RemoteError, match=r"^none of 2 servers could be reached in 3 tries: ") as failed:
            far.relations("t0")
        assert first in str(failed.value)
        assert second in str(failed.value)
        assert "Check the addresses, and that `kgwalk serve` runs at one of them at least." in str(failed.value)
        (episode,) = rollout(
            [(Task(Question("q", "?", ["t0"], []), ["t0"]), Environment(far))],
            protocol_named("kgwalk"),
            ScriptedEngine(['tail_entities($1, "next")'] * 3),
        )
        assert episode.stop is StopReason.tool_failed
        assert episode.failure is not None
        assert "none of 2 servers" in episode.failure
        assert not episode.trainable
        with serving(store, port=int(second.rsplit(":", 1)[1])):
            assert far.relations("t2") == ["colour", "next"]


def test_a_server_that_is_overloaded_is_spared(store: Path) -> None:
    """One says 503 to everything, and asks for a minute's rest: its calls are answered by the other, at once."""
    refused: list[str] = []

    class Full(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            refused.append(self.path)
            self.send_response(503)
            self.send_header("Retry-After", "60")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Full) as full, serving(store) as (_, url):
        thread = threading.Thread(target=full.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        before = time.monotonic()
        try:
            with HttpGraph([f"http://127.0.0.1:{full.server_port}", url], cache=0) as far:
                assert colours(far, range(100)) == [[f"c{n}"] for n in range(100)]
        finally:
            full.shutdown()
            thread.join()
    assert 1 <= len(refused) <= 4  # by those who asked before the first was refused
    assert time.monotonic() - before < 20
