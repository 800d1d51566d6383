"""Watches generations for their end: an end token, or the token that completes a stop text.

Finds the same end as `first_stop` does in the whole, by decoding only the last tokens, and only when the last of them
holds the last character of a stop text. Remembers nothing: one watch serves all generations with the same stop texts.
Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from kgwalk.llm.tokens import Tokenizer

BROKEN = "\ufffd"  # how a decoder shows part of a character


class StopWatch:
    """`piece` gives the text of one token, if the caller has it at hand.

    >>> from kgwalk.llm.tokens import ByteTokenizer
    >>> watch, ids = StopWatch(ByteTokenizer(), ("</a>",)), list(b"x</a>")
    >>> [watch.end(ids[:count]) for count in range(1, 6)]
    [None, None, None, None, 'stop']
    """

    def __init__(self, tokens: Tokenizer, stops: Sequence[str], piece: Callable[[int], str] | None = None) -> None:
        self._tokens = tokens
        self._piece = piece or (lambda number: tokens.decode([number]))
        self._stops = tuple(stop for stop in stops if stop)
        self._lasts = frozenset(stop[-1] for stop in self._stops)
        # A token has a byte of text or more; a few tokens more, so that the first one's beginning does not matter.
        self._window = max((len(stop.encode("utf-8", "surrogatepass")) for stop in self._stops), default=0) + 4

    def end(self, ids: Sequence[int], begin: int = 0) -> Literal["stop", "eos"] | None:
        """How the generation ids[begin:] ends with its last token, which was not looked at yet; None if it goes on."""
        if ids[-1] in self._tokens.end_ids:
            return "eos"
        if not self._stops:
            return None
        piece = self._piece(ids[-1])
        if piece and BROKEN not in piece and self._lasts.isdisjoint(piece):
            return None
        text = self._tokens.decode(ids[self._from(ids, begin) :])
        return "stop" if any(stop in text for stop in self._stops) else None

    def _from(self, ids: Sequence[int], begin: int) -> int:
        """Where the last tokens begin that can hold a stop text. One without text (a marker, or a space that shows only
        among others) does not count.
        """
        at, left = len(ids), self._window
        if at - begin <= left:
            return begin
        while at > begin and left:
            at -= 1
            left -= bool(self._piece(ids[at]))
        return at
