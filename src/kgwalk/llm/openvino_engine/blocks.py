"""Which blocks of the cache hold what: sessions, their tokens, beginnings that several share, and who must go.

The cache is a pool of blocks of a fixed number of tokens. A sequence has a list of them; a full block may stand in
several lists, since what it holds depends only on the tokens up to its end. Nothing is ever copied: a sequence that
would write into a block that others have computes its tokens anew in one of its own. Knows nothing of tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kgwalk.llm.torch_engine.sequence import common_length

FIRST = 64  # blocks that there are at least: room for the beginnings of several kinds of prompt


@dataclass(slots=True, eq=False)
class Held:
    """`ids` are the tokens whose keys and values lie in `blocks`, which may have room for more."""

    session: str = ""
    ids: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    busy: bool = True
    used: int = 0  # when it was last at work, counted in takes


class BlockTable:
    """At most `most` blocks of `size` tokens; `count` of them have been wanted so far.

    >>> table = BlockTable(size=4, most=8)
    >>> one = table.take("one", [1, 2, 3, 4, 5, 6], room=8)
    >>> one.blocks, one.ids
    ([0, 1], [])
    >>> one.ids = [1, 2, 3, 4, 5, 6]  # computed
    >>> two = table.take("two", [1, 2, 3, 4, 9, 9], room=8)
    >>> two.blocks, two.ids  # the first block is shared, the second is its own
    ([0, 2], [1, 2, 3, 4])
    """

    def __init__(self, size: int, most: int) -> None:
        self.size, self.most, self.count = size, most, 0
        self.held: list[Held] = []
        self._sessions: dict[str, Held] = {}
        self._free: list[int] = []
        self._users: dict[int, int] = {}  # of each block in use: in how many lists it stands
        self._takes = 0

    def take(self, session: str, ids: Sequence[int], room: int) -> Held | None:
        """A sequence to work with: blocks for `room` tokens, and in `ids` what of the request's is there already,
        which is never all of them: the last one's logits are wanted. None if there are no blocks now.
        """
        found = self.of(session)
        offer = self.best(ids)
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
        found.used = self._takes
        return found

    def of(self, session: str) -> Held | None:
        """What the session kept, if it is not at work."""
        found = self._sessions.get(session) if session else None
        return None if found is None or found.busy else found

    def best(self, ids: Sequence[int]) -> Held | None:
        """The sequence that begins most like ids; None if there is none."""
        return max(self.held, key=lambda one: common_length(one.ids, ids), default=None)

    def shared(self, ids: Sequence[int]) -> int:
        """How many of the first tokens of ids a new sequence would not have to compute."""
        return self._whole(self.best(ids), ids)

    def release(self, one: Held) -> None:
        """Its work is done; blocks that it did not fill are free again."""
        one.busy = False
        self._trim(one, len(one.ids))
        if not one.ids:
            self._drop(one)

    def forget(self, session: str) -> None:
        """What it held stays until its blocks are wanted: others may begin alike."""
        found = self._sessions.pop(session, None)
        if found is not None:
            found.session = ""

    def clear(self) -> None:
        for one in list(self.held):
            self._drop(one)

    def _whole(self, one: Held | None, ids: Sequence[int]) -> int:
        common = 0 if one is None else min(common_length(one.ids, ids), len(ids) - 1)
        return common - common % self.size

    def _borrow(self, offer: Held | None, ids: Sequence[int], instead: Held | None) -> Held:
        """A new sequence that begins with another's full blocks, in place of what its session had."""
        whole = self._whole(offer, ids)
        new = Held(ids=list(ids[:whole]), blocks=[] if offer is None else offer.blocks[: whole // self.size])
        for block in new.blocks:
            self._users[block] += 1
        self.held.append(new)
        if instead is not None:
            self._drop(instead)
        return new

    def _trim(self, one: Held, length: int) -> None:
        """Only the first `length` tokens hold; fewer, if the next ones would be written where others read."""
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
            idle = [one for one in self.held if not one.busy]
            over = [one for one in idle if not one.session]
            if over:
                self._drop(min(over, key=lambda one: one.used))
            elif self.count < self.most:
                new = min(max(wanted - len(self._free), self.count, FIRST), self.most - self.count)
                self._free = [*range(self.count + new - 1, self.count - 1, -1), *self._free]
                self.count += new
            elif idle:
                self._drop(min(idle, key=lambda one: one.used))
            else:
                return False
        return True

    def _drop(self, one: Held) -> None:
        if one.session:
            del self._sessions[one.session]
        self.held.remove(one)
        self._give_back(one.blocks)
        one.blocks, one.ids, one.session = [], [], ""

    def _give_back(self, blocks: Sequence[int]) -> None:
        for block in reversed(blocks):
            self._users[block] -= 1
            if not self._users[block]:
                del self._users[block]
                self._free.append(block)
