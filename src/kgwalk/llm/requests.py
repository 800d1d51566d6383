"""A request as an engine that runs here takes it: checked, with its luck drawn and its end watched for.

What the engines `local` and `cpu` share before either runs a model. Needs no torch; knows nothing of models or caches.
"""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from kgwalk.llm.engine import Request, Sampling
from kgwalk.llm.tokenizers import Tokenizer
from kgwalk.types import EngineError

# ----------------------------------------------------------------------------------------------------
# Watches generations for their end: an end token, or the token that completes a stop text.
#
# Finds the same end as `first_stop` does in the whole, by decoding only the last tokens, and only when the last of them
# holds the last character of a stop text. Remembers nothing: one watch serves all generations with the same stop texts.
# Knows nothing of models.


BROKEN = "\ufffd"  # how a decoder shows part of a character


class StopWatch:
    """`piece` gives the text of one token, if the caller has it at hand.

    >>> from kgwalk.llm.tokenizers import ByteTokenizer
    >>> watch, ids = StopWatch(ByteTokenizer(), ("</a>",)), list(b"x</a>")
    >>> [watch.end(ids[:count]) for count in range(1, 6)]
    [None, None, None, None, 'stop']
    """

    def __init__(self, tokens: Tokenizer, stops: Sequence[str], piece: Callable[[int], str] | None = None) -> None:
        self._tokens = tokens
        self._piece = piece or (lambda number: tokens.decode([number]))
        self._stops = tuple(stop for stop in stops if stop)
        self._lasts = frozenset(stop[-1] for stop in self._stops)
        # A token has a byte of text or more; a few tokens more, so that the first one's beginning does not matter.
        self._window = max((len(stop.encode("utf-8", "surrogatepass")) for stop in self._stops), default=0) + 4

    def end(self, ids: Sequence[int], begin: int = 0) -> Literal["stop", "eos"] | None:
        """How the generation ids[begin:] ends with its last token, which was not looked at yet; None if it goes on."""
        if ids[-1] in self._tokens.end_ids:
            return "eos"
        if not self._stops:
            return None
        piece = self._piece(ids[-1])
        if piece and BROKEN not in piece and self._lasts.isdisjoint(piece):
            return None
        text = self._tokens.decode(ids[self._from(ids, begin) :])
        return "stop" if any(stop in text for stop in self._stops) else None

    def _from(self, ids: Sequence[int], begin: int) -> int:
        """Where the last tokens begin that can hold a stop text. One without text (a marker, or a space that shows only
        among others) does not count.
        """
        at, left = len(ids), self._window
        if at - begin <= left:
            return begin
        while at > begin and left:
            at -= 1
            left -= bool(self._piece(ids[at]))
        return at


@dataclass(slots=True, eq=False)
class ActiveRequest:
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


SequenceType = TypeVar("SequenceType", bound=ActiveRequest)


def taken(
    kind: type[SequenceType],
    request: Request,
    watch: StopWatch,
    *,
    seed: int | None,
    context: int,
    vocabulary: int,
) -> SequenceType | None:
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


# ----------------------------------------------------------------------------------------------------
# Where a generation ends: with the token that completes a stop text.
#
# The token is kept whole: a model's tokens are never cut or encoded anew, so a stop text may be followed by the rest of
# its last token, which the protocol's parser passes over.


def first_stop(tokens: Tokenizer, ids: Sequence[int], stops: Sequence[str]) -> int | None:
    """How many of the ids there are up to the one that completes the first stop text; None if none does."""
    if not stops or not any(stop in tokens.decode(ids) for stop in stops):
        return None
    low, high = 1, len(ids)  # the text of more tokens holds the text of fewer
    while low < high:
        middle = (low + high) // 2
        text = tokens.decode(ids[:middle])
        if any(stop in text for stop in stops):
            high = middle
        else:
            low = middle + 1
    return low
