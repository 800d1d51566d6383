"""The oracle, a ceiling: walks the question's own relation chains and answers with where they lead.

    head_entities($1, "starred_actors")
    $2 = 2: Big, Cast Away
    tail_entities($2, "directed_by")
    $3 = 2: Penny Marshall, Robert Zemeckis
    <answer>$3</answer>

What it misses, no walk along those relations can find: that part of the error is the graph's or the annotation's, not
the walker's. Gold answers are used to read chains off the evidence (`chains_of`), never to choose among what a walk
found.

Where the graph lacks a gold fact that the next step needs, and there is a web, that is asked first:

    web_search("Big", "directed_by")
    Doc 1: Big (film): Big is a comedy of 1988. Penny Marshall directed it.

The fact is taken only if a document that was shown names its other end; it is then walked as the graph's own are.
Without a web the same walk is one over the graph alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any, ClassVar

from kgwalk.demos.route import step_of
from kgwalk.kg.graph import Graph
from kgwalk.systems.baselines.trip import Trip, trips
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.types import Answer, Call, Document, Episode, Found, Neighbors, StopReason, Triple, Turn, UnknownName
from kgwalk.walk.environment import crucial_facts
from kgwalk.walk.facts import Chain, chains_of
from kgwalk.walk.language import Sets
from kgwalk.walk.policy import POLICIES
from kgwalk.walk.protocol import Environment, Listing, Task
from kgwalk.walk.rollout import Budget, Watch
from kgwalk.walk.sets import Reference, SetError
from kgwalk.walk.starts import gold_kinds
from kgwalk.walk.web.search import WEB_FAILED, WEB_SEARCH, names, search_web, shown

# A graph with facts learnt on the way


class Learned:
    """A graph with a few facts more, learnt while walking it; the graph itself stays as it is.

    Facts that are added come after those of the graph. They have no dates, so a time window has none of them. Names are
    looked for in the graph alone.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.facts: dict[Triple, None] = {}  # in the order of learning

    def add(self, fact: Triple) -> None:
        self.facts[fact] = None

    def __contains__(self, entity: object) -> bool:
        return entity in self.graph or any(entity in (fact.head, fact.tail) for fact in self.facts)

    def has_relation(self, relation: str) -> bool:
        return self.graph.has_relation(relation) or any(fact.relation == relation for fact in self.facts)

    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        more = {fact.relation for fact in self.facts if entity == (fact.head if out else fact.tail)}
        if more and entity not in self.graph:
            return sorted(more)
        return sorted({*self.graph.relations(entity, out=out), *more})

    def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
        ends = ((head, tail) if out else (tail, head) for head, r, tail, _ in self.facts if r == relation)
        learnt = [other for here, other in ends if here == entity]
        try:
            found = self.graph.neighbors(entity, relation, out=out)
        except UnknownName:
            if not learnt:
                raise
            return Neighbors(learnt[:limit], len(learnt))
        names = list(dict.fromkeys([*found.names, *learnt]))
        times = None if found.times is None else [*found.times, *([""] for _ in names[len(found.names) :])]
        return Neighbors(names[:limit], len(names), None if times is None else times[:limit])

    def match(
        self, head: str | None = None, relation: str | None = None, tail: str | None = None, *, limit: int | None = None
    ) -> Iterator[Triple]:
        wanted = (head, relation, tail)
        more = (fact for fact in self.facts if all(w is None or w == g for w, g in zip(wanted, fact, strict=False)))
        return islice(chain(self.graph.match(head, relation, tail), more), limit)

    def find(self, text: str, k: int = 5) -> list[Found]:
        return self.graph.find(text, k)

    def find_relation(self, text: str, k: int = 5) -> list[Found]:
        return self.graph.find_relation(text, k)

    def __getattr__(self, name: str) -> Any:
        """What else the graph can do, such as time windows."""
        return getattr(self.graph, name)


_FOLLOWS = ("tail_entities", "head_entities", "argmax", "argmin", "filter", "between")  # a set, then a relation


@POLICIES.add("oracle")
@dataclass(frozen=True)
class Oracle:
    """Runs the question's program where it has one (`extra["program"]`), else its chains. A program without steps
    answers with what it starts from.

    Of a web search it reads `documents`, the first `document_characters` of each.
    """

    searches_web: ClassVar[bool] = True
    budget: Budget = field(default_factory=Budget)
    documents: int = 3
    document_characters: int = 600

    async def walk(self, tasks: Sequence[tuple[Task, Environment]], watch: Watch) -> list[Episode]:
        return await trips(tasks, self.budget, watch, lambda trip: _Gold(trip, self).walk())

    def environment(self, graph: Graph) -> Environment:
        return Environment(graph)


