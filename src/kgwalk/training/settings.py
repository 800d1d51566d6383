"""What a recipe says of training, and whether it can be trained: the sections [model], [rank], [sft] and [grpo].

Each setting is documented here, once. The checks run before anything is made. Neither needs torch.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from kgwalk.config.recipe import Recipe, load_recipe, names, read_section, setting, unknown
from kgwalk.demos.filter import DemoSettings
from kgwalk.demos.writer import WRITERS
from kgwalk.evaluation.evaluate import EvalSettings
from kgwalk.llm.models import DEFAULT_MODEL
from kgwalk.score.judge.judge import JudgeSettings
from kgwalk.score.rewards import RewardFunction
from kgwalk.training.curriculum import CurriculumSettings
from kgwalk.types import KgwalkError
from kgwalk.walk.policy import budget_of, check_web, protocol_of
from kgwalk.walk.protocol import PROTOCOLS
from kgwalk.walk.ranking import INPUTS

AGGREGATIONS = ("token-mean", "sequence-mean", "sequence-sum-constant")
ADVANTAGES = ("turn", "turn-code", "trajectory")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """[model]: what is trained. `lora_rank = 0` trains every weight."""

    name: str = DEFAULT_MODEL
    lora_rank: int = setting(16, least=0)
    lora_alpha: float = setting(32.0, above=0)
    lora_dropout: float = setting(0.0, least=0, most=0.9)
    dtype: str = setting(
        "auto", among=("auto", "float32", "bfloat16")
    )  # auto: bfloat16 on a GPU that has it; a CPU has float32
    compile: bool | str = setting(
        "auto", among=("auto",)
    )  # layers as few large kernels, made in a minute or two at the start (`fused`, `host_pass`). auto: on a GPU
    checkpoint_activations: bool | str = setting(
        "auto", among=("auto",)
    )  # compute again what does not fit: less memory, a third more time. auto: where a microbatch would not fit


@dataclass(frozen=True, slots=True)
class RankSettings:
    """[rank]: the ranker of candidate entities (KG-Reasoner, equations 1 to 4), learned from gold paths."""

    questions: int = setting(3000, least=1)  # of the split to learn from, drawn, whatever `train.limit` is
    dev_questions: int = setting(300, least=0)  # to choose the best epoch by; 0: the last one
    inputs: str = setting("paper", among=INPUTS)  # what it reads of a candidate (walk/ranker.py)
    neighbours: int = setting(12, least=0)  # of a candidate, that equation 1 attends to
    width: int = setting(64, least=1)  # of the vectors that W makes
    hidden: int = setting(64, least=1)  # of the classifier
    facts: int = setting(20, least=1)  # of one relation, to learn from
    dev_facts: int = setting(1000, least=1)  # of one relation, to measure on
    negatives: int = setting(24, least=1)  # irrelevant rows of one expansion, drawn; and at most so many relevant ones
    siblings: bool = False  # facts of a gold fact's own relation count as irrelevant
    epochs: int = setting(6, least=1)
    batch: int = setting(32, least=1)  # expansions an update
    lr: float = setting(1e-3, above=0)  # falls to zero along a cosine
    weight_decay: float = setting(0.01, least=0)


@dataclass(frozen=True, slots=True)
class SftSettings:
    """[sft]: supervised fine-tuning on demonstrations; observation tokens are masked."""

    epochs: int = setting(1, least=1)
    minutes: float = setting(0.0, least=0)  # of wall-clock time; the learning rate's schedule ends with it; 0: no limit
    batch: int = setting(32, least=1)  # demonstrations an update
    lr: float = setting(1e-4, above=0)
    schedule: str = setting("cosine", among=("cosine", "constant"))
    warmup: float = setting(0.03, least=0, most=1)  # share of all updates
    weight_decay: float = setting(0.0, least=0)
    clip: float = setting(1.0, above=0)  # of the gradient's norm
    microbatch_tokens: int = setting(16384, least=1)  # in memory at once, with padding and masks (`microbatch.room`)
    save_every: int = setting(50, least=1)  # updates
    eval_every: int = setting(0, least=0)  # updates; 0: at the end
    eval_questions: int = setting(64, least=0)  # 0: none, and the last weights are the result
    half: bool = False  # passes in bfloat16 on a CPU that is faster so (the bf16 probe); a GPU's type is [model]'s
    threads: int = setting(0, least=0)  # of a CPU, in an update; 0: as many as elsewhere (OMP_NUM_THREADS)
    most_loss: float = setting(1e4, above=0)  # a loss above this has exploded


@dataclass(frozen=True, slots=True)
class GrpoSettings:
    """[grpo]: group-relative policy optimisation with credit for turns."""

    steps: int = setting(100, least=1)
    minutes: float = setting(0.0, least=0)  # as in [sft]
    questions: int = setting(64, least=1)  # of a step
    group: int = setting(8, least=2)  # rollouts of each
    rollout_workers: int | str = setting(
        "auto", least=0, among=("auto",)
    )  # processes that walk beside the one with the model. auto: none on a CPU, all cores but two (at most 12) by a GPU
    temperature: float = setting(1.0, above=0)
    lr: float = setting(1e-6, above=0)
    schedule: str = setting("constant", among=("cosine", "constant"))
    warmup: float = setting(0.0, least=0, most=1)
    weight_decay: float = setting(0.0, least=0)
    clip: float = setting(1.0, above=0)  # of the gradient's norm
    advantage: str = setting("turn", among=ADVANTAGES)
    whole_weight: float = setting(1.0, least=0)  # lambda: of the whole reward beside those of turns
    std: bool = True  # divide by the group's standard deviation
    clip_low: float = setting(0.2, above=0, most=1)
    clip_high: float = setting(0.2, above=0)
    kl: float = setting(0.0, least=0)  # weight of the K3 divergence from the model before [grpo]
    aggregation: str = setting("token-mean", among=AGGREGATIONS)
    sequence_tokens: int = setting(1024, least=1)  # the constant of sequence-sum-constant
    epochs: int = setting(1, least=1)  # over the rollouts of a step
    minibatches: int = setting(1, least=1)  # updates an epoch
    importance_cap: float = setting(2.0, above=0)  # of the weights that correct the sampler's log-probabilities
    microbatch_tokens: int = setting(16384, least=1)  # as in [sft]
    save_every: int = setting(1, least=1)  # steps
    keep: int = setting(2, least=1)  # checkpoints; the best one is kept besides
    eval_every: int = setting(10, least=0)  # steps; 0: at the end
    eval_questions: int = setting(64, least=0)  # as in [sft]
    patience: int = setting(0, least=0)  # steps without a better F1 in validation, after which it ends; 0: all steps
    episodes: int = setting(4, least=0)  # sampled episodes written a step
    most_loss: float = setting(1e4, above=0)


# Whether a recipe can be trained, and where


def trained() -> list[str]:
    """The bundled recipes that can be trained: those with a section [grpo]."""
    return [name for name in names() if "grpo" in load_recipe(name).sections]


def check_protocol(recipe: Recipe, *, written: bool = True) -> None:
    """Raises unless a model can follow the recipe's protocol and, if `written`, its demonstrations can be written."""
    others = f"choose a recipe that can be trained: {', '.join(trained())}"
    if "policy" in recipe.sections and "name" not in recipe.section("protocol"):  # a profile may have added other keys
        raise KgwalkError(f"the recipe {recipe.name} is a baseline without a protocol; {others}")
    protocol = protocol_of(recipe)
    if written and protocol.name not in WRITERS:
        if protocol.name not in PROTOCOLS:  # the user's own
            others = "let a teacher write them (`kgwalk demos --source teacher`, then --demos), or leave the stage out"
        raise KgwalkError(
            f"the recipe {recipe.name} cannot be trained: nothing writes demonstrations of its protocol "
            f"{protocol.name}; {others}"
        )


