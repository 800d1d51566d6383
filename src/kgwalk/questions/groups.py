"""Groups of things that a question chooses among, counts or adds up: all of a kind, or what a relation leads to.

    groups = Groups(sampler, graph)
    group = groups.draw()                    # all countries, or the films of some director
    groups.measure(group.members)            # a relation by whose values they can be compared, or a value behind a node
    groups.counted(group.members)            # a relation that leads from each to some

Used by `full_patterns` and `statement_patterns`, as `WalkSampler` is by `patterns`. A value behind a node is one like
`price/amount`: the price is a node of its own, with an amount and a currency.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from kgwalk.kg.names import normalise
from kgwalk.kg.store import StoredGraph
from kgwalk.questions.bank import Concept, load_bank
from kgwalk.questions.drawing import SHARED, SampledWalk, WalkSampler
from kgwalk.questions.plan import PlanBuilder, PlanRejected
from kgwalk.questions.schema import TELLS_NOTHING, TRUTHS, Relation, ValueNode, askable, plain_name, spaced
from kgwalk.questions.wording.bank_lexicon import BankMatch
from kgwalk.questions.wording.measures import round_between
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.kinds import ALL, EVERYTHING, OF_TYPE, Kind, kinds_of
from kgwalk.walk.values import value_of

FEWEST, MOST = 4, 2000  # members of a kind that is asked about
LOOKED_AT = 40  # members of a group whose relations are looked at
HAVE = 0.6  # the share of them that must have a relation, for the group to be compared by it
OF_A_KIND = 0.6  # the share of groups that are all of a kind, where the graph has kinds
BY_TYPE = 0.75  # the share of kinds that are types, where the graph has types
RELATIVE = 0.1  # the share of a relation's heads that are tails, from which on it joins things of one kind
NAMED = 0.8  # the share of a kind's members that a question could name
OVER_ROWS = 0.3  # the share of groups reached from a topic that are reached over rows, where a graph has rows
TRIES = 12  # draws of a group
TIMES_LOOKED_AT = 2  # entities of a relation whose facts are looked at for dates
FAN = 1.5  # entities that a relation leads to on average, for them to be a group
NOTHING = "a step changes nothing"
MOST_KINDS = 400  # of a graph, that are looked at


@dataclass(frozen=True, slots=True)
class DrawnGroup:
    """Some things, and how a walk gets to them: by a kind, or by a walk from a topic."""

    members: tuple[str, ...]
    kind: Kind | None = None
    walk: SampledWalk | None = None

    @property
    def topics(self) -> list[str]:
        return [] if self.walk is None else [self.walk.topic]

    def start(self, groups: Groups, others: Sequence[str] = (), *, empty: bool = True) -> tuple[PlanBuilder, int]:
        """A builder with the group's set made, and its number; `others` are topics after the group's own."""
        sampler = groups.sampler
        kinds = [] if self.kind is None else [self.kind]
        topics = [*self.topics, *others]
        builder = PlanBuilder(sampler.graph, topics, sampler.settings, kinds, empty=empty)
        if self.walk is None:
            return builder, len(topics) + 1
        return builder, builder.follow(1, self.walk.ways, keeps=self.walk.keeps, again=self.walk.again)


class Groups:
    """Draws groups from a graph, and what is asked of their members."""

    def __init__(self, sampler: WalkSampler, graph: StoredGraph, concepts: Sequence[Concept] | None = None) -> None:
        self.sampler, self.graph = sampler, graph
        self._concepts = concepts  # of the bank, for what the graph does not say
        self.chance = sampler.chance
        self._members: dict[str, tuple[str, ...]] = {}

    # Groups

    @cached_property
    def kinds(self) -> list[Kind]:
        """The kinds of the graph by name, without those of values behind nodes; some of them may be too small."""
        every = (kind for kind in kinds_of(self.graph).values() if kind.how != ALL)
        known = [kind for kind in every if not self._is_value_node(kind)]
        known = [kind for kind in known if kind.how == OF_TYPE or not self._relative(kind)]
        return known if len(known) <= MOST_KINDS else self.chance.sample(known, MOST_KINDS)

    def _relative(self, kind: Kind) -> bool:
        """Whether its relation joins things of one kind: sisters and synonyms are so to somebody, not by themselves."""
        heads = len(self.sampler.starts.of(DirectedRelation(kind.relation, True)))
        return len(self.sampler.starts.both(kind.relation)) > RELATIVE * heads

    @cached_property
    def types(self) -> list[Kind]:
        return [kind for kind in self.kinds if kind.how == OF_TYPE]

    def members_of(self, kind: Kind) -> tuple[str, ...]:
        """The members of a kind; none if they are too few, too many, or have no names."""
        if kind.name not in self._members:
            found = tuple(kind.members(self.sampler.graph))
            sample = found[:: max(1, len(found) // LOOKED_AT)]
            named = sum(map(askable, sample)) >= NAMED * len(sample)
            self._members[kind.name] = found if FEWEST <= len(found) <= MOST and named else ()
        return self._members[kind.name]

    def draw(self, *, least: int = FEWEST, most: int | None = None, of_a_kind: float = OF_A_KIND) -> DrawnGroup:
        """A group of at least so many; of a kind, or what one relation leads to from a topic."""
        most = self.sampler.settings.most_onward if most is None else most
        for _ in range(TRIES):
            if self.kinds and self.chance.random() < of_a_kind:
                typed = self.types and self.chance.random() < BY_TYPE
                kind = self.chance.choice(self.types if typed else self.kinds)
                members = self.members_of(kind)
                if least <= len(members) <= MOST:
                    return DrawnGroup(members, kind)
                continue
            try:
                group = self.reached()
            except PlanRejected:
                continue
            if least <= len(group.members) <= most:
                return group
        raise PlanRejected("no group of the size wanted")

    def of_kind(self, least: int = FEWEST) -> DrawnGroup:
        return self.draw(least=least, of_a_kind=1.0)

    def reached(self) -> DrawnGroup:
        """What one relation leads to from a topic, or two over rows: the courses that a student takes."""
        sampler = self.sampler
        over = sampler.over_rows(to_name=True) if self.chance.random() < OVER_ROWS else None
        walk = over or sampler.path(1, to_name=True)
        builder = PlanBuilder(sampler.graph, [walk.topic], sampler.settings)
        members = builder.members(builder.follow(1, walk.ways))
        if sum(map(askable, members)) < HAVE * len(members):
            raise PlanRejected("no topic that can be named")
        return DrawnGroup(members, None, walk)

    def valued(self, *, least: int = FEWEST, of_a_kind: float = OF_A_KIND) -> DrawnGroup:
        """A group whose members have values: of a kind, or what leads from a topic to one thing that has some."""
        sampler = self.sampler
        ways = [*sampler.valued_things, *(DirectedRelation(relation, True) for relation in sorted(self.value_nodes))]
        if not ways or self.chance.random() < of_a_kind:
            return self.draw(least=least, of_a_kind=of_a_kind)
        for _ in range(TRIES):
            member = sampler.starts.draw(self.chance.choice(ways), self.chance, sampler.settings.known)
            try:
                shared = bool(sampler.shared) and self.chance.random() < SHARED
                walk = sampler.over_shared() if shared else sampler.path_to(member, 1, fan=FAN)
                builder = PlanBuilder(sampler.graph, [walk.topic], sampler.settings)
                members = builder.members(builder.follow(1, walk.ways))
            except PlanRejected:
                continue
            if least <= len(members) <= sampler.settings.most_onward:
                return DrawnGroup(members, None, walk)
        raise PlanRejected("no group of the size wanted")

    def everything(self) -> tuple[DrawnGroup, DirectedRelation]:
        """All that the graph says something of, and a relation with values that only some kind of it has: the packages
        of a graph that does not call them so.
        """
        if self.types or not self.sampler.valued_things:
            raise PlanRejected("no group of the size wanted")
        way = self.sampler.choose(self.sampler.valued_things)
        starts = self.sampler.starts.of(way)
        if not FEWEST <= len(starts) <= MOST:
            raise PlanRejected("no group of the size wanted")
        return DrawnGroup(tuple(map(self.graph.store.entity.__getitem__, starts.tolist())), EVERYTHING), way

    def kin(self, name: str) -> list[str]:
        """Things of the same kind as one: those with a relation that few others have."""
        ways = [way for way in self.sampler.around(name) if plain_name(way.relation) not in TELLS_NOTHING]
        if not ways:
            raise PlanRejected("nothing of its kind")
        way = min(ways, key=lambda way: len(self.sampler.starts.of(way)))
        drawn = {self.sampler.starts.draw(way, self.chance, 0.0) for _ in range(LOOKED_AT)}
        return sorted(drawn - {name})

    # What the graph does not say

    @cached_property
    def _bank(self) -> BankMatch:
        return BankMatch(self.sampler.schema.relations, self._concepts)

    @cached_property
    def _said_words(self) -> frozenset[str]:
        """The words of the graph's relations."""
        return frozenset(word for name in self.sampler.schema.relations for word in normalise(spaced(name)).split())

    def absent(self, name: str, *, near: bool = False) -> list[str]:
        """Questions about a thing of this kind that no relation of the graph answers; with `near`, those about what
        comes near to one: the date of birth, where only its place is told.
        """
        kinds: Counter[str] = Counter()
        for way in self.sampler.around(name):
            found = self._bank.find(way.relation)
            if found is not None:
                kinds[found[0].head if found[1] != way.out else found[0].tail] += 1
        kind = kinds.most_common(1)[0][0] if kinds else ""
        concepts = load_bank() if self._concepts is None else self._concepts
        lacking = self._is_near if near else self._is_absent
        asked = [concept for concept in concepts if concept.head == kind and lacking(concept)]
        return [text for concept in asked for text in concept.forward]

    def _words(self, concept: Concept) -> set[str]:
        words = {word for label in concept.labels + concept.inverse_labels for word in normalise(spaced(label)).split()}
        return {word for word in words if len(word) > 2} - {"has", "the", "and", "for", concept.head, concept.tail}

    def _is_absent(self, concept: Concept) -> bool:
        """Whether no word of a concept's names is among the graph's."""
        return self._words(concept).isdisjoint(self._said_words) and concept.tail not in self._said_words

    def _is_near(self, concept: Concept) -> bool:
        """Whether a concept shares a word with a relation of the graph, all such relations lead to things, and it asks
        for a date or a number.
        """
        if concept.tail not in ("date", "year", "number") or concept.tail in self._said_words:
            return False
        words = self._words(concept)
        shared = [name for name, own in self._relation_words.items() if not words.isdisjoint(own)]
        return bool(shared) and all(self.sampler.schema.relations[name].literals < 0.2 for name in shared)

    @cached_property
    def _relation_words(self) -> dict[str, frozenset[str]]:
        return {name: frozenset(normalise(spaced(name)).split()) for name in self.sampler.schema.relations}

    # What is asked of the members

    def shares(self, members: Sequence[str]) -> dict[DirectedRelation, float]:
        """The share of some of the members that have each directed relation."""
        sample = list(members) if len(members) <= LOOKED_AT else self.chance.sample(list(members), LOOKED_AT)
        counts: Counter[DirectedRelation] = Counter()
        for name in sample:
            counts.update(self.ways_of(name))
        return {way: count / len(sample) for way, count in counts.items()}

    def ways_of(self, name: str) -> set[DirectedRelation]:
        """The directed relations of a thing, with those to values behind nodes."""
        ways = set(self.sampler.around(name))
        if self.value_nodes:
            leaving = self.sampler.graph.relations(name)
            ways |= {DirectedRelation(relation, True) for relation in leaving if relation in self.value_nodes}
        return ways

    def measure(self, members: Sequence[str], *, dates: bool | None = None) -> DrawnMeasure:
        """What the members can be compared by: numbers or dates, as they come, or one of the two."""
        relations = self.sampler.schema.relations
        ways = [way for way, share in self.shares(members).items() if share >= HAVE and way.out]
        found = [way for way in ways if way in self._valued or way.relation in self.value_nodes]
        if dates is not None:
            found = [way for way in found if self._dated(relations[way.relation]) == dates]
        if not found:
            raise PlanRejected("no values to compare")
        return self.measure_of(self.chance.choice(sorted(found)).relation)

    def measure_of(self, relation: str) -> DrawnMeasure:
        node = self.value_nodes.get(relation)
        text = relation if node is None else f"{relation}/{node.amount}"
        return DrawnMeasure(text, relation, self._dated(self.sampler.schema.relations[relation]))

    def counted(self, members: Sequence[str], *, have: float = HAVE, least: float = 1.3) -> DirectedRelation:
        """A relation that leads from most members to one or several things, so that they can be counted for each."""
        ways = [way for way, share in self.shares(members).items() if share >= have and way in self.sampler.to_things]
        ways = [way for way in ways if self.sampler.fan(way) >= least and plain_name(way.relation) not in TELLS_NOTHING]
        return self.sampler.choose(sorted(ways))

    @cached_property
    def dated_relations(self) -> frozenset[str]:
        """The relations whose values are dates, of which the least is the oldest."""
        return frozenset(name for name, one in self.sampler.schema.relations.items() if self._dated(one))

    def _dated(self, relation: Relation) -> bool:
        return relation.dates > relation.numbers

    @cached_property
    def _valued(self) -> frozenset[DirectedRelation]:
        return frozenset(self.sampler.valued_things)

    @cached_property
    def timed_ways(self) -> list[DirectedRelation]:
        """The directed relations whose facts have dates, as far as a few of them show."""
        sampler = self.sampler
        found = []
        for way in sampler.first_ways:
            names = [sampler.starts.draw(way, self.chance, 0.0) for _ in range(TIMES_LOOKED_AT)]
            some = (sampler.graph.neighbors(name, way.relation, out=way.out).times or () for name in names)
            if any(one for times in some for one in times):
                found.append(way)
        return found

    # True and false

    @cached_property
    def truths(self) -> list[str]:
        """The relations whose values are true and false."""
        relations = self.sampler.schema.relations.values()
        return sorted(one.name for one in relations if {tail.lower() for tail in one.sample_tails} <= TRUTHS)

    def truth_of(self, relation: str) -> str:
        """The word for true, as a relation's values write it."""
        tails = self.sampler.schema.relations[relation].sample_tails
        found = [tail for tail in tails if tail.lower() in ("true", "yes")]
        if not found:
            raise PlanRejected("nothing is true")
        return found[0]

    # Values behind nodes

    @property
    def value_nodes(self) -> dict[str, ValueNode]:
        """The relations that lead to nodes which only hold a value, each with the relations from there."""
        return self.sampler.value_nodes

    def _is_value_node(self, kind: Kind) -> bool:
        """Whether a kind's members are nodes that only hold values: all prices, all quantities."""
        if kind.relation in self.value_nodes or any(kind.relation == node.unit for node in self.value_nodes.values()):
            return True
        amounts = {node.amount for node in self.value_nodes.values()}
        some = kind.members(self.sampler.graph)[:5] if amounts and kind.value else []
        return bool(some) and all(amounts & set(self.graph.relations(name)) for name in some)

    # Values

    def value(self, builder: PlanBuilder, name: str, text: str) -> str | None:
        """The one value that a thing has of an expression; None where it has none, or several."""
        found = [one.text for one in builder.sets.values(name, builder.sets.expression(text))]
        return found[0] if len(found) == 1 and value_of(found[0]) is not None else None

    def numbers(self, builder: PlanBuilder, members: Sequence[str], text: str) -> dict[str, float]:
        """The value of each member that has one; rejected if many have none or several."""
        texts = {name: self.value(builder, name, text) for name in members}
        read = {name: value_of(one) for name, one in texts.items() if one is not None}
        numbers = {name: value.number for name, value in read.items() if value is not None}
        if len(numbers) < 3 or len(numbers) < HAVE * len(members):
            raise PlanRejected("too few values to compare")
        return numbers


