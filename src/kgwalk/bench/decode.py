"""Tokens a second by batch at one context: the engine's passes alone, beside `generate` of transformers.

The engine's figure is of its passes over slots, without requests, texts and tools. `generate` is timed with few and
with more new tokens: their difference is decoding without the prompt. Knows nothing of recipes.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from kgwalk.bench.machine import Machine
from kgwalk.bench.roofline import Decoder, floor_seconds, step_bytes, step_operations
from kgwalk.bench.rows import Row
from kgwalk.llm.local import GROUP, STEPS
from kgwalk.llm.slot_model import Job, SlotModel
from kgwalk.llm.slot_state import Start
from kgwalk.types import KgwalkError

log = logging.getLogger(__name__)

FEW, MANY = 4, 36  # new tokens of `generate`
TIMED = MANY - FEW  # steps in a round
COMPARED = 256  # beside the largest batch, the one that `generate` is run with on a GPU: it is slow


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds: of a step, of the prompts alone (None: too short to tell), of the prompts and MANY tokens."""

    step: float
    prompts: float | None
    whole: float


@dataclass(frozen=True, slots=True)
class Limits:
    """What the machine was measured to do in a second."""

    bandwidth: float  # bytes
    rate: float  # operations


def decoder_of(module: Any) -> Decoder:
    """The sizes of a Hugging Face decoder."""
    config = module.config.get_text_config()
    heads = config.num_attention_heads
    table = module.get_input_embeddings().weight
    head = module.get_output_embeddings()
    looked_up = 0 if head is not None and head.weight is table else table.numel()
    return Decoder(
        weights=sum(value.numel() for value in module.parameters()) - looked_up,
        layers=config.num_hidden_layers,
        key_heads=getattr(config, "num_key_value_heads", None) or heads,
        query_heads=heads,
        width=getattr(config, "head_dim", None) or config.hidden_size // heads,
        vocabulary=table.shape[0],
        itemsize=module.dtype.itemsize,
    )


def slot_speed(model: SlotModel, machine: Machine, batch: int, context: int, rounds: int) -> Speed:
    """Rows of `context` random tokens, then steps."""
    if batch > model.most_slots:
        raise KgwalkError(f"there is memory for {model.most_slots:,} rows; give --batch no more than that")
    chance = random.Random(batch)
    ids = torch.randint(model.vocabulary, (batch, context)).tolist()
    kind = model.kind_of(frozenset())  # no token is an end
    slots = list(range(batch))
    a_pass = min(max(1, GROUP.get(machine.kind, GROUP["cpu"]) // context), model.most_jobs)  # rows
    a_call = STEPS.get(machine.kind, STEPS["cpu"])

    def start(slot: int, at: int) -> Start:
        last = ids[slot][min(at, context - 1)]
        return Start(slot, last, at, MANY, 1.0, 1.0, [chance.random() for _ in range(MANY)], kind)

    jobs = [Job(slot, ids[slot], 0, start(slot, context)) for slot in slots]

    def prefill() -> None:
        for begin in range(0, batch, a_pass):
            model.prefill(jobs[begin : begin + a_pass])

    def steps(count: int) -> None:
        for done in range(0, count, a_call):
            chosen = model.steps(slots, min(a_call, count - done), sampled=True, nucleus=False)
        chosen.read()

    def back() -> None:
        """So that the rows are `context` long on the mean of the steps."""
        at = max(1, context - TIMED // 2)
        model.state.begin([start(slot, at) for slot in slots])

    def whole() -> None:
        prefill()
        steps(MANY - 1)  # the first token comes with the prompt

    whole()  # records, compiles
    return Speed(
        step=machine.median(lambda: steps(TIMED), rounds, back) / TIMED,
        prompts=machine.median(prefill, rounds),
        whole=machine.median(whole, rounds),
    )


def generate_speed(module: Any, machine: Machine, batch: int, context: int, rounds: int) -> Speed | None:
    """The same by transformers; None where the device has no room for it, or the clock is too coarse to tell."""
    ids = torch.randint(module.config.get_text_config().vocab_size, (batch, context), device=machine.device)
    mask = torch.ones_like(ids)

    def generate(count: int) -> None:
        out = module.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=count,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            pad_token_id=0,
        )
        if out.shape[1] != context + count:
            raise KgwalkError(f"generate was to write {count} tokens and wrote {out.shape[1] - context}")

    ends, module.generation_config.eos_token_id = module.generation_config.eos_token_id, None  # none ends early
    try:
        generate(FEW)
        few, many = (machine.median(partial(generate, count), rounds) for count in (FEW, MANY))
    except torch.OutOfMemoryError:
        log.warning("no room for generate with %d rows of %d tokens: no baseline for it", batch, context)
        return None
    finally:
        module.generation_config.eos_token_id = ends
    step = (many - few) / TIMED
    if step <= 0:
        log.warning("%d tokens took generate no longer than %d: no baseline for %d rows", MANY, FEW, batch)
        return None
    prompts = few - (FEW - 1) * step
    return Speed(step, prompts if prompts > 0 else None, many)


def compared(batches: tuple[int, ...], machine: Machine) -> set[int]:
    """The batches that `generate` is run with."""
    return {batch for batch in batches if batch in (COMPARED, max(batches))} if machine.on_gpu else set(batches)


def speed_rows(
    batch: int, context: int, ours: Speed, theirs: Speed | None, model: Decoder, limits: Limits
) -> list[Row]:
    label = f"batch {batch:,}, context {context:,}"
    tokens = batch * context
    # the rows are `context` tokens long on the mean, and half a token: that of the step itself
    moved, operations = step_bytes(model, batch, context + 0.5), step_operations(model, batch, context + 0.5)
    floor = floor_seconds(moved, operations, bandwidth=limits.bandwidth, rate=limits.rate)
    decode = Row(f"decode, {label}", batch / ours.step, "tokens/s", _beside(theirs, lambda one: batch / one.step))
    times = [] if decode.ratio is None else [Row(f"decode, {label}: times generate", decode.ratio, "x")]
    return [
        decode,
        *times,
        Row(f"decode, {label}: step", 1e3 * ours.step, "ms", _beside(theirs, lambda one: 1e3 * one.step)),
        Row(f"decode, {label}: floor of a step", 1e3 * floor, "ms"),
        Row(f"decode, {label}: share of the roofline", floor / ours.step, "share"),
        Row(f"prefill, {label}", _rate(tokens, ours) or 0.0, "tokens/s", _beside(theirs, partial(_rate, tokens))),
        Row(
            f"prompt and {MANY} tokens, {label}",
            batch * MANY / ours.whole,
            "tokens/s",
            _beside(theirs, lambda one: batch * MANY / one.whole),
        ),
    ]


def _rate(tokens: int, speed: Speed) -> float | None:
    """Tokens of prompts in a second."""
    return None if speed.prompts is None else tokens / speed.prompts


def _beside(theirs: Speed | None, figure: Callable[[Speed], float | None]) -> float | None:
    return None if theirs is None else figure(theirs)
