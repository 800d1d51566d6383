"""Slots and the output buffer, by hand: who gets a slot, and whose the tokens of a pass are."""

from __future__ import annotations

import numpy as np

from kgwalk.llm.torch_engine.sequence import OutputBuffer, SlotTable


def test_slots_go_to_their_session_then_to_the_free_then_to_the_longest_idle() -> None:
    table = SlotTable(2)
    one, two = table.take("one"), table.take("two")
    assert one is not None
    assert two is not None
    assert table.take("three") is None  # both are at work
    table.release(one, now=10.0)
    table.release(two, now=20.0)
    assert table.take("three", idle_since=9.0) is None  # none has been idle for that long
    assert table.take("one") is one
    assert table.take("one") is two  # at work twice: the second is nobody's, and takes the place of "two"
    assert table.idle_slot("two") is None
    table.release(one, now=30.0)
    assert table.idle_slot("one") is one
    table.forget("one")
    assert table.idle_slot("one") is None
    assert table.take("four") is one


def test_what_comes_for_a_sequence_that_has_left_is_nobodys() -> None:
    """A pass was begun for slot 0, then its sequence left and another took the slot: the next pass is the new one's."""
    output, ends_KV = OutputBuffer(1, steps=2), np.array([[False, False, True]])
    logprobs_CR = np.array([[-0.5], [-0.25]], np.float32)
    output.begin([0], [0], [9])
    old = output.owners([0])
    output.leave(0)
    output.begin([0], [0], [3])
    new = output.owners([0])
    assert output.add(old, np.array([[1], [2]]), logprobs_CR, ends_KV) == ([], [])
    assert output.add(new, np.array([[1], [1]]), logprobs_CR, ends_KV) == ([], [])
    assert output.most_left([0]) == 1
    assert output.add(new, np.array([[0], [-1]]), logprobs_CR, ends_KV) == ([0], [])  # its third: none is left
    assert output.take(0) == ([1, 1, 0], [-0.5, -0.25, -0.5])
    output.resume([0], [5])
    lost = np.array([[-0.5], [np.nan]], np.float32)
    assert output.add(new, np.array([[1], [-1]]), lost, ends_KV) == ([], [])  # of a step that was not the sequence's
    assert output.add(new, np.array([[1], [1]]), lost, ends_KV) == ([], [0])
