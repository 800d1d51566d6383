"""Trains a ranker of candidate entities on a dataset's gold paths.

Questions become expansions, expansions labelled rows, and a network is fitted to the rows:

    train_ranker(dataset, Path("my.ranker"), embedder, RankSettings())

An expansion is an entity on a gold path with its neighbours (evaluation/ranking). Its facts on a gold path are
relevant, facts beside them are not (`labels`). The network minimises equation 4's cross-entropy over these rows, and
the epoch with the best recall on dev is kept. Seeded, on the CPU. Names of the graph are embedded once
(`llm/embeddings`).
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kgwalk.data.dataset import Data
from kgwalk.evaluation.ranking import Expansion, GoldStep, expansions, sample
from kgwalk.kg.graph import Graph
from kgwalk.llm.embeddings import CachedEmbedder
from kgwalk.training.settings import RankSettings
from kgwalk.types import KgwalkError, Progress, Question, Triple, silent
from kgwalk.walk.facts import DirectedRelation
from kgwalk.walk.ranker import Network, NetworkShape, gather, save_ranker, score
from kgwalk.walk.ranker_features import I64, Encoder, LabelledRows, Near, Texts, joined
from kgwalk.walk.ranking import Candidate, Recalls, best_first

# All names of a graph are embedded, and kept on disk for later searches, if it has at most so many entities and the
# questions meet such a share of them; else only what is met.
MOST_KEPT = 200_000
MET = 0.25
RELEVANT, IRRELEVANT, NEITHER = 1, 0, -1
MEASURED_AT_ONCE = 16  # expansions; a hub's has thousands of candidates


def train_ranker(
    dataset: Data,
    out: Path,
    embedder: CachedEmbedder,
    settings: RankSettings,
    *,
    seed: int = 0,
    split: str = "train",
    dev: str = "dev",
    progress: Progress = silent,
    told: Callable[[dict[str, float]], None] = lambda figures: None,
) -> dict[str, Any]:
    """Train a ranker, save it in the folder `out`, and return its card.

    It learns from questions of `split`; those of `dev` choose the best epoch.
    """
    began, worked = time.perf_counter(), time.process_time()
    if settings.dev_questions and dev not in dataset.splits():
        raise KgwalkError(
            f"{dataset.name} has no split {dev} to choose the best epoch by; give --dev-limit 0 to do without"
        )
    near = Near(most=settings.neighbours)
    vector, width, hidden = embedder.embed([]).shape[1], settings.width, settings.hidden
    shape = NetworkShape(vector=vector, width=width, hidden=hidden, inputs=settings.inputs)
    texts = Texts()
    learned = _with_paths(dataset.questions(split), settings.questions, seed)
    train = list(_examples(dataset, learned, near, texts, settings, seed, progress))
    asked = _with_paths(dataset.questions(dev), settings.dev_questions, seed) if settings.dev_questions else []
    measured = list(_dev_expansions(dataset, asked, settings.dev_facts, near, texts, progress))
    if not train:
        raise KgwalkError(
            f"the questions of {dataset.name} give a ranker nothing to learn from: no gold path has a fact beside it; "
            "`kgwalk paths` finds paths, and a recipe's searches rank by text with world.ranker=none"
        )
    vectors_TD = _vectors(embedder, texts, progress)
    embedded = time.perf_counter()
    fitted = fit_network(train, measured, vectors_TD, shape, settings, seed, progress, told)
    about = {
        "data": dataset.name,
        "questions": len(learned),
        "expansions": len(train),
        "rows": sum(len(one.rows) for one in train),
        "dev_expansions": len(measured),
        "settings": asdict(settings) | {"seed": seed},
        "best_epoch": fitted.best,
        "dev": {key: value for key, value in fitted.history[fitted.best - 1].items() if "@" in key},
        "history": fitted.history,
        "seconds": {
            "all": round(time.perf_counter() - began, 1),
            "fit": round(time.perf_counter() - embedded, 1),
            "processor": round(time.process_time() - worked, 1),
        },
    }
    return save_ranker(out, fitted.network, near, embedder.name, about)


def _examples(
    dataset: Data,
    questions: list[Question],
    near: Near,
    texts: Texts,
    settings: RankSettings,
    seed: int,
    progress: Progress,
) -> Iterator[Example]:
    encoders = _Encoders(near, texts)
    for at, question in enumerate(questions, 1):
        for one, graph in expansions(dataset, [question], settings.facts, with_gold=True):
            drawn = f"{seed} {question.id} {one.place.entity}"
            encoder, siblings = encoders.of(graph), settings.siblings
            made = example(one, encoder, negatives=settings.negatives, siblings=siblings, seed=drawn)
            if made is not None:
                yield made
        progress("reading questions", at, len(questions))


def _dev_expansions(
    dataset: Data, questions: list[Question], facts: int, near: Near, texts: Texts, progress: Progress
) -> Iterator[DevExpansion]:
    encoders = _Encoders(near, texts)
    for at, question in enumerate(questions, 1):
        for one, graph in expansions(dataset, [question], facts):
            rows = encoders.of(graph).rows(question.question, one.candidates)
            yield DevExpansion(rows, [candidate.name for candidate in one.candidates], one.place.gold)
        progress("reading dev questions", at, len(questions))


class _Encoders:
    """The encoder of the last graph, kept: most questions share one graph, others have a subgraph each."""

    def __init__(self, near: Near, texts: Texts) -> None:
        self.near, self.texts = near, texts
        self._last: Encoder | None = None

    def of(self, graph: Graph) -> Encoder:
        if self._last is None or self._last.graph is not graph:
            self._last = Encoder(graph, self.near, self.texts)
        return self._last


def _with_paths(questions: Sequence[Question], limit: int, seed: int) -> list[Question]:
    return sample([question for question in questions if question.gold_paths], limit, seed)


def _vectors(embedder: CachedEmbedder, texts: Texts, progress: Progress) -> torch.Tensor:
    if embedder.entities <= min(MOST_KEPT, len(texts.all) / MET):
        embedder.keep_entities(progress)
    step = 4096
    parts = []
    for start in range(0, len(texts.all), step):
        parts.append(torch.from_numpy(embedder.embed(texts.all[start : start + step])))
        progress("vectors", min(start + step, len(texts.all)), len(texts.all))
    return torch.cat(parts)


# Labelled rows


@dataclass(frozen=True, slots=True)
class Example:
    """The rows of one expansion that are relevant or irrelevant, with their labels."""

    rows: LabelledRows
    label_R: I64


def labels(place: GoldStep, candidates: Sequence[Candidate], *, siblings: bool) -> I64:
    """A label for each row; NEITHER for rows that say nothing.

    Those are other facts that lead to a gold candidate, and facts of a gold fact's own relation and direction, since
    gold paths often name a few of many right entities; with `siblings` the latter count as irrelevant.

    At Tom Hanks, where (Big, starred_actors, Tom Hanks) is gold: that row is 1; (Cast Away, starred_actors, Tom Hanks)
    is left out (-1), or 0 with `siblings`; (Tom Hanks, born_in, Concord) is 0.
    """
    gold, taken = place.gold, {_way(fact, place.entity) for fact in place.facts}
    found: list[int] = []
    for one in candidates:
        for fact in one.facts:
            if Triple(*fact[:3]) in place.facts:
                found.append(RELEVANT)
            elif one.name in gold or (not siblings and _way(fact, place.entity) in taken):
                found.append(NEITHER)
            else:
                found.append(IRRELEVANT)
    return np.array(found, np.int64)


def example(expansion: Expansion, encoder: Encoder, *, negatives: int, siblings: bool, seed: str) -> Example | None:
    """At most `negatives` irrelevant rows, drawn, and as many relevant ones; None where one of the two is missing."""
    label_R = labels(expansion.place, expansion.candidates, siblings=siblings)
    rng = random.Random(seed)
    kept: list[int] = []
    for wanted in (RELEVANT, IRRELEVANT):
        rows = np.flatnonzero(label_R == wanted).tolist()
        if not rows:
            return None
        kept += rows if len(rows) <= negatives else rng.sample(rows, negatives)
    chosen = np.array(sorted(kept), np.int64)
    every = encoder.rows(expansion.place.question.question, expansion.candidates)
    return Example(every.only(chosen), label_R[chosen])


def _way(fact: Triple, entity: str) -> DirectedRelation:
    return DirectedRelation(fact.relation, fact.head == entity)


# Fitting the network


@dataclass(frozen=True, slots=True)
class DevExpansion:
    """An expansion of dev to measure on: its rows, the candidates' names, and which of them are right."""

    rows: LabelledRows
    names: list[str]
    gold: Collection[str]


