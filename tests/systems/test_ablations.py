"""The ablations that docs/papers.md lists: what each row is given is read, means something, and trains for a step."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgwalk.cli.options import environment_values
from kgwalk.config.recipe import Recipe, load_recipe, names, read_section
from kgwalk.config.run_folder import read_rows
from kgwalk.data.bundled import world_folder
from kgwalk.data.dataset import Dataset, load_dataset
from kgwalk.score.rewards import RewardFunction
from kgwalk.training.curriculum import CurriculumSettings
from kgwalk.training.pipeline import TrainSettings, train
from kgwalk.training.settings import GrpoSettings, RankSettings
from kgwalk.walk.environment import environment_settings
from kgwalk.walk.policy import protocol_of
from tiny_models import UNTAUGHT_VALUES  # also: one thread for torch

PAGE = (Path(__file__).parents[2] / "docs" / "papers.md").read_text("utf-8")
SIZES = ("model.", "grpo.questions", "grpo.group", "grpo.minibatches")
TINY = (
    *UNTAUGHT_VALUES,
    *("train.limit=4", "demos.limit=2", "sft.eval_questions=0"),
    *("grpo.questions=1", "grpo.group=2", "grpo.steps=1", "grpo.eval_questions=0", "grpo.episodes=2"),
)
# The shortest turns into which a demonstration fits. A model that knows nothing writes every turn to its end.
TURN_TOKENS = {"graph-rft": 128, "kg-reasoner": 24, "kg-hopper": 24, "eog": 128}


def _rows() -> Iterator[tuple[str, str, str]]:
    """Recipe, what is ablated, and the options of `kgwalk train` that do it."""
    for part in PAGE.split("### Ablations")[1:]:
        [recipe] = set(re.findall(r"`kgwalk train ([\w-]+) --data DATA`", part.partition("\n## ")[0]))
        table = part.partition("\n## ")[0].partition("|---|---|---|\n")[2]
        for line in table.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            if line.startswith("|") and len(cells) >= 2:
                yield recipe, f"{cells[0]}: {cells[1]}", cells[2].strip("| `") if len(cells) > 2 else ""


ROWS = list(_rows())


def values_of(recipe: str, options: str) -> list[str]:
    """The options as values of the recipe, as `kgwalk train` makes them; a profile as what it sets."""
    words, values = iter(shlex.split(options)), []
    for option in words:
        value = next(words)
        match option:
            case "--set":
                values.append(value)
            case "--profile":
                own = load_recipe(recipe).section("profiles")[value]
                pairs = [(f"{section}.{key}", one) for section, inside in own.items() for key, one in inside.items()]
                values += [f"{name}={json.dumps(one)}" for name, one in pairs]
            case "--stages":
                values.append(f"train.stages={[stage.strip() for stage in value.split(',')]}")
            case "--web":
                values += environment_values(None, value)
            case "--graph-drop":
                values += environment_values(float(value), None)
            case _:
                raise AssertionError(f"{option} of {options!r} is not known here")
    return values


def test_the_tables_are_read() -> None:
    assert {recipe for recipe, _, _ in ROWS} >= {"kg-r1", "graph-rft", "kg-reasoner", "kg-hopper", "eog"}
    assert {recipe for recipe, _, _ in ROWS} <= set(names())
    assert len(ROWS) >= 40


@pytest.mark.parametrize(("recipe", "what", "options"), ROWS)
def test_each_is_another_recipe(recipe: str, what: str, options: str) -> None:
    """Every key is known to the part that reads it, and something differs from the recipe as it is."""
    own = load_recipe(recipe)
    changed = own.with_values(values_of(recipe, options))
    assert (_parts(changed) == _parts(own)) == (options == ""), what


def _parts(recipe: Recipe) -> list[object]:
    RewardFunction.of(recipe)
    rewards = [recipe.section(section) for section in ("turn_rewards", "rewards", "reward_settings")]
    settings: list[object] = [read_section(TrainSettings, recipe, "train"), read_section(GrpoSettings, recipe, "grpo")]
    settings += [read_section(CurriculumSettings, recipe, "curriculum"), read_section(RankSettings, recipe, "rank")]
    settings.append(recipe.section("model"))
    return [protocol_of(recipe), environment_settings(recipe), *settings, *rewards]


@pytest.fixture(scope="module")
def world() -> Dataset:
    return load_dataset(world_folder())


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "what", "options"), ROWS)
def test_each_trains_for_a_step(
    recipe: str,
    what: str,
    options: str,
    world: Dataset,
    run_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(run_cache))
    own = load_recipe(recipe).with_profile("smoke").with_values(["train.stages=['demos', 'sft', 'grpo']", *TINY])
    if recipe in TURN_TOKENS:
        own = own.with_values([f"rollout.turn_tokens={TURN_TOKENS[recipe]}"])
    # Of a profile, what a tiny model can have: its own name and sizes stay.
    kept = () if "--profile" not in options else SIZES
    values = [value for value in values_of(recipe, options) if not value.startswith(kept)]
    report = train(own, world, out=tmp_path / "run", values=values, report_to="none")
    assert report["stages"], what
    if "grpo" in report["stages"]:
        [row] = read_rows(tmp_path / "run" / "grpo" / "metrics.jsonl")
        assert row["step"] == 1
