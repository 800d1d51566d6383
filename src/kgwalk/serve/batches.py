"""Batches: a JSON body becomes a list of items, each answered or refused for itself.

The work runs on the event loop in slices of about 2 ms, so that a long batch does not hold up other requests; moving an
item to a thread would cost more than most lookups. Items that the time limit leaves undone get an error of their own.
graph_routes.py says what an item means.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Any

import orjson

from kgwalk.serve.asgi import HttpError, HttpReply
from kgwalk.serve.reading import ItemError, NotText, json_type

SLICE = 0.002  # seconds of work between two looks at the other requests


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
