"""Microbatches: every sequence once, within the budget, and what is learned does not depend on the cut."""

from __future__ import annotations

import doctest
import random
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kgwalk.training import microbatch
from kgwalk.training.logprobs import TokenScorer
from kgwalk.training.loss import AGGREGATIONS, Tally, Totals, imitation_loss, policy_loss, token_weights
from kgwalk.training.microbatch import Batch, collate, microbatches, padded_tokens
from kgwalk.types import Flat, KgwalkError
from tiny_models import tiny_module


def test_the_examples_in_the_module() -> None:
    result = doctest.testmod(microbatch)
    assert result.failed == 0
    assert result.attempted == 8


lengths_and_budget = st.tuples(st.lists(st.integers(1, 60), max_size=40), st.integers(1, 200))


@given(lengths_and_budget)
def test_a_partition_within_the_budget(given: tuple[list[int], int]) -> None:
    lengths, budget = given
    batches = microbatches(lengths, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert batch
        assert len(batch) == 1 or padded_tokens(lengths, [batch]) <= budget
    assert batches == microbatches(lengths, budget)
    assert [lengths[i] for batch in batches for i in batch] == sorted(lengths, reverse=True)


def test_like_lengths_go_together() -> None:
    lengths = [100, 10, 100, 10, 100, 10, 100, 10]
    assert microbatches(lengths, 400) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert padded_tokens(lengths, microbatches(lengths, 400)) == sum(lengths)
    assert microbatches([], 10) == []
    with pytest.raises(KgwalkError, match="at least 1 token; it is 0"):
        microbatches([1], 0)


def test_collate_refuses_what_does_not_fit() -> None:
    flat = Flat([1, 2], [0, 1], [0.0, -1.0], [-1, 0])
    with pytest.raises(KgwalkError, match="sequence 1 has 2 ids, 2 mask, 2 logprobs, 3 advantages"):
        collate([flat, flat], [[0.0, 1.0], [0.0, 1.0, 2.0]], 0)
    with pytest.raises(KgwalkError, match="at least one sequence"):
        collate([], [], 0)


def test_padding_is_on_the_right() -> None:
    batch = collate([Flat([3, 4, 5], [0, 1, 1], [0.0, -1.0, -2.0], [-1, 0, 0]), Flat([6], [0], [0.0], [-1])], None, 9)
    assert batch.ids_BT.tolist() == [[3, 4, 5], [6, 9, 9]]
    assert batch.attention_BT.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch.position_BT.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert batch.old_logprobs_BT.tolist() == [[0, -1, -2], [0, 0, 0]]
    assert not batch.advantages_BT.any()
    moved = batch.to("cpu")
    assert torch.equal(moved.ids_BT, batch.ids_BT)


# What is learned does not depend on the cut.


def episodes(count: int = 8) -> tuple[list[Flat], list[list[float]]]:
    """Of 5 to 26 tokens, prompts and observations among them."""
    draw = random.Random(5)
    flats, advantages = [], []
    for _ in range(count):
        mask = [0] * draw.randint(2, 6)
        turn_index = [-1] * len(mask)
        for turn in range(draw.randint(1, 4)):
            written, told = draw.randint(1, 3), draw.randint(0, 3)
            mask += [1] * written + [0] * told
            turn_index += [turn] * written + [-1] * told
        ids = [draw.randrange(400) for _ in mask]
        flats.append(Flat(ids, mask, [-draw.random() * 15 * m for m in mask], turn_index))
        advantages.append([draw.gauss(0, 1) * m for m in mask])
    return flats, advantages


def cuts(flats: Sequence[Flat]) -> dict[str, list[list[int]]]:
    lengths = [len(flat.ids) for flat in flats]
    return {
        "1x8": [list(range(len(flats)))],
        "8x1": [[index] for index in range(len(flats))],
        "8x1 backwards": [[index] for index in reversed(range(len(flats)))],
        "bucketed": microbatches(lengths, 50),
        "any": [[5, 0, 3], [7], [1, 2, 6, 4]],
    }


Outcome = tuple[float, dict[str, float], list[torch.Tensor]]


def accumulate(aggregation: str, batches: list[list[int]]) -> Outcome:
    flats, advantages = episodes()
    totals = Totals.of(flat.mask for flat in flats)
    model = tiny_module()
    scorer = TokenScorer(model, chunk=16)
    value, tally = 0.0, None
    for indices in batches:
        batch = collate([flats[i] for i in indices], [advantages[i] for i in indices], pad_id=0)
        loss, noted = one_microbatch(scorer, batch, aggregation, totals)
        loss.backward()
        value += loss.item()
        tally = noted if tally is None else tally + noted
    assert tally is not None
    return value, tally.report(), [p.grad.clone() for p in model.parameters() if p.grad is not None]


def one_microbatch(scorer: TokenScorer, batch: Batch, aggregation: str, totals: Totals) -> tuple[torch.Tensor, Tally]:
    scores = scorer(batch.ids_BT, batch.attention_BT, batch.mask_BT, batch.position_BT, entropy=True)
    old = scores.logprobs_BT.detach() + 0.4 * torch.sin(batch.ids_BT.float())  # some ratios are clipped
    return policy_loss(
        scores.logprobs_BT,
        old,
        batch.advantages_BT,
        batch.mask_BT,
        token_weights(aggregation, batch.mask_BT, totals, constant=30),
        clip_low=0.2,
        clip_high=0.28,
        kl=0.05,
        ref_BT=old - 0.1,
        sampler_BT=batch.old_logprobs_BT,
        importance_cap=2.0,
        entropy_BT=scores.entropy_BT,
    )


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_gradients_do_not_depend_on_the_cut(aggregation: str) -> None:
    flats, _ = episodes()
    assert len({len(flat.ids) for flat in flats}) > 4
    first, *others = cuts(flats).items()
    value, report, gradients = accumulate(aggregation, first[1])
    assert 0.1 < report["clip_fraction"] < 0.9
    assert 0.1 < report["truncated_fraction"] < 0.9
    assert max(gradient.abs().max() for gradient in gradients) > 1e-2
    for name, batches in others:
        other_value, other_report, other_gradients = accumulate(aggregation, batches)
        assert other_value == pytest.approx(value, abs=1e-5), name
        assert other_report == pytest.approx(report, abs=1e-4), name
        for gradient, other in zip(gradients, other_gradients, strict=True):
            torch.testing.assert_close(other, gradient, atol=1e-5, rtol=1e-4, msg=name)


def test_a_mean_of_microbatch_means_would_not_do() -> None:
    """Why the totals are those of the batch: with its own totals a microbatch of few tokens shouts."""
    flats, advantages = episodes()
    model = tiny_module()
    scorer = TokenScorer(model)

    def gradient(own_totals: bool) -> torch.Tensor:
        model.zero_grad()
        whole = Totals.of(flat.mask for flat in flats)
        for flat, row in zip(flats, advantages, strict=True):
            totals = Totals(sum(flat.mask) * len(flats), len(flats)) if own_totals else whole
            loss, _ = one_microbatch(scorer, collate([flat], [row], 0), "token-mean", totals)
            loss.backward()
        weight = model.get_output_embeddings().weight
        return weight.grad.clone()

    right, wrong = gradient(False), gradient(True)
    assert (right - wrong).norm() > 0.05 * right.norm()


def test_imitation_does_not_depend_on_the_cut() -> None:
    flats, _ = episodes()
    totals = Totals.of(flat.mask for flat in flats)
    outcomes = []
    for batches in cuts(flats).values():
        model = tiny_module("qwen2")
        scorer = TokenScorer(model)
        value, hardness = 0.0, [0.0] * len(flats)
        for indices in batches:
            batch = collate([flats[i] for i in indices], None, 0)
            scores = scorer(batch.ids_BT, batch.attention_BT, batch.mask_BT, batch.position_BT)
            loss, nll_B = imitation_loss(scores.logprobs_BT, batch.mask_BT, totals)
            loss.backward()
            value += loss.item()
            for index, nll in zip(indices, nll_B.tolist(), strict=True):
                hardness[index] = nll
        outcomes.append((value, hardness, model.get_input_embeddings().weight.grad))
    value, hardness, gradient = outcomes[0]
    counts = [sum(flat.mask) for flat in flats]
    assert value == pytest.approx(sum(h * n for h, n in zip(hardness, counts, strict=True)) / totals.tokens, abs=1e-5)
    for other_value, other_hardness, other_gradient in outcomes[1:]:
        assert other_value == pytest.approx(value, abs=1e-5)
        assert other_hardness == pytest.approx(hardness, abs=1e-4)
        torch.testing.assert_close(other_gradient, gradient, atol=1e-5, rtol=1e-4)
