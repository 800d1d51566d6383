"""Converts a Hugging Face model into an OpenVINO graph, checks it, and makes its weights int8.

The model is traced, whatever its family; only the attention is ours. It appends to keys and values that come from
outside, which then become the graph's state. What a family adds to the usual attention (soft caps, sinks) would be
lost, so `check` compares the graph's log-probabilities with the model's own. `compress` stores groups of 32 weights as
int8 with a scale each: 1.125 bytes a weight in place of 4, and a step of a small model takes as long as reading its
weights does. `model.graph_of` calls all three.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AttentionInterface, PreTrainedModel
from transformers.cache_utils import Cache
from transformers.masking_utils import AttentionMaskInterface

from kgwalk.llm.openvino_engine.model import PagedModel
from kgwalk.llm.openvino_engine.runtime import op, ov
from kgwalk.types import EngineError

ATTENTION = "kgwalk_traced"
TOLERANCE = (
    0.02  # in log-probability: summing in another order changes it by 0.001, a lost part of attention by far more
)
GROUP = 32  # weights that share a scale
LARGEST = 127  # of an int8


def export(module: PreTrainedModel) -> ov.Model:
    """The graph, with weights in float32. Its state is the keys and values, which `PagedModel` puts into blocks."""
    AttentionInterface.register(ATTENTION, _attention)
    AttentionMaskInterface.register(ATTENTION, lambda *_, **__: None)
    name = module.config.model_type
    _check(module)
    before = module.config._attn_implementation
    module.set_attn_implementation(ATTENTION)
    try:
        with torch.no_grad(), _in_silence():
            shapes = _shapes(module)
            model = ov.convert_model(_Traced(module), example_input=_example(shapes))
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        raise EngineError(f"OpenVINO cannot take over {name}: {error}; use the engine local") from error
    finally:
        module.set_attn_implementation(before)
    _make_stateful(model, shapes)
    return model


def check(module: PreTrainedModel, model: ov.Model) -> None:
    """Raises EngineError if the graph's log-probabilities differ from the module's, for two sequences in two passes."""
    words = int(module.get_input_embeddings().num_embeddings)  # type: ignore[arg-type,unused-ignore]
    drawn = np.random.default_rng(0).integers(0, words, (2, 40)).tolist()
    paged = PagedModel(model.clone(), threads=1)
    blocks = -(-40 // paged.size)
    paged.reserve(2 * blocks)
    places = [list(range(blocks)), list(range(blocks, 2 * blocks))]
    paged.forward([(ids[:-cut], 0, place) for ids, place, cut in zip(drawn, places, (9, 1), strict=True)])
    rows = [(ids[-cut:], 40 - cut, place) for ids, place, cut in zip(drawn, places, (9, 1), strict=True)]
    found = torch.log_softmax(torch.from_numpy(paged.forward(rows)), -1)
    with torch.no_grad():
        expected = torch.log_softmax(module(torch.tensor(drawn)).logits[:, -1].float().cpu(), -1)
    likely = expected > -12  # what is never sampled need not be exact
    off = float((found - expected)[likely].abs().max())
    if not off < TOLERANCE:
        raise EngineError(
            f"OpenVINO's copy of {module.config.model_type} is off by {off:.3g} in log-probability: the engine cpu "
            "does not know a part of its attention; use the engine local"
        )


class _GrowingCache(Cache):
    """Keys and values from outside, and in `new` the same with this pass's after them."""

    def __init__(self, past: list[tuple[torch.Tensor, torch.Tensor]] | None) -> None:
        super().__init__(layers=[])
        self.past, self.new = past, []  # type: ignore[var-annotated]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        both = (key_states, value_states)
        if self.past is not None:
            old = self.past[layer_idx]
            both = (torch.cat([old[0], key_states], 2), torch.cat([old[1], value_states], 2))
        self.new.append(both)
        return both

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0 if self.past is None else int(self.past[0][0].shape[2])


