"""Trains a ranker on a dataset's gold paths and saves it: questions to expansions, expansions to rows, rows to a fit.

Names of the graph are embedded once and kept (`llm/vectors`). Knows no recipe, and nothing of the command line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from kgwalk.data.dataset import Dataset
from kgwalk.kg.graph import Graph
from kgwalk.llm.embed import CachedEmbedder
from kgwalk.tools.ranker.features import Encoder, Near, Texts
from kgwalk.tools.ranker.network import Shape
from kgwalk.tools.ranker.saved import save_ranker
from kgwalk.training.ranker.examples import Example, example
from kgwalk.training.ranker.expansions import expansions, sample
from kgwalk.training.ranker.fit import FitSettings, Progress, Trial, fit
from kgwalk.types import KgwalkError, Question

MOST_KEPT = 200_000  # entities of a graph whose names are all embedded and kept; of a larger one, those that are met


@dataclass(frozen=True)
class RankSettings:
    """What is learned from. A search reads `facts` of a relation, and so does training; dev reads `dev_facts`."""

    questions: int = 3000  # of the split train, drawn
    dev_questions: int = 300
    facts: int = 20
    dev_facts: int = 1000
    negatives: int = 24  # irrelevant rows of one expansion, drawn; and at most so many relevant ones
    siblings: bool = False  # facts of a gold fact's own relation count as irrelevant
    seed: int = 0


def train_ranker(
    dataset: Dataset,
    out: Path,
    embedder: CachedEmbedder,
    *,
    settings: RankSettings,
    fitting: FitSettings,
    shape: Shape,
    near: Near,
    progress: Progress = lambda what, done, total: None,
    told: Callable[[dict[str, float]], None] = lambda figures: None,
) -> dict[str, Any]:
    """The card of the ranker that is now in the folder `out`."""
    began, worked = time.perf_counter(), time.process_time()
    if settings.dev_questions and "dev" not in dataset.splits():
        raise KgwalkError(
            f"{dataset.name} has no split dev to choose the best epoch by; give --dev-limit 0 to do without"
        )
    texts = Texts()
    learned = _questions(dataset, "train", settings.questions, settings.seed)
    train = list(_examples(dataset, learned, near, texts, settings, progress))
    dev = list(_trials(dataset, settings, near, texts, progress))
    if not train:
        raise KgwalkError(
            f"the questions of {dataset.name} give nothing to learn from: no gold path has another fact beside it"
        )
    vectors_TD = _vectors(embedder, texts, progress)
    embedded = time.perf_counter()
    fitted = fit(train, dev, vectors_TD, shape, fitting, progress, told)
    about = {
        "data": dataset.name,
        "questions": len(learned),
        "expansions": len(train),
        "rows": sum(len(one.rows) for one in train),
        "dev_expansions": len(dev),
        "settings": asdict(settings) | asdict(fitting),
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
    dataset: Dataset,
    questions: list[Question],
    near: Near,
    texts: Texts,
    settings: RankSettings,
    progress: Progress,
) -> Iterator[Example]:
    encoders = _Encoders(near, texts)
    for at, question in enumerate(questions, 1):
        for one, graph in expansions(dataset, [question], settings.facts, with_gold=True):
            seed = f"{settings.seed} {question.id} {one.place.entity}"
            limits = {"negatives": settings.negatives, "siblings": settings.siblings}
            made = example(one, encoders.of(graph), seed=seed, **limits)  # type: ignore[arg-type]
            if made is not None:
                yield made
        progress("reading questions", at, len(questions))


def _trials(dataset: Dataset, settings: RankSettings, near: Near, texts: Texts, progress: Progress) -> Iterator[Trial]:
    if not settings.dev_questions:
        return
    encoders = _Encoders(near, texts)
    questions = _questions(dataset, "dev", settings.dev_questions, settings.seed)
    for at, question in enumerate(questions, 1):
        for one, graph in expansions(dataset, [question], settings.dev_facts):
            rows = encoders.of(graph).rows(question.question, one.candidates)
            yield Trial(rows, [candidate.name for candidate in one.candidates], one.place.gold)
        progress("reading dev questions", at, len(questions))


class _Encoders:
    """One graph is mostly asked about again and again; questions with their own subgraphs have one each."""

    def __init__(self, near: Near, texts: Texts) -> None:
        self.near, self.texts = near, texts
        self._last: Encoder | None = None

    def of(self, graph: Graph) -> Encoder:
        if self._last is None or self._last.graph is not graph:
            self._last = Encoder(graph, self.near, self.texts)
        return self._last


def _questions(dataset: Dataset, split: str, limit: int, seed: int) -> list[Question]:
    return sample([question for question in dataset.questions(split) if question.gold_paths], limit, seed)


def _vectors(embedder: CachedEmbedder, texts: Texts, progress: Progress) -> torch.Tensor:
    if embedder.entities <= MOST_KEPT:
        embedder.keep_entities(progress)
    step = 4096
    parts = []
    for start in range(0, len(texts.all), step):
        parts.append(torch.from_numpy(embedder.embed(texts.all[start : start + step])))
        progress("vectors", min(start + step, len(texts.all)), len(texts.all))
    return torch.cat(parts)
