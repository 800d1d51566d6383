"""A graph on another kgwalk server, asked over HTTP.

    with HttpGraph("http://localhost:8000", "films") as graph:
        graph.relations("Big")

Every call is a batch of one to `POST /kg/query`; `batch` sends many in one request. A graph does not change while it
is served, so answers are cached. The other end of that route is in `serve`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import httpx
import orjson

from kgwalk.config import http
from kgwalk.kg.graph import LruCache
from kgwalk.types import (
    Found,
    KgwalkError,
    Neighbors,
    RemoteError,
    Triple,
    UnknownEntity,
    UnknownName,
    UnknownQuestion,
    UnknownRelation,
)

Query = Mapping[str, object]

BATCH = 1000  # queries in one request; halved where a server takes fewer
PAGE = 5000  # names or facts in one answer
FIRST_PAUSE = 0.1  # seconds before the first retry
# Seconds after which an idle connection is closed. A kgwalk server closes it after 30, perhaps as a request is sent.
IDLE = 20.0
CONNECTIONS = 128

# Not 500: a kgwalk server gives its reason for that one, which goes to the caller.
_OVERLOADED = (429, 502, 503, 504)
_UNKNOWN: dict[str, type[UnknownName]] = {
    "unknown_entity": UnknownEntity,
    "unknown_relation": UnknownRelation,
    "unknown_question": UnknownQuestion,
}
_DECODE: dict[object, Callable[[Any], object]] = {
    "neighbors": lambda value: Neighbors(value["names"], value["total"], value["times"]),
    "match": lambda value: [Triple(*fact) for fact in value],
    "find": lambda value: [Found(**found) for found in value],
    "find_relation": lambda value: [Found(**found) for found in value],
}


class HttpGraph:
    """The Graph at a server's URL. Many threads may share one; a forked process opens its own.

    `graph` may be left out where the server has one graph. `question` narrows it to one question's subgraph; an unknown
    one is an error at the first call. `cache` counts answers, not bytes.
    """

    def __init__(
        self,
        url: str,
        graph: str | None = None,
        question: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = 10,
        retries: int = 2,
        cache: int = 4096,
    ) -> None:
        self._view: dict[str, str] = {}
        if graph is not None:
            self._view["graph"] = graph
        if question is not None:
            self._view["question"] = question
        self._server = ServerConnection(url, api_key or os.environ.get("KGWALK_API_KEY"), timeout, retries)
        self._answers: LruCache[bytes, dict[str, Any]] = LruCache(cache)

    def __repr__(self) -> str:
        view = "".join(f", {name}={value!r}" for name, value in self._view.items())
        return f"HttpGraph({self._server.shown!r}{view})"

    def __enter__(self) -> HttpGraph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; views over this graph share them."""
        self._server.client.close()

    # The Graph protocol

    def __contains__(self, entity: object) -> bool:
        return isinstance(entity, str) and bool(self._one(op="contains", entity=entity))

    def has_relation(self, relation: str) -> bool:
        return bool(self._one(op="has_relation", relation=relation))

    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        names: list[str] = self._one(op="relations", entity=entity, out=out)
        return names

    def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
        names: list[str] = []
        times: list[list[str]] = []
        while True:
            size = PAGE if limit is None else min(PAGE, limit - len(names))
            page: Neighbors = self._one(
                op="neighbors", entity=entity, relation=relation, out=out, limit=size, offset=len(names)
            )
            names += page.names
            times += page.times or []
            if len(names) >= (page.total if limit is None else min(limit, page.total)) or not page.names:
                return Neighbors(names, page.total, None if page.times is None else times)

    def match(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        limit: int | None = None,
    ) -> Iterator[Triple]:
        """Facts, fetched a page at a time as they are used; later pages cost the server more than early ones."""
        given = 0
        pattern = {"head": head, "relation": relation, "tail": tail}
        while limit is None or given < limit:
            size = PAGE if limit is None else min(PAGE, limit - given)
            # Not cached: reading a whole graph would push everything else out of the cache.
            query = _clean({"op": "match", **pattern, "limit": size, "offset": given, **self._view})
            result = self._server.ask([query])[0]
            yield from _value(self._decode(query, result))
            given += size
            if not result["more"]:
                return

    def find(self, text: str, k: int = 5) -> list[Found]:
        found: list[Found] = self._one(op="find", text=text, k=k)
        return found

    def find_relation(self, text: str, k: int = 5) -> list[Found]:
        found: list[Found] = self._one(op="find_relation", text=text, k=k)
        return found

    # Many queries at once, views, counts

    def batch(self, queries: Sequence[Query]) -> list[Any]:
        """One value for each query, in order, with as few requests as possible.

        A query is an item of /kg/query: {"op": "relations", "entity": "Paris", "out": False}. Its value is what the
        method of that name returns (for match a list, of one page), or the error that it would raise.
        """
        asked = [_clean({**self._view, **query}) for query in queries]
        keys = [orjson.dumps(query, option=orjson.OPT_SORT_KEYS) for query in asked]
        known = {key: result for key in keys if (result := self._answers.get(key)) is not None}
        missing = {key: query for key, query in zip(keys, asked, strict=True) if key not in known}
        if missing:
            new = dict(zip(missing, self._server.ask(list(missing.values())), strict=True))
            for key, result in new.items():
                if _lasting(result):
                    self._answers.put(key, result)
            known.update(new)
        return [self._decode(query, known[key]) for query, key in zip(asked, keys, strict=True)]

    def question(self, question: str) -> HttpGraph:
        """The view of one question's subgraph, over the same connections."""
        return self._narrowed(question=question)

    def between(self, start: str | None, end: str | None) -> HttpGraph:
        """The view of facts that hold at some time from `start` to `end`, over the same connections."""
        return self._narrowed(start=start, end=end)

    def info(self) -> dict[str, Any]:
        """The counts that the server gives for the graph."""
        entries = self._server.request("GET", "/kg/graphs")["graphs"]
        wanted = self._view.get("graph")
        for entry in entries:
            if entry["name"] == wanted or (wanted is None and len(entries) == 1):
                return dict(entry["info"])
        names = ", ".join(entry["name"] for entry in entries)
        raise RemoteError(f"{self._server.shown} serves {names}; choose one with `graph`, not {wanted!r}")

    def _narrowed(self, **limits: str | None) -> HttpGraph:
        given = {name: value for name, value in limits.items() if value is not None}
        if not self._view.keys().isdisjoint(given):
            raise ValueError(f"{self!r} is narrowed already; start from the graph itself")
        view = HttpGraph.__new__(HttpGraph)
        view._view = {**self._view, **given}
        view._server, view._answers = self._server, self._answers
        return view

    def _one(self, **query: object) -> Any:
        return _value(self.batch([query])[0])

    def _decode(self, query: Query, result: dict[str, Any]) -> object:
        """The value or error of a result, made anew for each caller, since callers may change the lists."""
        if result["ok"]:
            value = result["value"]
            decode = _DECODE.get(query.get("op"))
            if decode is not None:
                return decode(value)
            return list(value) if isinstance(value, list) else value
        error = result["error"]
        unknown = _UNKNOWN.get(error["kind"])
        if unknown is not None:
            return unknown(error["name"], error.get("nearest", ()))
        return RemoteError(f"{self._server.shown}: {error['message']} ({error['kind']})")


