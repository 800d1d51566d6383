"""Which slot of the cache holds what: sessions, the ids whose keys and values lie there, and who must go.

A session keeps its slot between turns. What a slot holds outlives its session, until the slot is wanted: another
sequence that begins the same way can copy the beginning. Knows nothing of tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

WORTH_COPYING = 16  # tokens: a shorter common beginning is as quickly computed anew


@dataclass(slots=True, eq=False)
class Slot:
    """`ids` are the tokens whose keys and values the slot holds; `busy` while a request is using it."""

    index: int
    ids: list[int] = field(default_factory=list)
    session: str = ""
    busy: bool = False
    used: float = 0.0  # when it was last at work


class SlotTable:
    """At most `most` slots; they come into being as they are wanted."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.slots: list[Slot] = []
        self._sessions: dict[str, Slot] = {}

    def of(self, session: str) -> Slot | None:
        """The slot that the session kept, if it is not at work."""
        slot = self._sessions.get(session)
        return None if slot is None or slot.busy else slot

    def take(self, session: str, *, idle_since: float = math.inf) -> Slot | None:
        """A slot to work in: the session's own, else a free one, a new one, or that of the session idle for longest,
        if it has been since then. None if there is none.
        """
        slot = self.of(session) or self._free() or self._new() or self._oldest(idle_since)
        if slot is None:
            return None
        if slot.session != session:
            self._unbind(slot)
        if session and session not in self._sessions:
            slot.session = session
            self._sessions[session] = slot
        slot.busy = True
        return slot

    def release(self, slot: Slot, now: float) -> None:
        slot.busy, slot.used = False, now

    def forget(self, session: str) -> None:
        slot = self._sessions.get(session)
        if slot is not None:
            self._unbind(slot)

    def clear(self) -> None:
        """Nothing that is held counts any more."""
        for slot in self.slots:
            self._unbind(slot)
            slot.ids, slot.busy = [], False

    def longest_beginning(self, ids: Sequence[int], least: int) -> tuple[Slot, int] | None:
        """The slot that holds most of the beginning of ids, and how much; None if it is not more than `least`."""
        best: tuple[Slot, int] | None = None
        for slot in self.slots:
            held = slot.ids
            # Most are told apart by one comparison: it must hold one token more than the best so far.
            if len(held) > least and len(ids) > least and held[least] == ids[least]:
                common = common_length(held, ids)
                if common > least:
                    best, least = (slot, common), common
        return best

    def exchange(self, one: Slot, other: Slot) -> None:
        """They have changed places in the cache."""
        one.index, other.index = other.index, one.index
        self.slots[one.index], self.slots[other.index] = one, other

    def _free(self) -> Slot | None:
        return next((slot for slot in self.slots if not slot.busy and not slot.session), None)

    def _new(self) -> Slot | None:
        if len(self.slots) == self.most:
            return None
        self.slots.append(Slot(len(self.slots)))
        return self.slots[-1]

    def _oldest(self, idle_since: float) -> Slot | None:
        idle = (slot for slot in self.slots if not slot.busy and slot.used <= idle_since)
        return min(idle, key=lambda slot: slot.used, default=None)

    def _unbind(self, slot: Slot) -> None:
        if slot.session:
            del self._sessions[slot.session]
            slot.session = ""


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids the two begin with in common.

    >>> common_length([1, 2, 3, 4], [1, 2, 9])
    2
    """
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low < high:  # invariant: the first `low` are the same, the first `high + 1` are not
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def first_apart(candidates: Iterable[tuple[Sequence[int], int]]) -> list[int]:
    """Of sequences to compute, each with how many of its tokens are there already: those that no earlier one among
    them would spare work. The others had better wait, and copy.

    >>> first_apart([([7] * 40, 0), ([7] * 30, 0), ([8] * 40, 0)])
    [0, 2]
    """
    chosen: list[int] = []
    leaders: list[Sequence[int]] = []
    for number, (ids, held) in enumerate(candidates):
        end = held + WORTH_COPYING
        next_ones = ids[held:end]
        if len(ids) > end and any(other[held:end] == next_ones and other[:held] == ids[:held] for other in leaders):
            continue
        chosen.append(number)
        leaders.append(ids)
    return chosen
