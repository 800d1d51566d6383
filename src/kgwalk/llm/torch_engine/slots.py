"""Which slot of the cache holds what: sessions, the ids whose keys and values lie there, and who must go.

A session keeps its slot between turns. What a slot holds outlives its session, until the slot is wanted: another
sequence that begins the same way can copy the beginning, which an index of hashes finds. Knows nothing of tensors.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

BLOCK = 16  # tokens: beginnings are shared in whole blocks
MOST_MARKS = 1 << 18


@dataclass(slots=True, eq=False)
class Slot:
    """The slot holds the keys and values of the first `held` of `ids`, which is the list of the request that used it
    last: it may grow, and change past these. `busy` while a request is using it.
    """

    index: int
    ids: list[int] = field(default_factory=list)
    held: int = 0
    session: str = ""
    busy: bool = False
    used: float = 0.0  # when it was last at work


class SlotTable:
    """At most `most` slots; they come into being as they are wanted, and free ones are used again, the first first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.slots: list[Slot] = []
        self._sessions: dict[str, Slot] = {}
        self._free: list[int] = []  # a heap of those that are nobody's and not at work; some may be taken again

    def of(self, session: str) -> Slot | None:
        """The slot that the session kept, if it is not at work."""
        slot = self._sessions.get(session)
        return None if slot is None or slot.busy else slot

    def take(self, session: str, *, idle_since: float = math.inf) -> Slot | None:
        """A slot to work in: the session's own, else a free one, a new one, or that of the session idle for longest,
        if it has been since then. None if there is none.
        """
        slot = self.of(session) or self._take_free() or self._new() or self._oldest(idle_since)
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
        if not slot.session:
            heapq.heappush(self._free, slot.index)

    def forget(self, session: str) -> None:
        slot = self._sessions.get(session)
        if slot is not None:
            self._unbind(slot)
            if not slot.busy:
                heapq.heappush(self._free, slot.index)

    def clear(self) -> None:
        """Nothing that is held counts any more."""
        for slot in self.slots:
            self._unbind(slot)
            slot.ids, slot.held, slot.busy = [], 0, False
        self._free = list(range(len(self.slots)))

    def _take_free(self) -> Slot | None:
        while self._free:
            slot = self.slots[heapq.heappop(self._free)]
            if not slot.busy and not slot.session:
                return slot
        return None

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


class Beginnings:
    """An index of what slots begin with: for every whole number of blocks, who has these tokens first.

    >>> table, index = SlotTable(2), Beginnings()
    >>> one = table.take("one")
    >>> one.ids, one.held = [*range(40)], 40
    >>> index.add(one, marks(one.ids))
    >>> like = [*range(35), 99, 99]
    >>> slot, length = index.longest(like, marks(like))
    >>> slot is one, length
    (True, 32)
    """

    def __init__(self) -> None:
        self._slots: dict[int, Slot] = {}

    def add(self, slot: Slot, marks: Sequence[int]) -> None:
        """The slot holds the tokens that these are the marks of."""
        if len(self._slots) > MOST_MARKS:
            self._slots.clear()  # most are of slots that hold something else by now
        for mark in marks:
            self._slots.setdefault(mark, slot)

    def longest(self, ids: Sequence[int], marks: Sequence[int], least: int = 1) -> tuple[Slot, int] | None:
        """The slot that holds most of the beginning, and how much; None if no one holds so many tokens of it at least.
        What a slot no longer holds is struck out.
        """
        for count in range(len(marks), (least - 1) // BLOCK, -1):
            slot = self._slots.get(marks[count - 1])
            if slot is None:
                continue
            length = count * BLOCK
            if length <= slot.held and slot.ids[:length] == ids[:length]:
                return slot, length
            del self._slots[marks[count - 1]]
        return None

    def clear(self) -> None:
        self._slots.clear()


def marks(ids: Sequence[int]) -> list[int]:
    """A hash for each whole number of blocks at the beginning."""
    found, mark = [], 0
    for end in range(BLOCK, len(ids) + 1, BLOCK):
        mark = hash((mark, *ids[end - BLOCK : end]))
        found.append(mark)
    return found


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids the two begin with in common.

    >>> common_length([1, 2, 3, 4], [1, 2, 9])
    2
    """
    if len(one) > len(other):
        one, other = other, one
    low, high = 0, len(one)
    if one == other[:high]:
        return high
    while low < high:  # invariant: the first `low` are the same, the first `high + 1` are not
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
