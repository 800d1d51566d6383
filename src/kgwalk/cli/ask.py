"""`kgwalk ask`: a question of a graph, the walk as it happens, the answer with its evidence."""

from __future__ import annotations

import re
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgwalk.cli.options import (
    AdapterOption,
    AsOption,
    EngineOption,
    RecipeOption,
    TraceOption,
    ValuesOption,
    WebOption,
    environment_values,
    graph_called,
)
from kgwalk.cli.output import err, out, print_json, print_json_line, print_table
from kgwalk.kg.store import shown_address
from kgwalk.types import Answer, Call, Episode, KgwalkError, Malformed, StopReason, Triple, Turn

if TYPE_CHECKING:
    from kgwalk.walk.agent import Agent, AskResult
    from kgwalk.walk.linking import Mention
    from kgwalk.walk.starts import Start

GRAPH = "world"  # the bundled graph
SHOWN = 50  # answers on the screen
DONE, NO_ANSWER, GUESS = 0, 1, 3  # exit codes; 2 is wrong usage
MOST_BROKEN = 3  # questions in a row whose engine failed: probably an API that is down
RECIPE = "kgwalk"  # Agent's default, written here again since importing it would slow the help down

EXAMPLES = (
    "kgwalk ask 'what is the capital of France?'",
    "kgwalk ask --graph films.kg --json < questions.txt > answers.jsonl",
    "kgwalk ask 'who directed Big?' --graph films.kg",
    "kgwalk ask --engine api --model gpt-4o-mini --recipe kg-r1",
    "kgwalk ask 'who directed Big?' --graph films.kg --recipe graph-rft --web articles/",
    "kgwalk ask 'which countries border Austria' --limit 3 --min-confidence 0.5",
    "kgwalk ask 'which countries border Austria' --as sql | sqlite3 facts.db",
)


def ask(
    question: Annotated[
        str | None,
        typer.Argument(help="A question; without one, those on stdin, a line each; on a terminal a session."),
    ] = None,
    graph: Annotated[
        str,
        typer.Option(
            "--graph",
            help="A store folder, a file of facts or tables, a server's URL, sparql+URL, bolt://HOST or a name.",
        ),
    ] = GRAPH,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="An entity to start from; else found in the question.")
    ] = None,
    recipe: RecipeOption = RECIPE,
    model: Annotated[
        str | None, typer.Option(help="A model's name or path (default: SmolLM2-135M, installed with kgwalk's demo).")
    ] = None,
    adapter: AdapterOption = None,
    engine: EngineOption = "auto",
    runs: Annotated[int, typer.Option(min=1, help="Walk so often and answer with the union.")] = 1,
    walks: Annotated[
        int | None,
        typer.Option(min=1, max=16, help="Where the first walk is unsure, walk up to so often and take the best."),
    ] = None,
    min_confidence: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="An answer below it is shown as a guess, and the exit is 3.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help=f"Print at most so many answers (default {SHOWN}; with --json all).")
    ] = None,
    web: WebOption = None,
    values: ValuesOption = None,
    as_: AsOption = None,
    trace: TraceOption = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout; of questions on stdin, one a line.")
    ] = False,
) -> None:
    """Ask a question of a knowledge graph and watch the walk.

    Without a graph the bundled one is asked, geography of the world; without a model a small one that runs on a CPU.
    The agent that `kgwalk fit` put beside the graph walks, else the one that comes with kgwalk, if there is one.
    It exits with 0 if there is an answer (to every question on stdin), with 1 if there is none or something failed,
    with 2 if it is used wrongly, with 3 if the answer is less sure than --min-confidence. With --as the query goes to
    stdout and the answer to stderr; where no query gives the answer it says why, and exits with 1.
    """
    from kgwalk.config.recipe import load_recipe
    from kgwalk.walk.agent import Agent
    from kgwalk.walk.policy import NONE, store_of
    from kgwalk.walk.tracing import start_tracing
    from kgwalk.walk.web.search import GRAPH, open_web

    if question == "-":
        question = None
    if question is None and json and at_terminal():
        raise typer.BadParameter("--json needs a question, or questions on stdin: kgwalk ask --json < questions.txt")
    lines = None if question is not None or at_terminal() else lines_of_stdin()
    if web == GRAPH:
        open_web(web)  # which says that it is none for a question
    again = [] if walks is None else [f"ask.walks={walks}"]
    chosen = load_recipe(recipe).with_values([*environment_values(None, web), *again, *(values or [])])
    traced = start_tracing(trace)  # before what takes longer: it may miss a package
    opened = graph_called(graph)
    agent = Agent(opened, chosen)
    language = None if as_ is None else as_.value
    session = _Session(agent, runs, quiet=json, limit=limit, least=min_confidence, language=language)
    choice = agent.chosen(adapter, model=model, engine=engine)
    start = None if question is None else session.start(question, topic)  # refused before a model is loaded
    if question is None and topic:
        topic = agent.start("?", topic).topics
    for words in choice.words:
        err.print(words, style="dim")
    if choice.adapter is None and not choice.agent and adapter != NONE and engine != "api" and not json:
        trains = "grpo" in chosen.sections and store_of(opened) is not None
        err.print(no_agent(graph, recipe, trains=trains), style="dim", soft_wrap=True)
    with err.status(f"loading {model or 'the default model'}") if not json else _silent():
        agent.opened(choice.folder or NONE, model=model, engine=engine)
    try:
        if question is not None and start is not None:
            status = session.ask(question, start)
        elif lines is not None:
            status = session.answer_all(lines, topic)
        else:
            status = session.converse(topic)
        if status != DONE:
            raise typer.Exit(status)
    finally:
        agent.close()
        traced()
        if (close := getattr(opened, "close", None)) is not None:
            close()


