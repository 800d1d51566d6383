"""Triton kernels for a GPU: attention over slots, writing keys and values, sampling, copying prefixes.

Attention reads no more of a slot than its sequence is long, so its cost follows the real lengths; the heads that share
a key are computed together, so every key is read once. Each function has an equivalent in torch, in `kv_cache` or
`sampling`, and the tests compare the two. Shapes as in `kv_cache`; V tokens of the vocabulary.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kgwalk.llm.torch_engine.sampling import SlotState
from kgwalk.llm.torch_engine.sequence import MISSING

WIDTH = 4096  # logits that a program reads at a time


@triton.jit
def _store(
    keys, values, new_keys, new_values, slot_T, at_T, c_slot, c_head, c_at, k_head, k_token, v_head, v_token,
    D: tl.constexpr, DP: tl.constexpr,
):  # fmt: skip
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    slot, at = tl.load(slot_T + token).to(tl.int64), tl.load(at_T + token).to(tl.int64)
    d = tl.arange(0, DP)
    place = slot * c_slot + head * c_head + at * c_at + d
    tl.store(keys + place, tl.load(new_keys + head * k_head + token * k_token + d, mask=d < D), mask=d < D)
    tl.store(values + place, tl.load(new_values + head * v_head + token * v_token + d, mask=d < D), mask=d < D)


def store(
    keys: torch.Tensor,
    values: torch.Tensor,
    new_keys: torch.Tensor,
    new_values: torch.Tensor,
    slot_T: torch.Tensor,
    at_T: torch.Tensor,
) -> None:
    """Writes new keys and values (1, H, T, D) to (slot, head, position) of the cache (N+1, H, S, D)."""
    _, H, T, D = new_keys.shape
    _store[(T, H)](
        keys, values, new_keys, new_values, slot_T, at_T, *keys.stride()[:3],
        *new_keys.stride()[1:3], *new_values.stride()[1:3], D, triton.next_power_of_2(D), num_warps=1,
    )  # fmt: skip


@triton.jit
def _rotate_and_store(
    query, key, value, cos, sin, out, keys, values, slot_T, at_T, q_token, q_head, k_token, k_head, v_token, v_head,
    p_token, o_token, o_head, c_slot, c_head, c_at, HQ: tl.constexpr, D: tl.constexpr, DP: tl.constexpr,
):  # fmt: skip
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    d = tl.arange(0, DP)
    inside = d < D
    other = tl.where(d < D // 2, d + D // 2, d - D // 2)
    c = tl.load(cos + token * p_token + d, mask=inside, other=0.0)
    s = tl.load(sin + token * p_token + d, mask=inside, other=0.0)
    s = tl.where(d < D // 2, -s, s)
    if head < HQ:
        at = query + token * q_token + head * q_head
        x, y = tl.load(at + d, mask=inside, other=0.0), tl.load(at + other, mask=inside, other=0.0)
        turned = (x * c).to(x.dtype) + (y * s).to(x.dtype)
        tl.store(out + token * o_token + head * o_head + d, turned.to(x.dtype), mask=inside)
    else:
        which = head - HQ
        at = key + token * k_token + which * k_head
        x, y = tl.load(at + d, mask=inside, other=0.0), tl.load(at + other, mask=inside, other=0.0)
        turned = (x * c).to(x.dtype) + (y * s).to(x.dtype)
        slot, place = tl.load(slot_T + token).to(tl.int64), tl.load(at_T + token).to(tl.int64)
        there = slot * c_slot + which * c_head + place * c_at + d
        tl.store(keys + there, turned.to(x.dtype), mask=inside)
        tl.store(values + there, tl.load(value + token * v_token + which * v_head + d, mask=inside), mask=inside)


def rotate_and_store(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    slot_T: torch.Tensor,
    at_T: torch.Tensor,
) -> torch.Tensor:
    """Rotary positions, the second half of a width against the first; cos and sin are (T, D).

    Returns the rotated queries (T, HG, D), and writes the rotated keys (T, H, D) and the values to the cache.
    """
    T, HQ, D = query.shape
    out = torch.empty(T, HQ, D, dtype=query.dtype, device=query.device)
    _rotate_and_store[(T, HQ + key.shape[1])](
        query, key, value, cos, sin, out, keys, values, slot_T, at_T, *query.stride()[:2], *key.stride()[:2],
        *value.stride()[:2], cos.stride(0), *out.stride()[:2], *keys.stride()[:3], HQ, D, triton.next_power_of_2(D),
        num_warps=1,
    )  # fmt: skip
    return out


@triton.jit
def _gated(both, out, F, b_token, W: tl.constexpr):
    token, low = tl.program_id(0).to(tl.int64), tl.program_id(1) * W
    w = low + tl.arange(0, W)
    gate = tl.load(both + token * b_token + w, mask=w < F, other=0.0).to(tl.float32)
    up = tl.load(both + token * b_token + F + w, mask=w < F, other=0.0)
    opened = (gate / (1 + tl.exp(-gate))).to(up.dtype)
    tl.store(out + token * F + w, opened * up, mask=w < F)


def gated(both: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up, of (1, T, 2F) with the gate first."""
    F = both.shape[-1] // 2
    flat = both.view(-1, 2 * F)
    out = torch.empty(*both.shape[:-1], F, dtype=both.dtype, device=both.device)
    _gated[(len(flat), triton.cdiv(F, 1024))](flat, out, F, flat.stride(0), 1024, num_warps=4)
    return out


