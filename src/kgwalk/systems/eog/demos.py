"""Explore-on-Graph's demonstrations: a route as one long thought over the facts in the prompt.

The thought says which facts lead on, what they give, and what does not help.
Facts are named as they stand in the prompt, so that rewards and readers can find them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from kgwalk.demos.route import CHOICES
from kgwalk.demos.voice import listed, spoken, together
from kgwalk.demos.writer import NOT_SHOWN, WRITERS, Explorer, Script, Unwritable
from kgwalk.systems.eog.protocol import Eog
from kgwalk.types import Answer, Call
from kgwalk.walk.facts import DirectedRelation

BESIDE = 3  # facts of a wrong turn


@WRITERS.add("eog")
@dataclass
class EogWriter(Explorer):
    thought: list[str] = field(default_factory=list)

    def reach(self, at: int, source: Sequence[str], way: DirectedRelation) -> Script:
        """No turns: everything was told in the prompt."""
        yield from ()
        self.thought.append(self.before())
        if at == self.astray:
            self._wrong(source, way)
        used = [entity for entity in source if (entity, way) in self.told]
        if not used:
            raise Unwritable(NOT_SHOWN)
        if self.route.steps[at].tool in CHOICES and len(used) < len(source):
            raise Unwritable(NOT_SHOWN)
        rows = [_row(entity, way, other) for entity in used for other in self.told[entity, way]]
        self.thought += [self.intention(way, listed(used)), f"{', '.join(rows)}."]

    def say(self, step: Call | Answer, think: str) -> str:
        return Eog.render(step, together(*self.thought, think))

    def _wrong(self, source: Sequence[str], way: DirectedRelation) -> None:
        """Facts beside the route are looked at and dropped. It is all one turn, so this is learned: as exploring."""
        for entity in source:
            others = [
                other
                for (name, other), ends in self.told.items()
                if name == entity and other.relation != way.relation and ends.keys().isdisjoint(self.question.answers)
            ]
            if others:
                self.strayed = True
                other = self.chance.choice(others)
                names = list(self.told[entity, other])[:BESIDE]
                rows = [_row(entity, other, name) for name in names]
                wrong = self.voice.say("wrong", names=listed(names), words=spoken(way.relation))
                self.thought += [self.intention(other, entity), f"{', '.join(rows)}.", wrong]
                return


def _row(entity: str, way: DirectedRelation, other: str) -> str:
    head, tail = (entity, other) if way.out else (other, entity)
    return json.dumps([head, way.relation, tail], ensure_ascii=False)
