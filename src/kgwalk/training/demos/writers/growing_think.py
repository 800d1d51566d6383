"""What KG-Hopper's and KG-Reasoner's demos share: an entity is searched, and the facts that matter are read from it.

A search shows facts of several relations at once, so an entity is searched at most once. The wrong turn is an entity
that was shown and is not on the route.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from kgwalk.tools.facts import Way, ways
from kgwalk.training.demos.route import CHOICES, HOPS, way_of
from kgwalk.training.demos.voice import spoken
from kgwalk.training.demos.writers.explorer import Explorer
from kgwalk.training.demos.writers.writer import TURNS, Script, Unwritable
from kgwalk.types import Call

MOST_BESIDE = 8  # entities that a wrong turn is drawn from


@dataclass
class SearchWriter(Explorer):
    searched: set[str] = field(default_factory=set)
    COST = 1  # calls of a wrong turn

    def reach(self, at: int, source: Sequence[str], way: Way) -> Script:
        if at == self.astray and self.left - self.needed(at) >= self.COST:
            yield from self._wrong(source, way)
        missing = [entity for entity in source if (entity, way) not in self.told and entity not in self.searched]
        if self.route.steps[at].tool in CHOICES and len(missing) > self.left:
            raise Unwritable(TURNS)
        room = max(1, self.left - self.steps_after(at))
        for place, entity in enumerate(missing[:room]):
            yield from self.search(entity, self.entity_thought(place, entity, way))

    def crossroads(self) -> list[int]:
        """Nothing was shown before the first search; what was shown by the last may still lead astray."""
        hops = super().crossroads()
        return [*hops[1:], len(self.route.steps)] if hops else []

    def before_answer(self) -> Script:
        if self.astray == len(self.route.steps) and self.left >= self.COST:
            last = way_of([step for step in self.route.steps if step.tool in HOPS][-1])
            yield from self._wrong(self.members[-1], last)

    def search(self, entity: str, think: str, *, train: bool = True) -> Script:
        self.searched.add(entity)
        yield from self.ask(Call("search", (entity,)), think, train=train)

    def back(self) -> Script:
        """How the protocol leaves a wrong entity, if it takes a turn."""
        yield from ()

    def _wrong(self, source: Sequence[str], way: Way) -> Script:
        """Search an entity that was shown beside those of the route."""
        if not self.searched:
            return
        route = {name for members in self.members for name in members} | {*source, *self.question.answers}
        shown = dict.fromkeys(name for fact in self.walk.seen for name in (fact.head, fact.tail))
        beside = (name for name in shown if name not in route and name not in self.searched)
        # A number or a code has but the one fact that led to it: nobody would search that.
        astray = list(islice((name for name in beside if len(ways(self.walk.world.graph, name)) > 1), MOST_BESIDE))
        if not astray:
            return
        self.strayed = True
        entity = self.chance.choice(astray)
        found = self.before()
        yield from self.search(entity, self.voice.say("stray", entity=entity), train=False)
        self.note = self.voice.say("dead end", entity=entity, words=spoken(way.relation))
        yield from self.back()
        self.note = self.before(found)
