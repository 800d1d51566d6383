"""Runs a model for many requests at once, in a thread of its own: rows join and leave between steps.

Each round takes in what has come, computes one group of new tokens (whole prompts, or what is new since a session's
last turn), and then one step for all rows that wait for their next token. A failing step fails the requests under way
and is logged; the next request starts afresh. Knows nothing of event loops: results go to futures, from this thread.
In lockstep there is no thread: whoever asks runs the rounds, so that which rows run together never depends on time.
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections import deque
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field

import torch

from kgwalk.llm.choosing import choose
from kgwalk.llm.engine import Generation, Sampling
from kgwalk.llm.slot_model import SlotModel
from kgwalk.llm.slots import WORTH_COPYING, Slot, SlotTable, common_length, first_apart
from kgwalk.llm.stop_watch import StopWatch
from kgwalk.types import EngineError

log = logging.getLogger(__name__)

# Seconds for which a session's cache is safe from new sessions while there is other work: most tools answer sooner, and
# to compute a context anew costs more than to wait for them.
SAFE_SECONDS = 1.0
FEW = 8  # rows with new tokens are few if they are fewer than an eighth of all


@dataclass(slots=True, eq=False)
class Row:
    """A request under way. `ids` is the context and, after the first `prompt` of them, what was chosen so far."""

    ids: list[int]
    sampling: Sampling
    most: int  # tokens to choose
    draws: list[float]
    watch: StopWatch
    session: str
    prompt: int = 0
    logprobs: list[float] = field(default_factory=list)
    future: Future[Generation] = field(default_factory=Future)
    slot: Slot | None = None

    def __post_init__(self) -> None:
        self.prompt = len(self.ids)

    @property
    def held(self) -> int:
        return 0 if self.slot is None else len(self.slot.ids)

    @property
    def todo(self) -> int:
        """Tokens that the model has not seen; the last chosen one, at least."""
        return len(self.ids) - self.held


class Batcher:
    """`batch` rows at once; at most `group` new tokens in one pass before the steps go on.

    `patience` is for how many steps a few rows with new tokens may be kept waiting for more of them to come: where a
    pass costs the same for one row as for many, it is better made for many. In `lockstep`, `turn` runs a round.
    """

    def __init__(
        self, model: SlotModel, *, batch: int, slots: int, group: int, patience: int, lockstep: bool = False
    ) -> None:
        self._model, self._batch, self._group, self._patience = model, batch, group, patience
        self._lockstep = lockstep
        self._releases = itertools.count(1)
        self._waited = 0
        self.submitted = 0
        self._table = SlotTable(slots)
        self._came: deque[Row] = deque()
        self._forgotten: deque[str] = deque()
        self._wake = threading.Condition()
        self._waiting: list[Row] = []
        self._rows: list[Row] = []
        self._closed = self._clear = False
        self._thread: threading.Thread | None = None
        if not lockstep:
            self._thread = threading.Thread(target=self._main, name="kgwalk-model", daemon=True)
            self._thread.start()

    # Called from other threads.

    def submit(self, row: Row) -> Future[Generation]:
        with self._wake:
            if self._closed:
                raise EngineError("the engine is closed")
            self._came.append(row)
            self.submitted += 1
            self._wake.notify()
        return row.future

    def forget(self, session: str) -> None:
        with self._wake:
            self._forgotten.append(session)
            self._wake.notify()

    def clear(self) -> None:
        """What is cached no longer holds: the weights have changed."""
        with self._wake:
            self._clear = True
            self._wake.notify()

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is None:
            self._end()
        elif self._thread is not threading.current_thread():
            self._thread.join()

    def turn(self) -> bool:
        """One round, in lockstep; False if there was nothing to do."""
        assert self._lockstep
        if not self._something() or not self._take_in():
            return False
        self._try_round()
        return True

    def kept(self) -> list[str]:
        """The sessions that have a slot, for tests and for the curious."""
        return [slot.session for slot in list(self._table.slots) if slot.session]

    # The thread.

    def _main(self) -> None:
        try:
            while self._take_in():
                self._try_round()
        finally:
            self._end()

    def _try_round(self) -> None:
        try:
            self._round()
        except Exception as error:
            log.exception("the model failed with %d requests under way", len(self._rows))
            self._start_over(EngineError(f"the model failed: {type(error).__name__}: {error}"))

    def _end(self) -> None:
        with self._wake:
            self._closed = True
            self._waiting += self._came
            self._came.clear()
        self._start_over(EngineError("the engine was closed"))

    def _something(self) -> bool:
        return bool(self._came or self._forgotten or self._clear or self._rows or self._waiting or self._closed)

    def _take_in(self) -> bool:
        """Wait for something to do, and note what has come; False when it is time to stop."""
        with self._wake:
            while not self._something():
                self._wake.wait()
            self._waiting += self._came
            self._came.clear()
            forgotten, self._forgotten = self._forgotten, deque()
            clear, self._clear = self._clear and not self._rows, self._clear and bool(self._rows)
            closed = self._closed
        for session in forgotten:
            self._table.forget(session)
        if clear:
            self._clear_cache()
        return not closed

    def _clear_cache(self) -> None:
        """In lockstep all is as in a new engine: the cache's size, too, has a say in how sums are rounded."""
        if self._lockstep:
            self._table = SlotTable(self._table.most)
            self._model.release()
            return
        self._table.clear()
        self._model.weights_changed()

    def _round(self) -> None:
        self._drop_cancelled()
        if not self._clear:  # else those under way are finished first
            self._admit()
        behind = [row for row in self._rows if row.todo > 1]
        few = len(behind) * FEW < len(self._rows)
        self._waited = self._waited + 1 if behind and few and self._waited < self._patience else 0
        if behind and not self._waited:
            self._compute(self._next_group(behind))
        ready = [row for row in self._rows if row.todo == 1]
        if ready:
            self._step(ready)

    def _drop_cancelled(self) -> None:
        self._waiting = [row for row in self._waiting if not row.future.done()]
        for row in [row for row in self._rows if row.future.done()]:
            self._leave(row)

    def _admit(self) -> None:
        """Those whose session has a slot first: they cost least, and end sooner."""
        self._waiting.sort(key=lambda row: self._table.of(row.session) is None)
        safe = bool(self._rows) and not self._lockstep
        idle_since = time.monotonic() - SAFE_SECONDS if safe else math.inf
        admitted = 0
        for row in self._waiting[: self._batch - len(self._rows)]:
            row.slot = self._table.take(row.session, idle_since=idle_since)
            if row.slot is None:
                break
            # At least one token is computed anew: its logits are what is wanted.
            del row.slot.ids[min(common_length(row.slot.ids, row.ids), len(row.ids) - 1) :]
            self._rows.append(row)
            admitted += 1
        del self._waiting[:admitted]

    def _next_group(self, behind: list[Row]) -> list[Row]:
        """Of the rows with more than one token to compute: the one that waits for longest, and those with about as
        many, so that little is filled up. A row that begins like one of the group waits a round, and copies.
        """
        self._copy_beginnings(behind)
        behind = [row for row in behind if row.todo > 1]
        behind = [behind[number] for number in first_apart((row.ids, row.held) for row in behind)]
        group = behind[:1]
        for row in behind[1:]:
            longest = max(row.todo, *(other.todo for other in group))
            if (len(group) + 1) * longest <= self._group and longest <= 2 * min(row.todo, group[0].todo):
                group.append(row)
        return group

    def _copy_beginnings(self, rows: list[Row]) -> None:
        """What another slot holds of a row's beginning need not be computed."""
        found = [(row, self._table.longest_beginning(row.ids[:-1], row.held + WORTH_COPYING - 1)) for row in rows]
        copies = [(row, *source) for row, source in found if source is not None]
        if copies:
            pairs = [(source.index, row.slot.index) for row, source, _ in copies if row.slot is not None]
            self._model.copy(pairs, max(common for _, _, common in copies))
            for row, _, common in copies:
                assert row.slot is not None
                row.slot.ids = row.ids[:common]

    def _compute(self, group: list[Row]) -> None:
        """The next tokens of each row; those that have no more to compute get their next token chosen."""
        if not group:
            return
        most = max(1, self._group // len(group))
        new = [row.ids[row.held : row.held + most] for row in group]
        slots = [row.slot for row in group if row.slot is not None]
        logits = self._model.forward([slot.index for slot in slots], new, [len(slot.ids) for slot in slots])
        for slot, ids in zip(slots, new, strict=True):
            slot.ids += ids
        done = [number for number, row in enumerate(group) if row.todo == 0]
        if done:
            self._choose([group[number] for number in done], logits[done])

    def _step(self, ready: list[Row]) -> None:
        """One token for each row. The slots before and between theirs come along, for nothing: the cache can then be
        used as it lies.
        """
        self._move_together(ready)
        slots = [row.slot for row in ready if row.slot is not None]
        ids = [0] * (max(slot.index for slot in slots) + 1)
        for slot, row in zip(slots, ready, strict=True):
            ids[slot.index] = row.ids[-1]
        logits = self._model.step(ids, [len(slot.ids) for slot in self._table.slots])
        for slot, row in zip(slots, ready, strict=True):
            slot.ids.append(row.ids[-1])
        places = [slot.index for slot in slots]
        self._choose(ready, logits if places == list(range(len(logits))) else logits[places])

    def _move_together(self, ready: list[Row]) -> None:
        """Exchange slots until few come along for nothing."""
        slots = [row.slot for row in ready if row.slot is not None]
        at_work = {id(slot) for slot in slots}
        while True:
            last = max(slots, key=lambda slot: slot.index)
            if last.index < self._model.room(len(slots)):
                return
            hole = next(slot for slot in self._table.slots if id(slot) not in at_work)
            self._model.swap(last.index, hole.index, max(len(last.ids), len(hole.ids), 1))
            self._table.exchange(last, hole)

    def _choose(self, rows: list[Row], logits: torch.Tensor) -> None:
        ids, logprobs = choose(
            logits,
            [row.sampling.temperature for row in rows],
            [row.sampling.top_p for row in rows],
            [row.draws[len(row.logprobs)] if row.draws else 0.0 for row in rows],
        )
        for row, number, logprob in zip(rows, ids, logprobs, strict=True):
            if not math.isfinite(logprob):
                self._fail(row)
                continue
            row.ids.append(number)
            row.logprobs.append(logprob)
            finish = row.watch.see(number) or ("length" if len(row.logprobs) == row.most else None)
            if finish is not None:
                self._leave(row)
                _settle(row.future, Generation(row.ids[row.prompt :], row.logprobs, finish))

    def _fail(self, row: Row) -> None:
        assert row.slot is not None
        slot = row.slot
        self._leave(row)
        self._model.wipe(slot.index)
        slot.ids = []
        _settle(row.future, EngineError("the model's numbers overflowed (NaN); try dtype float32 or bfloat16"))

    def _leave(self, row: Row) -> None:
        assert row.slot is not None
        self._rows.remove(row)
        # two that end in the same tick of the clock would be of an age: in lockstep they are counted
        self._table.release(row.slot, next(self._releases) if self._lockstep else time.monotonic())

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
