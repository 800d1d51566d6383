"""What of the host's memory is to be had: what no program holds, and no container is denied.

Knows nothing of what it is for.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path("/")
UNKNOWN = 0.25  # of all that the machine has, where its system does not say what is free


def host_free(root: Path = ROOT) -> int:
    """Bytes. `root` has Linux's `proc` and `sys` in it; of other systems only the machine's memory is known."""
    try:
        lines = dict(line.split(":", 1) for line in (root / "proc/meminfo").read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return int(UNKNOWN * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    left = _left_of_container(root / "sys/fs/cgroup")
    return free if left is None else min(free, left)


def _left_of_container(group: Path) -> int | None:
    """None where there is no limit, or none that is told. Files that are kept in memory give way to who needs it."""
    try:
        held = int((group / "memory.current").read_text())
        parts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return max(0, int((group / "memory.max").read_text()) - held + int(parts["inactive_file"]))
    except (OSError, KeyError, ValueError):  # "max" is no number
        return None
