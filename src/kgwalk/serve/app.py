"""The ASGI application: our routes and the site answered directly, all else by FastAPI.

All requests come through one front door. It checks host, origin and key, bounds the body, counts the request and turns
a bug into a plain 500. The routes behind it use no framework, since importing FastAPI takes longer than opening a
graph. FastAPI (api.py) describes them, serves /openapi.json, and is where further routes belong; it is built when the
first request needs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from kgwalk import __version__
from kgwalk.kg.graph import Graph
from kgwalk.serve import telemetry
from kgwalk.serve.agent import AgentService, AskRecord, ModelsRoute
from kgwalk.serve.asgi import (
    STOPPING,
    AsgiMessage,
    BodyReader,
    ClientGone,
    HttpError,
    HttpReply,
    Receive,
    ReplyStream,
    Scope,
    Send,
    error_reply,
    send_answer,
    send_reply,
)
from kgwalk.serve.ask import AskRoute, WalkQueryRoute
from kgwalk.serve.chat import ChatRoute
from kgwalk.serve.explore import ExploreRoutes
from kgwalk.serve.feedback import FeedbackRoute
from kgwalk.serve.graph_routes import ActionRoute, QueryRoute
from kgwalk.serve.graphs import ServedGraphs, open_served, open_uploaded
from kgwalk.serve.hand_walk import HandWalkRoute
from kgwalk.serve.metrics import ServerMetrics
from kgwalk.serve.pages import site, site_reply
from kgwalk.serve.runs import SECONDS as RUN_SECONDS
from kgwalk.serve.runs import RunRoutes
from kgwalk.serve.settings import Access, ServeSettings, is_json
from kgwalk.serve.shapes import GraphList, Health
from kgwalk.serve.suggest import SuggestRoute
from kgwalk.serve.threads import GraphThreads
from kgwalk.serve.uploads import FILE, OCTETS, Uploads
from kgwalk.types import KgwalkError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from kgwalk.llm.engine import Engine
    from kgwalk.serve.mcp.server import McpEndpoint
    from kgwalk.serve.protocol import WorkerShare
    from kgwalk.walk.web.search import WebSearch

log = logging.getLogger("kgwalk.serve")

# Seconds between "ready" and the opening of the model, whose imports would hold up the first requests.
WARM_AFTER = 0.1
MCP = "/mcp"

BATCHES = "send smaller batches"


INTERNAL = error_reply(500, "internal", "the server failed on this request; its log has the reason")
NOT_JSON = error_reply(415, "not_json", "the body must be JSON and say so: send `Content-Type: application/json`")


class HttpRoute(NamedTuple):
    method: str
    reads_body: bool
    # (body, deadline on the monotonic clock); a route without a body is given what stands after the path's "?"
    handle: Callable[[bytes, float], Awaitable[HttpReply | ReplyStream]]
    advice: str = "send less"  # to a client whose body is too large
    # A time limit of its own, for answers that take long; such an answer is given up when the client leaves.
    seconds: float | None = None


def create_app(
    settings: ServeSettings, graphs: ServedGraphs | Mapping[str, Graph] | None = None, engine: Engine | None = None
) -> App:
    """The application over the stores and the model of the settings, or over graphs and an engine that are open."""
    web = open_web(settings)
    if graphs is None:
        graphs = open_served(settings)
    elif not isinstance(graphs, ServedGraphs):
        graphs = ServedGraphs(graphs, uploaded=open_uploaded(settings.uploads, graphs))
    return App(settings, graphs, engine=engine, web=web)


def open_web(settings: ServeSettings) -> WebSearch | None:
    """What the agent's web searches ask. Imports the agent only if there are settings of an environment."""
    if not settings.environment:
        return None
    from kgwalk.walk.environment import environment_values, opened_web
    from kgwalk.walk.web.search import GRAPH
    from kgwalk.walk.web.search import open_web as named_web

    environment = environment_values(settings.environment)
    if environment.drop > 0 and settings.data is None:
        raise KgwalkError(
            "facts are hidden by question, and no questions are served; name their dataset: --data DIR, or leave out "
            "--graph-drop"
        )
    return named_web(environment.web) if environment.web == GRAPH else opened_web(environment)


