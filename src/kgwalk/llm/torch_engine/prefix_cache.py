"""The prefix cache: which sequences copy the beginning of their context from another slot.

The rollouts of a question begin with the same prompt: one of them computes it, the others wait a round and copy its
keys and values.
Prefixes are found by hash, in whole blocks of 16 tokens. There are no tensors here: the scheduler makes the copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kgwalk.llm.torch_engine.sequence import BLOCK, Slot, SlotSequence, prefix_hashes

WORTH_COPYING = 32  # tokens: a shorter prefix is as quickly computed as copied
MAX_HASHES = 1 << 18


@dataclass(slots=True)
class PrefixPlan:
    """`copies`: (from slot, to slot, number of tokens); all are made at the same time. `ready` are the sequences to
    compute now. `deferred` ones begin like one of these, and copy from it in the next round.
    """

    copies: list[tuple[int, int, int]] = field(default_factory=list)
    ready: list[SlotSequence] = field(default_factory=list)
    deferred: list[SlotSequence] = field(default_factory=list)


class PrefixCache:
    """Remembers which slot has computed which prefix."""

    def __init__(self) -> None:
        self._index = PrefixIndex()

    def plan(self, sequences: Sequence[SlotSequence]) -> PrefixPlan:
        """What each sequence can copy. Its slot counts as holding that from now on."""
        plan = PrefixPlan()
        origin: dict[int, int] = {}  # by slot that a copy is on its way to: the slot it comes from
        coming: set[int] = set()  # the hashes of what this pass computes
        for sequence in sequences:
            slot = sequence.slot
            assert slot is not None
            if len(sequence.ids) - slot.cached > WORTH_COPYING:
                if sequence.prefix_hashes is None:
                    sequence.prefix_hashes = prefix_hashes(sequence.ids[:-1])
                hashes = sequence.prefix_hashes
                found = self._index.longest(sequence.ids, hashes, slot.cached + WORTH_COPYING)
                if found is not None:
                    # All copies are made at once: what has yet to arrive in a slot is copied from its origin.
                    source = origin[slot.index] = origin.get(found[0].index, found[0].index)
                    plan.copies.append((source, slot.index, found[1]))
                    slot.cached = found[1]
                # If another sequence computes the first whole block that this one would, this one waits for it.
                first = -(-slot.cached // BLOCK)
                if first < len(hashes) and len(sequence.ids) - slot.cached > WORTH_COPYING:
                    if hashes[first] in coming:
                        plan.deferred.append(sequence)
                        continue
                    coming.add(hashes[first])
            plan.ready.append(sequence)
        return plan

    def computed(self, sequence: SlotSequence, new: int) -> None:
        """So many new tokens of the sequence were computed in its slot."""
        if sequence.slot is not None and new > WORTH_COPYING:
            self._index.add(sequence.slot, sequence.prefix_hashes or [])

    def clear(self) -> None:
        self._index.clear()


class PrefixIndex:
    """For every whole number of blocks that a context begins with, the slot that held it first.

    >>> index, slot = PrefixIndex(), Slot(0, ids=[*range(40)], cached=40)
    >>> index.add(slot, prefix_hashes(slot.ids))
    >>> like = [*range(35), 99, 99]
    >>> found, length = index.longest(like, prefix_hashes(like))
    >>> found is slot, length
    (True, 32)
    """

    def __init__(self) -> None:
        self._slots: dict[int, Slot] = {}

    def add(self, slot: Slot, hashes: Sequence[int]) -> None:
        """The slot holds the tokens that these are the prefix hashes of."""
        if len(self._slots) > MAX_HASHES:
            self._slots.clear()  # most are of slots that hold something else by now
        for one in hashes:
            self._slots.setdefault(one, slot)

    def longest(self, ids: Sequence[int], hashes: Sequence[int], least: int = 1) -> tuple[Slot, int] | None:
        """The slot that holds most of what ids begin with, and how much; None if no slot holds `least` tokens of it.

        Entries of what a slot no longer holds are removed.
        """
        for count in range(len(hashes), (least - 1) // BLOCK, -1):
            slot = self._slots.get(hashes[count - 1])
            if slot is None:
                continue
            length = count * BLOCK
            if length <= slot.cached and slot.ids[:length] == ids[:length]:
                return slot, length
            del self._slots[hashes[count - 1]]
        return None

    def clear(self) -> None:
        self._slots.clear()
