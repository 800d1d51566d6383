"""What the tests of engines share: prompts, requests, and what transformers itself would say."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import torch

from kgwalk.llm.automaton import automaton_of
from kgwalk.llm.engine import Engine, Generation, Request, Sampling
from kgwalk.llm.grammar import Grammar
from kgwalk.llm.tokenizers import Tokenizer
from kgwalk.systems.kgwalk.turn_grammar import RelationForms, WalkSoFar, turn_rule
from kgwalk.walk.language import CORE
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


# A turn of the `kgwalk` protocol after two sets, over three relations.
GRAMMAR = Grammar(
    turn_rule, (WalkSoFar(2, RelationForms.of(["directed_by", "starred_actors", "born"]), CORE, False), False, False)
)


def ask_for_a_call(ids: list[int], session: str = "", **sampling: Any) -> Request:
    stop = {"stop": ("</answer>",), "max_tokens": 40, "temperature": 1.0, **sampling}
    return replace(ask(ids, session, **stop), grammar=GRAMMAR)


def by_constrained_pass(module: Any, ids: list[int], made: Generation, tokens: Tokenizer) -> list[float]:
    """The log-probabilities of a turn among what `GRAMMAR` allowed at each place."""
    automaton = automaton_of(tokens)
    assert automaton is not None
    assert made.room is not None
    with torch.no_grad():
        logits = module(torch.tensor([ids + made.ids], device=module.device)).logits[0].float()
    found = []
    for step, allowed in enumerate(automaton.replay(GRAMMAR, made.room, made.ids)):
        among = torch.from_numpy(allowed).long()
        table = torch.log_softmax(logits[len(ids) - 1 + step, among], -1)
        found.append(float(table[among.tolist().index(made.ids[step])]))
    return found
