"""The clock of a step: parts add up, one is inside another, and reading begins anew."""

from __future__ import annotations

import time

from kgwalk.training.time_budget import PartTimer


def test_parts_add_up_and_are_read_once() -> None:
    clock = PartTimer("cpu")
    for _ in range(2):
        with clock.device("update"):
            with clock.device("optimiser"):
                time.sleep(0.02)
            time.sleep(0.02)
    with clock.host("rollout"):
        time.sleep(0.02)
    found = clock.read("rollout", "update", "optimiser", "sync")
    assert list(found) == ["rollout_seconds", "update_seconds", "optimiser_seconds", "sync_seconds"]
    assert found["optimiser_seconds"] >= 0.04
    assert found["update_seconds"] >= found["optimiser_seconds"] + 0.04
    assert found["rollout_seconds"] >= 0.02
    assert found["sync_seconds"] == 0
    assert clock.read("update") == {"update_seconds": 0}


def test_a_part_that_fails_is_timed_too() -> None:
    clock = PartTimer("cpu")
    try:
        with clock.device("update"):
            time.sleep(0.01)
            raise KeyError
    except KeyError:
        pass
    assert clock.read("update")["update_seconds"] >= 0.01
