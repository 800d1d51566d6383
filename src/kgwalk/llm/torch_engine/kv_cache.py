"""The keys and values of many sequences in one tensor, and attention that reads them where they lie.

A slot is a row of the tensor; a pass runs the new tokens of some rows, one row after the other, without padding between
them. Nothing past a sequence's end is ever attended to, so what lies there does not matter. The last slot is for tokens
that only fill up a pass of a fixed size. Knows nothing of models or sessions.
Shapes: N slots, R rows, T new tokens of all rows, S positions, H heads of keys, G heads of queries for each, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.cache_utils import Cache
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from kgwalk.llm.torch_engine.sampling import choose_rows

QUERIES = 16  # new tokens of a row that a GPU's program takes at a time


@dataclass(slots=True)
class SlotPass:
    """What a pass computes: for each token its slot and position. `blocks_B4` cuts the rows into pieces for a GPU: the
    first token, how many, slot, position of the first. Without a GPU `rows` says how to set the rows side by side.
    """

    slot_T: torch.Tensor
    at_T: torch.Tensor
    blocks_B4: torch.Tensor | None = None
    queries: int = QUERIES
    rows: PackedRows | None = None


@dataclass(slots=True)
class PackedRows:
    """Packed tokens as rows of equal length: `take_RQ` are the tokens' places, `put_T` where each is found again."""

    slots: slice | torch.Tensor
    take_RQ: torch.Tensor
    put_T: torch.Tensor
    mask_R1QS: torch.Tensor
    length: int


