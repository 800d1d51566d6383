"""Patterns about whether something is so: yes or no, what is not so, only and every, and what the graph does not say.

    verdict(groups).plan("verdict")              # Did X direct Y?
    negation(groups).plan("negation")            # Which countries are not in Europe?

Half of the verdicts are no: another thing of the same kind is asked about. What is not known is what many of a kind
have and one has not, or what nothing in the graph has. Used by `full_patterns`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kgwalk.demos.path_search import reverse
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

TRIES = 12
OWN_KIND = 0.75  # of what nothing in the graph has, the share that is asked of such things elsewhere


# Yes or no


def verdict(groups: Groups) -> PlanBuilder:
    """Is X in Y? Do X and Y share a director? Is X larger than Y? Does X have children?"""
    drawn = groups.chance.random()
    yes = groups.chance.random() < 0.5
    if groups.truths and drawn < 0.15:
        return _is_true(groups)
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
    builder = _not_related(groups) if drawn < 0.55 else _without(groups) if drawn < 0.9 else persevering(_none, groups)
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
    check_changes(builder, kept, group.members)
    return builder


def _without(groups: Groups) -> PlanBuilder:
    group = groups.draw()
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
    return _only(groups) if groups.chance.random() < 0.5 else persevering(_every, groups)


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
    ends = [end for name in group.members[:60] for end in _ends(groups, name, way)]
    topic = groups.chance.choice([end for end in ends if askable(end)] or [""])
    if not topic or topic in group.members or topic in group.topics:
        raise PlanRejected("no topic that can be named")
    builder, number = group.start(groups, [topic])
    text = forward(builder, way)
    kept = builder.call("only", number, text, len(builder.topics))
    some = [name for name in group.members if topic in _ends(groups, name, way)]
    check_changes(builder, kept, some)
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
