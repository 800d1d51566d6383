"""A recipe: one system as data, a TOML file of sections and values. The bundled ones are listed by `names()`.

Reads and overrides; which keys a section has is for the part to say that uses it (`section` reads them, `unknown`
words the complaint). A profile is values for a purpose (`135m`: a small model; `smoke`: see that it runs) over those of
any recipe, in profiles/; what a recipe wants otherwise for a profile stands in its own [profiles.NAME.SECTION]. Knows
no system by name.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from importlib import resources
from pathlib import Path
from typing import Any

from kgwalk.types import KgwalkError

_FOLDER = resources.files("kgwalk.config") / "recipes"
_PROFILES = resources.files("kgwalk.config") / "profiles"
# who walks, over what, with what budget; what is trained, on what, how, for what
SECTIONS = (
    *("protocol", "policy", "world", "rollout", "eval"),
    *("train", "model", "demos", "sft", "grpo", "turn_rewards", "rewards", "reward_settings", "curriculum"),
)
PROFILES = "profiles"


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
    return sorted(entry.name.removesuffix(".toml") for entry in _FOLDER.iterdir() if entry.name.endswith(".toml"))


def load_recipe(name: str) -> Recipe:
    """A bundled recipe by its name, or a file by its path."""
    if name.endswith(".toml"):
        try:
            text = Path(name).read_text("utf-8")
        except OSError as error:
            raise KgwalkError(f"cannot read the recipe {name}: {error.strerror}") from error
    elif name in names():
        text = (_FOLDER / f"{name}.toml").read_text("utf-8")
    else:
        raise unknown("recipe", name, names())
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
    return Recipe(Path(name).stem, values, about)


def _check_profiles(name: str, own: dict[str, Any]) -> None:
    """[profiles.NAME.SECTION] and nothing else."""
    for profile, sections in own.items():
        for section, inside in sections.items() if isinstance(sections, dict) else [(profile, None)]:
            if not isinstance(inside, dict):
                raise KgwalkError(f"the recipe {name}: a value of a profile stands in [profiles.{profile}.SECTION]")
            if section not in SECTIONS:
                raise unknown(f"section of the recipe {name}'s profile {profile}", section, SECTIONS)


def unknown_setting(recipe: Recipe, section: str, key: str, known: Iterable[str]) -> KgwalkError:
    """The error for a key that a section does not have; first among the guesses are other sections that have it."""
    elsewhere = [f"{other}.{key}" for other, values in recipe.resolved().items() if other != section and key in values]
    return unknown("setting", f"{section}.{key}", (f"{section}.{name}" for name in known), elsewhere)


def unknown(what: str, name: str, known: Iterable[str], first: Sequence[str] = ()) -> KgwalkError:
    """The error for a name that is not there, with the nearest that is, after those that are meant `first`."""
    names = sorted(known)
    section = name[: name.rfind(".") + 1]
    if not all(one.startswith(section) for one in names):
        section = ""
    # what all have in common is left out, or any two keys of a section would be much alike
    tails = {one.removeprefix(section): one for one in names}
    near = difflib.get_close_matches(name.removeprefix(section), tails, 1)
    meant = " or ".join(f"`{one}`" for one in (*first, *(tails[tail] for tail in near)))
    hint = f"did you mean {meant}?" if meant else f"there are {', '.join(names)}"
    return KgwalkError(f"unknown {what} `{name}`; {hint}")


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
