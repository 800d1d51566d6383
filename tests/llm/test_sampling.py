"""Sampling from logits in torch: by hand, and as often as tokens are likely."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")

import torch

from kgwalk.llm.engine import draws
from kgwalk.llm.torch_engine.sampling import sample


def test_sampling_by_hand() -> None:
    # probabilities 0.5, 0.1, 0.4 for tokens 0, 1, 2
    logits = torch.log(torch.tensor([[0.5, 0.1, 0.4]])).repeat(6, 1)
    temperature, top_p = torch.tensor([0.0, 1, 1, 1, 1, 1]), torch.tensor([1.0, 1, 1, 1, 0.8, 0.5])
    sampled, likely = sample(logits, temperature, top_p, torch.tensor([0.9, 0.49, 0.55, 0.61, 0.6, 0.99]).double())
    ids, logprobs = sampled.tolist(), likely.tolist()
    # greedy; in [0, .5) is 0; in [.5, .6) is 1; in [.6, 1) is 2; of 0.9 kept (tokens 0 and 2) 0.54 is in token 2's
    # part; of the likeliest token alone everything is token 0's
    assert ids == [0, 0, 1, 2, 2, 0]
    assert logprobs == pytest.approx([math.log([0.5, 0.1, 0.4][number]) for number in ids], abs=1e-6)


def test_tokens_come_as_often_as_they_are_likely() -> None:
    weights = torch.tensor([3.0, 1.0, 0.5, 2.0])
    count = 8000
    logits = weights.log().repeat(count, 1)
    for temperature, top_p, likely in (
        (1.0, 1.0, weights / weights.sum()),
        (0.5, 1.0, weights**2 / (weights**2).sum()),
        (1.0, 0.7, torch.tensor([0.6, 0.0, 0.0, 0.4])),
    ):
        numbers = torch.tensor(draws(1, count), dtype=torch.float64)
        ids, _ = sample(logits, torch.full((count,), temperature), torch.full((count,), top_p), numbers)
        shares = torch.bincount(ids, minlength=4) / count
        assert torch.allclose(shares, likely, atol=0.025)


def test_a_wide_nucleus_is_found_among_many_tokens() -> None:
    logits = torch.zeros(1, 5000)  # the likeliest 256 have a twentieth of the mass
    one, most = torch.ones(1), torch.full((1,), 0.9)
    sampled = {int(sample(logits, one, most, torch.tensor([draw / 50]).double())[0]) for draw in range(50)}
    assert len(sampled) == 50
