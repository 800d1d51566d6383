"""Text to token ids and back, with the chat's own markers as tokens that no text can forge.

`ByteTokenizer` needs no files: a token a byte, and five markers. It serves scripted episodes, tests, and engines that
send text. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol, runtime_checkable

from kgwalk.types import Message


@runtime_checkable
class Tokenizer(Protocol):
    @property
    def end_ids(self) -> frozenset[int]:
        """Tokens by which a model ends its message."""
        ...

    def encode(self, text: str) -> list[int]:
        """Plain text: what looks like a marker in it is text, too."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids; markers have none."""
        ...

    def open_chat(self, messages: Sequence[Message]) -> list[int]:
        """The prompt: the messages, and the beginning of the assistant's next one."""
        ...

    def next_turn(self, text: str, *, ended: bool) -> list[int]:
        """After the assistant: close its message (unless it `ended` it itself), say text, let it speak again."""
        ...


class ByteTokenizer:
    """UTF-8 bytes as tokens 0 to 255, then the markers.

    >>> tokens = ByteTokenizer()
    >>> tokens.open_chat([Message("user", "hi")])
    [257, 104, 105, 259, 258]
    >>> tokens.next_turn("ok", ended=False)
    [259, 257, 111, 107, 259, 258]
    """

    SYSTEM, USER, ASSISTANT, END = 256, 257, 258, 259
    size = 260
    end_ids = frozenset({END})
    _ROLES: ClassVar = {"system": SYSTEM, "user": USER, "assistant": ASSISTANT}

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "surrogatepass"))

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(number for number in ids if number < 256).decode("utf-8", "replace")

    def open_chat(self, messages: Sequence[Message]) -> list[int]:
        ids: list[int] = []
        for message in messages:
            ids += [self._ROLES[message.role], *self.encode(message.content), self.END]
        return [*ids, self.ASSISTANT]

    def next_turn(self, text: str, *, ended: bool) -> list[int]:
        closing = [] if ended else [self.END]
        return [*closing, self.USER, *self.encode(text), self.END, self.ASSISTANT]
