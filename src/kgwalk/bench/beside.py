"""`kgwalk bench engine --beside NAME`: the same work by the engine `local` and by another, in one run.

Both have the same weights, with the adapter merged, are asked through the same interface, and give log-probabilities.
Three works: prompts of one length with so many new tokens each; whole walks of one Python process; and, by `local`
alone, walks of several processes, as training runs them. Walks are unconstrained, since the other engine may know no
grammar. Each work runs twice with other questions: the first run, in which passes are recorded or compiled, does not
count. The engines follow each other, as one of them may take all of a GPU's memory. The other one's tokens are checked
as our own are.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kgwalk.bench.checks import Amount, asked, engine_rows, prompts_of
from kgwalk.bench.episodes import Rollouts, Workload, opened, walked
from kgwalk.bench.machine import Machine
from kgwalk.bench.rows import Figure
from kgwalk.config.recipe import Recipe
from kgwalk.data.dataset import Dataset
from kgwalk.llm.engine import Engine, Sampling, open_engine
from kgwalk.llm.models import LoadedModel, load_model
from kgwalk.llm.torch_engine.engine import LocalEngine
from kgwalk.llm.torch_engine.model import longest_context
from kgwalk.training.backends.exchange import unconstrained
from kgwalk.types import Episode, Progress, silent

PROMPT, NEW = 476, 36  # tokens: of a prompt in the middle of a walk, and of all its turns
RUNS = 2  # of each work; the last one counts
OPTIONS: dict[str, dict[str, Any]] = {"vllm": {"gpu_memory_utilization": 0.6}}  # the checks load the model beside it


@dataclass(frozen=True, slots=True)
class WorkSpeed:
    """What one engine did in the run that counts: so many prompts or episodes, their new tokens, and the seconds."""

    count: int
    tokens: int
    seconds: float


@dataclass(frozen=True)
class BesideBench:
    """`other` is the kind of the other engine, and `options` go to it; `model` and `adapter` are as `load_model` has
    them. `prompts` go together; `workers` walk for `local` in the third work, which 0 leaves out."""

    machine: Machine
    other: str
    recipe: Recipe
    datasets: Sequence[Dataset]
    model: str
    adapter: str | None
    prompts: int
    episodes: int
    amount: Amount
    workers: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    progress: Progress = silent

    def rows(self) -> Iterator[Figure]:
        """The figures of `local`, each with the other engine's beside it; then the checks of the other one."""
        works = [Workload.of(self.recipe, dataset) for dataset in self.datasets]
        works = [replace(work, protocol=unconstrained(work.protocol)) for work in works]
        steps = 3
        self.progress("local", 0, steps)
        context, drawn, ours = self._by_local(works)
        self.progress("local, by workers", 1, steps)
        together = self._by_workers(works) if self.workers else []
        self.machine.free()
        self.progress(self.other, 2, steps)
        with self._weights() as folder, opened(self._open(folder, context)) as engine:
            theirs = self._measured(engine, drawn, works)
            yield from compared_rows(f"{self.prompts:,} prompts of {PROMPT} tokens", ours[0], theirs[0], "prompts")
            for work, own, others in zip(works, ours[1:], theirs[1:], strict=True):
                yield from compared_rows(f"{work.label}, one process", own, others, "episodes")
            for work, own, others in zip(works, together, theirs[1:], strict=False):
                yield from compared_rows(f"{work.label}, by {self.workers} workers", own, others, "episodes")
            yield from self._checks(engine, works[0])
        self.progress(self.other, steps, steps)

    def _by_local(self, works: Sequence[Workload]) -> tuple[int, list[list[list[int]]], list[WorkSpeed]]:
        """The context that the works need, the prompts of each run, and what `local` did. Nothing here outlives the
        call: the other engine wants the memory."""
        model = self._load()
        context = min(max(PROMPT + NEW, *(work.budget.total_tokens for work in works)), longest_context(model.module))
        drawn = [_prompts(model, self.prompts, run) for run in range(RUNS)]
        with opened(LocalEngine(model, context=context)) as engine:
            return context, drawn, self._measured(engine, drawn, works)

    def _load(self) -> LoadedModel:
        self.machine.free()
        return load_model(self.model, adapter=self.adapter, device=self.machine.device, dtype=self.machine.dtype)

    @contextmanager
    def _weights(self) -> Iterator[str]:
        """The model's name, or a folder with its weights and the adapter in them."""
        if self.adapter is None and "adapter_config.json" not in _files(self.model):
            yield self.model
            return
        with tempfile.TemporaryDirectory() as folder:
            model = self._load()
            model.module.save_pretrained(folder)
            model.tokens.hf.save_pretrained(folder)
            del model
            self.machine.free()
            yield folder

    def _open(self, folder: str, context: int) -> Engine:
        usual = {"context": context, "dtype": self.machine.dtype, **OPTIONS.get(self.other, {})}
        return open_engine(self.other, folder, **{**usual, **self.options})

    def _measured(self, engine: Engine, drawn: list[list[list[int]]], works: Sequence[Workload]) -> list[WorkSpeed]:
        """Of the prompts, then of the walks of each workload."""
        found = [[_written(engine, prompts) for prompts in drawn][-1]]
        for work in works:
            for run in range(RUNS):
                begun = time.perf_counter()
                episodes = walked(engine, work, work.asked(self.episodes, run))
                speed = _walk_speed(episodes, begun)
            found.append(speed)
        return found

    def _by_workers(self, works: Sequence[Workload]) -> list[WorkSpeed]:
        found = []
        for work in works:
            with Rollouts.opened(self._load(), work, self.workers) as rollouts:
                for run in range(RUNS):
                    begun = time.perf_counter()
                    speed = _walk_speed(rollouts.walk(work, work.asked(self.episodes, run)), begun)
                found.append(speed)
        return found

    def _checks(self, engine: Engine, work: Workload) -> Iterator[Figure]:
        model = self._load()
        prompts = prompts_of(work, model, self.amount.prompts)
        for row in engine_rows(engine, model, prompts, self.amount, self.machine.dtype):
            yield replace(row, name=f"{row.name}, {self.other}")


