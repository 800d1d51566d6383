"""The training pass of a processor: narrow weights and compiled layers inside, the module as it was outside."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from kgwalk.training.host_pass import HostPass
from kgwalk.training.logprobs import TokenScorer
from kgwalk.training.microbatch import Batch, collate
from kgwalk.types import Flat
from tiny_models import tiny_module

# Two sequences of other lengths than those that are probed: [5, 6, 7, 8] and [5, 6, 9], their last two tokens learnt.
BATCH = collate([Flat([5, 6, 7, 8], [0, 0, 1, 1], [0.0] * 4, []), Flat([5, 6, 9], [0, 1, 1], [0.0] * 3, [])], None, 0)


@pytest.fixture
def scorer() -> TokenScorer:
    """Of a model with an adapter that has learnt something."""
    torch.manual_seed(1)
    config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(tiny_module("llama"), config)
    for name, value in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(value, std=0.1)
    return TokenScorer(model.eval())


def scored(scorer: TokenScorer, host: HostPass, batch: Batch = BATCH) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities, and all gradients as one row."""
    scorer.model.zero_grad()
    with host.inside():
        with host.precision():
            found = scorer(batch).logprobs_BT
        found.sum().backward()
    return found.detach(), torch.cat([p.grad.flatten() for p in scorer.model.parameters() if p.grad is not None])


def test_frozen_weights_are_narrow_inside_and_their_own_outside(scorer: TokenScorer) -> None:
    frozen = {name: value for name, value in scorer.model.named_parameters() if not value.requires_grad}
    before = {name: (value.data_ptr(), value.clone()) for name, value in frozen.items()}
    whole, gradients = scored(scorer, HostPass(scorer, half=False, compiled=False))
    host = HostPass(scorer, half=True, compiled=False)
    with host.inside():
        assert {value.dtype for value in frozen.values()} == {torch.bfloat16}
        assert all(value.dtype == torch.float32 for value in scorer.model.parameters() if value.requires_grad)
    for name, value in frozen.items():
        place, numbers = before[name]
        assert value.data_ptr() == place
        assert torch.equal(value, numbers)
    with torch.backends.mkldnn.flags(enabled=False):  # whose kernels of 16 bits some processors do not have
        half, others = scored(scorer, host)
    assert not torch.equal(half, whole)  # 8 bits of 24: alike to a percent
    assert (half - whole).norm() < 0.02 * whole.norm()
    assert (others - gradients).norm() < 0.2 * gradients.norm()


def test_compiled_layers_compute_the_same_and_are_gone_outside(scorer: TokenScorer) -> None:
    """`aot_eager` traces forward and backward as the compiler does, and makes no kernels."""
    expected, gradients = scored(scorer, HostPass(scorer, half=False, compiled=False))
    host = HostPass(scorer, half=False, compiled=True, backend="aot_eager")
    layers = scorer.model.get_base_model().get_decoder().layers
    with host.inside():
        assert all(layer._compiled_call_impl is not None for layer in layers)
    assert all(layer._compiled_call_impl is None for layer in layers)
    found, others = scored(scorer, host)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(others, gradients, atol=1e-5, rtol=1e-4)


def test_what_cannot_be_compiled_or_computes_something_else_is_run_as_written(
    scorer: TokenScorer, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(graph: Any, inputs: Any) -> Any:
        raise AssertionError("no compiler here")

    def wrong(graph: Any, inputs: Any) -> Any:
        return lambda *given: [2 * one for one in graph(*given)]

    expected, _ = scored(scorer, HostPass(scorer, half=False, compiled=False))
    for backend, said in ((broken, "cannot be compiled"), (wrong, "computes something else")):
        host = HostPass(scorer, half=False, compiled=True, backend=backend)
        assert said in caplog.text
        found, _ = scored(scorer, host)
        assert torch.equal(found, expected)
