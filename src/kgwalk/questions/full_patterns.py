"""The patterns of the full walking language: for each, a function that draws one plan, or rejects the draw.

    FULL_DRAWS["group"](groups).plan("group")            # Which country has the most cities?

A draw is rejected unless its answer is unambiguous (no ties where one is asked for) and worth asking (a step that
changes nothing is no question). `wording/choices.py` and `wording/verdicts.py` have the words; `make` decides how many
of each pattern are wanted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from kgwalk.demos.path_search import reverse
from kgwalk.kg.times import parse_time
from kgwalk.questions.groups import Group, Groups, Measure
from kgwalk.questions.patterns import BOUNDS, combination
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
from kgwalk.questions.schema import ID, askable
from kgwalk.questions.wording.measures import round_between
from kgwalk.questions.wording.verdicts import LACKED
from kgwalk.types import UnknownName
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.values import difference, quotient, value_of

TRIES = 12
ONWARD = 0.15  # the share of superlatives with one more hop
OF_KIND_ALONE = 0.05  # the share of questions about a kind that only count it
FIRST_FEW = (2, 3, 3, 5, 5, 10)  # of a top list
NOTHING = "a step changes nothing"

FullDraw = Callable[[Groups], PlanBuilder]

# Values that are not added up: the sum of latitudes says nothing.
_NO_SUM = re.compile(
    r"latitude|longitude|year|rate|ratio|score|rating|percent|temperature|age\b|density|point|rank|number$|no$|"
    r"index|code|id$|magnitude|floor|speed|version",
    re.IGNORECASE,
)


# Over all of a kind


def of_a_kind(groups: Groups) -> PlanBuilder:
    """Which country has the largest population? Which languages are our packages written in?"""
    drawn = groups.chance.random()
    group = groups.of_kind()
    if drawn < OF_KIND_ALONE:
        builder, number = group.start(groups)
        builder.call("count", number)
        return builder
    if drawn < 0.2:
        return _reached_from(groups, group)
    if drawn < 0.3:
        return _typed(groups, group)
    if drawn < 0.6:
        return _superlative(groups, group)
    builder = _compared(groups, group)
    if groups.chance.random() < 0.3:
        builder.call("count", len(builder.sets.made))
    return builder


def _superlative(groups: Groups, group: Group) -> PlanBuilder:
    measure = groups.measure(group.members)
    builder, number = group.start(groups)
    numbers = groups.numbers(builder, group.members, measure.text)
    tool = groups.chance.choice(("argmax", "argmin"))
    best = (max if tool == "argmax" else min)(numbers.values())
    if sum(value == best for value in numbers.values()) > 1:
        raise PlanRejected("a superlative of many")
    chosen = builder.call(tool, number, _said(builder, measure))
    if groups.chance.random() < ONWARD:
        ways = [way for way in groups.sampler.around(builder.members(chosen)[0]) if way in groups.sampler.to_things]
        builder.hop(chosen, groups.sampler.choose([way for way in ways if way.relation != measure.relation]), 1,
                    keeps=True)  # fmt: skip
    return builder


def _compared(groups: Groups, group: Group) -> PlanBuilder:
    measure = groups.measure(group.members)
    builder, number = group.start(groups)
    values = sorted(set(groups.numbers(builder, group.members, measure.text).values()))
    bound = _bound(groups, values, measure.dates)
    kept = builder.call("filter", number, _said(builder, measure), groups.chance.choice(BOUNDS), bound)
    _changes(builder, kept, group.members)
    return builder


def _reached_from(groups: Groups, group: Group) -> PlanBuilder:
    """What a relation leads to from all of a kind."""
    ways = [way for way, share in groups.shares(group.members).items() if share > 0.3 and way in groups.sampler.to_things]
    builder, number = group.start(groups)
    if len(group.members) > groups.sampler.settings.most_members // 4:
        raise PlanRejected("goes on from too many")
    way = groups.sampler.choose(sorted(ways))
    reached = builder.call("tail_entities" if way.out else "head_entities", number, way.relation)
    if not 2 <= len(builder.members(reached)) <= len(group.members):
        raise PlanRejected(NOTHING)
    if groups.chance.random() < 0.3:
        builder.count(reached)
    return builder


def _typed(groups: Groups, group: Group) -> PlanBuilder:
    """Which of what is in X are cities? For relations that lead to several kinds."""
    name = groups.chance.choice(group.members)
    walk = groups.sampler.path_to(name, 1)
    assert group.kind is not None
    reached = Group((), group.kind, walk)
    builder, number = reached.start(groups)
    kept = builder.call("intersect", 2, number)
    _changes(builder, kept, builder.members(number))
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
        text = _said(builder, measure)
    tool = groups.chance.choice(("top", "top", "bottom"))
    nth = groups.chance.random() < 0.35
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
    measure = groups.measure(group.members)
    tools = ["least", "greatest"]
    if not measure.dates:
        tools += ["average", "average", "sum", "sum"] if not _NO_SUM.search(measure.relation) else ["average", "average"]
    builder, number = group.start(groups)
    numbers = groups.numbers(builder, group.members, measure.text)
    if len(set(numbers.values())) < 2:
        raise PlanRejected("too few values to compare")
    builder.call(groups.chance.choice(tools), number, _said(builder, measure))
    return builder


def by_count(groups: Groups) -> PlanBuilder:
    """Which department has the most employees? Which have more than five?"""
    group = groups.draw(least=4, of_a_kind=0.75)
    chance = groups.chance
    inside: Group | None = None
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
    bound = chance.choice(distinct[:-1] if comparison == ">" and len(distinct) > 1 else distinct)
    if comparison == "<" and bound < 2:
        raise PlanRejected(NOTHING)
    kept = builder.call("filter", number, text, comparison, str(bound))
    _changes(builder, kept, group.members)
    if chance.random() < 0.3:
        builder.call("count", kept)
    return builder


def _counts(groups: Groups, builder: PlanBuilder, group: Group, number: int, within: int = 0) -> tuple[str, dict[str, float]]:
    """A count for each member, as an expression, with what it is."""
    if len(group.members) > 2 * groups.sampler.settings.most_onward:
        raise PlanRejected("goes on from too many")
    way = groups.counted(group.members, have=0.2 if within else 0.5)
    if group.walk is not None and group.walk.ways[-1] == reverse(way):
        raise PlanRejected("comes back to where it was")
    text = _counting(way, within)
    expression = builder.say(text)
    found = {name: float(builder.sets.values(name, expression)[0].text) for name in group.members}
    return text, found


def _counting(way: DirectedRelation, within: int = 0) -> str:
    return f"count({'^' * (not way.out)}{way.relation}{f' in ${within}' if within else ''})"


# Two things


def which(groups: Groups) -> PlanBuilder:
    """Which is larger, X or Y? Who directed more films, X or Y?"""
    group = groups.draw(least=3, most=groups.sampler.settings.most_members)
    chance = groups.chance
    size = 3 if chance.random() < 0.15 else 2
    names = _named(groups, group.members, size)
    builder = PlanBuilder(groups.sampler.graph, names, groups.sampler.settings, topics_answer=True)
    if chance.random() < 0.25:
        way = groups.counted(group.members)
        text = _counting(way)
        expression = builder.say(text)
        numbers = {name: float(builder.sets.values(name, expression)[0].text) for name in names}
    else:
        measure = groups.measure(group.members)
        numbers = {name: _number(groups, builder, name, measure) for name in names}
        text = _said(builder, measure)
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
    (other,) = _named(groups, group.members, 1)
    if other in group.topics:
        raise PlanRejected("the same topic twice")
    builder, number = group.start(groups, [other])
    _number(groups, builder, other, measure)
    value = builder.call("tail_entities", len(builder.topics), _said(builder, measure))
    kept = builder.call("filter", number, measure.text, groups.chance.choice(("<", ">")), value)
    _changes(builder, kept, group.members)
    return builder


def arithmetic(groups: Groups) -> PlanBuilder:
    """How much larger is X than Y? How many times as many people live in X as in Y?"""
    group = groups.draw(least=3, most=groups.sampler.settings.most_members)
    measure = groups.measure(group.members)
    one, two = _named(groups, group.members, 2)
    builder = PlanBuilder(groups.sampler.graph, [one, two], groups.sampler.settings)
    if _number(groups, builder, one, measure) <= _number(groups, builder, two, measure):
        raise PlanRejected("the first is not the larger")
    first = builder.call("tail_entities", 1, _said(builder, measure))
    second = builder.call("tail_entities", 2, measure.text)
    divides = not measure.dates and not _NO_SUM.search(measure.relation) and groups.chance.random() < 0.35
    left, right = builder.members(first)[0], builder.members(second)[0]
    made = quotient(left, right) if divides else difference(left, right)
    if made is None or made in ("0", "1"):
        raise PlanRejected("no difference")
    builder.call("divide" if divides else "subtract", first, second)
    return builder


# Yes or no


def verdict(groups: Groups) -> PlanBuilder:
    """Is X in Y? Do X and Y share a director? Is X larger than Y? Does X have children?"""
    drawn = groups.chance.random()
    yes = groups.chance.random() < 0.5
    if drawn < 0.5:
        return _is_in(groups, yes)
    if drawn < 0.65:
        return _overlap(groups, yes)
    if drawn < 0.85:
        return _compare(groups)
    return _has_any(groups, yes)


def _is_in(groups: Groups, yes: bool) -> PlanBuilder:
    sampler, chance = groups.sampler, groups.chance
    walk = sampler.path(1 if chance.random() < 0.75 else 2, to_name=True)
    builder = PlanBuilder(sampler.graph, [walk.topic], sampler.settings)
    inside = builder.members(builder.follow(1, walk.ways))
    pool = list(inside) if yes else _others(groups, walk.ways[-1], inside)
    other = chance.choice([name for name in pool if askable(name) and name != walk.topic] or [""])
    if not other:
        raise PlanRejected("no topic that can be named")
    builder = PlanBuilder(sampler.graph, [walk.topic, other], sampler.settings)
    builder.call("is_in", 2, builder.follow(1, walk.ways))
    return builder


def _others(groups: Groups, way: DirectedRelation, inside: Sequence[str]) -> list[str]:
    """What the relation leads to from others."""
    sampler, known = groups.sampler, set(inside)
    found: list[str] = []
    for _ in range(TRIES):
        other = sampler.starts.draw(way, groups.chance, sampler.settings.known)
        found += sampler.graph.neighbors(other, way.relation, out=way.out, limit=5).names
    return [name for name in found if name not in known]


def _overlap(groups: Groups, yes: bool) -> PlanBuilder:
    sampler, chance = groups.sampler, groups.chance
    walk = sampler.path(1, to_name=True)
    (way,) = walk.ways
    if yes:
        near = sampler.graph.neighbors(walk.end, way.relation, out=not way.out, limit=20).names
        pool = [name for name in near if name != walk.topic and askable(name)]
    else:
        pool = [name for _ in range(TRIES) if askable(name := sampler.starts.draw(way, chance, sampler.settings.known))]
    if not pool:
        raise PlanRejected("no topic that can be named")
    builder = PlanBuilder(sampler.graph, [walk.topic, chance.choice(pool)], sampler.settings)
    one, two = (builder.call("tail_entities" if way.out else "head_entities", at, way.relation) for at in (1, 2))
    builder.call("overlap", one, two)
    return builder


def _compare(groups: Groups) -> PlanBuilder:
    group = groups.draw(least=3, most=groups.sampler.settings.most_members)
    measure = groups.measure(group.members)
    alone = groups.chance.random() < 0.4
    names = _named(groups, group.members, 2)
    builder = PlanBuilder(groups.sampler.graph, names[: 2 - alone], groups.sampler.settings)
    values = [_number(groups, builder, name, measure) for name in names]
    if values[0] == values[1]:
        raise PlanRejected("a tie in the order")
    first = builder.call("tail_entities", 1, _said(builder, measure))
    if alone:
        builder.call("compare", first, groups.chance.choice("<>"), _bound(groups, sorted(values), measure.dates))
    else:
        second = builder.call("tail_entities", 2, measure.text)
        builder.call("compare", first, groups.chance.choice("<>"), second)
    return builder


def _has_any(groups: Groups, yes: bool) -> PlanBuilder:
    name, way = _lacking(groups, has=yes)
    builder = PlanBuilder(groups.sampler.graph, [name], groups.sampler.settings, empty=True)
    reached = builder.call("tail_entities" if way.out else "head_entities", 1, way.relation)
    builder.call("compare", builder.call("count", reached), ">", "0")
    return builder


def _lacking(groups: Groups, *, has: bool = False, to_things: bool = True) -> tuple[str, DirectedRelation]:
    """A thing and a relation that many of its kind have, and it has not (or has)."""
    sampler = groups.sampler
    for _ in range(TRIES):
        name = sampler.starts.any_entity(groups.chance, sampler.settings.known, heads_only=True)
        if not askable(name):
            continue
        own = set(sampler.around(name))
        shares = groups.shares(groups.kin(name))
        turned = {reverse(way) for way in own}
        ways = [way for way, share in shares.items() if share >= 0.25 and (way in own) == has and way not in turned]
        ways = [way for way in ways if way in sampler.first_ways and (way in sampler.to_things or not to_things)]
        inverses = [sampler.inverses.of(way.relation) for way in ways]
        known = {way.relation for way in own}
        ways = [way for way, others in zip(ways, inverses, strict=True) if has or others.isdisjoint(known)]
        if ways:
            return name, sampler.choose(sorted(ways))
    raise PlanRejected("nothing that it lacks")


# What is not so, only so, always so


def negation(groups: Groups) -> PlanBuilder:
    """Countries that are not in Europe; that have no neighbour; none of whose languages is spoken in X."""
    drawn = groups.chance.random()
    builder = _not_related(groups) if drawn < 0.5 else _without(groups) if drawn < 0.8 else _none(groups)
    if groups.chance.random() < 0.25:
        builder.call("count", len(builder.sets.made))
    return builder


def _member_walk(groups: Groups, group: Group) -> tuple[str, DirectedRelation]:
    """A topic, and a relation that leads from it to some of a group."""
    name = groups.chance.choice(group.members)
    walk = groups.sampler.path_to(name, 1, fan=1.5)
    return walk.topic, walk.ways[0]


def _not_related(groups: Groups) -> PlanBuilder:
    group = groups.of_kind() if groups.chance.random() < 0.7 else groups.draw()
    topic, way = _member_walk(groups, group)
    if group.walk is not None and (topic in group.topics or group.walk.ways[-1] == way):
        raise PlanRejected("the same topic twice")
    builder, number = group.start(groups, [topic])
    reached = builder.call("tail_entities" if way.out else "head_entities", len(builder.topics), way.relation)
    kept = builder.call("minus", number, reached)
    _changes(builder, kept, group.members)
    return builder


def _without(groups: Groups) -> PlanBuilder:
    group = groups.draw()
    shares = groups.shares(group.members)
    ways = [way for way, share in shares.items() if 0.1 < share < 0.95 and way in groups.sampler.to_things]
    way = groups.sampler.choose(sorted(ways))
    builder, number = group.start(groups)
    builder.say(_counting(way))
    kept = builder.call("filter", number, _counting(way), "=", "0")
    _changes(builder, kept, group.members)
    return builder


def _none(groups: Groups) -> PlanBuilder:
    group, way, others = _linked(groups)
    assert others.walk is not None
    builder, number = group.start(groups, others.topics)
    inside = builder.follow(len(builder.topics), others.walk.ways)
    text = _forward(builder, way)
    kept = builder.call("none", number, text, inside)
    _changes(builder, kept, [name for name in group.members if builder.sets.values(name, builder.expressions[text])])
    return builder


def _linked(groups: Groups) -> tuple[Group, DirectedRelation, Group]:
    """A group, a relation from its members, and a set among what that leads to, reached from another topic."""
    group = groups.draw()
    way = groups.counted(group.members, least=1.0)
    ends = [end for name in group.members[:40] for end in _ends(groups, name, way)]
    if not ends:
        raise PlanRejected("no way to go on")
    walk = groups.sampler.path_to(groups.chance.choice(ends), 1)
    if walk.topic in group.members or walk.topic in group.topics or reverse(way) == walk.ways[0]:
        raise PlanRejected("comes back to where it was")
    builder = PlanBuilder(groups.sampler.graph, [walk.topic], groups.sampler.settings)
    return group, way, Group(builder.members(builder.follow(1, walk.ways)), None, walk)


def quantifier(groups: Groups) -> PlanBuilder:
    """Airlines that fly only from X; people who speak all languages of X."""
    if groups.chance.random() < 0.6:
        group = groups.draw()
        way = groups.counted(group.members, least=1.15)
        ends = [end for name in group.members[:60] for end in _ends(groups, name, way)]
        topic = groups.chance.choice([end for end in ends if askable(end)] or [""])
        if not topic or topic in group.members or topic in group.topics:
            raise PlanRejected("no topic that can be named")
        builder, number = group.start(groups, [topic])
        text = _forward(builder, way)
        kept = builder.call("only", number, text, len(builder.topics))
        some = [name for name in group.members if topic in _ends(groups, name, way)]
        _changes(builder, kept, some)
        return builder
    group, way, others = _linked(groups)
    if not 2 <= len(others.members) <= 6:
        raise PlanRejected("no group of the size wanted")
    assert others.walk is not None
    builder, number = group.start(groups, others.topics)
    inside = builder.follow(len(builder.topics), others.walk.ways)
    text = _forward(builder, way)
    kept = builder.call("every", number, text, inside)
    _changes(builder, kept, group.members)
    return builder


def _ends(groups: Groups, name: str, way: DirectedRelation) -> list[str]:
    try:
        return list(groups.sampler.graph.neighbors(name, way.relation, out=way.out, limit=200).names)
    except UnknownName:
        return []


def zero(groups: Groups) -> PlanBuilder:
    """How many films did X direct that star Y? None."""
    sampler = groups.sampler
    for _ in range(TRIES):
        one = sampler.path(1, to_name=True)
        near = combination("intersect", sampler, 1)
        way = DirectedRelation(str(near.steps[-2].args[1]), near.steps[-2].tool == "tail_entities")
        topic = near.topics[-1]
        if topic != one.topic and sampler.alike(way, one.ways[0]) and way != one.ways[0]:
            break
    else:
        raise PlanRejected("no two sets of one kind")
    builder = PlanBuilder(sampler.graph, [one.topic, topic], sampler.settings, empty=True)
    both = builder.call("intersect", builder.follow(1, one.ways), builder.follow(2, [way]))
    if builder.members(both):
        raise PlanRejected("there are some")
    builder.call("count", both)
    return builder


# Paths, rows, times


def behind(groups: Groups) -> PlanBuilder:
    """How much does X cost, where the price is a node? In which currency?"""
    nodes = groups.value_nodes
    if not nodes:
        raise PlanRejected("no values behind nodes")
    relation = groups.sampler.choose([DirectedRelation(name, True) for name in sorted(nodes)]).relation
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
    ways = [way for way in sampler.first_ways if way in sampler.to_things and len(sampler.starts.both(way.relation)) > 2]
    ways = [way for way in ways if way.relation not in sampler.inverses.of(way.relation)]
    way = sampler.choose(ways)
    topic = sampler.topic(way)
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
    sampler, chance = groups.sampler, groups.chance
    if not sampler.schema.timed:
        raise PlanRejected("no facts of several times")
    way = sampler.choose(sampler.first_forth)
    for _ in range(TRIES):
        topic = sampler.topic(way)
        found = sampler.graph.neighbors(topic, way.relation)
        pairs = [(name, time) for name, times in zip(found.names, found.times or [], strict=True) for time in times if time]
        if len(pairs) > 1:
            break
    else:
        raise PlanRejected("no facts of several times")
    drawn = chance.random()
    if drawn < 0.35:
        name = chance.choice([name for name, _ in pairs])
        if not askable(name) or sum(other == name for other, _ in pairs) > 1:
            raise PlanRejected("no topic that can be named")
        builder = PlanBuilder(sampler.graph, [topic, name], sampler.settings)
        builder.call("when", 1, _forward(builder, way), 2)
        return builder
    builder = PlanBuilder(sampler.graph, [topic], sampler.settings)
    text = _forward(builder, way)
    starts = sorted({parse_time(time)[0] for _, time in pairs})
    if len(starts) < 2:
        raise PlanRejected("no facts of several times")
    if drawn < 0.7:
        tool = chance.choice(("earliest", "latest"))
        best = starts[0] if tool == "earliest" else starts[-1]
        if sum(parse_time(time)[0] == best for _, time in pairs) > 1:
            raise PlanRejected("a superlative of many")
        builder.call(tool, 1, text)
        return builder
    year = str(int(chance.choice([time for _, time in pairs]).partition("-")[0].partition("..")[0] or 0))
    if year == "0" or parse_time(year)[0] in starts:
        raise PlanRejected("a date inside the year it is compared with")
    builder.call(chance.choice(("before", "after")), 1, text, year)
    return builder


# What the graph does not say


def unanswerable(groups: Groups) -> PlanBuilder:
    """What many of its kind have and it has not; or what nothing in the graph has."""
    sampler = groups.sampler
    if groups.chance.random() < 0.6:
        name, way = _lacking(groups, to_things=False)
        if not way.out and groups.chance.random() < 0.7:  # "which films did X direct?" is better answered by none
            raise PlanRejected("nothing that it lacks")
        builder = PlanBuilder(sampler.graph, [name], sampler.settings, topics_answer=True)
        builder.asked = way
        return builder
    name = sampler.topic(sampler.choose(sampler.first_ways))
    words = " ".join(sampler.schema.relations).lower()
    free = [noun for noun in LACKED if not any(word in words for word in LACKED[noun])]
    if not free:
        raise PlanRejected("nothing that it lacks")
    builder = PlanBuilder(sampler.graph, [name], sampler.settings, topics_answer=True)
    builder.meant = groups.chance.choice(free)
    return builder


# Helpers


def _said(builder: PlanBuilder, measure: Measure) -> str:
    """The measure's expression, remembered for the wording where it is no plain relation."""
    if measure.text != measure.relation:
        builder.say(measure.text)
    return measure.text


