"""POST /kg/walk: a walk by hand, with the calls that the agent has, without a model.

The request has all calls so far, and the reply what came of each: nothing is kept between two requests. The walk
starts where the agent's would: from the topics or kinds that are given, else from those found in the question. A call
that goes wrong makes no set, and the walk goes on, as the agent's does.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

import orjson

from kgwalk.kg.graph import Graph
from kgwalk.serve.agent import parse, refusing
from kgwalk.serve.asgi import HttpError, HttpReply
from kgwalk.serve.ask import in_words
from kgwalk.serve.explore import told
from kgwalk.serve.explore_shapes import HandCall, HandStep, HandWalkBody, HandWalkReply
from kgwalk.serve.graphs import ServedGraphs
from kgwalk.serve.reading import ItemError, RequestReader, given
from kgwalk.serve.shapes import MentionBody
from kgwalk.serve.threads import GraphThreads
from kgwalk.types import Answer, Call, Malformed, Question, Triple

if TYPE_CHECKING:
    from kgwalk.systems.kgwalk.protocol import KgwalkWalk
    from kgwalk.walk.kinds import Kind
    from kgwalk.walk.linking import Mention

NAMES = 20  # members of a set that are shown, unless the request says otherwise
MOST_RELATIONS = 200  # around a set, in each direction
LONGEST_CALL = 4_000  # characters

read_walk = RequestReader(HandWalkBody, "the body")


class HandWalkRoute:
    def __init__(self, graphs: ServedGraphs, threads: GraphThreads) -> None:
        self._graphs, self._threads = graphs, threads

    async def __call__(self, body: bytes, deadline: float) -> HttpReply:
        asked = refusing(lambda: read_walk(parse(body)))
        graph = refusing(lambda: self._graphs.now().graph(asked.get("graph")))
        answered = await self._threads.run(lambda: told(lambda: walk_by_hand(graph, asked, deadline)), deadline)
        return HttpReply(200, orjson.dumps(answered))


def walk_by_hand(graph: Graph, asked: HandWalkBody, deadline: float) -> HandWalkReply:
    """Every call in its order, until the time is up."""
    from kgwalk.systems.kgwalk.protocol import Kgwalk
    from kgwalk.walk.language import tools
    from kgwalk.walk.protocol import Environment, Task

    topics, kinds, unsure = _start(graph, asked)
    calls, most = given(asked.get("calls"), []), given(asked.get("names"), NAMES)
    question = Question("by hand", given(asked.get("question"), ""), topics, [])
    task = Task(question, topics, kinds=kinds)
    walk = Kgwalk(language="full", turns=max(1, len(calls))).begin(task, Environment(graph), len)
    called = dict(enumerate([*topics, *(f"all of the kind {kind.name}" for kind in kinds)], 1))
    steps = [_step(walk, None, called[number], number, most) for number in called]
    for text in calls:
        if monotonic() > deadline:
            raise HttpError(504, "time_limit", "the time was up before the last call; make the sets smaller first")
        steps.append(_call(walk, text, called, most))
    reply: HandWalkReply = {
        "topics": topics,
        "kinds": [kind.name for kind in kinds],
        "mentions": [_mention(one) for one in unsure],
        "steps": steps,
        "calls": [_usage(tool) for tool in tools("full", walk.dated)],
        "answers": [],
        "answer_kind": "none",
        "evidence": {},
    }
    if walk.sets.made:
        _answer(walk, reply, most)
    return reply


def _start(graph: Graph, asked: HandWalkBody) -> tuple[list[str], list[Kind], list[Mention]]:
    """Topics, kinds, and where the question may mean another entity."""
    from kgwalk.systems.kgwalk.protocol import Kgwalk
    from kgwalk.walk.facts import entity_named
    from kgwalk.walk.kinds import kind_named
    from kgwalk.walk.starts import kinds_beside, start_of

    names, of_kinds, question = asked.get("topics"), asked.get("kinds"), given(asked.get("question"), "")
    if names or of_kinds or not question.strip():
        found = {name: kind_named(name, graph) for name in of_kinds or ()}
        if missing := [name for name, kind in found.items() if kind is None]:
            raise ItemError("bad_request", f'the graph has no kind "{missing[0][:60]}"; /kg/kinds lists them')
        topics = [entity_named(graph, name) for name in names or ()]
        return list(dict.fromkeys(topics)), [kind for kind in found.values() if kind is not None], []
    start = start_of(question, graph, protocol=Kgwalk(language="full"))
    return start.topics, kinds_beside(question, start.topics, graph), start.unsure


def _call(walk: KgwalkWalk, text: str, called: dict[int, str], most: int) -> HandStep:
    step = walk.parse(text[:LONGEST_CALL])
    if not isinstance(step, Call):
        why = step.why if isinstance(step, Malformed) else "Answers are read from the last set; write a call."
        return _wrong(text, "something that is no call", why)
    words, observed = in_words(step, called), walk.act(step)
    if observed.made is None:
        return _wrong(text, words, observed.render(most))
    number = observed.made[0]
    called[number] = f"${number}" if observed.made[1] == 1 else f"the {observed.made[1]:,} of ${number}"
    return _step(walk, text, words, number, most)


def _wrong(text: str, words: str, why: str) -> HandStep:
    return {
        "call": text[:LONGEST_CALL],
        "words": words,
        "ok": False,
        "observation": why.removeprefix("error: "),
        "set": None,
        "size": 0,
        "names": [],
        "leaving": [],
        "entering": [],
        "facts": [],
    }


def _step(walk: KgwalkWalk, text: str | None, words: str, number: int, most: int) -> HandStep:
    made = walk.sets.made[number - 1]
    leaving, entering = walk.sets.relations_around(number, values=True)
    names = list(made.members[:most])
    return {
        "call": text,
        "words": words,
        "ok": True,
        "observation": walk.shown(number),
        "set": number,
        "size": len(made),
        "names": names,
        "leaving": leaving[:MOST_RELATIONS],
        "entering": entering[:MOST_RELATIONS],
        "facts": [[*made.came[name][:3]] for name in names if name in made.came],
    }


def _answer(walk: KgwalkWalk, reply: HandWalkReply, most: int) -> None:
    """The last set as the answer, with the facts behind each of its first members."""
    answer = Answer((len(walk.sets.made),))
    names, form = walk.resolve(answer)[:most], walk.answer_form(answer)
    reply["answers"] = names
    reply["answer_kind"] = form.kind if names else "none"
    reply["evidence"] = {name: _facts(walk.evidence(name)) for name in names}
    if form.rows:
        reply["columns"], reply["rows"] = form.columns, form.rows[:most]


def _facts(facts: Sequence[Triple]) -> list[list[str]]:
    return [[*fact[:3]] for fact in facts]


def _mention(one: Mention) -> MentionBody:
    return {"text": one.text, "start": one.start, "end": one.end, "candidates": [c.name for c in one.candidates]}


def _usage(tool: str) -> HandCall:
    from kgwalk.walk.language import line_of, signature

    usage = signature(tool)
    return {"name": tool, "usage": usage, "words": line_of(tool).removeprefix(f"{usage}: ")}
