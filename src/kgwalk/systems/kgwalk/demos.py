"""kgwalk's demonstrations: a call for each step of the route, and the last set as the answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kgwalk.demos.route import HOPS, way_of, with_numbers
from kgwalk.demos.voice import LISTED, STYLES, spoken
from kgwalk.demos.writer import (
    FAILS,
    TURNS,
    WRITERS,
    Script,
    Unwritable,
    Writer,
    WrittenTurn,
    bound,
    outline,
    turned,
    wrong_way,
)
from kgwalk.systems.kgwalk.protocol import Kgwalk, KgwalkWalk
from kgwalk.types import Answer, Call
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.language import WITH_RELATION
from kgwalk.walk.paths import SIGNS, written
from kgwalk.walk.tagged_text import quote
from kgwalk.walk.values import as_written

_COMPARISON_AT = {"filter": 2, "compare": 1}  # the place of the comparison among a call's arguments
_NUMBER_AT = {"filter": 3, "compare": 2}  # and that of the number, which the question may write in words
TURNED = 0.3  # share of the wrong turns that follow the right relation in the wrong direction


@WRITERS.add("kgwalk")
@dataclass
class KgwalkWriter(Writer):
    styles = STYLES
    walk: KgwalkWalk
    number: dict[int, int] = field(default_factory=dict)  # of the walk's sets, by the route's

    def script(self) -> Script:
        starts, steps = self.route.starts, self.route.steps
        self.number = {at: at for at in range(1, starts + 1)}
        hops = [at for at, step in enumerate(steps) if step.tool in HOPS]
        spare = self.walk.protocol.turns - len(steps)
        if spare < 0:
            raise Unwritable(TURNS)
        astray = self.chance.choice(hops) if self.wrong and spare > 0 and hops else None
        self.note = self.opening()
        for at, step in enumerate(steps):
            call = with_numbers(step, self.number)
            if at == astray:
                yield from self._wrong(call)
            turn = yield WrittenTurn(self._written(call, self.before(self._intend(call))))
            if not turn.ok:
                raise Unwritable(FAILS)
            self.number[starts + at + 1] = len(self.walk.sets.made)
            self.gist = self._seen(call)
        if not steps and self.route.answer is None:
            yield WrittenTurn(Kgwalk.render(Answer(()), self.before(self.voice.say("unknown")), self._spoken_of()))
            return
        last = self.number[self.route.answer or starts + len(steps)]
        names = self.walk.sets.made[last - 1].members
        yield WrittenTurn(Kgwalk.render(Answer((last,)), self.verdict(names), self._spoken_of()))

    def calls(self) -> list[str]:
        return [self._written(step, "") for step in self.route.steps]

    def opening(self) -> str:
        """Short: a turn of this protocol has few tokens."""
        return outline(self.route.steps) if self.voice.style == "reflective" else super().opening()

    def _wrong(self, call: Call) -> Script:
        source = self.walk.sets.get(call.args[0])[0].members
        way = self._stray(source, way_of(call))
        if way is None:
            return
        self.strayed = True
        wrong = Call(HOPS[not way.out], (call.args[0], way.relation))
        turn = yield WrittenTurn(self._written(wrong, self.before(self._intend(wrong))), train=False)
        if turn.ok:
            names = self.walk.sets.made[-1].members
            self.note = self.voice.say("wrong", names=_few(names), words=spoken(way_of(call).relation))
        else:
            self.note = self.voice.say("error")

    def _stray(self, source: tuple[str, ...], right: DirectedRelation) -> DirectedRelation | None:
        graph = self.walk.environment.graph
        other = turned(graph, source, right) if self.chance.random() < TURNED else None
        return other or wrong_way(graph, source, right, self.question.answers, self.chance)

    def _intend(self, call: Call) -> str:
        if call.tool in HOPS:
            return self.intention(way_of(call), self._called(call.args[0]))
        values = {}
        if places := self._expressions(call):
            relation = str(call.args[places[0]])
            values = {"relation": relation, "words": spoken(relation), "k": str(call.args[-1])}
            values["bound"] = bound(call) if call.tool == "filter" else ""
        return self.voice.say(f"to {call.tool}", **values)

    def _expressions(self, call: Call) -> list[int]:
        """The places of a call's arguments that are relations, paths or values."""
        if call.tool == "table":
            return list(range(1, len(call.args)))
        return [1] if call.tool in WITH_RELATION else []

    def _seen(self, call: Call) -> str:
        names = self.walk.sets.made[-1].members
        relation = way_of(call).relation if call.tool in HOPS else call.tool
        return self.voice.say("found", names=_few(names), words=spoken(relation))

    def _written(self, call: Call, think: str) -> str:
        """The turn, with its relation as the walk calls it, and a comparison as the prompt has it: `>` needs no
        escaping where a call is read.
        """
        args = list(call.args)
        for place in self._expressions(call):
            args[place] = self._shown(str(args[place]))
        if (at := _NUMBER_AT.get(call.tool)) is not None and isinstance(args[at], str):
            # a small model copies what it reads better than it multiplies
            args[at] = as_written(str(args[at]), self.question.question)
        call = Call(call.tool, tuple(args))
        text = Kgwalk.render(call, think, self._spoken_of())
        if (at := _COMPARISON_AT.get(call.tool)) is None:
            return text
        return text.replace(quote(str(call.args[at])), f'"{call.args[at]}"')

    def _shown(self, text: str) -> str:
        """A relation, path or value as the walk calls it."""
        sets = self.walk.sets
        if SIGNS.search(text) is None or sets.graph.has_relation(text):
            return sets.shown(text)
        return written(sets.expression(text), sets.shown)

    def _spoken_of(self) -> Iterator[str]:
        """All names that a thought may have."""
        for made in self.walk.sets.made:
            yield from made.members[:LISTED]
        for step in self.route.steps:
            yield from (arg for arg in step.args if isinstance(arg, str))

    def _called(self, reference: str | int) -> str:
        if isinstance(reference, str):
            return reference
        members = self.walk.sets.made[reference - 1].members
        return members[0] if len(members) == 1 else f"${reference}"


def _few(names: tuple[str, ...]) -> str:
    """Short: a turn of this protocol has few tokens."""
    return names[0] if len(names) == 1 else f"{len(names)} entities"
