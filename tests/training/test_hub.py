"""`kgwalk push` and `kgwalk pull` against a hub on loopback: what travels, the card, and what is said when it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hub_server import READER, WRITER, Hub, Repository, hub_server
from kgwalk.training.export import agent_at, export
from kgwalk.training.hub import datasets_of, model_card, on_hub
from kgwalk.training.model import PolicyModel
from kgwalk.training.settings import ModelSettings

# Several commands in one process, each with a token of its own: the hub's library reads HF_ENDPOINT as it is imported.
COMMANDS = """
import json, os, sys
from kgwalk.cli.main import main
for token, *arguments in json.loads(sys.stdin.read()):
    os.environ.pop("HF_TOKEN", None)
    if token:
        os.environ["HF_TOKEN"] = token
    sys.argv = ["kgwalk", *arguments]
    status = 0
    try:
        main()
    except SystemExit as end:
        status = end.code or 0
    print(f"= {status}", flush=True)
    print(f"= {status}", flush=True, file=sys.stderr)
"""


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hub_server() as served:
        yield served


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, with an evaluation and with what only training needs."""
    folder = tmp_path_factory.mktemp("runs") / "films"
    os.environ["KGWALK_CACHE"] = str(folder.parent / "cache")
    try:
        model = PolicyModel(ModelSettings(name="tiny-random", lora_rank=2, lora_alpha=4.0), device="cpu")
    finally:
        del os.environ["KGWALK_CACHE"]
    model.save(
        folder / "adapter", {"recipe": "kgwalk", "protocol": {"name": "kgwalk"}, "data": "webqsp, made questions"}
    )
    (folder / "adapter" / "optimizer.safetensors").write_bytes(b"moments")
    (folder / "adapter" / "notes.py").write_text("print('no code travels')")
    (folder / "run.json").write_text('{"kind": "train", "settings": {}}')
    (folder / "README.md").write_text(
        "---\nbase_model: tiny-random\n---\n# kgwalk on films\n\nSee [recipe](recipe.toml).\n"
    )
    (folder / "eval").mkdir()
    (folder / "eval" / "run.json").write_text('{"kind": "eval", "settings": {"data": "/data/films", "split": "test"}}')
    (folder / "eval" / "metrics.json").write_text(
        '{"n": 24, "metrics": {"f1": 0.91666, "hits_at_1": 0.875, "turns": 3.5}}'
    )
    return folder


