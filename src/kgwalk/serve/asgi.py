"""The little of HTTP that the routes need: bodies within bounds, replies, errors, streams.

Also how long a text may be: one that no context can hold is refused before it is tokenised or searched for names.
Imports no framework, so that a server is up before FastAPI could be imported.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from kgwalk.serve.shapes import RequestError, RequestErrorBody

if TYPE_CHECKING:
    from kgwalk.llm.engine import Engine
    from kgwalk.walk.rollout import Budget


Scope = MutableMapping[str, Any]
AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]

JSON = b"application/json"


class HttpReply(NamedTuple):
    status: int
    body: bytes
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class HttpError(Exception):
    """A request that fails as a whole; the client reads `{"error": {"kind", "message"}}`."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        *,
        nearest: Sequence[str] = (),
        facts: Sequence[list[str]] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.about: RequestErrorBody = {"kind": kind, "message": message}
        if nearest:
            self.about["nearest"] = list(nearest)
        if facts:
            self.about["facts"] = list(facts)
        self.reply = HttpReply(status, orjson.dumps({"error": self.about}), JSON, headers)


class ClientGone(Exception):
    """The client hung up before its request was complete."""


def error_reply(status: int, kind: str, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> HttpReply:
    body: RequestError = {"error": {"kind": kind, "message": message}}
    return HttpReply(status, orjson.dumps(body), JSON, headers)


STOPPING_WORDS = ("stopping", "the server is about to stop")
STOPPING = error_reply(503, *STOPPING_WORDS)


WHOLE = "kgwalk.whole"  # in the scope of a request whose body has arrived; reading it then needs no timer
AT_ONCE = 4  # times `max_body`: what all half-arrived bodies may hold together


class BodyReader:
    """Reads bodies within bounds: the bytes of one, of all that have half arrived, and the time.

    A body may take `seconds`, and no `silence` in it may be longer than that.
    """

    def __init__(self, max_body: int, seconds: float, silence: float) -> None:
        self._max_body, self._seconds, self._silence = max_body, seconds, silence
        self._held = 0  # bytes of half-arrived bodies

    async def __call__(self, scope: Scope, receive: Receive, advice: str) -> bytes:
        """The whole body. `advice` is for a client that sends too much."""
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > self._max_body:
                raise self._too_large(advice)
        if WHOLE in scope:
            message = await receive()
            body: bytes = message.get("body", b"")
        else:
            body, message = await self._arriving(receive)
        if message["type"] == "http.disconnect":
            raise ClientGone
        if len(body) > self._max_body:
            raise self._too_large(advice)
        return body

    async def parts(self, receive: Receive) -> AsyncIterator[bytes]:
        """A body piece by piece, for one that is not held in memory; only silence is bounded here."""
        more = True
        while more:
            try:
                async with asyncio.timeout(self._silence):
                    message = await receive()
            except TimeoutError as error:
                why = f"{self._silence:g} s passed without a byte of the body"
                raise HttpError(408, "timeout", why) from error
            if message["type"] == "http.disconnect":
                raise ClientGone
            yield message.get("body", b"")
            more = message.get("more_body", False)

    async def _arriving(self, receive: Receive) -> tuple[bytes, AsgiMessage]:
        """The body and the last message, in time."""
        began = monotonic()
        try:
            async with asyncio.timeout(min(self._seconds, self._silence)) as timer:
                message = await receive()
                body = message.get("body", b"")
                return await self._rest(body, receive, timer) if message.get("more_body", False) else (body, message)
        except TimeoutError as error:
            silent = monotonic() - began < self._seconds
            why = f"{self._silence:g} s passed without a byte of the body" if silent else None
            raise HttpError(408, "timeout", why or f"the body did not arrive within {self._seconds:g} s") from error

    async def _rest(self, first: bytes, receive: Receive, timer: asyncio.Timeout) -> tuple[bytes, AsgiMessage]:
        """The body and the last message; counted as it comes, since a chunked one does not say its size beforehand."""
        clock = asyncio.get_running_loop().time
        end = clock() + self._seconds
        parts, size = [first], len(first)
        self._held += size
        try:
            while size <= self._max_body:
                if self._held > AT_ONCE * self._max_body:
                    raise HttpError(503, "busy", "too many large bodies at once; try again", ((b"retry-after", b"1"),))
                timer.reschedule(min(end, clock() + self._silence))
                message = await receive()
                part = message.get("body", b"")
                parts.append(part)
                size += len(part)
                self._held += len(part)
                if not message.get("more_body", False):
                    break
            return b"".join(parts), message
        finally:
            self._held -= size

    def _too_large(self, advice: str) -> HttpError:
        return HttpError(413, "body_too_large", f"the body is over {self._max_body:,} bytes; {advice}")


async def send_reply(send: Send, reply: HttpReply) -> None:
    headers = [(b"content-type", reply.content_type), (b"content-length", b"%d" % len(reply.body))]
    await send({"type": "http.response.start", "status": reply.status, "headers": [*headers, *reply.headers]})
    await send({"type": "http.response.body", "body": reply.body})


class ReplyStream(NamedTuple):
    """A reply in parts. The first is known: whatever fails before it is a plain error."""

    first: bytes
    rest: AsyncGenerator[bytes, None]
    cut: bytes  # the last part of one that the server's end cuts off
    content_type: bytes = b"text/event-stream"


async def send_answer(send: Send, answer: HttpReply | ReplyStream) -> None:
    if isinstance(answer, HttpReply):
        await send_reply(send, answer)
        return
    headers = [(b"content-type", answer.content_type), (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
    try:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer.first, "more_body": True})
        async for part in answer.rest:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except asyncio.CancelledError:
        await send({"type": "http.response.body", "body": answer.cut})  # nobody hears it where the client has left
        raise
    finally:
        await answer.rest.aclose()


# How long a text may be

# English has about 4 a token. A vocabulary may have longer tokens (a line of dashes), but no text is all of these.
MOST_CHARACTERS_A_TOKEN = 32


def too_long(message: str) -> HttpError:
    return HttpError(400, "context_length_exceeded", message)


def check_characters(characters: int, tokens: int) -> None:
    """Refuse what cannot fit so many tokens, by its length alone.

    >>> check_characters(32_000, 1000)
    >>> check_characters(32_001, 1000)
    Traceback (most recent call last):
    ...
    kgwalk.serve.asgi.HttpError: the text has 32,001 characters; prompt and completion have 1,000 tokens at most
    """
    if characters > tokens * MOST_CHARACTERS_A_TOKEN:
        raise too_long(f"the text has {characters:,} characters; prompt and completion have {tokens:,} tokens at most")


def check_question(question: str, engine: Engine, budget: Budget) -> None:
    """Refuse a question that alone is longer than a walk's context: looking for names in it would take seconds.

    A token has at least a byte, so most questions need not be tokenised to know.
    """
    from kgwalk.walk.rollout import Counted, ids_a_token

    counted = Counted(engine)
    room = min(counted.budget(budget).total_tokens, counted.context)
    if len(question.encode()) < room:
        return
    ids = len(engine.tokens.encode(question))
    if ids >= room:
        a_token = ids_a_token(engine)
        raise too_long(f"the question has {ids // a_token:,} tokens and there is room for {room // a_token:,}")
