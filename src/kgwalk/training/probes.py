"""Capability probes: what a model and a CPU can do, found out on a few tokens instead of believed.

- `head_is_last`: are the model's logits its head's, unchanged?
- `takes_trees`: may several branches stand in one row?
- `probe_gradients`, with `relative_difference` and `is_rounding`: do two ways of computing a model agree?
- `bf16_is_faster`: is this CPU faster in bfloat16 than in float32?

Dropout is off in all of them.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import logging
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import xxhash

from kgwalk.config.cache import cache_folder
from kgwalk.config.run_folder import read_json, write_json
from kgwalk.training import fused
from kgwalk.training.microbatch import Batch, Head, collate, computed_in, inputs_of, pack, plain_of, trees
from kgwalk.types import Flat

log = logging.getLogger(__name__)

Score = Callable[[Batch], torch.Tensor]  # a microbatch's log-probabilities
ScoresAndGradients = tuple[torch.Tensor, torch.Tensor]  # log-probabilities, gradients


@torch.no_grad()
def head_is_last(model: torch.nn.Module, decoder: torch.nn.Module, head: Head) -> bool:
    """Whether head(decoder(tokens)) gives the model's own logits.

    The head gets the very states of the model's own pass and must give exactly the same numbers: a cap at 30 changes a
    logit of 1 by only 0.0004, which a tolerance would let through. A pass of the decoder alone may differ by rounding;
    it differs by more where the model gives its decoder more than tokens (a prefix of PEFT).
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


def probe_sequences(model: torch.nn.Module) -> list[Flat]:
    """A few tokens to probe a model with: three sequences from one prompt, two of them with the same first token.

    Tokens are drawn from the whole vocabulary. With SmolLM2's first few, which begin no text, gradients in bfloat16 are
    mostly rounding: 0.77 of their norm, against 0.04 here. Branches that wrongly see each other make 0.66.
    """
    draw = random.Random(0)
    size = plain_of(model).get_input_embeddings().weight.shape[0]
    prompt, first = [[draw.randrange(size) for _ in range(count)] for count in (12, 1)]
    begun: tuple[list[int], ...] = (first, first, [])
    written = [[*begin, *(draw.randrange(size) for _ in range(6 - len(begin)))] for begin in begun]
    return [Flat([*prompt, *ids], [0] * 12 + [1] * 6, [0.0] * 18, []) for ids in sorted(written)]  # as trees order them


@torch.no_grad()
def takes_trees(model: torch.nn.Module) -> bool:
    """Whether branches in one row get the logits that they get in rows of their own.

    Not so where a family takes no positions or no mask of this kind. Sliding windows are refused without a probe: given
    a whole mask transformers ignores the window, and a few tokens would not show it.
    """
    plain = plain_of(model)
    own_tokens = getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False)
    if own_tokens or _has_windows(plain) or "position_ids" not in inspect.signature(plain.forward).parameters:
        return False
    device = next(model.parameters()).device
    walks = probe_sequences(model)
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
    """Whether they differ by no more than rounding: over some dozen layers bfloat16 loses up to 0.02 of the norm."""
    most = 0.02 if dtype in (torch.bfloat16, torch.float16) else 1e-3
    return bool((found - expected).float().norm() <= most * expected.float().norm())


def relative_difference(found: ScoresAndGradients, expected: ScoresAndGradients) -> tuple[float, float]:
    """How much the log-probabilities differ, and the gradients, each as a share of the norm."""
    one, other = (
        float((mine - theirs).norm() / theirs.norm().clamp(min=1e-30))
        for mine, theirs in zip(found, expected, strict=True)
    )
    return one, other


def is_rounding(between: tuple[float, float], dtype: torch.dtype) -> bool:
    """Whether such differences may be rounding.

    Over 30 layers bfloat16 differs from float32 by 0.004 of the norm of log-probabilities and 0.04 of that of
    gradients; branches that see each other make 0.06 and 0.66. Rounding in float32 makes 1e-6.
    """
    half = dtype in (torch.bfloat16, torch.float16)
    return all(value <= most for value, most in zip(between, (0.02, 0.2) if half else (1e-3, 1e-3), strict=True))


