"""The load of many people who ask, against a server process with a scripted agent."""

from __future__ import annotations

import asyncio
from itertools import cycle
from pathlib import Path

import pytest
from benchmarks.asks import Level, load, table

from walk_server import DIRECTORS, HOW_MANY, IS_IT, walk_server


def test_a_dozen_clients_are_answered_or_told_to_wait(tmp_path: Path) -> None:
    with walk_server(tmp_path, agent_at_once="1") as url:
        level = asyncio.run(load(url, cycle([DIRECTORS, HOW_MANY, IS_IT]), 12, 1.0))
    assert set(level.statuses) == {"200"}
    assert level.statuses["200"] >= 12
    assert level.asks_a_second > 0
    assert 0 < level.median_seconds <= level.slow_seconds
    assert level.told_to_wait > 0  # half of them are streams
    assert level.longest_queue <= 11
    assert level.processor is None  # whose process it is was not said


def test_who_is_refused_waits_as_long_as_it_is_told(tmp_path: Path) -> None:
    """One is answered, slowly, 64 wait, and the others are refused at once: 503 with Retry-After."""
    slow = f"{IS_IT} slowly"

    async def for_a_moment(url: str) -> Level:
        level = Level(0, 0)
        asking = asyncio.create_task(load(url, cycle([slow]), 70, 0.5, level=level))
        while level.statuses.get("503", 0) < 5:
            await asyncio.sleep(0.05)
        asking.cancel()
        return level

    with walk_server(tmp_path, agent_at_once="1") as url:
        level = asyncio.run(asyncio.wait_for(for_a_moment(url), 30))
    assert level.statuses == {"503": 5}
    assert level.without_retry_after == level.failed == 0


def test_the_table_by_hand() -> None:
    one = Level(1, 10, 0.5, 2.0, 3.0, 1.0, 0.5, {"200": 5}, memory=[800.0, 810.0], ratio=1.0)
    eight = Level(8, 10, 1.0, 8.0, 9.0, 1.2, 1.2, {"200": 10, "503": 2}, 1, 4, 3, 0.02, [810.0, 812.0, 811.0], 2.0)
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table([[one, eight]]).splitlines()]
    assert rows[0][:3] == ["clients", "asks/s", "times the first"]
    assert rows[2][:9] == ["1", "0.50", "1.00 (1.00)", "2.0 s", "3.0 s", "1.00 s", "0.50", "5", "0"]
    # Two were refused, one of them without being told when to come back, which is a failure.
    assert rows[3][7:] == ["10", "1", "1", "4", "3", "810 to 811, at most 812 MB", "20 ms"]
    assert len({len(row) for row in rows}) == 1


@pytest.mark.parametrize(("status", "failed"), [("200", 0), ("503", 0), ("504", 1), ("ReadError", 1)])
def test_what_is_a_failure(status: str, failed: int) -> None:
    assert Level(1, 1, statuses={status: 1}).failed == failed
