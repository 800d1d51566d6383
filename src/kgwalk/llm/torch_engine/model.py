"""A causal language model over a cache of slots: the passes that the scheduler asks for.

There are two kinds of passes. `prefill` computes new tokens of some sequences and samples the next token of those whose
context is complete. `steps` computes one token a sequence, several times over. Neither asks the host anything; what was
sampled comes back as `SampledTokens`, to be read when the device is done. On a GPU both are recorded in a few sizes and
replayed (`cuda_graphs`), as launching their thousand kernels one by one takes longer than running them.
Shapes as in `kv_cache`; J jobs of a prefill.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from kgwalk.llm.automaton import GrammarState
from kgwalk.llm.models import context_limit
from kgwalk.llm.torch_engine.cuda_graphs import CudaGraphs, Int64Array, NucleusPass, gpu_free
from kgwalk.llm.torch_engine.fused import fuse
from kgwalk.llm.torch_engine.kv_cache import (
    QUERIES,
    STEP_SIZES,
    SlotCache,
    SlotPass,
    pad_rows,
    size_above,
    slot_attention,
)
from kgwalk.llm.torch_engine.sampling import END_SETS, SlotStart, SlotState, widen_head
from kgwalk.types import EngineError

log = logging.getLogger(__name__)

ATTENTION = "kgwalk_slots"
FIRST_LENGTH, FIRST_SLOTS = 256, 8  # of a cache that grows
SHARE = 0.5  # of a GPU's free memory that the cache may take
MAX_STEPS = 8  # in one call
MAX_DRAWS = 8192  # tokens of a generation before the host is asked for more draws
MAX_JOBS = 1024  # sequences of a prefill


class PrefillJob(NamedTuple):
    """New tokens of a sequence: `ids` go to its slot's positions from `position` on. `sampling` is given with the last
    of its context, after which it samples.
    """

    slot: int
    ids: Sequence[int]
    position: int
    sampling: SlotStart | None = None


class SampledTokens:
    """Tokens on their way from the device: a line for each step, -1 where a sequence had stopped."""

    def __init__(self, slots_R: Int64Array, ids: torch.Tensor, logprobs: torch.Tensor, event: Any = None) -> None:
        self.slots_R, self._ids, self._logprobs, self._event = slots_R, ids, logprobs, event

    def ready(self) -> bool:
        """Whether they can be read without waiting."""
        return self._event is None or bool(self._event.query())

    def read(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Tokens and their log-probabilities, (steps, sequences); waits for them."""
        if self._event is not None:
            self._event.synchronize()
        return self._ids.numpy(), self._logprobs.numpy()


