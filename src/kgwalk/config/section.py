"""One section of a recipe as a dataclass: known keys, right types, sensible numbers, or an error that says so.

    @dataclass(frozen=True)
    class Sft:
        lr: float = setting(1e-5, above=0)
        schedule: str = setting("cosine", among=("cosine", "constant"))

    read_section(Sft, recipe, "sft")

Knows no section by name.
"""

from __future__ import annotations

import math
import types
import typing
from dataclasses import MISSING, field, fields
from typing import Any, TypeVar

from kgwalk.config.recipe import Recipe, unknown, unknown_setting
from kgwalk.types import KgwalkError

T = TypeVar("T")


def setting(
    default: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    among: tuple[str, ...] | None = None,
) -> Any:
    """A field of a section with what its value may be."""
    bounds = {"above": above, "least": least, "most": most, "among": among}
    return field(default=default, metadata=bounds)


def read_section(kind: type[T], recipe: Recipe, section: str) -> T:
    """The section's values over the defaults of its fields."""
    values = recipe.section(section)
    known = {entry.name: entry for entry in fields(kind)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(kind)
    for key, value in values.items():
        if key not in known:
            raise unknown_setting(recipe, section, key, known)
        values[key] = _checked(f"{section}.{key}", value, hints[key], known[key].metadata)
    for name, entry in known.items():
        if name not in values and entry.default is MISSING and entry.default_factory is MISSING:
            raise KgwalkError(f"the recipe {recipe.name} has no `{section}.{name}`, and there is no default")
    return kind(**values)


def _checked(name: str, value: Any, hint: Any, bounds: Any) -> Any:
    allowed = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value == "none" and types.NoneType in allowed:  # TOML has no null
        return None
    kinds = [typing.get_origin(entry) or entry for entry in allowed]
    if float in kinds and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if tuple in kinds and isinstance(value, list):
        value = tuple(value)
    if not any(type(value) is entry for entry in kinds):
        wanted = " or ".join(_WORDS.get(entry, entry.__name__) for entry in kinds if entry is not types.NoneType)
        raise KgwalkError(f"`{name}` must be {wanted}, not {value!r}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        _check_number(name, value, bounds)
    among = bounds.get("among")
    if among and isinstance(value, str) and value not in among:
        raise unknown(f"value of {name}", value, among)
    return value


_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", tuple: "a list"}


def _check_number(name: str, value: float, bounds: Any) -> None:
    if not math.isfinite(value):
        raise KgwalkError(f"`{name}` must be a finite number, not {value}")
    if bounds.get("above") is not None and not value > bounds["above"]:
        raise KgwalkError(f"`{name}` must be above {bounds['above']}, not {value}")
    if bounds.get("least") is not None and not value >= bounds["least"]:
        raise KgwalkError(f"`{name}` must be at least {bounds['least']}, not {value}")
    if bounds.get("most") is not None and not value <= bounds["most"]:
        raise KgwalkError(f"`{name}` must be at most {bounds['most']}, not {value}")
