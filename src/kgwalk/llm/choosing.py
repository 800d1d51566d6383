"""Which token comes next: pure functions from logits to ids and their log-probabilities.

A sampled token needs one number in [0, 1), drawn beforehand from the request's own seed: what else is in the batch
changes nothing. Knows nothing of requests or models. Shapes: B rows, V tokens of the vocabulary.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

import torch

FIRST_TRY = 256  # with top_p, the likeliest tokens to look at before all are sorted
AT_ONCE = 128  # rows for which V numbers are held in double precision


def seed_at(seed: int | None, position: int) -> int:
    """The seed of one generation; a random one for None.

    `position` is the length of the context: the turns of an episode share its seed and must not share their luck.
    """
    if seed is None:
        return secrets.randbits(63)
    return int.from_bytes(hashlib.blake2b(f"{seed}/{position}".encode(), digest_size=8).digest()) >> 1


def draws(seed: int, count: int) -> list[float]:
    """The numbers in [0, 1) that choose the tokens of one generation."""
    generator = torch.Generator().manual_seed(seed)
    numbers: list[float] = torch.rand(count, generator=generator, dtype=torch.float64).tolist()
    return numbers


def choose(
    logits_BV: torch.Tensor, temperature_B: Sequence[float], top_p_B: Sequence[float], draw_B: Sequence[float]
) -> tuple[list[int], list[float]]:
    """A token for each row, and its log-probability at temperature 1 without top_p.

    Temperature 0 takes the likeliest token. Else the tokens are laid end to end on [0, 1), each as long as it is
    likely, and the row's draw points to one: in the vocabulary's order, or with top_p in that of likelihood.
    """
    logits_BV = logits_BV.float()
    chosen_B = logits_BV.argmax(-1)
    sampled = [row for row, temperature in enumerate(temperature_B) if temperature > 0]
    plain = [row for row in sampled if top_p_B[row] >= 1]
    nucleus = [row for row in sampled if top_p_B[row] < 1]
    for rows in (*_split(plain), *_split(nucleus)):
        index = torch.tensor(rows, device=logits_BV.device)
        scale = torch.tensor([[temperature_B[row]] for row in rows], device=logits_BV.device)
        probs = torch.softmax(logits_BV[index] / scale, -1)
        draw = torch.tensor([[draw_B[row]] for row in rows], dtype=torch.float64, device=logits_BV.device)
        if top_p_B[rows[0]] >= 1:
            chosen_B[index] = _point(probs, draw)
        else:
            top_p = torch.tensor([[top_p_B[row]] for row in rows], dtype=torch.float64, device=logits_BV.device)
            chosen_B[index] = _point_in_nucleus(probs, draw, top_p)
    logprob_B = logits_BV.gather(1, chosen_B[:, None])[:, 0] - logits_BV.logsumexp(-1)
    both = torch.stack([chosen_B.double(), logprob_B.double()]).tolist()  # one wait for the device, not two
    return [int(number) for number in both[0]], both[1]


def _split(rows: list[int]) -> list[list[int]]:
    return [rows[at : at + AT_ONCE] for at in range(0, len(rows), AT_ONCE)]


def _point(probs_BV: torch.Tensor, draw_B1: torch.Tensor) -> torch.Tensor:
    ends = probs_BV.double().cumsum(-1)  # float32 would round away the unlikely
    found = torch.searchsorted(ends, draw_B1 * ends[:, -1:], right=True)
    return found[:, 0].clamp(max=probs_BV.shape[-1] - 1)


def _point_in_nucleus(probs_BV: torch.Tensor, draw_B1: torch.Tensor, top_p_B1: torch.Tensor) -> torch.Tensor:
    """Only the fewest likeliest tokens that have top_p together; there is always one."""
    size = probs_BV.shape[-1]
    probs, order = probs_BV.topk(min(FIRST_TRY, size))
    if bool((probs.double().sum(-1, keepdim=True) < top_p_B1).any()):
        probs, order = probs_BV.sort(descending=True, stable=True)
    ends = probs.double().cumsum(-1)
    before = ends - probs.double()
    kept = torch.where(before < top_p_B1, probs.double(), 0.0)
    return order.gather(1, _point(kept, draw_B1)[:, None])[:, 0]
