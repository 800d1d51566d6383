"""Episodes that begin with the same prompt as one tree: the prompt once, then what follows it in each, as branches.

The rollouts of a group answer one question, so a row with the prompt and eight branches has a fraction of the tokens of
eight rows. A token of a branch is paired with those of the other branches all the same, for the mask to throw away, so
a tree is cut where its pairs would take longer than another copy of the prompt. Knows nothing of tensors or models.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from kgwalk.types import Flat, KgwalkError

PAIRS = 4096  # pairs of tokens in attention that take the time of one token in the layers, if nobody knows better
MASKED = 32_768  # pairs in a mask that take the memory of one token: 2 to 5 bytes each, against 100 kB and more


class Tree(NamedTuple):
    """`members` are numbers of sequences that share their first `prompt` tokens; `length` is that of the row."""

    members: tuple[int, ...]
    prompt: int
    length: int

    @property
    def forks(self) -> bool:
        return len(self.members) > 1


def prompt_length(mask: Sequence[int]) -> int:
    """Tokens before the first that the model wrote.

    >>> prompt_length([0, 0, 1, 0, 1]), prompt_length([0, 0])
    (2, 2)
    """
    try:
        return mask.index(1)
    except ValueError:
        return len(mask)


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
    """Every sequence in one tree. Those with the same prompt are together as far as it pays, and fits the budget.

    >>> walks = [[1, 2, 7, 8], [1, 2, 9], [5, 6, 7], [1, 2, 3, 3]]
    >>> flats = [Flat(ids, [0, 0] + [1] * (len(ids) - 2), [0.0] * len(ids), []) for ids in walks]
    >>> trees(flats, 100)  # 2 + (2 + 1 + 2) and 2 + 1: 10 tokens instead of 14
    [Tree(members=(0, 1, 3), prompt=2, length=7), Tree(members=(2,), prompt=2, length=3)]
    >>> [tree.members for tree in trees(flats, 6)]
    [(0,), (1, 3), (2,)]
    """
    alike: dict[tuple[int, ...], list[int]] = {}
    for number, flat in enumerate(flats):
        prompt = prompt_length(flat.mask)
        if prompt == 0:
            raise KgwalkError(f"the first token of sequence {number} is marked, and nothing before it predicts it")
        alike.setdefault(tuple(flat.ids[:prompt]) if share else (number,), []).append(number)
    found = []
    for members in alike.values():
        prompt = prompt_length(flats[members[0]].mask)
        found += _cut(members, prompt, [len(flats[number].ids) - prompt for number in members], budget, pairs)
    return found


def microbatches(rows: Sequence[Tree], budget: int) -> list[list[Tree]]:
    """Rows that go together: in each list, the room of the longest times the count is within `budget`.

    Every row is in one list. The longest come first, so that memory that is too small shows at once; a row that takes
    more than the budget is alone.

    >>> rows = [Tree((number,), 1, length) for number, length in enumerate([5, 3, 9, 2, 3])]
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


def _cut(members: list[int], prompt: int, branches: list[int], budget: int, pairs: int) -> list[Tree]:
    """Into as many trees as take the least time in all, of the cuts whose trees each fit the budget; else one each."""
    best, least = [], float("inf")
    for count in range(1, len(members) + 1):
        bounds = [len(members) * part // count for part in range(count + 1)]
        made = [
            Tree(tuple(members[first:last]), prompt, prompt + sum(branches[first:last]))
            for first, last in pairwise(bounds)
        ]
        fits = all(room(tree.length, tree.forks) <= budget for tree in made)
        time = sum(work(tree.length, tree.forks, pairs) for tree in made)
        if time < least and (fits or count == len(members)):
            best, least = made, time
    return best
