"""The loop of a training stage: steps, time budget, metrics, validation, checkpoints, stopping and resuming.

    stage = Stage("sft", steps=100, step=sft.step)
    run_stage(stage, updater, folder, CheckpointPolicy(50, keep=1, eval_every=0), seed=0, card={}, resume=True)

`Sft` and `Grpo` supply the step; this module does what every stage needs around it. A run that is killed at any moment
and resumed goes on from its last checkpoint and computes the same numbers as one that was never stopped. The metrics of
each step go to `metrics.jsonl`, and to TensorBoard, Weights & Biases or Trackio if asked (`Tracking`).

A stage may have a `TimeBudget`, in minutes of wall-clock time. It is marked after each step, validation and save, and
says how far the stage is (for the learning rate) and whether another step would take too long. Several processes go by
the same times, the longest of theirs, so that they end at the same step.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import orjson
import torch

from kgwalk.config.cache import cannot_write
from kgwalk.config.recipe import unknown
from kgwalk.config.run_folder import RESTORE, RowFile, read_rows
from kgwalk.evaluation.report import STEP_METRICS
from kgwalk.training.checkpoint import Checkpoints
from kgwalk.training.model import PolicyModel
from kgwalk.training.updater import Diverged, Processes
from kgwalk.types import InputError, KgwalkError, Progress, silent

SINKS = ("none", "tensorboard", "wandb", "trackio")
Metrics = dict[str, float]
STEP, VALIDATION, SAVE = "step", "validation", "save"
RECENT = {STEP: 5, VALIDATION: 1, SAVE: 1}  # a step may take as long as the longest of the last five
HALF = 0.5  # of the time: by then one validation must have shown how long the one at the end takes
Gathered = Callable[[list[float]], list[float]]  # the lists of all processes, one after the other


@dataclass
class TimeBudget:
    """`minutes` of wall-clock time from the moment this is made; 0: no limit. `clock` is in seconds.

    The first step of a process may compile, so the next is not expected to take as long. Progress counts from the end
    of the stage's first step. With 100 s, a first step of 20 s, a second of 10 s, and no validation:

    >>> seconds = iter([0, 20, 30])
    >>> budget = TimeBudget(100 / 60, clock=lambda: next(seconds))
    >>> budget.mark(STEP, list)
    >>> budget.progress  # (20 - 20 + 0) / (100 - 20): how long a step takes is not known yet
    0.0
    >>> budget.mark(STEP, list)
    >>> budget.progress  # (30 - 20 + 10) / (100 - 20)
    0.25
    """

    minutes: float = 0.0
    clock: Callable[[], float] = time.monotonic
    used: float = field(default=0.0, init=False)  # seconds, up to the last mark
    ended: bool = field(default=False, init=False)  # whether time ended the stage before all its steps were done
    _first: float | None = field(default=None, init=False)  # what was used when the very first step was done
    _earlier: float = field(default=0.0, init=False)  # seconds that processes before this one have used
    _warm: bool = field(default=False, init=False)  # this process has done a step
    _recent: dict[str, list[float]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._begun = self.clock() if self.minutes else 0.0

    def mark(self, what: str, gathered: Gathered) -> None:
        """Record that a step, a validation or a save is done: it took all the time since the last mark."""
        if not self.minutes:
            return
        now = max(gathered([self._earlier + self.clock() - self._begun]))
        took, self.used = now - self.used, now
        if what == STEP and not self._warm:
            self._warm = True
            self._first = now if self._first is None else self._first
        else:
            self._recent[what] = [*self._recent.get(what, []), took][-RECENT[what] :]

    @property
    def progress(self) -> float:
        """From 0 to 1: the share of the time that will be used when the next step is done."""
        if not self.minutes or self._first is None:
            return 0.0
        whole = 60 * self.minutes - self._first - self._last
        return min(1.0, (self.used - self._first + self._expected(STEP)) / whole) if whole > 0 else 1.0

    @property
    def over(self) -> bool:
        """Whether another step, a validation and a save would end too late."""
        return self.minutes > 0 and self.used + self._expected(STEP) + self._last > 60 * self.minutes

    @property
    def unsure(self) -> bool:
        """Half of the time is used, and it is not known how long a validation takes."""
        return self.minutes > 0 and VALIDATION not in self._recent and self.used >= HALF * 60 * self.minutes

    @property
    def _last(self) -> float:
        """Seconds for what comes after the last step."""
        return self._expected(VALIDATION) + self._expected(SAVE)

    def _expected(self, what: str) -> float:
        return max(self._recent.get(what, []), default=0.0)

    def state(self) -> dict[str, Any]:
        """For a checkpoint: a resumed run has the time that is left."""
        return {"used": self.used, "first": self._first, "recent": self._recent, "ended": self.ended}

    def restore(self, state: dict[str, Any]) -> None:
        self.used = self._earlier = float(state["used"])
        self._first, self._recent, self.ended = state["first"], dict(state["recent"]), bool(state["ended"])

    def report(self, done: int, steps: int) -> dict[str, Any]:
        """The part of a finished stage's report that is about time; empty without a limit."""
        if not self.minutes:
            return {}
        note = {"note": f"ended after {done:,} of {steps:,} steps: its minutes were over"} if done < steps else {}
        return {"minutes": self.minutes, "minutes_used": round(self.used / 60, 2), "planned_steps": steps, **note}


