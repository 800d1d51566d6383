"""POST /v1/ask: `ask --json` over HTTP, whole or as the walk happens; POST /v1/ask/query: its answer as a query.

With `"stream": true` the reply is server-sent events, each one JSON object that has the event's name in it too:

    event: start      the topics and kinds that were found, and where the question may mean another entity
    event: turn       the call as written and in words; the set that it made: its size, first names, the facts
    event: answer     what /v1/ask gives without a stream
    event: error      in the place of the answer

A question that has to wait for others, or for the model, begins with `event: waiting`. Whatever is wrong before the
first event is a plain error with its status. A client that leaves ends its walk.

A walk that was answered can be written as a query afterwards, in one language after the other: the client sends it
back, so nothing is kept between two requests, and no model is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import orjson

from kgwalk.kg.graph import Graph
from kgwalk.serve.agent import AgentRequest, AgentService, WalkFollower, parse, refusing, wanted_of
from kgwalk.serve.asgi import STOPPING_WORDS, HttpError, HttpReply, ReplyStream
from kgwalk.serve.explore import told
from kgwalk.serve.graphs import ServedGraphs
from kgwalk.serve.reading import RequestReader, given
from kgwalk.serve.shapes import (
    AskBody,
    AskEvent,
    AskFailed,
    AskStarted,
    AskTurn,
    AskWaiting,
    EngineState,
    MentionBody,
    RequestErrorBody,
    TurnAbout,
    WalkQueryBody,
    WalkQueryReply,
    WalkTurn,
)
from kgwalk.serve.threads import GraphThreads
from kgwalk.types import Answer, Call, Episode, Step, Turn

if TYPE_CHECKING:
    from kgwalk.walk.agent import AskResult
    from kgwalk.walk.protocol import Protocol
    from kgwalk.walk.starts import Start

read_ask = RequestReader(AskBody, "the body")
read_walk_query = RequestReader(WalkQueryBody, "the body")
read_walk_turn = RequestReader(WalkTurn, "a turn of the walk")


class AskRoute:
    def __init__(self, agent: AgentService) -> None:
        self._agent = agent

    async def __call__(self, body: bytes, deadline: float) -> HttpReply | ReplyStream:
        asked = refusing(lambda: read_ask(parse(body)))
        wanted = refusing(lambda: wanted_of(asked["question"], asked.get("recipe"), asked))
        wanted = replace(wanted, query=asked.get("query"))
        if given(asked.get("stream"), False):
            parts = self._parts(wanted, deadline)
            kind, message = STOPPING_WORDS
            return ReplyStream(await anext(parts), parts, _event(_failed({"kind": kind, "message": message})))
        return HttpReply(200, orjson.dumps(wanted.told(await self._agent.ask(wanted, deadline))))

    async def _parts(self, wanted: AgentRequest, deadline: float) -> AsyncGenerator[bytes, None]:
        """The events; an error before the first of them is raised."""
        events = WalkEvents()
        # A task of its own: it has a time limit, and whoever reads the parts may be another task each time.
        job: asyncio.Task[AskResult] = asyncio.create_task(self._agent.ask(wanted, deadline, events))
        job.add_done_callback(events.ends)
        try:
            event = await events.next()
            if event is None and (error := job.exception()) is not None:
                raise error
            while event is not None:
                yield _event(event)
                event = await events.next()
            try:
                yield _event({"event": "answer", **wanted.told(await job)})
            except HttpError as failed:
                yield _event(_failed(failed.about))
        finally:
            job.cancel()


class WalkQueryRoute:
    """POST /v1/ask/query: a walk of /v1/ask, which the client sends back, as a query that gives the same answer."""

    def __init__(self, agent: AgentService, graphs: ServedGraphs, threads: GraphThreads) -> None:
        self._agent, self._graphs, self._threads = agent, graphs, threads

    async def __call__(self, body: bytes, deadline: float) -> HttpReply:
        self._agent.require()
        asked = refusing(lambda: read_walk_query(parse(body)))
        walk = refusing(lambda: [read_walk_turn(turn) for turn in asked["walk"]])
        graph = refusing(lambda: self._graphs.now().graph(asked.get("graph")))
        protocol = await self._agent.protocol(asked.get("recipe"))
        reply = await self._threads.run(lambda: told(lambda: query_again(asked, walk, graph, protocol)), deadline)
        return HttpReply(200, orjson.dumps(reply))


def query_again(asked: WalkQueryBody, walk: Sequence[WalkTurn], graph: Graph, protocol: Protocol) -> WalkQueryReply:
    """The query, or why there is none. The walk is a client's: its calls are run again before they are written."""
    from kgwalk.systems.kgwalk.queries import query_of_walk, turn_of
    from kgwalk.walk.queries.program import QueryError

    turns = [turn_of(turn["text"], turn["ok"]) for turn in walk]
    question, topics, runs = asked["question"], asked["topics"], given(asked.get("runs"), 1)
    try:
        return {"query": query_of_walk(turns, question, topics, graph, protocol, asked["query"], runs=runs)}
    except QueryError as error:
        return {"query": None, "no_query": str(error)}


