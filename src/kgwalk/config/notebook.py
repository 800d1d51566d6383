"""Work that runs an event loop of its own, called where one is running already, as in a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def outside_a_loop(work: Callable[[], T]) -> T:
    """What the work returns, done here; where an event loop is running, in a thread beside it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1, "kgwalk-work") as thread:
        return thread.submit(work).result()
