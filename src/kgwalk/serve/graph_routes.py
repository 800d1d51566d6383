"""POST /kg/actions (KG-R1's four actions) and POST /kg/query (the Graph protocol), in batches.

This is the graph over HTTP. Each item of a batch is checked against its shape (shapes.py), answered or refused for
itself, and counted by its outcome. Of /kg/query, kg/http.py is the client. Long lists come in pages there: `limit`
names or facts from `offset` on, and `more` says whether another page follows. For each page `match` walks past the
first `offset` facts again; a store goes to its neighbours at an offset at once.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict
from itertools import islice
from time import monotonic
from typing import Any, cast

from kgwalk.kg.graph import Graph
from kgwalk.kg.store import StoredGraph
from kgwalk.serve import batches
from kgwalk.serve.asgi import HttpReply
from kgwalk.serve.graphs import ServedGraphs
from kgwalk.serve.metrics import ServerMetrics
from kgwalk.serve.reading import ItemError, MissingField, RequestReader, given, json_type
from kgwalk.serve.settings import ServeSettings
from kgwalk.serve.shapes import (
    PAGE,
    ActionFailed,
    ActionFound,
    ActionItem,
    Contains,
    Find,
    FoundName,
    HasRelation,
    Match,
    NeighborsOf,
    Paged,
    QueryAnswer,
    QueryErrorBody,
    QueryErrorKind,
    QueryFailed,
    QueryItem,
    Relations,
)
from kgwalk.types import (
    Found,
    KgwalkError,
    Neighbors,
    Triple,
    UnknownEntity,
    UnknownName,
    UnknownQuestion,
    UnknownRelation,
)
from kgwalk.walk.actions import ACTIONS, ActionError, ErrorKind, run, sample_not_found

NEAREST = 5  # names that `find` gives, unless the query says otherwise
STEP = 100  # facts between two looks at the clock


# POST /kg/actions

read_action = RequestReader(ActionItem, "an action")


class ActionRoute:
    def __init__(self, graphs: ServedGraphs, settings: ServeSettings, metrics: ServerMetrics) -> None:
        self._graphs, self._settings, self._metrics = graphs, settings, metrics

    async def __call__(self, body: bytes, deadline: float) -> HttpReply:
        items = batches.parse_batch(body, "actions", self._settings.max_batch)
        graphs = self._graphs.now()
        outcomes: defaultdict[tuple[str, str], int] = defaultdict(int)

        async def answer(item: object) -> ActionFound | ActionFailed:
            result: ActionFound | ActionFailed
            try:
                result = self._answer(graphs, item)
            except ItemError as error:
                result = _action_refused(error)
            except KgwalkError as error:
                result = _action_refused(graphs.failed(item, error))
            outcomes[_action_label(item), "ok" if result["ok"] else result["error"]["kind"]] += 1
            return result

        def late(item: object) -> ActionFailed:
            outcomes[_action_label(item), "TIME_LIMIT"] += 1
            return _action_refused(batches.too_late())

        try:
            return await batches.answer_all(items, answer, late, deadline)
        finally:
            self._metrics.actions(outcomes)

    def _answer(self, graphs: ServedGraphs, value: object) -> ActionFound | ActionFailed:
        try:
            item = read_action(value)
        except MissingField as error:  # the paper has a code for it
            return _failed(ActionError(ErrorKind.MISSING_FIELDS, f"Missing required fields: {error.name}"))
        action, entity, relation = item["action"], item.get("entity"), item.get("relation")
        try:
            graph = graphs.select(item)
        except UnknownQuestion as error:
            result = sample_not_found(action, entity, relation, error.name)
        else:
            cap = self._settings.limit
            limit = min(given(item.get("limit"), cap), cap)
            result = run(
                graph, action, entity, relation, limit=limit, relation_format=given(item.get("format"), "flat")
            )
        if result.error is not None:
            failed = _failed(result.error)
            suggest = item.get("suggest")
            if suggest and result.error.kind is ErrorKind.ENTITY_NOT_FOUND:
                failed["error"]["nearest"] = _names(graph.find, entity, suggest)
            elif suggest and result.error.kind is ErrorKind.RELATION_NOT_FOUND:
                failed["error"]["nearest"] = _names(graph.find_relation, relation, suggest)
            return failed
        found: ActionFound = {
            "ok": True,
            "items": result.items,
            "total": result.total,
            "left_out": result.left_out,
            "text": result.text,
        }
        if result.times is not None:
            found["times"] = result.times
        return found


def _names(find: Callable[[str, int], list[Found]], name: str | None, k: int) -> list[str]:
    return [found.name for found in find(name or "", k)]


def _failed(error: ActionError) -> ActionFailed:
    kind = error.kind
    return {"ok": False, "error": {"kind": kind.code, "title": kind.title, "message": error.message}}


def _action_refused(error: ItemError) -> ActionFailed:
    """An error of the server's own; its kind is written as the paper writes its codes."""
    title = error.kind.replace("_", " ").title()
    return {"ok": False, "error": {"kind": error.kind.upper(), "title": title, "message": error.message}}


def _action_label(item: object) -> str:
    """The action, for the counts; whatever is not one of the four is "other", so the labels stay few."""
    action = item.get("action") if isinstance(item, dict) else None
    return action if isinstance(action, str) and action in ACTIONS else "other"


# POST /kg/query

_find = RequestReader(Find, "a query")
READERS: dict[str, RequestReader[Any]] = {
    "contains": RequestReader(Contains, "a query"),
    "has_relation": RequestReader(HasRelation, "a query"),
    "relations": RequestReader(Relations, "a query"),
    "neighbors": RequestReader(NeighborsOf, "a query"),
    "match": RequestReader(Match, "a query"),
    "find": _find,
    "find_relation": _find,
}
_KINDS: dict[type[UnknownName], QueryErrorKind] = {
    UnknownEntity: "unknown_entity",
    UnknownRelation: "unknown_relation",
    UnknownQuestion: "unknown_question",
}


