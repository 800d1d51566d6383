"""N runs of one question: their answers united or voted on, the chance that one of k is right, the best of them.

KG-R1 (section 4.1, "N-run beam search") unites the answers; its code takes the best run, which needs the right answer
to choose by: here that is `oracle_max`, and no system's score. A run without an answer is a run. Knows no walks.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

from kgwalk.kg.graph import Graph
from kgwalk.score.answers import match
from kgwalk.score.gold import gold_of
from kgwalk.score.lenient import hit_any
from kgwalk.score.names import forms
from kgwalk.types import KgwalkError, Question


def pass_at_k(runs: int, right: int, k: int) -> float:
    """The chance that of k runs, drawn from these without putting back, one at least is right: 1 - C(n-c,k)/C(n,k).

    Four runs, one right: two of four can be drawn in 6 ways, 3 of them without the right one, so 1 - 3/6.

    >>> pass_at_k(4, 1, 1), pass_at_k(4, 1, 2), pass_at_k(4, 1, 4), pass_at_k(4, 0, 4)
    (0.25, 0.5, 1.0, 0.0)
    """
    if not (0 <= right <= runs and 1 <= k <= runs):
        raise KgwalkError(f"pass@{k} of {runs} runs with {right} right: need 1 <= k <= runs and 0 <= right <= runs")
    return 1.0 - comb(runs - right, k) / comb(runs, k)


def oracle_max(values: Sequence[float]) -> float:
    """The best of several runs, chosen by looking at the right answer: an upper bound, not a system's score.

    >>> oracle_max([0.2, 1.0, 0.5])
    1.0
    """
    return max(values, default=0.0)


def mean(values: Sequence[float]) -> float:
    """
    >>> mean([0.0, 1.0, 0.5])
    0.5
    """
    return sum(values) / len(values) if values else 0.0


def votes(runs: Sequence[Sequence[str]]) -> dict[str, int]:
    """How many runs gave each name, those with most first, then in the order first seen; spelt as first seen.

    >>> votes([["Rome", "Paris"], ["paris", "PARIS"], []])
    {'Paris': 2, 'Rome': 1}
    """
    spelling: dict[str, str] = {}
    count: dict[str, int] = {}
    for run in runs:
        for key in dict.fromkeys(forms(name).key for name in run):
            count[key] = count.get(key, 0) + 1
        for name in run:
            spelling.setdefault(forms(name).key, name)
    order = list(spelling)
    return {spelling[key]: count[key] for key in sorted(order, key=lambda key: -count[key])}


def united(runs: Sequence[Sequence[str]]) -> list[str]:
    """Every name that any run gave, by votes."""
    return list(votes(runs))


def agreed(runs: Sequence[Sequence[str]]) -> list[str]:
    """The names that more than half of the runs gave, by votes.

    >>> agreed([["Rome", "Paris"], ["paris"], ["Oslo"]]), agreed([["Rome"], ["Paris"]])
    (['Paris'], [])
    """
    return [name for name, count in votes(runs).items() if 2 * count > len(runs)]


def union(question: Question, runs: Sequence[Sequence[str]], graph: Graph | None = None) -> dict[str, float]:
    """The scores of the united answers: KG-R1's "(3 runs)" rows are `f1` and `hit_any`.

    >>> question = Question("q", "?", [], ["Paris", "Oslo"])
    >>> scores = union(question, [["Rome", "Paris"], ["Paris"], ["Oslo"]])
    >>> scores["f1"], scores["recall"], scores["hits_at_1"]
    (0.8, 1.0, 1.0)
    """
    return _scores(question, united(runs), graph)


def majority(question: Question, runs: Sequence[Sequence[str]], graph: Graph | None = None) -> dict[str, float]:
    """The scores of the names that more than half of the runs gave.

    >>> scores = majority(Question("q", "?", [], ["Paris", "Oslo"]), [["Rome", "Paris"], ["Paris"], ["Oslo"]])
    >>> scores["precision"], scores["recall"]
    (1.0, 0.5)
    """
    return _scores(question, agreed(runs), graph)


def _scores(question: Question, names: Sequence[str], graph: Graph | None) -> dict[str, float]:
    gold = gold_of(question)
    matched = match(names, gold, graph)
    return {
        "f1": matched.f1,
        "precision": matched.precision,
        "recall": matched.recall,
        "hits_at_1": matched.hits_at_1,
        "exact_set": matched.exact_set,
        "hit_any": hit_any(names, gold, graph),
    }
