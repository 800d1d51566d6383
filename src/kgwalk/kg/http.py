"""A graph on other kgwalk servers, asked over HTTP.

    with HttpGraph("http://localhost:8000", "films") as graph:
        graph.relations("Big")

Every call goes to `POST /kg/query`; `batch` sends many queries in one request, and calls of several threads share one.
Answers are cached: who has asked before does not see a later update. Which of several servers is asked, and what
happens when one is dead, is in `http_servers`; the other end of the route is in `serve`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import orjson

from kgwalk.kg.graph import ClosedAtEnd, LruCache
from kgwalk.kg.http_servers import AT_ONCE, GraphServers, Query, QueryResult
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

PAGE = 5000  # names or facts in one answer

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


class HttpGraph(ClosedAtEnd):
    """The Graph at a server's address. Many threads may share one; a forked process opens its own.

    `url` may be several addresses of servers of the same graph, in a list or with commas between them: requests go to
    the one with least to do, and where one is dead to another. The key goes to all of them. `graph` may be left out
    where a server has one graph. `question` narrows it to one question's subgraph; an unknown one is an error at the
    first call. `cache` counts answers, not bytes. So many requests are under way `at_once`, or one at each server if
    those are more; other calls wait a moment, to share the next one.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        graph: str | None = None,
        question: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = 10,
        retries: int = 2,
        cache: int = 16_384,
        at_once: int = AT_ONCE,
    ) -> None:
        self._view: dict[str, str] = {}
        if graph is not None:
            self._view["graph"] = graph
        if question is not None:
            self._view["question"] = question
        self._servers = GraphServers(
            [one.strip() for one in url.split(",")] if isinstance(url, str) else url,
            graph=graph,
            api_key=api_key or os.environ.get("KGWALK_API_KEY"),
            timeout=timeout,
            retries=retries,
            at_once=at_once,
        )
        self._answers: LruCache[bytes, QueryResult] = LruCache(cache)

    def __repr__(self) -> str:
        view = "".join(f", {name}={value!r}" for name, value in self._view.items())
        return f"HttpGraph({self._servers.shown!r}{view})"

    def close(self) -> None:
        """Close the connections; views over this graph share them."""
        self._servers.close()

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
            result = self._servers.ask({_key(query): query})[_key(query)]
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

    # Many at once: what is fetched is in the cache for the calls that follow

    def fetch_names(self, names: Iterable[str]) -> None:
        """Look up whether these are entities."""
        self.batch([{"op": "contains", "entity": name} for name in names])

    def fetch_relations(self, names: Iterable[str], *, out: bool) -> None:
        """Make `relations` of these names ready."""
        self.batch([{"op": "relations", "entity": name, "out": out} for name in names])

    def fetch_neighbors(self, names: Iterable[str], relation: str, *, out: bool) -> None:
        """Make `neighbors` of these names along a relation ready; UnknownRelation if it is none."""
        about = {"op": "neighbors", "relation": relation, "out": out, "limit": PAGE, "offset": 0}
        found = self.batch([{**about, "entity": name} for name in names])
        if (unknown := next((one for one in found if isinstance(one, UnknownRelation)), None)) is not None:
            raise unknown

    def fetch_some(self, names: Iterable[str], ways: Iterable[tuple[str, bool]], limit: int) -> None:
        """Make `neighbors` with this limit, of these names along each of these relations, ready."""
        names = list(names)
        about = [{"op": "neighbors", "relation": one, "out": out, "limit": limit, "offset": 0} for one, out in ways]
        self.batch([{**one, "entity": name} for one in about for name in names])

    # Many queries at once, views, counts

    def batch(self, queries: Sequence[Query]) -> list[Any]:
        """One value for each query, in order, with as few requests as possible.

        A query is an item of /kg/query: {"op": "relations", "entity": "Paris", "out": False}. Its value is what the
        method of that name returns (for match a list, of one page), or the error that it would raise.
        """
        asked = [_clean({**self._view, **query}) for query in queries]
        keys = [_key(query) for query in asked]
        known = {key: result for key in keys if (result := self._answers.get(key)) is not None}
        missing = {key: query for key, query in zip(keys, asked, strict=True) if key not in known}
        if missing:
            new = self._servers.ask(missing)
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
        return self._servers.info()

    def _narrowed(self, **limits: str | None) -> HttpGraph:
        given = {name: value for name, value in limits.items() if value is not None}
        if not self._view.keys().isdisjoint(given):
            raise ValueError(f"{self!r} is narrowed already; start from the graph itself")
        view = HttpGraph.__new__(HttpGraph)
        view._view = {**self._view, **given}
        view._servers, view._answers = self._servers, self._answers
        return view

    def _one(self, **query: object) -> Any:
        return _value(self.batch([query])[0])

    def _decode(self, query: Query, result: QueryResult) -> object:
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
        return RemoteError(f"{self._servers.shown}: {error['message']} ({error['kind']})")


def _value(decoded: Any) -> Any:
    """A decoded result; raises it if it is an error."""
    if isinstance(decoded, KgwalkError):
        raise decoded
    return decoded


def _key(query: Query) -> bytes:
    return orjson.dumps(query, option=orjson.OPT_SORT_KEYS)


def _lasting(result: QueryResult) -> bool:
    """Whether a result will be the same next time: a value or an unknown name, but no trouble of the server."""
    return bool(result["ok"]) or result["error"]["kind"] in _UNKNOWN


def _clean(query: Query) -> dict[str, object]:
    """The query with lone surrogates, which cannot be sent and occur in no name, replaced by U+FFFD."""
    return {
        name: value.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if isinstance(value, str) else value
        for name, value in query.items()
    }
