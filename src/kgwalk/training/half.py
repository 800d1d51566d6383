"""Whether this processor is quicker in bfloat16 than in float32: tried, not believed.

Many multiply two to eight times as many numbers of 16 bits as of 32. But virtual machines announce instructions that
they do not have, and a process that uses one is killed; others compute in 32 bits whatever they are given. So a process
of its own tries, and what it found is kept in the cache: a run that is resumed shall compute as it did. Knows nothing
of models.
"""

from __future__ import annotations

import importlib.metadata
import logging
import subprocess
import sys
from pathlib import Path

import xxhash

from kgwalk.config.cache import cache_folder
from kgwalk.runs.folder import read_json, write_json

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


def half_is_quicker(cpu: Path = CPU, trial: str = TRIAL) -> bool:
    """Here, by enough to be worth it."""
    told = _told(cpu)
    if not set(told.split()) & FLAGS:  # only Linux says so
        return False
    kind = xxhash.xxh3_64_hexdigest(f"{told}/{importlib.metadata.version('torch')}/{trial}".encode())
    kept = cache_folder() / "half" / f"{kind}.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_json(kept, {"speedup": speedup(trial)})
    found = read_json(kept)["speedup"]
    log.info("bfloat16 is %s times as quick as float32 here", found)
    return found is not None and bool(found >= WORTH)


def _told(cpu: Path) -> str:
    """What the system says of its first processor, but for what changes from day to day."""
    try:
        lines = cpu.read_text().split("\n\n")[0].splitlines()
    except OSError:
        return ""
    return "\n".join(line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part")))


def speedup(trial: str) -> float | None:
    """What a process prints that tries it; None if it dies of it, or never ends."""
    try:
        tried = subprocess.run([sys.executable, "-c", trial], capture_output=True, timeout=PATIENCE, check=True)
        return float(tried.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        log.info("this processor does not compute in bfloat16: %s", error)
        return None