class ServerConnection:
    """Requests to one server: a pool of connections, retries, and errors that say what to do."""

    def __init__(self, url: str, api_key: str | None, timeout: float, retries: int) -> None:
        parsed = http.parse_address(url.rstrip("/"))
        if parsed is None:
            raise KgwalkError(f"{url!r} is not the address of a server; expected http://HOST:PORT")
        self.url, self.shown = str(parsed), http.shown(parsed)
        self._timeout, self._retry = timeout, http.Retry(retries, FIRST_PAUSE)
        self.client = httpx.Client(
            headers={} if api_key is None else {"Authorization": f"Bearer {api_key}"},
            timeout=timeout,
            limits=httpx.Limits(
                max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=IDLE
            ),
            **http.connection_options(parsed),
        )

    def ask(self, queries: list[dict[str, object]]) -> list[dict[str, Any]]:
        """One result a query, in order."""
        results: list[dict[str, Any]] = []
        size = BATCH
        while len(results) < len(queries):
            some = queries[len(results) : len(results) + size]
            try:
                reply = self.request("POST", "/kg/query", {"queries": some})
            except _TooLarge:
                if len(some) == 1:
                    raise
                size = len(some) // 2
                continue
            answers = reply.get("results") if isinstance(reply, dict) else None
            if not isinstance(answers, list) or len(answers) != len(some):
                message = f"{self.shown} did not give one result for each query; is it a kgwalk server?"
                raise RemoteError(message)
            # A server that ran out of time marks the rest as late, and they are asked again. It always answers the
            # first query, so this ends.
            late = next((at for at, one in enumerate(answers) if at and _is_late(one)), len(answers))
            results += answers[:late]
        return results

    def request(self, method: str, path: str, content: object = None) -> Any:
        """The JSON that the server answers with; tries again while it cannot be reached or is overloaded."""
        body = None if content is None else orjson.dumps(content)
        headers = None if content is None else {"Content-Type": "application/json"}

        def once() -> httpx.Response:
            with http.failures(self._timeout):
                response = self.client.request(method, self.url + path, content=body, headers=headers)
            if response.status_code in _OVERLOADED:
                raise http.RequestFailed(f"HTTP {response.status_code}", wait=http.retry_after(response))
            return response

        try:
            return self._read(self._retry.call(once))
        except http.RequestFailed as failure:
            raise RemoteError(
                f"{self.shown}{path} could not be reached in {failure.tries} tries: {failure}\n"
                "  Check the address, and that `kgwalk serve` runs there."
            ) from failure.__cause__

    def _read(self, response: httpx.Response) -> Any:
        where = f"{self.shown}{response.url.path}"
        try:
            value = orjson.loads(response.content)
        except orjson.JSONDecodeError as error:
            message = f"{where} answered HTTP {response.status_code} without JSON; is it a kgwalk server?"
            raise RemoteError(message) from error
        if response.status_code == 200:
            return value
        about = value.get("error") if isinstance(value, dict) else None
        kind, reason = (about.get("kind"), about.get("message")) if isinstance(about, dict) else (None, None)
        text = f"{where} answered HTTP {response.status_code}: {reason or 'no reason given'}"
        if response.status_code == 401:
            raise RemoteError(f"{text}\n  Pass the server's key: api_key=..., or KGWALK_API_KEY.")
        if kind in ("batch_too_large", "body_too_large"):
            raise _TooLarge(text)
        raise RemoteError(text, kind=kind)


class _TooLarge(RemoteError):
    """A request that the server would accept in smaller parts."""


def _value(decoded: Any) -> Any:
    """A decoded result; raises it if it is an error."""
    if isinstance(decoded, KgwalkError):
        raise decoded
    return decoded


def _lasting(result: dict[str, Any]) -> bool:
    """Whether a result will be the same next time: a value or an unknown name, but no trouble of the server."""
    return bool(result["ok"]) or result["error"]["kind"] in _UNKNOWN


def _is_late(result: dict[str, Any]) -> bool:
    return not result["ok"] and bool(result["error"]["kind"] == "time_limit")


def _clean(query: Query) -> dict[str, object]:
    """The query with lone surrogates, which cannot be sent and occur in no name, replaced by U+FFFD."""
    return {
        name: value.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if isinstance(value, str) else value
        for name, value in query.items()
    }
