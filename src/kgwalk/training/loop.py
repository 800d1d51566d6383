"""Step after step of a stage of training, with what all stages share: numbers, checkpoints, validation, stopping.

Killed at any moment, a run that is resumed goes on from its last checkpoint and computes the same. Knows nothing of
what a step does.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import torch

from kgwalk.config.plugins import unknown
from kgwalk.config.run_folder import RowFile, read_rows
from kgwalk.training.checkpoint import Checkpoints, cannot_write
from kgwalk.training.time_budget import SAVE, STEP, VALIDATION, TimeBudget
from kgwalk.training.updater import Diverged, Updater
from kgwalk.types import KgwalkError, Progress, silent

# ----------------------------------------------------------------------------------------------------
# Where the numbers of a run go: `metrics.jsonl` always, and TensorBoard, Weights & Biases or Trackio if asked.
#
# Knows no stage of training by name.


METRICS = "metrics.jsonl"
SINKS = ("none", "tensorboard", "wandb", "trackio")


class Tracking:
    """Numbers by step. Opening it again for a step drops what was written after that step: it will come anew."""

    def __init__(self, folder: Path, stage: str, *, report_to: str = "tensorboard", after: int = 0) -> None:
        check_tracker(report_to)
        self.folder, self.stage = folder, stage
        path = folder / METRICS
        keep_rows(path, lambda row: row.get("stage") != stage or row["step"] <= after)
        self._rows = RowFile(path)
        self._sink = _sink(report_to, folder, stage, after)

    def log(self, step: int, values: dict[str, float]) -> None:
        self._rows.add({"stage": self.stage, "step": step, **values})
        if self._sink is not None:
            self._sink.log({f"{self.stage}/{name}": value for name, value in values.items()}, step=step)

    def close(self) -> None:
        self._rows.close()
        if self._sink is not None:
            self._sink.finish()


def check_tracker(name: str) -> None:
    """That there is such a tracker here. TensorBoard may be missing: it is the default, and metrics.jsonl has all."""
    if name not in SINKS:
        raise unknown("tracker", name, SINKS)
    if name not in ("none", "tensorboard") and importlib.util.find_spec(name) is None:
        raise KgwalkError(f"--report-to {name} needs the package {name}: pip install {name}")


def keep_rows(path: Path, kept_if: Callable[[dict[str, Any]], bool]) -> None:
    """Drop the other rows of a file: steps that are taken again will write them again."""
    rows = list(read_rows(path))
    kept = [row for row in rows if kept_if(row)]
    if len(kept) == len(rows):
        return
    beside = path.with_name(f".{path.name}.partial")
    beside.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in kept))
    os.replace(beside, path)


class _TensorBoard:
    def __init__(self, folder: Path, after: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder), purge_step=after + 1)  # type: ignore[no-untyped-call,unused-ignore]

    def log(self, values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def finish(self) -> None:
        self._writer.close()


def _sink(name: str, folder: Path, stage: str, after: int) -> Any:
    """An object with log(values, step) and finish(); None if there is none."""
    if name == "none" or importlib.util.find_spec(name) is None:
        return None
    if name == "tensorboard":
        return _TensorBoard(folder / "tensorboard", after)
    # the two have the same interface
    return importlib.import_module(name).init(project="kgwalk", name=f"{folder.resolve().parent.name}-{stage}")


Metrics = dict[str, float]


@dataclass(frozen=True)
class Stage:
    """`step(n)` is step n, counted from 1; `state()` and `restore` carry what it remembers between steps.

    `pace` is the time that it has: when that is over, the step before was the last.
    """

    name: str
    steps: int
    step: Callable[[int], Metrics]
    state: Callable[[], dict[str, Any]] = dict
    restore: Callable[[dict[str, Any]], None] = lambda state: None
    pace: TimeBudget = field(default_factory=TimeBudget)


@dataclass(frozen=True)
class Care:
    """How often a stage is saved and validated, and how many of its checkpoints stay.

    `score` names the number of the validation that decides which checkpoint is best; of two with the same, the later.
    """

    save_every: int
    keep: int
    eval_every: int  # 0: at the end only, and after half of a limited time, to know how long it takes
    validate: Callable[[], Metrics] | None = None
    score: str = "f1"


@dataclass
class _Best:
    """The highest score so far and its step; step 0: nothing was validated yet."""

    score: float = 0.0
    step: int = 0

    def see(self, step: int, score: float | None) -> bool:
        better = score is not None and (self.step == 0 or score >= self.score)
        if better and score is not None:
            self.score, self.step = score, step
        return better


def run_stage(
    stage: Stage,
    updater: Updater,
    folder: Path,
    care: Care,
    *,
    seed: int,
    card: dict[str, Any],
    resume: bool,
    report_to: str = "tensorboard",
    progress: Progress = silent,
) -> Path:
    """Run the steps that are missing; returns the last checkpoint. With `resume` the folder's own last one is gone on
    from. Ctrl-C or SIGTERM ends after the step under way, saved; a second one at once."""
    checkpoints, processes, pace = Checkpoints(folder, care.keep), updater.processes, stage.pace
    done, best = _restored(stage, updater, checkpoints, resume=resume)
    tracking = Tracking(folder, stage.name, report_to=report_to, after=done) if processes.main else None
    try:
        with _stopping() as asked:
            for step in range(done + 1, stage.steps + 1) if not pace.ended else ():
                numbers = _step(stage, step, seed, checkpoints)
                pace.mark(STEP, processes.gathered)
                last = step == stage.steps or pace.over
                if care.validate is not None and (last or pace.unsure or _due(step, care.eval_every)):
                    numbers |= {f"eval_{name}": value for name, value in care.validate().items()}
                    pace.mark(VALIDATION, processes.gathered)
                    last = last or pace.over  # what was a validation on the way was that of the end
                if pace.minutes:
                    numbers["minutes_used"] = pace.used / 60
                    pace.ended = last and step < stage.steps
                better = best.see(step, numbers.get(f"eval_{care.score}"))
                stop = any(processes.gathered([bool(asked)]))  # all at the same step
                if tracking is not None:
                    with _writing(step, checkpoints):
                        tracking.log(step, numbers)
                if better or stop or last or _due(step, care.save_every):
                    state = {"stage": stage.state(), "best": [best.score, best.step], "seed": seed}
                    state |= {"pace": pace.state()} if pace.minutes else {}
                    saved = checkpoints.save(step, updater.model, updater.optimiser, state, card, write=processes.main)
                    if better and processes.main:
                        checkpoints.keep_best(saved)
                    pace.mark(SAVE, processes.gathered)
                processes.wait()
                progress(stage.name, step, stage.steps, numbers)
                if last:
                    break
                if stop:
                    raise KeyboardInterrupt(f"stopped after step {step} of {stage.name}; {checkpoints.good()}")
    finally:
        if tracking is not None:
            tracking.close()
    latest = checkpoints.latest()
    assert latest is not None
    return latest


def _restored(stage: Stage, updater: Updater, checkpoints: Checkpoints, *, resume: bool) -> tuple[int, _Best]:
    """Steps done, and the best of them, from the last checkpoint if there is one."""
    latest = checkpoints.latest()
    if latest is None:
        return 0, _Best()
    if not resume:
        raise KgwalkError(f"{checkpoints.folder} has checkpoints already; --resume goes on from {latest.name}")
    state = checkpoints.restore(latest, updater.model, updater.optimiser)
    stage.restore(state["stage"])
    if stage.pace.minutes:
        stage.pace.restore(state["pace"])
    best = _Best(*state["best"])
    # killed after the checkpoint was written and before it was copied
    if best.step == state["step"] and updater.processes.main and not checkpoints.is_best(latest):
        checkpoints.keep_best(latest)
    return int(state["step"]), best


def _due(step: int, every: int) -> bool:
    """Every so many steps; with 0 never."""
    return every > 0 and step % every == 0


def _step(stage: Stage, step: int, seed: int, checkpoints: Checkpoints) -> Metrics:
    # Dropout is all that draws from torch's own generator: with a seed of its own a step needs no stored state.
    torch.manual_seed(seed * 1_000_003 + step)
    before = time.monotonic()
    try:
        with _writing(step, checkpoints):
            numbers = stage.step(step)
    except (KgwalkError, torch.OutOfMemoryError) as error:
        advice = ""
        if isinstance(error, Diverged):
            advice = ". Try a lower learning rate, or float32"
        elif isinstance(error, torch.OutOfMemoryError):
            advice = f". Lower {stage.name}.microbatch_tokens, or set model.checkpoint_activations=true"
        raise KgwalkError(
            f"training of {stage.name} stopped in step {step}: {error}; {checkpoints.good()}{advice}"
        ) from error
    return numbers | {"seconds": time.monotonic() - before}


@contextmanager
def _writing(step: int, checkpoints: Checkpoints) -> Iterator[None]:
    """A full disk is no bug: it is told with what is safe."""
    try:
        yield
    except OSError as error:
        if not cannot_write(error):
            raise
        raise KgwalkError(f"step {step} could not be recorded: {error}; {checkpoints.good()}") from error


@contextmanager
def _stopping() -> Iterator[list[int]]:
    """Gets an entry when the process is asked to stop; a second time it stops at once."""
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt("stopped at once")
        asked.append(number)

    before = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, ask)
    except ValueError:  # only the main thread may; in another one the caller looks after signals
        pass
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
