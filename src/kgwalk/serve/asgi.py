"""The little of HTTP that the routes need: read a body within bounds, answer with bytes, fail with a reason.

Knows nothing of graphs. Imports no framework, so a server is up before FastAPI could be imported.
"""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

if TYPE_CHECKING:
    from kgwalk.llm.engine import Engine
    from kgwalk.walk.budget import Budget


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

    def __init__(self, status: int, kind: str, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.reply = error_reply(status, kind, message, headers)


class ClientGone(Exception):
    """The client hung up before its request was complete."""


def error_reply(status: int, kind: str, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> HttpReply:
    return HttpReply(status, orjson.dumps({"error": {"kind": kind, "message": message}}), JSON, headers)


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


async def send_reply(send: Send, reply: HttpReply) -> None:
    headers = [(b"content-type", reply.content_type), (b"content-length", b"%d" % len(reply.body))]
    await send({"type": "http.response.start", "status": reply.status, "headers": [*headers, *reply.headers]})
    await send({"type": "http.response.body", "body": reply.body})


def _too_large(max_body: int, advice: str) -> HttpError:
    return HttpError(413, "body_too_large", f"the body is over {max_body:,} bytes; {advice}")


# ----------------------------------------------------------------------------------------------------
# How long a text may be: what no context can hold is refused before it is tokenised, or looked through for names.
#
# Knows characters and tokens; nothing of questions' meaning, or of ASGI.


# English has about 4. A vocabulary may have longer ones (a line of dashes), but no text is made of them alone.
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
    from kgwalk.walk.budget import Counted, ids_a_token

    counted = Counted(engine)
    room = min(counted.budget(budget).total_tokens, counted.context)
    if len(question.encode()) < room:
        return
    ids = len(engine.tokens.encode(question))
    if ids >= room:
        a_token = ids_a_token(engine)
        raise too_long(f"the question has {ids // a_token:,} tokens and there is room for {room // a_token:,}")


# ----------------------------------------------------------------------------------------------------
# Batches: a JSON body becomes a list of items, and the items are answered one by one, each for itself.
#
# The work runs on the event loop in slices of about 2 ms, so that a long batch holds nobody up: a hop to a
# thread costs more than most lookups. Items that the time limit leaves undone get an error of their own.
# Knows nothing of what the items ask.


SLICE = 0.002  # seconds of work between two looks at the other requests

# orjson's numbers and dict keys are as JSON has them; a store's `info` may hold NumPy integers.
OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS

_JSON_NAMES = {bool: "a boolean", str: "a string", list: "a list", dict: "an object", type(None): "null"}


class ItemError(Exception):
    """An item that cannot be answered; `kind` is a word of ours, the paper has codes for its own errors."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


def too_late() -> ItemError:
    message = "the request's time limit passed before this item was done; send it again, in a smaller batch"
    return ItemError("time_limit", message)


def parse_batch(body: bytes, field: str, max_batch: int) -> list[object]:
    """The items of `{field: [...]}` or of a bare list."""
    value = _parse(body)
    if isinstance(value, dict):
        if value.keys() != {field}:
            keys = ", ".join(map(repr, value)) or "no field"
            message = f'expected one field, "{field}", with a list; got {keys}'
            raise HttpError(422, "wrong_content", message)
        value = value[field]
    if not isinstance(value, list):
        message = f'expected {{"{field}": [...]}} or a list; got {json_type(value)}'
        raise HttpError(422, "wrong_content", message)
    if len(value) > max_batch:
        message = f"{len(value):,} items in one request; the most is {max_batch:,}"
        raise HttpError(413, "batch_too_large", message)
    return value


class NotText:
    """Stands for an item with half a surrogate pair in it: JSON can write that, but it is no text."""


def _parse(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if b"\\u" not in body:
            raise HttpError(400, "malformed_json", f"the body is not JSON: {error}") from error
        return _parse_leniently(body, error)


def _parse_leniently(body: bytes, error: orjson.JSONDecodeError) -> Any:
    """What orjson refuses may be one item's fault: its neighbours should not pay for a broken escape."""
    try:
        value = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise HttpError(400, "malformed_json", f"the body is not JSON: {error}") from error
    if isinstance(value, dict):
        return {_whole(key): _items(items) for key, items in value.items()}
    return _items(value)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _items(value: Any) -> Any:
    return [_whole(item) for item in value] if isinstance(value, list) else _whole(value)


def _whole(value: Any) -> Any:
    try:
        orjson.dumps(value)
    except TypeError:  # orjson.JSONEncodeError: a surrogate, or a number beyond 64 bits
        return NotText()
    return value


async def answer_all(
    items: list[object],
    answer: Callable[[object], Awaitable[Mapping[str, object]]],
    late: Callable[[object], Mapping[str, object]],
    deadline: float,
) -> HttpReply:
    """The reply `{"results": [...]}`, in order.

    The first item is always answered, so a client that asks again for the late ones gets on.
    """
    parts: list[bytes] = []
    until = monotonic() + SLICE
    for index, item in enumerate(items):
        # Each result becomes bytes at once: the encoding then counts in its slice, and names are not kept.
        parts.append(orjson.dumps(await answer(item)))
        if monotonic() >= until:
            await asyncio.sleep(0)
            now = monotonic()
            until = now + SLICE
            if now >= deadline:
                parts.extend(orjson.dumps(late(item)) for item in items[index + 1 :])
                break
    return HttpReply(200, b'{"results":[' + b",".join(parts) + b"]}")


def check_fields(item: object, known: frozenset[str], what: str) -> dict[str, Any]:
    """The item as an object that has no field but the known ones."""
    if not isinstance(item, dict):
        raise ItemError("bad_request", f"{what} is an object, not {json_type(item)}")
    if not item.keys() <= known:
        name = next(name for name in item if name not in known)
        near = difflib.get_close_matches(name[:60], known, 1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(sorted(known))}"
        raise ItemError("bad_request", f'unknown field "{name[:60]}"; {hint}')
    return item


def text_of(item: dict[str, Any], name: str) -> str | None:
    """A field that is a string; null and absence are both None."""
    value = item.get(name)
    if value is None or isinstance(value, str):
        return value
    raise ItemError("bad_request", f'"{name}" must be a string, not {json_type(value)}')


def needed(item: dict[str, Any], name: str) -> str:
    value = text_of(item, name)
    if value is None:
        raise ItemError("bad_request", f'"{name}" is missing')
    return value


def count(item: dict[str, Any], name: str, default: int, most: int | None = None, least: int = 0) -> int:
    """A field that is a whole number; over `most` it is an error, as the client would miss what is cut."""
    value = item.get(name)
    if value is None:
        return default
    if type(value) is not int:
        raise ItemError("bad_request", f'"{name}" must be a whole number, not {json_type(value)}')
    if value < least or (most is not None and value > most):
        bound = f"at least {least}" if most is None else f"between {least} and {most:,}"
        raise ItemError("bad_request", f'"{name}" must be {bound}, not {value}')
    return value


def flag(item: dict[str, Any], name: str, default: bool) -> bool:
    value = item.get(name)
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    raise ItemError("bad_request", f'"{name}" must be true or false, not {json_type(value)}')


def json_type(value: object) -> str:
    if isinstance(value, NotText):
        return "text that is not valid Unicode"
    return _JSON_NAMES.get(type(value), "a number")
