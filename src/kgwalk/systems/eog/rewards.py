"""Explore-on-Graph's rewards (section 3.2, equations 3 to 5; appendices K and L; Figure 15).

The outcome alone at first, the outcome and the path from a share of the steps on, and a penalty for long answers. The
path reward reads what the model wrote, as the paper's does. Only recall is paid, so a thought that copies the whole
graph scores best; `overlong` bounds it, and `exploration_precision` of `measure` shows it.
"""

from __future__ import annotations

import json

from kgwalk.config.recipe import unknown
from kgwalk.score.exploration import gold_facts, likeness, plain_fact
from kgwalk.score.rewards import Outcome, facts_named, thought_of, whole_reward
from kgwalk.types import KgwalkError
from kgwalk.walk.tagged_text import unescape

OUTCOMES = {"f1": "f1", "hit": "hit_any"}  # by name: the metric
JOINTS = ("printed", "code")
NO_PATH = "none"


@whole_reward("eog")
def eog(
    outcome: Outcome,
    *,
    outcome_reward: str = "f1",
    equation_5: str = "printed",
    alpha: float = 0.25,
    path_share: float = 0.2,
    path_form: str = "substring",
    path_from: float = 0.69,
    path_from_step: int = 0,
) -> float:
    """F1 in the first phase (equation 3); from a share of the steps on F1 + alpha path (equation 5).

    F1 = 0.5 and half of the path: 0.5 in step 74 of 108, 0.5 + 0.25 * 0.5 = 0.625 in step 75; the whole path: 0.75.

    `equation_5` is "printed", as above, or "code": (1 - l) F1 + l path with l = `path_share`, as in Figure 15 and the
    published code, here 0.8 * 0.5 + 0.2 * 0.5 = 0.5 and 0.6. No alpha is given for the printed form; 0.25 is 0.2 / 0.8,
    the ratio that is best in Figure 15, and since rewards are compared within a group both forms then teach the same.

    `path_form` is "substring" (`path_substring`: equation 4), "triples" (`path`), "edit" (`path_edit`) or "none":
    Table 2 without path reward. `outcome_reward` is "f1", or "hit" for Table 2 without outcome reward: 1 if any right
    answer is given. `path_from` is the share of the steps from which the path is paid: 75 of 108 in Figure 15, so from
    step 25 of 36 and 9 of 12 on; `path_from_step` names the step itself, as recipes of version 0.1 did. Without a gold
    path it is the outcome in every step, for the whole group.
    """
    for name, value, known in (
        ("outcome_reward", outcome_reward, OUTCOMES),
        ("equation_5", equation_5, JOINTS),
        ("path_form", path_form, [*PATHS, NO_PATH]),
    ):
        if value not in known:
            raise unknown(f"value of reward_settings.{name}", value, known)
    paid = outcome.metrics[OUTCOMES[outcome_reward]]
    second = outcome.step >= path_from_step if path_from_step else outcome.progress >= path_from
    found = PATHS[path_form](outcome) if second and path_form != NO_PATH else None
    if found is None:
        return paid
    return paid + alpha * found if equation_5 == "printed" else (1 - path_share) * paid + path_share * found


@whole_reward("path")
def path(outcome: Outcome) -> float | None:
    """R_path over facts, stricter than equation 4: the share of the gold facts that the thought names as facts.

    Two gold facts, `["Big", "directed_by", "Penny Marshall"]` in the thought and the other not: 1/2. Case and white
    space aside. Without a gold path there is no value.
    """
    gold = {plain_fact(fact) for fact in gold_facts(outcome.episode.question)}
    if not gold:
        return None
    named = {plain_fact(fact) for fact in facts_named(thought_of(outcome.episode))}
    return len(gold & named) / len(gold)


@whole_reward("path_substring")
def path_substring(outcome: Outcome) -> float | None:
    """R_path as printed (equation 4): the share of gold facts whose three parts all occur somewhere in the thought.

    "Big was directed_by Penny Marshall" has one of two: 1/2. So has "Bigamy ... directed_by ... Penny Marshalls". A
    name with a quote or a backslash may also stand as JSON writes it, which is how the prompt shows it. The thought is
    what stands between think tags, also where the answer after it is in no form: the equation does not ask for one.
    """
    gold = gold_facts(outcome.episode.question)
    if not gold:
        return None
    text = unescape(thought_of(outcome.episode, in_form=False))

    def occurs(part: str) -> bool:
        return part in text or json.dumps(part, ensure_ascii=False)[1:-1] in text

    return sum(all(map(occurs, fact[:3])) for fact in gold) / len(gold)


@whole_reward("path_edit")
def path_edit(outcome: Outcome) -> float | None:
    """Appendix L: how near the facts that the thought names are to the gold ones, by graph edit distance.

    Gold is Big -starred-> Tom Hanks, Big -directed_by-> Penny Marshall: 3 nodes, 2 edges. The thought names the second
    alone: a node and an edge are missing, 1 - 2/5 = 0.6. It names ten facts more, about ten more names: 20 edits of a
    graph of size 25, so 1 - 20/25 = 0.2; `path` would pay 1. The paper gives no formula and found it worse than `path`.
    """
    gold = {plain_fact(fact) for fact in gold_facts(outcome.episode.question)}
    if not gold:
        return None
    return likeness({plain_fact(fact) for fact in facts_named(thought_of(outcome.episode))}, gold)


@whole_reward("overlong")
def overlong(
    outcome: Outcome, *, overlong_from: int = 3000, overlong_full: int = 10_000, overlong_factor: float = 1.0
) -> float:
    """A penalty that grows from 0 at 3,000 generated tokens to -1 at 10,000. 4,750 tokens: -(1,750 / 7,000) = -0.25;
    with a factor of 0.5 half of that.

    Appendix K and Table 9 name an overlong buffer penalty above 3,000 tokens and a limit of 10,000; the paper gives no
    formula. That it grows in a straight line is DAPO's soft overlong punishment, whose name it has, as verl computes
    it: `overlong_full` is its longest response, `overlong_full - overlong_from` its `overlong_buffer.len`, and
    `overlong_factor` its `penalty_factor`.
    """
    if overlong_from >= overlong_full:
        raise KgwalkError(f"overlong_from={overlong_from} must be below overlong_full={overlong_full}")
    past = (outcome.metrics["generated_tokens"] - overlong_from) / (overlong_full - overlong_from)
    return -overlong_factor * min(max(past, 0.0), 1.0)


PATHS = {"triples": path, "substring": path_substring, "edit": path_edit}
