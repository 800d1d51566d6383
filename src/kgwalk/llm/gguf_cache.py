"""GGUF files as Hugging Face folders: dequantised once, kept under a cache folder, loaded quickly ever after.

transformers reads a GGUF file in half a minute and the folder it would have been made from in a second. A folder is
named by the file's content and the number type, written beside its place and renamed into it: there is never half of
one, whoever is killed. Knows nothing of names of models, nor of engines.
"""

from __future__ import annotations

import functools
import logging
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import xxhash

from kgwalk.config.cache import CACHE_VARIABLE, cache_folder
from kgwalk.types import EngineError

log = logging.getLogger(__name__)

FORM = 1  # of the folders written here: a new number leaves the old ones alone


def gguf_folder(file: Path, dtype: str) -> Path:
    """The file's model and tokenizer as a folder that any Hugging Face tool loads; `dtype` is torch's name for it."""
    from filelock import FileLock  # comes with torch

    place = cache_folder() / "models" / f"{file.stem}-{dtype}-{_digest(file)}-{FORM}"
    if (place / "config.json").is_file():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{place}.lock"):  # one process does it, others wait
            if not (place / "config.json").is_file():
                _make(file, place, dtype)
    except OSError as error:
        raise EngineError(
            f"{file} cannot be kept as {place}: {error.strerror or error}\n"
            f"  It takes about {_bytes_needed(file) / 1e9:.1f} GB; set {CACHE_VARIABLE} to a folder that has the room."
        ) from error
    return place


def _make(file: Path, place: Path, dtype: str) -> None:
    started = time.monotonic()
    log.info("reading %s; this is done once", file)
    for left in place.parent.glob(f"{place.name}.*.tmp"):  # by a process that was killed: this one has the lock
        shutil.rmtree(left)
    beside = Path(tempfile.mkdtemp(prefix=f"{place.name}.", suffix=".tmp", dir=place.parent))
    try:
        _convert(file, beside, dtype)
        for path in (beside, *beside.iterdir()):  # made for their owner alone; a cache may be shared
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
            tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
            module: Any = AutoModelForCausalLM.from_pretrained(
                str(file.parent), gguf_file=file.name, dtype=getattr(torch, dtype), **options
            )
        except (ValueError, KeyError, NotImplementedError) as error:
            raise EngineError(f"{file} is not a GGUF file that transformers reads: {error}") from error
    config = module.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # it says "GGUF", and the weights are no more
    config.architectures = [type(module).__name__]
    if isinstance(config.eos_token_id, int):  # transformers 5.10 reads the file's as the tokenizer's bos
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(config.eos_token_id)
    tokenizer.save_pretrained(folder)
    module.generation_config.save_pretrained(folder)
    save_model(module, str(folder / "model.safetensors"), metadata={"format": "pt"})
    config.save_pretrained(folder)  # last: its presence says that the folder is whole


@contextmanager
def _read_once() -> Iterator[None]:
    """While it loads, transformers opens the file three times and makes the table of names once for each submodule,
    which is half of the time it takes, and draws a progress bar: both are made once here, and no bar.
    """
    try:
        import gguf
    except ImportError as error:
        raise EngineError("a GGUF file needs the package gguf: pip install 'kgwalk[local]'") from error
    from transformers import modeling_gguf_pytorch_utils as reading

    def no_bar(rows: Any, **_: object) -> Any:
        return rows

    instead: list[tuple[Any, str, Any]] = [
        (gguf, "GGUFReader", functools.lru_cache(gguf.GGUFReader)),
        (gguf, "get_tensor_name_map", functools.lru_cache(gguf.get_tensor_name_map)),
        (reading, "tqdm", no_bar),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in instead]
    for module, name, value in instead:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
