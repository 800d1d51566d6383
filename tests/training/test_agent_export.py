"""Exported agents: the same numbers and the same ids in every format, asked as they learnt, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from tokenizers import Regex, pre_tokenizers

from commands import Cli
from conftest import FILMS
from kgwalk.config.recipe import load_recipe
from kgwalk.kg.store import StoredGraph, load_graph
from kgwalk.llm.gguf_files import _SPLITS, chat_parts, go_template, modelfile, write_gguf
from kgwalk.llm.models import LoadedModel, card_folder, load_model
from kgwalk.llm.tokenizers import HfTokenizer
from kgwalk.training.export import agent_at, export, new_folder
from kgwalk.types import KgwalkError, Message
from kgwalk.walk.agent import Agent
from kgwalk.walk.policy import choose_adapter, protocol_of, walked_as_learnt
from tiny_models import save_tiny, tiny_model, tiny_module, tiny_tokenizer
from training_helpers import tiny_adapter

IDS = torch.tensor([[20, 30, 40, 50, 60, 70, 80]])
CHAT = [Message("system", "Be brief."), Message("user", "who directed Big in 1988?\n$1 = 1: Ünïcödé 東京  12,345")]
LEARNT = {"name": "kgwalk", "turns": 8, "language": "full", "documented": False}


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter of tiny-random, of the full language, in a cache with that model."""
    return tiny_adapter(tmp_path_factory.mktemp("cache"), {"recipe": "kgwalk", "protocol": LEARNT, "data": "films"})


@pytest.fixture(autouse=True)
def _cache(adapter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(adapter.parent))


def logits(model: LoadedModel) -> torch.Tensor:
    with torch.no_grad():
        return torch.as_tensor(model.module(IDS).logits.float())


# The same model


def test_hf_is_the_adapter_bit_for_bit(adapter: Path, tmp_path: Path) -> None:
    """Merged in float32 either way, and written as it is."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    before = load_model("tiny-random", adapter=adapter)
    assert not torch.equal(logits(before), logits(load_model("tiny-random")))  # it is the adapter that is compared
    folder = export(agent_at(str(adapter)), "hf", tmp_path / "hf")
    after = load_model(folder)
    assert torch.equal(logits(before), logits(after))
    assert after.tokens.open_chat(CHAT) == before.tokens.open_chat(CHAT)
    assert after.tokens.end_ids == before.tokens.end_ids
    plain = AutoModelForCausalLM.from_pretrained(str(folder))  # without kgwalk
    with torch.no_grad():
        assert torch.equal(plain(IDS).logits, logits(before))
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    chat = [{"role": message.role, "content": message.content} for message in CHAT]
    told = tokenizer.apply_chat_template(chat, add_generation_prompt=True)
    assert list(told["input_ids"] if hasattr(told, "keys") else told) == before.tokens.open_chat(CHAT)
    assert set(plain.generation_config.eos_token_id) == before.tokens.end_ids
    half = export(agent_at(str(adapter)), "hf", tmp_path / "half", numbers="bf16")
    assert json.loads((half / "config.json").read_text())["dtype"] == "bfloat16"


def test_a_model_that_samples_is_exported_as_one_that_walks_greedily(tmp_path: Path) -> None:
    """As Qwen's folders are. transformers refuses to save a temperature without sampling."""
    whole = save_tiny(tmp_path / "whole", "qwen2")
    told = {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "bos_token_id": 0, "pad_token_id": 0}
    (whole / "generation_config.json").write_text(json.dumps(told))
    folder = export(agent_at(str(whole)), "hf", tmp_path / "hf")
    said = json.loads((folder / "generation_config.json").read_text())
    said.pop("transformers_version", None)
    end = tiny_tokenizer().convert_tokens_to_ids("<|im_end|>")
    assert {name: value for name, value in said.items() if not name.startswith("_")} == {
        "bos_token_id": 0, "eos_token_id": [end], "pad_token_id": 0
    }  # fmt: skip


