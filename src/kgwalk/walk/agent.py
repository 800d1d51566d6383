"""Answer one question by walking one graph: `ask`, and the `Agent` behind it.

    kgwalk.ask("what is the capital of France?").answers     # the bundled graph, the agent that comes with kgwalk

    with Agent(graph, "kg-r1").opened() as agent:            # the model is loaded once, for many questions
        agent.ask("who directed Big?").answers

There are three doors, each built on the next. `ask` opens a graph and a model, asks, and closes both. An `Agent` is a
graph, a recipe and a model that stay open; the command line and Python programs use it. `ask_async` takes a graph, a
protocol and an engine that are open already, inside an event loop; the server uses it.

Where a walk starts (`start_of`) can be asked before a model is loaded: a question that names no entity of the graph is
refused then. `as_json` gives the object that `kgwalk ask --json` prints.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from kgwalk.config.recipe import Recipe, load_recipe
from kgwalk.config.runtime import outside_a_loop
from kgwalk.data.bundled import BUNDLED
from kgwalk.kg.fact_sources import FactSource, source_rows, sources_behind
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import load_graph
from kgwalk.llm.engine import Engine, Sampling, check_kind, open_engine, runs_here
from kgwalk.llm.models import card_folder
from kgwalk.types import (
    AnswerForm,
    Episode,
    KgwalkError,
    Question,
    StopReason,
    Triple,
    Turn,
    escaped,
    transcript_html,
)
from kgwalk.walk.confidence import Confidence, read_confidence
from kgwalk.walk.environment import (
    BESIDE,
    environment_for,
    environment_settings,
    opened_web,
    with_examples,
    with_ranker,
    with_ranker_of,
)
from kgwalk.walk.facts import nearest_facts
from kgwalk.walk.linking import Mention
from kgwalk.walk.policy import (
    NONE,
    AskSettings,
    Choice,
    ProtocolPolicy,
    asking_of,
    budget_of,
    check_web,
    choose_adapter,
    protocol_named,
    protocol_of,
    store_of,
    walked_as_learnt,
)
from kgwalk.walk.protocol import Environment, Protocol, Task
from kgwalk.walk.rollout import Budget, Watch, tokens_used
from kgwalk.walk.starts import SAYS_NOT, Start, start_of
from kgwalk.walk.tracing import traced_ask
from kgwalk.walk.web.search import WebSearch

T = TypeVar("T")

GRAPH = "world"  # the bundled graph
RECIPE = "kgwalk"  # also what `kgwalk fit` trains by default
UNSURE = 0.4  # of likelihood: on graphs not seen, most walks below it are wrong (docs/reference/metrics.md)
EVEN = 0.5  # of a fitted probability: below it an answer is more likely wrong than right
NOTE = "the model was not sure of this walk; it may well be wrong"
NOT_SAID = "none"  # the kind of an answer that says so, as of a question
_SHOWN, _FACTS = 20, 4  # answers that a notebook shows, and facts of each


def _unwatched(episode: Episode, turn: Turn | None) -> None:
    """A `watch` for walks that nobody follows."""


def ask(
    question: str,
    graph: Graph | Environment | str | Path = GRAPH,
    *,
    recipe: str | Recipe | None = None,
    model: str | None = None,
    adapter: str | None = None,
    engine: Engine | str = "auto",
    protocol: Protocol | str | None = None,
    web: WebSearch | None = None,
    topics: Sequence[str] | Start | None = None,
    runs: int = 1,
    budget: Budget | None = None,
    sampling: Sampling | None = None,
    watch: Watch = _unwatched,
) -> AskResult:
    """Answer a question by walking a graph, with the defaults of `kgwalk ask`.

    `graph` is an open graph, an Environment around one, or an address that is opened and closed here: a bundled graph's
    name, a store folder, a server's URL. `recipe` says which system walks (default: kgwalk); `model`, `adapter` and the
    kind of `engine` say with what, as `Agent.opened` does. An open engine is used as it is, and not closed.

    `protocol` is for walking without a recipe: by this protocol, with an open engine and the default budget.

    `web` is what a protocol with a web search asks; `open_web` of kgwalk.walk.web.search gives one. Without `topics`
    they are looked for in the question: one that names no entity of the graph raises NoTopic before a model is loaded.
    `topics=[]` walks from nowhere. The answers of several `runs`, sampled at temperature 1 unless `sampling` says
    otherwise, are united. A run that fails raises nothing: see `stop` and `failure` of what comes back.
    """
    given = None if isinstance(engine, str) else engine
    if given is not None and (model is not None or adapter is not None):
        raise KgwalkError("`model` and `adapter` are for an engine that is opened here, not for one that is open")
    with _open(graph) as place:
        if protocol is not None:
            if given is None or recipe is not None:
                raise KgwalkError(
                    "`protocol` needs an open `engine` and no `recipe`; give only `recipe` to choose both"
                )
            return _run(
                lambda: answer_question(
                    question,
                    place,
                    protocol=protocol,
                    engine=given,
                    web=web,
                    topics=topics,
                    runs=runs,
                    budget=budget,
                    sampling=sampling,
                    watch=watch,
                )
            )
        with Agent(place, recipe or RECIPE, engine=given, web=web) as agent:
            choice = agent.chosen(adapter, model=model, engine=engine) if isinstance(engine, str) else None
            start = topics if isinstance(topics, Start) else agent.start(question, topics)
            if isinstance(engine, str):
                agent.opened(choice, model=model, engine=engine)
            return agent.ask(question, start, runs=runs, budget=budget, sampling=sampling, watch=watch)


class Agent:
    """A graph, a recipe to walk it by, and a model; asks one question after the other.

    An `engine` given here is used as it is and not closed; without one, `opened` loads a model. `choice` is the adapter
    that was chosen then, with what there is to say of it. `web` is searched in place of the recipe's `world.web`.
    """

    def __init__(
        self,
        graph: Graph | Environment,
        recipe: str | Recipe = RECIPE,
        *,
        engine: Engine | None = None,
        web: WebSearch | None = None,
    ) -> None:
        self.graph = graph.graph if isinstance(graph, Environment) else graph
        self._given = self._place = graph
        self.recipe = load_recipe(recipe) if isinstance(recipe, str) else recipe
        self.protocol, self.budget = protocol_of(self.recipe), budget_of(self.recipe)
        self.asking = asking_of(self.recipe)
        self.confidence: Confidence | None = None  # of the adapter that was opened
        check_web(self.recipe, given=web is not None)
        own = graph.web if isinstance(graph, Environment) else None
        self.web = web or own or opened_web(environment_settings(self.recipe))
        self.engine = engine
        self._rank()
        self.choice: Choice | None = None
        self._opened: Engine | None = None  # the engine to close

    def chosen(self, adapter: str | None = None, *, model: str | None = None, engine: str = "auto") -> Choice:
        """The adapter that `opened` would take: the one that is asked for (a folder, `shipped` or `none`), else the one
        beside the graph, else the shipped one (walk/policy.py). Loads nothing. From then on questions start as that
        adapter learnt it: from kinds, if it speaks the full language.
        """
        check_kind(engine)
        choice = choose_adapter(adapter, store_of(self.graph), self.recipe, model=model, engine=engine)
        own = model if runs_here(engine) else None
        self.protocol = protocol_of(walked_as_learnt(self.recipe, choice.folder, own))
        return choice

    def opened(self, adapter: str | Choice | None = None, *, model: str | None = None, engine: str = "auto") -> Agent:
        """Load the model, which takes seconds; the default one is small and runs on a CPU. Returns the agent.

        A `Choice` that `chosen` gave is taken as it is.
        """
        self.close()
        chosen = adapter if isinstance(adapter, Choice) else self.chosen(adapter, model=model, engine=engine)
        options = {"adapter": chosen.folder} if chosen.adapter else {}
        self.engine = self._opened = open_engine(engine, model, **options)
        own = model if runs_here(engine) else None
        self.choice, self.confidence = chosen, read_confidence(card_folder(chosen.folder, own))
        walked = walked_as_learnt(self.recipe, chosen.folder, own)
        self.protocol, self.asking = protocol_of(walked), asking_of(walked)
        self._rank(chosen.folder, model)
        return self

    def _rank(self, *places: str | Path | None) -> None:
        """Searches rank by the recipe's `world.ranker`; "trained" is the one in the adapter's or the model's folder.
        Worked examples are those that its `world.examples` names.
        """
        settings = environment_settings(with_ranker_of(self.recipe, *places))
        self._place = given = self._given
        if settings.ranker != NONE or settings.examples != BESIDE:
            environment = given if isinstance(given, Environment) else environment_for(given, self.protocol)
            environment = with_examples(environment, settings.examples)
            self._place = environment if settings.ranker == NONE else with_ranker(environment, settings.ranker)

    def start(self, question: str, topics: Sequence[str] | None = None) -> Start:
        """Where a walk would start; NoTopic where it cannot."""
        return start_of(question, self.graph, topics, protocol=self.protocol, web=self.web is not None)

    def ask(
        self,
        question: str,
        topics: Sequence[str] | Start | None = None,
        *,
        runs: int = 1,
        budget: Budget | None = None,
        sampling: Sampling | None = None,
        watch: Watch = _unwatched,
    ) -> AskResult:
        """Walk. Several `runs` are sampled, and their answers united; `budget` stands in place of the recipe's."""
        return _run(lambda: self.ask_async(question, topics, runs=runs, budget=budget, sampling=sampling, watch=watch))

    async def ask_async(
        self,
        question: str,
        topics: Sequence[str] | Start | None = None,
        *,
        runs: int = 1,
        budget: Budget | None = None,
        sampling: Sampling | None = None,
        watch: Watch = _unwatched,
    ) -> AskResult:
        """`ask` inside a running event loop."""
        if self.engine is None:
            raise KgwalkError("the agent's model is not open: call `opened()` first")
        return await answer_question(
            question,
            self._place,
            protocol=self.protocol,
            engine=self.engine,
            web=self.web,
            topics=topics,
            runs=runs,
            budget=budget or self.budget,
            sampling=sampling,
            watch=watch,
            confidence=self.confidence,
            asking=self.asking,
        )

    def close(self) -> None:
        """Close the model that `opened` loaded. The graph, and an engine that was given, are closed by their owner."""
        if (opened := self._opened) is not None:
            _run(opened.close)
            self.engine = self._opened = None

    def __enter__(self) -> Agent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


