"""Random draws from a graph for questions: topics, directed relations, and walks from an entity or towards one.

    sampler = WalkSampler(graph, MakeSettings(seed=1))
    sampler.path(2)                    # a walk of two hops from a topic that a question can name
    sampler.path_to("Paris", 1)        # a walk that ends there

Every relation gets its share. Of a few directed relations drawn, the least used is taken, where use is divided by the
logarithm of the relation's number of facts: a rare relation is asked for nearly as often as a common one. Half of the
walks start from a random entity instead, and go in any direction, or only forwards, as people ask. `patterns` makes
plans of these walks.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from kgwalk.demos.path_search import reverse
from kgwalk.kg.csr import I64
from kgwalk.kg.store import StoredGraph
from kgwalk.questions.plan import MakeSettings, PlanBuilder, PlanRejected
from kgwalk.questions.schema import (
    ID,
    MOSTLY,
    NAME,
    TRUTHS,
    TYPE_WORDS,
    Inverses,
    Relation,
    Schema,
    ValueNode,
    askable,
    plain_name,
    survey,
    value_nodes,
)
from kgwalk.types import Found, Neighbors, Triple, UnknownName
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.kinds import Kind, names_class

COMPARED = 2000  # entities, at most, that are compared to tell whether two directed relations lead to one kind
TRIES = 8  # draws of a topic before a directed relation is given up
CHOSEN_FROM = 3  # directed relations drawn, of which the least used is taken
LOOKED_AT = 30  # neighbours that a walk may go on to; the best known come first
# Relations that describe the graph itself, which nobody asks about: Freebase's reviews and types, RDF's and OWL's.
_HOUSEKEEPING = re.compile(r"/?(?:freebase|type|dataworld)[./]|.*(?:rdf-syntax-ns|rdf-schema|owl)#|(?:rdfs?|owl):")
ALIKE = 0.2  # the share of ends in common from which on two directed relations lead to one kind
TURNS_TRIED = 3  # draws of a walk that turns back, for one where another relation could be mistaken for the way back
OTHER_BACK = 0.4  # the share of turns that come back by another relation, if there is one
BY_NAME = 0.5  # the share of walks that start from a random entity, as people ask; others from a relation
FORTH = 0.5  # the share of those that only go forwards, from a head of facts: "X's wife's religion"
KEPT = 0.7  # the share of walks with a turn that keep their start among the sets on the way
OVER_ROWS = 0.4  # the share of walks of two hops that go over rows, where a graph has rows that join two things
SHARED = 0.15  # the share of walks of one hop backwards over a shared column, where a graph has some
ROWS_TRIED = 4  # walks over rows that are drawn for one that has words of its own
ONE_TAIL = 1.2  # tails of a head, at most, of a relation that is a column of a row
EITHER = 6.0  # extra weight of a relation, times the share of its heads that are tails, too
FORWARDS = "another relation says it forwards"
LEAST_NAMES = 0.2  # the share of plain names at a relation's end, for topics to be drawn there

# The cache
HELD = 300_000  # names in all, about 50 MB; then the cache is emptied
AT_LEAST = 200  # names that are looked up even if fewer are asked for: more are likely to be needed soon
LONGEST = 2000  # names of one answer; a longer one is looked up each time
REMEMBERED = 1 << 14  # entries of one table; then it is emptied

CacheKey = TypeVar("CacheKey")
CacheValue = TypeVar("CacheValue")


class SampledWalk(NamedTuple):
    """A walk: `ways[i]` leads from `entities[i]` to `entities[i + 1]`.

    A walk may come back over its start.
    """

    ways: tuple[DirectedRelation, ...]
    entities: tuple[str, ...]
    keeps: bool = False  # the start stays in sets on the way: "the genres of the films by X's director"
    again: bool = False  # a set may equal an earlier one: "the children of X's wife's husband"

    @property
    def topic(self) -> str:
        return self.entities[0]

    @property
    def end(self) -> str:
        return self.entities[-1]


class WalkSampler:
    """Draws walks from a graph. It counts in `used` how often each directed relation was chosen.

    Directed relations (`Way`) by what they are good for: `first_ways` start at entities with a name, `first_forth` are
    those that go forwards; `to_things` lead to entities, from which a walk can go on, and not to values; `valued` lead
    to numbers or dates that can be compared, `dated` to dates; `at_nodes` are the `valued` ones that start at nameless
    nodes: the years of a term of office; `columns` lead to one thing or value, and `into_rows` from a thing to what has
    it in a column.
    """

    def __init__(self, graph: StoredGraph, settings: MakeSettings, schema: Schema | None = None) -> None:
        self.graph, self.settings = CachedGraph(graph), settings
        self.schema = schema or survey(graph)
        self.starts = StartIndex(graph)
        self.inverses = Inverses(graph)
        self.chance = random.Random(settings.seed)
        self.used: Counter[DirectedRelation] = Counter()
        self.says_as_one: Callable[[tuple[DirectedRelation, ...]], bool] = lambda ways: False  # whether there are words
        self.shared: list[DirectedRelation] = []  # backwards over columns that several kinds share
        relations = self.schema.relations
        # A thing's class is a kind, and no question; nor is a name of itself, as tables have it.
        trivial = {name for name, one in relations.items() if one.sample_heads == one.sample_tails}
        trivial |= {name for name in relations if names_class(graph, name)}
        asked = [way for way in self.starts.ways if not _HOUSEKEEPING.match(way.relation)]
        asked = [way for way in asked if way.relation not in trivial]
        self.value_nodes: dict[str, ValueNode] = {}
        if settings.language == "full":  # there a type is a kind to start from, and a value's node is not asked for
            self.value_nodes = value_nodes(graph, self.schema)
            held = {name for node in self.value_nodes.values() for name in (node.amount, node.unit)}
            held |= self.value_nodes.keys()
            held |= {name for name, one in relations.items() if {tail.lower() for tail in one.sample_tails} <= TRUTHS}
            asked = [way for way in asked if way.relation not in held]
            asked = [way for way in asked if plain_name(way.relation) not in TYPE_WORDS]
        self._weight = {way: math.log(2 + relations[way.relation].facts) * self._either(way.relation) for way in asked}
        self.to_things = {way for way in asked if not way.out or relations[way.relation].to_things}
        self.first_ways = [way for way in asked if self._askable_from(way)]
        self.first_forth = [way for way in self.first_ways if way.out]
        self._first_to_things = [way for way in self.first_ways if way in self.to_things]
        self._may_start = {  # by whether it leads to things, and whether only forwards
            (to_things, forth): frozenset(way for way in ways if way.out or not forth)
            for to_things, ways in ((False, self.first_ways), (True, self._first_to_things))
            for forth in (False, True)
        }
        self.valued = [way for way in asked if way.out and relations[way.relation].comparable]
        self.dated = [way for way in self.valued if relations[way.relation].dates > relations[way.relation].numbers]
        self.at_nodes = {way for way in self.valued if relations[way.relation].head_kinds.get(ID, 0.0) >= MOSTLY}
        self.valued_things = [way for way in self.valued if way not in self.at_nodes]
        self.dated_things = [way for way in self.dated if way not in self.at_nodes]
        self.dated_nodes = [way for way in self.dated if way in self.at_nodes]
        self.columns = {way for way in asked if way.out and self.fan(way) <= ONE_TAIL}
        self.into_rows = [way for way in self._first_to_things if reverse(way) in self.columns]
        self._leaving: dict[str, tuple[DirectedRelation, ...]] = {}
        self._leading: dict[tuple[str, float], tuple[DirectedRelation, ...]] = {}
        self._onwards: dict[tuple[str, DirectedRelation, bool, bool], tuple[DirectedRelation, ...]] = {}
        self._back_by: dict[DirectedRelation, frozenset[DirectedRelation]] = {}

    def _either(self, relation: str) -> float:
        """The weight of a relation: more if it can be walked in both directions from the same entities."""
        return 1 + EITHER * len(self.starts.both(relation)) / len(self.starts.of(DirectedRelation(relation, True)))

    def choose(self, ways: Sequence[DirectedRelation]) -> DirectedRelation:
        if not ways:
            raise PlanRejected("no way to go on")
        drawn = self.chance.choices(ways, k=CHOSEN_FROM)
        chosen = min(drawn, key=lambda way: self.used[way] / self._weight[way])
        self.used[chosen] += 1  # whatever comes of it: a way that leads nowhere must not be tried for ever
        return chosen

    def topic(self, way: DirectedRelation) -> str:
        for _ in range(TRIES):
            both = self.chance.random() < self.settings.either
            name = self.starts.draw(way, self.chance, self.settings.known, both=both)
            if self.may_be_topic(name):
                return name
        raise PlanRejected("no topic that can be named")

    def may_be_topic(self, name: str) -> bool:
        if self.settings.language == "full" and name.lower() in TRUTHS:
            return False
        return askable(name) or self.settings.literal_topics

    def path(self, hops: int, *, to_name: bool = False, turns: bool = False) -> SampledWalk:
        """A walk of so many hops from a topic.

        With `turns`, some of the walks turn back over where they came from; with `to_name`, the end is not a value.
        """
        if hops == 1 and self.shared and self.chance.random() < SHARED:
            return self.over_shared()
        if hops == 2 and self.chance.random() < OVER_ROWS and (found := self.over_rows(to_name=to_name)) is not None:
            return found
        loops = self.settings.loops if turns and hops > 1 else 0.0
        if self.chance.random() >= loops:
            return self._walk(hops, None, to_name)
        turn = min(self.chance.randrange(1, hops), self.chance.randrange(1, hops))  # most go on after the turn
        for _ in range(TURNS_TRIED):
            ways, entities, *_ = self._walk(hops, turn, to_name)
            if self._rivalled(entities[turn], ways[turn - 1]):
                break
        ends = turn + 1 == hops
        keeps = not ends and self.chance.random() < KEPT
        again = hops > 2 and (keeps or ends) and self.alike(ways[turn - 1], reverse(ways[turn - 1]))
        return SampledWalk(ways, entities, keeps, again)

    def over_shared(self) -> SampledWalk:
        """A hop backwards over a column that several kinds share: the ports of Sweden, where clients are, too."""
        way = self.choose(self.shared)
        topic = self.topic(way)
        return SampledWalk((way,), (topic, self.step(topic, way)))

    def over_rows(self, *, to_name: bool = False) -> SampledWalk | None:
        """A walk to a row and on to something else of that row: from a student to a course, over an enrolment.

        None where no such row was found. Of a few walks, one that people speak of as one hop is taken.
        """
        found: SampledWalk | None = None
        for _ in range(ROWS_TRIED if self.into_rows else 0):
            first = self.choose(self.into_rows)
            topic = self.topic(first)
            row = self.step(topic, first)
            onward = (way for way in self.onward(row, first) if way in self.columns)
            ways = [way for way in onward if way in self.to_things or not to_name]
            spoken = [way for way in ways if self.says_as_one((first, way))]
            if ways:
                then = self.choose(spoken or ways)
                found = SampledWalk((first, then), (topic, row, self.step(row, then)))
            if spoken:
                break
        return found

    def _walk(self, hops: int, turn: int | None, to_name: bool) -> SampledWalk:
        ways: list[DirectedRelation] = []
        entities: list[str] = []
        by_name = self.chance.random() < BY_NAME
        forth = by_name and self.chance.random() < FORTH
        choose = self.chance.choice if by_name else self.choose
        for place in range(hops):
            # from a value a walk only turns back: others born in the same year
            goes_on = place + 1 < hops and not place + 1 == turn == 1
            if not entities:
                topic, way = self._start(to_things=goes_on or to_name, by_name=by_name, forth=forth)
                entities.append(topic)
            elif place == turn:
                way = self._back(entities, ways[-1])
            else:
                around = self._ways_from(entities[-1], ways[-1], goes_on or to_name, forth)
                if not around:
                    raise PlanRejected("no way to go on")
                way = choose(around)
            ways.append(way)
            entities.append(self.step(entities[-1], way))
        return SampledWalk(tuple(ways), tuple(entities))

    def _back(self, entities: Sequence[str], came: DirectedRelation) -> DirectedRelation:
        """The way back to where the walk came from: the same relation reversed, or another one.

        Another one, as `children` after `parents`, is drawn at times, and always where it says the same forwards.
        """
        before, here = entities[-2:]
        straight = reverse(came) in self.around(here)
        if not straight or self.chance.random() < OTHER_BACK:
            ways = [way for way in self.around(here) if way in self.to_things and way != reverse(came)]
            leading = [way for way in ways if before in self._neighbours(here, way)]
            if leading:
                return self.chance.choice(leading)
        if not straight:
            raise PlanRejected(FORWARDS)
        return reverse(came)

    def _rivalled(self, entity: str, came: DirectedRelation) -> bool:
        """Whether other relations than the one that led here lead back to the same kind, too.

        From a director who also writes, only the question's words tell that the way back is `directed_by`.
        """
        returning = reverse(came)
        return any(self.alike(way, returning) for way in self.onward(entity, came))

    def alike(self, one: DirectedRelation, two: DirectedRelation) -> bool:
        """Whether two directed relations lead to entities of one kind."""
        return self.starts.alike(one, two) >= ALIKE

    def _start(self, *, to_things: bool, by_name: bool, forth: bool) -> tuple[str, DirectedRelation]:
        """A topic and the first step: from a relation, so that each has its share, or by a random entity's name."""
        if by_name:
            allowed = self._may_start[to_things, forth]
            for _ in range(TRIES):
                name = self.starts.any_entity(self.chance, self.settings.known, heads_only=forth)
                ways = [way for way in self.around(name) if way in allowed] if self.may_be_topic(name) else []
                if ways:
                    return name, self.chance.choice(ways)
        way = self.choose(self._first_to_things if to_things else self.first_ways)
        return self.topic(way), way

    def _ways_from(
        self, entity: str, came: DirectedRelation, to_things: bool, forth: bool
    ) -> Sequence[DirectedRelation]:
        found = self._onwards.get(key := (entity, came, to_things, forth))
        if found is None:
            ways = (way for way in self.onward(entity, came) if way.out or not forth)
            found = tuple(way for way in ways if way in self.to_things or not to_things)
            remember(self._onwards, key, found)
        return found

    def path_to(self, end: str, hops: int, *, fan: float = 0.0, avoid: str = "") -> SampledWalk:
        """A walk of so many hops to an entity, from a topic other than `avoid`; `fan` is the least of the last hop."""
        ways: list[DirectedRelation] = []
        entities = [end]
        for place in range(hops):
            came = reverse(ways[-1]) if ways else None
            around = self._into(entities[-1], 0.0 if ways else fan)
            ways.append(self.choose([way for way in around if way != came]))
            entities.append(self.step(entities[-1], reverse(ways[-1]), topic=place + 1 == hops, avoid=avoid))
        return SampledWalk(tuple(reversed(ways)), tuple(reversed(entities)))

    def around(self, entity: str) -> tuple[DirectedRelation, ...]:
        """The directed relations of an entity; backwards only where no relation says the same forwards."""
        found = self._leaving.get(entity)
        return remember(self._leaving, entity, self._around(entity)) if found is None else found

    def _around(self, entity: str) -> tuple[DirectedRelation, ...]:
        leaving, entering = self._relations(entity)
        ways = [DirectedRelation(name, True) for name in leaving]
        ways += [DirectedRelation(name, False) for name in entering if not self.inverses.said_forwards(name, leaving)]
        return tuple(way for way in ways if way in self._weight)

    def _into(self, entity: str, fan: float) -> tuple[DirectedRelation, ...]:
        """The directed relations that lead to an entity; backwards only where none says the same forwards.

        None starts from a value, which would join unrelated entities: those of one age, those with one number.
        """
        found = self._leading.get((entity, fan))
        return remember(self._leading, (entity, fan), self._leading_to(entity, fan)) if found is None else found

    def _leading_to(self, entity: str, fan: float) -> tuple[DirectedRelation, ...]:
        leaving, entering = self._relations(entity)
        ways = [DirectedRelation(name, True) for name in entering]
        ways += [DirectedRelation(name, False) for name in leaving if not self.inverses.said_forwards(name, entering)]
        from_things = [way for way in ways if self.settings.literal_topics or reverse(way) in self.to_things]
        return tuple(way for way in from_things if way in self._weight and self.fan(way) >= fan)

    def _relations(self, entity: str) -> tuple[list[str], list[str]]:
        """The relations that leave an entity, and those that enter it."""
        try:
            return self.graph.relations(entity), self.graph.relations(entity, out=False)
        except UnknownName as error:
            raise PlanRejected("no way to go on") from error

    def check(self, builder: PlanBuilder) -> None:
        """Rejects a plan with a step backwards where a relation that is shown says the same forwards."""
        for step in builder.steps:
            if step.tool == "head_entities" and self.inverses.of(str(step.args[1])):
                source, relation = step.args
                assert isinstance(source, int)
                if self.inverses.said_forwards(str(relation), builder.around(source)[0]):
                    raise PlanRejected(FORWARDS)

    def onward(self, entity: str, came: DirectedRelation) -> list[DirectedRelation]:
        """The directed relations that do not lead straight back, under any name. A symmetric relation may go on."""
        returning = self._back_by.get(came)
        if returning is None:
            others = self.inverses.of(came.relation) - {came.relation}
            returning = self._back_by[came] = frozenset(
                {reverse(came), *(DirectedRelation(other, came.out) for other in others)}
            )
        return [way for way in self.around(entity) if way not in returning]

    def step(self, entity: str, way: DirectedRelation, *, topic: bool = False, avoid: str = "") -> str:
        """A random neighbour; with `topic`, one that a question can name."""
        names = self._neighbours(entity, way)
        if topic:
            names = [name for name in names if name != avoid and self.may_be_topic(name)]
        if not names:
            raise PlanRejected("no topic that can be named" if topic else "no way to go on")
        return self.chance.choice(names)

    def _neighbours(self, entity: str, way: DirectedRelation) -> Sequence[str]:
        return self.graph.neighbors(entity, way.relation, out=way.out, limit=LOOKED_AT).names

    def fan(self, way: DirectedRelation) -> float:
        """How many entities a directed relation leads to, on average."""
        relation = self.schema.relations[way.relation]
        return relation.fan_out if way.out else relation.fan_in

    def _askable_from(self, way: DirectedRelation) -> bool:
        relation: Relation = self.schema.relations[way.relation]
        kinds = relation.head_kinds if way.out else relation.tail_kinds
        return self.settings.literal_topics or kinds.get(NAME, 0.0) >= LEAST_NAMES


