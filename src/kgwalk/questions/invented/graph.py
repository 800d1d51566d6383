"""Invented graphs: small graphs with schemas drawn from the bank, and invented names.

    pool = ConceptPool(load_bank())
    graph = make_invented_graph(pool, 7, random.Random(7), InventedSettings(), Namer())
    graph.facts, graph.meanings["directed_by"]

A label may mean one thing in one graph and another in the next. `dataset` makes many of them, with questions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kgwalk.questions.bank import Concept
from kgwalk.questions.invented.columns import (
    WITH_COLUMNS,
    SharedColumn,
    draw_columns,
    truth_facts,
)
from kgwalk.questions.invented.concepts import (
    ConceptPool,
    LabelStyle,
    PlacedConcept,
    inverse_label,
    label_key,
)
from kgwalk.questions.invented.facts import (
    InventedEntity,
    MediatorEnd,
    ValueNodes,
    draw_entities,
    draw_facts,
    random_time,
)
from kgwalk.questions.invented.junctions import Junctions, RowTables, chosen_for_rows
from kgwalk.questions.invented.names import Namer, NamingStyle
from kgwalk.questions.invented.values import HAPPENS, LASTS, SYMMETRIC, Span, ValueStyle
from kgwalk.types import KgwalkError, Triple
from kgwalk.walk.paths import Hop

_OF_A_TIME = 0.75  # the share of relations that hold for a time that get a mediator node, in graphs with such nodes
_WITH_TRUTHS = 0.5  # the share of graphs of the full language with relations that are true or false
_CATALOGUES = 0.4  # of graphs of the full language that are no tables, the share with as many values
_LASTING = 0.35  # the share of dated facts that still hold, in graphs of the full language
_WITH_ROWS = 0.8  # the share of graphs made of tables with rows between two things
_TIMED_NODES = 0.8  # the share of those whose mediator nodes have that time
_Writer = Callable[[str, str, str], list[Triple]]  # a fact's triples, from its head, tail and time


@dataclass(frozen=True)
class InventedSettings:
    """What one invented graph is like; ranges include both ends."""

    entities: tuple[int, int] = (150, 600)
    relations: tuple[int, int] = (9, 40)
    domains: tuple[int, int] = (1, 4)
    dated: float = 0.0  # the share of relations whose facts have a time
    language: str = "core"  # with "full" some have types, and values behind nodes
    rows: float = 0.4  # the share of graphs with a domain that has rows joining two things: enrolments, bookings
    tables: float = 0.5  # the share of graphs of the full language that look like tables: rows with many values

    def __post_init__(self) -> None:
        for name in ("entities", "relations", "domains"):
            low, high = getattr(self, name)
            if not 0 < low <= high:
                raise KgwalkError(f"{name} from {low} to {high}: give a range from 1 up")


@dataclass(frozen=True)
class InventedGraph:
    """Facts, and what their relations mean. A label in none of the three tables means nothing, and is not asked for."""

    number: int
    facts: list[Triple]
    meanings: dict[str, tuple[Concept, bool]]  # by label: the concept, and whether facts run from its tail to its head
    ends: dict[str, MediatorEnd]  # by label, for facts with a mediator node
    times: dict[str, str] = field(default_factory=dict)  # labels of a mediator node's "start", "end" and "date"
    nodes: frozenset[str] = frozenset()  # labels that lead to nodes which hold a value...
    values: frozenset[str] = frozenset()  # ...and those from there to the value and its unit
    truths: frozenset[str] = frozenset()  # labels whose values are true and false
    currency: str = ""  # of all amounts of money, where nodes tell it
    # The facts that questions are drawn from, where they are not those of the graph: without rows between two things
    asked: list[Triple] | None = None
    junctions: Junctions = field(default_factory=lambda: Junctions({}))
    columns: dict[str, Concept] = field(default_factory=dict)  # of rows, by the label that leads to a concept's tail

    @property
    def key(self) -> str:
        return f"w{self.number:04}"


def make_invented_graph(
    pool: ConceptPool,
    number: int,
    chance: random.Random,
    settings: InventedSettings,
    namer: Namer,
    *,
    wanted: Collection[str] = (),
    banned: Collection[str] = (),
) -> InventedGraph:
    """One graph. `wanted` concepts, by id, come up more often; no label has one of the `banned` keys."""
    home = chance.sample(pool.domains, min(len(pool.domains), chance.randint(*settings.domains)))
    if pool.row_domains and chance.random() < settings.rows:
        home[0] = chance.choice(pool.row_domains)
    tables = settings.language == "full" and chance.random() < settings.tables
    style = LabelStyle.of_tables(chance) if tables else LabelStyle.of(chance)
    shares = _RelationMix(0.0, 0.0, 0.0, 0.0) if tables else _RelationMix.of(style, chance)
    count = round(_skewed(settings.relations, chance) / (1 + 0.7 * shares.both))  # few relations have values
    valued = tables or (settings.language == "full" and chance.random() < _CATALOGUES)
    placed = pool.choose(max(count, 3), home, chance, wanted, tables=valued)
    labels = style if tables else LabelStyle.of(chance)
    maker = _GraphMaker(
        pool, labels, namer.style(chance), ValueStyle.of(chance), chance, shares, frozenset(banned), tables=tables
    )
    if settings.language == "full":
        maker.value_nodes = ValueNodes.of(chance, tables=tables)
    return maker.make(number, placed, _skewed(settings.entities, chance), settings.dated)


def _skewed(between: tuple[int, int], chance: random.Random) -> int:
    """A number from a range; small ones are likelier."""
    return round(chance.triangular(between[0], between[1], between[0] + (between[1] - between[0]) / 4))


@dataclass(frozen=True)
class _RelationMix:
    """Shares of a graph's relations."""

    turned: float  # that run from the concept's tail to its head
    both: float  # that are there in both directions, under two labels
    opaque: float  # with a label that says nothing
    mediated: float  # with a mediator node between head and tail

    @classmethod
    def of(cls, style: LabelStyle, chance: random.Random) -> _RelationMix:
        often = (3, 4, 3) if style.main == "path" else (15, 3, 2)
        return cls(
            chance.choice((0.0, 0.1, 0.3)),
            chance.choices((0.0, 0.2, 1.0), (6, 2, 2))[0],
            chance.choices((0.0, 0.08), (7, 3))[0],
            chance.choices((0.0, 0.25, 0.5), often)[0],
        )


