"""The questions of a fit: made from its graph, and, so as not to forget, from invented graphs.

Questions made from one graph have few relations and the words of their names. An agent that learns from these alone
gets better at them and worse at questions as people ask them: on MetaQA's graph, F1 on made questions rose from 0.91 to
0.98, and on labelled ones fell from 0.85 to 0.79. So a fit that goes on from an agent also rehearses: a third of its
questions are about invented graphs, which have other relations and the question bank's phrasings.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgwalk.data.dataset import Dataset
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import StoredGraph
from kgwalk.questions.bank import load_bank
from kgwalk.questions.invented.dataset import InventedDataSettings, write_invented
from kgwalk.questions.invented.graph import InventedSettings
from kgwalk.questions.make import SHARES, make_questions, split_key, split_questions, write_dataset
from kgwalk.questions.plan import MakeSettings
from kgwalk.questions.schema import survey, types_of
from kgwalk.questions.wording.name_lexicon import NameLexicon
from kgwalk.questions.wording.speaker import Wording
from kgwalk.types import KgwalkError, Progress, Question

LEAST = 40  # questions: fewer teach nothing
FACTS = 50  # the least of a graph: with fewer, questions to learn from and to test on are about the same facts
MADE = 400  # questions are made at least: of a few dozen, hardly any would be left to test on
NOISE = 0.02  # share of words with a mistake: people's questions have them, too
INVENTED = "worlds"  # the name of the dataset of invented graphs, and of its folder in the run
SHARE = 1 / 3  # of the questions to learn from
MOST = 2500  # questions: each takes some hundredths of a second to make
PER_GRAPH = 30


@dataclass(frozen=True)
class MadeData:
    """Made questions over their graph: a dataset in memory (`kgwalk.data.dataset.Data`)."""

    name: str
    graph: StoredGraph
    by_split: Mapping[str, list[Question]]

    def splits(self) -> list[str]:
        return list(self.by_split)

    def questions(self, split: str) -> list[Question]:
        return self.by_split[split]

    def graph_for(self, question: Question) -> Graph:
        return self.graph

    def prepare(self, progress: Progress) -> None:
        """Nothing to prepare: the graph is open."""

    def place(self) -> str:
        return str(self.graph.store.folder.path)

    def limited(self, most: Mapping[str, int]) -> MadeData:
        """The first `most` of each split; questions are in random order."""
        return MadeData(self.name, self.graph, {split: own[: most[split]] for split, own in self.by_split.items()})


def make(
    graph: StoredGraph,
    name: str,
    count: int,
    seed: int,
    progress: Progress,
    *,
    language: str = "core",
    seconds: float = math.inf,
) -> tuple[MadeData, dict[str, Any]]:
    """Questions in splits, about `count` of them to learn from, and counts of what was made and thrown away.

    Their programs are in the walking language that the agent speaks. After `seconds` there are as many as there are.
    """
    schema = survey(graph)
    if schema.facts < FACTS:
        few = "1 fact" if schema.facts == 1 else f"{schema.facts} facts"
        raise KgwalkError(
            f"{name} has {few}, and the least to learn from some and be tested on others are {FACTS}. Add facts, or "
            "see with `kgwalk kg relations` whether its file was read as meant (a table needs `kg build --table`)"
        )
    thrown: Counter[str] = Counter()
    questions = make_questions(
        graph,
        Wording(NameLexicon(schema, types=types_of(graph, schema) if language == "full" else None), noise=NOISE),
        MakeSettings(count=max(MADE, math.ceil(count / SHARES["train"])), seed=seed, name=name, language=language),
        schema=schema,
        seconds=seconds,
        thrown=thrown,
        progress=lambda what, done, total, figures={}, /: progress("questions", done, total or done),
    )
    made = MadeData(name, graph, split_questions(questions, seed))
    if len(questions) < LEAST or not all(made.by_split.values()):
        raise KgwalkError(_too_few(name, schema.facts, questions, thrown))
    kinds = Counter(question.type for question in questions)
    return made, {"made": len(questions), "by_type": dict(kinds.most_common()), "thrown": dict(thrown.most_common())}


def write(made: MadeData, folder: Path) -> None:
    """Write a dataset folder; the graph is linked, not copied."""
    write_dataset(folder, made.by_split, made.graph, link=True, replace=True)


def _too_few(name: str, facts: int, questions: Sequence[Question], thrown: Counter[str]) -> str:
    if len(questions) >= LEAST:  # many questions, but about few things: a fact can be asked for in a hundred ways
        things = len({split_key(question) for question in questions})
        short = (
            f"there {'is 1 thing' if things == 1 else f'are {things} things'} to ask about it (entities, chains of "
            "relations), however they are worded: too few to learn from some and be tested on others"
        )
    else:
        why = "; ".join(f"{reason}: {count:,}" for reason, count in thrown.most_common(3))
        short = f"{len(questions)} questions could be made, and the least to learn from are {LEAST}"
        short += f" (draws thrown away: {why})" if why else ""
    return (
        f"{name} has {facts:,} facts; {short}. A graph needs some dozens of facts with names that can be asked about, "
        "by at least a few relations: add facts"
    )


# Rehearsal: questions about invented graphs


def rehearsal_count(questions: int) -> int:
    """How many of the questions to learn from are about invented graphs.

    >>> rehearsal_count(300), rehearsal_count(16000)
    (100, 2500)
    """
    return min(round(SHARE * questions), MOST)


def write_rehearsal(run: Path, questions: int, seed: int, progress: Progress, language: str = "core") -> None:
    """Write so many questions about invented graphs into a run's folder; a few less where a graph has too few."""
    graphs = math.ceil(questions / PER_GRAPH)
    settings = InventedDataSettings(
        worlds=graphs,
        per_world=math.ceil(questions / graphs),
        seed=seed,
        dev=0.0,
        test=0.0,
        world=InventedSettings(language=language),
        questions=MakeSettings(language=language),
    )
    write_invented(
        run / INVENTED,
        settings,
        load_bank(),
        replace_target=True,
        progress=lambda what, done, total, figures={}, /: progress(INVENTED, done, total or done),
    )


def rehearsal_sets(run: Path) -> list[Dataset]:
    """The run's dataset over invented graphs, if it has one."""
    return [Dataset(INVENTED, run / INVENTED)] if (run / INVENTED).exists() else []
