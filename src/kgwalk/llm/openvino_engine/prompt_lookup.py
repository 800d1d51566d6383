"""Prompt-lookup decoding: drafts the next tokens from what last followed the same few tokens.

They are looked up in the sequence itself and in what was written before. Agents copy: relation names out of
observations, the form of a call out of the turn before. A wrong draft token costs its place in a pass and nothing else,
since the model says at each place what it would have sampled.
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 4  # tokens that are looked up together; with six, one pass in a hundred was saved
MAX_ENTRIES = 1 << 16  # about 10 MB


class NgramIndex:
    """An index of n-grams: for any one to four consecutive tokens, the token that last came after them.

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
        """Adds the tokens ids[begin:], each with what came before it."""
        if len(self._next) > MAX_ENTRIES:
            self._next.clear()
        for at in range(max(begin, 1), len(ids)):
            for count in range(1, min(LONGEST, at) + 1):
                self._next[tuple(ids[at - count : at])] = ids[at]

    def after(self, ids: Sequence[int]) -> tuple[int, int]:
        """How many of the last tokens were met before, and what followed them; (0, -1) if none was met."""
        for count in range(min(LONGEST, len(ids)), 0, -1):
            found = self._next.get(tuple(ids[-count:]))
            if found is not None:
                return count, found
        return 0, -1


def draft(ids: Sequence[int], sources: Sequence[NgramIndex], count: int) -> list[int]:
    """At most `count` draft tokens: each from the source that has met more of the last tokens, else from the first.

    >>> written, own = Followers(), Followers()
    >>> written.note([1, 2, 3])
    >>> own.note([5, 6, 2, 7])
    >>> draft([1, 2], [written, own], 3)  # written knows 1 and 2, own knows only 2; neither knows what follows 3
    [3]
    >>> draft([6, 2], [written, own], 3)
    [7]
    """
    last, drafted = list(ids[-LONGEST:]), list[int]()
    while len(drafted) < count:
        known, token = max((source.after(last) for source in sources), key=lambda found: found[0])
        if not known:
            break
        drafted.append(token)
        last.append(token)
    return drafted