def called(hub: Hub, home: Path, *commands: tuple[str, ...]) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of each; the first of a command is its token."""
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    environment |= {"HF_ENDPOINT": hub.address, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"}
    environment |= {"HF_HUB_DISABLE_XET": "1", "COLUMNS": "200", "TERM": "dumb"}  # this hub has no Xet
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS], input=json.dumps(commands), env=environment, capture_output=True, text=True
    )
    out, err = split(done.stdout), split(done.stderr)
    assert len(out) == len(commands), done.stderr
    return [(status, said, told) for (status, said), (_, told) in zip(out, err, strict=True)]


def split(stream: str) -> list[tuple[int, str]]:
    """The exit codes and the texts before them."""
    found: list[tuple[int, str]] = []
    lines: list[str] = []
    for line in stream.splitlines():
        if line.startswith("= "):
            found.append((int(line[2:]), "\n".join(lines)))
            lines = []
        else:
            lines.append(line)
    return found


def test_there_and_back(hub: Hub, run: Path, tmp_path: Path) -> None:
    back = str(tmp_path / "back")
    pushed, again, stranger, fetched = called(
        hub,
        tmp_path / "home",
        (WRITER, "push", str(run), "someone/walker", "--license", "mit", "--json"),
        (WRITER, "push", str(run), "someone/walker", "--public"),
        ("", "pull", "someone/walker", "-o", back),
        (READER, "pull", "someone/walker", "-o", back, "--json"),
    )
    assert pushed[0] == 0, pushed
    told = json.loads(pushed[1])
    assert told["url"] == f"{hub.address}/someone/walker"
    assert told["private"] is True
    kept = hub.repositories["someone/walker"]
    assert sorted(kept.commits[0]) == told["files"] == [
        "README.md", "adapter_config.json", "adapter_model.safetensors", "chat_template.jinja", "kgwalk.json",
        "tokenizer.json", "tokenizer_config.json",
    ]  # fmt: skip
    assert kept.messages[0] == "An agent by kgwalk: peft"
    # what is there stays as private as it is
    assert again[0] == 0
    assert again[1].startswith(f"{hub.address}/someone/walker: 7 files, ")
    assert ", private\n" in again[1]
    assert len(kept.commits) == 2
    assert stranger[0] == 1
    assert "no such repository, or it is private and HF_TOKEN does not open it; check the name" in stranger[2]
    assert fetched[0] == 0, fetched
    assert json.loads(fetched[1])["ask"] == f"--adapter {back}"
    for name in ("adapter_model.safetensors", "kgwalk.json", "tokenizer.json"):
        assert (tmp_path / "back" / name).read_bytes() == (run / "adapter" / name).read_bytes()
    assert agent_at(back).base == "tiny-random"


def test_the_card(run: Path) -> None:
    agent = agent_at(str(run))
    card = model_card(agent, "someone/walker", "mit")
    _, front, body = card.split("---\n", 2)
    told: dict[str, Any] = yaml.safe_load(front)
    assert told["library_name"] == "peft"
    assert told["license"] == "mit"
    assert told["datasets"] == datasets_of(agent) == ["rmanluo/RoG-webqsp"]  # that which the hub has
    assert "base_model" not in told  # nor has it tiny-random
    assert told["tags"] == ["kgwalk", "knowledge-graph", "question-answering", "lora"]
    [index] = told["model-index"]
    [result] = index["results"]
    assert (index["name"], result["dataset"]["name"], result["dataset"]["split"]) == ("walker", "films", "test")
    assert {one["name"]: one["value"] for one in result["metrics"]} == {"F1": 0.9167, "Hits@1": 0.875}
    assert body.startswith("# walker\n\nA LoRA adapter of tiny-random that answers questions by walking")
    assert "kgwalk pull someone/walker -o walker\n" in body
    assert "| films, test | 24 | 0.917 | 0.875 |" in body
    assert "\n## kgwalk on films\n\nSee recipe.\n" in body  # its run's own; what links to a file here is a word
    assert "license" not in model_card(agent, "someone/walker")
    assert on_hub("smollm2-135m") == "HuggingFaceTB/SmolLM2-135M-Instruct"


def test_an_exported_model_travels_too(hub: Hub, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(run.parent / "cache"))
    file = export(agent_at(str(run)), "ollama", tmp_path / "model")
    back = str(tmp_path / "back")
    pushed, fetched = called(
        hub,
        tmp_path / "home",
        (WRITER, "push", str(tmp_path / "model"), "someone/model", "--public"),
        ("", "pull", "someone/model", "-o", back),
    )
    assert pushed[0] == 0, pushed
    assert "library_name: gguf" in hub.repositories["someone/model"].files["README.md"].decode()
    assert fetched[0] == 0, fetched
    assert f"ask it: kgwalk ask 'YOUR QUESTION' --model {back}/{file.name}" in fetched[1]
    names = sorted(path.name for path in Path(back).iterdir())
    assert names == ["Modelfile", "kgwalk.json", file.name]  # a recipe may name code: it stays where it was written


def test_a_repository_holds_one_agent(hub: Hub, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter, then a whole model: peft would take the one, transformers the other. Other files stay."""
    monkeypatch.setenv("KGWALK_CACHE", str(run.parent / "cache"))
    file = export(agent_at(str(run)), "gguf", tmp_path / "model")
    others = {"notes.md": b"mine", "figures/f1.json": b"[]", ".gitattributes": b"*.gguf filter=lfs"}
    hub.repositories["someone/walker"] = kept = Repository(private=False, commits=[others])
    first, second = called(
        hub,
        tmp_path / "home",
        (WRITER, "push", str(run), "someone/walker", "--json"),
        (WRITER, "push", str(tmp_path / "model"), "someone/walker"),
    )
    assert (first[0], second[0]) == (0, 0), second
    assert json.loads(first[1])["removed"] == []
    assert {*kept.commits[1]} > {*others, "adapter_model.safetensors"}
    assert {*kept.commits[2]} == {*others, "README.md", "kgwalk.json", file.name}
    assert len(kept.commits) == 3  # there is no moment with both, nor with neither
    assert "removed, of the agent that was there: adapter_config.json, adapter_model.safetensors, " in second[1]


