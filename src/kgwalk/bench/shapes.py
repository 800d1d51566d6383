"""The shapes of language models: their layers and widths, by name or from a config.json, and the weights that follow.

    shape_of("3B").weights                      # 3,085,938,688: Qwen2.5-3B
    shape_of("meta-llama/Llama-3.1-8B-Instruct")
    shape_of("my/model")                        # a Hugging Face folder, or its config.json

Numbers of weights follow from the shape, so that nothing is downloaded or loaded. Needs no torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from kgwalk.config.recipe import unknown
from kgwalk.types import InputError, KgwalkError


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder of the Llama family: attention with fewer keys than queries, gated layers, perhaps several experts.

    A model of 2 layers of width 8; 2 query heads and 1 key head of width 4; gates of 16; 10 tokens; a table that is the
    head, too. A layer: queries and out 8 x 8 each, keys and values 8 x 4 each, three gates 8 x 16, two norms of 8:

    >>> tiny = ModelShape("tiny", 2, 8, 16, 2, 1, 4, 10, tied=True)
    >>> tiny.attention_weights, tiny.expert_weights, tiny.weights  # 2 x (192 + 384 + 16) + a norm of 8 + a table of 80
    (192, 384, 1272)

    With 4 experts of which a token visits 1, a layer has a router of 8 x 4 as well, and three experts rest:

    >>> from dataclasses import replace
    >>> several = replace(tiny, experts=4, chosen=1)
    >>> several.weights - several.active_weights  # 2 layers x 3 experts x 384
    2304
    """

    name: str
    layers: int
    hidden: int
    intermediate: int  # of the gated layer; of one expert, where there are several
    query_heads: int
    key_heads: int
    head_width: int
    vocabulary: int
    tied: bool  # the table of embeddings is the head, too
    biased: bool = False  # queries, keys and values have a bias (Qwen2)
    normed: bool = False  # queries and keys are normalised in each head (Qwen3)
    experts: int = 0  # 0: one gated layer for all tokens
    chosen: int = 0  # experts that a token visits

    @property
    def query_width(self) -> int:
        return self.query_heads * self.head_width

    @property
    def key_width(self) -> int:
        return self.key_heads * self.head_width

    @property
    def attention_weights(self) -> int:
        """The matrices of one layer's attention: queries and out, keys and values."""
        return 2 * self.hidden * (self.query_width + self.key_width)

    @property
    def expert_weights(self) -> int:
        """The three matrices of one gated layer."""
        return 3 * self.hidden * self.intermediate

    @property
    def router_weights(self) -> int:
        return self.hidden * self.experts

    @property
    def vector_weights(self) -> int:
        """Norms and biases of one layer."""
        bias = self.query_width + 2 * self.key_width if self.biased else 0
        return 2 * self.hidden + bias + (2 * self.head_width if self.normed else 0)

    @property
    def table_weights(self) -> int:
        return self.vocabulary * self.hidden

    @property
    def layer_weights(self) -> int:
        """All weights of all layers, and the last norm."""
        gated = (self.experts or 1) * self.expert_weights
        each = self.attention_weights + gated + self.router_weights + self.vector_weights
        return self.layers * each + self.hidden

    @property
    def resting_weights(self) -> int:
        """Weights of experts that a token does not visit."""
        return self.layers * (self.experts - self.chosen) * self.expert_weights

    @property
    def active_layer_weights(self) -> int:
        """Weights of the layers that one token is multiplied with."""
        return self.layer_weights - self.resting_weights

    @property
    def weights(self) -> int:
        """All weights of the model."""
        return self.layer_weights + (1 if self.tied else 2) * self.table_weights

    @property
    def active_weights(self) -> int:
        return self.weights - self.resting_weights

    def adapter_weights(self, rank: int) -> int:
        """Weights of a LoRA adapter: `rank` x (inputs + outputs) for each matrix. Experts have none.

        SmolLM2-135M with rank 16: 4.9 million, 9.8 MB in bfloat16, as the agent that comes with kgwalk has.

        >>> shape_of("135M").adapter_weights(16)
        4884480
        """
        attention = 2 * (self.hidden + self.query_width) + 2 * (self.hidden + self.key_width)
        gated = self.hidden + self.experts if self.experts else 3 * (self.hidden + self.intermediate)
        return rank * self.layers * (attention + gated)


