"""Things and facts of a world: as many tails for a head as the concept has, some known far better than others.

Knows concepts between kinds; not what the relations are called.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from kgwalk.questions.worlds.choice import Placed
from kgwalk.questions.worlds.kinds import LATER, SYMMETRIC
from kgwalk.questions.worlds.names import Manner, rewritten
from kgwalk.questions.worlds.values import Span, Values, random_span
from kgwalk.questions.worlds.vocabulary import CLOSED

_MOST_TAILS = 8  # of one head in an n:m relation
_LEAST_THINGS = 4  # of one kind
_EVENLY = 0.75  # below 1: a kind of many relations has more things, but not as many times more
# How many things a kind needs, for each relation that it is the tail of.
_AS_TAIL = {"n:1": 0.4, "n:m": 0.8, "1:n": 1.0, "1:1": 1.0}


@dataclass(frozen=True, slots=True)
class Thing:
    name: str
    span: Span


def draw_things(placed: Sequence[Placed], total: int, manner: Manner, chance: random.Random) -> dict[str, list[Thing]]:
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
    placed: Placed, things: dict[str, list[Thing]], values: Values, chance: random.Random
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


def _valued(placed: Placed, known: Sequence[Thing], values: Values, chance: random.Random) -> list[tuple[str, str]]:
    pairs = []
    for thing in known:
        several = 1 if placed.concept.many.endswith(":1") else chance.choice((1, 1, 1, 2))
        pairs += [(thing.name, values.value(placed.concept, thing.span, chance)) for _ in range(several)]
    if placed.concept.many == "1:1":  # no two things have the same
        pairs = list({tail: (head, tail) for head, tail in pairs}.values())
    return list(dict.fromkeys(pairs))


def _among(placed: Placed, things: Sequence[Thing], chance: random.Random) -> list[tuple[Thing, Thing]]:
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


def _how_many(placed: Placed, chance: random.Random) -> int:
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
