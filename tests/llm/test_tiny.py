"""Models made from scratch: the same every time, made once, and usable like any other."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kgwalk.llm.engine import Request, Sampling
from kgwalk.llm.models import load_model
from kgwalk.llm.tiny import TINY, make_tiny, tiny_folder
from kgwalk.llm.torch_engine.engine import LocalEngine
from kgwalk.types import Message
from tiny_models import tiny_model  # also: one thread for torch


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_seed_decides_the_weights_and_the_texts_the_words(tmp_path: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    texts = ["Oslo is the capital of Norway"] * 4
    one, again, other = (
        load_model(make_tiny(tmp_path / name, texts, layers=1, hidden=32, seed=seed))
        for name, seed in (("one", 0), ("again", 0), ("other", 1))
    )
    assert torch.equal(torch.rand(2), expected)  # torch's own generator is left as it was
    pairs = list(zip(one.module.parameters(), again.module.parameters(), strict=True))
    assert all(torch.equal(left, right) for left, right in pairs)
    assert not all(torch.equal(left, right) for left, right in zip(one.module.parameters(), other.module.parameters()))  # noqa: B905
    assert len(one.tokens.encode(" capital of Norway")) == 3
    assert len(one.tokens.encode(" the moon")) > 3


def test_it_is_made_once_and_runs(cache: Path) -> None:
    place = tiny_folder()
    assert place.parent == cache / "models"
    made = (place / "config.json").stat().st_mtime_ns
    left = place.with_name(f".{place.name}.partial")
    left.mkdir()  # of a process that was killed
    engine = LocalEngine(TINY, device="cpu", lockstep=True)
    assert (place / "config.json").stat().st_mtime_ns == made
    ids = engine.tokens.open_chat([Message("user", "Which countries border Norway?")])
    found = asyncio.run(engine.generate(Request(ids, [], Sampling(1.0, seed=1, max_tokens=5))))
    assert len(found.ids) == len(found.logprobs) == 5
    asyncio.run(engine.close())
    (place / "config.json").unlink()  # half removed: it is made again
    assert (tiny_folder() / "config.json").is_file()
    assert not left.exists()


def test_two_that_want_it_at_once_get_the_same(cache: Path) -> None:
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(tiny_folder())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert (found[0] / "model.safetensors").is_file()


TOKENS = None


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_any_text_is_read_back(text: str) -> None:
    global TOKENS
    if TOKENS is None:
        TOKENS = tiny_model().tokens
    assert TOKENS.decode(TOKENS.encode(text)) == text