def side_by_side(
    slots: list[int], counts: list[int], starts: list[int], dtype: torch.dtype, capacity: int
) -> PackedRows:
    """For rows that have `counts` new tokens at positions from `starts` on; short rows repeat their first token."""
    longest, length = max(counts), max(start + count for start, count in zip(starts, counts, strict=True))
    length = min(-(-length // 64) * 64, capacity)  # few shapes, and aligned for the kernels
    first = torch.tensor([0, *counts[:-1]]).cumsum(0)[:, None]
    step = torch.arange(longest)
    inside = step < torch.tensor(counts)[:, None]
    take = torch.where(inside, first + step, first)
    put = torch.arange(len(counts))[:, None] * longest + step
    at = torch.tensor(starts)[:, None] + torch.where(inside, step, 0)
    seen = torch.arange(length) <= at[:, None, :, None]
    run = slice(slots[0], slots[0] + len(slots))
    return PackedRows(
        run if slots == list(range(run.start, run.stop)) else torch.tensor(slots),
        take,
        put[inside],
        torch.where(seen, 0.0, float("-inf")).to(dtype),
        length,
    )


class SlotCache(Cache):
    """Written at (slot, position) of each token of `current`, which is set before a pass."""

    def __init__(self, slots: int, length: int) -> None:
        super().__init__(layers=[])
        self.slots, self.capacity = slots, length
        self.keys: list[torch.Tensor] = []  # (N+1, H, S, D) for each layer
        self.values: list[torch.Tensor] = []
        self.current: SlotPass | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """New keys and values (1, H, T, D) into their places; all there are."""
        keys, values = self.layer(layer_idx, key_states.shape[1], key_states)
        now = self.current
        assert now is not None
        if now.blocks_B4 is not None:
            from kgwalk.llm.torch_engine import kernels

            kernels.store(keys, values, key_states, value_states, now.slot_T, now.at_T)
        else:
            keys[now.slot_T, :, now.at_T] = key_states[0].transpose(0, 1)
            values[now.slot_T, :, now.at_T] = value_states[0].transpose(0, 1)
        return keys, values

    def layer(self, layer_idx: int, heads: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """A layer's keys and values, made when they are first asked for; `like` has their width as its last size."""
        if layer_idx == len(self.keys):
            for store in (self.keys, self.values):
                # Zeros: a masked value counts 0 times, and 0 times what memory happens to hold may be NaN.
                store.append(like.new_zeros(self.slots + 1, heads, self.capacity, like.shape[-1]))
        return self.keys[layer_idx], self.values[layer_idx]

    def grow(self, slots: int, length: int) -> None:
        for stores in (self.keys, self.values):
            for layer, old in enumerate(stores):
                stores[layer] = old.new_zeros(slots + 1, old.shape[1], length, old.shape[3])
                stores[layer][: old.shape[0] - 1, :, : old.shape[2]] = old[:-1]
        self.slots, self.capacity = slots, length

    # What transformers asks a cache of any kind. The mask is given whole, so none of it decides anything.

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return self.capacity, 0

    @property
    def is_sliding(self) -> list[bool]:
        return [False] * len(self.keys)


def slot_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    slot_pass: SlotPass | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of packed queries (1, HG, T, D) over slots (N+1, H, S, D); as transformers does it for whoever calls
    the module without a `slot_pass`, such as a trainer.
    """
    if slot_pass is None:
        return sdpa_attention_forward(  # type: ignore[no-any-return,no-untyped-call,unused-ignore]
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if slot_pass.blocks_B4 is not None:
        from kgwalk.llm.torch_engine.kernels import attend

        return attend(query, key, value, slot_pass.blocks_B4, slot_pass.queries, scale), None
    rows = slot_pass.rows
    assert rows is not None
    R, Q = rows.take_RQ.shape
    H, D = key.shape[1], key.shape[3]
    G = query.shape[1] // H
    # The heads of a group become further queries, so that no key is copied for each of them.
    taken = query[0][:, rows.take_RQ.reshape(-1)].reshape(H, G, R, Q, D).permute(2, 0, 1, 3, 4).reshape(R, H, G * Q, D)
    mask = rows.mask_R1QS if Q == 1 or G == 1 else rows.mask_R1QS.repeat(1, 1, G, 1)
    out = scaled_dot_product_attention(
        taken, key[rows.slots, :, : rows.length], value[rows.slots, :, : rows.length], attn_mask=mask, scale=scale
    )
    packed = out.reshape(R, H * G, Q, D).transpose(1, 2).reshape(R * Q, H * G, D)[rows.put_T]  # (T, HG, D)
    return packed[None], None


# ----------------------------------------------------------------------------------------------------
# Where each slot's generation stands, on the device: its last token, how many are left, its draws, how it ends.
#
# A step reads and writes all of it without asking the host. A row stops when it has no tokens left or when it chose one
# that may complete a stop text; the host looks at the text and lets it go on, or not. Knows nothing of models.
# Shapes: N slots, M draws of a generation, K kinds of ends, C rows at most, V tokens of the vocabulary.


KINDS = 8  # of ends that are told apart on the device; for further ones every token may be an end


class SlotStart(NamedTuple):
    """How a row goes on whose cache holds `at` tokens. `last` is the token after them, if there is one to compute."""

    slot: int
    last: int
    at: int
    most: int
    temperature: float
    top_p: float
    draws: Sequence[float]
    kind: int


class SlotState:
    """`stops` is filled by `kind_of`; the last slot is nobody's and always has nothing left."""

    def __init__(self, slots: int, draws: int, rows: int, steps: int, vocabulary: int, device: torch.device) -> None:
        def zeros(*shape: int, dtype: torch.dtype = torch.long) -> torch.Tensor:
            return torch.zeros(*shape, dtype=dtype, device=device)

        self.device = device
        self.last, self.at = zeros(slots + 1), zeros(slots + 1)
        self.left, self.used, self.kind = zeros(slots + 1), zeros(slots + 1), zeros(slots + 1)
        self.temperature, self.top_p = (
            zeros(slots + 1, dtype=torch.float32),
            torch.ones(slots + 1, dtype=torch.float32, device=device),
        )
        self.draws = zeros(slots + 1, draws, dtype=torch.float64)
        self.stops = zeros(KINDS + 1, vocabulary, dtype=torch.uint8)
        self.stops[KINDS] = 1
        self.ends_KV = np.zeros((KINDS + 1, vocabulary), np.bool_)  # the same, for the host
        self.ends_KV[KINDS] = True
        self.turn = zeros(1)
        self.out_ids = torch.full((steps, rows), -1, device=device)
        self.out_logprobs = zeros(steps, rows, dtype=torch.float32)

    def set_kind(self, kind: int, ends: Sequence[int]) -> None:
        """The tokens with which a generation of this kind may end."""
        self.ends_KV[kind, list(ends)] = True
        self.stops[kind].copy_(torch.from_numpy(self.ends_KV[kind]))

    def begin(self, starts: Sequence[SlotStart]) -> None:
        """From here on the rows choose."""
        most = max((len(one.draws) for one in starts), default=0)
        parts = np.zeros((len(starts), 2 + most))
        parts[:, :2] = [(one.temperature, one.top_p) for one in starts]
        for row, one in zip(parts, starts, strict=True):
            row[2 : 2 + len(one.draws)] = one.draws
        whole = np.array([(one.slot, one.at, one.most, one.kind, one.last) for one in starts], np.int64)
        numbers, reals = self.put(torch.from_numpy(whole)), self.put(torch.from_numpy(parts))
        slots = numbers[:, 0]
        self.at[slots], self.left[slots], self.kind[slots] = numbers[:, 1], numbers[:, 2], numbers[:, 3]
        self.last[slots] = numbers[:, 4]
        self.used.index_fill_(0, slots, 0)  # `used[slots] = 0` would wait for the device
        self.temperature[slots], self.top_p[slots] = reals[:, 0].float(), reals[:, 1].float()
        if most:
            self.draws[slots, :most] = reals[:, 2:]

    def put(self, numbers: torch.Tensor) -> torch.Tensor:
        """On the device, without waiting for what it is at work on: from memory that is not pinned a copy would."""
        if self.device.type != "cuda":
            return numbers.to(self.device)
        return numbers.pin_memory().to(self.device, non_blocking=True)

    def leave(self, slots: Sequence[int], left: Sequence[int]) -> None:
        """Let rows go on with so many tokens, or none."""
        self.left[self.put(torch.tensor(slots))] = self.put(torch.tensor(left))

    def advance(
        self, logits_RV: torch.Tensor, slots_R: torch.Tensor, *, move: bool, sampled: bool, nucleus: bool
    ) -> None:
        """Choose a token for each row that has some left. `move`: the token before it has just been computed.

        `sampled` and `nucleus` say whether any row has a temperature, and whether any has a top_p.
        """
        draw_R = self.draws.gather(1, self.used[:, None].clamp(max=self.draws.shape[1] - 1))[slots_R, 0]
        ids_R, logprobs_R = choose_rows(
            logits_RV,
            self.temperature[slots_R] if sampled else None,
            self.top_p[slots_R] if nucleus else None,
            draw_R,
        )
        left_R = self.left[slots_R]
        live_R = left_R > 0
        self.out_ids[self.turn, : len(ids_R)] = torch.where(live_R, ids_R, -1)[None]
        self.out_logprobs[self.turn, : len(ids_R)] = logprobs_R[None]
        ends_R = self.stops[self.kind[slots_R], ids_R] != 0
        self.last[slots_R] = torch.where(live_R, ids_R, self.last[slots_R])
        self.left[slots_R] = torch.where(live_R & ~ends_R, left_R - 1, 0)
        self.used[slots_R] += live_R.long()
        if move:
            self.at[slots_R] += live_R.long()