@pytest.mark.parametrize(("numbers", "off"), [("f32", 1e-5), ("f16", 0.02), ("bf16", 0.15), ("q8_0", 0.3)])
def test_a_gguf_file_read_back_has_the_same_logits(adapter: Path, tmp_path: Path, numbers: str, off: float) -> None:
    """transformers reads it. These logits are of about 1 to 5, and what differs is the rounding of weights."""
    before = load_model("tiny-random", adapter=adapter)
    file = export(agent_at(str(adapter)), "gguf", tmp_path / "gguf", numbers=numbers)
    assert file.name == f"tiny-random-kgwalk-{numbers}.gguf"
    after = load_model(file)
    assert float((logits(before) - logits(after)).abs().max()) < off
    assert after.tokens.open_chat(CHAT) == before.tokens.open_chat(CHAT)
    assert after.tokens.next_turn("Oslo 1,988", ended=True) == before.tokens.next_turn("Oslo 1,988", ended=True)
    assert after.tokens.end_ids == before.tokens.end_ids


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_each_family_by_its_own_order_of_weights(kind: str, tmp_path: Path) -> None:
    sizes = {"head_dim": 128} if kind == "qwen3" else {}  # which transformers takes for granted when it reads a Qwen3
    model = tiny_model(kind, **sizes)
    write_gguf(model, tmp_path / "tiny.gguf", "f32")
    assert torch.allclose(logits(model), logits(load_model(tmp_path / "tiny.gguf")), atol=1e-5)


def test_positions_scaled_as_llama_3_scales_them(tmp_path: Path) -> None:
    """llama.cpp divides each frequency by a factor, which is written as a tensor; 16 numbers of a head are 8 pairs."""
    rope = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0}
    rope |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    write_gguf(tiny_model(rope_parameters=rope), tmp_path / "tiny.gguf", "f32")
    [factors] = [one for one in gguf.GGUFReader(tmp_path / "tiny.gguf").tensors if one.name == "rope_freqs.weight"]
    assert factors.data.shape == (8,)
    assert factors.data[0] == pytest.approx(1.0)  # a quick turn stays
    assert factors.data[-1] == pytest.approx(8.0)  # a slow one is stretched by the factor


def told(file: Path) -> dict[str, Any]:
    return {key: field.contents() for key, field in gguf.GGUFReader(file).fields.items()}


def test_what_the_file_says_of_the_tokenizer(tmp_path: Path) -> None:
    model = tiny_model()
    model.module.resize_token_embeddings(len(tiny_tokenizer()) + 3)  # a table that is longer, as Qwen's is
    write_gguf(model, tmp_path / "tiny.gguf", "q8_0")
    said = told(tmp_path / "tiny.gguf")
    number = tiny_tokenizer().convert_tokens_to_ids
    assert (said["tokenizer.ggml.model"], said["tokenizer.ggml.pre"]) == ("gpt2", "gpt-2")
    assert said["tokenizer.ggml.eos_token_id"] == said["tokenizer.ggml.eot_token_id"] == number("<|im_end|>")
    assert said["tokenizer.ggml.bos_token_id"] == number("<|endoftext|>")
    assert said["tokenizer.ggml.add_bos_token"] is False
    assert said["tokenizer.chat_template"] == tiny_tokenizer().chat_template
    tokens, kinds = said["tokenizer.ggml.tokens"], said["tokenizer.ggml.token_type"]
    assert len(tokens) == len(kinds) == len(tiny_tokenizer()) + 3
    assert tokens[-1] == f"[PAD{len(tokens) - 1}]"
    assert kinds[-3:] == [gguf.TokenType.UNUSED] * 3
    assert kinds[number("<|im_start|>")] == gguf.TokenType.CONTROL
    assert said["general.file_type"] == gguf.LlamaFileType.MOSTLY_Q8_0
    types = {one.name: one.tensor_type.name for one in gguf.GGUFReader(tmp_path / "tiny.gguf").tensors}
    assert (types["blk.0.attn_q.weight"], types["blk.0.attn_norm.weight"]) == ("Q8_0", "F32")


def test_how_text_is_cut_has_a_name_or_is_refused(tmp_path: Path) -> None:
    """A tokenizer as Qwen's, one as SmolLM's, and one whose rule nobody knows."""
    cuts: dict[str, list[Any]] = {
        "qwen2": [pre_tokenizers.Split(Regex(next(iter(_SPLITS))), "isolated")],
        "smollm": [pre_tokenizers.Digits(individual_digits=True)],
        "": [pre_tokenizers.Split(Regex(r"\w+"), "isolated")],
    }
    for name, first in cuts.items():
        tokenizer = type(tiny_tokenizer())(tokenizer_object=tiny_tokenizer().backend_tokenizer, name_or_path="own")
        tokenizer.chat_template = tiny_tokenizer().chat_template
        tokenizer.eos_token = "<|im_end|>"
        last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name == "smollm")
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*first, last])
        model = LoadedModel("own", tiny_module(), HfTokenizer(tokenizer))
        if name:
            write_gguf(model, tmp_path / f"{name}.gguf", "f16")
            assert told(tmp_path / f"{name}.gguf")["tokenizer.ggml.pre"] == name
        else:
            with pytest.raises(KgwalkError, match="no known name in GGUF; export it as hf, and convert the folder"):
                write_gguf(model, tmp_path / "own.gguf", "f16")


