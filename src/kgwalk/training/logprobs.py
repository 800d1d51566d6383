"""Log-probabilities of the tokens that a model wrote, without logits for all the others.

An episode is mostly prompt and observations, and logits are as wide as the vocabulary. So the head runs only on the
hidden states before the marked tokens, a chunk at a time, and a chunk's logits are computed again in the backward pass
instead of being kept. As in the local engine, the head gives logits in float32 (`widen_head`), at temperature 1.

Some families change their logits after the head: Gemma 2 caps them, Granite and Cohere scale them. A probe on a few
tokens finds this out, and then the model's own forward is used and all its logits are made.

Where a grammar constrained what could be written (`Batch.allowed_UW`), probabilities are among the allowed tokens, as
the engine's are.
Shapes: B sequences of T tokens in R rows of L, N marked tokens, D width, V vocabulary; U sets of allowed tokens as W
bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils.checkpoint import checkpoint

from kgwalk.llm.torch_engine.sampling import widen_head
from kgwalk.training import fused
from kgwalk.training.microbatch import Batch, Head, computed_in, inputs_of, parts_of, plain_of
from kgwalk.training.probes import (
    compiled_alike,
    head_is_last,
    new_adapter,
    probe_gradients,
    takes_trees,
)
from kgwalk.types import KgwalkError

# Lengths, in MULTIPLEs, that `fuse` compares: the first is compiled for its own length, the next for any length.
PROBED = (1, 2, 3)
CHUNK = 1024  # marked tokens whose logits exist at once: 200 MB in float32 for a vocabulary of 49,152

log = logging.getLogger(__name__)

Scored = Callable[[torch.Tensor, torch.Tensor, bool, torch.Tensor | None], tuple[torch.Tensor, torch.Tensor]]


class TokenScores(NamedTuple):
    """`logprobs_BT[b, t]` is the log-probability of token t of sequence b, given those before it.

    `entropy_BT` is the entropy in nats of the distribution that the token was drawn from, without gradient. Both are 0
    where the mask is 0.
    """

    logprobs_BT: torch.Tensor
    entropy_BT: torch.Tensor


class TokenScorer(torch.nn.Module):
    """Scores tokens by `model`, any Hugging Face causal language model, with or without a PEFT adapter around it.

    It is a module itself, so that it can be wrapped for several devices (DDP, FSDP): its forward is the training pass.
    The caller decides whether the model is in training mode. What the probes found:

    - `whole_logits`: the model needs its own forward (see above).
    - `takes_trees`: rows may have more than one branch.
    - `quick`: the pass is fused (`fuse`), and a microbatch must be one row of a multiple of `fused.MULTIPLE` tokens.
    - `joined`: adapters are joined to their layers, so all layers compute in one type.
    """

    def __init__(self, model: torch.nn.Module, *, chunk: int = CHUNK, probe: bool = True) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        if chunk < 1:
            raise KgwalkError(f"chunk must be at least 1; it is {chunk}")
        widen_head(plain_of(model))
        self.model = model
        self.chunk = chunk
        self.whole_logits, self.takes_trees = True, False  # right for every model
        if probe:
            self.probe()
        self.quick = self.joined = False
        self._scored = logprob_and_entropy

    def fuse(self, **options: Any) -> bool:
        """Make the training pass a fused one (`fused`); `options` are torch.compile's. Returns whether it worked.

        Log-probabilities and gradients of a few tokens are compared before and after. If they differ, or the model
        cannot be compiled, everything is put back as it was.
        """
        if self.whole_logits or not self.takes_trees:
            return False
        plain = plain_of(self.model)
        before, dtype = plain.config._attn_implementation, computed_in(self.model, plain.device.type)
        with new_adapter(self.model):
            expected = [probe_gradients(self.model, self._logprobs, rows) for rows in PROBED]
        self.joined = fused.join_adapters(self.model)
        fused.use_tree_attention(plain)
        fused.compile_layers(plain, **options)
        self.quick, self._scored = True, torch.compile(logprob_and_entropy, dynamic=True, **options)
        try:
            kind = plain.device.type
            with (
                new_adapter(self.model),
                torch.autocast(kind, enabled=not self.joined and torch.is_autocast_enabled(kind)),
            ):
                found = [probe_gradients(self.model, self._logprobs, rows) for rows in PROBED]
            if compiled_alike(found, expected, dtype):
                return True
        except Exception as error:  # noqa: BLE001 - whatever the compiler raises, the pass works without it
            log.warning("this model cannot be compiled (%s); its layers are run as written", str(error).split("\n")[0])
        self.quick, self.joined, self._scored = False, False, logprob_and_entropy
        fused.restore(self.model, plain, before)
        return False

    def _logprobs(self, batch: Batch) -> torch.Tensor:
        return TokenScores(*self(batch)).logprobs_BT

    def probe(self) -> None:
        """Find out on a few tokens what the model can do; for a scorer that was made with `probe` false."""
        parts = parts_of(self.model)
        self.whole_logits = parts is None or not head_is_last(self.model, *parts)
        self.takes_trees = takes_trees(self.model)

    def forward(self, batch: Batch, *, entropy: bool = False) -> TokenScores:
        """The scores of a microbatch. Without `entropy` the entropies are all 0."""
        inputs = inputs_of(self.model, batch, self.quick)
        parts = None if self.whole_logits else parts_of(self.model)
        if parts is None:
            found_RLD = self.model(**inputs).logits
            if found_RLD.shape[1] != batch.ids_RL.shape[1]:
                raise KgwalkError(
                    f"the model made logits for {found_RLD.shape[1]} places of {batch.ids_RL.shape[1]} tokens; "
                    "adapters that put tokens of their own before a text cannot be trained here, LoRA can"
                )
            head: Head = torch.nn.Identity()
        else:
            decoder, head = parts
            found_RLD = decoder(**inputs).last_hidden_state
        state_ND = found_RLD.flatten(0, 1).index_select(0, batch.before_N)
        logprob_N, entropy_N = _in_chunks(head, self._scored, state_ND, batch, self.chunk, entropy)
        blank = torch.zeros(batch.mask_BT.numel(), dtype=torch.float32, device=batch.mask_BT.device)
        place = (batch.place_N,)
        shape = batch.mask_BT.shape
        return TokenScores(blank.index_put(place, logprob_N).view(shape), blank.index_put(place, entropy_N).view(shape))


def logprob_and_entropy(
    logits_NV: torch.Tensor, target_N: torch.Tensor, entropy: bool = True, allowed_NW: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """log softmax(logits)[target], in float32, and the distribution's entropy in nats without gradient.

    `allowed_NW` has a bit for each token that counts, the first in the lowest bit of the first byte; those past its end
    do not count.

    >>> logits = torch.tensor([[0.0, 0.0], [1.0986123, 0.0]])  # e^1.0986 = 3: probabilities 1/2, 1/2 and 3/4, 1/4
    >>> logprob, h = logprob_and_entropy(logits, torch.tensor([0, 1]))
    >>> logprob.exp()
    tensor([0.5000, 0.2500])
    >>> h  # ln 2, and 3/4 ln(4/3) + 1/4 ln 4
    tensor([0.6931, 0.5623])
    >>> logprob_and_entropy(torch.zeros(1, 3), torch.tensor([1]), True, torch.tensor([[0b011]], dtype=torch.uint8))
    (tensor([-0.6931]), tensor([0.6931]))
    """
    logits_NV = logits_NV.float()
    if allowed_NW is not None:
        bit = torch.arange(8, dtype=torch.uint8, device=logits_NV.device)
        known = min(8 * allowed_NW.shape[1], logits_NV.shape[1])
        allowed_NV = ((allowed_NW[:, :, None] >> bit) & 1).bool().flatten(1)[:, :known]
        if known < logits_NV.shape[1]:
            allowed_NV = torch.nn.functional.pad(allowed_NV, (0, logits_NV.shape[1] - known))
        logits_NV = logits_NV.masked_fill(~allowed_NV, float("-inf"))
    normaliser_N = logits_NV.logsumexp(-1)
    logprob_N = logits_NV.gather(1, target_N[:, None])[:, 0] - normaliser_N
    if not entropy:
        return logprob_N, torch.zeros_like(normaliser_N.detach())
    with torch.no_grad():  # H = log Z - sum p x
        probability_NV = (logits_NV - normaliser_N[:, None]).exp()
        # A token with logit -inf has probability 0 and adds 0 to the sum.
        mean_N = torch.where(probability_NV > 0, probability_NV * logits_NV, 0.0).sum(-1)
        return logprob_N, normaliser_N - mean_N


def _in_chunks(
    head: Head, scored: Scored, state_ND: torch.Tensor, batch: Batch, chunk: int, entropy: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    sets_N = batch.target_N if batch.set_N is None else batch.set_N

    def score(state_nD: torch.Tensor, target_n: torch.Tensor, set_n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        allowed_nW = None if batch.allowed_UW is None else batch.allowed_UW[set_n]
        return scored(head(state_nD), target_n, entropy, allowed_nW)

    count = len(batch.target_N)
    again = torch.is_grad_enabled() and count > chunk  # the logits of a single chunk are kept
    scores = []
    for start in range(0, max(count, 1), chunk):  # without marked tokens one empty chunk, so that a gradient (0) exists
        part = slice(start, start + chunk)
        some = state_ND[part], batch.target_N[part], sets_N[part]
        if again:
            # The head draws no random numbers, so no generator state has to be kept.
            scores.append(checkpoint(score, *some, use_reentrant=False, preserve_rng_state=False))
        else:
            scores.append(score(*some))
    logprobs, entropies = zip(*scores, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)
