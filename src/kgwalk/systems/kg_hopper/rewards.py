"""KG-Hopper's rewards (section III-C, equations 1 to 5).

    R = search + 0.5 format + reasoning + answer

`search` and `format` are KG-Reasoner's (systems/kg_reasoner/rewards.py): both papers print the same equations. The
answer and the reasoning are graded by a judge, which reads what the walk says in a form of its own (score/judge): no
score that the model writes is read. One search, all in form, the judge gives 0.7, the answer is right:
0.5 + 0.5 + 0.7 + 1 = 2.7.
"""

from __future__ import annotations

from kgwalk.score.rewards import Outcome, judged_by, pays_without_answers, whole_reward

# Equation 4: without gold answers the judge goes by what it knows, and no other part looks at them.
pays_without_answers("search", "format", "reasoning", "correct", "luck")


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