class SlotModel:
    """`context` may be at most what the model was made for. `max_slots` bounds the cache; where memory is short there
    are fewer. `kernels`: whether Triton's are used. By default they are on a GPU; elsewhere they run in Triton's
    interpreter, for tests.
    """

    def __init__(
        self, module: PreTrainedModel, *, max_slots: int, context: int | None = None, kernels: bool | None = None
    ) -> None:
        self.module = module
        self.device = module.device
        self.context = _context(module, context)
        self.vocabulary = int(module.get_input_embeddings().weight.shape[0])  # type: ignore[union-attr,arg-type,index,unused-ignore]
        _check(module)
        AttentionInterface.register(ATTENTION, slot_attention)
        AttentionMaskInterface.register(ATTENTION, sdpa_mask)  # for those who call the module themselves
        module.set_attn_implementation(ATTENTION)
        widen_head(module)
        self._keeps_logits = "logits_to_keep" in inspect.signature(module.forward).parameters
        self._mask = torch.zeros(1, 1, 1, 1, dtype=module.dtype, device=self.device)  # given, so that none is made
        self.max_slots = max_slots
        self.on_gpu = self.device.type == "cuda"
        self._kernels = self.on_gpu if kernels is None else kernels
        self._fused = False
        self._max_length = -(-self.context // 64) * 64
        self.max_draws = min(self.context, MAX_DRAWS)
        self.release()

    @property
    def max_jobs(self) -> int:
        """Jobs of a prefill: no more than there are slots, as `state.out_ids` has no place for others."""
        return min(self.max_slots, MAX_JOBS)

    def free(self) -> None:
        """Gives the cache's memory back for good: no pass may follow."""
        self._graphs: CudaGraphs | None = None
        self.cache = SlotCache(0, 0)
        if self.on_gpu:
            torch.cuda.empty_cache()

    def release(self) -> None:
        """Gives the cache's memory back; the next pass starts with an empty cache, which may have fewer slots."""
        self.free()  # before room for a new one is measured
        if self._kernels:
            self._take_memory()
            return
        self.cache = SlotCache(min(FIRST_SLOTS, self.max_slots), min(FIRST_LENGTH, self._max_length))
        self._new_state()

    def _new_state(self) -> None:
        sequences = size_above(self.max_slots, STEP_SIZES)  # of a recorded step, some of them nobody's
        self.state = SlotState(self.max_slots, self.max_draws, sequences, MAX_STEPS, self.vocabulary, self.device)
        self._end_sets: dict[frozenset[int], int] = {}

    def _take_memory(self) -> None:
        """Allocates the whole cache at once, as recorded passes read it where it lies; with fewer slots if there is no
        room.
        """
        if self.on_gpu:
            room = int(SHARE * gpu_free(self.device) / self._slot_bytes())
            self.max_slots = min(self.max_slots, max(8, room))
        while True:
            try:
                self.cache = SlotCache(self.max_slots, self._max_length)
                self._new_state()
                self._try()
                if not self._fused:
                    self._fused = True
                    fuse(self.module, self._try)
                self._graphs = CudaGraphs(self.device, self._where_weights_lie())
                return
            except torch.OutOfMemoryError:
                self.cache = SlotCache(0, 0)
                torch.cuda.empty_cache()
                if self.max_slots <= 8:
                    raise EngineError(
                        f"the GPU has no room for a cache of 8 x {self._max_length:,} tokens beside the model; "
                        "give a shorter context or a smaller model"
                    ) from None
                log.warning("no room for a cache of %d slots; trying %d", self.max_slots, self.max_slots // 2)
                self.max_slots //= 2

    def _slot_bytes(self) -> int:
        config = self.module.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return int(2 * config.num_hidden_layers * heads * width * self.module.dtype.itemsize * self._max_length)

    def weights_changed(self) -> None:
        """Records passes anew if weights lie elsewhere now. New numbers in the same tensors need nothing. Nothing may
        be under way.
        """
        if self.state.grammars.large:
            self.state.grammars.clear()
        self._check_recorded()

    def _check_recorded(self) -> None:
        """Recorded passes are dropped if something that they read lies elsewhere now."""
        if self._graphs is not None and self._graphs.weights != self._where_weights_lie():
            self._graphs = CudaGraphs(self.device, self._where_weights_lie())

    def _where_weights_lie(self) -> list[int]:
        return [self.state.grammars.grown, *(weight.data_ptr() for weight in self.module.parameters())]

    def grammar_state(self, state: GrammarState | None) -> int:
        """The number of a state of a grammar, which is on the device from now on; 0 for none."""
        if state is None:
            return 0
        table = self.state.grammars
        before = table.grown
        number = table.number(state)
        if table.grown != before:
            self._check_recorded()
        return number

    def end_set(self, ends: frozenset[int]) -> int:
        """The number on the device of the set of tokens that may end a generation. The first END_SETS sets have one
        each; all others have END_SETS, and stop at every token for the host to look.
        """
        found = self._end_sets.get(ends, END_SETS)
        if found == END_SETS and len(self._end_sets) < END_SETS:
            found = self._end_sets[ends] = len(self._end_sets)
            self.state.define_end_set(found, sorted(ends))
        return found

    @torch.no_grad()
    def prefill(self, jobs: Sequence[PrefillJob]) -> SampledTokens | None:
        """Computes the jobs' tokens; samples a first token for those with a `sampling`, in their order."""
        slots_J, starts_J = np.array([job.slot for job in jobs]), np.array([job.position for job in jobs])
        counts_J = np.array([len(job.ids) for job in jobs])
        self._reserve(int(slots_J.max()) + 1, int((starts_J + counts_J).max()))
        starts = [job.sampling for job in jobs if job.sampling is not None]
        if starts:
            self.state.begin(starts)
        ends_J = counts_J.cumsum() - 1
        whole_J = np.array([job.sampling is not None for job in jobs])
        slots_R, last_R = slots_J[whole_J], ends_J[whole_J]
        if self._graphs is not None:
            odd = NucleusPass(any(one.top_p < 1 for one in starts), any(one.state for one in starts))
            self._graphs.prefill(self, [job.ids for job in jobs], counts_J, slots_J, starts_J, last_R, slots_R, odd)
        else:
            counts, begins = counts_J.tolist(), starts_J.tolist()
            ids = torch.tensor([number for job in jobs for number in job.ids])
            slot_T = torch.from_numpy(np.repeat(slots_J, counts_J))
            at_T = torch.tensor([job.position + n for job in jobs for n in range(len(job.ids))])
            rows = pad_rows(slots_J.tolist(), counts, begins, self.module.dtype, self.cache.capacity)
            logits = self._run(
                SlotPass(slot_T, at_T, rows=rows), ids, torch.from_numpy(last_R if starts else ends_J[:1])
            )
            if starts:
                self._advance(logits, torch.from_numpy(slots_R), starts, move=False)
        return self._sampled(slots_R, 1) if starts else None

    @torch.no_grad()
    def steps(
        self,
        slots: Sequence[int] | Int64Array,
        count: int,
        *,
        sampled: bool,
        nucleus: bool,
        constrained: bool = False,
    ) -> SampledTokens:
        """So many steps of the sequences in these slots; the flags are those of `SlotState.advance`."""
        numbers_R = np.asarray(slots, np.int64)
        if self._graphs is not None:
            self._graphs.steps(self, numbers_R, count, NucleusPass(nucleus, constrained))
            return self._sampled(numbers_R, count)
        slots_R = torch.from_numpy(numbers_R)
        self.state.step.zero_()
        for _ in range(count):
            at_R = self.state.at[slots_R]
            starts = at_R.tolist()
            self._reserve(0, max(starts) + 1)
            rows = pad_rows(numbers_R.tolist(), [1] * len(numbers_R), starts, self.module.dtype, self.cache.capacity)
            logits = self._run(SlotPass(slots_R, at_R, rows=rows), self.state.last[slots_R], None)
            self.state.advance(logits, slots_R, move=True, sampled=sampled, nucleus=nucleus, constrained=constrained)
            self.state.step += 1
        return self._sampled(numbers_R, count)

    def _advance(self, logits: torch.Tensor, slots_R: torch.Tensor, starts: Sequence[SlotStart], *, move: bool) -> None:
        self.state.step.zero_()
        warm, nucleus = any(one.temperature > 0 for one in starts), any(one.top_p < 1 for one in starts)
        constrained = any(one.state for one in starts)
        self.state.advance(logits, slots_R, move=move, sampled=warm, nucleus=nucleus, constrained=constrained)

    def _sampled(self, slots_R: Int64Array, count: int) -> SampledTokens:
        """The results of a pass, whose copy to the host is begun."""
        ids, logprobs = self.state.out_ids[:count, : len(slots_R)], self.state.out_logprobs[:count, : len(slots_R)]
        if not self.on_gpu:
            return SampledTokens(slots_R, ids.clone(), logprobs.clone())
        on_host = [
            torch.empty(one.shape, dtype=one.dtype, pin_memory=True).copy_(one, non_blocking=True)
            for one in (ids, logprobs)
        ]
        event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call,unused-ignore]
        event.record()
        return SampledTokens(slots_R, on_host[0], on_host[1], event)

    def _run(self, now: SlotPass, ids_T: torch.Tensor, last_R: torch.Tensor | None) -> torch.Tensor:
        """Logits (R, V) after the tokens at `last_R`, or after all."""
        if self.module.training:  # its trainer sets it back
            self.module.eval()  # type: ignore[no-untyped-call,unused-ignore]
        self.cache.current = now
        keep: Any = 0 if last_R is None else last_R
        options: dict[str, Any] = {"logits_to_keep": keep} if self._keeps_logits else {}
        out = self.module(
            input_ids=ids_T[None],
            attention_mask=self._mask,
            position_ids=now.at_T[None],
            past_key_values=self.cache,
            use_cache=True,
            slot_pass=now,
            **options,
        )
        logits: torch.Tensor = out.logits[0]
        return logits if self._keeps_logits or last_R is None else logits[last_R]

    @torch.no_grad()
    def _try(self) -> torch.Tensor:
        """Logits of a few tokens in nobody's slot: shows whether a pass fits into memory, and what it computes."""
        at_T = torch.arange(QUERIES, device=self.device)
        blocks_B4 = torch.tensor([[0, QUERIES, self.max_slots, 0]], device=self.device)
        now = SlotPass(torch.full_like(at_T, self.max_slots), at_T, blocks_B4, QUERIES)
        return self._run(now, at_T * 7919 % self.vocabulary, None)

    def _reserve(self, slots: int, length: int) -> None:
        """Makes room for so many slots of so many positions; sizes double, so that it is seldom done."""
        if slots > self.max_slots or length > self._max_length:  # a kernel would write into others' memory
            raise EngineError(
                f"a pass over {slots:,} slots of {length:,} positions; there is room for {self.max_slots:,} of "
                f"{self._max_length:,}"
            )
        cache = self.cache
        many, far = cache.slots, cache.capacity
        if slots > many:
            many = min(max(slots, 2 * many), self.max_slots)
        if length > far:
            far = min(max(-(-length // 64) * 64, 2 * far), self._max_length)
        if (many, far) != (cache.slots, cache.capacity):
            cache.grow(many, far)

    @torch.no_grad()
    def copy(self, pairs: Sequence[tuple[int, int, int]]) -> None:
        """For each (from, to, length): copies the first `length` positions of a slot, and perhaps a few more, which do
        not matter.
        """
        self._reserve(max(target for _, target, _ in pairs) + 1, 0)
        if self._graphs is not None:
            self._graphs.copy(self, np.array(pairs))
            return
        for source, target, length in pairs:
            for store in (*self.cache.keys, *self.cache.values):
                store[target, :, :length] = store[source, :, :length]

    @torch.no_grad()
    def wipe(self, slot: int) -> None:
        """Overwrites all of a slot, NaN included."""
        for store in (*self.cache.keys, *self.cache.values):
            store[slot] = 0


def _context(module: PreTrainedModel, asked: int | None) -> int:
    longest = longest_context(module)
    if asked is not None and not 1 < asked <= longest:
        raise EngineError(
            f"the context of {module.config.model_type} is 2 to {longest:,} tokens here; {asked:,} was asked"
        )
    return asked or longest


def longest_context(module: PreTrainedModel) -> int:
    """The most tokens that the model was made for; 2,048 if its config does not say."""
    return context_limit(module.config)


def _check(module: PreTrainedModel) -> None:
    """Raises EngineError unless the model attends with keys and values alone, at positions that it is given."""
    config = module.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or []) - {"full_attention", "sliding_attention"}
    told = "position_ids" in inspect.signature(module.forward).parameters
    odd = [name for name in ("attn_logit_softcapping", "alibi") if getattr(config, name, None)]
    if kinds or not told or odd or getattr(module, "_is_stateful", False):
        what = (
            f"layers of {', '.join(sorted(kinds))}"
            if kinds
            else "no positions for its tokens"
            if not told
            else odd[0]
            if odd
            else "a state"
        )
        raise EngineError(
            f"the local engine does not run {module.config.model_type}, which has {what}; use the engine vllm or api"
        )
