"""Checks a request against its shape, by a function made once from the types of shapes.py.

    read_action = RequestReader(ActionItem, "an action")
    read_action({"action": "get_tail_relations", "entity": "Big"})    # the same dict, now an ActionItem
    read_action({"action": "get_tail_relations", "entity": 5})        # "entity" must be a string, not a number

Pydantic would take many times as long, and its import longer than opening a graph. A request that is right costs one
look at each of its fields; words are made only for what is wrong. Of several mistakes one is told: a field that is not
known, else one of the wrong type (in the order of the shape), else one that is missing.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NotRequired,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from urllib.parse import parse_qsl

from kgwalk.serve.shapes import About

MOST_PARAMETERS = 32  # of a query string

S = TypeVar("S")
T = TypeVar("T")

_JSON_NAMES = {bool: "a boolean", str: "a string", list: "a list", dict: "an object", type(None): "null"}


class ItemError(Exception):
    """An item of a batch, or a body, that cannot be answered. `kind` is a word of ours; KG-R1 has codes of its own."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


class MissingField(ItemError):
    """A required field is not there, or null."""

    def __init__(self, name: str, words: str = "is missing") -> None:
        super().__init__("bad_request", f'"{name}" {words}')
        self.name = name


class NotText:
    """Stands for an item with half a surrogate pair in it: JSON can write that, but it is no text."""


class RequestReader(Generic[S]):
    """Checks that a value has the shape, a TypedDict; `what` names the value in errors.

    With `other_fields`, fields that the shape does not have are passed over.
    """

    def __init__(self, shape: type[S], what: str, *, other_fields: bool = False) -> None:
        self._what, self._other_fields = what, other_fields
        self._fields = {name: _Field(name, hint) for name, hint in get_type_hints(shape, include_extras=True).items()}
        self._fits = {name: field.fits for name, field in self._fields.items()}
        required: frozenset[str] = cast(Any, shape).__required_keys__
        self._required = [name for name in self._fields if name in required]

    def __call__(self, value: object) -> S:
        if not isinstance(value, dict):
            raise ItemError("bad_request", f"{self._what} is an object, not {json_type(value)}")
        for name, given in value.items():
            fits = self._fits.get(name)
            if fits is None:
                if not self._other_fields:
                    raise self._wrong(value)
            elif given is not None and not fits(given):
                raise self._wrong(value)
        for name in self._required:
            if value.get(name) is None:
                raise MissingField(name, self._fields[name].about.refusal or "is missing")
        return cast(S, value)

    def _wrong(self, value: dict[str, Any]) -> ItemError:
        """The first mistake; there is one."""
        if not self._other_fields and (unknown := [name for name in value if name not in self._fields]):
            name = unknown[0][:60]
            near = difflib.get_close_matches(name, self._fields, 1)
            hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(sorted(self._fields))}"
            return ItemError("bad_request", f'unknown field "{name}"; {hint}')
        field = next(
            field for name, field in self._fields.items() if value.get(name) is not None and not field.fits(value[name])
        )
        return ItemError("bad_request", f'"{field.name}" {field.why_not(value[field.name])}')


class QueryStringReader(Generic[S]):
    """Reads what stands after a path's "?" into a shape: `q=big&limit=5` is `{"q": "big", "limit": 5}`."""

    def __init__(self, shape: type[S]) -> None:
        self._read = RequestReader(shape, "the query")
        self._kinds = {name: taken_apart(hint)[0] for name, hint in get_type_hints(shape, include_extras=True).items()}

    def __call__(self, query: bytes) -> S:
        try:
            pairs = parse_qsl(query.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
        except ValueError as error:  # UnicodeDecodeError too
            raise ItemError("bad_request", f"the query cannot be read: {error}") from error
        return self._read({name: self._value(name, text) for name, text in pairs})

    def _value(self, name: str, text: str) -> object:
        kind = self._kinds.get(name)
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}.get(text, text)
        if kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                return text  # the reader says what is wrong with it
        return text


class _Field:
    """A field's type, what is said of it, and its check. Null is not checked: it stands for a field left out."""

    def __init__(self, name: str, hint: Any) -> None:
        self.name = name
        self.kind, self.about = taken_apart(hint)
        self.fits = _check(self.kind, self.about)

    def why_not(self, value: Any) -> str:
        """What is wrong with a value that does not fit."""
        kind, about = self.kind, self.about
        if about.refusal is not None:
            return about.refusal
        if get_origin(kind) is list:
            if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
                return "must be a list of strings"
            return f"has {len(value):,} names; the most is {about.most}"
        if get_origin(kind) is Literal and isinstance(value, str):
            return "must be " + " or ".join(f'"{word}"' for word in get_args(kind))
        if kind is float:
            return f"must be a number between {about.least} and {about.most}"
        if kind is int and type(value) is int:
            bound = f"at least {about.least}" if about.most is None else f"between {about.least} and {about.most:,}"
            return f"must be {bound}, not {value}"
        expected = {int: "a whole number", bool: "true or false"}.get(kind, "a string")
        return f"must be {expected}, not {json_type(value)}"


def taken_apart(hint: Any) -> tuple[Any, About]:
    """A type without `NotRequired`, `Annotated` and `| None`, and what is said of it.

    >>> kind, about = taken_apart(NotRequired[Annotated[int | None, About("how many", least=0)]])
    >>> kind, about.text, about.least
    (<class 'int'>, 'how many', 0)
    """
    about = About()
    if get_origin(hint) is NotRequired:
        (hint,) = get_args(hint)
    if get_origin(hint) is Annotated:
        hint, about = get_args(hint)
    if is_union(hint):
        kinds = tuple(kind for kind in get_args(hint) if kind is not NoneType)
        hint = Union[kinds]  # noqa: UP007 - of a tuple; a union of one type is that type
    return hint, about


def is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def _check(kind: Any, about: About) -> Callable[[Any], bool]:
    """Whether a value is of the kind and within its bounds."""
    least, most = about.least, about.most
    low = -math.inf if least is None else least
    high = math.inf if most is None else most
    if kind is str:
        return (lambda value: isinstance(value, str)) if least is None else _text_from(least)
    if kind is int:
        return lambda value: type(value) is int and low <= value <= high
    if kind is float:
        return lambda value: type(value) in (int, float) and low <= value <= high
    if kind is bool:
        return lambda value: value is True or value is False
    if kind is Any or is_typeddict(kind):  # what stands inside has a reader of its own
        return lambda value: True
    if is_union(kind):
        checks = [_check(*taken_apart(one)) for one in get_args(kind)]
        return lambda value: any(check(value) for check in checks)
    if get_origin(kind) is Literal:
        words = frozenset(get_args(kind))
        return lambda value: isinstance(value, str) and value in words
    if get_origin(kind) is list:
        inner = _check(*taken_apart(get_args(kind)[0]))
        return lambda value: isinstance(value, list) and low <= len(value) <= high and all(map(inner, value))
    raise TypeError(f"a request has no field of the type {kind}")


def _text_from(least: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and len(value) >= least


def json_type(value: object) -> str:
    """What JSON calls the value, for messages."""
    if isinstance(value, NotText):
        return "text that is not valid Unicode"
    return _JSON_NAMES.get(type(value), "a number")


def given(value: T | None, default: T) -> T:
    """The value of a field, or what it is where it was left out."""
    return default if value is None else value
