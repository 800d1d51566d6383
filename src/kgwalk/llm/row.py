"""A request of an engine while it is under way: what was asked, and where it stands. Knows nothing of models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kgwalk.llm.asked import Asked
from kgwalk.llm.engine import Generation
from kgwalk.llm.slots import Slot, common_length
from kgwalk.types import EngineError


@dataclass(slots=True, eq=False)
class Row(Asked):
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


Ended = tuple[Row, Generation | EngineError]
