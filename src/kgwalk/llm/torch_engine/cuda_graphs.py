"""Passes of a model recorded as CUDA graphs: a thousand kernel launches become one.

A graph has fixed shapes and fixed addresses. One is recorded for each size of pass that occurs (few, as sizes are
rounded up), with inputs that are overwritten before it is replayed. A smaller pass is filled up with tokens in nobody's
slot. `SlotModel` runs its passes through here on a GPU. `gpu_free` says how much of a GPU's memory may be taken.
Shapes as in `kv_cache`; J jobs of a prefill, B blocks of queries, P pairs of slots.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from kgwalk.llm.torch_engine.kv_cache import PREFILL_SIZES, QUERIES, STEP_SIZES, SlotPass, size_above
from kgwalk.types import KgwalkError

if TYPE_CHECKING:
    from kgwalk.llm.torch_engine.model import SlotModel


Int64Array = npt.NDArray[np.int64]
WARM_UPS = 2  # runs before recording: some kernels choose their algorithm, and Triton's are compiled, when first run
SHARE_VARIABLE = "KGWALK_GPU_SHARE"


@dataclass(slots=True)
class Recorded:
    """A recorded pass: how it is run again, and the tensor that it reads its inputs from."""

    replay: Callable[[], None]
    inputs: torch.Tensor

    def fill(self, numbers: torch.Tensor) -> None:
        on_gpu = self.inputs.device.type == "cuda"
        self.inputs.copy_(numbers.pin_memory() if on_gpu else numbers, non_blocking=True)


class NucleusPass(NamedTuple):
    """Whether a pass samples with top_p, for which there is no kernel, and if so, whether under a grammar."""

    nucleus: bool = False
    constrained: bool = False


class CudaGraphs:
    """`weights` says where the model's weights, and what else is read, lay when it was begun."""

    def __init__(self, device: torch.device, weights: list[int]) -> None:
        self._device = device
        self.weights = weights
        self._recorded: dict[tuple[object, ...], Recorded] = {}
        self._pool: Any = None

    def steps(self, model: SlotModel, slots_R: Int64Array, count: int, nucleus: NucleusPass) -> None:
        """So many steps, one after the other."""
        size = size_above(len(slots_R), STEP_SIZES)
        key = ("steps", size, nucleus if nucleus.nucleus else None)
        if key not in self._recorded:
            inputs = torch.full((size,), model.max_slots, device=self._device)
            self._recorded[key] = self._record(inputs, lambda: _step(model, inputs, nucleus=nucleus))
        one = self._recorded[key]
        filled = np.full(size, model.max_slots)
        filled[: len(slots_R)] = slots_R
        one.fill(torch.from_numpy(filled))
        model.state.step.zero_()  # only now: recording a step runs it
        for _ in range(count):
            one.replay()

    def prefill(
        self,
        model: SlotModel,
        ids: Sequence[Sequence[int]],
        lengths_J: Int64Array,
        slots_J: Int64Array,
        starts_J: Int64Array,
        last: Int64Array,
        slots: Int64Array,
        nucleus: NucleusPass,
    ) -> None:
        """Computes new tokens of the jobs, and samples one for each of the `slots`, after the token at its place in
        `last`.
        """
        count = int(lengths_J.sum())
        tokens, jobs = size_above(count, PREFILL_SIZES), model.max_jobs
        blocks = tokens // QUERIES + jobs
        key = ("prefill", tokens, nucleus if nucleus.nucleus else None)
        empty = model.max_slots
        if key not in self._recorded:
            inputs = torch.zeros(3 * tokens + 4 * blocks + 2 * jobs, dtype=torch.long, device=self._device)
            inputs[tokens : 2 * tokens] = empty
            inputs[-jobs:] = empty
            self._recorded[key] = self._record(
                inputs, lambda: _prefill(model, inputs, tokens, blocks, jobs, nucleus=nucleus)
            )
        one = self._recorded[key]
        flat = np.zeros(len(one.inputs), np.int64)
        ids_T, slot_T, at_T, table, last_R, slots_R = np.split(
            flat, np.cumsum([tokens, tokens, tokens, 4 * blocks, jobs])
        )
        slot_T[:], slots_R[:] = empty, empty
        ids_T[:count] = np.fromiter(chain.from_iterable(ids), np.int64, count)
        slot_T[:count] = np.repeat(slots_J, lengths_J)
        places_J = np.cumsum(lengths_J) - lengths_J
        at_T[:count] = np.arange(count) + np.repeat(starts_J - places_J, lengths_J)
        filled = blocks_of(lengths_J, places_J, slots_J, starts_J)
        table[: filled.size] = filled.ravel()
        last_R[: len(last)], slots_R[: len(slots)] = last, slots
        one.fill(torch.from_numpy(flat))
        model.state.step.zero_()
        one.replay()

    def copy(self, model: SlotModel, pairs_P3: Int64Array) -> None:
        """For each (from, to, length): copies the beginning of a slot. It takes two kernels a layer, which are recorded
        as well.
        """
        size, longest = size_above(len(pairs_P3), STEP_SIZES), size_above(int(pairs_P3[:, 2].max()), PREFILL_SIZES)
        key = ("prefill", "copy", size, longest)
        if key not in self._recorded:
            inputs = torch.zeros(size, 3, dtype=torch.long, device=self._device)  # nothing of slot 0 to slot 0
            self._recorded[key] = self._record(inputs, lambda: _copy(model, inputs, longest))
        one = self._recorded[key]
        filled = np.zeros((size, 3), np.int64)
        filled[: len(pairs_P3)] = pairs_P3
        one.fill(torch.from_numpy(filled))
        one.replay()

    def _record(self, inputs: torch.Tensor, run: Callable[[], None]) -> Recorded:
        """Records a pass while its inputs are of nobody's slot, so that running it changes nothing. Without a GPU it is
        only run.
        """
        if self._device.type != "cuda":
            run()
            return Recorded(run, inputs)
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call,unused-ignore]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):
                run()
        torch.cuda.current_stream(self._device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # Another thread may use the device meanwhile; only this thread's forbidden calls are errors.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            run()
        self._pool = graph.pool()
        return Recorded(graph.replay, inputs)


def blocks_of(lengths_J: Int64Array, places_J: Int64Array, slots_J: Int64Array, starts_J: Int64Array) -> Int64Array:
    """For each block of at most QUERIES tokens of a job: its place in the pass, its length, its slot, its position.

    A job of 20 tokens in slot 5 from position 7 on, and one of 3 in slot 2 from 0 on after it; blocks are of 16:

    >>> blocks_of(*map(np.array, ([20, 3], [0, 20], [5, 2], [7, 0]))).tolist()
    [[0, 16, 5, 7], [16, 4, 5, 23], [20, 3, 2, 0]]
    """
    counts_J = -(-lengths_J // QUERIES)
    first_J = np.cumsum(counts_J) - counts_J
    begin_B = (np.arange(counts_J.sum()) - np.repeat(first_J, counts_J)) * QUERIES
    columns = (
        np.repeat(places_J, counts_J) + begin_B,
        np.minimum(QUERIES, np.repeat(lengths_J, counts_J) - begin_B),
        np.repeat(slots_J, counts_J),
        np.repeat(starts_J, counts_J) + begin_B,
    )
    return np.stack(columns, 1)


def _step(model: SlotModel, slots_R: torch.Tensor, *, nucleus: NucleusPass) -> None:
    """One token for each sequence. One that has stopped has no queries, and costs nothing."""
    state = model.state
    at_R = state.at[slots_R]
    live_R = (state.left[slots_R] > 0).long()
    place_R = torch.arange(len(slots_R), device=slots_R.device)
    # What a stopped sequence would write goes to nobody's slot.
    put_R = torch.where(live_R > 0, slots_R, model.max_slots)
    now = SlotPass(put_R, at_R, torch.stack([place_R, live_R, slots_R, at_R], 1), 1)
    logits = model._run(now, state.last[slots_R], None)
    _sample(model, logits, slots_R, move=True, nucleus=nucleus)
    state.step.add_(1).remainder_(state.out_ids.shape[0])


def _prefill(
    model: SlotModel, inputs: torch.Tensor, tokens: int, blocks: int, jobs: int, *, nucleus: NucleusPass
) -> None:
    ids_T, slot_T, at_T, table, last_R, slots_R = torch.split(  # type: ignore[no-untyped-call,unused-ignore]
        inputs, [tokens, tokens, tokens, 4 * blocks, jobs, jobs]
    )
    logits = model._run(SlotPass(slot_T, at_T, table.view(blocks, 4), QUERIES), ids_T, last_R)
    _sample(model, logits, slots_R, move=False, nucleus=nucleus)


def _copy(model: SlotModel, pairs_P3: torch.Tensor, longest: int) -> None:
    from kgwalk.llm.torch_engine.kernels import copy

    for store in (*model.cache.keys, *model.cache.values):
        copy(store, pairs_P3, longest)


def _sample(model: SlotModel, logits: torch.Tensor, slots_R: torch.Tensor, *, move: bool, nucleus: NucleusPass) -> None:
    if nucleus.nucleus:  # the kernel has no top_p
        model.state.advance(logits, slots_R, move=move, sampled=True, nucleus=True, constrained=nucleus.constrained)
        return
    from kgwalk.llm.torch_engine.kernels import sample

    sample(logits, slots_R, model.state, move=move)


# How much of a GPU's memory this process may take


def gpu_free(device: torch.device | str) -> int:
    """Bytes that this process may still take: all that are free, or what is left of its share.

    Where several processes run on one GPU, KGWALK_GPU_SHARE is each one's share of the whole, such as 0.25 of four.
    """
    free, total = torch.cuda.mem_get_info(device)
    return left_of(total, free, torch.cuda.memory_reserved(device), share())


def left_of(total: int, free: int, own: int, share: float) -> int:
    """A share of the total less what this process has taken (`own`), but no more than is free.

    >>> left_of(total=100, free=90, own=10, share=1.0), left_of(total=100, free=90, own=10, share=0.25)
    (90, 15)
    >>> left_of(total=100, free=5, own=10, share=0.25), left_of(total=100, free=50, own=30, share=0.25)
    (5, 0)
    """
    return max(0, min(free, int(share * total) - own))


def share() -> float:
    """KGWALK_GPU_SHARE; 1 if it is not set."""
    given = os.environ.get(SHARE_VARIABLE)
    try:
        found = 1.0 if given is None else float(given)
    except ValueError:
        found = 0.0
    if not 0 < found <= 1:
        raise KgwalkError(f"{SHARE_VARIABLE} must be a share above 0 and at most 1, such as 0.25; it is {given!r}")
    return found
