"""Walking a route entity by entity, for protocols whose tools know no sets: what was told is kept, and reckoned with.

The sets of the route are those of the facts that the walk was told, so a list that was cut is short here as well, and
an answer holds only names that were seen. Which turns reach an entity's facts is for the protocol's writer to say.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from kgwalk.tools.facts import Way
from kgwalk.training.demos.route import CHOICES, COMBINED, HOPS, way_of
from kgwalk.training.demos.voice import listed, spoken
from kgwalk.training.demos.writers.writer import NO_STEP, NOT_SHOWN, TURNS, Said, Script, Unwritable, Writer
from kgwalk.types import Answer, Call, Triple, Turn

VALUES = 6  # that a thought compares by name


@dataclass
class Explorer(Writer):
    members: list[tuple[str, ...]] = field(default_factory=list)  # of the route's sets, as far as they were told
    sizes: list[int] = field(default_factory=list)  # of the route's sets, on the graph
    told: dict[tuple[str, Way], dict[str, None]] = field(default_factory=dict)
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
        yield Said(self.say(Answer(names), self.verdict(names)))

    def crossroads(self) -> list[int]:
        """Places of steps before which a wrong turn may be taken."""
        return [at for at, step in enumerate(self.route.steps) if step.tool in HOPS]

    def before_answer(self) -> Script:
        """What a protocol's demos may do once all was found."""
        yield from ()

    @abstractmethod
    def reach(self, at: int, source: Sequence[str], way: Way) -> Script:
        """Turns after which the facts of this relation are told for the entities, or for as many as there is room."""

    @abstractmethod
    def say(self, step: Call | Answer, think: str) -> str:
        """The text of a turn."""

    def ask(self, call: Call, think: str, *, train: bool = True) -> Generator[Said, Turn, Turn]:
        """One call; what it tells is learned."""
        if not self.left:
            raise Unwritable(TURNS)
        self.left -= 1
        turn = yield Said(self.say(call, think), train)
        self.learn()
        return turn

    def learn(self) -> None:
        for fact in self.walk.seen[self.read :]:
            self.tell(fact)
        self.read = len(self.walk.seen)

    def tell(self, fact: Triple) -> None:
        self.told.setdefault((fact.head, Way(fact.relation, True)), {})[fact.tail] = None
        self.told.setdefault((fact.tail, Way(fact.relation, False)), {})[fact.head] = None

    def needed(self, at: int) -> int:
        """The calls from this step on, one for each entity that a relation is followed from."""
        return sum(
            self.sizes[step.args[0] - 1] if isinstance(step.args[0], int) else 1
            for step in self.route.steps[at:]
            if step.tool in HOPS + CHOICES
        )

    def steps_after(self, at: int) -> int:
        """The steps after this one that need at least one call."""
        return sum(step.tool in HOPS + CHOICES for step in self.route.steps[at + 1 :])

    def _step(self, at: int, step: Call) -> Script:
        if step.tool in HOPS:
            source, way = self._source(step), way_of(step)
            yield from self.reach(at, source, way)
            found = tuple(dict.fromkeys(name for entity in source for name in self.told.get((entity, way), ())))
            self.gist = self.finding(found, way.relation)
        elif step.tool in CHOICES:
            source, way = self._source(step), Way(str(step.args[1]), True)
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
        """To compare or count, all must have been told."""
        first = step.args[0]
        if isinstance(first, int) and len(self.members[first - 1]) != self.sizes[first - 1]:
            raise Unwritable(NOT_SHOWN)

    def _chosen(self, at: int, source: Sequence[str], way: Way) -> tuple[str, ...]:
        """Every member's value was told, so the choice is that of the whole graph."""
        if any((name, way) not in self.told for name in source):
            raise Unwritable(NOT_SHOWN)
        chosen = set(self.route.walk(self.whole).made[len(self.route.topics) + at].members)
        return tuple(name for name in source if name in chosen)

    def _combined(self, step: Call) -> tuple[str, ...]:
        one, two = (self.members[arg - 1] if isinstance(arg, int) else (arg,) for arg in step.args)
        if step.tool == "union":
            return tuple(dict.fromkeys([*one, *two]))
        return tuple(name for name in one if (name in two) == (step.tool == "intersect"))

    def entity_thought(self, place: int, entity: str, way: Way) -> str:
        """Before a call for the entity at a place of its set: the first time the intention, then that it goes on."""
        return self.before(self.intention(way, entity) if place == 0 else self.voice.say("another", entity=entity))

    def mistaken(self, names: Sequence[str], way: Way, *, ok: bool) -> str:
        """What is said after a wrong turn."""
        if not ok:
            return self.voice.say("error")
        return self.voice.say("wrong", names=listed(names), words=spoken(way.relation))
