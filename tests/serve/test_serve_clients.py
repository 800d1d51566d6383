"""Hostile clients: heads without an end, clients that say nothing, too many connections, other sites, guessed keys."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

import kgwalk.serve.protocol as protocol
from conftest import FILMS
from kgwalk.bench.servers import ScanGraph
from kgwalk.llm.engine import Generation, Request, ScriptedEngine
from kgwalk.serve.app import create_app
from kgwalk.serve.protocol import BoundedH11, BoundedHttpTools
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings, address_key
from kgwalk.types import KgwalkError

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /kg/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
QUERY = {"queries": [{"op": "contains", "entity": "Big"}]}
MOST_SENT = 64 << 20  # bytes after which an endless client gives up: the server has taken them


@pytest.fixture(params=[BoundedHttpTools, BoundedH11], autouse=True)
def either_parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of this holds with httptools and, where that is not installed, with h11."""
    monkeypatch.setattr(protocol, "PROTOCOL", request.param)


@contextmanager
def serving(engine: ScriptedEngine | None = None, **options: Any) -> Iterator[httpx.Client]:
    app = create_app(ServeSettings(**options), {"films": ScanGraph(FILMS)}, engine=engine)
    with in_background(app) as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
        yield client


@contextmanager
def connected(client: httpx.Client, source: str = "127.0.0.1") -> Iterator[socket.socket]:
    address = (client.base_url.host, client.base_url.port or 80)
    with socket.create_connection(address, timeout=20, source_address=(source, 0)) as made:
        yield made


def received(made: socket.socket) -> bytes:
    """All that comes until the server closes."""
    parts = []
    try:
        while part := made.recv(65536):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


def told(reply: bytes) -> tuple[int, str]:
    head, _, body = reply.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["kind"]


def pour(made: socket.socket, first: bytes, more: bytes) -> int:
    """Send `more` again and again until the server closes; how many bytes it took."""
    made.sendall(first)
    sent = 0
    try:
        while sent < MOST_SENT:
            made.sendall(more)
            sent += len(more)
    except ConnectionError:
        pass
    return sent


# --- heads


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (GET, b"".join(b"X-%04d: 1\r\n" % n for n in range(5000))),
        (GET + b"X: ", b"x" * 65536),
        (GET + b"X", b"x" * 65536),
        (b"GET /", b"x" * 65536),
        (b"", b"\r\n" * 32768),
    ],
    ids=["lines", "value", "name", "url", "empty lines"],
)
def test_a_head_without_an_end_is_stopped_while_it_arrives(first: bytes, more: bytes) -> None:
    with serving() as client, connected(client) as made:
        # What the kernel takes meanwhile is not the server's, and a few megabytes on loopback.
        assert pour(made, first, more) < MOST_SENT
        assert client.get("/health").status_code == 200


@pytest.mark.parametrize("line", [b"X: " + b"x" * 70_000 + b"\r\n", b"X: 1\r\n" * 200], ids=["bytes", "lines"])
def test_who_sends_too_long_a_head_is_told(line: bytes) -> None:
    with serving() as client, connected(client) as made:
        made.sendall(GET + line + b"\r\n")
        assert told(received(made)) == (431, "headers_too_large")
        assert 'kgwalk_refused_total{status="431"} 1.0' in client.get("/metrics").text


def test_a_head_within_the_bounds_is_answered() -> None:
    lines = b"".join(b"X-%d: %s\r\n" % (n, b"x" * 600) for n in range(98))  # 100 with Host and Connection; 60 KB
    with serving() as client, connected(client) as made:
        made.sendall(GET + b"Connection: close\r\n" + lines + b"\r\n")
        assert received(made).startswith(b"HTTP/1.1 200")
    with serving(max_header_lines=3) as client, connected(client) as made:
        made.sendall(GET + b"A: 1\r\nB: 1\r\nC: 1\r\n\r\n")
        assert told(received(made)) == (431, "headers_too_large")


def test_half_heads_share_a_bound() -> None:
    with serving(max_header_bytes=1000) as client, ExitStack() as stack:
        for _ in range(80):  # each holds 904 bytes; together they may hold 64,000
            made = stack.enter_context(connected(client))
            made.sendall(b"GET /" + b"x" * 899)
        assert told(received(made)) == (503, "busy")
        assert client.get("/health").status_code == 200  # a head that arrives whole holds nothing


def test_trailers_are_bounded_as_headers_are() -> None:
    with serving(max_body=1000) as client, connected(client) as made:
        first = POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\nX: "
        assert pour(made, first, b"x" * 65536) < MOST_SENT


