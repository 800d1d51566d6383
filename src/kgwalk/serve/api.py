"""The FastAPI side of the server: OpenAPI, /docs, and the place for further pages.

The /kg routes stand here too, so that they are described and so that this application is whole on its own; in
a running server app.py answers them before FastAPI is asked. Importing this module imports FastAPI.
"""

from __future__ import annotations

from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from kgwalk import __version__
from kgwalk.serve import schemas
from kgwalk.serve.asgi import HttpError, Reply, error_reply

if TYPE_CHECKING:
    from kgwalk.serve.app import App

_ERRORS: dict[int, tuple[str, str]] = {
    400: ("malformed_json", "the body is not JSON"),
    401: ("unauthorized", "the key is missing or wrong"),
    404: ("not_found", "there is nothing at this path; see /docs"),
    405: ("method_not_allowed", "this path does not take this method; see /docs"),
    408: ("timeout", "the body did not arrive in time"),
    413: ("body_too_large", "the body or the batch is too large"),
    422: ("wrong_content", "the body is JSON of the wrong shape"),
    500: ("internal", "the server failed on this request; its log has the reason"),
}
_REF = "#/components/schemas/{model}"
_REPLIES: dict[str, tuple[type[BaseModel], str]] = {
    "/kg/actions": (
        schemas.ActionResults,
        "Run KG-R1's four actions, many in one request. One result an item, in order; an item that is wrong "
        "gets an error of its own. A bare list of items is accepted too.",
    ),
    "/kg/query": (
        schemas.QueryResults,
        "Ask what a Graph can be asked, many questions in one request; kgwalk.kg.http.HttpGraph is the "
        "client. A bare list of items is accepted too.",
    ),
    "/kg/graphs": (schemas.GraphList, "The graphs served, and their counts."),
    "/health": (schemas.Health, "Whether the server answers. Needs no key."),
}
_BODIES: dict[str, type[BaseModel]] = {"/kg/actions": schemas.ActionBatch, "/kg/query": schemas.QueryBatch}


def create_api(app: App) -> FastAPI:
    """FastAPI over the same handlers as the direct routes of `app`."""
    api = FastAPI(title="kgwalk", version=__version__, redoc_url=None, redirect_slashes=False)
    for path in app.routes:
        _add(api, app, path)
    api.add_exception_handler(HTTPException, _http_exception)
    api.add_exception_handler(RequestValidationError, _invalid)
    api.add_exception_handler(HttpError, _http_error)
    api.add_exception_handler(Exception, _bug)
    # FastAPI asks the instance for its description, and keeps none itself.
    api.openapi = lambda: _describe(api, with_key=app.settings.api_key is not None)  # type: ignore[method-assign]
    return api


def _add(api: FastAPI, app: App, path: str) -> None:
    route = app.routes[path]

    async def endpoint(request: Request) -> Response:
        return _response(await route.handle(await request.body(), monotonic() + app.settings.time_limit))

    name = path.removeprefix("/kg").strip("/")
    about = _REPLIES[path][1] if path in _REPLIES else "Counts and latencies, as Prometheus reads them."
    api.add_api_route(path, endpoint, methods=[route.method], name=name, description=about)


def _describe(api: FastAPI, *, with_key: bool) -> dict[str, Any]:
    if api.openapi_schema is None:
        described = get_openapi(title=api.title, version=api.version, routes=api.routes)
        models: list[type[BaseModel]] = [
            *_BODIES.values(),
            *(model for model, _ in _REPLIES.values()),
            schemas.RequestError,
        ]
        _, definitions = models_json_schema([(model, "validation") for model in models], ref_template=_REF)
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
    if path in _REPLIES:
        replies["200"] = {"description": "The answer.", "content": _content(_REPLIES[path][0])}
    elif path == "/metrics":
        replies["200"] = {
            "description": "The counts.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    for status in (400, 401, 408, 413, 422, 500) if path in _BODIES else (401, 500):
        replies[str(status)] = {
            "description": _ERRORS[status][1],
            "content": _content(schemas.RequestError),
        }


def _content(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(model=model.__name__)}}}


def _response(reply: Reply) -> Response:
    headers = {name.decode(): value.decode() for name, value in reply.headers}
    return Response(reply.body, reply.status, headers, reply.content_type.decode())


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
