"""KG-Reasoner's rewards (section 4.3, equations 5 to 8).

    R = search + 0.5 format + answer

The answer is right by rule (`exact`) or by a judge (`correct`, KG-Hopper's: the appendix names the same judge).
One search, all in form, the right answer: 0.5 + 0.5 + 1 = 2. KG-Hopper pays `search` and `format` as well.
"""

from __future__ import annotations

from kgwalk.score.rewards import Outcome, whole_reward


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
