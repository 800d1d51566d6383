"""Runs a model for many requests at once, in a thread of its own: rows join and leave between rounds (`working`).

A failing round fails the requests under way and is logged; the next request starts afresh. Knows nothing of event
loops: results are delivered, those of a round together, from this thread. In lockstep there is no thread: whoever asks
runs the rounds, so that which rows run together never depends on time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from kgwalk.llm.row import Ended, Row
from kgwalk.llm.slot_model import SlotModel
from kgwalk.llm.working import Pace, Working
from kgwalk.types import EngineError

log = logging.getLogger(__name__)


class Batcher:
    """`deliver` gets the rows that have ended. In lockstep, `turn` runs a round."""

    def __init__(self, model: SlotModel, deliver: Callable[[list[Ended]], None], pace: Pace) -> None:
        self.model, self._deliver, self._lockstep = model, deliver, pace.lockstep
        self._working = Working(model, pace)
        self.submitted = 0
        self._came: list[Row] = []
        self._forgotten: list[str] = []
        self._wake = threading.Condition()
        self._closed = self._clear = False
        self._refresh: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None
        if not self._lockstep:
            self._thread = threading.Thread(target=self._main, name="kgwalk-model", daemon=True)
            self._thread.start()

    # Called from other threads.

    def submit(self, rows: Sequence[Row]) -> None:
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