@dataclass
class FittedNetwork:
    """The network of the best epoch, and the figures of all."""

    network: Network
    best: int
    history: list[dict[str, float]] = field(default_factory=list)


def fit_network(
    train: Sequence[Example],
    dev: Sequence[DevExpansion],
    vectors_TD: Tensor,
    shape: NetworkShape,
    settings: RankSettings,
    seed: int = 0,
    progress: Progress = silent,
    told: Callable[[dict[str, float]], None] = lambda figures: None,
) -> FittedNetwork:
    """`told` gets the figures of each epoch as it ends. Without dev expansions the last epoch is kept."""
    torch.manual_seed(seed)
    network = Network(shape)
    optimiser = torch.optim.AdamW(network.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)
    batches = math.ceil(len(train) / settings.batch)
    steps = settings.epochs * batches
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda at: 0.5 * (1 + math.cos(math.pi * at / steps)))
    rng = random.Random(seed)
    fitted, kept = FittedNetwork(network, 0), dict[str, Tensor]()
    for epoch in range(1, settings.epochs + 1):
        order = rng.sample(range(len(train)), len(train))
        losses: list[float] = []
        network.train()
        for start in range(0, len(order), settings.batch):
            losses.append(
                _step(network, [train[at] for at in order[start : start + settings.batch]], vectors_TD, optimiser)
            )
            schedule.step()
            progress("training", (epoch - 1) * batches + len(losses), steps)
        recalls = measure(network, dev, vectors_TD) if dev else {}
        figures = {"epoch": float(epoch), "loss": sum(losses) / len(losses), **recalls}
        fitted.history.append(figures)
        told(figures)
        if not dev or not kept or _better(figures, fitted.history[fitted.best - 1]):
            fitted.best, kept = epoch, {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(kept)
    network.eval()
    return fitted


def measure(network: Network, dev: Sequence[DevExpansion], vectors_TD: Tensor) -> dict[str, float]:
    """Mean recall and hit at each k."""
    recalls = Recalls()
    network.eval()
    for start in range(0, len(dev), MEASURED_AT_ONCE):
        some = dev[start : start + MEASURED_AT_ONCE]
        scores = iter(score(network, joined([one.rows for one in some]), vectors_TD))
        for one in some:
            ranked = best_first([next(scores) for _ in one.names])
            recalls.add([one.names[at] for at in ranked], one.gold)
    return recalls.means()


def _step(network: Network, examples: Sequence[Example], vectors_TD: Tensor, optimiser: torch.optim.Optimizer) -> float:
    rows = joined([one.rows for one in examples])
    label_R = torch.cat([torch.from_numpy(one.label_R) for one in examples])
    loss = torch.nn.functional.cross_entropy(network(gather(rows, vectors_TD)), label_R)  # equation 4, mean over rows
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return loss.item()


def _better(one: dict[str, float], other: dict[str, float]) -> bool:
    """By recall at 5, then at 1: where most expansions have few candidates, all are equal at 5."""
    return (one["recall@5"], one["recall@1"]) > (other["recall@5"], other["recall@1"])
