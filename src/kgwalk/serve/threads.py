"""Threads for work on graphs that takes too long for the event loop, and what such work keeps for each store.

A thread cannot be stopped. So there are few of them, few requests may wait for one, and a request whose time is up is
told to come back: what was being worked out is kept, and its next request finds it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from time import monotonic
from typing import TypeVar
from weakref import WeakKeyDictionary

from kgwalk.kg.store import Store, StoredGraph
from kgwalk.serve.asgi import HttpError

THREADS = 4
MOST_WAITING = 64

R = TypeVar("R")


class GraphThreads:
    """Runs work in one of a few threads, until a deadline."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, "kgwalk-graph")
        self._under_way = 0

    async def run(self, work: Callable[[], R], deadline: float) -> R:
        """What the work gives or raises; an HttpError where it does not begin, or end, in time."""
        if self._under_way >= MOST_WAITING:
            raise HttpError(503, "busy", "too many such requests at once; try again", ((b"retry-after", b"1"),))
        self._under_way += 1
        future = self._pool.submit(work)
        future.add_done_callback(lambda _: self._done())
        try:
            async with asyncio.timeout(max(0.0, deadline - monotonic())):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            message = "the graph is large, and this is still being worked out; ask again in a few seconds"
            raise HttpError(503, "still_working", message, ((b"retry-after", b"2"),)) from None

    def _done(self) -> None:
        self._under_way -= 1

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def kept_for_each_store(work: Callable[[StoredGraph], R]) -> Callable[[StoredGraph], R]:
    """The function, which then works once for each whole store; whoever asks meanwhile waits for the same result."""
    kept: WeakKeyDictionary[Store, tuple[threading.Lock, list[R]]] = WeakKeyDictionary()
    entry = threading.Lock()

    @wraps(work)
    def once(graph: StoredGraph) -> R:
        with entry:
            lock, found = kept.setdefault(graph.store, (threading.Lock(), []))
        with lock:
            if not found:
                found.append(work(graph))
            return found[0]

    return once
