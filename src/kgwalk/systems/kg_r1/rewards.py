"""KG-R1's rewards (section 3.3, equations 1 and 2; weights in Table 8).

    r_t = 0.5 format + 0.5 query + 0.5 answer        R = 1.0 F1 + 1.0 retrieval

Its published code pays 0.5 F1 + 0.5 retrieval. A walk of three turns, by Table 8: a query that is answered (format and
query: 1.0), the same query again (format: 0.5), the right answer (format and answer: 1.0); the answer had been shown,
so R = 1 + 1 = 2. They read steps and observations, so other protocols can be paid by them too.
"""

from __future__ import annotations

from kgwalk.score.rewards import Outcome, turn_reward, whole_reward
from kgwalk.types import Answer, Call, Malformed


@turn_reward("format")
def turn_format(outcome: Outcome) -> list[float]:
    """v_fmt: 1 for a turn that its protocol can read; in KG-R1's, one thought and one action.

    A query, text without tags, an answer: 1, 0, 1.
    """
    return [float(not isinstance(turn.step, Malformed)) for turn in outcome.episode.turns]


@turn_reward("query")
def query(outcome: Outcome) -> list[float]:
    """v_kg: 1 for a call that was answered, with something, and is not the same as one before.

    An answered query, the same again, one that the tool refused, another that was answered: 1, 0, 0, 1.

    The paper asks for results that are not empty and fit the schema; that repeats earn nothing stands in its code. A
    query that finds nothing is an error of the tool; a result for which there was no room is not an answer.
    """
    rewards: list[float] = []
    made: set[Call] = set()
    for turn in outcome.episode.turns:
        called = isinstance(turn.step, Call)
        rewards.append(float(called and turn.ok and bool(turn.observation) and turn.step not in made))
        if isinstance(turn.step, Call):
            made.add(turn.step)
    return rewards


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
