"""`kgwalk bench engine`: how fast the local engine decodes and rolls out, how near that is to what the machine can do.

Everything in one run on one machine, `generate` of transformers beside it, and whether the tokens are the right ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kgwalk.bench.checks import CHECKED, CHECKS, Amount, check_rows
from kgwalk.bench.decode import MANY, Limits, compared, decoder_of, generate_speed, slot_speed, speed_rows
from kgwalk.bench.episodes import Place, episode_rows, opened, soak_rows
from kgwalk.bench.goals import with_goals
from kgwalk.bench.machine import Machine
from kgwalk.bench.rows import Row
from kgwalk.config.recipe import Recipe
from kgwalk.data.dataset import Dataset
from kgwalk.llm.local import LocalEngine
from kgwalk.llm.models import DEFAULT_MODEL, LoadedModel, load_model
from kgwalk.llm.slot_model import SlotModel, longest_context

Progress = Callable[[str, int, int | None], None]
SOAKED = 10_000  # episodes
Measure = Callable[[LocalEngine, Place, Machine, int, Progress], list[Row]]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    batches: tuple[int, ...]
    context: int  # tokens of a row
    episodes: int  # of a recipe on a dataset
    rounds: int
    checks: Amount

    @classmethod
    def of(cls, machine: Machine) -> Scale:
        """What takes a few minutes there."""
        if machine.on_gpu:
            return cls((1, 64, 256, 1024), 512, 4096, 5, Amount(prompts=200, tokens=64, draws=20_000))
        return cls((1, 8), 128, 16, 2, Amount(prompts=8, tokens=16, draws=256))


@dataclass(frozen=True)
class EngineBench:
    """A model, and every recipe on every dataset. The first of both give the prompts of the checks."""

    machine: Machine
    scale: Scale
    recipes: Sequence[Recipe]
    datasets: Sequence[Dataset]
    model: str | None = None
    adapter: str | None = None
    progress: Progress = lambda what, done, total: None

    def run(self) -> list[Row]:
        """All but a soak."""
        places = self._places()
        rows, config = self._decoding()
        for same in places:
            rows += self._rollouts(same, episode_rows, self.scale.episodes)
        rows += self._checks(places[0][0])
        return with_goals(rows, self.machine, config)

    def check(self) -> list[Row]:
        """Only whether the tokens are the right ones."""
        return self._checks(self._places()[0][0])

    def soak(self, episodes: int) -> list[Row]:
        """Only whether memory grows over so many episodes."""
        return [row for same in self._places() for row in self._rollouts(same, soak_rows, episodes)]

    def _places(self) -> list[list[Place]]:
        """Those of a recipe together."""
        return [[Place.of(recipe, dataset) for dataset in self.datasets] for recipe in self.recipes]

    @property
    def _named(self) -> tuple[str, str | None]:
        """Model and adapter; an adapter's folder names its base."""
        return (self.adapter or DEFAULT_MODEL, None) if self.model is None else (self.model, self.adapter)

    def _load(self) -> LoadedModel:
        name, adapter = self._named
        return load_model(name, adapter=adapter, device=self.machine.device, dtype=self.machine.dtype)

    def _decoding(self) -> tuple[list[Row], Any]:
        """And the model's configuration. The engine changes the module that it runs, so `generate` has its own."""
        machine, scale = self.machine, self.scale
        self.progress("decoding", 0, len(scale.batches))
        limits = Limits(machine.bandwidth(), machine.rate())
        machine.free()
        plain = self._load().module
        model = SlotModel(self._load().module, most_slots=max(scale.batches), context=scale.context + MANY)
        rows = [
            Row("copy bandwidth, read and written", limits.bandwidth / 1e9, "GB/s"),
            Row(f"matrix product, {machine.dtype}", limits.rate / 1e12, "TFLOP/s"),
        ]
        for number, batch in enumerate(scale.batches, 1):
            ours = slot_speed(model, machine, batch, scale.context, scale.rounds)
            beside = batch in compared(scale.batches, machine)
            theirs = generate_speed(plain, machine, batch, scale.context, min(3, scale.rounds)) if beside else None
            rows += speed_rows(batch, scale.context, ours, theirs, decoder_of(plain), limits)
            self.progress("decoding", number, len(scale.batches))
        return [*rows, *machine.most_rows("decoding")], plain.config

    def _rollouts(self, places: Sequence[Place], measure: Measure, episodes: int) -> list[Row]:
        """One engine for a recipe, with slots as long as an episode may be: as in training."""
        self.machine.free()
        model = self._load()
        context = min(places[0].budget.total_tokens, longest_context(model.module))
        with opened(LocalEngine(model, context=context)) as engine:
            return [row for place in places for row in measure(engine, place, self.machine, episodes, self.progress)]

    def _checks(self, place: Place) -> list[Row]:
        self.progress("checks", 0, None)
        name, adapter = self._named
        dtypes = CHECKED.get(self.machine.kind, CHECKED["cpu"])
        amount = self.scale.checks
        return [row for dtype in dtypes for row in check_rows(name, adapter, place, self.machine, amount, dtype)]


def wrong(rows: Sequence[Row]) -> list[Row]:
    """The checks that were not met: speed is one thing, wrong tokens another."""
    return [row for row in rows if row.met is False and row.name.startswith(CHECKS)]
