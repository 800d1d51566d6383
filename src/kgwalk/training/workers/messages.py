"""What a process and its workers tell each other; numbers travel as the bytes of arrays.

    process -> worker: Prepare, Places, Walk, list of Reply
    worker -> process: list of Wanted, Forget, Done, Unfit, Failed

What comes by the thousand is a plain tuple, which pickle makes several times as quickly as one with names.

Needs no torch. Knows nothing of sockets.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from kgwalk.llm.engine import Sampling
from kgwalk.types import Question

IDS, REALS, MARKS = "i", "d", "q"  # types of arrays: 4, 8 and 8 bytes a number

# A request to the engine, checked and with its luck drawn, which is all that can be done before a model is needed:
# its number, its session, tokens to choose, tokens at its beginning that the other end has from the session's last
# request and reply, the ids after them, draws and marks.
Wanted = tuple[int, str, int, int, bytes, bytes, bytes]
# What came of a request: its number, tokens, log-probabilities and how it ended; or why nothing came of it.
Reply = tuple[int, list[int], list[float], Any, str | None]


class Prepare(NamedTuple):
    """The first message: a pickled `Luggage`."""

    luggage: bytes


class Places(NamedTuple):
    """Pickled worlds, which later messages call by number."""

    number: int
    worlds: bytes


class Walk(NamedTuple):
    """Episodes to walk: each has its place among all that were asked for, its question among `questions`, and a key."""

    worlds: int
    sampling: Sampling
    questions: list[Question]
    asked: list[tuple[int, int, str]]


class Forget(NamedTuple):
    """These sessions are over."""

    sessions: list[str]


class Done(NamedTuple):
    """So many episodes have ended: `pack_episodes` of them, to be unpacked when there is time."""

    ended: int
    episodes: bytes


class Unfit(NamedTuple):
    """The worker cannot be given what walks need; whoever asked had better walk himself."""

    why: str


class Failed(NamedTuple):
    """A walk broke off. `ours`: by a bug, and `text` is its traceback."""

    text: str
    ours: bool


def packed(kind: str, numbers: Sequence[int] | Sequence[float]) -> bytes:
    """
    >>> unpacked(IDS, packed(IDS, [7, 8])).tolist()
    [7, 8]
    """
    return array(kind, numbers).tobytes()


@lru_cache(maxsize=512)
def unpacked_prompt(data: bytes) -> tuple[int, ...]:
    """The ids of a prompt, which comes with each rollout of a question, twice; where all have the same objects for
    numbers, lists of them are compared at once.
    """
    return tuple(unpacked(IDS, data))


def unpacked(kind: str, data: bytes) -> Any:
    """The numbers where they lie: a memoryview, which type checkers take for one of integers."""
    return memoryview(data).cast(kind)  # type: ignore[call-overload,unused-ignore]
