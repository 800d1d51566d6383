"""Where the seconds of a step go: named parts of it, on the host's clock or on the device's own.

A GPU runs behind the program that feeds it, so what it computes is timed by marks in its own queue, read once when the
step is over. Knows nothing of what the parts are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


class Clock:
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
