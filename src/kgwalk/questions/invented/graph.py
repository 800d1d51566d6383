"""One random world: a small graph whose schema is drawn from the bank and whose names are invented.

    world = make_world(Stock(load_bank()), 7, random.Random(7), WorldSettings(), Namer())
    world.facts, world.meanings["directed_by"]

Knows how its parts come together; questions are asked in join.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kgwalk.questions.bank import Concept
from kgwalk.questions.invented.concepts import PlacedConcept, Stock, Style, inverted, label_key
from kgwalk.questions.invented.facts import End, dated, draw_facts, draw_things
from kgwalk.questions.invented.names import Manner, Namer
from kgwalk.questions.invented.values import HAPPENS, LASTS, SYMMETRIC, Span, Values
from kgwalk.types import KgwalkError, Triple

_OF_A_TIME = 0.75  # the share of relations for a time that have a node in between, in worlds with such nodes
_TIMED_NODES = 0.8  # the share of relations for a time, with a node in between, whose nodes say which time
_Writer = Callable[[str, str, str], list[Triple]]  # of a head, a tail and a time


@dataclass(frozen=True)
class InventedSettings:
    """What worlds are like; ranges are from and to, both included."""

    entities: tuple[int, int] = (150, 600)
    relations: tuple[int, int] = (9, 40)
    domains: tuple[int, int] = (1, 4)
    dated: float = 0.0  # the share of relations whose facts have a time

    def __post_init__(self) -> None:
        for name in ("entities", "relations", "domains"):
            low, high = getattr(self, name)
            if not 0 < low <= high:
                raise KgwalkError(f"{name} from {low} to {high}: give a range from 1 up")


@dataclass(frozen=True)
class InventedGraph:
    """Of a label, `meanings` tells the concept, and whether facts are turned round. Opaque labels stand nowhere."""

    number: int
    facts: list[Triple]
    meanings: dict[str, tuple[Concept, bool]]
    ends: dict[str, End]  # of facts with a node in between (mediators.py)
    marks: dict[str, str] = field(default_factory=dict)  # labels of such a node's times: its "start", "end" or "date"

    @property
    def key(self) -> str:
        return f"w{self.number:04}"


def make_world(
    stock: Stock,
    number: int,
    chance: random.Random,
    settings: InventedSettings,
    namer: Namer,
    *,
    wanted: Collection[str] = (),
    banned: Collection[str] = (),
) -> InventedGraph:
    """A world; `wanted` concepts, by id, come up more often, and no label has one of the `banned` keys."""
    home = chance.sample(stock.domains, min(len(stock.domains), chance.randint(*settings.domains)))
    style = Style.of(chance)
    shares = _Shares.of(style, chance)
    count = round(_skewed(settings.relations, chance) / (1 + 0.7 * shares.both))  # few relations have values
    placed = stock.choose(max(count, 3), home, chance, wanted)
    making = _Making(
        stock, Style.of(chance), namer.manner(chance), Values.of(chance), chance, shares, frozenset(banned)
    )
    return making.world(number, placed, _skewed(settings.entities, chance), settings.dated)


def _skewed(between: tuple[int, int], chance: random.Random) -> int:
    """A number from a range, small ones likelier."""
    return round(chance.triangular(between[0], between[1], between[0] + (between[1] - between[0]) / 4))


@dataclass(frozen=True)
class _Shares:
    """Of a world's relations: turned round, there both ways, with a label that says nothing, with a node in between."""

    turned: float
    both: float
    opaque: float
    mediated: float

    @classmethod
    def of(cls, style: Style, chance: random.Random) -> _Shares:
        often = (3, 4, 3) if style.main == "path" else (15, 3, 2)
        return cls(
            chance.choice((0.0, 0.1, 0.3)),
            chance.choices((0.0, 0.2, 1.0), (6, 2, 2))[0],
            chance.choices((0.0, 0.08), (7, 3))[0],
            chance.choices((0.0, 0.25, 0.5), often)[0],
        )


