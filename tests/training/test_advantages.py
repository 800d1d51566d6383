"""Rewards into advantages, with numbers that can be checked by hand."""

from __future__ import annotations

import doctest
import math
import statistics
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgwalk.training import advantages as module
from kgwalk.training.advantages import ADVANTAGES, Rewards, advantages, token_advantages
from kgwalk.types import Answer, Call, Episode, Flat, KgwalkError, Question, Turn

# Rollout A queried well, then answered rightly; B queried badly, then answered wrongly; C answered at once, rightly.
A = Rewards([1.0, 1.0], 2.0)
B = Rewards([0.0, 1.0], 0.0)
C = Rewards([1.0], 2.0)


def rounded(values: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[round(value, 4) for value in row] for row in values]


def test_the_examples_in_the_module() -> None:
    result = doctest.testmod(module)
    assert result.attempted > 8
    assert result.failed == 0


def test_turn_is_one_pool_of_all_turns() -> None:
    # G = 3, 3 | 0, 1 | 3. Mean 10/5 = 2. Squares 1+1+4+1+1 = 8, population deviation sqrt(8/5) = 1.26491.
    [values] = advantages("turn", [[A, B, C]], eps=0).values
    assert rounded(values) == [[0.7906, 0.7906], [-1.5811, -0.7906], [0.7906]]


def test_turn_with_another_weight_of_the_whole() -> None:
    # lam 0.5: G = 2, 2 | 0, 1 | 2. Mean 7/5.
    [values] = advantages("turn", [[A, B, C]], lam=0.5, std=False).values
    assert rounded(values) == [[0.6, 0.6], [-1.4, -0.4], [0.6]]


def test_turn_code_standardises_apart() -> None:
    # r = 1, 1 | 0, 1 | 1: mean 0.8, squares 4*0.04 + 0.64 = 0.8, sample deviation sqrt(0.8/4) = 0.44721;
    #   z = 0.44721 (four times) and -1.78885.
    # R = 2 | 0 | 2: mean 4/3, squares 4/9 + 16/9 + 4/9 = 8/3, sample deviation sqrt(4/3) = 1.15470;
    #   z = 0.57735 | -1.15470 | 0.57735.
    # 0.5*0.44721 + 0.57735 = 0.80096; 0.5*-1.78885 - 1.1547 = -2.04913; 0.5*0.44721 - 1.1547 = -0.93110.
    [values] = advantages("turn-code", [[A, B, C]], eps=0).values
    assert rounded(values) == [[0.801, 0.801], [-2.0491, -0.9311], [0.801]]


def test_trajectory_is_one_number_a_rollout() -> None:
    # G = 1 + 2 | 0.5 + 0 | 1 + 2. Mean 6.5/3 = 2.16667; squares 2*0.69444 + 2.77778 = 4.16667; sample deviation
    # sqrt(4.16667/2) = 1.44338.
    [values] = advantages("trajectory", [[A, B, C]], eps=0).values
    assert rounded(values) == [[0.5774, 0.5774], [-1.1547, -1.1547], [0.5774]]
    # A long rollout is not better for being long: with a sum over turns A would beat C.
    assert values[0][0] == values[2][0]


def test_without_turn_rewards_trajectory_is_grpo() -> None:
    group = [Rewards([0.0] * turns, whole) for turns, whole in ((3, 1.0), (1, 0.0), (2, 0.25), (5, 0.5))]
    wholes = [rewards.whole for rewards in group]
    [values] = advantages("trajectory", [group]).values
    for row, whole in zip(values, wholes, strict=True):
        expected = (whole - statistics.mean(wholes)) / (statistics.stdev(wholes) + 1e-6)
        assert row == pytest.approx([expected] * len(row))


@pytest.mark.parametrize("name", ADVANTAGES)
def test_population_or_sample(name: str) -> None:
    # z over n values is smaller by sqrt((n-1)/n) with the deviation of a sample; `turn` pools 5, `trajectory` 3.
    [population], [sample] = (advantages(name, [[A, B, C]], ddof=ddof, eps=0).values for ddof in (0, 1))
    pooled = {"turn": 5, "trajectory": 3}.get(name)
    if pooled:
        assert sample[0][0] / population[0][0] == pytest.approx(math.sqrt((pooled - 1) / pooled))
    default = advantages(name, [[A, B, C]], eps=0).values
    assert default == [population if name == "turn" else sample]


def test_padding_turns_would_change_the_numbers() -> None:
    # What the published code does: C is filled up with an empty turn that scores 0. In z(r) the mean falls from 0.8 to
    # 4/6, by a turn that nobody took.
    padded = Rewards([1.0, 0.0], 2.0)
    assert advantages("turn-code", [[A, B, C]]).values != advantages("turn-code", [[A, B, padded]]).values
    assert [len(row) for row in advantages("turn", [[A, B, C]]).values[0]] == [2, 2, 1]


