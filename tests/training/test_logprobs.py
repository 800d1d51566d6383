"""Log-probabilities of marked tokens equal those of the full logits, gradients too, and those of the engine."""

from __future__ import annotations

import asyncio
import doctest
import random
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GraniteConfig,
    GraniteForCausalLM,
    PreTrainedModel,
)

import engine_helpers
from engine_helpers import GRAMMAR, ask_for_a_call
from kgwalk.llm.automaton import automaton_of
from kgwalk.llm.engine import Request, Sampling
from kgwalk.llm.torch_engine.engine import LocalEngine
from kgwalk.training import logprobs
from kgwalk.training.logprobs import TokenScorer, logprob_and_entropy
from kgwalk.training.microbatch import Batch, collate, trees
from kgwalk.types import Constraint, Flat, KgwalkError
from tiny_models import tiny_model, tiny_module

SMALL: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "initializer_range": 0.3,
}


def flats(vocabulary: int, seed: int = 0) -> list[Flat]:
    """Three sequences of 12, 9 and 5 tokens, two of three tokens marked, 17 in all. The first two share a prompt."""
    draw = random.Random(seed)
    made = []
    for length in (12, 9, 5):
        ids = [draw.randrange(1, vocabulary) for _ in range(length)]
        ids[0] = 7 if length > 5 else 8
        made.append(Flat(ids, [int(at % 3 != 0) for at in range(length)], [0.0] * length, []))
    return made


def batch(vocabulary: int) -> Batch:
    """A row each, padded on the right."""
    return collate(flats(vocabulary), None, 0)


def reference(model: Any, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """By the textbook: all logits, log_softmax, the next token's entry; and the entropy."""
    ids, attention = batch.ids_RL, (torch.arange(12) < torch.tensor([[12], [9], [5]])).long()
    logits = model(input_ids=ids, attention_mask=attention).logits[:, :-1].float()
    log_p = logits.log_softmax(-1)
    chosen = log_p.gather(2, ids[:, 1:, None])[..., 0]
    entropy = -(log_p.exp() * log_p).sum(-1)
    blank = torch.zeros(len(ids), 1)
    return torch.cat([blank, chosen], 1), torch.cat([blank, entropy], 1)


def check_equal(model: Any, *, chunk: int, whole_logits: bool, vocabulary: int, takes_trees: bool = True) -> None:
    scorer = TokenScorer(model, chunk=chunk)
    assert (scorer.whole_logits, scorer.takes_trees) == (whole_logits, takes_trees)
    alone, given = batch(vocabulary), flats(vocabulary)
    check_scores(model, scorer, alone, alone, [0, 1, 2])
    if takes_trees:
        rows = trees(given, 100)
        together = collate(given, None, 0, rows=rows)
        assert together.ids_RL.shape == (2, 20)  # 1 + 11 + 8, and 5
        check_scores(model, scorer, together, alone, [member for row in rows for member in row.members])


def check_scores(model: Any, scorer: TokenScorer, given: Batch, alone: Batch, order: list[int]) -> None:
    mask = alone.mask_BT[order]
    assert torch.equal(given.mask_BT, mask)
    expected, entropy = (each[order] for each in reference(model, alone))
    scores = scorer(given, entropy=True)
    torch.testing.assert_close(scores.logprobs_BT, expected * mask, atol=1e-5, rtol=0)
    torch.testing.assert_close(scores.entropy_BT, entropy.detach() * mask, atol=1e-5, rtol=0)
    assert not scores.entropy_BT.requires_grad

    weights = torch.linspace(-1, 1, mask.numel()).view(mask.shape)
    wanted = [p for p in model.parameters() if p.requires_grad]
    ours = torch.autograd.grad((scores.logprobs_BT * weights).sum(), wanted)
    theirs = torch.autograd.grad((expected * mask * weights).sum(), wanted)
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their, atol=2e-5, rtol=1e-4)
    assert any(gradient.abs().max() > 1e-3 for gradient in ours)


def test_the_examples_in_the_module() -> None:
    result = doctest.testmod(logprobs)
    assert (result.failed, result.attempted) == (0, 5)


@pytest.mark.parametrize("chunk", [4, 1024])
@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_equal_to_full_logits(kind: str, chunk: int) -> None:
    model = tiny_module(kind)
    check_equal(model, chunk=chunk, whole_logits=False, vocabulary=model.config.vocab_size)


def test_a_head_tied_to_the_embeddings() -> None:
    model = tiny_module("llama", tie_word_embeddings=True)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    check_equal(model, chunk=4, whole_logits=False, vocabulary=model.config.vocab_size)


