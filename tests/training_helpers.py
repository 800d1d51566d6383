"""Small things that the tests of training share: a tiny policy, sequences to learn from, weights to compare."""

from __future__ import annotations

import os
import random
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from kgwalk.kg.graph import Graph
from kgwalk.training.model import PolicyModel
from kgwalk.training.settings import ModelSettings
from kgwalk.training.updater import Updater
from kgwalk.types import Flat
from kgwalk.walk.environment import Environments, EnvironmentSettings
from kgwalk.walk.protocol import Environment
from tiny_models import tiny_model, tiny_tokenizer

Weights = dict[str, torch.Tensor]


def worlds_over(graph: Graph) -> Environments:
    """The same whole graph for every question."""
    return Environments(lambda question: graph, EnvironmentSettings(), Environment)


def policy(rank: int = 4, *, stirred: bool = True, seed: int = 0, **settings: Any) -> PolicyModel:
    """A tiny Llama with an adapter; `stirred`: one that has learnt something, B is not 0."""
    own = ModelSettings(name="tiny-llama", lora_rank=rank, lora_alpha=8.0, **settings)
    model = PolicyModel(own, device="cpu", loaded=tiny_model(), seed=seed)
    if stirred:
        stir(model)
    return model


def tiny_adapter(cache: Path, about: Mapping[str, Any]) -> Path:
    """An adapter of the model tiny-random that has learnt something, in a cache that has that model too."""
    known = os.environ.get("KGWALK_CACHE")
    os.environ["KGWALK_CACHE"] = str(cache)
    try:
        model = PolicyModel(ModelSettings(name="tiny-random", lora_rank=2, lora_alpha=4.0), device="cpu")
    finally:
        os.environ.pop("KGWALK_CACHE")
        if known is not None:
            os.environ["KGWALK_CACHE"] = known
    stir(model)
    model.save(cache / "adapter", dict(about))
    return cache / "adapter"


def stir(model: PolicyModel, scale: float = 0.05, seed: int = 1) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in model.parameters().values():
            value.add_(scale * torch.randn(value.shape, generator=generator))


def updater_of(model: PolicyModel, **settings: Any) -> Updater:
    return Updater(model, **{"lr": 1e-3, "weight_decay": 0.01, "clip": 1.0, "most_loss": 1e4, **settings})


def sequences(count: int, seed: int = 0, *, longest: int = 40) -> list[Flat]:
    """Each has a prompt, a turn, an observation and a turn, of all lengths; log-probabilities as an engine's."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        parts = [(0, -1), (1, 0), (0, -1), (1, 1)]
        flat = Flat([], [], [], [])
        for mask, turn in parts:
            for _ in range(chance.randrange(1, longest // 4)):
                flat.ids.append(chance.randrange(5, len(tiny_tokenizer())))
                flat.mask.append(mask)
                flat.logprobs.append(-chance.uniform(0.5, 9) if mask else 0.0)
                flat.turn_index.append(turn)
        found.append(flat)
    return found


def weights_of(model: PolicyModel) -> Weights:
    return {name: value.clone() for name, value in model.weights().items()}


def difference(one: Weights, other: Weights) -> float:
    assert one.keys() == other.keys()
    return max(float((value - other[name]).abs().max()) for name, value in one.items())


def same(one: Weights, other: Weights) -> bool:
    """Bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


@contextmanager
def longest_file(size: int) -> Iterator[None]:
    """No file may grow longer: as on a full disk, a write fails in the middle."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