# The papers' models and ours, as their published config.json have them. The key is what people call the size.
KNOWN = {
    "135m": ModelShape("SmolLM2-135M", 30, 576, 1536, 9, 3, 64, 49_152, tied=True),
    "0.5b": ModelShape("Qwen2.5-0.5B", 24, 896, 4864, 14, 2, 64, 151_936, tied=True, biased=True),
    "1.5b": ModelShape("Qwen2.5-1.5B", 28, 1536, 8960, 12, 2, 128, 151_936, tied=True, biased=True),
    "3b": ModelShape("Qwen2.5-3B", 36, 2048, 11_008, 16, 2, 128, 151_936, tied=True, biased=True),
    "7b": ModelShape("Qwen2.5-7B", 28, 3584, 18_944, 28, 4, 128, 152_064, tied=False, biased=True),
    "8b": ModelShape("Llama-3.1-8B", 32, 4096, 14_336, 32, 8, 128, 128_256, tied=False),
    "30b": ModelShape(
        "Qwen3-30B-A3B", 48, 2048, 768, 32, 4, 128, 151_936, tied=False, normed=True, experts=128, chosen=8
    ),
}
_LEFT_OUT = re.compile(r"-(instruct|coder|gguf|it|chat|base|\d{4})(?=-|$)")  # of one shape with the model they are of


def shape_of(name: str) -> ModelShape:
    """The shape of a model by its size, its name, its folder or its config.json.

    >>> shape_of("Qwen/Qwen2.5-Coder-1.5B-Instruct").name, shape_of("30b").name
    ('Qwen2.5-1.5B', 'Qwen3-30B-A3B')
    """
    place = Path(name).expanduser()
    if place.is_dir():
        place = place / "config.json"
        if not place.is_file():
            raise KgwalkError(f"the folder {name} has no config.json; give a Hugging Face model's folder")
    if place.is_file():
        return shape_from_config(name, place)
    plain = _LEFT_OUT.sub("", name.lower().rpartition("/")[2])
    by_name = {shape.name.lower(): shape for shape in KNOWN.values()}
    found = KNOWN.get(plain) or by_name.get(plain)
    if found is None:
        error = unknown("model", name, [shape.name for shape in KNOWN.values()])
        raise KgwalkError(f"{error}\n  Or give a Hugging Face model's folder or its config.json.")
    return found


def shape_from_config(name: str, file: Path) -> ModelShape:
    """The shape that a Hugging Face config.json says; families that are built otherwise are counted only roughly."""
    try:
        told = orjson.loads(file.read_bytes())
        # A model that also sees pictures says there what its decoder is like.
        config: dict[str, Any] = {**told, **told.get("text_config", {})}
        heads = int(config["num_attention_heads"])
        hidden = int(config["hidden_size"])
        experts = int(config.get("num_experts") or config.get("num_local_experts") or 0)
        family = str(config.get("model_type", ""))
        return ModelShape(
            name=name,
            layers=int(config["num_hidden_layers"]),
            hidden=hidden,
            intermediate=int((experts and config.get("moe_intermediate_size")) or config["intermediate_size"]),
            query_heads=heads,
            key_heads=int(config.get("num_key_value_heads") or heads),
            head_width=int(config.get("head_dim") or hidden // heads),
            vocabulary=int(config["vocab_size"]),
            tied=bool(config.get("tie_word_embeddings", False)),
            biased=bool(config.get("attention_bias", family == "qwen2")),
            normed=family.startswith("qwen3"),
            experts=experts,
            chosen=int(config.get("num_experts_per_tok") or 0),
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError) as error:
        raise InputError(
            f"{file} does not say the shape of a decoder ({error}); give that of a causal model"
        ) from error
