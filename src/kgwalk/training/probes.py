"""What a model can do, tried on a few tokens: whether its head comes last, whether rows may fork, whether two ways of
computing it are one.

Dropout is off in all of it. Knows nothing of real sequences or losses.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import logging
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import xxhash

from kgwalk.config.cache import cache_folder
from kgwalk.config.run_folder import read_json, write_json
from kgwalk.training import fused
from kgwalk.training.fused import Head, computed_in, inputs_of, plain_of
from kgwalk.training.microbatch import Batch, collate, pack, trees
from kgwalk.types import Flat

Score = Callable[[Batch], torch.Tensor]  # a microbatch's log-probabilities
LossAndLogits = tuple[torch.Tensor, torch.Tensor]  # log-probabilities, gradients


@torch.no_grad()
def head_is_last(model: torch.nn.Module, decoder: torch.nn.Module, head: Head) -> bool:
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
    return _close(states_alone, states, states.dtype)


def walks_for(model: torch.nn.Module) -> list[Flat]:
    """A few tokens to try a model on: three walks from one prompt, two of them with the same first token.

    From all over the vocabulary: of SmolLM2's first few, which no text begins with, gradients in bfloat16 are mostly
    rounding (0.77 of their norm; of these 0.04, and 0.66 is what branches that see each other make).
    """
    draw = random.Random(0)
    size = plain_of(model).get_input_embeddings().weight.shape[0]
    prompt, first = [[draw.randrange(size) for _ in range(count)] for count in (12, 1)]
    begun: tuple[list[int], ...] = (first, first, [])
    written = [[*begin, *(draw.randrange(size) for _ in range(6 - len(begin)))] for begin in begun]
    return [Flat([*prompt, *ids], [0] * 12 + [1] * 6, [0.0] * 18, []) for ids in sorted(written)]  # as trees order them


@torch.no_grad()
def takes_trees(model: torch.nn.Module) -> bool:
    """Whether branches in a row are what they are in rows of their own, tried on a few tokens, dropout off.

    Not so where a family takes no positions or no mask of this kind, and not where layers look back a few thousand
    tokens only: transformers leaves such a window out when it is given a whole mask, and a few tokens do not show it.
    """
    plain = plain_of(model)
    own_tokens = getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False)
    if own_tokens or _has_windows(plain) or "position_ids" not in inspect.signature(plain.forward).parameters:
        return False
    device = next(model.parameters()).device
    walks = walks_for(model)
    with _without_dropout(model):
        together, alone = (
            model(**inputs_of(model, batch)).logits.flatten(0, 1).index_select(0, batch.before_N)
            for batch in (collate(walks, None, 0, rows=rows).to(device) for rows in (trees(walks, 1 << 20), None))
        )
    return _close(together, alone, computed_in(model, device.type))  # the logits may be of a wider type


def _has_windows(plain: Any) -> bool:
    config = plain.config.get_text_config() if hasattr(plain.config, "get_text_config") else plain.config
    kinds = getattr(config, "layer_types", None)
    if kinds:
        return any(kind != "full_attention" for kind in kinds)
    return getattr(config, "sliding_window", None) is not None


def _close(found: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> bool:
    """Up to the rounding of passes in `dtype`: 0.02 of the norm is what bfloat16 may lose over some dozen layers."""
    most = 0.02 if dtype in (torch.bfloat16, torch.float16) else 1e-3
    return bool((found - expected).float().norm() <= most * expected.float().norm())


def apart(found: LossAndLogits, expected: LossAndLogits) -> tuple[float, float]:
    """By how much of their norms log-probabilities differ, and their gradients."""
    one, other = (
        float((mine - theirs).norm() / theirs.norm().clamp(min=1e-30))
        for mine, theirs in zip(found, expected, strict=True)
    )
    return one, other


def rounded(between: tuple[float, float], dtype: torch.dtype) -> bool:
    """Whether that may be rounding. In bfloat16 log-probabilities of 30 layers differ from float32's by 0.004 of their
    norm, and gradients by 0.04; if branches see each other, by 0.06 and 0.66. In float32 by 1e-6.
    """
    half = dtype in (torch.bfloat16, torch.float16)
    return all(value <= most for value, most in zip(between, (0.02, 0.2) if half else (1e-3, 1e-3), strict=True))


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
def new_adapter(model: torch.nn.Module) -> Iterator[None]:
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


def tried(model: torch.nn.Module, score: Score, times: int) -> LossAndLogits:
    """Log-probabilities of a few tokens in a row of so many times MULTIPLE, and their gradients for all that learns,
    one after the other.
    """
    device = next(model.parameters()).device
    length = times * fused.MULTIPLE
    [(_, batch)] = pack(walks_for(model), None, budget=length, pad_id=0, side_by_side=True, multiple=length)
    with _without_dropout(model), torch.enable_grad():
        found = score(batch.to(device))
        learnt = [value for value in model.parameters() if value.requires_grad]
        total = (found * torch.arange(found.numel(), device=device).view_as(found)).sum()
        # Of a part that sees pictures, say, nothing comes into a text's log-probabilities: its gradient is 0.
        gradients = torch.autograd.grad(total, learnt, allow_unused=True, materialize_grads=True)
    return found.detach(), torch.cat([gradient.float().flatten() for gradient in gradients])


# ----------------------------------------------------------------------------------------------------
# Whether this processor is quicker in bfloat16 than in float32: tried, not believed.
#
# Many multiply two to eight times as many numbers of 16 bits as of 32. But virtual machines announce instructions that
# they do not have, and a process that uses one is killed; others compute in 32 bits whatever they are given. So a
# process of its own tries, and what it found is kept in the cache: a run that is resumed shall compute as it did. Knows
# nothing of models.


log = logging.getLogger(__name__)

CPU = Path("/proc/cpuinfo")
FLAGS = {"avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16"}  # the last is ARM's
WORTH = 1.3  # times as quick, or it is not worth what rounding costs
PATIENCE = 60.0  # seconds, of which a second or two are torch's import
# A matrix of a small model's layer, for some hundred tokens, as often as it takes to be measured.
TRIAL = """
import time, torch
left, right = torch.randn(512, 576), torch.randn(1536, 576)
def seconds(a, b):
    took = []
    for _ in range(20):
        begun = time.perf_counter()
        a @ b.t()
        took.append(time.perf_counter() - begun)
    return min(took)
print(seconds(left, right) / seconds(left.bfloat16(), right.bfloat16()))
"""


def half_is_quicker(cpu: Path = CPU, trial: str = TRIAL) -> bool:
    """Here, by enough to be worth it."""
    told = _told(cpu)
    if not set(told.split()) & FLAGS:  # only Linux says so
        return False
    kind = xxhash.xxh3_64_hexdigest(f"{told}/{importlib.metadata.version('torch')}/{trial}".encode())
    kept = cache_folder() / "half" / f"{kind}.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_json(kept, {"speedup": speedup(trial)})
    found = read_json(kept)["speedup"]
    log.info("bfloat16 is %s times as quick as float32 here", found)
    return found is not None and bool(found >= WORTH)


def _told(cpu: Path) -> str:
    """What the system says of its first processor, but for what changes from day to day."""
    try:
        lines = cpu.read_text().split("\n\n")[0].splitlines()
    except OSError:
        return ""
    return "\n".join(line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part")))


def speedup(trial: str) -> float | None:
    """What a process prints that tries it; None if it dies of it, or never ends."""
    try:
        tried = subprocess.run([sys.executable, "-c", trial], capture_output=True, timeout=PATIENCE, check=True)
        return float(tried.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        log.info("this processor does not compute in bfloat16: %s", error)
        return None
