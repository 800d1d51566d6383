"""The ASGI application: our routes and the page answered directly, all else by FastAPI.

All requests come through one front door. It checks the key, bounds the body, counts the request and turns a bug into a
plain 500. The routes behind it use no framework, since importing FastAPI takes longer than opening a graph. FastAPI
(api.py) describes them, serves /docs and /openapi.json, and is where further pages belong; it is built when the first
request needs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from kgwalk import __version__
from kgwalk.kg.graph import Graph
from kgwalk.serve.agent import AgentService, AskRoute, ModelsRoute
from kgwalk.serve.asgi import (
    STOPPING,
    AsgiMessage,
    ClientGone,
    HttpError,
    HttpReply,
    Receive,
    ReplyStream,
    Scope,
    Send,
    error_reply,
    read_body,
    send_answer,
    send_reply,
)
from kgwalk.serve.chat import ChatRoute
from kgwalk.serve.graph_routes import ActionRoute, QueryRoute
from kgwalk.serve.graphs import ServedGraphs
from kgwalk.serve.metrics import ServerMetrics
from kgwalk.serve.page import PATH, page, wants_page
from kgwalk.serve.settings import ServeSettings, authorized
from kgwalk.serve.shapes import GraphList, Health
from kgwalk.types import KgwalkError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from kgwalk.llm.engine import Engine
    from kgwalk.walk.web.search import WebSearch

log = logging.getLogger("kgwalk.serve")

# Seconds between "ready" and the opening of the model, whose imports would hold up the first requests.
WARM_AFTER = 0.1

BATCHES = "send smaller batches"

INTERNAL = error_reply(500, "internal", "the server failed on this request; its log has the reason")
UNAUTHORIZED = error_reply(
    401,
    "unauthorized",
    "this server wants a key: send `Authorization: Bearer KEY`",
    ((b"www-authenticate", b"Bearer"),),
)


class HttpRoute(NamedTuple):
    method: str
    reads_body: bool
    handle: Callable[[bytes, float], Awaitable[HttpReply | ReplyStream]]  # (body, deadline on the monotonic clock)
    advice: str = "send less"  # to a client whose body is too large
    # A time limit of its own, for answers that take long; such an answer is given up when the client leaves.
    seconds: float | None = None


def create_app(settings: ServeSettings, graphs: Mapping[str, Graph] | None = None, engine: Engine | None = None) -> App:
    """The application over the stores and the model of the settings, or over graphs and an engine that are open."""
    web = open_web(settings)
    if graphs is not None:
        return App(settings, ServedGraphs(graphs), engine=engine, web=web)
    opened = open_graphs(settings.graphs, data=settings.data is not None)
    served = {**opened}
    views: dict[str, Callable[[str], Graph]] = {}
    if settings.data is not None:
        from kgwalk.serve.questions import open_questions, settings_of

        questions = open_questions(settings.data, settings_of(settings.environment))
        name = questions.dataset.name
        if name in served:
            raise KgwalkError(f"the dataset and a graph are both called {name!r}; name the graph: --graph NAME=DIR")
        served[name], views[name] = questions.dataset.graph(), questions.graph
    return App(settings, ServedGraphs(served, views), close=list(opened.values()), engine=engine, web=web)


def open_web(settings: ServeSettings) -> WebSearch | None:
    """What the agent's web searches ask. Imports the agent only if there are settings of an environment."""
    if not settings.environment:
        return None
    from kgwalk.serve.questions import settings_of
    from kgwalk.walk.environment import opened_web
    from kgwalk.walk.web.search import GRAPH
    from kgwalk.walk.web.search import open_web as named_web

    environment = settings_of(settings.environment)
    if environment.drop > 0 and settings.data is None:
        raise KgwalkError(
            "facts are hidden by question, and no questions are served; name their dataset: --data DIR, or leave out "
            "--graph-drop"
        )
    return named_web(environment.web) if environment.web == GRAPH else opened_web(environment)


def open_graphs(paths: Mapping[str, str], *, data: bool = False) -> dict[str, Graph]:
    """The stores, opened by name. There may be none if a dataset is served (`data`)."""
    from kgwalk.kg.store import open_graph

    if not paths and not data:
        raise KgwalkError("there is no graph to serve; give at least one, as NAME=PATH or PATH, or a dataset")
    opened: dict[str, Graph] = {}
    try:
        for name, path in paths.items():
            opened[name] = open_graph(path)
    except BaseException:
        close_graphs(opened.values())
        raise
    return opened


def close_graphs(graphs: Iterable[Graph]) -> None:
    for graph in graphs:
        close = getattr(graph, "close", None)
        if close is not None:
            close()


