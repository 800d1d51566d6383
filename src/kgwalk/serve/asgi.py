"""The little of HTTP that the routes need: read a body within bounds, answer with bytes, fail with a reason.

Knows nothing of graphs. Imports no framework, so a server is up before FastAPI could be imported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

import orjson

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON = b"application/json"


class Reply(NamedTuple):
    status: int
    body: bytes
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class HttpError(Exception):
    """A request that fails as a whole; the client reads `{"error": {"kind", "message"}}`."""

    def __init__(self, status: int, kind: str, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.reply = error_reply(status, kind, message, headers)


class ClientGone(Exception):
    """The client hung up before its request was complete."""


def error_reply(status: int, kind: str, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Reply:
    return Reply(status, orjson.dumps({"error": {"kind": kind, "message": message}}), JSON, headers)


STOPPING_WORDS = ("stopping", "the server is about to stop")
STOPPING = error_reply(503, *STOPPING_WORDS)


async def read_body(scope: Scope, receive: Receive, max_body: int, seconds: float, advice: str) -> bytes:
    """The whole body. It is counted as it comes: a chunked one does not say its size beforehand.

    `advice` is for who sends too much.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > max_body:
            raise _too_large(max_body, advice)
    try:
        async with asyncio.timeout(seconds):
            message = await receive()
            body: bytes = message.get("body", b"")
            if message.get("more_body", False):
                parts, size = [body], len(body)
                while message.get("more_body", False) and size <= max_body:
                    message = await receive()
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                body = b"".join(parts)
    except TimeoutError as error:
        raise HttpError(408, "timeout", f"the body did not arrive within {seconds:g} s") from error
    if message["type"] == "http.disconnect":
        raise ClientGone
    if len(body) > max_body:
        raise _too_large(max_body, advice)
    return body


async def send_reply(send: Send, reply: Reply) -> None:
    headers = [(b"content-type", reply.content_type), (b"content-length", b"%d" % len(reply.body))]
    await send({"type": "http.response.start", "status": reply.status, "headers": [*headers, *reply.headers]})
    await send({"type": "http.response.body", "body": reply.body})


def _too_large(max_body: int, advice: str) -> HttpError:
    return HttpError(413, "body_too_large", f"the body is over {max_body:,} bytes; {advice}")
