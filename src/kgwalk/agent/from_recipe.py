"""A recipe's values as the objects of a rollout; a key that nothing reads is an error that names the nearest."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from kgwalk.agent.budget import Budget
from kgwalk.agent.protocol import Protocol
from kgwalk.agent.protocols import PROTOCOLS
from kgwalk.config.recipe import Recipe, unknown
from kgwalk.types import KgwalkError


def protocol_of(recipe: Recipe) -> Protocol:
    values = recipe.section("protocol")
    name = values.pop("name", None)
    if name not in PROTOCOLS:
        raise unknown("protocol", str(name), PROTOCOLS)
    made: Protocol = _make(PROTOCOLS[name], values, "protocol")
    return made


def budget_of(recipe: Recipe) -> Budget:
    made: Budget = _make(Budget, recipe.section("rollout"), "rollout")
    return made


def _make(kind: type[Any], values: dict[str, Any], section: str) -> Any:
    known = {field.name: field for field in fields(kind)}
    for key, value in values.items():
        if key not in known:
            raise unknown("setting", f"{section}.{key}", (f"{section}.{name}" for name in known))
        default = known[key].default
        if isinstance(default, int | float) and not isinstance(default, bool):
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                raise KgwalkError(f"`{section}.{key}` must be a number above 0, not {value!r}")
        elif isinstance(default, str) and not isinstance(value, str):
            raise KgwalkError(f"`{section}.{key}` must be text, not {value!r}")
    return kind(**values)
