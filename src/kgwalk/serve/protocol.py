"""What one client may take of the server: bounded heads, deadlines for slow clients, caps on connections.

All of it works below the application, before a key could be checked. The protocol is uvicorn's; what is added here
counts bytes while they arrive and looks at all connections once a second. A request that has arrived whole is not
touched: how long its answer may take is the application's affair.

    a head (request line and headers) that is too long    431, closed while it arrives
    a head that takes too long                            408, closed
    an answer that nobody reads                           closed after `silence_time_limit` without a byte
    a body that goes on after its answer (413, say)       thrown away for 5 s, so that the answer is read; then closed
    half heads that hold too much together                503, closed
    one connection too many                               the one that waits for its client longest is closed;
                                                          where all are at work the newcomer gets a 503

Of several workers each has its share of the connections (`WorkerShare`). The kernel gives a new one to whichever worker
takes it first, and a client keeps it for many requests: by chance one worker may answer nearly all, and one that
replaces a dead worker none. So a worker that has at least two connections more than another ends its next answer with
`Connection: close`; the client connects again, and another worker, which has less to do, takes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import sys
from collections.abc import Iterable
from enum import IntEnum
from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING, Any

import h11
import numpy as np
import numpy.typing as npt
from uvicorn.protocols.http.h11_impl import H11Protocol

from kgwalk.serve.asgi import WHOLE, error_reply
from kgwalk.serve.settings import ServeSettings, address_key

try:
    import httptools
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError:  # H11Protocol, which uvicorn always has, is several times slower
    httptools = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

PIECE = 16 * 1024  # bytes that are parsed before the bounds are looked at again; a read gives up to 256 KB
HEADS_AT_ONCE = 64  # times `max_header_bytes`: what all half-arrived heads may hold together
LINGER = 5.0  # seconds
MOST_PIPELINED = 16  # requests of one connection that wait behind the one being answered
SPARE_FILES = 64  # open files that are kept for all but connections: the graphs, the log, the listener
SPREAD_PAUSE = 0.02  # seconds between two connections that a worker gives up: 64 of 64 are spread over two in 0.6 s
AWAY = np.iinfo(np.int64).max  # the count of a worker that takes no connections


class Arrived(IntEnum):
    """How much of the latest request is there."""

    HEAD = 0  # nothing, or a part of the head
    BODY = 1  # the head
    WHOLE = 2


class Refused(Exception):
    """Raised within the parser, to stop it."""


def _written(status: int, kind: str, message: str) -> bytes:
    reply = error_reply(status, kind, message)
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(reply.body)}\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + reply.body


class ConnectionCounts:
    """How many connections each worker has, in memory that its forks share."""

    def __init__(self, workers: int) -> None:
        self.of_worker: npt.NDArray[np.int64] = np.frombuffer(mmap.mmap(-1, 8 * workers), np.int64)
        self.of_worker[:] = AWAY

    def gone(self, worker: int) -> None:
        self.of_worker[worker] = AWAY


class WorkerShare:
    """What one worker knows of the others' connections."""

    def __init__(self, counts: ConnectionCounts, worker: int) -> None:
        self.worker = worker
        self._counts = counts.of_worker.data  # a memoryview gives ints faster than NumPy does
        self._next = 0.0

    def count(self, connections: int) -> None:
        """Tell the others how many connections this worker has."""
        self._counts[self.worker] = connections

    def gives_up_one(self) -> bool:
        """Whether the connection that is answered now should be made again: asked with each answer."""
        if self._counts[self.worker] < min(self._counts) + 2:
            return False
        now = monotonic()
        if now < self._next:
            return False
        self._next = now + SPREAD_PAUSE
        return True


