"""The ceiling: walks the question's own relation chains, as sets of entities, and answers with where they lead.

    head_entities($1, "starred_actors")
    $2 = 2: Big, Cast Away
    tail_entities($2, "directed_by")
    $3 = 2: Penny Marshall, Robert Zemeckis
    <answer>$3</answer>

What it misses, no walk along those relations can find: the rest is the graph's or the annotation's, not the walker's.
It reads the gold answers only to read the evidence (`chains`), never the answers to choose among what a walk found.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kgwalk.agent.budget import Budget
from kgwalk.agent.observation import Listing
from kgwalk.agent.policies.chains import Chain, chains_of
from kgwalk.agent.policies.trip import Trip, trips
from kgwalk.agent.protocol import Task, World
from kgwalk.agent.protocols.kgwalk import DATED_TOOLS, TOOLS, Kgwalk
from kgwalk.agent.rollout import Watch
from kgwalk.kg.graph import Graph
from kgwalk.tools.sets import Reference, SetError, Sets
from kgwalk.tools.text import escape
from kgwalk.types import Answer, Call, Episode, StopReason, Turn

_SET = re.compile(r"\$(\d{1,6})")


@dataclass(frozen=True)
class Oracle:
    """Runs the question's program where it has one (`extra["program"]`), else its chains."""

    budget: Budget = field(default_factory=Budget)

    async def walk(self, tasks: Sequence[tuple[Task, World]], watch: Watch) -> list[Episode]:
        return await trips(tasks, self.budget, watch, lambda trip: _Gold(trip).walk())

    def world(self, graph: Graph) -> World:
        return World(graph)


class _Gold:
    """One question's walk. The question's own topics are $1, $2, ..., whatever topics were found in it."""

    def __init__(self, trip: Trip) -> None:
        self.trip, self.question = trip, trip.task.question
        self.sets = Sets(trip.world.graph, self.question.topic_entities)

    async def walk(self) -> StopReason:
        program, chains = self.question.extra.get("program"), chains_of(self.question)
        if not program and not chains:
            self.trip.episode.failure = "the question has no program, no gold path and no evidence to walk by"
            return StopReason.turns
        number = await (self._program(program) if isinstance(program, list) else self._chains(chains))
        if number is None:
            return StopReason.turns
        episode, answer = self.trip.episode, Answer((number,))
        episode.answers = list(self.sets.made[number - 1].members)
        episode.evidence = {name: self.sets.evidence(name, number) for name in episode.answers}
        self.trip.told(answer, Kgwalk.render(answer))
        return StopReason.answered

    async def _program(self, steps: Sequence[Sequence[str]]) -> int | None:
        """Each step makes the next set; the last is the answer."""
        number: int | None = None
        for tool, *written in steps:
            args = [int(found.group(1)) if (found := _SET.fullmatch(arg)) else arg for arg in written]
            number = await self._call(tool, *args)
            if number is None:
                return None
        return number

    async def _chains(self, chains: dict[str, list[Chain]]) -> int | None:
        """Chains of one topic are several ways to an answer: their union. Topics are conditions: what meets all."""
        whole: int | None = None
        for topic, alternatives in chains.items():
            part: int | None = None
            for chain in alternatives:
                part = await self._with("union", part, await self._branch(chain, self._number_of(topic)))
            both = None if whole is None or part is None else await self._call("intersect", whole, part)
            # Nothing meets both (the graph lacks a fact, or a path was weak): what meets either is the best there is.
            whole = both or await self._with("union", whole, part)
        return whole

    async def _branch(self, chain: Chain, topic: int) -> int | None:
        """The whole set at the end of a chain. A walk that turns back to its topic says nothing about the question
        (the films of a director, and their director), so the topic is left out, unless a gold path itself returns."""
        number = topic
        for relation, out in chain.ways:
            made = await self._call("tail_entities" if out else "head_entities", number, relation)
            if made is not None and not chain.returns and chain.topic in self.sets.made[made - 1].came:
                made = await self._call("minus", made, topic)
            if made is None:
                return None
            number = made
        return number

    def _number_of(self, topic: str) -> int:
        return self.question.topic_entities.index(topic) + 1

    async def _with(self, tool: str, one: int | None, other: int | None) -> int | None:
        if one is None or other is None:
            return one or other
        return await self._call(tool, one, other)

    async def _call(self, tool: str, *args: Reference) -> int | None:
        """The number of the set that a tool makes; None, with the error on the turn, where it makes none."""
        step = Call(tool, args)
        text = Kgwalk.render(step)
        try:
            number = await self.trip.ask(tool, lambda: self._make(tool, args))
        except SetError as error:
            told = f"error: {escape(str(error))}"
            self.trip.add(Turn([], [], text, step, told, ok=False, error="set_error"))
            return None
        members = self.sets.made[number - 1].members
        self.trip.episode.seen.extend(self.sets.made[number - 1].came.values())
        listing = Listing(f"${number} = {len(members)}: ", members)
        self.trip.told(step, text, listing.render(len(members)), members)
        return number

    def _make(self, tool: str, args: Sequence[Reference]) -> int:
        """A program is a file's: its tools and their arguments are checked as a model's are."""
        if tool not in TOOLS + DATED_TOOLS:
            raise SetError(f"there is no tool {tool}; there are {', '.join(TOOLS + DATED_TOOLS)}")
        method = getattr(self.sets, tool)
        wanted = list(inspect.signature(method).parameters)
        if len(args) != len(wanted):
            raise SetError(f"{tool} takes {len(wanted)} arguments: {', '.join(wanted)}")
        made: int = method(*args)
        return made