# Ollama


def test_the_modelfile_of_a_chat_template(tmp_path: Path) -> None:
    tokens = HfTokenizer(tiny_tokenizer())
    parts = chat_parts(tokens)
    assert parts.around["user"] == ("<|im_start|>user\n", "<|im_end|>\n")
    assert parts.default == "<|im_start|>system\nYou are helpful.<|im_end|>\n"
    assert parts.begin == "<|im_start|>assistant\n"
    reply = [*CHAT, Message("assistant", "<answer>$1</answer>"), Message("user", "and 東京?")]
    assert parts.text(reply) == tokens.chat_text(reply)
    lines = modelfile(tokens, "tiny.gguf", 1024).splitlines()
    assert lines[0] == "FROM ./tiny.gguf"
    assert lines[1] == f'TEMPLATE """{go_template(tokens)}"""'
    assert go_template(tokens) == (
        r'{{ if not .System }}{{ "<|im_start|>system\nYou are helpful.<|im_end|>\n" }}{{ end }}{{ range .Messages }}'
        r'{{ if eq .Role "system" }}{{ "<|im_start|>system\n" }}{{ .Content }}{{ "<|im_end|>\n" }}'
        r'{{ else if eq .Role "user" }}{{ "<|im_start|>user\n" }}{{ .Content }}{{ "<|im_end|>\n" }}'
        r'{{ else if eq .Role "assistant" }}{{ "<|im_start|>assistant\n" }}{{ .Content }}{{ "<|im_end|>\n" }}'
        r'{{ end }}{{ end }}{{ "<|im_start|>assistant\n" }}'
    )
    assert lines[2:] == ["PARAMETER temperature 0", "PARAMETER num_ctx 1024", 'PARAMETER stop "<|im_end|>"']
    with pytest.raises(KgwalkError, match="does not write message after message in one form"):
        chat_parts(HfTokenizer(tiny_tokenizer("mistral")))  # it knows no system message


def test_ollama_is_a_gguf_file_with_a_modelfile(adapter: Path, tmp_path: Path) -> None:
    file = export(agent_at(str(adapter)), "ollama", tmp_path / "agent", numbers="q8_0")
    assert sorted(path.name for path in file.parent.iterdir()) == [
        "Modelfile", "kgwalk.json", "recipe.toml", "tiny-random-kgwalk-q8_0.gguf"
    ]  # fmt: skip
    assert (file.parent / "Modelfile").read_text().startswith(f"FROM ./{file.name}\n")


# Asked as it learnt


def test_an_exported_agent_is_asked_as_it_learnt(adapter: Path, tmp_path: Path) -> None:
    kgwalk = load_recipe("kgwalk")
    learnt = protocol_of(walked_as_learnt(kgwalk, adapter))
    assert (learnt.language, learnt.documented) == ("full", False)  # type: ignore[attr-defined]
    for form in ("hf", "gguf"):
        model = export(agent_at(str(adapter)), form, tmp_path / form)
        assert card_folder(None, model) == tmp_path / form
        assert protocol_of(walked_as_learnt(kgwalk, None, model)) == learnt
        choice = choose_adapter(None, None, kgwalk, model=str(model), engine="local")
        assert (choice.adapter, choice.agent, choice.words) == (None, True, (f"agent: {model}",))
        # through a server of it: the recipe says the same
        assert protocol_of(load_recipe(str(tmp_path / form / "recipe.toml"))) == learnt
    shutil.copyfile(model, tmp_path / "gguf" / "another.gguf")
    assert card_folder(None, tmp_path / "gguf" / "another.gguf") is None  # kgwalk.json is of the other one
    assert not choose_adapter(None, None, kgwalk, model=str(model), engine="api").agent  # a name at the server
    assert not choose_adapter(None, None, load_recipe("kg-r1"), model=str(model), engine="local").agent