class _Gold:
    """One question's walk. The question's own topics are $1, $2, ..., whatever topics were found in it."""

    def __init__(self, trip: Trip, oracle: Oracle) -> None:
        self.trip, self.question, self.oracle = trip, trip.task.question, oracle
        self.graph = Learned(trip.environment.graph)
        kinds = gold_kinds(self.question, trip.environment.graph)
        full = "kinds" in self.question.extra  # of the full walking language, where a set may be empty
        self.sets = Sets(self.graph, self.question.topic_entities, kinds=kinds, empty=full)
        self.gold = crucial_facts(self.question)
        self.asked: set[tuple[str, str]] = set()  # of the web: an entity, a relation

    async def walk(self) -> StopReason:
        if self.question.extra.get("answer_kind") == "none" and not self.question.answers:
            self.trip.told(Answer(()), Kgwalk.render(Answer(())))  # the graph does not say
            return StopReason.answered
        program, chains = self.question.extra.get("program"), chains_of(self.question)
        if program == [] and self.sets.made:  # all of a kind: which continents are there
            return self._answer(len(self.sets.made))
        if not program and not chains:
            self.trip.episode.failure = "the question has no program, no gold path and no evidence to walk by"
            return StopReason.turns
        number = await (self._program(program) if isinstance(program, list) else self._chains(chains))
        return StopReason.turns if number is None else self._answer(number)

    def _answer(self, number: int) -> StopReason:
        episode, answer = self.trip.episode, Answer((number,))
        episode.answers = list(self.sets.made[number - 1].members)
        episode.form = self.sets.made[number - 1].form
        episode.evidence = {name: self.sets.evidence(name, number) for name in episode.answers}
        self.trip.told(answer, Kgwalk.render(answer))
        return StopReason.answered

    async def _program(self, steps: Sequence[Sequence[str]]) -> int | None:
        """Each step makes the next set; the last is the answer."""
        number: int | None = None
        for tool, *written in steps:
            number = await self._call(tool, *step_of(tool, written).args)
            if number is None:
                return None
        return number

    async def _chains(self, chains: dict[str, list[Chain]]) -> int | None:
        """Chains of one topic are several ways to an answer: their union. Topics are conditions: what meets all."""
        whole: int | None = None
        for topic, alternatives in chains.items():
            part: int | None = None
            for one in alternatives:
                part = await self._with("union", part, await self._branch(one, self._number_of(topic)))
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
        await self._look_up(tool, args)
        step = Call(tool, args)
        text = Kgwalk.render(step)
        try:
            number = await self.trip.ask(tool, lambda: self.sets.call(tool, args))
        except SetError as error:
            told = f"error: {error}"
            self.trip.add(Turn([], [], text, step, told, ok=False, error="set_error"))
            return None
        members = self.sets.made[number - 1].members
        self.trip.episode.seen.extend(self.sets.made[number - 1].came.values())
        listing = Listing(f"${number} = {len(members)}: ", members)
        self.trip.told(step, text, listing.render(len(members)), members)
        return number

    async def _look_up(self, tool: str, args: Sequence[Reference]) -> None:
        """Ask the web for the gold facts that a call needs and the graph lacks, each entity once."""
        web = self.trip.environment.web
        if web is None or tool not in _FOLLOWS or len(args) < 2:
            return
        source, relation = args[0], str(args[1])
        out = tool != "head_entities"
        for entity, facts in self._gaps(self._members(source), relation, out).items():
            most = (self.oracle.documents, self.oracle.document_characters)
            found = await self.trip.ask(WEB_SEARCH, partial(search_web, web, entity, relation, *most), slow=True)
            self._told(Call(WEB_SEARCH, (entity, relation)), found)
            for fact in facts:
                if any(names(document, fact.tail if out else fact.head) for document in found or ()):
                    self.graph.add(fact)

    def _gaps(self, members: Iterable[str], relation: str, out: bool) -> dict[str, list[Triple]]:
        """The gold facts of a relation that are not in the graph, by the member that they start from."""
        inside, gaps = set(members), dict[str, list[Triple]]()
        for fact in self.gold:
            here = fact.head if out else fact.tail
            fits = fact.relation == relation and here in inside and (here, relation) not in self.asked
            if fits and next(self.graph.match(*fact[:3], limit=1), None) is None:
                gaps.setdefault(here, []).append(fact)
        self.asked.update((here, relation) for here in gaps)
        return gaps

    def _members(self, source: Reference) -> Sequence[str]:
        """None of a set that was never made: the call itself will say so."""
        if isinstance(source, str):
            return (source,)
        return self.sets.made[source - 1].members if 1 <= source <= len(self.sets.made) else ()

    def _told(self, step: Call, found: list[Document] | None) -> None:
        told = "The web search failed" if found is None else "No documents found"
        told = "\n".join(shown(number, one) for number, one in enumerate(found or (), 1)) or told
        error = WEB_FAILED if found is None else None
        self.trip.add(Turn([], [], Kgwalk.render(step), step, told, error=error, documents=found or []))
