"""The patterns of questions: for each, a function that draws one plan of so many hops, or rejects the draw.

    DRAWS["intersection"](sampler, 2).plan("intersection")

A question with two conditions is drawn from its answer: a walk to some entity, then another walk that ends there too,
so that both have it in common. `make` decides how many of each pattern are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from kgwalk.demos.route import CHOICES
from kgwalk.questions.drawing import TRIES, SampledWalk, WalkSampler
from kgwalk.questions.pair_patterns import meeting
from kgwalk.questions.plan import (
    CHAIN,
    COMPARISON,
    COUNT,
    DIFFERENCE,
    INTERSECTION,
    SUPERLATIVE,
    TIME,
    UNION,
    PlanBuilder,
    PlanRejected,
)
from kgwalk.questions.schema import Relation
from kgwalk.questions.wording.measures import round_between
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.values import number_of

LEAST_FAN = 1.5  # entities that the last hop leads to on average, if one of them is to be chosen
ONWARD = 0.3  # the share of two-hop questions whose last hop comes after the choice or combination
AT_NODES = 0.6  # the share of time questions of two hops about the times of nameless nodes, if there are some
BOUNDS = ("<", ">", "<", ">", "<=", ">=")
THREE = 0.2  # the share of combinations of the full language with a third condition
MEETING = 0.3  # the share of intersections of two hops, in the full language, that ask what a row of two things says
COUNTED_BOTH = 0.3  # the share of counts that count an intersection

Draw = Callable[[WalkSampler, int], PlanBuilder]


def chain(sampler: WalkSampler, hops: int) -> PlanBuilder:
    """Who directed X? Where was the director of X born?"""
    path = sampler.path(hops, turns=True)
    builder = PlanBuilder(sampler.graph, [path.topic], sampler.settings)
    builder.follow(1, path.ways, keeps=path.keeps, again=path.again)
    return builder


def combination(tool: str, sampler: WalkSampler, hops: int) -> PlanBuilder:
    """Which films were directed by X and star Y? With minus: directed by X, without Y. Some have one more hop."""
    full = sampler.settings.language == "full"
    if tool == "intersect" and hops == 2 and full and sampler.into_rows and sampler.chance.random() < MEETING:
        return meeting(sampler)
    onward = hops > 2 or (hops == 2 and sampler.chance.random() < ONWARD)
    long = hops - onward
    first = sampler.path(long, to_name=True)
    second = sampler.path_to(first.end, sampler.chance.randint(1, min(long, 2)), avoid=first.topic)
    if long == 1 and not onward and full and sampler.chance.random() < THREE:
        return _three(tool, sampler, first, second)
    builder = PlanBuilder(sampler.graph, [first.topic, second.topic], sampler.settings)
    number = builder.combine(tool, builder.follow(1, first.ways), builder.follow(2, second.ways))
    if onward:
        _onward(sampler, builder, number, first.ways[-1])
    return builder


def _three(tool: str, sampler: WalkSampler, first: SampledWalk, second: SampledWalk) -> PlanBuilder:
    """Programs written in X for Y with the role Z; or without Z: two conditions, then a third."""
    for _ in range(TRIES):
        third = sampler.path_to(first.end, 1, avoid=first.topic)
        if tool == "minus":  # what the third leads to is taken away, and the end of the first is not there
            third = SampledWalk(third.ways, (sampler.topic(third.ways[0]), first.end))
        if third.topic not in (first.topic, second.topic):
            break
    builder = PlanBuilder(sampler.graph, [first.topic, second.topic, third.topic], sampler.settings)
    both = builder.combine("intersect", builder.follow(1, first.ways), builder.follow(2, second.ways))
    taken = builder.follow(3, third.ways)
    number = builder.call(tool, both, taken)  # it may be that two conditions are enough: who asks does not know
    if len(builder.members(number)) in (0, len(builder.members(taken))):
        raise PlanRejected("a step changes nothing")
    return builder


def union(sampler: WalkSampler, hops: int) -> PlanBuilder:
    """Films by X or Y (the same relations from two topics), or who wrote or directed X (two relations of one topic)."""
    first = sampler.path(hops)
    if sampler.settings.language == "full" and sampler.chance.random() < 0.75:
        return _either(sampler, first.topic, first.ways)
    if sampler.chance.random() < 0.5:
        other = sampler.topic(first.ways[0])
        builder = PlanBuilder(sampler.graph, [first.topic, other], sampler.settings)
        builder.combine("union", builder.follow(1, first.ways), builder.follow(2, first.ways))
        return builder
    last = first.ways[-1]
    around = [way for way in sampler.around(first.entities[-2]) if way != last]
    second = sampler.choose([way for way in around if sampler.alike(way, last)])
    builder = PlanBuilder(sampler.graph, [first.topic], sampler.settings)
    before = builder.follow(1, first.ways[:-1])
    builder.combine("union", builder.hop(before, last, 1), builder.hop(before, second, 1))
    return builder


def _either(sampler: WalkSampler, topic: str, ways: Sequence[DirectedRelation]) -> PlanBuilder:
    """Films by X, Y or Z: the topics are joined first, then followed together."""
    size = 3 if sampler.chance.random() < 0.3 else 2
    topics = [topic, *(sampler.topic(ways[0]) for _ in range(size - 1))]
    alone = PlanBuilder(sampler.graph, [topic], sampler.settings)
    first = set(alone.members(alone.follow(1, ways)))
    builder = PlanBuilder(sampler.graph, topics, sampler.settings)
    number = builder.call("union", 1, 2)
    if size == 3:
        number = builder.call("union", number, 3)
    if set(builder.members(builder.follow(number, ways))) <= first:
        raise PlanRejected("a step changes nothing")
    return builder


def count(sampler: WalkSampler, hops: int) -> PlanBuilder:
    """How many films did X direct?"""
    both = sampler.chance.random() < COUNTED_BOTH
    builder = combination("intersect", sampler, hops) if both else chain(sampler, hops)
    builder.count(len(builder.sets.made))
    return builder


def superlative(sampler: WalkSampler, hops: int) -> PlanBuilder:
    """Which neighbour of X has the largest population? Some have one more hop."""
    chosen, onward = _measure(sampler, hops)
    builder, relation, path = _valued_set(sampler, chosen, hops - onward)
    number = builder.extreme(sampler.chance.choice(("argmax", "argmin")), len(builder.sets.made), relation.name)
    if onward:
        _onward(sampler, builder, number, path.ways[-1])
    return builder


def comparison(sampler: WalkSampler, hops: int) -> PlanBuilder:
    """Which neighbours of X have a population above five million? Some have one more hop."""
    chosen, onward = _measure(sampler, hops)
    builder, relation, path = _valued_set(sampler, chosen, hops - onward)
    last = len(builder.sets.made)
    values = _values(builder, last, relation)
    years = relation.dates > relation.numbers
    bound = round_between(*sampler.chance.choice(list(pairwise(values))), year=years)
    if years and any(int(value) == int(bound) != value for value in values):
        raise PlanRejected("a date inside the year it is compared with")  # is May 1995 after 1995?
    number = builder.filter(last, relation.name, sampler.chance.choice(BOUNDS), bound)
    if onward:
        _onward(sampler, builder, number, path.ways[-1])
    return builder


def time(sampler: WalkSampler, hops: int) -> PlanBuilder:
    """Whom did X visit in May 2014? Where facts have no dates but things do: which of X's films came out in 1999?"""
    at_nodes, of_things = sampler.dated_nodes, sampler.dated_things
    if at_nodes and hops > 1 and sampler.chance.random() < AT_NODES:
        return _held_in(sampler, sampler.choose(at_nodes))
    if sampler.schema.timed and (not of_things or sampler.chance.random() < 0.8):
        return _within(sampler, hops)
    builder, relation, _ = _valued_set(sampler, sampler.choose(of_things), hops)
    last = len(builder.sets.made)
    years = sorted({int(value) for value in _values(builder, last, relation)})
    first = sampler.chance.choice(years)
    later = [year for year in years if year > first]
    if not later or sampler.chance.random() < 0.5:
        return _of_year(builder, last, relation, first)
    builder.within(last, (relation.name, str(first)), (relation.name, str(sampler.chance.choice(later) + 1)))
    return builder


