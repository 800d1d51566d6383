"""Experiments side by side on one GPU: a step's rollouts leave half of it to others, and so do imports and tests.

Each runs in a process of its own, begun as soon as the experiment that it starts from is trained; what they say goes to
WORK/logs. All have the same share of the memory, so that figures of one call can be compared with each other.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.agents.experiments import EXPERIMENTS, checked
from benchmarks.agents.run import trained

PAUSE = 0.5  # seconds


class Jobs:
    """`command` gives what to run for a name. An experiment whose start failed is not begun."""

    def __init__(
        self, work: Path, jobs: int, command: Callable[[str], list[str]], minutes: float | None, pause: float = PAUSE
    ) -> None:
        self.work, self.jobs, self.pause = work, jobs, pause
        self._command = command
        self._began = time.monotonic()
        self._until = float("inf") if minutes is None else self._began + 60 * minutes
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._waiting: list[str] = []

    def run(self, names: Sequence[str]) -> list[str]:
        """The names of those that failed, or were not begun."""
        self._waiting = list(dict.fromkeys(checked(names)))
        failed = []
        while self._waiting or self._running:
            failed += self._ended()
            while (name := self._next()) is not None:
                self._begin(name)
            if not self._running:
                failed += self._given_up()
            time.sleep(self.pause)
        return failed

    def _next(self) -> str | None:
        """The first that can be begun now."""
        if len(self._running) >= self.jobs or time.monotonic() > self._until:
            return None
        return next((name for name in self._waiting if self._ready(name)), None)

    def _ready(self, name: str) -> bool:
        start = EXPERIMENTS[name].start
        return start is None or trained(self.work, start)

    def _begin(self, name: str) -> None:
        self._waiting.remove(name)
        (self.work / "logs").mkdir(exist_ok=True)
        self._say(f"{name}: begun, {len(self._running)} beside it")
        with open(self.work / "logs" / f"{name}.txt", "ab") as log:
            self._running[name] = subprocess.Popen(self._command(name), stdout=log, stderr=log)

    def _ended(self) -> list[str]:
        over = {name: job.returncode for name, job in self._running.items() if job.poll() is not None}
        for name, code in over.items():
            del self._running[name]
            self._say(f"{name}: {'done' if code == 0 else f'failed ({code}): see logs/{name}.txt'}")
        return [name for name, code in over.items() if code]

    def _given_up(self) -> list[str]:
        """Nothing runs, so nothing that is waited for will come."""
        left, self._waiting = self._waiting, []
        for name in left:
            start = EXPERIMENTS[name].start
            over = time.monotonic() > self._until
            self._say(f"{name}: not begun, {'the minutes are over' if over else f'{start} is not trained'}")
        return left

    def _say(self, words: str) -> None:
        print(f"{time.monotonic() - self._began:7.1f} {words}", file=sys.stderr, flush=True)
