"""What KG-Hopper's and KG-Reasoner's demos share: an entity is searched, and the facts that matter are read from it.

A search shows facts of several relations at once, so an entity is searched at most once. The wrong turn is an entity
that was shown and is not on the route; it is noticed, and the right one is searched.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from kgwalk.demos.route import CHOICES, HOPS, way_of
from kgwalk.demos.voice import spoken
from kgwalk.demos.writer import TURNS, Explorer, Script, Unwritable, WrittenTurn
from kgwalk.types import Call, Turn
from kgwalk.walk.facts import Way, ways_of

MOST_BESIDE = 8  # entities that a wrong turn is drawn from


@dataclass
class SearchWriter(Explorer):
    searched: set[str] = field(default_factory=set)

    def reach(self, at: int, source: Sequence[str], way: Way) -> Script:
        missing = [entity for entity in source if (entity, way) not in self.told and entity not in self.searched]
        if self._may_stray(at) and missing and self.left - self.needed(at) >= self.cost():
            missing = yield from self._wrong(missing, way)
        if self.route.steps[at].tool in CHOICES and len(missing) > self.left:
            raise Unwritable(TURNS)
        room = max(1, self.left - self.steps_after(at))
        for place, entity in enumerate(missing[:room]):
            yield from self.search(entity, self.entity_thought(place, entity, way))

    def crossroads(self) -> list[int]:
        """Before the first search nothing was shown to go astray to. After a single one there is still the answer."""
        hops = super().crossroads()
        return hops[1:] or [len(self.route.steps)] if hops else []

    def before_answer(self) -> Script:
        if self._may_stray(len(self.route.steps)) and self.left >= self.cost():
            last = way_of([step for step in self.route.steps if step.tool in HOPS][-1])
            yield from self._wrong(self.members[-1], last)

    def search(self, entity: str, think: str, *, train: bool = True) -> Script:
        self.searched.add(entity)
        yield from self.ask(Call("search", (entity,)), think, train=train)

    # What protocols differ in.

    def cost(self) -> int:
        """Calls that a wrong turn takes."""
        return 1

    def beside(self, right: Sequence[str]) -> Iterable[str]:
        """Entities that might have been taken for the right ones: here, all that was shown."""
        return dict.fromkeys(name for fact in self.walk.seen for name in (fact.head, fact.tail))

    def back(self, wrong: str, right: Sequence[str]) -> Generator[WrittenTurn, Turn, list[str]]:
        """How the protocol leaves a wrong entity, if it takes a turn; the right ones as they are searched then."""
        yield from ()
        return list(right)

    def _may_stray(self, at: int) -> bool:
        """At the step that was drawn, or where it cannot be done there, at a later one."""
        return self.astray is not None and at >= self.astray and not self.strayed and bool(self.searched)

    def _wrong(self, right: Sequence[str], way: Way) -> Generator[WrittenTurn, Turn, list[str]]:
        """Search an entity that was shown beside the right ones, notice it, leave it."""
        route = {name for members in self.members for name in members} | {*right, *self.question.answers}
        beside = (name for name in self.beside(right) if name not in route and name not in self.searched)
        # A number or a code has but the one fact that led to it: nobody would search that.
        astray = list(
            islice((name for name in beside if len(ways_of(self.walk.environment.graph, name)) > 1), MOST_BESIDE)
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
