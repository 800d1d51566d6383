"""Patterns about pairs: one of two, two things that meet in a row, and things of one kind that are related.

    which(groups).plan("which")                        # Which is larger, X or Y?
    meeting(sampler).plan("intersection")              # What grade did X get in Y? Over the row that has both
    group, way = alike_group(groups)                   # all packages, and `depends_on` in one direction or the other

Which direction is meant between two of a kind, only the words tell: "packages that depend on X" against "what X depends
on", "needed by more than three" against "need more than three". So both are drawn equally often. Used by `patterns` and
`full_patterns`.
"""

from __future__ import annotations

import re

from kgwalk.demos.path_search import reverse
from kgwalk.questions.drawing import WalkSampler
from kgwalk.questions.groups import DrawnGroup, Groups, check_changes, counting, named, number_of_value, said
from kgwalk.questions.plan import PlanBuilder, PlanRejected
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.kinds import OF_TYPE
from kgwalk.walk.values import difference, quotient

# Values that are not added up: the sum of latitudes says nothing.
NO_SUM = re.compile(
    r"latitude|longitude|year|rate|ratio|score|rating|percent|temperature|age\b|density|point|rank|number$|no$|"
    r"index|code|id$|magnitude|floor|speed|version",
    re.IGNORECASE,
)
FEWEST_IN_BOTH = 3  # entities that a relation leaves and enters, for it to join things of one kind


def meeting(sampler: WalkSampler) -> PlanBuilder:
    """What grade did X get in Y? When does line X get to station Y? What the row says in which the two meet."""
    first = sampler.choose(sampler.into_rows)
    one = sampler.topic(first)
    row = sampler.step(one, first)
    columns = [way for way in sampler.onward(row, first) if way in sampler.columns]
    second = sampler.choose([way for way in columns if way in sampler.to_things])
    two = sampler.step(row, second, topic=True, avoid=one)
    asked = sampler.choose([way for way in columns if way != second])
    builder = PlanBuilder(sampler.graph, [one, two], sampler.settings)
    both = builder.combine("intersect", builder.hop(1, first, 1), builder.hop(2, reverse(second), 2))
    builder.hop(both, asked, 1)
    return builder


def alike_ways(sampler: WalkSampler) -> list[DirectedRelation]:
    """The directed relations between things of one kind, without those that say the same in both directions."""
    ways = [way for way in sampler.first_ways if way in sampler.to_things]
    ways = [way for way in ways if len(sampler.starts.both(way.relation)) >= FEWEST_IN_BOTH]
    return [way for way in ways if way.relation not in sampler.inverses.of(way.relation)]


def alike_group(groups: Groups) -> tuple[DrawnGroup, DirectedRelation]:
    """All of a kind, and a relation between them in one of its directions."""
    sampler = groups.sampler
    way = sampler.choose(alike_ways(sampler))
    member = sampler.starts.draw(way, groups.chance, sampler.settings.known, both=True)
    kinds = [kind for kind in groups.kinds if kind.how == OF_TYPE and member in groups.members_of(kind)]
    if not kinds:
        raise PlanRejected("no group of the size wanted")
    return DrawnGroup(groups.members_of(kinds[0]), kinds[0]), way


# Two things


def which(groups: Groups) -> PlanBuilder:
    """Which is larger, X or Y? Who directed more films, X or Y?"""
    group = groups.draw(least=3, most=groups.sampler.settings.most_members)
    chance = groups.chance
    size = 3 if chance.random() < 0.15 else 2
    names = named(groups, group.members, size)
    builder = PlanBuilder(groups.sampler.graph, names, groups.sampler.settings, topics_answer=True)
    if chance.random() < 0.25:
        way = groups.counted(group.members)
        text = counting(way)
        expression = builder.say(text)
        numbers = {name: float(builder.sets.values(name, expression)[0].text) for name in names}
    else:
        measure = groups.measure(group.members)
        numbers = {name: number_of_value(groups, builder, name, measure) for name in names}
        text = said(builder, measure)
    if len(set(numbers.values())) < size:
        raise PlanRejected("a tie in the order")
    number = builder.call("union", 1, 2)
    if size == 3:
        number = builder.call("union", number, 3)
    dates = text in groups.dated_relations
    # "older" is the lesser date: it is asked more often than "younger", as "larger" is more often than "smaller"
    builder.call(
        chance.choice(("argmin", "argmin", "argmax") if dates else ("argmax", "argmax", "argmin")), number, text
    )
    return builder


def against(groups: Groups) -> PlanBuilder:
    """Which countries have a larger population than X?"""
    group = groups.draw(least=4)
    measure = groups.measure(group.members)
    (other,) = named(groups, group.members, 1)
    if other in group.topics:
        raise PlanRejected("the same topic twice")
    builder, number = group.start(groups, [other])
    number_of_value(groups, builder, other, measure)
    value = builder.call("tail_entities", len(builder.topics), said(builder, measure))
    kept = builder.call("filter", number, measure.text, groups.chance.choice(("<", ">")), value)
    check_changes(builder, kept, group.members)
    return builder


def arithmetic(groups: Groups) -> PlanBuilder:
    """How much larger is X than Y? How many times as many people live in X as in Y?"""
    group = groups.draw(least=3, most=groups.sampler.settings.most_members)
    measure = groups.measure(group.members)
    one, two = named(groups, group.members, 2)
    builder = PlanBuilder(groups.sampler.graph, [one, two], groups.sampler.settings)
    if number_of_value(groups, builder, one, measure) <= number_of_value(groups, builder, two, measure):
        raise PlanRejected("the first is not the larger")
    first = builder.call("tail_entities", 1, said(builder, measure))
    second = builder.call("tail_entities", 2, measure.text)
    divides = not measure.dates and not NO_SUM.search(measure.relation) and groups.chance.random() < 0.35
    left, right = builder.members(first)[0], builder.members(second)[0]
    made = quotient(left, right) if divides else difference(left, right)
    if made is None or made in ("0", "1"):
        raise PlanRejected("no difference")
    builder.call("divide" if divides else "subtract", first, second)
    return builder
