"""Logits in float32 of a model in bfloat16: what rounding would make of them, and that engine and trainer agree."""

from __future__ import annotations

import asyncio
import doctest
import math
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import torch

from engine_helpers import ask, prompt, run
from kgwalk.bench.checks import sequence, trained
from kgwalk.llm.models import LoadedModel
from kgwalk.llm.tokenizers import HfTokenizer
from kgwalk.llm.torch_engine import sampling
from kgwalk.llm.torch_engine.engine import LocalEngine
from kgwalk.llm.torch_engine.fused import fuse
from kgwalk.llm.torch_engine.sampling import widen_head
from kgwalk.training.logprobs import TokenScorer, logprob_and_entropy
from tiny_models import tiny_module, tiny_tokenizer

STEP_SIZES = [ask(prompt(12 + number, number), temperature=1.0, seed=number, max_tokens=16) for number in range(12)]


@pytest.fixture(autouse=True)
def plain_kernels() -> Iterator[None]:
    with torch.backends.mkldnn.flags(enabled=False):  # whose bfloat16 kernels some processors do not have
        yield


def _half(**changes: Any) -> Any:
    """A tiny Llama in bfloat16."""
    return tiny_module("llama", **changes).to(torch.bfloat16)


@torch.no_grad()
def _expected(module: Any, ids: list[int], written: list[int]) -> torch.Tensor:
    """Log-probabilities of what was written, by one pass, with the head in float32."""
    states = module.model(torch.tensor([ids + written])).last_hidden_state[0, len(ids) - 1 : -1]
    logits = states.float() @ module.lm_head.weight.float().T
    return logits.log_softmax(-1).gather(1, torch.tensor(written)[:, None])[:, 0]


def test_the_example_in_the_docstring() -> None:
    assert doctest.testmod(sampling).failed == 0


def test_two_tokens_that_are_not_equally_likely() -> None:
    """Logits 16 1/16 and 16: 1 / (1 + e^-(1/16)) = 0.5156. Rounded to bfloat16 both are 16, and it is 1/2."""
    layer = torch.nn.Linear(2, 2, bias=False, dtype=torch.bfloat16)
    layer.weight.data = torch.tensor([[1.0, 1.0], [1.0, 0.0]]).bfloat16()
    state, first = torch.tensor([[16.0, 0.0625]]).bfloat16(), torch.tensor([0])
    assert logprob_and_entropy(layer(state), first)[0].exp().item() == pytest.approx(0.5)
    assert widen_head(_Headed(layer))
    assert logprob_and_entropy(layer(state), first)[0].exp().item() == pytest.approx(1 / (1 + math.exp(-1 / 16)))


class _Headed(torch.nn.Module):
    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def get_output_embeddings(self) -> torch.nn.Module:
        return self.layer


def test_engine_and_trainer_agree_where_logits_are_large() -> None:
    """All logits are 48 higher, which changes no probability. Between 32 and 64 numbers in bfloat16 are multiples of
    1/4: rounded, a logit is off by up to 1/8 and by 1/16 in the mean. A log-probability must not be.
    """
    module = _half()
    module.lm_head.bias = torch.nn.Parameter(torch.full((len(module.lm_head.weight),), 48.0, dtype=torch.bfloat16))
    with torch.no_grad():
        logits = module(torch.tensor([STEP_SIZES[0].ids])).logits
    assert 32 < logits.min() < logits.max() < 64
    assert torch.equal(logits * 4, (logits * 4).round())
    engine = LocalEngine(LoadedModel("tiny", deepcopy(module), HfTokenizer(tiny_tokenizer())))
    drawn = run(engine, *STEP_SIZES)
    asyncio.run(engine.close())
    expected = torch.cat([_expected(module, row.ids, one.ids) for row, one in zip(STEP_SIZES, drawn, strict=True)])
    ours = torch.tensor([value for one in drawn for value in one.logprobs])
    trainer = TokenScorer(deepcopy(module))
    assert trainer.takes_trees
    theirs = torch.tensor(
        trained(trainer, [sequence(row.ids, one) for row, one in zip(STEP_SIZES, drawn, strict=True)])
    )
    assert len(expected) > 100
    assert expected.mean() < -1  # few of them are certain
    for one, other in ((ours, expected), (theirs, expected), (ours, theirs)):
        assert (one - other).abs().mean() < 1e-2


@pytest.mark.parametrize("tied", [False, True])
def test_gradients_are_a_plain_layers(tied: bool) -> None:
    """To the rounding of bfloat16, of all weights: those of the head, too, learn."""
    ids = torch.tensor([prompt(20)])
    found = []
    for wide in (False, True):
        module = _half(tie_word_embeddings=tied)
        if wide:
            assert widen_head(module)
        logits = module(ids).logits
        assert logits.dtype == (torch.float32 if wide else torch.bfloat16)
        logprob_and_entropy(logits[0, :-1], ids[0, 1:])[0].mean().backward()
        gradients = [value.grad for value in module.parameters()]
        assert {one.dtype for one in gradients} == {torch.bfloat16}
        found.append(torch.cat([one.float().flatten() for one in gradients]))
    assert torch.cosine_similarity(*found, dim=0) > 0.999
    assert float(found[0].norm()) == pytest.approx(float(found[1].norm()), rel=0.02)


def test_under_autocast_weights_stay_float32() -> None:
    """As where all weights are trained: the head computes in bfloat16, its logits are not rounded to it."""
    module: Any = tiny_module()
    widen_head(module)
    state = torch.randn(2, 3, 64, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = module.lm_head(state)
    weight = module.lm_head.weight
    assert found.dtype == torch.float32
    assert torch.allclose(found, state.bfloat16().float() @ weight.bfloat16().float().T, atol=1e-5)
    found.sum().backward()
    assert weight.grad.dtype == torch.float32
    assert weight.grad.abs().sum() > 0


def test_in_float32_nothing_changes() -> None:
    module: Any = tiny_module()
    ids = torch.tensor([prompt(20)])
    with torch.no_grad():
        before = module(ids).logits
        assert widen_head(module)
        assert widen_head(module)  # again
        assert torch.equal(module(ids).logits, before)


def test_a_head_of_another_kind_stays_as_it_is() -> None:
    assert not widen_head(_Headed(torch.nn.Sequential(torch.nn.Linear(2, 2))))
    assert not widen_head(torch.nn.Linear(2, 2))


def test_a_vocabulary_in_parts_and_a_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "PART", 3)
    layer = torch.nn.Linear(4, 8, dtype=torch.bfloat16)
    state = torch.arange(8.0).view(2, 4).bfloat16()
    expected = state.float() @ layer.weight.float().T + layer.bias.float()
    widen_head(_Headed(layer))
    assert torch.allclose(layer(state), expected)


@pytest.mark.parametrize(("dtype", "kept"), [(torch.bfloat16, True), (torch.float32, False)])
def test_how_far_fused_layers_may_be_off_is_said_by_the_models_type(dtype: torch.dtype, kept: bool) -> None:
    """Not by that of its logits: 1% is rounding to a model in bfloat16, and a mistake in float32."""
    logits = iter([torch.ones(4), torch.full((4,), 1.01)])
    assert fuse(tiny_module().to(dtype), lambda: next(logits)) is kept