async def answer_question(
    question: str,
    graph: Graph | Environment,
    *,
    protocol: Protocol | str,
    engine: Engine,
    web: WebSearch | None = None,
    topics: Sequence[str] | Start | None = None,
    runs: int = 1,
    budget: Budget | None = None,
    sampling: Sampling | None = None,
    watch: Watch = _unwatched,
    confidence: Confidence | None = None,
    asking: AskSettings | None = None,
) -> AskResult:
    """Find the topics, walk `runs` times with an open engine, gather answers and evidence.

    `confidence` is what was fitted for the engine's adapter; `asking` says whether an unsure walk is looked at again.
    """
    started = time.monotonic()
    if runs < 1:
        raise KgwalkError(f"runs must be at least 1, not {runs}")
    if isinstance(protocol, str):
        protocol = protocol_named(protocol)
    with traced_ask(question, protocol.name, engine) as trace:
        environment = graph if isinstance(graph, Environment) else environment_for(graph, protocol)
        if web is not None:
            environment = replace(environment, web=web)
        if isinstance(topics, Start):
            start = topics
        else:  # in a thread: a remote graph is slow, and so is comparing spellings
            searched = environment.web is not None
            start = await asyncio.to_thread(
                start_of, question, environment.graph, topics, protocol=protocol, web=searched
            )
        # The id enters the seeds: the same question with the same seed is walked in the same way.
        id_ = hashlib.blake2b(question.encode(errors="replace"), digest_size=8).hexdigest()
        task = Task(Question(id_, question, start.topics, []), start.topics)
        sampled = sampling or Sampling(temperature=1.0 if runs > 1 else 0.0)
        again = asking if asking is not None and runs == 1 else AskSettings()
        policy = ProtocolPolicy(protocol, engine, budget or Budget(), sampled, confidence, again)
        episodes = await policy.walk([(task, environment)] * runs, trace.following(watch))
        asked = gathered(question, start, episodes, tokens_used(episodes, engine), time.monotonic() - started)
        if not asked.answers and asked.failure is None and protocol.reads_graph:
            seen = _last_seen(asked.walk) or start.topics
            asked.nearest = await asyncio.to_thread(nearest_facts, question, environment.graph, seen)
        asked.sources = await asyncio.to_thread(sources_behind, asked.evidence, environment.graph)
        trace.ends(asked)
    return asked


