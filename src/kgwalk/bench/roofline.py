"""The roofline: bytes and operations that decoding and training need, and the least seconds that they take.

Decoding a token reads all weights once for the whole batch and the keys and values of every sequence, so that few
sequences are bound by bandwidth and many by arithmetic. Training costs 6 operations a weight and token, 4 with an
adapter. All are pure functions of a shape; `bench/plan.py` has what real programs reach of them. Needs no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from kgwalk.bench.shapes import ModelShape

HALF, SINGLE = 2, 4  # bytes of a number in bfloat16 and in float32


# A step of decoding


@dataclass(frozen=True, slots=True)
class Decoder:
    """The sizes of a decoder that decide what a step costs."""

    weights: int  # that a step multiplies with: all but a table of embeddings that is not the head, too
    layers: int
    key_heads: int
    query_heads: int
    width: int  # of a head
    vocabulary: int
    itemsize: int  # bytes of a number: 2 for bfloat16


def step_bytes(model: Decoder, batch: int, length: float) -> float:
    """Bytes that a step of `batch` sequences moves, which see `length` tokens each, the new one among them.

    Weights are read once for all, keys and values once for each sequence, logits are written and read once.

    1,000 weights, 2 layers, 1 key head of width 4, 10 tokens of vocabulary, 2 bytes a number; 3 sequences of 5 tokens:
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

    A weight costs 2 for each sequence; attention 2 for a query with a key and 2 for a share of a value, at each width.

    The same model with 2 query heads; 3 sequences of 5 tokens:
        weights     2 x 1000 x 3                 = 6000
        attention   4 x 2 x 2 x 4 x 5 x 3        =  960

    >>> step_operations(Decoder(1000, 2, 1, 2, 4, 10, 2), batch=3, length=5)
    6960
    """
    attention = 4 * model.layers * model.query_heads * model.width * length
    return batch * (2 * model.weights + attention)


def floor_seconds(bytes_moved: float, operations: float, *, bandwidth: float, rate: float) -> float:
    """The larger of the two times, as moving and computing go on at the same time.

    2,600 bytes at 1,300 a second are 2 s, 6,960 operations at 6,960 a second 1 s:

    >>> floor_seconds(2600, 6960, bandwidth=1300, rate=6960)
    2.0
    """
    return max(bytes_moved / bandwidth, operations / rate)


def decoder_of_shape(shape: ModelShape, batch: int) -> Decoder:
    """What a step of `batch` sequences reads of a model in bfloat16: experts that nobody visits stay unread.

    >>> from kgwalk.bench.shapes import shape_of
    >>> decoder_of_shape(shape_of("135M"), 256).weights  # the table is the head, so all of them
    134515008
    """
    read = shape.layer_weights + shape.table_weights  # the head; a table apart from it is only looked up in
    if shape.experts:
        visited = experts_visited(shape.experts, shape.chosen, batch)
        read -= round(shape.layers * (shape.experts - visited) * shape.expert_weights)
    return Decoder(
        read, shape.layers, shape.key_heads, shape.query_heads, shape.head_width, shape.vocabulary, itemsize=HALF
    )


def experts_visited(experts: int, chosen: int, tokens: int) -> float:
    """How many experts of a layer some token visits, if each token visits `chosen` of them, whichever.

    2 of 4, by 2 tokens: one expert is missed by both in a half times a half, so 3 of the 4 are visited.

    >>> experts_visited(4, 2, tokens=1), experts_visited(4, 2, tokens=2)
    (2.0, 3.0)
    """
    return float(experts * (1 - (1 - chosen / experts) ** tokens))


def active_step_operations(shape: ModelShape, batch: int, length: float) -> float:
    """`step_operations` of the experts that each token visits, the head included.

    >>> from kgwalk.bench.shapes import shape_of
    >>> active_step_operations(shape_of("135M"), 1, 0) == 2 * 134_515_008
    True
    """
    linear = 2 * (shape.active_layer_weights + shape.table_weights)
    return batch * (linear + 4 * shape.layers * shape.query_width * length)


# Passes over whole sequences


def forward_operations_a_token(shape: ModelShape, length: float, written: float) -> float:
    """Operations of a forward pass for one token of sequences of `length` tokens; `written` is the share of tokens that
    need logits: the model's own in training, none in a prompt.

    A token sees half of its sequence in the mean. 2 layers of 576 weights and a last norm of 8 (`ModelShape`), 2 query
    heads of width 4, 10 tokens of vocabulary, a sequence of 6, half of it written:
        layers      2 x (2 x 592 + 8)         = 2384
        attention   4 x 2 x 8 x 6 / 2         =  192
        head        2 x 10 x 8 x 0.5          =   80

    >>> tiny = ModelShape("tiny", 2, 8, 16, 2, 1, 4, 10, tied=True)
    >>> forward_operations_a_token(tiny, length=6, written=0.5)
    2656.0
    """
    head = 2 * shape.table_weights * written
    return 2 * shape.active_layer_weights + attention_operations_a_token(shape, length) + head


def attention_operations_a_token(shape: ModelShape, length: float) -> float:
    """2 for a query with a key and 2 for a share of a value, at each width, over half of the sequence."""
    return 4 * shape.layers * shape.query_width * length / 2


def training_operations_a_token(
    shape: ModelShape, length: float, written: float, *, lora: bool, recomputed: bool = False
) -> float:
    """Operations of a forward and a backward pass for one token: 6 a weight; with an adapter 4, as no gradient of the
    model's own weights is taken. `recomputed` passes go forward twice, as what they need is not kept.

    The same model and sequence: 2464 in layers and head, 192 in attention, whose backward pass costs twice its forward.

    >>> tiny = ModelShape("tiny", 2, 8, 16, 2, 1, 4, 10, tied=True)
    >>> training_operations_a_token(tiny, 6, 0.5, lora=False)  # 3 x 2464 + 3 x 192
    7968.0
    >>> training_operations_a_token(tiny, 6, 0.5, lora=True)  # 2 x 2464 + 3 x 192
    5504.0
    >>> training_operations_a_token(tiny, 6, 0.5, lora=True, recomputed=True)  # and forward once more
    8160.0
    """
    forward = forward_operations_a_token(shape, length, written)
    attention = attention_operations_a_token(shape, length)
    linear = forward - attention
    return (2 if lora else 3) * linear + 3 * attention + (forward if recomputed else 0)


# Memory, in bytes


def cache_bytes_a_token(shape: ModelShape) -> int:
    """A key and a value in each layer, in bfloat16.

    SmolLM2-135M: 30 layers, 3 key heads of 64:

    >>> from kgwalk.bench.shapes import shape_of
    >>> cache_bytes_a_token(shape_of("135M"))  # 2 x 30 x 3 x 64 x 2
    23040
    """
    return 2 * shape.layers * shape.key_width * HALF


def state_bytes(shape: ModelShape, lora_rank: int) -> dict[str, int]:
    """What training keeps of the weights themselves: all in float32, or with an adapter the model in bfloat16.

    1,272 weights, all trained: 4 bytes each, 4 for the gradient, 8 for AdamW's two moments. An adapter of rank 1 has
    2 x (2 x 16 + 2 x 12 + 3 x 24) = 256 weights:

    >>> tiny = ModelShape("tiny", 2, 8, 16, 2, 1, 4, 10, tied=True)
    >>> state_bytes(tiny, lora_rank=0)
    {'weights': 5088, 'gradients': 5088, 'optimiser': 10176}
    >>> state_bytes(tiny, lora_rank=1)
    {'weights': 3568, 'gradients': 1024, 'optimiser': 2048}
    """
    if lora_rank:
        trained = shape.adapter_weights(lora_rank)
        weights = HALF * shape.weights + SINGLE * trained
    else:
        trained = shape.weights
        weights = SINGLE * trained
    return {"weights": weights, "gradients": SINGLE * trained, "optimiser": 2 * SINGLE * trained}


def kept_bytes_a_token(shape: ModelShape) -> int:
    """Activations that a pass in bfloat16 keeps for its gradient.

    A layer keeps of a token: the inputs of two norms in float32 (4 x hidden numbers of 2 bytes), the norms' outputs
    (2), queries before and after rotation and the attention's output (3 x the queries' width), keys twice and values
    (3 x the keys'), and four vectors of each gated layer. SmolLM2-135M:
    2 x 30 x (6 x 576 + 3 x 576 + 3 x 192 + 4 x 1536).

    >>> from kgwalk.bench.shapes import shape_of
    >>> kept_bytes_a_token(shape_of("135M"))  # 0.7 MB were counted: docs/guides/training.md
    714240
    """
    gated = shape.intermediate * (shape.chosen or 1)
    return HALF * shape.layers * (6 * shape.hidden + 3 * (shape.query_width + shape.key_width) + 4 * gated)


def recomputed_bytes_a_token(shape: ModelShape) -> int:
    """The same where layers compute their activations again: each keeps its input, and one of them all else.

    >>> from kgwalk.bench.shapes import shape_of
    >>> recomputed_bytes_a_token(shape_of("135M"))  # 2 x 30 x 576, and 714,240 / 30
    58368
    """
    return HALF * shape.layers * shape.hidden + kept_bytes_a_token(shape) // shape.layers


def gather_seconds(whole_bytes: float, shards: int, *, link: float) -> float:
    """Seconds in which each GPU of `shards` gets what the others hold of `whole_bytes`.

    8 GB in 4 shards over links of 3 GB a second: 6 GB come from elsewhere.

    >>> gather_seconds(8e9, 4, link=3e9)
    2.0
    """
    return whole_bytes * (shards - 1) / shards / link
