"""Time in training: the wall-clock budget of a stage, and where the seconds of a step go.

    budget = TimeBudget(minutes=30)  # the clock runs from here
    budget.mark(STEP, gathered)      # after each step, validation and save
    budget.progress                  # for the learning rate: the share of the time used when the next step is done
    budget.over                      # another step, and what comes at the end, would take too long

Without minutes nothing is measured, and the budget is never over. Several processes go by the same times, the longest
of theirs, so that they end at the same step. The loop decides what to do about it (`loop.run_stage`). `PartTimer`
measures the parts of a step, on the host's clock or on the GPU's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

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


class PartTimer:
    """The seconds of a step's named parts; those with the same name add up.

    A GPU runs behind the program that feeds it, so what it computes is timed by events in its own queue, read when the
    step is over. A CPU does at once what it is told, so both kinds of part use the host's clock.
    """

    def __init__(self, device: str) -> None:
        self._on_gpu = device.startswith("cuda")
        self._device = device
        self._seconds: dict[str, float] = {}
        self._marks: list[tuple[str, Any, Any]] = []

    @contextmanager
    def host(self, name: str) -> Iterator[None]:
        """Time the program spends inside."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - begun

    @contextmanager
    def device(self, name: str) -> Iterator[None]:
        """Time the device takes for what is asked of it inside."""
        if not self._on_gpu:
            with self.host(name):
                yield
            return
        stream = torch.cuda.current_stream(self._device)
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call,unused-ignore]
        begun.record(stream)  # type: ignore[no-untyped-call,unused-ignore]
        try:
            yield
        finally:
            ended.record(stream)  # type: ignore[no-untyped-call,unused-ignore]
            self._marks.append((name, begun, ended))

    def read(self, *names: str) -> dict[str, float]:
        """The seconds of each part so far, as `name_seconds`; then all start at 0 again. Waits for the device."""
        for name, begun, ended in self._marks:
            ended.synchronize()
            self._seconds[name] = self._seconds.get(name, 0.0) + begun.elapsed_time(ended) / 1000  # of milliseconds
        seconds, self._seconds, self._marks = self._seconds, {}, []
        return {f"{name}_seconds": seconds.get(name, 0.0) for name in names}
