"""Which slot of the cache belongs to which session, what it holds, and which is reused next.

A session keeps its slot between turns, so that a turn computes only what is new. What a slot holds outlives its session
until the slot is used again: another sequence that begins the same way can copy it (`prefix_cache`). There are no
tensors here; those are in `kv_cache`.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field


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
    """At most `max_slots` slots. They are created as they are needed; of free ones the lowest index comes first."""

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
