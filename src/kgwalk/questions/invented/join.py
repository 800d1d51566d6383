"""Many worlds as one dataset: each with its own questions and its own facts, whole worlds in one split.

    for made in make_worlds(JoinSettings(worlds=300), load_bank()): ...
    write_worlds(Path("worlds"), JoinSettings(worlds=300), load_bank())

A share of the concepts is held out of the worlds for training, so that the other splits ask for relations that training
never had. A label may mean one thing in one world and another in the next, so every question is asked over the facts
of its own world (`graph_id`). Knows worlds and how questions are made of them; who answers is elsewhere.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kgwalk.data.dataset import GRAPH_ID
from kgwalk.data.folder import DatasetWriter
from kgwalk.kg.build import build
from kgwalk.kg.sources.source import Options
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.questions.bank import Concept
from kgwalk.questions.invented.concepts import LeftOut, Stock, asked_as
from kgwalk.questions.invented.facts import WorldLexicon, passes_through
from kgwalk.questions.invented.graph import InventedGraph, InventedSettings, make_world
from kgwalk.questions.invented.names import Namer
from kgwalk.questions.make import make_questions
from kgwalk.questions.plan import MakeSettings, QuestionPlan
from kgwalk.questions.wording.speaker import Wording
from kgwalk.types import KgwalkError, Progress, Question, Triple, silent

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
