"""Recipes: the bundled ones make policies, values can be set, and a key that nothing reads is named."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgwalk.config.recipe import Recipe, load_recipe, names, profiles, read_section
from kgwalk.demos.filter import DemoSettings
from kgwalk.llm.engine import Sampling, ScriptedEngine
from kgwalk.score.rewards import RewardFunction
from kgwalk.training.curriculum import CurriculumSettings
from kgwalk.training.settings import GrpoSettings, ModelSettings, SftSettings, check_recipe
from kgwalk.types import KgwalkError
from kgwalk.walk.policy import POLICIES, budget_of, policy_of, protocol_kind, protocol_named, protocol_of
from kgwalk.walk.protocol import PROTOCOLS

ROOT = Path(__file__).parents[2]


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
        ("rollout.turns=2", "unknown setting `rollout.turns`; did you mean `protocol.turns` or `rollout.turn_tokens`?"),
        ("protocol.total_tokens=9", "unknown setting `protocol.total_tokens`; did you mean `rollout.total_tokens`?"),
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


def test_a_key_of_two_other_sections_names_both() -> None:
    with pytest.raises(KgwalkError, match=r"`rollout.lr`; did you mean `sft.lr` or `grpo.lr`\?"):
        budget_of(load_recipe("kgwalk").with_values(["rollout.lr=1"]))


OWN = """
from dataclasses import dataclass
from kgwalk.walk.protocol import Protocol
from kgwalk.systems.kgwalk.protocol import Kgwalk

@dataclass(frozen=True)
class Kind(Kgwalk):
    name = "kind"
    thanks: int = 1

class Nameless(Protocol):
    pass

class Same(Kgwalk):
    pass

word = "kind"
"""


def test_a_protocol_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its file or by its module; a recipe sets its fields as it does those of any other."""
    monkeypatch.chdir(tmp_path)
    Path("own_protocols.py").write_text(OWN)
    Path("mine.toml").write_text('[protocol]\nname = "own_protocols.py:Kind"\nturns = 3\nthanks = 2\n')
    made = protocol_of(load_recipe("mine.toml"))
    assert (made.name, made.turns, made.thanks) == ("kind", 3, 2)  # type: ignore[attr-defined]
    assert protocol_kind("kind") is type(made)  # as a demonstration names it
    assert "kind" not in PROTOCOLS
    monkeypatch.syspath_prepend(tmp_path)
    assert protocol_named("own_protocols:Kind", turns=4).turns == 4


def test_the_guide_to_protocols_has_a_recipe_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/guides/add-a-protocol.md: its recipe, beside the example; it can be trained, but for demonstrations."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "own_protocol.py", tmp_path)
    [text] = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/guides/add-a-protocol.md").read_text(), re.DOTALL)
    Path("go.toml").write_text(text)
    recipe = load_recipe("go.toml").with_profile("135m")
    assert (protocol_of(recipe).name, protocol_of(recipe).turns) == ("go", 4)
    check_recipe(recipe, ["grpo"])
    check_recipe(recipe, ["demos", "sft", "grpo"], demos=True)
    with pytest.raises(KgwalkError, match="nothing writes demonstrations of its protocol go; let a teacher"):
        check_recipe(recipe, ["demos", "sft"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_protocols.py:Kin", "unknown protocol `own_protocols.py:Kin`; did you mean `own_protocols.py:Kind`?"),
        ("none.py:Kind", "the protocol `none.py:Kind` cannot be imported"),
        ("own_protocols.py:word", "`own_protocols.py:word` is no protocol; it must be a subclass of kgwalk.walk"),
        ("own_protocols.py:Nameless", "the protocol `own_protocols.py:Nameless` has no `name`; give the class one"),
        ("own_protocols.py:Same", "is called kgwalk, as one of kgwalk's is; give it another `name`"),
    ],
)
def test_what_is_no_protocol(name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own_protocols.py").write_text(OWN)
    with pytest.raises(KgwalkError) as caught:
        protocol_of(Recipe("mine", {"protocol": {"name": name}}))
    assert message in str(caught.value)


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
    path.write_bytes('# mine\n\n[protocol]\nname = "kgwälk"\n'.encode("latin-1"))
    with pytest.raises(KgwalkError, match=r"mine\.toml is not UTF-8: line 4 has the byte 0xe4; save it as UTF-8"):
        load_recipe(str(path))
    with pytest.raises(KgwalkError, match="cannot read the recipe"):
        load_recipe(str(tmp_path / "none.toml"))
    with pytest.raises(KgwalkError, match="unknown recipe `kgr1`; did you mean `kg-r1`"):
        load_recipe("kgr1")


TRAINED = [name for name in names() if "grpo" in load_recipe(name).sections]


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("profile", [None, *profiles()])
def test_every_recipe_can_be_trained_with_every_profile(name: str, profile: str | None) -> None:
    """Each section is read by the part that uses it; what a small machine cannot do is turned off by the profiles."""
    recipe = load_recipe(name)
    for one in {None: (), "fit": ("135m", "fit")}.get(profile, (profile,)):  # `fit` is over the small model's
        recipe = recipe.with_profile(str(one))
    sections = {"model": ModelSettings, "sft": SftSettings, "grpo": GrpoSettings, "curriculum": CurriculumSettings}
    found = {section: read_section(kind, recipe, section) for section, kind in sections.items()}
    DemoSettings.of(recipe)
    judges = RewardFunction.of(recipe).judges
    if profile is not None:
        assert judges == set()
        assert found["model"].lora_rank > 0 or profile == "smoke"  # type: ignore[attr-defined]
        assert budget_of(recipe).total_tokens <= 8192
    assert len(TRAINED) == 6


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("profile", [None, *profiles()])
def test_a_resolved_recipe_is_written_and_read_back(name: str, profile: str | None, tmp_path: Path) -> None:
    recipe = load_recipe(name) if profile is None else load_recipe(name).with_profile(profile)
    path = tmp_path / f"{name}.toml"
    path.write_text(recipe.toml())
    again = load_recipe(str(path))
    assert again.resolved() == recipe.resolved()
    assert (again.name, again.about) == (recipe.name, recipe.about)
    assert again.toml() == recipe.toml()


values = st.recursive(
    st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text('ab." -é', min_size=1), inside, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text('ab.:" -é\n', min_size=1), values, max_size=4))
