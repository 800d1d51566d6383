"""Blocks of the cache of the engine `cpu`: which belong to which session, what they hold, and which are reused next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kgwalk.llm.engine import common_length

FIRST = 64  # the fewest blocks of a table: room for the prefixes of several kinds of prompt


@dataclass(slots=True, eq=False)
class CachedSequence:
    """`ids` are the tokens whose keys and values lie in `blocks`, which may have room for more."""

    session: str = ""
    ids: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    busy: bool = True
    last_used: int = 0  # when it was last taken, counted in takes


class BlockTable:
    """At most `max_blocks` blocks of `size` tokens; `count` of them have been needed so far.

    A sequence has a list of blocks. A full block may be in several lists, since what it holds depends only on the
    tokens up to its end. Nothing is ever copied: a sequence that would write into a shared block computes its tokens
    again in a block of its own. There are no tensors here; those are in `PagedModel`.

    >>> table = BlockTable(size=4, max_blocks=8)
    >>> one = table.take("one", [1, 2, 3, 4, 5, 6], room=8)
    >>> one.blocks, one.ids
    ([0, 1], [])
    >>> one.ids = [1, 2, 3, 4, 5, 6]  # computed
    >>> two = table.take("two", [1, 2, 3, 4, 9, 9], room=8)
    >>> two.blocks, two.ids  # the first block is shared, the second is its own
    ([0, 2], [1, 2, 3, 4])
    """

    def __init__(self, size: int, max_blocks: int) -> None:
        self.size, self.max_blocks, self.count = size, max_blocks, 0
        self.sequences: list[CachedSequence] = []
        self._sessions: dict[str, CachedSequence] = {}
        self._free: list[int] = []
        self._users: dict[int, int] = {}  # of each block in use: in how many lists it is
        self._takes = 0

    def take(self, session: str, ids: Sequence[int], room: int) -> CachedSequence | None:
        """A sequence to work with: blocks for `room` tokens, and in `ids` what is cached of the request's ids already.
        The last of these is never among them: it is computed for its logits. None if there are no blocks now.
        """
        found = self.idle_sequence(session)
        offer = self._most_alike(ids)
        if found is None or (offer is not found and self._whole(offer, ids) > common_length(found.ids, ids)):
            found = self._borrow(offer, ids, found)
        self._trim(found, min(common_length(found.ids, ids), len(ids) - 1))
        found.busy = True  # so that it is not dropped for its own blocks
        missing = -(-room // self.size) - len(found.blocks)
        if not self._supply(missing):
            found.busy = False
            if not found.session:
                self._drop(found)
            return None
        for _ in range(missing):
            found.blocks.append(self._free.pop())
            self._users[found.blocks[-1]] = 1
        if session and session not in self._sessions:
            found.session = session
            self._sessions[session] = found
        self._takes += 1
        found.last_used = self._takes
        return found

    def idle_sequence(self, session: str) -> CachedSequence | None:
        """The session's sequence, if it has one that is not busy."""
        found = self._sessions.get(session) if session else None
        return None if found is None or found.busy else found

    def shared(self, ids: Sequence[int]) -> int:
        """How many of the first tokens of ids a new sequence would not have to compute."""
        return self._whole(self._most_alike(ids), ids)

    def release(self, one: CachedSequence) -> None:
        """The request is done; blocks that it did not fill are free again."""
        one.busy = False
        self._trim(one, len(one.ids))
        if not one.ids:
            self._drop(one)

    def forget(self, session: str) -> None:
        """Its tokens stay cached until their blocks are needed: others may begin alike."""
        found = self._sessions.pop(session, None)
        if found is not None:
            found.session = ""

    def clear(self) -> None:
        for one in list(self.sequences):
            self._drop(one)

    def _most_alike(self, ids: Sequence[int]) -> CachedSequence | None:
        """The sequence with the longest common prefix with ids; None if there is none."""
        return max(self.sequences, key=lambda one: common_length(one.ids, ids), default=None)

    def _whole(self, one: CachedSequence | None, ids: Sequence[int]) -> int:
        """The length of the common prefix that is in full blocks, without the last of ids."""
        common = 0 if one is None else min(common_length(one.ids, ids), len(ids) - 1)
        return common - common % self.size

    def _borrow(
        self, offer: CachedSequence | None, ids: Sequence[int], instead: CachedSequence | None
    ) -> CachedSequence:
        """A new sequence that begins with another's full blocks, in place of what its session had."""
        whole = self._whole(offer, ids)
        new = CachedSequence(ids=list(ids[:whole]), blocks=[] if offer is None else offer.blocks[: whole // self.size])
        for block in new.blocks:
            self._users[block] += 1
        self.sequences.append(new)
        if instead is not None:
            self._drop(instead)
        return new

    def _trim(self, one: CachedSequence, length: int) -> None:
        """Keeps only the first `length` tokens; fewer, if the next ones would be written into a shared block."""
        inside = length % self.size
        if inside and self._users[one.blocks[length // self.size]] > 1:
            length -= inside
        del one.ids[length:]
        keep = -(-length // self.size)
        self._give_back(one.blocks[keep:])
        del one.blocks[keep:]

    def _supply(self, wanted: int) -> bool:
        """Free blocks: from sequences that are over, else new ones, else from the sessions idle for longest."""
        while len(self._free) < wanted:
            idle = [one for one in self.sequences if not one.busy]
            over = [one for one in idle if not one.session]
            if over:
                self._drop(min(over, key=lambda one: one.last_used))
            elif self.count < self.max_blocks:
                new = min(max(wanted - len(self._free), self.count, FIRST), self.max_blocks - self.count)
                self._free = [*range(self.count + new - 1, self.count - 1, -1), *self._free]
                self.count += new
            elif idle:
                self._drop(min(idle, key=lambda one: one.last_used))
            else:
                return False
        return True

    def _drop(self, one: CachedSequence) -> None:
        if one.session:
            del self._sessions[one.session]
        self.sequences.remove(one)
        self._give_back(one.blocks)
        one.blocks, one.ids, one.session = [], [], ""

    def _give_back(self, blocks: Sequence[int]) -> None:
        for block in reversed(blocks):
            self._users[block] -= 1
            if not self._users[block]:
                del self._users[block]
                self._free.append(block)
