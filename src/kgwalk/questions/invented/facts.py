"""Things and facts of a world: as many tails for a head as the concept has, some known far better than others.

Knows concepts between kinds; not what the relations are called.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from kgwalk.questions.bank import Concept
from kgwalk.questions.invented.concepts import PlacedConcept
from kgwalk.questions.invented.names import Manner, rewritten
from kgwalk.questions.invented.values import LATER, SYMMETRIC, Span, Values, random_span
from kgwalk.questions.invented.words import CLOSED
from kgwalk.questions.plan import CHOICES, HOPS, QuestionPlan
from kgwalk.questions.wording.bank_lexicon import BankLexicon
from kgwalk.questions.wording.english import DATE
from kgwalk.questions.wording.lexicon import Sayings
from kgwalk.types import Call
from kgwalk.walk.facts import Way

_MOST_TAILS = 8  # of one head in an n:m relation
_LEAST_THINGS = 4  # of one kind
_EVENLY = 0.75  # below 1: a kind of many relations has more things, but not as many times more
# How many things a kind needs, for each relation that it is the tail of.
_AS_TAIL = {"n:1": 0.4, "n:m": 0.8, "1:n": 1.0, "1:1": 1.0}


@dataclass(frozen=True, slots=True)
class Thing:
    name: str
    span: Span


def draw_things(
    placed: Sequence[PlacedConcept], total: int, manner: Manner, chance: random.Random
) -> dict[str, list[Thing]]:
    """About `total` things of the kinds that these relations join, by kind, the earliest first."""
    needs: dict[str, float] = {}
    for one in placed:
        needs[one.head] = needs.get(one.head, 0.0) + 1.0
        if not one.literal:
            needs[one.tail] = needs.get(one.tail, 0.0) + _AS_TAIL[one.concept.many]
    needs = {kind: need**_EVENLY for kind, need in needs.items()}
    share = total / sum(needs.values())
    used: set[str] = set()
    things: dict[str, list[Thing]] = {}
    for kind, need in needs.items():
        count = max(_LEAST_THINGS, round(need * share))
        if kind in CLOSED:
            known = [rewritten(name, manner.writing, person=False) for name in CLOSED[kind]]
            known = [name for name in known if name not in used]
            names = chance.sample(known, min(count, len(known)))
        else:
            names = [manner.name(kind, chance) for _ in range(count)]
        used.update(names)
        made = [Thing(name, random_span(chance)) for name in names]
        things[kind] = sorted(made, key=lambda thing: (thing.span.first, thing.name))
    return things


def draw_facts(
    placed: PlacedConcept, things: dict[str, list[Thing]], values: Values, chance: random.Random
) -> list[tuple[str, str]]:
    """Heads and tails of one relation, in no order that means anything; facts are missing here and there."""
    heads = things[placed.head]
    known = [thing for thing in heads if chance.random() < _coverage(chance)]
    if placed.literal:
        return _valued(placed, known, values, chance)
    tails = things[placed.tail]
    if placed.head == placed.tail:
        pairs = _among(placed, heads, chance)
    elif placed.concept.many == "1:1":
        pairs = list(zip(known, chance.sample(tails, len(tails)), strict=False))
    elif placed.concept.many == "1:n":
        choose = _Popular(heads, chance)
        pairs = [(choose.one(), tail) for tail in tails if chance.random() < _coverage(chance)]
    else:
        choose = _Popular(tails, chance)
        pairs = [(head, tail) for head in known for tail in choose.several(_how_many(placed, chance))]
    return [(head.name, tail.name) for head, tail in dict.fromkeys(pairs) if head.name != tail.name]


def _valued(
    placed: PlacedConcept, known: Sequence[Thing], values: Values, chance: random.Random
) -> list[tuple[str, str]]:
    pairs = []
    for thing in known:
        several = 1 if placed.concept.many.endswith(":1") else chance.choice((1, 1, 1, 2))
        pairs += [(thing.name, values.value(placed.concept, thing.span, chance)) for _ in range(several)]
    if placed.concept.many == "1:1":  # no two things have the same
        pairs = list({tail: (head, tail) for head, tail in pairs}.values())
    return list(dict.fromkeys(pairs))


def _among(placed: PlacedConcept, things: Sequence[Thing], chance: random.Random) -> list[tuple[Thing, Thing]]:
    """Facts between things of one kind: both ways, or never round in a circle. Things come the earliest first."""
    many, pairs = placed.concept.many, list[tuple[Thing, Thing]]()
    if placed.concept.id in SYMMETRIC:
        mixed = chance.sample(things, len(things))
        pairs = list(zip(mixed[::2], mixed[1::2], strict=False))
        if many != "1:1":
            pairs += [(chance.choice(things), chance.choice(things)) for _ in range(len(things) // 2)]
        pairs = [pair for pair in pairs if chance.random() < 0.9]
        return [*pairs, *((tail, head) for head, tail in pairs)]
    if many == "1:1":  # chains: the next book, the book before
        for first, second in zip(things, things[2:], strict=False):  # two chains beside each other
            if chance.random() < 0.75:
                pairs.append((first, second))
    else:
        lean = chance.uniform(0.5, 1.6)  # below 1 to those just before, above 1 to the first of all
        for at, thing in enumerate(things[1:], 1):
            if chance.random() < 0.8:
                # each later thing has one or several before it; read the other way, one has many after it
                count = 1 if "1" in many else _how_many(placed, chance)
                pairs += [(things[int(at * chance.random() ** lean)], thing) for _ in range(count)]
    # (earlier, later): turned round where the tails come before
    later = placed.concept.id in LATER or many == "1:n"
    return pairs if later else [(second, first) for first, second in pairs]


def _how_many(placed: PlacedConcept, chance: random.Random) -> int:
    if placed.concept.many == "n:1":
        return 1
    return min(_MOST_TAILS, 1 + int(chance.expovariate(0.8)))


def _coverage(chance: random.Random) -> float:
    return chance.uniform(0.6, 1.0)


class _Popular:
    """Draws things of which a few come up often: the one of rank r with a weight of 1 / r**a."""

    def __init__(self, things: Sequence[Thing], chance: random.Random) -> None:
        self.things, self.chance = chance.sample(things, len(things)), chance
        slope = chance.uniform(0.3, 1.0)
        self.cumulative = list(accumulate((rank + 1) ** -slope for rank in range(len(things))))

    def one(self) -> Thing:
        return self.chance.choices(self.things, cum_weights=self.cumulative)[0]

    def several(self, count: int) -> list[Thing]:
        """Distinct things, at most `count`."""
        return list(dict.fromkeys(self.chance.choices(self.things, cum_weights=self.cumulative, k=count)))


def dated(span: Span, chance: random.Random) -> str:
    """When a fact held, inside a span: a year, or a few."""
    first = chance.randint(span.first, span.last)
    return str(first) if chance.random() < 0.5 else f"{first}..{min(span.last, first + chance.randrange(1, 9))}"


# ----------------------------------------------------------------------------------------------------
# Facts with a node of their own between their two ends, as Freebase has them for a part in a film or a term of office.
#
#     film -[film.film.starring]-> m.0x7k2 -[film.starring.person]-> person
#
# Two hops that people speak of as one. The hop to the nameless node adds no words ("{}"), the hop from it says the
# concept, so a chain over both reads "Who starred in X?". Knows concepts and ways, no facts.


_SILENT = Sayings((), ("{}",))


@dataclass(frozen=True, slots=True)
class End:
    """One of the two relations of such a fact: at the concept's head or tail, leading into the node or out of it."""

    concept: Concept
    head: bool
    inward: bool

    def enters(self, way: Way) -> bool:
        """Whether a hop leads to the node in between."""
        return way.out == self.inward


