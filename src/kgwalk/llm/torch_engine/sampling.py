"""Which token comes next: pure functions from logits to ids and their log-probabilities.

A sampled token needs one number in [0, 1), drawn beforehand from the request's own seed: what else is in the batch
changes nothing. Knows nothing of requests or models. Shapes: B rows, V tokens of the vocabulary.
"""

from __future__ import annotations

import torch

AT_ONCE = 128  # rows for which V numbers are held in double precision


def choose_rows(
    logits_BV: torch.Tensor, temperature_B: torch.Tensor | None, top_p_B: torch.Tensor | None, draw_B: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """A token for each row, and its log-probability at temperature 1 without top_p.

    Temperature 0 takes the likeliest token. Else the tokens are laid end to end on [0, 1), each as long as it is
    likely, and the row's draw points to one: in the vocabulary's order, or with top_p in that of likelihood.
    Without `temperature_B` it is 0 for all, without `top_p_B` 1. Asks the host nothing, so that it can be recorded.
    """
    logits_BV = logits_BV.float()
    chosen_B = logits_BV.argmax(-1)
    if temperature_B is not None:
        chosen_B = torch.where(temperature_B > 0, _pointed(logits_BV, temperature_B, top_p_B, draw_B), chosen_B)
    return chosen_B, logits_BV.gather(1, chosen_B[:, None])[:, 0] - logits_BV.logsumexp(-1)


def _pointed(
    logits_BV: torch.Tensor, temperature_B: torch.Tensor, top_p_B: torch.Tensor | None, draw_B: torch.Tensor
) -> torch.Tensor:
    warm_B = torch.where(temperature_B > 0, temperature_B, 1.0).to(logits_BV.dtype)
    pointed: list[torch.Tensor] = []
    for rows in range(0, len(logits_BV), AT_ONCE):
        some = slice(rows, rows + AT_ONCE)
        probs = torch.softmax(logits_BV[some] / warm_B[some, None], -1)
        pointed.append(
            _point(probs, draw_B[some, None])
            if top_p_B is None
            else _point_in_nucleus(probs, draw_B[some, None], top_p_B[some, None].double())
        )
    return torch.cat(pointed)


def _point(probs_BV: torch.Tensor, draw_B1: torch.Tensor) -> torch.Tensor:
    ends = probs_BV.double().cumsum(-1)  # float32 would round away the unlikely
    found = torch.searchsorted(ends, draw_B1 * ends[:, -1:], right=True)
    return found[:, 0].clamp(max=probs_BV.shape[-1] - 1)


def _point_in_nucleus(probs_BV: torch.Tensor, draw_B1: torch.Tensor, top_p_B1: torch.Tensor) -> torch.Tensor:
    """Only the fewest likeliest tokens that have top_p together; there is always one. A row whose top_p is 1 is pointed
    to in the vocabulary's order, as without a nucleus."""
    probs, order = probs_BV.sort(descending=True, stable=True)
    before = probs.double().cumsum(-1) - probs.double()
    kept = torch.where(before < top_p_B1, probs.double(), 0.0)
    inside = order.gather(1, _point(kept, draw_B1)[:, None])[:, 0]
    return torch.where(top_p_B1[:, 0] < 1, inside, _point(probs_BV, draw_B1))
