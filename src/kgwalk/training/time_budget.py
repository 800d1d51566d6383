"""The time that a stage of training may take: how much of it is used, how far along the stage is, when it is over.

    pace = Pace(minutes=30)          # the clock runs from here
    pace.mark(STEP, gathered)        # after each step, validation and save
    pace.progress                    # for the learning rate: how much of the time the next step leaves behind it
    pace.over                        # another step, and what comes at the end, would take too long

Without minutes nothing is measured, and it is never over. Several processes go by the same times, the longest of
theirs, so that they end at the same step. Knows nothing of what a step does, and ends nothing itself.
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
HALF = 0.5  # of the time: by then it must be known how long the validation at the end takes
Gathered = Callable[[list[float]], list[float]]  # the lists of all processes, one after the other


@dataclass
class TimeBudget:
    """`minutes` is the wall-clock time from the moment this is made, 0: no limit; `clock` is in seconds.

    The first step of a process may compile and record, so nobody expects the next to take as long; that of a stage is
    where its progress begins. With 100 s, a first step of 20 s and a second of 10, and no validation:

    >>> seconds = iter([0, 20, 30])
    >>> pace = TimeBudget(100 / 60, clock=lambda: next(seconds))
    >>> pace.mark(STEP, list)
    >>> pace.progress  # (20 - 20 + 0) / (100 - 20): nothing is known yet of a step
    0.0
    >>> pace.mark(STEP, list)
    >>> pace.progress  # (30 - 20 + 10) / (100 - 20)
    0.25
    """

    minutes: float = 0.0
    clock: Callable[[], float] = time.monotonic
    used: float = field(default=0.0, init=False)  # seconds, up to the last mark
    ended: bool = field(default=False, init=False)  # the stage was, before all its steps were done
    _first: float | None = field(default=None, init=False)  # what was used when the very first step was done
    _earlier: float = field(default=0.0, init=False)  # seconds that processes before this one have used
    _warm: bool = field(default=False, init=False)  # this process has done a step
    _recent: dict[str, list[float]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._begun = self.clock() if self.minutes else 0.0

    def mark(self, what: str, gathered: Gathered) -> None:
        """A step, a validation or a save is done: it took all the time since the last mark."""
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
        """From 0 to 1: how much of the time will be used when the next step is done."""
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
        """Half of the time is used, and nobody knows how long a validation takes."""
        return self.minutes > 0 and VALIDATION not in self._recent and self.used >= HALF * 60 * self.minutes

    @property
    def _last(self) -> float:
        """Seconds for what comes after the last step."""
        return self._expected(VALIDATION) + self._expected(SAVE)

    def _expected(self, what: str) -> float:
        return max(self._recent.get(what, []), default=0.0)

    def state(self) -> dict[str, Any]:
        """For a checkpoint: whoever goes on from it has what is left."""
        return {"used": self.used, "first": self._first, "recent": self._recent, "ended": self.ended}

    def restore(self, state: dict[str, Any]) -> None:
        self.used = self._earlier = float(state["used"])
        self._first, self._recent, self.ended = state["first"], dict(state["recent"]), bool(state["ended"])

    def report(self, done: int, steps: int) -> dict[str, Any]:
        """What there is to say of the time of a stage that is over; nothing of one without a limit."""
        if not self.minutes:
            return {}
        note = {"note": f"ended after {done:,} of {steps:,} steps: its minutes were over"} if done < steps else {}
        return {"minutes": self.minutes, "minutes_used": round(self.used / 60, 2), "planned_steps": steps, **note}


# ----------------------------------------------------------------------------------------------------
# Where the seconds of a step go: named parts of it, on the host's clock or on the device's own.
#
# A GPU runs behind the program that feeds it, so what it computes is timed by marks in its own queue, read once when
# the step is over. Knows nothing of what the parts are.


class PartTimer:
    """Parts with the same name add up. On a CPU, which does at once what it is told, there is one clock for both."""

    def __init__(self, device: str) -> None:
        self._on_gpu = device.startswith("cuda")
        self._device = device
        self._seconds: dict[str, float] = {}
        self._marks: list[tuple[str, Any, Any]] = []

    @contextmanager
    def host(self, name: str) -> Iterator[None]:
        """Time that passes for the program."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - begun

    @contextmanager
    def device(self, name: str) -> Iterator[None]:
        """Time that the device takes for what is asked of it inside, from the first to the last of it."""
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
        """The seconds of each name so far, as `name_seconds`, 0 if there were none; then all begin at 0 again. Waits
        for the device.
        """
        for name, begun, ended in self._marks:
            ended.synchronize()
            self._seconds[name] = self._seconds.get(name, 0.0) + begun.elapsed_time(ended) / 1000  # of milliseconds
        seconds, self._seconds, self._marks = self._seconds, {}, []
        return {f"{name}_seconds": seconds.get(name, 0.0) for name in names}
