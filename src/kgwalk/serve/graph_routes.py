"""POST /kg/query: the Graph protocol itself over HTTP, in batches; kg/http.py is its client.

Long lists come in pages: `limit` names or facts from `offset` on; `more` says whether another page follows.
The graph walks past the first `offset` facts again for each page, in slices. Knows nothing of ASGI.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict
from itertools import islice
from time import monotonic
from typing import Any

from kgwalk.kg.graph import Graph
from kgwalk.serve import asgi
from kgwalk.serve.asgi import HttpReply, ItemError
from kgwalk.serve.graphs import ServedGraphs, failed_graph
from kgwalk.serve.metrics import Metrics
from kgwalk.serve.settings import ServeSettings
from kgwalk.types import Found, KgwalkError, Triple, UnknownEntity, UnknownName, UnknownQuestion, UnknownRelation
from kgwalk.walk.actions import ACTIONS, ActionError, ErrorKind, RelationFormat, run, sample_not_found

PAGE = 1000  # names or facts in a page, unless the item says otherwise
MAX_PAGE = 10_000
MAX_OFFSET = 1_000_000_000
STEP = 100  # facts between two looks at the clock

_VIEW = ("op", "graph", "question", "start", "end")
OPS: dict[str, frozenset[str]] = {
    "contains": frozenset([*_VIEW, "entity"]),
    "has_relation": frozenset([*_VIEW, "relation"]),
    "relations": frozenset([*_VIEW, "entity", "out"]),
    "neighbors": frozenset([*_VIEW, "entity", "relation", "out", "limit", "offset"]),
    "match": frozenset([*_VIEW, "head", "relation", "tail", "limit", "offset"]),
    "find": frozenset([*_VIEW, "text", "k"]),
    "find_relation": frozenset([*_VIEW, "text", "k"]),
}
_KINDS: dict[type[UnknownName], str] = {
    UnknownEntity: "unknown_entity",
    UnknownRelation: "unknown_relation",
    UnknownQuestion: "unknown_question",
}


class QueryRoute:
    def __init__(self, graphs: ServedGraphs, settings: ServeSettings, metrics: Metrics) -> None:
        self._graphs, self._settings, self._metrics = graphs, settings, metrics

    async def __call__(self, body: bytes, deadline: float) -> HttpReply:
        items = asgi.parse_batch(body, "queries", self._settings.max_batch)
        outcomes: defaultdict[tuple[str, str], int] = defaultdict(int)

        async def answer(item: object) -> dict[str, Any]:
            try:
                result = await self._answer(item, deadline)
            except UnknownName as error:
                result = _unknown(error)
            except ItemError as error:
                result = _query_refused(error)
            except KgwalkError as error:
                result = _query_refused(failed_graph(error))
            outcomes[_op_label(item), "ok" if result["ok"] else result["error"]["kind"]] += 1
            return result

        def late(item: object) -> dict[str, Any]:
            outcomes[_op_label(item), "time_limit"] += 1
            return _query_refused(asgi.too_late())

        try:
            return await asgi.answer_all(items, answer, late, deadline)
        finally:
            self._metrics.queries(outcomes)

    async def _answer(self, item: object, deadline: float) -> dict[str, Any]:
        if not isinstance(item, dict):
            raise ItemError("bad_request", f"a query is an object, not {asgi.json_type(item)}")
        op = asgi.needed(item, "op")
        if op not in OPS:
            raise ItemError("bad_request", f'op "{op[:60]}" is not there; there are {", ".join(OPS)}')
        fields = asgi.check_fields(item, OPS[op], "a query")
        graph = self._graphs.select(*(asgi.text_of(fields, name) for name in ("graph", "question", "start", "end")))
        if op == "match":
            return await _match(graph, fields, deadline)
        return {"ok": True, **_ask(graph, op, fields)}


def _ask(graph: Graph, op: str, fields: dict[str, Any]) -> dict[str, Any]:
    """`value`, and `more` where the value is a page."""
    match op:
        case "contains":
            return {"value": asgi.needed(fields, "entity") in graph}
        case "has_relation":
            return {"value": graph.has_relation(asgi.needed(fields, "relation"))}
        case "relations":
            out = asgi.flag(fields, "out", True)
            return {"value": graph.relations(asgi.needed(fields, "entity"), out=out)}
        case "neighbors":
            return _neighbors(graph, fields)
        case _:
            find = graph.find if op == "find" else graph.find_relation
            k = asgi.count(fields, "k", 5, MAX_PAGE)
            return {"value": [asdict(found) for found in find(asgi.needed(fields, "text"), k)]}


def _neighbors(graph: Graph, fields: dict[str, Any]) -> dict[str, Any]:
    limit, offset = _page(fields)
    out = asgi.flag(fields, "out", True)
    entity, relation = asgi.needed(fields, "entity"), asgi.needed(fields, "relation")
    found = graph.neighbors(entity, relation, out=out, limit=offset + limit)
    times = None if found.times is None else found.times[offset:]
    value = {"names": found.names[offset:], "total": found.total, "times": times}
    return {"value": value, "more": found.total > offset + limit}


async def _match(graph: Graph, fields: dict[str, Any], deadline: float) -> dict[str, Any]:
    limit, offset = _page(fields)
    pattern = [asgi.text_of(fields, name) for name in ("head", "relation", "tail")]
    facts = graph.match(*pattern, limit=offset + limit + 1)
    async for _ in _steps(facts, offset, deadline):
        pass
    # lists: orjson does not take the subclasses of tuple
    value = [list(fact) async for some in _steps(facts, limit, deadline) for fact in some]
    return {"ok": True, "value": value, "more": next(facts, None) is not None}


async def _steps(facts: Iterator[Triple], number: int, deadline: float) -> AsyncIterator[list[Triple]]:
    """The next `number` facts, a STEP at a time, with a pause for other requests after each slice of time."""
    until = monotonic() + asgi.SLICE
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
                raise asgi.too_late()
            until = now + asgi.SLICE


def _page(fields: dict[str, Any]) -> tuple[int, int]:
    return asgi.count(fields, "limit", PAGE, MAX_PAGE), asgi.count(fields, "offset", 0, MAX_OFFSET)


def _unknown(error: UnknownName) -> dict[str, Any]:
    kind = _KINDS.get(type(error), "unknown_name")
    about = {"kind": kind, "message": str(error), "name": error.name}
    return {"ok": False, "error": {**about, "nearest": error.nearest} if error.nearest else about}


def _query_refused(error: ItemError) -> dict[str, Any]:
    return {"ok": False, "error": {"kind": error.kind, "message": error.message}}


def _op_label(item: object) -> str:
    op = item.get("op") if isinstance(item, dict) else None
    return op if isinstance(op, str) and op in OPS else "other"


# ----------------------------------------------------------------------------------------------------
# POST /kg/actions: KG-R1's four actions in batches, each item answered or refused for itself.
#
# Items are checked by hand, which is many times faster than by a model of them; schemas.py says the same as a
# schema, and a test holds the two together. Knows nothing of ASGI.


FIELDS = frozenset(["graph", "question", "action", "entity", "relation", "start", "end", "limit", "format", "suggest"])
MAX_SUGGEST = 20
_FORMATS: dict[str | None, RelationFormat] = {None: "flat", "flat": "flat", "hierarchical": "hierarchical"}


class ActionRoute:
    def __init__(self, graphs: ServedGraphs, settings: ServeSettings, metrics: Metrics) -> None:
        self._graphs, self._settings, self._metrics = graphs, settings, metrics

    async def __call__(self, body: bytes, deadline: float) -> HttpReply:
        items = asgi.parse_batch(body, "actions", self._settings.max_batch)
        outcomes: defaultdict[tuple[str, str], int] = defaultdict(int)

        async def answer(item: object) -> dict[str, Any]:
            try:
                result = self._answer(item)
            except ItemError as error:
                result = _action_refused(error)
            except KgwalkError as error:
                result = _action_refused(failed_graph(error))
            outcomes[_action_label(item), "ok" if result["ok"] else result["error"]["kind"]] += 1
            return result

        def late(item: object) -> dict[str, Any]:
            outcomes[_action_label(item), "TIME_LIMIT"] += 1
            return _action_refused(asgi.too_late())

        try:
            return await asgi.answer_all(items, answer, late, deadline)
        finally:
            self._metrics.actions(outcomes)

    def _answer(self, item: object) -> dict[str, Any]:
        fields = asgi.check_fields(item, FIELDS, "an action")
        text = asgi.text_of
        action, entity, relation = text(fields, "action"), text(fields, "entity"), text(fields, "relation")
        question = text(fields, "question")
        limit = min(asgi.count(fields, "limit", self._settings.limit), self._settings.limit)
        suggest = asgi.count(fields, "suggest", 0, MAX_SUGGEST)
        layout = _FORMATS.get(text(fields, "format"))
        if layout is None:
            raise ItemError("bad_request", '"format" must be "flat" or "hierarchical"')
        if action is None:
            missing = ActionError(ErrorKind.MISSING_FIELDS, "Missing required fields: action")
            return _error(missing)
        try:
            graph = self._graphs.select(text(fields, "graph"), question, text(fields, "start"), text(fields, "end"))
        except UnknownQuestion as error:
            result = sample_not_found(action, entity, relation, error.name)
        else:
            result = run(graph, action, entity, relation, limit=limit, relation_format=layout)
        if result.error is not None:
            answer = _error(result.error)
            if suggest and result.error.kind is ErrorKind.ENTITY_NOT_FOUND:
                answer["error"]["nearest"] = _names(graph.find, entity, suggest)
            elif suggest and result.error.kind is ErrorKind.RELATION_NOT_FOUND:
                answer["error"]["nearest"] = _names(graph.find_relation, relation, suggest)
            return answer
        answer = {
            "ok": True,
            "items": result.items,
            "total": result.total,
            "left_out": result.left_out,
            "text": result.text,
        }
        if result.times is not None:
            answer["times"] = result.times
        return answer


def _names(find: Callable[[str, int], list[Found]], name: str | None, k: int) -> list[str]:
    return [found.name for found in find(name or "", k)]


def _error(error: ActionError) -> dict[str, Any]:
    kind = error.kind
    return {"ok": False, "error": {"kind": kind.code, "title": kind.title, "message": error.message}}


def _action_refused(error: ItemError) -> dict[str, Any]:
    """An error of the server's own; its kind is written as the paper writes its codes."""
    title = error.kind.replace("_", " ").title()
    return {"ok": False, "error": {"kind": error.kind.upper(), "title": title, "message": error.message}}


def _action_label(item: object) -> str:
    """The action, for the counts; whatever is not one of the four is "other", so the labels stay few."""
    action = item.get("action") if isinstance(item, dict) else None
    return action if isinstance(action, str) and action in ACTIONS else "other"
