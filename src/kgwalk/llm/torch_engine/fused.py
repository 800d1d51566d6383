"""Changes to a model's layers: fewer and larger kernels on a GPU, and logits in float32.

`fuse` makes one projection of those with the same input, and one kernel each of normalisation, rotation and gating. It
finds a layer's parts by the names that transformers gives them and compares the logits before and after: where they
differ, the layers stay as they were. `widen_head` serves the trainer, too, so that both round alike.
Shapes: N tokens, D width, V vocabulary; others as in `kv_cache`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import linear, rms_norm

if TYPE_CHECKING:
    from transformers import PreTrainedModel


log = logging.getLogger(__name__)

# How far fused logits may be from the plain ones, relative to their size. In bfloat16 rounding alone moves SmolLM2's by
# up to 0.042, depending on the adapter; a wrong activation, scale or norm moves them by 0.29, 0.23 and 1.35.
MAX_DIFFERENCE = {torch.float32: 1e-4, torch.bfloat16: 0.1, torch.float16: 1e-2}


def fuse(module: PreTrainedModel, run: Callable[[], torch.Tensor]) -> bool:
    """Changes the layers in place; `run` gives the logits of some pass. False if the change was undone."""
    before = run()
    changed = [part for part in module.modules() if _fused_norm(part) or _fused_attention(part) or _fused_mlp(part)]
    after = run()
    apart = ((after - before).float().norm() / before.float().norm()).item()
    if apart <= MAX_DIFFERENCE[module.dtype]:  # false for NaN; not the logits' dtype, which may be wider
        return True
    log.warning(
        "this model's layers are not what they look like (logits differ by %.2g); they are run as written", apart
    )
    for part in changed:
        del part.forward
    return False


def _fused_norm(part: Any) -> bool:
    """x / rms(x) * weight."""
    eps = getattr(part, "variance_epsilon", getattr(part, "eps", None))
    if not type(part).__name__.endswith("RMSNorm") or eps is None or getattr(part, "weight", None) is None:
        return False
    weight = part.weight
    part.forward = lambda hidden: rms_norm(hidden, (hidden.shape[-1],), weight, eps)
    return True


def _fused_mlp(part: Any) -> bool:
    """down(silu(gate(x)) * up(x))."""
    layers = _linears(part, "gate_proj", "up_proj", "down_proj")
    act = getattr(part, "act_fn", None)
    if layers is None or type(act).__name__ not in ("SiLU", "SiLUActivation"):
        return False
    gate, up, down = layers
    weight, bias = _together([gate, up])

    def forward(hidden: torch.Tensor) -> torch.Tensor:
        from kgwalk.llm.torch_engine.kernels import gated

        out: torch.Tensor = down(gated(linear(hidden, weight, bias)))
        return out

    part.forward = forward
    return True


def _fused_attention(part: Any) -> bool:
    """Queries, keys and values in one product; rotated and written to the cache in one kernel."""
    layers = _linears(part, "q_proj", "k_proj", "v_proj", "o_proj")
    if layers is None or getattr(part, "layer_idx", None) is None or getattr(part, "head_dim", None) is None:
        return False
    weight, bias = _together(layers[:3])
    sizes = [one.out_features for one in layers[:3]]
    D, plain, out = part.head_dim, part.forward, layers[3]
    norms = getattr(part, "q_norm", None), getattr(part, "k_norm", None)

    def forward(hidden_states: torch.Tensor, *args: Any, **options: Any) -> tuple[torch.Tensor, None]:
        now, cache = options.get("slot_pass"), options.get("past_key_values")
        place = options.get("position_embeddings")
        if now is None or now.blocks_B4 is None or cache is None or place is None or place[0].shape[-1] != D:
            answer: tuple[torch.Tensor, None] = plain(hidden_states, *args, **options)
            return answer
        from kgwalk.llm.torch_engine.kernels import attend, rotate_and_store

        T = hidden_states.shape[1]
        query, key, value = linear(hidden_states[0], weight, bias).split(sizes, -1)  # type: ignore[no-untyped-call,unused-ignore]
        query, key, value = query.view(T, -1, D), key.view(T, -1, D), value.view(T, -1, D)
        if norms[0] is not None and norms[1] is not None:
            query, key = norms[0](query), norms[1](key)
        keys, values = cache.layer(part.layer_idx, value.shape[1], value)
        query = rotate_and_store(query, key, value, place[0][0], place[1][0], keys, values, now.slot_T, now.at_T)
        scale = getattr(part, "scaling", D**-0.5)
        found = attend(query.transpose(0, 1)[None], keys, values, now.blocks_B4, now.queries, scale)
        return out(found.view(1, T, -1)), None

    part.forward = forward
    return True


def _linears(part: Any, *names: str) -> list[torch.nn.Linear] | None:
    """The parts of these names, if they are all plain linear layers."""
    found = [getattr(part, name, None) for name in names]
    return found if all(type(one) is torch.nn.Linear for one in found) else None  # type: ignore[return-value]


def _together(layers: Sequence[torch.nn.Linear]) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The layers' weights as one tensor, and their biases. Their own become views of it, so that new numbers put into
    them are seen.
    """
    weight = torch.cat([one.weight.data for one in layers])
    biases = [one.bias.data for one in layers if one.bias is not None]
    bias = torch.cat(biases) if len(biases) == len(layers) else None
    at = 0
    for one in layers:
        one.weight.data = weight[at : at + one.out_features]
        if bias is not None:
            one.bias.data = bias[at : at + one.out_features]
        at += one.out_features
    return weight, bias


# The head

PART = 8192  # tokens of the vocabulary whose weights are in float32 at once, where the product has no other way
HALF = (torch.bfloat16, torch.float16)


def widen_head(module: Any) -> bool:
    """From now on the model's logits are float32; False if its head is not a plain layer, which stays as it is.

    Products of numbers in half precision are summed in float32 anyway; a plain layer then rounds the sum. In bfloat16 a
    logit between 16 and 32 is a multiple of 0.125, and one between 32 and 64 of 0.25: a log-probability is off by as
    much, and tokens that are not equally likely look so. What the head multiplies stays in half precision. What a model
    does to its logits after the head is in float32, too. A float32 model does not change. May be called again.
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
