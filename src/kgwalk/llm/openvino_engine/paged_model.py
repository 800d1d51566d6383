"""A converted model run by OpenVINO over a cache of blocks: any sequences in one pass.

The blocks are in tensors of ours, one for keys and one for values a layer, which the runtime reads and writes in place.
Which blocks a sequence has, the caller says with every pass (`blocks` keeps account of them).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgwalk.llm.openvino_engine.runtime import op, ov
from kgwalk.types import EngineError

# What a pass computes of a sequence: new tokens, the position of the first of them, blocks up to the last.
PagedPass = tuple[Sequence[int], int, Sequence[int]]


class PagedModel:
    """`model` is a graph made by `convert.export`, or the .xml file of one. With `threads` 0 the runtime chooses.

    Sums are in float32 even where the processor has something faster: log-probabilities must be those of the weights.
    """

    def __init__(self, model: ov.Model | Path, *, threads: int = 0) -> None:
        core = ov.Core()
        try:
            graph = core.read_model(model) if isinstance(model, Path) else model
            _to_paged(graph)
            _keep_wanted_logits(graph)
            self._compiled = core.compile_model(graph, "CPU", _settings(threads))
        except RuntimeError as error:
            raise EngineError(f"OpenVINO {ov.__version__} cannot run the model: {_first_line(error)}") from error
        self._request = self._compiled.create_infer_request()
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
            self._request.set_tensor(name, larger)
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
        self._set("input_ids", np.concatenate([np.asarray(ids) for ids, _, _ in sequences]), np.int64)
        self._set("position_ids", np.concatenate(places), np.int64)
        self._set("past_lens", np.array([start for _, start, _ in sequences]), np.int32)
        self._set("subsequence_begins", np.array([0, *ends]), np.int32)
        self._set("block_indices", np.concatenate([np.asarray(blocks) for blocks in used]), np.int32)
        self._set("block_indices_begins", np.cumsum([0, *map(len, used)]), np.int32)
        self._set("max_context_len", np.array(max(lengths)), np.int32)
        asked = [np.arange(end - count, end) for end, count in zip(ends, wanted, strict=True)]
        self._set("rows", np.concatenate(asked), np.int64)
        self._request.infer()
        logits: NDArray[np.float32] = self._request.get_tensor("logits").data
        return logits.reshape(sum(wanted), -1).copy()

    def _set(self, name: str, values: NDArray[Any], kind: Any) -> None:
        self._request.set_tensor(name, ov.Tensor(np.asarray(values, dtype=kind)))


def _settings(threads: int) -> dict[str, Any]:
    chosen = {"INFERENCE_NUM_THREADS": threads} if threads else {}
    return {
        "PERFORMANCE_HINT": "LATENCY",
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
