"""The least time a decode step can take: the bytes it must move and the operations it must do, over a machine's rates.

Pure arithmetic. Knows nothing of how a step is computed, nor how fast any machine is.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decoder:
    """The sizes of a decoder that decide what a step costs."""

    weights: int  # that a step multiplies with: all, but for a table of embeddings that is only looked up in
    layers: int
    key_heads: int
    query_heads: int
    width: int  # of a head
    vocabulary: int
    itemsize: int  # bytes of a number: 2 for bfloat16


def step_bytes(model: Decoder, batch: int, length: float) -> float:
    """Moved by one step of `batch` rows that see `length` tokens each, the new one among them.

    Weights are read once for all rows, keys and values once for each row, logits are written and read once.

    1,000 weights, 2 layers, 1 key head of width 4, 10 tokens to choose from, 2 bytes a number; 3 rows of 5 tokens:
        weights           1000 x 2                          = 2000
        keys and values   3 x 5 x (2 x 2 x 1 x 4) x 2       =  480
        logits            2 x 3 x 10 x 2                    =  120

    >>> step_bytes(Decoder(1000, 2, 1, 2, 4, 10, 2), batch=3, length=5)
    2600
    """
    token = 2 * model.layers * model.key_heads * model.width  # numbers: a key and a value in each layer
    logits = 2 * batch * model.vocabulary
    return model.itemsize * (model.weights + batch * length * token + logits)


def step_operations(model: Decoder, batch: int, length: float) -> float:
    """Multiplications and additions of one step.

    A weight costs 2 for each row; attention 2 for a query with a key and 2 for a share of a value, at each width.

    The same model with 2 query heads; 3 rows of 5 tokens:
        weights     2 x 1000 x 3                 = 6000
        attention   4 x 2 x 2 x 4 x 5 x 3        =  960

    >>> step_operations(Decoder(1000, 2, 1, 2, 4, 10, 2), batch=3, length=5)
    6960
    """
    attention = 4 * model.layers * model.query_heads * model.width * length
    return batch * (2 * model.weights + attention)


def floor_seconds(bytes_moved: float, operations: float, *, bandwidth: float, rate: float) -> float:
    """The larger of the two times: moving and computing can go on at once, and neither can be left out.

    2,600 bytes at 1,300 a second are 2 s, 6,960 operations at 6,960 a second 1 s:

    >>> floor_seconds(2600, 6960, bandwidth=1300, rate=6960)
    2.0
    """
    return max(bytes_moved / bandwidth, operations / rate)
