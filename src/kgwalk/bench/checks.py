"""Checks that the engine gives the model's tokens: greedy output, sampled tokens, log-probabilities.

The engine is asked as a rollout asks it. Greedy tokens are compared with `generate` of transformers, the frequencies of
sampled tokens with the softmax, and log-probabilities with the trainer's. The trainer's function runs as written, not
compiled, on weights with the adapter merged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch

from kgwalk.bench.episodes import Workload, opened
from kgwalk.bench.machine import Machine
from kgwalk.bench.rows import Figure
from kgwalk.llm.engine import Engine, Generation, Request, Sampling
from kgwalk.llm.models import LoadedModel, load_model
from kgwalk.llm.torch_engine.engine import LocalEngine
from kgwalk.training.logprobs import TokenScorer
from kgwalk.training.microbatch import pack
from kgwalk.types import Flat
from kgwalk.walk.protocol import Task

LEAST = 5.0  # expected draws of a class: with fewer, the chi-square distribution does not hold
DRAWN = 8  # prompts whose next token is sampled many times
# Bounds by dtype: the share of prompts whose greedy output differs, mean and largest difference of a log-probability.
BOUNDS = {"float32": (0.0, 1e-4, 1e-3), "bfloat16": (0.02, 1e-2, None)}
LEAST_P = 1e-3
CHECKS = ("greedy output", "log-probabilities", "sampled tokens")  # how the names of their figures begin
CHECKED = {"cuda": ("float32", "bfloat16"), "cpu": ("float32",)}
PASS = {"cuda": 16384, "cpu": 2048}  # tokens of one pass of the trainer
ALIGNED = 16  # tokens: rows of a multiple of it are quicker on a GPU


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is checked."""

    prompts: int
    tokens: int  # of a generation
    draws: int


def check_rows(
    name: str, adapter: str | None, workload: Workload, machine: Machine, amount: Amount, dtype: str
) -> list[Figure]:
    """All checks, with real prompts. Frequencies are checked in float32 alone, where rounding cannot be the cause."""
    machine.free()
    plain = load_model(name, adapter=adapter, device=machine.device, dtype=dtype)
    prompts = prompts_of(workload, plain, amount.prompts)
    context = max(map(len, prompts)) + amount.tokens + 1
    own = replace(plain, module=deepcopy(plain.module))  # the engine changes what it runs
    with opened(LocalEngine(own, context=context)) as engine:
        return engine_rows(engine, plain, prompts, amount, dtype)


def engine_rows(
    engine: Engine, plain: LoadedModel, prompts: list[list[int]], amount: Amount, dtype: str
) -> list[Figure]:
    """All checks of an engine that is open, against the same weights as they are loaded for the trainer."""
    rows = greedy_rows(engine, plain, prompts, amount.tokens, dtype)
    if dtype == "float32":
        rows += draw_rows(engine, plain, prompts[:DRAWN], amount.draws)
    # Last, as it gives the plain model the trainer's head.
    return rows + logprob_rows(engine, TokenScorer(plain.module), prompts, amount.tokens, dtype)


def prompts_of(workload: Workload, model: LoadedModel, count: int) -> list[list[int]]:
    """The first prompts of so many questions, each different one once."""

    def length(text: str) -> int:
        return len(model.tokens.encode(text))

    found: dict[tuple[int, ...], None] = {}
    for question in islice(workload.questions, count):
        walk = workload.protocol.begin(
            Task(question, question.topic_entities), workload.environments.of(question), length
        )
        found[tuple(model.tokens.open_chat(walk.prompt()))] = None
    return [list(prompt) for prompt in found]


