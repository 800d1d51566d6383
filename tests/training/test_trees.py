"""Trees: every sequence once, with those that begin like it, as far as that is cheaper."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kgwalk.training import microbatch as module
from kgwalk.training.microbatch import Tree, forests, microbatches, pack, room, trees, work
from kgwalk.types import Flat, KgwalkError


def walk(prompt: list[int], after: int, mark: int = 9) -> Flat:
    """`mark` tells branches apart."""
    ids = [*prompt, *[mark] * after]
    return Flat(ids, [0] * len(prompt) + [1] * after, [0.0] * len(ids), [])


def group(prompt: int, after: int, count: int = 8) -> list[Flat]:
    return [walk([1] * prompt, after, 10 + number) for number in range(count)]


def test_the_examples_of_the_page_on_shared_prompts() -> None:
    text = (Path(__file__).parents[2] / "docs" / "concepts" / "shared-prompt.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "shared-prompt.md", "shared-prompt.md", 0)
    assert doctest.DocTestRunner(verbose=False).run(example) == (0, 13)


def test_the_examples_in_the_module() -> None:
    result = doctest.testmod(module)
    assert (result.failed, result.attempted) == (0, 21)


def laid_out(flats: list[Flat], row: Tree) -> list[list[int]]:
    """The sequences again, from what each adds to the one before it."""
    found: list[list[int]] = []
    for member, shared in zip(row.members, row.shared, strict=True):
        found.append([*(found[-1] if found else [])[:shared], *flats[member].ids[shared:]])
    return found


walks = st.lists(st.builds(walk, st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(0, 30)), max_size=30)


@given(walks, st.integers(1, 200), st.booleans())
def test_every_sequence_is_in_one_row_with_its_like(flats: list[Flat], budget: int, share: bool) -> None:
    found = trees(flats, budget, share=share)
    assert sorted(member for row in found for member in row.members) == list(range(len(flats)))
    for row in found:
        assert laid_out(flats, row) == [flats[member].ids for member in row.members]
        assert row.length == sum(len(flats[member].ids) for member in row.members) - sum(row.shared)
        assert all(shared > 0 for shared in row.shared[1:])
        assert not row.forks or (share and room(row.length, True) <= budget)
    assert sum(work(row.length, row.forks) for row in found) <= sum(work(len(flat.ids), False) for flat in flats)
    assert found == trees(flats, budget, share=share)


@given(walks, st.integers(1, 200))
def test_a_forest_has_every_sequence_and_fills_its_rows(flats: list[Flat], budget: int) -> None:
    found = forests(flats, budget)
    assert sorted(member for row in found for member in row.members) == list(range(len(flats)))
    for row in found:
        assert laid_out(flats, row) == [flats[member].ids for member in row.members]
        assert row.length == sum(len(flats[member].ids) for member in row.members) - sum(row.shared)
        assert row.length <= budget or not row.forks


@given(walks.filter(bool), st.integers(1, 200), st.booleans(), st.integers(1, 9))
def test_what_predicts_a_token_sees_what_stood_before_it(
    flats: list[Flat], budget: int, side_by_side: bool, multiple: int
) -> None:
    """All tokens but the first are marked. Each lies in its line with its own number; where it is predicted, the places
    that are seen hold what its sequence has before it, with their positions.
    """
    marked = [Flat(ids, [0] + [1] * (len(ids) - 1), [-float(token) for token in ids], []) for ids, *_ in flats]
    advantages = [[token / 2 for token in range(len(flat.ids))] for flat in marked]
    packed = pack(marked, advantages, budget=budget, pad_id=7, side_by_side=side_by_side, multiple=multiple)
    assert sorted(member for members, _ in packed for member in members) == list(range(len(marked)))
    for members, batch in packed:
        (R, L), T = batch.ids_RL.shape, batch.mask_BT.shape[1]
        end_RL = torch.full((R, L), L) if batch.end_RL is None else batch.end_RL
        assert L % multiple == 0
        assert batch.mask_BT.sum(1).tolist() == [len(marked[member].ids) - 1 for member in members]
        for before, target, place in zip(batch.before_N.tolist(), batch.target_N, batch.place_N.tolist(), strict=True):
            (row, at), (line, token) = divmod(before, L), divmod(place, T)
            ids = marked[members[line]].ids
            seen = (torch.arange(L) <= at) & (end_RL[row] > at)
            assert batch.ids_RL[row][seen].tolist() == ids[:token]
            assert batch.position_RL[row][seen].tolist() == list(range(token))
            assert target == ids[token]
            assert batch.old_logprobs_BT[line, token] == -ids[token]
            assert batch.advantages_BT[line, token] == token / 2
        for number_BT in (batch.old_logprobs_BT, batch.advantages_BT):
            assert not number_BT[~batch.mask_BT].any()


def test_the_groups_of_a_small_agent_are_whole() -> None:
    """290 tokens of prompt and 60 after: 290 + 8 * 60 = 770, not 2,800; 1,200 and 300: 3,600, not 12,000."""
    for prompt, after, length in ((290, 60, 770), (1200, 300, 3600)):
        [row] = trees(group(prompt, after), 16_384)
        assert (row.length, len(row.members)) == (length, 8)


def test_long_branches_are_better_alone() -> None:
    """3,000 tokens after a prompt of 1,000. Apart: 2 * (4,000 + 1,953); in one row: 7,000 + 11,962 for its pairs."""
    assert (2 * work(4000, False), work(7000, True)) == (11_906, 18_962)
    long = group(1000, 3000, 2)
    assert [row.members for row in trees(long, 100_000)] == [(0,), (1,)]
    # Where layers are larger, pairs weigh less: 2 * (4,000 + 400) and 7,000 + 2,450 still, 2 * 4,080 and 7,490 no more.
    assert [row.members for row in trees(long, 100_000, pairs=20_000)] == [(0,), (1,)]
    assert [row.members for row in trees(long, 100_000, pairs=100_000)] == [(0, 1)]


def test_a_large_group_is_cut() -> None:
    """Of 64 with 100 tokens after 100, a row of all would have 6,500 tokens and 10,315 more for its pairs."""
    found = trees(group(100, 100, 64), 16_384)
    assert 1 < len(found) < 8
    assert sum(work(row.length, True) for row in found) < work(6500, True)
    assert sum(row.length for row in found) < 64 * 200 * 0.6


def test_instructions_are_shared_by_all_questions() -> None:
    """200 tokens of instructions, 80 of each of 4 questions, 8 walks of 60 each: 200 + 4 * (80 + 480) side by side.

    With 2,048 tokens behind a beginning: three questions and a walk of the fourth are
    200 + 3 * 560 + 80 + 60 = 2,020; its other seven walks begin anew with 280 tokens, and are 700.
    """
    flats = [walk([1] * 200 + [2 + question] * 80, 60, 10 + rollout) for question in range(4) for rollout in range(8)]
    assert [row.length for row in forests(flats, 16_384, behind=4096)] == [2440]
    assert [row.length for row in forests(flats, 16_384, behind=2048)] == [2020 + 700]


# Which rows go together.


def rows_of(lengths: list[int], members: int = 1) -> list[Tree]:
    return [Tree(tuple(range(members)), (0,) * members, length) for length in lengths]


@given(st.lists(st.tuples(st.integers(1, 600), st.booleans()), max_size=40), st.integers(1, 2000))
def test_a_partition_within_the_budget(given: list[tuple[int, bool]], budget: int) -> None:
    rows = [Tree((0, 1) if forks else (0,), (0, 1) if forks else (0,), length) for length, forks in given]
    batches = microbatches(rows, budget)
    assert sorted(tree for batch in batches for tree in batch) == sorted(rows)
    for batch in batches:
        assert batch
        most = room(max(tree.length for tree in batch), any(tree.forks for tree in batch))
        assert len(batch) == 1 or len(batch) * most <= budget
    assert batches == microbatches(rows, budget)
    assert [tree.length for batch in batches for tree in batch] == sorted((row.length for row in rows), reverse=True)


def test_like_lengths_go_together() -> None:
    rows = rows_of([100, 10, 100, 10, 100, 10, 100, 10])
    assert [[tree.length for tree in batch] for batch in microbatches(rows, 400)] == [[100] * 4, [10] * 4]
    for members, budget in ((1, 4096), (2, 4352)):  # 2,048 tokens take 2,048 alone, and 2,176 where they fork
        two = rows_of([2048, 2048], members)
        assert microbatches(two, budget) == [two]
        assert microbatches(two, budget - 1) == [[two[0]], [two[1]]]
    assert microbatches([], 10) == []
    with pytest.raises(KgwalkError, match="at least 1 token; it is 0"):
        microbatches(rows, 0)
