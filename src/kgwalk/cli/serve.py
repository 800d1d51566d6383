"""`kgwalk serve`: graphs and the agent that walks them, over HTTP."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kgwalk.cli.options import (
    RECIPE_FORMS,
    AdapterOption,
    EngineOption,
    GraphDropOption,
    TraceOption,
    WebOption,
    bundled_path,
    environment_values,
    own_store,
)
from kgwalk.config.runtime import visible
from kgwalk.types import EngineError, KgwalkError


class LogFormat(StrEnum):
    text = "text"
    json = "json"


EXAMPLES = (
    "kgwalk serve --graph films.kg",
    "kgwalk serve --graph films.kg --graph news=events.kg",
    "kgwalk serve --data world --graph-drop 0.4",
    "kgwalk serve --graph films.kg --allow-host kg.example.org",
    "kgwalk serve --graph films.kg --reload",
    "kgwalk serve --runs runs",
    "kgwalk serve --graph world --uploads graphs",
    "kgwalk serve --graph films.kg --feedback said",
    "kgwalk serve --graph films.kg --access-log --log-format json",
    "KGWALK_API_KEY=secret kgwalk serve --graph films.kg --host 0.0.0.0 --workers 2",
)

MAX_REPLY = "At most this many characters in an MCP tool's reply; four are about a token."


def serve(
    graph: Annotated[
        list[str] | None, typer.Option("--graph", metavar="[NAME=]DIR", help="A store to serve; repeat for several.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="A dataset to serve the graph of; a question's id then means its view.")
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Show the runs below it: curves while they train, walks, comparisons."),
    ] = None,
    graph_drop: GraphDropOption = None,
    web: WebOption = None,
    values: Annotated[
        list[str] | None, typer.Option("--set", metavar="world.KEY=VALUE", help="Another value of the world.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="Processes; they share the graph's memory.")] = 1,
    api_key_file: Annotated[
        Path | None, typer.Option(help="A file with the key clients must send; else KGWALK_API_KEY.")
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen beyond this machine without a key.")] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Without a key, answer to this name too; repeat for several, * for any."),
    ] = None,
    wrong_keys: Annotated[
        int, typer.Option(min=0, help="Wrong keys of one address, then one a second; 0 for no bound.")
    ] = 10,
    limit: Annotated[int, typer.Option(min=1, help="At most this many names in a result.")] = 1000,
    max_batch: Annotated[int, typer.Option(min=1, help="At most this many actions in a request.")] = 1024,
    max_body: Annotated[int, typer.Option(min=1, help="At most this many bytes in a request.")] = 4 << 20,
    max_reply: Annotated[int, typer.Option(min=1000, help=MAX_REPLY)] = 20_000,
    time_limit: Annotated[float, typer.Option(min=0.001, help="Seconds a request may take.")] = 5.0,
    max_header_bytes: Annotated[int, typer.Option(min=1, help="At most this many bytes before the body.")] = 64 << 10,
    max_header_lines: Annotated[int, typer.Option(min=1, help="At most this many headers.")] = 100,
    header_time_limit: Annotated[float, typer.Option(min=0.001, help="Seconds until all headers are there.")] = 10.0,
    silence_time_limit: Annotated[
        float, typer.Option(min=0.001, help="Seconds without a byte of a body, or of an answer being taken.")
    ] = 10.0,
    max_connections: Annotated[int, typer.Option(min=1, help="At most this many connections of a worker.")] = 1024,
    max_connections_per_address: Annotated[
        int, typer.Option(min=1, help="At most this many of them from one address.")
    ] = 512,
    model: Annotated[
        str | None, typer.Option(help="The language model of /v1/ask, a name or path (default: the agent's own).")
    ] = None,
    engine: EngineOption = "auto",
    base_url: Annotated[str | None, typer.Option(help="Of that API; else OPENAI_BASE_URL.")] = None,
    adapter: AdapterOption = None,
    recipe: Annotated[
        str, typer.Option(help=f"How the agent walks, unless a request says: {RECIPE_FORMS}.")
    ] = "kgwalk",
    warm: Annotated[
        bool | None,
        typer.Option(
            "--warm/--no-warm",
            help="Open the model once the server is up, not at the first question (default: with one worker).",
            show_default=False,
        ),
    ] = None,
    feedback: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep what people say of answers there, as a question set.")
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify/--no-verify",
            help="Read all of every store at the start; without it, what is over 256 MB is checked when it is asked.",
        ),
    ] = True,
    reload: Annotated[
        bool, typer.Option("--reload", help="Open the stores again when they are built again, as SIGHUP does.")
    ] = False,
    uploads: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Let people upload files and tables; the graphs made of them lie here."),
    ] = None,
    max_upload: Annotated[int, typer.Option(min=1, help="At most this many bytes for one such graph.")] = 256 << 20,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Log every request to stderr, and what became of every question.")
    ] = False,
    log_format: Annotated[
        LogFormat, typer.Option(help="Of the log: text, or json, one object a line.")
    ] = LogFormat.text,
    log_questions: Annotated[
        bool,
        typer.Option(
            "--log-questions",
            envvar="KGWALK_LOG_QUESTIONS",
            show_envvar=False,
            help="Write questions and answers into log lines and traces too; else KGWALK_LOG_QUESTIONS.",
        ),
    ] = False,
    trace: TraceOption = None,
) -> None:
    """Serve graphs over HTTP: a page to ask questions on, the agent's answers, KG-R1's four actions in batches.

    The agent beside the graph answers, else the one that comes with kgwalk; --adapter none serves graphs alone.
    On this machine alone (127.0.0.1) no key is needed; listening elsewhere needs one. Without a key only this
    machine's own names are answered to, and those of --allow-host: another site's page could reach you by its own name.
    """
    if not graph and data is None and runs is None:
        raise typer.BadParameter("there is nothing to serve; give --graph DIR, --data DIR or --runs FOLDER")
    if not graph and data is None:  # a server has a graph; nobody asked for an agent beside the runs
        graph, adapter = ["world"], adapter or "none"
    from kgwalk.llm.engine import check_kind

    try:
        from kgwalk.config.recipe import Recipe
        from kgwalk.serve.run import announce, run_server
        from kgwalk.serve.settings import ServeSettings, read_key
        from kgwalk.serve.telemetry import log, say
    except ModuleNotFoundError as error:
        raise KgwalkError(f"{error.name} is not installed; pip install 'kgwalk[serve]'") from error

    environment = Recipe("serve", {}).with_values([*environment_values(graph_drop, web), *(values or [])])
    if set(environment.sections) - {"world"}:
        raise typer.BadParameter("--set takes values of the section world here, such as world.share=0.5")
    graphs = named_graphs(graph or [])
    if feedback is not None:
        from kgwalk.serve.feedback import check_feedback

        check_feedback(str(feedback), len(graphs) + (data is not None))
    if model is not None:
        check_model(model, engine)
    elif engine != "auto":
        check_kind(engine)
    adapter, model, words = chosen_agent(adapter, model, graphs, data, recipe, engine)

    def ready(url: str) -> None:
        for line in words:
            say(visible(line))
        announce(url)
        if runs is not None:
            say(f"runs: {url}/runs")

    settings = ServeSettings(
        graphs=graphs,
        data=data,
        runs=None if runs is None else str(runs.resolve()),
        environment=environment.section("world"),
        host=host,
        port=port,
        workers=workers,
        api_key=read_key(api_key_file),
        insecure=insecure,
        allow_hosts=allow_host or [],
        wrong_keys=wrong_keys,
        limit=limit,
        max_batch=max_batch,
        max_body=max_body,
        max_reply=max_reply,
        time_limit=time_limit,
        max_header_bytes=max_header_bytes,
        max_header_lines=max_header_lines,
        header_time_limit=header_time_limit,
        silence_time_limit=silence_time_limit,
        max_connections=max_connections,
        max_connections_per_address=max_connections_per_address,
        model=model,
        engine=engine,
        base_url=base_url,
        adapter=adapter,
        recipe=recipe,
        warm=warm,
        feedback=None if feedback is None else str(feedback.absolute()),
        access_log=access_log,
        log_format=log_format.value,
        log_questions=log_questions,
        trace=trace,
        verify=verify,
        reload=reload,
        uploads=uploads,
        max_upload=max_upload,
    )
    try:
        run_server(settings, ready=ready)
    except KgwalkError as error:
        if log_format is LogFormat.text:
            raise
        log.error("%s", error)  # whoever reads the log reads objects
        raise typer.Exit(1) from error


def chosen_agent(
    asked: str | None, model: str | None, graphs: dict[str, str], data: str | None, recipe: str, engine: str
) -> tuple[str | None, str | None, list[str]]:
    """Adapter and model, and what to say of them. An agent that is found brings its model, so /v1/ask needs no --model.

    A server has one agent: where several graphs have different ones, none of these is taken.
    """
    from kgwalk.config.recipe import load_recipe
    from kgwalk.llm.engine import check_kind
    from kgwalk.walk.policy import choose_adapter, store_of

    chosen = load_recipe(recipe)
    stores: list[Path | None] = [Path(path) for path in graphs.values()]
    if data is not None and asked is None:
        from kgwalk.data.dataset import load_dataset

        dataset = load_dataset(data)
        stores.append(store_of(dataset.graph()) if dataset.has_graph() else None)
    choices = [choose_adapter(asked, store, chosen, model=model, engine=engine) for store in stores]
    words: list[str] = []
    choice = choices[0]
    if any(other.folder != choice.folder for other in choices):
        words.append("not used: agents beside the graphs, since they differ; choose one with --adapter")
        choice = choose_adapter(asked, None, chosen, model=model, engine=engine)
    words += choice.words
    if choice.adapter is None:
        return None, model, words
    if engine == "auto" and model is None and asked is None:
        # Nobody asked for an agent, so its libraries may be missing: graphs are served without it.
        try:
            check_kind(engine)
        except EngineError as error:
            return None, None, [*words, f"not used: that agent, since {error}"]
    return choice.folder, model or choice.adapter.base or None, words


def check_model(model: str, engine: str) -> None:
    """Look for a model that is to run here before the server starts. Loads no weights."""
    from kgwalk.llm.engine import check_kind
    from kgwalk.llm.models import find_model

    check_kind(engine)
    if engine != "api":
        find_model(model)


def named_graphs(graphs: list[str]) -> dict[str, str]:
    """Paths by name: `films=my/films.kg` is called films, a bare path by its folder's name without .kg, and a bundled
    graph by its own name.
    """
    named: dict[str, str] = {}
    for text in graphs:
        name, found, path = text.partition("=")
        if not found or "://" in name:  # an address has its own equals signs
            name, path = Path(text).name.removesuffix(".kg"), text
        own_store(path)
        if name in named:
            raise typer.BadParameter(f"two graphs are called {name!r}; name them: --graph NAME=DIR")
        named[name] = str(bundled_path(path) or path)
    return named
