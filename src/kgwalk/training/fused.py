"""The fused training pass: few and large kernels on a GPU.

On a GPU an eager pass of SmolLM2-135M is some 5,000 kernel launches, and the GPU waits for Python. Three changes make
it fast without changing what is computed; `TokenScorer.fuse` applies them and compares the results:

- `join_adapters`: an adapter's B A is added to its layer's weight and multiplied with it, instead of beside it, so that
  a layer is one product. The sum is rounded to the type that the model computes in, as in the engine's copy of the
  weights; what learns stays float32.
- `use_tree_attention`: attention pairs only tokens that see each other, so a row may be as long as memory allows
  (`microbatch.forests`).
- `compile_layers`: normalisation, rotation, gating and the additions between products become a few kernels. All layers
  run the same code, which is compiled once.

Shapes: a row of L tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import linear
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

BLOCK = 128  # tokens: attention skips or computes a whole block of keys for a block of queries
MULTIPLE = 1024  # tokens: rows are padded to a multiple of it, so that there are few different lengths
# How many programs may be compiled of a layer: with and without gradients, in training or not, with and without the
# adapter, of one length and of any. Past torch's limit of 8, layers would run uncompiled and pair all tokens of a row.
PROGRAMS = 64
ADAPTER = "default"
ATTENTION = "kgwalk_trees"


def join_adapters(model: torch.nn.Module) -> bool:
    """Add adapters to their layers' weights in every pass; False, and nothing changed, if some cannot be."""
    from peft.tuners.lora.layer import Linear, LoraLayer

    layers: list[Any] = [layer for layer in model.modules() if isinstance(layer, LoraLayer)]
    if not layers or not all(type(layer) is Linear and _plain(layer) for layer in layers):
        return False
    for layer in layers:
        layer.__class__ = _joined()
    return True


def _plain(layer: Any) -> bool:
    """Whether it is LoRA as published, without dropout, on a linear layer."""
    base = type(layer.base_layer) is torch.nn.Linear and not layer.fan_in_fan_out
    kept = isinstance(layer.lora_dropout[ADAPTER], torch.nn.Identity) and ADAPTER not in layer.lora_variant
    return base and kept and not layer.lora_bias[ADAPTER]


def _joined() -> type:
    """The class of joined layers. Made when first needed, since peft is imported only then."""
    global _Joined
    if _Joined is None:
        from peft.tuners.lora.layer import Linear

        class JoinedLora(Linear):  # type: ignore[misc,unused-ignore]
            """(W + s B A) x, where peft computes W x + s B (A x)."""

            def forward(self, x: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
                base: Any = self.base_layer
                weight = base.weight
                if not self._disable_adapters:
                    added = self.lora_B[ADAPTER].weight @ self.lora_A[ADAPTER].weight  # type: ignore[operator]
                    weight = (weight + self.scaling[ADAPTER] * added).to(weight.dtype)
                return linear(x, weight, base.bias)

        _Joined = JoinedLora
    return _Joined


_Joined: type | None = None


def sight(end_L: torch.Tensor) -> BlockMask:
    """What the tokens of one row see (`Batch.end_RL`), as a mask for `flex_attention`; made without a device sync.

    A query sees a key that stands before it and whose end lies behind it. So a block of queries needs a block of
    earlier keys if some key's end lies behind the first query, and needs no mask in it if every key's end lies behind
    the last.
    """
    end_L = end_L.clone()  # a program compiled for a view of another tensor does not serve for a whole one

    def sees(row: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return (query >= key) & (query < end_L[key])

    length = len(end_L)
    if length % BLOCK:
        raise ValueError(f"a row of {length} tokens is no multiple of {BLOCK}")
    ends = end_L.view(-1, BLOCK)
    place = torch.arange(len(ends), device=end_L.device)
    first = place[:, None] * BLOCK
    earlier = place < place[:, None]
    whole = earlier & (ends.amin(1) >= first + BLOCK)
    some = (earlier & (ends.amax(1) > first) & ~whole) | (place == place[:, None])
    return BlockMask.from_kv_blocks(
        *_listed(some), *_listed(whole), BLOCK_SIZE=BLOCK, mask_mod=sees, seq_lengths=(length, length)
    )


def _listed(wanted_QK: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """For each block of queries how many blocks of keys are wanted, and all blocks, the wanted ones first."""
    count = wanted_QK.sum(1, dtype=torch.int32)
    which = wanted_QK.to(torch.int8).argsort(dim=1, descending=True, stable=True).to(torch.int32)
    return count[None, None], which[None, None]


def tree_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: BlockMask | torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention by blocks where the mask is a `BlockMask`, else that of transformers."""
    if not isinstance(attention_mask, BlockMask):
        out, _ = sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
        return out, None
    # Under autocast the rotation leaves queries and keys in float32, and the values in their own type.
    query, key = query.to(value.dtype), key.to(value.dtype)
    several = query.shape[1] != key.shape[1]
    found: Any = flex_attention(query, key, value, block_mask=attention_mask, scale=scaling, enable_gqa=several)
    return found.transpose(1, 2).contiguous(), None


def use_tree_attention(module: Any) -> None:
    """From now on `module`, the model without its adapter around it, uses `tree_attention`."""
    AttentionInterface.register(ATTENTION, tree_attention)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
    module.set_attn_implementation(ATTENTION)


def compile_layers(module: Any, **options: Any) -> int:
    """Compile each of the decoder's layers; returns how many there are. `options` are torch.compile's."""
    torch._dynamo.config.recompile_limit = max(PROGRAMS, torch._dynamo.config.recompile_limit)
    module.get_input_embeddings().register_forward_hook(learn_through)
    layers = module.get_decoder().layers
    for layer in layers:
        layer.compile(**options)
    return len(layers)


def learn_through(module: torch.nn.Module, inputs: Any, embedded: torch.Tensor) -> None:
    """Give the embeddings a gradient. Without one the first layer would be compiled apart from the others."""
    if torch.is_grad_enabled():
        embedded.requires_grad_(True)


def restore(model: torch.nn.Module, module: Any, attention: str) -> None:
    """Undo the three changes, but for the embeddings' gradient, which nothing uses."""
    from peft.tuners.lora.layer import Linear

    for layer in model.modules():
        if type(layer) is _Joined:
            layer.__class__ = Linear
    module.set_attn_implementation(attention)
    for layer in module.get_decoder().layers:
        layer._compiled_call_impl = None