class QueryRoute:
    def __init__(self, graphs: ServedGraphs, settings: ServeSettings, metrics: ServerMetrics) -> None:
        self._graphs, self._settings, self._metrics = graphs, settings, metrics

    async def __call__(self, body: bytes, deadline: float) -> HttpReply:
        items = batches.parse_batch(body, "queries", self._settings.max_batch)
        graphs = self._graphs.now()
        outcomes: defaultdict[tuple[str, str], int] = defaultdict(int)

        async def answer(item: object) -> QueryAnswer | QueryFailed:
            result: QueryAnswer | QueryFailed
            try:
                result = await self._answer(graphs, item, deadline)
            except UnknownName as error:
                result = _unknown(error)
            except ItemError as error:
                result = _query_refused(error)
            except KgwalkError as error:
                result = _query_refused(graphs.failed(item, error))
            outcomes[_op_label(item), "ok" if result["ok"] else result["error"]["kind"]] += 1
            return result

        def late(item: object) -> QueryFailed:
            outcomes[_op_label(item), "time_limit"] += 1
            return _query_refused(batches.too_late())

        try:
            return await batches.answer_all(items, answer, late, deadline)
        finally:
            self._metrics.queries(outcomes)

    async def _answer(self, graphs: ServedGraphs, value: object, deadline: float) -> QueryAnswer:
        query = read_query(value)
        graph = graphs.select(query)
        return await _match(graph, query, deadline) if query["op"] == "match" else _ask(graph, query)


def read_query(value: object) -> QueryItem:
    if not isinstance(value, dict):
        raise ItemError("bad_request", f"a query is an object, not {json_type(value)}")
    op = value.get("op")
    if op is None:
        raise MissingField("op")
    if not isinstance(op, str):
        raise ItemError("bad_request", f'"op" must be a string, not {json_type(op)}')
    if op not in READERS:
        raise ItemError("bad_request", f'op "{op[:60]}" is not there; there are {", ".join(READERS)}')
    return cast(QueryItem, READERS[op](value))


def _ask(graph: Graph, query: Contains | HasRelation | Relations | NeighborsOf | Find) -> QueryAnswer:
    if query["op"] == "contains":
        return {"ok": True, "value": query["entity"] in graph}
    if query["op"] == "has_relation":
        return {"ok": True, "value": graph.has_relation(query["relation"])}
    if query["op"] == "relations":
        return {"ok": True, "value": graph.relations(query["entity"], out=given(query.get("out"), True))}
    if query["op"] == "neighbors":
        return _neighbors(graph, query)
    find = graph.find if query["op"] == "find" else graph.find_relation
    found = find(query["text"], given(query.get("k"), NEAREST))
    return {"ok": True, "value": [cast(FoundName, asdict(one)) for one in found]}


def neighbors_page(
    graph: Graph, entity: str, relation: str, *, out: bool = True, limit: int = PAGE, offset: int = 0
) -> Neighbors:
    """Neighbours from `offset` on; `total` counts them all."""
    if isinstance(graph, StoredGraph):
        return graph.neighbors(entity, relation, out=out, limit=limit, offset=offset)
    every = graph.neighbors(entity, relation, out=out, limit=offset + limit)
    return Neighbors(every.names[offset:], every.total, None if every.times is None else every.times[offset:])


def _neighbors(graph: Graph, query: NeighborsOf) -> QueryAnswer:
    limit, offset = _page(query)
    out = given(query.get("out"), True)
    found = neighbors_page(graph, query["entity"], query["relation"], out=out, limit=limit, offset=offset)
    return {
        "ok": True,
        "value": {"names": found.names, "total": found.total, "times": found.times},
        "more": found.total > offset + limit,
    }


async def _match(graph: Graph, query: Match, deadline: float) -> QueryAnswer:
    limit, offset = _page(query)
    pattern = query.get("head"), query.get("relation"), query.get("tail")
    facts = graph.match(*pattern, limit=offset + limit + 1)
    async for _ in _steps(facts, offset, deadline):
        pass
    # lists: orjson does not take the subclasses of tuple
    value = [list(fact) async for some in _steps(facts, limit, deadline) for fact in some]
    return {"ok": True, "value": value, "more": next(facts, None) is not None}


async def _steps(facts: Iterator[Triple], number: int, deadline: float) -> AsyncIterator[list[Triple]]:
    """The next `number` facts, a STEP at a time, with a pause for other requests after each slice of time."""
    until = monotonic() + batches.SLICE
    while number > 0:
        some = list(islice(facts, min(number, STEP)))
        yield some
        number -= len(some)
        if len(some) < STEP:
            return
        if monotonic() >= until:
            await asyncio.sleep(0)
            now = monotonic()
            if now >= deadline:
                raise batches.too_late()
            until = now + batches.SLICE


def _page(query: Paged) -> tuple[int, int]:
    return given(query.get("limit"), PAGE), given(query.get("offset"), 0)


def _unknown(error: UnknownName) -> QueryFailed:
    kind = _KINDS.get(type(error), "unknown_name")
    about: QueryErrorBody = {"kind": kind, "message": str(error), "name": error.name}
    if error.nearest:
        about["nearest"] = error.nearest
    return {"ok": False, "error": about}


def _query_refused(error: ItemError) -> QueryFailed:
    return {"ok": False, "error": {"kind": cast(QueryErrorKind, error.kind), "message": error.message}}


def _op_label(item: object) -> str:
    op = item.get("op") if isinstance(item, dict) else None
    return op if isinstance(op, str) and op in READERS else "other"
