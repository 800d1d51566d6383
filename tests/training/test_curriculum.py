"""Curricula: every order decides by the seed, the step and what was recorded, and goes on as if never stopped."""

from __future__ import annotations

import doctest
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgwalk.config.recipe import Recipe
from kgwalk.training import curriculum as module
from kgwalk.training.curriculum import ORDERS, Curriculum, CurriculumSettings, spread_of
from kgwalk.types import KgwalkError, Question, Triple


def some_questions(hops: Sequence[int | None]) -> list[Question]:
    return [Question(f"q{place}", "?", [], [], hops=number) for place, number in enumerate(hops)]


def a_curriculum(hops: Sequence[int | None], *, batch: int = 2, seed: int = 0, **settings: Any) -> Curriculum:
    """Losses rise with the place."""
    questions = some_questions(hops)
    losses = {question.id: place / 10 for place, question in enumerate(questions)}
    return Curriculum(questions, CurriculumSettings(**settings), batch=batch, seed=seed, losses=losses)


def run(curriculum: Curriculum, steps: range) -> list[list[int]]:
    """Some steps with rewards that depend on the step and the question alone."""
    batches = []
    for step in steps:
        batch = curriculum.questions(step)
        batches.append(batch)
        chance = random.Random(step)
        rows = [(place, [chance.choice((0.0, 1.0)) for _ in range(2)]) for place in set(batch)]
        curriculum.record(step, [(place, rewards, min(rewards) == 1) for place, rewards in rows])
    return batches


some_hops = st.lists(st.sampled_from([None, 1, 2, 3]), min_size=1, max_size=12)
orders = st.sampled_from(ORDERS)
batches = st.integers(1, 9)


def test_the_docstrings_are_right() -> None:
    assert doctest.testmod(module).failed == 0


@given(some_hops, orders, batches, st.integers(0, 5), st.integers(1, 8))
def test_a_curriculum_that_is_restored_goes_on_as_if_never_stopped(
    hops: list[int | None], order: str, batch: int, seed: int, stopped: int
) -> None:
    whole = run(a_curriculum(hops, batch=batch, seed=seed, order=order), range(1, 10))
    first = a_curriculum(hops, batch=batch, seed=seed, order=order)
    assert run(first, range(1, stopped + 1)) == whole[:stopped]
    second = a_curriculum(hops, batch=batch, seed=seed, order=order)
    second.restore(json.loads(json.dumps(first.state())))
    assert second.questions(stopped) == whole[stopped - 1]  # the step under way is the same again
    assert run(second, range(stopped + 1, 10)) == whole[stopped:]
    assert second.state()["step"] == 9


@given(some_hops, orders, batches)
def test_a_step_has_as_many_questions_as_it_asks_and_none_that_is_not_there(
    hops: list[int | None], order: str, batch: int
) -> None:
    for chosen in run(a_curriculum(hops, batch=batch, order=order, first_epochs=0), range(1, 12)):
        assert len(chosen) == batch
        assert set(chosen) <= set(range(len(hops)))