@dataclass
class _Making:
    stock: Stock
    style: Style
    manner: Manner
    values: Values
    chance: random.Random
    shares: _Shares
    banned: frozenset[str]
    keys: set[str] = field(default_factory=set)  # of the labels that are used
    meanings: dict[str, tuple[Concept, bool]] = field(default_factory=dict)
    ends: dict[str, End] = field(default_factory=dict)
    marks: dict[str, str] = field(default_factory=dict)

    def world(self, number: int, placed: Sequence[PlacedConcept], entities: int, timed: float) -> InventedGraph:
        chance = self.chance
        things = draw_things(placed, entities, self.manner, chance)
        spans = {thing.name: thing.span for some in things.values() for thing in some}
        facts: dict[Triple, None] = {}
        for one in placed:
            write = self._writer(one, placed, spans)
            if write is None:
                continue
            has_times = chance.random() < timed and not one.literal
            for head, tail in draw_facts(one, things, self.values, chance):
                time = dated(spans[head], chance) if has_times else ""
                facts |= dict.fromkeys(write(head, tail, time))
        used = {fact.relation for fact in facts}
        meanings = {label: one for label, one in self.meanings.items() if label in used}
        ends = {label: end for label, end in self.ends.items() if label in used}
        return InventedGraph(
            number, list(facts), meanings, ends, {label: at for label, at in self.marks.items() if label in used}
        )

    def _writer(self, one: PlacedConcept, placed: Sequence[PlacedConcept], spans: Mapping[str, Span]) -> _Writer | None:
        """What writes a fact of a relation as triples; None where no label is free."""
        many = not one.literal and one.concept.id not in SYMMETRIC
        mediated = self.shares.mediated
        if mediated and one.concept.id in LASTS | HAPPENS:
            mediated = _OF_A_TIME
        if many and self.chance.random() < mediated:
            return self._through_a_node(one, placed, spans)
        labels = self._labels(one, placed)

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
        self.ends |= {near: End(concept, True, into), far: End(concept, False, not on)}
        marks = self._marks(near, concept) if chance.random() < _TIMED_NODES else {}

        def write(head: str, tail: str, time: str) -> list[Triple]:
            node = self.manner.id(chance)
            first = Triple(head, near, node, time) if into else Triple(node, near, head, time)
            made = [first, Triple(node, far, tail, time) if on else Triple(tail, far, node, time)]
            dates = self.values.term(spans[head], chance) if marks else {}
            return [*made, *(Triple(node, label, dates[at], time) for label, at in marks.items())]

        return write

    def _marks(self, near: str, concept: Concept) -> dict[str, str]:
        """Labels for the times of a node: when it began and ended, or when it was. Worlds without paths share them."""
        ats = ("start", "end") if concept.id in LASTS else ("date",) if concept.id in HAPPENS else ()
        labels = dict(zip(self.style.mark_labels(near, concept, ats, self.chance), ats, strict=True))
        for label, at in labels.items():
            taken = label_key(label) in self.keys or label in self.meanings or label in self.ends
            if (
                self.marks.get(label, at) != at
                or (taken and label not in self.marks)
                or label_key(label) in self.banned
            ):
                return {}
        self.marks |= labels
        return labels

    def _labels(self, one: PlacedConcept, placed: Sequence[PlacedConcept]) -> list[tuple[str, bool]]:
        """The labels of a relation, each with whether it is turned round; usually one."""
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
            derived = inverted(label, chance)
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
        """Whether no relation is called so, and none between the same kinds could be."""
        key = label_key(label)
        if not key or key in self.keys or key in self.banned:
            return False
        if label in self.meanings or label in self.ends or label in self.marks:
            return False
        for other in placed:
            if other is own or {other.head, other.tail} != {own.head, own.tail}:
                continue
            entry = self.stock.entries[other.concept.id]
            if key in entry.keys or key in entry.inverse_keys:
                return False
        return True
