"""The rows that a model works on: who waits for a slot, whose tokens are to be computed, and who chooses tokens.

A round begins by admitting those that wait, computing new tokens of some rows (whole prompts, or what is new since a
session's last turn), and some steps for all that choose; it ends by reading what they chose. On a GPU a round's results
are read while it works on the next one. Knows neither threads nor event loops: `batcher` runs the rounds.
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kgwalk.llm.engine import Generation
from kgwalk.llm.torch_engine.kv_cache import KINDS, SlotStart
from kgwalk.llm.torch_engine.model import STEPS, Chosen, Job, SlotModel
from kgwalk.llm.torch_engine.prefix_cache import Sharing
from kgwalk.llm.torch_engine.sequence import Ended, IdArray, OutputBuffer, SlotSequence, SlotTable
from kgwalk.types import EngineError

# Seconds for which a session's cache is safe from new sessions while there is other work: most tools answer sooner, and
# to compute a context anew costs more than to wait for them.
SAFE_SECONDS = 1.0
FEW = 8  # rows with new tokens are few if they are fewer than an eighth of all


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """`batch` rows at once in `slots` slots; at most `group` new tokens in one pass before the steps go on, `steps` of
    them a round.

    `patience` is for how many rounds a few rows with new tokens may be kept waiting for more of them to come: where a
    pass costs the same for one row as for many, it is better made for many. `ahead`: rounds that are begun before the
    results of the one before are read. In `lockstep` which rows run together never depends on time.
    """

    batch: int
    slots: int
    group: int
    patience: int
    steps: int = 1
    ahead: int = 0
    lockstep: bool = False


class Working:
    """`ended` are the rows that have ended since it was last emptied; `times` what the rounds took, in seconds."""

    def __init__(self, model: SlotModel, pace: SchedulerLimits) -> None:
        self._model, self._pace = model, pace
        self._batch = min(pace.batch, model.most_slots)
        self.table = SlotTable(min(pace.slots, model.most_slots))
        self._releases = itertools.count(1)
        self._waited = 0
        self._sharing = Sharing()
        self.waiting: list[SlotSequence] = []
        self._behind: list[SlotSequence] = []  # admitted, with tokens to compute
        self._running: dict[int, SlotSequence] = {}  # by slot: those that choose
        self._written = OutputBuffer(model.most_slots, steps=STEPS)
        self._unread: deque[tuple[Chosen, tuple[IdArray, IdArray]]] = deque()
        self.ended: list[Ended] = []
        self.times: dict[str, float] = dict.fromkeys(("take_in", "prefill", "steps", "wait", "read"), 0.0)

    @property
    def count(self) -> int:
        """Of the rows that have a slot."""
        return len(self._behind) + len(self._running)

    @property
    def under_way(self) -> bool:
        return bool(self._behind or self._running or self._unread)

    def clear(self, refresh: Callable[[], None]) -> None:
        """What is cached no longer holds; `refresh` puts new weights in place. Nothing may be under way.

        In lockstep on a CPU all is as in a new engine: the cache's size, too, has a say in how sums are rounded.
        """
        self._sharing.clear()
        refresh()
        if self._pace.lockstep and not self._model.on_gpu:
            self.table = SlotTable(self.table.most)
            self._model.release()
            return
        self.table.clear()
        self._model.weights_changed()

    def begin_round(self, *, admit: bool) -> None:
        """Without `admit`, those under way are finished first."""
        started = time.perf_counter()
        self._drop_cancelled()
        if admit:
            self._admit()
        admitted = time.perf_counter()
        few = len(self._behind) * FEW < len(self._running)
        self._waited = self._waited + 1 if self._behind and few and self._waited < self._pace.patience else 0
        if self._behind and not self._waited:
            self._compute()
        computed = time.perf_counter()
        if self._running:
            self._step()
        self.times["take_in"] += admitted - started
        self.times["prefill"] += computed - admitted
        self.times["steps"] += time.perf_counter() - computed

    def end_round(self) -> None:
        started = time.perf_counter()
        while self._to_read():
            self._read()
        self.times["read"] += time.perf_counter() - started

    def there(self) -> bool:
        """Whether the round can be ended without waiting for the device."""
        return not self._to_read() or self._unread[0][0].there()

    def fail(self, error: EngineError) -> None:
        """All that wait or are under way have ended so."""
        rows = [*self._behind, *self._running.values(), *self.waiting]
        self._behind, self.waiting = [], []
        self._running.clear()
        self._unread.clear()
        self._sharing.clear()
        self.ended += [(row, error) for row in rows]

    def start_over(self) -> None:
        """With an empty cache, perhaps of fewer slots than before: the trainer has taken memory since."""
        self._model.release()
        most = self._model.most_slots
        self._batch, self.table = min(self._batch, most), SlotTable(min(self.table.most, most))
        self._written = OutputBuffer(most, steps=STEPS)

    def _to_read(self) -> bool:
        """With nothing begun there is nothing to be ahead of."""
        return len(self._unread) > (self._pace.ahead if self._running or self._behind else 0)

    def _drop_cancelled(self) -> None:
        self.waiting = [row for row in self.waiting if not row.cancelled()]
        gone = [row for row in (*self._behind, *self._running.values()) if row.cancelled()]
        if gone:
            self._halt([row for row in gone if row.slot is not None and row.slot.index in self._running])
            for row in gone:
                self._note(row)
                self._leave(row)

    def _halt(self, rows: list[SlotSequence]) -> None:
        if rows:
            self._model.state.leave([row.slot.index for row in rows if row.slot is not None], [0] * len(rows))

    def _admit(self) -> None:
        """Those whose session has a slot first: they cost least, and end sooner."""
        if not self.waiting:
            return
        self.waiting.sort(key=lambda row: self.table.of(row.session) is None)
        safe = self.under_way and not self._pace.lockstep
        idle_since = time.monotonic() - SAFE_SECONDS if safe else math.inf
        admitted = 0
        for row in self.waiting[: self._batch - len(self._running) - len(self._behind)]:
            slot = self.table.take(row.session, idle_since=idle_since)
            if slot is None:
                break
            row.work_in(slot)
            self._behind.append(row)
            admitted += 1
        del self.waiting[:admitted]

    def _compute(self) -> None:
        """The next tokens of rows that have some to compute, those that wait for longest first.

        A row that begins like another slot copies that; one that begins like another of the same pass waits a round,
        and copies.
        """
        jobs: list[Job] = []
        room = self._pace.group
        later: list[SlotSequence] = []
        started: dict[int, SlotSequence] = {}
        shares = self._sharing.of(self._behind)
        if shares.copies:
            self._model.copy(shares.copies)
        for row in shares.ready:
            slot = row.slot
            assert slot is not None
            if room <= 0 or len(jobs) == self._model.most_jobs:
                later.append(row)
                continue
            held = slot.held
            new = row.ids[held : held + room]
            room -= len(new)
            whole = held + len(new) == len(row.ids)
            jobs.append(Job(slot.index, new, held, self._start_of(row, len(row.ids)) if whole else None))
            slot.held += len(new)
            if whole:
                started[slot.index] = row
            else:
                later.append(row)
        self._behind = later + shares.deferred
        if not jobs:
            return
        self._running.update(started)
        starts = [job.then for job in jobs if job.then is not None]
        self._written.begin(list(started), [one.kind for one in starts], [one.most for one in starts])
        chosen = self._model.prefill(jobs)
        for row, job in zip(shares.ready, jobs, strict=False):
            self._sharing.computed(row, len(job.ids))
        if chosen is not None:
            self._unread.append((chosen, self._written.rows(chosen.slots_R)))

    def _start_of(self, row: SlotSequence, computed: int) -> SlotStart:
        assert row.slot is not None
        sampling, done = row.sampling, len(row.ids) - row.prompt
        count = min(row.most - done, self._model.most_draws)
        luck = row.draws[done : done + count]
        row.luck = done + count
        kind = self._model.kind_of(row.ends)
        row.halting = kind == KINDS
        return SlotStart(
            row.slot.index,
            row.ids[-1],
            computed,
            count,
            sampling.temperature,
            sampling.top_p,
            luck,
            kind,
        )

    def _step(self) -> None:
        rows = self._running.values()
        slots_R = np.fromiter(self._running, np.int64, len(rows))
        chosen = self._model.steps(
            slots_R,
            min(self._pace.steps, max(1, self._written.most_left(slots_R))),  # no more than a row can use
            sampled=any(row.sampling.temperature > 0 for row in rows),
            nucleus=any(row.sampling.top_p < 1 for row in rows),
        )
        self._unread.append((chosen, self._written.rows(slots_R)))

    def _read(self) -> None:
        chosen, rows = self._unread.popleft()
        before = time.perf_counter()
        ids_CR, logprobs_CR = chosen.read()
        self.times["wait"] += time.perf_counter() - before
        look, failed = self._written.add(rows, ids_CR, logprobs_CR, self._model.state.ends_KV)
        again: list[SlotSequence] = []
        for slot in look:
            row = self._running[slot]
            self._note(row)
            may_end = row.ids[-1] in row.ends
            if may_end or row.halting or len(row.logprobs) >= row.luck:
                self._stopped(row, may_end, again)
        for slot in failed:
            self._fail(self._running[slot])
        if again:
            self._go_on(again)

    def _note(self, row: SlotSequence) -> None:
        """What it has written since."""
        assert row.slot is not None
        ids, logprobs = self._written.take(row.slot.index)
        row.ids += ids
        row.logprobs += logprobs

    def _go_on(self, rows: list[SlotSequence]) -> None:
        """Those that the device had stopped; it has all that it needs, but for new draws where they were used up."""
        spent = [row for row in rows if len(row.logprobs) >= row.luck]
        if spent:
            self._model.state.begin([self._start_of(row, computed=len(row.ids) - 1) for row in spent])
        left = {row.slot.index: row.luck - len(row.logprobs) for row in rows if row.slot is not None}
        self._model.state.leave(list(left), list(left.values()))
        self._written.go_on(list(left), list(left.values()))

    def _stopped(self, row: SlotSequence, may_end: bool, again: list[SlotSequence]) -> None:
        """The device has stopped the row: it may have ended, or it goes on, with new draws where they were used up."""
        finish = row.watch.end(row.ids, row.prompt) if may_end else None
        if finish is None and len(row.logprobs) < row.most:
            again.append(row)
            return
        self._leave(row)
        self.ended.append((row, Generation(row.ids[row.prompt :], row.logprobs, finish or "length")))

    def _fail(self, row: SlotSequence) -> None:
        assert row.slot is not None
        slot = row.slot
        self._halt([row])
        self._leave(row)
        self._model.wipe(slot.index)
        slot.ids, slot.held = [], 0
        self.ended.append((row, EngineError("the model's numbers overflowed (NaN); try dtype float32 or bfloat16")))

    def _leave(self, row: SlotSequence) -> None:
        slot = row.slot
        assert slot is not None
        if self._running.get(slot.index) is row:
            del self._running[slot.index]
            self._written.leave(slot.index)
            slot.held = max(slot.held, len(row.ids) - 1)  # the last one chosen was not computed
        else:
            self._behind.remove(row)
        # two that end in the same tick of the clock would be of an age: in lockstep they are counted
        self.table.release(slot, next(self._releases) if self._pace.lockstep else time.monotonic())


# ----------------------------------------------------------------------------------------------------
# Runs a model for many requests at once, in a thread of its own: rows join and leave between rounds (`working`).
#
# A failing round fails the requests under way and is logged; the next request starts afresh. Knows nothing of event
# loops: results are delivered, those of a round together, from this thread. In lockstep there is no thread: whoever
# asks runs the rounds, so that which rows run together never depends on time.


log = logging.getLogger(__name__)


class Batcher:
    """`deliver` gets the rows that have ended. In lockstep, `turn` runs a round."""

    def __init__(self, model: SlotModel, deliver: Callable[[list[Ended]], None], pace: SchedulerLimits) -> None:
        self.model, self._deliver, self._lockstep = model, deliver, pace.lockstep
        self._working = Working(model, pace)
        self.submitted = 0
        self._came: list[SlotSequence] = []
        self._forgotten: list[str] = []
        self._wake = threading.Condition()
        self._closed = self._clear = False
        self._refresh: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None
        if not self._lockstep:
            self._thread = threading.Thread(target=self._main, name="kgwalk-model", daemon=True)
            self._thread.start()

    # Called from other threads.

    def submit(self, rows: Sequence[SlotSequence]) -> None:
        with self._wake:
            if self._closed:
                raise EngineError("the engine is closed")
            self._came += rows
            self.submitted += len(rows)
            self._wake.notify()

    def forget(self, sessions: Sequence[str]) -> None:
        with self._wake:
            self._forgotten += sessions
            self._wake.notify()

    def clear(self, refresh: Callable[[], None] = lambda: None) -> None:
        """What is cached no longer holds: the weights have changed. `refresh` puts the new ones in place."""
        with self._wake:
            self._clear = True
            self._refresh = refresh
            self._wake.notify()

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is None:
            self._end()
        elif self._thread is not threading.current_thread():
            self._thread.join()

    @property
    def times(self) -> dict[str, float]:
        """What the parts of the rounds took, in seconds."""
        return self._working.times

    # A round, in lockstep, in two halves: who runs it may do something else until there is something to read.

    def begin_round(self) -> bool:
        """False if there was nothing to do."""
        assert self._lockstep
        if not self._something() or not self._take_in():
            return False
        self._try(self._begin_round)
        return True

    def there(self) -> bool:
        """Whether the round can be ended without waiting for the device."""
        return self._working.there()

    def end_round(self) -> None:
        self._try(self._end_round)

    def turn(self) -> bool:
        """A whole one."""
        begun = self.begin_round()
        if begun:
            self.end_round()
        return begun

    def kept(self) -> list[str]:
        """The sessions that have a slot, for tests and for the curious."""
        return [slot.session for slot in list(self._working.table.slots) if slot.session]

    # The thread.

    def _main(self) -> None:
        try:
            while self._take_in():
                self._try(self._begin_round)
                self._try(self._end_round)
        finally:
            self._end()

    def _try(self, part: Callable[[], None]) -> None:
        try:
            part()
        except Exception as error:
            log.exception("the model failed with %d requests under way", self._working.count)
            self._start_over(EngineError(f"the model failed: {type(error).__name__}: {error}"))

    def _end(self) -> None:
        with self._wake:
            self._closed = True
            self._working.waiting += self._came
            self._came.clear()
        self._start_over(EngineError("the engine was closed"))

    def _something(self) -> bool:
        working = self._working
        come = self._came or self._forgotten or self._clear or self._closed
        return bool(come or working.under_way or working.waiting)

    def _take_in(self) -> bool:
        """Wait for something to do, and note what has come; False when it is time to stop."""
        with self._wake:
            while not self._something():
                self._wake.wait()
            self._working.waiting += self._came
            self._came.clear()
            forgotten, self._forgotten = self._forgotten, []
            busy = self._working.under_way
            clear, self._clear = self._clear and not busy, self._clear and busy
            closed = self._closed
        for session in forgotten:
            self._working.table.forget(session)
        if clear:
            self._working.clear(self._refresh)
        return not closed

    def _begin_round(self) -> None:
        self._working.begin_round(admit=not self._clear)

    def _end_round(self) -> None:
        self._working.end_round()
        self._hand_out()

    def _start_over(self, error: EngineError) -> None:
        self._working.fail(error)
        self._hand_out()  # first: after an error of the device nothing more can be asked of it
        self._working.start_over()

    def _hand_out(self) -> None:
        if self._working.ended:
            ended, self._working.ended = self._working.ended, []
            self._deliver(ended)
