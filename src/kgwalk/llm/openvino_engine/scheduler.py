"""Runs a paged model for many requests at once, in a thread of its own: rows join and leave between passes.

A pass takes the next token of every row that waits for one, and as many tokens of new prompts as fit beside them. A
prompt that begins like one that is being computed waits for it, and shares its blocks. Where rows are few, a pass takes
guesses of the tokens after them too, and what the model would not have chosen is dropped. A failing pass fails the
requests under way and is logged; the next request starts afresh. Knows nothing of event loops or of OpenVINO.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kgwalk.llm.engine import ActiveRequest, Generation
from kgwalk.llm.openvino_engine.blocks import BlockTable, Held
from kgwalk.llm.openvino_engine.prompt_lookup import Followers, guess
from kgwalk.llm.torch_engine.sequence import common_length
from kgwalk.types import EngineError

# ----------------------------------------------------------------------------------------------------
# Which token comes next, without torch: the local engine's rules on NumPy arrays, with the same draws.
#
# Knows nothing of requests or models. Shape: V tokens of the vocabulary.


FloatArray = NDArray[np.floating]


def choose(logits_V: FloatArray, temperature: float, top_p: float, draw: float) -> tuple[int, float]:
    """A token, and its log-probability at temperature 1 without top_p.

    Temperature 0 takes the likeliest token. Else the tokens are laid end to end on [0, 1), each as long as it is
    likely, and the draw points to one: in the vocabulary's order, or with top_p in that of likelihood.

    With probabilities 0.5, 0.1 and 0.4 a draw of 0.55 points into [0.5, 0.6), the second token's part:

    >>> number, logprob = choose(np.log(np.array([0.5, 0.1, 0.4])), 1.0, 1.0, 0.55)
    >>> number, round(float(np.exp(logprob)), 6)
    (1, 0.1)
    """
    numbers_V = logits_V.astype(np.float64)
    top = float(numbers_V.max())
    chosen = int(numbers_V.argmax()) if temperature == 0 else _pointed((numbers_V - top) / temperature, top_p, draw)
    logprob = float(numbers_V[chosen]) - top - float(np.log(np.exp(numbers_V - top).sum()))
    return chosen, logprob


def _pointed(scaled_V: NDArray[np.float64], top_p: float, draw: float) -> int:
    lengths_V = np.exp(scaled_V)
    if top_p >= 1:
        return _point(lengths_V, draw)
    order = np.argsort(-lengths_V, kind="stable")
    likely = lengths_V[order] / lengths_V.sum()
    before = np.cumsum(likely) - likely  # the fewest likeliest tokens that have top_p together; there is always one
    return int(order[_point(np.where(before < top_p, likely, 0.0), draw)])


def _point(lengths_V: NDArray[np.float64], draw: float) -> int:
    ends = np.cumsum(lengths_V)
    return min(int(np.searchsorted(ends, draw * ends[-1], side="right")), len(ends) - 1)


log = logging.getLogger(__name__)

OWN = 2048  # of a row's last tokens that its guesses come from; to note so many takes 3 ms


class Model(Protocol):
    """What a runner asks of a model; `PagedModel` is one."""

    def reserve(self, blocks: int) -> None: ...
    def release(self) -> None: ...
    def wipe(self, blocks: Sequence[int]) -> None: ...
    def forward(
        self, rows: Sequence[tuple[Sequence[int], int, Sequence[int]]], wanted: Sequence[int]
    ) -> NDArray[np.float32]: ...


@dataclass(slots=True, eq=False)
class PagedSequence(ActiveRequest):
    """A request under way."""

    future: Future[Generation] = field(default_factory=Future)
    held: Held = field(default_factory=Held)
    own: Followers = field(default_factory=Followers)
    noted: int = 0  # of `ids`, those that `own` knows

    @property
    def todo(self) -> list[int]:
        """Tokens that the model has not seen; the last chosen one, at least."""
        return self.ids[len(self.held.ids) :]


class Runner:
    """`batch` rows at once; at most `group` new tokens in one pass, and `guesses` beside a row that is alone.

    `computed` counts the tokens that went through the model and were kept; of `guessed` tokens, `right` ones were.
    """

    def __init__(self, model: Model, table: BlockTable, *, batch: int, group: int, guesses: int = 0) -> None:
        self._model, self._table, self._batch, self._group, self._guesses = model, table, batch, group, guesses
        self.computed = self.guessed = self.right = 0
        self._written = Followers()
        self._came: list[PagedSequence] = []
        self._forgotten: list[str] = []
        self._waiting: list[PagedSequence] = []
        self._rows: list[PagedSequence] = []
        self._closed = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._main, name="kgwalk-cpu", daemon=True)
        self._thread.start()

    # Called from other threads.

    def submit(self, row: PagedSequence) -> Future[Generation]:
        with self._wake:
            if self._closed:
                raise EngineError("the engine is closed")
            self._came.append(row)
            self._wake.notify()
        return row.future

    def forget(self, session: str) -> None:
        with self._wake:
            self._forgotten.append(session)
            self._wake.notify()

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def kept(self) -> list[str]:
        """The sessions whose tokens are held, for tests and for the curious."""
        return [one.session for one in list(self._table.held) if one.session]

    # The thread.

    def _main(self) -> None:
        try:
            while self._take_in():
                try:
                    self._round()
                except Exception as error:
                    log.exception("the model failed with %d requests under way", len(self._rows))
                    self._start_over(EngineError(f"the model failed: {type(error).__name__}: {error}"))
        finally:
            with self._wake:
                self._closed = True
                self._waiting += self._came
                self._came = []
            self._start_over(EngineError("the engine was closed"))

    def _take_in(self) -> bool:
        """Wait for something to do, and note what has come; False when it is time to stop."""
        with self._wake:
            while not (self._came or self._forgotten or self._rows or self._waiting or self._closed):
                self._wake.wait()
            self._waiting += self._came
            forgotten, self._came, self._forgotten = self._forgotten, [], []
            closed = self._closed
        for session in forgotten:
            self._table.forget(session)
        return not closed

    def _round(self) -> None:
        self._waiting = [row for row in self._waiting if not row.future.done()]
        for row in [row for row in self._rows if row.future.done()]:  # whoever asked has gone
            self._leave(row)
        self._admit()
        if self._rows:
            self._pass(self._next_rows())

    def _admit(self) -> None:
        """Those whose session is held first: they cost least, and end sooner."""
        self._waiting.sort(key=lambda row: self._table.of(row.session) is None)
        for row in list(self._waiting):
            if len(self._rows) == self._batch:
                return
            if self._spared_by_waiting(row):
                continue
            held = self._table.take(row.session, row.ids, len(row.ids) + row.most)
            if held is None:
                if self._rows:
                    return  # until one of them leaves
                raise RuntimeError(f"no blocks for {len(row.ids) + row.most} tokens with nobody at work")
            row.held = held
            self._model.reserve(self._table.count)
            self._waiting.remove(row)
            self._rows.append(row)

    def _spared_by_waiting(self, row: PagedSequence) -> bool:
        """Whether a prompt under way will hold a block more of this one's beginning than anyone does now."""
        behind = [other for other in self._rows if len(other.todo) > 1]
        if not behind:
            return False
        known = self._table.of(row.session)
        now = max(self._table.shared(row.ids), 0 if known is None else common_length(known.ids, row.ids))
        soon = max(common_length(other.ids[:-1], row.ids) for other in behind)
        return soon >= now + self._table.size

    def _next_rows(self) -> list[tuple[PagedSequence, list[int]]]:
        """What the next pass computes of each row; rows that wait for their next token come before prompts."""
        left = self._group
        chosen: list[tuple[PagedSequence, list[int]]] = []
        for row in sorted(self._rows, key=lambda row: len(row.todo) > 1):
            new = row.todo[: max(left, 0)]
            if new:
                chosen.append((row, new))
                left -= len(new)
        return chosen

    def _pass(self, rows: list[tuple[PagedSequence, list[int]]]) -> None:
        ahead = self._ahead(rows)
        passes = [
            ([*new, *guesses], len(row.held.ids), row.held.blocks)
            for (row, new), guesses in zip(rows, ahead, strict=True)
        ]
        wanted = [1 + len(guesses) for guesses in ahead]
        logits_PV = self._model.forward(passes, wanted)
        for (row, new), guesses, end in zip(rows, ahead, np.cumsum(wanted), strict=True):
            self.computed += len(new)
            self.guessed += len(guesses)
            row.held.ids += new
            if not row.todo:
                self._choose_all(row, guesses, logits_PV[end - 1 - len(guesses) : end])

    def _ahead(self, rows: list[tuple[PagedSequence, list[int]]]) -> list[list[int]]:
        """Guesses for each row, dealt in turn: a row more is a guess less, so that a pass has no more tokens than with
        one row. With 3 guesses and two rows each has one; with four rows there are none.
        """
        room = 1 + self._guesses - len(rows)
        return [self._guess(row, new, len(range(at, room, len(rows)))) for at, (row, new) in enumerate(rows)]

    def _guess(self, row: PagedSequence, new: list[int], count: int) -> list[int]:
        count = min(count, row.most - len(row.logprobs) - 1)  # beside the one that is chosen in any case
        if count <= 0 or len(new) < len(row.todo):
            return []
        row.own.note(row.ids, max(row.noted, len(row.ids) - OWN))
        row.noted = len(row.ids)
        return guess(row.ids, (self._written, row.own), count)

    def _choose_all(self, row: PagedSequence, guesses: list[int], logits_KV: NDArray[np.float32]) -> None:
        """The model's choice after the last token, and after each guess for as long as the guesses are its choices."""
        for right, logits_V in enumerate(logits_KV):
            self._choose(row, logits_V)
            if right == len(guesses) or row.future.done() or row.ids[-1] != guesses[right]:
                return
            row.held.ids.append(row.ids[-1])
            self.computed += 1
            self.right += 1

    def _choose(self, row: PagedSequence, logits_V: NDArray[np.float32]) -> None:
        sampling = row.sampling
        draw = row.draws[len(row.logprobs)] if row.draws else 0.0
        number, logprob = choose(logits_V, sampling.temperature, sampling.top_p, draw)
        if not math.isfinite(logprob):
            self._model.wipe(row.held.blocks)
            row.held.ids = []
            self._leave(row)
            _settle(row.future, EngineError("the model's numbers overflowed (NaN); its weights may be broken"))
            return
        row.ids.append(number)
        row.logprobs.append(logprob)
        finish = row.watch.end(row.ids, row.prompt) or ("length" if len(row.logprobs) == row.most else None)
        if finish is not None:
            self._leave(row)
            if self._guesses:
                self._written.note(row.ids, row.prompt)
            _settle(row.future, Generation(row.ids[row.prompt :], row.logprobs, finish))

    def _leave(self, row: PagedSequence) -> None:
        self._rows.remove(row)
        self._table.release(row.held)

    def _start_over(self, error: EngineError) -> None:
        rows, self._rows = self._rows + self._waiting, []
        self._waiting = []
        self._table.clear()
        self._model.release()
        for row in rows:
            _settle(row.future, error)


def _settle(future: Future[Generation], outcome: Generation | EngineError) -> None:
    try:
        if isinstance(outcome, Generation):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)
    except InvalidStateError:
        pass  # whoever asked has gone