def _event(about: AskEvent | Mapping[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (about["event"].encode(), orjson.dumps(about))


def _failed(error: RequestErrorBody) -> AskFailed:
    return {"event": "error", "error": error}


class WalkEvents(WalkFollower):
    """The events of one question, put in a queue from the agent's thread and taken out in the server's."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[AskWaiting | AskStarted | AskTurn | None] = asyncio.Queue()
        self._here = asyncio.get_running_loop()
        self._starts: list[str] = []  # what the first sets are called
        # For each episode, by its run: the episode, how many of its facts were told, and which turn made which set.
        self._runs: list[tuple[Episode, int, dict[int, str]]] = []

    async def next(self) -> AskWaiting | AskStarted | AskTurn | None:
        """The next event; None at the end."""
        return await self._queue.get()

    async def next_turn(self) -> TurnAbout | None:
        while (event := await self.next()) is not None:
            if event["event"] == "turn":
                return cast(TurnAbout, {name: value for name, value in event.items() if name != "event"})
        return None

    def ends(self, job: asyncio.Task[Any]) -> None:
        """The done callback of the task that asks."""
        if not job.cancelled():
            job.exception()  # looked at, so that nobody warns where the client has left
        self._queue.put_nowait(None)

    def _put(self, event: AskWaiting | AskStarted | AskTurn) -> None:
        self._here.call_soon_threadsafe(self._queue.put_nowait, event)

    def waits(self, before: int, model: EngineState | None) -> None:
        self._put({"event": "waiting", "before": before, "model": model})

    def starts(self, start: Start, kinds: Sequence[str]) -> None:
        self._starts = [*start.topics, *(f"all of the kind {kind}" for kind in kinds)]
        mentions: list[MentionBody] = [
            {"text": one.text, "start": one.start, "end": one.end, "candidates": [c.name for c in one.candidates]}
            for one in start.unsure
        ]
        self._put({"event": "start", "topics": start.topics, "kinds": list(kinds), "mentions": mentions})

    def turns(self, episode: Episode, turn: Turn | None) -> None:
        if turn is None:
            return
        known = [one is episode for one, _, _ in self._runs]
        run = known.index(True) if True in known else len(known)
        if run == len(known):
            self._runs.append((episode, 0, dict(enumerate(self._starts, 1))))
        _, told, called = self._runs[run]
        facts = [[*fact[:3]] for fact in episode.seen[told:]]
        words = in_words(turn.step, called)
        if turn.made is not None:
            number, size = turn.made
            step = len(episode.turns)
            called[number] = f"what step {step} found" if size == 1 else f"the {size:,} of step {step}"
        self._runs[run] = (episode, len(episode.seen), called)
        self._put(
            {
                "event": "turn",
                "run": run + 1,
                "turn": len(episode.turns),
                "text": turn.text,
                "words": words,
                "observation": turn.observation,
                "ok": turn.ok,
                "set": turn.made and turn.made[0],
                "size": turn.made and turn.made[1],
                "names": list(turn.shown),
                "facts": facts,
            }
        )


# A call in words, its arguments in their order. Arguments beyond those in the text stand at its end.
_WORDS = {
    "tail_entities": "follow {1} from {0}",
    "head_entities": "follow {1} back from {0}",
    "intersect": "keep what is in both {0} and {1}",
    "union": "take {0} and {1} together",
    "minus": "take {1} away from {0}",
    "only": "of {0}, keep those whose {1} is nothing but {2}",
    "none": "of {0}, keep those whose {1} is none of {2}",
    "every": "of {0}, keep those whose {1} is all of {2}",
    "filter": "of {0}, keep those whose {1} is {2} {3}",
    "argmax": "of {0}, take the one with the largest {1}",
    "argmin": "of {0}, take the one with the smallest {1}",
    "top": "order {0} by {1}, largest first, and take {2}",
    "bottom": "order {0} by {1}, smallest first, and take {2}",
    "nth": "of {0}, take number {1}",
    "count": "count {0}",
    "sum": "add up {1} of {0}",
    "average": "take the average {1} of {0}",
    "least": "take the smallest {1} of {0}",
    "greatest": "take the largest {1} of {0}",
    "subtract": "take {1} from {0}, as values",
    "divide": "divide {0} by {1}",
    "is_in": "see whether {0} is among {1}",
    "overlap": "see whether {0} and {1} have one in common",
    "compare": "see whether {0} {1} {2}",
    "table": "make a table of {0} with {1}",
    "between": "follow {1} from {0}, between {2} and {3}",
    "when": "find the dates of {1} of {0}",
    "earliest": "follow {1} from {0}, the earliest",
    "latest": "follow {1} from {0}, the latest",
    "before": "follow {1} from {0}, before {2}",
    "after": "follow {1} from {0}, after {2}",
    "get_tail_relations": "list the relations that leave {0}",
    "get_head_relations": "list the relations that lead to {0}",
    "get_tail_entities": "follow {1} from {0}",
    "get_head_entities": "follow {1} back from {0}",
}


def _quoted(text: str) -> str:
    """A relation of several words in quotes, so that it ends where it ends: follow “located in” from Porto."""
    return f"“{text}”" if " " in text else text


def in_words(step: Step, called: Mapping[int, str]) -> str:
    """A step in plain words; `called` says what the sets are called.

    >>> in_words(Call("tail_entities", (2, "directed_by")), {1: "Tom Hanks", 2: "the 6 of step 1"})
    'follow directed_by from the 6 of step 1'
    >>> in_words(Call("head_entities", (1, "located in")), {1: "Porto"})
    'follow “located in” back from Porto'
    >>> in_words(Answer((1,)), {1: "Tom Hanks"}), in_words(Call("web_search", ("Big, the film",)), {})
    ('answer with Tom Hanks', 'web search: Big, the film')
    """
    match step:
        case Call(tool, args):
            named = [called.get(one, f"set {one}") if isinstance(one, int) else one for one in args]
            text = _WORDS.get(tool, "")
            used = text.count("{")
            if not text or used > len(named):  # not one of ours, or a call that the graph will refuse
                return ": ".join([tool.replace("_", " "), *filter(None, [", ".join(named)])])
            quoted = [_quoted(one) if isinstance(given, str) else one for given, one in zip(args, named, strict=True)]
            return ", ".join([text.format(*quoted), *quoted[used:]])
        case Answer(names):
            listed = ", ".join(called.get(one, f"set {one}") if isinstance(one, int) else one for one in names)
            return f"answer with {listed or 'nothing: the graph does not say'}"
    return "something that is no call"
