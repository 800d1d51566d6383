"""Held-out questions walked by an agent: a few first, to see how long one takes, then as many as there is time for.

Knows neither plans nor what the walks are for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kgwalk.config.recipe import Recipe
from kgwalk.config.section import read_section
from kgwalk.data.dataset import Data
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.evaluation.run import Progress
from kgwalk.kg.build import Progress as Building
from kgwalk.kg.graph import Graph
from kgwalk.llm.engine import Engine
from kgwalk.llm.open import open_engine
from kgwalk.training.settings import ModelSettings
from kgwalk.types import Question

SPLIT = "test"


class Took(NamedTuple):
    """Seconds."""

    load: float  # until the engine was there
    each: float  # of the walks; many at once take less each than a few


@dataclass(frozen=True)
class First:
    """A dataset with the first so many questions of each split alone (`kgwalk.data.dataset.Data`). Made questions are
    in random order: the first few are like the rest, and they are among the first hundred.
    """

    data: Data
    count: int

    @property
    def name(self) -> str:
        return self.data.name

    def splits(self) -> list[str]:
        return self.data.splits()

    def questions(self, split: str) -> list[Question]:
        return self.data.questions(split)[: self.count]

    def graph_for(self, question: Question) -> Graph:
        return self.data.graph_for(question)

    def prepare(self, progress: Building) -> None:
        self.data.prepare(progress)

    def place(self) -> Any:
        return self.data.place()


@dataclass(frozen=True, kw_only=True)
class Walks:
    """By whom, and with what: `engine` is a kind, the one that `ask` has; without an adapter the model walks as it
    is.
    """

    recipe: Recipe
    data: Data
    engine: str
    adapter: Path | None
    seed: int
    progress: Progress

    def into(self, folder: Path, few: int, decide: Callable[[float], int]) -> tuple[dict[str, Any], Took]:
        """An evaluation in the folder, of as many questions as `decide` says: it is told the seconds for each of the
        first few walks. Also, how long it took; of walks that were there before, nothing is known.
        """
        begun = time.monotonic()
        with self._opened() as engine:
            opened = time.monotonic()
            told: list[int] = []

            def each(count: int) -> float:
                walked = count - told[0]
                return (time.monotonic() - opened) / walked if walked > 0 else 0.0

            def tell(done: int, total: int, means: dict[str, float]) -> None:
                told.append(done)
                self.progress(done, total, means)

            self._evaluate(folder, engine, few, tell)
            count = decide(each(few))
            report = self._evaluate(folder, engine, count, self.progress)
            return report, Took(opened - begun, each(count))

    def _evaluate(self, folder: Path, engine: Engine, count: int, progress: Progress) -> dict[str, Any]:
        return evaluate(
            self.recipe,
            First(self.data, count),
            SPLIT,
            out=folder,
            engine=engine,
            model=self._model,
            adapter=None if self.adapter is None else str(self.adapter),
            seed=self.seed,
            progress=progress,
        )

    @property
    def _model(self) -> str:
        return read_section(ModelSettings, self.recipe, "model").name

    @contextmanager
    def _opened(self) -> Iterator[Engine]:
        engine = open_engine(self.engine, self._model, **({} if self.adapter is None else {"adapter": self.adapter}))
        try:
            yield engine
        finally:
            asyncio.run(engine.close())
