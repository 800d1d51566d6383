"""`kgwalk ask`: a question of a graph, the walk as it happens, the answer with its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgwalk.cli.graphs import graph_called
from kgwalk.cli.output import err, out, print_json
from kgwalk.cli.world import Web, world_values
from kgwalk.types import Answer, Call, Episode, KgwalkError, Malformed, Triple, Turn

if TYPE_CHECKING:
    from kgwalk.agent.link import Mention
    from kgwalk.agent.start import Start

GRAPH = "world"  # the bundled graph
RECIPE = "kgwalk"  # what `kgwalk fit` trains as well, unless told otherwise

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
    recipe: Annotated[str, typer.Option(help="Which system walks; a bundled recipe or a TOML file.")] = RECIPE,
    model: Annotated[
        str | None, typer.Option(help="A model's name or path (default: SmolLM2-135M, installed with kgwalk's demo).")
    ] = None,
    adapter: Annotated[
        str | None,
        typer.Option(help="A LoRA adapter's folder, shipped or none (default: beside the graph, else shipped)."),
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
    It exits with 0 if there is an answer, with 1 if there is none or something failed, with 2 if it is used wrongly.
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
    session = _Session(opened, searched, protocol, budget, runs, quiet=json)
    start = None if question is None else session.start(question, topic)  # refused before a model is loaded
    choice = choose(adapter, store_of(opened), chosen, model=model, engine=engine)
    for words in choice.words:
        err.print(words, style="dim")
    if choice.adapter is None and adapter != NONE and engine != "api" and not json:
        trains = "grpo" in chosen.sections and store_of(opened) is not None
        err.print(no_agent(graph, recipe, trains=trains), style="dim", soft_wrap=True)
    options = {"adapter": choice.folder} if choice.adapter else {}
    with err.status(f"loading {model or 'the default model'}") if not json else _silent():
        session.engine = open_engine(engine, model, **options)
    try:
        if question is None or start is None:
            session.converse()
        elif not session.ask(question, start):
            raise typer.Exit(1)
    finally:
        session.close()


def _silent() -> Any:
    from contextlib import nullcontext

    return nullcontext()


class _Session:
    """One graph, one web if any, one engine, one question after the other."""

    engine: Any  # set once it is open

    def __init__(self, graph: Any, web: Any, protocol: Any, budget: Any, runs: int, *, quiet: bool) -> None:
        self.graph, self.web, self.protocol, self.budget, self.runs = graph, web, protocol, budget, runs
        self.quiet = quiet

    def start(self, question: str, topics: list[str] | None) -> Start:
        """Where to start; what is not sure about that is said."""
        from kgwalk.agent.start import start_of

        start = start_of(question, self.graph, topics, protocol=self.protocol, web=self.web is not None)
        for mention in [] if self.quiet else start.unsure:
            if words := note_of(mention):
                err.print(f"note: {words}", style="yellow")
        return start

    def ask(self, question: str, start: Start) -> bool:
        """Walk, and show what came of it; whether there is an answer."""
        from kgwalk.agent.ask import as_json, ask

        asked = ask(
            question,
            self.graph,
            protocol=self.protocol,
            web=self.web,
            engine=self.engine,
            topics=start,
            runs=self.runs,
            budget=self.budget,
            watch=(lambda episode, turn: None) if self.quiet else _show,
        )
        if self.quiet:
            print_json(as_json(asked))
        else:
            _show_answer(asked)
        return bool(asked.answers)

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
                self.ask(question, self.start(question, None))
            except KgwalkError as error:
                err.print(f"error: {error}")

    def close(self) -> None:
        import asyncio

        asyncio.run(self.engine.close())
        close = getattr(self.graph, "close", None)
        if close is not None:
            close()


def no_agent(graph: str, recipe: str, *, trains: bool) -> str:
    """What to say where the model walks alone; `trains` says that `kgwalk fit` can make an agent of this recipe here.

    >>> no_agent("club.kg", "kg-r1", trains=True)
    'agent: none; the model walks as it is. `kgwalk fit club.kg --recipe kg-r1` trains one'
    """
    named = "" if recipe == RECIPE else f" --recipe {recipe}"
    hint = f". `kgwalk fit {graph}{named}` trains one" if trains else ""
    return f"agent: none; the model walks as it is{hint}"


def note_of(mention: Mention) -> str:
    """What to say of a mention that is not sure; nothing where the one entity that it may mean is called just so."""
    first, *others = [found.name for found in mention.candidates]
    if others:
        return f'"{mention.text}" may mean {", ".join([first, *others])}; the first is taken, choose with --topic'
    return "" if first == mention.text else f'"{mention.text}" is taken for {first}'


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
    from kgwalk.tools.sets import MOST_COUNTED

    if not asked.answers:
        out.print(f"no answer ({asked.failure or asked.stop})")
    for name in asked.answers:
        out.print(name)
        facts = asked.evidence.get(name, [])
        for triple in facts:
            out.print(f"    {_fact(triple)}")
        if is_count(name, facts) and int(name) > MOST_COUNTED:
            out.print(f"    ... (of the first {MOST_COUNTED} that were counted; {int(name) - MOST_COUNTED:,} more)")
    spent = f"{asked.turns} turns, {asked.tokens['generated']} tokens generated, {asked.seconds:.1f} s"
    sure = asked.confidence
    err.print(spent if sure is None else f"{spent}, confidence {sure:.0%}", style="dim")
    if asked.note is not None:
        err.print(f"note: {asked.note}", style="yellow")


def is_count(name: str, facts: Sequence[Triple]) -> bool:
    """Whether an answer is how many there are of what its evidence tells: a number, and no end of any of the facts.

    >>> counted = [Triple("Northwind", "makes", "Gale"), Triple("Northwind", "makes", "Storm")]
    >>> is_count("2", counted), is_count("2", [Triple("Gale", "wheels", "2")]), is_count("2", [])
    (True, False, False)
    """
    return name.isdecimal() and bool(facts) and not any(name in (fact.head, fact.tail) for fact in facts)


def _fact(triple: Triple) -> str:
    date = f" [{triple.time}]" if triple.time else ""
    return f"({triple.head}, {triple.relation}, {triple.tail}){date}"