def test_any_values_are_written_and_read_back(section: dict[str, object]) -> None:
    import tomllib

    recipe = Recipe("mine", {"rewards": section})
    assert tomllib.loads(recipe.toml()) == {"rewards": section}


def test_a_reward_of_ones_own_has_a_name_that_needs_quotes(tmp_path: Path) -> None:
    recipe = load_recipe("kgwalk").with_values(["rewards.my_rewards.py:polite=0.2"])
    assert recipe.section("rewards")["my_rewards.py:polite"] == 0.2
    (tmp_path / "mine.toml").write_text(recipe.toml())
    assert load_recipe(str(tmp_path / "mine.toml")).section("rewards") == recipe.section("rewards")


def test_over_a_recipe_stands_the_profile_over_that_the_recipes_own_over_that_what_is_set(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        "# mine\n\n[grpo]\nsteps = 400\nlr = 1e-6\nclip = 0.5\n[sft]\nlr = 1e-5\n"
        "[profiles.smoke.grpo]\nlr = 0.25\n[profiles.tiny.grpo]\nsteps = 7\n"
    )
    recipe = load_recipe(str(path))
    smoke = recipe.with_profile("smoke").with_values(["grpo.group=9"])
    grpo = smoke.section("grpo")
    assert (grpo["steps"], grpo["lr"], grpo["clip"], grpo["group"]) == (2, 0.25, 0.5, 9)
    assert smoke.section("sft")["lr"] == 2e-2
    assert smoke.section("model")["name"] == "tiny-random"
    assert "profiles" not in smoke.resolved()
    assert recipe.section("grpo") == {"steps": 400, "lr": 1e-6, "clip": 0.5}  # the recipe itself is as it was
    assert recipe.with_profile("tiny").section("grpo")["steps"] == 7  # a profile of the recipe's alone
    with pytest.raises(KgwalkError, match="unknown profile `tinny`; did you mean `tiny`"):
        recipe.with_profile("tinny")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[grop]\nsteps = 1\n", "unknown section of the recipe .*`grop`; did you mean `grpo`"),
        ("[profiles.smoke.grop]\nsteps = 1\n", "mine.toml's profile smoke `grop`; did you mean `grpo`"),
        ("[profiles.smoke]\nsteps = 1\n", r"a value of a profile stands in \[profiles.smoke.SECTION\]"),
        ("[profiles]\nsmoke = 1\n", r"a value of a profile stands in \[profiles.smoke.SECTION\]"),
    ],
)
def test_a_section_that_nothing_reads_is_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(KgwalkError, match=message):
        load_recipe(str(path))