class Connections:
    """The connections of one server process. uvicorn calls it as it would call a protocol's class."""

    def __init__(self, settings: ServeSettings, share: WorkerShare | None = None) -> None:
        self.settings = settings
        self._share = share  # of several workers
        if share is not None:
            share.count(0)
        self.most = min(settings.max_connections, raise_open_files(settings.max_connections))
        # In the order in which they began to wait for their clients: one that was answered goes to the end.
        self._by_address: dict[bytes, dict[BoundedConnection, None]] = {}
        self._count = 0
        self.held = 0  # bytes of half heads
        self._timer: asyncio.TimerHandle | None = None
        self.piece = min(PIECE, settings.max_header_bytes)
        self._interval = min(1.0, settings.header_time_limit / 4, settings.silence_time_limit / 4)
        self.refusals = {
            400: _written(400, "malformed_http", "the request is not HTTP/1.1"),
            408: _written(408, "timeout", f"the headers did not arrive within {settings.header_time_limit:g} s"),
            431: _written(
                431,
                "headers_too_large",
                f"the request line and the headers are over {settings.max_header_bytes:,} bytes "
                f"or {settings.max_header_lines:,} lines",
            ),
            503: _written(503, "busy", "too many connections; close some, or try again later"),
        }

    def __call__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> asyncio.Protocol:
        kind: Any = PROTOCOL
        return kind(self, config=config, server_state=server_state, app_state=app_state, _loop=_loop)  # type: ignore[no-any-return]

    def admit(self, one: BoundedConnection) -> bool:
        """Count a connection in. At a cap another makes room for it: the one that waits for its client longest."""
        beside = self._by_address.get(one.address, ())
        if len(beside) >= self.settings.max_connections_per_address and not _close_longest_waiting(beside):
            return False
        if self._count >= self.most:
            # An address with many connections pays before one with few.
            crowd = max(self._by_address.values(), key=len)
            if not any(_close_longest_waiting(beside) for beside in (crowd, *self._by_address.values())):
                return False
        self._by_address.setdefault(one.address, {})[one] = None
        self._counted(1)
        if self._timer is None:
            self._timer = one.loop.call_later(self._interval, self._sweep, one.loop)
        return True

    def leave(self, one: BoundedConnection) -> None:
        beside = self._by_address.get(one.address, {})
        if one in beside:
            del beside[one]
            self._counted(-1)
            if not beside:
                del self._by_address[one.address]

    def _counted(self, more: int) -> None:
        self._count += more
        if self._share is not None:
            self._share.count(self._count)

    def answered(self, one: BoundedConnection) -> None:
        beside = self._by_address.get(one.address, {})
        if one in beside:
            del beside[one]
            beside[one] = None

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close what is overdue. One timer for all: a timer for each request would cost every honest one."""
        now = loop.time()
        for one in [one for beside in self._by_address.values() for one in beside]:
            one.check_time(now)
        self._timer = loop.call_later(self._interval, self._sweep, loop) if self._count else None


def _close_longest_waiting(connections: Iterable[BoundedConnection]) -> bool:
    """Close the first that waits for its client: idle, or with half a request. False where all are at work."""
    longest = next((one for one in connections if one.waits_for_client), None)
    if longest is None:
        return False
    longest.all.leave(longest)  # now, not when the socket is closed: the newcomer is counted before that
    longest.drop()
    return True


class BoundedConnection:
    """One connection within the bounds. Stands before uvicorn's protocol in the classes below."""

    # uvicorn's
    transport: Any
    loop: asyncio.AbstractEventLoop
    client: tuple[str, int] | None
    cycle: Any
    headers: list[tuple[bytes, bytes]]

    def __init__(self, all_connections: Connections, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self.all = all_connections
        self.address = b""
        self.since = 0.0  # when it began to wait for its client, on the loop's clock
        self.arrived = Arrived.HEAD
        self._half_head = False
        self._bytes = 0  # since something of the request was complete: of half a head, or of trailers
        self._progress = self._head_ended = False  # whether the bytes just parsed completed something, and a head
        self._unsent, self._unsent_since = 0, 0.0

    @property
    def answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def waits_for_client(self) -> bool:
        return not self.answering or self.arrived is Arrived.BODY

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[misc]
        self.address = address_key(None if self.client is None else self.client[0])
        self.since = self.loop.time()
        if not self.all.admit(self):
            self.refuse(503)

    def connection_lost(self, error: Exception | None) -> None:
        self.all.leave(self)
        self._count_held(-self._bytes)
        super().connection_lost(error)  # type: ignore[misc]

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        self.all.answered(self)
        super().on_response_complete()  # type: ignore[misc]

    def refuse(self, status: int) -> None:
        """Answer and close. Within another answer there is no place for one."""
        if self.transport.is_closing():
            return
        metrics = getattr(self.app, "metrics", None)  # type: ignore[attr-defined]
        if metrics is not None:
            metrics.refused(status)
        if self.answering:
            self.transport.abort()
            return
        self.transport.write(self.all.refusals[status])
        self.transport.close()

    def drop(self) -> None:
        """Close without a word; what it has not read yet is given up."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def check_time(self, now: float) -> None:
        settings = self.all.settings
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self._unsent_since = unsent, now
        elif unsent and now - self._unsent_since > settings.silence_time_limit:
            self.transport.abort()
            return
        if self.transport.is_closing() or self.answering:
            return  # a body that is being read has the application's time limits
        waited = now - self.since
        if self.arrived is Arrived.BODY:
            if waited > min(LINGER, settings.silence_time_limit):
                self.drop()
        elif waited > settings.header_time_limit:
            if self._half_head:
                self.refuse(408)
            elif self.cycle is None:
                self.drop()  # nothing was ever asked; one that was is idle, and uvicorn closes it in time

    def _parsed(self, size: int) -> None:
        """Look at the bounds after `size` bytes were parsed."""
        if self._progress:
            if self._bytes:
                self._count_held(-self._bytes)
            if self.arrived is Arrived.WHOLE:
                self._half_head = False
                return
        else:
            self._count_held(size)
        half_head = self.arrived is not Arrived.BODY  # empty lines after a whole request begin the next head
        if self._head_ended or (half_head and not self._half_head):
            self.since = self.loop.time()
        self._half_head = half_head
        settings = self.all.settings
        if self._bytes > settings.max_header_bytes or self._lines() > settings.max_header_lines:
            self.refuse(431)
        elif self.all.held > HEADS_AT_ONCE * settings.max_header_bytes:
            self.refuse(503)

    def _count_held(self, size: int) -> None:
        self._bytes += size
        self.all.held += size

    def _lines(self) -> int:
        return len(self.headers or ())  # None before the first request


if httptools is not None:

    class BoundedHttpTools(BoundedConnection, HttpToolsProtocol):
        """Over httptools, which keeps whatever a header holds until its line ends."""

        def data_received(self, data: bytes) -> None:
            self._unset_keepalive_if_required()
            step = self.all.piece
            for at in range(0, len(data), step):
                piece = data[at : at + step] if len(data) > step else data
                self._progress = self._head_ended = False
                try:
                    self.parser.feed_data(piece)
                except httptools.HttpParserUpgrade:
                    pass  # no other protocol is spoken here: the request is answered as it is
                except httptools.HttpParserError as error:
                    self.refuse(431 if isinstance(error.__context__, Refused) else 400)
                    return
                self._parsed(len(piece))
                if self.transport.is_closing():
                    return

        def on_message_begin(self) -> None:
            self.arrived = Arrived.HEAD
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            # Now, and not when the piece is parsed: the application would have begun with it.
            settings = self.all.settings
            if (
                len(self.headers) > settings.max_header_lines
                or len(self.pipeline) >= MOST_PIPELINED
                or (self._bytes and self._head_bytes() > settings.max_header_bytes)  # else it is within one piece
            ):
                raise Refused
            self.arrived = Arrived.BODY
            self._progress = self._head_ended = True
            super().on_headers_complete()

        def _head_bytes(self) -> int:
            return len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)

        def on_body(self, body: bytes) -> None:
            self._progress = True
            super().on_body(body)

        def on_message_complete(self) -> None:
            self.arrived = Arrived.WHOLE
            self._progress = True
            self.scope[WHOLE] = True  # type: ignore[literal-required]
            super().on_message_complete()


class BoundedH11(BoundedConnection, H11Protocol):
    """Over h11, which itself bounds the bytes of a head and of trailers (`h11_max_incomplete_event_size`)."""

    def __init__(self, *given: Any, **uvicorns: Any) -> None:
        super().__init__(*given, **uvicorns)
        self._seen_lines, self._seen_bytes, self._tail = 0, 0, b""

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        if self.conn.their_state is h11.IDLE and not self.answering:
            seen = self._tail + data
            head, end, _ = seen.partition(b"\r\n\r\n")
            self._seen_lines += head.count(b"\n", len(self._tail))  # the first ends the request line
            self._seen_bytes += max(0, len(head) - len(self._tail))
            settings = self.all.settings
            if self._seen_lines > settings.max_header_lines or self._seen_bytes > settings.max_header_bytes:
                self.refuse(431)
                return
            self._tail = b"" if end else seen[-3:]
        super().data_received(data)
        if self.transport.is_closing():
            return
        state = self.conn.their_state
        self.arrived = {h11.IDLE: Arrived.HEAD, h11.SEND_BODY: Arrived.BODY}.get(state, Arrived.WHOLE)
        self._head_ended = self.cycle is not before
        self._progress = self._head_ended or self.arrived is not Arrived.HEAD
        if self._head_ended:
            self._seen_lines, self._seen_bytes, self._tail = 0, 0, b""
        self._parsed(len(data))

    def send_400_response(self, msg: str) -> None:
        # Called where h11's error was caught; it knows which status fits.
        hint = getattr(sys.exc_info()[1], "error_status_hint", 400)
        self.refuse(hint if hint in self.all.refusals else 400)


PROTOCOL: type[BoundedConnection] = BoundedH11 if httptools is None else BoundedHttpTools


def raise_open_files(connections: int) -> int:
    """Allow this process a file for each connection, as far as it may; how many connections then have one."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY in (soft, hard):
        hard = max(soft, connections + SPARE_FILES)
    wanted = min(hard, connections + SPARE_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            soft = wanted
    return connections if soft == resource.RLIM_INFINITY else max(1, min(connections, soft - SPARE_FILES))
