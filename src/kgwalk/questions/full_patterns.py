"""The patterns of the full walking language: for each, a function that draws one plan, or rejects the draw.

    FULL_DRAWS["group"](groups).plan("group")            # Which country has the most cities?

A draw is rejected unless its answer is unambiguous (no ties where one is asked for) and worth asking (a step that
changes nothing is no question). Those about whether something is so are in `statement_patterns`. `wording/choices.py`,
`wording/comparisons.py` and `wording/verdicts.py` have the words; `make` decides how many of each pattern are wanted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from kgwalk.demos.path_search import reverse
from kgwalk.kg.times import parse_time
from kgwalk.questions.drawing import FORWARDS
from kgwalk.questions.groups import (
    NOTHING,
    DrawnGroup,
    Groups,
    bound_between,
    check_changes,
    counting,
    forward,
    named,
    number_of_value,
    said,
)
from kgwalk.questions.patterns import BOUNDS
from kgwalk.questions.plan import (
    AGAINST,
    AGGREGATE,
    ARITHMETIC,
    BEHIND,
    DATED,
    GROUP,
    KIND,
    NEGATION,
    QUANTIFIER,
    REPEATED,
    TABLE,
    TOP,
    UNANSWERABLE,
    VERDICT,
    WHICH,
    ZERO,
    PlanBuilder,
    PlanRejected,
)
from kgwalk.questions.schema import ID, TRUTHS, askable
from kgwalk.questions.statement_patterns import negation, persevering, quantifier, unanswerable, verdict, zero
from kgwalk.questions.wording.measures import round_between
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.values import DAYS_A_YEAR, difference, quotient

TRIES = 12
ONWARD = 0.15  # the share of superlatives with one more hop
OF_KIND_ALONE = 0.05  # the share of questions about a kind that only count it
ALL_OF_KIND = 0.08  # and of those that ask for all of it
MOST_OF_KIND = 40  # so many are asked for at once
FIRST_FEW = (2, 3, 3, 5, 5, 10)  # of a top list
FEW = 10  # up to this number things are counted exactly

FullDraw = Callable[[Groups], PlanBuilder]

# Values that are not added up: the sum of latitudes says nothing.
_NO_SUM = re.compile(
    r"latitude|longitude|year|rate|ratio|score|rating|percent|temperature|age\b|density|point|rank|number$|no$|"
    r"index|code|id$|magnitude|floor|speed|version",
    re.IGNORECASE,
)
_NO_AVERAGE = re.compile(r"latitude|longitude|code|id$|numeric|version|rank|number$|group|period", re.IGNORECASE)


# Over all of a kind


def of_a_kind(groups: Groups) -> PlanBuilder:
    """Which country has the largest population? Which languages are our packages written in?"""
    drawn = groups.chance.random()
    group = groups.of_kind()
    if drawn < OF_KIND_ALONE:
        builder, number = group.start(groups)
        builder.call("count", number)
        return builder
    if drawn < OF_KIND_ALONE + ALL_OF_KIND:
        if len(group.members) > MOST_OF_KIND:
            raise PlanRejected("too many answers")
        return group.start(groups)[0]
    if drawn < 0.25:
        return _reached_from(groups, group)
    if groups.truths and groups.chance.random() < 0.3:
        return persevering(_being, groups)
    if drawn < 0.35:
        return _typed(groups, group)
    if drawn < 0.65:
        return _superlative(groups, group)
    builder = _compared(groups, group)
    if groups.chance.random() < 0.3:
        builder.call("count", len(builder.sets.made))
    return builder


def _being(groups: Groups) -> PlanBuilder:
    """Which elements are radioactive? How many are not? Where that is true or false."""
    relation, group = groups.chance.choice(groups.truths), groups.of_kind()
    some = groups.chance.sample(list(group.members), min(len(group.members), FEW))
    if not all(relation in groups.sampler.graph.relations(name) for name in some):
        raise PlanRejected("nothing is true")
    builder, number = group.start(groups)
    yes = groups.truth_of(relation)
    no = next((tail for tail in groups.sampler.schema.relations[relation].sample_tails if tail != yes), yes)
    builder.say(relation)
    kept = builder.call("filter", number, relation, "=", no if groups.chance.random() < 0.25 else yes)
    check_changes(builder, kept, group.members)
    if groups.chance.random() < 0.3:
        builder.call("count", kept)
    return builder


def _superlative(groups: Groups, group: DrawnGroup) -> PlanBuilder:
    measure = groups.measure(group.members)
    builder, number = group.start(groups)
    numbers = groups.numbers(builder, group.members, measure.text)
    tool = groups.chance.choice(("argmax", "argmin"))
    best = (max if tool == "argmax" else min)(numbers.values())
    if sum(value == best for value in numbers.values()) > 1:
        raise PlanRejected("a superlative of many")
    chosen = builder.call(tool, number, said(builder, measure))
    if groups.chance.random() < ONWARD:
        ways = [way for way in groups.sampler.around(builder.members(chosen)[0]) if way in groups.sampler.to_things]
        builder.hop(chosen, groups.sampler.choose([way for way in ways if way.relation != measure.relation]), 1,
                    keeps=True)  # fmt: skip
    return builder


def _compared(groups: Groups, group: DrawnGroup) -> PlanBuilder:
    measure = groups.measure(group.members)
    builder, number = group.start(groups)
    values = sorted(set(groups.numbers(builder, group.members, measure.text).values()))
    bound = bound_between(groups, values, measure.dates)
    kept = builder.call("filter", number, said(builder, measure), groups.chance.choice(BOUNDS), bound)
    check_changes(builder, kept, group.members)
    return builder


def _reached_from(groups: Groups, group: DrawnGroup) -> PlanBuilder:
    """What a relation leads to from all of a kind."""
    shares = groups.shares(group.members)
    ways = [way for way, share in shares.items() if share > 0.3 and way.out and way in groups.sampler.to_things]
    builder, number = group.start(groups)
    if len(group.members) > groups.sampler.settings.most_members // 4:
        raise PlanRejected("goes on from too many")
    way = groups.sampler.choose(sorted(ways))
    reached = builder.call("tail_entities" if way.out else "head_entities", number, way.relation)
    if not 2 <= len(builder.members(reached)) <= len(group.members) or set(builder.members(reached)) <= TRUTHS:
        raise PlanRejected(NOTHING)
    if groups.chance.random() < 0.3:
        builder.count(reached)
    return builder


def _typed(groups: Groups, group: DrawnGroup) -> PlanBuilder:
    """Which of what is in X are cities? For relations that lead to several kinds."""
    name = groups.chance.choice(group.members)
    walk = groups.sampler.path_to(name, 1)
    assert group.kind is not None
    reached = DrawnGroup((), group.kind, walk)
    builder, number = reached.start(groups)
    kept = builder.call("intersect", 2, number)
    check_changes(builder, kept, builder.members(number))
    return builder


# Order, sums, and counts for each


def top(groups: Groups) -> PlanBuilder:
    """The five largest countries; the second largest."""
    group = groups.draw(least=6)
    builder, number = group.start(groups)
    if groups.chance.random() < 0.2:
        text, numbers = _counts(groups, builder, group, number)
    else:
        measure = groups.measure(group.members)
        numbers = groups.numbers(builder, group.members, measure.text)
        text = said(builder, measure)
    tool = groups.chance.choice(("top", "top", "bottom"))
    nth = groups.chance.random() < 0.5
    k = groups.chance.choice((2, 2, 2, 3, 3, 4, 5)) if nth else groups.chance.choice(FIRST_FEW)
    ordered = sorted(numbers.values(), reverse=tool == "top")
    if len(ordered) <= k or len(set(ordered[: k + 1])) <= k:
        raise PlanRejected("a tie in the order")
    builder.call(tool, number, text, str(k))
    if nth:
        builder.call("nth", len(builder.sets.made), str(k))
    return builder


def aggregate(groups: Groups) -> PlanBuilder:
    """The total salary in a department; the average price; the highest altitude."""
    group = groups.draw(least=3)
    measure = groups.measure(group.members, dates=False if groups.chance.random() < 0.7 else None)
    tools = ["least", "greatest"]
    averaged = not measure.dates and not _NO_AVERAGE.search(measure.relation)
    if not averaged and groups.chance.random() < 0.6:
        raise PlanRejected("no values to add up")
    tools += ["average"] * 4 * averaged
    tools += ["sum"] * 4 * (averaged and not _NO_SUM.search(measure.relation))
    builder, number = group.start(groups)
    numbers = groups.numbers(builder, group.members, measure.text)
    if len(set(numbers.values())) < 2:
        raise PlanRejected("too few values to compare")
    builder.call(groups.chance.choice(tools), number, said(builder, measure))
    return builder


def by_count(groups: Groups) -> PlanBuilder:
    """Which department has the most employees? Which have more than five?"""
    group = groups.draw(least=4, of_a_kind=0.75)
    chance = groups.chance
    inside: DrawnGroup | None = None
    if chance.random() < 0.12:  # the most packages in a section
        inside = groups.reached()
    builder, number = group.start(groups, [] if inside is None else inside.topics)
    within = 0
    if inside is not None:
        assert inside.walk is not None
        within = builder.follow(len(builder.topics), inside.walk.ways)
    text, numbers = _counts(groups, builder, group, number, within)
    counts = sorted(numbers.values())
    if counts[-1] < 2:
        raise PlanRejected("a count of one")
    if within or chance.random() < 0.55:
        tool = "argmin" if not within and chance.random() < 0.2 else "argmax"
        best = counts[0] if tool == "argmin" else counts[-1]
        if counts.count(best) > 1:
            raise PlanRejected("a superlative of many")
        builder.call(tool, number, text)
        return builder
    distinct = sorted({int(count) for count in counts if count})
    comparison = chance.choice((">", ">", ">=", ">=", "<", "="))
    if len(distinct) < 2:
        raise PlanRejected(NOTHING)
    low, high = chance.choice(list(pairwise(distinct)))
    bound = low if high <= FEW else int(round_between(low, high))  # more than 50, not more than 53
    if (comparison == "<" and bound < 2) or (comparison == "=" and bound > FEW):
        raise PlanRejected(NOTHING)
    kept = builder.call("filter", number, text, comparison, str(bound))
    check_changes(builder, kept, group.members)
    if chance.random() < 0.3:
        builder.call("count", kept)
    return builder


def _counts(
    groups: Groups, builder: PlanBuilder, group: DrawnGroup, number: int, within: int = 0
) -> tuple[str, dict[str, float]]:
    """A count for each member, as an expression, with what it is."""
    if len(group.members) > 2 * groups.sampler.settings.most_onward:
        raise PlanRejected("goes on from too many")
    way = groups.counted(group.members, have=0.2 if within else 0.5)
    if group.walk is not None and group.walk.ways[-1] == reverse(way):
        raise PlanRejected("comes back to where it was")
    text = counting(way, within)
    expression = builder.say(text)
    found = {name: float(builder.sets.values(name, expression)[0].text) for name in group.members}
    return text, found


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
    builder.call(chance.choice(("argmax", "argmax", "argmin")), number, text)
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
    divides = not measure.dates and not _NO_SUM.search(measure.relation) and groups.chance.random() < 0.35
    left, right = builder.members(first)[0], builder.members(second)[0]
    made = quotient(left, right) if divides else difference(left, right)
    if made is None or made in ("0", "1"):
        raise PlanRejected("no difference")
    builder.call("divide" if divides else "subtract", first, second)
    return builder


# Paths, rows, times


def behind(groups: Groups) -> PlanBuilder:
    """How much does X cost, where the price is a node? In which currency?"""
    nodes = groups.value_nodes
    if not nodes:
        raise PlanRejected("no values behind nodes")
    relation = groups.chance.choice(sorted(nodes))
    topic = groups.sampler.topic(DirectedRelation(relation, True))
    builder = PlanBuilder(groups.sampler.graph, [topic], groups.sampler.settings)
    unit = nodes[relation].unit
    end = unit if unit is not None and groups.chance.random() < 0.25 else nodes[relation].amount
    builder.say(f"{relation}/{end}")
    builder.call("tail_entities", 1, f"{relation}/{end}")
    return builder


def repeated(groups: Groups) -> PlanBuilder:
    """All that X depends on, directly or not; how many there are."""
    sampler = groups.sampler
    ways = [
        way for way in sampler.first_ways if way in sampler.to_things and len(sampler.starts.both(way.relation)) > 2
    ]
    ways = [way for way in ways if way.relation not in sampler.inverses.of(way.relation)]
    way = sampler.choose(ways)
    topic = sampler.topic(way)
    if not way.out and sampler.inverses.said_forwards(way.relation, sampler.graph.relations(topic)):
        raise PlanRejected(FORWARDS)
    text = f"{way.relation}+"
    builder = PlanBuilder(sampler.graph, [topic], sampler.settings)
    tool = "tail_entities" if way.out else "head_entities"
    once = builder.members(builder.call(tool, 1, way.relation))
    builder = PlanBuilder(sampler.graph, [topic], sampler.settings)
    builder.say(text)
    reached = builder.call(tool, 1, text)
    if len(builder.members(reached)) <= len(once) or topic in builder.members(reached):
        raise PlanRejected(NOTHING)
    if groups.chance.random() < 0.25:
        builder.call("count", reached)
    return builder


def table(groups: Groups) -> PlanBuilder:
    """The people of a department with their email and phone."""
    group = groups.draw(least=2, most=25, of_a_kind=0.35)
    if len(group.members) > 60:
        raise PlanRejected("too many answers")
    schema = groups.sampler.schema.relations
    ways = [way for way, share in groups.shares(group.members).items() if share >= 0.7 and way.out]
    names = [way.relation for way in sorted(ways) if schema[way.relation].fan_out < 1.6]
    came = {way.relation for way in group.walk.ways} if group.walk is not None else set()
    names = [name for name in names if name not in came and schema[name].tail_kinds.get(ID, 0.0) < 0.2]
    size = 3 if len(names) > 2 and groups.chance.random() < 0.3 else 2
    if len(names) < size:
        raise PlanRejected("too few columns")
    builder, number = group.start(groups)
    columns = [groups.measure_of(name).text for name in groups.chance.sample(names, size)]
    for column in columns:
        builder.say(column)
    builder.call("table", number, *columns)
    return builder


def dated(groups: Groups) -> PlanBuilder:
    """When did X play for Y? For whom first, last, before 1990?"""
    if not groups.sampler.schema.timed:
        raise PlanRejected("no facts of several times")
    return persevering(groups.chance.choice((_when, _first_or_last, _before_or_after, _now)), groups)


def _dated_facts(groups: Groups) -> tuple[str, DirectedRelation, list[tuple[str, str]]]:
    """A topic, a relation, and what that leads to with the time of each fact."""
    sampler = groups.sampler
    way = sampler.choose(sampler.first_ways)
    topic = sampler.topic(way)
    if not way.out and sampler.inverses.said_forwards(way.relation, sampler.graph.relations(topic)):
        raise PlanRejected(FORWARDS)
    found = sampler.graph.neighbors(topic, way.relation, out=way.out)
    times = found.times or [[] for _ in found.names]
    return topic, way, [(name, one) for name, some in zip(found.names, times, strict=True) for one in some if one]


def _when(groups: Groups) -> PlanBuilder:
    topic, way, facts = _dated_facts(groups)
    names = [name for name, _ in facts if askable(name) and name != topic]
    name = groups.chance.choice(names or [""])
    if not name or sum(other == name for other, _ in facts) > 1:
        raise PlanRejected("no topic that can be named")
    builder = PlanBuilder(groups.sampler.graph, [topic, name], groups.sampler.settings)
    builder.call("when", 1, forward(builder, way), 2)
    return builder


def _first_or_last(groups: Groups) -> PlanBuilder:
    topic, way, facts = _dated_facts(groups)
    starts = sorted(parse_time(time)[0] for _, time in facts)
    tool = groups.chance.choice(("earliest", "latest"))
    if len(set(starts)) < 2 or starts.count(starts[0] if tool == "earliest" else starts[-1]) > 1:
        raise PlanRejected("no facts of several times")
    builder = PlanBuilder(groups.sampler.graph, [topic], groups.sampler.settings)
    builder.call(tool, 1, forward(builder, way))
    return builder


def _before_or_after(groups: Groups) -> PlanBuilder:
    topic, way, facts = _dated_facts(groups)
    begun = sorted({int(1970 + parse_time(time)[0] / DAYS_A_YEAR) for _, time in facts})
    free = [year for year in range(begun[0] + 1, begun[-1]) if year not in begun] if begun else []
    if not free:  # is May 1995 after 1995?
        raise PlanRejected("a date inside the year it is compared with")
    builder = PlanBuilder(groups.sampler.graph, [topic], groups.sampler.settings)
    tool = groups.chance.choice(("before", "after"))
    builder.call(tool, 1, forward(builder, way), str(groups.chance.choice(free)))
    return builder


def _now(groups: Groups) -> PlanBuilder:
    """Who is the mayor of X today? Where others were before."""
    topic, way, facts = _dated_facts(groups)
    holding = {name for name, time in facts if time.endswith("..")}
    if not holding or len(holding) == len({name for name, _ in facts}):
        raise PlanRejected("no facts of several times")
    builder = PlanBuilder(groups.sampler.graph, [topic], groups.sampler.settings)
    text = f"{way.relation}@now"
    builder.say(text)
    builder.call("tail_entities" if way.out else "head_entities", 1, text)
    return builder


FULL_DRAWS: dict[str, FullDraw] = {
    KIND: of_a_kind,
    TOP: top,
    AGGREGATE: aggregate,
    GROUP: by_count,
    WHICH: which,
    AGAINST: against,
    ARITHMETIC: arithmetic,
    VERDICT: verdict,
    NEGATION: negation,
    QUANTIFIER: quantifier,
    ZERO: zero,
    BEHIND: behind,
    REPEATED: repeated,
    TABLE: table,
    DATED: dated,
    UNANSWERABLE: unanswerable,
}


def possible_in_full(groups: Groups, pattern: str) -> bool:
    """Whether the graph has what a pattern is about."""
    if pattern == DATED:
        return groups.sampler.schema.timed
    if pattern == BEHIND:
        return bool(groups.value_nodes)
    valued = bool(groups.sampler.valued_things or groups.value_nodes)
    return valued or pattern not in (AGGREGATE, AGAINST, ARITHMETIC)
