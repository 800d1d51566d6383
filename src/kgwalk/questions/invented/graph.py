"""One random world: a small graph whose schema is drawn from the bank and whose names are invented.

    world = make_world(Stock(load_bank()), 7, random.Random(7), WorldSettings(), Namer())
    world.facts, world.meanings["directed_by"]

Knows how its parts come together; questions are asked in join.py.
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
from kgwalk.kg.build import build
from kgwalk.kg.sources.source import Options
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.questions.bank import Concept
from kgwalk.questions.invented.concepts import LeftOut, PlacedConcept, Stock, Style, asked_as, inverted, label_key
from kgwalk.questions.invented.facts import End, WorldLexicon, dated, draw_facts, draw_things, passes_through
from kgwalk.questions.invented.names import Manner, Namer
from kgwalk.questions.invented.values import HAPPENS, LASTS, SYMMETRIC, Span, Values
from kgwalk.questions.make import make_questions
from kgwalk.questions.plan import MakeSettings, QuestionPlan
from kgwalk.questions.wording.speaker import Wording
from kgwalk.types import KgwalkError, Progress, Question, Triple, silent

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


# ----------------------------------------------------------------------------------------------------
# Many worlds as one dataset: each with its own questions and its own facts, whole worlds in one split.
#
#     for made in make_worlds(JoinSettings(worlds=300), load_bank()): ...
#     write_worlds(Path("worlds"), JoinSettings(worlds=300), load_bank())
#
# A share of the concepts is held out of the worlds for training, so that the other splits ask for relations that
# training never had. A label may mean one thing in one world and another in the next, so every question is asked over
# the facts of its own world (`graph_id`). Knows worlds and how questions are made of them; who answers is elsewhere.


# Levels of wording (words.py) and how often a question is said so: mostly not in the relation's own words.
LEVELS = {0: 0.15, 1: 0.35, 2: 0.5}
NOISY_WORDS = 0.12  # of a question that has noise


@dataclass(frozen=True)
class JoinSettings:
    """`dev` and `test` are shares of the worlds, at least one world each; `held_out` is a share of the concepts."""

    worlds: int = 300
    per_world: int = 60
    seed: int = 0
    dev: float = 0.05
    test: float = 0.05
    held_out: float = 0.1
    noise: float = 0.1  # the share of questions that have some
    values: float = 0.3  # the share of worlds where a year or a number can be what a question is about
    world: InventedSettings = field(default_factory=InventedSettings)
    questions: MakeSettings = field(default_factory=MakeSettings)

    def __post_init__(self) -> None:
        if self.worlds < 1 or self.per_world < 1:
            raise KgwalkError(f"{self.worlds} worlds of {self.per_world} questions: give at least 1 of each")
        if not (0 <= self.held_out <= 0.5 and self.dev >= 0 and self.test >= 0 and self.dev + self.test < 1):
            raise KgwalkError("dev and test are shares below 1 together, and held-out is one of at most 0.5")

    def splits(self) -> list[str]:
        """The split of each world, by its number; of three worlds or more, one at least is for dev and one for test.

        >>> Counter(JoinSettings(worlds=20).splits()) == {"train": 18, "dev": 1, "test": 1}
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
        """The ids of the concepts that are held out."""
        if "train" in (splits := set(self.splits())) and len(splits) == 1:
            return frozenset()  # nothing to hold them out for
        ids = sorted(concept.id for concept in concepts)
        return frozenset(random.Random(f"{self.seed}/held out").sample(ids, round(self.held_out * len(ids))))


@dataclass(frozen=True)
class InventedPart:
    split: str
    world: InventedGraph
    questions: list[Question]


class Voices:
    """A wording of one level or another, as it comes.

    Relations without a meaning are not asked for, and nothing is asked as a question that is left out.
    """

    def __init__(self, world: InventedGraph, noise: float, left_out: frozenset[str] = frozenset()) -> None:
        lexicon = WorldLexicon(world.meanings, world.ends, world.marks)
        self._known = world.meanings.keys() | world.ends.keys() | world.marks.keys()
        self._ends, self._marks = world.ends, world.marks
        self._noise, self._left_out = noise, left_out
        self._wordings = {
            words: [Wording(lexicon, level=level, noise=words) for level in LEVELS] for words in (0.0, NOISY_WORDS)
        }

    def say(self, plan: QuestionPlan, chance: random.Random) -> str | None:
        if not all(way.relation in self._known for way in plan.ways()):
            return None
        if not passes_through(plan, self._ends, self._marks):
            return None
        wordings = self._wordings[NOISY_WORDS if chance.random() < self._noise else 0.0]
        text = chance.choices(wordings, list(LEVELS.values()))[0].say(plan, chance)
        if text is None or (self._left_out and asked_as(text, plan.topics) in self._left_out):
            return None
        return text


