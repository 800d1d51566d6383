"""The one-page GRPO learns, and its parts are what they say."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from kgwalk.training.advantages import Rewards, advantages

FILE = Path(__file__).parents[2] / "examples" / "grpo_from_scratch.py"


@pytest.fixture(scope="module")
def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("grpo_from_scratch", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_reward_rises(page: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    history = page.main(steps=40)
    assert len(history) == 5
    assert history[-1] > history[0] + 0.2  # of questions it was neither shown nor tried: 0.31 to 0.7, say
    assert "step  40  test F1" in capsys.readouterr().out


def test_sampling_and_scoring_agree(page: ModuleType) -> None:
    """What was drawn one token at a time has the log-probability that the whole sequence gives it."""
    torch.manual_seed(1)
    policy = page.Policy()
    made = page.rollout(policy, page.all_questions()[:50])
    mask = made.turn_BT >= 0
    assert mask.any()
    scored = page.logprobs(policy, made.ids_BT)
    torch.testing.assert_close(scored[mask], made.sampled_BT[mask], atol=1e-5, rtol=0)


def test_a_walk_of_the_teacher_is_right(page: ModuleType) -> None:
    questions = page.all_questions()
    made = page.rollout(page.Policy(), questions, "teacher")
    assert {walk.reward() for walk in made.walks} == {1.0}
    assert {tuple(walk.turn_rewards) for walk in made.walks} == {(1.0,) * turns for turns in (2, 3, 4)}
    # Two tokens a turn are the policy's own, the two of the answer among them.
    for row, walk in zip(made.turn_BT.tolist(), made.walks, strict=True):
        assert [row.count(turn) for turn in range(4)] == [2] * len(walk.turn_rewards) + [0] * (
            4 - len(walk.turn_rewards)
        )


def test_its_advantages_are_those_of_the_library(page: ModuleType) -> None:
    torch.manual_seed(2)
    question = page.all_questions()[100]
    walks = page.rollout(page.Policy(), [question] * 8).walks
    [expected] = advantages("turn", [[Rewards(walk.turn_rewards, walk.reward()) for walk in walks]]).values
    for row, wanted in zip(page.turn_advantages(walks), expected, strict=True):
        assert row == pytest.approx(wanted, abs=1e-4)
