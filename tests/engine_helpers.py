"""What the tests of engines share: prompts, requests, and what transformers itself would say."""

from __future__ import annotations

import asyncio
from typing import Any

import torch

from kgwalk.llm.engine import Engine, Generation, Request, Sampling
from tiny_models import tiny_tokenizer


def prompt(length: int, seed: int = 0) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    ids: list[int] = torch.randint(10, len(tiny_tokenizer()), (length,), generator=generator).tolist()
    return ids


def ask(ids: list[int], session: str = "", **sampling: Any) -> Request:
    return Request(ids, [], Sampling(**{"max_tokens": 12, **sampling}), session)


def run(engine: Engine, *requests: Request) -> list[Generation]:
    async def together() -> list[Generation]:
        return await asyncio.gather(*(engine.generate(request) for request in requests))

    return asyncio.run(together())


def by_transformers(module: Any, ids: list[int], most: int, ends: frozenset[int]) -> list[int]:
    out = module.generate(
        torch.tensor([ids]),
        attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        max_new_tokens=most,
        do_sample=False,
        eos_token_id=sorted(ends),
        pad_token_id=0,
    )
    chosen: list[int] = out[0, len(ids) :].tolist()
    return chosen


def by_full_pass(module: Any, ids: list[int], chosen: list[int]) -> list[float]:
    with torch.no_grad():
        logits = module(torch.tensor([ids + chosen], device=module.device)).logits[0].float()
    table = torch.log_softmax(logits, -1)
    return [float(table[len(ids) - 1 + step, number]) for step, number in enumerate(chosen)]