def greedy_rows(engine: Engine, plain: LoadedModel, prompts: list[list[int]], most: int, dtype: str) -> list[Figure]:
    """The share of prompts whose greedy output differs from transformers'. In bfloat16, transformers differs from
    itself when the same prompts come in other batches: that share is the baseline.
    """
    ours = [one.ids for one in asked(engine, prompts, Sampling(max_tokens=most))]
    theirs = by_generate(plain, prompts, most, len(prompts))
    again = by_generate(plain, prompts, most, max(1, len(prompts) // 2)) if dtype != "float32" else None
    return [
        Figure(
            f"greedy output, {dtype}: prompts that differ",
            _differ(ours, theirs),
            "share",
            None if again is None else _differ(again, theirs),
            ("<=", BOUNDS[dtype][0]),
        )
    ]


def logprob_rows(engine: Engine, trainer: TokenScorer, prompts: list[list[int]], most: int, dtype: str) -> list[Figure]:
    """Log-probabilities of sampled tokens: the engine's, and those that the trainer computes before an update.

    In bfloat16 the baseline is how far the trainer is from itself when it computes every sequence in a row of its own.
    The mean of a token is given, too: the nearer it is to 0, the less there is to be wrong about.
    """
    drawn = asked(engine, prompts, Sampling(1.0, max_tokens=most, seed=1))
    flats = [sequence(prompt, one) for prompt, one in zip(prompts, drawn, strict=True)]
    ours = [value for one in drawn for value in one.logprobs]
    theirs = trained(trainer, flats)
    mean, largest = _apart(ours, theirs)
    again = _apart(trained(trainer, flats, share=False), theirs) if dtype != "float32" else (None, None)
    _, bound, far = BOUNDS[dtype]
    label = f"log-probabilities, {dtype}"
    return [
        Figure(f"{label}: mean difference", mean, "nats", again[0], ("<=", bound)),
        Figure(f"{label}: largest difference", largest, "nats", again[1], None if far is None else ("<=", far)),
        Figure(f"{label}: of a token, in the mean", -sum(ours) / len(ours), "nats"),
    ]


def sequence(prompt: list[int], written: Generation) -> Flat:
    """A prompt and one generation as a trainer gets them.

    >>> sequence([5, 6], Generation([7], [-0.5], "eos"))
    Flat(ids=[5, 6, 7], mask=[0, 0, 1], logprobs=[0.0, 0.0, -0.5], turn_index=[-1, -1, 0])
    """
    before, after = len(prompt), len(written.ids)
    return Flat(
        [*prompt, *written.ids],
        [0] * before + [1] * after,
        [0.0] * before + list(written.logprobs),
        [-1] * before + [0] * after,
    )


@torch.no_grad()
def trained(trainer: TokenScorer, flats: Sequence[Flat], *, share: bool = True) -> list[float]:
    """The trainer's log-probabilities of the generated tokens, sequence after sequence. Microbatches are those of an
    update; without `share` each sequence has a row of its own."""
    device = next(trainer.parameters()).device
    budget = PASS.get(device.type, PASS["cpu"])
    packed = pack(flats, None, budget=budget, pad_id=0, share=share and trainer.takes_trees, multiple=ALIGNED)
    found: list[list[float]] = [[] for _ in flats]
    for members, batch in packed:
        scores_BT = trainer(batch.to(device)).logprobs_BT.cpu()
        for member, scores_T, mask_T in zip(members, scores_BT, batch.mask_BT, strict=True):
            found[member] = scores_T[mask_T].tolist()
    return [value for one in found for value in one]


def draw_rows(engine: Engine, plain: LoadedModel, prompts: list[list[int]], draws: int) -> list[Figure]:
    """One token after each prompt, sampled many times, against the softmax. A prompt is cut where the model is least
    certain how it goes on: where it is certain, frequencies say nothing.
    """
    each = draws // len(prompts)
    statistic, degrees = 0.0, 0
    for prompt in prompts:
        table_TV = _logprobs(plain.module, prompt)
        at = least_certain(table_TV)
        drawn = asked(engine, [prompt[: at + 1]] * each, Sampling(1.0, max_tokens=1), seeds=True)
        counts = Counter(one.ids[0] for one in drawn)
        probabilities = table_TV[at].double().exp().tolist()
        more = chi_square([counts[token] for token in range(len(probabilities))], probabilities)
        statistic, degrees = statistic + more[0], degrees + more[1]
    p = chi_square_p(statistic, degrees)
    return [
        Figure("sampled tokens against softmax: draws", float(each * len(prompts)), "tokens"),
        Figure("sampled tokens against softmax: degrees of freedom", float(degrees), "classes", None, (">=", 1)),
        Figure("sampled tokens against softmax: p of chi-square", p, "p", None, (">=", LEAST_P)),
    ]


def least_certain(logprobs_TV: torch.Tensor) -> int:
    """The place of the highest entropy in the second half, as prompts begin alike.

    Four places, two tokens. Of the last two places the first has two that are equally likely:

    >>> least_certain(torch.tensor([[0.5, 0.5], [0.6, 0.4], [0.5, 0.5], [0.9, 0.1]]).log())
    2
    """
    half = len(logprobs_TV) // 2
    entropy_T = torch.special.entr(logprobs_TV[half:].exp()).sum(-1)
    return half + int(entropy_T.argmax())


def chi_square(counts_V: Sequence[int], probabilities_V: Sequence[float]) -> tuple[float, int]:
    """The statistic and its degrees of freedom. Tokens are grouped, the likeliest first, into classes that are expected
    at least five times; what is left at the end joins the last class.

    20 draws of three tokens with 1/2, 2/5 and 1/10: expected 10, 8 and 2, so that the last two are one class.
        drawn 8 and 12, expected 10 and 10: 4/10 + 4/10 = 0.8, 1 degree

    >>> chi_square([8, 10, 2], [0.5, 0.4, 0.1])
    (0.8, 1)
    """
    total = sum(counts_V)
    classes: list[tuple[float, int]] = [(0.0, 0)]  # expected, drawn
    for share, count in sorted(zip(probabilities_V, counts_V, strict=True), reverse=True):
        if classes[-1][0] >= LEAST:
            classes.append((0.0, 0))
        classes[-1] = classes[-1][0] + total * share, classes[-1][1] + count
    if len(classes) > 1 and classes[-1][0] < LEAST:
        left = classes.pop()
        classes[-1] = classes[-1][0] + left[0], classes[-1][1] + left[1]
    return sum((count - expected) ** 2 / expected for expected, count in classes), len(classes) - 1


def chi_square_p(statistic: float, degrees: int) -> float:
    """The probability of so large a statistic if sampling is right: the upper regularised gamma function.

    With 2 degrees it is exp(-x / 2), with 1 erfc(sqrt(x / 2)); with one class, and so 0 degrees, it is 1.

    >>> round(chi_square_p(1.8, 2), 4), round(chi_square_p(0.8, 1), 4), chi_square_p(0.0, 0)
    (0.4066, 0.3711, 1.0)
    """
    if degrees == 0:
        return 1.0
    half, at = (torch.tensor(value / 2, dtype=torch.float64) for value in (degrees, statistic))
    return float(torch.special.gammaincc(half, at))


def asked(engine: Engine, prompts: Sequence[list[int]], sampling: Sampling, *, seeds: bool = False) -> list[Generation]:
    """The engine's generations, all asked for at once; with `seeds` each has a seed of its own."""

    async def together() -> list[Generation]:
        own = (
            Sampling(sampling.temperature, max_tokens=sampling.max_tokens, seed=number if seeds else sampling.seed)
            for number in range(len(prompts))
        )
        requests = [Request(prompt, [], how) for prompt, how in zip(prompts, own, strict=True)]
        return await asyncio.gather(*(engine.generate(request) for request in requests))

    return asyncio.run(together())


@torch.no_grad()
def by_generate(model: LoadedModel, prompts: list[list[int]], most: int, batch: int) -> list[list[int]]:
    """Greedy tokens up to the end token, which is the last, by transformers; prompts are padded on the left."""
    ends, device = model.tokens.end_ids, model.module.device
    found = []
    for begin in range(0, len(prompts), batch):
        some = prompts[begin : begin + batch]
        width = max(map(len, some))
        module: Any = model.module
        out = module.generate(
            torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in some], device=device),
            attention_mask=torch.tensor(
                [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in some], device=device
            ),
            max_new_tokens=most,
            do_sample=False,
            eos_token_id=sorted(ends),
            pad_token_id=0,
        )
        found += [_to_the_end(row, ends) for row in out[:, width:].tolist()]
    return found


def _to_the_end(ids: list[int], ends: frozenset[int]) -> list[int]:
    at = next((place for place, number in enumerate(ids) if number in ends), len(ids))
    return ids[: at + 1]


@torch.no_grad()
def _logprobs(module: Any, ids: list[int]) -> torch.Tensor:
    """Log-probabilities (T, V) of every token of the vocabulary after each of the ids, by one plain pass."""
    logits: torch.Tensor = module(torch.tensor([ids], device=module.device)).logits[0]
    return torch.log_softmax(logits.float(), -1)


def _differ(some: Sequence[list[int]], others: Sequence[list[int]]) -> float:
    return sum(one != other for one, other in zip(some, others, strict=True)) / len(some)


def _apart(some: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
    """The mean and the largest difference."""
    between = [abs(one - other) for one, other in zip(some, others, strict=True)]
    return sum(between) / len(between), max(between)
