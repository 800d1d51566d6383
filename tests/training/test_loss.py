"""The losses, value and gradient, on a model of two tokens that can be worked by hand."""

from __future__ import annotations

import doctest
import math
from typing import Any

import pytest
import torch

from kgwalk.training import loss as module
from kgwalk.training.loss import (
    LossStats,
    Totals,
    clipped_objective,
    imitation_loss,
    k3,
    policy_loss,
    token_weights,
    truncated_importance,
)
from kgwalk.types import KgwalkError

# A vocabulary of two tokens, a and b, with logits (x, 0): p(a) = 1 / (1 + e^-x), p(b) = 1 - p(a).
# d log p(a) / dx = 1 - p(a), d log p(b) / dx = -p(a). All below is at x = ln 3: p(a) = 3/4, p(b) = 1/4.
A_SLOPE, B_SLOPE = 0.25, -0.75


def two_tokens() -> tuple[torch.Tensor, torch.Tensor]:
    """x, and the log-probabilities of the sequence `a b` as (1, 2)."""
    x = torch.tensor(math.log(3.0), dtype=torch.float64, requires_grad=True)
    return x, torch.stack([x, torch.zeros_like(x)]).log_softmax(0)[None]


def log(*probabilities: float) -> torch.Tensor:
    return torch.tensor([probabilities], dtype=torch.float64).log()


def worked(old: torch.Tensor, advantages: list[float], **settings: Any) -> tuple[float, float, dict[str, float]]:
    """Value, slope and report of the loss of `a b`, each token weighing 1/2."""
    x, new = two_tokens()
    mask = torch.ones(1, 2, dtype=torch.bool)
    weights = token_weights("token-mean", mask, Totals(2, 1))
    both = {"clip_low": 0.2, "clip_high": 0.2, **settings}
    value, tally = policy_loss(new, old, torch.tensor([advantages], dtype=torch.float64), mask, weights, **both)
    [slope] = torch.autograd.grad(value, x)
    return value.item(), slope.item(), tally.report()


def test_the_examples_in_the_module() -> None:
    result = doctest.testmod(module)
    assert result.failed == 0
    assert result.attempted > 15


def test_on_policy_the_gradient_is_that_of_reinforce() -> None:
    # Ratios are 1. Loss = -(2 * 1 + -1 * 1) / 2 = -0.5; slope = -(2 * 0.25 + -1 * -0.75) / 2 = -0.625.
    _, new = two_tokens()
    value, slope, report = worked(new.detach(), [2.0, -1.0])
    assert value == pytest.approx(-0.5)
    assert slope == pytest.approx(-0.625)
    assert report == {"ratio": 1.0, "clip_fraction": 0.0, "ratio_min": 1.0, "ratio_max": 1.0}


def test_only_the_learning_model_learns() -> None:
    """What is given with a gradient attached, by mistake, is a number all the same: new / new would have slope 0."""
    x, new = two_tokens()
    mask = torch.ones(1, 2, dtype=torch.bool)
    settings: dict[str, Any] = {
        "clip_low": 0.2,
        "clip_high": 0.2,
        "kl": 0.1,
        "ref_BT": new - 0.5,
        "sampler_BT": log(0.6, 0.2),
    }
    weights, advantages = torch.full((1, 2), 0.5), torch.tensor([[2.0, -1.0]])
    value, _ = policy_loss(new, new, advantages, mask, weights, **settings)
    # -0.625 as above; the KL term adds 0.1 * (1 - e^-0.5) * (0.25 - 0.75) / 2 = -0.009837.
    assert torch.autograd.grad(value, x, retain_graph=True)[0].item() == pytest.approx(-0.634837, abs=1e-6)
    assert not truncated_importance(new, log(0.6, 0.2), 2.0).requires_grad


def test_clipping() -> None:
    # Old p(a) = 0.5: ratio 1.5. Old p(b) = 0.5: ratio 0.5.
    # A = (+1, -1), both went further than 1 +- 0.2 in their direction: loss = -(1.2 - 0.8) / 2 = -0.2, slope 0.
    value, slope, report = worked(log(0.5, 0.5), [1.0, -1.0])
    assert value == pytest.approx(-0.2)
    assert slope == 0
    assert report["clip_fraction"] == 1.0
    # A = (-1, +1), both went the wrong way, and are called back in full: loss = -(-1.5 + 0.5) / 2 = 0.5,
    # slope = -(-1.5 * 0.25 + 0.5 * -0.75) / 2 = 0.375.
    value, slope, report = worked(log(0.5, 0.5), [-1.0, 1.0])
    assert value == pytest.approx(0.5)
    assert slope == pytest.approx(0.375)
    assert report["clip_fraction"] == 0.0
    assert report["ratio"] == pytest.approx(1.0)
    assert (report["ratio_min"], report["ratio_max"]) == pytest.approx((0.5, 1.5))


