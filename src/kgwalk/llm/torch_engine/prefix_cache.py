"""Which rows can copy the beginning of their context from another slot, and which had better wait until they can.

Rows of a group begin with the same prompt: it is computed once, and copied. Knows rows and slots, no tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kgwalk.llm.torch_engine.sequence import BLOCK, Beginnings, SlotSequence, marks

WORTH = 32  # tokens: a shorter beginning is as quickly computed as copied


@dataclass(slots=True)
class PrefixCopies:
    """`copies`: from this slot to that one, so many tokens; all are made at the same time. `ready` are the rows to
    compute now, `deferred` those that begin like one of these, and copy from it next time.
    """

    copies: list[tuple[int, int, int]] = field(default_factory=list)
    ready: list[SlotSequence] = field(default_factory=list)
    deferred: list[SlotSequence] = field(default_factory=list)


class Sharing:
    """It remembers what was computed where."""

    def __init__(self) -> None:
        self._beginnings = Beginnings()

    def of(self, rows: Sequence[SlotSequence]) -> PrefixCopies:
        """What another slot holds of a row's beginning need not be computed: the row's slot holds it from now on."""
        shares = PrefixCopies()
        origin: dict[int, int] = {}  # what has yet to arrive is copied from its origin
        coming: set[int] = set()  # the marks of what this pass computes
        for row in rows:
            slot = row.slot
            assert slot is not None
            if len(row.ids) - slot.held > WORTH:
                if row.marks is None:
                    row.marks = marks(row.ids[:-1])
                found = self._beginnings.longest(row.ids, row.marks, slot.held + WORTH)
                if found is not None:
                    source = origin[slot.index] = origin.get(found[0].index, found[0].index)
                    shares.copies.append((source, slot.index, found[1]))
                    slot.held = found[1]
                # The first whole block that it would compute; another that computes it is waited for.
                first = -(-slot.held // BLOCK)
                if first < len(row.marks) and len(row.ids) - slot.held > WORTH:
                    if row.marks[first] in coming:
                        shares.deferred.append(row)
                        continue
                    coming.add(row.marks[first])
            shares.ready.append(row)
        return shares

    def computed(self, row: SlotSequence, new: int) -> None:
        """So many new tokens of a row were computed in its slot."""
        if row.slot is not None and new > WORTH:
            self._beginnings.add(row.slot, row.marks or [])

    def clear(self) -> None:
        self._beginnings.clear()