def other_family(name: str) -> PreTrainedModel:
    torch.manual_seed(3)
    model: PreTrainedModel
    if name == "gemma2":
        model = Gemma2ForCausalLM(Gemma2Config(**SMALL, final_logit_softcapping=30.0))
    elif name == "granite":
        model = GraniteForCausalLM(GraniteConfig(**SMALL, logits_scaling=8.0))
    else:
        model = GPT2LMHeadModel(
            GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
        )
    return model.eval()


@pytest.mark.parametrize(
    ("name", "whole", "shared"), [("gemma2", True, False), ("granite", True, True), ("gpt2", False, True)]
)
def test_families_that_change_their_logits_are_noticed(name: str, whole: bool, shared: bool) -> None:
    """And Gemma 2, of whose layers each second one looks back a little way only, which a whole mask would undo."""
    check_equal(other_family(name), chunk=4, whole_logits=whole, vocabulary=50, takes_trees=shared)


def test_noticed_with_small_logits() -> None:
    # A cap at 30 moves a logit of 0.3 by 0.00001.
    torch.manual_seed(3)
    small = Gemma2ForCausalLM(Gemma2Config(**{**SMALL, "initializer_range": 0.05}, final_logit_softcapping=30.0)).eval()
    assert TokenScorer(small).whole_logits


def test_noticed_in_bfloat16() -> None:
    with torch.backends.mkldnn.flags(enabled=False):  # whose bfloat16 kernels some processors do not have
        assert TokenScorer(other_family("granite").to(torch.bfloat16)).whole_logits
        scorer = TokenScorer(tiny_module("qwen2").to(torch.bfloat16))
        assert not scorer.whole_logits
        scores = scorer(batch(50), entropy=True)
    assert scores.logprobs_BT.dtype == scores.entropy_BT.dtype == torch.float32


def test_with_an_adapter() -> None:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(tiny_module(), LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    check_equal(model, chunk=4, whole_logits=False, vocabulary=model.config.vocab_size)


def test_adapters_that_add_tokens_or_a_prefix() -> None:
    from peft import PrefixTuningConfig, PromptTuningConfig, TaskType, get_peft_model

    prompt = get_peft_model(tiny_module(), PromptTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=4))
    with pytest.raises(KgwalkError, match="16 places of 12 tokens"):
        TokenScorer(prompt)(batch(50))
    prefix = get_peft_model(tiny_module(), PrefixTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=4))
    assert TokenScorer(prefix).whole_logits
    assert not TokenScorer(prefix).takes_trees


def test_modes_stay_as_they_were() -> None:
    model = tiny_module("llama", attention_dropout=0.5)
    model.train()
    model.get_decoder().layers[1].eval()
    before = [module.training for module in model.modules()]
    assert not TokenScorer(model).whole_logits  # dropout is off while the two passes are compared
    assert [module.training for module in model.modules()] == before


def test_padding_changes_nothing() -> None:
    model = tiny_module("qwen3")
    scorer = TokenScorer(model)
    together = scorer(batch(model.config.vocab_size)).logprobs_BT
    for line, flat in enumerate(flats(model.config.vocab_size)):
        for multiple in (1, 16):
            alone = scorer(collate([flat], None, 0, multiple=multiple)).logprobs_BT[0]
            torch.testing.assert_close(alone, together[line, : len(flat.ids)], atol=1e-5, rtol=0)


def test_a_family_that_takes_no_mask_of_this_kind_is_noticed() -> None:
    """As one would be whose attention looks at everything before a token, whatever it is told."""
    model = tiny_module()
    forward = model.model.forward
    model.model.forward = lambda *args, attention_mask=None, **more: forward(*args, **more)
    assert not TokenScorer(model).takes_trees


def test_nothing_marked_has_a_gradient_of_zero() -> None:
    model = tiny_module()
    unmarked = collate([flat._replace(mask=[0] * len(flat.ids)) for flat in flats(50)], None, 0)
    scores = TokenScorer(model)(unmarked, entropy=True)
    scores.logprobs_BT.sum().backward()
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_a_chunk_has_tokens() -> None:
    with pytest.raises(KgwalkError, match="chunk must be at least 1"):
        TokenScorer(tiny_module(), chunk=0)


