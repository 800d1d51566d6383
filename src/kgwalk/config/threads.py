"""How many threads a processor's work has: half of the cores unless told, and all of them where that was seen to pay.

With all of them torch waits at every step for threads that other programs keep from running: two busy cores decode 25
times slower than one. Long products, as in training, lose less by it and gain more. Knows not what is computed.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "OMP_NUM_THREADS"  # torch and OpenVINO go by it
_ours: list[str] = []  # what this process set it to, if nobody else had


def settle() -> None:
    """To be called before torch is imported."""
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = str(max(1, (os.cpu_count() or 1) // 2))
        _ours.append(os.environ[VARIABLE])


def most() -> int | None:
    """As many as may be tried: a thread for each core that this process may use. None if somebody has said how many."""
    told = os.environ.get(VARIABLE)
    return None if told is not None and told not in _ours else cores()


def cores(info: Path = Path("/proc/cpuinfo")) -> int:
    """Those with registers of their own: two threads of one core take turns at its multipliers."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    try:
        places = {
            (one["physical id"], one["core id"])
            for one in map(_named, info.read_text().strip().split("\n\n"))
            if int(one["processor"]) in usable
        }
    except (OSError, KeyError, ValueError):  # another system, or one that does not say
        return len(usable)
    return len(places)


def _named(lines: str) -> dict[str, str]:
    """`core id : 3` and so on."""
    parts = (line.partition(":") for line in lines.splitlines())
    return {name.strip(): value.strip() for name, _, value in parts}
