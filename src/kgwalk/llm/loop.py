"""An event loop in a thread of its own, for what must outlive the loops that use it: connections, a shared engine.

Every `asyncio.run` makes a new loop, and a connection belongs to the loop that opened it. What runs here keeps its
loop whoever calls, and cannot hold up the caller's. Knows nothing of what it runs.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopClosed(Exception):
    """The loop was closed before, or while, the work was done."""


async def _nothing() -> None:
    pass


class LoopThread:
    """Starts with the first work. `at_end` runs last in it, when all work is done or cancelled."""

    def __init__(self, name: str, at_end: Callable[[], Awaitable[None]] = _nothing) -> None:
        self._name, self._at_end = name, at_end
        self._lock = threading.RLock()  # close() may be called by the garbage collector, in the middle of anything
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._closed = False

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What the work returns or raises; cancelling this cancels the work."""
        loop = self._started()
        future = asyncio.run_coroutine_threadsafe(work(), loop)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and (task is None or not task.cancelling()):
                raise LoopClosed from None  # it is the work that was cancelled, not the caller
            raise

    def close(self) -> None:
        """Cancel what is under way, run `at_end`, and wait for the thread; a second call does nothing."""
        with self._lock:
            self._closed = True
            thread, loop, self._loop = self._thread, self._loop, None
        if thread is None or loop is None:
            return
        loop.call_soon_threadsafe(self._stop.set)
        if thread is not threading.current_thread():
            thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise LoopClosed
            if self._loop is None:
                ready = threading.Event()
                # A daemon: a program that forgets to close must still end.
                self._thread = threading.Thread(target=self._main, args=(ready,), name=self._name, daemon=True)
                self._thread.start()
                ready.wait()
            if self._loop is None:
                raise LoopClosed  # it could not start; the thread has said why
            return self._loop

    def _main(self, ready: threading.Event) -> None:
        async def stay() -> None:
            self._loop = asyncio.get_running_loop()
            ready.set()
            await self._stop.wait()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await self._at_end()

        try:
            asyncio.run(stay())
        finally:
            ready.set()
