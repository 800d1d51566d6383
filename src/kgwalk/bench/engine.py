"""`kgwalk bench engine`: how fast the engine `local` decodes and rolls out, and whether it is right.

Everything is measured in one run on one machine: decoding beside `generate` of transformers and the machine's limits
(`decode`), whole episodes (`episodes`), and whether the tokens are those of the model (`checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kgwalk.bench.checks import CHECKED, CHECKS, Amount, check_rows
from kgwalk.bench.decode import (
    MANY,
    Limits,
    compared,
    constrained_row,
    decoder_of,
    generate_speed,
    slot_speed,
    speed_rows,
    widest_state,
)
from kgwalk.bench.episodes import Rollouts, Workload, episode_rows, soak_rows
from kgwalk.bench.machine import Machine, with_goals
from kgwalk.bench.rows import Figure
from kgwalk.config.recipe import Recipe
from kgwalk.data.dataset import Dataset
from kgwalk.llm.models import DEFAULT_MODEL, LoadedModel, load_model
from kgwalk.llm.torch_engine.model import SlotModel
from kgwalk.types import Progress, silent
from kgwalk.walk.policy import choose_adapter

SOAKED = 10_000  # episodes
PARTS = ("decode", "episodes", "check")
Measure = Callable[[Rollouts, Workload, Machine, int, Progress], Iterator[Figure]]


@dataclass(frozen=True, slots=True)
class EngineScale:
    """How much is measured."""

    batches: tuple[int, ...]
    context: int  # tokens of a sequence
    episodes: int  # of a recipe on a dataset
    rounds: int
    checks: Amount

    @classmethod
    def of(cls, machine: Machine) -> EngineScale:
        """An amount that takes a few minutes on this machine."""
        if machine.on_gpu:
            return cls((1, 64, 256, 1024), 512, 4096, 5, Amount(prompts=200, tokens=64, draws=20_000))
        return cls((1, 8), 128, 16, 2, Amount(prompts=8, tokens=16, draws=256))


@dataclass(frozen=True)
class EngineBench:
    """A model, and every recipe on every dataset.

    The first recipe and the first dataset give the prompts of the checks. With 0 `workers` this process walks itself.
    Without an `adapter` it is the shipped one, if that fits; `none` is the model as it is. `report` gets each figure as
    soon as it is known.
    """

    machine: Machine
    scale: EngineScale
    recipes: Sequence[Recipe]
    datasets: Sequence[Dataset]
    model: str | None = None
    adapter: str | None = None
    progress: Progress = silent
    workers: int = 0
    report: Callable[[Figure], None] = lambda row: None

    def run(self, only: Collection[str] = PARTS) -> list[Figure]:
        """All parts, or some of them; a soak is apart."""
        workloads = self._workloads()
        parts = {
            "decode": self._decoding(),
            "episodes": self._rollouts(workloads, episode_rows, self.scale.episodes),
            "check": self._checks(workloads[0][0]),
        }
        return [self._reported(row) for name, rows in parts.items() if name in only for row in rows]

    def soak(self, episodes: int) -> list[Figure]:
        """Only whether memory grows over so many episodes."""
        return [self._reported(row) for row in self._rollouts(self._workloads(), soak_rows, episodes)]

    def beside(self, other: str, options: dict[str, Any]) -> list[Figure]:
        """Only the same work by this engine and by another kind, on the first recipe."""
        from kgwalk.bench.beside import BesideBench

        model, adapter = self._named(self.recipes[0])
        bench = BesideBench(
            self.machine,
            other,
            self.recipes[0],
            self.datasets,
            model,
            adapter,
            max(self.scale.batches),
            self.scale.episodes,
            self.scale.checks,
            self.workers,
            options,
            self.progress,
        )
        return [self._reported(row) for row in bench.rows()]

    def _reported(self, row: Figure) -> Figure:
        self.report(row)
        return row

    def _workloads(self) -> list[list[Workload]]:
        """A list for each recipe."""
        return [[Workload.of(recipe, dataset) for dataset in self.datasets] for recipe in self.recipes]

    def _named(self, recipe: Recipe) -> tuple[str, str | None]:
        """Model and adapter. Without a model the adapter's folder is given as one, as it names its base."""
        adapter = choose_adapter(self.adapter, None, recipe, model=self.model, engine="local").folder
        return (adapter or DEFAULT_MODEL, None) if self.model is None else (self.model, adapter)

    def _load(self, recipe: Recipe) -> LoadedModel:
        name, adapter = self._named(recipe)
        return load_model(name, adapter=adapter, device=self.machine.device, dtype=self.machine.dtype)

    def _decoding(self) -> Iterator[Figure]:
        """Figures of decoding. The engine changes the module that it runs, so `generate` has its own."""
        machine, scale = self.machine, self.scale
        self.progress("decoding", 0, len(scale.batches))
        limits = Limits(machine.bandwidth(), machine.rate())
        machine.free()
        plain = self._load(self.recipes[0]).module
        loaded = self._load(self.recipes[0])
        model = SlotModel(loaded.module, max_slots=max(scale.batches), context=scale.context + MANY)
        widest = widest_state(loaded.tokens)
        yield Figure("copy bandwidth, read and written", limits.bandwidth / 1e9, "GB/s")
        yield Figure(f"matrix product, {machine.dtype}", limits.rate / 1e12, "TFLOP/s")
        for number, batch in enumerate(scale.batches, 1):
            ours = slot_speed(model, machine, batch, scale.context, scale.rounds)
            beside = batch in compared(scale.batches, machine)
            theirs = generate_speed(plain, machine, batch, scale.context, min(3, scale.rounds)) if beside else None
            rows = speed_rows(batch, scale.context, ours, theirs, decoder_of(plain), limits)
            yield from with_goals(rows, machine, plain.config)
            if widest is not None:
                bound = slot_speed(model, machine, batch, scale.context, scale.rounds, widest)
                yield constrained_row(batch, scale.context, ours, bound, machine.on_gpu)
            self.progress("decoding", number, len(scale.batches))
        yield from machine.most_rows("decoding")

    def _rollouts(self, workloads: Sequence[Sequence[Workload]], measure: Measure, episodes: int) -> Iterator[Figure]:
        """Figures of episodes, with one engine for a recipe on all datasets."""
        for recipe, same in zip(self.recipes, workloads, strict=True):
            self.machine.free()
            model = self._load(recipe)
            config = model.module.config
            with Rollouts.opened(model, same[0], self.workers) as rollouts:
                del model  # only the engine holds it now, and frees it when it is closed
                for workload in same:
                    for row in measure(rollouts, workload, self.machine, episodes, self.progress):
                        yield from with_goals([row], self.machine, config)

    def _checks(self, workload: Workload) -> Iterator[Figure]:
        self.progress("checks", 0, None)
        name, adapter = self._named(self.recipes[0])
        dtypes = CHECKED.get(self.machine.kind, CHECKED["cpu"])
        amount = self.scale.checks
        for dtype in dtypes:
            yield from check_rows(name, adapter, workload, self.machine, amount, dtype)


def wrong(rows: Sequence[Figure]) -> list[Figure]:
    """The checks that failed. A goal of speed that was missed is not among them."""
    return [row for row in rows if row.met is False and row.name.startswith(CHECKS)]
