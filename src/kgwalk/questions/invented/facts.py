"""Entities and facts of an invented graph, and how facts with a mediator node are worded.

    entities = draw_entities(placed, 300, naming, chance)
    draw_facts(placed[0], entities, values, chance)             # pairs of head and tail

Each head has as many tails as its concept allows; a few entities come up far more often than the others.

A mediator node stands between the two ends of a fact, as in Freebase for a part in a film or a term of office:

    film -[film.film.starring]-> m.0x7k2 -[film.starring.person]-> person

People speak of these two hops as one. The hop to the nameless node adds no words ("{}"), the hop from it words the
concept, so a chain over both reads "Who starred in X?".
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from kgwalk.demos.route import CHOICES
from kgwalk.kg.build import build
from kgwalk.kg.sources.source import Options
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.questions.bank import Concept
from kgwalk.questions.invented.concepts import PlacedConcept
from kgwalk.questions.invented.names import NamingStyle, spelled
from kgwalk.questions.invented.values import LATER, SYMMETRIC, Span, ValueStyle, is_money, random_span, unit_of
from kgwalk.questions.invented.words import CLOSED_KINDS
from kgwalk.questions.plan import HOPS, QuestionPlan, way_of
from kgwalk.questions.wording.bank_lexicon import BankLexicon
from kgwalk.questions.wording.english import DATE, plural
from kgwalk.questions.wording.lexicon import Templates
from kgwalk.questions.wording.relation_names import read_name
from kgwalk.questions.wording.values import spoken_units
from kgwalk.types import Call, Triple
from kgwalk.walk.facts import DirectedRelation

_FULL = 0.98  # the share of rows with a value in a column
_MOST_TAILS = 8  # of one head, in an n:m relation
_LEAST_ENTITIES = 4  # of one kind
_EVENLY = 0.75  # an exponent: a kind with many relations has more entities, but not in proportion
# Entities that a kind needs for each relation that it is the tail of, relative to 1 for one that it is the head of.
_AS_TAIL = {"n:1": 0.4, "n:m": 0.8, "1:n": 1.0, "1:1": 1.0}


@dataclass(frozen=True, slots=True)
class InventedEntity:
    """A name, and the years from its beginning to its end."""

    name: str
    span: Span


def draw_entities(
    placed: Sequence[PlacedConcept], total: int, naming: NamingStyle, chance: random.Random
) -> dict[str, list[InventedEntity]]:
    """About `total` entities of the kinds that these relations join, by kind, the earliest first."""
    needs: dict[str, float] = {}
    for one in placed:
        needs[one.head] = needs.get(one.head, 0.0) + 1.0
        if not one.literal:
            needs[one.tail] = needs.get(one.tail, 0.0) + _AS_TAIL[one.concept.many]
    needs = {kind: need**_EVENLY for kind, need in needs.items()}
    share = total / sum(needs.values())
    used: set[str] = set()
    entities: dict[str, list[InventedEntity]] = {}
    for kind, need in needs.items():
        count = max(_LEAST_ENTITIES, round(need * share))
        if kind in CLOSED_KINDS:
            known = [spelled(name, naming.spelling, person=False) for name in CLOSED_KINDS[kind]]
            known = [name for name in known if name not in used]
            names = chance.sample(known, min(count, len(known)))
        else:
            names = [naming.name(kind, chance) for _ in range(count)]
        used.update(names)
        made = [InventedEntity(name, random_span(chance)) for name in names]
        entities[kind] = sorted(made, key=lambda entity: (entity.span.first, entity.name))
    return entities


def draw_facts(
    placed: PlacedConcept,
    entities: dict[str, list[InventedEntity]],
    values: ValueStyle,
    chance: random.Random,
    *,
    full: bool = False,
) -> list[tuple[str, str]]:
    """Pairs of head and tail of one relation, in no particular order; some facts are missing, as in real graphs, and
    few if they are to be `full`, as in tables.
    """
    heads = entities[placed.head]
    known = [entity for entity in heads if chance.random() < (_FULL if full else _coverage(chance))]
    if placed.literal:
        return _valued(placed, known, values, chance)
    tails = entities[placed.tail]
    if placed.head == placed.tail:
        pairs = _among(placed, heads, chance)
    elif placed.concept.many == "1:1":
        pairs = list(zip(known, chance.sample(tails, len(tails)), strict=False))
    elif placed.concept.many == "1:n":
        choose = _Popular(heads, chance)
        pairs = [(choose.one(), tail) for tail in tails if chance.random() < _coverage(chance)]
    else:
        choose = _Popular(tails, chance)
        pairs = [(head, tail) for head in known for tail in choose.several(_how_many(placed, chance))]
    return [(head.name, tail.name) for head, tail in dict.fromkeys(pairs) if head.name != tail.name]


def _valued(
    placed: PlacedConcept, known: Sequence[InventedEntity], values: ValueStyle, chance: random.Random
) -> list[tuple[str, str]]:
    pairs = []
    for entity in known:
        several = 1 if placed.concept.many.endswith(":1") else chance.choice((1, 1, 1, 2))
        pairs += [(entity.name, values.value(placed.concept, entity.span, chance)) for _ in range(several)]
    if placed.concept.many == "1:1":  # no two entities have the same
        pairs = list({tail: (head, tail) for head, tail in pairs}.values())
    return list(dict.fromkeys(pairs))


def _among(
    placed: PlacedConcept, entities: Sequence[InventedEntity], chance: random.Random
) -> list[tuple[InventedEntity, InventedEntity]]:
    """Facts within one kind: symmetric ones in both directions, others without circles. Entities come by age."""
    many, pairs = placed.concept.many, list[tuple[InventedEntity, InventedEntity]]()
    if placed.concept.id in SYMMETRIC:
        mixed = chance.sample(entities, len(entities))
        pairs = list(zip(mixed[::2], mixed[1::2], strict=False))
        if many != "1:1":
            pairs += [(chance.choice(entities), chance.choice(entities)) for _ in range(len(entities) // 2)]
        pairs = [pair for pair in pairs if chance.random() < 0.9]
        return [*pairs, *((tail, head) for head, tail in pairs)]
    if many == "1:1":  # chains: the next book, the book before
        for first, second in zip(entities, entities[2:], strict=False):  # two chains beside each other
            if chance.random() < 0.75:
                pairs.append((first, second))
    else:
        lean = chance.uniform(0.5, 1.6)  # below 1 towards entities just before, above 1 towards the first of all
        for at, entity in enumerate(entities[1:], 1):
            if chance.random() < 0.8:
                # each later entity has one or several before it; read the other way, one has many after it
                count = 1 if "1" in many else _how_many(placed, chance)
                pairs += [(entities[int(at * chance.random() ** lean)], entity) for _ in range(count)]
    # pairs are (earlier, later); turned round for relations whose tail is the earlier one
    later = placed.concept.id in LATER or many == "1:n"
    return pairs if later else [(second, first) for first, second in pairs]


def _how_many(placed: PlacedConcept, chance: random.Random) -> int:
    if placed.concept.many == "n:1":
        return 1
    return min(_MOST_TAILS, 1 + int(chance.expovariate(0.8)))


def _coverage(chance: random.Random) -> float:
    return chance.uniform(0.6, 1.0)


class _Popular:
    """Draws entities so that a few come up often: rank r has the weight 1 / r**slope."""

    def __init__(self, entities: Sequence[InventedEntity], chance: random.Random) -> None:
        self.entities, self.chance = chance.sample(entities, len(entities)), chance
        slope = chance.uniform(0.3, 1.0)
        self.cumulative = list(accumulate((rank + 1) ** -slope for rank in range(len(entities))))

    def one(self) -> InventedEntity:
        return self.chance.choices(self.entities, cum_weights=self.cumulative)[0]

    def several(self, count: int) -> list[InventedEntity]:
        """Distinct entities, at most `count`."""
        return list(dict.fromkeys(self.chance.choices(self.entities, cum_weights=self.cumulative, k=count)))


def random_time(span: Span, chance: random.Random, *, lasting: float = 0.0) -> str:
    """When a fact held, within a span: one year, or a few; a share of them is `lasting` until now."""
    first = chance.randint(span.first, span.last)
    if lasting and chance.random() < lasting:
        return f"{first}.."
    return str(first) if chance.random() < 0.5 else f"{first}..{min(span.last, first + chance.randrange(1, 9))}"


# What the full walking language also asks about: types to start from, and values behind nodes


_TYPED = 0.7  # the share of graphs that say of each thing what kind it is
_EXPORTED = 0.6  # the share of graphs made of tables whose kinds are called as their files are
_TYPE_LABELS = ("type", "rdf:type", "is_a", "instance of", "isA", "kind", "instance_of", "a")
_VALUE_NODES = (0.0, 0.6, 0.9)  # shares of a graph's numbers that are nodes of their own
_AMOUNTS = ("amount", "value", "hasValue", "numeric_value", "amount", "figure")
_UNITS = ("unit", "unit", "hasUnit", "unit_code")


@dataclass(frozen=True, slots=True)
class ValueNodes:
    """How a graph of the full language writes numbers as nodes, and what it calls types; "" for none."""

    share: float
    amount: str
    unit: str
    currency: str
    money: str  # its one currency
    type: str
    capital: bool  # Film, not film
    tables: bool = False  # films: kinds are the names of tables

    @classmethod
    def of(cls, chance: random.Random, *, tables: bool = False) -> ValueNodes:
        """`tables`: a cell holds its value itself, and the table's name is the kind of its rows."""
        typed = chance.choice(_TYPE_LABELS) if tables or chance.random() < _TYPED else ""
        exported = tables and chance.random() < _EXPORTED
        return cls(
            0.0 if tables else chance.choice(_VALUE_NODES),
            chance.choice(_AMOUNTS),
            chance.choice(_UNITS),
            chance.choice(("currency", "currency", "hasCurrency")),
            chance.choice(("EUR", "USD", "GBP", "CHF", "euro", "US dollar")),
            "is_a" if exported else typed,
            chance.random() < 0.6,
            exported,
        )

    @property
    def labels(self) -> frozenset[str]:
        """The relations of a node that holds a value."""
        return frozenset({self.amount, self.unit, self.currency})

    def type_of(self, kind: str) -> str:
        if self.tables:
            return plural(kind).replace(" ", "_")
        return kind.title() if self.capital else kind

    def facts(self, concept: Concept, head: str, label: str, value: str, node: str) -> list[Triple]:
        """A value as a node, with its amount and, where there is one, its unit."""
        unit = unit_of(concept)
        made = [Triple(head, label, node), Triple(node, self.amount, value)]
        if is_money(concept):
            return [*made, Triple(node, self.currency, self.money)]
        return [*made, Triple(node, self.unit, unit)] if unit else made


