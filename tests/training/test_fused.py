"""The fused pass: the same numbers and gradients, with an adapter in its layers' weights and the layers compiled."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch.nn.attention.flex_attention import create_mask

from kgwalk.training import fused
from kgwalk.training.logprobs import TokenScorer
from kgwalk.training.microbatch import Batch, pack, tree_mask
from kgwalk.training.probes import is_rounding, relative_difference
from kgwalk.types import Flat
from tiny_models import tiny_module

KINDS = ["llama", "qwen2", "qwen3"]


def adapted(kind: str = "llama", **settings: Any) -> Any:
    """A model with an adapter that has learnt something."""
    torch.manual_seed(1)
    config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM", **settings)
    model = get_peft_model(tiny_module(kind), config)
    for name, value in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(value, std=0.1)
    return model.eval()


def walks(count: int = 6, after: int = 9) -> list[Flat]:
    """Half of them from one prompt, half from another that begins like it."""
    draw = random.Random(3)
    flats = []
    for number in range(count):
        ids = [5, 6, 7, 8 + number % 2, *(draw.randrange(10, 200) for _ in range(after))]
        flats.append(Flat(ids, [0] * 4 + [1] * after, [0.0] * len(ids), []))
    return flats


def row(flats: list[Flat]) -> Batch:
    [(_, batch)] = pack(flats, None, budget=2048, pad_id=0, side_by_side=True, multiple=fused.BLOCK)
    return batch


def scored(scorer: TokenScorer, batch: Batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    scorer.model.zero_grad()
    found = scorer(batch).logprobs_BT
    (found * torch.linspace(-1, 1, found.numel()).view_as(found)).sum().backward()
    return found.detach(), {name: p.grad.clone() for name, p in scorer.model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_in_the_weights_computes_and_learns_the_same(kind: str) -> None:
    """(W + s B A) x = W x + s B (A x), for the gradients of A and B as well."""
    model = adapted(kind)
    scorer, batch = TokenScorer(model), row(walks())
    expected, gradients = scored(scorer, batch)
    assert fused.join_adapters(model)
    found, others = scored(scorer, batch)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert gradients.keys() == others.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(others[name], gradient, atol=1e-5, rtol=1e-4)
    with model.disable_adapter(), torch.no_grad():
        off = scorer(batch).logprobs_BT
        fused.restore(model, model.get_base_model(), "sdpa")
        torch.testing.assert_close(off, scorer(batch).logprobs_BT)
    assert not torch.allclose(off, found, atol=1e-3)


def test_dropout_keeps_an_adapter_as_it_is() -> None:
    assert not fused.join_adapters(adapted(lora_dropout=0.1))
    assert not fused.join_adapters(tiny_module())


def test_what_a_block_mask_shows_is_what_the_whole_mask_shows() -> None:
    batch = row(walks(40, 30))
    assert batch.end_RL is not None
    end = batch.end_RL[0]
    length = len(end)
    assert length == 10 * fused.BLOCK  # 5 + 40 * 30 tokens, and padding
    whole = tree_mask(end[None], torch.float32)[0, 0] == 0
    mask = fused.sight(end)
    assert torch.equal(create_mask(mask.mask_mod, 1, 1, length, length, device="cpu")[0, 0], whole)
    blocks = whole.view(10, fused.BLOCK, 10, fused.BLOCK)
    some, every = blocks.any(3).any(1), blocks.all(3).all(1)
    for query in range(10):
        partly = mask.kv_indices[0, 0, query, : mask.kv_num_blocks[0, 0, query]].tolist()
        wholly = mask.full_kv_indices[0, 0, query, : mask.full_kv_num_blocks[0, 0, query]].tolist()
        assert set(partly) | set(wholly) == set(some[query].nonzero().flatten().tolist())
        assert not set(partly) & set(wholly)
        assert all(every[query, key] for key in wholly)
    assert mask.full_kv_num_blocks.sum() == 0  # nobody's 30 tokens fill a block
    alone = fused.sight(torch.full((512,), 512))  # one sequence: blocks before a block are seen whole
    assert alone.kv_num_blocks.tolist() == [[[1, 1, 1, 1]]]
    assert alone.full_kv_num_blocks.tolist() == [[[0, 1, 2, 3]]]
    with pytest.raises(ValueError, match="a row of 100 tokens is no multiple of 128"):
        fused.sight(torch.full((100,), 100))


def test_masks_of_one_sequence_and_of_many_are_one_kind_to_the_compiler() -> None:
    """A part of a tensor, as a batch's row is, would have a program of its own."""
    both = [torch.full((512,), 512), torch.full((2, 512), 512)[0]]
    assert [end._base is None for end in both] == [True, False]
    for end in both:
        [cell] = fused.sight(end).mask_mod.__closure__
        assert cell.cell_contents._base is None


