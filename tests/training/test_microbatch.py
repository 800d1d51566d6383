"""Microbatches: every sequence once, within the budget, and what is learned does not depend on the cut or on what is
shared."""

from __future__ import annotations

import doctest
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kgwalk.training import microbatch
from kgwalk.training.logprobs import TokenScorer
from kgwalk.training.loss import AGGREGATIONS, LossStats, Totals, imitation_loss, policy_loss, token_weights
from kgwalk.training.microbatch import Batch, collate, computed, pack, trees
from kgwalk.types import Flat, KgwalkError
from tiny_models import tiny_module


def test_the_examples_in_the_module() -> None:
    result = doctest.testmod(microbatch)
    assert result.failed == 0
    assert result.attempted == 21


def test_collate_refuses_what_does_not_fit() -> None:
    flat = Flat([1, 2], [0, 1], [0.0, -1.0], [-1, 0])
    with pytest.raises(KgwalkError, match="sequence 1 has 2 ids, 2 mask, 2 logprobs, 3 advantages"):
        collate([flat, flat], [[0.0, 1.0], [0.0, 1.0, 2.0]], 0)
    with pytest.raises(KgwalkError, match="at least one sequence"):
        collate([], [], 0)


def test_padding_is_on_the_right() -> None:
    batch = collate([Flat([3, 4, 5], [0, 1, 1], [0.0, -1.0, -2.0], [-1, 0, 0]), Flat([6], [0], [0.0], [-1])], None, 9)
    assert batch.ids_RL.tolist() == [[3, 4, 5], [6, 9, 9]]
    assert batch.end_RL is None
    assert (batch.before_N.tolist(), batch.target_N.tolist(), batch.place_N.tolist()) == ([0, 1], [4, 5], [1, 2])
    assert batch.old_logprobs_BT.tolist() == [[0, -1, -2], [0, 0, 0]]
    assert not batch.advantages_BT.any()
    moved = batch.to("cpu")
    assert torch.equal(moved.ids_RL, batch.ids_RL)


def test_a_tree_laid_out_by_hand() -> None:
    """Two walks from 1 2, one of them of two turns with 30 between them, and one from 1 3."""
    flats = [
        Flat([1, 2, 10, 30, 11], [0, 0, 1, 0, 1], [0.0, 0.0, -1.0, 0.0, -2.0], []),
        Flat([1, 3, 12], [0, 0, 1], [0.0, 0.0, -3.0], []),
        Flat([1, 2, 13], [0, 0, 1], [0.0, 0.0, -4.0], []),
    ]
    [(members, batch)] = pack(flats, None, budget=100, pad_id=0, multiple=5)
    assert members == [0, 2, 1]
    assert batch.ids_RL.tolist() == [[1, 2, 10, 30, 11, 13, 3, 12, 0, 0]]
    assert batch.position_RL.tolist()[0][:8] == [0, 1, 2, 3, 4, 2, 1, 2]
    assert batch.end_RL is not None
    assert batch.end_RL.tolist() == [[8, 6, 5, 5, 5, 6, 8, 8, 9, 10]]  # all go on from 1; 10 30 11 and 13 from 2
    assert batch.target_N.tolist() == [10, 11, 13, 12]
    assert batch.before_N.tolist() == [1, 3, 1, 6]  # 10 and 13 follow the 2, 11 follows 30, 12 the 3
    assert batch.place_N.tolist() == [2, 4, 5 + 2, 10 + 2]
    assert batch.old_logprobs_BT.tolist() == [[0, 0, -1, 0, -2], [0, 0, -4, 0, 0], [0, 0, -3, 0, 0]]
    assert computed([batch], flats) == 10 / 11
    [(members, batch)] = pack(flats, None, budget=100, pad_id=0, share=False)
    assert members == [0, 1, 2]
    assert batch.ids_RL.tolist() == [[1, 2, 10, 30, 11], [1, 3, 12, 0, 0], [1, 2, 13, 0, 0]]
    assert batch.end_RL is None


