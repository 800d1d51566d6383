"""Decoding: tokens a second by batch, beside `generate` of transformers and the least time a step can take.

The engine's figure is of its passes over slots, without requests, texts and tools. `generate` is timed with few and
with more new tokens: the difference is decoding without the prompt. The least time of a step (the roofline) is the
bytes that it must move and the operations that it must do, over the machine's measured rates.
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
from kgwalk.bench.rows import Figure
from kgwalk.llm.automaton import GrammarState, automaton_of
from kgwalk.llm.grammar import END, Grammar, literal, thought
from kgwalk.llm.tokenizers import Tokenizer
from kgwalk.llm.torch_engine.engine import PREFILL_TOKENS, STEPS
from kgwalk.llm.torch_engine.model import PrefillJob, SlotModel
from kgwalk.llm.torch_engine.sampling import SlotStart
from kgwalk.types import KgwalkError

log = logging.getLogger(__name__)

FEW, MANY = 4, 36  # new tokens of `generate`
TIMED = MANY - FEW  # steps in a round
COMPARED = 256  # besides the largest batch, the only one that `generate` runs on a GPU: it is slow


@dataclass(frozen=True, slots=True)
class DecodeSpeed:
    """Seconds of a step, of the prompts alone (None if too short to measure), and of the prompts and MANY tokens."""

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


def slot_speed(
    model: SlotModel, machine: Machine, batch: int, context: int, rounds: int, state: GrammarState | None = None
) -> DecodeSpeed:
    """The engine's passes: prompts of `context` random tokens, then steps; under a grammar if a `state` is given."""
    if batch > model.max_slots:
        raise KgwalkError(f"there is memory for {model.max_slots:,} rows; give --batch no more than that")
    chance = random.Random(batch)
    ids = torch.randint(model.vocabulary, (batch, context)).tolist()
    end_set = model.end_set(frozenset())  # no token is an end
    slots = list(range(batch))
    a_pass = min(max(1, PREFILL_TOKENS.get(machine.kind, PREFILL_TOKENS["cpu"]) // context), model.max_jobs)  # prompts
    a_call = STEPS.get(machine.kind, STEPS["cpu"])
    within = model.grammar_state(state)

    def start(slot: int, at: int) -> SlotStart:
        last = ids[slot][min(at, context - 1)]
        return SlotStart(slot, last, at, MANY, 1.0, 1.0, [chance.random() for _ in range(MANY)], end_set, within)

    jobs = [PrefillJob(slot, ids[slot], 0, start(slot, context)) for slot in slots]

    def prefill() -> None:
        for begin in range(0, batch, a_pass):
            model.prefill(jobs[begin : begin + a_pass])

    def steps(count: int) -> None:
        for done in range(0, count, a_call):
            now = min(a_call, count - done)
            chosen = model.steps(slots, now, sampled=True, nucleus=False, constrained=state is not None)
        chosen.read()

    def back() -> None:
        """Sets the sequences back, so that they are `context` long in the mean of the steps."""
        at = max(1, context - TIMED // 2)
        model.state.begin([start(slot, at) for slot in slots])

    def whole() -> None:
        prefill()
        steps(MANY - 1)  # the first token comes with the prompt

    whole()  # records, compiles
    return DecodeSpeed(
        step=machine.median(lambda: steps(TIMED), rounds, back) / TIMED,
        prompts=machine.median(prefill, rounds),
        whole=machine.median(whole, rounds),
    )


def widest_state(tokens: Tokenizer) -> GrammarState | None:
    """The state of a grammar that allows nearly all tokens, and nearly always leads to itself: the inside of a thought.
    No state costs an engine more; None where the tokenizer has no grammars.
    """
    automaton = automaton_of(tokens)
    return None if automaton is None else automaton.start(Grammar(thought, (literal("</think>", END),)))


def constrained_row(batch: int, context: int, free: DecodeSpeed, bound: DecodeSpeed, on_gpu: bool) -> Figure:
    """A step under a grammar beside a free one, of which it may cost a tenth more on a GPU. On a CPU a tiny model's
    step takes less time than a look at its grammar; `benchmarks/wellformed.py --cost` measures whole turns there.
    """
    name = f"decode, batch {batch:,}, context {context:,}: step under a grammar"
    return Figure(name, 1e3 * bound.step, "ms", 1e3 * free.step, ("<=", 1.1e3 * free.step) if on_gpu else None)


def generate_speed(module: Any, machine: Machine, batch: int, context: int, rounds: int) -> DecodeSpeed | None:
    """The same by transformers; None if the device has no room for it, or the difference cannot be measured."""
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
    return DecodeSpeed(step, prompts if prompts > 0 else None, many)


def compared(batches: tuple[int, ...], machine: Machine) -> set[int]:
    """The batches that `generate` runs, too."""
    return {batch for batch in batches if batch in (COMPARED, max(batches))} if machine.on_gpu else set(batches)


def speed_rows(
    batch: int, context: int, ours: DecodeSpeed, theirs: DecodeSpeed | None, model: Decoder, limits: Limits
) -> list[Figure]:
    """The figures of one batch."""
    label = f"batch {batch:,}, context {context:,}"
    tokens = batch * context
    # In the mean of the steps, sequences are `context` tokens long and half a token more, that of the step itself.
    moved, operations = step_bytes(model, batch, context + 0.5), step_operations(model, batch, context + 0.5)
    floor = floor_seconds(moved, operations, bandwidth=limits.bandwidth, rate=limits.rate)
    decode = Figure(f"decode, {label}", batch / ours.step, "tokens/s", _beside(theirs, lambda one: batch / one.step))
    times = [] if decode.ratio is None else [Figure(f"decode, {label}: times generate", decode.ratio, "x")]
    return [
        decode,
        *times,
        Figure(f"decode, {label}: step", 1e3 * ours.step, "ms", _beside(theirs, lambda one: 1e3 * one.step)),
        Figure(f"decode, {label}: floor of a step", 1e3 * floor, "ms"),
        Figure(f"decode, {label}: share of the roofline", floor / ours.step, "share"),
        Figure(f"prefill, {label}", _rate(tokens, ours) or 0.0, "tokens/s", _beside(theirs, partial(_rate, tokens))),
        Figure(
            f"prompt and {MANY} tokens, {label}",
            batch * MANY / ours.whole,
            "tokens/s",
            _beside(theirs, lambda one: batch * MANY / one.whole),
        ),
    ]


def _rate(tokens: int, speed: DecodeSpeed) -> float | None:
    """Tokens of prompts in a second."""
    return None if speed.prompts is None else tokens / speed.prompts


def _beside(theirs: DecodeSpeed | None, figure: Callable[[DecodeSpeed], float | None]) -> float | None:
    return None if theirs is None else figure(theirs)
