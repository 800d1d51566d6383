"""A model's head with logits in float32, where the model computes in bfloat16 or float16.

Products of numbers in half precision are summed in float32 anyway; a plain layer then rounds the sum. In bfloat16 a
logit between 16 and 32 is a multiple of 0.125, and one between 32 and 64 of 0.25: a log-probability is off by as much,
and tokens that are not equally likely look so. What the head multiplies stays as it was. The local engine and the
trainer both have their heads from here, so that neither is rounded otherwise than the other. Knows nothing of sampling
or losses. Shapes: N tokens, D width, V vocabulary.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.nn.functional import linear

PART = 8192  # tokens of the vocabulary whose weights exist in float32 at once, where the product has no other way
HALF = (torch.bfloat16, torch.float16)


def widen_head(module: Any) -> bool:
    """From now on the logits of a causal language model come in float32; False where its head is no plain layer, which
    stays as it is. What a family does to its logits after the head it does in float32, too. Where all is float32
    nothing changes. May be called again.
    """
    head: Any = module.get_output_embeddings() if hasattr(module, "get_output_embeddings") else None
    plain = type(head) is torch.nn.Linear
    if plain:
        head.forward = partial(_logits, head)
    return plain


def _logits(head: torch.nn.Linear, state: torch.Tensor) -> torch.Tensor:
    """(..., D) to (..., V)."""
    kind = state.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else state.dtype
    if dtype not in HALF:
        return linear(state, head.weight, head.bias)
    flat_ND = state.reshape(-1, state.shape[-1]).to(dtype)
    logits_NV: torch.Tensor = _Product.apply(flat_ND, head.weight.to(dtype))  # type: ignore[no-untyped-call]
    if head.bias is not None:
        logits_NV = logits_NV + head.bias.float()
    return logits_NV.view(*state.shape[:-1], -1)


def product(state_ND: torch.Tensor, weight_VD: torch.Tensor) -> torch.Tensor:
    """state @ weight.T of numbers in half precision, in float32; for its gradient see `_Product`.

    16 + 1/16 lies half way between 16 and 16.125, which are neighbours in bfloat16:

    >>> state, weight = torch.tensor([[16.0, 0.0625]]).bfloat16(), torch.tensor([[1.0, 1.0], [1.0, 0.0]]).bfloat16()
    >>> product(state, weight)
    tensor([[16.0625, 16.0000]])
    >>> product(state, weight).bfloat16()
    tensor([[16., 16.]], dtype=torch.bfloat16)
    """
    if state_ND.is_cuda and torch.version.hip is None:
        wide: torch.Tensor = torch.mm(state_ND, weight_VD.T, out_dtype=torch.float32)
        return wide
    with torch.autocast(state_ND.device.type, enabled=False):  # which would round them again
        state_ND = state_ND.float()
        starts = range(0, len(weight_VD), PART)
        return torch.cat([linear(state_ND, weight_VD[start : start + PART].float()) for start in starts], -1)


class _Product(torch.autograd.Function):
    """`product` with a gradient, which is multiplied in half precision as a plain layer's is."""

    @staticmethod
    def forward(ctx: Any, state_ND: torch.Tensor, weight_VD: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(state_ND, weight_VD)
        return product(state_ND, weight_VD)

    @staticmethod
    def backward(ctx: Any, grad_NV: torch.Tensor) -> Any:
        state_ND, weight_VD = ctx.saved_tensors
        grad_NV = grad_NV.to(state_ND.dtype)
        return (
            grad_NV @ weight_VD if ctx.needs_input_grad[0] else None,
            grad_NV.T @ state_ND if ctx.needs_input_grad[1] else None,
        )
