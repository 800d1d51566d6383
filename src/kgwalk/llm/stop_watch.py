"""Watches one generation, token by token, for its end: an end token, or the token that completes a stop text.

Finds the same end as `first_stop` does in the whole, by decoding only the last tokens, and only when the new one holds
the last character of a stop text. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal

from kgwalk.llm.tokens import Tokenizer

BROKEN = "\ufffd"  # how a decoder shows part of a character


@lru_cache(64)
def _looked_for(stops: tuple[str, ...]) -> tuple[tuple[str, ...], frozenset[str], int]:
    """The texts, their last characters, and how many of the last tokens can hold one of them."""
    real = tuple(stop for stop in stops if stop)
    # A token has a byte of text or more; a few tokens more, so that the first one's beginning does not matter.
    window = max((len(stop.encode("utf-8", "surrogatepass")) for stop in real), default=0) + 4
    return real, frozenset(stop[-1] for stop in real), window


class StopWatch:
    """`piece` gives the text of one token, if the caller has it at hand.

    >>> from kgwalk.llm.tokens import ByteTokenizer
    >>> watch = StopWatch(ByteTokenizer(), ("</a>",))
    >>> [watch.see(byte) for byte in b"x</a>"]
    [None, None, None, None, 'stop']
    """

    def __init__(self, tokens: Tokenizer, stops: Sequence[str], piece: Callable[[int], str] | None = None) -> None:
        self._tokens = tokens
        self._piece = piece or (lambda number: tokens.decode([number]))
        self._stops, self._lasts, self._window = _looked_for(tuple(stops))
        self._seen: list[int] = []

    def pass_over(self, numbers: Sequence[int]) -> None:
        """Tokens of which none can be an end."""
        self._seen += numbers

    def see_all(self, numbers: Sequence[int]) -> Literal["stop", "eos"] | None:
        """Several tokens at once, of which only the last may be an end."""
        self._seen += numbers[:-1]
        return self.see(numbers[-1])

    def see(self, number: int) -> Literal["stop", "eos"] | None:
        if number in self._tokens.end_ids:
            return "eos"
        if not self._stops:
            return None
        self._seen.append(number)
        piece = self._piece(number)
        if not piece:
            self._window += 1  # a marker, or a space that shows only among others
        elif BROKEN not in piece and not any(last in piece for last in self._lasts):
            return None
        text = self._tokens.decode(self._seen[-self._window :])
        return "stop" if any(stop in text for stop in self._stops) else None
