"""POST /kg/actions: KG-R1's four actions in batches, each item answered or refused for itself.

Items are checked by hand, which is many times faster than by a model of them; schemas.py says the same as a
schema, and a test holds the two together. Knows nothing of ASGI.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from kgwalk.serve import batch
from kgwalk.serve.asgi import Reply
from kgwalk.serve.batch import ItemError
from kgwalk.serve.graphs import Graphs, failed_graph
from kgwalk.serve.metrics import Metrics
from kgwalk.serve.settings import ServeSettings
from kgwalk.tools.actions import ACTIONS, ActionError, ErrorKind, RelationFormat, run, sample_not_found
from kgwalk.types import Found, KgwalkError, UnknownQuestion

FIELDS = frozenset(["graph", "question", "action", "entity", "relation", "start", "end", "limit", "format", "suggest"])
MAX_SUGGEST = 20
_FORMATS: dict[str | None, RelationFormat] = {None: "flat", "flat": "flat", "hierarchical": "hierarchical"}


class ActionRoute:
    def __init__(self, graphs: Graphs, settings: ServeSettings, metrics: Metrics) -> None:
        self._graphs, self._settings, self._metrics = graphs, settings, metrics

    async def __call__(self, body: bytes, deadline: float) -> Reply:
        items = batch.parse_batch(body, "actions", self._settings.max_batch)
        outcomes: defaultdict[tuple[str, str], int] = defaultdict(int)

        async def answer(item: object) -> dict[str, Any]:
            try:
                result = self._answer(item)
            except ItemError as error:
                result = _refused(error)
            except KgwalkError as error:
                result = _refused(failed_graph(error))
            outcomes[_action_label(item), "ok" if result["ok"] else result["error"]["kind"]] += 1
            return result

        def late(item: object) -> dict[str, Any]:
            outcomes[_action_label(item), "TIME_LIMIT"] += 1
            return _refused(batch.too_late())

        try:
            return await batch.answer_all(items, answer, late, deadline)
        finally:
            self._metrics.actions(outcomes)

    def _answer(self, item: object) -> dict[str, Any]:
        fields = batch.check_fields(item, FIELDS, "an action")
        text = batch.text
        action, entity, relation = text(fields, "action"), text(fields, "entity"), text(fields, "relation")
        question = text(fields, "question")
        limit = min(batch.count(fields, "limit", self._settings.limit), self._settings.limit)
        suggest = batch.count(fields, "suggest", 0, MAX_SUGGEST)
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


def _refused(error: ItemError) -> dict[str, Any]:
    """An error of the server's own; its kind is written as the paper writes its codes."""
    title = error.kind.replace("_", " ").title()
    return {"ok": False, "error": {"kind": error.kind.upper(), "title": title, "message": error.message}}


def _action_label(item: object) -> str:
    """The action, for the counts; whatever is not one of the four is "other", so the labels stay few."""
    action = item.get("action") if isinstance(item, dict) else None
    return action if isinstance(action, str) and action in ACTIONS else "other"