@given(some_hops, st.sampled_from(["shuffled", "hops"]), batches)
def test_every_question_comes_once_an_epoch(hops: list[int | None], order: str, batch: int) -> None:
    curriculum = a_curriculum(hops, batch=batch, order=order)
    asked = [place for step in range(1, 3 * len(hops) + 1) for place in curriculum.questions(step)]
    for epoch in range(len(asked) // len(hops)):
        assert sorted(asked[epoch * len(hops) : (epoch + 1) * len(hops)]) == list(range(len(hops)))


@given(st.integers(1, 12), st.sampled_from(["shuffled", "hops", "variance"]), batches)
def test_no_question_twice_in_a_step_if_there_are_enough(count: int, order: str, batch: int) -> None:
    for chosen in run(a_curriculum([1, 2] * count, batch=batch, order=order), range(1, 12)):
        if 2 * count >= batch:
            assert len(set(chosen)) == batch
        else:
            assert max(Counter(chosen).values()) - min(Counter(chosen).values()) <= 1


def test_epochs_differ_and_seeds_do() -> None:
    hops = [1] * 30
    first, second = (a_curriculum(hops, batch=30).questions(step) for step in (1, 2))
    assert first != second
    assert first != a_curriculum(hops, batch=30, seed=1).questions(1)
    assert first == a_curriculum(hops, batch=30).questions(1)


def test_easy_questions_come_first_then_the_order_is_shuffled() -> None:
    hops = [3, 1, None, 2, 1, 2]
    curriculum = a_curriculum(hops, batch=6, order="hops", mix=0)
    assert [hops[place] for place in curriculum.questions(1)] == [1, 1, 2, 2, 3, None]
    later = [[hops[place] for place in curriculum.questions(step)] for step in range(2, 6)]
    assert any(order != [1, 1, 2, 2, 3, None] for order in later)


def test_a_share_of_the_questions_is_mixed_in() -> None:
    hops = [1] * 50 + [2] * 50
    early = [hops[place] for place in a_curriculum(hops, batch=50, order="hops", mix=0.4).questions(1)]
    assert 0 < early.count(2) < 20  # of 40 that are mixed, half are of two hops, and half of those come early


def test_history_drops_one_hop_and_what_all_rollouts_answered() -> None:
    """KG-Hopper: an epoch over all; then 1 is of one hop, 2 was answered by both rollouts, 3 by one, 4 by none."""
    curriculum = a_curriculum([2, 1, 2, 2, 2, None], batch=6, order="history")
    assert sorted(curriculum.questions(1)) == [0, 1, 2, 3, 4, 5]
    curriculum.record(1, [(1, [0, 0], False), (2, [1, 1], True), (3, [1, 0], False), (4, [0, 0], False)])
    curriculum.batch = 4
    assert sorted(curriculum.questions(2)) == [0, 3, 4, 5]  # 0 and 5 were not recorded: they stay
    curriculum.record(2, [(3, [1, 1], True), (4, [1, 1], True), (5, [1, 1], True)])
    curriculum.batch = 1
    assert [curriculum.questions(step) for step in (3, 4, 5)] == [[0]] * 3


def test_a_high_reward_with_wrong_answers_is_not_solved() -> None:
    """0: two searches, in form, perfect reasoning, wrong answers: 0.8 + 0.5 + 1 = 2.3. 1: no format and poor reasoning,
    but right: 0.5 + 0 + 0.2 + 1 = 1.7."""
    curriculum = a_curriculum([2, 2], batch=2, order="history")
    curriculum.questions(1)
    curriculum.record(1, [(0, [2.3, 2.3], False), (1, [1.7, 1.7], True)])
    curriculum.batch = 1
    assert [curriculum.questions(step) for step in (2, 3)] == [[0], [0]]


def test_history_may_ask_for_a_reward_beside_right_answers() -> None:
    curriculum = a_curriculum([2, 2, 2], batch=3, order="history", solved=2.3)
    curriculum.questions(1)
    curriculum.record(1, [(0, [2.3, 3.0], True), (1, [2.2, 3.0], True), (2, [2.3, 3.0], False)])
    curriculum.batch = 2
    assert [sorted(curriculum.questions(step)) for step in (2, 3)] == [[1, 2], [1, 2]]


def test_the_state_of_a_run_of_version_0_2_is_restored() -> None:
    """It has no word on answers: what it called solved, by its reward alone, is asked again."""
    curriculum = a_curriculum([2, 2, 1], batch=2, order="history", solved=2.3)
    asked = [[0, 2.3, 0.1], [1, 0.5, 0.2], [2, 3.0, 0.0]]
    old = {"order": "history", "count": 3, "step": 2, "chosen": [2, 0], "epoch": 1, "left": [], "asked": asked}
    curriculum.restore(json.loads(json.dumps(old)))
    assert sorted(curriculum.questions(3)) == [0, 1]
    curriculum.record(3, [(0, [2.3, 2.3], True), (1, [0, 2.3], False)])
    curriculum.batch = 1
    assert [curriculum.questions(step) for step in (4, 5)] == [[1], [1]]
    assert curriculum.state()["asked"][0] == [0, 2.3, 0.05, True]  # the spread: half of 0.1


def test_when_nothing_would_be_left_everything_stays() -> None:
    for order in ("history", "hard"):
        curriculum = a_curriculum([1, 1], batch=2, order=order, first_epochs=0)
        assert sorted(curriculum.questions(1)) == [0, 1]


def test_hard_cases_have_several_hops_and_a_high_loss() -> None:
    """Losses are 0.0, 0.1, ... 0.5: the upper half are 3, 4 and 5, of which 4 is of one hop."""
    hops = [2, 2, 2, 2, 1, 2]
    curriculum = a_curriculum(hops, batch=6, order="hard")
    assert sorted(curriculum.questions(1)) == [0, 1, 2, 3, 4, 5]
    curriculum.batch = 2
    assert sorted(curriculum.questions(2)) == [3, 5]
    threshold = a_curriculum(hops, batch=1, order="hard", first_epochs=0, hard_loss=0.4)
    assert [threshold.questions(step) for step in (1, 2)] == [[5], [5]]


def test_without_a_loss_a_question_is_not_hard_unless_it_is_kept() -> None:
    for unknown, asked in (("leave", [[0], [0]]), ("keep", [[1], [1]])):
        limit = 0.05 if unknown == "leave" else 0.5  # the loss of q0 is 0.1
        settings = CurriculumSettings(order="hard", first_epochs=0, hard_loss=limit, hard_unknown=unknown)
        curriculum = Curriculum(some_questions([2, 2]), settings, batch=1, losses={"q0": 0.1})
        assert [curriculum.questions(step) for step in (1, 2)] == asked


def test_only_what_was_demonstrated_is_asked_in_any_order() -> None:
    """Losses of questions 1 and 3 of five: these are the epoch. Without any loss all five are."""
    for order in ("shuffled", "hops", "history", "hard", "variance"):
        settings = CurriculumSettings(order=order, demonstrated=True)
        curriculum = Curriculum(some_questions([2] * 5), settings, batch=2, losses={"q1": 0.1, "q3": 0.5})
        asked = [curriculum.questions(step) for step in (1, 2)]
        assert sorted(asked[0]) == [1, 3]
        assert set(asked[1]) <= {1, 3}
    everyone = Curriculum(some_questions([2] * 5), CurriculumSettings(demonstrated=True), batch=5)
    assert sorted(everyone.questions(1)) == [0, 1, 2, 3, 4]


def test_variance_asks_where_rewards_differ() -> None:
    """Ten questions: 0 and 1 with a spread of 0.5, the others with none: they weigh 0.05 of that."""
    curriculum = a_curriculum([1] * 10, batch=1, order="variance")
    curriculum.record(0, [(place, [1, 0] if place < 2 else [1, 1], False) for place in range(10)])
    counts = Counter(curriculum.questions(step)[0] for step in range(1, 1001))
    assert (counts[0] + counts[1]) / 1000 == pytest.approx(1 / 1.2, abs=0.05)  # 2 * 0.5 / (2 * 0.5 + 8 * 0.025)
    assert len(counts) > 5  # the others are not forgotten


def test_variance_asks_first_what_was_never_asked() -> None:
    curriculum = a_curriculum([1] * 20, batch=5, order="variance")
    curriculum.record(0, [(place, [1, 1], False) for place in range(10)])
    assert sum(place >= 10 for step in range(1, 41) for place in curriculum.questions(step)) > 150  # of 200


def test_the_spread_is_smoothed() -> None:
    """0.5 at first, then 0: with half the weight on what was before, 0.25."""
    curriculum = a_curriculum([1], order="variance")
    curriculum.record(1, [(0, [1, 0], False)])
    curriculum.record(2, [(0, [1, 1], True)])
    curriculum.record(3, [(0, [], True)])  # all rollouts failed: nothing was learned of it
    assert curriculum.asked[0].spread == 0.25
    assert spread_of([0, 2]) == 1.0


def test_hops_may_come_from_gold_paths() -> None:
    path = [Triple("a", "r", "b"), Triple("b", "r", "c")]
    question = Question("q", "?", [], [], gold_paths=[path[:1], path])
    assert Curriculum([question], CurriculumSettings(), batch=1).hops == [2]


def test_what_is_wrong_is_named() -> None:
    def of(batch: int = 1, count: int = 1, **section: Any) -> Curriculum:
        return Curriculum.of(Recipe("mine", {"curriculum": section}), some_questions([1] * count), batch=batch)

    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: of(orders="hard"), "unknown setting `curriculum.orders`; did you mean `curriculum.order`"),
        (lambda: of(order="shuffle"), "unknown value of curriculum.order `shuffle`; did you mean `shuffled`"),
        (lambda: of(mix=2), "`curriculum.mix` must be at most 1"),
        (lambda: of(order="hard"), "the order `hard` needs the losses of"),
        (
            lambda: Curriculum(some_questions([2]), CurriculumSettings(order="hard"), batch=1, losses={"other": 0.5}),
            "on these questions: train that first, or take another order",
        ),
        (lambda: of(batch=0), "a step asks at least 1 question, not 0"),
        (lambda: of(count=0), "there are no questions to train on"),
        (lambda: of().questions(0), "there are no questions for step 0: steps are counted from 1"),
        (lambda: of().record(1, [(1, [0.0], False)]), "step 1: there is no question 1; there are 1"),
        (lambda: of().record(1, [(0, [float("nan")], False)]), "step 1, question 0: rewards must be finite"),
        (lambda: of().restore(of(count=2).state()), "the curriculum's count was 2 and is now 1; start a new run"),
        (lambda: of().restore(of(order="hops").state()), "the curriculum's order was 'hops' and is now 'shuffled'"),
    ]
    for make, message in wrong:
        with pytest.raises(KgwalkError, match=message.replace("`", ".").split("?")[0]):
            make()
    gone = of()
    gone.questions(3)
    with pytest.raises(KgwalkError, match="no questions for step 2: step 3 was asked for already"):
        gone.questions(2)
