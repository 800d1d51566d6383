"""One HTTP client for every search engine: time-outs, retries, a rate, a cap on bytes, redirects at home only.

What it cannot get rightly is a RemoteError that says what to do; secrets are taken out of every message. Knows nothing
of any engine's format.
"""

from __future__ import annotations

import email.utils
import os
import random
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import httpx

from kgwalk.tools.web.html_text import decode, plain
from kgwalk.types import RemoteError

TIMEOUT = 10.0  # seconds for one request, its body included
RETRIES = 2
FIRST_PAUSE = 0.5  # seconds before the first retry; each further one waits twice as long
LONGEST_PAUSE = 30.0  # an engine that asks for more is told to the caller instead
MOST_BYTES = 4 << 20  # of a reply, unpacked; twenty results are a few tens of kilobytes
MOST_REDIRECTS = 3

_ADVICE = {
    400: "shorten or reword the query",
    401: "check the key",
    402: "the plan is used up; check the account",
    403: "check the key; a SearXNG must list json among its search.formats",
    404: "check the address",
    422: "check the key and the query",
    429: "wait, or ask less often: KGWALK_WEB_RATE is in requests a second",
    432: "the plan is used up; check the account",
    433: "the plan is used up; check the account",
}


class Request(NamedTuple):
    """What to ask: GET with `params`, or POST if there is a JSON body. `secrets` never appear in a message."""

    url: str
    params: Mapping[str, str] = {}
    json: Mapping[str, object] | None = None
    headers: Mapping[str, str] = {}
    secrets: Sequence[str] = ()


class _Trouble(Exception):
    """A failure that may pass; `wait` is what the engine asks for, in seconds."""

    def __init__(self, what: str, wait: float = 0.0, advice: str = "") -> None:
        super().__init__(what)
        self.wait, self.advice = wait, advice


