"""Experiments run one after the other in one process: a GPU's minutes go to training, not to imports."""

from __future__ import annotations

import gc
import random
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.agents.experiments import BUNDLED, EXPERIMENTS, Experiment

from kgwalk.build.pipeline import REPORT, train
from kgwalk.config.recipe import unknown
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.llm.open import open_engine
from kgwalk.runs.folder import read_json

SHOWN = ("f1", "hits_at_1", "hit_any", "retrieval_rate", "generated_tokens")


class Bench:
    """`minutes`: no experiment is begun after so many; `limit`: questions of a test, at most."""

    def __init__(self, work: Path, model: str | None, limit: int | None, minutes: float | None) -> None:
        self.work, self.model, self.limit = work, model, limit
        self._began = time.monotonic()
        self._until = float("inf") if minutes is None else self._began + 60 * minutes

    def run(self, names: list[str]) -> None:
        for name in names:
            if name not in EXPERIMENTS:
                raise unknown("experiment", name, EXPERIMENTS)
        for name in names:
            if time.monotonic() > self._until:
                self._say(f"{name}: not begun, the minutes are over")
                continue
            self._train(name, EXPERIMENTS[name])
            self._test(name, EXPERIMENTS[name])

    def _train(self, name: str, experiment: Experiment) -> None:
        folder = self.work / "runs" / name
        if (folder / REPORT).exists() and experiment.stage in read_json(folder / REPORT)["stages"]:
            return
        demos = self._mixed(name, experiment) if experiment.demos else None
        began = time.monotonic()

        def progress(stage: str, step: int, steps: int, numbers: dict[str, float]) -> None:
            if step in (1, 2, steps) or step % (100 if stage == "sft" else 10) == 0:
                shown = {key: round(value, 4) for key, value in numbers.items() if _worth(key)}
                self._say(f"{name} {stage} {step}/{steps} {time.monotonic() - began:.0f} s {shown}")

        train(
            experiment.recipe,
            [self._data(one) for one in experiment.data],
            out=folder,
            model=self.model,
            start=None if experiment.start is None else self._adapter(experiment.start),
            demos=demos,
            values=[f'train.stages=["{experiment.stage}"]', *experiment.values],
            seed=experiment.seed,
            report_to="none",
            resume=(folder / "run.json").exists(),
            progress=progress,
        )
        _free()
        self._say(f"{name}: trained in {time.monotonic() - began:.0f} s")

    def _test(self, name: str, experiment: Experiment) -> None:
        engine: Any = None
        for data in experiment.tests:
            out = self.work / "evals" / f"{name}-{data}"
            if (out / "metrics.json").exists():
                continue
            engine = engine or open_engine("local", self.model, adapter=str(self._adapter(name)))
            began = time.monotonic()
            report = evaluate(experiment.recipe, self._data(data), out=out, engine=engine, limit=self.limit)
            shown = {key: round(report["metrics"][key], 3) for key in SHOWN if key in report["metrics"]}
            self._say(f"{name} on {data}: {report['n']} questions, {shown}, {time.monotonic() - began:.1f} s")
        del engine
        _free()

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

    def _adapter(self, name: str) -> Path:
        return self.work / "runs" / name / "adapter"

    def _data(self, name: str) -> str:
        return name if name.split(":")[0] == BUNDLED else str(self.work / "data" / name)

    def _say(self, words: str) -> None:
        print(f"{time.monotonic() - self._began:7.1f} {words}", file=sys.stderr, flush=True)


def _worth(name: str) -> bool:
    return name in ("loss", "f1", "reward", "entropy", "dropped_groups", "seconds") or name.startswith("eval_")


def _free() -> None:
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
