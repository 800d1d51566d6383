"""The FastAPI side of the server: /openapi.json, and the shapes as pydantic models.

It has the direct routes too, so that they are described and the application is complete on its own, with a place for
further pages; in a running server app.py answers them before FastAPI is asked. Importing this module imports FastAPI
and pydantic, which takes long: app.py does so only when somebody asks for what is here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from http import HTTPStatus
from time import monotonic
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from kgwalk import __version__
from kgwalk.serve import explore_shapes, feedback, run_queries, run_replies, shapes, suggest
from kgwalk.serve.asgi import HttpError, HttpReply, ReplyStream, error_reply
from kgwalk.serve.reading import is_union, taken_apart
from kgwalk.serve.shapes import LENIENT, About
from kgwalk.serve.uploads import FILE, OCTETS

if TYPE_CHECKING:
    from kgwalk.serve.app import App

_ERRORS: dict[int, tuple[str, str]] = {
    400: ("malformed_json", "the body is not JSON"),
    401: ("unauthorized", "the key is missing or wrong"),
    403: ("foreign_origin", "a page of another site may not use this server"),
    404: ("not_found", "there is nothing at this path; see /docs"),
    405: ("method_not_allowed", "this path does not take this method; see /docs"),
    408: ("timeout", "the body did not arrive in time"),
    413: ("body_too_large", "the body or the batch is too large"),
    415: ("not_json", "the body is not said to be JSON"),
    421: ("unknown_host", "the server does not answer to this name"),
    422: ("wrong_content", "the body is JSON of the wrong shape"),
    429: ("too_many_wrong_keys", "too many wrong keys came from this address"),
    500: ("internal", "the server failed on this request; its log has the reason"),
    502: ("engine_failed", "the language model or the graph could not answer"),
    503: ("busy", "too much at once, no language model, or the server is about to stop"),
    504: ("time_limit", "there was no answer in time"),
}

_REF = "#/components/schemas/{model}"
_REPLIES: dict[str, tuple[type, str]] = {
    "/kg/actions": (
        shapes.ActionResults,
        "Run KG-R1's four actions, many in one request. One result an item, in order; an item that is wrong "
        "gets an error of its own. A bare list of items is accepted too.",
    ),
    "/kg/query": (
        shapes.QueryResults,
        "Ask what a Graph can be asked, many questions in one request; kgwalk.kg.http.HttpGraph is the "
        "client. A bare list of items is accepted too.",
    ),
    "/kg/graphs": (shapes.GraphList, "The graphs served, and their counts."),
    "/kg/suggest": (
        suggest.Suggestions,
        "What the end of a half-typed question may become: entities, kinds, example questions made from the graph.",
    ),
    "/health": (shapes.Health, "Whether the server answers. Needs no key."),
    "/v1/ask": (
        shapes.AskReply,
        "Answer a question by walking a graph, with the facts behind each answer. With `stream`, server-sent events: "
        "AskWaiting where it has to wait, AskStarted, AskTurn as each happens, then AskAnswered or AskFailed.",
    ),
    "/v1/ask/query": (
        shapes.WalkQueryReply,
        "The answer of a walk as a query that gives the same, in one language after the other: send back what /v1/ask "
        "was given and answered. No model is asked.",
    ),
    "/v1/chat/completions": (
        shapes.ChatReply,
        "OpenAI's shape. The model `kgwalk` is the agent: the last message of the user's is the question, and "
        "the message's field `kgwalk` has answers and evidence. The language model's own name completes the "
        "messages. With `stream`, ChatChunk objects as server-sent events.",
    ),
    "/v1/models": (shapes.ModelList, "The names that /v1/chat/completions takes."),
    "/kg/entity": (explore_shapes.EntityReply, "An entity: its kinds, and its relations with counts and first names."),
    "/kg/around": (explore_shapes.AroundReply, "What is around an entity, some hops far, to be drawn."),
    "/kg/path": (explore_shapes.PathReply, "How two entities are connected: the shortest paths of facts between them."),
    "/kg/kinds": (explore_shapes.KindsReply, "The kinds of thing in a graph, with how many there are of each."),
    "/kg/members": (explore_shapes.MembersReply, "All of a kind."),
    "/kg/schema": (explore_shapes.SchemaReply, "Which kinds are joined by which relations, with counts."),
    "/kg/walk": (
        explore_shapes.HandWalkReply,
        "A walk by hand: the agent's calls without a model. The request has all calls so far.",
    ),
    "/kg/uploads": (explore_shapes.UploadsReply, "Whether graphs can be uploaded here, of which formats; the jobs."),
    "/kg/build": (
        explore_shapes.JobReply,
        "Begin a graph from files that are then sent to /kg/build/file, one request each.",
    ),
    FILE: (explore_shapes.JobReply, "The bytes of one file. After the last file the build begins."),
    "/kg/job": (explore_shapes.JobReply, "How far an upload is, and which rows cannot be read."),
    "/kg/job/stop": (explore_shapes.JobReply, "Stop an upload or its build."),
    "/kg/remove": (explore_shapes.RemoveReply, "Remove a graph that was uploaded."),
    "/v1/feedback": (
        feedback.FeedbackReply,
        "Whether an answer was right, and the right one if it is known; kept as a question set, where the server was "
        "started with --feedback.",
    ),
    **run_replies.REPLIES,
}
_TEXTS: dict[str, tuple[str, str]] = {  # replies that are no JSON
    "/metrics": ("text/plain", "Counts and latencies, as Prometheus reads them."),
    **run_replies.TEXTS,
}
_BODIES: dict[str, type] = {
    "/kg/actions": shapes.ActionBatch,
    "/kg/query": shapes.QueryBatch,
    "/v1/ask": shapes.AskBody,
    "/v1/ask/query": shapes.WalkQueryBody,
    "/v1/chat/completions": shapes.ChatBody,
    "/kg/walk": explore_shapes.HandWalkBody,
    "/kg/build": explore_shapes.BuildBody,
    "/kg/job/stop": explore_shapes.JobQuery,
    "/kg/remove": explore_shapes.RemoveBody,
    "/v1/feedback": feedback.FeedbackBody,
}
_QUERIES: dict[str, type] = {  # what stands after the "?", for routes without a body
    "/kg/entity": explore_shapes.EntityQuery,
    "/kg/around": explore_shapes.AroundQuery,
    "/kg/path": explore_shapes.PathQuery,
    "/kg/kinds": explore_shapes.KindsQuery,
    "/kg/members": explore_shapes.MembersQuery,
    "/kg/schema": explore_shapes.SchemaQuery,
    "/kg/job": explore_shapes.JobQuery,
    FILE: explore_shapes.FileQuery,
    "/kg/suggest": suggest.SuggestQuery,
    **run_queries.QUERIES,
}
_STREAMS: dict[str, tuple[type, ...]] = {  # what each event of a stream is
    "/v1/ask": get_args(shapes.AskEvent),
    "/v1/chat/completions": (shapes.ChatChunk,),
}
_AGENT, _RUNS = "/v1/", "/v1/runs"
_BUILDING = ("/kg/job/stop", "/kg/remove")  # that may name a job or a graph that is not there
_TOO_LONG = ", or its text is longer than the language model can read"


def create_api(app: App) -> FastAPI:
    """FastAPI over the same handlers as the direct routes of `app`."""
    api = FastAPI(title="kgwalk", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    for path in app.routes:
        _add(api, app, path)
    _add_file(api, app)
    api.add_exception_handler(HTTPException, _http_exception)
    api.add_exception_handler(RequestValidationError, _invalid)
    api.add_exception_handler(HttpError, _http_error)
    api.add_exception_handler(Exception, _bug)
    # FastAPI asks the instance for its description, and keeps none itself.
    api.openapi = lambda: _describe(api, with_key=app.settings.api_key is not None)  # type: ignore[method-assign]
    return api


@cache
def model_of(shape: Any) -> type[BaseModel]:
    """A pydantic model of the same name, fields, bounds and words as the TypedDict, for OpenAPI and for tests.

    It takes no other fields, unless the shape is LENIENT, and turns no type into another.
    """
    fields: dict[str, Any] = {}
    for name, hint in get_type_hints(shape, include_extras=True).items():
        default = ... if name in shape.__required_keys__ else None
        fields[name] = (_type_of(hint), Field(default, description=taken_apart(hint)[1].text or None))
    config = ConfigDict(extra="ignore" if shape in LENIENT else "forbid", strict=True)
    model: type[BaseModel] = create_model(shape.__name__, __config__=config, __doc__=shape.__doc__, **fields)
    return model


# Routes and their description


def _add(api: FastAPI, app: App, path: str) -> None:
    route = app.routes[path]

    async def endpoint(request: Request) -> Response:
        seconds = route.seconds or app.settings.time_limit
        body = await request.body() if route.reads_body else request.url.query.encode()
        return _response(await route.handle(body, monotonic() + seconds))

    name = path.removeprefix("/kg").strip("/")
    about = _REPLIES[path][1] if path in _REPLIES else _TEXTS[path][1]
    # What a server cannot do is not described: the agent's routes where there is no language model, runs without any.
    if path.startswith(_RUNS):
        shown = app.settings.runs is not None
    else:
        shown = app.agent.configured or not path.startswith(_AGENT)
    api.add_api_route(path, endpoint, methods=[route.method], name=name, description=about, include_in_schema=shown)


def _add_file(api: FastAPI, app: App) -> None:
    """The one route whose body is not JSON, and is not held in memory."""

    async def endpoint(request: Request) -> Response:
        return _response(await app.uploads.take_file(request.url.query.encode(), request.stream()))

    api.add_api_route(FILE, endpoint, methods=["PUT"], name="build_file", description=_REPLIES[FILE][1])


def _describe(api: FastAPI, *, with_key: bool) -> dict[str, Any]:
    if api.openapi_schema is None:
        described = get_openapi(title=api.title, version=api.version, routes=api.routes)
        described_shapes = [
            *_BODIES.values(),
            *(shape for shape, _ in _REPLIES.values()),
            shapes.RequestError,
            *(shape for shapes_ in _STREAMS.values() for shape in shapes_),
        ]
        _, definitions = models_json_schema(
            [(model_of(shape), "validation") for shape in described_shapes], ref_template=_REF
        )
        components = described.setdefault("components", {})
        components.setdefault("schemas", {}).update(definitions["$defs"])
        for path, methods in described["paths"].items():
            for operation in methods.values():
                _describe_operation(operation, path)
        if with_key:
            components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            described["security"] = [{"key": []}]
            described["paths"]["/health"]["get"]["security"] = []
        api.openapi_schema = described
    return api.openapi_schema


def _describe_operation(operation: dict[str, Any], path: str) -> None:
    replies = operation["responses"]
    if path in _BODIES:
        operation["requestBody"] = {"required": True, "content": _content(_BODIES[path])}
    if path == FILE:
        operation["requestBody"] = {"required": True, "content": {OCTETS.decode(): {"schema": {"format": "binary"}}}}
    if path in _QUERIES:
        operation["parameters"] = _parameters(_QUERIES[path])
    if path in _REPLIES:
        replies["200"] = {"description": "The answer.", "content": _content(_REPLIES[path][0])}
        if path in _STREAMS:
            events = [{"$ref": _REF.format(model=shape.__name__)} for shape in _STREAMS[path]]
            schema = events[0] if len(events) == 1 else {"oneOf": events}
            replies["200"]["content"]["text/event-stream"] = {"schema": schema}
    else:
        replies["200"] = {
            "description": "The answer.",
            "content": {_TEXTS[path][0]: {"schema": {"type": "string"}}},
        }
    statuses = [401, 403, 421, 429, 500, *([400, 408, 413, 415, 422, 503] if path in _BODIES else [])]
    if path in _QUERIES or path in _BUILDING:
        statuses += [404, 422, 503]
    if path == FILE:
        statuses += [408, 413, 415]
    if path.startswith(_RUNS):
        statuses += [404, 422, 504]
    elif path.startswith(_AGENT):
        statuses += [404, 502, 504] if path in _BODIES else [503]
    for status in sorted(set(statuses)):
        longer = status == HTTPStatus.BAD_REQUEST and path.startswith(_AGENT)
        replies[str(status)] = {
            "description": _ERRORS[status][1] + (_TOO_LONG if longer else ""),
            "content": _content(shapes.RequestError),
        }


def _parameters(shape: type) -> list[dict[str, Any]]:
    """The fields of a query string, each a parameter."""
    described = model_of(shape).model_json_schema()
    required = described.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        for name, schema in described["properties"].items()
    ]


def _content(shape: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(model=shape.__name__)}}}


# Shapes as pydantic models


def _type_of(hint: Any, *, inner: bool = False) -> Any:
    """The type with models in the place of shapes, and pydantic's bounds in the place of ours."""
    kind, about = taken_apart(hint)
    made: Any = kind
    if is_typeddict(kind):
        made = model_of(kind)
    elif is_union(kind):
        made = Union[tuple(_type_of(one, inner=True) for one in get_args(kind))]  # noqa: UP007 - of a tuple
    elif get_origin(kind) in (list, dict):
        made = get_origin(kind)[tuple(_type_of(one, inner=True) for one in get_args(kind))]
    if said := _said(kind, about) | ({"description": about.text} if inner and about.text else {}):
        made = Annotated[made, Field(**said)]
    return made | None if _takes_null(hint) else made


