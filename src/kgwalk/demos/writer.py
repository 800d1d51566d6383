"""Writers: the turns that walk a route in one protocol, each written once the observation before it is known.

A writer sees what a model would see: it calls the protocol's tools and reads their observations, so it names no entity
before the graph did. It knows the route; the words come from a voice. Each system's demos.py has the writer of its
protocol, made from one of these bases:

    Writer          the least: a script of turns
    Explorer        walks a route entity by entity, for protocols whose tools have no sets
    SearchWriter    searches entities and reads the facts it needs, for KG-Hopper and KG-Reasoner

`play` runs a writer in the engine's place of a real rollout.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar

from kgwalk.config.recipe import Parts
from kgwalk.demos.demo import turn_ids
from kgwalk.demos.route import CHOICES, COMBINED, HOPS, Route, way_of
from kgwalk.demos.voice import STYLES, Voice, listed, spoken, together
from kgwalk.kg.graph import Graph
from kgwalk.llm.engine import Generation, Request, Sampling
from kgwalk.llm.tokenizers import Tokenizer
from kgwalk.types import Answer, Call, Episode, Message, Neighbors, Question, StopReason, Triple, Turn, UnknownName
from kgwalk.walk.facts import DirectedRelation, directed_relations
from kgwalk.walk.protocol import Environment, Protocol, Task, Walk
from kgwalk.walk.ranking import rank
from kgwalk.walk.rollout import Budget, EpisodeRun


class Unwritable(Exception):
    """The route cannot be walked in this protocol within its bounds; the message is the reason, which is counted."""


TURNS = "turns: the route takes more calls than the protocol allows"
NOT_SHOWN = "shown: what the route needs is not shown"
TURN_LENGTH = "length: a turn is too long"
CONTEXT_LENGTH = "length: the context is full"
PROMPT_LENGTH = "length: the prompt is too long"
FAILS = "route: a call fails"
NO_STEP = "route: the protocol has nothing for one of its steps"
GRAPH_FAILED = "graph: it did not answer"
PARTLY = "hidden: a part of a list, which nothing shows"
NO_WEB = "hidden: what the route needs, and there is no web to ask"
NOT_NAMED = "web: no document names what is hidden"
WEB_FAILED = "web: it did not answer"


@dataclass(frozen=True, slots=True)
class WrittenTurn:
    """A turn. `train` is False for a wrong one: it is in the context but not learned."""

    text: str
    train: bool = True


Script = Generator[WrittenTurn, Turn, None]  # a turn out, the same turn with its observation in


@dataclass
class Writer(ABC):
    """The turns of one demo."""

    styles: ClassVar[tuple[str, ...]] = STYLES[1:]

    question: Question
    route: Route
    walk: Any  # the protocol's Walk, begun
    whole: Graph  # in which the route was found; the walk's own graph may lack some of its facts
    voice: Voice
    chance: random.Random
    wrong: bool = False  # whether a wrong turn is wanted
    strayed: bool = False  # whether a wrong turn was taken
    note: str = ""  # to be said before the next turn
    gist: str = ""  # to be said after the note: what was just found

    @abstractmethod
    def script(self) -> Script: ...

    def calls(self) -> list[str]:
        """The calls of the route as a worked example has them; none where the protocol shows no examples."""
        return []

    # Thoughts on the way

    def opening(self) -> str:
        text = self.question.question.strip()
        return self.voice.say(
            "start",
            topics=listed(self.route.topics),
            question=text if text.endswith(("?", ".", "!")) else f"{text}.",
            steps=outline(self.route.steps),
        )

    def intention(self, way: DirectedRelation, entity: str) -> str:
        occasion = "forwards" if way.out else "backwards"
        return self.voice.say(occasion, entity=entity, relation=way.relation, words=spoken(way.relation))

    def finding(self, names: Sequence[str], relation: str) -> str:
        return self.voice.say("found", names=listed(names), words=spoken(relation))

    def before(self, *sentences: str) -> str:
        """The thought before a turn: the note, the gist, and these sentences."""
        thought = together(self.note, self.gist, *sentences)
        self.note = self.gist = ""
        return thought

    def verdict(self, names: Sequence[str]) -> str:
        """The thought before the answer; names that it lists are not listed as found as well."""
        last = self.voice.say("answer", names=listed(names))
        if listed(names) in last:
            self.gist = ""
        return self.before(last)


WRITERS: Parts[type[Writer]] = Parts("protocol with a writer of demos", "demos")  # by the protocol's name


def outline(steps: Sequence[Call]) -> str:
    """The steps of a route as a sentence.

    >>> outline([Call("tail_entities", (1, "borders")), Call("argmax", (2, "population"))])
    'This takes 2 steps: borders, then the largest population.'
    """
    parts = [part for step in steps if (part := _part(step))]
    if len(parts) < 2:
        return f"One step should do: {parts[0]}." if parts else ""
    return f"This takes {len(parts)} steps: {', then '.join(parts)}."


def _part(step: Call) -> str:
    if step.tool in HOPS:
        return spoken(way_of(step).relation)
    if step.tool in CHOICES:
        value = spoken(str(step.args[1]))
        most = {"argmax": "the largest", "argmin": "the smallest"}
        return f"{most[step.tool]} {value}" if step.tool in most else f"{value} {bound(step)}"
    return {"intersect": "what is in both", "count": "how many there are", "minus": "leave out the others"}.get(
        step.tool, ""
    )


def bound(step: Call) -> str:
    """The condition of a filter as words.

    >>> bound(Call("filter", (2, "population", ">", "1000000")))
    'above 1000000'
    """
    words = {">": "above", ">=": "at least", "<": "below", "<=": "at most", "=": "equal to", "!=": "other than"}
    return f"{words[str(step.args[2])]} {step.args[3]}"


# Playing a writer against the protocol


CONTEXT = 1 << 30  # no bound here: the budget bounds a demo


@dataclass
class Played:
    """What came of playing a writer."""

    episode: Episode
    prompt: list[Message]
    untrained: set[int]  # numbers of the wrong turns, which are not learned
    writer: Writer


def play(
    task: Task,
    environment: Environment,
    protocol: Protocol,
    writer_of: Callable[[Walk], Writer],
    tokens: Tokenizer,
    budget: Budget,
) -> Played:
    """One demo; raises Unwritable with the reason if there is none."""
    actor = _Actor(writer_of, tokens)
    sampling = Sampling(stop=protocol.stop, max_tokens=budget.turn_tokens)
    actor.run = EpisodeRun(
        task, environment, protocol, actor, sampling, budget, lambda episode, turn: None, task.question.id
    )
    episode = actor.run.run_now()
    if episode.stop == StopReason.tool_failed:
        raise Unwritable(GRAPH_FAILED)
    if episode.stop == StopReason.prompt:
        raise Unwritable(PROMPT_LENGTH)
    assert actor.writer is not None
    return Played(episode, actor.prompt, actor.untrained, actor.writer)


@dataclass
class _Actor:
    """An engine whose generations are the writer's turns."""

    writer_of: Callable[[Walk], Writer]
    tokens: Tokenizer
    context: int = CONTEXT
    exact: bool = True
    at_once: int = 1
    prompt: list[Message] = field(default_factory=list)
    untrained: set[int] = field(default_factory=set)
    writer: Writer | None = None
    run: EpisodeRun = field(init=False)
    _script: Script = field(init=False)

    async def generate(self, request: Request) -> Generation:
        turns = self.run.episode.turns
        if self.writer is None:
            self.prompt = list(request.messages)
            self.writer = self.writer_of(self.run.walk)
            self._script = self.writer.script()
        written = self._script.send(turns[-1]) if turns else next(self._script)
        if not written.train:
            self.untrained.add(len(turns))
        ids, ended = turn_ids(self.tokens, written.text, request.sampling.stop)
        if len(ids) > request.sampling.max_tokens:
            raise Unwritable(TURN_LENGTH if len(ids) > self.run.budget.turn_tokens else CONTEXT_LENGTH)
        return Generation(ids, [0.0] * len(ids), "eos" if ended else "stop")

    async def forget(self, session: str) -> None:
        if self.writer is not None:
            self._script.close()

    async def close(self) -> None:
        """Nothing was opened."""


