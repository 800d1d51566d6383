"""KG-R1's rewards (section 3.3, equations 1 and 2; weights in Table 8).

    r_t = 0.5 format + 0.5 query + 0.5 answer        R = 1.0 F1 + 1.0 retrieval

A walk of three turns, by Table 8: a query that is answered (format and query: 1.0), the same query again (1.0), the
right answer (format and answer: 1.0); the answer had been shown, so R = 1 + 1 = 2. The published code differs, by
`equation_1 = "code"`: the same query again earns its format alone, 0.5; an unknown action or an empty thought earns its
format; its weights of R are 0.5 and 0.5. They read steps and observations, so other protocols can be paid by them too.
"""

from __future__ import annotations

import re

from kgwalk.config.recipe import unknown
from kgwalk.score.rewards import Outcome, turn_reward, whole_reward
from kgwalk.types import Answer, Call, Malformed, Turn

EQUATION_1 = ("printed", "code")
# Figure 5 calls the last two errors of the format; the first is no action of the set.
NOT_WELL_FORMED = ("invalid_action", "missing_fields", "argument_count")
_EMPTY_THOUGHT = re.compile(r"<think>\s*</think>")


@turn_reward("format")
def turn_format(outcome: Outcome, *, equation_1: str = "printed") -> list[float]:
    """v_fmt: 1 for a turn with a thought that says something and a well-formed action: one of the set, with as many
    arguments as it takes.

    A query, text without tags, a query of an action that is not there, one after an empty thought, an answer: 1, 0, 0,
    0, 1. "code": one thought and one action, whatever they say: 1, 0, 1, 1, 1.
    """
    _known(equation_1)
    return [float(_in_form(turn, printed=equation_1 == "printed")) for turn in outcome.episode.turns]


def _in_form(turn: Turn, *, printed: bool) -> bool:
    if isinstance(turn.step, Malformed):
        return False
    return not printed or (turn.error not in NOT_WELL_FORMED and _EMPTY_THOUGHT.search(turn.text) is None)


@turn_reward("query")
def query(outcome: Outcome, *, equation_1: str = "printed") -> list[float]:
    """v_kg: 1 for a call that was answered with something.

    An answered query, the same again, one that the tool refused, another that was answered: 1, 1, 0, 1. "code": one
    that is the same as a call before earns nothing: 1, 0, 0, 1.

    A query that finds nothing is an error of the tool; a result for which there was no room is not an answer.
    """
    _known(equation_1)
    rewards: list[float] = []
    paid: set[Call] = set()
    for turn in outcome.episode.turns:
        answered = isinstance(turn.step, Call) and turn.ok and bool(turn.observation)
        rewards.append(float(answered and turn.step not in paid))
        if equation_1 == "code" and isinstance(turn.step, Call) and answered:
            paid.add(turn.step)
    return rewards


def _known(equation_1: str) -> None:
    if equation_1 not in EQUATION_1:
        raise unknown("value of reward_settings.equation_1", equation_1, EQUATION_1)


@turn_reward("answer")
def turn_answer(outcome: Outcome) -> list[float]:
    """v_ans: 1 for a turn that answers in the right form, whatever the answer is worth.

    A query, then an answer with a name: 0, 1. An answer that names nothing (an empty list, a set that was never made)
    earns 0, unless nothing is what is right.
    """
    named = bool(outcome.episode.answers) or not outcome.episode.question.answers
    return [float(isinstance(turn.step, Answer) and named) for turn in outcome.episode.turns]


@whole_reward("f1")
def f1(outcome: Outcome) -> float:
    """F1 of the answer set: KG-R1's equation 2, and Explore-on-Graph's outcome reward, equation 3.

    Three names, two of them right, of four: 2 * 2 / (3 + 4) = 0.571.
    """
    return outcome.metrics["f1"]


@whole_reward("retrieval")
def retrieval(outcome: Outcome) -> float:
    """v_ret: 1 if any right answer was shown in an observation. One of four was shown: 1.

    By entities that were left after truncation; the published code looks for text before it.
    """
    return outcome.metrics["retrieval_rate"]
