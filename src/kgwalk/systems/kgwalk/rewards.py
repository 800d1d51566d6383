"""kgwalk's rewards: valid turns and short walks, beside F1 and retrieval.

`luck` is for trying things out: it lets an update be made where a model can do nothing yet.
"""

from __future__ import annotations

import random

from kgwalk.score.rewards import Outcome, turn_reward, whole_reward


@turn_reward("valid")
def valid(outcome: Outcome) -> list[float]:
    """1 for a turn that is in form and, if it is a call, was answered without an error. A call, an error, an answer:
    1, 0, 1."""
    return [float(turn.ok) for turn in outcome.episode.turns]


@whole_reward("validity")
def validity(outcome: Outcome) -> float:
    """F1 * the share of valid turns. F1 = 1 with three of four: 0.75; F1 = 0, or no turns: 0.

    Paid by itself it taught models to answer at once: an answer is never refused, a call may be, and in a group whose
    answers are all wrong nothing else tells the rollouts apart (docs/log.md).
    """
    turns = outcome.episode.turns
    return outcome.metrics["f1"] * sum(turn.ok for turn in turns) / len(turns) if turns else 0.0


@whole_reward("brevity")
def brevity(outcome: Outcome, *, brevity_tokens: int = 256, brevity_turns: int = 8) -> float:
    """F1 * (left of the tokens + left of the turns) / 2: what of 256 generated tokens and 8 turns was not needed.

    F1 = 1 in 64 tokens and 2 turns: (192/256 + 6/8) / 2 = 0.75. With F1 = 0.5 it is 0.375, with F1 = 0 nothing: to be
    silent, or quick and wrong, does not pay.
    """
    tokens = 1 - outcome.metrics["generated_tokens"] / brevity_tokens
    turns = 1 - outcome.metrics["turns"] / brevity_turns
    return outcome.metrics["f1"] * (max(tokens, 0.0) + max(turns, 0.0)) / 2


@whole_reward("luck")
def luck(outcome: Outcome) -> float:
    """A number in [0, 1) drawn from the episode's own tokens: rollouts that a model wrote differently differ in it.

    It teaches nothing. Where a model can do nothing yet, every other reward is the same for all, no group has a
    variance, and an update would never be tried.
    """
    ids = [number for turn in outcome.episode.turns for number in turn.ids]
    return random.Random(repr(ids)).random() if ids else 0.0