# Walking a route entity by entity


VALUES = 6  # values, at most, that a thought lists to compare


@dataclass
class Explorer(Writer):
    """Walks a route entity by entity, for protocols whose tools have no sets.

    Its sets hold only what the walk was told, so a list that was cut is short here as well, and an answer has only
    names that were seen. A protocol's writer says which turns reach an entity's facts.
    """

    members: list[tuple[str, ...]] = field(default_factory=list)  # of the route's sets, as far as they were told
    sizes: list[int] = field(default_factory=list)  # of the route's sets, in the whole graph
    told: dict[tuple[str, DirectedRelation], dict[str, None]] = field(default_factory=dict)
    read: int = 0  # facts of the walk that are in `told`
    left: int = 0  # calls that may still be made
    astray: int | None = None  # the step before which a wrong turn is taken

    def script(self) -> Script:
        self.members = [(topic,) for topic in self.route.topics]
        self.sizes = [len(made) for made in self.route.walk(self.whole).made]
        self.left = self.walk.protocol.turns
        crossroads = self.crossroads()
        self.astray = self.chance.choice(crossroads) if self.wrong and crossroads else None
        self.note = self.opening()
        self.learn()
        for at, step in enumerate(self.route.steps):
            yield from self._step(at, step)
        yield from self.before_answer()
        names = self.members[-1]
        yield WrittenTurn(self.say(Answer(names), self.verdict(names)))

    def crossroads(self) -> list[int]:
        """Numbers of steps before which a wrong turn may be taken."""
        return [at for at, step in enumerate(self.route.steps) if step.tool in HOPS]

    def before_answer(self) -> Script:
        """Turns that a protocol's demos may take when everything was found."""
        yield from ()

    @abstractmethod
    def reach(self, at: int, source: Sequence[str], way: DirectedRelation) -> Script:
        """Turns that get the facts of this relation for the entities, or for as many as there is room for."""

    @abstractmethod
    def say(self, step: Call | Answer, think: str) -> str:
        """The text of a turn."""

    def ask(self, call: Call, think: str, *, train: bool = True) -> Generator[WrittenTurn, Turn, Turn]:
        """One call, whose facts are added to `told`."""
        if not self.left:
            raise Unwritable(TURNS)
        self.left -= 1
        turn = yield WrittenTurn(self.say(call, think), train)
        self.learn()
        return turn

    def learn(self) -> None:
        for fact in self.walk.seen[self.read :]:
            self.tell(fact)
        self.read = len(self.walk.seen)

    def tell(self, fact: Triple) -> None:
        self.told.setdefault((fact.head, DirectedRelation(fact.relation, True)), {})[fact.tail] = None
        self.told.setdefault((fact.tail, DirectedRelation(fact.relation, False)), {})[fact.head] = None

    def needed(self, at: int) -> int:
        """The calls needed from this step on: one for each entity that a relation is followed from."""
        return sum(
            self.sizes[step.args[0] - 1] if isinstance(step.args[0], int) else 1
            for step in self.route.steps[at:]
            if step.tool in HOPS + CHOICES
        )

    def steps_after(self, at: int) -> int:
        """How many steps after this one need at least one call."""
        return sum(step.tool in HOPS + CHOICES for step in self.route.steps[at + 1 :])

    def _step(self, at: int, step: Call) -> Script:
        if step.tool in HOPS:
            source, way = self._source(step), way_of(step)
            yield from self.reach(at, source, way)
            found = tuple(dict.fromkeys(name for entity in source for name in self.told.get((entity, way), ())))
            self.gist = self.finding(found, way.relation)
        elif step.tool in CHOICES:
            source, way = self._source(step), DirectedRelation(str(step.args[1]), True)
            self._whole(step)
            yield from self.reach(at, source, way)
            found = self._chosen(at, source, way)
            values = [f"{name} {next(iter(self.told[name, way]))}" for name in source]
            self.note = self.before(self.voice.say("compared", values=listed(values, VALUES), names=listed(found)))
        elif step.tool == "count":
            self._whole(step)
            source = self._source(step)
            found = (str(len(source)),)
            self.gist = ""  # they are named as they are counted
            self.note = self.before(self.voice.say("counted", names=listed(source, len(source)), count=found[0]))
        elif step.tool in COMBINED:
            found = self._combined(step)
            if found != self._source(step):
                self.note = self.before(self.voice.say(step.tool, names=listed(found)))
        else:
            raise Unwritable(NO_STEP)
        if not found:
            raise Unwritable(NOT_SHOWN)
        self.members.append(found)

    def _source(self, step: Call) -> tuple[str, ...]:
        first = step.args[0]
        return self.members[first - 1] if isinstance(first, int) else (first,)

    def _whole(self, step: Call) -> None:
        """Gives up if the step's source was not told completely: comparing and counting need all members."""
        first = step.args[0]
        if isinstance(first, int) and len(self.members[first - 1]) != self.sizes[first - 1]:
            raise Unwritable(NOT_SHOWN)

    def _chosen(self, at: int, source: Sequence[str], way: DirectedRelation) -> tuple[str, ...]:
        """The members that a step chooses. All their values must have been told, so the whole graph decides."""
        if any((name, way) not in self.told for name in source):
            raise Unwritable(NOT_SHOWN)
        chosen = set(self.route.walk(self.whole).made[len(self.route.topics) + at].members)
        return tuple(name for name in source if name in chosen)

    def _combined(self, step: Call) -> tuple[str, ...]:
        one, two = (self.members[arg - 1] if isinstance(arg, int) else (arg,) for arg in step.args)
        if step.tool == "union":
            return tuple(dict.fromkeys([*one, *two]))
        return tuple(name for name in one if (name in two) == (step.tool == "intersect"))

    def entity_thought(self, place: int, entity: str, way: DirectedRelation) -> str:
        """The thought before a call for one entity of a set: the intention for the first, "the same for" the others."""
        return self.before(self.intention(way, entity) if place == 0 else self.voice.say("another", entity=entity))

    def mistaken(self, names: Sequence[str], way: DirectedRelation, *, ok: bool) -> str:
        """The sentence after a wrong turn."""
        if not ok:
            return self.voice.say("error")
        return self.voice.say("wrong", names=listed(names), words=spoken(way.relation))


