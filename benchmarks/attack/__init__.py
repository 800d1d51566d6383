"""Attacks on kgwalk: each module is one, counts what it tried and what broke, and stops in its time.

`python -m benchmarks.attack` runs them all in ten minutes and prints the table of docs/reference/reliability.md.
Everything runs on this machine: servers on loopback, files in a temporary folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Result:
    """What an attack saw: how often it tried, how often something broke, and figures worth printing."""

    tries: int = 0
    failures: list[str] = field(default_factory=list)  # one line each, enough to do it again
    figures: dict[str, str] = field(default_factory=dict)  # "memory": "61 -> 64 MB"

    def check(self, right: bool, what: str) -> None:
        """Count a try; keep what went wrong if it did."""
        self.tries += 1
        if not right:
            self.failures.append(what)


@contextmanager
def environment(own: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for the time of an attack; what was there before comes back."""
    before = {name: os.environ.get(name) for name in own}
    os.environ |= own
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
