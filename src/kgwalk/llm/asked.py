"""A request as an engine that runs here takes it: checked, with its luck drawn and its end watched for.

What the engines `local` and `cpu` share before either runs a model. Needs no torch; knows nothing of models or caches.
"""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from kgwalk.llm.engine import Request, Sampling
from kgwalk.llm.stop_watch import StopWatch
from kgwalk.types import EngineError


@dataclass(slots=True, eq=False)
class Asked:
    """`ids` is the context and, after the first `prompt` of them, what was chosen so far."""

    ids: list[int]
    sampling: Sampling
    most: int  # tokens to choose
    draws: Sequence[float]
    watch: StopWatch
    session: str
    prompt: int = 0
    logprobs: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.prompt = len(self.ids)


Kind = TypeVar("Kind", bound=Asked)


def taken(
    kind: type[Kind],
    request: Request,
    watch: StopWatch,
    *,
    seed: int | None,
    context: int,
    vocabulary: int,
) -> Kind | None:
    """The request as one of this kind; None if no token may be chosen. `seed` serves a request that has none."""
    sampling, ids = request.sampling, list(request.ids)
    most = tokens_to_choose(ids, sampling, context, vocabulary)
    if most == 0:
        return None
    seed = seed if sampling.seed is None else sampling.seed
    numbers = draws(seed_at(seed, len(ids)), most) if sampling.temperature > 0 else []
    return kind(ids, sampling, most, numbers, watch, request.session)


def tokens_to_choose(ids: list[int], sampling: Sampling, context: int, vocabulary: int) -> int:
    """How many tokens may be chosen; EngineError for what the model cannot be asked."""
    if not ids:
        raise EngineError("a request without tokens: there is nothing to continue")
    if len(ids) >= context:
        raise EngineError(f"the prompt has {len(ids):,} tokens; with a context of {context:,} none can follow")
    if min(ids) < 0 or max(ids) >= vocabulary:
        raise EngineError(f"ids must be 0 to {vocabulary - 1:,}; there are {min(ids)} to {max(ids)}")
    if not (sampling.temperature >= 0 and 0 < sampling.top_p <= 1):
        raise EngineError(
            f"temperature must be 0 or more and top_p in (0, 1]; they are {sampling.temperature} and {sampling.top_p}"
        )
    return max(0, min(sampling.max_tokens, context - len(ids)))


def seed_at(seed: int | None, position: int) -> int:
    """The seed of one generation; a random one for None.

    `position` is the length of the context: the turns of an episode share its seed and must not share their luck.
    """
    if seed is None:
        return secrets.randbits(63)
    return int.from_bytes(hashlib.blake2b(f"{seed}/{position}".encode(), digest_size=8).digest()) >> 1


def draws(seed: int, count: int) -> list[float]:
    """The numbers in [0, 1) that choose the tokens of one generation."""
    draw = random.Random(seed).random
    return [draw() for _ in range(count)]
