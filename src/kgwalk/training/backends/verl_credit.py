"""Credit on verl: rewards travel as token scores, and come back as the native trainer's advantages and loss.

verl hands an advantage estimator one score for each token of a response, the mask of what the model wrote, and the
group; nothing says which turn a token is of, and what a walk earned as a whole cannot be told from what its turns did.
So a response is laid out such that all of it can be read back:

    tokens      7    8    3    9    2        turn 0 is 7 8, the graph said 3, turn 1 is 9; 2 closes the walk
    mask        1    1    0    1    0        a turn is a run of ones
    scores      0  0.5    0  1.0  2.0        a turn's reward is on its last token, the walk's on the closing one

The closing token is an end token that the model did not write: nothing is learnt from it, and nothing comes after it.

`estimate` is registered with verl as the estimator `kgwalk`: it reads the rewards back and asks `group_credit`, as the
native trainer does. On the closing token it leaves how much of the step teaches, and 0 for a walk that does not.
`clipped_loss` is registered as the policy loss `kgwalk`: it is verl's own clipped loss, over the walks that teach, with
their totals in place of all. verl counts walks of groups that earned the same, and those that failed, in its means.
`AdamW` is the native trainer's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla, register_adv_est, register_policy_loss

from kgwalk.training.advantages import Rewards, group_credit
from kgwalk.training.backends.exchange import TrainerEpisode
from kgwalk.training.settings import GrpoSettings
from kgwalk.types import KgwalkError

NAME = "kgwalk"  # of the estimator, the policy loss and the agent loop
ROUNDED = 1e-6  # scores are float32: rewards nearer to each other than this are equal


def turn_ends(mask: Sequence[int]) -> list[int]:
    """The place of each turn's last token.

    >>> turn_ends([1, 1, 0, 1, 0])
    [1, 3]
    """
    return [at for at, (here, after) in enumerate(pairwise([*mask, 0])) if here and not after]


def token_scores(one: TrainerEpisode) -> list[float]:
    """The scores of a walk's completion and of its closing token; raises where turns cannot be told apart.

    >>> one = TrainerEpisode([1], [7, 8, 3, 9], [1, 1, 0, 1], [0.0] * 4, [0, 0, -1, 1], [0.5, 1.0], 2.0, True)
    >>> token_scores(one)
    [0.0, 0.5, 0.0, 1.0, 2.0]
    """
    ends = turn_ends(one.mask)
    if [one.turn_index[at] for at in ends] != list(range(len(one.turn_rewards))):
        raise KgwalkError(
            f"a walk has {len(one.turn_rewards)} turns, and its mask shows {len(ends)}: two turns need at least one "
            "token of an observation between them, and each turn a token of its own; the protocol must tell the model "
            "something after every call"
        )
    scores = [0.0] * len(one.mask)
    for at, reward in zip(ends, one.turn_rewards, strict=True):
        scores[at] = reward
    return [*scores, one.whole_reward]


def rewards_of(mask: Sequence[int], scores: Sequence[float]) -> Rewards | None:
    """What `token_scores` laid out, padded or not; None for a row without a token of the model's.

    >>> rewards_of([1, 1, 0, 1, 0, 0, 0], [0.0, 0.5, 0.0, 1.0, 2.0, 0.0, 0.0])
    Rewards(turns=[0.5, 1.0], whole=2.0)
    """
    ends = turn_ends(mask)
    whole = sum(score for here, score in zip(mask, scores, strict=True) if not here)
    return Rewards([scores[at] for at in ends], whole) if ends else None


def estimate(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: Sequence[Any],
    config: Mapping[str, Any],
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The advantages of a step's walks. `index` is the group of each; `config` is verl's `algorithm`, in which
    `kgwalk` has the settings of [grpo] that are needed here.

    A row without a token of the model's (verl fills batches up with them) is in no group.
    """
    settings = GrpoSettings(**config[NAME])
    masks, scores = response_mask.tolist(), token_level_rewards.tolist()
    groups: dict[Any, list[int]] = {}
    rewards = [rewards_of(*row) for row in zip(masks, scores, strict=True)]
    for row, group in enumerate(index):
        if rewards[row] is not None:
            groups.setdefault(group, []).append(row)
    credit = group_credit([[rewards[row] for row in rows] for rows in groups.values()], settings, flat=ROUNDED)
    advantages_BT = torch.zeros_like(token_level_rewards)
    teaching = []
    for rows, values, live in zip(groups.values(), credit.turns, credit.live, strict=True):
        for row, per_turn in zip(rows, values, strict=True):
            if live and per_turn is not None:
                advantages_BT[row] = _spread(response_mask[row], per_turn)
                teaching.append(row)
    share = share_of(response_mask, teaching, settings.aggregation)
    for row in teaching:
        advantages_BT[row, _closing(masks[row])] = share
    return advantages_BT, advantages_BT