class WorldLexicon:
    """The bank's sayings for relations by their meanings, and for those that have a node in between.

    `marks` are relations from such a node to its times, with what they say: its "start", its "end" or its "date".
    """

    def __init__(
        self,
        meanings: Mapping[str, tuple[Concept, bool]],
        ends: Mapping[str, End],
        marks: Mapping[str, str] | None = None,
    ) -> None:
        self._plain, self._ends = BankLexicon(meanings, [end.concept for end in ends.values()]), ends
        self._marks = marks or {}

    def sayings(self, way: Way) -> Sayings:
        end = self._ends.get(way.relation)
        if way.relation in self._marks:
            return Sayings((), (), DATE)
        if end is None:
            return self._plain.sayings(way)
        if end.enters(way):
            return _SILENT
        concept = end.concept
        questions, nouns, kind = (
            (concept.backward, concept.backward_nouns, concept.head)
            if end.head
            else (concept.forward, concept.forward_nouns, concept.tail)
        )
        bare = self._plain.heard.nouns(concept, not end.head)
        return Sayings(questions, nouns, kind, bare=bare, where=() if end.head else concept.where)

    def value_words(self, relation: str) -> tuple[str, ...]:
        if relation in self._marks:
            return (self._marks[relation],)
        return () if relation in self._ends else self._plain.value_words(relation)

    def alone(self, way: Way) -> bool:
        end = self._ends.get(way.relation)
        return self._plain.alone(way) if end is None else self._plain.heard.alone(end.concept)


def passes_through(plan: QuestionPlan, ends: Mapping[str, End], marks: Collection[str] = ()) -> bool:
    """Whether every hop to a node in between is followed by the one to its other end.

    Before that, nodes may be chosen from by their `marks`; nothing else.
    """
    for number, step in enumerate(plan.steps, len(plan.topics) + 1):
        relation = str(step.args[1]) if step.tool in HOPS + CHOICES else ""
        if relation in marks and step.tool in HOPS:
            return False
        end = ends.get(relation)
        if end is None:
            continue
        if step.tool in CHOICES:
            return False
        if end.enters(_way(step)):
            if not _goes_on(plan, number, end, ends, marks):
                return False
        else:
            before = plan.made_by(_chosen_from(plan, step, marks))
            entered = ends.get(str(before.args[1])) if before is not None and before.tool in HOPS else None
            if before is None or entered is None or not entered.enters(_way(before)):
                return False
    return True


def _goes_on(plan: QuestionPlan, number: int, entered: End, ends: Mapping[str, End], marks: Collection[str]) -> bool:
    """Whether all that is made of a set of nodes is their other ends, or some of them of which that is so."""
    after = [(at, one) for at, one in enumerate(plan.steps, len(plan.topics) + 1) if number in one.args]
    return bool(after) and all(
        _goes_on(plan, at, entered, ends, marks)
        if one.tool in CHOICES and str(one.args[1]) in marks
        else _leaves(one, entered, ends)
        for at, one in after
    )


def _chosen_from(plan: QuestionPlan, step: Call, marks: Collection[str]) -> int:
    """The set that a hop starts from, before nodes were chosen from it."""
    source = step.args[0]
    assert isinstance(source, int)
    before = plan.made_by(source)
    chose = before is not None and before.tool in CHOICES and str(before.args[1]) in marks
    return _chosen_from(plan, before, marks) if chose and before is not None else source


def _leaves(step: Call, entered: End, ends: Mapping[str, End]) -> bool:
    end = ends.get(str(step.args[1])) if step.tool in HOPS else None
    if end is None or end.enters(_way(step)):
        return False
    return end.concept is entered.concept and end.head != entered.head


def _way(step: Call) -> Way:
    return Way(str(step.args[1]), step.tool != "head_entities")
