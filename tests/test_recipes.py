"""Recipes: the bundled ones make policies, values can be set, and a key that nothing reads is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgwalk.agent.from_recipe import budget_of, policy_of, protocol_of
from kgwalk.agent.policies import POLICIES
from kgwalk.agent.protocols import PROTOCOLS
from kgwalk.config.recipe import load_recipe, names
from kgwalk.llm.engine import Sampling
from kgwalk.llm.scripted import ScriptedEngine
from kgwalk.types import KgwalkError


@pytest.mark.parametrize("name", names())
def test_every_bundled_recipe_makes_a_policy(name: str) -> None:
    recipe = load_recipe(name)
    policy_of(recipe, ScriptedEngine([]), Sampling())
    assert budget_of(recipe).turn_tokens > 0
    command = "eval" if "policy" in recipe.sections else "ask"
    assert recipe.about.startswith(f"kgwalk {command}")


def test_every_protocol_and_every_policy_has_a_recipe() -> None:
    recipes = [load_recipe(name) for name in names()]
    assert {protocol_of(recipe).name for recipe in recipes if "policy" not in recipe.sections} == set(PROTOCOLS)
    assert {recipe.section("policy")["name"] for recipe in recipes if "policy" in recipe.sections} == set(POLICIES)


def test_values_can_be_set() -> None:
    recipe = load_recipe("kg-r1").with_values(["protocol.turns=7", "protocol.relation_format=hierarchical"])
    protocol = protocol_of(recipe)
    assert protocol.turns == 7
    assert protocol.relation_format == "hierarchical"  # type: ignore[attr-defined]
    assert protocol_of(load_recipe("kg-r1")).turns == 5


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("rollout.turn_token=3", "unknown setting `rollout.turn_token`; did you mean `rollout.turn_tokens`?"),
        ("rollouts.turn_tokens=3", "unknown section `rollouts`; did you mean `rollout`?"),
        ("turns", "'turns' is not section.key=value, such as rollout.turn_tokens=64"),
        ("protocol.turns=-1", "`protocol.turns` must be a number above 0, not -1"),
        ("protocol.turns=many", "`protocol.turns` must be a number above 0, not 'many'"),
        ("protocol.name=kgwalks", "unknown protocol `kgwalks`; did you mean `kgwalk`?"),
    ],
)
def test_what_is_wrong_is_named(assignment: str, message: str) -> None:
    def make() -> None:
        recipe = load_recipe("kg-r1").with_values([assignment])
        protocol_of(recipe)
        budget_of(recipe)

    with pytest.raises(KgwalkError) as caught:
        make()
    assert str(caught.value) == message


def test_a_recipe_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('# mine\n\n[protocol]\nname = "kgwalk"\n')
    assert load_recipe(str(path)).name == "mine"
    assert protocol_of(load_recipe(str(path))).turns == 8
    path.write_text("name = 3\n")
    with pytest.raises(KgwalkError, match=r"`name` must be a section, \[name\]"):
        load_recipe(str(path))
    path.write_text("[protocol\n")
    with pytest.raises(KgwalkError, match="is not TOML"):
        load_recipe(str(path))
    with pytest.raises(KgwalkError, match="cannot read the recipe"):
        load_recipe(str(tmp_path / "none.toml"))
    with pytest.raises(KgwalkError, match="unknown recipe `kgr1`; did you mean `kg-r1`"):
        load_recipe("kgr1")
