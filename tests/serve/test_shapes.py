"""One description of requests and replies: the readers of the routes and the models behind OpenAPI agree on it."""

from __future__ import annotations

import re
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from kgwalk.serve import chat, graph_routes, shapes
from kgwalk.serve.api import model_of
from kgwalk.serve.ask import read_ask, read_walk_query, read_walk_turn
from kgwalk.serve.reading import ItemError, MissingField, RequestReader, taken_apart

READERS: dict[Any, RequestReader[Any]] = {
    shapes.ActionItem: graph_routes.read_action,
    shapes.AskBody: read_ask,
    shapes.WalkQueryBody: read_walk_query,
    shapes.WalkTurn: read_walk_turn,
    shapes.ChatHead: chat.read_head,
    shapes.AgentOptions: chat.read_agent_options,
    shapes.SamplingOptions: chat.read_sampling_options,
    shapes.Contains: graph_routes.READERS["contains"],
    shapes.HasRelation: graph_routes.READERS["has_relation"],
    shapes.Relations: graph_routes.READERS["relations"],
    shapes.NeighborsOf: graph_routes.READERS["neighbors"],
    shapes.Match: graph_routes.READERS["match"],
    shapes.Find: graph_routes.READERS["find"],
}
EXAMPLE = {str: "x", int: 1, float: 0.5, bool: True, list[str]: ["x"]}
VALUES: list[Any] = [
    *(None, True, 0, 1, -1, 0.5, 3.5, "", "x", "flat", "contains", [], ["x"], [""], [5], [None], {}, {"role": "user"}),
    *(bound + step for bound in (16, 20, 64, 10_000, 1_000_000_000) for step in (0, 1)),
    *(["x"] * count for count in (16, 17, 64, 65)),
]
MESSAGES = [{"role": "user", "content": "?"}]
INSIDE = {
    "messages": MESSAGES,
    "walk": [{"text": "x", "observation": "", "ok": True}],
}  # lists that are read one by one


def example(shape: Any) -> dict[str, Any]:
    """A request with the required fields alone."""
    values: dict[str, Any] = {}
    for name, hint in get_type_hints(shape, include_extras=True).items():
        if name in shape.__required_keys__:
            kind = taken_apart(hint)[0]
            values[name] = INSIDE.get(name) or EXAMPLE.get(kind) or get_args(kind)[0]
    return values


def refused(read: RequestReader[Any], value: object) -> str | None:
    try:
        read(value)
    except ItemError as error:
        return f"{error.kind}: {error.message}"
    return None


def fits(model: type[BaseModel], value: object) -> bool:
    try:
        model.model_validate(value)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("shape", READERS, ids=lambda shape: shape.__name__)
def test_reader_and_model_agree_on_every_field_and_bound(shape: Any) -> None:
    read, model, base = READERS[shape], model_of(shape), example(shape)
    assert refused(read, base) is None
    for name in model.model_fields:
        for value in VALUES:
            request = {**base, name: value}
            if name in INSIDE and isinstance(value, list) and value:
                continue  # what is in the list is read by hand, or by a reader of its own
            message = refused(read, request)
            assert (message is None) is fits(model, request), request
            assert message is None or message.startswith(f'bad_request: "{name}" '), message
    for name in base:
        with pytest.raises(MissingField, match=f'^"{name}" '):
            read({key: value for key, value in base.items() if key != name})


@pytest.mark.parametrize("shape", [shapes.ActionItem, shapes.AskBody, shapes.Contains, shapes.Match])
def test_a_field_that_is_not_there_is_refused_by_both(shape: Any) -> None:
    request = {**example(shape), "grahp": "films"}
    assert refused(READERS[shape], request) == 'bad_request: unknown field "grahp"; did you mean "graph"?'
    assert not fits(model_of(shape), request)


def test_other_fields_of_openai_are_passed_over_by_both() -> None:
    request = {"model": "kgwalk", "messages": MESSAGES, "user": "me", "frequency_penalty": 0.1}
    assert refused(chat.read_head, request) is None
    assert fits(model_of(shapes.ChatBody), request)


query_values = st.sampled_from([*graph_routes.READERS, *VALUES])


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["op", "entity", "relation", "out", "text", "k", "limit", "head"]), query_values)
)
def test_queries_are_told_apart_alike(item: dict[str, Any]) -> None:
    try:
        graph_routes.read_query(item)
        read = True
    except ItemError:
        read = False
    assert read is fits(model_of(shapes.QueryBatch), {"queries": [item]})


def test_every_op_and_every_role_of_the_shapes_has_a_handler() -> None:
    ops = [word for shape in get_args(shapes.QueryItem) for word in get_args(get_type_hints(shape)["op"])]
    assert ops == list(graph_routes.READERS)
    assert list(get_args(shapes.ChatRole)) == list(chat.ROLES)


def test_bounds_and_words_reach_the_description() -> None:
    described = model_of(shapes.ActionItem).model_json_schema()
    suggest = described["properties"]["suggest"]
    assert suggest["anyOf"] == [{"type": "integer", "minimum": 0, "maximum": 20}, {"type": "null"}]
    assert re.match("so many nearest names", suggest["description"])
    assert described["required"] == ["action"]
    assert described["additionalProperties"] is False
