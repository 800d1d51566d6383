"""A converted model: kept in a folder, and run by OpenVINO over a cache of blocks.

    folder = converted_folder("some-model", adapter=None, dtype="int8")  # made at the first call
    model = PagedModel(folder / "model.xml")

A model is converted once, into the form that the engine `cpu` runs, and kept under the cache folder. Making one needs
torch (`convert` does it), opening one does not. `PagedModel` computes any sequences in one pass; which blocks of the
cache a sequence has, the caller says with every pass (the scheduler's `BlockTable` keeps account of them).
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from kgwalk.config.cache import cache_folder, damage, made_once
from kgwalk.llm.models import LoadedModel, ModelFiles, context_limit, find_model, load_model
from kgwalk.llm.openvino_engine.runtime import op, ov
from kgwalk.llm.tokenizers import HfTokenizer
from kgwalk.types import EngineError, Message

log = logging.getLogger(__name__)
FORM = 2  # of the folders written here: a new number leaves the old ones alone
DTYPES = ("int8", "float32")
# What a pass computes of a sequence: new tokens, the position of the first of them, blocks up to the last.
PagedPass = tuple[Sequence[int], int, Sequence[int]]
_PROBE = [Message("system", "Be brief."), Message("user", "Ünïcödé 東京 <|im_end|> </s>  two  spaces\n\nlines 12,345")]


class PagedModel:
    """`model` is a graph made by `convert.export`, or the .xml file of one. With `threads` 0 the runtime chooses.

    So many `streams` may be in `forward` at a time, each from a thread of the caller's and with `threads` of its own;
    they share the weights and the cache. Nobody may `reserve` or `release` meanwhile.

    The blocks are in tensors of ours, one for keys and one for values a layer, which the runtime reads and writes in
    place.
    Sums are in float32 even where the processor has something faster: log-probabilities must be those of the weights.
    """

    def __init__(self, model: ov.Model | Path, *, threads: int = 0, streams: int = 1) -> None:
        core = ov.Core()
        try:
            graph = core.read_model(model) if isinstance(model, Path) else model
            _to_paged(graph)
            _keep_wanted_logits(graph)
            self._compiled = core.compile_model(graph, "CPU", _settings(threads, streams))
        except RuntimeError as error:
            raise EngineError(f"OpenVINO {ov.__version__} cannot run the model: {_first_line(error)}") from error
        self._requests = [self._compiled.create_infer_request() for _ in range(streams)]
        self._idle: SimpleQueue[Any] = SimpleQueue()
        for request in self._requests:
            self._idle.put(request)
        self._stores = [one for one in self._compiled.inputs if "_cache." in one.get_any_name()]
        self.size = int(self._stores[0].get_partial_shape()[2].get_length())  # tokens a block
        self.blocks = 0
        self.release()

    def release(self) -> None:
        """Gives the cache's memory back."""
        self._tensors: dict[str, Any] = {}
        self.blocks = 0
        self.reserve(1)

    def reserve(self, blocks: int) -> None:
        """Makes room for so many blocks; what they hold stays."""
        if blocks <= self.blocks:
            return
        for store in self._stores:
            name, shape = store.get_any_name(), store.get_partial_shape()
            sizes = [shape[axis].get_length() for axis in (1, 2, 3)]
            larger = ov.Tensor(store.get_element_type(), ov.Shape([blocks, *sizes]))
            larger.data[self.blocks :] = 0  # that memory may hold NaN, and 0 x NaN is NaN
            if self.blocks:
                larger.data[: self.blocks] = self._tensors[name].data
            self._tensors[name] = larger
            for request in self._requests:
                request.set_tensor(name, larger)
        self.blocks = blocks

    def wipe(self, blocks: Sequence[int]) -> None:
        """Overwrites all of these blocks, NaN included."""
        for tensor in self._tensors.values():
            tensor.data[list(blocks)] = 0

    def forward(self, sequences: Sequence[PagedPass], wanted: Sequence[int] | None = None) -> NDArray[np.float32]:
        """Logits (P, V) after the last `wanted` new tokens of each sequence, one sequence after the other; by default
        after the last token of each. The array is the caller's own.
        """
        wanted = [1] * len(sequences) if wanted is None else wanted
        ends = np.cumsum([len(ids) for ids, _, _ in sequences])
        lengths = [start + len(ids) for ids, start, _ in sequences]
        used = [
            list(blocks[: -(-length // self.size)]) for (_, _, blocks), length in zip(sequences, lengths, strict=True)
        ]
        places = [np.arange(start, start + len(ids)) for ids, start, _ in sequences]
        asked = [np.arange(end - count, end) for end, count in zip(ends, wanted, strict=True)]
        inputs = {
            "input_ids": np.concatenate([np.asarray(ids, np.int64) for ids, _, _ in sequences]),
            "position_ids": np.concatenate(places).astype(np.int64),
            "past_lens": np.array([start for _, start, _ in sequences], np.int32),
            "subsequence_begins": np.array([0, *ends], np.int32),
            "block_indices": np.concatenate([np.asarray(blocks, np.int32) for blocks in used]),
            "block_indices_begins": np.cumsum([0, *map(len, used)]).astype(np.int32),
            "max_context_len": np.array(max(lengths), np.int32),
            "rows": np.concatenate(asked).astype(np.int64),
        }
        request = self._idle.get()
        try:
            for name, values in inputs.items():
                request.set_tensor(name, ov.Tensor(values))
            request.infer()
            logits: NDArray[np.float32] = request.get_tensor("logits").data
            return logits.reshape(sum(wanted), -1).copy()
        finally:
            self._idle.put(request)


def _settings(threads: int, streams: int) -> dict[str, Any]:
    chosen: dict[str, Any] = {"INFERENCE_NUM_THREADS": threads * streams} if threads else {}
    if streams > 1:
        chosen |= {"NUM_STREAMS": streams}
    return {
        "PERFORMANCE_HINT": "LATENCY",
        # A thread would wait for its core where other work has it and another is free. All processes pin to the first
        # cores: two of a thread each had half of one core, and the other was idle.
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_PRECISION_HINT": "f32",
        "KV_CACHE_PRECISION": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
        **chosen,
    }


def _to_paged(model: ov.Model) -> None:
    try:
        # The one name here that OpenVINO does not document; its GenAI pipelines and vLLM's plugin use it.
        from openvino._offline_transformations import paged_attention_transformation
    except ImportError as error:
        raise EngineError(f"OpenVINO {ov.__version__} has no paged attention; the engine cpu knows 2026.4") from error
    paged_attention_transformation(model)
    model.validate_nodes_and_infer_types()


def _keep_wanted_logits(model: ov.Model) -> None:
    """Computes the logits of the wanted tokens alone: they are a fifth of a small model's work, and a prompt has
    hundreds of tokens.
    """
    node = model.output("logits").get_node().input_value(0).get_node()
    while node.get_type_name() != "MatMul":
        node = node.input_value(0).get_node()
    rows = op.parameter([-1], np.int64, name="rows")
    rows.output(0).set_names({"rows"})
    wanted = op.gather(node.input_value(0), rows, op.constant(0, np.int64))
    node.input(0).replace_source_output(wanted.output(0))
    model.add_parameters([rows])
    model.validate_nodes_and_infer_types()


def _first_line(error: RuntimeError) -> str:
    lines = [line for line in str(error).splitlines() if line and not line.startswith("Exception from")]
    return lines[0] if lines else str(error)


# Folders of converted models


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the engine must know besides graph and tokenizer; kgwalk.json holds it."""

    context: int
    vocabulary: int
    end_ids: list[int]
    plain_tokenizer: bool  # whether it opens without transformers' choice of a class, which imports torch


def converted_folder(name: str | Path, adapter: str | Path | None, dtype: str) -> Path:
    """The folder of the converted model, which is made at the first call.

    It has the graph with its weights, the tokenizer, and in kgwalk.json what else the engine must know. Its name
    depends on what it was made from, not on how the caller names that: the model's files, the adapters' content, the
    dtype. A folder whose files are damaged is made again.
    """
    place = find_model(name)
    adapters = [folder for folder in (place.adapter, adapter) if folder is not None]
    stem = "".join(letter if letter.isalnum() or letter in ".-_" else "-" for letter in place.path.name)
    made_from = f"{dtype}-{_digest(place, [Path(one) for one in adapters])}"
    folder = cache_folder() / "cpu" / f"{stem.removesuffix('.gguf')}-{made_from}-{FORM}"
    if damage(folder) is None:
        return folder
    made_once(folder, lambda beside: _make(beside, name, adapter, dtype), str(name))
    for old in folder.parent.glob(f"[!.]*-{made_from}-*"):  # the same under names that older versions gave it
        if old != folder and old.is_dir():
            shutil.rmtree(old, ignore_errors=True)
    return folder


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

    return HfTokenizer(AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False), end_ids=facts.end_ids)


def _make(folder: Path, name: str | Path, adapter: str | Path | None, dtype: str) -> None:
    started = time.monotonic()
    log.info("making %s ready for this processor; this is done once", name)
    model = load_model(name, adapter=adapter, dtype="float32")
    graph, facts = graph_of(model, dtype)
    try:
        ov.save_model(graph, folder / "model.xml", compress_to_fp16=False)
    except RuntimeError as error:  # OpenVINO does not say why; the graph itself was checked
        raise OSError(f"OpenVINO could not write it, as on a full disk ({_first_line(error)})") from error
    model.tokens.hf.save_pretrained(str(folder))
    facts = ModelFacts(facts.context, facts.vocabulary, facts.end_ids, _opens_plainly(folder, model.tokens))
    (folder / "kgwalk.json").write_text(json.dumps(asdict(facts)))
    log.info("ready after %.0f s", time.monotonic() - started)


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
