"""What engines share about a request: a seed for each turn, and where a generation ends."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from hypothesis import given
from hypothesis import strategies as st

from kgwalk.llm.engine import StopDetector, draws, first_stop, seed_at
from kgwalk.llm.tokenizers import ByteTokenizer, HfTokenizer
from tiny_models import tiny_tokenizer


def test_each_turn_of_an_episode_has_draws_of_its_own() -> None:
    assert seed_at(3, 10) == seed_at(3, 10) != seed_at(3, 11)
    assert seed_at(None, 10) != seed_at(None, 10)
    assert not set(draws(seed_at(3, 10), 50)) & set(draws(seed_at(3, 11), 50))


pieces = st.sampled_from(["<", "/", "a", ">", "</a>", "é", "東", "</", "a>", " ", "<|im_end|>", "x"])


@given(st.lists(pieces, max_size=25), st.lists(st.sampled_from(["</a>", "東", "é>", "x <", " "]), max_size=2))
def test_a_detector_finds_what_first_stop_finds(parts: list[str], stops: list[str]) -> None:
    for tokens in (ByteTokenizer(), HfTokenizer(tiny_tokenizer()), HfTokenizer(tiny_tokenizer("mistral", spaced=True))):
        ids = [number for part in parts for number in tokens.encode(part)]
        detector = StopDetector(tokens, stops)
        found = next((count for count in range(1, len(ids) + 1) if detector.end(ids[:count]) == "stop"), None)
        assert found == first_stop(tokens, ids, stops)
