"""KG-Reasoner's rewards (section 4.3, equations 5 to 8).

    R = search + 0.5 format + answer

One search, all in form, the right answer: 0.5 + 0.5 + 1 = 2. Without a search the same answer earns 0 + 0 + 1 = 1: the
format asks for a search too. KG-Hopper pays `search` and `format` as well; its paper prints the same equations.
"""

from __future__ import annotations

from kgwalk.config.recipe import unknown
from kgwalk.score.rewards import Outcome, judged_by, whole_reward

COUNTED = ("all", "answered")


@whole_reward("search")
def search(
    outcome: Outcome, *, search_each: float = 0.5, search_most: float = 0.8, search_counts: str = "all"
) -> float:
    """R_search = min(0.5 n, 0.8) for n searches (equation 5). One: 0.5; two: min(1.0, 0.8) = 0.8; five: 0.8.

    n is the number of calls of the tool, as printed: one that finds nothing and a way back count too. With
    `search_counts` "answered" those that failed do not: of two calls, one of an unknown entity, n is 1.
    """
    if search_counts not in COUNTED:
        raise unknown("search_counts", search_counts, COUNTED)
    failed = outcome.metrics["invalid_calls"] if search_counts == "answered" else 0
    return min(search_each * (outcome.metrics["calls"] - failed), search_most)


@whole_reward("format")
def whole_format(outcome: Outcome, *, format_needs_search: bool = True) -> float:
    """R_format / 0.5 (equation 6): 1 if every turn is in form, the last one answers, and there is a search, since the
    equation asks for all three tags. Three turns, one malformed: 0. An answer at once, without a search: 0, or 1 unless
    `format_needs_search`.

    The papers' 0.5 is its weight in the recipes.
    """
    return float(outcome.in_form and (outcome.metrics["calls"] > 0 or not format_needs_search))


@whole_reward("answer")
@judged_by("correct", needed=False)
def answer(outcome: Outcome) -> float | None:
    """R_answer (equation 7): 1 if a judge takes the answer for the right one, as f_a of appendix A does, else 0; where
    no judge is asked, `exact`.

    "Mountain Standard Time" for "Mountain Time Zone": 1 by a judge who says so, 0 by rule. The judge failed: no value.
    """
    return outcome.judged["correct"] if "correct" in outcome.judged else exact(outcome)


@whole_reward("exact")
def exact(outcome: Outcome) -> float:
    """R_answer by rule: 1 if the answer names all that is right and nothing else. Two names where one is right: 0."""
    return outcome.metrics["exact_set"]