# Wrong turns that a walker might take, and where a relation can be seen


NEAR = 4  # a wrong relation is drawn from so many that are nearest to the right one


def wrong_way(
    graph: Graph, entities: Sequence[str], right: DirectedRelation, answers: Collection[str], chance: random.Random
) -> DirectedRelation | None:
    """Another relation of the first entity, close in its words, that leads elsewhere; None if there is none.

    It must not lead to an answer: that would not be wrong.
    """
    first = entities[0]
    others = [way for way in directed_relations(graph, first) if way.relation != right.relation]
    order = rank(spoken(right.relation), [spoken(way.relation) for way in others])
    near = [others[at] for at in order[:NEAR]]
    chance.shuffle(near)
    target = _ends(graph, first, right)
    for way in near:
        ends = _ends(graph, first, way)
        if ends != target and not any(answer in ends for answer in answers):
            return way
    return None


def turned(graph: Graph, entities: Sequence[str], right: DirectedRelation) -> DirectedRelation | None:
    """The same relation in the other direction, if that leads nowhere, else None."""
    other = DirectedRelation(right.relation, not right.out)
    return None if any(_ends(graph, entity, other) for entity in entities) else other


def has(graph: Graph, entity: str, way: DirectedRelation) -> bool:
    """Whether the entity has a fact of this relation, in this direction."""
    return bool(_ends(graph, entity, way))


