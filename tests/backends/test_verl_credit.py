"""Credit on verl, by verl's own functions: rewards as token scores, the estimator, the loss, the optimiser."""

from __future__ import annotations

from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("verl", reason="verl is not installed here: `make test-verl` runs these tests")

import numpy as np
import torch
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from kgwalk.training.advantages import Rewards
from kgwalk.training.backends.exchange import TrainerEpisode, token_credit
from kgwalk.training.backends.verl_credit import (
    NAME,
    AdamW,
    clipped_loss,
    estimate,
    rewards_of,
    token_scores,
    turn_ends,
)
from kgwalk.training.backends.verl_plugin import check_registered
from kgwalk.training.settings import GrpoSettings
from kgwalk.types import KgwalkError

NEEDED = ("advantage", "whole_weight", "std", "aggregation")


def walk(turns: list[float], whole: float, *, lengths: tuple[int, ...] = (2, 1)) -> TrainerEpisode:
    """Turns of these lengths, with one token of an observation after each but the last."""
    mask: list[int] = []
    index: list[int] = []
    for number, length in enumerate(lengths[: len(turns)]):
        mask += [0] * bool(number) + [1] * length
        index += [-1] * bool(number) + [number] * length
    size = len(mask)
    return TrainerEpisode([5, 6], list(range(10, 10 + size)), mask, [-1.0] * size, index, turns, whole, True)


def batch_of(groups: list[list[TrainerEpisode]], padding: int = 0) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Masks, scores and groups as verl hands them to an estimator: padded on the right, with rows of padding."""
    walks = [one for group in groups for one in group]
    longest = max(len(one.mask) for one in walks) + 1
    masks = [[*one.mask, *[0] * (longest - len(one.mask))] for one in walks] + [[0] * longest] * padding
    scores = [[*token_scores(one), *[0.0] * (longest - len(one.mask) - 1)] for one in walks]
    scores += [[0.0] * longest] * padding
    names = [f"group {number}" for number, group in enumerate(groups) for _ in group] + ["pad"] * padding
    return torch.tensor(masks), torch.tensor(scores), np.array(names, dtype=object)


def config_of(settings: GrpoSettings) -> Any:
    """verl's `algorithm`, as `verl_config` writes it."""
    return OmegaConf.create({NAME: {name: getattr(settings, name) for name in NEEDED}})


# Two turns with rewards 0.5 and 1 of a walk that earned 2, and so on; the last group earned all the same.
GROUPS = [
    [walk([0.5, 1.0], 2.0), walk([0.0], 0.0), walk([1.0, 1.0], 0.25, lengths=(1, 3))],
    [walk([0.5], 1.0), walk([0.5, 0.5], 1.0)],
]


def test_registered() -> None:
    assert check_registered() == "verl 0.9.1 knows the agent loop, the advantage estimator, the policy loss `kgwalk`"


def test_rewards_come_back_from_the_scores_of_tokens() -> None:
    one = walk([0.5, 1.0], 2.0)
    assert one.mask == [1, 1, 0, 1]
    assert token_scores(one) == [0.0, 0.5, 0.0, 1.0, 2.0]
    assert rewards_of([*one.mask, 0, 0], [*token_scores(one), 0.0]) == Rewards([0.5, 1.0], 2.0)
    assert rewards_of([0, 0, 0], [0.0, 0.0, 0.0]) is None
    assert turn_ends([0, 1, 0, 1, 1]) == [1, 4]


def test_turns_that_touch_are_refused() -> None:
    touching = TrainerEpisode([5], [7, 8, 9], [1, 1, 1], [0.0] * 3, [0, 0, 1], [0.5, 1.0], 2.0, True)
    with pytest.raises(KgwalkError, match="a walk has 2 turns, and its mask shows 1: two turns need"):
        token_scores(touching)
    silent = TrainerEpisode([5], [7, 3], [1, 0], [0.0] * 2, [0, -1], [0.5, 1.0], 2.0, True)  # a turn without a token
    with pytest.raises(KgwalkError, match="a walk has 2 turns, and its mask shows 1"):
        token_scores(silent)


@pytest.mark.parametrize("name", ["turn", "turn-code", "trajectory"])
@pytest.mark.parametrize("std", [True, False])
def test_the_estimator_gives_the_native_advantages(name: str, std: bool) -> None:
    """Through verl's own function, which decides what an estimator is told."""
    settings = GrpoSettings(advantage=name, std=std, whole_weight=0.5)
    masks, scores, names = batch_of(GROUPS, padding=2)
    data = DataProto.from_dict(
        tensors={"response_mask": masks, "token_level_rewards": scores}, non_tensors={"uid": names}
    )
    keys = [f"{group}_{row}_0" for row, group in enumerate(names)]
    made = compute_advantage_for_multi_trajectories(data, keys, adv_estimator=NAME, config=config_of(settings))
    found = made.batch["advantages"] * masks
    native = [row for group in token_credit(GROUPS, settings).advantages for row in group]
    assert [row is None for row in native] == [False, False, False, True, True]
    for own, row in zip(found, native, strict=False):
        wanted = torch.zeros(len(own)) if row is None else torch.tensor([*row, *[0.0] * (len(own) - len(row))])
        torch.testing.assert_close(own, wanted)
    assert not found[5:].any()


