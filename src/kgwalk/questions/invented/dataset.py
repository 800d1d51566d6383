"""Many invented graphs and questions about them, as one dataset.

    write_invented(Path("folder"), InventedDataSettings(worlds=300), load_bank())

Every graph belongs to one split. A share of the concepts is held out of the training graphs, so that the other splits
ask for relations that training never had. A label may mean one thing in one graph and another in the next, so each
question is asked over the facts of its own graph (`graph_id`). The same settings make the same dataset. `kgwalk
questions worlds` and `kgwalk fit` call `write_invented`.
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
from kgwalk.questions.bank import Concept
from kgwalk.questions.invented.columns import with_demonyms
from kgwalk.questions.invented.concepts import ConceptPool, Exclusions, asked_as
from kgwalk.questions.invented.facts import InventedLexicon, passes_mediators, passes_value_nodes, store_of
from kgwalk.questions.invented.graph import InventedGraph, InventedSettings, make_invented_graph
from kgwalk.questions.invented.junctions import RowGraph
from kgwalk.questions.invented.names import Namer
from kgwalk.questions.make import make_questions
from kgwalk.questions.plan import MakeSettings, QuestionPlan
from kgwalk.questions.wording.speaker import Wording
from kgwalk.types import KgwalkError, Progress, Question, silent
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.kinds import ALL, OF_TYPE
from kgwalk.walk.paths import SIGNS, PathError, parse

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
        text = None if text is None else with_demonyms(text, plan.topics)
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
