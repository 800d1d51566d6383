"""A causal language model as training sees it: its decoder and its head, and what a microbatch gives it.

Sequences that begin alike are computed in one row, their branches hidden from one another (`tree_mask`). Knows nothing
of losses. Shapes: R rows of L tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kgwalk.training import lean
from kgwalk.training.microbatch import Batch

Head = Callable[[torch.Tensor], torch.Tensor]


def parts_of(model: torch.nn.Module) -> tuple[torch.nn.Module, Head] | None:
    """What makes hidden states, and the head that makes logits of them; None where they cannot be told apart.

    Looked up for each pass, as wrapping a model for several devices may put other modules in their place.
    """
    plain = plain_of(model)
    if not hasattr(plain, "get_output_embeddings") or not hasattr(plain, "get_decoder"):
        return None
    head, decoder = plain.get_output_embeddings(), plain.get_decoder()
    return None if head is None or decoder is None or decoder is plain else (decoder, head)


def inputs_of(model: torch.nn.Module, batch: Batch, quick: bool = False) -> dict[str, Any]:
    """Without a second branch in any row there is nothing to say: a family counts and looks back from the left, and
    padding is on the right. So attention runs its quickest kernel there.
    """
    inputs: dict[str, Any] = {"input_ids": batch.ids_RL, "use_cache": False}
    if quick and batch.ids_RL.is_cuda:  # a processor has no gradient of attention by blocks
        end_L = torch.full_like(batch.ids_RL[0], batch.ids_RL.shape[1]) if batch.end_RL is None else batch.end_RL[0]
        return inputs | {"position_ids": batch.position_RL, "attention_mask": lean.sight(end_L)}
    if batch.end_RL is not None:
        inputs["position_ids"] = batch.position_RL
        inputs["attention_mask"] = tree_mask(batch.end_RL, computed_in(model, batch.ids_RL.device.type))
    return inputs


def tree_mask(end_RL: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What is added to the scores of attention, (R, 1, L, L): 0 where token i of a row may see token j, else the least
    number there is. It sees itself and what comes before it, as far as it goes on from that.

    >>> tree_mask(torch.tensor([[4, 2, 4, 4]]), torch.float32) == 0
    tensor([[[[ True, False, False, False],
              [ True,  True, False, False],
              [ True, False,  True, False],
              [ True, False,  True,  True]]]])
    """
    at_L = torch.arange(end_RL.shape[1], device=end_RL.device)
    seen_RLL = (at_L[:, None] >= at_L) & (at_L[:, None] < end_RL[:, None, :])
    # Made once in the type that attention computes in: from True and False it would be made anew in every layer.
    hidden = torch.full((), torch.finfo(dtype).min, dtype=dtype, device=end_RL.device)
    return torch.where(seen_RLL, torch.zeros_like(hidden), hidden)[:, None]


def computed_in(model: torch.nn.Module, kind: str) -> torch.dtype:
    """The type that the passes run in."""
    if torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    dtype: torch.dtype = plain_of(model).get_input_embeddings().weight.dtype
    return dtype


def plain_of(model: torch.nn.Module) -> Any:
    """Without an adapter around it."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model  # type: ignore[operator]
