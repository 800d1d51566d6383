"""The patterns of questions: for each, a function that draws one plan of so many hops, or refuses.

A question with conditions is drawn from its answer: a walk to some entity, then another walk that ends there too, so
that both have it in common. Knows the patterns, not how many of each are wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

from kgwalk.questions.drawing import TRIES, Drawing, Path
from kgwalk.questions.plan import (
    CHAIN,
    CHOICES,
    COMPARISON,
    COUNT,
    DIFFERENCE,
    INTERSECTION,
    SUPERLATIVE,
    TIME,
    UNION,
    Building,
    Refused,
)
from kgwalk.questions.schema import Relation
from kgwalk.questions.wording.measures import round_between
from kgwalk.walk.facts import Way
from kgwalk.walk.sets import number_of

LEAST_FAN = 1.5  # entities that the last hop leads to on average, where one of them is to be chosen
ONWARD = 0.3  # the share of questions of several hops whose last hop comes after the choice or combination
AT_NODES = 0.6  # the share of questions of a time, of two hops, that are about the times of nodes, where there are some
BOUNDS = ("<", ">", "<", ">", "<=", ">=")
COUNTED_BOTH = 0.3  # the share of counts that count an intersection

Draw = Callable[[Drawing, int], Building]


def chain(drawing: Drawing, hops: int) -> Building:
    """Who directed X? Where was the director of X born?"""
    path = drawing.path(hops, turns=True)
    building = Building(drawing.graph, [path.topic], drawing.settings)
    building.follow(1, path.ways, keeps=path.keeps, again=path.again)
    return building


def combination(tool: str, drawing: Drawing, hops: int) -> Building:
    """Which films were directed by X and star Y? With minus: directed by X, without Y. Then, at times, a hop more."""
    onward = hops > 2 or (hops == 2 and drawing.chance.random() < ONWARD)
    long = hops - onward
    first = drawing.path(long, to_name=True)
    second = drawing.path_to(first.end, drawing.chance.randint(1, min(long, 2)), avoid=first.topic)
    building = Building(drawing.graph, [first.topic, second.topic], drawing.settings)
    number = building.combine(tool, building.follow(1, first.ways), building.follow(2, second.ways))
    if onward:
        _onward(drawing, building, number, first.ways[-1])
    return building


def union(drawing: Drawing, hops: int) -> Building:
    """Films by X or Y (the same ways from two topics), or who wrote or directed X (two ways from one topic)."""
    first = drawing.path(hops)
    if drawing.chance.random() < 0.5:
        other = drawing.topic(first.ways[0])
        building = Building(drawing.graph, [first.topic, other], drawing.settings)
        building.combine("union", building.follow(1, first.ways), building.follow(2, first.ways))
        return building
    last = first.ways[-1]
    around = [way for way in drawing.around(first.entities[-2]) if way != last]
    second = drawing.choose([way for way in around if drawing.alike(way, last)])
    building = Building(drawing.graph, [first.topic], drawing.settings)
    before = building.follow(1, first.ways[:-1])
    building.combine("union", building.hop(before, last, 1), building.hop(before, second, 1))
    return building


def count(drawing: Drawing, hops: int) -> Building:
    """How many films did X direct?"""
    both = drawing.chance.random() < COUNTED_BOTH
    building = combination("intersect", drawing, hops) if both else chain(drawing, hops)
    building.count(len(building.sets.made))
    return building


def superlative(drawing: Drawing, hops: int) -> Building:
    """Which neighbour of X has the largest population? At times, a hop more from there."""
    chosen, onward = _measure(drawing, hops)
    building, relation, path = _valued_set(drawing, chosen, hops - onward)
    number = building.extreme(drawing.chance.choice(("argmax", "argmin")), len(building.sets.made), relation.name)
    if onward:
        _onward(drawing, building, number, path.ways[-1])
    return building


def comparison(drawing: Drawing, hops: int) -> Building:
    """Which neighbours of X have a population above five million? At times, a hop more from there."""
    chosen, onward = _measure(drawing, hops)
    building, relation, path = _valued_set(drawing, chosen, hops - onward)
    last = len(building.sets.made)
    values = _values(building, last, relation)
    years = relation.dates > relation.numbers
    bound = round_between(*drawing.chance.choice(list(pairwise(values))), year=years)
    if years and any(int(value) == int(bound) != value for value in values):
        raise Refused("a date inside the year it is compared with")  # is May 1995 after 1995?
    number = building.filter(last, relation.name, drawing.chance.choice(BOUNDS), bound)
    if onward:
        _onward(drawing, building, number, path.ways[-1])
    return building


def time(drawing: Drawing, hops: int) -> Building:
    """Whom did X visit in May 2014? Where facts have no dates but things do: which of X's films came out in 1999?"""
    at_nodes, of_things = drawing.dated_nodes, drawing.dated_things
    if at_nodes and hops > 1 and drawing.chance.random() < AT_NODES:
        return _held_in(drawing, drawing.choose(at_nodes))
    if drawing.schema.timed and (not of_things or drawing.chance.random() < 0.8):
        return _within(drawing, hops)
    building, relation, _ = _valued_set(drawing, drawing.choose(of_things), hops)
    last = len(building.sets.made)
    years = sorted({int(value) for value in _values(building, last, relation)})
    first = drawing.chance.choice(years)
    later = [year for year in years if year > first]
    if not later or drawing.chance.random() < 0.5:
        return _of_year(building, last, relation, first)
    building.within(last, (relation.name, str(first)), (relation.name, str(drawing.chance.choice(later) + 1)))
    return building


