"""Log-probabilities of the tokens a model wrote, without logits for the tokens it did not write.

An episode is mostly prompt and observations, and logits are as wide as the vocabulary. So the head runs only on the
hidden states before the marked tokens, a chunk at a time, and a chunk's logits are computed again in the backward pass
instead of kept. As in the local engine the logits are taken in float32 at temperature 1. Knows nothing of rewards or
losses.

Where a family does something to its logits after the head (Gemma 2 caps them, Granite and Cohere scale them), which is
seen by comparing once on a few tokens, the model's own forward is used and all its logits are made.
Sequences that begin alike are computed in one row, their branches hidden from one another (`tree_mask`).
Shapes: B sequences of T tokens in R rows of L, N marked tokens, D width, V vocabulary.
"""

from __future__ import annotations

import inspect
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.utils.checkpoint import checkpoint

from kgwalk.training import lean
from kgwalk.training.microbatch import Batch, collate, pack
from kgwalk.training.trees import trees
from kgwalk.types import Flat, KgwalkError

# Rows of so many MULTIPLEs are compared by `quicken`: what is compiled for one length is made anew for any at the next.
TRIED = (1, 2, 3)
CHUNK = 1024  # marked tokens whose logits exist at once: 200 MB in float32 for a vocabulary of 49,152

log = logging.getLogger(__name__)

Head = Callable[[torch.Tensor], torch.Tensor]
Scored = Callable[[torch.Tensor, torch.Tensor, bool], tuple[torch.Tensor, torch.Tensor]]
Tried = tuple[torch.Tensor, torch.Tensor]  # log-probabilities, gradients


class TokenScores(NamedTuple):
    """`logprobs_BT[b, t]` is the log-probability of token t of sequence b after those before it, where the mask is 1,
    else 0; so is `entropy_BT`, in nats, of the whole distribution that the token was drawn from (no gradient).
    """

    logprobs_BT: torch.Tensor
    entropy_BT: torch.Tensor


class TokenScorer(torch.nn.Module):
    """Scores tokens by `model`, any Hugging Face causal language model, with or without a PEFT adapter around it.

    A module itself, so that it can be wrapped for several devices (DDP, FSDP): its forward is the training pass.
    `whole_logits` says whether the model needs its own forward (see above), `takes_trees` whether rows may have more
    than one branch, `quick` whether a microbatch is to be one row of a multiple of `lean.MULTIPLE` tokens (`quicken`),
    `joined` whether its layers then are all of the type that it computes in.
    Whether the model is in training mode is for the caller to say.
    """

    def __init__(self, model: torch.nn.Module, *, chunk: int = CHUNK, tried: bool = True) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        if chunk < 1:
            raise KgwalkError(f"chunk must be at least 1; it is {chunk}")
        self.model = model
        self.chunk = chunk
        self.whole_logits, self.takes_trees = True, False  # right for every model
        if tried:
            self.try_out()
        self.quick = self.joined = False
        self._scored = logprob_and_entropy

    def quicken(self, **options: Any) -> bool:
        """Compile the model's layers, and give it attention that looks at a row's blocks (`lean`); `options` are
        torch.compile's. Log-probabilities and gradients of a few tokens are compared with what they were: where they
        differ, or it cannot be done, all stays as it was.
        """
        if self.whole_logits or not self.takes_trees:
            return False
        plain = _plain(self.model)
        before, dtype = plain.config._attn_implementation, _computed_in(self.model, plain.device.type)
        with _new_adapter(self.model):
            expected = [_tried(self, rows) for rows in TRIED]
        self.joined = lean.join_adapters(self.model)
        lean.use_tree_attention(plain)
        lean.compile_layers(plain, **options)
        self.quick, self._scored = True, torch.compile(logprob_and_entropy, dynamic=True, **options)
        try:
            kind = plain.device.type
            with (
                _new_adapter(self.model),
                torch.autocast(kind, enabled=not self.joined and torch.is_autocast_enabled(kind)),
            ):
                found = [_tried(self, rows) for rows in TRIED]
            apart = [_apart(*pair) for pair in zip(found, expected, strict=True)]
            if all(_rounded(one, dtype) for one in apart):
                return True
            log.warning(
                "compiled, this model computes something else, by %.2g of its log-probabilities and %.2g of their "
                "gradients; its layers are run as written",
                *(max(each) for each in zip(*apart, strict=True)),
            )
        except Exception as error:  # noqa: BLE001 - of the compiler, or of what it made: there is a way without it
            log.warning("this model cannot be compiled (%s); its layers are run as written", str(error).split("\n")[0])
        self.quick, self.joined, self._scored = False, False, logprob_and_entropy
        lean.restore(self.model, plain, before)
        return False

    def try_out(self) -> None:
        """See on a few tokens what the model can do; for whoever made the scorer with `tried` false."""
        parts = _parts(self.model)
        self.whole_logits = parts is None or not _head_is_last(self.model, *parts)
        self.takes_trees = _takes_trees(self.model)

    def forward(self, batch: Batch, *, entropy: bool = False) -> TokenScores:
        """Without `entropy` that field is all 0."""
        inputs = _inputs(self.model, batch, self.quick)
        parts = None if self.whole_logits else _parts(self.model)
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
        logprob_N, entropy_N = _in_chunks(head, self._scored, state_ND, batch.target_N, self.chunk, entropy)
        blank = torch.zeros(batch.mask_BT.numel(), dtype=torch.float32, device=batch.mask_BT.device)
        place = (batch.place_N,)
        shape = batch.mask_BT.shape
        return TokenScores(blank.index_put(place, logprob_N).view(shape), blank.index_put(place, entropy_N).view(shape))


