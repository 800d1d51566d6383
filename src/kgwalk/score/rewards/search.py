"""The rewards of KG-Hopper (section III-C, equations 1 to 5) and KG-Reasoner (section 4.3, equations 5 to 8).

    KG-Reasoner  R = search + 0.5 format + answer
    KG-Hopper    R = search + 0.5 format + reasoning + answer

The answer is right by rule (`exact`) or by a judge (`correct`, KG-Hopper's equation 4; KG-Reasoner's appendix names the
same judge); the reasoning is graded by a judge. The judges read what the walk says in a form of their own
(score/judge): no score that the model writes is read. KG-Hopper, one search, all in form, the judge gives 0.7, the
answer is right: 0.5 + 0.5 + 0.7 + 1 = 2.7. Knows no judge, only its verdicts.
"""

from __future__ import annotations

from kgwalk.score.rewards.outcome import Outcome
from kgwalk.score.rewards.registry import judged_by, whole_reward


@whole_reward("search")
def search(outcome: Outcome, *, search_each: float = 0.5, search_most: float = 0.8) -> float:
    """R_search = min(0.5 n, 0.8) for n searches. One: 0.5; two: min(1.0, 0.8) = 0.8; five: 0.8.

    n counts the calls that a tool answered. The papers count every call: one that fails retrieves nothing.
    """
    answered = outcome.metrics["calls"] - outcome.metrics["invalid_calls"]
    return min(search_each * answered, search_most)


@whole_reward("format")
def whole_format(outcome: Outcome) -> float:
    """R_format / 0.5: 1 if every turn is in form and the last one answers. Three turns, one malformed: 0.

    The papers' 0.5 is its weight in the recipes.
    """
    return float(outcome.in_form)


@whole_reward("exact")
def exact(outcome: Outcome) -> float:
    """R_answer of KG-Reasoner (equation 7) by rule: 1 if the answer names all that is right and nothing else.

    Two names where one is right: 0.
    """
    return outcome.metrics["exact_set"]


@whole_reward("correct")
@judged_by("correct")
def correct(outcome: Outcome) -> float | None:
    """R_answer (KG-Hopper's equation 4): 1 if a judge takes the answer to mean the same as the right one, else 0.

    Verdict 1: 1. The judge failed: no value.
    """
    return outcome.judged["correct"]


@whole_reward("reasoning")
@judged_by("reasoning")
def reasoning(outcome: Outcome) -> float | None:
    """R_reason (KG-Hopper's equation 3): a judge's grade of the walk, 0 to 1; the paper writes the open interval.

    Grade 0.7: 0.7. The judge failed: no value.
    """
    return outcome.judged["reasoning"]
