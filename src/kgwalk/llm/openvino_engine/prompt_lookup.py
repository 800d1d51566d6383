"""Guesses of what comes next: what last followed the same few tokens, in the row itself or in what was written before.

Agents copy: relation names out of observations, the form of a call out of the turn before. A wrong guess costs its
place in a pass and nothing else, since the model says at each place what it would have chosen. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 4  # tokens that are looked up together; six gained one in a hundred
MOST = 1 << 16  # beginnings that are remembered: some 10 MB


class Followers:
    """Of any one to four tokens in a row, the token that last came after them.

    >>> followers = Followers()
    >>> followers.note([1, 2, 3, 9, 2, 4])
    >>> followers.after([7, 2])  # the later of 3 and 4
    (1, 4)
    >>> followers.after([1, 2])  # but after 1 and 2 there was 3; two tokens tell more than one
    (2, 3)
    >>> followers.after([5])
    (0, -1)
    """

    def __init__(self) -> None:
        self._next: dict[tuple[int, ...], int] = {}

    def note(self, ids: Sequence[int], begin: int = 0) -> None:
        """What ids[begin:] came after."""
        if len(self._next) > MOST:
            self._next.clear()
        for at in range(max(begin, 1), len(ids)):
            for count in range(1, min(LONGEST, at) + 1):
                self._next[tuple(ids[at - count : at])] = ids[at]

    def after(self, ids: Sequence[int]) -> tuple[int, int]:
        """How many of the last tokens were met before, and what followed them; (0, -1) if there is nothing to say."""
        for count in range(min(LONGEST, len(ids)), 0, -1):
            found = self._next.get(tuple(ids[-count:]))
            if found is not None:
                return count, found
        return 0, -1


def guess(ids: Sequence[int], sources: Sequence[Followers], count: int) -> list[int]:
    """At most so many tokens that may follow: each from the source that has met more of the last ones, else the first.

    >>> written, own = Followers(), Followers()
    >>> written.note([1, 2, 3])
    >>> own.note([5, 6, 2, 7])
    >>> guess([1, 2], [written, own], 3)  # written knows 1 and 2, own knows only 2; what follows 3 nobody knows
    [3]
    >>> guess([6, 2], [written, own], 3)
    [7]
    """
    last, guesses = list(ids[-LONGEST:]), list[int]()
    while len(guesses) < count:
        known, token = max((source.after(last) for source in sources), key=lambda found: found[0])
        if not known:
            break
        guesses.append(token)
        last.append(token)
    return guesses