def tree_mask(end_RL: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What is added to the scores of attention, (R, 1, L, L): 0 where token i of a row may see token j, else the least
    number there is. It sees itself and what comes before it, as far as it goes on from that.

    >>> tree_mask(torch.tensor([[4, 2, 4, 4]]), torch.float32) == 0
    tensor([[[[ True, False, False, False],
              [ True,  True, False, False],
              [ True, False,  True, False],
              [ True, False,  True,  True]]]])
    """
    at_L = torch.arange(end_RL.shape[1], device=end_RL.device)
    seen_RLL = (at_L[:, None] >= at_L) & (at_L[:, None] < end_RL[:, None, :])
    # Made once in the type that attention computes in: from True and False it would be made anew in every layer.
    hidden = torch.full((), torch.finfo(dtype).min, dtype=dtype, device=end_RL.device)
    return torch.where(seen_RLL, torch.zeros_like(hidden), hidden)[:, None]


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
    head: Head, scored: Scored, state_ND: torch.Tensor, target_N: torch.Tensor, chunk: int, entropy: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    def score(state_nD: torch.Tensor, target_n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return scored(head(state_nD), target_n, entropy)

    count = len(target_N)
    again = torch.is_grad_enabled() and count > chunk  # one chunk's logits may as well be kept
    scores = []
    for start in range(0, max(count, 1), chunk):  # with nothing marked one empty chunk, so that a gradient (0) exists
        part = slice(start, start + chunk)
        if again:
            # Nothing is drawn in it: there is no state of luck to keep.
            scores.append(
                checkpoint(score, state_ND[part], target_N[part], use_reentrant=False, preserve_rng_state=False)
            )
        else:
            scores.append(score(state_ND[part], target_N[part]))
    logprobs, entropies = zip(*scores, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


def _parts(model: torch.nn.Module) -> tuple[torch.nn.Module, Head] | None:
    """What makes hidden states, and the head that makes logits of them; None where they cannot be told apart.

    Looked up for each pass, as wrapping a model for several devices may put other modules in their place.
    """
    plain = _plain(model)
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
    ids = torch.arange(8, device=next(model.parameters()).device)[None]
    inputs = {"input_ids": ids, "use_cache": False}
    seen: list[Any] = []
    hook = decoder.register_forward_hook(lambda module, args, out: seen.append(out))
    try:
        with _without_dropout(model):
            logits = model(**inputs).logits
            alone = decoder(**inputs)
    finally:
        hook.remove()
    if len(seen) != 2 or not hasattr(seen[0], "last_hidden_state"):  # the model's pass, and the decoder's alone
        return False
    states, states_alone = seen[0].last_hidden_state, alone.last_hidden_state
    if states.shape != states_alone.shape or not torch.equal(head(states).float(), logits.float()):
        return False
    return _close(states_alone, states)


def _walks(model: torch.nn.Module) -> list[Flat]:
    """A few tokens to try a model on: three walks from one prompt, two of them with the same first token.

    From all over the vocabulary: of SmolLM2's first few, which no text begins with, gradients in bfloat16 are mostly
    rounding (0.77 of their norm; of these 0.04, and 0.66 is what branches that see each other make).
    """
    draw = random.Random(0)
    size = _plain(model).get_input_embeddings().weight.shape[0]
    prompt, first = [[draw.randrange(size) for _ in range(count)] for count in (12, 1)]
    begun: tuple[list[int], ...] = (first, first, [])
    written = [[*begin, *(draw.randrange(size) for _ in range(6 - len(begin)))] for begin in begun]
    return [Flat([*prompt, *ids], [0] * 12 + [1] * 6, [0.0] * 18, []) for ids in sorted(written)]  # as trees order them


@torch.no_grad()
def _takes_trees(model: torch.nn.Module) -> bool:
    """Whether branches in a row are what they are in rows of their own, tried on a few tokens, dropout off.

    Not so where a family takes no positions or no mask of this kind, and not where layers look back a few thousand
    tokens only: transformers leaves such a window out when it is given a whole mask, and a few tokens do not show it.
    """
    plain = _plain(model)
    own_tokens = getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False)
    if own_tokens or _has_windows(plain) or "position_ids" not in inspect.signature(plain.forward).parameters:
        return False
    device = next(model.parameters()).device
    walks = _walks(model)
    with _without_dropout(model):
        together, alone = (
            model(**_inputs(model, batch)).logits.flatten(0, 1).index_select(0, batch.before_N)
            for batch in (collate(walks, None, 0, rows=rows).to(device) for rows in (trees(walks, 1 << 20), None))
        )
    return _close(together, alone)


def _has_windows(plain: Any) -> bool:
    config = plain.config.get_text_config() if hasattr(plain.config, "get_text_config") else plain.config
    kinds = getattr(config, "layer_types", None)
    if kinds:
        return any(kind != "full_attention" for kind in kinds)
    return getattr(config, "sliding_window", None) is not None


def _close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Up to rounding: 0.02 of the norm is what bfloat16 may lose over some dozen layers."""
    most = 0.02 if expected.dtype in (torch.bfloat16, torch.float16) else 1e-3
    return bool((found - expected).float().norm() <= most * expected.float().norm())


def _apart(found: Tried, expected: Tried) -> tuple[float, float]:
    """By how much of their norms log-probabilities differ, and their gradients."""
    one, other = (
        float((mine - theirs).norm() / theirs.norm().clamp(min=1e-30))
        for mine, theirs in zip(found, expected, strict=True)
    )
    return one, other


def _rounded(apart: tuple[float, float], dtype: torch.dtype) -> bool:
    """Whether that may be rounding. In bfloat16 log-probabilities of 30 layers differ from float32's by 0.004 of their
    norm, and gradients by 0.04; if branches see each other, by 0.06 and 0.66. In float32 by 1e-6.
    """
    half = dtype in (torch.bfloat16, torch.float16)
    return all(value <= most for value, most in zip(apart, (0.02, 0.2) if half else (1e-3, 1e-3), strict=True))


@contextmanager
def _without_dropout(model: torch.nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()  # type: ignore[no-untyped-call,unused-ignore]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def _new_adapter(model: torch.nn.Module) -> Iterator[None]:
    """Inside, what an adapter has learnt is nearly nothing.

    To a model that was trained for its task alone, tokens from all over mean so little that gradients in bfloat16 are
    mostly rounding again: 0.33 of their norm for a trained SmolLM2, 0.05 before.
    """
    own = [value for name, value in model.named_parameters() if ".lora_B." in name]
    kept = [value.detach().clone() for value in own]
    device = next(model.parameters()).device
    luck = torch.Generator(device).manual_seed(0)
    with torch.no_grad():
        for value in own:
            value.normal_(0, 1e-3, generator=luck)
    torch.clear_autocast_cache()  # it keeps the weights as they were cast first
    try:
        yield
    finally:
        with torch.no_grad():
            for value, before in zip(own, kept, strict=True):
                value.copy_(before)
        torch.clear_autocast_cache()


def _tried(scorer: TokenScorer, times: int) -> Tried:
    """Log-probabilities of a few tokens in a row of so many times MULTIPLE, and their gradients for all that learns,
    one after the other.
    """
    model = scorer.model
    device = next(model.parameters()).device
    length = times * lean.MULTIPLE
    [(_, batch)] = pack(_walks(model), None, budget=length, pad_id=0, side_by_side=True, multiple=length)
    with _without_dropout(model), torch.enable_grad():
        found = scorer(batch.to(device)).logprobs_BT
        learnt = [value for value in model.parameters() if value.requires_grad]
        total = (found * torch.arange(found.numel(), device=device).view_as(found)).sum()
        # Of a part that sees pictures, say, nothing comes into a text's log-probabilities: its gradient is 0.
        gradients = torch.autograd.grad(total, learnt, allow_unused=True, materialize_grads=True)
    return found.detach(), torch.cat([gradient.float().flatten() for gradient in gradients])


def _inputs(model: torch.nn.Module, batch: Batch, quick: bool = False) -> dict[str, Any]:
    """Without a second branch in any row there is nothing to say: a family counts and looks back from the left, and
    padding is on the right. So attention runs its quickest kernel there.
    """
    inputs: dict[str, Any] = {"input_ids": batch.ids_RL, "use_cache": False}
    if quick and batch.ids_RL.is_cuda:  # a processor has no gradient of attention by blocks
        end_L = torch.full_like(batch.ids_RL[0], batch.ids_RL.shape[1]) if batch.end_RL is None else batch.end_RL[0]
        return inputs | {"position_ids": batch.position_RL, "attention_mask": lean.sight(end_L)}
    if batch.end_RL is not None:
        inputs["position_ids"] = batch.position_RL
        inputs["attention_mask"] = tree_mask(batch.end_RL, _computed_in(model, batch.ids_RL.device.type))
    return inputs


def _computed_in(model: torch.nn.Module, kind: str) -> torch.dtype:
    """The type that the passes run in."""
    if torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    dtype: torch.dtype = _plain(model).get_input_embeddings().weight.dtype
    return dtype


def _plain(model: torch.nn.Module) -> Any:
    """Without an adapter around it."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model  # type: ignore[operator]
