"""Demonstrations as ids, each encoded when it is first asked for: training begins at once, however many there are.

    lessons = Lessons(read_demos(file), tokens)
    lessons.ahead([7, 3])            # another thread encodes these meanwhile
    lessons[7]                       # the same as `encode` of the demonstration, now or later

What was encoded is kept in seven bytes a token instead of the text; which were encoded before, and when, makes no
difference to any. Needs no torch. Knows nothing of batches or of the order in which it is asked.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, overload

from kgwalk.llm.hf_tokens import HfTokenizer
from kgwalk.training.demos.demo import Demo, encode
from kgwalk.types import Flat

AT_ONCE = 64  # demonstrations: some hundred texts, enough for all cores and few beside those that a tokenizer keeps


class _Kept(NamedTuple):
    """A Flat in little room; its log-probabilities are all 0."""

    ids: array[int]
    mask: bytes
    turn_index: array[int]

    @classmethod
    def of(cls, flat: Flat) -> _Kept:
        return cls(array("i", flat.ids), bytes(flat.mask), array("h", flat.turn_index))

    def flat(self) -> Flat:
        return Flat(list(self.ids), list(self.mask), [0.0] * len(self.ids), list(self.turn_index))


class Lessons(Sequence[Flat]):
    """`names` are the demonstrations' ids, in their order."""

    def __init__(self, demos: Iterable[Demo], tokens: HfTokenizer) -> None:
        self._tokens = tokens
        self._all: list[Demo | _Kept] = []
        self.names: list[str] = []
        kinds: dict[tuple[str, ...], int] = {}
        for number, demo in enumerate(demos):
            self._all.append(demo)
            self.names.append(demo.id)
            kinds.setdefault(tuple(message["role"] for message in demo.messages), number)
        self._thread = ThreadPoolExecutor(1, "lessons")
        self._coming: Future[None] | None = None
        self._encode(list(kinds.values()))  # a chat template that refuses such roles says so now, not hours later

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, number: int) -> Flat: ...
    @overload
    def __getitem__(self, number: slice) -> list[Flat]: ...
    def __getitem__(self, number: int | slice) -> Flat | list[Flat]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        self._wait()
        if isinstance(self._all[number], Demo):
            self._encode([number])
        kept = self._all[number]
        assert isinstance(kept, _Kept)
        return kept.flat()

    def ahead(self, numbers: Sequence[int]) -> None:
        """These will be asked for: they are encoded by another thread, together. What goes wrong is raised to whoever
        asks for a lesson, or for others ahead.
        """
        self._wait()
        missing = [number for number in numbers if isinstance(self._all[number], Demo)]
        if missing:
            self._coming = self._thread.submit(self._encode, missing)

    def _wait(self) -> None:
        coming, self._coming = self._coming, None
        if coming is not None:
            coming.result()

    def _encode(self, numbers: Sequence[int]) -> None:
        for start in range(0, len(numbers), AT_ONCE):
            some = [(number, self._all[number]) for number in numbers[start : start + AT_ONCE]]
            demos = {number: demo for number, demo in some if isinstance(demo, Demo)}
            self._tokens.foresee(partial(_encoded, demos.values()))
            for number, flat in zip(demos, _encoded(demos.values(), self._tokens), strict=True):
                self._all[number] = _Kept.of(flat)


def _encoded(demos: Iterable[Demo], tokens: HfTokenizer) -> list[Flat]:
    return [encode(demo, tokens) for demo in demos]