def passes_value_nodes(plan: QuestionPlan, nodes: Collection[str], labels: Collection[str]) -> bool:
    """Whether a plan speaks of nodes that hold values only together with what they hold."""
    if plan.asked is not None and plan.asked.relation in labels:
        return False
    texts = [str(step.args[1]) for step in plan.steps if len(step.args) > 1 and isinstance(step.args[1], str)]
    if any(text in nodes or text in labels for text in texts) or any(
        kind.relation in {*nodes, *labels} for kind in plan.kinds
    ):
        return False
    ways = [way for expression in plan.expressions.values() for way in expression.path]
    alone = (way[0].relation for way in ways if len(way) == 1)
    return not any(relation in nodes or relation in labels for relation in alone)


# Facts with a mediator node


_SILENT = Templates((), ("{}",))


@dataclass(frozen=True, slots=True)
class MediatorEnd:
    """One of the two relations around a mediator node."""

    concept: Concept
    head: bool  # whether it is at the concept's head; else at its tail
    inward: bool  # whether its facts lead into the node

    def enters(self, way: DirectedRelation) -> bool:
        """Whether a hop in this direction leads to the node."""
        return way.out == self.inward


class InventedLexicon:
    """The bank's templates for the relations of an invented graph, also for those around mediator nodes.

    `times` are relations from such a node to a time, each with what that is: its "start", its "end" or its "date".
    `currency` is the one of all its amounts of money, where the graph tells.
    """

    def __init__(
        self,
        meanings: Mapping[str, tuple[Concept, bool]],
        ends: Mapping[str, MediatorEnd],
        times: Mapping[str, str] | None = None,
        currency: str = "",
    ) -> None:
        self._plain, self._ends = BankLexicon(meanings, [end.concept for end in ends.values()]), ends
        self._time_labels, self._currency = times or {}, currency

    def templates(self, way: DirectedRelation) -> Templates:
        end = self._ends.get(way.relation)
        if way.relation in self._time_labels:
            return Templates((), (), DATE)
        if end is None:
            return self._plain.templates(way)
        if end.enters(way):
            return _SILENT
        concept = end.concept
        questions, nouns, kind = (
            (concept.backward, concept.backward_nouns, concept.head)
            if end.head
            else (concept.forward, concept.forward_nouns, concept.tail)
        )
        bare = self._plain.concept_nouns.nouns(concept, not end.head)
        return Templates(questions, nouns, kind, bare=bare, where=() if end.head else concept.where)

    def through(self, ways: tuple[DirectedRelation, ...]) -> Templates | None:
        return self._plain.through(ways)

    def value_words(self, relation: str) -> tuple[str, ...]:
        if relation in self._time_labels:
            return (self._time_labels[relation],)
        return () if relation in self._ends else self._plain.value_words(relation)

    def units(self, relation: str) -> tuple[str, ...]:
        if relation in self._ends or relation in self._time_labels:
            return ()
        if self._currency and is_money(self._plain.concepts[relation][0]) and not read_name(relation).unit:
            return spoken_units(self._currency)
        return self._plain.units(relation)

    def alone(self, way: DirectedRelation) -> bool:
        end = self._ends.get(way.relation)
        return self._plain.alone(way) if end is None else self._plain.concept_nouns.alone(end.concept)


