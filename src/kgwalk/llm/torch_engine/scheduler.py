"""The scheduler of the engine `local`: which sequences wait, are prefilled, and sample tokens.

`Scheduler` works in rounds. A round begins by admitting sequences that wait, prefilling some (whole prompts, or what is
new since a session's last turn), and some steps for all that sample; it ends by reading what they sampled. On a GPU a
round's results are read while the device works on the next one. A sequence goes through these lists:

    waiting -> _prefilling -> _decoding -> ended

`Batcher` takes requests from any thread and runs the rounds in a thread of its own, or in lockstep when it is told to.
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

from kgwalk.llm.torch_engine.kv_cache import PrefixCache
from kgwalk.llm.torch_engine.model import MAX_STEPS, PrefillJob, SampledTokens, SlotModel
from kgwalk.llm.torch_engine.sampling import END_SETS, SlotStart
from kgwalk.llm.torch_engine.sequence import Ended, IdArray, OutputBuffer, SlotSequence, SlotTable
from kgwalk.types import EngineError

log = logging.getLogger(__name__)

# Seconds for which a session's cache is safe from new sessions while there is other work: most tools answer sooner, and
# computing a context again costs more than waiting for them.
SAFE_SECONDS = 1.0
FEW = 8  # sequences to prefill are few if they are fewer than an eighth of those that sample


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """At most `batch` sequences at once in `slots` slots, `prefill_tokens` new tokens in one pass, and `steps` steps in
    a round.

    `patience`: for how many rounds a few sequences to prefill may wait for more to come; where a pass costs the same
    for one as for many, it is better made for many. `ahead`: how many rounds are begun before the results of the one
    before are read. In `lockstep`, which sequences run together never depends on time.
    """

    batch: int
    slots: int
    prefill_tokens: int
    patience: int
    steps: int = 1
    ahead: int = 0
    lockstep: bool = False


class Scheduler:
    """Runs rounds; it has no thread of its own.

    `ended` are the sequences that have ended since the list was last emptied; `times` is what the parts of the rounds
    took, in seconds.
    """

    def __init__(self, model: SlotModel, limits: SchedulerLimits) -> None:
        self._model, self._limits = model, limits
        self._batch = min(limits.batch, model.max_slots)
        self.table = SlotTable(min(limits.slots, model.max_slots))
        self._releases = itertools.count(1)
        self._rounds_waited = 0
        self._prefix_cache = PrefixCache()
        self.waiting: list[SlotSequence] = []
        self._prefilling: list[SlotSequence] = []  # admitted, with tokens to compute
        self._decoding: dict[int, SlotSequence] = {}  # by slot
        self._output = OutputBuffer(model.max_slots, steps=MAX_STEPS)
        self._unread: deque[tuple[SampledTokens, tuple[IdArray, IdArray]]] = deque()
        self.ended: list[Ended] = []
        self.times: dict[str, float] = dict.fromkeys(("take_in", "prefill", "steps", "wait", "read"), 0.0)

    @property
    def count(self) -> int:
        """How many sequences have a slot."""
        return len(self._prefilling) + len(self._decoding)

    @property
    def under_way(self) -> bool:
        return bool(self._prefilling or self._decoding or self._unread)

    def begin_round(self, *, admit: bool) -> None:
        """Without `admit` no new sequences start: those under way are finished first."""
        started = time.perf_counter()
        self._drop_cancelled()
        if admit:
            self._admit()
        admitted = time.perf_counter()
        few = len(self._prefilling) * FEW < len(self._decoding)
        wait = self._prefilling and few and self._rounds_waited < self._limits.patience
        self._rounds_waited = self._rounds_waited + 1 if wait else 0
        if self._prefilling and not self._rounds_waited:
            self._prefill()
        computed = time.perf_counter()
        if self._decoding:
            self._step()
        self.times["take_in"] += admitted - started
        self.times["prefill"] += computed - admitted
        self.times["steps"] += time.perf_counter() - computed

    def end_round(self) -> None:
        """Reads what was sampled, waiting for the device if it must."""
        started = time.perf_counter()
        while self._to_read():
            self._read()
        self.times["read"] += time.perf_counter() - started

    def results_ready(self) -> bool:
        """Whether the round can be ended without waiting for the device."""
        return not self._to_read() or self._unread[0][0].ready()

    def clear(self, refresh: Callable[[], None] | None) -> None:
        """Drops all caches, as the weights change; `refresh`, if given, puts the new ones in place. Nothing may be
        under way.

        In lockstep on a CPU everything is as in a new engine: the size of the cache, too, decides how sums are rounded.
        """
        self._prefix_cache.clear()
        if refresh is not None:
            refresh()
        if self._limits.lockstep and not self._model.on_gpu:
            self.table = SlotTable(self.table.max_slots)
            self._model.release()
            return
        self.table.clear()
        self._model.weights_changed()

    def fail(self, error: EngineError) -> None:
        """Ends all sequences, also those that wait, with this error."""
        sequences = [*self._prefilling, *self._decoding.values(), *self.waiting]
        self._prefilling, self.waiting = [], []
        self._decoding.clear()
        self._unread.clear()
        self._prefix_cache.clear()
        self.ended += [(sequence, error) for sequence in sequences]

    def start_over(self) -> None:
        """With an empty cache. It may have fewer slots than before, if a trainer has taken memory since."""
        self._model.release()
        slots = self._model.max_slots
        self._batch, self.table = min(self._batch, slots), SlotTable(min(self.table.max_slots, slots))
        self._output = OutputBuffer(slots, steps=MAX_STEPS)

    # A round's parts, in their order

    def _drop_cancelled(self) -> None:
        self.waiting = [sequence for sequence in self.waiting if not sequence.cancelled()]
        gone = [sequence for sequence in (*self._prefilling, *self._decoding.values()) if sequence.cancelled()]
        if gone:
            self._stop([one for one in gone if one.slot is not None and one.slot.index in self._decoding])
            for sequence in gone:
                self._collect_output(sequence)
                self._leave(sequence)

    def _admit(self) -> None:
        """Gives slots to those that wait; first those whose session has one: they cost least, and end sooner."""
        if not self.waiting:
            return
        self.waiting.sort(key=lambda sequence: self.table.idle_slot(sequence.session) is None)
        safe = self.under_way and not self._limits.lockstep
        idle_since = time.monotonic() - SAFE_SECONDS if safe else math.inf
        admitted = 0
        for sequence in self.waiting[: self._batch - len(self._decoding) - len(self._prefilling)]:
            slot = self.table.take(sequence.session, idle_since=idle_since)
            if slot is None:
                break
            sequence.work_in(slot)
            self._prefilling.append(sequence)
            admitted += 1
        del self.waiting[:admitted]

    def _prefill(self) -> None:
        """Computes the next tokens of sequences that have some to compute, the longest waiting first.

        A sequence that begins like another slot copies that; one that begins like another of the same pass waits for
        the next round, and copies then.
        """
        plan = self._prefix_cache.plan(self._prefilling)
        if plan.copies:
            self._model.copy(plan.copies)
        jobs, started, later = self._prefill_jobs(plan.ready)
        self._prefilling = later + plan.deferred
        if not jobs:
            return
        self._decoding.update(started)
        starts = [job.sampling for job in jobs if job.sampling is not None]
        self._output.begin(list(started), [one.end_set for one in starts], [one.max_new for one in starts])
        sampled = self._model.prefill(jobs)
        for sequence, job in zip(plan.ready, jobs, strict=False):
            self._prefix_cache.computed(sequence, len(job.ids))
        if sampled is not None:
            self._unread.append((sampled, self._output.owners(sampled.slots_R)))

    def _prefill_jobs(
        self, ready: Sequence[SlotSequence]
    ) -> tuple[list[PrefillJob], dict[int, SlotSequence], list[SlotSequence]]:
        """The jobs of one pass, the sequences (by slot) whose context it completes, and those that have more to do."""
        jobs: list[PrefillJob] = []
        room = self._limits.prefill_tokens
        started: dict[int, SlotSequence] = {}
        later: list[SlotSequence] = []
        for sequence in ready:
            slot = sequence.slot
            assert slot is not None
            if room <= 0 or len(jobs) == self._model.max_jobs:
                later.append(sequence)
                continue
            cached = slot.cached
            new = sequence.ids[cached : cached + room]
            room -= len(new)
            complete = cached + len(new) == len(sequence.ids)
            sampling = self._sampling_start(sequence, len(sequence.ids)) if complete else None
            jobs.append(PrefillJob(slot.index, new, cached, sampling))
            slot.cached += len(new)
            if complete:
                started[slot.index] = sequence
            else:
                later.append(sequence)
        return jobs, started, later

    def _sampling_start(self, sequence: SlotSequence, computed: int) -> SlotStart:
        """Where the sequence stands for the device: `computed` of its tokens are in the cache."""
        assert sequence.slot is not None
        sampling, done = sequence.sampling, len(sequence.ids) - sequence.prompt_length
        count = min(sequence.max_new - done, self._model.max_draws)
        sequence.draws_sent = done + count
        end_set = self._model.end_set(sequence.ends)
        sequence.stops_always = end_set == END_SETS
        return SlotStart(
            sequence.slot.index,
            sequence.ids[-1],
            computed,
            count,
            sampling.temperature,
            sampling.top_p,
            sequence.draws[done : done + count],
            end_set,
            self._model.grammar_state(sequence.state_now()),
        )

    def _step(self) -> None:
        sequences = self._decoding.values()
        slots_R = np.fromiter(self._decoding, np.int64, len(sequences))
        sampled = self._model.steps(
            slots_R,
            min(self._limits.steps, max(1, self._output.most_left(slots_R))),  # no more than one of them can use
            sampled=any(sequence.sampling.temperature > 0 for sequence in sequences),
            nucleus=any(sequence.sampling.top_p < 1 for sequence in sequences),
            constrained=any(sequence.state is not None for sequence in sequences),
        )
        self._unread.append((sampled, self._output.owners(slots_R)))

    def _to_read(self) -> bool:
        """Whether a pass is to be read before the next round; when nothing was begun, none may stay unread."""
        return len(self._unread) > (self._limits.ahead if self._decoding or self._prefilling else 0)

    def _read(self) -> None:
        """Reads one pass, and looks at the sequences that the device has stopped."""
        sampled, owners = self._unread.popleft()
        before = time.perf_counter()
        ids_CR, logprobs_CR = sampled.read()
        self.times["wait"] += time.perf_counter() - before
        look, failed = self._output.add(owners, ids_CR, logprobs_CR, self._model.state.ends_KV)
        resumed: list[SlotSequence] = []
        for slot in look:
            sequence = self._decoding[slot]
            self._collect_output(sequence)
            may_end = sequence.ids[-1] in sequence.ends
            spent = len(sequence.logprobs) >= sequence.draws_sent
            stopped = may_end or sequence.stops_always or spent or self._output.waits(slot)
            if stopped and not self._end_if_done(sequence, may_end):
                resumed.append(sequence)
        for slot in failed:
            self._overflowed(self._decoding[slot])
        if resumed:
            self._resume(resumed)

    def _collect_output(self, sequence: SlotSequence) -> None:
        """Moves what it has sampled from the output buffer to the sequence."""
        assert sequence.slot is not None
        ids, logprobs = self._output.take(sequence.slot.index)
        sequence.ids += ids
        sequence.logprobs += logprobs

    def _end_if_done(self, sequence: SlotSequence, may_end: bool) -> bool:
        """Whether a sequence that the device has stopped is over; then it leaves."""
        finish = sequence.stop_detector.end(sequence.ids, sequence.prompt_length) if may_end else None
        if finish is None and len(sequence.logprobs) < sequence.max_new:
            return False
        self._leave(sequence)
        self.ended.append((sequence, sequence.made(finish)))
        return True

    def _resume(self, sequences: list[SlotSequence]) -> None:
        """Lets sequences go on that the device had stopped, with new draws where theirs were used up, and with their
        grammar's state where that was missing.
        """
        waiting = [one for one in sequences if one.slot is not None and self._output.waits(one.slot.index)]
        if waiting:
            states = [self._model.grammar_state(one.state_now()) for one in waiting]
            self._model.state.set_state([one.slot.index for one in waiting if one.slot is not None], states)
        spent = [sequence for sequence in sequences if len(sequence.logprobs) >= sequence.draws_sent]
        if spent:
            self._model.state.begin([self._sampling_start(one, computed=len(one.ids) - 1) for one in spent])
        left = {one.slot.index: one.draws_sent - len(one.logprobs) for one in sequences if one.slot is not None}
        self._model.state.set_left(list(left), list(left.values()))
        self._output.resume(list(left), list(left.values()))

    def _overflowed(self, sequence: SlotSequence) -> None:
        """Ends a sequence whose numbers are NaN, and wipes its slot: NaN there would spoil the next one's sums."""
        slot = sequence.slot
        assert slot is not None
        self._stop([sequence])
        self._leave(sequence)
        self._model.wipe(slot.index)
        slot.ids, slot.cached = [], 0
        error = EngineError("the model's numbers overflowed (NaN); try dtype float32 or bfloat16")
        self.ended.append((sequence, error))

    def _stop(self, sequences: list[SlotSequence]) -> None:
        """On the device they sample no more."""
        if sequences:
            slots = [sequence.slot.index for sequence in sequences if sequence.slot is not None]
            self._model.state.set_left(slots, [0] * len(sequences))

    def _leave(self, sequence: SlotSequence) -> None:
        """The sequence gives its slot back, which keeps what was computed."""
        slot = sequence.slot
        assert slot is not None
        if self._decoding.get(slot.index) is sequence:
            del self._decoding[slot.index]
            self._output.leave(slot.index)
            slot.cached = max(slot.cached, len(sequence.ids) - 1)  # the last one sampled was not computed
        else:
            self._prefilling.remove(sequence)
        # In lockstep releases are counted: two within one tick of the clock would be equally old.
        self.table.release(slot, next(self._releases) if self._limits.lockstep else time.monotonic())