def _last_seen(walk: Sequence[Turn]) -> list[str]:
    """The last entities that a walk came to."""
    return next((turn.shown for turn in reversed(walk) if turn.ok and turn.shown), [])


def _run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What the coroutine returns, called where no event loop runs or, as in a notebook, where one does."""
    return outside_a_loop(lambda: asyncio.run(work()))


@contextmanager
def _open(graph: Graph | Environment | str | Path) -> Iterator[Graph | Environment]:
    """A graph by its address, closed at the end; one that is open already stays so."""
    if not isinstance(graph, str | Path):
        yield graph
        return
    opened = load_graph(BUNDLED[str(graph)]() if str(graph) in BUNDLED else graph)
    try:
        yield opened
    finally:
        if (close := getattr(opened, "close", None)) is not None:
            close()


# What comes back


@dataclass(slots=True)
class AskResult:
    """What came of a question. `answers` has the one with most votes first; `stop` is "answered" if any run was.

    `tokens` are those "generated" by the model, those of the "prompt" (all that it was told, observations too) and
    the "total". Where the engine's server reports its own counts these are taken: with every turn they count the
    context again.
    """

    question: str
    topics: list[str]
    answers: list[str]
    evidence: dict[str, list[Triple]]
    turns: int  # of all runs together
    tokens: dict[str, int]
    seconds: float
    stop: StopReason
    votes: dict[str, int]
    unsure: list[Mention] = field(default_factory=list)  # parts of the question that may mean another entity
    failure: str | None = None  # why the engine or a tool failed, where no run was answered
    form: AnswerForm = field(default_factory=AnswerForm)  # of the first run that was answered
    episodes: list[Episode] = field(default_factory=list)
    walk: list[Turn] = field(default_factory=list)  # of the first run that was answered
    nearest: list[Triple] = field(default_factory=list)  # without an answer: facts nearest to what was asked
    query: str | None = None  # that gives the same answer, where one was asked for
    no_query: str | None = None  # why there is none
    sources: dict[Triple, list[FactSource]] = field(default_factory=dict)  # of facts that were read in text

    @property
    def confidence(self) -> float | None:
        """How sure the answer is: the probability that it is right where that was fitted for the agent (`calibrated`),
        else how likely the model found its walk; of several runs, the share that gave the first answer. None without
        an answer, or where the engine does not say.
        """
        if not self.answers:
            return None
        if len(self.episodes) > 1:
            return self.votes[self.answers[0]] / len(self.episodes)
        return self.episodes[0].confidence

    @property
    def calibrated(self) -> bool:
        """Whether `confidence` is a probability."""
        return len(self.episodes) == 1 and self.episodes[0].probability is not None

    @property
    def kind(self) -> str:
        """As datasets' `answer_kind`: entity, number, time, boolean or table; none where the graph does not say."""
        said = bool(self.answers) or self.stop is not StopReason.answered
        return self.form.kind if said else NOT_SAID

    @property
    def walks(self) -> int:
        """How often the question was walked."""
        return sum(1 if one.looked is None else one.looked.walks for one in self.episodes)

    @property
    def note(self) -> str | None:
        """A warning for whoever reads the answers; None where there is no cause for one."""
        least = EVEN if self.calibrated else UNSURE
        return NOTE if self.confidence is not None and self.confidence < least else None

    def is_guess(self, least: float | None) -> bool:
        """Whether the answer is less sure than is asked for; one whose sureness nobody knows is."""
        if least is None or not self.answers:
            return False
        return self.confidence is None or self.confidence < least

    def _repr_html_(self) -> str:
        """The answer as a notebook shows it: the first of its names with the facts behind each, then the walk."""
        shown = self.form.rows or [[name] for name in self.answers]
        lines = []
        for row in shown[:_SHOWN]:
            facts = "; ".join(" → ".join(fact[:3]) for fact in self.evidence.get(row[0], [])[:_FACTS])
            cells = "".join(f"<td><b>{escaped(cell)}</b></td>" for cell in row)
            lines.append(f"<tr>{cells}<td><small>{escaped(facts)}</small></td></tr>")
        more = f"<p>and {len(shown) - _SHOWN:,} more</p>" if len(shown) > _SHOWN else ""
        said = f"<table>{''.join(lines)}</table>{more}" if lines else f"<p>{SAYS_NOT}</p>"
        if not lines and self.stop is not StopReason.answered:
            said = f"<p>no answer: {escaped(self.failure or self.stop)}</p>"
        sure = "" if self.confidence is None else f"<p><small>confidence {self.confidence:.2f}</small></p>"
        note = "" if self.note is None else f"<p>{escaped(self.note)}</p>"
        walks = "".join(transcript_html(episode) for episode in self.episodes[:1])
        walk = f"<details><summary>the walk, {self.turns} turns</summary>{walks}</details>" if walks else ""
        return f"<div><p>{escaped(self.question)}</p>{said}{sure}{note}{walk}</div>"