def _files(model: str) -> list[str]:
    place = Path(model)
    return [file.name for file in place.iterdir()] if place.is_dir() else []


def compared_rows(label: str, ours: WorkSpeed, theirs: WorkSpeed, what: str) -> list[Figure]:
    """Rates of both.

    10 walks with 400 tokens in 2 s, beside 10 with 500 in 5 s: 5 walks/s beside 2, 200 tokens/s beside 100.

    >>> rows = compared_rows("walks", WorkSpeed(10, 400, 2.0), WorkSpeed(10, 500, 5.0), "episodes")
    >>> [(row.value, row.baseline, row.ratio) for row in rows]
    [(5.0, 2.0, 2.5), (200.0, 100.0, 2.0)]
    """
    return [
        Figure(f"{label}: {what}", ours.count / ours.seconds, f"{what}/s", theirs.count / theirs.seconds),
        Figure(f"{label}: generated", ours.tokens / ours.seconds, "tokens/s", theirs.tokens / theirs.seconds),
    ]


def _prompts(model: LoadedModel, count: int, run: int) -> list[list[int]]:
    """Prompts of random tokens that share nothing, so that no cache helps."""
    draws = random.Random(run)
    words = sorted(set(range(model.module.config.get_text_config().vocab_size)) - model.tokens.end_ids)
    return [draws.choices(words, k=PROMPT) for _ in range(count)]


def _written(engine: Engine, prompts: list[list[int]]) -> WorkSpeed:
    begun = time.perf_counter()
    written = asked(engine, prompts, Sampling(1.0, max_tokens=NEW, seed=0))
    return WorkSpeed(len(prompts), sum(len(one.ids) for one in written), time.perf_counter() - begun)


def _walk_speed(episodes: Sequence[Episode], begun: float) -> WorkSpeed:
    seconds = time.perf_counter() - begun
    return WorkSpeed(len(episodes), sum(one.generated_tokens for one in episodes), seconds)
