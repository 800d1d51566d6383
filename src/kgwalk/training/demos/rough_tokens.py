"""A tokenizer for when the learner's own is not at hand: four bytes of UTF-8 are a token, which is about right.

It serves to cut observations and bound lengths while demos are made. No model has these ids.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import ClassVar

from kgwalk.agent.counted import BYTES_A_TOKEN
from kgwalk.types import Message

_PAD = b"\xff"  # no byte of UTF-8


class RoughTokenizer:
    """
    >>> tokens = RoughTokenizer()
    >>> len(tokens.encode("who directed Big?")), tokens.decode(tokens.encode("who directed Big?"))
    (5, 'who directed Big?')
    """

    END = 1 << 32
    end_ids = frozenset({END})
    _ROLES: ClassVar = {"system": END + 1, "user": END + 2, "assistant": END + 3}

    def encode(self, text: str) -> list[int]:
        data = text.encode("utf-8", "surrogatepass")
        return memoryview(data + _PAD * (-len(data) % BYTES_A_TOKEN)).cast("I").tolist()

    def decode(self, ids: Sequence[int]) -> str:
        words = array("I", [number for number in ids if number < self.END]).tobytes()
        return words.replace(_PAD, b"").decode("utf-8", "replace")

    def open_chat(self, messages: Sequence[Message]) -> list[int]:
        ids: list[int] = []
        for message in messages:
            ids += [self._ROLES[message.role], *self.encode(message.content), self.END]
        return [*ids, self._ROLES["assistant"]]

    def next_turn(self, text: str, *, ended: bool) -> list[int]:
        closing = [] if ended else [self.END]
        return [*closing, self._ROLES["user"], *self.encode(text), self.END, self._ROLES["assistant"]]
