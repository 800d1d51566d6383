"""Memory before it runs out: how many tokens of a microbatch fit, on a GPU or on the host.

What a pass keeps for its gradient is measured on a few tokens, not guessed from the model's sizes: it depends on the
family, the adapter and the types. Where a microbatch does not fit, `Updater.expect` makes it smaller, or computes
activations again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kgwalk.config.runtime import host_free
from kgwalk.llm.torch_engine.cuda_graphs import gpu_free
from kgwalk.training.fused import MULTIPLE
from kgwalk.training.logprobs import CHUNK, TokenScorer
from kgwalk.training.microbatch import PAIRS, collate
from kgwalk.types import Flat

PROBE = 32  # tokens
GPU_SHARE = 0.8  # of what is free once the model and the rollout engine are loaded
HOST_SHARE = 0.5  # of what is free: a processor's memory is shared with everything else
PEAK = 1.5  # of what is kept: with gradients on their way, 16,384 tokens took 27 GB on a GPU where 18 were kept
LOGITS = 4  # tensors of a chunk's logits in float32 at once: themselves, probabilities, gradients


def tokens_that_fit(scorer: TokenScorer, device: str) -> int:
    """The most tokens of a microbatch that keeps its activations: forward and backward, a chunk of logits included."""
    model: Any = scorer.model
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    left = free_bytes(device) - LOGITS * CHUNK * vocabulary * 4
    return max(0, int(left / (PEAK * max(1, bytes_a_token(scorer, device)))))


def bytes_a_token(scorer: TokenScorer, device: str) -> int:
    """What a token keeps: twice the tokens minus once, so that weights and their copies in another type drop out."""

    probe = MULTIPLE if scorer.quick else PROBE

    def pass_of(tokens: int) -> object:
        flat = Flat([1] * tokens, [0] * (tokens - 1) + [1], [0.0] * tokens, [])
        return scorer(collate([flat], None, 0).to(device))

    return (kept_bytes(lambda: pass_of(2 * probe)) - kept_bytes(lambda: pass_of(probe))) // probe


def kept_bytes(compute: Callable[[], object]) -> int:
    """The bytes that a computation keeps for its gradient.

    >>> weight, tokens = torch.ones(3, 5, requires_grad=True), torch.ones(7, 3)
    >>> kept_bytes(lambda: tokens @ weight)  # the gradient of the weight needs 7 x 3 numbers of 4 bytes
    84
    """
    kept: dict[int, int] = {}

    def keep(value: torch.Tensor) -> torch.Tensor:
        storage = value.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()  # several views of one tensor count once
        return value

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        made = compute()  # held until the sum is taken, so that no address is used twice
        found = sum(kept.values())
        del made
    return found


def pairs_a_token(scorer: TokenScorer) -> int:
    """Pairs of tokens in attention that need as many multiplications as one token in a layer's matrices.

    A matrix of n weights needs n for a token; scores and values need 2 for a pair and each number of a head's width.
    SmolLM2-135M: 3.5 million weights a layer, 9 heads of 64: 3,072.
    """
    model: Any = scorer.model
    config = model.config.get_text_config()
    heads = getattr(config, "num_attention_heads", None)
    if heads is None:
        return PAIRS  # no attention, or a family with its own name for it
    width = heads * (getattr(config, "head_dim", None) or config.hidden_size // heads)
    ends = (model.get_input_embeddings(), model.get_output_embeddings())
    embeddings = {id(end.weight) for end in ends if end is not None}
    weights = sum(value.numel() for value in model.parameters() if value.ndim == 2 and id(value) not in embeddings)
    return max(1, int(weights) // (2 * int(width) * int(config.num_hidden_layers)))


def free_bytes(device: str) -> int:
    """The bytes that activations may take."""
    if device.startswith("cuda"):
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(GPU_SHARE * (gpu_free(device) + unused))
    return int(HOST_SHARE * host_free())