def passes_mediators(plan: QuestionPlan, ends: Mapping[str, MediatorEnd], times: Collection[str] = ()) -> bool:
    """Whether every hop to a mediator node is followed by the hop to its other end.

    Between the two, nodes may be chosen by their `times`; nothing else may be done with them.
    """
    named = {hop.relation for one in plan.expressions.values() for way in one.path for hop in way}
    if any(relation in ends or relation in times for relation in named):
        return False
    for number, step in enumerate(plan.steps, plan.starts + 1):
        relation = str(step.args[1]) if step.tool in HOPS + CHOICES else ""
        if relation in times and step.tool in HOPS:
            return False
        end = ends.get(relation)
        if end is None:
            continue
        if step.tool in CHOICES:
            return False
        if end.enters(way_of(step)):
            if not _goes_on(plan, number, end, ends, times):
                return False
        else:
            before = plan.made_by(_chosen_from(plan, step, times))
            entered = ends.get(str(before.args[1])) if before is not None and before.tool in HOPS else None
            if before is None or entered is None or not entered.enters(way_of(before)):
                return False
    return True


def _goes_on(
    plan: QuestionPlan, number: int, entered: MediatorEnd, ends: Mapping[str, MediatorEnd], times: Collection[str]
) -> bool:
    """Whether every step from a set of nodes leads to their other ends, perhaps after a choice among them by time."""
    after = [(at, one) for at, one in enumerate(plan.steps, plan.starts + 1) if number in one.args]
    return bool(after) and all(
        _goes_on(plan, at, entered, ends, times)
        if one.tool in CHOICES and str(one.args[1]) in times
        else _leaves(one, entered, ends)
        for at, one in after
    )


def _chosen_from(plan: QuestionPlan, step: Call, times: Collection[str]) -> int:
    """The set that a hop starts from, as it was before nodes were chosen by time."""
    source = step.args[0]
    assert isinstance(source, int)
    before = plan.made_by(source)
    chose = before is not None and before.tool in CHOICES and str(before.args[1]) in times
    return _chosen_from(plan, before, times) if chose and before is not None else source


def _leaves(step: Call, entered: MediatorEnd, ends: Mapping[str, MediatorEnd]) -> bool:
    end = ends.get(str(step.args[1])) if step.tool in HOPS else None
    if end is None or end.enters(way_of(step)):
        return False
    return end.concept is entered.concept and end.head != entered.head


def store_of(facts: Sequence[Triple], folder: Path) -> StoredGraph:
    """A store of these facts, built in a folder."""
    source = folder / "facts.tsv"
    timed = any(fact.time for fact in facts)
    source.write_text("".join("\t".join(fact if timed else fact[:3]) + "\n" for fact in facts), "utf-8")
    build([source], folder / "graph.kg", options=Options(header=False))
    return open_graph(folder / "graph.kg")
