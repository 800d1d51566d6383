"""The kernels for a GPU against plain torch. Without a GPU they run in Triton's interpreter (TRITON_INTERPRET=1)."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)

from kgwalk.llm.automaton import Automaton
from kgwalk.llm.grammar import END, Grammar, Names, literal, one_of, string
from kgwalk.llm.torch_engine import kernels
from kgwalk.llm.torch_engine.kv_cache import SlotPass, pad_rows, slot_attention
from kgwalk.llm.torch_engine.model import PrefillJob, SlotModel
from kgwalk.llm.torch_engine.sampling import SlotStart, SlotState
from tiny_models import tiny_module

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
N, H, S = 5, 2, 192


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def table_of(slots: list[int], counts: list[int], starts: list[int], queries: int) -> torch.Tensor:
    rows, first = [], 0
    for slot, count, start in zip(slots, counts, starts, strict=True):
        rows += [[first + at, min(queries, count - at), slot, start + at] for at in range(0, count, queries)] + [
            [0, 0, 0, 0]
        ]  # one too many, as in a pass that is filled up
        first += count
    return torch.tensor(rows, device=DEVICE)


@pytest.mark.parametrize(("groups", "width"), [(3, 64), (1, 16), (4, 24), (7, 32)])
def test_attention_reads_each_slot_as_far_as_it_goes(groups: int, width: int) -> None:
    slots, counts, starts = [3, 0, 4], [1, 37, 16], [150, 0, 100]
    T = sum(counts)
    query, key, value = (
        numbers(1, H * groups, T, width),
        numbers(N, H, S, width, seed=1),
        numbers(N, H, S, width, seed=2),
    )
    rows = pad_rows(slots, counts, starts, torch.float32, S)
    nothing = torch.empty(0)
    plain, _ = slot_attention(
        torch.nn.Module(), query.cpu(), key.cpu(), value.cpu(), None, slot_pass=SlotPass(nothing, nothing, rows=rows)
    )
    key[3, :, 151:], value[3, :, 151:] = float("nan"), float("nan")  # past the end: whatever is there
    found = kernels.attend(query, key, value, table_of(slots, counts, starts, 16), 16, width**-0.5)
    assert torch.allclose(found.cpu(), plain, atol=1e-5)


def test_keys_and_values_are_put_into_their_places() -> None:
    keys, values = numbers(N, H, S, 24), numbers(N, H, S, 24, seed=1)
    new_keys, new_values = numbers(1, 7, H, 24, seed=2).transpose(1, 2), numbers(1, H, 7, 24, seed=3)
    slot, at = torch.tensor([0, 0, 1, 3, 3, 3, 4]), torch.tensor([5, 6, 0, 190, 191, 7, 8])
    wanted = keys.clone(), values.clone()
    for store, new in zip(wanted, (new_keys, new_values), strict=True):
        store[slot, :, at] = new[0].transpose(0, 1)
    kernels.store(keys, values, new_keys, new_values, slot.to(DEVICE), at.to(DEVICE))
    assert torch.equal(keys, wanted[0])
    assert torch.equal(values, wanted[1])


def test_prefixes_are_copied() -> None:
    store = numbers(N, H, S, 24)
    wanted = store.clone()
    wanted[2, :, :70], wanted[4, :, :5] = store[0, :, :70], store[1, :, :5]
    kernels.copy(store, torch.tensor([[0, 2, 70], [1, 4, 5]], device=DEVICE), 70)
    assert torch.equal(store, wanted)


def state_with(starts: list[SlotStart], vocabulary: int, device: torch.device) -> SlotState:
    state = SlotState(6, 4, 8, 3, vocabulary, device)
    state.define_end_set(0, [1])
    state.begin(starts)
    return state


def test_tokens_are_sampled_as_in_torch() -> None:
    vocabulary = 5000  # more than one block
    draws = torch.rand(6, 4, generator=torch.Generator().manual_seed(4)).tolist()
    starts = [
        SlotStart(slot, 7, 10, slot, [0.0, 1.0, 0.5, 2.0, 1.0, 1.0][slot], 1.0, draws[slot], 0) for slot in range(6)
    ]
    slots = torch.tensor([3, 0, 1, 5, 2, 4, 6])  # the first has 3 left, the second none, the last is nobody's
    for move in (False, True):
        plain, quick = (state_with(starts, vocabulary, device) for device in (torch.device("cpu"), DEVICE))
        for step in range(3):
            logits = 3 * torch.randn(7, vocabulary, generator=torch.Generator().manual_seed(step))
            plain.advance(logits, slots, move=move, sampled=True, nucleus=False)
            kernels.sample(logits.to(DEVICE), slots.to(DEVICE), quick, move=move)
            plain.step += 1
            quick.step += 1
        assert torch.equal(quick.out_ids[:, :7].cpu(), plain.out_ids[:, :7])
        live = plain.out_ids[:, :7] >= 0
        assert torch.allclose(quick.out_logprobs[:, :7].cpu()[live], plain.out_logprobs[:, :7][live], atol=1e-5)
        for name in ("last", "at", "left", "used"):
            assert torch.equal(getattr(quick, name).cpu()[:6], getattr(plain, name)[:6]), name
        assert plain.out_ids[:, 0].tolist().count(-1) == 0
        assert plain.out_ids[:, 1].tolist() == [-1, -1, -1]


def test_tokens_are_sampled_as_in_torch_under_a_grammar() -> None:
    """Slots 0 to 2 are in a string, of which most of the vocabulary may come next; 3 writes a name; 4 is free; 5 comes
    to a state that is not there, and waits.
    """
    vocabulary = 5000
    pieces = [*(bytes([byte]) for byte in range(256)), *(b"a%d" % number for number in range(vocabulary - 257)), None]
    automaton = Automaton(pieces, vocabulary - 1)
    text = automaton.start(Grammar(string, (literal('"', END),)))
    name = automaton.start(Grammar(one_of, (Names.of(["a1", "a12", "a77", "b"]), END)))
    draws = torch.rand(6, 4, generator=torch.Generator().manual_seed(4)).tolist()
    rules = [text, text, text, name, None, text]
    slots = torch.tensor([3, 0, 1, 5, 2, 4, 6])
    found = []
    for device in (torch.device("cpu"), DEVICE):
        state = SlotState(6, 4, 8, 3, vocabulary, device)
        state.define_end_set(0, [1])
        numbers = [0 if one is None else state.grammars.number(one) for one in rules]
        starts = [
            SlotStart(slot, 7, 10, 4, [0.0, 1.0, 0.5, 2.0, 1.0, 1.0][slot], 1.0, draws[slot], 0, numbers[slot])
            for slot in range(6)
        ]
        state.begin(starts)
        state.left[0] = 3  # with the quote and the end to come, one token of text
        state.grammars.count[int(state.grammars.target[int(state.grammars.first[numbers[3]])])] = -1
        for step in range(3):
            logits = 3 * torch.randn(7, vocabulary, generator=torch.Generator().manual_seed(step))
            if device is DEVICE and found:
                kernels.sample(logits.to(DEVICE), slots.to(DEVICE), state, move=True)
            else:
                state.advance(logits, slots, move=True, sampled=True, nucleus=False, constrained=True)
            state.step += 1
        found.append(state)
    plain, quick = found
    assert torch.equal(quick.out_ids[:, :7].cpu(), plain.out_ids[:, :7])
    live = plain.out_ids[:, :7] >= 0
    assert torch.allclose(quick.out_logprobs[:, :7].cpu()[live], plain.out_logprobs[:, :7][live], atol=1e-5)
    for part in ("last", "at", "left", "used", "state"):
        assert torch.equal(getattr(quick, part).cpu()[:6], getattr(plain, part)[:6]), part
    written = plain.out_ids[:, 1].tolist()  # of slot 0: a text of one token, the quote, the end
    assert written[1:] == [ord('"'), vocabulary - 1]


def test_a_sequence_stops_at_a_token_that_may_be_its_end() -> None:
    starts = [SlotStart(0, 7, 10, 4, 0.0, 1.0, [], 0)]
    state = state_with(starts, 50, DEVICE)
    for best in (3, 1, 5):
        logits = torch.zeros(1, 50)
        logits[0, best] = 9.0
        kernels.sample(logits.to(DEVICE), torch.tensor([0], device=DEVICE), state, move=True)
        state.step += 1
    assert state.out_ids[:, 0].tolist() == [3, 1, -1]  # token 1 may be an end
    assert int(state.left[0]) == 0
    assert int(state.at[0]) == 12


def test_rotation_and_gating_are_as_in_torch() -> None:
    T, width = 5, 24
    query, key, value = numbers(T, 6, width), numbers(T, H, width, seed=1), numbers(T, H, width, seed=2)
    cos, sin = numbers(T, width, seed=3), numbers(T, width, seed=4)
    keys, values = torch.zeros(N, H, S, width, device=DEVICE), torch.zeros(N, H, S, width, device=DEVICE)
    slot, at = torch.tensor([0, 0, 1, 3, 4], device=DEVICE), torch.tensor([5, 6, 0, 190, 8], device=DEVICE)
    turned = kernels.rotate_and_store(query, key, value, cos, sin, keys, values, slot, at)

    def rotated(x: torch.Tensor) -> torch.Tensor:
        half = torch.cat([-x[..., width // 2 :], x[..., : width // 2]], -1)
        return x * cos[:, None] + half * sin[:, None]

    assert torch.allclose(turned, rotated(query), atol=1e-6)
    assert torch.allclose(keys[slot, :, at], rotated(key), atol=1e-6)
    assert torch.equal(values[slot, :, at], value)
    both = numbers(1, T, 2 * 40)
    assert torch.allclose(kernels.gated(both), torch.nn.functional.silu(both[..., :40]) * both[..., 40:], atol=1e-6)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_a_model_with_kernels_samples_as_without(kind: str) -> None:
    ids = torch.randint(10, 400, (3, 40), generator=torch.Generator().manual_seed(1)).tolist()
    found = []
    for with_kernels in (False, True):
        module = tiny_module(kind).to(DEVICE if with_kernels else "cpu")
        model = SlotModel(module, max_slots=4, context=128, kernels=with_kernels)
        ends = model.end_set(frozenset({2}))
        jobs = [PrefillJob(slot, row[: 20 + slot], 0, None) for slot, row in enumerate(ids)]
        assert model.prefill(jobs) is None
        model.copy([(0, 3, 16)])
        jobs = [PrefillJob(3, ids[0][16:30], 16, SlotStart(3, 0, 30, 9, 1.0, 1.0, [0.3] * 9, ends))]
        jobs += [PrefillJob(1, ids[1][21:40], 21, SlotStart(1, 0, 40, 9, 0.0, 1.0, [], ends))]
        first = model.prefill(jobs)
        assert first is not None
        rest = model.steps([3, 1], 4, sampled=True, nucleus=False)
        found.append((first.read(), rest.read()))
        assert ("forward" in vars(module.model.layers[0].self_attn)) == with_kernels  # fused, and found to be the same
    for plain, quick in zip(*found, strict=True):
        assert (quick[0] == plain[0]).all()
        assert torch.allclose(torch.tensor(quick[1]), torch.tensor(plain[1]), atol=1e-4)