def test_a_large_body_is_not_taken_for_a_head() -> None:
    items = [{"op": "contains", "entity": "Big", "question": None}] * 1000
    with serving(max_header_bytes=1000) as client:
        for _ in range(2):  # the second on the same connection
            assert len(client.post("/kg/query", json={"queries": items}).json()["results"]) == 1000
        body = json.dumps({"queries": items}).encode()
        pieces = (body[at : at + 7] for at in range(0, len(body), 7))  # chunks of which most is not data
        headers = {"Content-Type": "application/json"}
        assert client.post("/kg/query", content=pieces, headers=headers).status_code == 200


def test_what_is_not_http_is_told_so() -> None:
    with serving() as client, connected(client) as made:
        made.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert told(received(made)) == (400, "malformed_http")


# --- slow clients


@pytest.mark.parametrize("sent", [b"GET /hea", GET, GET + b"X: "])
def test_half_a_head_has_a_deadline_that_more_bytes_do_not_move(sent: bytes) -> None:
    with serving(header_time_limit=0.4) as client, connected(client) as made:
        made.sendall(sent)
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.05):
                try:
                    made.sendall(b"x")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            assert told(received(made)) == (408, "timeout")
        finally:
            stop.set()
            thread.join()


def test_who_never_asks_is_closed_without_a_word() -> None:
    with serving(header_time_limit=0.2) as client, connected(client) as made:
        assert received(made) == b""


def test_an_idle_connection_is_kept_for_longer_than_a_head_may_take() -> None:
    with serving(header_time_limit=0.2) as client, connected(client) as made:
        for _ in range(2):
            made.sendall(GET + b"\r\n")
            assert made.recv(65536).startswith(b"HTTP/1.1 200")
            time.sleep(0.6)


def test_a_silence_within_a_body_ends_it() -> None:
    with serving(time_limit=20, silence_time_limit=0.3) as client, connected(client) as made:
        made.sendall(POST + b"Content-Length: 100\r\n\r\n[1,")
        reply = received(made)  # 408 at once, and closed when the rest does not come
        assert told(reply) == (408, "timeout")
        assert b"0.3 s passed without a byte of the body" in reply


def test_a_body_has_a_deadline_that_more_bytes_do_not_move() -> None:
    with serving(time_limit=0.4, silence_time_limit=5) as client, connected(client) as made:
        made.sendall(POST + b"Content-Length: 100\r\n\r\n")
        for _ in range(20):
            made.sendall(b" ")
            time.sleep(0.05)
        assert told(made.recv(65536)) == (408, "timeout")


def test_a_body_that_comes_after_its_answer_is_not_waited_for() -> None:
    with serving(silence_time_limit=0.3, max_body=100) as client, connected(client) as made:
        made.sendall(POST + b"Content-Length: 1000000000\r\n\r\n")
        assert told(made.recv(65536)) == (413, "body_too_large")
        made.settimeout(0.02)
        for _ in range(200):
            with contextlib.suppress(TimeoutError):
                if is_closed(made):
                    break
            made.sendall(b"x" * 100)
        else:
            pytest.fail("the server goes on reading")


def test_who_does_not_read_the_answer_is_closed() -> None:
    facts = [("hub", "r", f"{number} {'x' * 500}") for number in range(10_000)]
    app = create_app(ServeSettings(silence_time_limit=0.4, time_limit=20), {"g": ScanGraph(facts)})
    ask = json.dumps({"queries": [{"op": "neighbors", "entity": "hub", "relation": "r", "limit": 10_000}] * 4}).encode()
    with in_background(app) as url, httpx.Client(base_url=url, trust_env=False) as client, connected(client) as made:
        made.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(ask) + ask)  # the answer has 20 MB
        for _ in range(200):
            time.sleep(0.1)
            if len(app_connections(app)) == 0:
                break
        made.settimeout(5)
        assert len(received(made)) < 20_000_000


def app_connections(app: Any) -> list[Any]:
    return [one for one in gc.get_objects() if isinstance(one, protocol.BoundedConnection) and one.app is app]


def test_a_long_answer_is_not_cut_by_the_deadlines() -> None:
    class Slow(ScriptedEngine):
        async def generate(self, request: Request) -> Generation:
            await asyncio.sleep(0.8)
            return await super().generate(request)

    walk = ['tail_entities($1, "directed_by")', "<answer>$2</answer>"]
    engine = Slow(lambda request: walk[sum(one.role == "assistant" for one in request.messages)])
    about = {"header_time_limit": 0.2, "silence_time_limit": 0.2, "time_limit": 0.2}
    with serving(engine, **about) as client:
        asked = client.post("/v1/ask", json={"question": "who directed Big?"})
        assert asked.json()["answers"] == ["Penny Marshall"]
        message = {"role": "user", "content": "who directed Big?"}
        with client.stream(
            "POST", "/v1/chat/completions", json={"model": "kgwalk", "stream": True, "messages": [message]}
        ) as stream:
            assert list(stream.iter_lines())[-2] == "data: [DONE]"


