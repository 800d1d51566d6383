"""KG-Reasoner's demonstrations: after a wrong entity they go back, as the paper's correction pairs do.

The wrong entity is a candidate of the search that showed the right one, so that going back ends there and lists the
right one, which comes next. Where the protocol has no way back, the right one is searched at once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence

from kgwalk.demos.writer import FAILS, NOT_SHOWN, WRITERS, SearchWriter, Unwritable, WrittenTurn
from kgwalk.systems.kg_reasoner.protocol import KgReasoner
from kgwalk.types import Answer, Call, Turn

NAMED = 0.5  # share of the ways back that name the entity which is left


@WRITERS.add("kg-reasoner")
class KgReasonerWriter(SearchWriter):
    def say(self, step: Call | Answer, think: str) -> str:
        return KgReasoner.render(step, think, opened=self.walk.opened)

    def cost(self) -> int:
        return 2 if self.walk.protocol.backtrack else 1

    def beside(self, right: Sequence[str]) -> Iterable[str]:
        """The other candidates of the search nearest to the path's end that showed one of the right ones."""
        shown = dict.fromkeys(super().beside(right))
        if not self.walk.protocol.backtrack:
            return shown
        later: set[str] = set()  # behind these frames a search of a name would not come back to the one before
        for frame in reversed(self.walk.path):
            names = dict.fromkeys(fact.other for fact in frame.facts if fact.other in shown)
            if any(name in names for name in right):
                return [name for name in names if name not in later]
            later.update(fact.other for fact in frame.facts)
        return []

    def back(self, wrong: str, right: Sequence[str]) -> Generator[WrittenTurn, Turn, list[str]]:
        if not self.walk.protocol.backtrack:
            return (yield from super().back(wrong, right))
        args = (wrong,) if self.chance.random() < NAMED else ()
        turn = yield from self.ask(Call("backtrack", args), self.before())
        if not turn.ok:
            raise Unwritable(FAILS)
        listed = [name for name in right if name in turn.shown]
        if not listed:
            raise Unwritable(NOT_SHOWN)
        return [*listed, *(name for name in right if name not in listed)]
