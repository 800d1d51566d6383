"""Walks without garbage collection: Python looks through all objects every few thousand new ones, and theirs stay.

Of a thousand episodes' time that is the better half, in the process that keeps them. What is in no circle is freed as
ever. Needs no torch. Knows nothing of walks.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collecting() -> Iterator[None]:
    """Until it is left, circles of objects stay where they are."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
