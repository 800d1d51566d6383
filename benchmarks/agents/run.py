"""Experiments run one after the other in one process: a GPU's minutes go to training, not to imports."""

from __future__ import annotations

import gc
import os
import random
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.agents.experiments import BUNDLED, EXPERIMENTS, FIT, VALIDATED, Experiment, checked, folder_name, plain

from kgwalk.config.recipe import Recipe, load_recipe
from kgwalk.config.run_folder import read_json, write_json
from kgwalk.data.dataset import load_dataset
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.llm.engine import open_engine
from kgwalk.llm.torch_engine.cuda_graphs import SHARE_VARIABLE
from kgwalk.training.fit.fit import fit
from kgwalk.training.pipeline import REPORT, train
from kgwalk.types import KgwalkError

SHOWN = ("f1", "hits_at_1", "hit_any", "retrieval_rate", "generated_tokens")
SPOKEN_OF = {"sft": 100, "grpo": 10}  # stages, and every so many of their steps


class Bench:
    """`minutes`: no experiment is begun after so many; `limit`: questions of a test, at most. `beside`: so many
    processes share the GPU and the machine's cores, this one counted.
    """

    def __init__(
        self, work: Path, *, model: str | None, limit: int | None, minutes: float | None, beside: int = 1
    ) -> None:
        self.work, self.model, self.limit, self.beside = work, model, limit, beside
        self._began = time.monotonic()
        self._until = float("inf") if minutes is None else self._began + 60 * minutes
        if beside > 1:
            os.environ.setdefault(SHARE_VARIABLE, str(1 / beside))

    def run(self, names: Sequence[str]) -> list[str]:
        """The names of those that failed, or were not begun; the others have their turn all the same."""
        failed = []
        for name in checked(names):
            if time.monotonic() > self._until:
                self._say(f"{name}: not begun, the minutes are over")
                failed.append(name)
                continue
            try:
                self._train(name, EXPERIMENTS[name])
                self._test(name, EXPERIMENTS[name])
            except (KgwalkError, RuntimeError):  # of the second kind are torch's
                traceback.print_exc()
                self._say(f"{name}: failed")
                failed.append(name)
                _free()
        return failed

    def _train(self, name: str, experiment: Experiment) -> None:
        if experiment.stage is None or trained(self.work, name):
            return
        began = time.monotonic()

        def progress(stage: str, step: int, steps: int | None, numbers: Mapping[str, float] | None = None) -> None:
            if step == steps or (stage in SPOKEN_OF and (step in (1, 2) or step % SPOKEN_OF[stage] == 0)):
                shown = {key: round(value, 4) for key, value in (numbers or {}).items() if _worth(key)}
                self._say(f"{name} {stage} {step}/{steps} {time.monotonic() - began:.0f} s {shown}")

        if experiment.fitted is not None:
            self._fit(name, experiment, progress)
        else:
            folder = self._folder(name)
            train(
                self._recipe(experiment),
                [self._data(one) for one in experiment.data or VALIDATED],
                out=folder,
                start=None if experiment.start is None else self._adapter(experiment.start),
                demos=self._mixed(name, experiment) if experiment.demos else None,
                values=[f'train.stages=["{experiment.stage}"]', *self._shared(), *experiment.values],
                seed=experiment.seed,
                report_to="none",
                resume=(folder / "run.json").exists(),
                progress=progress,
            )
        _free()
        self._say(f"{name}: trained in {time.monotonic() - began:.0f} s")

    def _fit(self, name: str, experiment: Experiment, progress: Any) -> None:
        assert experiment.fitted is not None
        assert experiment.start is not None
        folder = self._folder(name)
        found = fit(
            load_dataset(self._data(experiment.fitted)).graph(),  # type: ignore[arg-type]
            out=folder,
            name=experiment.fitted,
            minutes=experiment.minutes,
            start=self._adapter(experiment.start),
            engine="local",
            values=[*self._named(), *self._shared(), *experiment.values],
            force=True,
            progress=progress,
        )
        write_json(folder / FIT, found)
        self._say(f"{name}: {found.get('before')} before, {found.get('after')} after, on made questions held out")

    def _test(self, name: str, experiment: Experiment) -> None:
        engine: Any = None
        for test in experiment.tests:
            data, _, most = test.partition(":")
            limit = min((number for number in (self.limit, int(most or 0)) if number), default=None)
            for way, values in experiment.ways.items():
                out = self.work / "evals" / folder_name(name, data, way)
                if (out / "metrics.json").exists():
                    continue
                engine = engine or self._engine(name, experiment)
                began = time.monotonic()
                recipe = self._recipe(experiment).with_values([*_walking(experiment), *values])
                report = evaluate(recipe, self._data(data), out=out, engine=engine, limit=limit)
                took = time.monotonic() - began
                shown = {key: round(report["metrics"][key], 3) for key in SHOWN if key in report["metrics"]}
                self._say(f"{name} on {data} {way}: {report['n']} questions, {shown}, {took:.1f} s")
        del engine
        _free()

    def _engine(self, name: str, experiment: Experiment) -> Any:
        """Of the experiment's own adapter, or of its start's if it trains nothing; of a baseline the model alone."""
        whose = name if experiment.stage else experiment.start
        adapter = {} if whose is None else {"adapter": str(self._adapter(whose))}
        longest = int(self._recipe(experiment).section("rollout")["total_tokens"])  # so that more rows fit
        return open_engine("local", self.model, context=longest, **adapter)

    def _mixed(self, name: str, experiment: Experiment) -> Path:
        """The demonstrations, shuffled. Of a file, a share of it, or a number of its lines."""
        draw = random.Random(f"{name}/{experiment.seed}")
        lines: list[bytes] = []
        for source, much in experiment.demos.items():
            found = (self.work / "demos" / f"{source}.jsonl").read_bytes().splitlines(keepends=True)
            count = round(len(found) * much) if isinstance(much, float) else min(much, len(found))
            while count > 0:
                lines += draw.sample(found, min(count, len(found)))
                count -= len(found)
        draw.shuffle(lines)
        file = self.work / "mixed" / f"{name}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"".join(lines))
        self._say(f"{name}: {len(lines):,} demonstrations")
        return file

    def _recipe(self, experiment: Experiment) -> Recipe:
        recipe = load_recipe(experiment.recipe)
        recipe = recipe if experiment.profile is None else recipe.with_profile(experiment.profile)
        return recipe.with_values(self._named())

    def _named(self) -> list[str]:
        return [] if self.model is None else [f'model.name="{self.model}"']

    def _shared(self) -> list[str]:
        """Where several walk, each has its share of the cores."""
        cores = (os.cpu_count() or 1) // self.beside
        return [f"grpo.rollout_workers={max(1, cores - 1)}"] if self.beside > 1 else []

    def _folder(self, name: str) -> Path:
        return self.work / "runs" / name

    def _adapter(self, name: str) -> Path:
        return adapter_of(self.work, name)

    def _data(self, name: str) -> str:
        return name if plain(name) == BUNDLED else str(self.work / "data" / name)

    def _say(self, words: str) -> None:
        print(f"{time.monotonic() - self._began:7.1f} {words}", file=sys.stderr, flush=True)


def trained(work: Path, name: str) -> bool:
    """Whether an experiment's adapter is there; one that trains nothing has that of its start."""
    experiment = EXPERIMENTS[name]
    folder = work / "runs" / name
    if experiment.stage is None:
        return experiment.start is None or trained(work, experiment.start)
    if experiment.stage == "fit":
        return (folder / FIT).exists()
    return (folder / REPORT).exists() and experiment.stage in read_json(folder / REPORT)["stages"]


def adapter_of(work: Path, name: str) -> Path:
    """A fit's is what it settled on: its own, or its start's if that walked better."""
    folder = work / "runs" / name
    return Path(read_json(folder / FIT)["adapter"]) if (folder / FIT).exists() else folder / "adapter"


def _walking(experiment: Experiment) -> list[str]:
    """Those values of a training run that change how it walks."""
    return [value for value in experiment.values if value.startswith(("protocol.", "rollout."))]


def _worth(name: str) -> bool:
    return name in ("loss", "f1", "reward", "entropy", "dropped_groups", "seconds") or name.startswith("eval_")


def _free() -> None:
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
