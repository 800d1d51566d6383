"""A plan: how a made question is answered, as calls of `walk/language.py`; its settings, its builder, and its facts.

    QuestionPlan("chain", ("Toy Story",), (Call("tail_entities", (1, "directed_by")),))

    builder = PlanBuilder(graph, ["Toy Story"], settings)          # walks each step as it is added
    builder.hop(1, DirectedRelation("directed_by", True), start=1)
    plan = builder.plan("chain")

The topics are $1, $2, ..., then come the kinds that a walk starts from; each step makes the next set, and the last set
is the answer. `patterns` knows which steps make which question, `full_patterns` those of the full walking language;
`facts_used` and `gold_paths` give the facts behind the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType

from kgwalk.config.recipe import unknown
from kgwalk.demos.route import CHOICES, longest_chain
from kgwalk.demos.route import HOPS as ROUTE_HOPS
from kgwalk.kg.graph import Graph
from kgwalk.questions.schema import ID, LITERALS, literal_kind
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.types import Call, KgwalkError, Triple
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.kinds import Kind
from kgwalk.walk.language import Sets
from kgwalk.walk.paths import Expression
from kgwalk.walk.sets import SetError, TooMany

CHAIN, INTERSECTION, UNION, DIFFERENCE = "chain", "intersection", "union", "difference"
COUNT, SUPERLATIVE, COMPARISON, TIME = "count", "superlative", "comparison", "time"
PATTERNS = (CHAIN, INTERSECTION, UNION, DIFFERENCE, COUNT, SUPERLATIVE, COMPARISON, TIME)
# Those of the full language: all of a kind, the first few, sums, counts for each, one of two, another's value,
# differences and ratios, yes or no, what is not so, only and every, none at all, a value behind a node, repeated paths,
# rows, dates of facts, and what the graph does not say.
KIND, TOP, AGGREGATE, GROUP, WHICH, AGAINST = "kind", "top", "aggregate", "group", "which", "against"
ARITHMETIC, VERDICT, NEGATION, QUANTIFIER, ZERO = "arithmetic", "verdict", "negation", "quantifier", "zero"
BEHIND, REPEATED, TABLE, DATED, UNANSWERABLE = "behind", "repeated", "table", "dated", "unanswerable"
FULL_PATTERNS = (
    *(KIND, TOP, AGGREGATE, GROUP, WHICH, AGAINST, ARITHMETIC, VERDICT, NEGATION, QUANTIFIER, ZERO, BEHIND),
    *(REPEATED, TABLE, DATED, UNANSWERABLE),
)
LANGUAGES = ("core", "full")

HOPS = (*ROUTE_HOPS, "between")  # arguments: a set, then the relation that is followed
_NAMED = {"filter": 3, "between": 2, "top": 2, "bottom": 2, "nth": 1, "before": 2, "after": 2, "compare": 2}


@dataclass(frozen=True, slots=True)
class QuestionPlan:
    """`pattern` is one of PATTERNS or FULL_PATTERNS. In `steps`, a number among the arguments stands for a set, a text
    for itself. `expressions` has what was read of the paths and values among them; `asked` is the relation that a
    question without an answer is about, `meant` the words for what the graph has no relation for.
    """

    pattern: str
    topics: tuple[str, ...]
    steps: tuple[Call, ...]
    kinds: tuple[Kind, ...] = ()
    expressions: Mapping[str, Expression] = field(default_factory=dict, compare=False)
    asked: DirectedRelation | None = None
    meant: str = ""

    def program(self) -> list[list[str]]:
        """The steps as lists of texts, as in `extra["program"]` of a question.

        >>> QuestionPlan("chain", ("France",), (Call("tail_entities", (1, "capital")),)).program()
        [['tail_entities', '$1', 'capital']]
        """
        return [[step.tool, *(f"${arg}" if isinstance(arg, int) else arg for arg in step.args)] for step in self.steps]

    def made_by(self, number: int) -> Call | None:
        """The step that makes a set; None for a topic."""
        return None if number <= self.starts else self.steps[number - self.starts - 1]

    @property
    def starts(self) -> int:
        """How many sets there are before the first step: topics and kinds."""
        return len(self.topics) + len(self.kinds)

    @property
    def last(self) -> int:
        """The number of the set that is the answer."""
        return self.starts + len(self.steps)

    @property
    def answered(self) -> bool:
        """Whether there is an answer: a set that a step makes, or all of a kind."""
        return bool(self.steps) or (self.pattern == KIND and bool(self.kinds))

    @property
    def hops(self) -> int:
        """Relations on the longest chain from a topic to the answer; looking up a value to choose by is no hop.

        >>> borders = Call("tail_entities", (1, "borders"))
        >>> QuestionPlan("superlative", ("France",), (borders, Call("argmax", (2, "population")))).hops
        1
        """
        return longest_chain(self.steps, self.starts, HOPS) if self.steps else 0

    def ways(self) -> Iterator[DirectedRelation]:
        """The directed relations that are followed, and those whose values choose, in order."""
        for step in self.steps:
            if step.tool in HOPS + CHOICES and str(step.args[1]) not in self.expressions:
                yield way_of(step)
        for expression in self.expressions.values():
            for way in expression.path:
                yield from (DirectedRelation(hop.relation, hop.out) for hop in way)
        if self.asked is not None:
            yield self.asked

    @property
    def shape(self) -> str:
        """The program without names and values: equal for questions that differ only in their topics.

        >>> QuestionPlan("chain", ("France",), (Call("tail_entities", (1, "capital")),)).shape
        'tail_entities($1, capital)'
        >>> above = Call("filter", (2, "population", ">", "5000000"))
        >>> QuestionPlan("comparison", ("France",), (Call("tail_entities", (1, "borders")), above)).shape
        'tail_entities($1, borders) filter($2, population, >)'
        """
        of = "".join(f"all {kind.name}: " for kind in self.kinds) + str(self.asked or self.meant or "")
        return of + " ".join(map(_without_values, self.steps))


def way_of(step: Call) -> DirectedRelation:
    """The relation that a step follows or compares by, and its direction."""
    return DirectedRelation(str(step.args[1]), step.tool != "head_entities")


def _without_values(step: Call) -> str:
    named = _NAMED.get(step.tool, len(step.args))  # after these come numbers and dates
    return f"{step.tool}({', '.join(f'${arg}' if isinstance(arg, int) else arg for arg in step.args[:named])})"


# Settings


MOST_HOPS = {CHAIN: 4, INTERSECTION: 3, UNION: 2, DIFFERENCE: 2, COUNT: 3, SUPERLATIVE: 3, COMPARISON: 3, TIME: 2}
SIZES = ("1", "2-5", "6-20", "more")  # numbers of answers, or of what is counted
_CORE_SHARES = {CHAIN: 0.51, INTERSECTION: 0.15, UNION: 0.03, DIFFERENCE: 0.05, COUNT: 0.06, SUPERLATIVE: 0.07}
_CORE_SHARES |= {COMPARISON: 0.06, TIME: 0.07}
# Half of the full language's questions are those of the core.
_FULL_SHARES = {KIND: 0.17, GROUP: 0.12, VERDICT: 0.12, WHICH: 0.07, TOP: 0.11, NEGATION: 0.13, AGGREGATE: 0.11}
_FULL_SHARES |= {UNANSWERABLE: 0.12, AGAINST: 0.02, ARITHMETIC: 0.02, QUANTIFIER: 0.08, ZERO: 0.02, BEHIND: 0.05}
_FULL_SHARES |= {REPEATED: 0.12, TABLE: 0.07, DATED: 0.14}
PATTERN_SHARES: Mapping[str, Mapping[str, float]] = {
    "core": _CORE_SHARES,
    "full": _CORE_SHARES | {UNION: 0.06} | _FULL_SHARES,
}
_BY_LANGUAGE: Mapping[str, float] = MappingProxyType({})  # shares that were not told


def size_of(count: int) -> str:
    """The class of a number of answers, one of SIZES.

    >>> [size_of(count) for count in (1, 2, 5, 6, 21)]
    ['1', '2-5', '2-5', '6-20', 'more']
    """
    return SIZES[(count > 1) + (count > 5) + (count > 20)]


@dataclass(frozen=True)
class MakeSettings:
    """Shares are relative to each other; what a graph cannot give goes to the patterns that it can."""

    count: int = 5000
    seed: int = 0
    name: str = "made"  # questions are name-00001, name-00002, ...
    language: str = "core"  # the walking language that programs are in: "core" or "full"
    patterns: Mapping[str, float] = field(default_factory=lambda: _BY_LANGUAGE)  # those of the language unless told
    hops: Mapping[int, float] = field(default_factory=lambda: {1: 0.25, 2: 0.35, 3: 0.3, 4: 0.1})
    sizes: Mapping[str, float] = field(default_factory=lambda: dict(zip(SIZES, (0.4, 0.3, 0.2, 0.1), strict=True)))
    most_answers: int = 100
    most_members: int = 2000  # members of a set on the way
    most_onward: int = 150  # members of a set that a walk goes on from, or chooses from by a value
    known: float = 0.5  # preference for entities with many facts; 0 draws all alike
    # For relations within one kind: the share of topics that have the relation in both directions. There only the words
    # of "who reports to X?" tell in which direction to walk.
    either: float = 0.8
    loops: float = 0.35  # the share of longer chains drawn with a turn back, many of which are rejected
    literal_topics: bool = False  # whether numbers, dates and ids may be what a question is about
    shown: int = Kgwalk.relations  # relations around a set that the tools list; others are not asked for

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise unknown("language", self.language, LANGUAGES)
        if self.patterns is _BY_LANGUAGE:
            object.__setattr__(self, "patterns", PATTERN_SHARES[self.language])
        for pattern in self.patterns:
            if pattern in FULL_PATTERNS and self.language == "core":
                raise KgwalkError(f"the pattern {pattern} needs the full walking language: --language full")
            if pattern not in PATTERN_SHARES[self.language]:
                raise unknown("pattern", pattern, PATTERN_SHARES[self.language])
        if not self.patterns:
            raise KgwalkError(f"no pattern is given; there are {', '.join(PATTERNS)}")
        if not self.hops or not set(self.hops) <= {1, 2, 3, 4}:
            raise KgwalkError(f"hops {', '.join(map(str, self.hops)) or 'not given'}: give some of 1 to 4")
        shares = [*self.patterns.values(), *self.hops.values(), *self.sizes.values()]
        if min(shares) < 0 or self.count < 1:
            raise KgwalkError("shares are 0 or more, and the count at least 1")

    def cells(self) -> dict[tuple[str, int], float]:
        """The share of each pattern at each number of hops; together 1.

        Chains have the shares of `hops`. Other patterns are longer to begin with, so for them each share is divided by
        its number of hops.
        """
        shares: dict[tuple[str, int], float] = {}
        for pattern, share in self.patterns.items():
            most = MOST_HOPS.get(pattern, 1)  # of the full language's own, all count as one
            hops = {number: one for number, one in self.hops.items() if number <= most and one}
            hops = hops if pattern == CHAIN else {number: one / number for number, one in hops.items()}
            for number, one in hops.items():
                shares[pattern, number] = share * one / sum(hops.values())
        total = sum(shares.values())
        if not total:
            raise KgwalkError(
                f"no pattern among {', '.join(self.patterns)} has {' or '.join(map(str, self.hops))} hops"
            )
        return {cell: share / total for cell, share in shares.items() if share}


# Building a plan


MOST_EXTREMES = 2  # members that may share the largest value
TOO_LARGE = "a set on the way is too large"
LEAST_COMPARED = 3  # members that must have a value, for one to be the largest


class PlanRejected(Exception):
    """Raised for a plan that makes no good question; the message is the reason, which is counted."""


class PlanBuilder:
    """Builds a plan on a graph, and raises PlanRejected at the first step that makes it a bad question.

    Only the members of sets are kept, as most plans are rejected; `run_plan` makes the sets with their facts.
    """

    def __init__(
        self,
        graph: Graph,
        topics: Sequence[str],
        settings: MakeSettings,
        kinds: Sequence[Kind] = (),
        *,
        empty: bool = False,
        topics_answer: bool = False,
    ) -> None:
        if len(set(topics)) < len(topics):
            raise PlanRejected("the same topic twice")
        self.settings, self.topics, self.kinds, self.steps = settings, tuple(topics), tuple(kinds), list[Call]()
        self.sets = Sets(graph, topics, kinds=kinds, most=settings.most_members, facts=False, empty=empty)
        self.topics_answer = topics_answer  # which of two is one of them
        self.expressions: dict[str, Expression] = {}
        self.asked: DirectedRelation | None = None
        self.meant = ""
        self._relations: dict[int, tuple[list[str], list[str]]] = {}

    def members(self, number: int) -> tuple[str, ...]:
        return self.sets.made[number - 1].members

    def around(self, number: int) -> tuple[list[str], list[str]]:
        """The relations that leave a set and those that enter it, each with the most shared first."""
        if number not in self._relations:
            self._relations[number] = self.sets.relations_around(number)
        return self._relations[number]

    def plan(self, pattern: str) -> QuestionPlan:
        return QuestionPlan(
            pattern, self.topics, tuple(self.steps), self.kinds, dict(self.expressions), self.asked, self.meant
        )

    def values(self, name: str, relation: str) -> Sequence[str]:
        """The values of a relation for a member."""
        return self.sets.graph.neighbors(name, relation).names

    # Steps

    def call(self, tool: str, *args: str | int) -> int:
        """Any call, as it is."""
        return self._add(tool, *args)

    def say(self, text: str) -> Expression:
        """A path or value that the next call names, remembered for the wording."""
        self.expressions[text] = self.sets.expression(text)
        return self.expressions[text]

    def hop(
        self,
        source: int,
        way: DirectedRelation,
        start: int,
        *,
        keeps: bool = False,
        again: bool = False,
        goes_on: bool = False,
    ) -> int:
        """Follows a relation. If the new set has the start of the walk, that is left out, as people mean it.

        With `keeps` it stays, and with `again` the new set may equal an earlier one. With `goes_on` another hop
        follows, so a set too large for that is rejected; one member more is allowed, as it may be the start.
        """
        self.check_few(source)
        most, onward = self.settings.most_members, self.settings.most_onward + 1
        self.sets.most = min(most, onward) if goes_on else most
        number = self._add("tail_entities" if way.out else "head_entities", source, way.relation)
        if not keeps:
            number = self._without_start(number, start)
        if not again and any(self._same(number, earlier) for earlier in range(1, number)):
            raise PlanRejected("comes back to where it was")  # the country of the players of a country
        return number

    def follow(self, start: int, ways: Sequence[DirectedRelation], *, keeps: bool = False, again: bool = False) -> int:
        """A chain of hops from a topic. `keeps` is for the sets on the way; the answer never has the topic."""
        number = start
        for place, way in enumerate(ways, 1):
            on_the_way = place < len(ways)
            number = self.hop(number, way, start, keeps=keeps and on_the_way, again=again, goes_on=on_the_way)
        return number

    def between(self, source: int, relation: str, first: str, last: str, start: int) -> int:
        """A hop by facts of a certain time; rejected if there are no facts of other times."""
        self.check_few(source)
        graph = self.sets.graph
        always = {other for name in self.members(source) for other in graph.neighbors(name, relation)}
        number = self._add("between", source, relation, first, last)
        if len(self.members(number)) == len(always):
            raise PlanRejected("a step changes nothing")
        return self._without_start(number, start)

    def combine(self, tool: str, left: int, right: int) -> int:
        number = self._add(tool, left, right)
        sizes = {len(self.members(left))} if tool == "minus" else {len(self.members(one)) for one in (left, right)}
        if len(self.members(number)) in sizes:
            raise PlanRejected("a step changes nothing")
        return number

    def count(self, source: int) -> int:
        if len(self.members(source)) < 2:
            raise PlanRejected("a count of one")
        kinds = set(map(literal_kind, self.members(source)))
        if ID in kinds:
            raise PlanRejected("an answer is an id")
        if not kinds.isdisjoint(LITERALS):
            raise PlanRejected("a count of values")
        return self._add("count", source)

    def extreme(self, tool: str, source: int, relation: str) -> int:
        """Adds argmax or argmin; most members must have a value, and few the best one."""
        self.check_few(source)
        valued = sum(bool(self.values(name, relation)) for name in self.members(source))
        if valued < LEAST_COMPARED or 2 * valued <= len(self.members(source)):
            raise PlanRejected("too few values to compare")
        number = self._add(tool, source, relation)
        if len(self.members(number)) > MOST_EXTREMES:
            raise PlanRejected("a superlative of many")
        return number

    def filter(self, source: int, relation: str, comparison: str, value: str) -> int:
        self.check_few(source)
        number = self._add("filter", source, relation, comparison, value)
        if len(self.members(number)) == len(self.members(source)):
            raise PlanRejected("a step changes nothing")
        return number

    def within(self, source: int, low: tuple[str, str], high: tuple[str, str]) -> int:
        """Adds two filters that mean one thing: a relation at least some value, and it or another below some value."""
        self.check_few(source)
        number = self._add("filter", source, low[0], ">=", low[1])
        number = self._add("filter", number, high[0], "<", high[1])
        if len(self.members(number)) == len(self.members(source)):
            raise PlanRejected("a step changes nothing")
        return number

    # Whether the plan as a whole is a question

    def check(self, relations: int | None = None) -> None:
        """Rejects a plan with too many answers, with an id or topic among them, or with a relation that is not shown.

        `relations` is how many the graph has, if known: if the tools list all of them, none needs to be looked for.
        """
        last = len(self.sets.made)
        answers = self.members(last)
        if len(answers) > self.settings.most_answers:
            raise PlanRejected("too many answers")
        if not self.topics_answer and not set(answers).isdisjoint(self.topics):
            raise PlanRejected("an answer is a topic")
        if any(literal_kind(name) == ID for name in answers):
            raise PlanRejected("an answer is an id")
        if relations is not None and relations <= self.settings.shown:
            return
        if not all(self._shows(step) for step in self.steps if step.tool in HOPS + CHOICES):
            raise PlanRejected("a relation too far down the list")

    def _shows(self, step: Call) -> bool:
        source, relation = step.args[0], str(step.args[1])
        assert isinstance(source, int)
        leaving, entering = self.around(source)
        if (expression := self.expressions.get(relation)) is not None:
            first = [way[0] for way in expression.path]
            return all(hop.relation in (leaving if hop.out else entering)[: self.settings.shown] for hop in first)
        around = entering if step.tool == "head_entities" else leaving
        return relation in around[: self.settings.shown]

    def check_few(self, source: int) -> None:
        """Rejects going on from a set that is too large to look at each of its members."""
        if len(self.members(source)) > self.settings.most_onward:
            raise PlanRejected("goes on from too many")

    def _same(self, one: int, two: int) -> bool:
        return len(self.members(one)) == len(self.members(two)) and set(self.members(one)) == set(self.members(two))

    def _without_start(self, number: int, start: int) -> int:
        if self.members(start)[0] not in self.members(number):
            return number
        if len(self.members(number)) == 1:
            raise PlanRejected("comes back to its start alone")
        return self._add("minus", number, start)

    def _add(self, tool: str, *args: str | int) -> int:
        try:
            number: int = getattr(self.sets, tool)(*args)
        except TooMany as error:
            raise PlanRejected(TOO_LARGE) from error
        except SetError as error:
            raise PlanRejected(str(error).partition(";")[0]) from error  # without the advice, which differs by relation
        self.steps.append(Call(tool, args))
        if len(self.members(number)) > self.settings.most_members:
            raise PlanRejected(TOO_LARGE)
        return number


def run_plan(plan: QuestionPlan, graph: Graph) -> Sets:
    """The sets that a plan makes on its graph, with the facts that lead to their members."""
    sets = Sets(graph, plan.topics, kinds=plan.kinds, empty=True)
    for step in plan.steps:
        getattr(sets, step.tool)(*step.args)
    return sets


# The facts behind an answer


MOST_PATHS = 3
MOST_FACTS = 200


def gold_paths(plan: QuestionPlan, sets: Sets) -> list[list[Triple]] | None:
    """At most MOST_PATHS paths to answers, those to the first answer first; None for a count, and for what only the
    full language says.
    """
    if plan.pattern in FULL_PATTERNS or plan.steps[-1].tool == "count":
        return None
    members = sets.made[plan.last - 1].members
    found = (path for name in members for path in _paths(plan, sets, name, plan.last) if path)
    return list(islice(found, MOST_PATHS)) or None


def _paths(plan: QuestionPlan, sets: Sets, name: str, number: int) -> Iterator[list[Triple]]:
    """Paths to a member of a set, one for each topic that it is reached from."""
    step = plan.made_by(number)
    if step is None:
        yield []
        return
    if step.tool in HOPS:
        fact = sets.made[number - 1].came[name]
        source = step.args[0]
        assert isinstance(source, int)
        for path in _paths(plan, sets, fact.tail if step.tool == "head_entities" else fact.head, source):
            yield [*path, fact]
        return
    sources = [arg for arg in step.args if isinstance(arg, int) and name in sets.made[arg - 1].members]
    for source in sources:
        yield from _paths(plan, sets, name, source)


def facts_used(plan: QuestionPlan, sets: Sets) -> list[Triple]:
    """One fact for each member of each set that led to an answer, and the values that chose them."""
    if plan.pattern in FULL_PATTERNS:
        names = sets.made[plan.last - 1].members if plan.steps else ()
        return list(dict.fromkeys(fact for name in names for fact in sets.evidence(name, plan.last)))[:MOST_FACTS]
    needed: list[dict[str, None]] = [{} for _ in sets.made]
    needed[plan.last - 1] = dict.fromkeys(sets.made[plan.last - 1].members)
    facts: dict[Triple, None] = {}
    for number in range(plan.last, plan.starts, -1):
        step, wanted = plan.made_by(number), needed[number - 1]
        assert step is not None
        sources = [arg for arg in step.args if isinstance(arg, int)]
        if step.tool in HOPS:
            for fact in (sets.made[number - 1].came[name] for name in wanted):
                facts[fact] = None
                needed[sources[0] - 1][fact.tail if step.tool == "head_entities" else fact.head] = None
            continue
        if step.tool in ("count", "argmax", "argmin"):  # all were counted, all were compared
            wanted = dict.fromkeys(sets.made[sources[0] - 1].members)
        if step.tool in CHOICES:
            by = sets.expression(str(step.args[1]))
            facts |= {fact: None for name in wanted for one in sets.values(name, by) for fact in one.facts}
        for source in sources:
            there = sets.made[source - 1].members
            needed[source - 1] |= dict.fromkeys(name for name in there if name in wanted)
    return list(reversed(facts))[:MOST_FACTS]