class App:
    """The ASGI application over some graphs."""

    def __init__(
        self,
        settings: ServeSettings,
        graphs: ServedGraphs,
        engine: Engine | None = None,
        web: WebSearch | None = None,
    ) -> None:
        self.settings, self.graphs = settings, graphs
        self.share: WorkerShare | None = None  # of several workers
        self.metrics = ServerMetrics(len(graphs.by_name))
        self.agent = AgentService(graphs, settings, engine, web, self._heard)
        long = settings.agent_time_limit
        self.threads = GraphThreads()
        self.uploads = Uploads(settings, graphs, lambda: self.metrics.graphs(len(graphs.by_name)))
        self.routes: dict[str, HttpRoute] = {
            "/kg/actions": HttpRoute("POST", True, ActionRoute(graphs, settings, self.metrics), BATCHES),
            "/kg/query": HttpRoute("POST", True, QueryRoute(graphs, settings, self.metrics), BATCHES),
            "/kg/graphs": HttpRoute("GET", False, self._list_graphs),
            "/kg/suggest": HttpRoute("GET", False, SuggestRoute(graphs)),
            "/health": HttpRoute("GET", False, self._health),
            "/metrics": HttpRoute("GET", False, self._metrics),
            "/v1/ask": HttpRoute("POST", True, AskRoute(self.agent), "ask a shorter question", long),
            "/v1/chat/completions": HttpRoute(
                "POST", True, ChatRoute(self.agent), "send fewer or shorter messages", long
            ),
            "/v1/models": HttpRoute("GET", False, ModelsRoute(self.agent)),
            "/v1/feedback": HttpRoute("POST", True, FeedbackRoute(graphs, settings.feedback)),
        }
        self.runs = RunRoutes(settings.runs)
        for path, handle in self.runs.handlers.items():
            self.routes[path] = HttpRoute("GET", False, handle, seconds=RUN_SECONDS)
        self.routes |= {
            "/v1/ask/query": HttpRoute("POST", True, WalkQueryRoute(self.agent, graphs, self.threads), seconds=long),
            "/kg/walk": HttpRoute("POST", True, HandWalkRoute(graphs, self.threads), "send fewer calls"),
            "/kg/uploads": HttpRoute("GET", False, self.uploads.about),
            "/kg/build": HttpRoute("POST", True, self.uploads.begin),
            "/kg/job": HttpRoute("GET", False, self.uploads.job),
            "/kg/job/stop": HttpRoute("POST", True, self.uploads.stop),
            "/kg/remove": HttpRoute("POST", True, self.uploads.remove),
        }
        explore = ExploreRoutes(graphs, self.threads).by_path
        self.routes |= {path: HttpRoute("GET", False, handle) for path, handle in explore.items()}
        self.mcp: McpEndpoint | None = None
        self._access = Access(settings)
        self._body = BodyReader(settings.max_body, settings.time_limit, settings.silence_time_limit)
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
        with telemetry.request(scope) as id_:
            watched = _Watched(send, self.share, id_)
            try:
                await self._answer(scope, receive, watched, path, began)
            except HttpError as error:
                await send_reply(watched, error.reply)
            except ClientGone:
                pass
            except asyncio.CancelledError:
                # Only the end of the server cancels a request. Not raised again: the client can still be told, and
                # uvicorn would log a traceback for each.
                if watched.status == NO_ANSWER:
                    await send_reply(watched, STOPPING)
            except Exception:
                self.metrics.exception()
                log.exception("%s %s failed", scope["method"], path)
                if watched.status == NO_ANSWER:
                    await send_reply(watched, INTERNAL)
            finally:
                label, seconds = self._label(scope, path), monotonic() - began
                self.metrics.request(label, watched.status, seconds)
                telemetry.log_request(scope, label, watched.status, seconds)

    def _heard(self, record: AskRecord) -> None:
        """What became of a question."""
        self.metrics.ask(record)
        telemetry.log_ask(record, with_question=self.settings.log_questions)

    def close(self) -> None:
        self.runs.close()
        self.uploads.close()
        self.threads.close()
        self.agent.close()

    async def api(self) -> FastAPI:
        """The FastAPI application; another thread imports it, which takes a third of a second."""
        async with self._building:
            if self._api is None:
                self._api = await asyncio.to_thread(self._build_api)
        return self._api

    async def _answer(self, scope: Scope, receive: Receive, send: _Watched, path: str, began: float) -> None:
        self._access.check_site(scope)
        method = scope["method"]
        route = self.routes.get(path)
        if route is None and (file := site_reply(method, path, scope["headers"])) is not None:
            await send_reply(send, file)
            return
        if path != "/health":
            self._access.check_key(scope)
        settings = self.settings
        if route is not None and (method == route.method or (method, route.method) == ("HEAD", "GET")):
            body = scope.get("query_string", b"")
            if route.reads_body:
                if not is_json(scope["headers"]):
                    await send_reply(send, NOT_JSON)
                    return
                body = await self._body(scope, receive, route.advice)
            if route.seconds is None:
                await send_answer(send, await route.handle(body, began + settings.time_limit))
            else:
                await while_there(receive, _answered(send, route, body, began + route.seconds))
            return
        if path == MCP:
            await self._answer_mcp(scope, receive, send)
            return
        if (method, path) == ("PUT", FILE):
            await send_reply(send, await self._take_file(scope, receive))
            return
        body = await self._body(scope, receive, "send less")
        if body and not is_json(scope["headers"]):
            await send_reply(send, NOT_JSON)
            return
        api = self._api or await self.api()
        await api(scope, _replay(body, receive), send)

    async def _answer_mcp(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A call of an MCP client, which is given up when the client leaves."""
        from kgwalk.serve.mcp.server import McpEndpoint, whole_body

        body = await self._body(scope, receive, "send less")
        if body and not is_json(scope["headers"]):
            await send_reply(send, NOT_JSON)
            return
        self.mcp = self.mcp or McpEndpoint(self)
        await while_there(receive, self.mcp(scope, whole_body(body), send))

    async def _take_file(self, scope: Scope, receive: Receive) -> HttpReply:
        """A file of an upload, which may be far larger than any other body: it goes to disk as it arrives."""
        headers = dict(scope["headers"])
        if headers.get(b"content-type") != OCTETS:
            raise HttpError(415, "not_octets", f"a file's bytes are sent as `Content-Type: {OCTETS.decode()}`")
        length = headers.get(b"content-length", b"")
        announced = int(length) if length.isdigit() else None
        return await self.uploads.take_file(scope["query_string"], self._body.parts(receive), announced)

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
            "feedback": self.settings.feedback is not None,
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
                if self.mcp is not None:
                    await self.mcp.close()
                await asyncio.to_thread(self.close)
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _warm(self) -> None:
        await asyncio.sleep(WARM_AFTER)
        self.runs.warm()
        await self.agent.warm()

    def _build_api(self) -> FastAPI:
        from kgwalk.serve.api import create_api

        return create_api(self)

    def _label(self, scope: Scope, path: str) -> str:
        """The path for the counts: one of ours, FastAPI's template, or "other" for a path that is not served."""
        if path in self.routes or path in site() or path in (FILE, MCP):
            return path
        return str(getattr(scope.get("route"), "path", "other"))


NO_ANSWER = 499  # as nginx counts a client that left before it was answered


class _Watched:
    """`send`, remembering the status that was sent; the reply gets the request's id. Of several workers, one with too
    many connections gives one up.
    """

    __slots__ = ("_id", "_send", "_share", "status")

    def __init__(self, send: Send, share: WorkerShare | None, id_: bytes) -> None:
        self._send, self._share, self._id = send, share, id_
        self.status = NO_ANSWER

    async def __call__(self, message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), (telemetry.REQUEST_ID, self._id)]
            if self._share is not None and self._share.gives_up_one():
                message["headers"].append((b"connection", b"close"))
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