def test_only_an_agents_own_files_are_fetched(hub: Hub, tmp_path: Path) -> None:
    """Not those of a checkpoint below it, nor an optimiser: they may be of many times its size."""
    own = {"b.gguf": b"b", "a.gguf": b"a", "kgwalk.json": b"{}"}
    others = {"checkpoint-100/optimizer.safetensors": b"moments", "checkpoint-100/config.json": b"{}"}
    others |= {"optimizer.safetensors": b"moments", "trainer_state.json": b"{}", "README.md": b"# b"}
    hub.repositories["someone/b"] = Repository(private=False, commits=[own | others])
    hub.repositories["someone/c"] = Repository(private=False, commits=[others])
    back = str(tmp_path / "back")
    fetched, nothing = called(
        hub,
        tmp_path / "home",
        ("", "pull", "someone/b", "-o", back, "--json"),
        ("", "pull", "someone/c", "-o", str(tmp_path / "c")),
    )
    assert fetched[0] == 0, fetched
    assert json.loads(fetched[1])["ask"] == f"--model {back}/a.gguf"  # the first by name, whatever order they came in
    assert sorted(path.name for path in Path(back).iterdir()) == sorted(own)
    asked = {one.partition("/resolve/")[2].partition("/")[2] for one in hub.asked if "/resolve/" in one}
    assert asked == {*own}
    assert nothing[0] == 1
    assert "someone/c holds no agent" in nothing[2]


def test_what_is_said_when_it_fails(hub: Hub, run: Path, tmp_path: Path) -> None:
    there = str(run)
    said = [
        told
        for status, _, told in called(
            hub,
            tmp_path / "home",
            ("", "push", there, "someone/walker"),
            ("hf_nobody", "push", there, "someone/walker"),
            (WRITER, "push", there, "another/walker"),
            (READER, "push", there, "someone/walker"),
            (WRITER, "push", there, "no/such/name"),
            (WRITER, "pull", "someone/nothing", "-o", str(tmp_path / "a")),
            (WRITER, "push", there, "someone/walker"),
            (WRITER, "pull", "someone/walker", "-o", str(tmp_path / "a"), "--revision", "v9"),
        )
        if status
    ]
    expected = [
        f"there is no token for the hub: make one that may write at {hub.address}/settings/tokens, then set HF_TOKEN",
        "the token is not accepted; make a new one and set HF_TOKEN",
        "the token may not write there: choose a name of your own as owner, and a token with the right to write",
        "the token may not write there",
        "'no/such/name' is no name of a repository, which is owner/name",
        "no such repository, or it is private and HF_TOKEN does not open it",
        "it has no revision v9; leave --revision out for the newest",
    ]
    assert len(said) == len(expected), said
    for told, words in zip(said, expected, strict=True):
        assert words in told
        assert "Traceback" not in told
    assert list(hub.repositories) == ["someone/walker"]


def test_a_hub_that_is_gone(run: Path, tmp_path: Path) -> None:
    with hub_server() as left:
        pass
    ((status, _, told),) = called(left, tmp_path / "home", (WRITER, "push", str(run), "someone/walker"))
    assert status == 1
    assert f"someone/walker on the hub ({left.address}): it cannot be reached" in told
    assert "HF_ENDPOINT names another hub" in told


def test_an_onnx_model_is_fetched_with_its_weights(hub: Hub, tmp_path: Path) -> None:
    """They lie in a file of their own beside model.onnx, and another engine asks it."""
    own = {"model.onnx": b"graph", "model.onnx.data": b"weights", "genai_config.json": b"{}", "config.json": b"{}"}
    hub.repositories["someone/o"] = Repository(private=False, commits=[own | {"README.md": b"# o", "model.py": b""}])
    back = str(tmp_path / "back")
    [fetched] = called(hub, tmp_path / "home", ("", "pull", "someone/o", "-o", back, "--json"))
    assert fetched[0] == 0, fetched
    assert json.loads(fetched[1])["ask"] == f"--engine onnx --model {back}"
    assert sorted(path.name for path in Path(back).iterdir()) == sorted(own)
