"""Sequences while they are generated: their requests, slots, prefix hashes and sampled tokens.

`scheduler` decides what each sequence does next; `SlotTable` says which slot of the cache it works in, and
`OutputBuffer` holds what it sampled. Nothing here needs torch, so that a worker process can compute the hashes of its
prompts.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kgwalk.llm.automaton import GrammarState
from kgwalk.llm.engine import ActiveRequest, Generation, common_length
from kgwalk.types import EngineError

BLOCK = 16  # tokens: prefixes are shared in whole blocks


@dataclass(slots=True, eq=False)
class SlotSequence(ActiveRequest):
    """A request under way in the local engine."""

    ends: frozenset[int] = frozenset()  # tokens that may end it
    cancelled: Callable[[], bool] = lambda: False
    receiver: Any = None  # whom the result is for; only the engine reads it
    slot: Slot | None = None
    prefix_hashes: Sequence[int] | None = None  # of its context; computed when first needed
    draws_sent: int = 0  # of its draws, those that the device has; it stops the sequence when they are used up
    stops_always: bool = False  # the device stops it at every token: it has no end set of its own there
    read: int = 0  # of the tokens it sampled, those that `state` has come after

    def work_in(self, slot: Slot) -> None:
        """Gives the slot to this sequence. What the slot holds of its ids stays, except the last one's keys and values:
        that token is computed again, for its logits.
        """
        self.slot = slot
        if slot.ids is not self.ids:  # the same list has only grown since
            slot.cached = common_length(slot.ids[: slot.cached], self.ids)
            slot.ids = self.ids
        slot.cached = min(slot.cached, len(self.ids) - 1)

    def state_now(self) -> GrammarState | None:
        """Where it is in its grammar after all that it has sampled."""
        while self.state is not None and self.read < len(self.logprobs):
            self.state = self.state.after(self.ids[self.prompt_length + self.read])
            self.read += 1
        return self.state


Ended = tuple[SlotSequence, Generation | EngineError]


def prefix_hashes(ids: Sequence[int]) -> list[int]:
    """The prefix hashes of ids: one for each whole number of blocks at the beginning."""
    hashes, last = [], 0
    for end in range(BLOCK, len(ids) + 1, BLOCK):
        last = hash((last, *ids[end - BLOCK : end]))
        hashes.append(last)
    return hashes


# Slots of the cache: which belongs to which session, what it holds, and which is reused next


@dataclass(slots=True, eq=False)
class Slot:
    """The slot holds the keys and values of the first `cached` of `ids`. These are the list of the request that used
    the slot last, which may grow, and change past `cached`. `busy` while a request uses the slot.
    """

    index: int
    ids: list[int] = field(default_factory=list)
    cached: int = 0
    session: str = ""
    busy: bool = False
    last_used: float = 0.0  # when the last request left it


class SlotTable:
    """At most `max_slots` slots. They are created as they are needed; of free ones the lowest index comes first.

    A session keeps its slot between turns, so that a turn computes only what is new. What a slot holds outlives its
    session until the slot is used again: another sequence that begins the same way can copy it (`PrefixCache`). There
    are no tensors here; those are in `kv_cache`.
    """

    def __init__(self, max_slots: int) -> None:
        self.max_slots = max_slots
        self.slots: list[Slot] = []
        self._sessions: dict[str, Slot] = {}
        self._free: list[int] = []  # a heap of slots without a session; an entry may be busy again by now

    def idle_slot(self, session: str) -> Slot | None:
        """The session's slot, if it has one that is not busy."""
        slot = self._sessions.get(session)
        return None if slot is None or slot.busy else slot

    def take(self, session: str, *, idle_since: float = math.inf) -> Slot | None:
        """A slot to work in: the session's own, else a free one, else a new one, else that of the session idle longest,
        if it has been idle since `idle_since`. None if there is none.
        """
        slot = self.idle_slot(session) or self._take_free() or self._new() or self._oldest(idle_since)
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
        """The request is done; the slot's session keeps it."""
        slot.busy, slot.last_used = False, now
        if not slot.session:
            heapq.heappush(self._free, slot.index)

    def forget(self, session: str) -> None:
        """The session's slot is free for others."""
        slot = self._sessions.get(session)
        if slot is not None:
            self._unbind(slot)
            if not slot.busy:
                heapq.heappush(self._free, slot.index)

    def clear(self) -> None:
        """Frees all slots and forgets what they hold."""
        for slot in self.slots:
            self._unbind(slot)
            slot.ids, slot.cached, slot.busy = [], 0, False
        self._free = list(range(len(self.slots)))

    def _take_free(self) -> Slot | None:
        while self._free:
            slot = self.slots[heapq.heappop(self._free)]
            if not slot.busy and not slot.session:
                return slot
        return None

    def _new(self) -> Slot | None:
        if len(self.slots) == self.max_slots:
            return None
        self.slots.append(Slot(len(self.slots)))
        return self.slots[-1]

    def _oldest(self, idle_since: float) -> Slot | None:
        idle = (slot for slot in self.slots if not slot.busy and slot.last_used <= idle_since)
        return min(idle, key=lambda slot: slot.last_used, default=None)

    def _unbind(self, slot: Slot) -> None:
        if slot.session:
            del self._sessions[slot.session]
            slot.session = ""


# The output buffer

IdArray = npt.NDArray[np.int64]
MISSING = 1 << 32  # added to a sampled token after which the device waits for the edges of its grammar's state
ROOM = 64  # tokens that the buffer holds of a sequence before they must be taken


