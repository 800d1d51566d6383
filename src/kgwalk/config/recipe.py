"""A recipe: one system as data, a TOML file of sections and values.

    recipe = load_recipe("kg-r1").with_profile("135m").with_values(["grpo.lr=1e-6"])
    read_section(GrpoSettings, recipe, "grpo")

`load_recipe` finds a bundled recipe by its name (`names()` lists them), a file or a system's folder by its path. Which
keys a section has is said by the dataclass that `read_section` makes of it: the part that uses a section declares it.

A profile is values for a purpose, over those of any recipe: `135m` for a small model, `smoke` to see that it runs. They
lie in profiles/; what a recipe wants to be different stands in its own [profiles.NAME.SECTION].
"""

from __future__ import annotations

import json
import math
import re
import tomllib
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import date, time
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from kgwalk.config.plugins import BUNDLED, add_system, unknown
from kgwalk.types import KgwalkError

_PROFILES = resources.files("kgwalk.config") / "profiles"
# who walks, over what, with what budget; what is trained, on what, how, for what
SECTIONS = (
    *("protocol", "policy", "world", "rollout", "eval"),
    *("train", "model", "demos", "sft", "grpo", "turn_rewards", "rewards", "reward_settings", "curriculum"),
)
PROFILES = "profiles"
RECIPE = "recipe"  # the file of a system's folder is recipe.toml
PARTS = ("protocol", "policy", "demos", "rewards")  # its other files, those of them that it needs


@dataclass(frozen=True)
class Recipe:
    """`sections["rollout"]["turn_tokens"]` and so on; `about` is the comment at the file's top."""

    name: str
    sections: Mapping[str, Mapping[str, Any]]
    about: str = ""

    def section(self, name: str) -> dict[str, Any]:
        return dict(self.sections.get(name, {}))

    def with_values(self, assignments: Iterable[str]) -> Recipe:
        """The recipe with `section.key=value` set; a value is read as TOML, else taken as text."""
        sections = {name: dict(values) for name, values in self.sections.items()}
        for assignment in assignments:
            key, found, text = assignment.partition("=")
            section, dot, inside = key.strip().partition(".")
            if not found or not dot or not inside:
                raise KgwalkError(f"{assignment!r} is not section.key=value, such as rollout.turn_tokens=64")
            if section not in SECTIONS:
                raise unknown("section", section, SECTIONS)
            sections.setdefault(section, {})[inside] = _value(text.strip())
        return Recipe(self.name, sections, self.about)

    def with_profile(self, name: str) -> Recipe:
        """The recipe with a profile's values over its own."""
        own = self.sections.get(PROFILES, {})
        if name not in profiles() and name not in own:
            raise unknown("profile", name, [*profiles(), *own])
        sections = {key: dict(values) for key, values in self.sections.items()}
        general = tomllib.loads((_PROFILES / f"{name}.toml").read_text("utf-8")) if name in profiles() else {}
        for values in (general, own.get(name, {})):
            for section, inside in values.items():
                sections[section] = sections.get(section, {}) | inside
        return Recipe(self.name, sections, self.about)

    def resolved(self) -> dict[str, dict[str, Any]]:
        """The sections as they stand, without the profiles that were not asked for."""
        return {name: dict(values) for name, values in self.sections.items() if name != PROFILES}

    def toml(self) -> str:
        """The resolved recipe as TOML."""
        lines = [f"# {line}" for line in self.about.splitlines()]
        for section, values in self.resolved().items():
            lines += ["", f"[{section}]", *(f"{_key(key)} = {_toml(value)}" for key, value in values.items())]
        return "\n".join(lines) + "\n"


def profiles() -> list[str]:
    """The profiles that any recipe can be run with."""
    return sorted(entry.name.removesuffix(".toml") for entry in _PROFILES.iterdir() if entry.name.endswith(".toml"))


def names() -> list[str]:
    """The bundled recipes."""
    return sorted(_bundled())


