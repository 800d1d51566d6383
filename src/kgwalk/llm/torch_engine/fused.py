"""Fused layers: fewer and larger kernels on a GPU.

`fuse` makes one projection of those with the same input, and one kernel each of normalisation, rotation and gating. It
finds a layer's parts by the names that transformers gives them and compares the logits before and after: where they
differ, the layers stay as they were. Shapes as in `kv_cache`.
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
