"""Rewards by name: the two tables, the decorators that fill them, and functions of one's own by their place.

    @whole_reward("f1")
    def f1(outcome: Outcome) -> float: ...

A turn reward gives one number for each turn of the episode, a whole reward one for all of it, or None where there is
nothing to go by (the judge failed, no gold path is known). Keyword-only parameters with defaults are settings, which a
recipe's [reward_settings] may change. Knows no reward by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kgwalk.config.place import imported
from kgwalk.config.recipe import unknown
from kgwalk.types import KgwalkError

TurnReward = Callable[..., list[float]]
WholeReward = Callable[..., float | None]
_F = TypeVar("_F", bound=Callable[..., Any])

TURN: dict[str, TurnReward] = {}
WHOLE: dict[str, WholeReward] = {}
_JUDGES: dict[Callable[..., Any], str] = {}


def turn_reward(name: str) -> Callable[[_F], _F]:
    return _registering(TURN, name)


def whole_reward(name: str) -> Callable[[_F], _F]:
    return _registering(WHOLE, name)


def judged_by(kind: str) -> Callable[[_F], _F]:
    """The reward reads `outcome.judged[kind]`, so a judge must be asked; kinds are those of score/judge/kinds.py."""

    def keep(function: _F) -> _F:
        _JUDGES[function] = kind
        return function

    return keep


def judge_of(function: Callable[..., Any]) -> str | None:
    return _JUDGES.get(function)


def reward_named(name: str, section: str) -> Callable[..., Any]:
    """A reward of [turn_rewards] or [rewards]; `package.module:function` and `file.py:function` need no registering."""
    own, other = (TURN, "rewards") if section == "turn_rewards" else (WHOLE, "turn_rewards")
    known: Mapping[str, Callable[..., Any]] = own
    if name in known:
        return known[name]
    if ":" in name:
        return _imported(name)
    if name in TURN or name in WHOLE:
        raise KgwalkError(f"the reward `{name}` belongs in [{other}], not in [{section}]")
    raise unknown(f"reward in [{section}]", name, known)


def _registering(table: dict[str, Any], name: str) -> Callable[[_F], _F]:
    def keep(function: _F) -> _F:
        if name in table:
            raise KgwalkError(f"there are two rewards called `{name}`")
        table[name] = function
        return function

    return keep


def _imported(place: str) -> Callable[..., Any]:
    found: Callable[..., Any] = imported("reward", place)
    if not callable(found):
        raise KgwalkError(f"the reward `{place}` is no function")
    return found
