"""Several runs of a question, and statistics over questions: numbers that can be checked by hand or by counting."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgwalk.score.episode import agreed, majority, mean, oracle_max, pass_at_k, union, united, votes
from kgwalk.score.statistics import bootstrap_interval, flip_p, mcnemar, paired_test
from kgwalk.types import KgwalkError, Question

QUESTION = Question("q", "?", [], ["Paris", "Oslo"])
RUNS = [["Rome", "Paris"], ["PARIS", "paris"], ["Oslo", "Rome"], []]


def test_pass_at_k_counts_the_draws() -> None:
    for runs in range(1, 7):
        for right in range(runs + 1):
            for k in range(1, runs + 1):
                draws = list(combinations([True] * right + [False] * (runs - right), k))
                assert pass_at_k(runs, right, k) == pytest.approx(sum(map(any, draws)) / len(draws))
    for wrong in ((3, 4, 1), (3, -1, 1), (3, 1, 0), (3, 1, 4)):
        with pytest.raises(KgwalkError, match="1 <= k <= runs"):
            pass_at_k(*wrong)


def test_votes_by_hand() -> None:
    # Rome 2 (first seen first), Paris 2 (twice in one run is one vote), Oslo 1; the run without an answer is one of 4.
    assert votes(RUNS) == {"Rome": 2, "Paris": 2, "Oslo": 1}
    assert united(RUNS) == ["Rome", "Paris", "Oslo"]
    assert agreed(RUNS) == []  # 2 of 4 is not more than half
    assert agreed(RUNS[:3]) == ["Rome", "Paris"]


def test_united_and_agreed_are_scored_strictly() -> None:
    # Three names, two right, of two: P 2/3, R 1, F1 4/5; the first by votes is Rome, which is wrong.
    found = union(QUESTION, RUNS)
    assert (found["precision"], found["recall"], found["f1"]) == (2 / 3, 1.0, 0.8)
    assert (found["hits_at_1"], found["hit_any"], found["exact_set"]) == (0.0, 1.0, 0.0)
    assert majority(QUESTION, RUNS[:3])["f1"] == 0.5
    assert set(majority(QUESTION, [[], []]).values()) == {0.0}


def test_the_best_and_the_mean() -> None:
    assert (oracle_max([0.2, 0.9, 0.1]), mean([0.2, 0.9, 0.1])) == (0.9, pytest.approx(0.4))
    assert (oracle_max([]), mean([])) == (0.0, 0.0)


def test_an_interval_that_can_be_counted() -> None:
    # Of two values a and b, half of all resamples have the mean (a + b) / 2, a quarter a, a quarter b.
    assert bootstrap_interval([0.0, 1.0], confidence=0.9) == (0.0, 1.0)
    assert bootstrap_interval([0.0, 1.0], confidence=0.4) == (0.5, 0.5)
    assert bootstrap_interval([0.25] * 9) == (0.25, 0.25)


@pytest.mark.parametrize("distinct", [2, 1000])  # drawn by value, and one by one
def test_an_interval_is_near_the_normal_one(distinct: int) -> None:
    values = np.arange(1000) % distinct / (distinct - 1)
    low, high = bootstrap_interval(values.tolist())
    half = 1.96 * values.std() / 1000**0.5
    assert low == pytest.approx(values.mean() - half, abs=half / 20)
    assert high == pytest.approx(values.mean() + half, abs=half / 20)
    assert bootstrap_interval(values.tolist()) == (low, high)  # seeded
    assert bootstrap_interval(values.tolist(), seed=1) != (low, high)


@given(st.lists(st.integers(-3, 3), max_size=8))
def test_flipped_signs_are_counted(differences: list[int]) -> None:
    far = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    expected = sum(value >= abs(sum(differences)) for value in far) / len(far)
    assert flip_p(differences) == pytest.approx(expected)


def test_flipped_signs_are_drawn_where_there_are_many() -> None:
    # 20 pairs, 15 of them +1: P(at least 15 or at most 5 of 20 coins) = 2 * 21700 / 2^20 = 0.0414.
    differences = [1.0] * 15 + [-1.0] * 5
    assert flip_p(differences) == pytest.approx(0.0414, abs=0.006)
    assert flip_p(differences) == flip_p([*differences, 0.0])
    assert flip_p([0.1] * 100) == 1 / 10_001  # none of the draws is as far: the one observed is


def test_two_runs_on_the_same_questions() -> None:
    # Three questions gained of four: mean 0.25 -> 1.0; the signs of three +1: 2 of 8 ways as far.
    found = paired_test([0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0])
    assert (found["first"], found["second"], found["difference"], found["p"]) == (0.25, 1.0, 0.75, 0.25)
    low, high = found["interval"]
    assert 0.25 <= low <= 0.75 <= high == 1.0
    same = paired_test([0.5, 0.1], [0.5, 0.1])
    assert (same["difference"], same["interval"], same["p"]) == (0.0, [0.0, 0.0], 1.0)


def test_mcnemar_by_hand() -> None:
    assert mcnemar([1, 1, 0], [1, 1, 0]) == (0, 0, 1.0)
    assert mcnemar([0] * 5, [1] * 5) == (0, 5, 2 / 32)
    assert mcnemar([0, 1], [1, 0]) == (1, 1, 1.0)
    only = mcnemar([0] * 3000 + [1] * 2000, [1] * 3000 + [0] * 2000)
    assert only[:2] == (2000, 3000)
    assert 0 < only.p < 1e-40
    # On scores of 0 and 1 it is the exact test of flipped signs.
    assert mcnemar([1, 0, 0, 0, 0], [0, 1, 1, 1, 1]).p == flip_p([-1, 1, 1, 1, 1]) == 0.375


def test_what_cannot_be_tested() -> None:
    with pytest.raises(KgwalkError, match="same questions in both runs, at least one: got 1 and 2"):
        paired_test([1.0], [1.0, 0.0])
    with pytest.raises(KgwalkError, match="at least one"):
        mcnemar([], [])
    with pytest.raises(KgwalkError, match="scores of 0 and 1"):
        mcnemar([0.5], [1])
    with pytest.raises(KgwalkError, match="at least one value"):
        bootstrap_interval([])
    with pytest.raises(KgwalkError, match="between 0 and 1"):
        bootstrap_interval([1.0], confidence=95)