@pytest.mark.filterwarnings("ignore::UserWarning")  # that it is slow when it is not compiled
def test_queries_of_another_type_than_the_values_are_seen_in_theirs() -> None:
    """Under autocast, with weights in float32; attention by blocks has no gradient of two types."""
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, heads, 128, 16) for heads in (4, 2, 2))
    mask = fused.sight(torch.full((128,), 128))
    mixed, _ = fused.tree_attention(torch.nn.Identity(), query, key, value.half(), mask)
    alike, _ = fused.tree_attention(torch.nn.Identity(), query.half(), key.half(), value.half(), mask)
    assert mixed.dtype == torch.float16
    assert torch.equal(mixed, alike)


@pytest.mark.filterwarnings("ignore::UserWarning")  # that it is slow when it is not compiled
@pytest.mark.parametrize("kind", KINDS)
def test_attention_by_blocks_is_attention(kind: str) -> None:
    """Without gradients, which a processor has not for it."""
    model = tiny_module(kind)
    batch = row(walks(20))
    assert batch.end_RL is not None
    inputs = {"input_ids": batch.ids_RL, "position_ids": batch.position_RL, "use_cache": False}
    with torch.no_grad():
        expected = model(**inputs, attention_mask=tree_mask(batch.end_RL, torch.float32)).logits
        fused.use_tree_attention(model)
        found = model(**inputs, attention_mask=fused.sight(batch.end_RL[0])).logits
        again = model(**inputs, attention_mask=tree_mask(batch.end_RL, torch.float32)).logits
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(again, expected)


def test_compiled_layers_share_their_code_and_change_nothing() -> None:
    """`aot_eager` traces forward and backward as the compiler does, and makes no kernels."""
    from torch._dynamo.utils import counters

    model = adapted()
    plain, batch = TokenScorer(model), row(walks())
    expected, gradients = scored(plain, batch)
    quick = TokenScorer(model)
    counters.clear()
    assert quick.fuse(backend="aot_eager")
    assert (quick.quick, quick.joined) == (True, True)
    assert counters["stats"]["unique_graphs"] == 3  # a layer, whichever, of one length and of any; the head's scores
    found, others = scored(quick, batch)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    for name, gradient in gradients.items():
        torch.testing.assert_close(others[name], gradient, atol=1e-5, rtol=1e-4)
    made = counters["stats"]["unique_graphs"]
    with torch.no_grad():
        quick(batch)
    assert counters["stats"]["unique_graphs"] == made + 2  # a layer, the first as any other; the head's scores
    assert torch._dynamo.config.recompile_limit >= fused.PROGRAMS  # more than 8, after which layers run as written


def test_what_is_computed_in_half_is_compared_as_such() -> None:
    """Numbers of two orders of computing, in bfloat16."""
    torch.manual_seed(0)
    expected = (torch.randn(20), torch.randn(1000))
    found = (expected[0] * (1 + 1e-3), expected[1] + 0.02 * torch.randn(1000))
    apart = relative_difference(found, expected)
    assert is_rounding(apart, torch.bfloat16)
    assert not is_rounding(apart, torch.float32)
    assert not is_rounding((5e-3, 0.66), torch.bfloat16)  # branches that see each other
    assert not is_rounding(relative_difference((expected[0] * float("nan"), expected[1]), expected), torch.bfloat16)


def test_what_cannot_be_compiled_stays_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    def broken(graph: Any, inputs: Any) -> Any:
        raise AssertionError("no compiler here")

    model = adapted()
    scorer, batch = TokenScorer(model), row(walks())
    expected, gradients = scored(scorer, batch)
    assert not scorer.fuse(backend=broken)
    assert "cannot be compiled" in caplog.text
    assert (scorer.quick, scorer.joined) == (False, False)
    found, others = scored(scorer, batch)
    assert torch.equal(found, expected)
    assert all(torch.equal(others[name], gradient) for name, gradient in gradients.items())


def test_what_computes_something_else_stays_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    def wrong(graph: Any, inputs: Any) -> Any:
        return lambda *given: [2 * one for one in graph(*given)]

    model = tiny_module()
    scorer, batch = TokenScorer(model), row(walks())
    expected, _ = scored(scorer, batch)
    assert not scorer.fuse(backend=wrong)
    assert "computes something else" in caplog.text
    assert torch.equal(scored(scorer, batch)[0], expected)
