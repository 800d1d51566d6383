"""The cache of keys and values: many sequences in one tensor, attention that reads it, and prefixes that are shared.

A slot is a row of the tensor, with the keys and values of one sequence. A pass computes the new tokens of some
sequences, one sequence after the other, without padding between them. Nothing past a sequence's end is ever attended
to, so what lies there does not matter. The last slot is nobody's: tokens that only fill up a pass of a fixed size go
there. Which session has which slot is the business of `sequence.SlotTable`.

`PrefixCache` says which sequences copy the beginning of their context from another slot. The rollouts of a question
begin with the same prompt: one of them computes it, the others wait a round and copy its keys and values. Prefixes are
found by hash, in whole blocks of 16 tokens.

Shapes: N slots, R sequences of a pass, T new tokens of all of them, S positions, H heads of keys, G heads of queries
for each, D width.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.cache_utils import Cache
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from kgwalk.llm.torch_engine.sequence import BLOCK, Slot, SlotSequence, prefix_hashes

QUERIES = 16  # new tokens of a sequence that one program on a GPU takes at a time
# On a GPU passes are recorded in these sizes (`cuda_graphs`): sequences of a step, and tokens of a prefill.
STEP_SIZES = (8, 32, 128, 256, 512, 768, 1024, 1536, 2048, 4096)
PREFILL_SIZES = (64, 256, 1024, 2048, 4096, 8192, 16384)


def size_above(count: int, sizes: Sequence[int]) -> int:
    """The smallest size that is enough; past the last size, its next multiple.

    >>> size_above(9, (8, 16)), size_above(33, (8, 16))
    (16, 48)
    """
    at = bisect_left(sizes, count)
    return sizes[at] if at < len(sizes) else -(-count // sizes[-1]) * sizes[-1]


@dataclass(slots=True)
class SlotPass:
    """What a pass computes: for each token its slot and position.

    `blocks_B4` cuts the sequences into blocks for a GPU: first token, number of tokens, slot, position of the first.
    Without a GPU, `rows` says how to pad the sequences to rows of equal length.
    """

    slot_T: torch.Tensor
    at_T: torch.Tensor
    blocks_B4: torch.Tensor | None = None
    queries: int = QUERIES
    rows: PaddedRows | None = None


@dataclass(slots=True)
class PaddedRows:
    """Packed tokens as rows of equal length: `take_RQ` says which token goes to each place of a row, `put_T` at which
    place each token is found again.
    """

    slots: slice | torch.Tensor
    take_RQ: torch.Tensor
    put_T: torch.Tensor
    mask_R1QS: torch.Tensor
    length: int


def pad_rows(slots: list[int], counts: list[int], starts: list[int], dtype: torch.dtype, capacity: int) -> PaddedRows:
    """For sequences with `counts` new tokens at positions from `starts` on; short rows repeat their first token."""
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
    return PaddedRows(
        run if slots == list(range(run.start, run.stop)) else torch.tensor(slots),
        take,
        put[inside],
        torch.where(seen, 0.0, float("-inf")).to(dtype),
        length,
    )


class SlotCache(Cache):
    """A cache as transformers asks for one; keys and values go to the slot and position that `current` says.

    `current` is set before each pass.
    """

    def __init__(self, slots: int, length: int) -> None:
        super().__init__(layers=[])
        self.slots, self.capacity = slots, length
        self.keys: list[torch.Tensor] = []  # (N+1, H, S, D) for each layer
        self.values: list[torch.Tensor] = []
        self.current: SlotPass | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes new keys and values (1, H, T, D) to their places; returns all of the layer's."""
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
        """A layer's keys and values, made when they are first asked for; `like` has their width, dtype and device."""
        if layer_idx == len(self.keys):
            for store in (self.keys, self.values):
                # Zeros: a masked value is multiplied by 0, and 0 times what memory happens to hold may be NaN.
                store.append(like.new_zeros(self.slots + 1, heads, self.capacity, like.shape[-1]))
        return self.keys[layer_idx], self.values[layer_idx]

    def grow(self, slots: int, length: int) -> None:
        """More slots or longer ones; what they hold stays."""
        for stores in (self.keys, self.values):
            for layer, old in enumerate(stores):
                stores[layer] = old.new_zeros(slots + 1, old.shape[1], length, old.shape[3])
                stores[layer][: old.shape[0] - 1, :, : old.shape[2]] = old[:-1]
        self.slots, self.capacity = slots, length

    # What transformers asks of any cache. The mask is given whole, so none of these answers matters.

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
    """Attention of packed queries (1, HG, T, D) over slots (N+1, H, S, D).

    A caller without a `slot_pass`, such as a trainer, gets the attention of transformers.
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


# The prefix cache: no tensors from here on; the scheduler makes the copies

WORTH_COPYING = 32  # tokens: a shorter prefix is as quickly computed as copied
MAX_HASHES = 1 << 18


@dataclass(slots=True)
class PrefixPlan:
    """`copies`: (from slot, to slot, number of tokens); all are made at the same time. `ready` are the sequences to
    compute now. `deferred` ones begin like one of these, and copy from it in the next round.
    """

    copies: list[tuple[int, int, int]] = field(default_factory=list)
    ready: list[SlotSequence] = field(default_factory=list)
    deferred: list[SlotSequence] = field(default_factory=list)


class PrefixCache:
    """Remembers which slot has computed which prefix."""

    def __init__(self) -> None:
        self._index = PrefixIndex()

    def plan(self, sequences: Sequence[SlotSequence]) -> PrefixPlan:
        """What each sequence can copy. Its slot counts as holding that from now on."""
        plan = PrefixPlan()
        origin: dict[int, int] = {}  # by slot that a copy is on its way to: the slot it comes from
        coming: set[int] = set()  # the hashes of what this pass computes
        for sequence in sequences:
            slot = sequence.slot
            assert slot is not None
            if len(sequence.ids) - slot.cached > WORTH_COPYING:
                if sequence.prefix_hashes is None:
                    sequence.prefix_hashes = prefix_hashes(sequence.ids[:-1])
                hashes = sequence.prefix_hashes
                found = self._index.longest(sequence.ids, hashes, slot.cached + WORTH_COPYING)
                if found is not None:
                    # All copies are made at once: what has yet to arrive in a slot is copied from its origin.
                    source = origin[slot.index] = origin.get(found[0].index, found[0].index)
                    plan.copies.append((source, slot.index, found[1]))
                    slot.cached = found[1]
                # If another sequence computes the first whole block that this one would, this one waits for it.
                first = -(-slot.cached // BLOCK)
                if first < len(hashes) and len(sequence.ids) - slot.cached > WORTH_COPYING:
                    if hashes[first] in coming:
                        plan.deferred.append(sequence)
                        continue
                    coming.add(hashes[first])
            plan.ready.append(sequence)
        return plan

    def computed(self, sequence: SlotSequence, new: int) -> None:
        """So many new tokens of the sequence were computed in its slot."""
        if sequence.slot is not None and new > WORTH_COPYING:
            self._index.add(sequence.slot, sequence.prefix_hashes or [])

    def clear(self) -> None:
        self._index.clear()


class PrefixIndex:
    """For every whole number of blocks that a context begins with, the slot that held it first.

    >>> index, slot = PrefixIndex(), Slot(0, ids=[*range(40)], cached=40)
    >>> index.add(slot, prefix_hashes(slot.ids))
    >>> like = [*range(35), 99, 99]
    >>> found, length = index.longest(like, prefix_hashes(like))
    >>> found is slot, length
    (True, 32)
    """

    def __init__(self) -> None:
        self._slots: dict[int, Slot] = {}

    def add(self, slot: Slot, hashes: Sequence[int]) -> None:
        """The slot holds the tokens that these are the prefix hashes of."""
        if len(self._slots) > MAX_HASHES:
            self._slots.clear()  # most are of slots that hold something else by now
        for one in hashes:
            self._slots.setdefault(one, slot)

    def longest(self, ids: Sequence[int], hashes: Sequence[int], least: int = 1) -> tuple[Slot, int] | None:
        """The slot that holds most of what ids begin with, and how much; None if no slot holds `least` tokens of it.

        Entries of what a slot no longer holds are removed.
        """
        for count in range(len(hashes), (least - 1) // BLOCK, -1):
            slot = self._slots.get(hashes[count - 1])
            if slot is None:
                continue
            length = count * BLOCK
            if length <= slot.cached and slot.ids[:length] == ids[:length]:
                return slot, length
            del self._slots[hashes[count - 1]]
        return None

    def clear(self) -> None:
        self._slots.clear()