def _bundled() -> dict[str, Path]:
    """Their files: `kg_r1/recipe.toml` is kg-r1; a folder of several, as the baselines', has `oracle.toml`."""
    files = list(BUNDLED.glob("*/*.toml"))
    return {file.parent.name.replace("_", "-") if file.stem == RECIPE else file.stem: file for file in files}


def load_recipe(name: str) -> Recipe:
    """A bundled recipe by its name, a file by its path, or a system's folder by its path."""
    called, file = _find_recipe(name)
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise KgwalkError(f"cannot read the recipe {name}: {error.strerror}") from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise KgwalkError(f"the recipe {name} is not TOML: {error}") from error
    for section, inside in values.items():
        if not isinstance(inside, dict):
            raise KgwalkError(f"the recipe {name}: `{section}` must be a section, [{section}]")
        if section not in (*SECTIONS, PROFILES):
            raise unknown(f"section of the recipe {name}", section, SECTIONS)
    _check_profiles(name, values.get(PROFILES, {}))
    about = "\n".join(line.lstrip("# ") for line in text.split("\n\n")[0].splitlines() if line.startswith("#"))
    return Recipe(called, values, about)


def _find_recipe(name: str) -> tuple[str, Path]:
    """What the recipe is called, and its file. The parts of a system's folder are known from now on."""
    if name.endswith(".toml") and not _is_system(Path(name)):
        return Path(name).stem, Path(name)
    bundled = _bundled()
    if name in bundled:
        return name, bundled[name]
    folder = Path(name).parent if name.endswith(".toml") else Path(name)
    file = folder / f"{RECIPE}.toml"
    if file.is_file():
        add_system(folder)
        return folder.resolve().name.replace("_", "-"), file
    if folder.is_dir():
        raise KgwalkError(f"the folder {name} is no system: it has no {file.name}")
    raise unknown("recipe", name, bundled)


def _is_system(file: Path) -> bool:
    """Whether the file is the recipe of a system's folder; in a run's folder it stands alone."""
    return file.name == f"{RECIPE}.toml" and any(file.with_name(f"{part}.py").exists() for part in PARTS)


def _check_profiles(name: str, own: dict[str, Any]) -> None:
    """[profiles.NAME.SECTION] and nothing else."""
    for profile, sections in own.items():
        for section, inside in sections.items() if isinstance(sections, dict) else [(profile, None)]:
            if not isinstance(inside, dict):
                raise KgwalkError(f"the recipe {name}: a value of a profile stands in [profiles.{profile}.SECTION]")
            if section not in SECTIONS:
                raise unknown(f"section of the recipe {name}'s profile {profile}", section, SECTIONS)


def _unknown_setting(recipe: Recipe, section: str, key: str, known: Iterable[str]) -> KgwalkError:
    """The error for a key that a section does not have; first among the guesses are other sections that have it."""
    elsewhere = [f"{other}.{key}" for other, values in recipe.resolved().items() if other != section and key in values]
    return unknown("setting", f"{section}.{key}", (f"{section}.{name}" for name in known), elsewhere)


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)


