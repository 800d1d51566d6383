"""The processes of one run: one, or as many as `accelerate launch` or `torchrun` started, on one machine.

Each computes its share; what they sum or gather is the same in all of them. Knows nothing of models.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object, reduce

WAIT = timedelta(hours=12)  # for one another: the first one alone makes demonstrations


class Processes:
    """`device` is auto, cpu or cuda."""

    def __init__(self, device: str = "auto") -> None:
        on_cpu = device.startswith("cpu") or not torch.cuda.is_available()
        self._state = PartialState(cpu=on_cpu, timeout=WAIT)

    @property
    def count(self) -> int:
        return int(self._state.num_processes)

    @property
    def number(self) -> int:
        return int(self._state.process_index)

    @property
    def main(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.number == 0

    def share(self, total: int) -> range:
        """Which of so many things are this process's to do: of 5, with two processes, 0, 2, 4 and 1, 3."""
        return range(self.number, total, self.count)

    def wait(self) -> None:
        """Until all have come here."""
        self._state.wait_for_everyone()

    def first(self, value: Any) -> Any:
        """What the first process says: the others may look too late, when it has gone on already."""
        return self.gathered([value])[0]

    def sum(self, value: torch.Tensor) -> torch.Tensor:
        if self.count == 1:
            return value
        summed: torch.Tensor = reduce(value, reduction="sum")
        return summed

    def gathered(self, values: list[Any]) -> list[Any]:
        """The lists of all processes, one after the other, in each of them."""
        if self.count == 1:
            return values
        found: list[Any] = gather_object(values)
        return found
