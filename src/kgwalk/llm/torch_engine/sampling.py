"""Sampling on the device: logits in float32, the next tokens from them, and the state of each slot.

`sample` is a pure function. A sampled token needs one number in [0, 1), its draw, made beforehand from the request's
own seed: what else is in the batch changes nothing. `SlotState` says where each slot's generation stands: its last
token, how many are left, its draws, its end set, its place in a grammar. A step reads and writes all of it without
asking the host. `GrammarTable` holds the states of grammars as far as they were needed; a sequence that comes to one
whose edges are not there stops, and goes on when the host has put them there.

`widen_head` makes a model's logits float32. The trainer uses it too (`training.logprobs`), so that both round alike.
Shapes: B sequences (R in a pass), V tokens of the vocabulary, N slots, M draws of a generation, K end sets;
of the head, T tokens of width D; of a grammar, E edges of a state.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import linear

from kgwalk.llm.automaton import GrammarState
from kgwalk.llm.torch_engine.sequence import MISSING

AT_ONCE = 128  # sequences for which V numbers are held in double precision
# An end set is the set of tokens that may end a generation. So many are told apart on the device; in any other one,
# which has this number, every token may be an end.
END_SETS = 8
STATES, EDGES = 1 << 14, 1 << 20  # that a table has room for at first
AHEAD = 48  # states put on the device together: those that are nearest to an end, as most sequences go there


def sample(
    logits_BV: torch.Tensor, temperature_B: torch.Tensor | None, top_p_B: torch.Tensor | None, draw_B: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """A token for each sequence, and its log-probability at temperature 1 without top_p.

    Temperature 0 takes the likeliest token. Otherwise the tokens are laid end to end on [0, 1), each as long as it is
    likely, and the draw points to one: in the vocabulary's order, or with top_p in that of likelihood.
    Without `temperature_B` it is 0 for all, without `top_p_B` 1. Asks the host nothing, so that it can be recorded.
    """
    logits_BV = logits_BV.float()
    sampled_B = logits_BV.argmax(-1)
    if temperature_B is not None:
        sampled_B = torch.where(temperature_B > 0, _by_draw(logits_BV, temperature_B, top_p_B, draw_B), sampled_B)
    return sampled_B, logits_BV.gather(1, sampled_B[:, None])[:, 0] - logits_BV.logsumexp(-1)


def _by_draw(
    logits_BV: torch.Tensor, temperature_B: torch.Tensor, top_p_B: torch.Tensor | None, draw_B: torch.Tensor
) -> torch.Tensor:
    warm_B = torch.where(temperature_B > 0, temperature_B, 1.0).to(logits_BV.dtype)
    sampled: list[torch.Tensor] = []
    for start in range(0, len(logits_BV), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        probs = torch.softmax(logits_BV[some] / warm_B[some, None], -1)
        sampled.append(
            _invert_cdf(probs, draw_B[some, None])
            if top_p_B is None
            else _in_nucleus(probs, draw_B[some, None], top_p_B[some, None].double())
        )
    return torch.cat(sampled)


def _invert_cdf(probs_BV: torch.Tensor, draw_B1: torch.Tensor) -> torch.Tensor:
    ends = probs_BV.double().cumsum(-1)  # float32 would round away the unlikely
    found = torch.searchsorted(ends, draw_B1 * ends[:, -1:], right=True)
    return found[:, 0].clamp(max=probs_BV.shape[-1] - 1)


def _in_nucleus(probs_BV: torch.Tensor, draw_B1: torch.Tensor, top_p_B1: torch.Tensor) -> torch.Tensor:
    """From the fewest likeliest tokens that have top_p together; there is always one. With a top_p of 1 tokens are in
    the vocabulary's order, as without a nucleus."""
    probs, order = probs_BV.sort(descending=True, stable=True)
    before = probs.double().cumsum(-1) - probs.double()
    kept = torch.where(before < top_p_B1, probs.double(), 0.0)
    inside = order.gather(1, _invert_cdf(kept, draw_B1)[:, None])[:, 0]
    return torch.where(top_p_B1[:, 0] < 1, inside, _invert_cdf(probs_BV, draw_B1))


