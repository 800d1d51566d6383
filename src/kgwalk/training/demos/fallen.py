"""What became of the walks that no demo came of: how many fell out, why, and a few to look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

EXAMPLES = 5  # ids kept for each reason


@dataclass
class Fallen:
    """Filled while demos are made. A reason is a filter's name and what it found, such as `answer: F1 below 1`.

    >>> fallen = Fallen()
    >>> fallen.add("route: none was found", "q7"); fallen.keep(wrong=True)
    >>> fallen.as_json()
    {'tried': 2, 'kept': 1, 'wrong': 1, 'web': 0, 'fallen': {'route: none was found': {'count': 1, 'examples': ['q7']}}}
    """

    kept: int = 0
    wrong: int = 0  # of those kept: with a wrong turn
    web: int = 0  # with a web search
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    @property
    def tried(self) -> int:
        return self.kept + sum(self.counts.values())

    def keep(self, *, wrong: bool = False, web: bool = False) -> None:
        self.kept += 1
        self.wrong += wrong
        self.web += web

    def add(self, reason: str, example: str) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + 1
        shown = self.examples.setdefault(reason, [])
        if len(shown) < EXAMPLES and example not in shown:
            shown.append(example)

    def as_json(self) -> dict[str, Any]:
        most_first = sorted(self.counts, key=lambda reason: (-self.counts[reason], reason))
        fallen = {reason: {"count": self.counts[reason], "examples": self.examples[reason]} for reason in most_first}
        return {"tried": self.tried, "kept": self.kept, "wrong": self.wrong, "web": self.web, "fallen": fallen}