@dataclass(frozen=True)
class Stage:
    """What the loop runs: `step(n)` does step n, counted from 1, and returns its metrics.

    `state()` is what the stage remembers between steps, for a checkpoint; `restore` takes it back. The stage ends
    early when its `time_budget` is used up.
    """

    name: str
    steps: int
    step: Callable[[int], Metrics]
    state: Callable[[], dict[str, Any]] = dict
    restore: Callable[[dict[str, Any]], None] = lambda state: None
    time_budget: TimeBudget = field(default_factory=TimeBudget)


@dataclass(frozen=True)
class CheckpointPolicy:
    """The checkpoint policy: how often a stage is saved and validated, and how many checkpoints are kept.

    `score` names the validation metric that decides which checkpoint is best. Of two equal ones the later wins. A
    stage whose best is `patience` steps old at a validation ends there.
    """

    save_every: int  # steps
    keep: int  # checkpoints; the best one is kept besides
    eval_every: int  # steps. 0: at the end only, and once halfway through a time budget, to learn how long it takes
    validate: Callable[[], Metrics] | None = None
    score: str = "f1"
    patience: int = 0  # steps; 0: as many as there are


@dataclass
class _Best:
    """The highest validation score so far and its step; step 0 means that nothing was validated yet."""

    score: float = 0.0
    step: int = 0

    def see(self, step: int, score: float | None) -> bool:
        better = score is not None and (self.step == 0 or score >= self.score)
        if better and score is not None:
            self.score, self.step = score, step
        return better

    def is_old(self, step: int, patience: int) -> bool:
        """Whether `patience` steps have brought nothing better.

        >>> _Best(0.5, 20).is_old(40, patience=30), _Best(0.5, 20).is_old(50, patience=30)
        (False, True)
        """
        return patience > 0 and self.step > 0 and step - self.step >= patience


class Learner(Protocol):
    """What learns in a stage: the model and its optimiser, for checkpoints, and the processes that share the work."""

    @property
    def model(self) -> PolicyModel: ...

    @property
    def optimiser(self) -> torch.optim.Optimizer: ...

    @property
    def processes(self) -> Processes: ...


def run_stage(
    stage: Stage,
    updater: Learner,
    folder: Path,
    checkpoint_policy: CheckpointPolicy,
    *,
    seed: int,
    card: dict[str, Any],
    resume: bool,
    report_to: str = "tensorboard",
    progress: Progress = silent,
) -> Path:
    """Run the steps that are still missing and return the last checkpoint.

    With `resume` the stage goes on from the folder's last checkpoint; without it a folder with checkpoints is an error.
    Ctrl-C or SIGTERM stops after the current step, which is saved; a second one stops at once.
    """
    with StageRun(
        stage,
        updater,
        folder,
        checkpoint_policy,
        seed=seed,
        card=card,
        resume=resume,
        report_to=report_to,
        progress=progress,
    ) as run:
        for step in run.missing:
            begun = run.begin(step)
            with run.errors(step):
                metrics = stage.step(step)
            if run.end(step, metrics | {"seconds": time.monotonic() - begun}):
                break
    return run.latest


