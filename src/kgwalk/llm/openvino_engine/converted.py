"""Converted models: made once in the form that the engine `cpu` runs, and kept under the cache folder.

A folder has the graph with its weights, the tokenizer, and in kgwalk.json what else the engine must know. Its name
depends on what it was made from: the model's files, the adapters' content, the dtype. Making one needs torch (`convert`
does it), opening one does not.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import xxhash

from kgwalk.config.cache import CACHE_VARIABLE, cache_folder, exclusive
from kgwalk.llm.models import LoadedModel, ModelFiles, context_limit, find_model, load_model
from kgwalk.llm.openvino_engine.runtime import ov
from kgwalk.llm.tokenizers import HfTokenizer
from kgwalk.types import EngineError, Message

log = logging.getLogger(__name__)

FORM = 1  # of the folders written here: a new number leaves the old ones alone
DTYPES = ("int8", "float32")
_PROBE = [Message("system", "Be brief."), Message("user", "Ünïcödé 東京 <|im_end|> </s>  two  spaces\n\nlines 12,345")]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the engine must know besides graph and tokenizer; kgwalk.json holds it."""

    context: int
    vocabulary: int
    end_ids: list[int]
    plain_tokenizer: bool  # whether it opens without transformers' choice of a class, which imports torch


def converted_folder(name: str | Path, adapter: str | Path | None, dtype: str) -> Path:
    """The folder of the converted model, which is made at the first call."""
    place = find_model(name)
    adapters = [folder for folder in (place.adapter, adapter) if folder is not None]
    stem = "".join(letter if letter.isalnum() or letter in ".-_" else "-" for letter in Path(place.name).name)
    folder = cache_folder() / "cpu" / f"{stem}-{dtype}-{_digest(place, [Path(one) for one in adapters])}-{FORM}"
    if (folder / "kgwalk.json").is_file():
        return folder
    try:
        with exclusive(folder):
            if not (folder / "kgwalk.json").is_file():
                _make(folder, name, adapter, dtype)
    except OSError as error:
        raise EngineError(
            f"{name} cannot be kept as {folder}: {error.strerror or error}\n  Set {CACHE_VARIABLE} to another folder."
        ) from error
    return folder


def _make(folder: Path, name: str | Path, adapter: str | Path | None, dtype: str) -> None:
    started = time.monotonic()
    log.info("making %s ready for this processor; this is done once", name)
    model = load_model(name, adapter=adapter, dtype="float32")
    beside = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(beside, ignore_errors=True)  # left by a process that was killed: this one has the lock
    beside.mkdir(parents=True)
    graph, facts = graph_of(model, dtype)
    ov.save_model(graph, beside / "model.xml", compress_to_fp16=False)
    model.tokens.hf.save_pretrained(str(beside))
    facts = ModelFacts(facts.context, facts.vocabulary, facts.end_ids, _opens_plainly(beside, model.tokens))
    (beside / "kgwalk.json").write_text(json.dumps(asdict(facts)))
    shutil.rmtree(folder, ignore_errors=True)
    beside.rename(folder)
    log.info("kept as %s after %.0f s", folder, time.monotonic() - started)


def graph_of(model: LoadedModel, dtype: str) -> tuple[ov.Model, ModelFacts]:
    """The graph of a model in memory; the model itself does not change."""
    from kgwalk.llm.openvino_engine.convert import check, compress, export  # needs torch

    graph = export(model.module)
    check(model.module, graph)
    if dtype == "int8":
        compress(graph)
    vocabulary = int(model.module.get_input_embeddings().num_embeddings)  # type: ignore[union-attr,arg-type,unused-ignore]
    return graph, ModelFacts(context_limit(model.module.config), vocabulary, sorted(model.tokens.end_ids), False)


def read_facts(folder: Path) -> ModelFacts:
    return ModelFacts(**json.loads((folder / "kgwalk.json").read_text()))


def open_tokenizer(folder: Path, facts: ModelFacts) -> HfTokenizer:
    """The tokenizer in a converted model's folder, the quick way where that gives the same."""
    from transformers import PreTrainedTokenizerFast

    if facts.plain_tokenizer:
        return HfTokenizer(PreTrainedTokenizerFast.from_pretrained(str(folder)), end_ids=facts.end_ids)  # type: ignore[no-untyped-call,unused-ignore]
    from transformers import AutoTokenizer

    return HfTokenizer(AutoTokenizer.from_pretrained(str(folder)), end_ids=facts.end_ids)


def _opens_plainly(folder: Path, tokens: HfTokenizer) -> bool:
    """Whether the quick way of opening the tokenizer gives the same ids."""
    plain = open_tokenizer(folder, ModelFacts(0, 0, sorted(tokens.end_ids), True))
    texts = [message.content for message in _PROBE]
    return (
        plain.open_chat(_PROBE) == tokens.open_chat(_PROBE)
        and [plain.encode(text) for text in texts] == [tokens.encode(text) for text in texts]
        and plain.next_turn("a", ended=True) == tokens.next_turn("a", ended=True)
        and plain.end_ids == tokens.end_ids
    )


def _digest(place: ModelFiles, adapters: list[Path]) -> str:
    """A hash of the model's files by path, size and time, as they may be many gigabytes, and of adapters by content."""
    digest = xxhash.xxh3_128()
    files = sorted(place.path.glob("*")) if place.path.is_dir() else [place.path]
    for file in files:
        if file.suffix in (".safetensors", ".gguf", ".json", ".jinja", ".model"):
            found = file.stat()
            digest.update(f"{file} {found.st_size} {found.st_mtime_ns}\n".encode())
    for folder in adapters:
        for part in ("adapter_config.json", "adapter_model.safetensors"):
            if not (folder / part).is_file():
                raise EngineError(f"the adapter {folder} has no {part}")
            digest.update((folder / part).read_bytes())
    return str(digest.hexdigest())[:16]
