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

    n counts every call, as both papers print it: also one that found nothing.
    """
    return min(search_each * outcome.metrics["calls"], search_most)


@whole_reward("format")
def whole_format(outcome: Outcome) -> float:
    """R_format / 0.5: 1 if there is a search, every turn is in form and the last one answers. Three turns, one
    malformed: 0. An answer without a search: 0, since the search's tags must be there too.

    The papers' 0.5 is its weight in the recipes.
    """
    return float(outcome.in_form and outcome.metrics["calls"] > 0)


@whole_reward("exact")
def exact(outcome: Outcome) -> float:
    """R_answer of KG-Reasoner (equation 7) by rule: 1 if the answer names all that is right and nothing else.

    Two names where one is right: 0.
    """
    return outcome.metrics["exact_set"]
