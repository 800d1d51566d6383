"""One question, one graph, one call: find the topics, walk once or several times, gather answers and evidence.

`ask` is the sync door, `ask_async` the same inside an event loop, `as_json` the shape that scripts rely on.
Knows no protocol and no engine by name.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kgwalk.agent.budget import Budget
from kgwalk.agent.counted import Counted, tokens_used
from kgwalk.agent.link import Mention
from kgwalk.agent.protocol import Protocol, Task, World
from kgwalk.agent.protocols import protocol_named
from kgwalk.agent.rollout import Watch, rollout_async
from kgwalk.agent.start import Start, start_of
from kgwalk.agent.world import world_for
from kgwalk.config.notebook import outside_a_loop
from kgwalk.kg.graph import Graph
from kgwalk.llm.engine import Engine, Sampling
from kgwalk.tools.web.search import WebSearch
from kgwalk.types import Episode, KgwalkError, Question, StopReason, Triple

UNSURE = 0.4  # of confidence: on graphs not seen, most walks below it are wrong (docs/reference/metrics.md)
NOTE = "the model was not sure of this walk; it may well be wrong"


@dataclass(slots=True)
class Asked:
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
    graph: Graph | World,
    *,
    protocol: Protocol | str,
    engine: Engine,
    web: WebSearch | None = None,
    topics: Sequence[str] | Start | None = None,
    runs: int = 1,
    budget: Budget | None = None,
    sampling: Sampling | None = None,
    watch: Watch = lambda episode, turn: None,
) -> Asked:
    """Answer a question by walking the graph; a World is a graph with what else tools may use.

    `web` is what a protocol with a web search asks: `open_web` of kgwalk.tools.web.open gives one.

    Without `topics` they are looked for in the question; one that names no entity of the graph raises NoTopic of
    kgwalk.agent.start before the engine is asked. `topics=[]` walks from nowhere; a Start was found before.

    The answers of several `runs`, sampled at temperature 1 unless `sampling` says otherwise, are united. A run that
    fails is data: see `Asked.stop` and `Asked.failure`.
    """

    def run() -> Asked:
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
    graph: Graph | World,
    *,
    protocol: Protocol | str,
    engine: Engine,
    web: WebSearch | None = None,
    topics: Sequence[str] | Start | None = None,
    runs: int = 1,
    budget: Budget | None = None,
    sampling: Sampling | None = None,
    watch: Watch = lambda episode, turn: None,
) -> Asked:
    """`ask` inside a running event loop."""
    started = time.monotonic()
    if runs < 1:
        raise KgwalkError(f"runs must be at least 1, not {runs}")
    if isinstance(protocol, str):
        protocol = protocol_named(protocol)
    world = graph if isinstance(graph, World) else world_for(graph, protocol)
    if web is not None:
        world = replace(world, web=web)
    # A graph elsewhere takes its time, and so do near spellings: not on the event loop.
    if isinstance(topics, Start):
        start = topics
    else:
        searched = world.web is not None
        start = await asyncio.to_thread(start_of, question, world.graph, topics, protocol=protocol, web=searched)
    counted = Counted(engine)
    # The id enters the seeds: the same question with the same seed is walked in the same way.
    asked = Question(
        hashlib.blake2b(question.encode(errors="replace"), digest_size=8).hexdigest(), question, start.topics, []
    )
    episodes = await rollout_async(
        [(Task(asked, start.topics), world)] * runs,
        protocol,
        counted,
        sampling=sampling or Sampling(temperature=1.0 if runs > 1 else 0.0),
        budget=counted.budget(budget or Budget()),
        watch=watch,
    )
    return _gathered(question, start, episodes, tokens_used(episodes, engine), time.monotonic() - started)


def as_json(asked: Asked) -> dict[str, Any]:
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
) -> Asked:
    votes = Counter(name for episode in episodes for name in episode.answers)
    answers = [name for name, _ in votes.most_common()]  # equal ones in the order of the runs
    evidence: dict[str, list[Triple]] = {name: [] for name in answers}
    for episode in episodes:
        for name, facts in episode.evidence.items():
            evidence[name] = evidence[name] or facts
    best = next((episode for episode in episodes if episode.stop is StopReason.answered), episodes[0])
    return Asked(
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
