"""An agent: a graph, a recipe to walk it by, and the model that walks; one question after the other.

    with Agent(graph).opened() as agent:
        print(agent.ask("who directed Big?").answers)

The adapter is the one that is asked for, else the one beside the graph, else the shipped one (walk/adapters). Where a
question starts can be asked before a model is loaded. Knows no recipe, protocol or model by name.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from kgwalk.config.recipe import Recipe, load_recipe
from kgwalk.config.runtime import outside_a_loop
from kgwalk.kg.graph import Graph, with_nearest
from kgwalk.llm.engine import Engine, Sampling, check_kind, open_engine
from kgwalk.types import Episode, KgwalkError, Question, StopReason, Triple, UnknownEntity
from kgwalk.walk.adapters import Choice, choose, store_of
from kgwalk.walk.budget import Budget, Counted, tokens_used
from kgwalk.walk.environment import environment_for, environment_settings, opened_web
from kgwalk.walk.linking import Mention, link, nearest
from kgwalk.walk.linking import topics as topics_of
from kgwalk.walk.name_lookup import MOST_WORDS, is_long
from kgwalk.walk.policy import budget_of, check_web, protocol_named, protocol_of
from kgwalk.walk.protocol import Environment, Protocol, Task
from kgwalk.walk.rollout import Watch, rollout_async
from kgwalk.walk.web.search import WebSearch

# ----------------------------------------------------------------------------------------------------
# Where the walk of a question starts: the topics that are given, or those that are found in the question.
#
# A question that names no entity of the graph is refused here, before a model is asked: a walk needs a place to start.
# Knows no protocol by name, and no engine.


@dataclass(frozen=True, slots=True)
class Start:
    """The entities that a walk starts from; `unsure` are parts of the question that may mean another entity."""

    topics: list[str]
    unsure: list[Mention] = field(default_factory=list)


class NoTopic(UnknownEntity):
    """A question that names no entity of the graph; `nearest` holds names that have a word like one of its words.
    `read` is how many of its words were looked at, where it has more.
    """

    def __init__(
        self, question: str, nearest: Sequence[str] = (), *, where: str = "the graph", read: int | None = None
    ) -> None:
        super().__init__(question, nearest, where=where)
        near = f" Nearest to its words: {', '.join(map(repr, self.nearest))}." if self.nearest else ""
        what = (
            "the question names" if read is None else f"of the question the first {read:,} words are read, which name"
        )
        self.args = (
            f"{what} no entity of {where}, so there is nowhere to start from.{near} "
            "Name one in it as the graph writes it, "
            'or give it as a topic to start from (`--topic`, or "topics" over HTTP)',
        )


def start_of(
    question: str, graph: Graph, given: Sequence[str] | None = None, *, protocol: Protocol, web: bool = False
) -> Start:
    """Where to start; `given` topics are taken as they are, none of them too. `web`: there is one to search.

    NoTopic where nothing is found and the protocol needs a place to start: it reads the graph, and has no web search
    to find one by.
    """
    if not question.strip():
        raise KgwalkError("the question is empty")
    if given is not None:
        return Start(list(dict.fromkeys(_known(name, graph) for name in given)))
    mentions = link(question, graph)
    if not mentions and protocol.reads_graph and not (web and protocol.searches_web):
        raise NoTopic(question, nearest(question, graph), read=MOST_WORDS if is_long(question) else None)
    return Start(topics_of(mentions), [mention for mention in mentions if not mention.sure])


def _known(name: str, graph: Graph) -> str:
    """The entity of this name, or of the name that is the same but for case, accents and punctuation."""
    if not name.strip():
        raise KgwalkError("a topic is empty; leave it out, and entities are found in the question")
    if name in graph:
        return name
    found = graph.find(name, 1)
    if found and found[0].how != "fuzzy":
        return found[0].name
    raise with_nearest(graph, UnknownEntity(name))


# ----------------------------------------------------------------------------------------------------
# One question, one graph, one call: find the topics, walk once or several times, gather answers and evidence.
#
# `ask` is the sync door, `ask_async` the same inside an event loop, `as_json` the shape that scripts rely on.
# Knows no protocol and no engine by name.


UNSURE = 0.4  # of confidence: on graphs not seen, most walks below it are wrong (docs/reference/metrics.md)
NOTE = "the model was not sure of this walk; it may well be wrong"


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
    episodes: list[Episode] = field(default_factory=list)

    @property
    def confidence(self) -> float | None:
        """How likely the model found its walk; of several runs, the share that gave the first answer. None without an
        answer, or where the engine does not say.
        """
        if not self.answers:
            return None
        if len(self.episodes) > 1:
            return self.votes[self.answers[0]] / len(self.episodes)
        return self.episodes[0].confidence

    @property
    def note(self) -> str | None:
        """A warning for whoever reads the answers; None where there is no cause for one."""
        return NOTE if self.confidence is not None and self.confidence < UNSURE else None


def ask(
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
    watch: Watch = lambda episode, turn: None,
) -> AskResult:
    """Answer a question by walking the graph; a World is a graph with what else tools may use.

    `web` is what a protocol with a web search asks: `open_web` of kgwalk.walk.web.search gives one.

    Without `topics` they are looked for in the question; one that names no entity of the graph raises NoTopic of
    kgwalk.walk.agent before the engine is asked. `topics=[]` walks from nowhere; a Start was found before.

    The answers of several `runs`, sampled at temperature 1 unless `sampling` says otherwise, are united. A run that
    fails is data: see `Asked.stop` and `Asked.failure`.
    """

    def run() -> AskResult:
        return asyncio.run(
            ask_async(
                question,
                graph,
                protocol=protocol,
                engine=engine,
                web=web,
                topics=topics,
                runs=runs,
                budget=budget,
                sampling=sampling,
                watch=watch,
            )
        )

    return outside_a_loop(run)


async def ask_async(
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
    watch: Watch = lambda episode, turn: None,
) -> AskResult:
    """`ask` inside a running event loop."""
    started = time.monotonic()
    if runs < 1:
        raise KgwalkError(f"runs must be at least 1, not {runs}")
    if isinstance(protocol, str):
        protocol = protocol_named(protocol)
    environment = graph if isinstance(graph, Environment) else environment_for(graph, protocol)
    if web is not None:
        environment = replace(environment, web=web)
    # A graph elsewhere takes its time, and so do near spellings: not on the event loop.
    if isinstance(topics, Start):
        start = topics
    else:
        searched = environment.web is not None
        start = await asyncio.to_thread(start_of, question, environment.graph, topics, protocol=protocol, web=searched)
    counted = Counted(engine)
    # The id enters the seeds: the same question with the same seed is walked in the same way.
    asked = Question(
        hashlib.blake2b(question.encode(errors="replace"), digest_size=8).hexdigest(), question, start.topics, []
    )
    episodes = await rollout_async(
        [(Task(asked, start.topics), environment)] * runs,
        protocol,
        counted,
        sampling=sampling or Sampling(temperature=1.0 if runs > 1 else 0.0),
        budget=counted.budget(budget or Budget()),
        watch=watch,
    )
    return _gathered(question, start, episodes, tokens_used(episodes, engine), time.monotonic() - started)


def as_json(asked: AskResult) -> dict[str, Any]:
    """The object that `ask --json` and the server give.

    `confidence`, `votes`, `mentions` and `failure` only where there is cause; `note` is null without one.
    """
    value: dict[str, Any] = {
        "answers": asked.answers,
        "evidence": {name: [[*fact[:3]] for fact in facts] for name, facts in asked.evidence.items()},
        "topics": asked.topics,
        "turns": asked.turns,
        "tokens": asked.tokens,
        "seconds": round(asked.seconds, 3),
        "stop": str(asked.stop),
        "note": asked.note,
    }
    if asked.confidence is not None:
        value["confidence"] = round(asked.confidence, 3)
    if len(asked.episodes) > 1:
        value["votes"] = asked.votes
    if asked.unsure:
        value["mentions"] = [
            {"text": one.text, "start": one.start, "end": one.end, "candidates": [c.name for c in one.candidates]}
            for one in asked.unsure
        ]
    if asked.failure is not None:
        value["failure"] = asked.failure
    return value


def _gathered(
    question: str,
    start: Start,
    episodes: list[Episode],
    tokens: dict[str, int],
    seconds: float,
) -> AskResult:
    votes = Counter(name for episode in episodes for name in episode.answers)
    answers = [name for name, _ in votes.most_common()]  # equal ones in the order of the runs
    evidence: dict[str, list[Triple]] = {name: [] for name in answers}
    for episode in episodes:
        for name, facts in episode.evidence.items():
            evidence[name] = evidence[name] or facts
    best = next((episode for episode in episodes if episode.stop is StopReason.answered), episodes[0])
    return AskResult(
        question,
        start.topics,
        answers,
        evidence,
        sum(len(episode.turns) for episode in episodes),
        tokens,
        seconds,
        best.stop,
        dict(votes.most_common()),
        start.unsure,
        best.failure,
        episodes,
    )


RECIPE = "kgwalk"  # what `kgwalk fit` trains as well, unless told otherwise


class Agent:
    """`choice` is which adapter walks, and what there is to say of it; None until `opened`."""

    engine: Engine | None = None
    choice: Choice | None = None

    def __init__(self, graph: Graph, recipe: str | Recipe = RECIPE) -> None:
        self.graph = graph
        self.recipe = load_recipe(recipe) if isinstance(recipe, str) else recipe
        self.protocol, self.budget = protocol_of(self.recipe), budget_of(self.recipe)
        check_web(self.recipe)
        self.web = opened_web(environment_settings(self.recipe))

    def chosen(self, adapter: str | None = None, *, model: str | None = None, engine: str = "auto") -> Choice:
        """The adapter that `opened` would take: a folder, `shipped`, `none`, or what is found."""
        check_kind(engine)
        return choose(adapter, store_of(self.graph), self.recipe, model=model, engine=engine)

    def opened(self, adapter: str | None = None, *, model: str | None = None, engine: str = "auto") -> Agent:
        """Load the model, which takes seconds; the default one is small and runs on a CPU."""
        self.close()
        self.choice = self.chosen(adapter, model=model, engine=engine)
        options = {"adapter": self.choice.folder} if self.choice.adapter else {}
        self.engine = open_engine(engine, model, **options)
        return self

    def start(self, question: str, topics: Sequence[str] | None = None) -> Start:
        """Where a walk would start; NoTopic where it cannot."""
        return start_of(question, self.graph, topics, protocol=self.protocol, web=self.web is not None)

    def ask(
        self,
        question: str,
        topics: Sequence[str] | Start | None = None,
        *,
        runs: int = 1,
        watch: Watch = lambda episode, turn: None,
    ) -> AskResult:
        """Walk. Several `runs` are sampled, and their answers united."""
        if self.engine is None:
            raise KgwalkError("the agent's model is not open: call `opened()` first")
        return ask(
            question,
            self.graph,
            protocol=self.protocol,
            engine=self.engine,
            web=self.web,
            topics=topics,
            runs=runs,
            budget=self.budget,
            watch=watch,
        )

    def close(self) -> None:
        """The model; the graph is whoever's opened it."""
        if (engine := self.engine) is not None:
            outside_a_loop(lambda: asyncio.run(engine.close()))
            self.engine = None

    def __enter__(self) -> Agent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
