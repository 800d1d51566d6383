"""Step after step of a stage of training, with what all stages share: numbers, checkpoints, validation, stopping.

Killed at any moment, a run that is resumed goes on from its last checkpoint and computes the same. Knows nothing of
what a step does.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kgwalk.training.checkpoint import Checkpoints
from kgwalk.training.tracking import Tracking
from kgwalk.training.updater import Diverged, Updater
from kgwalk.types import KgwalkError

Numbers = dict[str, float]
Progress = Callable[[str, int, int, Numbers], None]  # stage, step, of how many, the step's numbers


@dataclass(frozen=True)
class Stage:
    """`step(n)` is step n, counted from 1; `state()` and `restore` carry what it remembers between steps."""

    name: str
    steps: int
    step: Callable[[int], Numbers]
    state: Callable[[], dict[str, Any]] = dict
    restore: Callable[[dict[str, Any]], None] = lambda state: None


@dataclass(frozen=True)
class Care:
    """How often a stage is saved and validated. `score` names the number that decides which checkpoint is best."""

    save_every: int
    keep: int
    eval_every: int  # 0: at the end only
    validate: Callable[[], Numbers] | None = None
    score: str = "f1"


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
    progress: Progress = lambda stage, step, steps, numbers: None,
) -> Path:
    """Run the steps that are missing; returns the last checkpoint. With `resume` the folder's own last one is gone on
    from. Ctrl-C ends after the step under way, saved."""
    checkpoints = Checkpoints(folder, care.keep)
    done, best = 0, float("-inf")
    latest = checkpoints.latest()
    if latest is not None and resume:
        state = checkpoints.restore(latest, updater.model, updater.optimiser)
        stage.restore(state["stage"])
        done, best = state["step"], state["best"]
    elif latest is not None:
        raise KgwalkError(f"{folder} has checkpoints already; --resume goes on from {latest.name}")
    tracking = Tracking(folder, stage.name, report_to=report_to, after=done) if updater.main else None
    try:
        with _stopping() as stop:
            for step in range(done + 1, stage.steps + 1):
                numbers = _step(stage, step, seed, checkpoints)
                last = step == stage.steps or bool(stop)
                due = step == stage.steps or (care.eval_every > 0 and step % care.eval_every == 0)
                if due and care.validate is not None:
                    numbers |= {f"eval_{name}": value for name, value in care.validate().items()}
                better = numbers.get(f"eval_{care.score}", float("-inf")) > best
                best = max(best, numbers.get(f"eval_{care.score}", best))
                if tracking is not None:
                    tracking.log(step, numbers)
                    if last or better or step % care.save_every == 0:
                        state = {"stage": stage.state(), "best": best, "seed": seed}
                        saved = checkpoints.save(step, updater.model, updater.optimiser, state, card)
                        if better:
                            checkpoints.keep_best(saved)
                updater.accelerator.wait_for_everyone()
                progress(stage.name, step, stage.steps, numbers)
                if stop and step < stage.steps:
                    raise KeyboardInterrupt
    finally:
        if tracking is not None:
            tracking.close()
    latest = checkpoints.latest()
    assert latest is not None
    return latest


def _step(stage: Stage, step: int, seed: int, checkpoints: Checkpoints) -> Numbers:
    # Dropout is all that draws from torch's own generator: with a seed of its own a step needs no stored state.
    torch.manual_seed(seed * 1_000_003 + step)
    before = time.monotonic()
    try:
        numbers = stage.step(step)
    except Diverged as error:
        last = checkpoints.latest()
        where = f"the last good checkpoint is {last}" if last else "there is no checkpoint yet"
        raise KgwalkError(
            f"training of {stage.name} stopped in step {step}: {error}; {where}. Try a lower learning rate, or float32"
        ) from error
    return numbers | {"seconds": time.monotonic() - before}


@contextmanager
def _stopping() -> Iterator[list[int]]:
    """Gets an entry when the process is asked to stop; a second time it stops at once."""
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
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
