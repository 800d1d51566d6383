"""How much an episode may use, and how tokens are counted where an engine sends text.

`Budget` is the section [rollout] of a recipe; each of its bounds has its own StopReason. An engine that sends text (an
API) has bytes for ids: `Counted` and `tokens` convert, so that budgets and counts are in tokens for every engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kgwalk.llm.engine import Engine, Generation, Request
from kgwalk.llm.tokenizers import Tokenizer
from kgwalk.types import Episode


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds of an episode; tokens are the engine's."""

    turn_tokens: int = 256  # of one turn of the model's
    observation_tokens: int = 512
    total_tokens: int = 8192  # prompt, turns and observations together; the engine's context if that is less
    seconds: float = 600.0  # wall time of an episode
    tool_retries: int = 1  # a tool whose backend fails is tried again so often
    at_once: int = 1024  # episodes under way at the same time
    threads: int = 32  # calls to slow tools (a remote graph, the web) at the same time


# Tokens, whatever an engine counts in


BYTES_A_TOKEN = 4  # English has about so many


def ids_a_token(engine: Engine) -> int:
    return 1 if engine.exact else BYTES_A_TOKEN


def server_counts(generation: Generation) -> tuple[int, int] | None:
    """Prompt and generated tokens as an API's server counted them; None without a server, or with one that does not.

    A server that reports nothing must not make a turn free.
    """
    usage = getattr(generation, "usage", None)  # an API engine's generations have it
    return (usage.prompt_tokens, usage.completion_tokens) if usage is not None and usage.prompt_tokens else None


def tokens(episode: Episode, ids_a_token: int = 1) -> tuple[int, int]:
    """Those the model was told and those it generated.

    A server's own counts are taken where every turn has them; they count the context again with every turn.

    >>> from kgwalk.types import Call, Question, Turn
    >>> turn = Turn([7, 8, 9], [0.0] * 3, "", Call("look"), observation_ids=[3, 4])
    >>> episode = Episode(Question("q", "?", [], []), [], [1] * 10, "", [turn])
    >>> tokens(episode), tokens(episode, ids_a_token=4)
    ((12, 3), (3, 1))
    """
    counts = [turn.counted for turn in episode.turns if turn.counted is not None]
    if counts and len(counts) == len(episode.turns):
        return sum(prompt for prompt, _ in counts), sum(generated for _, generated in counts)
    generated = episode.generated_tokens
    return -(-(episode.total_tokens - generated) // ids_a_token), -(-generated // ids_a_token)


def tokens_used(episodes: Iterable[Episode], engine: Engine) -> dict[str, int]:
    """`tokens` of all: those "generated" by the model, those of the "prompt" (all that it was told) and the "total"."""
    counts = [tokens(episode, ids_a_token(engine)) for episode in episodes]
    prompt, generated = sum(count[0] for count in counts), sum(count[1] for count in counts)
    return {"generated": generated, "prompt": prompt, "total": generated + prompt}


class Counted:
    """An engine whose context and limits are in tokens for the caller, in ids for the rollout."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ids = ids_a_token(engine)

    @property
    def tokens(self) -> Tokenizer:
        return self._engine.tokens

    @property
    def context(self) -> int:
        return self._engine.context * self._ids

    @property
    def exact(self) -> bool:
        return self._engine.exact

    @property
    def at_once(self) -> int:
        return self._engine.at_once

    def budget(self, budget: Budget) -> Budget:
        return replace(
            budget,
            turn_tokens=budget.turn_tokens * self._ids,
            observation_tokens=budget.observation_tokens * self._ids,
            total_tokens=budget.total_tokens * self._ids,
            # more than the engine serves would wait for each other, on their own time
            at_once=min(budget.at_once, self.at_once),
        )

    async def generate(self, request: Request) -> Generation:
        most = -(-request.sampling.max_tokens // self._ids)
        sampling = replace(request.sampling, max_tokens=most)
        return await self._engine.generate(replace(request, sampling=sampling))

    async def forget(self, session: str) -> None:
        await self._engine.forget(session)

    async def close(self) -> None:
        """The engine is not this caller's to close."""
