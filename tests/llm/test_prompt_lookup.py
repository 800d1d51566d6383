"""Guesses ahead change how many passes there are, and nothing that is written; with a model that is all cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgwalk.llm.engine import Generation, Sampling, StopWatch, draws
from kgwalk.llm.openvino_engine.blocks import BlockTable
from kgwalk.llm.openvino_engine.prompt_lookup import LONGEST, Followers, guess
from kgwalk.llm.openvino_engine.scheduler import PagedSequence, Runner
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

    def forward(self, rows: Any, wanted: Any) -> Any:
        self.passes.append(sum(len(ids) for ids, _, _ in rows))
        said = []
        for (ids, start, blocks), count in zip(rows, wanted, strict=True):
            for place, token in enumerate(ids, start):
                self.cache[blocks[place // SIZE], place % SIZE] = token
            end = start + len(ids)
            seen = [self.cache[blocks[place // SIZE], place % SIZE] for place in range(end)]
            said += [self._after(seen[:place]) for place in range(end - count + 1, end + 1)]
        return np.array(said, dtype=np.float32)

    def _after(self, seen: list[int]) -> Any:
        luck = np.random.default_rng(seen)
        logits_V = self.strange * luck.random(WORDS)
        logits_V[seen[-3:][0] % WORDS] += 3.0
        return logits_V


def runner(model: Played, guesses: int) -> Runner:
    return Runner(model, BlockTable(SIZE, 64), batch=4, group=16, guesses=guesses)


def row(
    ids: Sequence[int], most: int = 8, temperature: float = 0.0, stop: Sequence[str] = (), session: str = ""
) -> PagedSequence:
    luck = draws(len(ids), most) if temperature else []
    sampling = Sampling(temperature=temperature, max_tokens=most, stop=tuple(stop))
    return PagedSequence(list(ids), sampling, most, luck, StopWatch(ByteTokenizer(), stop), session)


def written(model: Played, guesses: int, *rows: PagedSequence) -> list[Generation]:
    """What comes of the rows, one after another."""
    at_work = runner(model, guesses)
    found = [at_work.submit(one).result(10) for one in rows]
    at_work.close()
    return found


# By hand.


def test_a_pattern_is_written_four_tokens_a_pass() -> None:
    model = Played()
    at_work = runner(model, 3)
    made = at_work.submit(row([1, 2, 3, 1, 2], most=9)).result(10)
    assert made.ids == [3, 1, 2, 3, 1, 2, 3, 1, 2]
    # the prompt and 3 1 2, of which 3 is chosen after the prompt, and one token after the last guess; then the last
    # chosen token and three guesses; one token is left, so nothing is guessed beside it
    assert model.passes == [5 + 3, 1 + 3, 1]
    assert (at_work.guessed, at_work.right) == (6, 6)
    assert at_work.computed == 5 + 8  # as without guesses: all but the last
    at_work.close()
    plain = Played()
    assert written(plain, 0, row([1, 2, 3, 1, 2], most=9)) == [made]
    assert plain.passes == [5] + [1] * 8


def test_what_was_written_before_is_guessed_again() -> None:
    model = Played()
    first, second = row([1, 2, 3], most=4), row([4, 1, 2, 3], most=4)
    assert [one.ids for one in written(model, 3, first, second)] == [[1, 2, 3, 1]] * 2
    # nothing follows 3 in the first prompt, then 1 is in it twice; in the second 1 2 3 came after 1 2 3
    assert model.passes == [3, 1 + 2, 4 + 3]


def test_a_wrong_guess_leaves_no_trace() -> None:
    model = Played()
    made = written(model, 3, row([7, 7, 5, 7], most=6))[0]
    assert made.ids == [7, 5, 7, 7, 5, 7]
    # after 7 there was 5, and after 7 5 there was 7, so 5 7 5 is guessed, and 7 is chosen; now after 7 7 there was
    # 5 7 7, which is right; one token is left
    assert model.passes == [4 + 3, 1 + 3, 1]


def test_guesses_are_dealt_to_rows_and_there_are_none_for_four() -> None:
    at_work = runner(Played(), 3)
    for count, dealt in ((1, [3]), (2, [1, 1]), (3, [1, 0, 0]), (4, [0, 0, 0, 0])):
        rows = [row([1, 2, 3, 1, 2]) for _ in range(count)]
        assert [len(guesses) for guesses in at_work._ahead([(one, one.todo) for one in rows])] == dealt
    late = row([1, 2, 3, 1, 2])
    assert at_work._ahead([(late, late.todo[:3])]) == [[]]  # part of a prompt: nothing is chosen after it
    at_work.close()


def test_a_stop_text_inside_a_run_of_right_guesses_ends_it() -> None:
    words = [number % WORDS for number in b"abc"]  # the model knows 12 tokens; as text they are control characters
    stop = ByteTokenizer().decode([words[1]])
    (made,) = written(Played(), 3, row([*words, *words], most=9, stop=[stop]))
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
    turns: Any, strange: int, temperature: float, guesses: int, stops: bool
) -> None:
    """Sessions go on from what they wrote; a place of the cache that held a wrong guess would change what follows."""
    contexts: dict[str, list[int]] = {}
    with_guesses, without = runner(Played(strange), guesses), runner(Played(strange), 0)
    for session, new, most in turns:
        ids = contexts.get(session, []) + new
        stop = [ByteTokenizer().decode([3, 3])] if stops else []
        found, expected = (
            one.submit(row(ids, most, temperature, stop, session)).result(10) for one in (with_guesses, without)
        )
        assert found == expected
        assert len(found.ids) <= most
        contexts[session] = ids + found.ids
    assert with_guesses.computed == without.computed
    with_guesses.close()
    without.close()


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=20), min_size=2, max_size=5), st.sampled_from([0, 5]))
def test_rows_that_come_together_are_the_same_with_and_without(prompts: list[list[int]], strange: int) -> None:
    model = Played(strange)
    at_work = runner(model, 3)
    futures = [at_work.submit(row(ids, 10, 1.0)) for ids in prompts]
    together = [future.result(10) for future in futures]
    at_work.close()
    assert together == written(Played(strange), 0, *(row(ids, 10, 1.0) for ids in prompts))
    assert max(model.passes) <= 16 + 3


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(0, 6))
def test_guesses_are_what_followed_the_longest_match_last(ids: list[int], count: int) -> None:
    followers = Followers()
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
    assert guess(ids, [followers], count) == expected


def test_what_is_noted_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgwalk.llm.openvino_engine.prompt_lookup.MOST", 3)
    followers = Followers()
    followers.note([1, 2, 3, 4])  # six beginnings: 1; 2, 1 2; 3, 2 3, 1 2 3
    followers.note([7, 8])
    assert followers.after([3]) == (0, -1)
    assert followers.after([7]) == (1, 8)