def test_the_commands(adapter: Path, tmp_path: Path, cli: Cli, store: Any) -> None:
    films: StoredGraph = store(FILMS)
    done = cli("export", adapter, "--format", "gguf", "-o", tmp_path / "out", "--dtype", "q8_0", "--json")
    assert done.status == 0, done.stderr
    assert done.json["model"] == str(tmp_path / "out" / "tiny-random-kgwalk-q8_0.gguf")
    assert done.json["files"] == ["kgwalk.json", "recipe.toml", "tiny-random-kgwalk-q8_0.gguf"]
    again = cli("export", adapter, "--format", "gguf", "-o", tmp_path / "out")
    assert again.status == 1
    assert f"{tmp_path / 'out'} exists; choose another folder with -o, or replace it with --force" in again.stderr
    asked = cli(
        "ask", "who directed Big?", "--graph", films.store.folder.path, "--model", done.json["model"],
        "--adapter", "none", "--engine", "local", "--json",
    )  # fmt: skip
    assert asked.json["topics"] == ["Big"]
    with Agent(films).opened("none", model=done.json["model"], engine="local") as agent:
        assert agent.protocol.language == "full"  # type: ignore[attr-defined]


def test_which_agent_is_meant(adapter: Path, tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_AGENT", str(adapter))
    assert agent_at("shipped").folder == adapter
    graph = store(FILMS).store.folder.path
    shutil.copytree(adapter, graph.with_name("graph.kg.agent"))
    assert agent_at(str(graph)).folder == graph.with_name("graph.kg.agent")
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text('{"kind": "train", "settings": {}}')
    with pytest.raises(KgwalkError, match=r"holds no agent: no adapter/ of a finished run"):
        agent_at(str(run))
    shutil.copytree(adapter, run / "adapter")
    assert agent_at(str(run)) == agent_at(str(run), "tiny-random")
    assert (agent_at(str(run)).folder, agent_at(str(run)).run) == (run / "adapter", run)
    fit = tmp_path / "fit"
    shutil.copytree(run, fit / "train")
    (fit / "run.json").write_text('{"kind": "fit", "settings": {}}')
    assert agent_at(str(fit)).folder == fit / "train" / "adapter"
    (fit / "fit.json").write_text(json.dumps({"adapter": str(adapter)}))  # training made it no better
    assert agent_at(str(fit)).folder == adapter
    whole = save_tiny(tmp_path / "whole")
    assert (agent_at(str(whole)).is_adapter, agent_at(str(whole)).format) == (False, "hf")
    with pytest.raises(KgwalkError, match="there is no run and no adapter nowhere"):
        agent_at("nowhere")


def test_the_folder_that_one_stands_in_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-o .` and `-o ..` are no names; a name is, also with dots in its path."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for given in (".", "..", "../../", str(here)):
        with (
            pytest.raises(KgwalkError, match="is the current folder, or holds it"),
            new_folder(Path(given), force=True),
        ):
            pytest.fail("there is nothing to write into")
    with new_folder(Path("../beside"), force=False) as folder:
        (folder / "config.json").write_text("{}")
        assert folder.parent == tmp_path
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beside", "here"]


def test_what_is_refused(adapter: Path, tmp_path: Path, store: Any) -> None:
    agent = agent_at(str(adapter))
    with pytest.raises(KgwalkError, match="hf is written in f32, f16, bf16, not in q8_0"):
        export(agent, "hf", tmp_path / "out", numbers="q8_0")
    with pytest.raises(KgwalkError, match="is what is exported; choose another folder"):
        export(agent, "hf", adapter, force=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(KgwalkError, match="holds something else than an agent, and is not replaced"):
        export(agent, "hf", tmp_path / "mine", force=True)
    assert (tmp_path / "mine" / "thesis.txt").exists()
    graph = store(FILMS).store.folder.path  # it has a kgwalk.json, too
    with pytest.raises(KgwalkError, match="holds something else than an agent, and is not replaced"):
        export(agent, "hf", graph, force=True)
    assert len(load_graph(graph)) == len(FILMS)
    assert not [*tmp_path.glob(".*partial")]
    spaced = LoadedModel("spaced", tiny_module(), HfTokenizer(tiny_tokenizer(spaced=True)))
    with pytest.raises(KgwalkError, match="no known name in GGUF"):
        write_gguf(spaced, tmp_path / "spaced.gguf", "f16")
    odd = tiny_model(rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0})
    with pytest.raises(KgwalkError, match="positions scaled by linear are not written as GGUF"):
        write_gguf(odd, tmp_path / "odd.gguf", "f16")
    model = tiny_model()
    with torch.no_grad():
        model.module.get_input_embeddings().weight[0, 0] = 1e5  # type: ignore[index,operator,union-attr]
    with pytest.raises(KgwalkError, match="a weight above 65,504, the largest of f16; choose --dtype bf16"):
        write_gguf(model, tmp_path / "large.gguf", "f16")
