"""What a process and its workers tell each other, as plain tuples; numbers travel as the bytes of arrays.

    process -> worker: Prepare, Places, Walk, list of Reply
    worker -> process: list of Wanted, Forget, Done, Unfit, Failed

Needs no torch. Knows nothing of sockets.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

from kgwalk.llm.engine import Sampling
from kgwalk.types import Question

IDS, REALS, MARKS = "i", "d", "q"  # types of arrays: 4, 8 and 8 bytes a number


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


class Wanted(NamedTuple):
    """A request to the engine, checked and with its luck drawn: all that can be done before a model is needed."""

    number: int
    session: str
    most: int
    ids: bytes
    draws: bytes
    marks: bytes


class Reply(NamedTuple):
    """What came of a request: tokens, log-probabilities and how it ended; or, with `error`, why nothing came of it."""

    number: int
    ids: list[int]
    logprobs: list[float]
    finish: Any
    error: str | None = None


class Forget(NamedTuple):
    """These sessions are over."""

    sessions: list[str]


class Done(NamedTuple):
    """Packed episodes that have ended."""

    episodes: list[tuple[Any, ...]]


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


def unpacked(kind: str, data: bytes) -> array[Any]:
    numbers: array[Any] = array(kind)
    numbers.frombytes(data)
    return numbers