def test_clip_higher() -> None:
    # Old p(a) = 0.6: ratio 1.25. With 0.2 it is clipped at 1.2; with 0.28 it is not. b has advantage 0.
    value, slope, _ = worked(log(0.6, 0.25), [1.0, 0.0])
    assert (value, slope) == pytest.approx((-0.6, 0.0))
    value, slope, _ = worked(log(0.6, 0.25), [1.0, 0.0], clip_high=0.28)
    assert (value, slope) == pytest.approx((-1.25 / 2, -1.25 * A_SLOPE / 2))


def test_kl_to_the_reference() -> None:
    # Reference 1/2, 1/2. a: d = ln(2/3), k3 = 2/3 + 0.405465 - 1 = 0.072132.
    # b: d = ln 2, k3 = 2 - 0.693147 - 1 = 0.306853.
    # d k3 / d log p = 1 - e^d: 1/3 for a, -1 for b. Slope = 0.1 * (1/3 * 0.25 + -1 * -0.75) / 2 = 0.0416667.
    _, new = two_tokens()
    value, slope, report = worked(new.detach(), [0.0, 0.0], kl=0.1, ref_BT=log(0.5, 0.5))
    assert value == pytest.approx(0.1 * (0.072132 + 0.306853) / 2, abs=1e-6)
    assert slope == pytest.approx(0.0416667, abs=1e-6)
    assert report["kl"] == pytest.approx((0.072132 + 0.306853) / 2, abs=1e-6)


def test_kl_is_only_watched_without_a_weight() -> None:
    _, new = two_tokens()
    value, slope, report = worked(new.detach(), [0.0, 0.0], ref_BT=log(0.5, 0.5))
    assert (value, slope) == (0, 0)
    assert report["kl"] == pytest.approx(0.18949, abs=1e-5)


def test_k3_is_an_unbiased_estimate_of_the_divergence() -> None:
    # Over both tokens: 3/4 * k3(a) + 1/4 * k3(b) = 3/4 ln(3/2) + 1/4 ln(1/2) = 0.130812.
    _, new = two_tokens()
    assert (new.exp() * k3(new, log(0.5, 0.5))).sum().item() == pytest.approx(0.130812, abs=1e-6)


def test_truncated_importance() -> None:
    # The sampler says 0.6 and 0.05 where the trainer says 0.75 and 0.25: weights 1.25 and min(5, 2) = 2.
    # Loss = -(1.25 * 1 + 2 * -1) / 2 = 0.375; slope = -(1.25 * 0.25 - 2 * -0.75) / 2 = -0.90625: weights have none.
    _, new = two_tokens()
    value, slope, report = worked(new.detach(), [1.0, -1.0], sampler_BT=log(0.6, 0.05), importance_cap=2.0)
    assert value == pytest.approx(0.375)
    assert slope == pytest.approx(-0.90625)
    assert report["truncated_fraction"] == 0.5
    assert report["mismatch"] == pytest.approx((math.log(1.25) + math.log(5)) / 2)
    assert report["mismatch_max"] == pytest.approx(math.log(5))


def test_the_sampler_is_only_compared_without_a_cap() -> None:
    _, new = two_tokens()
    value, _, report = worked(new.detach(), [1.0, -1.0], sampler_BT=log(0.6, 0.05))
    assert value == pytest.approx(0)
    assert report["mismatch_min"] == pytest.approx(math.log(1.25))
    assert "truncated_fraction" not in report


def test_aggregations() -> None:
    # Advantages 1 | 2, 2, 2 on policy: losses -1 | -2, -2, -2.
    mask = torch.tensor([[True, False, False], [True, True, True]])
    advantages = torch.tensor([[1.0, 0.0, 0.0], [2.0, 2.0, 2.0]])
    zeros = torch.zeros(2, 3)
    expected = {"token-mean": -7 / 4, "sequence-mean": -(1 + 2) / 2, "sequence-sum-constant": -(1 + 6) / (10 * 2)}
    for name, wanted in expected.items():
        weights = token_weights(name, mask, Totals(4, 2), constant=10)
        value, _ = policy_loss(zeros, zeros, advantages, mask, weights, clip_low=0.2, clip_high=0.2)
        assert value.item() == pytest.approx(wanted), name


def test_one_dimension_works_too() -> None:
    mask = torch.tensor([True, True, False])
    weights = token_weights("sequence-mean", mask, Totals(2, 1))
    assert weights.tolist() == [0.5, 0.5, 0]
    value, _ = policy_loss(
        torch.zeros(3), torch.zeros(3), torch.tensor([1.0, 3.0, 9.0]), mask, weights, clip_low=0.2, clip_high=0.2
    )
    assert value.item() == pytest.approx(-2)


