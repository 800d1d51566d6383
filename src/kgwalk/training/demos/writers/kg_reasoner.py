"""A route as KG-Reasoner walks it; after a wrong entity it goes back, as in the paper's error-correction pairs."""

from __future__ import annotations

from kgwalk.agent.protocols.kg_reasoner import KgReasoner
from kgwalk.training.demos.writers.growing_think import SearchWriter
from kgwalk.training.demos.writers.writer import FAILS, Script, Unwritable
from kgwalk.types import Answer, Call


class KgReasonerWriter(SearchWriter):
    COST = 2

    def say(self, step: Call | Answer, think: str) -> str:
        return KgReasoner.render(step, think, opened=self.walk.opened)

    def back(self) -> Script:
        turn = yield from self.ask(Call("backtrack"), self.before())
        if not turn.ok:
            raise Unwritable(FAILS)