def at_terminal() -> bool:
    """Whether a person can type."""
    return sys.stdin is not None and sys.stdin.isatty()


def lines_of_stdin() -> Iterator[bytes]:
    """The lines that are not empty, at least one; each is read when it is needed."""
    raw = () if sys.stdin is None else sys.stdin.buffer
    lines = filter(None, (line.removeprefix(BOM_UTF8).strip() for line in raw))
    first = next(lines, None)
    if first is None:
        raise typer.BadParameter("there is no question: give one, or questions on stdin, a line each")
    return chain([first], lines)


def readable(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise KgwalkError("the line is not UTF-8") from error


def _silent() -> Any:
    from contextlib import nullcontext

    return nullcontext()


class _Session:
    """One agent, one question after the other; quiet where JSON is printed."""

    def __init__(
        self,
        agent: Agent,
        runs: int,
        *,
        quiet: bool,
        limit: int | None,
        least: float | None,
        language: str | None = None,  # of the query that is printed in place of the answer
    ) -> None:
        self.agent, self.runs, self.quiet, self.limit, self.least = agent, runs, quiet, limit, least
        self.language = language

    def start(self, question: str, topics: list[str] | None) -> Start:
        """Where to start; says where the question may mean other entities."""
        start = self.agent.start(question, topics)
        for mention in [] if self.quiet else start.unsure:
            if words := note_of(mention):
                err.print(f"note: {words}", style="yellow")
        return start

    def ask(self, question: str, start: Start) -> int:
        """Walks and shows the result; returns the exit code."""
        from kgwalk.walk.agent import as_json

        asked = self._walked(question, start)
        if self.quiet:
            print_json(as_json(asked, limit=self.limit, least=self.least))
        elif self.language is not None:
            self._show_query(asked)
        else:
            show_answer(asked, self.limit or SHOWN, self.least)
        return self._status(asked)

    def _show_query(self, asked: AskResult) -> None:
        """The query alone on stdout, so that it can be piped into what runs it; the answer is told beside it."""
        more = f" ... and {len(asked.answers) - SHOWN:,} more" if len(asked.answers) > SHOWN else ""
        err.print(f"answer: {', '.join(asked.answers[:SHOWN])}{more}")
        if asked.no_query is not None:
            err.print(f"no query: {asked.no_query}", style="red")
        if asked.query is not None:
            print(asked.query, end="")

    def _status(self, asked: AskResult) -> int:
        if asked.no_query is not None:
            return NO_ANSWER
        return NO_ANSWER if not asked.answers else GUESS if asked.is_guess(self.least) else DONE

    def _walked(self, question: str, start: Start) -> AskResult:
        watch = (lambda episode, turn: None) if self.quiet else _show
        asked = self.agent.ask(question, start, runs=self.runs, watch=watch)
        if self.language is not None:
            from kgwalk.systems.kgwalk.queries import add_query

            add_query(asked, self.agent.graph, self.agent.protocol, self.language)
        return asked

    def converse(self, topics: list[str] | None) -> int:
        """A session with a person; always done in the end, since having no answer is no failure there."""
        err.print("Ask a question; an empty line or Ctrl-D ends.")
        while True:
            try:
                question = input("? ").strip()
            except EOFError:
                return DONE
            if not question:
                return DONE
            try:
                self.ask(question, self.start(question, topics))
            except KgwalkError as error:
                err.print_error(error)

    def answer_all(self, lines: Iterable[bytes], topics: list[str] | None) -> int:
        """Answers questions from a file or a pipe; returns the exit code of the worst: no answer, then a guess.

        A question that is wrong does not stop the others; an engine that fails MOST_BROKEN times in a row does.
        """
        found, broken = {DONE}, 0
        for line in lines:
            try:
                question = readable(line)
                asked = self._walked(question, self.start(question, topics))
            except KgwalkError as error:
                self._tell_refused(line.decode(errors="replace"), error)
                found.add(NO_ANSWER)
                broken = 0
                continue
            self._tell(question, asked)
            found.add(self._status(asked))
            broken = broken + 1 if asked.stop == StopReason.engine_failed else 0
            if broken == MOST_BROKEN:
                raise KgwalkError(f"the engine failed {broken} times in a row ({asked.failure}); the rest is not asked")
        return NO_ANSWER if NO_ANSWER in found else max(found)

    def _tell(self, question: str, asked: AskResult) -> None:
        from kgwalk.walk.agent import as_json

        if self.quiet:
            print_json_line({"question": question, **as_json(asked, limit=self.limit, least=self.least)})
        else:
            if self.language is not None:
                err.print(question)
                self._show_query(asked)
                return
            out.print(question)
            show_answer(asked, self.limit or SHOWN, self.least)
            out.print()

    def _tell_refused(self, question: str, error: KgwalkError) -> None:
        from kgwalk.cli.main import told_error
        from kgwalk.walk.starts import SAYS_NOT, NoTopic

        if self.quiet:
            print_json_line({"question": question, **told_error(error)})
        else:
            out.print(question)
            out.print(SAYS_NOT if isinstance(error, NoTopic) else "no answer (refused)")
            for line in nearest_lines(getattr(error, "facts", ())):
                out.print(line)
            out.print()
            err.print_error(error)


def no_agent(graph: str, recipe: str, *, trains: bool) -> str:
    """What to say where the model walks without an adapter; `trains`: `kgwalk fit` can make one for this recipe.

    >>> no_agent("club.kg", "kg-r1", trains=True)
    'agent: none; the model walks as it is. `kgwalk fit club.kg --recipe kg-r1` trains one'
    """
    named = "" if recipe == RECIPE else f" --recipe {recipe}"
    hint = f". `kgwalk fit {shown_address(graph)}{named}` trains one" if trains else ""
    return f"agent: none; the model walks as it is{hint}"


def note_of(mention: Mention) -> str:
    """What to say of an uncertain mention; nothing if it can mean one entity only and that has the same name."""
    first, *others = [found.name for found in mention.candidates]
    if others:
        return f'"{mention.text}" may mean {", ".join([first, *others])}; the first is taken, choose with --topic'
    return "" if first == mention.text else f'"{mention.text}" is taken for {first}'


_STARTING_KIND = re.compile(r"^\$\d+ = \d+ [^:\n]+: .*", re.MULTILINE)  # all of a kind, as the model reads it


def _show(episode: Episode, turn: Turn | None) -> None:
    """One turn of the walk as it happens."""
    if turn is None:
        return
    if len(episode.turns) == 1:
        kinds = _STARTING_KIND.findall(episode.prompt)
        nothing = "all of a kind" if kinds else "no entity found in the question"
        err.print(f"from: {', '.join(episode.topics) or nothing}", style="dim")
        for line in kinds:
            err.print(f"  {_line(line)}", style="dim")
    show_turn(turn)


def show_turn(turn: Turn) -> None:
    """What was called, and its result."""
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


def show_answer(asked: AskResult, limit: int, least: float | None = None) -> None:
    """The answer, then what it cost and how sure it is."""
    print_answer(asked, limit, least)
    again = f"{asked.walks} walks, " if asked.walks > 1 else ""
    spent = f"{again}{asked.turns} turns, {asked.tokens['generated']} tokens generated, {asked.seconds:.1f} s"
    if asked.confidence is not None:
        # a probability that was fitted is never 1
        sure = f"{min(asked.confidence, 0.99):.0%}" if asked.calibrated else f"{asked.confidence:.0%} (uncalibrated)"
        spent += f", confidence {sure}"
    err.print(spent, style="dim")
    if asked.note is not None:
        err.print(f"note: {asked.note}", style="yellow")


def print_answer(asked: AskResult, limit: int, least: float | None = None) -> None:
    """The answer as its kind is shown: names, an ordered list, a table; or that the graph does not say."""
    from kgwalk.walk.agent import NOT_SAID
    from kgwalk.walk.starts import SAYS_NOT

    if not asked.answers:
        out.print(SAYS_NOT if asked.kind == NOT_SAID else f"no answer ({asked.failure or asked.stop})")
        for line in nearest_lines(asked.nearest):
            out.print(line)
    elif asked.is_guess(least):
        sure = "nobody knows how sure" if asked.confidence is None else f"{asked.confidence:.0%} sure"
        out.print(f"a guess, {sure}:")
    if asked.form.rows:
        print_table(_table(asked, limit))
    else:
        _show_names(asked, limit)
    if len(asked.answers) > limit:
        out.print(f"... and {len(asked.answers) - limit:,} more")


def _show_names(asked: AskResult, limit: int) -> None:
    from kgwalk.cli.evidence import evidence_tree, quotation
    from kgwalk.walk.sets import MOST_COUNTED

    calls = [turn.step for turn in asked.walk if isinstance(turn.step, Call)]
    counted = bool(calls) and calls[-1].tool == "count"  # a sum or a difference counts nothing
    for place, name in enumerate(asked.answers[:limit], 1):
        label = f"{place}. {name}" if asked.form.ordered else name
        facts = asked.evidence.get(name, [])
        if out.is_terminal:
            out.print(evidence_tree(name, facts, out, label=label, sources=asked.sources))
        else:
            out.print(label)
            for triple in facts:
                out.print(f"    {_fact(triple)}")
                for source in asked.sources.get(triple, []):
                    out.print(f"        {quotation(source)}")
        if counted and is_count(name, facts) and int(name) > MOST_COUNTED:
            out.print(f"    ... (of the first {MOST_COUNTED} that were counted; {int(name) - MOST_COUNTED:,} more)")


def _table(asked: AskResult, limit: int) -> Any:
    from rich.table import Table

    table = Table()
    for column in asked.form.columns:
        table.add_column(column)
    for row in asked.form.rows[:limit]:
        table.add_row(*row)
    return table


def nearest_lines(facts: Iterable[Triple]) -> list[str]:
    """What a graph does say, where it does not say what was asked.

    >>> nearest_lines([Triple("Ann", "works_in", "Design")])
    ['nearest: Ann -> works_in: Design']
    """
    return [f"nearest: {fact.head} -> {fact.relation}: {fact.tail}" for fact in facts]


def is_count(name: str, facts: Sequence[Triple]) -> bool:
    """Whether an answer is a count of its evidence: a number that is neither head nor tail of any of the facts.

    >>> counted = [Triple("Northwind", "makes", "Gale"), Triple("Northwind", "makes", "Storm")]
    >>> is_count("2", counted), is_count("2", [Triple("Gale", "wheels", "2")]), is_count("2", [])
    (True, False, False)
    """
    return name.isdecimal() and bool(facts) and not any(name in (fact.head, fact.tail) for fact in facts)


def _fact(triple: Triple) -> str:
    date = f" [{triple.time}]" if triple.time else ""
    return f"({triple.head}, {triple.relation}, {triple.tail}){date}"
