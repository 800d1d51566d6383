"""A section of a recipe as a dataclass: what may stand in it, and what is said of anything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgwalk.config.recipe import Recipe, read_section, setting
from kgwalk.types import KgwalkError


@dataclass(frozen=True)
class Example:
    count: int
    rate: float = setting(0.5, above=0, most=1)
    least: int = setting(3, least=2)
    limit: int | None = setting(None, least=1)
    share: float | None = None
    name: str = setting("cosine", among=("cosine", "constant"))
    free: str = ""
    on: bool = False
    parts: tuple[str, ...] = ("a", "b")
    layout: Literal["flat", "tree"] = "flat"


def read(**values: Any) -> Example:
    return read_section(Example, Recipe("mine", {"example": {"count": 1, **values}}), "example")


def test_values_stand_over_the_defaults() -> None:
    assert read() == Example(1)
    assert read(rate=1, least=2, limit=4, name="constant", free="x", on=True, parts=["c"]) == Example(
        1, 1.0, 2, 4, None, "constant", "x", True, ("c",)
    )
    assert isinstance(read(rate=1).rate, float)
    assert read(limit="none", share="none") == Example(1)
    assert read(share=2).share == 2.0
    assert read_section(Example, Recipe("mine", {"example": {"count": 7}}), "example").count == 7


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rat": 1}, "unknown setting `example.rat`; did you mean `example.rate`?"),
        ({"zzzzzz": 1}, "unknown setting `example.zzzzzz`; there are example.count, example.free, "),
        ({"count": 1.5}, "`example.count` must be a whole number, not 1.5"),
        ({"count": "3"}, "`example.count` must be a whole number, not '3'"),
        ({"count": True}, "`example.count` must be a whole number, not True"),
        ({"count": "none"}, "`example.count` must be a whole number, not 'none'"),
        ({"rate": "much"}, "`example.rate` must be a number, not 'much'"),
        ({"rate": True}, "`example.rate` must be a number, not True"),
        ({"rate": 0}, "`example.rate` must be above 0, not 0.0"),
        ({"rate": 1.01}, "`example.rate` must be at most 1, not 1.01"),
        ({"rate": float("nan")}, "`example.rate` must be a finite number, not nan"),
        ({"share": float("inf")}, "`example.share` must be a finite number, not inf"),
        ({"least": 1}, "`example.least` must be at least 2, not 1"),
        ({"limit": 0}, "`example.limit` must be at least 1, not 0"),
        ({"limit": "all"}, "`example.limit` must be a whole number, not 'all'"),
        ({"name": "cosin"}, "unknown value of example.name `cosin`; did you mean `cosine`?"),
        ({"name": 3}, "`example.name` must be text, not 3"),
        ({"on": 1}, "`example.on` must be true or false, not 1"),
        ({"on": "true"}, "`example.on` must be true or false, not 'true'"),
        ({"parts": "a"}, "`example.parts` must be a list, not 'a'"),
        ({"layout": "fat"}, "unknown value of example.layout `fat`; did you mean `flat`?"),
        ({"layout": 3}, "`example.layout` must be text, not 3"),
    ],
)
def test_anything_else_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(KgwalkError) as caught:
        read(**values)
    assert str(caught.value).startswith(message)


def test_what_has_no_default_must_be_given() -> None:
    with pytest.raises(KgwalkError, match=r"the recipe mine has no `example\.count`, and there is no default"):
        read_section(Example, Recipe("mine", {}), "example")


@dataclass(frozen=True)
class Walker:
    """As a policy or a protocol: some of it is not the recipe's, and its numbers are above 0 without saying so."""

    engine: object
    width: int = 3
    seconds: float = 1.5


def walker(**values: Any) -> Walker:
    recipe = Recipe("mine", {"policy": {"name": "mine", **values}})
    return read_section(Walker, recipe, "policy", given={"engine": "here", "budget": 7}, apart=["name"], positive=True)


def test_what_is_given_and_what_is_read_elsewhere() -> None:
    assert walker() == Walker("here")
    assert walker(width=2, seconds=2) == Walker("here", 2, 2.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"engine": "other"}, "unknown setting `policy.engine`; there are policy.seconds, policy.width"),
        ({"budget": 1}, "unknown setting `policy.budget`; there are policy.seconds, policy.width"),
        ({"width": 0}, "`policy.width` must be a number above 0, not 0"),
        ({"width": "all"}, "`policy.width` must be a number above 0, not 'all'"),
        ({"width": 1.5}, "`policy.width` must be a whole number, not 1.5"),
        ({"seconds": -1}, "`policy.seconds` must be a number above 0, not -1"),
    ],
)
def test_numbers_that_must_be_above_0(values: dict[str, Any], message: str) -> None:
    with pytest.raises(KgwalkError) as caught:
        walker(**values)
    assert str(caught.value).startswith(message)


anything = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.text(), max_size=2)
)


@given(st.dictionaries(st.sampled_from([*Example.__dataclass_fields__, "other"]), anything, max_size=4))
def test_no_value_is_let_through_with_another_type(values: dict[str, Any]) -> None:
    """Either a section with the types that its fields say, or an error for a person."""
    try:
        found = read(**values)
    except KgwalkError:
        return
    assert type(found.count) is int
    assert type(found.rate) is float
    assert 0 < found.rate <= 1
    assert type(found.on) is bool
    assert found.limit is None or (type(found.limit) is int and found.limit >= 1)
    assert type(found.parts) is tuple
    assert found.name in ("cosine", "constant")
