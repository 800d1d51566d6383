"""The `Engine` protocol: what a rollout asks of a language model, and nothing more.

A request is the whole context as token ids; what comes back are the ids the model chose, with their log-probabilities.
An engine that can only send text (an API) reads `messages` instead and says so with `exact = False`: its episodes are
for answering and evaluation, never for training. Knows nothing of graphs, tools or protocols.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from kgwalk.llm.tokens import Tokenizer
from kgwalk.types import Message


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen. Temperature 0 takes the likeliest token; the seed makes a draw repeatable."""

    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 256
    stop: tuple[str, ...] = ()  # a generation ends with the token that completes one of these texts
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """`session` is the same for all turns of an episode: an engine may keep its cache of the common beginning."""

    ids: Sequence[int]
    messages: Sequence[Message]
    sampling: Sampling
    session: str = ""


@dataclass(frozen=True, slots=True)
class Generation:
    """`finish`: "stop" (a stop text), "eos" (an end token, which is the last of `ids`) or "length"."""

    ids: list[int]
    logprobs: list[float]  # of the chosen tokens, at temperature 1 without top_p; empty if the engine is not exact
    finish: Literal["stop", "eos", "length"]


@runtime_checkable
class Engine(Protocol):
    @property
    def tokens(self) -> Tokenizer: ...

    @property
    def context(self) -> int:
        """The most tokens that prompt and generation may have together."""
        ...

    @property
    def exact(self) -> bool:
        """Whether ids and log-probabilities are the model's own."""
        ...

    @property
    def at_once(self) -> int:
        """How many episodes it serves well at the same time; the requests of more would wait for each other."""
        ...

    async def generate(self, request: Request) -> Generation:
        """One continuation; raises EngineError if there is none to be had."""
        ...

    async def forget(self, session: str) -> None:
        """The episode is over: what was kept for it may go."""
        ...

    async def close(self) -> None: ...
