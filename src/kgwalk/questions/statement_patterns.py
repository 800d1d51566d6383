"""Patterns about whether something is so: yes or no, what is not so, only and every, when it is so, and what the graph
does not say.

    verdict(groups).plan("verdict")              # Did X direct Y?
    negation(groups).plan("negation")            # Which countries are not in Europe?

Half of the verdicts are no: another thing of the same kind is asked about. What is not known is what many of a kind
have and one has not, or what nothing in the graph has. Used by `full_patterns`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from kgwalk.demos.path_search import reverse
from kgwalk.kg.times import parse_time
from kgwalk.questions.drawing import FORWARDS
from kgwalk.questions.groups import (
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
from kgwalk.questions.patterns import combination
from kgwalk.questions.plan import PlanBuilder, PlanRejected
from kgwalk.questions.schema import askable
from kgwalk.questions.wording.verdicts import LACKED
from kgwalk.types import UnknownName
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.values import DAYS_A_YEAR

TRIES = 12
_TODAY = 54.9 * DAYS_A_YEAR  # days after 1970, about the end of 2024: the last year that a question names
OWN_KIND = 0.75  # of what nothing in the graph has, the share that is asked of such things elsewhere


# Yes or no


def verdict(groups: Groups) -> PlanBuilder:
    """Is X in Y? Do X and Y share a director? Is X larger than Y? Does X have children?"""
    drawn = groups.chance.random()
    yes = groups.chance.random() < 0.5
    if groups.truths and drawn < 0.15:
        return _is_true(groups)
    if drawn < 0.45:
        return _is_in(groups, yes)
    if drawn < 0.5:
        return persevering(_are_both_in, groups)
    if drawn < 0.65:
        return _overlap(groups, yes)
    if drawn < 0.85:
        return _compare(groups)
    return _has_any(groups, yes)


def _is_in(groups: Groups, yes: bool) -> PlanBuilder:
    sampler, chance = groups.sampler, groups.chance
    walk = sampler.path(1 if chance.random() < 0.75 else 2, to_name=True)
    if any(sampler.schema.relations[way.relation].codes for way in walk.ways):
        raise PlanRejected("an answer is an id")
    builder = PlanBuilder(sampler.graph, [walk.topic], sampler.settings)
    inside = builder.members(builder.follow(1, walk.ways))
    pool = list(inside) if yes else _others(groups, walk.ways[-1], inside)
    other = chance.choice([name for name in pool if askable(name) and name != walk.topic] or [""])
    if not other:
        raise PlanRejected("no topic that can be named")
    builder = PlanBuilder(sampler.graph, [walk.topic, other], sampler.settings)
    builder.call("is_in", 2, builder.follow(1, walk.ways))
    return builder


def _are_both_in(groups: Groups) -> PlanBuilder:
    """Is German official in Belgium and Austria?"""
    walk = groups.sampler.path(1, to_name=True)
    builder = PlanBuilder(groups.sampler.graph, [walk.topic], groups.sampler.settings)
    inside = [name for name in builder.members(builder.follow(1, walk.ways)) if askable(name) and name != walk.topic]
    others = [name for name in _others(groups, walk.ways[-1], inside) if askable(name) and name != walk.topic]
    pool = inside if groups.chance.random() < 0.5 else [*inside[:1], *others[:1]]
    if len(set(pool)) < 2 or any(groups.sampler.schema.relations[way.relation].codes for way in walk.ways):
        raise PlanRejected("no topic that can be named")
    names = groups.chance.sample(sorted(set(pool)), 2)
    builder = PlanBuilder(groups.sampler.graph, [walk.topic, *names], groups.sampler.settings)
    reached = builder.follow(1, walk.ways)
    builder.call("is_in", builder.call("union", 2, 3), reached)
    return builder


def _is_true(groups: Groups) -> PlanBuilder:
    """Is X radioactive? Where that is true or false."""
    relation = groups.chance.choice(groups.truths)
    topic = groups.sampler.topic(DirectedRelation(relation, True))
    builder = PlanBuilder(groups.sampler.graph, [topic], groups.sampler.settings)
    text = forward(builder, DirectedRelation(relation, True))
    builder.call("compare", builder.call("tail_entities", 1, text), "=", groups.truth_of(relation))
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
    names = named(groups, group.members, 2)
    builder = PlanBuilder(groups.sampler.graph, names[: 2 - alone], groups.sampler.settings)
    values = [number_of_value(groups, builder, name, measure) for name in names]
    if values[0] == values[1]:
        raise PlanRejected("a tie in the order")
    first = builder.call("tail_entities", 1, said(builder, measure))
    if alone:
        builder.call("compare", first, groups.chance.choice("<>"), bound_between(groups, sorted(values), measure.dates))
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
        own = groups.ways_of(name)
        shares = groups.shares(groups.kin(name))
        turned = {reverse(way) for way in own}
        # what all of its kind have is no question; nor is what the same relation says of it the other way
        ways = [way for way, share in shares.items() if 0.25 <= share <= (0.9 if has else 1) and way not in turned]
        ways = [way for way in ways if (way in own) == has]
        ways = [way for way in ways if way in sampler.first_ways or way.relation in groups.value_nodes]
        ways = [way for way in ways if way not in sampler.valued or not to_things]
        inverses = [sampler.inverses.of(way.relation) for way in ways]
        known = {way.relation for way in own}
        ways = [way for way, others in zip(ways, inverses, strict=True) if has or others.isdisjoint(known)]
        if ways:
            return name, groups.chance.choice(sorted(ways))
    raise PlanRejected("nothing that it lacks")


# What is not so, only so, always so


def negation(groups: Groups) -> PlanBuilder:
    """Countries that are not in Europe; that have no neighbour; none of whose languages is spoken in X."""
    drawn = groups.chance.random()
    if drawn < 0.2:
        builder = _not_related(groups)
    elif drawn < 0.55:
        builder = persevering(_not_to, groups)
    elif drawn < 0.9:
        builder = persevering(_without, groups)
    else:
        builder = persevering(_none, groups)
    if groups.chance.random() < 0.2:
        builder.call("count", len(builder.sets.made))
    return builder


def _member_walk(groups: Groups, group: DrawnGroup) -> tuple[str, DirectedRelation]:
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
    check_changes(builder, kept, group.members)
    return builder


def _not_to(groups: Groups) -> PlanBuilder:
    """Airlines that do not fly from X; packages of a section without X; suppliers that are not from X or Y."""
    group = groups.draw(of_a_kind=0.35)
    shares = groups.shares(group.members)
    ways = sorted(way for way, share in shares.items() if share > 0.5 and way in groups.sampler.to_things)
    way = groups.sampler.choose(ways)
    if group.walk is not None and way in (group.walk.ways[-1], reverse(group.walk.ways[-1])):
        raise PlanRejected("comes back to where it was")
    ends = [end for name in group.members[:60] for end in _ends(groups, name, way)]
    pool = sorted({end for end in ends if askable(end)}.difference(group.members, group.topics))
    size = 2 if len(pool) > 4 and groups.chance.random() < 0.25 else 1
    if len(pool) < 2:
        raise PlanRejected("no topic that can be named")
    names = groups.chance.sample(pool, size)
    builder, number = group.start(groups, names)
    last = len(builder.topics)
    others = builder.call("union", last - 1, last) if size == 2 else last
    kept = builder.call("none", number, forward(builder, way), others)
    check_changes(builder, kept, group.members)
    return builder


def _without(groups: Groups) -> PlanBuilder:
    group = groups.draw(of_a_kind=0.35)
    shares = groups.shares(group.members)
    ways = sorted(way for way, share in shares.items() if 0.1 < share < 0.95 and way not in groups.sampler.valued)
    if not ways:
        raise PlanRejected("no way to go on")
    way = groups.chance.choice(ways)
    builder, number = group.start(groups)
    builder.say(counting(way))
    kept = builder.call("filter", number, counting(way), "=", "0")
    check_changes(builder, kept, group.members)
    return builder


def _none(groups: Groups) -> PlanBuilder:
    group, way, others = _linked(groups)
    assert others.walk is not None
    if len(others.members) < 2:
        raise PlanRejected("no group of the size wanted")
    builder, number = group.start(groups, others.topics)
    inside = builder.follow(len(builder.topics), others.walk.ways)
    text = forward(builder, way)
    kept = builder.call("none", number, text, inside)
    check_changes(
        builder, kept, [name for name in group.members if builder.sets.values(name, builder.expressions[text])]
    )
    return builder


def _linked(groups: Groups) -> tuple[DrawnGroup, DirectedRelation, DrawnGroup]:
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
    return group, way, DrawnGroup(builder.members(builder.follow(1, walk.ways)), None, walk)


def quantifier(groups: Groups) -> PlanBuilder:
    """Airlines that fly only from X; people who speak all languages of X."""
    drawn = groups.chance.random()
    if groups.truths and drawn < 0.3:
        return persevering(_only_true, groups)
    return persevering(_only, groups) if drawn < 0.75 else persevering(_every, groups)


def persevering(draw: Callable[[Groups], PlanBuilder], groups: Groups) -> PlanBuilder:
    """A draw that is rarely a good one, tried several times, so that it has its share."""
    for _ in range(TRIES - 1):
        try:
            return draw(groups)
        except PlanRejected:
            continue
    return draw(groups)


def _only(groups: Groups) -> PlanBuilder:
    group = groups.draw()
    way = groups.counted(group.members, least=1.15)
    ends = [_ends(groups, name, way) for name in group.members[:60]]
    # What is the one end of some and one of several of others: to ask it of all members takes long, and most draw none
    alone = {some[0] for some in ends if len(some) == 1 and askable(some[0])}
    alone &= {end for some in ends if len(some) > 1 for end in some}
    topic = groups.chance.choice(sorted(alone.difference(group.members, group.topics)) or [""])
    if not topic:
        raise PlanRejected("no topic that can be named")
    builder, number = group.start(groups, [topic])
    text = forward(builder, way)
    kept = builder.call("only", number, text, len(builder.topics))
    some = [name for name in group.members if topic in _ends(groups, name, way)]
    check_changes(builder, kept, some)
    return builder


def _only_true(groups: Groups) -> PlanBuilder:
    """Which series have only radioactive elements?"""
    sampler, relation = groups.sampler, groups.chance.choice(groups.truths)
    member = sampler.starts.draw(DirectedRelation(relation, True), groups.chance, sampler.settings.known)
    way = reverse(sampler.choose([one for one in sampler.around(member) if one in sampler.to_things]))
    group = groups.of_kind()
    if groups.shares(group.members).get(way, 0.0) < 0.5 or sampler.fan(way) < 1.3:
        raise PlanRejected("no way to go on")
    builder, number = group.start(groups)
    text = forward(builder, way)
    reached = builder.call("tail_entities", number, text)
    builder.say(relation)
    true = builder.call("filter", reached, relation, "=", groups.truth_of(relation))
    kept = builder.call("only", number, text, true)
    check_changes(builder, kept, group.members)
    return builder


def _every(groups: Groups) -> PlanBuilder:
    group, way, others = _linked(groups)
    if not 2 <= len(others.members) <= 6:
        raise PlanRejected("no group of the size wanted")
    assert others.walk is not None
    builder, number = group.start(groups, others.topics)
    inside = builder.follow(len(builder.topics), others.walk.ways)
    text = forward(builder, way)
    kept = builder.call("every", number, text, inside)
    check_changes(builder, kept, group.members)
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
        codes = any(sampler.schema.relations[each.relation].codes for each in (way, one.ways[0]))
        if topic != one.topic and sampler.alike(way, one.ways[0]) and way != one.ways[0] and not codes:
            break
    else:
        raise PlanRejected("no two sets of one kind")
    builder = PlanBuilder(sampler.graph, [one.topic, topic], sampler.settings, empty=True)
    both = builder.call("intersect", builder.follow(1, one.ways), builder.follow(2, [way]))
    if builder.members(both):
        raise PlanRejected("there are some")
    builder.call("count", both)
    return builder


# When it is so


def dated(groups: Groups) -> PlanBuilder:
    """When did X play for Y? For whom first, last, before 1990?"""
    if not groups.sampler.schema.timed:
        raise PlanRejected("no facts of several times")
    (draw,) = groups.chance.choices(list(_DATED), list(_DATED.values()))
    return persevering(draw, groups)


def _dated_facts(groups: Groups) -> tuple[str, DirectedRelation, list[tuple[str, str]]]:
    """A topic, a relation, and what that leads to with the time of each fact."""
    sampler = groups.sampler
    way = sampler.choose(groups.timed_ways)
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
    reached = _hop_now(builder, 1, way)
    if len(holding) > 1 and groups.chance.random() < 0.5:
        builder.call("count", reached)
    return builder


def _hop_now(builder: PlanBuilder, source: int, way: DirectedRelation) -> int:
    text = f"{way.relation}@now"
    builder.say(text)
    return builder.call("tail_entities" if way.out else "head_entities", source, text)


def _now_and_on(groups: Groups) -> PlanBuilder:
    """The languages of the countries that use X today; the currency today where they speak X."""
    sampler = groups.sampler
    topic, way, facts = _dated_facts(groups)
    holding = {name for name, time in facts if time.endswith("..")}
    if not holding or len(holding) == len({name for name, _ in facts}):
        raise PlanRejected("no facts of several times")
    if groups.chance.random() < 0.5:
        builder = PlanBuilder(sampler.graph, [topic], sampler.settings)
        reached = _hop_now(builder, 1, way)
        ways = sampler.onward(groups.chance.choice(sorted(holding)), way)
        builder.hop(reached, sampler.choose([one for one in ways if one in sampler.to_things]), 1)
        return builder
    walk = sampler.path_to(topic, 1)
    if walk.ways[0].relation == way.relation:
        raise PlanRejected("comes back to where it was")
    builder = PlanBuilder(sampler.graph, [walk.topic], sampler.settings)
    _hop_now(builder, builder.follow(1, walk.ways), way)
    return builder


def _since(groups: Groups) -> PlanBuilder:
    """Since when has X had Y? Where that is so until today."""
    return _bounded(groups, r".*\.\.", "start", "least")


def _until(groups: Groups) -> PlanBuilder:
    """Until when did X have Y?"""
    return _bounded(groups, r".+\.\..+", "end", "greatest")


def _bounded(groups: Groups, span: str, bound: str, of_several: str) -> PlanBuilder:
    """When a fact began or ended, of those whose time looks like `span`: start(r in $2), and the least of these."""
    topic, way, facts = _dated_facts(groups)
    names = [name for name, time in facts if re.fullmatch(span, time) and askable(name) and name != topic]
    name = groups.chance.choice(names or [""])
    if not name or sum(other == name for other, _ in facts) > 1:
        raise PlanRejected("no topic that can be named")
    builder = PlanBuilder(groups.sampler.graph, [topic, name], groups.sampler.settings)
    text = f"{bound}({'^' * (not way.out)}{way.relation} in $2)"
    builder.say(text)
    builder.call(of_several, 1, text)
    return builder


def _in_year(groups: Groups) -> PlanBuilder:
    """Who was the mayor of X in 2012? Where there were others before or after."""
    topic, way, facts = _dated_facts(groups)
    spans = [(name, *parse_time(time)) for name, time in facts]
    if len({name for name, *_ in spans}) < 2:
        raise PlanRejected("no facts of several times")
    _, start, end = groups.chance.choice(spans)
    first, last = (int(1970 + days / DAYS_A_YEAR) for days in (start, min(end, _TODAY)))
    year = str(groups.chance.randint(first, max(first, last)))
    builder = PlanBuilder(groups.sampler.graph, [topic], groups.sampler.settings)
    reached = builder.call("between", 1, forward(builder, way), year, year)
    check_changes(builder, reached, sorted({name for name, *_ in spans}))
    return builder


def _earlier(groups: Groups) -> PlanBuilder:
    """Who had X earlier, Y or Z?"""
    topic, way, facts = _dated_facts(groups)
    times = dict(facts)
    names = [name for name in times if askable(name) and name != topic and sum(one == name for one, _ in facts) == 1]
    if len(names) < 2:
        raise PlanRejected("no topic that can be named")
    one, two = groups.chance.sample(names, 2)
    if parse_time(times[one])[0] == parse_time(times[two])[0]:
        raise PlanRejected("a tie in the order")
    builder = PlanBuilder(groups.sampler.graph, [topic, one, two], groups.sampler.settings, topics_answer=True)
    text = f"start({'^' * way.out}{way.relation} in $1)"
    builder.say(text)
    builder.call(groups.chance.choice(("argmin", "argmin", "argmax")), builder.call("union", 2, 3), text)
    return builder


_DATED = {_when: 2, _first_or_last: 4, _before_or_after: 3, _now: 5, _now_and_on: 4, _since: 5, _until: 3}
_DATED |= {_in_year: 4, _earlier: 2}


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
    near = groups.absent(name, near=True) if groups.chance.random() < 0.5 else []
    if near:
        builder = PlanBuilder(sampler.graph, [name], sampler.settings, topics_answer=True)
        builder.meant = groups.chance.choice(near)
        return builder
    absent = groups.absent(name)
    if absent and groups.chance.random() < OWN_KIND:
        builder = PlanBuilder(sampler.graph, [name], sampler.settings, topics_answer=True)
        builder.meant = groups.chance.choice(absent)
        return builder
    words = " ".join(sampler.schema.relations).lower()
    free = [noun for noun in LACKED if not any(word in words for word in LACKED[noun])]
    if not free:
        raise PlanRejected("nothing that it lacks")
    builder = PlanBuilder(sampler.graph, [name], sampler.settings, topics_answer=True)
    builder.meant = groups.chance.choice(free)
    return builder