def check_recipe(recipe: Recipe, stages: Collection[str], *, demos: bool = False) -> None:
    """Raises if a section that these stages read is wrong; `demos` says that demonstrations are there already."""
    written = "demos" in stages and not demos
    check_protocol(recipe, written=written)
    budget_of(recipe)
    check_web(recipe)
    read_section(ModelSettings, recipe, "model")
    if written:
        own = WRITERS[protocol_of(recipe).name].styles
        for style in DemoSettings.of(recipe).styles:
            if style not in own:
                raise unknown(f"style of {recipe.name}'s thoughts", style, own)
    if "rank" in stages:
        read_section(RankSettings, recipe, "rank")
    if "sft" in stages:
        read_section(SftSettings, recipe, "sft")
    if {"sft", "grpo"} & set(stages):
        read_section(GrpoSettings, recipe, "grpo")  # validation after SFT reads it too
    if "grpo" in stages:
        read_section(CurriculumSettings, recipe, "curriculum")
        RewardFunction.of(recipe)
        read_section(JudgeSettings, recipe, "judge")
    if "eval" in stages:
        read_section(EvalSettings, recipe, "eval")


def check_device(device: str) -> None:
    """Raises unless the device is auto, cpu, cuda or one of several GPUs, such as cuda:1, and exists."""
    if device in ("auto", "cpu"):
        return
    found = re.fullmatch(r"cuda(?::(\d+))?", device)
    if found is None:
        raise KgwalkError(f"unknown device `{device}`; there are auto, cpu and cuda")
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(found[1] or 0) >= count:
        seen = f"{count} of them" if count else "no GPU"
        raise KgwalkError(f"the device {device} was asked for, and torch sees {seen} here; auto takes what there is")