def test_what_two_wrote_alike_is_computed_once_and_learnt_twice() -> None:
    """Both wrote 10; the second was shown 30 after it and wrote 11. A third is the first again."""
    one = Flat([1, 10], [0, 1], [0.0, -1.0], [])
    two = Flat([1, 10, 30, 11], [0, 1, 0, 1], [0.0, -1.5, 0.0, -2.0], [])
    [(members, batch)] = pack([two, one, one], [[0.0, 5.0, 0.0, 6.0], [0.0, 7.0], [0.0, 8.0]], budget=100, pad_id=0)
    assert members == [1, 2, 0]
    assert batch.ids_RL.tolist() == [[1, 10, 30, 11]]
    assert batch.target_N.tolist() == [10, 10, 10, 11]
    assert batch.before_N.tolist() == [0, 0, 0, 2]
    assert batch.advantages_BT.tolist() == [[0, 7, 0, 0], [0, 8, 0, 0], [0, 5, 0, 6]]
    assert batch.old_logprobs_BT.tolist() == [[0, -1, 0, 0], [0, -1, 0, 0], [0, -1.5, 0, -2]]


def test_side_by_side_a_microbatch_is_one_row() -> None:
    flats = [Flat([first, 2, last], [0, 0, 1], [0.0] * 3, []) for first in (5, 6) for last in (7, 8)]
    [(members, batch)] = pack(flats, None, budget=8, pad_id=0, side_by_side=True, multiple=4)
    assert members == [0, 1, 2, 3]
    assert batch.ids_RL.tolist() == [[5, 2, 7, 8, 6, 2, 7, 8]]
    assert batch.end_RL is not None
    assert batch.end_RL.tolist() == [[4, 4, 3, 4, 8, 8, 7, 8]]
    assert [members for members, _ in pack(flats, None, budget=7, pad_id=0, side_by_side=True)] == [[0, 1, 2], [3]]


def test_a_first_token_cannot_be_learnt() -> None:
    good, bad = Flat([1, 2], [0, 1], [0.0, -1.0], []), Flat([1, 2], [1, 1], [-1.0, -1.0], [])
    with pytest.raises(KgwalkError, match="the first token of sequence 1 is marked, and nothing before it predicts it"):
        pack([good, bad], None, budget=10, pad_id=0)


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
    return {
        "1x8": [list(range(len(flats)))],
        "8x1": [[index] for index in range(len(flats))],
        "8x1 backwards": [[index] for index in reversed(range(len(flats)))],
        "bucketed": [one.members for one in pack(flats, None, budget=50, pad_id=0)],
        "any": [[5, 0, 3], [7], [1, 2, 6, 4]],
    }


Outcome = tuple[float, dict[str, float], list[torch.Tensor]]


def accumulate(aggregation: str, cut: list[list[int]]) -> Outcome:
    flats, advantages = episodes()
    batches = [collate([flats[i] for i in indices], [advantages[i] for i in indices], pad_id=0) for indices in cut]
    return learnt(aggregation, batches, Totals.of(flat.mask for flat in flats))


def learnt(aggregation: str, batches: list[Batch], totals: Totals, kind: str = "llama") -> Outcome:
    model = tiny_module(kind)
    scorer = TokenScorer(model, chunk=16)
    value, tally = 0.0, None
    for batch in batches:
        loss, noted = one_microbatch(scorer, batch, aggregation, totals)
        loss.backward()
        value += loss.item()
        tally = noted if tally is None else tally + noted
    assert tally is not None
    return value, tally.report(), [p.grad.clone() for p in model.parameters() if p.grad is not None]


def one_microbatch(
    scorer: TokenScorer, batch: Batch, aggregation: str, totals: Totals
) -> tuple[torch.Tensor, LossStats]:
    scores = scorer(batch, entropy=True)
    old = scores.logprobs_BT.detach() + 0.4 * torch.sin(99 * batch.old_logprobs_BT)  # some ratios are clipped
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
            scores = scorer(batch)
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


# What is learned does not depend on what is shared.


