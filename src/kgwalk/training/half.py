"""Whether this processor is quicker in bfloat16 than in float32: tried, not believed.

Many multiply two to eight times as many numbers of 16 bits as of 32. But virtual machines announce instructions that
they do not have, and a process that uses one is killed; others compute in 32 bits whatever they are given. So a process
of its own tries, once. Knows nothing of models.
"""

from __future__ import annotations

import functools
import logging
import subprocess
import sys
from pathlib import Path

log = logging.getLogger(__name__)

CPU = Path("/proc/cpuinfo")
FLAGS = {"avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16"}  # the last is ARM's
WORTH = 1.3  # times as quick, or it is not worth what rounding costs
PATIENCE = 60.0  # seconds, of which a second or two are torch's import
# A matrix of a small model's layer, for some hundred tokens, as often as it takes to be measured.
TRIAL = """
import time, torch
left, right = torch.randn(512, 576), torch.randn(1536, 576)
def seconds(a, b):
    took = []
    for _ in range(20):
        begun = time.perf_counter()
        a @ b.t()
        took.append(time.perf_counter() - begun)
    return min(took)
print(seconds(left, right) / seconds(left.bfloat16(), right.bfloat16()))
"""


@functools.cache
def half_is_quicker() -> bool:
    """Here, by enough to be worth it."""
    return announced(CPU) and (found := speedup(TRIAL)) is not None and found >= WORTH


def announced(cpu: Path) -> bool:
    """Whether the system says that its processor has such instructions; only Linux does."""
    try:
        words = set(cpu.read_text().split())
    except OSError:
        return False
    return bool(words & FLAGS)


def speedup(trial: str) -> float | None:
    """What a process prints that tries it; None if it dies of it, or never ends."""
    try:
        tried = subprocess.run([sys.executable, "-c", trial], capture_output=True, timeout=PATIENCE, check=True)
        return float(tried.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        log.info("this processor does not compute in bfloat16: %s", error)
        return None
