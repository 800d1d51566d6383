"""Draft tokens change how many passes there are, and nothing that is written; with a model that is all cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgwalk.llm.engine import Generation, Sampling, StopDetector, draws
from kgwalk.llm.openvino_engine.blocks import BlockTable
from kgwalk.llm.openvino_engine.scheduler import LONGEST, NgramIndex, PagedScheduler, PagedSequence, draft
from kgwalk.llm.tokenizers import ByteTokenizer

SIZE = 4  # tokens a block
WORDS = 12


class Played:
    """A model whose cache holds the tokens themselves, so that what it says depends on every place of it.

    It goes on as three tokens ago, more or less: `strange` of 0 does nothing else, more of it does so less often.
    """

    def __init__(self, strange: int = 0) -> None:
        self.strange = strange
        self.cache: dict[tuple[int, int], int] = {}
        self.passes: list[int] = []  # tokens of each

    def reserve(self, blocks: int) -> None: ...
    def release(self) -> None: ...
    def wipe(self, blocks: Sequence[int]) -> None: ...

    def forward(self, sequences: Any, wanted: Any) -> Any:
        self.passes.append(sum(len(ids) for ids, _, _ in sequences))
        said = []
        for (ids, start, blocks), count in zip(sequences, wanted, strict=True):
            for place, token in enumerate(ids, start):
                self.cache[blocks[place // SIZE], place % SIZE] = token
            end = start + len(ids)
            seen = [self.cache[blocks[place // SIZE], place % SIZE] for place in range(end)]
            said += [self._after(seen[:place]) for place in range(end - count + 1, end + 1)]
        return np.array(said, dtype=np.float32)

    def _after(self, seen: list[int]) -> Any:
        chance = np.random.default_rng(seen)
        logits_V = self.strange * chance.random(WORDS)
        logits_V[seen[-3:][0] % WORDS] += 3.0
        return logits_V


def scheduler(model: Played, draft_tokens: int) -> PagedScheduler:
    return PagedScheduler(model, BlockTable(SIZE, 64), batch=4, prefill_tokens=16, draft_tokens=draft_tokens)


def sequence(
    ids: Sequence[int], max_new: int = 8, temperature: float = 0.0, stop: Sequence[str] = (), session: str = ""
) -> PagedSequence:
    numbers = draws(len(ids), max_new) if temperature else []
    sampling = Sampling(temperature=temperature, max_tokens=max_new, stop=tuple(stop))
    return PagedSequence(list(ids), sampling, max_new, numbers, StopDetector(ByteTokenizer(), stop), session)


def written(model: Played, draft_tokens: int, *sequences: PagedSequence) -> list[Generation]:
    """What comes of the sequences, one after another."""
    at_work = scheduler(model, draft_tokens)
    found = [at_work.submit(one).result(10) for one in sequences]
    at_work.close()
    return found


# By hand.


def test_a_pattern_is_written_four_tokens_a_pass() -> None:
    model = Played()
    at_work = scheduler(model, 3)
    made = at_work.submit(sequence([1, 2, 3, 1, 2], max_new=9)).result(10)
    assert made.ids == [3, 1, 2, 3, 1, 2, 3, 1, 2]
    # the prompt and the drafts 3 1 2: 3 is sampled after the prompt, and one token after the last draft token; then the
    # last sampled token and three drafts; one token is left, so nothing is drafted beside it
    assert model.passes == [5 + 3, 1 + 3, 1]
    assert (at_work.drafted, at_work.accepted) == (6, 6)
    assert at_work.computed == 5 + 8  # as without drafts: all but the last
    at_work.close()
    plain = Played()
    assert written(plain, 0, sequence([1, 2, 3, 1, 2], max_new=9)) == [made]
    assert plain.passes == [5] + [1] * 8


def test_what_was_written_before_is_drafted_again() -> None:
    model = Played()
    first, second = sequence([1, 2, 3], max_new=4), sequence([4, 1, 2, 3], max_new=4)
    assert [one.ids for one in written(model, 3, first, second)] == [[1, 2, 3, 1]] * 2
    # nothing follows 3 in the first prompt, then 1 is in it twice; in the second 1 2 3 came after 1 2 3
    assert model.passes == [3, 1 + 2, 4 + 3]


def test_a_wrong_draft_token_leaves_no_trace() -> None:
    model = Played()
    made = written(model, 3, sequence([7, 7, 5, 7], max_new=6))[0]
    assert made.ids == [7, 5, 7, 7, 5, 7]
    # after 7 there was 5, and after 7 5 there was 7, so 5 7 5 is drafted, and 7 is sampled; now after 7 7 there was
    # 5 7 7, which is right; one token is left
    assert model.passes == [4 + 3, 1 + 3, 1]


def test_draft_tokens_are_dealt_to_sequences_and_there_are_none_for_four() -> None:
    at_work = scheduler(Played(), 3)
    for count, dealt in ((1, [3]), (2, [1, 1]), (3, [1, 0, 0]), (4, [0, 0, 0, 0])):
        sequences = [sequence([1, 2, 3, 1, 2]) for _ in range(count)]
        assert [len(drafted) for drafted in at_work._drafts([(one, one.uncomputed) for one in sequences])] == dealt
    late = sequence([1, 2, 3, 1, 2])
    assert at_work._drafts([(late, late.uncomputed[:3])]) == [[]]  # part of a prompt: nothing is sampled after it
    at_work.close()


def test_a_stop_text_inside_a_run_of_right_draft_tokens_ends_it() -> None:
    words = [number % WORDS for number in b"abc"]  # the model knows 12 tokens; as text they are control characters
    stop = ByteTokenizer().decode([words[1]])
    (made,) = written(Played(), 3, sequence([*words, *words], max_new=9, stop=[stop]))
    assert (made.ids, made.finish, len(made.logprobs)) == (words[:2], "stop", 2)


# Anything at all.

Turns = st.lists(
    st.tuples(st.sampled_from("ab"), st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=9), st.integers(1, 12)),
    min_size=1,
    max_size=5,
)


@settings(deadline=None, max_examples=60)
@given(Turns, st.sampled_from([0, 3, 6]), st.sampled_from([0.0, 1.0]), st.integers(1, 5), st.booleans())
def test_turns_of_sessions_are_the_same_with_and_without(
    turns: Any, strange: int, temperature: float, draft_tokens: int, stops: bool
) -> None:
    """Sessions go on from what they wrote; a wrong draft token left in the cache would change what follows."""
    contexts: dict[str, list[int]] = {}
    with_drafts, without = scheduler(Played(strange), draft_tokens), scheduler(Played(strange), 0)
    for session, new, max_new in turns:
        ids = contexts.get(session, []) + new
        stop = [ByteTokenizer().decode([3, 3])] if stops else []
        found, expected = (
            one.submit(sequence(ids, max_new, temperature, stop, session)).result(10) for one in (with_drafts, without)
        )
        assert found == expected
        assert len(found.ids) <= max_new
        contexts[session] = ids + found.ids
    assert with_drafts.computed == without.computed
    with_drafts.close()
    without.close()


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=20), min_size=2, max_size=5), st.sampled_from([0, 5]))
def test_sequences_that_come_together_are_the_same_with_and_without(prompts: list[list[int]], strange: int) -> None:
    model = Played(strange)
    at_work = scheduler(model, 3)
    futures = [at_work.submit(sequence(ids, 10, 1.0)) for ids in prompts]
    together = [future.result(10) for future in futures]
    at_work.close()
    assert together == written(Played(strange), 0, *(sequence(ids, 10, 1.0) for ids in prompts))
    assert max(model.passes) <= 16 + 3


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(0, 6))
def test_draft_tokens_are_what_followed_the_longest_match_last(ids: list[int], count: int) -> None:
    followers = NgramIndex()
    followers.note(ids)
    expected = []
    while len(expected) < count:
        last = (ids[-LONGEST:] + expected)[-LONGEST:]
        found = [
            ids[at]
            for length in range(min(len(last), len(ids)), 0, -1)
            for at in range(len(ids) - 1, length - 1, -1)
            if ids[at - length : at] == last[-length:]
        ]
        if not found:
            break
        expected.append(found[0])
    assert draft(ids, [followers], count) == expected


def test_what_is_noted_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgwalk.llm.openvino_engine.scheduler.MAX_ENTRIES", 3)
    followers = NgramIndex()
    followers.note([1, 2, 3, 4])  # six beginnings: 1; 2, 1 2; 3, 2 3, 1 2 3
    followers.note([7, 8])
    assert followers.after([3]) == (0, -1)
    assert followers.after([7]) == (1, 8)
