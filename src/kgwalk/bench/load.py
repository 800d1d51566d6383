"""A client that asks a server as fast as it answers: keep-alive connections over plain sockets.

It speaks just enough HTTP/1.1 for our own server, so that the client is not what is measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson


@dataclass(frozen=True, slots=True)
class Load:
    requests: int
    seconds: float
    latencies: list[float]  # seconds, ascending
    statuses: dict[int, int]

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    def percentile(self, share: float) -> float:
        return self.latencies[min(len(self.latencies) - 1, int(share * len(self.latencies)))]


class Connection:
    """One keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader, self._writer, self._host = reader, writer, host

    @classmethod
    async def open(cls, url: str) -> Connection:
        parts = urlsplit(url)
        assert parts.hostname is not None
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 26)
        return cls(reader, writer, parts.netloc)

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        headers = f"host: {self._host}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        head = f"POST {path} HTTP/1.1\r\n{headers}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        lowered = answer.lower()
        at = lowered.index(b"content-length:") + len(b"content-length:")
        length = int(lowered[at : lowered.index(b"\r\n", at)])
        return int(answer[9:12]), await self._reader.readexactly(length)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


def ask(
    url: str,
    bodies: Sequence[bytes],
    *,
    clients: int,
    seconds: float,
    check: Callable[[int, bytes], None] | None = None,
) -> Load:
    """Post the bodies in turn to /kg/actions, from so many connections, for so long."""
    return asyncio.run(_ask(url, bodies, clients, seconds, check))


async def _ask(
    url: str,
    bodies: Sequence[bytes],
    clients: int,
    seconds: float,
    check: Callable[[int, bytes], None] | None,
) -> Load:
    latencies: list[float] = []
    statuses: dict[int, int] = {}
    connections = [await Connection.open(url) for _ in range(clients)]
    started = time.perf_counter()
    stop = started + seconds

    async def client(number: int) -> None:
        at = number * 7919 % len(bodies)  # each begins elsewhere
        while (before := time.perf_counter()) < stop:
            status, reply = await connections[number].post("/kg/actions", bodies[at])
            latencies.append(time.perf_counter() - before)
            statuses[status] = statuses.get(status, 0) + 1
            if check is not None:
                check(at, reply)
            at = (at + 1) % len(bodies)

    await asyncio.gather(*(client(number) for number in range(clients)))
    took = time.perf_counter() - started
    for connection in connections:
        await connection.close()
    return Load(len(latencies), took, sorted(latencies), statuses)


def bodies(actions: Sequence[dict[str, Any]], batch: int) -> list[bytes]:
    """Request bodies of `batch` actions each."""
    return [
        orjson.dumps({"actions": list(actions[start : start + batch])})
        for start in range(0, len(actions) - batch + 1, batch)
    ]
