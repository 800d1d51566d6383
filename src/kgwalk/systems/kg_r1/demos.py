"""KG-R1's demonstrations: a route in its four queries, one entity at a time.

Relations are listed first where there are turns to spare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kgwalk.demos.route import CHOICES
from kgwalk.demos.voice import spoken
from kgwalk.demos.writer import (
    NOT_SHOWN,
    TURNS,
    WRITERS,
    Explorer,
    Script,
    Unwritable,
    has,
    turned,
    with_way,
    wrong_way,
)
from kgwalk.systems.kg_r1.protocol import KgR1
from kgwalk.types import Answer, Call
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.tagged_text import escape_name

SIDE = {True: "tail", False: "head"}
TURNED = 0.5  # share of the wrong turns that ask for the wrong side


@WRITERS.add("kg-r1")
@dataclass
class KgR1Writer(Explorer):
    listed: set[DirectedRelation] = field(default_factory=set)  # ways that a list of relations has shown

    def reach(self, at: int, source: Sequence[str], way: DirectedRelation) -> Script:
        spare = self.left - self.needed(at)
        if way not in self.listed and spare > 0:
            yield from self._look(with_way(self.walk.environment.graph, source, way), way)
            spare -= 1
        if at == self.astray and spare > 0:
            yield from self._wrong(source, way)
        if self.route.steps[at].tool in CHOICES and len(source) > self.left:
            raise Unwritable(TURNS)
        room = max(1, self.left - self.steps_after(at))
        for place, entity in enumerate(source[:room]):
            # An entity without the relation gives an error, which is read and not imitated.
            there = has(self.walk.environment.graph, entity, way)
            yield from self.ask(self._query(entity, way), self.entity_thought(place, entity, way), train=there)
            if not there:
                self.note = self.voice.say("nothing", entity=entity)

    def say(self, step: Call | Answer, think: str) -> str:
        return KgR1.render(step, think)

    def _look(self, entity: str, way: DirectedRelation) -> Script:
        think = self.before(self.voice.say("look", entity=entity, words=spoken(way.relation)))
        turn = yield from self.ask(Call(f"get_{SIDE[way.out]}_relations", (entity,)), think)
        # In the hierarchical format only the last part of a name stands whole.
        if escape_name(way.relation.rsplit(".", 1)[-1]) not in turn.observation:
            raise Unwritable(NOT_SHOWN)
        self.listed |= {
            DirectedRelation(relation, way.out)
            for relation in self.walk.environment.graph.relations(entity, out=way.out)
        }

    def _wrong(self, source: Sequence[str], way: DirectedRelation) -> Script:
        graph = self.walk.environment.graph
        other = turned(graph, source[:1], way) if self.chance.random() < TURNED else None
        other = other or wrong_way(graph, source, way, self.question.answers, self.chance)
        if other is None:
            return
        self.strayed = True
        think = self.before(self.intention(other, source[0]))
        turn = yield from self.ask(self._query(source[0], other), think, train=False)
        self.note = self.mistaken(turn.shown, way, ok=turn.ok)

    @staticmethod
    def _query(entity: str, way: DirectedRelation) -> Call:
        return Call(f"get_{SIDE[way.out]}_entities", (entity, way.relation))