class SlotStart(NamedTuple):
    """From where a sequence samples on: its cache holds `at` tokens, and `last` is the one after them, if it is known
    already. It may sample `max_new` tokens, with as many draws.
    """

    slot: int
    last: int
    at: int
    max_new: int
    temperature: float
    top_p: float
    draws: Sequence[float]
    end_set: int
    state: int = 0  # of a grammar; 0 where anything may be written


class GrammarTable:
    """States of grammars on the device. State n has the edges `first[n]` to `first[n] + count[n]` of `token` (in
    ascending order) and `target`; `count` is -1 where they are not there. `need[n]` is the fewest tokens to its end.

    State 0 is none: of a sequence that may write anything. New states are written behind the old ones. `grown` counts
    how often the table was laid out anew, which recorded passes must be told.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.grown = device, 0
        self._lay(STATES, EDGES)
        self.clear()

    def _lay(self, states: int, edges: int) -> None:
        """Room for so many; what is there stays."""

        def room(size: int, old: torch.Tensor | None) -> torch.Tensor:
            new = torch.zeros(size, dtype=torch.int32, device=self.device)
            if old is not None:
                new[: len(old)] = old
            return new

        was = vars(self)
        self.first, self.count, self.need = (room(states, was.get(name)) for name in ("first", "count", "need"))
        self.token, self.target = (room(edges, was.get(name)) for name in ("token", "target"))
        self.grown += 1

    def clear(self) -> None:
        """Forgets all states. No sequence may be in one."""
        self._known: dict[GrammarState, int] = {}
        self._there: set[int] = set()
        self._edges = 0

    @property
    def large(self) -> bool:
        """Whether it is worth to begin anew."""
        return self._edges > EDGES

    def number(self, state: GrammarState) -> int:
        """The number of a state, whose edges are on the device from now on, and those of some that follow it."""
        number = self._known.get(state, 0)
        if number in self._there:
            return number
        batch, seen, ahead = [state], {state}, [state]
        while ahead and len(batch) < AHEAD:
            found = [one for here in ahead for one in here.edges[3] if one not in seen]
            found = sorted(dict.fromkeys(found), key=lambda one: one.need)[: AHEAD - len(batch)]
            ahead = [one for one in found if self._known.get(one, 0) not in self._there]
            seen.update(found)
            batch += ahead
        self._put(batch)
        return self._known[state]

    def _put(self, states: Sequence[GrammarState]) -> None:
        before, new = len(self._known), list[GrammarState]()
        for one in states:
            for state in (one, *one.edges[3]):
                if state not in self._known:
                    self._known[state] = 1 + len(self._known)
                    new.append(state)
        lengths = [len(one.edges[0]) for one in states]
        room, most = len(self.first), len(self.token)
        while room <= len(self._known):
            room *= 2
        while most < self._edges + sum(lengths):
            most *= 2
        if (room, most) != (len(self.first), len(self.token)):
            self._lay(room, most)
        end = self._edges + sum(lengths)
        tokens = np.concatenate([one.edges[0] for one in states])
        numbers = [np.array([self._known[target] for target in one.edges[3]], np.int32) for one in states]
        targets = np.concatenate([of[one.edges[1]] for of, one in zip(numbers, states, strict=True)])
        self.token[self._edges : end] = self._sent(tokens)
        self.target[self._edges : end] = self._sent(targets)
        added = slice(before + 1, 1 + len(self._known))
        self.need[added] = self._sent(np.array([one.need for one in new], np.int32))
        self.count[added] = -1
        at = self._sent(np.array([self._known[one] for one in states])).long()
        self.first[at] = self._sent(np.array(self._edges + np.cumsum([0, *lengths[:-1]]), np.int32))
        self.count[at] = self._sent(np.array(lengths, np.int32))  # last: now they may be used
        self._there.update(self._known[one] for one in states)
        self._edges = end

    def _sent(self, numbers: np.ndarray[Any, Any]) -> torch.Tensor:
        return _on_device(torch.from_numpy(numbers), self.device)

    def edges_of(self, state_R: torch.Tensor, left_R: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The allowed tokens of each sequence's state and the states that they lead to, (R, E); -1 for no edge."""
        place_E = torch.arange(width, device=self.device)
        at_RE = (self.first[state_R.long()][:, None] + place_E).clamp(max=len(self.token) - 1)
        target_RE = self.target[at_RE]
        allowed_RE = (place_E < self.count[state_R.long()][:, None]) & (self.need[target_RE.long()] < left_R[:, None])
        return torch.where(allowed_RE, self.token[at_RE], -1), torch.where(allowed_RE, target_RE, -1)