# Entities by directed relation


class StartIndex:
    """For each directed relation, the entities that have it, and draws among them.

    One pass over the facts of a graph or a view; then every draw is a few lookups. Entities are numbered with the most
    mentioned first, so a draw that leans to small numbers leans to the better known.
    """

    def __init__(self, graph: StoredGraph) -> None:
        store = graph.store
        heads_E, relations_E, tails_E = graph.facts_by_number()
        self._entities = max(1, len(store.entity))
        self._name = store.entity.__getitem__
        self._number = {store.relation_name(number): number for number in np.unique(relations_E).tolist()}
        self._pairs = tuple(np.unique(relations_E * self._entities + ends) for ends in (tails_E, heads_E))
        self._all, self._heads = np.unique(np.concatenate((heads_E, tails_E))), np.unique(heads_E)
        self.ways = [DirectedRelation(relation, out) for relation in self._number for out in (True, False)]
        self._spans: dict[DirectedRelation, tuple[int, int]] = {}  # the place of its entities among the pairs
        self._likeness: dict[tuple[DirectedRelation, DirectedRelation], float] = {}
        self._in_both: dict[str, I64] = {}

    def of(self, way: DirectedRelation) -> I64:
        """The numbers of the entities that have this directed relation, ascending."""
        low, high = self._span(way)
        found: I64 = self._pairs[way.out][low:high] - self._number[way.relation] * self._entities
        return found

    def _span(self, way: DirectedRelation) -> tuple[int, int]:
        found = self._spans.get(way)
        if found is None:
            first = self._number[way.relation] * self._entities
            low, high = np.searchsorted(self._pairs[way.out], [first, first + self._entities]).tolist()
            found = self._spans[way] = (low, high)
        return found

    def draw(self, way: DirectedRelation, chance: random.Random, known: float, *, both: bool = False) -> str:
        """One of them, at u ** (1 + known) of the list for a uniform u: a `known` of 0 draws all alike.

        With `both`, one that has the relation in the other direction too, if there is one.
        """
        if both and len(some := self.both(way.relation)):
            return self._name(int(some[int(len(some) * chance.random() ** (1 + known))]))
        low, high = self._span(way)
        pair = int(self._pairs[way.out][low + int((high - low) * chance.random() ** (1 + known))])
        return self._name(pair % self._entities)

    def any_entity(self, chance: random.Random, known: float, *, heads_only: bool = False) -> str:
        """Any entity of the graph, drawn as in `draw`; with `heads_only`, one that is the head of a fact."""
        some = self._heads if heads_only else self._all
        return self._name(int(some[int(len(some) * chance.random() ** (1 + known))]))

    def both(self, relation: str) -> I64:
        """The numbers of the entities that a relation leaves and enters: people with a boss and reports."""
        found = self._in_both.get(relation)
        if found is None:
            heads, tails = self.of(DirectedRelation(relation, True)), self.of(DirectedRelation(relation, False))
            found = remember(self._in_both, relation, np.intersect1d(heads, tails, assume_unique=True))
        return found

    def alike(self, one: DirectedRelation, two: DirectedRelation) -> float:
        """The share of the entities that two directed relations both lead to, of the smaller set."""
        found = self._likeness.get((one, two))
        return remember(self._likeness, (one, two), self._alike(one, two)) if found is None else found

    def _alike(self, one: DirectedRelation, two: DirectedRelation) -> float:
        ends = [self.of(DirectedRelation(way.relation, not way.out)) for way in (one, two)]
        small, large = sorted(ends, key=len)
        sample = small[:: max(1, len(small) // COMPARED)]
        places = np.minimum(np.searchsorted(large, sample), len(large) - 1)  # both are ascending
        return float((large[places] == sample).mean()) if len(sample) else 0.0


# A cache of the graph's answers


def remember(known: dict[CacheKey, CacheValue], key: CacheKey, value: CacheValue) -> CacheValue:
    """Puts a value into a table, which is emptied when full, and returns it.

    (An `lru_cache` on a bound method would be a reference cycle, and keep a graph's files open until a collection.)
    """
    if len(known) >= REMEMBERED:
        known.clear()
    known[key] = value
    return value


class CachedGraph:
    """A graph that keeps its latest answers: draws ask for the same neighbours again and again.

    Answers are shared, so they must not be changed. The cache is bounded, however large the graph.
    """

    def __init__(self, graph: StoredGraph) -> None:
        self._graph, self.between = graph, graph.between
        self._near: dict[tuple[str, str, bool], Neighbors] = {}
        self._relations: dict[tuple[str, bool], list[str]] = {}
        self._kinds: dict[Kind, list[str]] = {}
        self.held = 0

    def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
        key = (entity, relation, out)
        found = self._near.get(key)
        if found is None or (len(found.names) < found.total and (limit is None or limit > len(found.names))):
            most = None if limit is None else max(limit, AT_LEAST)
            found = self._graph.neighbors(entity, relation, out=out, limit=most)
            if len(found.names) > LONGEST:
                return found
            self._hold(len(found.names) - (len(self._near[key].names) + 1 if key in self._near else 0))
            self._near[key] = found
        if limit is None or limit >= len(found.names):
            return found
        return Neighbors(found.names[:limit], found.total, None if found.times is None else found.times[:limit])

    def relations(self, entity: str, *, out: bool = True) -> list[str]:
        key = (entity, out)
        found = self._relations.get(key)
        if found is None:
            found = self._graph.relations(entity, out=out)
            self._hold(len(found))
            self._relations[key] = found
        return found

    def kind_members(self, kind: Kind) -> list[str]:
        found = self._kinds.get(kind)
        if found is None:
            found = kind.members(self._graph)
            self._hold(len(found))
            self._kinds[kind] = found
        return found

    def _hold(self, names: int) -> None:
        self.held += names + 1
        if self.held > HELD:
            self._near.clear()
            self._relations.clear()
            self._kinds.clear()
            self.held = names + 1

    # Not cached

    def __contains__(self, entity: object) -> bool:
        return entity in self._graph

    def has_relation(self, relation: str) -> bool:
        return self._graph.has_relation(relation)

    def match(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        *,
        limit: int | None = None,
    ) -> Iterator[Triple]:
        return self._graph.match(head, relation, tail, limit=limit)

    def find(self, text: str, k: int = 5) -> list[Found]:
        return self._graph.find(text, k)

    def find_relation(self, text: str, k: int = 5) -> list[Found]:
        return self._graph.find_relation(text, k)