def test_a_walk_that_failed_is_in_no_mean() -> None:
    """verl never sees it: its group is one row shorter. The others are credited as if it had never been."""
    settings = GrpoSettings()
    masks, scores, names = batch_of([GROUPS[0][:2]])
    found, _ = estimate(scores, masks, names, config_of(settings))
    failed = TrainerEpisode([5], [7], [1], [0.0], [0], [], 0.0, False)
    first, second, left_out = token_credit([[*GROUPS[0][:2], failed]], settings).advantages[0]
    assert first is not None
    assert second is not None
    assert left_out is None
    torch.testing.assert_close(found[0, :4], torch.tensor(first))
    torch.testing.assert_close(found[1, :2], torch.tensor(second))


def test_rewards_that_only_rounding_tells_apart_are_equal() -> None:
    """1/3 + 1/3 and 2/3 + 0: as float32 their sums differ by 3e-8."""
    masks, scores, names = batch_of([[walk([1 / 3], 1 / 3), walk([2 / 3], 0.0)]])
    found, _ = estimate(scores, masks, names, config_of(GrpoSettings(advantage="turn")))
    assert not found.any()


def loss_config(**totals: Any) -> Any:
    values = {"clip_ratio": 0.2, "clip_ratio_low": 0.2, "clip_ratio_high": 0.2, "clip_ratio_c": 1e10}
    made = SimpleNamespace(**values, global_batch_info=totals)
    made.get = lambda name, default=None: getattr(made, name, default)
    return made


@pytest.mark.parametrize(
    ("aggregation", "mode", "constant"),
    [
        ("token-mean", "token-mean", None),
        ("sequence-mean", "seq-mean-token-mean", None),
        ("sequence-sum-constant", "seq-mean-token-sum-norm", 4),
    ],
)
def test_the_loss_counts_only_walks_that_teach(aggregation: str, mode: str, constant: int | None) -> None:
    """The slope of a token is minus its advantage times its weight: of 3 walks with 3, 2 and 4 tokens that teach, in
    a batch of 5 walks with 14 tokens and a row of padding."""
    settings = GrpoSettings(aggregation=aggregation, sequence_tokens=constant or 1024)
    masks, scores, names = batch_of(GROUPS, padding=1)
    advantages, _ = estimate(scores, masks, names, config_of(settings))
    log_prob = torch.full(masks.shape, -1.0, requires_grad=True)
    config = loss_config(
        dp_size=1, batch_num_tokens=int(masks.sum()), global_batch_size=len(masks), loss_scale_factor=constant
    )
    mask = masks.bool()
    assert get_policy_loss_fn(NAME) is clipped_loss
    loss, _ = clipped_loss(log_prob.detach(), log_prob, advantages, mask, mode, config)
    [slope] = torch.autograd.grad(loss, log_prob)
    assert mask.sum(-1).tolist() == [3, 2, 4, 0, 0, 0]  # verl's KL term comes after, from the same mask
    weights = {
        "token-mean": torch.full((3,), 1 / 9),
        "sequence-mean": torch.tensor([1 / 9, 1 / 6, 1 / 12]),
        "sequence-sum-constant": torch.full((3,), 1 / 12),
    }[aggregation]
    torch.testing.assert_close(slope[:3], -advantages[:3] * masks[:3] * weights[:, None])
    assert not slope[3:].any()


def test_norms_and_biases_do_not_decay() -> None:
    layer = torch.nn.Linear(2, 3)
    [matrices, others] = AdamW(layer.parameters(), weight_decay=0.5, betas=(0.9, 0.95), lr=1e-3).param_groups
    assert (matrices["params"], matrices["weight_decay"], matrices["betas"]) == ([layer.weight], 0.5, (0.9, 0.95))
    assert (others["params"], others["weight_decay"]) == ([layer.bias], 0.0)


def test_settings_travel_to_the_estimator() -> None:
    """What is not passed on keeps its default, and the estimator must not need it."""
    settings = GrpoSettings(advantage="trajectory", whole_weight=0.25, std=False, aggregation="sequence-mean")
    assert asdict(GrpoSettings(**config_of(settings)[NAME])) == asdict(settings)
