"""Hostile clients of `kgwalk serve`: heads without an end, slow clients, 400 asks at once, other sites, guessed keys.

Throughout, an honest client in a process of its own asks /health from the attackers' own address, on a new connection
each time. What is promised: it is answered within a second, and the server's memory stays under 1.3 times what it was
before the attack, when the model was open and had answered eight questions at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from benchmarks.attack import Result

MOST_SECONDS, MOST_MEMORY = 1.0, 1.3
TAKEN = 16 << 20  # bytes: an endless head that got further was not stopped; the kernel's buffers hold less
SOCKETS, ASKS = 1500, 400
HEADER_LIMIT, BODY_LIMIT = 10.0, 5.0 + 5.0  # seconds, the server's own: of headers; of a body and what follows its 408
QUESTIONS = ("which countries border both France and Germany?", "what is the capital of Italy?")
QUERY = json.dumps({"queries": [{"op": "neighbors", "entity": "France", "relation": "borders"}]}).encode()
KEY = "a-key-that-nobody-guesses"
_KEY_LINE = f"Authorization: Bearer {KEY}\r\n".encode()


def attack(seconds: float, seed: int) -> Result:
    """All attacks in turn, each for as long as the server's own limits need to show."""
    result, draw = Result(), random.Random(seed)
    pour_for = min(10.0, seconds / 8)
    with server(["--graph", "world"]) as (port, pid):
        for _ in range(2):  # the first opens the model
            asyncio.run(_asks(port, 8, 120))
        half_head = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: "
        half_body = _post("/kg/query", 1_000_000) + b"[" * 4096
        with watched(port, pid, result) as begin:
            begin("endless heads")
            _endless(port, pour_for, result)
            begin("slow headers")
            _slow(port, half_head, HEADER_LIMIT, "headers", result)
            begin("slow bodies")
            _slow(port, half_body, BODY_LIMIT, "bodies", result)
            begin("400 at once")
            asyncio.run(_at_once(port, min(45.0, seconds / 2), result))
            begin("other sites")
            _other_sites(port, draw, result)
    # Without a model a server is a tenth of that size, so the same bytes would show ten times as much.
    with server(["--graph", "world", "--adapter", "none"], key=KEY) as (port, pid):
        _ask_once(port, b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + _KEY_LINE + b"\r\n")
        with watched(port, pid, result, ", no model") as begin:
            begin("endless heads, no model")
            _endless(port, pour_for / 2, result, ", no model")
            begin("long half heads, no model")
            _slow(port, half_head + b"x" * 60_000, HEADER_LIMIT, "long headers, no model", result)
            begin("wrong keys, no model")
            _guess(port, draw, result)
    return result


# The server, and the honest client


@contextlib.contextmanager
def server(options: list[str], key: str | None = None) -> Iterator[tuple[int, int]]:
    """The port and the process of a running server."""
    environment = {name: value for name, value in os.environ.items() if name != "KGWALK_API_KEY"}
    if key is not None:
        environment["KGWALK_API_KEY"] = key
    with tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, "-m", "kgwalk", "serve", "--port", "0", *options]
        with subprocess.Popen(command, stderr=log, env=environment) as process:
            try:
                yield _port(log, process), process.pid
            finally:
                process.terminate()


def _port(log: Any, process: subprocess.Popen[bytes]) -> int:
    for _ in range(600):
        log.seek(0)
        text = log.read()
        if found := re.search(r"serves at http://127\.0\.0\.1:(\d+)", text):
            return int(found[1])
        if process.poll() is not None:
            raise RuntimeError(f"the server did not start: {text}")
        time.sleep(0.1)
    raise RuntimeError("the server did not start within a minute")