# --- connections


@contextmanager
def after_a_while(client: httpx.Client) -> Iterator[socket.socket]:
    time.sleep(0.05)  # so that it has waited for less than the one before
    with connected(client) as made:
        yield made


def is_closed(made: socket.socket) -> bool:
    try:
        return made.recv(65536) == b""
    except ConnectionError:
        return True


def test_at_the_cap_the_connection_that_waits_longest_makes_room() -> None:
    with serving(max_connections_per_address=3) as client, ExitStack() as stack:
        first, second, third = (stack.enter_context(after_a_while(client)) for _ in range(3))
        second.sendall(b"GET /he")
        time.sleep(0.1)
        fourth = stack.enter_context(connected(client))
        fourth.sendall(GET + b"\r\n")
        assert fourth.recv(65536).startswith(b"HTTP/1.1 200")
        assert is_closed(first)
        third.sendall(GET + b"\r\n")  # still there
        assert third.recv(65536).startswith(b"HTTP/1.1 200")


def test_where_all_are_at_work_the_newcomer_is_told() -> None:
    release = threading.Event()

    class Held(ScriptedEngine):
        async def generate(self, request: Request) -> Generation:
            await asyncio.to_thread(release.wait)
            return await super().generate(request)

    body = json.dumps({"question": "who directed Big?"}).encode()
    about = b"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: %d" % len(body)
    ask = b"POST /v1/ask HTTP/1.1\r\n" + about + b"\r\n\r\n" + body
    engine = Held(lambda request: "<answer>$1</answer>")
    with serving(engine, max_connections_per_address=2) as client, ExitStack() as stack:
        asking = [stack.enter_context(connected(client)) for _ in range(2)]
        for one in asking:
            one.sendall(ask)
        time.sleep(0.5)
        with connected(client) as third:
            assert told(received(third)) == (503, "busy")
        with connected(client, "127.0.0.2") as elsewhere:  # another address is not held up by it
            elsewhere.sendall(GET + b"Connection: close\r\n\r\n")
            assert received(elsewhere).startswith(b"HTTP/1.1 200")
        release.set()
        assert [one.recv(12) for one in asking] == [b"HTTP/1.1 200"] * 2


def test_in_all_the_address_with_most_connections_pays() -> None:
    with serving(max_connections=4) as client, ExitStack() as stack:
        one = stack.enter_context(connected(client, "127.0.0.3"))  # waits longest, but alone
        time.sleep(0.05)
        many = [stack.enter_context(after_a_while(client)) for _ in range(3)]
        time.sleep(0.1)
        newcomer = stack.enter_context(connected(client, "127.0.0.2"))
        for made in (newcomer, one):
            made.sendall(GET + b"\r\n")
            assert made.recv(65536).startswith(b"HTTP/1.1 200")
        assert is_closed(many[0])


def test_pipelined_requests_are_answered_up_to_a_bound() -> None:
    with serving() as client, connected(client) as made:
        made.sendall((GET + b"\r\n") * 4 + GET + b"Connection: close\r\n\r\n")
        assert received(made).count(b"HTTP/1.1 200") == 5
        assert client.get("/health").status_code == 200


def test_thousands_of_pipelined_requests_are_not_kept(request: pytest.FixtureRequest) -> None:
    with serving() as client, connected(client) as made:
        made.sendall((GET + b"\r\n") * 5000)
        if protocol.PROTOCOL is BoundedHttpTools:  # h11 parses the next when the last is answered
            assert received(made).count(b"HTTP/1.1 200") <= 18
        assert client.get("/health").status_code == 200


def test_half_arrived_bodies_share_a_bound() -> None:
    with serving(max_body=1000, time_limit=3) as client, ExitStack() as stack:
        for _ in range(5):  # each holds 900 bytes; together they may hold 4,000
            made = stack.enter_context(connected(client))
            made.sendall(POST + b"Content-Length: 1000\r\n\r\n")
            time.sleep(0.05)
            made.sendall(b"[" * 900)
            time.sleep(0.05)
        assert told(made.recv(65536)) == (503, "busy")
        assert client.post("/kg/query", json=QUERY).status_code == 200  # one that arrives whole holds nothing


# --- other sites


@pytest.mark.parametrize(
    "host", ["localhost:8000", "LOCALHOST", "127.0.0.1", "127.8.8.8:1", "[::1]:8000", "localhost."]
)
def test_without_a_key_this_machines_names_are_answered_to(host: str) -> None:
    with serving() as client:
        assert client.get("/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8000", "10.0.0.1"])
