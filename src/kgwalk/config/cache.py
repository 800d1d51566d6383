"""The cache folder: where things lie that are made once and could be made again.

Knows its place and how processes wait for one another there, not what is kept.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE_VARIABLE = "KGWALK_CACHE"


def cache_folder() -> Path:
    """KGWALK_CACHE, else kgwalk in the user's cache folder (XDG_CACHE_HOME, else ~/.cache)."""
    own = os.environ.get(CACHE_VARIABLE, "").strip()
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(shared) if shared else Path.home() / ".cache") / "kgwalk"


@contextmanager
def one_at_a_time(place: Path) -> Iterator[None]:
    """While one process makes `place`, others that want to wait here; the kernel frees a dead one's lock."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(place.with_name(f"{place.name}.lock"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
