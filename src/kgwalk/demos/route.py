"""A route: how to get from a question's topics to its answers, as steps on named sets, whatever the protocol.

    tail_entities($1, "borders")        the topics are $1, $2, ...; each step makes the next set, the last is the answer
    tail_entities($2, "capital")

Routes come from the question's own program, from its gold paths or its evidence, or from a search between topics and
answers. All are walked on the graph, so a route's answers are what the graph says. `make` picks the best by F1.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product

from kgwalk.demos.path_search import EdgeSource, FactEdges, FoundChain, GraphEdges, search
from kgwalk.kg.graph import Graph
from kgwalk.kg.names import split_words
from kgwalk.kg.store import StoredGraph
from kgwalk.score.answers import Gold, f1, gold_of
from kgwalk.types import Call, Question
from kgwalk.walk.facts import Chain, DirectedRelation, chain_of
from kgwalk.walk.kinds import OF_TYPE, TAILS, Kind, kind_named, kinds_of
from kgwalk.walk.language import CORE, CORE_DATED, Sets
from kgwalk.walk.paths import SIGNS, limiting_set, renumbered
from kgwalk.walk.ranking import scores
from kgwalk.walk.sets import Reference, SetError
from kgwalk.walk.starts import gold_kinds
from kgwalk.walk.values import value_of

HOPS = ("tail_entities", "head_entities")
CHOICES = ("argmax", "argmin", "filter")  # arguments: a set, then the relation whose values choose among its members
COMBINED = ("intersect", "union", "minus")
MOST_COMBINED = 16  # intersections that are tried for a question
NONE = "none"  # the `answer_kind` of a question that the graph has no answer to
DISTRACTING_KINDS = 0.4  # of starts that are not needed: how many are kinds
MOST_ASKED = 2000  # members of a kind that a step from a class leads to, at most: all are compared
LONGEST_START = 60  # characters of a topic that is not needed
_SET = re.compile(r"\$(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Route:
    """`steps` are calls of walk/language.py; step i (from 1) makes set starts + i. `f1` is the last set's. Without
    steps a set that it starts from is the answer (`answer`: all continents), or the graph has none.
    """

    topics: tuple[str, ...]
    steps: tuple[Call, ...]
    f1: float
    kinds: tuple[Kind, ...] = ()  # where it starts beside the topics
    answer: int | None = None  # the set that is the answer, where no step makes it

    @property
    def starts(self) -> int:
        """How many sets there are before the first step."""
        return len(self.topics) + len(self.kinds)

    @property
    def hops(self) -> int:
        """Relations on the longest chain from a topic to the answer."""
        return longest_chain(self.steps, self.starts, HOPS)

    def walk(self, graph: Graph) -> Sets:
        """The sets that the route makes."""
        sets = Sets(graph, self.topics, kinds=self.kinds)
        for step in self.steps:
            sets.call(step.tool, step.args)
        return sets


def longest_chain(steps: Iterable[Call], topics: int, hops: Collection[str]) -> int:
    """Steps with one of the tools `hops` on the longest chain from a topic to the last set.

    >>> longest_chain([Call("tail_entities", (1, "borders")), Call("argmax", (2, "population"))], 1, HOPS)
    1
    """
    depth = [0] * topics
    for step in steps:
        before = max((depth[arg - 1] for arg in step.args if isinstance(arg, int)), default=0)
        depth.append(before + (step.tool in hops))
    return depth[-1] if depth else 0


def way_of(step: Call) -> DirectedRelation:
    """The relation that a hop follows, and its direction."""
    return DirectedRelation(str(step.args[1]), step.tool == "tail_entities")


def sets_named(step: Call) -> list[int]:
    """The sets that a step names, also those that a value is limited to."""
    inside = [limiting_set(arg) for arg in step.args if isinstance(arg, str)]
    return [arg for arg in step.args if isinstance(arg, int)] + [number for number in inside if number is not None]


def step_of(tool: str, written: Iterable[str]) -> Call:
    """A step as a question's `program` writes it.

    >>> step_of("intersect", ["$1", "$2"]).args
    (1, 2)
    """
    args = (int(found[1]) if (found := _SET.fullmatch(str(arg))) else str(arg) for arg in written)
    return Call(str(tool), tuple(args))


def program_of(steps: Iterable[Call]) -> list[list[str]]:
    """Steps as a question's `program` writes them: the inverse of `step_of`.

    >>> program_of([Call("intersect", (1, 2))])
    [['intersect', '$1', '$2']]
    """
    return [[step.tool, *(f"${arg}" if isinstance(arg, int) else arg for arg in step.args)] for step in steps]


def with_numbers(step: Call, new: Mapping[int, int]) -> Call:
    """The step with its sets called by other numbers.

    >>> with_numbers(Call("argmax", (2, "count(^wrote in $3)")), {2: 4, 3: 5}).args
    (4, 'count(^wrote in $5)')
    """
    args = (new[arg] if isinstance(arg, int) else renumbered(arg, lambda old: new[old]) for arg in step.args)
    return Call(step.tool, tuple(args))


def _in_core(step: Call, graph: Graph) -> bool:
    """Whether a step is one that the core language has: its calls, with plain relations."""
    if step.tool not in CORE + CORE_DATED:
        return False
    texts = [str(arg) for arg in step.args[1:2]] if step.tool in (*HOPS, *CHOICES, *CORE_DATED) else []
    plain = all(SIGNS.search(text) is None or graph.has_relation(text) for text in texts)
    return plain and not (step.tool == "filter" and isinstance(step.args[-1], int))


def topics_of(question: Question, graph: Graph) -> list[str]:
    """The topics that the graph has, each once: $1, $2, ... of every route."""
    return [topic for topic in dict.fromkeys(question.topic_entities) if topic in graph]


def with_distractor(question: Question, graph: Graph, chance: random.Random) -> Question:
    """The question with a topic or a kind more than it needs, as a linker finds one now and then; its own program
    says the same with other numbers. Whoever has only seen starts that are needed uses all that there are.
    """
    program = question.extra.get("program")
    if not isinstance(graph, StoredGraph) or program == []:
        return question  # all of a kind: the last start is the answer
    named = question.extra.get("kinds")
    kinds = [str(name) for name in named] if isinstance(named, list) else []
    topics = list(question.topic_entities)
    if chance.random() < DISTRACTING_KINDS:
        known = {kind.name for kind in kinds_of(graph).values()} - set(kinds)
        if not known:
            return question
        at = len(topics) + len(kinds)
        kinds.append(chance.choice(sorted(known)))
    else:
        there = graph.live_entities()
        name = graph.store.entity[there[int(chance.random() * len(there))]]
        if name in topics or value_of(name) is not None or len(name) > LONGEST_START:
            return question
        at = chance.randint(0, len(topics))
        topics.insert(at, name)
    extra = {**question.extra, "kinds": kinds} if kinds or named is not None else dict(question.extra)
    if isinstance(program, list):
        extra["program"] = [_moved(tool, written, at) for tool, *written in program]
    return replace(question, topic_entities=topics, extra=extra)


def _moved(tool: str, written: Sequence[str], at: int) -> list[str]:
    """A step of a program with the sets from a place on called by the next number."""
    step = step_of(tool, written)
    moved = with_numbers(step, {number: number + (number > at) for number in sets_named(step)})
    return [tool, *(f"${arg}" if isinstance(arg, int) else arg for arg in moved.args)]


def with_asked_kind(question: Question, listed: Collection[str], graph: Graph, chance: random.Random) -> Question:
    """The question without one of the kinds that it starts from, as where linking does not find it: its program begins
    by asking for all of that kind. Only of the kinds that a prompt lists, or of what is one step from them.
    """
    named = question.extra.get("kinds")
    if not isinstance(named, list) or not named or not isinstance(graph, StoredGraph):
        return question
    at = int(chance.random() * len(named))
    kind, program = kind_named(str(named[at]), graph), question.extra.get("program")
    extra = {**question.extra, "kinds": [*named[:at], *named[at + 1 :]]}
    if question.extra.get("answer_kind") == NONE and not program:
        return replace(question, extra=extra)  # there is nothing to ask for
    asking = kind_calls(kind, listed, graph) if kind is not None and isinstance(program, list) else []
    if not asking:
        return question
    topics = len(question.topic_entities)
    steps = [step_of(tool, written) for tool, *written in program] if isinstance(program, list) else []
    calls = with_asked(steps, topics + len(named), topics + at + 1, asking)
    extra["program"] = program_of(calls)
    return replace(question, extra=extra)


def kind_calls(kind: Kind, listed: Collection[str], graph: StoredGraph) -> list[Call]:
    """The calls that make the set of a kind, where the prompt lists it, or a class whose things lead to just its
    members; $0 is the set that the call before has made. None where there is no such way.
    """
    if kind.name in listed:
        return [Call("all", (kind.name,))]
    if kind.how != TAILS:
        return []
    members = set(kind.members(graph))
    for name in listed:
        source = kind_named(name, graph)
        if source is not None and len(members) <= MOST_ASKED and source.how == OF_TYPE:
            things = Sets(graph, [], kinds=[source], facts=False, empty=True)
            if set(things.follow(1, kind.relation, out=True).members) == members:
                return [Call("all", (name,)), Call("tail_entities", (0, kind.relation))]
    return []


def with_asked(calls: Sequence[Call], starts: int, at: int, asking: Sequence[Call]) -> list[Call]:
    """The calls of a program with so many starts, where the set `at` is no start any more: `asking` makes it first.

    >>> count = [Call("head_entities", (1, "city")), Call("intersect", (3, 2))]     # $1 Porto, $2 all shops
    >>> [(call.tool, *call.args) for call in with_asked(count, 2, 2, [Call("all", ("shop",))])]
    [('all', 'shop'), ('head_entities', 1, 'city'), ('intersect', 3, 2)]
    """
    first = [with_numbers(call, {0: starts + place - 1}) for place, call in enumerate(asking)]
    more = len(first) - 1
    new = {old: old - (old > at) for old in range(1, starts + 1)} | {at: starts + more}
    new |= {old: old + more for old in range(starts + 1, starts + len(calls) + 1)}
    return [*first, *(with_numbers(call, new) for call in calls)]


@dataclass
class RouteBuilder:
    """Tries routes for one question; each set is made once, however many routes share it."""

    question: Question
    graph: Graph
    full: bool = False  # in the full walking language: from kinds, with empty sets
    topics: list[str] = field(init=False)
    kinds: list[Kind] = field(init=False)
    gold: Gold = field(init=False)
    sets: Sets = field(init=False)
    _number: dict[Call, int | None] = field(default_factory=dict)
    _step: dict[int, Call] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.topics = topics_of(self.question, self.graph)
        self.gold = gold_of(self.question)
        self.kinds = gold_kinds(self.question, self.graph) if self.full else []
        self.sets = Sets(self.graph, self.topics, kinds=self.kinds, empty=self.full)

    def make(self, tool: str, *args: Reference) -> int | None:
        """The number of the set that a call makes; None if the call fails or the set is empty."""
        step = Call(tool, args)
        if step not in self._number:
            try:
                number = self._number[step] = self.sets.call(tool, args)
                self._step[number] = step
            except SetError:
                self._number[step] = None
        return self._number[step]

    def members(self, number: int) -> tuple[str, ...]:
        return self.sets.made[number - 1].members

    def follow(self, chain: Chain, leave: str = "") -> int | None:
        """The set at the end of a chain. `leave` takes the topic out of the last set ("end") or of every set ("each").

        (The films of a film's actors include that film, and questions rarely mean it.)
        """
        if chain.topic not in self.topics:
            return None
        start = self.topics.index(chain.topic) + 1
        number: int | None = start
        for place, (relation, out) in enumerate(chain.ways, 1):
            assert number is not None
            number = self.make(HOPS[not out], number, relation)
            if number is None:
                return None
            wanted = leave == "each" or (leave == "end" and place == len(chain.ways))
            if wanted and chain.topic in self.members(number) and len(self.members(number)) > 1:
                number = self.make("minus", number, start)
                assert number is not None
        return number

    def together(self, tool: str, numbers: Sequence[int]) -> int | None:
        whole: int | None = numbers[0]
        for number in numbers[1:]:
            whole = None if whole is None else self.make(tool, whole, number)
        return whole

    def score(self, number: int) -> float:
        return f1(self.members(number), self.gold, self.graph)

    def route(self, number: int) -> Route:
        """The route to a set: only the steps that lead to it, numbered anew."""
        needed: set[int] = set()
        open_ = [number]
        while open_:
            at = open_.pop()
            if at in self._step and at not in needed:
                needed.add(at)
                open_ += sets_named(self._step[at])
        starts = len(self.topics) + len(self.kinds)
        new = {old: old for old in range(1, starts + 1)}
        steps: list[Call] = []
        for old in sorted(needed):
            steps.append(with_numbers(self._step[old], new))
            new[old] = starts + len(steps)
        answer = None if steps else number
        return Route(tuple(self.topics), tuple(steps), self.score(number), tuple(self.kinds), answer)

    def unanswerable(self) -> Route | None:
        """The route of a question that is known to have no answer in the graph; None for any other."""
        if not self.full or self.question.answers or self.question.extra.get("answer_kind") != NONE:
            return None
        return Route(tuple(self.topics), (), 1.0, tuple(self.kinds))

    def best(self, numbers: Iterable[int | None]) -> Route | None:
        """The route to the set with the best F1; among equals the one with fewest steps, then the first."""
        routes = [self.route(number) for number in dict.fromkeys(numbers) if number is not None]
        routes = [route for route in routes if route.steps]
        return min(routes, key=lambda route: (-route.f1, len(route.steps)), default=None)


def route_from_program(builder: RouteBuilder) -> Route | None:
    """The question's own `program`, if it has one that this graph can run."""
    program = builder.question.extra.get("program")
    if not isinstance(program, list) or len(builder.topics) != len(builder.question.topic_entities):
        return None
    number: int | None = None
    numbers: list[int | None] = list(range(1, len(builder.topics) + 1))  # of the program's own sets
    named = builder.question.extra.get("kinds")
    of_kinds = range(len(named) if isinstance(named, list) else 0)
    if builder.full and len(of_kinds) != len(builder.kinds):
        return None
    numbers += [len(builder.topics) + at + 1 if builder.full else None for at in of_kinds]
    for tool, *written in program:
        step = step_of(tool, written)
        if not builder.full and not _in_core(step, builder.graph):
            return None
        if any(not 1 <= place <= len(numbers) or numbers[place - 1] is None for place in sets_named(step)):
            return None
        step = with_numbers(step, {at: one for at, one in enumerate(numbers, 1) if one is not None})
        number = builder.make(step.tool, *step.args)
        if number is None:
            return None
        numbers.append(number)
    if not program and builder.full and builder.question.answers:  # all of a kind
        number = len(builder.topics) + len(builder.kinds)
    return builder.route(number) if number else None


def route_from_gold(builder: RouteBuilder) -> Route | None:
    """The best route along the relation chains of the gold paths."""
    chains = dict.fromkeys(chain_of(path, builder.topics) for path in builder.question.gold_paths or [])
    return builder.best(combinations(builder, [chain for chain in chains if chain is not None]))


def combinations(builder: RouteBuilder, chains: Iterable[Chain]) -> list[int | None]:
    """The sets of chains alone, their unions (of one topic) and their intersections (of several topics)."""
    found: list[int | None] = []
    for leave in ("", "end", "each"):
        ends: dict[str, list[int]] = {}
        for chain in chains:
            number = builder.follow(chain, leave)
            if number is not None:
                ends.setdefault(chain.topic, []).append(number)
        ends = {topic: list(dict.fromkeys(numbers)) for topic, numbers in ends.items()}
        united = [builder.together("union", numbers) for numbers in ends.values()]
        found += [number for numbers in ends.values() for number in numbers] + united
        if len(ends) > 1:
            found += [builder.together("intersect", one) for one in islice(product(*ends.values()), MOST_COMBINED)]
            found.append(builder.together("intersect", [number for number in united if number is not None]))
    return found


# Routes found by search


WALKED = 16  # chains of a topic that are walked, the best of those found


def route_from_search(builder: RouteBuilder, hops: int) -> Route | None:
    """The best route of at most `hops` relations, by F1.

    A chain may fit by accident: of equals the shorter one is taken, then the one whose words are nearer to the
    question's. (`kgwalk paths find` verifies chains over a whole split.)
    """
    return _best(builder, GraphEdges(builder.graph), hops)


def route_from_evidence(builder: RouteBuilder, hops: int) -> Route | None:
    """The best route whose chains the question's evidence shows."""
    return _best(builder, FactEdges(builder.question.evidence or []), hops)


def _best(builder: RouteBuilder, edges: EdgeSource, hops: int) -> Route | None:
    found: list[int | None] = []
    best_of: list[list[Chain]] = []
    for topic in builder.topics:
        chains = _rank(builder.question, search(edges, topic, builder.question.answers, hops, paths=0).chains)
        if chains:
            found += combinations(builder, chains)
            best_of.append(chains[:4])
    if len(best_of) > 1:
        for some in product(*best_of):
            found += combinations(builder, some)
    return builder.best(found)


def _rank(question: Question, found: Sequence[FoundChain]) -> list[Chain]:
    """Chains that reach most answers first, then the shortest, then those nearest to the question's words."""
    texts = [" ".join(split_words(way.relation) for way in one.chain.ways) for one in found]
    near = scores(question.question, texts).tolist()
    order = sorted(range(len(found)), key=lambda at: (-len(found[at].answers), len(found[at].chain.ways), -near[at]))
    return [found[at].chain for at in order[:WALKED]]