def test_without_a_key_no_other_name_is(host: str) -> None:
    with serving() as client:
        for reply in (
            client.get("/", headers={"Host": host}),
            client.get("/health", headers={"Host": host}),
            client.post("/kg/query", json=QUERY, headers={"Host": host}),
        ):
            assert (reply.status_code, reply.json()["error"]["kind"]) == (421, "unknown_host")
            assert "--allow-host NAME" in reply.json()["error"]["message"]


def test_hosts_that_are_named_and_servers_with_a_key() -> None:
    with serving(allow_hosts=["kg.example.org"]) as client:
        assert client.get("/health", headers={"Host": "kg.example.org:8000"}).status_code == 200
        assert client.get("/health", headers={"Host": "localhost"}).status_code == 200
        assert client.get("/health", headers={"Host": "other.example.org"}).status_code == 421
    for options in ({"allow_hosts": ["*"]}, {"api_key": "k"}):
        with serving(**options) as client:
            assert client.get("/health", headers={"Host": "evil.example"}).status_code == 200
    with serving(api_key="k", allow_hosts=["kg.example.org"]) as client:
        assert client.get("/health", headers={"Host": "evil.example"}).status_code == 421
    with pytest.raises(KgwalkError, match=r"must be names such as kg\.example\.org, without http:// or a port"):
        ServeSettings(allow_hosts=["http://kg.example.org"])


def test_the_address_that_is_listened_on_is_a_name_too() -> None:
    app = create_app(ServeSettings(host="192.0.2.1", insecure=True), {"films": ScanGraph(FILMS)})
    with in_background(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        assert client.get("/health", headers={"Host": "192.0.2.1:8000"}).status_code == 200
        assert client.get("/health", headers={"Host": "192.0.2.2:8000"}).status_code == 421


@pytest.mark.parametrize("key", [None, "k"])
def test_a_page_of_another_site_is_refused(key: str | None) -> None:
    with serving(api_key=key, allow_hosts=["kg.example.org"]) as client:
        if key:
            client.headers["Authorization"] = "Bearer k"
        own = f"localhost:{client.base_url.port}"
        for origin, expected in (
            (f"http://{own}", 200),
            ("https://kg.example.org", 200),  # a proxy may have changed the Host
            ("http://evil.example", 403),
            ("null", 403),
            (f"http://{own}.evil.example", 403),
            ("http://localhost:1", 403),  # another server of this machine
        ):
            reply = client.post("/kg/query", json=QUERY, headers={"Host": own, "Origin": origin})
            assert (origin, reply.status_code) == (origin, expected)
        assert reply.json()["error"]["kind"] == "foreign_origin"


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded", "text/json"])
def test_a_body_that_a_page_could_send_unasked_is_refused(content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    with serving() as client:
        for path in ("/kg/query", "/kg/actions", "/v1/ask", "/v1/chat/completions", "/elsewhere"):
            reply = client.post(path, content=json.dumps(QUERY).encode(), headers=headers)
            assert (reply.status_code, reply.json()["error"]["kind"]) == (415, "not_json")
            assert "Content-Type: application/json" in reply.json()["error"]["message"]
        given = {"Content-Type": "Application/JSON; charset=utf-8"}
        assert client.post("/kg/query", content=json.dumps(QUERY).encode(), headers=given).status_code == 200


# --- keys


def test_wrong_keys_are_slowed_down_and_only_those_of_their_address() -> None:
    with serving(api_key="s3cret", wrong_keys=3) as client:
        statuses = [client.get("/metrics", headers={"Authorization": f"Bearer {n}"}).status_code for n in range(5)]
        assert statuses == [401, 401, 401, 429, 429]
        right = {"Authorization": "Bearer s3cret"}
        refused = client.get("/metrics", headers=right)  # else a guess would show by how fast it is answered
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert client.get("/metrics").status_code == 401  # no key is no guess
        assert client.get("/health").status_code == 200
        transport = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(base_url=client.base_url, transport=transport, trust_env=False) as elsewhere:
            assert elsewhere.get("/metrics", headers=right).status_code == 200
        time.sleep(1.1)
        assert client.get("/metrics", headers=right).status_code == 200


def test_behind_a_proxy_wrong_keys_are_the_proxys_affair() -> None:
    with serving(api_key="s3cret", wrong_keys=0) as client:
        statuses = {client.get("/metrics", headers={"Authorization": f"Bearer {n}"}).status_code for n in range(30)}
        assert statuses == {401}
        assert client.get("/metrics", headers={"Authorization": "Bearer s3cret"}).status_code == 200


def test_an_address_is_what_one_client_has() -> None:
    assert address_key("127.0.0.1") != address_key("127.0.0.2")
    assert address_key("2001:db8::1") == address_key("2001:db8::2") != address_key("2001:db8:0:1::1")
    assert address_key(None) == b""
