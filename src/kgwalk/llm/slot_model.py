"""A causal language model over a cache of slots: what torch does for the local engine, and nothing else.

A pass takes any rows of the cache, each at a position of its own; the cache grows with need, in slots and in length.
On a GPU a step of one token a row is recorded once and replayed (`step_graphs`), as launching its thousand kernels one
by one takes longer than running them. Knows nothing of requests, sessions or sampling. Shapes as in `slot_cache`.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from kgwalk.llm.slot_cache import SlotCache, grouped_attention
from kgwalk.llm.step_graphs import StepGraphs
from kgwalk.types import EngineError

ATTENTION = "kgwalk_grouped"
STEP = 64  # lengths are multiples of this: few shapes, and aligned for the kernels
FIRST_LENGTH, FIRST_SLOTS = 256, 8


class SlotModel:
    """`context` is bounded by what the model was made for. `most_slots` bounds the cache."""

    def __init__(self, module: PreTrainedModel, *, most_slots: int, context: int | None = None) -> None:
        self.module = module
        self.device = module.device
        self.context = _context(module, context)
        self.vocabulary = int(module.get_input_embeddings().weight.shape[0])  # type: ignore[union-attr,arg-type,index,unused-ignore]
        _check(module)
        if module.config._attn_implementation == "sdpa":
            AttentionInterface.register(ATTENTION, grouped_attention)
            AttentionMaskInterface.register(ATTENTION, sdpa_mask)  # for those who call the module themselves
            module.set_attn_implementation(ATTENTION)
        self._keeps_logits = "logits_to_keep" in inspect.signature(module.forward).parameters
        self._most_slots = most_slots
        self._most_length = _up(self.context)
        self.release()

    def release(self) -> None:
        """Give the cache's memory back; the next pass starts with an empty one."""
        self.cache = SlotCache(min(FIRST_SLOTS, self._most_slots), min(FIRST_LENGTH, self._most_length))
        self._record_anew()

    def weights_changed(self) -> None:
        """Recorded steps read the weights where they lay: new numbers there are seen, new tensors are not."""
        if self._weights != self._where_weights_lie():
            self._record_anew()

    def _record_anew(self) -> None:
        self._weights = self._where_weights_lie()
        self._graphs = StepGraphs(self._pass, self.device) if self.device.type == "cuda" else None

    def _where_weights_lie(self) -> list[int]:
        return [weight.data_ptr() for weight in self.module.parameters()]

    def reserve(self, slots: int, length: int) -> None:
        """Room for so many slots of so many positions; doubles, so that it is seldom done."""
        cache = self.cache
        many, far = cache.slots, cache.capacity
        if slots > many:
            many = min(max(slots, 2 * many), self._most_slots)
        if length > far:
            far = min(max(_up(length), 2 * far), self._most_length)
        if (many, far) != (cache.slots, cache.capacity):
            cache.resize(many, far)
            self._record_anew()

    def room(self, rows: int) -> int:
        """How many slots a step may span before it is worth moving so many rows together."""
        if self._graphs is None:
            return rows + rows // 2 + 1
        return max(64, 4 * rows)  # a GPU hardly notices

    @torch.no_grad()
    def forward(self, rows: Sequence[int], ids: Sequence[Sequence[int]], starts: Sequence[int]) -> torch.Tensor:
        """Logits (B, V) after the last new token of each row. Row b's `ids` go to its positions from `starts[b]` on.

        Shorter rows are filled up on the left, with tokens at the position past their end.
        """
        longest = max(map(len, ids))
        ends = [start + len(new) for start, new in zip(starts, ids, strict=True)]
        self.reserve(max(rows) + 1, max(ends) + 1 if any(len(new) < longest for new in ids) else max(ends))
        tokens, places = [], []
        for new, end in zip(ids, ends, strict=True):
            padding = longest - len(new)
            tokens.append([0] * padding + list(new))
            places.append([end] * padding + list(range(end - len(new), end)))
        index = torch.tensor(rows, device=self.device)
        run = slice(rows[0], rows[0] + len(rows))
        return self._pass(
            run if list(rows) == list(range(run.start, run.stop)) else index,
            index[:, None],
            torch.tensor(tokens, device=self.device),
            torch.tensor(places, device=self.device),
            min(_up(max(ends) + 1), self.cache.capacity),
        )

    @torch.no_grad()
    def step(self, ids: Sequence[int], at: Sequence[int]) -> torch.Tensor:
        """Logits (B, V) after one token more in each of the first B slots. `at` is where each slot there is goes on:
        more slots than B may come along.
        """
        if self._graphs is None:
            return self.forward(range(len(ids)), [[number] for number in ids], at[: len(ids)])
        rows = min(self._graphs.rows(len(ids)), self._most_slots)
        length = min(self._graphs.length(max(at[:rows]) + 1), self._most_length)
        self.reserve(rows, length)
        return self._graphs.run(ids, at[:rows], rows, length)

    def _pass(
        self,
        rows: slice | torch.Tensor,
        index_B1: torch.Tensor,
        ids_BQ: torch.Tensor,
        at_BQ: torch.Tensor,
        length: int,
    ) -> torch.Tensor:
        if self.module.training:  # whoever trains it turns it back
            self.module.eval()  # type: ignore[no-untyped-call,unused-ignore]
        cache = self.cache
        cache.rows, cache.row_index, cache.at, cache.length = rows, index_B1, at_BQ, length
        seen = torch.arange(length, device=self.device) <= at_BQ[:, None, :, None]  # (B, 1, Q, S)
        mask = torch.where(seen, 0.0, float("-inf")).to(self.module.dtype)
        options: dict[str, Any] = {"logits_to_keep": 1} if self._keeps_logits else {}
        out = self.module(
            input_ids=ids_BQ, attention_mask=mask, position_ids=at_BQ, past_key_values=cache, use_cache=True, **options
        )
        logits: torch.Tensor = out.logits[:, -1]
        return logits

    @torch.no_grad()
    def copy(self, pairs: Sequence[tuple[int, int]], length: int) -> None:
        """For each (from, to): the first `length` positions, and perhaps some that do not count after them."""
        self.reserve(max(max(pair) for pair in pairs) + 1, length)
        source, target = (torch.tensor(side, device=self.device) for side in zip(*pairs, strict=True))
        for store in (*self.cache.keys, *self.cache.values):
            store[target, :, :length] = store[source, :, :length]

    def swap(self, one: int, other: int, length: int) -> None:
        self.copy([(one, other), (other, one)], length)

    @torch.no_grad()
    def wipe(self, slot: int) -> None:
        """No trace of what was there, NaN included."""
        for store in (*self.cache.keys, *self.cache.values):
            store[slot] = 0


def _up(length: int) -> int:
    return -(-length // STEP) * STEP


def _context(module: PreTrainedModel, asked: int | None) -> int:
    config = module.config.get_text_config()
    bounds = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions")]
    if any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or []) or (
        getattr(config, "layer_types", None) is None
    ):
        # Within the window, sliding attention is full attention; past it the two differ.
        bounds.append(getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None)
    known = [bound for bound in bounds if isinstance(bound, int)]
    longest = min(known, default=2048)
    if asked is not None and not 1 < asked <= longest:
        raise EngineError(
            f"the context of {module.config.model_type} is 2 to {longest:,} tokens here; {asked:,} was asked"
        )
    return asked or longest


def _check(module: PreTrainedModel) -> None:
    """Models that attend with keys and values alone, at positions they are told."""
    config = module.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or []) - {"full_attention", "sliding_attention"}
    told = "position_ids" in inspect.signature(module.forward).parameters
    if kinds or not told or getattr(module, "_is_stateful", False):
        what = (
            f"layers of {', '.join(sorted(kinds))}"
            if kinds
            else "no positions for its tokens"
            if not told
            else "a state"
        )
        raise EngineError(
            f"the local engine does not run {module.config.model_type}, which has {what}; use the engine vllm or api"
        )
