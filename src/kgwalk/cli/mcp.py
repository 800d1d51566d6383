"""`kgwalk mcp`: graphs and the agent as tools for an MCP host, on stdio or over HTTP."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from kgwalk.cli.options import RECIPE_FORMS, AdapterOption, EngineOption
from kgwalk.cli.output import err
from kgwalk.cli.serve import MAX_REPLY, check_model, chosen_agent, named_graphs
from kgwalk.types import KgwalkError

EXAMPLES = (
    "kgwalk mcp --graph my.kg",
    "kgwalk mcp --graph films.kg --graph news=events.kg --adapter none",
    "kgwalk mcp --graph my.kg --http 127.0.0.1:8000",
    "KGWALK_API_KEY=secret kgwalk mcp --graph my.kg --http 0.0.0.0:8000",
)
HOST = "127.0.0.1"


def mcp(
    graph: Annotated[
        list[str] | None,
        typer.Option(
            "--graph",
            metavar="[NAME=]DIR",
            help="A store, or a bundled graph's name; repeat for several (default: world).",
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(metavar="[HOST:]PORT", help="Streamable HTTP at /mcp there, instead of stdio; port 0: any free."),
    ] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(help="With --http: a file with the key clients must send; else KGWALK_API_KEY.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="With --http: listen beyond this machine without a key.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="With --http, without a key: answer to this name too; * for any."),
    ] = None,
    max_reply: Annotated[int, typer.Option(min=1000, help=MAX_REPLY)] = 20_000,
    time_limit: Annotated[
        float, typer.Option(min=0.001, help="Seconds a tool may take; asking the agent has 120.")
    ] = 5.0,
    model: Annotated[
        str | None, typer.Option(help="The agent's language model, a name or path (default: the agent's own).")
    ] = None,
    engine: EngineOption = "auto",
    base_url: Annotated[str | None, typer.Option(help="Of that API; else OPENAI_BASE_URL.")] = None,
    adapter: AdapterOption = None,
    recipe: Annotated[str, typer.Option(help=f"How the agent walks: {RECIPE_FORMS}.")] = "kgwalk",
    warm: Annotated[
        bool, typer.Option("--warm/--no-warm", help="Open the model at the start, not at the first question.")
    ] = True,
) -> None:
    """Give an MCP host tools that read graphs: ask the agent, find names, relations, neighbours, paths, the schema.

    A host starts the command and speaks to it on stdin and stdout. With --http it is the server of `kgwalk serve`,
    which answers MCP at /mcp: on this machine alone no key is needed, listening elsewhere needs one. No tool changes
    anything, and every reply is bounded. --adapter none gives the graphs without an agent.
    """
    host, port = (HOST, 0) if http is None else address(http)
    if find_spec("mcp") is None:
        raise KgwalkError("MCP needs the package `mcp`, which is not installed; pip install 'kgwalk[mcp]'")
    try:
        from kgwalk.serve.app import create_app
        from kgwalk.serve.mcp.server import serve_stdio
        from kgwalk.serve.run import run_server
        from kgwalk.serve.settings import ServeSettings, read_key
        from kgwalk.walk.tracing import start_tracing
    except ModuleNotFoundError as error:
        raise KgwalkError(f"{error.name} is not installed; pip install 'kgwalk[mcp]'") from error

    graphs = named_graphs(graph or ["world"])
    if model is not None:
        check_model(model, engine)
    adapter, model, words = chosen_agent(adapter, model, graphs, None, recipe, engine)
    settings = ServeSettings(
        graphs=graphs,
        host=host,
        port=port,
        api_key=None if http is None else read_key(api_key_file),
        insecure=insecure,
        allow_hosts=allow_host or [],
        max_reply=max_reply,
        time_limit=time_limit,
        model=model,
        engine=engine,
        base_url=base_url,
        adapter=adapter,
        recipe=recipe,
        warm=warm,
    )
    if http is not None:
        run_server(settings, ready=lambda url: _announce(words, f"kgwalk serves MCP at {url}/mcp; Ctrl-C stops it"))
        return
    app = create_app(settings)
    typed = sys.stdin is not None and sys.stdin.isatty()
    hint = "; an MCP host starts this command, see `kgwalk mcp --help`; Ctrl-C stops it" if typed else ""
    _announce(words, f"kgwalk speaks MCP on stdin and stdout about {', '.join(graphs)}{hint}")
    traced = start_tracing()
    try:
        serve_stdio(app)
    finally:
        traced()


def _announce(words: list[str], last: str) -> None:
    for line in [*words, last]:
        err.print(line, soft_wrap=True)


def address(text: str) -> tuple[str, int]:
    """Host and port of --http.

    >>> address("8000"), address("0.0.0.0:8000"), address("[::1]:8000")
    (('127.0.0.1', 8000), ('0.0.0.0', 8000), ('::1', 8000))
    """
    host, found, port = text.rpartition(":")
    if not port.isdecimal() or not int(port) <= 65535:
        raise typer.BadParameter(f"{text!r} has no port; give HOST:PORT, such as {HOST}:8000", param_hint="--http")
    return (host.removeprefix("[").removesuffix("]") if found else HOST), int(port)
