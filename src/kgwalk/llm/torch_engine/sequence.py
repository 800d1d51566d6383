"""A request of an engine while it is under way: what was asked, and where it stands. Knows nothing of models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kgwalk.llm.engine import Generation
from kgwalk.llm.requests import ActiveRequest
from kgwalk.llm.torch_engine.slots import Slot, common_length
from kgwalk.types import EngineError


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