class OutputBuffer:
    """The tokens that sequences sampled and nobody has looked at yet, as arrays: a pass is added for all at once.

    Most tokens need no attention. A sequence is looked at when the device has stopped it (it sampled a token that may
    be an end, used up its tokens, or waits for the edges of its grammar's state: `waits`) or when there is no more room
    here. `steps` is the most steps of a pass.
    Shapes: N slots, W tokens of room, R sequences of a pass, C steps of it, K end sets, V tokens of the vocabulary.

    Token 2 is in end set 0. The sequence in slot 1 stops at it, that in slot 0 may sample two more, that in slot 2 had
    stopped before:

    >>> output, ends_KV = OutputBuffer(3, steps=2), np.array([[False, False, True, False]])
    >>> output.begin([0, 1, 2], [0, 0, 0], [4, 4, 4])
    >>> owners = output.owners([0, 1, 2])
    >>> ids_CR = np.array([[3, 1, -1], [3, 2, -1]])
    >>> output.add(owners, ids_CR, np.full((2, 3), -0.5), ends_KV)
    ([1], [])
    >>> output.take(1), output.most_left([0, 2])
    (([1, 2], [-0.5, -0.5]), 4)
    """

    def __init__(self, slots: int, *, steps: int) -> None:
        self._ids_NW = np.zeros((slots, ROOM + steps), np.int64)
        self._logprobs_NW = np.zeros((slots, ROOM + steps), np.float32)
        self._count_N = np.zeros(slots, np.int64)
        self._left_N = np.zeros(slots, np.int64)  # tokens after which the device stops the sequence
        self._end_set_N = np.zeros(slots, np.int64)
        self._owner_N = np.zeros(slots, np.int64)  # the number of the sequence in the slot; 0 for none
        self._waits_N = np.zeros(slots, np.bool_)
        self._begun = 0

    def begin(self, slots: Sequence[int], end_sets: Sequence[int], left: Sequence[int]) -> None:
        """New sequences in these slots."""
        self._count_N[slots], self._waits_N[slots] = 0, False
        self._end_set_N[slots], self._left_N[slots] = end_sets, left
        self._owner_N[slots] = np.arange(self._begun + 1, self._begun + 1 + len(slots))
        self._begun += len(slots)

    def resume(self, slots: Sequence[int], left: Sequence[int]) -> None:
        """Sequences that the device had stopped may sample so many more tokens."""
        self._left_N[slots], self._waits_N[slots] = left, False

    def waits(self, slot: int) -> bool:
        """Whether the device has stopped the sequence because its grammar's state is not there."""
        return bool(self._waits_N[slot])

    def leave(self, slot: int) -> None:
        """The sequence is over: passes that are still on their way for it are ignored."""
        self._owner_N[slot] = self._count_N[slot] = 0

    def owners(self, slots: Sequence[int] | IdArray) -> tuple[IdArray, IdArray]:
        """The slots of a pass and the sequences in them, to be asked for when the pass begins."""
        slots_R = np.asarray(slots, np.int64)
        return slots_R, self._owner_N[slots_R]

    def most_left(self, slots: Sequence[int] | IdArray) -> int:
        """How many tokens the sequence with most of them left may sample."""
        return int(self._left_N[slots].max())

    def add(
        self,
        owners: tuple[IdArray, IdArray],
        ids_CR: IdArray,
        logprobs_CR: npt.NDArray[np.float32],
        ends_KV: npt.NDArray[np.bool_],
    ) -> tuple[list[int], list[int]]:
        """Adds a pass, whose ids are -1 where a sequence had stopped. Returns the slots to look at, and those whose
        numbers overflowed.
        """
        slots_R, owner_R = owners
        waits_CR = ids_CR >= MISSING
        ids_CR = np.where(waits_CR, ids_CR - MISSING, ids_CR)
        step_C1 = np.arange(len(ids_CR))[:, None]
        count_R = (ids_CR >= 0).sum(0) * (self._owner_N[slots_R] == owner_R)
        before_R = self._count_N[slots_R]
        # What is not the sequence's own is written past its count, and overwritten by the next pass.
        self._ids_NW[slots_R, before_R + step_C1] = ids_CR
        self._logprobs_NW[slots_R, before_R + step_C1] = logprobs_CR
        self._count_N[slots_R] = before_R + count_R
        self._left_N[slots_R] -= count_R
        last = (count_R - 1, np.arange(len(slots_R)))
        waits_R = waits_CR[last] & (count_R > 0)
        self._waits_N[slots_R] |= waits_R
        stopped_R = ends_KV[self._end_set_N[slots_R], ids_CR[last]] | (self._left_N[slots_R] <= 0) | waits_R
        look_R = (count_R > 0) & (stopped_R | (before_R + count_R >= ROOM))
        finite_CR = np.isfinite(logprobs_CR)
        if finite_CR.all():
            return slots_R[look_R].tolist(), []
        failed_R = ((step_C1 < count_R) & ~finite_CR).any(0)
        return slots_R[look_R & ~failed_R].tolist(), slots_R[failed_R].tolist()

    def take(self, slot: int) -> tuple[list[int], list[float]]:
        """The ids and log-probabilities of the sequence in this slot since they were last taken."""
        count = self._count_N[slot]
        self._count_N[slot] = 0
        return self._ids_NW[slot, :count].tolist(), self._logprobs_NW[slot, :count].tolist()
