"""Messages over a local stream: the length of each in eight bytes, then the message.

The two ends are a process and the workers that it started, over a socket that nobody else has: messages are pickles of
plain tuples. Nothing of this is ever written to a file. Knows nothing of what they say.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any

_LENGTH = struct.Struct("!Q")


def framed(message: Any) -> bytes:
    """A message as it goes over the stream."""
    body = pickle.dumps(message, protocol=5)
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Bytes in, as they come; whole messages out.

    >>> frames, both = Frames(), framed("one") + framed(("two", 2))
    >>> frames.feed(both[:30]), frames.feed(both[30:])
    (['one'], [('two', 2)])
    """

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, more: bytes) -> list[Any]:
        """The messages that are complete now."""
        self._bytes += more
        found, at = [], 0
        while len(self._bytes) >= at + _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes, at)
            end = at + _LENGTH.size + length
            if len(self._bytes) < end:
                break
            with memoryview(self._bytes) as view:
                found.append(pickle.loads(view[at + _LENGTH.size : end]))
            at = end
        if at:
            del self._bytes[:at]
        return found
