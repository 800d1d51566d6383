"""Whether a recipe can be trained, and where: checked before anything is made. Needs no torch."""

from __future__ import annotations

import re
from collections.abc import Collection

from kgwalk.config.recipe import Recipe, load_recipe, names, read_section, unknown
from kgwalk.demos.filter import DemoSettings
from kgwalk.demos.writer import WRITERS
from kgwalk.evaluation.evaluate import EvalSettings
from kgwalk.score.rewards import RewardFunction
from kgwalk.training.curriculum import CurriculumSettings
from kgwalk.training.settings import GrpoSettings, ModelSettings, SftSettings
from kgwalk.types import KgwalkError
from kgwalk.walk.policy import budget_of, check_web, protocol_of
from kgwalk.walk.protocol import PROTOCOLS


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
    if "sft" in stages:
        read_section(SftSettings, recipe, "sft")
    if {"sft", "grpo"} & set(stages):
        read_section(GrpoSettings, recipe, "grpo")  # validation after SFT reads it too
    if "grpo" in stages:
        read_section(CurriculumSettings, recipe, "curriculum")
        RewardFunction.of(recipe)
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