def _forward(builder: PlanBuilder, way: DirectedRelation) -> str:
    text = way.relation if way.out else f"^{way.relation}"
    builder.say(text)
    return text


def _named(groups: Groups, members: Sequence[str], size: int) -> list[str]:
    names = [name for name in members if askable(name)]
    if len(names) < size:
        raise PlanRejected("no topic that can be named")
    return groups.chance.sample(names, size)


def _number(groups: Groups, builder: PlanBuilder, name: str, measure: Measure) -> float:
    found = groups.value(builder, name, measure.text)
    if found is None:
        raise PlanRejected("too few values to compare")
    value = value_of(found)
    assert value is not None
    return value.number


def _bound(groups: Groups, values: Sequence[float], dates: bool) -> str:
    if len(values) < 2:
        raise PlanRejected("too few values to compare")
    bound = round_between(*groups.chance.choice(list(pairwise(values))), year=dates)
    if dates and any(int(value) == int(bound) != value for value in values):
        raise PlanRejected("a date inside the year it is compared with")
    return bound


def _changes(builder: PlanBuilder, kept: int, members: Sequence[str]) -> None:
    """Rejects a choice that keeps all or none."""
    if not 0 < len(builder.members(kept)) < len(members):
        raise PlanRejected(NOTHING)


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
