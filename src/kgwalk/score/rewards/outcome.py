"""What a reward may look at: a finished episode, its numbers, and what a judge said of it.

No reward takes the model's own words for a score: the numbers come from `score.episode.measure`, observations from the
tools, verdicts from a judge. Knows no reward.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgwalk.types import Episode, Malformed, StopReason


@dataclass(frozen=True, slots=True)
class Outcome:
    """`metrics` are those of `measure`. `judged` has a number for each kind of judgement that was asked for, None where
    the judge failed. `complete`: the graph had every crucial fact of the question (Graph-RFT's CKG; False is IKG).
    `step` is the step of training, for rewards that change on the way."""

    episode: Episode
    metrics: Mapping[str, float]
    complete: bool = True
    judged: Mapping[str, float | None] = field(default_factory=dict)
    step: int = 0

    @property
    def in_form(self) -> bool:
        """Whether every turn is written as the protocol asks, and the last one answers."""
        malformed = any(isinstance(turn.step, Malformed) for turn in self.episode.turns)
        return self.episode.stop == StopReason.answered and not malformed