def test_logits_of_chunks_only_are_made() -> None:
    model = tiny_module()
    rows: list[int] = []
    model.get_output_embeddings().register_forward_hook(lambda module, args, out: rows.append(out[..., 0].numel()))
    given = batch(50)
    scorer = TokenScorer(model, chunk=4)
    rows.clear()
    loss = scorer(given).logprobs_BT.sum()
    assert sum(rows) == given.mask_BT.sum() == 17
    assert max(rows) <= 4
    rows.clear()
    loss.backward()
    assert sum(rows) == 17  # once more, in the backward pass
    assert max(rows) <= 4


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_equal_to_what_the_engine_reports_under_a_grammar(kind: str) -> None:
    """Probabilities are among the allowed tokens in both; where only one is allowed it is 1, and nothing is learnt."""
    loaded = tiny_model(kind)
    automaton = automaton_of(loaded.tokens)
    assert automaton is not None

    async def sample() -> list[Flat]:
        engine = LocalEngine(loaded)
        prompts = [engine_helpers.prompt(12 + n, seed=n) for n in range(6)]
        made = await asyncio.gather(
            *(engine.generate(ask_for_a_call(ids, seed=n)) for n, ids in enumerate(prompts)),
            engine.generate(Request(prompts[0], [], Sampling(max_tokens=9, temperature=1.0, seed=7))),
        )
        await engine.close()
        flats = []
        for ids, out in zip([*prompts, prompts[0]], made, strict=True):
            span = (len(ids), len(ids) + len(out.ids))
            bound = () if out.room is None else ((*span, Constraint(GRAMMAR, out.room)),)
            mask = [0] * len(ids) + [1] * len(out.ids)
            flats.append(Flat([*ids, *out.ids], mask, [0.0] * len(ids) + out.logprobs, [], bound))
        return flats

    flats = asyncio.run(sample())
    scorer = TokenScorer(loaded.module, chunk=7)
    for rows in (None, trees(flats, 10_000)):
        batch = collate(flats, None, 0, rows=rows, automaton=automaton)
        assert len(batch.target_N) < int(batch.mask_BT.sum())  # those without a choice are left out
        scores = scorer(batch, entropy=True)
        torch.testing.assert_close(scores.logprobs_BT, batch.old_logprobs_BT, atol=1e-5, rtol=0)
        assert bool((scores.entropy_BT >= -1e-6).all())
    with pytest.raises(KgwalkError, match="automaton"):
        collate(flats, None, 0)


def test_gradients_under_a_grammar_are_those_of_the_allowed_tokens() -> None:
    logits = torch.randn(5, 21, generator=torch.Generator().manual_seed(0), requires_grad=True)
    allowed = torch.rand(5, 17, generator=torch.Generator().manual_seed(1)) < 0.5  # the vocabulary is a little longer
    target = torch.tensor([3, 0, 16, 8, 5])
    allowed[torch.arange(5), target] = True
    bits = torch.from_numpy(np.packbits(allowed.numpy(), axis=1, bitorder="little"))
    found, entropy = logprob_and_entropy(logits, target, True, bits)
    one = torch.autograd.grad(found.sum(), logits)[0]
    expected, spread = [], []
    for row in range(5):
        among = torch.log_softmax(logits[row, :17][allowed[row]], -1)
        expected.append(among[int(allowed[row, : target[row]].sum())])
        spread.append(-(among.exp() * among).sum())
    other = torch.autograd.grad(torch.stack(expected).sum(), logits)[0]
    torch.testing.assert_close(found, torch.stack(expected))
    torch.testing.assert_close(entropy, torch.stack(spread).detach())
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_equal_to_what_the_engine_reports(kind: str) -> None:
    """The engine samples with a cache and one token at a time; the trainer sees the whole sequence at once."""
    loaded = tiny_model(kind)

    async def sample() -> list[tuple[list[int], list[int], list[float]]]:
        engine = LocalEngine(loaded)
        prompts = [[5, 9, 13], [7, 3, 2, 30, 31, 40, 8]]
        requests = [Request(ids, [], Sampling(max_tokens=12, temperature=1.0, seed=4)) for ids in prompts]
        made = await asyncio.gather(*map(engine.generate, requests))
        await engine.close()
        return [(ids, list(out.ids), list(out.logprobs)) for ids, out in zip(prompts, made, strict=True)]

    scorer = TokenScorer(loaded.module)
    for prompt, new, sampled in asyncio.run(sample()):
        flat = Flat(prompt + new, [0] * len(prompt) + [1] * len(new), [0.0] * len(prompt) + sampled, [])
        scored = scorer(collate([flat], None, 0)).logprobs_BT[0, len(prompt) :]
        torch.testing.assert_close(scored, torch.tensor(sampled), atol=1e-5, rtol=0)
