"""Two passes at the same time over one cache: what is written is the same, and nothing moves under a pass."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest
from test_prompt_lookup import SIZE, Played, scheduler, sequence

from kgwalk.llm.openvino_engine.blocks import BlockTable
from kgwalk.llm.openvino_engine.scheduler import PagedScheduler
from kgwalk.types import EngineError


class Watched(Played):
    """It knows how many passes are under way, and refuses to move its tensors under one."""

    def __init__(self, strange: int = 0) -> None:
        super().__init__(strange)
        self.under_way = self.most = self.grown = 0

    def reserve(self, blocks: int) -> None:
        assert not self.under_way
        self.grown += 1

    def release(self) -> None:
        assert not self.under_way

    def forward(self, sequences: Any, wanted: Any) -> Any:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            time.sleep(0.001)
            return super().forward(sequences, wanted)
        finally:
            self.under_way -= 1


class Meeting(Watched):
    """Its first two passes wait for each other; then one with token 7 fails, if `failing`, while the other goes on."""

    def __init__(self, *, failing: bool = False) -> None:
        super().__init__()
        self.failing = failing
        self.met = 0
        self._barrier = threading.Barrier(2)

    def forward(self, sequences: Any, wanted: Any) -> Any:
        try:
            self._barrier.wait(10)
        except threading.BrokenBarrierError:  # it was left behind
            return super().forward(sequences, wanted)
        self.met += 1
        if self.failing and any(7 in ids for ids, _, _ in sequences):
            raise RuntimeError("out of memory, say")
        time.sleep(0.05)
        self._barrier.abort()
        return super().forward(sequences, wanted)


def two_streams(model: Played, blocks: int = 4096) -> PagedScheduler:
    return PagedScheduler(model, BlockTable(SIZE, blocks), batch=8, prefill_tokens=16, draft_tokens=3, streams=2)


def prompts(count: int) -> list[list[int]]:
    """Some begin alike; of all lengths up to three passes."""
    return [[1, 2, 3, 4, 5, 6, 7, 8, number % 3, *range(number % 40)] for number in range(count)]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_many_together_write_what_each_writes_alone(temperature: float) -> None:
    one, model = scheduler(Played(2), 3), Watched(2)
    both = two_streams(model)
    alone = [one.submit(sequence(ids, 12, temperature)).result(10) for ids in prompts(60)]
    under_way = [both.submit(sequence(ids, 12, temperature, session=str(at))) for at, ids in enumerate(prompts(60))]
    assert [future.result(10).ids for future in under_way] == [found.ids for found in alone]
    assert model.most == 2
    assert model.grown > 1
    one.close()
    both.close()


def test_two_that_come_together_are_computed_at_the_same_time() -> None:
    model = Meeting()
    both = two_streams(model)
    found = [both.submit(sequence(ids)) for ids in ([1, 2, 3], [9, 8])]
    assert all(len(future.result(10).ids) == 8 for future in found)
    assert model.met == 2
    both.close()


def test_few_blocks_and_requests_that_are_cancelled() -> None:
    """Whoever was cancelled in a pass keeps its blocks until the pass has ended."""
    model = Watched(1)
    both = two_streams(model, blocks=24)
    futures = [both.submit(sequence(ids, 8)) for ids in prompts(40)]
    for future in futures[::3]:
        time.sleep(0.002)
        future.cancel()
    alone = scheduler(Played(1), 0)
    for ids, future in zip(prompts(40), futures, strict=True):
        if not future.cancelled():
            assert future.result(10).ids == alone.submit(sequence(ids, 8)).result(10).ids
    both.close()
    alone.close()


def test_a_pass_that_fails_waits_for_the_other_and_the_next_request_starts_afresh(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Meeting(failing=True)
    both = two_streams(model)
    with caplog.at_level(logging.CRITICAL):
        bad, good = both.submit(sequence([7, 7])), both.submit(sequence([1, 2]))
        with pytest.raises(EngineError, match="RuntimeError: out of memory, say"):
            bad.result(10)
        assert good.exception(10) is None or "out of memory" in str(good.exception())
    assert len(both.submit(sequence([7, 7])).result(10).ids) == 8
    both.close()


def test_closing_waits_for_both_and_ends_all() -> None:
    model = Watched()
    both = two_streams(model)
    futures = [both.submit(sequence([1, 2, number], 500)) for number in range(6)]
    time.sleep(0.02)
    both.close()
    assert not model.under_way
    for future in futures:
        with pytest.raises(EngineError, match="was closed"):
            future.result(1)
