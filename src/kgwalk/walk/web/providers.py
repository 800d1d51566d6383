"""Search engines on the network as a web: SearXNG, Brave, a Bing-style API and Tavily.

A `Provider` is an address, a key from the environment, a function that makes a request and one that reads a reply. All
are asked through one HTTP client with time-outs, retries, a rate, a cap on bytes and redirects within one host. What
engines answered is kept on disk for some days. What cannot be got rightly is a RemoteError that says what to do;
secrets are taken out of every message.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import orjson

from kgwalk.config import http
from kgwalk.config.cache import CACHE_VARIABLE, cache_folder, use_write_ahead_log
from kgwalk.types import Document, KgwalkError, RemoteError, StoreError
from kgwalk.walk.web.documents import decode, plain

# The HTTP client


TIMEOUT = 10.0  # seconds for one request, its body included
RETRIES = 2
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


class WebRequest(NamedTuple):
    """What to ask: GET with `params`, or POST if there is a JSON body. `secrets` never appear in a message."""

    url: str
    params: Mapping[str, str] = {}
    json: Mapping[str, object] | None = None
    headers: Mapping[str, str] = {}
    secrets: Sequence[str] = ()


class WebClient:
    """Fetches the text of replies. Threads may share one; a forked process gets its own connections."""

    def __init__(
        self,
        name: str,
        *,
        rate: float,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        first_pause: float = http.FIRST_PAUSE,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """`name` is what messages call the engine; at most `rate` requests a second start."""
        self.name, self.timeout, self.most_bytes = name, timeout, most_bytes
        self._retry = http.Retry(retries, first_pause)
        self._between = 1 / rate
        self._next = 0.0  # when the next request may start, on the monotonic clock
        self._lock = threading.Lock()
        self._process = -1

    def fetch(self, request: WebRequest) -> str:
        """The text of the reply."""
        url = httpx.URL(request.url)
        auth = (url.username, url.password) if url.userinfo else None
        secrets = [*request.secrets, *([url.password] if url.password else [])]
        # user and password go separately, since httpx logs the address
        request = request._replace(url=str(url.copy_with(userinfo=b"")), secrets=secrets)
        try:
            return self._retry.call(lambda: self._once(request, auth))
        except http.RequestFailed as failure:
            advice = failure.advice or "check that it is up and the address is right"
            raise self._error(request, failure.told, advice) from failure.__cause__

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

    def _once(self, request: WebRequest, auth: tuple[str, str] | None) -> str:
        self._wait_turn()
        deadline = time.monotonic() + self.timeout
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "kgwalk", **request.headers}
        method = "GET" if request.json is None else "POST"
        address = httpx.URL(request.url, params={**dict(httpx.URL(request.url).params), **request.params})
        with http.failures(self.timeout):
            for _ in range(MOST_REDIRECTS + 1):
                with self._connections().stream(
                    method, address, json=request.json, headers=headers, auth=auth or httpx.USE_CLIENT_DEFAULT
                ) as reply:
                    body = http.read_body(reply, self.most_bytes, deadline)
                if not reply.has_redirect_location:
                    return self._accepted(request, reply, body)
                address = self._redirected(request, address, reply)
        raise self._error(request, f"more than {MOST_REDIRECTS} redirects", "check the address")

    def _redirected(self, request: WebRequest, address: httpx.URL, reply: httpx.Response) -> httpx.URL:
        there = address.join(reply.headers["Location"])
        if there.host != address.host or (address.scheme, there.scheme) == ("https", "http"):
            shown = f"{there.scheme}://{there.host}"
            raise self._error(request, f"a redirect to {shown}", "give the address that it sends to, if you trust it")
        return there

    def _accepted(self, request: WebRequest, reply: httpx.Response, body: bytes | None) -> str:
        status, advice = http.status_line(reply), _ADVICE.get(reply.status_code, "")
        if http.may_pass(reply):
            wait = http.retry_after(reply)
            if wait > http.LONGEST_PAUSE:  # told to the caller, who has other things to do meanwhile
                raise http.RequestFailed(f"{status}; it asks to wait {wait:,.0f} s", wait=None, advice=advice)
            raise http.RequestFailed(status, wait=wait, advice=advice)
        if body is None:
            cap = f"a reply of more than {self.most_bytes:,} bytes"
            raise self._error(request, cap, "that is no list of results; check the address")
        text = decode(body, reply.charset_encoding or "utf-8")
        if not reply.is_success:
            said = http.status_line(reply, plain(text[:2000]))
            raise self._error(request, said, advice or "check the address and the key")
        return text

    def bad_reply(self, request: WebRequest, what: str, text: str) -> RemoteError:
        """The error for a reply that came whole and is not what was expected."""
        return self._error(request, f"{what}: {http.shorten(text)!r}", "check that the address is the one of its API")

    def shown(self, request: WebRequest) -> str:
        """The address as messages show it: without a password or what follows the "?"."""
        return http.shown(httpx.URL(request.url))

    def _error(self, request: WebRequest, trouble: str, advice: str) -> RemoteError:
        message = f"web search by {self.name} ({self.shown(request)}): {trouble}; {advice}"
        return RemoteError(http.hide(message, request.secrets))


MOST_RESULTS = 20  # that any of them gives at once
MOST_QUERY = 400  # characters; what is longer is cut
MOST_TEXT = 4000  # characters of a result


class OtherShape(Exception):
    """A reply that is JSON, and not of this engine."""


@dataclass(frozen=True)
class Provider:
    """`url` and `key` are what the environment says; `rate` is in requests a second."""

    name: str
    rate: float
    request: Callable[[str, str, str, int], WebRequest]  # url, key, query, k
    read: Callable[[Mapping[str, Any]], list[Document]]  # raises OtherShape
    url: str = ""
    url_variable: str = ""
    key_variable: str = ""

    def configured(self, environment: Mapping[str, str] = os.environ) -> tuple[str, str]:
        """Address and key; a missing one is an error that names the variable to set."""
        url = environment.get(self.url_variable, "").strip() or self.url
        key = environment.get(self.key_variable, "").strip() if self.key_variable else ""
        if not url:
            raise KgwalkError(f"web search by {self.name}: set {self.url_variable} to the address of its API")
        if http.parse_address(url) is None:
            raise KgwalkError(
                f"web search by {self.name}: {self.url_variable} is not an address, http://... or https://..."
            )
        if self.key_variable and not key:
            raise KgwalkError(f"web search by {self.name}: set {self.key_variable} to its API key")
        if not key.isascii() or not key.isprintable():
            raise KgwalkError(f"web search by {self.name}: {self.key_variable} holds characters that no key has")
        return url, key


def document(title: object, text: object, url: object) -> Document:
    """A result as a document, its markup gone.

    >>> document("<b>Oslo</b>", "capital of Norway &amp; more", "https://example.org/oslo")
    Document(title='Oslo', text='capital of Norway & more', source='https://example.org/oslo')
    """
    parts = [str(part)[: 2 * MOST_TEXT] if isinstance(part, str) else "" for part in (title, text, url)]
    return Document(plain(parts[0])[:300], plain(parts[1])[:MOST_TEXT], parts[2].strip()[:2000])


def _rows(found: object) -> list[Mapping[str, Any]]:
    if not isinstance(found, list):
        raise OtherShape
    return [row for row in found if isinstance(row, dict)]


def _ask_searxng(url: str, key: str, query: str, k: int) -> WebRequest:
    address = url.rstrip("/")
    return WebRequest(address if address.endswith("/search") else f"{address}/search", {"q": query, "format": "json"})


def _read_searxng(reply: Mapping[str, Any]) -> list[Document]:
    return [document(row.get("title"), row.get("content"), row.get("url")) for row in _rows(reply.get("results"))]


def _ask_brave(url: str, key: str, query: str, k: int) -> WebRequest:
    return WebRequest(url, {"q": query, "count": str(k)}, headers={"X-Subscription-Token": key}, secrets=[key])


def _read_brave(reply: Mapping[str, Any]) -> list[Document]:
    found = reply.get("web")
    if found is None and reply.get("type") == "search":  # nothing on the web
        return []
    if not isinstance(found, dict):
        raise OtherShape
    rows = _rows(found.get("results"))
    return [document(row.get("title"), _joined(row.get("description"), row), row.get("url")) for row in rows]


def _joined(first: object, row: Mapping[str, Any]) -> str:
    more = row.get("extra_snippets")
    parts = [first, *(more if isinstance(more, list) else [])]
    return " ".join(part for part in parts if isinstance(part, str))


def _ask_bing(url: str, key: str, query: str, k: int) -> WebRequest:
    headers = {"Ocp-Apim-Subscription-Key": key}
    return WebRequest(url, {"q": query, "count": str(k), "textDecorations": "false"}, headers=headers, secrets=[key])


def _read_bing(reply: Mapping[str, Any]) -> list[Document]:
    found = reply.get("webPages")
    if found is None and reply.get("_type") == "SearchResponse":
        return []
    if not isinstance(found, dict):
        raise OtherShape
    return [document(row.get("name"), row.get("snippet"), row.get("url")) for row in _rows(found.get("value"))]


def _ask_tavily(url: str, key: str, query: str, k: int) -> WebRequest:
    body = {"query": query, "max_results": k, "search_depth": "basic"}
    return WebRequest(url, json=body, headers={"Authorization": f"Bearer {key}"}, secrets=[key])


PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider("searxng", 5.0, _ask_searxng, _read_searxng, url_variable="KGWALK_SEARXNG_URL"),
        Provider(
            *("brave", 1.0, _ask_brave, _read_brave, "https://api.search.brave.com/res/v1/web/search"),
            url_variable="KGWALK_BRAVE_URL",
            key_variable="BRAVE_API_KEY",
        ),
        Provider(
            *("bing", 3.0, _ask_bing, _read_bing),
            url_variable="KGWALK_BING_URL",
            key_variable="KGWALK_BING_KEY",
        ),
        Provider(
            # its results have the same fields as SearXNG's
            *("tavily", 2.0, _ask_tavily, _read_searxng, "https://api.tavily.com/search"),
            url_variable="KGWALK_TAVILY_URL",
            key_variable="TAVILY_API_KEY",
        ),
    )
}


# Answers kept on disk


WAIT = 30.0  # seconds for which a write waits for another process's
DAY = 86_400.0
SCHEMA = "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, documents BLOB NOT NULL, at REAL NOT NULL)"


class ReplyCache:
    """What engines answered, in one SQLite file that processes share; what is older than `days` counts as not there.

    A connection is opened for each look, which takes a tenth of a millisecond: so threads and forked processes need no
    care. No key holds a secret.
    """

    def __init__(self, path: Path, days: float) -> None:
        self._path, self._age = path, days * DAY
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"cannot make the folder {path.parent}: {error.strerror}\n"
                f"  Set {CACHE_VARIABLE} to a folder that can be written to."
            ) from error
        with self._opened() as db:
            use_write_ahead_log(db, WAIT)
            db.execute(SCHEMA)
            db.execute("DELETE FROM replies WHERE at < ?", (time.time() - self._age,))

    def get(self, key: str) -> list[Document] | None:
        with self._opened() as db:
            row = db.execute(
                "SELECT documents FROM replies WHERE key = ? AND at >= ?", (key, time.time() - self._age)
            ).fetchone()
        return None if row is None else [Document(*fields) for fields in orjson.loads(row[0])]

    def put(self, key: str, documents: list[Document]) -> None:
        kept = orjson.dumps([(one.title, one.text, one.source) for one in documents])
        with self._opened() as db:
            db.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", (key, kept, time.time()))

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            db = sqlite3.connect(self._path, timeout=WAIT, isolation_level=None)
            try:
                yield db
            finally:
                db.close()
        except sqlite3.Error as error:
            raise StoreError(f"the cache {self._path} cannot be used: {error}; move that file away") from error


# A search engine as a web


RATE_VARIABLE = "KGWALK_WEB_RATE"
DAYS_VARIABLE = "KGWALK_WEB_DAYS"
DAYS = 30.0  # an answer is kept


class SearchEngine:
    """A provider with its address and key; see the variables in docs/guides/web-search.md."""

    def __init__(
        self,
        provider: Provider,
        *,
        cache: Path | None = None,
        client: WebClient | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.provider = provider
        self.url, self._key = provider.configured(environment)
        rate = _number(environment, RATE_VARIABLE, provider.rate)
        self._client = client or WebClient(provider.name, rate=rate)
        days = _number(environment, DAYS_VARIABLE, DAYS)
        self._cache = ReplyCache((cache or cache_folder()) / "web" / "replies.sqlite", days)

    def __repr__(self) -> str:
        return f"SearchEngine({self.provider.name!r})"

    def search(self, query: str, k: int = 3) -> list[Document]:
        query = " ".join(query.encode("utf-8", "replace").decode().split())[:MOST_QUERY]
        k = min(k, MOST_RESULTS)
        if not query or k < 1:
            return []
        request = self.provider.request(self.url, self._key, query, k)
        # the address too: two SearXNGs find different things; its password, if any, is no part of it
        key = "\n".join((self.provider.name, self._client.shown(request), str(k), query))
        kept = self._cache.get(key)
        if kept is not None:
            return kept
        text = self._client.fetch(request)
        try:
            reply = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise self._client.bad_reply(request, "a reply that is not JSON", text) from error
        try:
            if not isinstance(reply, dict):
                raise OtherShape
            found = [one for one in self.provider.read(reply) if one.title or one.text][:k]
        except OtherShape as error:
            raise self._client.bad_reply(request, "a reply of another shape", text) from error
        self._cache.put(key, found)
        return found


def _number(environment: Mapping[str, str], variable: str, default: float) -> float:
    text = environment.get(variable, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise KgwalkError(f"{variable}={text!r} is not a number above 0")
    return value
