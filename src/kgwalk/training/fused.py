"""The training pass with few and large kernels, for a GPU: three changes to a model that change nothing it computes.

- An adapter's B A is added to its layer's weight and multiplied with it, instead of beside it: a layer is one product.
  The sum is rounded to the type that the model computes in, as it is in the engine's copy; what learns stays float32.
- Attention pairs only tokens that see each other: a row may be as long as memory allows (`forests`).
- Layers are compiled: normalisation, rotation, gating and the additions between products become a few kernels. All
  layers run the same code, which is compiled once.

Eager, a pass of SmolLM2-135M is some 5,000 launches, and the GPU waits for Python. Knows nothing of data or losses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import linear
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from kgwalk.training.microbatch import Batch

log = logging.getLogger(__name__)

BLOCK = 128  # tokens of which attention decides together whether they are looked at
MULTIPLE = 1024  # rows are padded to it: a few lengths instead of any
# Programs that may be made of a layer: with gradients or without, in training or not, with the adapter or without, of
# one length and of any. Past the limit, 8 unless told, layers would run as written, and pair all tokens of a row.
PROGRAMS = 64
ADAPTER = "default"
ATTENTION = "kgwalk_trees"


def join_adapters(model: torch.nn.Module) -> bool:
    """Adapters that are added to their layers' weights from now on; False, and nothing changed, if some cannot be."""
    from peft.tuners.lora.layer import Linear, LoraLayer

    layers: list[Any] = [layer for layer in model.modules() if isinstance(layer, LoraLayer)]
    if not layers or not all(type(layer) is Linear and _plain(layer) for layer in layers):
        return False
    for layer in layers:
        layer.__class__ = _joined()
    return True


def _plain(layer: Any) -> bool:
    """LoRA as it was published, without dropout, on a linear layer."""
    base = type(layer.base_layer) is torch.nn.Linear and not layer.fan_in_fan_out
    kept = isinstance(layer.lora_dropout[ADAPTER], torch.nn.Identity) and ADAPTER not in layer.lora_variant
    return base and kept and not layer.lora_bias[ADAPTER]


def _joined() -> type:
    """Made when it is needed, as peft is imported then."""
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
    """What the tokens of one row see (`Batch.end_RL`), for `flex_attention`. Nothing is asked of the device.

    A block of keys is looked at by a block of queries behind it if some key's end lies behind the first query; it needs
    no mask if every key's lies behind the last.
    """
    end_L = end_L.clone()  # what is compiled for a part of another tensor does not serve for a whole one

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
    """For each block of queries how many blocks of keys there are, and which, those first."""
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
    """By blocks where the mask says which; else as transformers does."""
    if not isinstance(attention_mask, BlockMask):
        out, _ = sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
        return out, None
    # Under autocast a rotation in float32 leaves queries and keys in it, and the values as they were.
    query, key = query.to(value.dtype), key.to(value.dtype)
    several = query.shape[1] != key.shape[1]
    found: Any = flex_attention(query, key, value, block_mask=attention_mask, scale=scaling, enable_gqa=several)
    return found.transpose(1, 2).contiguous(), None


def use_tree_attention(module: Any) -> None:
    """`module` is the model without an adapter around it."""
    AttentionInterface.register(ATTENTION, tree_attention)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
    module.set_attn_implementation(ATTENTION)


def compile_layers(module: Any, **options: Any) -> int:
    """Each of the decoder's layers; how many there are."""
    torch._dynamo.config.recompile_limit = max(PROGRAMS, torch._dynamo.config.recompile_limit)
    module.get_input_embeddings().register_forward_hook(_learn_through)
    layers = module.get_decoder().layers
    for layer in layers:
        layer.compile(**options)
    return len(layers)


def _learn_through(module: torch.nn.Module, given: Any, found: torch.Tensor) -> None:
    """Else the first layer, which nothing learns before, would be another program than those after it."""
    if torch.is_grad_enabled():
        found.requires_grad_(True)


def restore(model: torch.nn.Module, module: Any, attention: str) -> None:
    """All as it was before the other three, but for a gradient of the embeddings that nobody asks for."""
    from peft.tuners.lora.layer import Linear

    for layer in model.modules():
        if type(layer) is _Joined:
            layer.__class__ = Linear
    module.set_attn_implementation(attention)
    for layer in module.get_decoder().layers:
        layer._compiled_call_impl = None


# ----------------------------------------------------------------------------------------------------
# A causal language model as training sees it: its decoder and its head, and what a microbatch gives it.
#
# Sequences that begin alike are computed in one row, their branches hidden from one another (`tree_mask`). Knows
# nothing of losses. Shapes: R rows of L tokens.


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
        return inputs | {"position_ids": batch.position_RL, "attention_mask": sight(end_L)}
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
