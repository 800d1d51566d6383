"""The learning rate of each update: a linear warm-up, then constant or a cosine down to zero, by updates or by time.

Knows no clock: how much of the time is used is told to it.
"""

from __future__ import annotations

import math


def rate(update: int, updates: int, *, schedule: str, warmup: float, time: float = 0.0) -> float:
    """What the learning rate is multiplied by in update 0, 1, ... of `updates`; `warmup` is a share of all.

    >>> [rate(update, 10, schedule="constant", warmup=0.2) for update in (0, 1, 2, 9)]
    [0.5, 1.0, 1.0, 1.0]
    >>> [round(rate(update, 4, schedule="cosine", warmup=0), 4) for update in range(4)]  # (1 + cos(pi u / 4)) / 2
    [1.0, 0.8536, 0.5, 0.1464]

    `time` is the share of the time that is used, where that is limited (`Pace.progress`): an update counts as the one
    that would be due by then. Half of the time is over, so update 1 of 4 has the rate of update 2, and the warm-up of
    an update 0 that comes so late is over:

    >>> [rate(update, 4, schedule="cosine", warmup=0, time=0.5) for update in (1, 2)]
    [0.5, 0.5]
    >>> rate(0, 10, schedule="constant", warmup=0.2, time=0.5)
    1.0
    """
    now = max(update, time * updates)
    warm = math.ceil(warmup * updates)
    if now < warm:
        return min(1.0, (now + 1) / warm)
    if schedule == "constant":
        return 1.0
    return (1 + math.cos(math.pi * (now - warm) / max(1, updates - warm))) / 2