def as_json(asked: AskResult, *, limit: int | None = None, least: float | None = None) -> dict[str, Any]:
    """The object that `ask --json` and the server give.

    `confidence` with `calibrated`, `votes`, `mentions` and `failure` only where there is cause; `note` is null without
    one. `columns` and `rows` only of a table, `nearest` only without an answer, `sources` (sentences that facts of the
    evidence were read in) only where there are some. With a `limit` so many answers and
    rows, and `left_out` says how many there are more; with a `least` confidence `guess` says whether it is below.
    Where a query was asked for, `query` is it, or null, and then `no_query` says why.
    """
    shown, rows = asked.answers[:limit], asked.form.rows[:limit]
    facts = {name: asked.evidence.get(name, []) for name in shown}
    value: dict[str, Any] = {
        "answers": shown,
        "answer_kind": asked.kind,
        "evidence": {name: [[*fact[:3]] for fact in each] for name, each in facts.items()},
        "topics": asked.topics,
        "walk": [{"text": turn.text, "observation": turn.observation, "ok": turn.ok} for turn in asked.walk],
        "walks": asked.walks,
        "turns": asked.turns,
        "tokens": asked.tokens,
        "seconds": round(asked.seconds, 3),
        "stop": str(asked.stop),
        "note": asked.note,
    }
    if asked.sources:
        value["sources"] = source_rows(facts, asked.sources)
    if asked.form.ordered:
        value["ordered"] = True
    if asked.form.rows:
        value["columns"], value["rows"] = asked.form.columns, rows
    if len(shown) < len(asked.answers):
        value["left_out"] = len(asked.answers) - len(shown)
    if not asked.answers and asked.failure is None:
        value["nearest"] = [[*fact[:3]] for fact in asked.nearest]
    if asked.confidence is not None:
        value["confidence"], value["calibrated"] = round(asked.confidence, 3), asked.calibrated
    if least is not None:
        value["guess"] = asked.is_guess(least)
    if len(asked.episodes) > 1:
        value["votes"] = {name: asked.votes[name] for name in shown}
    if asked.unsure:
        value["mentions"] = [
            {"text": one.text, "start": one.start, "end": one.end, "candidates": [c.name for c in one.candidates]}
            for one in asked.unsure
        ]
    if asked.failure is not None:
        value["failure"] = asked.failure
    if asked.query is not None or asked.no_query is not None:
        value["query"] = asked.query
    if asked.no_query is not None:
        value["no_query"] = asked.no_query
    return value


def gathered(
    question: str,
    start: Start,
    episodes: list[Episode],
    tokens: dict[str, int],
    seconds: float,
) -> AskResult:
    """What the walks of a question give together."""
    votes = Counter(name for episode in episodes for name in episode.answers)
    answers = [name for name, _ in votes.most_common()]  # equal ones in the order of the runs
    evidence: dict[str, list[Triple]] = {name: [] for name in answers}
    for episode in episodes:
        for name, facts in episode.evidence.items():
            evidence[name] = evidence[name] or facts
    best = next((episode for episode in episodes if episode.stop is StopReason.answered), episodes[0])
    return AskResult(
        question=question,
        topics=start.topics,
        answers=answers,
        evidence=evidence,
        turns=sum(len(episode.turns) for episode in episodes),
        tokens=tokens,
        seconds=seconds,
        stop=best.stop,
        votes=dict(votes.most_common()),
        unsure=start.unsure,
        failure=best.failure,
        form=best.form,
        episodes=episodes,
        walk=best.turns,
    )