class WebClient:
    """Fetches the text of replies. Threads may share one; a forked process gets its own connections."""

    def __init__(
        self,
        name: str,
        *,
        rate: float,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        first_pause: float = FIRST_PAUSE,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """`name` is what messages call the engine; at most `rate` requests a second start."""
        self.name, self.timeout, self.retries = name, timeout, retries
        self.first_pause, self.most_bytes = first_pause, most_bytes
        self._between = 1 / rate
        self._next = 0.0  # when the next request may start, on the monotonic clock
        self._lock = threading.Lock()
        self._process = -1

    def fetch(self, request: Request) -> str:
        """The text of the reply."""
        url, auth = _without_login(request.url)
        secrets = [*request.secrets, *([auth[1]] if auth and auth[1] else [])]
        request = request._replace(url=str(url), secrets=secrets)
        for attempt in range(self.retries + 1):
            self._wait_turn()
            try:
                return self._once(request, auth)
            except _Trouble as trouble:
                tried = "once" if attempt == 0 else f"{attempt + 1} times"
                advice = trouble.advice or "check that it is up and the address is right"
                if trouble.wait > LONGEST_PAUSE:
                    said = f"{trouble}; it asks to wait {trouble.wait:,.0f} s"
                    raise self._error(request, said, advice) from trouble.__cause__
                if attempt == self.retries:
                    raise self._error(request, f"{trouble}, tried {tried}", advice) from trouble.__cause__
                pause = min(self.first_pause * 2**attempt, LONGEST_PAUSE) * random.uniform(0.5, 1.0)
                time.sleep(max(pause, trouble.wait))
        raise AssertionError("retries is not negative")

    def _wait_turn(self) -> None:
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next)
            self._next = start + self._between
        time.sleep(start - now)

    def _connections(self) -> httpx.Client:
        with self._lock:
            if self._process != os.getpid():
                self._process = os.getpid()
                # never follows by itself: it would take a key in a header along to another host
                self._client = httpx.Client(timeout=self.timeout, follow_redirects=False)
            return self._client

    def _once(self, request: Request, auth: tuple[str, str] | None) -> str:
        deadline = time.monotonic() + self.timeout
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "kgwalk", **request.headers}
        method = "GET" if request.json is None else "POST"
        address = httpx.URL(request.url, params={**dict(httpx.URL(request.url).params), **request.params})
        try:
            for _ in range(MOST_REDIRECTS + 1):
                with self._connections().stream(
                    method, address, json=request.json, headers=headers, auth=auth or httpx.USE_CLIENT_DEFAULT
                ) as reply:
                    body = self._body(reply, deadline)
                    if reply.has_redirect_location:
                        address = self._redirected(request, address, reply)
                        continue
                    return self._accepted(request, reply, body)
        except httpx.TimeoutException as error:
            raise _Trouble(
                f"no answer within {self.timeout:g} s", advice="check that it is up, or try later"
            ) from error
        except httpx.TransportError as error:
            raise _Trouble(f"no connection ({error or type(error).__name__})") from error
        except (httpx.HTTPError, httpx.InvalidURL, zlib.error) as error:
            raise self._error(request, f"an unreadable reply ({error})", "check the address") from error
        raise self._error(request, f"more than {MOST_REDIRECTS} redirects", "check the address")

    def _body(self, reply: httpx.Response, deadline: float) -> bytes | None:
        """The bytes of a reply; None if there are too many, found out without holding them."""
        packed = reply.headers.get("Content-Encoding", "").lower() in ("gzip", "x-gzip")
        unpack = zlib.decompressobj(16 + zlib.MAX_WBITS) if packed else None
        body = bytearray()
        for chunk in reply.iter_raw():
            # of a packed chunk no more is unpacked than may be held
            body += chunk if unpack is None else unpack.decompress(chunk, self.most_bytes + 1 - len(body))
            if len(body) > self.most_bytes:
                return None
            if time.monotonic() > deadline:
                raise _Trouble(f"no whole answer within {self.timeout:g} s", advice="check that it is up, or try later")
        return bytes(body)

    def _redirected(self, request: Request, address: httpx.URL, reply: httpx.Response) -> httpx.URL:
        there = address.join(reply.headers["Location"])
        if there.host != address.host or (address.scheme, there.scheme) == ("https", "http"):
            shown = f"{there.scheme}://{there.host}"
            raise self._error(request, f"a redirect to {shown}", "give the address that it sends to, if you trust it")
        return there

    def _accepted(self, request: Request, reply: httpx.Response, body: bytes | None) -> str:
        status = f"{reply.status_code} {reply.reason_phrase}".strip()
        if reply.status_code == 429 or reply.status_code >= 500:
            raise _Trouble(status, _retry_after(reply), _ADVICE.get(reply.status_code, ""))
        if body is None:
            cap = f"a reply of more than {self.most_bytes:,} bytes"
            raise self._error(request, cap, "that is no list of results; check the address")
        text = decode(body, reply.charset_encoding or "utf-8")
        if not reply.is_success:
            said = plain(text[:2000])[:200]
            advice = _ADVICE.get(reply.status_code, "check the address and the key")
            raise self._error(request, f"{status}: {said}" if said else status, advice)
        return text

    def bad_reply(self, request: Request, what: str, text: str) -> RemoteError:
        """The error for a reply that came whole and is not what was expected."""
        shown = " ".join(text[:200].split())
        return self._error(request, f"{what}: {shown!r}", "check that the address is the one of its API")

    def shown(self, request: Request) -> str:
        """The address as messages show it: without a password or what follows the "?"."""
        return str(_without_login(request.url)[0].copy_with(query=None, fragment=None))

    def _error(self, request: Request, trouble: str, advice: str) -> RemoteError:
        message = f"web search by {self.name} ({self.shown(request)}): {trouble}; {advice}"
        for secret in request.secrets:
            message = message.replace(secret, "***")
        return RemoteError(message)


def _without_login(url: str) -> tuple[httpx.URL, tuple[str, str] | None]:
    """An address without user and password, which logs would show, and the two."""
    parsed = httpx.URL(url)
    login = (parsed.username, parsed.password) if parsed.userinfo else None
    return parsed.copy_with(userinfo=b""), login


def _retry_after(reply: httpx.Response) -> float:
    """Seconds that the engine asks us to wait, given as a number or a date; 0 where it does not say."""
    told = reply.headers.get("Retry-After", "").strip()
    if told.isascii() and told.isdigit():
        return float(told)
    try:
        return max(email.utils.parsedate_to_datetime(told).timestamp() - time.time(), 0.0)
    except ValueError:
        return 0.0
