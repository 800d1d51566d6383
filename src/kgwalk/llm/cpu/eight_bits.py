"""Weights in 8 bits: groups of 32 numbers of a row, each with a scale; in an OpenVINO graph, and as plain arithmetic.

A matrix of float32 takes 4 bytes a weight, this form 1.125, and a step of a small model takes as long as reading its
weights does. Knows nothing of models but their matrix products and tables. Shapes: O rows, I columns, G groups a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgwalk.llm.cpu.runtime import op, ov

GROUP = 32
LARGEST = 127


def quantise(weights_OI: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Whole numbers (O, G, 32) and scales (O, G, 1) whose products are nearest to the weights; a row whose length is
    no multiple of 32 is one group.

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
    """Every constant matrix that is multiplied with, or looked up in, becomes 8 bits wide; the rest stays."""
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
    """The pattern that OpenVINO's processor plugin keeps in 8 bits and unpacks while it multiplies."""
    weights = op.multiply(op.convert(op.constant(numbers), np.float32), op.constant(scales))
    shape = np.array([numbers.shape[0], numbers.shape[1] * numbers.shape[2]])
    node.input(1).replace_source_output(op.reshape(weights, op.constant(shape), False).output(0))


def _look_up(node: Any, numbers: NDArray[np.int8], scales: NDArray[np.float32]) -> None:
    """First the rows, then their numbers: the table itself is never unpacked."""
    index, axis = node.input_value(1), op.constant(0, np.int64)
    found = op.convert(op.gather(op.constant(numbers), index, axis), np.float32)
    rows = op.multiply(found, op.gather(op.constant(scales), index, axis))  # (..., G, 32)
    flat = op.concat([op.shape_of(index), op.constant(np.array([numbers.shape[1] * numbers.shape[2]]))], 0)
    rows = op.reshape(rows, flat, False)
    for reader in node.output(0).get_target_inputs():
        reader.replace_source_output(rows.output(0))
