"""Explore-on-Graph's rewards (section 3.2, equations 3 to 5; appendices K and L; Figure 15).

The outcome alone at first, the outcome and the path from step 75 on, and a penalty for long answers. The path reward
reads what the model wrote, as the paper's does: facts that it names are compared with the gold ones. Only recall is
paid, so a thought that copies the whole graph scores best; `overlong` bounds it, and `exploration_precision` of
`measure` shows it.
"""

from __future__ import annotations

import json

from kgwalk.config.recipe import unknown
from kgwalk.score.answers import forms
from kgwalk.score.exploration import gold_facts, likeness
from kgwalk.score.rewards import Outcome, facts_named, thought_of, whole_reward
from kgwalk.types import KgwalkError, Triple
from kgwalk.walk.tagged_text import unescape


@whole_reward("eog")
def eog(outcome: Outcome, *, path_from_step: int = 75, path_share: float = 0.2, path_form: str = "triples") -> float:
    """F1 before step 75; then (1 - l) F1 + l path with l = 0.2, best of those in Figure 15.

    F1 = 0.5, half of the path: 0.5 in step 74, 0.8 * 0.5 + 0.2 * 0.5 = 0.5 in step 75; with the whole path 0.6.

    Equation 5 is printed as F1 + a path; Figure 15 as above, which is what its best l is for. `path_form` is "triples"
    (`path`), "substring" (`path_substring`) or "edit" (`path_edit`). Without a gold path it is F1 in every step, for
    the whole group.
    """
    if path_form not in PATHS:
        raise unknown("value of reward_settings.path_form", path_form, PATHS)
    f1 = outcome.metrics["f1"]
    found = PATHS[path_form](outcome) if outcome.step >= path_from_step else None
    return f1 if found is None else (1 - path_share) * f1 + path_share * found


@whole_reward("path")
def path(outcome: Outcome) -> float | None:
    """R_path (equation 4) over facts: the share of the gold facts that the thought names as facts.

    Two gold facts, `["Big", "directed_by", "Penny Marshall"]` in the thought and the other not: 1/2. Case and white
    space aside. Without a gold path there is no value.
    """
    gold = {_plain(fact) for fact in gold_facts(outcome.episode.question)}
    if not gold:
        return None
    named = {_plain(fact) for fact in facts_named(thought_of(outcome.episode))}
    return len(gold & named) / len(gold)


@whole_reward("path_substring")
def path_substring(outcome: Outcome) -> float | None:
    """R_path as printed (equation 4): the share of gold facts whose three parts all occur somewhere in the thought.

    "Big was directed_by Penny Marshall" has one of two: 1/2. So has "Bigamy ... directed_by ... Penny Marshalls". A
    name with a quote or a backslash may also stand as JSON writes it, which is how the prompt shows it.
    """
    gold = gold_facts(outcome.episode.question)
    if not gold:
        return None
    text = unescape(thought_of(outcome.episode))

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
    gold = {_plain(fact) for fact in gold_facts(outcome.episode.question)}
    if not gold:
        return None
    return likeness({_plain(fact) for fact in facts_named(thought_of(outcome.episode))}, gold)


@whole_reward("overlong")
def overlong(outcome: Outcome, *, overlong_from: int = 3000, overlong_full: int = 10_000) -> float:
    """A penalty that grows from 0 at 3,000 generated tokens to -1 at 10,000. 4,750 tokens: -(1,750 / 7,000) = -0.25.

    Appendix K and Table 9 name an overlong buffer penalty above 3,000 tokens and a limit of 10,000. That it grows in a
    straight line to -1 is DAPO's soft overlong punishment, whose name it has; the paper gives no formula.
    """
    if overlong_from >= overlong_full:
        raise KgwalkError(f"overlong_from={overlong_from} must be below overlong_full={overlong_full}")
    past = (outcome.metrics["generated_tokens"] - overlong_from) / (overlong_full - overlong_from)
    return -min(max(past, 0.0), 1.0)


PATHS = {"triples": path, "substring": path_substring, "edit": path_edit}


def _plain(fact: Triple) -> tuple[str, str, str]:
    return forms(fact.head).plain, forms(fact.relation).plain, forms(fact.tail).plain