def _of_year(building: Building, number: int, relation: Relation, year: int) -> Building:
    """Dates of days lie within their year; plain years are equal to it."""
    if all(len(value) <= 4 for value in relation.sample_tails):
        building.filter(number, relation.name, "=", str(year))
    else:
        building.within(number, (relation.name, str(year)), (relation.name, str(year + 1)))
    return building


def _held_in(drawing: Drawing, dated: Way) -> Building:
    """Who governed X in 2009? The dates are those of nameless nodes: from when to when, or when."""
    chance, graph = drawing.chance, drawing.graph
    node = drawing.starts.draw(dated, chance, drawing.settings.known)
    path = drawing.path_to(node, 1)
    building = Building(graph, [path.topic], drawing.settings)
    nodes = building.follow(1, path.ways)
    relations = [way.relation for way in drawing.around(node) if way in drawing.at_nodes and way in drawing.dated]
    found = [(number_of(graph.neighbors(node, name).names[0]), name) for name in relations]
    dates = sorted((date, name) for date, name in found if date is not None)
    if not dates:
        raise Refused("too few values to compare")
    (start, began), (end, ended) = dates[0], dates[-1]
    year = chance.randint(int(start), int(end))
    # it had ended no earlier than that year, and begun before the next
    number = building.within(nodes, (ended, str(year)), (began, str(year + 1)))
    _onward(drawing, building, number, path.ways[-1])
    return building


def _within(drawing: Drawing, hops: int) -> Building:
    """A hop along facts of a time, first or last of the hops."""
    chance = drawing.chance
    relation = drawing.choose(drawing.first_forth)
    for _ in range(TRIES):
        source = drawing.topic(relation)
        found = drawing.graph.neighbors(source, relation.relation)
        dates = [date for times in found.times or [] for date in times]
        if dates and found.total > 1:
            break
    else:
        raise Refused("no facts of several times")
    first, last = _window(drawing, chance.choice(dates), dates)
    before = drawing.path_to(source, hops - 1) if hops > 1 and chance.random() < 0.5 else Path((), (source,))
    building = Building(drawing.graph, [before.topic], drawing.settings)
    number = building.between(building.follow(1, before.ways), relation.relation, first, last, 1)
    if hops > 1 and not before.ways:
        _onward(drawing, building, number, relation)
    return building


def _window(drawing: Drawing, date: str, dates: list[str]) -> tuple[str, str]:
    """The year, month or day of a date, or a span from it to another."""
    start = date.partition("..")[0] or date.partition("..")[2]
    parts = start.split("-") if not start.startswith("-") else [start]
    cut = "-".join(parts[: drawing.chance.randint(1, len(parts))])
    others = sorted(
        one[: len(cut)] for one in dates if ".." not in one and one[: len(cut)] > cut and len(one) >= len(cut)
    )
    if others and drawing.chance.random() < 0.3:
        return cut, drawing.chance.choice(others)
    return cut, cut


def _measure(drawing: Drawing, hops: int) -> tuple[Way, bool]:
    """What to choose by, and whether a hop more comes after; always so where nameless nodes are chosen from."""
    ways = drawing.valued if hops > 1 else drawing.valued_things
    if not ways:
        raise Refused("no values to compare")
    chosen = drawing.choose(ways)
    onward = hops > 2 or (hops == 2 and drawing.chance.random() < ONWARD)
    return chosen, onward or chosen in drawing.at_nodes


def _valued_set(drawing: Drawing, chosen: Way, hops: int) -> tuple[Building, Relation, Path]:
    """A set that has members with values of a relation."""
    member = drawing.starts.draw(chosen, drawing.chance, drawing.settings.known)
    path = drawing.path_to(member, hops, fan=LEAST_FAN)
    building = Building(drawing.graph, [path.topic], drawing.settings)
    building.follow(1, path.ways)
    return building, drawing.schema.relations[chosen.relation], path


def _values(building: Building, number: int, relation: Relation) -> list[float]:
    """The distinct values of the members, ascending; at least two."""
    building.few(number)
    texts = {text for name in building.members(number) for text in building.values(name, relation.name)}
    values = sorted({value for text in texts if (value := number_of(text)) is not None})
    if len(values) < 2:
        raise Refused("too few values to compare")
    return values


def _onward(drawing: Drawing, building: Building, number: int, came: Way) -> None:
    """One hop more, not by the relation that the members were chosen by: how old are those older than 34?"""
    member = drawing.chance.choice(building.members(number))
    chosen_by = {step.args[1] for step in building.steps if step.tool in CHOICES}
    ways = [way for way in drawing.onward(member, came) if way.relation not in chosen_by]
    building.hop(number, drawing.choose(ways), 1)


def possible(drawing: Drawing, pattern: str) -> bool:
    """Whether the graph has what a pattern is about: values, or dates."""
    if pattern == TIME:
        return drawing.schema.timed or bool(drawing.dated)
    return pattern not in (SUPERLATIVE, COMPARISON) or bool(drawing.valued)


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