@pytest.mark.parametrize("name", ADVANTAGES)
def test_groups_that_teach_nothing_are_counted(name: str) -> None:
    third = 0.1 + 0.2  # not 0.3, but for rounding
    groups = [[Rewards([1.0, 1.0], 0.3), Rewards([1.0], third)], [A, B], [C], []]
    result = advantages(name, groups)
    assert result.live == [False, True, False, False]
    assert result.dropped == 3
    assert result.values[0] == [[0.0, 0.0], [0.0]]  # exactly


@pytest.mark.parametrize("name", ADVANTAGES)
def test_a_rollout_without_turns_takes_no_part(name: str) -> None:
    [with_empty] = advantages(name, [[A, Rewards([], 100.0), B]]).values
    [without] = advantages(name, [[A, B]]).values
    assert with_empty == [without[0], [], without[1]]


def test_turn_code_with_one_part_flat() -> None:
    # All turns alike: the turn part is 0, the whole decides alone, here z = +-sqrt(1/2) with a sample of two.
    [values] = advantages("turn-code", [[Rewards([1.0], 1.0), Rewards([1.0, 1.0], 0.0)]], eps=0).values
    assert rounded(values) == [[0.7071], [-0.7071, -0.7071]]


def test_errors() -> None:
    with pytest.raises(KgwalkError, match=r"unknown advantage `turns`; did you mean `turn`\?"):
        advantages("turns", [])
    with pytest.raises(KgwalkError, match="group 0, rollout 1: rewards must be finite"):
        advantages("turn", [[A, Rewards([math.nan], 0.0)]])


finite = st.floats(-10, 10)
rollouts = st.builds(Rewards, st.lists(finite, min_size=1, max_size=5), finite)


@given(st.sampled_from(list(ADVANTAGES)), st.lists(rollouts, min_size=2, max_size=6), finite)
def test_a_reward_for_all_changes_nothing(name: str, group: list[Rewards], bonus: float) -> None:
    shifted = [Rewards(rewards.turns, rewards.whole + bonus) for rewards in group]
    [before] = advantages(name, [group], std=False).values
    [after] = advantages(name, [shifted], std=False).values
    for row, other in zip(before, after, strict=True):
        assert row == pytest.approx(other, abs=1e-6)


@given(st.lists(rollouts, min_size=2, max_size=6), st.booleans())
def test_turn_advantages_add_up_to_nothing(group: list[Rewards], std: bool) -> None:
    [values] = advantages("turn", [group], std=std).values
    assert math.fsum(value for row in values for value in row) == pytest.approx(0, abs=1e-6)


# Tokens


def episode() -> Episode:
    turns = [
        Turn([7, 8], [-0.5, -0.25], "look", Call("look"), observation_ids=[3, 3]),
        Turn([9], [-0.1], "again", Call("look"), observation_ids=[4]),
        Turn([5, 6], [-1.0, -2.0], "the answer", Answer(("x",))),
    ]
    return Episode(Question("q", "?", [], []), [], [1, 2], "", turns)


def check_every_action_token_has_its_credit(credit: Callable[[Flat, Sequence[float]], list[float]]) -> None:
    flat, per_turn = episode().flatten(), [1.5, -1.0, 2.0]
    values = credit(flat, per_turn)
    assert values == [0.0, 0.0, 1.5, 1.5, 0.0, 0.0, -1.0, 0.0, 2.0, 2.0]
    answer = [value for value, index in zip(values, flat.turn_index, strict=True) if index == 2]
    assert answer == [2.0, 2.0], "the tokens of the turn that answers learn nothing"


def test_every_action_token_has_its_credit() -> None:
    check_every_action_token_has_its_credit(token_advantages)


def test_that_check_finds_a_lost_answer() -> None:
    """The published bug: the turn that answers has turn id -1, so its tokens get 0."""

    def loses_the_answer(flat: Flat, per_turn: Sequence[float]) -> list[float]:
        last = max(flat.turn_index)
        return token_advantages(flat._replace(turn_index=[-1 if i == last else i for i in flat.turn_index]), per_turn)

    with pytest.raises(AssertionError):
        check_every_action_token_has_its_credit(loses_the_answer)


def test_an_advantage_for_every_turn() -> None:
    with pytest.raises(KgwalkError, match="3 turns and 2 advantages"):
        token_advantages(episode().flatten(), [1.0, 2.0])


def test_from_rewards_to_tokens_the_answer_counts() -> None:
    # The same queries; the first answer is right. The answer's own tokens must differ between the two.
    right, wrong = Rewards([1.0, 1.0, 1.0], 1.0), Rewards([1.0, 1.0, 1.0], 0.0)
    for name in ADVANTAGES:
        [group] = advantages(name, [[right, wrong]]).values
        good, bad = (token_advantages(episode().flatten(), per_turn) for per_turn in group)
        assert all(a > 0 for a in good[-2:]), name
        assert all(a < 0 for a in bad[-2:]), name
