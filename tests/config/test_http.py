"""What the HTTP clients share: a server that recovers, pauses, deadlines, oversized replies, and secrets."""

from __future__ import annotations

import asyncio
import doctest
import gzip
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

from kgwalk.config import http
from kgwalk.config.http import RequestFailed, Retry

SLOW_DOWN = (503, {"Retry-After": "7"})
FINE = (200, {"Content-Length": "4"})


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, in seconds, at their longest; none is slept."""
    slept: list[float] = []
    monkeypatch.setattr(http, "_sleep", slept.append)
    monkeypatch.setattr("random.uniform", lambda low, high: high)
    return slept


@contextmanager
def serving(*replies: tuple[int, dict[str, str]]) -> Iterator[tuple[str, list[float]]]:
    """A server that gives these statuses and headers in turn, then "fine"; and when it was asked."""
    left, times = list(replies), []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            times.append(time.monotonic())
            status, headers = left.pop(0)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"fine" if status == 200 else b"")

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", times
        finally:
            server.shutdown()
            thread.join()


def checked(reply: httpx.Response) -> str:
    if http.may_pass(reply):
        raise RequestFailed(http.status_line(reply, reply.text), wait=http.retry_after(reply))
    return reply.text


def failing(times: int, wait: float | None = 0.0) -> Callable[[], int]:
    """A call that fails so many times, then returns how often it was called."""
    calls = 0

    def once() -> int:
        nonlocal calls
        calls += 1
        if calls <= times:
            raise RequestFailed("down", wait=wait)
        return calls

    return once


# Retries


def test_a_server_that_recovers(pauses: list[float]) -> None:
    with serving(SLOW_DOWN, SLOW_DOWN, FINE) as (url, times), httpx.Client(trust_env=False) as client:
        assert Retry(2, 0.5).call(lambda: checked(client.get(url))) == "fine"
    assert len(times) == 3
    assert pauses == [7.0, 7.0]


def test_a_server_that_recovers_asked_from_an_event_loop() -> None:
    soon = (503, {"Retry-After": "0.1"})

    async def ask(url: str) -> str:
        async with httpx.AsyncClient(trust_env=False) as client:

            async def once() -> str:
                return checked(await client.get(url))

            return await Retry(2, 0.001).call_async(once)

    with serving(soon, soon, FINE) as (url, times):
        assert asyncio.run(ask(url)) == "fine"
    assert times[1] - times[0] >= 0.1
    assert times[2] - times[1] >= 0.1


def test_pauses_double_up_to_half_a_minute(pauses: list[float]) -> None:
    assert Retry(7, 0.5).call(failing(7)) == 8
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30]


def test_pauses_differ_between_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(http, "_sleep", slept.append)
    for _ in range(20):
        Retry(1, 1.0).call(failing(1))
    assert all(0.5 <= pause <= 1 for pause in slept)
    assert len(set(slept)) > 1


def test_a_server_is_not_believed_that_asks_for_a_day(pauses: list[float]) -> None:
    assert Retry(1, 0.5).call(failing(1, wait=86400)) == 2
    assert pauses == [30.0]


@pytest.mark.parametrize(
    ("retries", "wait", "told"),
    [(0, 0.0, "down, tried once"), (2, 0.0, "down, tried 3 times"), (2, None, "down")],
)
def test_giving_up(pauses: list[float], retries: int, wait: float | None, told: str) -> None:
    with pytest.raises(RequestFailed) as failed:
        Retry(retries, 0.5).call(failing(9, wait=wait))
    assert failed.value.told == told
    assert len(pauses) == (0 if wait is None else retries)


def test_giving_up_in_an_event_loop() -> None:
    async def once() -> None:
        raise RequestFailed("down")

    with pytest.raises(RequestFailed) as failed:
        asyncio.run(Retry(1, 0.001).call_async(once))
    assert failed.value.told == "down, tried 2 times"


# Which failures may pass


@pytest.mark.parametrize(
    ("error", "told", "may_pass"),
    [
        (httpx.ReadTimeout("slow"), "no answer within 3 s", True),
        (TimeoutError(), "no answer within 3 s", True),
        (httpx.ConnectError("refused"), "no connection (refused)", True),
        (httpx.RemoteProtocolError(""), "no connection (RemoteProtocolError)", True),
        (httpx.DecodingError("bad gzip"), "an unreadable reply (bad gzip)", False),
    ],
)
def test_failures_of_httpx(error: Exception, told: str, may_pass: bool) -> None:
    with pytest.raises(RequestFailed) as failed, http.failures(3.0):
        raise error
    assert str(failed.value) == told
    assert (failed.value.wait is not None) == may_pass
    assert failed.value.__cause__ is error


def test_an_error_of_our_own_is_let_through() -> None:
    with pytest.raises(KeyError), http.failures(3.0):
        raise KeyError


def test_statuses_that_may_pass() -> None:
    statuses = [200, 301, 400, 401, 404, 429, 500, 502, 503, 529]
    assert [one for one in statuses if http.may_pass(httpx.Response(one))] == [429, 500, 502, 503, 529]


@pytest.mark.parametrize(
    ("told", "wait"),
    [("7", 7.0), ("0.2", 0.2), (" 7 ", 7.0), ("0", 0.0), ("-7", 0.0), ("nan", 0.0), ("soon", 0.0), ("", 0.0)],
)
def test_retry_after_in_seconds(told: str, wait: float) -> None:
    assert http.retry_after(httpx.Response(503, headers={"Retry-After": told})) == wait


def test_retry_after_as_a_date() -> None:
    later, before = (formatdate(time.time() + seconds, usegmt=True) for seconds in (20, -20))
    assert 17 < http.retry_after(httpx.Response(503, headers={"Retry-After": later})) <= 20
    assert http.retry_after(httpx.Response(503, headers={"Retry-After": before})) == 0
    assert http.retry_after(httpx.Response(503)) == 0


# Replies that are too slow or too large


class Chunks(httpx.SyncByteStream):
    """A reply that comes in these pieces, so many seconds apart; `given` counts those that were read."""

    def __init__(self, chunks: list[bytes], apart: float = 0.0) -> None:
        self._chunks, self._apart, self.given = chunks, apart, 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.given += 1
            yield chunk
            time.sleep(self._apart)


def test_a_reply_that_drips_is_late() -> None:
    """Each byte comes in time; the whole would take 5 s."""
    drip = Chunks([b"x"] * 100, apart=0.05)
    with pytest.raises(RequestFailed, match=r"no answer within 0\.2 s"), http.failures(0.2):
        http.read_body(httpx.Response(200, stream=drip), 1000, time.monotonic() + 0.2)
    assert drip.given < 10


def test_a_reply_is_read_up_to_the_cap() -> None:
    later = time.monotonic() + 60
    assert http.read_body(httpx.Response(200, stream=Chunks([b"ab", b"cd"])), 4, later) == b"abcd"
    large = Chunks([b"ab", b"cd", b"ef", b"gh"])
    assert http.read_body(httpx.Response(200, stream=large), 4, later) is None
    assert large.given == 3  # the rest was not read


def test_a_packed_reply_is_measured_unpacked() -> None:
    later, packed = time.monotonic() + 60, {"Content-Encoding": "gzip"}

    def read(data: bytes) -> bytes | None:
        return http.read_body(httpx.Response(200, headers=packed, stream=Chunks([data])), 1000, later)

    assert read(gzip.compress(b"x" * 1000)) == b"x" * 1000
    assert read(gzip.compress(b"x" * 1001)) is None
    with pytest.raises(RequestFailed, match="an unreadable reply"), http.failures(1.0):
        read(b"no gzip")


# Addresses and messages


def test_no_secret_of_an_address_is_shown() -> None:
    url = httpx.URL("https://me:secret@example.org:8443/sparql?key=secret#secret")
    assert http.shown(url) == "https://example.org:8443/sparql"
    assert http.hide("the key k-1 of p-2 is wrong: k-1", ["k-1", "p-2"]) == "the key *** of *** is wrong: ***"


@pytest.mark.parametrize("url", ["graph.kg", "ftp://example.org", "http://", "http://example.org:port", ""])
def test_what_is_no_address(url: str) -> None:
    assert http.parse_address(url) is None


def test_a_proxy_does_not_get_requests_to_this_machine() -> None:
    def options(url: str) -> dict[str, object]:
        return http.connection_options(httpx.URL(url))

    assert options("http://localhost:8000") == {"verify": False, "trust_env": False}
    assert options("http://[::1]:8000") == {"verify": False, "trust_env": False}
    assert options("https://example.org") == {"verify": True, "trust_env": True}


def test_what_a_server_said_is_short() -> None:
    assert http.status_line(httpx.Response(503), "down\n for   repairs") == "503 Service Unavailable: down for repairs"
    assert http.status_line(httpx.Response(404)) == "404 Not Found"
    assert http.shorten("x" * 250) == "x" * 250
    assert http.shorten("x" * 251) == "x" * 250 + "..."


def test_the_examples() -> None:
    results = doctest.testmod(http)
    assert (results.failed, results.attempted) == (0, 2)