def share_of(mask_BT: torch.Tensor, teaching: Sequence[int], aggregation: str) -> float:
    """The rows that teach, as a share of what verl divides by: all tokens of the model's, or all rows.

    >>> mask = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 0, 0], [0, 0, 0]])
    >>> share_of(mask, [0], "token-mean"), share_of(mask, [0], "sequence-mean")
    (0.5, 0.25)
    """
    if aggregation == "token-mean":
        return float(mask_BT[list(teaching)].sum() / mask_BT.sum().clamp(min=1))
    return len(teaching) / len(mask_BT)


def clipped_loss(
    old_log_prob: torch.Tensor,
    log_prob: torch.Tensor,
    advantages: torch.Tensor,
    response_mask: torch.Tensor,
    loss_agg_mode: str = "token-mean",
    config: Any = None,
    rollout_is_weights: torch.Tensor | None = None,
) -> tuple[torch.Tensor, dict[str, Any]]:
    """verl's clipped loss of one microbatch, over the rows that teach.

    The others are taken out of the mask in place and the totals are set in `config.global_batch_info`, since verl
    computes the KL term after this, from the same two.
    """
    shares_B = torch.where(response_mask, 0.0, advantages).sum(-1)
    response_mask &= (shares_B > 0)[:, None]
    share = float(shares_B.max())
    if share > 0:  # else every row is masked, and divided by anything it is 0
        totals = config.global_batch_info
        totals["batch_num_tokens"], totals["global_batch_size"] = (
            totals[name] * share for name in ("batch_num_tokens", "global_batch_size")
        )
    made: tuple[torch.Tensor, dict[str, Any]] = compute_policy_loss_vanilla(
        old_log_prob=old_log_prob,
        log_prob=log_prob,
        advantages=torch.where(response_mask, advantages, 0.0),
        response_mask=response_mask,
        loss_agg_mode=loss_agg_mode,
        config=config,
        rollout_is_weights=rollout_is_weights,
    )
    return made


register_adv_est(NAME)(estimate)
register_policy_loss(NAME)(clipped_loss)


def _spread(mask_T: torch.Tensor, per_turn: Sequence[float]) -> torch.Tensor:
    """Each turn's advantage on its own tokens, 0 elsewhere."""
    starts_T = mask_T.bool() & ~torch.nn.functional.pad(mask_T.bool(), (1, 0))[:-1]
    turn_T = (starts_T.cumsum(0) - 1).clamp(min=0)
    return torch.where(mask_T.bool(), torch.tensor(per_turn, dtype=torch.float32)[turn_T], 0.0)


def _closing(mask: Sequence[int]) -> int:
    """The place of the closing token: it follows the last turn, or the observation that ended the walk.

    Wherever it stands after the last turn, the loss finds it as the one number that is not on a turn.
    """
    return turn_ends(mask)[-1] + 1


def AdamW(
    parameters: Iterable[torch.nn.Parameter], *, weight_decay: float, betas: Iterable[float], **options: Any
) -> torch.optim.AdamW:
    """The native trainer's optimiser: matrices decay, biases and the weights of norms do not (KG-R1, appendix D.4).

    verl builds what `optim.optimizer` and `optim.optimizer_impl` name, and would give all weights the same decay.

    >>> layer = torch.nn.Linear(2, 3)
    >>> [(group["weight_decay"], len(group["params"])) for group in
    ...     AdamW(layer.parameters(), weight_decay=0.5, betas=(0.9, 0.95), lr=1e-3).param_groups]
    [(0.5, 1), (0.0, 1)]
    """
    learning = [parameter for parameter in parameters if parameter.requires_grad]
    decayed = [parameter for parameter in learning if parameter.ndim >= 2]
    others = [parameter for parameter in learning if parameter.ndim < 2]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    first, second = betas
    return torch.optim.AdamW([group for group in groups if group["params"]], betas=(first, second), **options)