def _of_year(builder: PlanBuilder, number: int, relation: Relation, year: int) -> PlanBuilder:
    """Members of one year: dates within it, or plain years equal to it."""
    if all(len(value) <= 4 for value in relation.sample_tails):
        builder.filter(number, relation.name, "=", str(year))
    else:
        builder.within(number, (relation.name, str(year)), (relation.name, str(year + 1)))
    return builder


def _held_in(sampler: WalkSampler, dated: DirectedRelation) -> PlanBuilder:
    """Who governed X in 2009? The dates are those of nameless nodes: a start and an end, or one date."""
    chance, graph = sampler.chance, sampler.graph
    node = sampler.starts.draw(dated, chance, sampler.settings.known)
    path = sampler.path_to(node, 1)
    builder = PlanBuilder(graph, [path.topic], sampler.settings)
    nodes = builder.follow(1, path.ways)
    relations = [way.relation for way in sampler.around(node) if way in sampler.at_nodes and way in sampler.dated]
    found = [(number_of(graph.neighbors(node, name).names[0]), name) for name in relations]
    dates = sorted((date, name) for date, name in found if date is not None)
    if not dates:
        raise PlanRejected("too few values to compare")
    (start, began), (end, ended) = dates[0], dates[-1]
    year = chance.randint(int(start), int(end))
    # it had ended no earlier than that year, and begun before the next
    number = builder.within(nodes, (ended, str(year)), (began, str(year + 1)))
    _onward(sampler, builder, number, path.ways[-1])
    return builder