@dataclass(frozen=True, slots=True)
class DrawnMeasure:
    """What things are compared by: an expression, the relation that its words come from, and whether it is a time."""

    text: str
    relation: str
    dates: bool


# Steps that patterns share


def said(builder: PlanBuilder, measure: DrawnMeasure) -> str:
    """The measure's expression, remembered for the wording."""
    builder.say(measure.text)
    return measure.text


def forward(builder: PlanBuilder, way: DirectedRelation) -> str:
    text = way.relation if way.out else f"^{way.relation}"
    builder.say(text)
    return text


def named(groups: Groups, members: Sequence[str], size: int) -> list[str]:
    names = [name for name in members if askable(name)]
    if len(names) < size:
        raise PlanRejected("no topic that can be named")
    return groups.chance.sample(names, size)


def number_of_value(groups: Groups, builder: PlanBuilder, name: str, measure: DrawnMeasure) -> float:
    found = groups.value(builder, name, measure.text)
    if found is None:
        raise PlanRejected("too few values to compare")
    value = value_of(found)
    assert value is not None
    return value.number


def bound_between(groups: Groups, values: Sequence[float], dates: bool) -> str:
    if len(values) < 2:
        raise PlanRejected("too few values to compare")
    bound = round_between(*groups.chance.choice(list(pairwise(values))), year=dates)
    if dates and any(int(value) == int(bound) != value for value in values):
        raise PlanRejected("a date inside the year it is compared with")
    return bound


def check_changes(builder: PlanBuilder, kept: int, members: Sequence[str]) -> None:
    """Rejects a choice that keeps all or none."""
    if not 0 < len(builder.members(kept)) < len(members):
        raise PlanRejected(NOTHING)


def counting(way: DirectedRelation, within: int = 0) -> str:
    return f"count({'^' * (not way.out)}{way.relation}{f' in ${within}' if within else ''})"
