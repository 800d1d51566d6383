"""Episodes for outside trainers, and the case that these are compared with: the same gradient by plain torch."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest
import torch
from case import RECIPES, TOLERANCE, difference, make_case, read_case
from transformers import AutoModelForCausalLM

from kgwalk.config.recipe import load_recipe
from kgwalk.training.advantages import Rewards
from kgwalk.training.backends.exchange import TrainerEpisode, token_credit, unconstrained
from kgwalk.types import Answer, Constraint, Episode, KgwalkError, Question, Turn
from kgwalk.walk.policy import protocol_of

QUESTION = Question("q7", "who?", ["Big"], ["x"])


def scores(module: torch.nn.Module, one: TrainerEpisode) -> torch.Tensor:
    """Log-probabilities of the completion's tokens, one sequence at a time: no padding, nothing shared."""
    ids = torch.tensor([one.prompt_ids + one.completion_ids])
    logits = module(input_ids=ids).logits[0, len(one.prompt_ids) - 1 : -1]
    return logits.log_softmax(-1).gather(-1, torch.tensor(one.completion_ids)[:, None])[:, 0]


@pytest.mark.parametrize("name", RECIPES)
def test_the_native_gradient_is_that_of_plain_torch(cases: Path, name: str) -> None:
    """In the first update a token's slope is its advantage, times its weight; the KL term adds kl (1 - e^d)."""
    place = make_case(name, cases)
    settings, groups, advantages = read_case(place)
    assert token_credit(groups, settings).advantages == advantages
    pairs = zip(chain(*groups), chain(*advantages), strict=True)
    kept = [(one, row) for one, row in pairs if row is not None]
    assert sum(not one.trainable for group in groups for one in group) == 1
    assert advantages[0][1] is None
    assert advantages[-1] == [None] * len(groups[-1])
    assert settings.advantage == {"kg-r1": "turn", "eog": "trajectory"}[name]
    by_turns = [len({value for value, mark in zip(row, one.mask, strict=True) if mark}) > 1 for one, row in kept]
    assert any(by_turns) == (name == "kg-r1")

    module = AutoModelForCausalLM.from_pretrained(place / "model", dtype=torch.float32)
    reference = AutoModelForCausalLM.from_pretrained(place / "reference", dtype=torch.float32)
    for suffix, frozen in (("", None), ("-moved", reference)):
        module.zero_grad()
        for one, row in kept:
            mask = torch.tensor(one.mask, dtype=torch.float32)
            weight = {
                "sequence-mean": mask / mask.sum(),
                "sequence-sum-constant": mask / settings.sequence_tokens,
            }[settings.aggregation] / len(kept)
            new = scores(module, one)
            loss = -torch.tensor(row) * (new - new.detach()).exp()
            if frozen is not None:
                apart = scores(frozen, one).detach() - new
                loss = loss + settings.kl * (apart.exp() - apart - 1)
            (loss * weight).sum().backward()
        found = {key: value.grad for key, value in module.named_parameters()}
        assert difference(found, place / f"gradient{suffix}.safetensors") < TOLERANCE
    moved = difference(found, place / "gradient.safetensors")
    assert (moved > 10 * TOLERANCE) == (settings.kl > 0)  # the second pair of files tells whether the KL term is there


def test_an_episode_without_a_turn_is_a_row_of_one_token() -> None:
    one = TrainerEpisode.of(Episode(QUESTION, [], [1, 2], ""), None, pad_id=5)
    assert one == TrainerEpisode([1, 2], [5], [0], [0.0], [-1], [], 0.0, False)
    assert TrainerEpisode.from_json(one.as_json()) == one
    unwritten = TrainerEpisode.of(Episode(QUESTION, [], [], ""), None, pad_id=5)  # the graph failed before the prompt
    assert (unwritten.prompt_ids, unwritten.completion_ids) == ([5], [5])


def test_a_walk_under_a_grammar_is_refused() -> None:
    turn = Turn([7], [-1.0], "x", Answer(("x",)), constraint=Constraint(None, 8))
    with pytest.raises(KgwalkError, match=r"'q7' was sampled under a grammar.*constrain=false"):
        TrainerEpisode.of(Episode(QUESTION, [], [1], "", [turn]), Rewards([0.0], 0.0), pad_id=0)
    protocol = protocol_of(load_recipe("kgwalk"))
    assert protocol.constrain
    assert not unconstrained(protocol).constrain
    plain = protocol_of(load_recipe("kg-r1"))
    assert unconstrained(plain) is plain
