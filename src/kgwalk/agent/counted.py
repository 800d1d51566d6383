"""Budgets and counts in tokens, whatever an engine counts in: one that sends text has bytes for ids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kgwalk.agent.budget import Budget
from kgwalk.llm.engine import Engine, Generation, Request
from kgwalk.llm.tokens import Tokenizer
from kgwalk.types import Episode

BYTES_A_TOKEN = 4  # English has about so many


def ids_a_token(engine: Engine) -> int:
    return 1 if engine.exact else BYTES_A_TOKEN


def tokens_used(episodes: Iterable[Episode], engine: Engine) -> dict[str, int]:
    """Those "generated" by the model, those of the "prompt" (all that it was told) and the "total".

    Where the engine's server reports its own counts these are taken: with every turn they count the context again.
    """
    generated = prompt = 0
    for episode in episodes:
        counts = [turn.counted for turn in episode.turns if turn.counted is not None]
        if counts:
            prompt += sum(count[0] for count in counts)
            generated += sum(count[1] for count in counts)
        else:
            each = ids_a_token(engine)
            generated += -(-episode.generated_tokens // each)
            prompt += -(-(episode.total_tokens - episode.generated_tokens) // each)
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
        )

    async def generate(self, request: Request) -> Generation:
        most = -(-request.sampling.max_tokens // self._ids)
        sampling = replace(request.sampling, max_tokens=most)
        return await self._engine.generate(replace(request, sampling=sampling))

    async def forget(self, session: str) -> None:
        await self._engine.forget(session)

    async def close(self) -> None:
        """The engine is not this caller's to close."""