def _on_device(numbers: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Without waiting for the device's work: a copy from memory that is not pinned would wait."""
    if device.type != "cuda":
        return numbers.to(device)
    return numbers.pin_memory().to(device, non_blocking=True)


class SlotState:
    """What a step reads and writes of each slot. The last slot is nobody's, and never has tokens left.

    A sequence stops when it has no tokens left, or when it sampled one that may complete a stop text: then the host
    looks at the text and lets it go on, or not. `out_ids` and `out_logprobs` have a line for each step of a pass.
    """

    def __init__(
        self, slots: int, draws: int, sequences: int, steps: int, vocabulary: int, device: torch.device
    ) -> None:
        def zeros(*shape: int, dtype: torch.dtype = torch.long) -> torch.Tensor:
            return torch.zeros(*shape, dtype=dtype, device=device)

        self.device = device
        self.last, self.at = zeros(slots + 1), zeros(slots + 1)
        self.left, self.used, self.end_set = zeros(slots + 1), zeros(slots + 1), zeros(slots + 1)
        self.state = zeros(slots + 1)  # of its grammar, in the table; 0 for none
        self.grammars = GrammarTable(device)
        self.temperature, self.top_p = (
            zeros(slots + 1, dtype=torch.float32),
            torch.ones(slots + 1, dtype=torch.float32, device=device),
        )
        self.draws = zeros(slots + 1, draws, dtype=torch.float64)
        self.ends = zeros(END_SETS + 1, vocabulary, dtype=torch.uint8)
        self.ends[END_SETS] = 1
        self.ends_KV = np.zeros((END_SETS + 1, vocabulary), np.bool_)  # the same, for the host
        self.ends_KV[END_SETS] = True
        self.step = zeros(1)
        self.out_ids = torch.full((steps, sequences), -1, device=device)
        self.out_logprobs = zeros(steps, sequences, dtype=torch.float32)

    def define_end_set(self, number: int, ends: Sequence[int]) -> None:
        """The tokens that may end a generation with this end set."""
        self.ends_KV[number, list(ends)] = True
        self.ends[number].copy_(torch.from_numpy(self.ends_KV[number]))

    def begin(self, starts: Sequence[SlotStart]) -> None:
        """From here on these sequences sample."""
        most = max((len(one.draws) for one in starts), default=0)
        parts = np.zeros((len(starts), 2 + most))
        parts[:, :2] = [(one.temperature, one.top_p) for one in starts]
        for row, one in zip(parts, starts, strict=True):
            row[2 : 2 + len(one.draws)] = one.draws
        whole = np.array(
            [(one.slot, one.at, one.max_new, one.end_set, one.last, one.state) for one in starts], np.int64
        )
        numbers, reals = self.put(torch.from_numpy(whole)), self.put(torch.from_numpy(parts))
        slots = numbers[:, 0]
        self.at[slots], self.left[slots], self.end_set[slots] = numbers[:, 1], numbers[:, 2], numbers[:, 3]
        self.last[slots], self.state[slots] = numbers[:, 4], numbers[:, 5]
        self.used.index_fill_(0, slots, 0)  # `used[slots] = 0` would wait for the device
        self.temperature[slots], self.top_p[slots] = reals[:, 0].float(), reals[:, 1].float()
        if most:
            self.draws[slots, :most] = reals[:, 2:]

    def put(self, numbers: torch.Tensor) -> torch.Tensor:
        """On the device, without waiting for its work."""
        return _on_device(numbers, self.device)

    def set_left(self, slots: Sequence[int], left: Sequence[int]) -> None:
        """How many more tokens each may sample; 0 stops it."""
        self.left[self.put(torch.tensor(slots))] = self.put(torch.tensor(left))

    def set_state(self, slots: Sequence[int], states: Sequence[int]) -> None:
        """Where each is in its grammar."""
        self.state[self.put(torch.tensor(slots))] = self.put(torch.tensor(states))

    def advance(
        self,
        logits_RV: torch.Tensor,
        slots_R: torch.Tensor,
        *,
        move: bool,
        sampled: bool,
        nucleus: bool,
        constrained: bool = False,
    ) -> None:
        """Samples a token for each sequence that has some left. `move`: the token before it has just been computed.

        `sampled`, `nucleus` and `constrained` say whether any sequence has a temperature, a top_p, a grammar.
        """
        left_R = self.left[slots_R]
        if constrained:
            state_R, V = self.state[slots_R], logits_RV.shape[1]
            width = V if logits_RV.is_cuda else max(1, int(self.grammars.count[state_R].max()))
            tokens_RE, targets_RE = self.grammars.edges_of(state_R, left_R, width)
            free_R1 = (state_R == 0)[:, None]
            allowed_RV = torch.zeros(len(slots_R), V + 1, dtype=torch.bool, device=logits_RV.device)
            allowed_RV.scatter_(1, torch.where(tokens_RE < 0, V, tokens_RE).long(), True)
            logits_RV = logits_RV.float().masked_fill(~(allowed_RV[:, :V] | free_R1), float("-inf"))
        draw_R = self.draws.gather(1, self.used[:, None].clamp(max=self.draws.shape[1] - 1))[slots_R, 0]
        ids_R, logprobs_R = sample(
            logits_RV,
            self.temperature[slots_R] if sampled else None,
            self.top_p[slots_R] if nucleus else None,
            draw_R,
        )
        live_R = left_R > 0
        ends_R = self.ends[self.end_set[slots_R], ids_R] != 0
        written_R = ids_R
        if constrained:
            target_R = torch.where(tokens_RE == ids_R[:, None], targets_RE, 0).amax(1)  # one edge at most
            missing_R = (target_R > 0) & (self.grammars.count[target_R] < 0)
            self.state[slots_R] = torch.where(live_R, target_R.long(), state_R)
            written_R, ends_R = torch.where(missing_R, ids_R + MISSING, ids_R), ends_R | missing_R
        self.out_ids[self.step, : len(ids_R)] = torch.where(live_R, written_R, -1)[None]
        self.out_logprobs[self.step, : len(ids_R)] = logprobs_R[None]
        self.last[slots_R] = torch.where(live_R, ids_R, self.last[slots_R])
        self.left[slots_R] = torch.where(live_R & ~ends_R, left_R - 1, 0)
        self.used[slots_R] += live_R.long()
        if move:
            self.at[slots_R] += live_R.long()


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
    flat_TD = state.reshape(-1, state.shape[-1]).to(dtype)
    logits_TV: torch.Tensor = _Product.apply(flat_TD, head.weight.to(dtype))  # type: ignore[no-untyped-call]
    if head.bias is not None:
        logits_TV = logits_TV + head.bias.float()
    return logits_TV.view(*state.shape[:-1], -1)


def product(state_TD: torch.Tensor, weight_VD: torch.Tensor) -> torch.Tensor:
    """state @ weight.T of numbers in half precision, in float32; for its gradient see `_Product`.

    16 + 1/16 lies half way between 16 and 16.125, which are neighbours in bfloat16:

    >>> state, weight = torch.tensor([[16.0, 0.0625]]).bfloat16(), torch.tensor([[1.0, 1.0], [1.0, 0.0]]).bfloat16()
    >>> product(state, weight)
    tensor([[16.0625, 16.0000]])
    >>> product(state, weight).bfloat16()
    tensor([[16., 16.]], dtype=torch.bfloat16)
    """
    if state_TD.is_cuda and torch.version.hip is None:
        wide: torch.Tensor = torch.mm(state_TD, weight_VD.T, out_dtype=torch.float32)
        return wide
    with torch.autocast(state_TD.device.type, enabled=False):  # which would round them again
        state_TD = state_TD.float()
        starts = range(0, len(weight_VD), PART)
        return torch.cat([linear(state_TD, weight_VD[start : start + PART].float()) for start in starts], -1)


class _Product(torch.autograd.Function):
    """`product` with a gradient, which is multiplied in half precision as a plain layer's is."""

    @staticmethod
    def forward(ctx: Any, state_TD: torch.Tensor, weight_VD: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(state_TD, weight_VD)
        return product(state_TD, weight_VD)

    @staticmethod
    def backward(ctx: Any, grad_TV: torch.Tensor) -> Any:
        state_TD, weight_VD = ctx.saved_tensors
        grad_TV = grad_TV.to(state_TD.dtype)
        return (
            grad_TV @ weight_VD if ctx.needs_input_grad[0] else None,
            grad_TV.T @ state_TD if ctx.needs_input_grad[1] else None,
        )
