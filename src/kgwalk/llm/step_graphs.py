"""Steps of a model recorded as CUDA graphs: a thousand kernel launches become one.

A graph has fixed shapes and fixed addresses: one is recorded for each size of step that occurs (few, as sizes are
rounded up), with inputs that are written into before it is replayed. A model that cannot be recorded is run as it is.
Knows nothing of what a step computes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch

log = logging.getLogger(__name__)

FEWEST_ROWS, SHORTEST = 8, 256
WARM_UPS = 2  # some kernels choose their algorithm at first

Pass = Callable[[slice, torch.Tensor, torch.Tensor, torch.Tensor, int], torch.Tensor]


class StepGraphs:
    """Graphs of `run`, which takes rows, their index (B,1), ids (B,1), positions (B,1) and a length to logits (B,V)."""

    def __init__(self, run: Pass, device: torch.device) -> None:
        self._pass, self._device = run, device
        self._graphs: dict[tuple[int, int], tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}
        self._inputs: dict[int, torch.Tensor] = {}  # (2, B, 1): ids and positions
        self._pool: Any = None
        self._works = True

    @staticmethod
    def rows(count: int) -> int:
        """8, 16, 32, ..."""
        size = FEWEST_ROWS
        while size < count:
            size *= 2
        return size

    @staticmethod
    def length(count: int) -> int:
        """256, 512, 768, 1024, 1536, 2048, 3072, ...: a third more than needed at most, but for the shortest."""
        size = SHORTEST
        while size < count:
            if size >= 2 * SHORTEST and size + size // 2 >= count:
                return size + size // 2
            size *= 2
        return size

    def run(self, ids: Sequence[int], at: Sequence[int], rows: int, length: int) -> torch.Tensor:
        """Logits of the rows that `ids` gives; further ones are run along, at their positions or at 0."""
        inputs = self._inputs.get(rows)
        if inputs is None:
            inputs = self._inputs[rows] = torch.zeros(2, rows, 1, dtype=torch.long, device=self._device)
        filled = [[*given, *[0] * (rows - len(given))] for given in (ids, at)]
        inputs.copy_(torch.tensor(filled)[:, :, None])
        if not self._works:
            return self._run(inputs, length)[: len(ids)]
        if (rows, length) not in self._graphs:
            logits = self._record(inputs, length)
            if logits is not None:
                return logits[: len(ids)]
        graph, logits = self._graphs[rows, length]
        graph.replay()
        return logits[: len(ids)]

    def _run(self, inputs: torch.Tensor, length: int) -> torch.Tensor:
        rows = inputs.shape[1]
        index = torch.arange(rows, device=self._device)[:, None]
        return self._pass(slice(0, rows), index, inputs[0], inputs[1], length)

    def _record(self, inputs: torch.Tensor, length: int) -> torch.Tensor | None:
        """Record a graph; if that fails, the logits as computed without."""
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call,unused-ignore]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):  # writes what the step itself is to write
                logits = self._run(inputs, length)
        torch.cuda.current_stream(self._device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        try:
            # Another thread may use the device meanwhile: only this one's mistakes count.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                out = self._run(inputs, length)
        except RuntimeError:
            log.warning("this model's steps cannot be recorded; they are run one kernel at a time", exc_info=True)
            self._works = False
            return logits
        self._pool = graph.pool()
        self._graphs[inputs.shape[1], length] = (graph, out)
        return None
