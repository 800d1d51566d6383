"""The patterns of the full walking language: for each, a function that draws one plan, or rejects the draw.

    FULL_DRAWS["group"](groups).plan("group")            # Which country has the most cities?

A draw is rejected unless its answer is unambiguous (no ties where one is asked for) and worth asking (a step that
changes nothing is no question). Those about whether something is so are in `statement_patterns`. `wording/choices.py`,
`wording/comparisons.py` and `wording/verdicts.py` have the words; `make` decides how many of each pattern are wanted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from kgwalk.demos.path_search import reverse
from kgwalk.questions.drawing import FORWARDS
from kgwalk.questions.groups import (
    FAN,
    NOTHING,
    DrawnGroup,
    DrawnMeasure,
    Groups,
    bound_between,
    check_changes,
    counting,
    named,
    said,
)
from kgwalk.questions.pair_patterns import NO_SUM, against, alike_group, alike_ways, arithmetic, which
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
from kgwalk.questions.schema import ID, TRUTHS
from kgwalk.questions.statement_patterns import dated, negation, persevering, quantifier, unanswerable, verdict, zero
from kgwalk.questions.wording.measures import round_between
from kgwalk.walk.facts import DirectedRelation

TRIES = 12
BETWEEN_ALIKE = 0.25  # the share of questions by a count about relations between things of one kind
ONWARD = 0.15  # the share of superlatives with one more hop
OF_EVERYTHING = 0.5  # of questions about a kind, where a graph has no types, the share that starts from all things
OF_KIND_ALONE = 0.05  # the share of questions about a kind that only count it
ALL_OF_KIND = 0.08  # and of those that ask for all of it
MOST_OF_KIND = 40  # so many are asked for at once
FIRST_FEW = (2, 3, 3, 5, 5, 10)  # of a top list
FEW = 10  # up to this number things are counted exactly

FullDraw = Callable[[Groups], PlanBuilder]

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
    if drawn < 0.18:
        return _reached_from(groups, group)
    if groups.truths and groups.chance.random() < 0.25:
        return persevering(_being, groups)
    if not groups.types and groups.chance.random() < OF_EVERYTHING:
        return persevering(_of_everything, groups)
    if drawn < 0.23:
        return _typed(groups, group)
    if drawn < 0.45:
        return persevering(_largest, groups)
    if drawn < 0.5:
        return persevering(_largest_of_some, groups)
    if drawn < 0.6:
        return persevering(_within, groups)
    builder = persevering(_beyond, groups)
    if groups.chance.random() < 0.2:
        builder.call("count", len(builder.sets.made))
    return builder


def _largest(groups: Groups) -> PlanBuilder:
    return _superlative(groups, groups.of_kind())


def _largest_of_some(groups: Groups) -> PlanBuilder:
    """The cheapest component of which there are more than 800: those of a kind beyond a bound, then one of them."""
    group = groups.of_kind(least=6)
    builder = _compared(groups, group)
    kept = len(builder.sets.made)
    measure = groups.measure(builder.members(kept))
    if measure.text in builder.expressions:
        raise PlanRejected("comes back to where it was")
    numbers = groups.numbers(builder, builder.members(kept), measure.text).values()
    tool = groups.chance.choice(("argmax", "argmin"))
    best = (max if tool == "argmax" else min)(numbers)
    whole = groups.numbers(builder, group.members, measure.text).values()
    if list(numbers).count(best) > 1 or best == (max if tool == "argmax" else min)(whole):
        raise PlanRejected("a superlative of many")
    builder.call(tool, kept, said(builder, measure))
    return builder


def _beyond(groups: Groups) -> PlanBuilder:
    """Of a kind, at times of what a relation leads to."""
    return _compared(groups, groups.of_kind() if groups.chance.random() < 0.75 else groups.valued(of_a_kind=0.0))


def _of_everything(groups: Groups) -> PlanBuilder:
    """The largest package, of a graph that says of nothing that it is a package."""
    group, way = groups.everything()
    drawn = groups.chance.random()
    if drawn < 0.6:
        measure = groups.measure_of(way.relation)
        return (_superlative if drawn < 0.3 else _compared)(groups, group, measure)
    builder, number = group.start(groups)
    text, numbers = _counts(groups, builder, group, number)
    counts = sorted(numbers.values(), reverse=True)
    if counts[0] < 2:
        raise PlanRejected("a count of one")
    if drawn < 0.8:
        return _above_count(groups, builder, group, number, text, counts)
    k = 1 if drawn < 0.9 else groups.chance.choice((2, 2, 3, 5))
    if len(set(counts[: k + 1])) <= k:
        raise PlanRejected("a tie in the order")
    builder.call(*(("argmax", number, text) if k == 1 else ("top", number, text, str(k))))
    return builder


def _within(groups: Groups) -> PlanBuilder:
    """Elements found between 1800 and 1805: of a kind, or what a relation leads to."""
    group = groups.valued(least=6, of_a_kind=0.6)
    measure = groups.measure(group.members)
    builder, number = group.start(groups)
    values = sorted(set(groups.numbers(builder, group.members, measure.text).values()))
    if len(values) < 5:
        raise PlanRejected("too few values to compare")
    at = groups.chance.randrange(1, len(values) - 2)
    end = groups.chance.randrange(at + 1, min(len(values) - 1, at + 6))
    low = round_between(values[at - 1], values[at], year=measure.dates)
    high = round_between(values[end], values[end + 1], year=measure.dates)
    low, high = (str(int(float(one))) if measure.dates else one for one in (low, high))
    if float(low) >= float(high) or (measure.dates and any(int(value) == int(high) != value for value in values)):
        raise PlanRejected("a date inside the year it is compared with")
    kept = builder.call("filter", number, said(builder, measure), ">=", low)
    kept = builder.call("filter", kept, measure.text, "<=", high)
    check_changes(builder, kept, group.members)
    if groups.chance.random() < 0.25:
        builder.call("count", kept)
    return builder


def _being(groups: Groups) -> PlanBuilder:
    """Which elements are radioactive? Which of those found in France? Where that is true or false."""
    relation = groups.chance.choice(groups.truths)
    group = groups.of_kind() if groups.chance.random() < 0.4 else _holding(groups, relation)
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


def _holding(groups: Groups, relation: str) -> DrawnGroup:
    """What a relation leads to from a topic, among which is something of which another relation is true or false."""
    sampler = groups.sampler
    member = sampler.starts.draw(DirectedRelation(relation, True), groups.chance, sampler.settings.known)
    walk = sampler.path_to(member, 1, fan=FAN)
    builder = PlanBuilder(sampler.graph, [walk.topic], sampler.settings)
    return DrawnGroup(builder.members(builder.follow(1, walk.ways)), None, walk)


def _superlative(groups: Groups, group: DrawnGroup, measure: DrawnMeasure | None = None) -> PlanBuilder:
    measure = measure or groups.measure(group.members)
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


def _compared(groups: Groups, group: DrawnGroup, measure: DrawnMeasure | None = None) -> PlanBuilder:
    measure = measure or groups.measure(group.members)
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
    return persevering(_top, groups)


def _top(groups: Groups) -> PlanBuilder:
    if groups.chance.random() < 0.4 * BETWEEN_ALIKE:
        group, way = alike_group(groups)
    else:
        group, way = groups.valued(least=5, of_a_kind=0.45), None
    builder, number = group.start(groups)
    dates = False
    if way is not None or groups.chance.random() < 0.35:
        text, numbers = _counts(groups, builder, group, number, way)
    else:
        measure = groups.measure(group.members)
        numbers = groups.numbers(builder, group.members, measure.text)
        text, dates = said(builder, measure), measure.dates
    tool = groups.chance.choice(("top", "bottom") if dates else ("top", "top", "bottom"))  # the oldest are the first
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
    return persevering(_aggregate, groups)


def _aggregate(groups: Groups) -> PlanBuilder:
    group = groups.valued(least=3, of_a_kind=0.3)
    measure = groups.measure(group.members, dates=False if groups.chance.random() < 0.7 else None)
    tools = ["least", "greatest"]
    averaged = not measure.dates and not _NO_AVERAGE.search(measure.relation)
    if not averaged and groups.chance.random() < 0.6:
        raise PlanRejected("no values to add up")
    tools += ["average"] * 4 * averaged
    tools += ["sum"] * 4 * (averaged and not NO_SUM.search(measure.relation))
    builder, number = group.start(groups)
    numbers = groups.numbers(builder, group.members, measure.text)
    if len(set(numbers.values())) < 2:
        raise PlanRejected("too few values to compare")
    builder.call(groups.chance.choice(tools), number, said(builder, measure))
    return builder


def by_count(groups: Groups) -> PlanBuilder:
    """Which department has the most employees? Which have more than five, or only one?"""
    if groups.chance.random() < 0.2:
        return persevering(_most_inside, groups)
    way = None
    if groups.chance.random() < BETWEEN_ALIKE and alike_ways(groups.sampler):
        group, way = alike_group(groups)
    else:
        group = groups.draw(least=4, of_a_kind=0.65)
    builder, number = group.start(groups)
    text, numbers = _counts(groups, builder, group, number, way)
    counts = sorted(numbers.values())
    if counts[-1] < 2:
        raise PlanRejected("a count of one")
    if groups.chance.random() < 0.45:
        tool = "argmin" if groups.chance.random() < 0.2 else "argmax"
        best = counts[0] if tool == "argmin" else counts[-1]
        if counts.count(best) > 1:
            raise PlanRejected("a superlative of many")
        builder.call(tool, number, text)
        return builder
    return _above_count(groups, builder, group, number, text, counts)


def _above_count(
    groups: Groups, builder: PlanBuilder, group: DrawnGroup, number: int, text: str, counts: Sequence[float]
) -> PlanBuilder:
    chance = groups.chance
    distinct = sorted({int(count) for count in counts if count})
    comparison = chance.choice((">", ">", ">", ">=", ">=", "<", "=", "="))
    if len(distinct) < 2:
        raise PlanRejected(NOTHING)
    low, high = chance.choice(list(pairwise(distinct)))
    bound = low if high <= FEW else int(round_between(low, high))  # more than 50, not more than 53
    if comparison == "=" and distinct[0] == 1 and chance.random() < 0.6:
        bound = 1  # only one
    if (comparison == "<" and bound < 2) or (comparison == "=" and bound > FEW):
        raise PlanRejected(NOTHING)
    kept = builder.call("filter", number, text, comparison, str(bound))
    check_changes(builder, kept, group.members)
    if chance.random() < 0.25:
        builder.call("count", kept)
    return builder


def _most_inside(groups: Groups) -> PlanBuilder:
    """Which maintainer has the most packages in a section? Counted are only those of the section."""
    group = groups.reached()
    ways = [way for way, share in groups.shares(group.members).items() if share > 0.6 and way.out]
    assert group.walk is not None
    ways = [way for way in ways if way in groups.sampler.to_things and way.relation != group.walk.ways[-1].relation]
    if len(group.members) < 4:
        raise PlanRejected("no group of the size wanted")
    builder, number = group.start(groups)
    way = groups.sampler.choose(sorted(ways))
    others = builder.call("tail_entities", number, way.relation)
    text = counting(reverse(way), number)
    expression = builder.say(text)
    counts = [float(builder.sets.values(name, expression)[0].text) for name in builder.members(others)]
    if len(counts) < 2 or max(counts) < 2 or counts.count(max(counts)) > 1:
        raise PlanRejected("a superlative of many")
    builder.call("argmax", others, text)
    return builder


def _counts(
    groups: Groups, builder: PlanBuilder, group: DrawnGroup, number: int, way: DirectedRelation | None = None
) -> tuple[str, dict[str, float]]:
    """A count for each member, as an expression, with what it is."""
    if len(group.members) > 2 * groups.sampler.settings.most_onward:
        raise PlanRejected("goes on from too many")
    way = way or groups.counted(group.members, have=0.5)
    if group.walk is not None and group.walk.ways[-1] == reverse(way):
        raise PlanRejected("comes back to where it was")
    text = counting(way)
    expression = builder.say(text)
    found = {name: float(builder.sets.values(name, expression)[0].text) for name in group.members}
    return text, found


# Paths and rows


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
    """All that X depends on, directly or not; how many there are; only the last ones."""
    return persevering(_repeated, groups)


def _repeated(groups: Groups) -> PlanBuilder:
    sampler = groups.sampler
    way = sampler.choose(alike_ways(sampler))
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
    drawn = groups.chance.random()
    if drawn < 0.3:
        builder.call("count", reached)
    elif drawn < 0.5:  # in the end
        builder.say(counting(way))
        last = builder.call("filter", reached, counting(way), "=", "0")
        check_changes(builder, last, builder.members(reached))
    return builder


def table(groups: Groups) -> PlanBuilder:
    """The people of a department with their email and phone; those who earn more than 5000; X and Y."""
    drawn = groups.chance.random()
    if drawn < 0.2:
        return persevering(_table_of_some, groups)
    if drawn < 0.35:
        return persevering(_table_of_two, groups)
    group = groups.draw(least=2, most=25, of_a_kind=0.35)
    if len(group.members) > 60:
        raise PlanRejected("too many answers")
    columns = _columns(groups, group.members, {way.relation for way in group.walk.ways} if group.walk else set())
    builder, number = group.start(groups)
    return _tabled(builder, number, columns)


def _table_of_some(groups: Groups) -> PlanBuilder:
    group = groups.valued(least=5, of_a_kind=0.7)
    measure = groups.measure(group.members)
    builder = _compared(groups, group, measure)
    kept = builder.members(len(builder.sets.made))
    if not 2 <= len(kept) <= 25:
        raise PlanRejected("too many answers")
    came = {measure.relation, *({way.relation for way in group.walk.ways} if group.walk else ())}
    return _tabled(builder, len(builder.sets.made), _columns(groups, kept, came))


def _table_of_two(groups: Groups) -> PlanBuilder:
    group = groups.draw(least=3, most=groups.sampler.settings.most_members)
    size = groups.chance.choice((2, 2, 3))
    names = named(groups, group.members, size)
    builder = PlanBuilder(groups.sampler.graph, names, groups.sampler.settings, topics_answer=True)
    columns = _columns(groups, names, set())
    number = builder.call("union", 1, 2)
    if size == 3:
        number = builder.call("union", number, 3)
    return _tabled(builder, number, columns)


def _columns(groups: Groups, members: Sequence[str], came: set[str]) -> list[str]:
    """What two or three columns of a table say of these."""
    schema = groups.sampler.schema.relations
    ways = [way for way, share in groups.shares(members).items() if share >= 0.7 and way.out]
    names = [way.relation for way in sorted(ways) if schema[way.relation].fan_out < 1.6]
    names = [name for name in names if name not in came and schema[name].tail_kinds.get(ID, 0.0) < 0.2]
    size = 3 if len(names) > 2 and groups.chance.random() < 0.4 else 2
    if len(names) < size:
        raise PlanRejected("too few columns")
    return [groups.measure_of(name).text for name in groups.chance.sample(names, size)]


def _tabled(builder: PlanBuilder, number: int, columns: Sequence[str]) -> PlanBuilder:
    for column in columns:
        builder.say(column)
    builder.call("table", number, *columns)
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
