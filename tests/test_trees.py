"""Trees: every sequence once, with those that share its prompt, as far as that is cheaper."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgwalk.training import trees as module
from kgwalk.training.trees import Tree, microbatches, prompt_length, room, trees, work
from kgwalk.types import Flat, KgwalkError


def walk(prompt: list[int], after: int) -> Flat:
    ids = [*prompt, *[9] * after]
    return Flat(ids, [0] * len(prompt) + [1] * after, [0.0] * len(ids), [])


def test_the_examples_of_the_page_on_shared_prompts() -> None:
    text = (Path(__file__).parents[1] / "docs" / "concepts" / "shared-prompt.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "shared-prompt.md", "shared-prompt.md", 0)
    assert doctest.DocTestRunner(verbose=False).run(example) == (0, 13)


def test_the_examples_in_the_module() -> None:
    result = doctest.testmod(module)
    assert (result.failed, result.attempted) == (0, 9)


prompts = st.lists(st.integers(1, 3), min_size=1, max_size=4)


@given(st.lists(st.builds(walk, prompts, st.integers(0, 30)), max_size=30), st.integers(1, 200), st.booleans())
def test_every_sequence_is_in_one_tree_with_its_like(flats: list[Flat], budget: int, share: bool) -> None:
    found = trees(flats, budget, share=share)
    assert sorted(member for tree in found for member in tree.members) == list(range(len(flats)))
    for tree in found:
        own = [flats[member] for member in tree.members]
        assert len({(tuple(flat.ids[: tree.prompt]), prompt_length(flat.mask)) for flat in own}) == 1
        assert tree.prompt == prompt_length(own[0].mask)
        assert tree.length == tree.prompt + sum(len(flat.ids) - tree.prompt for flat in own)
        assert len(own) == 1 or (share and room(tree.length, True) <= budget)
    assert sum(work(tree.length, tree.forks) for tree in found) <= sum(work(len(flat.ids), False) for flat in flats)
    assert found == trees(flats, budget, share=share)


def test_the_groups_of_a_small_agent_are_whole() -> None:
    """290 tokens of prompt and 60 after: 290 + 8 * 60 = 770, not 2,800; 1,200 and 300: 3,600, not 12,000."""
    for prompt, after, length in ((290, 60, 770), (1200, 300, 3600)):
        [tree] = trees([walk([1] * prompt, after)] * 8, 16_384)
        assert (tree.length, len(tree.members)) == (length, 8)


def test_long_branches_are_better_alone() -> None:
    """3,000 tokens after a prompt of 1,000. Apart: 2 * (4,000 + 1,953); in one row: 7,000 + 11,962 for its pairs."""
    assert (2 * work(4000, False), work(7000, True)) == (11_906, 18_962)
    long = [walk([1] * 1000, 3000)] * 2
    assert [tree.members for tree in trees(long, 100_000)] == [(0,), (1,)]
    # Where layers are larger, pairs weigh less: 2 * (4,000 + 400) and 7,000 + 2,450 still, 2 * 4,080 and 7,490 no more.
    assert [tree.members for tree in trees(long, 100_000, pairs=20_000)] == [(0,), (1,)]
    assert [tree.members for tree in trees(long, 100_000, pairs=100_000)] == [(0, 1)]


def test_a_large_group_is_cut_evenly() -> None:
    """Of 64 with 100 tokens after 100, a row of all would have 6,500 tokens and 10,315 more for its pairs."""
    found = trees([walk([1] * 100, 100)] * 64, 16_384)
    sizes = [len(tree.members) for tree in found]
    assert max(sizes) - min(sizes) <= 1
    assert sum(work(tree.length, True) for tree in found) < work(6500, True)
    assert sum(tree.length for tree in found) < 64 * 200 * 0.6


# Which rows go together.


def rows_of(lengths: list[int], members: int = 1) -> list[Tree]:
    return [Tree(tuple(range(members)), 1, length) for length in lengths]


@given(st.lists(st.tuples(st.integers(1, 600), st.booleans()), max_size=40), st.integers(1, 2000))
def test_a_partition_within_the_budget(given: list[tuple[int, bool]], budget: int) -> None:
    rows = [Tree((0, 1) if forks else (0,), 1, length) for length, forks in given]
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