def compiled_alike(
    found: Sequence[ScoresAndGradients], expected: Sequence[ScoresAndGradients], dtype: torch.dtype
) -> bool:
    """Whether a compiled model computes what it did before; says so where it does not."""
    between = [relative_difference(*pair) for pair in zip(found, expected, strict=True)]
    if all(is_rounding(one, dtype) for one in between):
        return True
    log.warning(
        "compiled, this model computes something else, by %.2g of its log-probabilities and %.2g of their "
        "gradients; its layers are run as written",
        *(max(each) for each in zip(*between, strict=True)),
    )
    return False


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
    """Inside, the adapter is nearly as it was before training.

    To a model trained for one task, tokens from the whole vocabulary mean so little that gradients in bfloat16 are
    mostly rounding: 0.33 of their norm for a trained SmolLM2, 0.05 before training.
    """
    own = [value for name, value in model.named_parameters() if ".lora_B." in name]
    kept = [value.detach().clone() for value in own]
    device = next(model.parameters()).device
    generator = torch.Generator(device).manual_seed(0)
    with torch.no_grad():
        for value in own:
            value.normal_(0, 1e-3, generator=generator)
    torch.clear_autocast_cache()  # it holds the weights as they were first cast
    try:
        yield
    finally:
        with torch.no_grad():
            for value, before in zip(own, kept, strict=True):
                value.copy_(before)
        torch.clear_autocast_cache()


def probe_gradients(model: torch.nn.Module, score: Score, times: int) -> ScoresAndGradients:
    """Log-probabilities of a few tokens in a row of `times` MULTIPLE, and the gradients of all that learns, flat."""
    length = times * fused.MULTIPLE
    [(_, batch)] = pack(probe_sequences(model), None, budget=length, pad_id=0, side_by_side=True, multiple=length)
    return weighed_gradients(model, score, batch)


def weighed_gradients(model: torch.nn.Module, score: Score, batch: Batch) -> ScoresAndGradients:
    """The batch's log-probabilities, and the gradients of their sum, each weighed by its place."""
    device = next(model.parameters()).device
    with _without_dropout(model), torch.enable_grad():
        found = score(batch.to(device))
        learnt = [value for value in model.parameters() if value.requires_grad]
        total = (found * torch.arange(found.numel(), device=device).view_as(found)).sum()
        # A part that the text does not pass through (one that sees pictures, say) has the gradient 0.
        gradients = torch.autograd.grad(total, learnt, allow_unused=True, materialize_grads=True)
    return found.detach(), torch.cat([gradient.float().flatten() for gradient in gradients])


# The bf16 probe

CPU = Path("/proc/cpuinfo")
FLAGS = {"avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16"}  # the last is ARM's
WORTH = 1.3  # times as fast, or it is not worth the rounding
PATIENCE = 60.0  # seconds, of which a second or two are torch's import
# Times a product of the size of a small model's layer with some hundred tokens; prints float32's time over bfloat16's.
BF16_PROBE = """
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


def bf16_is_faster(cpu: Path = CPU, script: str = BF16_PROBE) -> bool:
    """The bf16 probe: whether this CPU is faster in bfloat16 than in float32, by enough to be worth it.

    Many CPUs multiply two to eight times as many 16-bit numbers as 32-bit ones. But virtual machines announce
    instructions that they do not have, and a process that uses one is killed; others compute in 32 bits anyway. So a
    process of its own runs the `script`, and the result is kept in the cache: a run that is resumed must compute as it
    did before.
    """
    told = _told(cpu)
    if not set(told.split()) & FLAGS:  # other systems do not say
        return False
    kind = xxhash.xxh3_64_hexdigest(f"{told}/{importlib.metadata.version('torch')}/{script}".encode())
    kept = cache_folder() / "half" / f"{kind}.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_json(kept, {"speedup": speedup(script)})
    found = read_json(kept)["speedup"]
    log.info("bfloat16 is %s times as quick as float32 here", found)
    return found is not None and bool(found >= WORTH)


def _told(cpu: Path) -> str:
    """What Linux says of the first CPU, without what changes from day to day."""
    try:
        lines = cpu.read_text().split("\n\n")[0].splitlines()
    except OSError:
        return ""
    return "\n".join(line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part")))


def speedup(script: str) -> float | None:
    """The number that a process running the script prints; None if it dies or does not end."""
    try:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=PATIENCE, check=True)
        return float(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        log.info("this processor does not compute in bfloat16: %s", error)
        return None