def make_worlds(
    settings: JoinSettings,
    concepts: Sequence[Concept],
    left_out: LeftOut | None = None,
    *,
    thrown: Counter[str] | None = None,
    progress: Progress = silent,
) -> Iterator[InventedPart]:
    """The worlds in order, each with its questions; the same settings and concepts make the same worlds."""
    left_out = left_out or LeftOut()
    unseen = settings.unseen(concepts)
    stocks = {"train": Stock([concept for concept in concepts if concept.id not in unseen])}
    stocks |= {"dev": (whole := Stock(concepts)), "test": whole}
    namer = Namer()
    for number, split in enumerate(settings.splits()):
        chance = random.Random(f"{settings.seed}/{number}")
        wanted = () if split == "train" else unseen
        world = make_world(stocks[split], number, chance, settings.world, namer, wanted=wanted, banned=left_out.labels)
        voices = Voices(world, settings.noise, left_out.phrasings)
        asked = ask(world, voices, settings, chance, Counter() if thrown is None else thrown)
        questions = [marked(question, world, unseen) for question in asked]
        yield InventedPart(split, world, questions)
        progress("making worlds", number + 1, settings.worlds)


def ask(
    world: InventedGraph, voices: Voices, settings: JoinSettings, chance: random.Random, thrown: Counter[str]
) -> list[Question]:
    """The questions of one world, asked over a store of its own."""
    wanted = replace(
        settings.questions,
        count=settings.per_world,
        seed=chance.randrange(1 << 30),
        name=world.key,
        literal_topics=chance.random() < settings.values,
    )
    with tempfile.TemporaryDirectory(prefix="kgwalk-world-") as folder:
        graph = store_of(world.facts, Path(folder))
        return make_questions(graph, voices, wanted, thrown=thrown)


def store_of(facts: Sequence[Triple], folder: Path) -> StoredGraph:
    """A store with these facts alone, made in a folder."""
    source = folder / "facts.tsv"
    timed = any(fact.time for fact in facts)
    source.write_text("".join("\t".join(fact if timed else fact[:3]) + "\n" for fact in facts), "utf-8")
    build([source], folder / "world.kg", options=Options(header=False))
    return open_graph(folder / "world.kg")


def marked(question: Question, world: InventedGraph, unseen: frozenset[str]) -> Question:
    """The question with whose facts it is asked over, its concepts, and whether training had none of one of them."""
    program = question.extra["program"]
    assert isinstance(program, list)
    known = {label: concept.id for label, (concept, _) in world.meanings.items()}
    known |= {label: end.concept.id for label, end in world.ends.items()}
    concepts = list(dict.fromkeys(known[part] for step in program for part in step[1:] if part in known))
    marks: dict[str, Any] = {GRAPH_ID: world.key, "concepts": concepts, "unseen": not unseen.isdisjoint(concepts)}
    return replace(question, extra=question.extra | marks)


@dataclass
class JoinReport:
    """What was written."""

    worlds: Counter[str] = field(default_factory=Counter)  # by split, as all of these
    questions: Counter[str] = field(default_factory=Counter)
    unseen: Counter[str] = field(default_factory=Counter)  # questions about a concept that was held out
    facts: int = 0
    relations: int = 0  # labels, over all worlds
    by_type: Counter[str] = field(default_factory=Counter)
    by_hops: Counter[str] = field(default_factory=Counter)
    thrown: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, list[str]]] = field(default_factory=list)  # texts and answers, one a world

    def add(self, made: InventedPart) -> None:
        self.worlds[made.split] += 1
        self.questions[made.split] += len(made.questions)
        self.unseen[made.split] += sum(bool(one.extra["unseen"]) for one in made.questions)
        self.facts += len(made.world.facts)
        self.relations += len({fact.relation for fact in made.world.facts})
        self.by_type.update(str(one.type) for one in made.questions)
        self.by_hops.update(str(one.hops) for one in made.questions)
        if made.questions:
            first = made.questions[0]
            self.examples.append((first.question, first.answers))


def write_worlds(
    folder: Path,
    settings: JoinSettings,
    concepts: Sequence[Concept],
    left_out: LeftOut | None = None,
    *,
    replace_target: bool = False,
    progress: Progress = silent,
) -> JoinReport:
    """A dataset folder of worlds; it appears whole or not at all."""
    report = JoinReport()
    with DatasetWriter(folder, replace=replace_target) as writer:
        for made in make_worlds(settings, concepts, left_out, thrown=report.thrown, progress=progress):
            writer.add_graph(made.world.key, made.world.facts)
            for question in made.questions:
                writer.add(made.split, question)
            report.add(made)
        if not report.questions.total():
            raise KgwalkError("no question could be made; give larger worlds, or leave less out")
        writer.finish()
    return report
