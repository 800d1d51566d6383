"""A request of an engine while it is under way: what was asked, and where it stands. Knows nothing of models."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kgwalk.llm.engine import ActiveRequest, Generation
from kgwalk.types import EngineError

# ----------------------------------------------------------------------------------------------------
# Which slot of the cache holds what: sessions, the ids whose keys and values lie there, and who must go.
#
# A session keeps its slot between turns. What a slot holds outlives its session, until the slot is wanted: another
# sequence that begins the same way can copy the beginning, which an index of hashes finds. Knows nothing of tensors.


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


@dataclass(slots=True, eq=False)
class SlotSequence(ActiveRequest):
    """A request under way."""

    ends: frozenset[int] = frozenset()  # tokens with which it may end
    cancelled: Callable[[], bool] = lambda: False
    whom: Any = None  # it is for, which is the engine's to know
    slot: Slot | None = None
    marks: Sequence[int] | None = None  # of its context, when they were wanted
    luck: int = 0  # tokens chosen when the device will have used up the draws that it was given
    halting: bool = False  # the device stops it at every token: it knows no more than KINDS kinds of ends

    def work_in(self, slot: Slot) -> None:
        """The slot is this row's now; what it holds of its ids stays, but for one: its logits are what is wanted."""
        self.slot = slot
        if slot.ids is not self.ids:  # else they have only grown since
            slot.held = common_length(slot.ids[: slot.held], self.ids)
            slot.ids = self.ids
        slot.held = min(slot.held, len(self.ids) - 1)


Ended = tuple[SlotSequence, Generation | EngineError]


# ----------------------------------------------------------------------------------------------------
# What rows have written since they were last looked at, as arrays: the results of a pass are noted for all at once.
#
# Most tokens need nobody's attention. A row is looked at when the device has stopped it (it chose a token that may be
# an end, or has used up its tokens) or when there is no more room here. Needs no torch. Knows nothing of requests or
# texts. Shapes: N slots, W tokens of room, R rows of a pass, C steps of it, K kinds of ends, V tokens of the
# vocabulary.


IdArray = npt.NDArray[np.int64]
ROOM = 64  # tokens of a row; after so many it is looked at


class OutputBuffer:
    """`steps` is the most of a pass.

    Token 2 may end a row of kind 0. Slot 1 stops at it, slot 0 may write two more, slot 2 has stopped before:

    >>> written, ends_KV = OutputBuffer(3, steps=2), np.array([[False, False, True, False]])
    >>> written.begin([0, 1, 2], [0, 0, 0], [4, 4, 4])
    >>> rows = written.rows([0, 1, 2])
    >>> ids_CR = np.array([[3, 1, -1], [3, 2, -1]])
    >>> written.add(rows, ids_CR, np.full((2, 3), -0.5), ends_KV)
    ([1], [])
    >>> written.take(1), written.most_left([0, 2])
    (([1, 2], [-0.5, -0.5]), 4)
    """

    def __init__(self, slots: int, *, steps: int) -> None:
        self._ids_NW = np.zeros((slots, ROOM + steps), np.int64)
        self._logprobs_NW = np.zeros((slots, ROOM + steps), np.float32)
        self._count_N = np.zeros(slots, np.int64)
        self._left_N = np.zeros(slots, np.int64)  # tokens after which the device stops the row
        self._kind_N = np.zeros(slots, np.int64)
        self._row_N = np.zeros(slots, np.int64)  # whose the slot is: a number for each row that began, 0 for nobody's
        self._begun = 0

    def begin(self, slots: Sequence[int], kinds: Sequence[int], left: Sequence[int]) -> None:
        """New rows in these slots."""
        self._count_N[slots] = 0
        self._kind_N[slots], self._left_N[slots] = kinds, left
        self._row_N[slots] = np.arange(self._begun + 1, self._begun + 1 + len(slots))
        self._begun += len(slots)

    def go_on(self, slots: Sequence[int], left: Sequence[int]) -> None:
        """Rows that the device had stopped may write so many more."""
        self._left_N[slots] = left

    def leave(self, slot: int) -> None:
        """What is still on its way for this row is not wanted."""
        self._row_N[slot] = self._count_N[slot] = 0

    def rows(self, slots: Sequence[int] | IdArray) -> tuple[IdArray, IdArray]:
        """The slots of a pass with whose they are when it is begun."""
        slots_R = np.asarray(slots, np.int64)
        return slots_R, self._row_N[slots_R]

    def most_left(self, slots: Sequence[int] | IdArray) -> int:
        """Tokens that the row with most of them left may write."""
        return int(self._left_N[slots].max())

    def add(
        self,
        rows: tuple[IdArray, IdArray],
        ids_CR: IdArray,
        logprobs_CR: npt.NDArray[np.float32],
        ends_KV: npt.NDArray[np.bool_],
    ) -> tuple[list[int], list[int]]:
        """Note a pass: ids are -1 where a row had stopped. The slots to look at, and those whose numbers overflowed."""
        slots_R, begun_R = rows
        step_C1 = np.arange(len(ids_CR))[:, None]
        count_R = (ids_CR >= 0).sum(0) * (self._row_N[slots_R] == begun_R)
        before_R = self._count_N[slots_R]
        # What is not a row's own lies past its count, and is written over.
        self._ids_NW[slots_R, before_R + step_C1] = ids_CR
        self._logprobs_NW[slots_R, before_R + step_C1] = logprobs_CR
        self._count_N[slots_R] = before_R + count_R
        self._left_N[slots_R] -= count_R
        last_R = ids_CR[count_R - 1, np.arange(len(slots_R))]
        stopped_R = ends_KV[self._kind_N[slots_R], last_R] | (self._left_N[slots_R] <= 0)
        look_R = (count_R > 0) & (stopped_R | (before_R + count_R >= ROOM))
        finite_CR = np.isfinite(logprobs_CR)
        if finite_CR.all():
            return slots_R[look_R].tolist(), []
        failed_R = ((step_C1 < count_R) & ~finite_CR).any(0)
        return slots_R[look_R & ~failed_R].tolist(), slots_R[failed_R].tolist()

    def take(self, slot: int) -> tuple[list[int], list[float]]:
        """What the row has written since it was last taken."""
        count = self._count_N[slot]
        self._count_N[slot] = 0
        return self._ids_NW[slot, :count].tolist(), self._logprobs_NW[slot, :count].tolist()
