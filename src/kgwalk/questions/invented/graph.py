"""Invented graphs: small graphs with schemas drawn from the bank, invented names, and questions about them.

    pool = ConceptPool(load_bank())
    graph = make_invented_graph(pool, 7, random.Random(7), InventedSettings(), Namer())     # one graph
    graph.facts, graph.meanings["directed_by"]
    write_invented(Path("folder"), InventedDataSettings(worlds=300), load_bank())          # many, as a dataset

In a dataset every graph belongs to one split. A share of the concepts is held out of the training graphs, so that the
other splits ask for relations that training never had. A label may mean one thing in one graph and another in the next,
so each question is asked over the facts of its own graph (`graph_id`). The same settings make the same dataset.
`kgwalk questions worlds` and `kgwalk fit` call `write_invented`.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kgwalk.data.dataset import GRAPH_ID
from kgwalk.data.folder import DatasetWriter
from kgwalk.questions.bank import Concept
from kgwalk.questions.invented.concepts import (
    ConceptPool,
    Exclusions,
    LabelStyle,
    PlacedConcept,
    asked_as,
    inverse_label,
    label_key,
)
from kgwalk.questions.invented.facts import (
    InventedEntity,
    InventedLexicon,
    MediatorEnd,
    ValueNodes,
    draw_entities,
    draw_facts,
    passes_mediators,
    passes_value_nodes,
    random_time,
    store_of,
)
from kgwalk.questions.invented.junctions import Junctions, RowGraph, RowTables, chosen_for_rows
from kgwalk.questions.invented.names import Namer, NamingStyle
from kgwalk.questions.invented.values import HAPPENS, LASTS, SYMMETRIC, Span, ValueStyle
from kgwalk.questions.invented.words import truth_words
from kgwalk.questions.make import make_questions
from kgwalk.questions.plan import MakeSettings, QuestionPlan
from kgwalk.questions.wording.speaker import Wording
from kgwalk.types import KgwalkError, Progress, Question, Triple, silent
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.kinds import ALL, OF_TYPE
from kgwalk.walk.paths import SIGNS, PathError, parse

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
        drawn = draw_entities(placed, entities, self.naming, chance)
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
        if self.value_nodes is not None and (type_label := self.value_nodes.type):
            kinds = {thing.name: self.value_nodes.type_of(kind) for kind, some in drawn.items() for thing in some}
            known = dict.fromkeys(name for fact in facts for name in (fact.head, fact.tail) if name in kinds)
            facts |= dict.fromkeys(Triple(name, type_label, kinds[name]) for name in known)
        told = self._truths(drawn)
        facts |= dict.fromkeys(told)
        used = {fact.relation for fact in facts}
        meanings = {label: one for label, one in self.meanings.items() if label in used}
        ends = {label: end for label, end in self.ends.items() if label in used}
        times = {label: at for label, at in self.times.items() if label in used}
        values = self.value_nodes.labels if self.value_nodes is not None else frozenset[str]()
        rows = self._rows(list(facts), {one.concept.id: one for one in placed}, meanings)
        return InventedGraph(
            number,
            list(facts) if rows is None else rows[1],
            meanings,
            ends,
            times,
            frozenset(self.nodes),
            values,
            frozenset(fact.relation for fact in told),
            self.value_nodes.money if self.value_nodes is not None and self.nodes else "",
            None if rows is None else list(facts),
            Junctions({}) if rows is None else Junctions(rows[0].paths, rows[0].kinds),
            {} if rows is None else {column: one.concept for column, one in rows[0].columns.items()},
        )

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
        """Facts that are true or false of every thing of a kind or two, in some graphs of the full language."""
        chance = self.chance
        if self.value_nodes is None or chance.random() > _WITH_TRUTHS:
            return []
        yes, no = chance.choice((("true", "false"), ("true", "false"), ("yes", "no"), ("True", "False")))
        facts: list[Triple] = []
        kinds = [kind for kind in sorted(drawn) if truth_words(kind)]
        for kind in chance.sample(kinds, min(len(kinds), chance.choice((1, 2, 2, 3)))):
            words = [*(["is"] * (chance.random() < 0.3)), *chance.choice(truth_words(kind)).split()]
            camel = self.style.main == "camel"
            label = words[0] + "".join(map(str.title, words[1:])) if camel else "_".join(words)
            if label_key(label) in self.keys or label in self.meanings or label in self.ends:
                continue
            self.keys.add(label_key(label))
            share = chance.uniform(0.15, 0.7)
            facts += [Triple(thing.name, label, yes if chance.random() < share else no) for thing in drawn[kind]]
        return facts

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


# Many invented graphs as one dataset


# Levels of wording (see `Wording`) and their shares: most questions do not use the relation's own words.
LEVELS = {0: 0.15, 1: 0.35, 2: 0.5}
NOISY_WORDS = 0.12  # the share of words with a mistake, in questions with noise


@dataclass(frozen=True)
class InventedDataSettings:
    """A dataset of invented graphs; the names are those of the options of `kgwalk questions worlds`."""

    worlds: int = 300  # invented graphs
    per_world: int = 60  # questions of each graph, at most
    seed: int = 0
    dev: float = 0.05  # the share of the graphs for dev, at least one graph
    test: float = 0.05
    held_out: float = 0.1  # the share of the concepts that no training graph has
    noise: float = 0.1  # the share of questions with typos and the like
    values: float = 0.3  # the share of graphs where a year or a number can be the topic of a question
    world: InventedSettings = field(default_factory=InventedSettings)
    questions: MakeSettings = field(default_factory=MakeSettings)

    def __post_init__(self) -> None:
        if self.worlds < 1 or self.per_world < 1:
            raise KgwalkError(f"{self.worlds} worlds of {self.per_world} questions: give at least 1 of each")
        if not (0 <= self.held_out <= 0.5 and self.dev >= 0 and self.test >= 0 and self.dev + self.test < 1):
            raise KgwalkError("dev and test are shares below 1 together, and held-out is one of at most 0.5")

    def splits(self) -> list[str]:
        """The split of each graph, by its number; of three graphs or more, at least one is for dev and one for test.

        >>> Counter(InventedDataSettings(worlds=20).splits()) == {"train": 18, "dev": 1, "test": 1}
        True
        """
        counts = {
            name: max(1, round(share * self.worlds)) if share and self.worlds > 2 else 0
            for name, share in (("dev", self.dev), ("test", self.test))
        }
        splits = [name for name, count in counts.items() for _ in range(count)]
        splits += ["train"] * (self.worlds - len(splits))
        random.Random(f"{self.seed}/splits").shuffle(splits)
        return splits

    def unseen(self, concepts: Sequence[Concept]) -> frozenset[str]:
        """The ids of the concepts that are held out of training."""
        if "train" in (splits := set(self.splits())) and len(splits) == 1:
            return frozenset()  # nothing to hold them out for
        ids = sorted(concept.id for concept in concepts)
        return frozenset(random.Random(f"{self.seed}/held out").sample(ids, round(self.held_out * len(ids))))


@dataclass(frozen=True)
class InventedPart:
    """One invented graph of a dataset, with its questions."""

    split: str
    graph: InventedGraph
    questions: list[Question]


class InventedWording:
    """Words each plan at a level drawn anew.

    Plans with relations that mean nothing have no words, and neither have those whose text is one of the `left_out`.
    """

    def __init__(self, invented: InventedGraph, noise: float, left_out: frozenset[str] = frozenset()) -> None:
        self._lexicon = lexicon = InventedLexicon(invented.meanings, invented.ends, invented.times, invented.currency)
        self._known = invented.meanings.keys() | invented.ends.keys() | invented.times.keys() | invented.values
        self._known |= invented.truths
        self._nodes, self._values = invented.nodes, invented.values
        self._ends, self._time_labels = invented.ends, invented.times
        self._noise, self._left_out = noise, left_out
        self._wordings = {
            words: [Wording(lexicon, level=level, noise=words) for level in LEVELS] for words in (0.0, NOISY_WORDS)
        }

    def says_as_one(self, ways: tuple[DirectedRelation, ...]) -> bool:
        return self._lexicon.through(ways) is not None

    def say(self, plan: QuestionPlan, chance: random.Random) -> str | None:
        named = [way.relation for way in plan.ways()]
        named += [kind.relation for kind in plan.kinds if kind.how not in (OF_TYPE, ALL)]
        if not all(relation in self._known for relation in named):
            return None
        if not passes_mediators(plan, self._ends, self._time_labels):
            return None
        if not passes_value_nodes(plan, self._nodes, self._values):
            return None
        wordings = self._wordings[NOISY_WORDS if chance.random() < self._noise else 0.0]
        text = chance.choices(wordings, list(LEVELS.values()))[0].say(plan, chance)
        if text is None or (self._left_out and asked_as(text, plan.topics) in self._left_out):
            return None
        return text


def make_invented(
    settings: InventedDataSettings,
    concepts: Sequence[Concept],
    left_out: Exclusions | None = None,
    *,
    thrown: Counter[str] | None = None,
    progress: Progress = silent,
) -> Iterator[InventedPart]:
    """The graphs in order, each with its questions; the same settings and concepts make the same ones.

    `thrown` counts the rejected draws by reason, over all graphs.
    """
    left_out = left_out or Exclusions()
    unseen = settings.unseen(concepts)
    train = [concept for concept in concepts if concept.id not in unseen]
    pools = {"train": ConceptPool(train)}
    pools |= {"dev": (whole := ConceptPool(concepts)), "test": whole}
    namer = Namer()
    for number, split in enumerate(settings.splits()):
        chance = random.Random(f"{settings.seed}/{number}")
        wanted = () if split == "train" else unseen
        graph = make_invented_graph(
            pools[split], number, chance, settings.world, namer, wanted=wanted, banned=left_out.labels
        )
        wording = InventedWording(graph, settings.noise, left_out.phrasings)
        told = Counter[str]() if thrown is None else thrown
        asked = ask_about(graph, wording, settings, chance, told, train)
        questions = [with_concepts(question, graph, unseen) for question in asked]
        yield InventedPart(split, graph, questions)
        progress("inventing graphs", number + 1, settings.worlds)


def ask_about(
    invented: InventedGraph,
    wording: InventedWording,
    settings: InventedDataSettings,
    chance: random.Random,
    thrown: Counter[str],
    concepts: Sequence[Concept] | None = None,
) -> list[Question]:
    """The questions of one invented graph, made over a temporary store of its facts. `concepts` are those that may be
    asked for where the graph does not have them.
    """
    wanted = replace(
        settings.questions,
        count=settings.per_world,
        seed=chance.randrange(1 << 30),
        name=invented.key,
        literal_topics=chance.random() < settings.values,
    )
    with tempfile.TemporaryDirectory(prefix="kgwalk-invented-") as folder:
        graph = store_of(invented.facts, Path(folder))
        if invented.asked is None:
            return make_questions(graph, wording, wanted, thrown=thrown, concepts=concepts)
        rows = RowGraph(graph, invented.junctions)
        with tempfile.TemporaryDirectory(prefix="kgwalk-invented-") as other:
            drawn = store_of(invented.asked, Path(other))
            return make_questions(drawn, wording, wanted, thrown=thrown, concepts=concepts, rows=rows)


def with_concepts(question: Question, invented: InventedGraph, unseen: frozenset[str]) -> Question:
    """The question with its graph, its concepts, and whether one of them is unseen in training, in `extra`."""
    program = question.extra["program"]
    assert isinstance(program, list)
    known = {label: concept.id for label, (concept, _) in invented.meanings.items()}
    known |= {label: end.concept.id for label, end in invented.ends.items()}
    known |= {label: concept.id for label, concept in invented.columns.items()}
    known |= {hops[0].relation: known[label] for label, hops in invented.junctions.paths.items() if len(hops) == 1}
    concepts = list(dict.fromkeys(known[part] for part in _relations_of(program, invented) if part in known))
    extra: dict[str, Any] = {GRAPH_ID: invented.key, "concepts": concepts, "unseen": not unseen.isdisjoint(concepts)}
    return replace(question, extra=question.extra | extra)


def _relations_of(program: Sequence[Sequence[str]], invented: InventedGraph) -> Iterator[str]:
    """Every text of a program that may be a relation, and those in its paths and values."""
    labels = {fact.relation for fact in invented.facts}
    for step in program:
        for part in step[1:]:
            yield part
            if part not in labels and SIGNS.search(part) is not None:
                try:
                    yield from parse(part, lambda name: name if name in labels else None).relations
                except PathError:  # an entity or a value
                    continue


@dataclass
class InventedDataReport:
    """What was written. The first three count by split."""

    worlds: Counter[str] = field(default_factory=Counter)  # invented graphs
    questions: Counter[str] = field(default_factory=Counter)
    unseen: Counter[str] = field(default_factory=Counter)  # questions about a concept that was held out of training
    facts: int = 0
    relations: int = 0  # labels, over all graphs
    by_type: Counter[str] = field(default_factory=Counter)
    by_hops: Counter[str] = field(default_factory=Counter)
    thrown: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, list[str]]] = field(default_factory=list)  # a text and its answers, one for each graph

    def add(self, made: InventedPart) -> None:
        self.worlds[made.split] += 1
        self.questions[made.split] += len(made.questions)
        self.unseen[made.split] += sum(bool(one.extra["unseen"]) for one in made.questions)
        self.facts += len(made.graph.facts)
        self.relations += len({fact.relation for fact in made.graph.facts})
        self.by_type.update(str(one.type) for one in made.questions)
        self.by_hops.update(str(one.hops) for one in made.questions)
        if made.questions:
            first = made.questions[0]
            self.examples.append((first.question, first.answers))


def write_invented(
    folder: Path,
    settings: InventedDataSettings,
    concepts: Sequence[Concept],
    left_out: Exclusions | None = None,
    *,
    replace_target: bool = False,
    progress: Progress = silent,
) -> InventedDataReport:
    """Writes a dataset folder of invented graphs and their questions; it appears whole or not at all."""
    report = InventedDataReport()
    with DatasetWriter(folder, replace=replace_target) as writer:
        for made in make_invented(settings, concepts, left_out, thrown=report.thrown, progress=progress):
            writer.add_graph(made.graph.key, made.graph.facts)
            for question in made.questions:
                writer.add(made.split, question)
            report.add(made)
        if not report.questions.total():
            raise KgwalkError("no question could be made; give larger graphs, or leave less out")
        writer.finish()
    return report
