"""Log-probabilities of the tokens a model wrote, without logits for the tokens it did not write.

An episode is mostly prompt and observations, and logits are as wide as the vocabulary. So the head runs only on the
hidden states before the marked tokens, a chunk at a time, and a chunk's logits are computed again in the backward pass
instead of kept. As in the local engine the logits are taken in float32 at temperature 1. Knows nothing of rewards or
losses.

Where a family does something to its logits after the head (Gemma 2 caps them, Granite and Cohere scale them), which is
seen by comparing once on a few tokens, the model's own forward is used and all its logits are made.
Shapes: B sequences, T tokens, N marked tokens, D width, V vocabulary.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils.checkpoint import checkpoint

from kgwalk.types import KgwalkError

CHUNK = 1024  # marked tokens whose logits exist at once: 200 MB in float32 for a vocabulary of 49,152

Head = Callable[[torch.Tensor], torch.Tensor]


class TokenScores(NamedTuple):
    """`logprobs_BT[b, t]` is log p(ids[b, t] | ids[b, :t]) where the mask is 1, else 0; so is `entropy_BT`, in nats,
    of the whole distribution that the token was drawn from (no gradient).
    """

    logprobs_BT: torch.Tensor
    entropy_BT: torch.Tensor


class TokenScorer(torch.nn.Module):
    """Scores tokens by `model`, any Hugging Face causal language model, with or without a PEFT adapter around it.

    A module itself, so that it can be wrapped for several devices (DDP, FSDP): its forward is the training pass.
    `whole_logits` says whether the model needs its own forward (see above). Whether the model is in training mode is
    for the caller to say.
    """

    def __init__(self, model: torch.nn.Module, *, chunk: int = CHUNK) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        if chunk < 1:
            raise KgwalkError(f"chunk must be at least 1; it is {chunk}")
        self.model = model
        self.chunk = chunk
        parts = _parts(model)
        self.whole_logits = parts is None or not _head_is_last(model, *parts)

    def forward(
        self,
        ids_BT: torch.Tensor,
        attention_BT: torch.Tensor,
        mask_BT: torch.Tensor,
        position_BT: torch.Tensor | None = None,
        *,
        entropy: bool = False,
    ) -> TokenScores:
        """`mask_BT` marks the tokens to score. Without `entropy` that field is all 0."""
        row_N, column_N = mask_BT.nonzero(as_tuple=True)
        if bool((column_N == 0).any()):
            raise KgwalkError("the first token of a sequence is marked, and nothing before it predicts it")
        before = (row_N, column_N - 1)  # the state that predicts a token is that of the token before it
        inputs = _inputs(self.model, ids_BT, attention_BT, position_BT)
        parts = None if self.whole_logits else _parts(self.model)
        if parts is None:
            logits_BTV = self.model(**inputs).logits
            if logits_BTV.shape[1] != ids_BT.shape[1]:
                raise KgwalkError(
                    f"the model made logits for {logits_BTV.shape[1]} places of {ids_BT.shape[1]} tokens; adapters "
                    "that put tokens of their own before a text cannot be trained here, LoRA can"
                )
            head: Head = torch.nn.Identity()
            state_ND = logits_BTV[before]
        else:
            decoder, head = parts
            state_ND = decoder(**inputs).last_hidden_state[before]
        logprob_N, entropy_N = _in_chunks(head, state_ND, ids_BT[row_N, column_N], self.chunk, entropy)
        blank_BT = torch.zeros(ids_BT.shape, dtype=torch.float32, device=ids_BT.device)
        place = (row_N, column_N)
        return TokenScores(blank_BT.index_put(place, logprob_N), blank_BT.index_put(place, entropy_N))


def logprob_and_entropy(
    logits_NV: torch.Tensor, target_N: torch.Tensor, entropy: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """log softmax(logits)[target], in float32, and the distribution's entropy in nats without gradient.

    >>> logits = torch.tensor([[0.0, 0.0], [1.0986123, 0.0]])  # e^1.0986 = 3: probabilities 1/2, 1/2 and 3/4, 1/4
    >>> logprob, h = logprob_and_entropy(logits, torch.tensor([0, 1]))
    >>> logprob.exp()
    tensor([0.5000, 0.2500])
    >>> h  # ln 2, and 3/4 ln(4/3) + 1/4 ln 4
    tensor([0.6931, 0.5623])
    """
    logits_NV = logits_NV.float()
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
    head: Head, state_ND: torch.Tensor, target_N: torch.Tensor, chunk: int, entropy: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    def score(state_nD: torch.Tensor, target_n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return logprob_and_entropy(head(state_nD), target_n, entropy)

    count = len(target_N)
    again = torch.is_grad_enabled() and count > chunk  # one chunk's logits may as well be kept
    scores = []
    for start in range(0, max(count, 1), chunk):  # with nothing marked one empty chunk, so that a gradient (0) exists
        part = slice(start, start + chunk)
        if again:
            scores.append(checkpoint(score, state_ND[part], target_N[part], use_reentrant=False))
        else:
            scores.append(score(state_ND[part], target_N[part]))
    logprobs, entropies = zip(*scores, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


def _parts(model: torch.nn.Module) -> tuple[torch.nn.Module, Head] | None:
    """What makes hidden states, and the head that makes logits of them; None where they cannot be told apart.

    Looked up for each pass, as wrapping a model for several devices may put other modules in their place.
    """
    plain: Any = model.get_base_model() if hasattr(model, "get_base_model") else model  # type: ignore[operator]
    if not hasattr(plain, "get_output_embeddings") or not hasattr(plain, "get_decoder"):
        return None
    head, decoder = plain.get_output_embeddings(), plain.get_decoder()
    return None if head is None or decoder is None or decoder is plain else (decoder, head)


@torch.no_grad()
def _head_is_last(model: torch.nn.Module, decoder: torch.nn.Module, head: Head) -> bool:
    """Whether head(decoder(tokens)) is what the model itself calls logits, on a few tokens, dropout off.

    The head is given the very states of the model's own pass, and must then give the same numbers: a cap at 30 changes
    a logit of 1 by 0.0004 only, which a tolerance would let through. A pass of the decoder alone may differ by
    rounding; it differs by more where the model gives its decoder more than tokens (a prefix of PEFT).
    """
    device = next(model.parameters()).device
    ids = torch.arange(8, device=device)[None]
    inputs = _inputs(model, ids, torch.ones_like(ids), None)
    seen: list[Any] = []
    modes = [(module, module.training) for module in model.modules()]
    hook = decoder.register_forward_hook(lambda module, args, out: seen.append(out))
    try:
        model.eval()  # type: ignore[no-untyped-call,unused-ignore]
        logits = model(**inputs).logits
        alone = decoder(**inputs)
    finally:
        hook.remove()
        for module, training in modes:
            module.training = training
    if len(seen) != 2 or not hasattr(seen[0], "last_hidden_state"):  # the model's pass, and the decoder's alone
        return False
    states, states_alone = seen[0].last_hidden_state, alone.last_hidden_state
    if states.shape != states_alone.shape or not torch.equal(head(states).float(), logits.float()):
        return False
    return bool((states - states_alone).float().norm() <= 0.02 * states.float().norm())


def _inputs(
    model: torch.nn.Module, ids_BT: torch.Tensor, attention_BT: torch.Tensor, position_BT: torch.Tensor | None
) -> dict[str, Any]:
    inputs: dict[str, Any] = {"input_ids": ids_BT, "attention_mask": attention_BT, "use_cache": False}
    plain: Any = model.get_base_model() if hasattr(model, "get_base_model") else model  # type: ignore[operator]
    if position_BT is not None and "position_ids" in inspect.signature(plain.forward).parameters:
        inputs["position_ids"] = position_BT  # families that are not told count from the left, as right padding does
    return inputs