def ends_of(graph: Graph, entity: str, way: DirectedRelation, limit: int = 20) -> Neighbors:
    """Where a relation leads; nowhere if the graph lacks the entity or the relation."""
    try:
        return graph.neighbors(entity, way.relation, out=way.out, limit=limit)
    except UnknownName:
        return Neighbors([], 0)


def with_way(graph: Graph, entities: Sequence[str], way: DirectedRelation) -> str:
    """The first entity that has the relation, else the first entity."""
    return next((entity for entity in entities if has(graph, entity, way)), entities[0])


def _ends(graph: Graph, entity: str, way: DirectedRelation) -> set[str]:
    return set(ends_of(graph, entity, way).names)


# Searching entities


MOST_BESIDE = 8  # entities that a wrong turn is drawn from, at most


@dataclass
class SearchWriter(Explorer):
    """Searches entities, and reads the facts that matter from what is shown.

    A search shows facts of several relations at once, so an entity is searched at most once. The wrong turn is an
    entity that was shown and is not on the route; it is noticed, and the right one is searched.
    """

    searched: set[str] = field(default_factory=set)

    def reach(self, at: int, source: Sequence[str], way: DirectedRelation) -> Script:
        missing = [entity for entity in source if (entity, way) not in self.told and entity not in self.searched]
        if self._may_stray(at) and missing and self.left - self.needed(at) >= self.cost():
            missing = yield from self._wrong(missing, way)
        if self.route.steps[at].tool in CHOICES and len(missing) > self.left:
            raise Unwritable(TURNS)
        room = max(1, self.left - self.steps_after(at))
        for place, entity in enumerate(missing[:room]):
            yield from self.search(entity, self.entity_thought(place, entity, way))

    def crossroads(self) -> list[int]:
        """All hops but the first, as nothing was shown before it; with a single hop, before the answer."""
        hops = super().crossroads()
        return hops[1:] or [len(self.route.steps)] if hops else []

    def before_answer(self) -> Script:
        if self._may_stray(len(self.route.steps)) and self.left >= self.cost():
            last = way_of([step for step in self.route.steps if step.tool in HOPS][-1])
            yield from self._wrong(self.members[-1], last)

    def search(self, entity: str, think: str, *, train: bool = True) -> Script:
        self.searched.add(entity)
        yield from self.ask(Call("search", (entity,)), think, train=train)

    # What a protocol may change.

    def cost(self) -> int:
        """Calls that a wrong turn takes."""
        return 1

    def beside(self, right: Sequence[str]) -> Iterable[str]:
        """Entities that might be taken for the right ones: here, all that were shown."""
        return dict.fromkeys(name for fact in self.walk.seen for name in (fact.head, fact.tail))

    def back(self, wrong: str, right: Sequence[str]) -> Generator[WrittenTurn, Turn, list[str]]:
        """Turns that leave a wrong entity, if the protocol needs any; returns the right ones in the order to search."""
        yield from ()
        return list(right)

    def _may_stray(self, at: int) -> bool:
        """Whether to take the wrong turn now: at the step that was drawn, or at a later one if it was impossible."""
        return self.astray is not None and at >= self.astray and not self.strayed and bool(self.searched)

    def _wrong(self, right: Sequence[str], way: DirectedRelation) -> Generator[WrittenTurn, Turn, list[str]]:
        """Searches an entity that was shown beside the right ones, notices that it is wrong, and leaves it."""
        route = {name for members in self.members for name in members} | {*right, *self.question.answers}
        beside = (name for name in self.beside(right) if name not in route and name not in self.searched)
        # A number or a code has only the fact that led to it: nobody would search that.
        astray = list(
            islice(
                (name for name in beside if len(directed_relations(self.walk.environment.graph, name)) > 1), MOST_BESIDE
            )
        )
        if not astray:
            return list(right)
        self.strayed = True
        entity = self.chance.choice(astray)
        found = self.before()
        yield from self.search(entity, self.voice.say("stray", entity=entity), train=False)
        self.note = self.voice.say("dead end", entity=entity, words=spoken(way.relation))
        ordered = yield from self.back(entity, right)
        self.note = self.before(found)
        return ordered