def _within(sampler: WalkSampler, hops: int) -> PlanBuilder:
    """A hop by facts of a certain time, as the first or last of the hops."""
    chance = sampler.chance
    relation = sampler.choose(sampler.first_forth)
    for _ in range(TRIES):
        source = sampler.topic(relation)
        found = sampler.graph.neighbors(source, relation.relation)
        dates = [date for times in found.times or [] for date in times]
        if dates and found.total > 1:
            break
    else:
        raise PlanRejected("no facts of several times")
    first, last = _window(sampler, chance.choice(dates), dates)
    before = sampler.path_to(source, hops - 1) if hops > 1 and chance.random() < 0.5 else SampledWalk((), (source,))
    builder = PlanBuilder(sampler.graph, [before.topic], sampler.settings)
    number = builder.between(builder.follow(1, before.ways), relation.relation, first, last, 1)
    if hops > 1 and not before.ways:
        _onward(sampler, builder, number, relation)
    return builder


def _window(sampler: WalkSampler, date: str, dates: list[str]) -> tuple[str, str]:
    """The year, month or day of a date, or a span from it to another."""
    start = date.partition("..")[0] or date.partition("..")[2]
    parts = start.split("-") if not start.startswith("-") else [start]
    cut = "-".join(parts[: sampler.chance.randint(1, len(parts))])
    others = sorted(
        one[: len(cut)] for one in dates if ".." not in one and one[: len(cut)] > cut and len(one) >= len(cut)
    )
    if others and sampler.chance.random() < 0.3:
        return cut, sampler.chance.choice(others)
    return cut, cut


def _measure(sampler: WalkSampler, hops: int) -> tuple[DirectedRelation, bool]:
    """A relation to choose by, and whether one more hop follows; always so after a choice of nameless nodes."""
    ways = sampler.valued if hops > 1 else sampler.valued_things
    if not ways:
        raise PlanRejected("no values to compare")
    chosen = sampler.choose(ways)
    onward = hops > 2 or (hops == 2 and sampler.chance.random() < ONWARD)
    return chosen, onward or chosen in sampler.at_nodes


def _valued_set(sampler: WalkSampler, chosen: DirectedRelation, hops: int) -> tuple[PlanBuilder, Relation, SampledWalk]:
    """A set whose members have values of the chosen relation; its builder, that relation, and the walk to the set."""
    member = sampler.starts.draw(chosen, sampler.chance, sampler.settings.known)
    path = sampler.path_to(member, hops, fan=LEAST_FAN)
    builder = PlanBuilder(sampler.graph, [path.topic], sampler.settings)
    builder.follow(1, path.ways)
    return builder, sampler.schema.relations[chosen.relation], path


def _values(builder: PlanBuilder, number: int, relation: Relation) -> list[float]:
    """The distinct values of the members, ascending; at least two."""
    builder.check_few(number)
    texts = {text for name in builder.members(number) for text in builder.values(name, relation.name)}
    values = sorted({value for text in texts if (value := number_of(text)) is not None})
    if len(values) < 2:
        raise PlanRejected("too few values to compare")
    return values


def _onward(sampler: WalkSampler, builder: PlanBuilder, number: int, came: DirectedRelation) -> None:
    """Adds a hop, but not by the relation that chose the members: never "how old are those older than 34?"."""
    member = sampler.chance.choice(builder.members(number))
    chosen_by = {step.args[1] for step in builder.steps if step.tool in CHOICES}
    ways = [way for way in sampler.onward(member, came) if way.relation not in chosen_by]
    builder.hop(number, sampler.choose(ways), 1)


def possible(sampler: WalkSampler, pattern: str) -> bool:
    """Whether the graph has what a pattern is about: values, or dates."""
    if pattern == TIME:
        return sampler.schema.timed or bool(sampler.dated)
    return pattern not in (SUPERLATIVE, COMPARISON) or bool(sampler.valued)


DRAWS: dict[str, Draw] = {
    CHAIN: chain,
    INTERSECTION: partial(combination, "intersect"),
    UNION: union,
    DIFFERENCE: partial(combination, "minus"),
    COUNT: count,
    SUPERLATIVE: superlative,
    COMPARISON: comparison,
    TIME: time,
}
