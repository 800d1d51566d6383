"""The learning rate of each update: a linear warm-up, then constant or a cosine down to zero."""

from __future__ import annotations

import math


def rate(update: int, updates: int, *, schedule: str, warmup: float) -> float:
    """What the learning rate is multiplied by in update 0, 1, ... of `updates`; `warmup` is a share of all.

    >>> [rate(update, 10, schedule="constant", warmup=0.2) for update in (0, 1, 2, 9)]
    [0.5, 1.0, 1.0, 1.0]
    >>> [round(rate(update, 4, schedule="cosine", warmup=0), 4) for update in range(4)]  # (1 + cos(pi u / 4)) / 2
    [1.0, 0.8536, 0.5, 0.1464]
    """
    warm = math.ceil(warmup * updates)
    if update < warm:
        return (update + 1) / warm
    if schedule == "constant":
        return 1.0
    return (1 + math.cos(math.pi * (update - warm) / max(1, updates - warm))) / 2
