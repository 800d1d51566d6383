"""The minutes of a fit, from the start of its command: what was used on what, what is left, and who gets it.

    run/time.json   seconds used, part by part, however often the fit was resumed; what was decided by them

A slow machine shortens the stages that learn, not the promise. Knows neither models nor questions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kgwalk.build.fit_plan import RAMBLES, Speed
from kgwalk.runs.folder import read_json, write_json

TIME = "time.json"
MARGIN = 1.25  # the walks at the end may meet a busier machine, and an agent that walks further
# Demonstrations: the cpu engine brings a new adapter into its own form once, which took as long as five to learn from;
# that of the start it may have had already. On a GPU, where nothing is converted, they are a moment.
CONVERTED = 6
MOST_BEFORE = 0.15  # of all the time, for the walks before training: they were planned to take a tenth
VALIDATING, LEAST_EVAL = 0.1, 4  # of a stage's time, for one validation; questions, at least
LEAST_STAGE = 1.0  # seconds: in any time, a stage does one step


class FitTime:
    """`started` is when the command was given, by `clock`, in seconds."""

    def __init__(
        self, folder: Path, minutes: float, started: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._file, self.minutes, self._started, self._clock = folder / TIME, minutes, started, clock
        kept = read_json(self._file) if self._file.exists() else {"used": {}, "decided": {}}
        self.used: dict[str, float] = kept["used"]
        self._decided: dict[str, Any] = kept["decided"]
        self._earlier: float = sum(self.used.values())  # before this process
        self._add("start", clock() - started)

    @property
    def spent(self) -> float:
        """Seconds of this fit so far."""
        return self._earlier + self._clock() - self._started

    @property
    def left(self) -> float:
        """Seconds."""
        return 60 * self.minutes - self.spent

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What is done inside is a part of the fit; stopped in the middle, its time counts all the same."""
        begun = self._clock()
        try:
            yield
        finally:
            self._add(name, self._clock() - begun)
            self._write()

    def known(self, name: str) -> Any:
        """What was decided under this name; None: nothing yet."""
        return self._decided.get(name)

    def decided(self, name: str, found: Any) -> Any:
        """Decided once: a fit that is resumed must find its runs as it left them. Returns what counts."""
        if name not in self._decided:
            self._decided[name] = found
            self._write()
        return self._decided[name]

    def _add(self, name: str, seconds: float) -> None:
        self.used[name] = round(self.used.get(name, 0.0) + seconds, 2)

    def _write(self) -> None:
        write_json(self._file, {"used": self.used, "decided": self._decided})


def a_walk(speed: Speed, each: float, *, untrained: bool) -> float:
    """Seconds for one of the walks after training, from those for each before it. An agent will walk as it did; a model
    that knows nothing uses all turns.

    >>> a_walk(Speed(demo=3.0, walk=2.0), 1.5, untrained=False)
    1.5
    >>> a_walk(Speed(demo=3.0, walk=2.0), 30.0, untrained=True)  # a twelfth
    2.5
    """
    return max(speed.walk, each / RAMBLES) if untrained else each or speed.walk


def stage_minutes(left: float, planned: Mapping[str, float]) -> dict[str, float]:
    """The seconds that are left for the stages, shared among them as it was planned, as minutes of each.

    >>> stage_minutes(600.0, {"sft": 900.0, "grpo": 300.0})
    {'sft': 7.5, 'grpo': 2.5}
    >>> stage_minutes(-20.0, {"sft": 900.0})  # a minute of 60 seconds: one second
    {'sft': 0.0167}
    """
    whole = sum(planned.values())
    return {
        stage: round(max(LEAST_STAGE, left * seconds / whole) / 60, 4) for stage, seconds in planned.items() if seconds
    }


def walks_within(seconds: float, each: float, least: int, most: int) -> int:
    """How many walks there is time for, at so many seconds each.

    >>> [walks_within(seconds, 2.0, 16, 100) for seconds in (240.0, 120.0, 10.0)]
    [100, 60, 16]
    """
    return most if not each else min(most, max(least, int(seconds / each)))
