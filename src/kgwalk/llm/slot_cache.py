"""The keys and values of many sequences in one tensor a layer, and attention that reads them where they lie.

A slot is a row of the tensor. Nothing past a sequence's end is ever attended to, so what is not wanted (padding, rows
that come along for nothing) is written just past an end and overwritten later. Knows nothing of models or sessions.
Shapes: N slots, B rows, Q new tokens, S positions, H heads, D width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.cache_utils import Cache
from transformers.integrations.sdpa_attention import sdpa_attention_forward


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Grouped-query attention without copying each key and value for every query head that shares it, as transformers
    does when there is a mask: the heads of a group become further queries. query (B,HG,Q,D), key (B,H,S,D).
    """
    B, heads, Q, D = query.shape
    H = key.shape[1]
    if attention_mask is None or any(options.get(name) is not None for name in ("softcap", "s_aux", "position_bias")):
        return sdpa_attention_forward(  # type: ignore[no-any-return,no-untyped-call,unused-ignore]
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
    G = heads // H
    mask = attention_mask if Q == 1 or G == 1 else attention_mask.repeat(1, 1, G, 1)
    grouped = query.reshape(B, H, G * Q, D)
    out = scaled_dot_product_attention(grouped, key, value, attn_mask=mask, dropout_p=dropout, scale=scaling)
    return out.reshape(B, heads, Q, -1).transpose(1, 2).contiguous(), None


class SlotCache(Cache):
    """Written at (row, position) and read whole: `rows`, `at` and `length` are set before each pass."""

    def __init__(self, slots: int, length: int) -> None:
        super().__init__(layers=[])
        self.slots, self.capacity = slots, length
        self.keys: list[torch.Tensor] = []  # (N, H, S, D) for each layer
        self.values: list[torch.Tensor] = []
        self.rows: torch.Tensor | slice = slice(0, 0)  # (B,)
        self.row_index = torch.empty(0)  # (B, 1)
        self.at = torch.empty(0)  # (B, Q)
        self.length = 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if layer_idx == len(self.keys):
            for store, new in ((self.keys, key_states), (self.values, value_states)):
                # Zeros: a masked value counts 0 times, and 0 times what memory happens to hold may be NaN.
                store.append(new.new_zeros(self.slots, new.shape[1], self.capacity, new.shape[3]))
        keys, values = self.keys[layer_idx], self.values[layer_idx]
        keys[self.row_index, :, self.at] = key_states.transpose(1, 2)  # (B, Q, H, D)
        values[self.row_index, :, self.at] = value_states.transpose(1, 2)
        return keys[self.rows, :, : self.length], values[self.rows, :, : self.length]

    def resize(self, slots: int, length: int) -> None:
        for stores in (self.keys, self.values):
            for layer, old in enumerate(stores):
                stores[layer] = old.new_zeros(slots, old.shape[1], length, old.shape[3])
                stores[layer][: old.shape[0], :, : old.shape[2]] = old
        self.slots, self.capacity = slots, length

    # What transformers asks a cache of any kind. The mask is given whole, so none of it decides anything.

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return self.length, 0

    @property
    def is_sliding(self) -> list[bool]:
        return [False] * len(self.keys)
