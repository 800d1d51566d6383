"""Scores of an equivalence vector: what share of the gold entities was found, and of the predictions was right.

KG-R1 (appendix C.1) has the judge return one bit for each gold entity and reports F1, precision, recall and Pass@K from
it, without saying how. Recall is the vector's mean. The vector has no bit for a prediction, so precision counts each 1
as one right prediction, at most as many as there are. Pure functions; knows no judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EquivalenceScores:
    """`any` is 1 if some gold entity was found: a run that passes, in Pass@K."""

    precision: float
    recall: float
    f1: float
    any: float


def score_from_vector(vector: Sequence[int], predicted: int) -> EquivalenceScores:
    """Of `predicted` names given, for the gold entities that the vector stands for.

    Two of four gold entities found with three names: recall 2/4, precision 2/3, F1 = 2 * 2 / (3 + 4) = 4/7.

    >>> scores = score_from_vector([1, 0, 1, 0], predicted=3)
    >>> round(scores.precision, 3), scores.recall, round(scores.f1, 3), scores.any
    (0.667, 0.5, 0.571, 1.0)
    """
    if not vector:
        raise ValueError("an empty vector has no scores: there was no gold entity")
    found = sum(vector)
    right = min(found, predicted)
    precision = right / predicted if predicted else 0.0
    recall = found / len(vector) if predicted else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return EquivalenceScores(precision, recall, f1, float(recall > 0))


def pass_at_k(vectors_K: Sequence[Sequence[int]]) -> float:
    """Whether one of K runs found a gold entity.

    >>> pass_at_k([[0, 0], [0, 1]]), pass_at_k([[0, 0]])
    (1.0, 0.0)
    """
    return float(any(any(vector) for vector in vectors_K))