class _Traced(torch.nn.Module):
    """The module as it is traced: everything that changes from pass to pass is an argument."""

    def __init__(self, module: PreTrainedModel) -> None:
        super().__init__()
        self.module = module

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        position_ids: torch.Tensor,
        past: tuple[torch.Tensor, ...],
    ) -> tuple[torch.Tensor, ...]:
        cache = _GrowingCache([(past[at], past[at + 1]) for at in range(0, len(past), 2)])
        out = self.module(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=cache,
            use_cache=True,
        )
        return (out.logits, *(tensor for both in cache.new for tensor in both))


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Grouped heads are repeated before the product: the form that OpenVINO recognises as paged attention."""
    groups = query.shape[1] // key.shape[1]
    key, value = _spread(key, groups), _spread(value, groups)
    out = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask, scale=scaling)
    return out.transpose(1, 2).contiguous(), None


def _spread(tensor: torch.Tensor, groups: int) -> torch.Tensor:
    if groups == 1:
        return tensor
    batch, heads, length, size = tensor.shape
    return tensor[:, :, None].expand(batch, heads, groups, length, size).reshape(batch, heads * groups, length, size)


def _shapes(module: PreTrainedModel) -> list[tuple[int, int]]:
    """The number and size of heads, for keys and values of every layer; found by a pass over two tokens."""
    cache = _GrowingCache(None)
    module(
        input_ids=torch.zeros(1, 2, dtype=torch.long),
        attention_mask=torch.zeros(1, 1, 2, 2),
        position_ids=torch.tensor([[0, 1]]),
        past_key_values=cache,
        use_cache=True,
    )
    return [(int(tensor.shape[1]), int(tensor.shape[3])) for both in cache.new for tensor in both]


def _example(shapes: list[tuple[int, int]]) -> tuple[Any, ...]:
    """Two sequences with three cached and two new tokens; the tracer finds which sizes may change."""
    past = tuple(torch.zeros(2, heads, 3, size) for heads, size in shapes)
    return torch.ones(2, 2, dtype=torch.long), torch.zeros(2, 1, 2, 5), torch.tensor([[3, 4], [3, 4]]), past


def _make_stateful(model: ov.Model, shapes: list[tuple[int, int]]) -> None:
    """Makes keys and values state, in the form of OpenVINO's own exporter, which paged attention needs."""
    from openvino.passes import MakeStateful, Manager

    names = {}
    beams = op.parameter([-1], np.int32, name="beam_idx")
    beams.output(0).set_names({"beam_idx"})
    model.outputs[0].set_names({"logits"})
    for number, (heads, size) in enumerate(shapes):
        layer, kind = number // 2, "key" if number % 2 == 0 else "value"
        old, new = model.inputs[3 + number], model.outputs[1 + number]
        names[f"past.{layer}.{kind}"] = f"present.{layer}.{kind}"
        old.set_names({f"past.{layer}.{kind}"})
        new.set_names({f"present.{layer}.{kind}"})
        old.get_node().set_partial_shape(ov.PartialShape([-1, heads, -1, size]))
        readers = old.get_target_inputs()
        chosen = op.gather(old, beams, op.constant(0, np.int64))
        for reader in readers:
            reader.replace_source_output(chosen.output(0))
    model.add_parameters([beams])
    model.validate_nodes_and_infer_types()
    manager = Manager()
    manager.register_pass(MakeStateful(names))
    manager.run_passes(model)
    batch = op.gather(op.shape_of(model.input("input_ids")), op.constant(np.array([0])), op.constant(0))
    for node in model.get_ops():
        if node.get_type_name() == "ReadValue":
            shape = node.get_output_partial_shape(0)
            ends = [op.constant(np.array([number])) for number in (shape[1].get_length(), 0, shape[3].get_length())]
            empty = op.broadcast(op.constant(0.0, np.float32), op.concat([batch, *ends], 0))
            node.set_arguments([empty.output(0)])
    model.validate_nodes_and_infer_types()


def _check(module: PreTrainedModel) -> None:
    """Raises EngineError unless the model attends with keys and values alone, at positions that it is given."""
    kinds = set(getattr(module.config.get_text_config(), "layer_types", None) or [])
    kinds -= {"full_attention", "sliding_attention"}
    told = "position_ids" in inspect.signature(module.forward).parameters
    if kinds or not told or getattr(module, "_is_stateful", False):
        raise EngineError(
            f"the engine cpu runs models that attend with keys and values alone; {module.config.model_type} does not: "
            "use the engine local or api"
        )


@contextmanager
def _in_silence() -> Iterator[None]:
    """Without the tracer's warnings of every size that it takes for fixed: `check` finds out whether that was wrong."""
    logger = logging.getLogger("transformers")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)


# int8


def quantise(weights_OI: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Weights in int8: numbers (O, G, 32) and scales (O, G, 1) whose products are nearest to the weights. A row whose
    length is no multiple of 32 is one group. Shapes: O rows, I columns, G groups a row.

    A group's largest number becomes 127: of 1.27, 0.50 and zeros the scale is 0.01, and the numbers 127, 50 and 0.

    >>> numbers, scales = quantise(np.array([[1.27, 0.5] + 30 * [0.0]], dtype=np.float32))
    >>> numbers[0, 0, :3].tolist(), round(float(scales[0, 0, 0]), 6)
    ([127, 50, 0], 0.01)
    """
    rows, columns = weights_OI.shape
    groups = weights_OI.reshape(rows, -1, GROUP if columns % GROUP == 0 else columns)
    scales = np.abs(groups).max(-1, keepdims=True) / np.float32(LARGEST)
    scales[scales == 0] = 1
    return np.rint(groups / scales).astype(np.int8), scales


def compress(model: ov.Model) -> None:
    """Makes every constant matrix int8 that is multiplied with, or looked up in; the rest stays as it is."""
    for node in list(model.get_ordered_ops()):
        kind, at = node.get_type_name(), {"MatMul": 1, "Gather": 0}.get(node.get_type_name())
        if at is None:
            continue
        table = node.input_value(at).get_node()
        if table.get_type_name() != "Constant" or table.get_output_element_type(0) != ov.Type.f32:
            continue
        if len(table.get_output_shape(0)) == 2:
            (_multiply if kind == "MatMul" else _look_up)(node, *quantise(table.get_data()))
    model.validate_nodes_and_infer_types()


def _multiply(node: Any, numbers: NDArray[np.int8], scales: NDArray[np.float32]) -> None:
    """The pattern that OpenVINO's CPU plugin keeps in int8, and unpacks while it multiplies."""
    weights = op.multiply(op.convert(op.constant(numbers), np.float32), op.constant(scales))
    shape = np.array([numbers.shape[0], numbers.shape[1] * numbers.shape[2]])
    node.input(1).replace_source_output(op.reshape(weights, op.constant(shape), False).output(0))


def _look_up(node: Any, numbers: NDArray[np.int8], scales: NDArray[np.float32]) -> None:
    """Looks up rows first and unpacks only those: the table itself stays int8."""
    index, axis = node.input_value(1), op.constant(0, np.int64)
    found = op.convert(op.gather(op.constant(numbers), index, axis), np.float32)
    rows = op.multiply(found, op.gather(op.constant(scales), index, axis))  # (..., G, 32)
    flat = op.concat([op.shape_of(index), op.constant(np.array([numbers.shape[1] * numbers.shape[2]]))], 0)
    rows = op.reshape(rows, flat, False)
    for reader in node.output(0).get_target_inputs():
        reader.replace_source_output(rows.output(0))