class Batcher:
    """Takes requests from any thread and runs a scheduler's rounds for them.

    It has a thread of its own, from which `deliver` gets the sequences that have ended, those of a round together. In
    lockstep there is no thread: the caller runs the rounds. A round that fails ends the requests under way and is
    logged; the next request starts afresh.
    """

    def __init__(self, model: SlotModel, deliver: Callable[[list[Ended]], None], limits: SchedulerLimits) -> None:
        self.model, self._deliver, self._lockstep = model, deliver, limits.lockstep
        self._scheduler = Scheduler(model, limits)
        self.submitted = 0  # requests so far
        self._new: list[SlotSequence] = []
        self._forgotten: list[str] = []
        self._wake = threading.Condition()
        self._closed = self._clear = False
        self._refresh: Callable[[], None] | None = None
        self._thread: threading.Thread | None = None
        if not self._lockstep:
            self._thread = threading.Thread(target=self._main, name="kgwalk-model", daemon=True)
            self._thread.start()

    # Called from other threads

    def submit(self, sequences: Sequence[SlotSequence]) -> None:
        with self._wake:
            if self._closed:
                raise EngineError("the engine is closed")
            self._new += sequences
            self.submitted += len(sequences)
            self._wake.notify()

    def forget(self, sessions: Sequence[str]) -> None:
        with self._wake:
            self._forgotten += sessions
            self._wake.notify()

    def clear(self, refresh: Callable[[], None] | None = None) -> None:
        """Drops all caches, as the weights have changed. `refresh`, if given, puts the new ones in place."""
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
        return self._scheduler.times

    def kept_sessions(self) -> list[str]:
        """The sessions that have a slot."""
        return [slot.session for slot in list(self._scheduler.table.slots) if slot.session]

    # In lockstep: a round in two halves, so that the caller may do something else while the device works

    def begin_round(self) -> bool:
        """False if there was nothing to do."""
        if not self._lockstep:
            raise EngineError("only an engine in lockstep is run round by round; this one has a thread")
        if not self._has_work() or not self._take_in():
            return False
        self._try(self._begin_round)
        return True

    def results_ready(self) -> bool:
        """Whether the round can be ended without waiting for the device."""
        return self._scheduler.results_ready()

    def end_round(self) -> None:
        self._try(self._end_round)

    def run_round(self) -> bool:
        """A whole round; False if there was nothing to do."""
        begun = self.begin_round()
        if begun:
            self.end_round()
        return begun

    # The thread

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
            log.exception("the model failed with %d requests under way", self._scheduler.count)
            self._start_over(EngineError(f"the model failed: {type(error).__name__}: {error}"))

    def _end(self) -> None:
        with self._wake:
            self._closed = True
            self._scheduler.waiting += self._new
            self._new.clear()
        self._fail(EngineError("the engine was closed"))
        self.model.free()

    def _has_work(self) -> bool:
        scheduler = self._scheduler
        called = self._new or self._forgotten or self._clear or self._closed
        return bool(called or scheduler.under_way or scheduler.waiting)

    def _take_in(self) -> bool:
        """Waits for something to do, and passes on what other threads asked for; False when it is time to stop."""
        with self._wake:
            while not self._has_work():
                self._wake.wait()
            self._scheduler.waiting += self._new
            self._new.clear()
            forgotten, self._forgotten = self._forgotten, []
            busy = self._scheduler.under_way
            clear, self._clear = self._clear and not busy, self._clear and busy
            closed = self._closed
        for session in forgotten:
            self._scheduler.table.forget(session)
        if clear:
            self._scheduler.clear(self._refresh)
        return not closed

    def _begin_round(self) -> None:
        self._scheduler.begin_round(admit=not self._clear)

    def _end_round(self) -> None:
        self._scheduler.end_round()
        self._deliver_ended()

    def _start_over(self, error: EngineError) -> None:
        self._fail(error)  # first: after an error of the device nothing more can be asked of it
        self._scheduler.start_over()

    def _fail(self, error: EngineError) -> None:
        self._scheduler.fail(error)
        self._deliver_ended()

    def _deliver_ended(self) -> None:
        if self._scheduler.ended:
            ended, self._scheduler.ended = self._scheduler.ended, []
            self._deliver(ended)
