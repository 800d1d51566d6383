"""What the HTTP clients share: retries, deadlines, capped replies, and no secrets in messages.

    reply = Retry(2, FIRST_PAUSE).call(ask)  # `ask` raises RequestFailed where the request may succeed later

The clients are `kg.http`, `kg.sparql_client`, `llm.api` and `walk.web.providers`; each keeps its own paths, shapes of
replies and advice. Import this module only from modules that are imported on demand: it imports httpx.
"""

from __future__ import annotations

import asyncio
import email.utils
import random
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

FIRST_PAUSE = 0.5  # seconds before the first retry; each later one doubles it
LONGEST_PAUSE = 30.0  # seconds; a longer Retry-After is cut to this

T = TypeVar("T")
_sleep = time.sleep  # tests replace this name to see the pauses


class RequestFailed(Exception):
    """A request without a usable reply; `wait` is the least pause before a retry, and None where none would help.

    `advice` is what to do about it, if this failure has advice of its own.
    """

    def __init__(self, what: str, *, wait: float | None = 0.0, advice: str = "") -> None:
        super().__init__(what)
        self.wait, self.advice, self.tries = wait, advice, 1

    @property
    def told(self) -> str:
        """What failed, and how often it was tried."""
        tried = "once" if self.tries == 1 else f"{self.tries} times"
        return str(self) if self.wait is None else f"{self}, tried {tried}"


@dataclass(frozen=True, slots=True)
class Retry:
    """At most `retries` more tries. Before try n+1 it pauses first_pause * 2**(n-1) seconds, times 0.5 to 1.

    The random factor keeps the clients of a server that restarts from all coming back at once.
    """

    retries: int
    first_pause: float

    def call(self, once: Callable[[], T]) -> T:
        """What `once` returns at last; RequestFailed where no try is left or none would help."""
        tries = 0
        while True:
            tries += 1
            try:
                return once()
            except RequestFailed as failure:
                pause = self._pause(failure, tries)
            _sleep(pause)

    async def call_async(self, once: Callable[[], Awaitable[T]]) -> T:
        tries = 0
        while True:
            tries += 1
            try:
                return await once()
            except RequestFailed as failure:
                pause = self._pause(failure, tries)
            await asyncio.sleep(pause)

    def _pause(self, failure: RequestFailed, tries: int) -> float:
        failure.tries = tries
        if failure.wait is None or tries > self.retries:
            raise failure
        pause = min(self.first_pause * 2.0 ** (tries - 1), LONGEST_PAUSE) * random.uniform(0.5, 1.0)
        return max(pause, min(failure.wait, LONGEST_PAUSE))


@contextmanager
def failures(timeout: float) -> Iterator[None]:
    """Raises what httpx raises as RequestFailed. An unreadable reply is not tried again; the rest may pass."""
    try:
        yield
    except (TimeoutError, httpx.TimeoutException) as error:
        raise RequestFailed(f"no answer within {timeout:g} s") from error
    except httpx.TransportError as error:
        raise RequestFailed(f"no connection ({str(error) or type(error).__name__})") from error
    except (httpx.HTTPError, httpx.InvalidURL, zlib.error) as error:
        raise RequestFailed(f"an unreadable reply ({error})", wait=None, advice="check the address") from error


def may_pass(reply: httpx.Response) -> bool:
    """Whether the status says that the same request may succeed later."""
    return reply.status_code == 429 or reply.status_code >= 500


def retry_after(reply: httpx.Response) -> float:
    """Seconds that the server asks us to wait, given as a number or a date; 0 where it does not say."""
    told = reply.headers.get("Retry-After", "").strip()
    try:
        wait = float(told)
    except ValueError:
        try:
            wait = email.utils.parsedate_to_datetime(told).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return wait if wait > 0 else 0.0


def read_body(reply: httpx.Response, most_bytes: int, deadline: float) -> bytes | None:
    """The bytes of a streamed reply, plain or gzip; None if they are more, found out without holding them.

    httpx limits each wait for bytes; `deadline`, on the monotonic clock, limits the whole reply (TimeoutError).
    """
    packed = reply.headers.get("Content-Encoding", "").lower() in ("gzip", "x-gzip")
    unpack = zlib.decompressobj(16 + zlib.MAX_WBITS) if packed else None
    body = bytearray()
    for chunk in reply.iter_raw():
        # of a packed chunk no more is unpacked than may be held
        body += chunk if unpack is None else unpack.decompress(chunk, most_bytes + 1 - len(body))
        if len(body) > most_bytes:
            return None
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(body)


# Addresses and messages


def parse_address(url: str) -> httpx.URL | None:
    """The address of a server; None where it is not one of http:// or https:// with a host."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return None
    return parsed if parsed.scheme in ("http", "https") and parsed.host else None


def connection_options(url: httpx.URL) -> dict[str, Any]:
    """Options of an httpx client for one server, whose redirects it does not follow."""
    return {
        # Only where needed: reading the system's certificates takes longer than a thousand plain requests.
        "verify": url.scheme == "https",
        # A proxy that is set for the web must not get requests to this machine.
        "trust_env": url.host not in ("localhost", "127.0.0.1", "::1"),
    }


def shown(url: httpx.URL) -> str:
    """The address for messages: without a password before the host, or a key after the "?".

    >>> shown(httpx.URL("https://me:secret@example.org/sparql?key=secret"))
    'https://example.org/sparql'
    """
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


def hide(text: str, secrets: Iterable[str]) -> str:
    """The text with stars in place of each secret."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def status_line(reply: httpx.Response, said: str = "") -> str:
    """The status of a reply, and what the server said about it."""
    status, said = f"{reply.status_code} {reply.reason_phrase}".strip(), shorten(said)
    return f"{status}: {said}" if said else status


def shorten(text: str) -> str:
    """The text on one line of at most 250 characters, and dots where there was more.

    >>> shorten("down  for\\n repairs")
    'down for repairs'
    """
    line = " ".join(text.split())
    return line if len(line) <= 250 else f"{line[:250]}..."
