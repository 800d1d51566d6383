"""A decoder's layers with fewer and larger kernels, for passes over slots on a GPU.

Projections of the same input become one, their weights lying one after the other (the model's own tensors are views of
that, so that new numbers put into them are seen); normalisation, rotation and gating are one kernel each. What a layer
is made of is found by the names that transformers gives its parts, and the model's words before and after are compared:
where they differ, the layers stay as they are. Knows no model by name, nor what it is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import linear, rms_norm

if TYPE_CHECKING:
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)

# How far logits may lie apart, of their size. Rounding alone moves SmolLM2's in bfloat16 by up to 0.042, as adapters
# differ; another activation, scale or norm than it has, by 0.29, 0.23 and 1.35.
FAR = {torch.float32: 1e-4, torch.bfloat16: 0.1, torch.float16: 1e-2}


def fuse(module: PreTrainedModel, run: Callable[[], torch.Tensor]) -> bool:
    """Change the layers in place; `run` gives logits of some pass. False if they were put back."""
    before = run()
    changed = [part for part in module.modules() if _fused_norm(part) or _fused_attention(part) or _fused_mlp(part)]
    after = run()
    apart = ((after - before).float().norm() / before.float().norm()).item()
    if apart <= FAR[module.dtype]:  # false for NaN; the logits themselves may be of a wider type
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
        from kgwalk.llm.slot_kernels import gated

        out: torch.Tensor = down(gated(linear(hidden, weight, bias)))
        return out

    part.forward = forward
    return True


def _fused_attention(part: Any) -> bool:
    """Queries, keys and values in one; rotated and put into their places in one."""
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
        from kgwalk.llm.slot_kernels import attend, rotate_and_store

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
    """Their weights as one tensor, of which their own become views; and their biases."""
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