def test_what_is_not_marked_cannot_speak() -> None:
    """Poison where the mask is False: neither value nor gradient nor tally sees it."""
    mask = torch.tensor([[False, True, True, False]])
    weights = token_weights("token-mean", mask, Totals(2, 1))
    outcomes = []
    for poison in (0.0, math.nan, math.inf, -math.inf):
        x, new = two_tokens()
        edge = torch.full((1, 1), poison, dtype=torch.float64)

        def between(values: torch.Tensor, edge: torch.Tensor = edge) -> torch.Tensor:
            return torch.cat([edge, values, edge], 1)

        value, tally = policy_loss(
            between(new),
            between(log(0.6, 0.3)),
            between(torch.tensor([[1.0, -2.0]], dtype=torch.float64)),
            mask,
            weights,
            clip_low=0.2,
            clip_high=0.28,
            kl=0.1,
            ref_BT=between(log(0.5, 0.5)),
            sampler_BT=between(log(0.5, 0.4)),
            importance_cap=2.0,
            entropy_BT=between(log(0.5, 0.5)),
        )
        imitation, nll_B = imitation_loss(between(new), mask, Totals(2, 1))
        [slope] = torch.autograd.grad(value + imitation, x)
        outcomes.append([value.item(), slope.item(), nll_B.item(), *tally.report().values()])
    assert all(math.isfinite(number) for number in outcomes[0])
    assert outcomes[1] == outcomes[2] == outcomes[3] == outcomes[0]


def test_ratios_past_all_bounds_stay_finite() -> None:
    _, slope, report = worked(log(1e-300, 1e-300), [-1.0, 1.0], kl=0.1, ref_BT=log(1e-300, 1e-300))
    assert math.isfinite(slope)
    assert report["ratio_max"] == pytest.approx(math.exp(20))


def test_imitation() -> None:
    # -(ln 3/4 + ln 1/4) / 2 = 0.836988; slope -(0.25 - 0.75) / 2 = 0.25. In a batch of 10 tokens a fifth of both.
    x, new = two_tokens()
    mask = torch.ones(1, 2, dtype=torch.bool)
    value, nll_B = imitation_loss(new, mask, Totals(2, 1))
    [slope] = torch.autograd.grad(value, x, retain_graph=True)
    assert (value.item(), slope.item()) == pytest.approx((0.836988, 0.25), abs=1e-6)
    part, same_B = imitation_loss(new, mask, Totals(10, 3))
    assert part.item() == pytest.approx(0.836988 / 5, abs=1e-6)
    assert nll_B.tolist() == same_B.tolist() == pytest.approx([0.836988], abs=1e-6)
    assert not nll_B.requires_grad


def test_numeric_gradients_agree() -> None:
    generator = torch.Generator().manual_seed(1)
    new, old, ref, sampler = (-3 * torch.rand(2, 4, generator=generator, dtype=torch.float64) for _ in range(4))
    advantages = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    mask = torch.tensor([[False, True, True, True], [True, False, True, False]])
    weights = token_weights("sequence-mean", mask, Totals(5, 2)).double()

    def value(new: torch.Tensor) -> torch.Tensor:
        settings: dict[str, Any] = {"clip_low": 0.2, "clip_high": 0.28, "kl": 0.3, "importance_cap": 2.0}
        return policy_loss(new, old, advantages, mask, weights, ref_BT=ref, sampler_BT=sampler, **settings)[0]

    assert torch.autograd.gradcheck(value, new.requires_grad_())


def test_tallies_add_up() -> None:
    one, two = torch.tensor([[1.0, 2.0]]), torch.tensor([[6.0, 100.0]])
    all_of_it, first_only = torch.tensor([[True, True]]), torch.tensor([[True, False]])
    tallies = []
    for values, mask in ((one, all_of_it), (two, first_only), (two, ~all_of_it)):
        tally = LossStats(mask.sum())
        tally.note("x", values, mask)
        tally.note_bounds("x", values, mask)
        tallies.append(tally)
    assert (tallies[0] + tallies[1] + tallies[2]).report() == {"x": 3.0, "x_min": 1.0, "x_max": 6.0}
    assert tallies[2].report() == {}


def test_clipped_objective_is_never_above_the_free_one() -> None:
    ratio, advantages = torch.rand(100) * 3, torch.randn(100)
    objective, clipped = clipped_objective(ratio, advantages, 0.2, 0.28)
    assert (objective <= ratio * advantages).all()
    assert torch.equal(objective[~clipped], (ratio * advantages)[~clipped])


def test_errors() -> None:
    mask = torch.ones(1, 2, dtype=torch.bool)
    with pytest.raises(KgwalkError, match=r"unknown aggregation `token_mean`; did you mean `token-mean`\?"):
        token_weights("token_mean", mask, Totals(2, 1))
    with pytest.raises(KgwalkError, match="divides by a constant above 0; it is None"):
        token_weights("sequence-sum-constant", mask, Totals(2, 1))
    with pytest.raises(KgwalkError, match=r"weight 0.1 and no reference"):
        worked(log(0.5, 0.5), [1.0, 1.0], kl=0.1)
    with pytest.raises(KgwalkError, match="need the sampler's log-probabilities"):
        worked(log(0.5, 0.5), [1.0, 1.0], importance_cap=2.0)