@dataclass
class _GraphMaker:
    pool: ConceptPool
    style: LabelStyle
    naming: NamingStyle
    values: ValueStyle
    chance: random.Random
    shares: _RelationMix
    banned: frozenset[str]
    tables: bool = False  # rows have a value in nearly every column
    keys: set[str] = field(default_factory=set)  # of the labels that are used
    meanings: dict[str, tuple[Concept, bool]] = field(default_factory=dict)
    ends: dict[str, MediatorEnd] = field(default_factory=dict)
    times: dict[str, str] = field(default_factory=dict)
    value_nodes: ValueNodes | None = None
    nodes: set[str] = field(default_factory=set)  # labels that lead to nodes which hold a value

    def make(self, number: int, placed: Sequence[PlacedConcept], entities: int, timed: float) -> InventedGraph:
        chance = self.chance
        columns = self._columns(placed)
        shared = [one for column in columns for one in column.relations]
        drawn = draw_entities([*placed, *shared], entities, self.naming, chance)
        spans = {thing.name: thing.span for some in drawn.values() for thing in some}
        facts: dict[Triple, None] = {}
        lasting = _LASTING if self.value_nodes is not None else 0.0
        for one in placed:
            write = self._writer(one, placed, spans)
            if write is None:
                continue
            has_times = chance.random() < timed and not one.literal
            for head, tail in draw_facts(one, drawn, self.values, chance, full=self.tables):
                time = random_time(spans[head], chance, lasting=lasting) if has_times else ""
                facts |= dict.fromkeys(write(head, tail, time))
        called = self._shared_facts(columns, drawn, facts)
        if self.value_nodes is not None and (type_label := self.value_nodes.type):
            plain = {one.tail for one in shared} - {end for one in placed for end in (one.head, one.tail)}
            typed = {kind: some for kind, some in drawn.items() if kind not in plain}  # a country is but a value
            kinds = {thing.name: self.value_nodes.type_of(kind) for kind, some in typed.items() for thing in some}
            known = dict.fromkeys(name for fact in facts for name in (fact.head, fact.tail) if name in kinds)
            facts |= dict.fromkeys(Triple(name, type_label, kinds[name]) for name in known)
        told = self._truths(drawn)
        facts |= dict.fromkeys(told)
        used = {fact.relation for fact in facts}
        meanings = {label: one for label, one in self.meanings.items() if label in used}
        ends = {label: end for label, end in self.ends.items() if label in used}
        times = {label: at for label, at in self.times.items() if label in used}
        values = self.value_nodes.labels if self.value_nodes is not None else frozenset[str]()
        by_id = {one.concept.id: one for one in placed}
        rows = self._rows(list(facts), by_id, {at: one for at, one in meanings.items() if at not in called})
        walked, paths, heads = list(facts), dict[str, tuple[Hop, ...]](), dict[str, str]()
        if rows is not None:
            walked, paths, heads = rows[1], dict(rows[0].paths), dict(rows[0].kinds)
        if called and self.value_nodes is not None:
            walked = [fact._replace(relation=called.get(fact.relation, fact.relation)) for fact in walked]
            paths |= {label: (Hop(column),) for label, column in called.items()}
            heads |= {label: self.value_nodes.type_of(meanings[label][0].head) for label in called}
        return InventedGraph(
            number,
            walked,
            meanings,
            ends,
            times,
            frozenset(self.nodes),
            values,
            frozenset(fact.relation for fact in told),
            self.value_nodes.money if self.value_nodes is not None and self.nodes else "",
            list(facts) if paths else None,
            Junctions(paths, heads),
            {} if rows is None else {column: one.concept for column, one in rows[0].columns.items()},
        )

    def _columns(self, placed: Sequence[PlacedConcept]) -> list[SharedColumn]:
        """Columns that several kinds share, in some of the graphs that have types."""
        if self.value_nodes is None or not self.value_nodes.type or self.chance.random() > WITH_COLUMNS:
            return []
        keys = {*self.banned, *map(label_key, (*self.value_nodes.labels, self.value_nodes.type))}
        keys |= {key for one in placed for key in self.pool.entries[one.concept.id].keys}
        return draw_columns(placed, self.chance, lambda label: label_key(label) not in keys)

    def _shared_facts(
        self, columns: Sequence[SharedColumn], drawn: Mapping[str, list[InventedEntity]], facts: dict[Triple, None]
    ) -> dict[str, str]:
        """Adds the facts of the columns, each under the label that it is asked by; returns the column of each."""
        called: dict[str, str] = {}
        for column in columns:
            for one in column.relations:
                label = column.asked_label(one)
                pairs = draw_facts(one, dict(drawn), self.values, self.chance, full=True)
                facts |= dict.fromkeys(Triple(head, label, tail) for head, tail in pairs)
                self._note(label, one.concept, False)
                called |= {label: column.label} if pairs else {}
            self.keys.add(label_key(column.label))
        return called

    def _rows(
        self, facts: list[Triple], placed: Mapping[str, PlacedConcept], meanings: Mapping[str, tuple[Concept, bool]]
    ) -> tuple[RowTables, list[Triple]] | None:
        """The facts of a graph made of tables with some relations as rows of their own; None where there are none."""
        if not self.tables or self.value_nodes is None or self.chance.random() > _WITH_ROWS:
            return None
        timed = {fact.relation for fact in facts if fact.time}
        labels = {label: placed[one.id] for label, (one, back) in meanings.items() if not back and label not in timed}
        chosen, single = chosen_for_rows(labels, self.chance)
        taken = {label_key(fact.relation) for fact in facts} | self.keys | self.banned
        tables = RowTables(
            self.chance, lambda label: label_key(label) not in taken, self.value_nodes.type, self.style.main == "camel"
        )
        made = tables.shared(single, tables.written(chosen, facts), self.value_nodes.type_of)
        return (tables, made) if tables.paths else None

    def _truths(self, drawn: Mapping[str, Sequence[InventedEntity]]) -> list[Triple]:
        """Facts that are true or false of things of a kind or two, in some graphs of the full language."""
        if self.value_nodes is None or self.chance.random() > _WITH_TRUTHS:
            return []
        taken = {*self.keys, *map(label_key, (*self.meanings, *self.ends))}
        things = {kind: [thing.name for thing in some] for kind, some in drawn.items()}
        return truth_facts(things, self.style.main == "camel", taken, label_key, self.chance)

    def _writer(self, one: PlacedConcept, placed: Sequence[PlacedConcept], spans: Mapping[str, Span]) -> _Writer | None:
        """A function that writes a fact of this relation as triples; None where no label is free."""
        many = not one.literal and one.concept.id not in SYMMETRIC
        mediated = self.shares.mediated
        if mediated and one.concept.id in LASTS | HAPPENS:
            mediated = _OF_A_TIME
        if many and self.chance.random() < mediated:
            return self._through_a_node(one, placed, spans)
        labels = self._labels(one, placed)
        holding = self.value_nodes if one.concept.tail == "number" and labels else None
        if holding is not None and label_key(labels[0][0]) in map(label_key, holding.labels):
            holding = None
        if holding is not None and self.chance.random() < holding.share:
            self.nodes.add(labels[0][0])
            return lambda head, tail, time: holding.facts(
                one.concept, head, labels[0][0], tail, self.naming.id(self.chance)
            )

        def write(head: str, tail: str, time: str) -> list[Triple]:
            return [Triple(tail, to, head, time) if back else Triple(head, to, tail, time) for to, back in labels]

        return write if labels else None

    def _through_a_node(
        self, one: PlacedConcept, placed: Sequence[PlacedConcept], spans: Mapping[str, Span]
    ) -> _Writer | None:
        chance, concept = self.chance, one.concept
        near = self.style.label(concept, False, chance, lambda text: self._free(text, one, placed))
        far = None if near is None else self.style.far_label(near, concept, chance)
        if near is None or far is None or far in self.meanings or far in self.ends or label_key(far) in self.banned:
            return None
        self.keys.add(label_key(near))
        into, on = chance.random() < 0.75, chance.random() < 0.75  # along the fact, or turned round
        self.ends |= {near: MediatorEnd(concept, True, into), far: MediatorEnd(concept, False, not on)}
        times = self._time_labels(near, concept) if chance.random() < _TIMED_NODES else {}

        def write(head: str, tail: str, time: str) -> list[Triple]:
            node = self.naming.id(chance)
            first = Triple(head, near, node, time) if into else Triple(node, near, head, time)
            made = [first, Triple(node, far, tail, time) if on else Triple(tail, far, node, time)]
            dates = self.values.term(spans[head], chance) if times else {}
            return [*made, *(Triple(node, label, dates[at], time) for label, at in times.items())]

        return write

    def _time_labels(self, near: str, concept: Concept) -> dict[str, str]:
        """Labels for a mediator node's start and end, or its date; relations share them unless labels are paths."""
        ats = ("start", "end") if concept.id in LASTS else ("date",) if concept.id in HAPPENS else ()
        labels = dict(zip(self.style.time_labels(near, concept, ats, self.chance), ats, strict=True))
        for label, at in labels.items():
            taken = label_key(label) in self.keys or label in self.meanings or label in self.ends
            if (
                self.times.get(label, at) != at
                or (taken and label not in self.times)
                or label_key(label) in self.banned
            ):
                return {}
        self.times |= labels
        return labels

    def _labels(self, one: PlacedConcept, placed: Sequence[PlacedConcept]) -> list[tuple[str, bool]]:
        """The labels of a relation, usually one, each with whether it runs from the concept's tail to its head."""
        chance, concept = self.chance, one.concept
        turns = not one.literal and concept.id not in SYMMETRIC
        if chance.random() < self.shares.opaque:
            opaque = self.style.opaque(chance)
            return [(opaque, False)] if label_key(opaque) not in self.keys else []
        back = turns and chance.random() < self.shares.turned
        label = self._label(one, placed, back)
        if label is None:
            return []
        labels = [(label, back)]
        if turns and chance.random() < self.shares.both:
            derived = inverse_label(label, chance)
            named = None if chance.random() < 0.3 else self._label(one, placed, not back)
            other = named or (derived if self._free(derived, one, placed) else None)
            if other is not None:
                self._note(other, concept, not back)
                labels.append((other, not back))
        return labels

    def _label(self, one: PlacedConcept, placed: Sequence[PlacedConcept], back: bool) -> str | None:
        label = self.style.label(one.concept, back, self.chance, lambda text: self._free(text, one, placed))
        if label is not None:
            self._note(label, one.concept, back)
        return label

    def _note(self, label: str, concept: Concept, back: bool) -> None:
        self.keys.add(label_key(label))
        self.meanings[label] = (concept, back)

    def _free(self, label: str, own: PlacedConcept, placed: Sequence[PlacedConcept]) -> bool:
        """Whether no relation has this label, and no concept between the same kinds could be called so."""
        key = label_key(label)
        if not key or key in self.keys or key in self.banned:
            return False
        if label in self.meanings or label in self.ends or label in self.times:
            return False
        for other in placed:
            if other is own or {other.head, other.tail} != {own.head, own.tail}:
                continue
            entry = self.pool.entries[other.concept.id]
            if key in entry.keys or key in entry.inverse_keys:
                return False
        return True