def _toml(value: Any) -> str:
    """A value as TOML writes it."""
    match value:
        case dict():
            return "{" + ", ".join(f"{_key(key)} = {_toml(inside)}" for key, inside in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case bool():
            return str(value).lower()
        case date() | time():
            return value.isoformat()
        case _:  # a number: inf and nan are written alike
            return str(value)


# One section of a recipe as a dataclass

T = TypeVar("T")


def setting(
    default: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    among: tuple[str, ...] | None = None,
) -> Any:
    """A field of a section, with what its value may be."""
    bounds = {"above": above, "least": least, "most": most, "among": among}
    return field(default=default, metadata=bounds)


def read_section(
    kind: type[T],
    recipe: Recipe,
    section: str,
    *,
    given: Mapping[str, Any] | None = None,
    apart: Collection[str] = (),
    positive: bool = False,
) -> T:
    """The section as an object of a dataclass: known keys, right types, sensible numbers, or an error that says so.

        @dataclass(frozen=True)
        class Sft:
            lr: float = setting(1e-5, above=0)
            schedule: str = setting("cosine", among=("cosine", "constant"))

        read_section(Sft, recipe, "sft")

    `given` are fields that do not come from the recipe; those that the kind does not have are left out. Keys `apart`
    are read elsewhere. With `positive`, every number must be above 0.
    """
    known = {entry.name: entry for entry in fields(kind)}  # type: ignore[arg-type]
    made = {name: value for name, value in (given or {}).items() if name in known}
    known = {name: entry for name, entry in known.items() if name not in made}
    hints = _types_of(kind)
    for key, value in recipe.section(section).items():
        if key in apart:
            continue
        if key not in known:
            raise _unknown_setting(recipe, section, key, known)
        bounds = {**known[key].metadata, "positive": positive}
        made[key] = _checked(f"{section}.{key}", value, hints[key], bounds)
    for name, entry in known.items():
        if name not in made and entry.default is MISSING and entry.default_factory is MISSING:
            raise KgwalkError(f"the recipe {recipe.name} has no `{section}.{name}`, and there is no default")
    return kind(**made)


def _types_of(kind: type) -> dict[str, Any]:
    """The types of a dataclass's fields; one from outside may name types that only a type checker imports."""
    try:
        return typing.get_type_hints(kind)
    except NameError as error:
        raise KgwalkError(
            f"the types of the fields of {kind.__name__} cannot be read: {error}; import them outside `TYPE_CHECKING`"
        ) from error


def _checked(name: str, value: Any, hint: Any, bounds: Mapping[str, Any]) -> Any:
    """The value as its field has it, where TOML can write it so: 1 for a float, a list for a tuple, "none" for None."""
    if typing.get_origin(hint) is typing.Literal:  # of texts
        hint, bounds = str, {**bounds, "among": typing.get_args(hint)}
    allowed = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value == "none" and types.NoneType in allowed:  # TOML has no null
        return None
    kinds = [typing.get_origin(entry) or entry for entry in allowed]
    if float in kinds and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if tuple in kinds and isinstance(value, list):
        value = tuple(value)
    if all(entry in _WORDS or entry is types.NoneType for entry in kinds):  # other types check their own values
        _check_type(name, value, kinds, bounds)
    if isinstance(value, int | float) and not isinstance(value, bool):
        _check_number(name, value, bounds)
    among = bounds.get("among")
    if among and isinstance(value, str) and value not in among:
        raise unknown(f"value of {name}", value, among)
    return value


_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    tuple: "a list",
    list: "a list",
    dict: "a table",
}


def _check_type(name: str, value: Any, kinds: Sequence[Any], bounds: Mapping[str, Any]) -> None:
    if any(type(value) is entry for entry in kinds):
        return
    wanted = " or ".join(_WORDS[entry] for entry in kinds if entry is not types.NoneType)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if bounds["positive"] and {int, float} & set(kinds) and not is_number:
        wanted = "a number above 0"
    raise KgwalkError(f"`{name}` must be {wanted}, not {value!r}")


def _check_number(name: str, value: float, bounds: Mapping[str, Any]) -> None:
    if not math.isfinite(value):
        raise KgwalkError(f"`{name}` must be a finite number, not {value}")
    if bounds["positive"] and value <= 0:
        raise KgwalkError(f"`{name}` must be a number above 0, not {value}")
    if bounds.get("above") is not None and not value > bounds["above"]:
        raise KgwalkError(f"`{name}` must be above {bounds['above']}, not {value}")
    if bounds.get("least") is not None and not value >= bounds["least"]:
        raise KgwalkError(f"`{name}` must be at least {bounds['least']}, not {value}")
    if bounds.get("most") is not None and not value <= bounds["most"]:
        raise KgwalkError(f"`{name}` must be at most {bounds['most']}, not {value}")
