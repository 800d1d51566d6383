"""What of a GPU's memory a process may take: all that is free, or its share where several run on one GPU.

KGWALK_GPU_SHARE is that share of the whole, such as 0.25 for each of four. Knows nothing of models.
"""

from __future__ import annotations

import os

import torch

from kgwalk.types import KgwalkError

VARIABLE = "KGWALK_GPU_SHARE"


def gpu_free(device: torch.device | str) -> int:
    """Bytes that are not taken yet, of this process's share."""
    free, total = torch.cuda.mem_get_info(device)
    return left_of(total, free, torch.cuda.memory_reserved(device), share())


def left_of(total: int, free: int, own: int, share: float) -> int:
    """Of a share nothing is left that this process has taken, nor more than is free at all.

    >>> left_of(total=100, free=90, own=10, share=1.0), left_of(total=100, free=90, own=10, share=0.25)
    (90, 15)
    >>> left_of(total=100, free=5, own=10, share=0.25), left_of(total=100, free=50, own=30, share=0.25)
    (5, 0)
    """
    return max(0, min(free, int(share * total) - own))


def share() -> float:
    given = os.environ.get(VARIABLE)
    try:
        found = 1.0 if given is None else float(given)
    except ValueError:
        found = 0.0
    if not 0 < found <= 1:
        raise KgwalkError(f"{VARIABLE} must be a share above 0 and at most 1, such as 0.25; it is {given!r}")
    return found