@contextlib.contextmanager
def watched(port: int, pid: int, result: Result, whose: str = "") -> Iterator[Callable[[str], None]]:
    """Watch memory and /health while the block runs, from another process: what is slow is then the server.

    The block is given a function that names what begins now.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    stop = context.Event()
    watcher = context.Process(target=_watch, args=(port, pid, stop, theirs))
    watcher.start()
    before = ours.recv()
    begun: list[tuple[float, str]] = []
    try:
        yield lambda name: begun.append((time.monotonic(), name))
    finally:
        stop.set()
        probes, most = ours.recv()
        watcher.join()
    for at, wait, wrong in probes:
        during = [name for since, name in begun if since <= at][-1:] or ["start"]
        result.check(not wrong and wait < MOST_SECONDS, f"{during[0]}: /health took {wait:.2f} s {wrong}")
    result.check(most < MOST_MEMORY * before, f"memory rose from {before:.0f} to {most:.0f} MB")
    ordered = sorted(wait for _, wait, _ in probes)
    result.figures[f"memory{whose}"] = f"{before:.0f} -> {most:.0f} MB ({most / before:.2f} times)"
    result.figures[f"/health{whose}"] = (
        f"{len(ordered)} asked, median {1000 * ordered[len(ordered) // 2]:.0f} ms, slowest {1000 * ordered[-1]:.0f} ms"
    )


def _watch(port: int, pid: int, stop: Event, pipe: Any) -> None:
    probes, most = [], _memory(pid)  # when, for how long, and what was wrong
    pipe.send(most)
    while not stop.is_set():
        began, wrong = time.monotonic(), ""
        try:
            reply = _ask_once(port, b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            if not reply.startswith(b"HTTP/1.1 200"):
                wrong = repr(reply[:60])
        except OSError as error:
            wrong = repr(error)
        probes.append((began, time.monotonic() - began, wrong))
        most = max(most, _memory(pid))
        time.sleep(0.05)
    pipe.send((probes, most))


def _memory(pid: int) -> float:
    """Resident megabytes, as the kernel counts them."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6


# Bytes


def _connect(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(source, 0))


def _ask_once(port: int, request: bytes, source: str = "127.0.0.1") -> bytes:
    with _connect(port, source) as made:
        made.sendall(request)
        parts = []
        while part := made.recv(65536):
            parts.append(part)
    return b"".join(parts)


def _post(path: str, length: int, *lines: str) -> bytes:
    about = ["Host: localhost", "Content-Type: application/json", *lines, f"Content-Length: {length}"]
    kept = {line.split(":")[0]: line for line in about}  # the later of two
    return "\r\n".join([f"POST {path} HTTP/1.1", *kept.values(), "", ""]).encode()