@triton.jit
def _attend(
    query, keys, values, out, blocks, scale, q_head, q_token, c_slot, c_head, c_at, o_token, o_head,
    G: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, Q: tl.constexpr, S: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    block, head = tl.program_id(1), tl.program_id(0)
    first = tl.load(blocks + block * 4).to(tl.int64)
    count = tl.load(blocks + block * 4 + 1).to(tl.int32)
    slot = tl.load(blocks + block * 4 + 2).to(tl.int64)
    start = tl.load(blocks + block * 4 + 3).to(tl.int32)
    if count == 0:
        return
    m = tl.arange(0, Q * GP)  # a row for each query and each head of the group
    which, group = m // GP, m % GP
    live = (which < count) & (group < G)
    d = tl.arange(0, DP)
    q = tl.load(
        query + (head * G + group)[:, None] * q_head + (first + which)[:, None] * q_token + d[None, :],
        mask=live[:, None] & (d < D)[None, :],
        other=0.0,
    )
    end = start + count
    last = start + which  # the position of each query, which it sees itself
    base = slot * c_slot + head * c_head
    most = tl.full([Q * GP], float("-inf"), tl.float32)
    total = tl.zeros([Q * GP], tl.float32)
    found = tl.zeros([Q * GP, DP], tl.float32)
    for low in range(0, end, S):
        s = low + tl.arange(0, S)
        k = tl.load(keys + base + s[None, :] * c_at + d[:, None], mask=(s < end)[None, :] & (d < D)[:, None], other=0.0)
        scores = tl.dot(q, k, input_precision=PRECISION) * scale
        scores = tl.where(s[None, :] <= last[:, None], scores, float("-inf"))
        higher = tl.maximum(most, tl.max(scores, 1))
        share = tl.exp(scores - higher[:, None])
        shrink = tl.exp(most - higher)
        v = tl.load(
            values + base + s[:, None] * c_at + d[None, :], mask=(s < end)[:, None] & (d < D)[None, :], other=0.0
        )
        total = total * shrink + tl.sum(share, 1)
        found = found * shrink[:, None] + tl.dot(share.to(v.dtype), v, input_precision=PRECISION)
        most = higher
    tl.store(
        out + (first + which)[:, None] * o_token + (head * G + group)[:, None] * o_head + d[None, :],
        (found / total[:, None]).to(out.dtype.element_ty),
        mask=live[:, None] & (d < D)[None, :],
    )


def attend(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, blocks_B4: torch.Tensor, queries: int, scale: float
) -> torch.Tensor:
    """Attention (1, T, HG, D) of each query over its slot, from the beginning to its own position."""
    _, heads, T, D = query.shape
    H = keys.shape[1]
    G = heads // H
    GP = triton.next_power_of_2(G)
    Q = max(queries, 16 // GP)  # the matrix unit takes 16 rows or more
    DP = max(16, triton.next_power_of_2(D))
    warps = 8 if Q * GP * DP > 8192 else 4  # 128 rows of heads of 128: four warps have no registers for that
    out = query.new_empty(1, T, heads, D)  # tokens in no block are not written: nobody reads those
    _attend[(H, blocks_B4.shape[0])](
        query, keys, values, out, blocks_B4, scale, *query.stride()[1:3], *keys.stride()[:3], *out.stride()[1:3],
        G, GP, D, DP, Q, 64, "ieee" if query.dtype == torch.float32 else "tf32", num_warps=warps, num_stages=3,
    )  # fmt: skip
    return out


@triton.jit
def _sample(
    logits, slots, last, at, left, used, temperature, end_set, draws, end_table, out_ids, out_logprobs, step_number,
    state, first, count, need, token, target, l_row, V, M, C, MISSED, MOVE: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + row).to(tl.int64)
    step = tl.load(step_number).to(tl.int64)
    remaining = tl.load(left + slot)
    if remaining <= 0:
        tl.store(out_ids + step * C + row, -1)
        return
    heat = tl.load(temperature + slot)
    warm = tl.where(heat > 0, heat, 1.0)
    w = tl.arange(0, W)
    here = tl.load(state + slot)  # of the grammar: its edges are looked at, in place of the whole vocabulary
    bound = here > 0
    edge = tl.load(first + here).to(tl.int64)
    size = tl.where(bound, tl.load(count + here), V)
    # The likeliest token, and the sums of exp(x) and exp(x / temperature), relative to the largest so far. What is not
    # allowed is -1e30, as the difference of two infinities would be no number.
    highest = tl.full([], float("-inf"), tl.float32)
    best = tl.full([], 0, tl.int32)
    plain = tl.zeros([], tl.float32)
    warmed = tl.zeros([], tl.float32)
    for low in range(0, size, W):
        inside = low + w < size
        which = tl.load(token + edge + low + w, mask=inside & bound, other=0)
        there = tl.load(target + edge + low + w, mask=inside & bound, other=0)
        takes = tl.load(need + there, mask=inside & bound, other=0)
        inside = inside & (takes < remaining)
        x = tl.load(logits + row * l_row + tl.where(bound, which, low + w), mask=inside, other=-1e30).to(tl.float32)
        top = tl.max(x, 0)
        if top > highest:
            best = low + tl.argmax(x, 0).to(tl.int32)
        higher = tl.maximum(top, highest)
        plain = plain * tl.exp(highest - higher) + tl.sum(tl.exp(x - higher), 0)
        warmed = warmed * tl.exp((highest - higher) / warm) + tl.sum(tl.exp((x - higher) / warm), 0)
        highest = higher
    place = best
    if heat > 0:
        drawn = tl.load(used + slot)
        wanted = tl.load(draws + slot * M + drawn).to(tl.float32) * warmed
        passed = tl.zeros([], tl.float32)
        sought = tl.full([], 1, tl.int32)
        for low in range(0, size, W):
            inside = low + w < size
            which = tl.load(token + edge + low + w, mask=inside & bound, other=0)
            there = tl.load(target + edge + low + w, mask=inside & bound, other=0)
            takes = tl.load(need + there, mask=inside & bound, other=0)
            inside = inside & (takes < remaining)
            x = tl.load(logits + row * l_row + tl.where(bound, which, low + w), mask=inside, other=-1e30)
            ends = passed + tl.cumsum(tl.exp((x.to(tl.float32) - highest) / warm), 0)
            here_ends = tl.max(ends, 0)
            if (here_ends > wanted) & (sought == 1):
                place = low + tl.sum((ends <= wanted).to(tl.int32), 0)
                sought = tl.full([], 0, tl.int32)
            passed = here_ends
        # A draw so near to 1 that rounded sums never reach it takes the likeliest token.
        tl.store(used + slot, drawn + 1)
    sampled = tl.where(bound, tl.load(token + edge + place, mask=bound, other=0), place)
    after = tl.load(target + edge + place, mask=bound, other=0)
    missed = bound & (tl.load(count + after) < 0)
    x = tl.load(logits + row * l_row + sampled).to(tl.float32)
    tl.store(out_ids + step * C + row, sampled.to(tl.int64) + tl.where(missed, MISSED, 0))
    tl.store(out_logprobs + step * C + row, x - highest - tl.log(plain))
    tl.store(last + slot, sampled.to(tl.int64))
    tl.store(state + slot, after.to(tl.int64))
    if MOVE:
        tl.store(at + slot, tl.load(at + slot) + 1)
    ends_here = tl.load(end_table + tl.load(end_set + slot).to(tl.int64) * V + sampled)
    tl.store(left + slot, tl.where((ends_here != 0) | missed, 0, remaining - 1))


def sample(
    logits_RV: torch.Tensor,
    slots_R: torch.Tensor,
    state: SlotState,
    *,
    move: bool,
) -> None:
    """As `SlotState.advance` without top_p: the next token of each sequence that has some left, into the state."""
    R, V = logits_RV.shape
    assert state.out_ids.shape[1] >= R, (R, state.out_ids.shape)
    table = state.grammars
    _sample[(R,)](
        logits_RV, slots_R, state.last, state.at, state.left, state.used, state.temperature, state.end_set, state.draws,
        state.ends, state.out_ids, state.out_logprobs, state.step, state.state, table.first, table.count, table.need,
        table.token, table.target, logits_RV.stride(0), V, state.draws.shape[1], state.out_ids.shape[1], MISSING, move,
        WIDTH, num_warps=8,
    )  # fmt: skip


@triton.jit
def _copy(store, table, c_slot, c_head, c_at, D: tl.constexpr, DP: tl.constexpr, S: tl.constexpr):
    pair, head, low = tl.program_id(0), tl.program_id(1), tl.program_id(2) * S
    source, target = tl.load(table + pair * 3).to(tl.int64), tl.load(table + pair * 3 + 1).to(tl.int64)
    length = tl.load(table + pair * 3 + 2)
    s, d = low + tl.arange(0, S), tl.arange(0, DP)
    place = head * c_head + s[:, None] * c_at + d[None, :]
    mask = (s < length)[:, None] & (d < D)[None, :]
    tl.store(store + target * c_slot + place, tl.load(store + source * c_slot + place, mask=mask), mask=mask)


def copy(store: torch.Tensor, table_P3: torch.Tensor, longest: int) -> None:
    """For each (from, to, length): copies the first positions of one slot of (N+1, H, S, D) to another."""
    H, D = store.shape[1], store.shape[3]
    grid = (len(table_P3), H, triton.cdiv(longest, 64))
    _copy[grid](store, table_P3, *store.stride()[:3], D, triton.next_power_of_2(D), 64, num_warps=4)