class StageRun:
    """What surrounds the steps of a stage, for loops of our own (`run_stage`) and of others (`backends`):

    with StageRun(...) as run:
        for step in run.missing:
            run.begin(step)
            with run.errors(step):
                metrics = ...
            if run.end(step, metrics):
                break
    """

    def __init__(
        self,
        stage: Stage,
        learner: Learner,
        folder: Path,
        checkpoint_policy: CheckpointPolicy,
        *,
        seed: int,
        card: dict[str, Any],
        resume: bool,
        report_to: str = "tensorboard",
        progress: Progress = silent,
    ) -> None:
        self.stage, self.learner, self.policy, self.seed, self.card = stage, learner, checkpoint_policy, seed, card
        self.checkpoints, self.report_to, self.progress = (
            Checkpoints(folder, checkpoint_policy.keep),
            report_to,
            progress,
        )
        self.done, self._best = _restored(stage, learner, self.checkpoints, resume=resume)
        self._stack = ExitStack()

    def __enter__(self) -> StageRun:
        self._tracking: Tracking | None = None
        if self.learner.processes.main:
            self._tracking = Tracking(
                self.checkpoints.folder, self.stage.name, report_to=self.report_to, after=self.done
            )
            self._stack.callback(self._tracking.close)
        self._asked = self._stack.enter_context(_stop_requests())
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def missing(self) -> Sequence[int]:
        """The numbers of the steps that are still to be done."""
        old = _due(self.done, self.policy.eval_every) and self._best.is_old(self.done, self.policy.patience)
        return () if old or self.stage.time_budget.ended else range(self.done + 1, self.stage.steps + 1)

    def begin(self, step: int) -> float:
        """Prepare a step; returns the time."""
        # Only dropout draws from torch's own generator. Each step seeds it anew, so no generator state is stored.
        torch.manual_seed(self.seed * 1_000_003 + step)
        return time.monotonic()

    @contextmanager
    def errors(self, step: int) -> Iterator[None]:
        """An error inside names the step, the last good checkpoint, and what to do."""
        try:
            with _disk_errors(step, self.checkpoints):
                yield
        except (KgwalkError, torch.OutOfMemoryError) as error:
            advice = ""
            if isinstance(error, Diverged):
                advice = ". Try a lower learning rate, or float32"
            elif isinstance(error, torch.OutOfMemoryError):
                advice = f". Lower {self.stage.name}.microbatch_tokens, or set model.checkpoint_activations=true"
            raise KgwalkError(
                f"training of {self.stage.name} stopped in step {step}: {error}; {self.checkpoints.good()}{advice}"
            ) from error

    def end(self, step: int, metrics: Metrics) -> bool:
        """Validate, record and save a step as far as it is time to; returns whether it was the stage's last."""
        stage, policy, processes = self.stage, self.policy, self.learner.processes
        last = _validate(stage, step, policy, processes, metrics)
        score = metrics.get(f"eval_{policy.score}")
        better = self._best.see(step, score)
        last = last or (score is not None and self._best.is_old(step, policy.patience))
        stop = any(processes.gathered([bool(self._asked)]))  # all processes stop at the same step
        if self._tracking is not None:
            with _disk_errors(step, self.checkpoints):
                self._tracking.log(step, metrics)
        if better or stop or last or _due(step, policy.save_every):
            state = {"stage": stage.state(), "best": [self._best.score, self._best.step], "seed": self.seed}
            _save(stage, step, self.learner, self.checkpoints, state, self.card, better=better)
        processes.wait()
        self.progress(stage.name, step, stage.steps, metrics)
        if stop and not last:
            raise KeyboardInterrupt(f"stopped after step {step} of {stage.name}; {self.checkpoints.good()}")
        return last

    @property
    def latest(self) -> Path:
        """The last checkpoint."""
        latest = self.checkpoints.latest()
        if latest is None:
            raise KgwalkError(
                f"the stage {self.stage.name} has no step to do, and {self.checkpoints.folder} has no checkpoint"
            )
        return latest


def _restored(stage: Stage, updater: Learner, checkpoints: Checkpoints, *, resume: bool) -> tuple[int, _Best]:
    """How many steps are done, and the best of them: from the last checkpoint, if there is one."""
    latest = checkpoints.latest()
    if latest is None:
        return 0, _Best()
    if not resume:
        raise KgwalkError(f"{checkpoints.folder} has checkpoints already; --resume goes on from {latest.name}")
    try:
        state = checkpoints.restore(latest, updater.model, updater.optimiser)
        stage.restore(state["stage"])
        if stage.time_budget.minutes:
            stage.time_budget.restore(state["pace"])
        best, step = _Best(*state["best"]), int(state["step"])
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise KgwalkError(
            f"the checkpoint {latest} is damaged ({type(error).__name__}: {error}); "
            "remove it if there is an earlier one, or start over with --force"
        ) from error
    # The run may have been killed after the checkpoint was written and before it was copied as the best.
    if best.step == step and updater.processes.main and not checkpoints.is_best(latest):
        checkpoints.keep_best(latest)
    return step, best