def groups(sizes: Sequence[int] = (5, 1, 3)) -> tuple[list[Flat], list[list[float]]]:
    """Rollouts of three questions, mixed. In the last group one has a prompt of its own from its last token on; in the
    first, two take the same first turn.
    """
    draw = random.Random(9)
    flats, advantages = [], []
    for group, size in enumerate(sizes):
        prompt = [draw.randrange(400) for _ in range(draw.randint(4, 20))]
        for rollout in range(size):
            own = [*prompt[:-1], 3] if (group, rollout) == (2, 1) else prompt
            flat = Flat(list(own), [0] * len(own), [0.0] * len(own), [])
            for _ in range(draw.randint(1, 3)):
                for mark, count in ((1, draw.randint(1, 5)), (0, draw.randint(0, 4))):
                    flat.ids.extend(draw.randrange(400) for _ in range(count))
                    flat.mask.extend([mark] * count)
                    flat.logprobs.extend(-draw.random() * 15 * mark for _ in range(count))
            if (group, rollout) == (0, 1):
                flat.ids[len(own)] = flats[0].ids[len(own)]
            flats.append(flat)
            advantages.append([draw.gauss(0, 1) * mark for mark in flat.mask])
    order = draw.sample(range(len(flats)), len(flats))
    return [flats[at] for at in order], [advantages[at] for at in order]


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize(("budget", "side_by_side"), [(60, False), (100_000, False), (80, True)])
def test_what_is_shared_changes_nothing(kind: str, budget: int, side_by_side: bool) -> None:
    """Log-probabilities, entropies, loss and gradients are those of a row for each, in float32."""
    flats, advantages = groups()
    alone = collate(flats, advantages, 0)
    packed = pack(flats, advantages, budget=budget, pad_id=0, side_by_side=side_by_side, multiple=8)
    assert sorted(len(tree.members) for tree in trees(flats, 100_000)) == [1, 3, 5]
    scorer = TokenScorer(tiny_module(kind))
    expected = scorer(alone, entropy=True)
    for members, batch in packed:
        scores = scorer(batch, entropy=True)
        T = batch.mask_BT.shape[1]
        torch.testing.assert_close(scores.logprobs_BT, expected.logprobs_BT[members, :T], atol=1e-5, rtol=0)
        torch.testing.assert_close(scores.entropy_BT, expected.entropy_BT[members, :T], atol=1e-5, rtol=0)
    totals = Totals.of(flat.mask for flat in flats)
    for aggregation in AGGREGATIONS:
        value, report, gradients = learnt(aggregation, [alone], totals, kind)
        other_value, other_report, other_gradients = learnt(aggregation, [one.batch for one in packed], totals, kind)
        assert other_value == pytest.approx(value, abs=1e-5)
        assert other_report == pytest.approx(report, abs=1e-4)
        for gradient, other in zip(gradients, other_gradients, strict=True):
            torch.testing.assert_close(other, gradient, atol=1e-5, rtol=0)


def test_a_prompt_is_computed_once() -> None:
    """Two groups of 4: prompts of 30 tokens, 10 after each. 2 * (30 + 4 * 10) instead of 8 * 40."""
    made = [
        Flat([group] * 30 + [after] * 10, [0] * 30 + [1] * 10, [0.0] * 40, []) for group in (1, 2) for after in range(4)
    ]
    [(_, batch)] = pack(made, None, budget=1000, pad_id=0)
    assert batch.ids_RL.shape == (2, 70)
    assert computed([batch], made) == 140 / 320


class Asked(TorchDispatchMode):
    """Notes the operations in which a program waits for its device: a number is read, or a size depends on one."""

    WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "unique")

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        by_truth = name.startswith("index") and any(
            isinstance(index, torch.Tensor) and index.dtype == torch.bool
            for part in args[1:]
            for index in (part if isinstance(part, list | tuple) else [part])
        )
        if by_truth or name in self.WAITING:
            self.waited.append(name)
        return func(*args, **(kwargs or {}))


def test_a_microbatch_asks_the_device_nothing() -> None:
    flats, advantages = groups()
    totals = Totals.of(flat.mask for flat in flats)
    scorer = TokenScorer(tiny_module(), chunk=4)
    [(_, batch)] = pack(flats, advantages, budget=100_000, pad_id=0)
    with Asked() as asked:
        loss, _ = one_microbatch(scorer, batch, "sequence-mean", totals)
        loss.backward()
        imitation_loss(scorer(batch).logprobs_BT, batch.mask_BT, totals)
    assert asked.waited == []
    with Asked() as asked:  # the measure itself
        assert batch.mask_BT.any()
        batch.old_logprobs_BT[batch.mask_BT].sum().item()
    assert asked.waited == ["_local_scalar_dense", "index", "_local_scalar_dense"]
