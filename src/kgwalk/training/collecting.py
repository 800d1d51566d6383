"""Walks without garbage collection: Python looks through all objects every few thousand new ones, and theirs stay.

Of a thousand episodes' time that is the better half, in the process that keeps them. What is in no circle is freed as
ever. Needs no torch. Knows nothing of walks.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collecting(*, circles: bool = True) -> Iterator[None]:
    """Until it is left, circles of objects stay where they are. Where there are no new `circles`, all that was made
    counts as old at once: to look through a thousand episodes costs a tenth of what it costs to take them in.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not circles and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()  # to the oldest generation
        if before:
            gc.enable()
