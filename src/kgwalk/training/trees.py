"""Sequences that begin alike as one tree: what they share once, then each one's own, one branch after the other.

The rollouts of a group answer one question, all questions follow the same instructions, and rollouts often take the
same first turn: whatever two sequences begin with in common is computed once. In the order of their tokens, those that
share most are neighbours, so a row is a list of sequences and how much each shares with the one before it.

Where attention pairs every token of a row with every other, for a mask to throw away what it may not see, a row is cut
where its pairs would take longer than another copy of what is shared. Knows nothing of tensors or models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kgwalk.llm.slots import common_length
from kgwalk.types import Flat, KgwalkError

PAIRS = 4096  # pairs of tokens in attention that take the time of one token in the layers, if nobody knows better
# Tokens that may go on from one beginning, where attention is computed by blocks: the gradient of a block of keys is
# summed over all blocks that see it one after the other, and all that stands in a row would wait for its first block.
# Of 23,552 tokens behind one beginning that took 65% of an update's time on an H200 (docs/log.md).
BEHIND = 2048
MASKED = 32_768  # pairs in a mask that take the memory of one token: 2 to 5 bytes each, against 100 kB and more


class Tree(NamedTuple):
    """A row: sequences by number, and for each the tokens that it shares with the one before it in the row."""

    members: tuple[int, ...]
    shared: tuple[int, ...]
    length: int

    @property
    def forks(self) -> bool:
        return len(self.members) > 1


def work(length: int, forks: bool, pairs: int = PAIRS) -> int:
    """The time that a row takes, in tokens: its own, and the pairs of its attention. Where no branch is to be hidden
    from another only the half of them that look back is computed.

    >>> work(4096, forks=True), work(4096, forks=False), work(770, forks=True)
    (8192, 6144, 914)
    """
    return length + length * length // (pairs if forks else 2 * pairs)


def room(length: int, forks: bool) -> int:
    """The memory that a row takes, in tokens: its own, and those of its mask, if branches are to be hidden.

    >>> room(4096, forks=True), room(4096, forks=False), room(770, forks=True)
    (4608, 4096, 788)
    """
    return length + (length * length // MASKED if forks else 0)


def trees(flats: Sequence[Flat], budget: int, *, share: bool = True, pairs: int = PAIRS) -> list[Tree]:
    """Every sequence in one row, with those that begin like it as far as it pays, and fits the budget.

    >>> walks = [[1, 2, 7, 8], [1, 2, 9], [5, 6, 7], [1, 2, 7, 3]]
    >>> flats = [Flat(ids, [0, 0] + [1] * (len(ids) - 2), [0.0] * len(ids), []) for ids in walks]
    >>> trees(flats, 100)  # 1 2 7 3, of the next its 8, of the next its 9; and 5 6 7: 9 tokens instead of 14
    [Tree(members=(3, 0, 1), shared=(0, 3, 2), length=6), Tree(members=(2,), shared=(0,), length=3)]
    >>> [tree.members for tree in trees(flats, 5)]
    [(3, 0), (1,), (2,)]
    """
    _check(flats)
    if not share:
        return [Tree((number,), (0,), len(flat.ids)) for number, flat in enumerate(flats)]
    found: list[Tree] = []
    for number in sorted(range(len(flats)), key=lambda number: flats[number].ids):
        ids = flats[number].ids
        row = found[-1] if found else Tree((), (), 0)
        same = common_length(flats[row.members[-1]].ids, ids) if found else 0
        longer = row.length + len(ids) - same
        dearer = work(longer, True, pairs) - work(row.length, row.forks, pairs)
        if same and room(longer, True) <= budget and dearer <= work(len(ids), False, pairs):
            found[-1] = Tree((*row.members, number), (*row.shared, same), longer)
        else:
            found.append(Tree((number,), (0,), len(ids)))
    return found


def forests(flats: Sequence[Flat], budget: int, *, behind: int = BEHIND) -> list[Tree]:
    """Every sequence in a row of at most `budget` tokens, unless it is longer itself. For attention that pairs only
    what sees each other: rows are as long as they may be, and what begins differently stands side by side; so does what
    begins alike, after `behind` tokens.

    >>> walks = [[1, 2, 7, 8], [1, 2, 9], [5, 6, 7], [1, 2, 7, 3]]
    >>> flats = [Flat(ids, [0, 0] + [1] * (len(ids) - 2), [0.0] * len(ids), []) for ids in walks]
    >>> forests(flats, 100)
    [Tree(members=(3, 0, 1, 2), shared=(0, 3, 2, 0), length=9)]
    >>> forests(flats, 100, behind=5)  # 1 2 7 3 and 8; then 1 2 9 anew
    [Tree(members=(3, 0, 1, 2), shared=(0, 3, 0, 0), length=11)]
    """
    _check(flats)
    found: list[tuple[list[int], list[int]]] = []
    length = begun = 0  # of the row, and of it since something began anew
    for number in sorted(range(len(flats)), key=lambda number: flats[number].ids):
        ids = flats[number].ids
        same = common_length(flats[found[-1][0][-1]].ids, ids) if found else 0
        if begun + len(ids) - same > behind:
            same = 0
        if not found or length + len(ids) - same > budget:
            found.append(([], []))
            length = same = 0
        length += len(ids) - same
        begun = begun + len(ids) - same if same else len(ids)
        found[-1][0].append(number)
        found[-1][1].append(same)
    return [_row(flats, members, shared) for members, shared in found]


def microbatches(rows: Sequence[Tree], budget: int) -> list[list[Tree]]:
    """Rows that go together: in each list, the room of the longest times the count is within `budget`.

    Every row is in one list. The longest come first, so that memory that is too small shows at once; a row that takes
    more than the budget is alone.

    >>> rows = [Tree((number,), (0,), length) for number, length in enumerate([5, 3, 9, 2, 3])]
    >>> [[tree.length for tree in batch] for batch in microbatches(rows, 10)]
    [[9], [5, 3], [3, 2]]
    """
    if budget < 1:
        raise KgwalkError(f"the budget of a microbatch is at least 1 token; it is {budget}")
    batches: list[list[Tree]] = []
    longest, forks = 0, False
    for tree in sorted(rows, key=lambda tree: -tree.length):
        forks = forks or tree.forks  # one tree that forks, and the whole microbatch has a mask
        if batches and room(longest, forks) * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(tree)
        else:
            batches.append([tree])
            longest, forks = tree.length, tree.forks
    return batches


def _row(flats: Sequence[Flat], members: list[int], shared: list[int]) -> Tree:
    return Tree(tuple(members), tuple(shared), sum(len(flats[number].ids) for number in members) - sum(shared))


def _check(flats: Sequence[Flat]) -> None:
    for number, flat in enumerate(flats):
        if flat.mask and flat.mask[0]:
            raise KgwalkError(f"the first token of sequence {number} is marked, and nothing before it predicts it")
