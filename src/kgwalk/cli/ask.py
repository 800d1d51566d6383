"""`kgwalk ask`: a question of a graph, the walk as it happens, the answer with its evidence."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kgwalk.cli.graphs import graph_called
from kgwalk.cli.output import err, out, print_json
from kgwalk.cli.world import Web, world_values
from kgwalk.types import Answer, Call, Episode, KgwalkError, Malformed, Triple, Turn, UnknownEntity

GRAPH = "world"  # the bundled graph

EXAMPLES = (
    "kgwalk ask 'what is the capital of France?'",
    "kgwalk ask 'who directed Big?' --graph films.kg",
    "kgwalk ask --engine api --model gpt-4o-mini --recipe kg-r1",
    "kgwalk ask 'who directed Big?' --graph films.kg --recipe graph-rft --web articles/",
)


def ask(
    question: Annotated[str | None, typer.Argument(help="A question; without one, a session begins.")] = None,
    graph: Annotated[
        str, typer.Option("--graph", help="A store folder, a server's URL, sparql+URL, or a bundled graph's name.")
    ] = GRAPH,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="An entity to start from; else found in the question.")
    ] = None,
    recipe: Annotated[str, typer.Option(help="Which system walks; a bundled recipe or a TOML file.")] = "kgwalk",
    model: Annotated[
        str | None, typer.Option(help="A model's name or path (default: SmolLM2-135M, installed with kgwalk's demo).")
    ] = None,
    adapter: Annotated[
        str | None, typer.Option(help="A LoRA adapter's folder, or none (default: beside the graph, else shipped).")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="auto, cpu (OpenVINO), local (torch), vllm or api (OPENAI_BASE_URL, OPENAI_API_KEY).")
    ] = "auto",
    runs: Annotated[int, typer.Option(min=1, help="Walk so often and answer with the union.")] = 1,
    web: Web = None,
    values: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="A value of the recipe, anew.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Ask a question of a knowledge graph and watch the walk.

    Without a graph the bundled one is asked, geography of the world; without a model a small one that runs on a CPU.
    The agent that `kgwalk fit` put beside the graph walks, else the one that comes with kgwalk, if there is one.
    """
    from kgwalk.agent.adapters import NONE, choose, store_of
    from kgwalk.agent.from_recipe import budget_of, check_web, protocol_of
    from kgwalk.agent.worlds import opened_web, world_settings
    from kgwalk.config.recipe import load_recipe
    from kgwalk.llm.open import open_engine

    if question is None and json:
        raise typer.BadParameter("--json needs a question")
    chosen = load_recipe(recipe).with_values([*world_values(None, web), *(values or [])])
    protocol, budget = protocol_of(chosen), budget_of(chosen)
    check_web(chosen)
    searched = opened_web(world_settings(chosen))
    opened = graph_called(graph)
    choice = choose(adapter, store_of(opened), chosen, model=model, engine=engine)
    for words in choice.words:
        err.print(words, style="dim")
    if choice.adapter is None and adapter != NONE and engine != "api" and not json:
        err.print(f"agent: none; the model walks as it is. `kgwalk fit {graph}` trains one", style="dim")
    options = {"adapter": choice.folder} if choice.adapter else {}
    with err.status(f"loading {model or 'the default model'}") if not json else _silent():
        loaded = open_engine(engine, model, **options)
    session = _Session(opened, searched, protocol, loaded, budget, runs, quiet=json)
    try:
        if question is not None:
            session.ask(question, topic)
        else:
            session.converse()
    finally:
        session.close()


def _silent() -> Any:
    from contextlib import nullcontext

    return nullcontext()


class _Session:
    """One graph, one web if any, one engine, one question after the other."""

    def __init__(
        self, graph: Any, web: Any, protocol: Any, engine: Any, budget: Any, runs: int, *, quiet: bool
    ) -> None:
        self.graph, self.web, self.protocol, self.engine, self.budget, self.runs = (
            graph,
            web,
            protocol,
            engine,
            budget,
            runs,
        )
        self.quiet = quiet

    def ask(self, question: str, topics: list[str] | None) -> None:
        from kgwalk.agent.ask import as_json, ask

        for name in topics or []:
            if name not in self.graph:
                from kgwalk.kg.graph import with_nearest

                raise with_nearest(self.graph, UnknownEntity(name))
        asked = ask(
            question,
            self.graph,
            protocol=self.protocol,
            web=self.web,
            engine=self.engine,
            topics=topics,
            runs=self.runs,
            budget=self.budget,
            watch=(lambda episode, turn: None) if self.quiet else _show,
        )
        if self.quiet:
            print_json(as_json(asked))
        else:
            _show_answer(asked)

    def converse(self) -> None:
        err.print("Ask a question; an empty line or Ctrl-D ends.")
        while True:
            try:
                question = input("? ").strip()
            except EOFError:
                return
            if not question:
                return
            try:
                self.ask(question, None)
            except KgwalkError as error:
                err.print(f"error: {error}")

    def close(self) -> None:
        import asyncio

        asyncio.run(self.engine.close())
        close = getattr(self.graph, "close", None)
        if close is not None:
            close()


def _show(episode: Episode, turn: Turn | None) -> None:
    """One turn of the walk as it happens."""
    if turn is None:
        return
    if len(episode.turns) == 1:
        err.print(f"from: {', '.join(episode.topics) or 'no entity found in the question'}", style="dim")
    match turn.step:
        case Call(tool, args):
            shown = ", ".join(f"${arg}" if isinstance(arg, int) else f'"{arg}"' for arg in args)
            err.print(f"> {tool}({shown})", style="bold")
        case Answer():
            err.print("> answer", style="bold")
        case Malformed():
            err.print(f"> {_line(turn.text)}", style="yellow")
    for line in turn.observation.splitlines():
        err.print(f"  {_line(line)}", style=None if turn.ok else "red")


def _line(text: str, limit: int = 160) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else f"{flat[:limit]}..."


def _show_answer(asked: Any) -> None:
    for mention in asked.unsure:
        names = ", ".join(found.name for found in mention.candidates)
        err.print(f'note: "{mention.text}" may mean {names}; choose with --topic', style="yellow")
    if not asked.answers:
        out.print(f"no answer ({asked.failure or asked.stop})")
    for name in asked.answers:
        out.print(name)
        for triple in asked.evidence.get(name, []):
            out.print(f"    {_fact(triple)}")
    tokens = asked.tokens
    err.print(f"{asked.turns} turns, {tokens['generated']} tokens generated, {asked.seconds:.1f} s", style="dim")


def _fact(triple: Triple) -> str:
    date = f" [{triple.time}]" if triple.time else ""
    return f"({triple.head}, {triple.relation}, {triple.tail}){date}"