def _in_threads(works: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# The attacks


def _endless(port: int, seconds: float, result: Result, whose: str = "") -> None:
    """Heads without an end: lines, one value, one name, the URL, trailers; eight at a time, again and again."""
    begun = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    chunked = _post("/kg/query", 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"2\r\n[]\r\n0\r\n"
    kinds = [
        (begun, b"".join(b"X-%05d: 1\r\n" % number for number in range(6000))),
        (begun + b"X: ", b"x" * 65536),
        (begun + b"X", b"x" * 65536),
        (b"GET /", b"x" * 65536),
        (chunked + b"X: ", b"x" * 65536),
    ]
    stop = time.monotonic() + seconds
    outcomes: list[int] = []

    def pour(number: int) -> None:
        while time.monotonic() < stop:
            first, more = kinds[number % len(kinds)]
            sent = 0
            with contextlib.suppress(OSError), _connect(port) as made:
                made.sendall(first)
                while sent < TAKEN:
                    made.sendall(more)
                    sent += len(more)
            outcomes.append(sent)
            number += 1

    _in_threads([lambda number=number: pour(number) for number in range(8)])  # type: ignore[misc]
    for sent in outcomes:
        result.check(sent < TAKEN, f"a head without an end was taken for {sent >> 20} MB")
    result.figures[f"endless heads{whose}"] = f"{len(outcomes)}, at most {max(outcomes) / 1e6:.1f} MB sent"


def _slow(port: int, first: bytes, limit: float, what: str, result: Result) -> None:
    """Half a request on each of many sockets, then a byte a second. None may stay open past the limit."""
    made: list[socket.socket] = []
    try:
        for _ in range(SOCKETS):
            one = _connect(port)
            one.setblocking(False)
            with contextlib.suppress(OSError):
                one.sendall(first)
            made.append(one)
        stop = time.monotonic() + limit + 2  # the server looks once a second
        while time.monotonic() < stop:
            for one in made:
                with contextlib.suppress(OSError):
                    one.send(b"x")
            time.sleep(1)
        open_still = sum(not _closed(one) for one in made)
        result.tries += SOCKETS
        result.failures += [f"slow {what}: a connection is open after {limit:g} s"] * open_still
        result.figures[f"slow {what}"] = f"{SOCKETS} sockets, {open_still} open after {limit + 2:g} s"
    finally:
        for one in made:
            one.close()


def _closed(made: socket.socket) -> bool:
    try:
        while made.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


async def _asks(port: int, many: int, seconds: float) -> dict[str, int]:
    bodies = [json.dumps({"question": QUESTIONS[number % len(QUESTIONS)]}).encode() for number in range(many)]
    return await _posts(port, "/v1/ask", bodies, seconds)


async def _posts(port: int, path: str, bodies: list[bytes], seconds: float) -> dict[str, int]:
    """Post them all at once, each on a connection of its own; how often each status came.

    Who has no answer after so many seconds hangs up, which is no failure of the server's.
    """
    statuses: dict[str, int] = {}

    async def one(body: bytes) -> None:
        status = "lost"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            async with asyncio.timeout(seconds):
                writer.write(_post(path, len(body), "Connection: close") + body)
                status = (await reader.readuntil(b"\r\n")).split()[1].decode()
                await reader.read()
        except TimeoutError:
            status = "hung up"
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
        statuses[status] = statuses.get(status, 0) + 1

    await asyncio.gather(*(one(body) for body in bodies))
    return statuses


async def _at_once(port: int, seconds: float, result: Result) -> None:
    """400 questions at once: answered, or told that it is too many. 400 queries at once: answered."""
    asks = await _asks(port, ASKS, seconds)
    queries = await _posts(port, "/kg/query", [QUERY] * ASKS, seconds)
    for name, found, fine in (("asks", asks, ("200", "503", "hung up")), ("queries", queries, ("200",))):
        result.tries += ASKS
        for status, times in found.items():
            if status not in fine:
                result.failures += [f"one of {ASKS} {name} at once: {status}"] * times
        result.figures[f"{name} at once"] = ", ".join(f"{times} x {status}" for status, times in sorted(found.items()))


def _other_sites(port: int, draw: random.Random, result: Result) -> None:
    """What a page of another site could send: other Hosts, Origins and content types."""
    own = f"127.0.0.1:{port}"
    for _ in range(100):
        name = "".join(draw.choices("abcdefghij", k=8)) + ".example"
        host = draw.choice([name, f"{name}:{port}", f"127.0.0.1.{name}", f"localhost.{name}:{port}"])
        origin = draw.choice([f"http://{name}", f"https://{name}:{port}", "null", f"http://{own}.{name}"])
        kind = draw.choice(["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
        for line, status in ((f"Host: {host}", 421), (f"Origin: {origin}", 403), (f"Content-Type: {kind}", 415)):
            path = draw.choice(["/kg/query", "/kg/actions", "/v1/ask", "/v1/chat/completions"])
            reply = _ask_once(port, _post(path, len(QUERY), line, "Connection: close") + QUERY)
            result.check(reply.startswith(b"HTTP/1.1 %d" % status), f"{path} with {line!r} got {reply[:40]!r}")
    result.figures["other sites"] = "300 requests"


def _guess(port: int, draw: random.Random, result: Result) -> None:
    """Wrong keys from one address, as fast as it can; the right one from another, meanwhile."""
    looked_at: list[bool] = []
    honest: list[float] = []
    began = time.monotonic()

    def asked(key: str, source: str) -> bytes:
        line = f"Authorization: Bearer {key}"
        return _ask_once(port, _post("/kg/query", len(QUERY), line, "Connection: close") + QUERY, source)

    def guess() -> None:
        for _ in range(100):
            reply = asked("".join(draw.choices("abcdefghij", k=12)), "127.0.0.2")
            looked_at.append(reply.startswith(b"HTTP/1.1 401"))

    def use() -> None:
        for _ in range(50):
            at = time.perf_counter()
            right = asked(KEY, "127.0.0.1").startswith(b"HTTP/1.1 200")
            honest.append(time.perf_counter() - at)
            result.check(right, "the right key was refused")

    _in_threads([use, *[guess] * 8])
    allowed = 10 + int(time.monotonic() - began) + 1
    result.tries += len(looked_at)
    result.check(sum(looked_at) <= allowed, f"{sum(looked_at)} wrong keys were looked at, {allowed} may be")
    result.check(max(honest) < MOST_SECONDS, f"the right key's client waited {max(honest):.2f} s")
    result.figures["wrong keys"] = f"{sum(looked_at)} of {len(looked_at)} looked at"
