"""What a fit begins from: a recipe that can be fitted, and an adapter to go on from, if any.

Knows no recipe and no model by name, and loads no weights.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from kgwalk.agent.adapters import NONE, asked_for, shipped
from kgwalk.build.checks import check_recipe
from kgwalk.config.recipe import Recipe
from kgwalk.config.section import read_section
from kgwalk.llm.adapter import CONFIG, read_adapter
from kgwalk.llm.models import check_base, find_model, same_model
from kgwalk.runs.folder import read_json
from kgwalk.score.rewards.function import RewardFunction
from kgwalk.training.settings import ModelSettings
from kgwalk.types import KgwalkError

ALL = ("demos", "sft", "grpo", "eval")  # a fit measures by some, and tests by the last, whichever it trains by


def check(recipe: Recipe, stages: Collection[str]) -> None:
    """What is wrong with the recipe is told before a question is made; `stages` are those of [train]."""
    check_recipe(recipe, ALL)
    if "sft" in stages and "demos" not in stages:
        raise KgwalkError("the stage sft learns from demonstrations: add the stage demos to `train.stages`")
    if not {"sft", "grpo"} & set(stages):
        raise KgwalkError("a fit learns by the stage sft, or grpo, and `train.stages` has neither")
    if RewardFunction.of(recipe).judges:
        raise KgwalkError(
            f"the recipe {recipe.name} rewards what a judge says, and a fit has none; `kgwalk questions make` and "
            "`kgwalk train --judge` do the same in two steps"
        )
    find_model(read_section(ModelSettings, recipe, "model").name)


def start_of(asked: str | Path | None, recipe: Recipe) -> Path | None:
    """The adapter to go on from; unless one is asked for, the shipped one where it is of the recipe's model."""
    if asked == NONE:
        return None
    folder = shipped() if asked is None else asked_for(str(asked))
    if folder is None:
        return None
    adapter, model = read_adapter(folder), read_section(ModelSettings, recipe, "model").name
    if asked is not None:
        check_base(adapter, model)
    fits = same_model(adapter.base, model) and adapter.protocol in ("", recipe.section("protocol").get("name"))
    return folder if asked is not None or fits else None


def as_wide(start: Path) -> list[str]:
    """The recipe's adapter is as wide as the one that it goes on from."""
    config = read_json(start / CONFIG)
    return [f"model.lora_rank={config['r']}", f"model.lora_alpha={float(config['lora_alpha'])}"]