def _said(kind: Any, about: About) -> dict[str, Any]:
    """The bounds and the tag in pydantic's words."""
    number = kind in (int, float)
    words = {"ge" if number else "min_length": about.least, "le" if number else "max_length": about.most}
    return {name: value for name, value in {**words, "discriminator": about.tag}.items() if value is not None}


def _takes_null(hint: Any) -> bool:
    while get_origin(hint) in (NotRequired, Annotated):
        hint = get_args(hint)[0]
    return is_union(hint) and NoneType in get_args(hint)


# Responses


def _response(reply: HttpReply | ReplyStream) -> Response:
    if isinstance(reply, ReplyStream):
        return StreamingResponse(_parts(reply), media_type=reply.content_type.decode())
    headers = {name.decode(): value.decode() for name, value in reply.headers}
    return Response(reply.body, reply.status, headers, reply.content_type.decode())


async def _parts(stream: ReplyStream) -> AsyncIterator[bytes]:
    try:
        yield stream.first
        async for part in stream.rest:
            yield part
    finally:
        await stream.rest.aclose()


async def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind, message = _ERRORS.get(error.status_code, ("http_error", str(error.detail)))
    if error.detail != HTTPStatus(error.status_code).phrase:  # the page that raised it has said more
        message = str(error.detail)
    response = _response(error_reply(error.status_code, kind, message))
    response.headers.update(error.headers or {})
    return response


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return _response(error_reply(422, "wrong_content", problems))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HttpError)
    return _response(error.reply)


async def _bug(request: Request, error: Exception) -> Response:
    return _response(error_reply(500, *_ERRORS[500]))
