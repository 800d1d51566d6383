"""The tools behind the official SDK: on stdio for a host that starts us, and at /mcp for hosts that call a server.

Over HTTP a request is whole in itself (no sessions), so any worker can answer it, and the server's own door has checked
key, host, origin and body before the SDK sees it. The SDK is the package `mcp` (`pip install 'kgwalk[mcp]'`), which is
imported when the first client comes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from kgwalk import __version__
from kgwalk.config.runtime import visible
from kgwalk.serve.asgi import AsgiMessage, HttpError, Receive, Scope, Send
from kgwalk.serve.mcp.replies import shortened
from kgwalk.serve.mcp.tools import DATA, GraphTools
from kgwalk.serve.reading import ItemError
from kgwalk.types import KgwalkError

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult

    from kgwalk.serve.app import App

log = logging.getLogger("kgwalk.serve")

NEEDED = "MCP needs the package `mcp`; pip install 'kgwalk[mcp]'"
LONGEST_WORD = 1_000  # characters of a message or a name in an error
INSTRUCTIONS = (
    "Knowledge graphs to look things up in. `ask` answers a question in plain words with the facts that prove it; the "
    "other tools look around: `schema` and `kinds` for what there is, `find` for how a name is written, `relations`, "
    "`neighbours` and `path` for facts. Nothing here changes anything." + DATA
)
# What to do about an error, where its own words do not say it.
ADVICE = {
    "unknown_entity": "Call `find` for how the graph writes a name.",
    "unknown_name": "Call `relations` of the entity for the relations that it has.",
    "unknown_graph": "Call `graphs` for their names.",
    "no_model": "The other tools work without one.",
    "time_limit": "Ask something simpler, or look around with the other tools.",
    "engine_failed": "The other tools work without the language model.",
}


def mcp_server(app: App) -> Server[Any]:
    """The SDK's server over the graphs and the agent of `app`. Raises KgwalkError where the SDK is missing."""
    try:
        from mcp.server.lowlevel import Server
        from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations
    except ModuleNotFoundError as error:
        raise KgwalkError(f"{NEEDED} ({error.name} is missing)") from error

    from kgwalk.serve.api import model_of

    tools = GraphTools(app)
    reads_only = ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    listed = [
        Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=model_of(tool.call).model_json_schema(),
            output_schema=model_of(tool.reply).model_json_schema(),
            annotations=reads_only,
        )
        for tool in tools.by_name.values()
    ]

    async def list_tools(context: object, params: object) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    def failed(about: dict[str, Any]) -> CallToolResult:
        about = shortened(about, LONGEST_WORD)
        message = visible(about["message"])  # which may quote names of the graph
        advice = ADVICE.get(about["kind"], "")
        text = TextContent(type="text", text=f"Error: {message}{'' if message[-1:] in '.?' else '.'} {advice}".rstrip())
        return CallToolResult(content=[text], structured_content={"error": about}, is_error=True)

    async def call_tool(context: object, params: CallToolRequestParams) -> CallToolResult:
        if params.name not in tools.by_name:
            there = ", ".join(tools.by_name)
            return failed({"kind": "unknown_tool", "message": f"no tool {params.name[:60]!r}; there are {there}"})
        try:
            reply, text = await tools.call(params.name, params.arguments or {})
        except HttpError as error:
            return failed(dict(error.about))
        except ItemError as error:
            return failed({"kind": error.kind, "message": error.message})
        except Exception:
            app.metrics.exception()
            log.exception("the tool %s failed", params.name)
            return failed({"kind": "internal", "message": "the server failed on this call; its log has the reason"})
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=reply)

    return Server(
        "kgwalk",
        version=__version__,
        title="kgwalk",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


# stdio


def serve_stdio(app: App) -> None:
    """Answer the host that started this process until it closes stdin. What is printed goes to stderr."""
    server = mcp_server(app)

    async def serve() -> None:
        from mcp.server.stdio import stdio_server

        warming = asyncio.create_task(app.agent.warm()) if app.settings.warms else None
        try:
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
        finally:
            if warming is not None:
                warming.cancel()
                await asyncio.gather(warming, return_exceptions=True)

    try:
        asyncio.run(serve())
    except KeyboardInterrupt:
        pass
    finally:
        busy = app.agent.busy_opening
        app.close()
    if busy:  # a thread is inside a library's import or a download, which nothing stops: see run.py
        sys.stderr.flush()
        os._exit(0)


# HTTP


class McpEndpoint:
    """/mcp of a server. The SDK is imported, and its task group begins, with the first request."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._manager: StreamableHTTPSessionManager | None = None
        self._opening = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whose body was read: `receive` gives it whole."""
        if scope["method"] != "POST":
            raise HttpError(405, "method_not_allowed", "/mcp takes POST: there are no sessions", ((b"allow", b"POST"),))
        async with self._opening:
            if self._manager is None:
                try:
                    server = await asyncio.to_thread(mcp_server, self._app)
                except KgwalkError as error:
                    raise HttpError(503, "no_mcp", str(error)) from error
                await self._open(server)
        assert self._manager is not None
        await self._manager.handle_request(scope, receive, send)

    async def close(self) -> None:
        self._stop.set()
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)

    async def _open(self, server: Server[Any]) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        manager = StreamableHTTPSessionManager(
            server, stateless=True, json_response=True, max_request_body_size=self._app.settings.max_body
        )
        started = asyncio.Event()

        async def run() -> None:  # in one task, as a task group must be
            async with manager.run():
                started.set()
                await self._stop.wait()

        self._running = asyncio.create_task(run(), name="kgwalk-mcp")
        await started.wait()
        self._manager = manager


def whole_body(body: bytes) -> Receive:
    """A `receive` that gives the body once, and then waits: whoever calls watches for the client's leaving itself."""
    pending: list[AsgiMessage] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> AsgiMessage:
        if not pending:
            await asyncio.Event().wait()
        return pending.pop()

    return receive