class App:
    """The ASGI application over some graphs; `close` are the graphs to close at its end."""

    def __init__(
        self,
        settings: ServeSettings,
        graphs: ServedGraphs,
        close: Sequence[Graph] = (),
        engine: Engine | None = None,
        web: WebSearch | None = None,
    ) -> None:
        self.settings, self.graphs = settings, graphs
        self.agent = AgentService(graphs, settings, engine, web)
        long = settings.agent_time_limit
        self.metrics = ServerMetrics(len(graphs.by_name))
        self.routes: dict[str, HttpRoute] = {
            "/kg/actions": HttpRoute("POST", True, ActionRoute(graphs, settings, self.metrics), BATCHES),
            "/kg/query": HttpRoute("POST", True, QueryRoute(graphs, settings, self.metrics), BATCHES),
            "/kg/graphs": HttpRoute("GET", False, self._list_graphs),
            "/health": HttpRoute("GET", False, self._health),
            "/metrics": HttpRoute("GET", False, self._metrics),
            "/v1/ask": HttpRoute("POST", True, AskRoute(self.agent), "ask a shorter question", long),
            "/v1/chat/completions": HttpRoute(
                "POST", True, ChatRoute(self.agent), "send fewer or shorter messages", long
            ),
            "/v1/models": HttpRoute("GET", False, ModelsRoute(self.agent)),
        }
        self._key = None if settings.api_key is None else settings.api_key.encode()
        self._close = close
        self._api: FastAPI | None = None
        self._building = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            # Cancelled when the server is stopped at once, which is no bug to log.
            with contextlib.suppress(asyncio.CancelledError):
                await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            raise NotImplementedError(f"kgwalk serves HTTP only, not {scope['type']}")
        began = monotonic()
        path = scope["path"]
        watched = _Watched(send)
        try:
            await self._answer(scope, receive, watched, path, began)
        except HttpError as error:
            await send_reply(watched, error.reply)
        except ClientGone:
            pass
        except asyncio.CancelledError:
            # Only the end of the server cancels a request. Not raised again: the client can still be told, and uvicorn
            # would log a traceback for each.
            if watched.status == NO_ANSWER:
                await send_reply(watched, STOPPING)
        except Exception:
            self.metrics.exception()
            log.exception("%s %s failed", scope["method"], path)
            if watched.status == NO_ANSWER:
                await send_reply(watched, INTERNAL)
        finally:
            self.metrics.request(self._label(scope, path), watched.status, monotonic() - began)

    def close(self) -> None:
        self.agent.close()  # first: it walks on the graphs
        close_graphs(self._close)

    async def api(self) -> FastAPI:
        """The FastAPI application; another thread imports it, which takes a third of a second."""
        async with self._building:
            if self._api is None:
                self._api = await asyncio.to_thread(self._build_api)
        return self._api

    async def _answer(self, scope: Scope, receive: Receive, send: _Watched, path: str, began: float) -> None:
        if wants_page(scope["method"], path, scope["headers"]):
            await send_reply(send, page())
            return
        if self._key is not None and path != "/health" and not authorized(scope["headers"], self._key):
            await send_reply(send, UNAUTHORIZED)
            return
        settings = self.settings
        route = self.routes.get(path)
        method = scope["method"]
        if route is not None and (method == route.method or (method, route.method) == ("HEAD", "GET")):
            body = b""
            if route.reads_body:
                body = await read_body(scope, receive, settings.max_body, settings.time_limit, route.advice)
            if route.seconds is None:
                await send_answer(send, await route.handle(body, began + settings.time_limit))
            else:
                await while_there(receive, _answered(send, route, body, began + route.seconds))
            return
        body = await read_body(scope, receive, settings.max_body, settings.time_limit, "send less")
        api = self._api or await self.api()
        await api(scope, _replay(body, receive), send)

    async def _list_graphs(self, body: bytes, deadline: float) -> HttpReply:
        listed: GraphList = {"graphs": self.graphs.info()}
        # a store's `info` may hold NumPy integers, and numbers as keys
        options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
        return HttpReply(200, orjson.dumps(listed, option=options))

    async def _health(self, body: bytes, deadline: float) -> HttpReply:
        agent = self.agent
        health: Health = {
            "status": "ok",
            "version": __version__,
            "graphs": len(self.graphs.by_name),
            "model": agent.state,
            "under_way": agent.under_way,
            "waiting": agent.waiting,
        }
        return HttpReply(200, orjson.dumps(health))

    async def _metrics(self, body: bytes, deadline: float) -> HttpReply:
        return self.metrics.reply()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        warming: asyncio.Task[None] | None = None
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
                if self.settings.warms:
                    warming = asyncio.create_task(self._warm())
            else:
                if warming is not None:
                    warming.cancel()
                await asyncio.to_thread(self.close)
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _warm(self) -> None:
        await asyncio.sleep(WARM_AFTER)
        await self.agent.warm()

    def _build_api(self) -> FastAPI:
        from kgwalk.serve.api import create_api

        return create_api(self)

    def _label(self, scope: Scope, path: str) -> str:
        """The path for the counts: one of ours, FastAPI's template, or "other" for a path that is not served."""
        if path in self.routes or path == PATH:
            return path
        return str(getattr(scope.get("route"), "path", "other"))


NO_ANSWER = 499  # as nginx counts a client that left before it was answered


class _Watched:
    """`send`, remembering the status that was sent."""

    __slots__ = ("_send", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = NO_ANSWER

    async def __call__(self, message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


async def _answered(send: Send, route: HttpRoute, body: bytes, deadline: float) -> None:
    await send_answer(send, await route.handle(body, deadline))


async def while_there(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do the work; cancel it if the client leaves before it is done."""

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.create_task(work), asyncio.create_task(gone())
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGone
        working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body again, then whatever comes after it."""
    pending: list[AsgiMessage] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> AsgiMessage:
        return pending.pop() if pending else await receive()

    return again
