"""A plan being built on a graph: each step is walked as it is added, so that a plan that says nothing is refused.

    building = Building(graph, ["Toy Story"], settings)
    directors = building.hop(1, Way("directed_by", True), start=1)

Only members are kept, as most plans come to nothing; `walk` makes the sets of one that is kept, with their facts.
Knows one plan; patterns.py knows which steps make which question.
"""

from __future__ import annotations

from collections.abc import Sequence

from kgwalk.kg.graph import Graph
from kgwalk.questions.literals import ID, LITERALS, literal_kind
from kgwalk.questions.plan import CHOICES, HOPS, Plan
from kgwalk.questions.settings import MakeSettings
from kgwalk.tools.facts import Way
from kgwalk.tools.sets import SetError, Sets, TooMany
from kgwalk.types import Call

MOST_EXTREMES = 2  # members that share the largest value; more is no superlative
TOO_LARGE = "a set on the way is too large"
LEAST_COMPARED = 3  # members with a value, for one of them to be the largest


class Refused(Exception):
    """A plan that makes no good question; the message is the reason, for counting."""


class Building:
    def __init__(self, graph: Graph, topics: Sequence[str], settings: MakeSettings) -> None:
        if len(set(topics)) < len(topics):
            raise Refused("the same topic twice")
        self.settings, self.topics, self.steps = settings, tuple(topics), list[Call]()
        self.sets = Sets(graph, topics, most=settings.most_members, facts=False)
        self._relations: dict[int, tuple[list[str], list[str]]] = {}

    def members(self, number: int) -> tuple[str, ...]:
        return self.sets.made[number - 1].members

    def around(self, number: int) -> tuple[list[str], list[str]]:
        """The relations that leave and that enter a set, the most shared first."""
        if number not in self._relations:
            self._relations[number] = self.sets.relations_around(number)
        return self._relations[number]

    def plan(self, pattern: str) -> Plan:
        return Plan(pattern, self.topics, tuple(self.steps))

    def values(self, name: str, relation: str) -> Sequence[str]:
        """What a relation says of a member."""
        return self.sets.graph.neighbors(name, relation).names

    # Steps

    def hop(
        self, source: int, way: Way, start: int, *, keeps: bool = False, again: bool = False, goes_on: bool = False
    ) -> int:
        """Follow a relation. A walk that comes back over its start leaves that out, as people mean it.

        With `keeps` it does not, and with `again` it may come back to just where it was. With `goes_on` another hop
        follows, so that a set too large for that is not made; one member more is allowed, which may be the start.
        """
        self.few(source)
        most, onward = self.settings.most_members, self.settings.most_onward + 1
        self.sets.most = min(most, onward) if goes_on else most
        number = self._add("tail_entities" if way.out else "head_entities", source, way.relation)
        if not keeps:
            number = self._without_start(number, start)
        if not again and any(self._same(number, earlier) for earlier in range(1, number)):
            raise Refused("comes back to where it was")  # the country of the players of a country
        return number

    def follow(self, start: int, ways: Sequence[Way], *, keeps: bool = False, again: bool = False) -> int:
        """A chain of hops from a topic; `keeps` holds for sets on the way, the answer never has the topic."""
        number = start
        for place, way in enumerate(ways, 1):
            on_the_way = place < len(ways)
            number = self.hop(number, way, start, keeps=keeps and on_the_way, again=again, goes_on=on_the_way)
        return number

    def between(self, source: int, relation: str, first: str, last: str, start: int) -> int:
        """A hop by facts of a time; there must be facts of other times, or the time says nothing."""
        self.few(source)
        graph = self.sets.graph
        always = {other for name in self.members(source) for other in graph.neighbors(name, relation)}
        number = self._add("between", source, relation, first, last)
        if len(self.members(number)) == len(always):
            raise Refused("a step changes nothing")
        return self._without_start(number, start)

    def combine(self, tool: str, left: int, right: int) -> int:
        number = self._add(tool, left, right)
        sizes = {len(self.members(left))} if tool == "minus" else {len(self.members(one)) for one in (left, right)}
        if len(self.members(number)) in sizes:
            raise Refused("a step changes nothing")
        return number

    def count(self, source: int) -> int:
        if len(self.members(source)) < 2:
            raise Refused("a count of one")
        kinds = set(map(literal_kind, self.members(source)))
        if ID in kinds:
            raise Refused("an answer is an id")
        if not kinds.isdisjoint(LITERALS):
            raise Refused("a count of values")
        return self._add("count", source)

    def extreme(self, tool: str, source: int, relation: str) -> int:
        """argmax or argmin; most members must have a value, and few the best one."""
        self.few(source)
        valued = sum(bool(self.values(name, relation)) for name in self.members(source))
        if valued < LEAST_COMPARED or 2 * valued <= len(self.members(source)):
            raise Refused("too few values to compare")
        number = self._add(tool, source, relation)
        if len(self.members(number)) > MOST_EXTREMES:
            raise Refused("a superlative of many")
        return number

    def filter(self, source: int, relation: str, comparison: str, value: str) -> int:
        self.few(source)
        number = self._add("filter", source, relation, comparison, value)
        if len(self.members(number)) == len(self.members(source)):
            raise Refused("a step changes nothing")
        return number

    def within(self, source: int, low: tuple[str, str], high: tuple[str, str]) -> int:
        """Two filters that mean one thing: a relation of at least some value, and one (or the same) below another."""
        self.few(source)
        number = self._add("filter", source, low[0], ">=", low[1])
        number = self._add("filter", number, high[0], "<", high[1])
        if len(self.members(number)) == len(self.members(source)):
            raise Refused("a step changes nothing")
        return number

    # Whether the plan as a whole is a question

    def check(self, relations: int | None = None) -> None:
        """The answer is there, of a size to be given, no id, no topic; and every relation is shown where it is used.

        `relations` is how many the graph has, where that is known: if all of them are shown, none needs to be counted.
        """
        last = len(self.sets.made)
        answers = self.members(last)
        if len(answers) > self.settings.most_answers:
            raise Refused("too many answers")
        if not set(answers).isdisjoint(self.topics):
            raise Refused("an answer is a topic")
        if any(literal_kind(name) == ID for name in answers):
            raise Refused("an answer is an id")
        if relations is not None and relations <= self.settings.shown:
            return
        if not all(self._shows(step) for step in self.steps if step.tool in HOPS + CHOICES):
            raise Refused("a relation too far down the list")

    def _shows(self, step: Call) -> bool:
        source, relation = step.args[0], step.args[1]
        assert isinstance(source, int)
        leaving, entering = self.around(source)
        around = entering if step.tool == "head_entities" else leaving
        return relation in around[: self.settings.shown]

    def few(self, source: int) -> None:
        """Refuse to go on from a set that is too large to look at each of its members."""
        if len(self.members(source)) > self.settings.most_onward:
            raise Refused("goes on from too many")

    def _same(self, one: int, two: int) -> bool:
        return len(self.members(one)) == len(self.members(two)) and set(self.members(one)) == set(self.members(two))

    def _without_start(self, number: int, start: int) -> int:
        if self.members(start)[0] not in self.members(number):
            return number
        if len(self.members(number)) == 1:
            raise Refused("comes back to its start alone")
        return self._add("minus", number, start)

    def _add(self, tool: str, *args: str | int) -> int:
        try:
            number: int = getattr(self.sets, tool)(*args)
        except TooMany as error:
            raise Refused(TOO_LARGE) from error
        except SetError as error:
            raise Refused(str(error).partition(";")[0]) from error  # without the advice, which is a relation's own
        self.steps.append(Call(tool, args))
        if len(self.members(number)) > self.settings.most_members:
            raise Refused(TOO_LARGE)
        return number


def walk(plan: Plan, graph: Graph) -> Sets:
    """The sets of a plan that was drawn from a graph, with the facts that lead to their members."""
    sets = Sets(graph, plan.topics)
    for step in plan.steps:
        getattr(sets, step.tool)(*step.args)
    return sets