def _validate(
    stage: Stage, step: int, checkpoint_policy: CheckpointPolicy, processes: Processes, metrics: Metrics
) -> bool:
    """Validate if it is time to, adding to `metrics`; returns whether this was the last step."""
    time_budget = stage.time_budget
    time_budget.mark(STEP, processes.gathered)
    last = step == stage.steps or time_budget.over
    due = last or time_budget.unsure or _due(step, checkpoint_policy.eval_every)
    if checkpoint_policy.validate is not None and due:
        metrics |= {f"eval_{name}": value for name, value in checkpoint_policy.validate().items()}
        time_budget.mark(VALIDATION, processes.gathered)
        last = last or time_budget.over  # it took so long that it has become the validation at the end
    if time_budget.minutes:
        metrics["minutes_used"] = time_budget.used / 60
        time_budget.ended = last and step < stage.steps
    return last


def _save(
    stage: Stage,
    step: int,
    updater: Learner,
    checkpoints: Checkpoints,
    state: dict[str, Any],
    card: dict[str, Any],
    *,
    better: bool,
) -> None:
    """Write a checkpoint; `better` makes it the best so far."""
    main = updater.processes.main
    if stage.time_budget.minutes:
        state["pace"] = stage.time_budget.state()  # the key that checkpoints have always had
    saved = checkpoints.save(step, updater.model, updater.optimiser, state, card, write=main)
    if better and main:
        checkpoints.keep_best(saved)
    stage.time_budget.mark(SAVE, updater.processes.gathered)


def _due(step: int, every: int) -> bool:
    """Whether something done `every` so many steps is due; 0 means never."""
    return every > 0 and step % every == 0


@contextmanager
def _disk_errors(step: int, checkpoints: Checkpoints) -> Iterator[None]:
    """Turn a full disk into an error that says which checkpoint is safe."""
    try:
        yield
    except OSError as error:
        if not cannot_write(error):
            raise
        raise KgwalkError(f"step {step} could not be recorded: {error}; {checkpoints.good()}") from error


@contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """A list that gets an entry when the process is asked to stop; asked a second time, it stops at once."""
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt("stopped at once")
        asked.append(number)

    before = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, ask)
    except ValueError:  # only the main thread may set handlers; in another thread the caller handles signals
        pass
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# Metrics: the file and the trackers


class Tracking:
    """The metrics of one stage, step by step.

    When a run is resumed `after` a step, rows of later steps are dropped: those steps are run again.
    """

    def __init__(self, folder: Path, stage: str, *, report_to: str = "tensorboard", after: int = 0) -> None:
        check_tracker(report_to)
        self.folder, self.stage = folder, stage
        path = folder / STEP_METRICS
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
    """Raises unless the tracker is known and installed. TensorBoard, the default, may be missing."""
    if name not in SINKS:
        raise unknown("tracker", name, SINKS)
    if name not in ("none", "tensorboard") and importlib.util.find_spec(name) is None:
        raise KgwalkError(f"--report-to {name} needs the package {name}: pip install {name}")


def step_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of metrics or episodes, each with its step."""
    for number, row in enumerate(read_rows(path, hint=RESTORE), 1):
        if type(row.get("step")) is not int:
            raise InputError("no proper `step`", path=str(path), line=number, hint=RESTORE)
        yield row


def keep_rows(path: Path, kept_if: Callable[[dict[str, Any]], bool]) -> None:
    """Keep only some rows of a file: steps that are run again will write theirs again."""
    rows = list(step_rows(path))
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
    """An object with log(values, step) and finish(), or None without a tracker."""
    if name == "none" or importlib.util.find_spec(name) is None:
        return None
    if name == "tensorboard":
        return _TensorBoard(folder / "tensorboard", after)
    # Weights & Biases and Trackio have the same interface
    return importlib.import_module(name).init(project="kgwalk", name=f"{folder.resolve().parent.name}-{stage}")
