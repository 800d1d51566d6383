"""Fields of a record, checked, and answers gathered by the one rule: a name and its ids are one answer.

Knows no format; a ValueError says what was expected of a field.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from kgwalk.runs.question_rows import kind, kind_of_list
from kgwalk.types import Triple


def mapping(value: Any, what: str = "a record") -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object for {what}, got {kind(value)}")
    return value


def text(row: dict[str, Any], *keys: str) -> str:
    """The text under the first of the keys that is there; it may not be empty."""
    for key in keys:
        if (value := row.get(key)) is not None:
            if isinstance(value, str) and value.strip():
                return value
            raise ValueError(f"expected text in `{key}`, got {'an empty one' if value == '' else kind(value)}")
    raise ValueError(f"expected {_listed(keys)}, got {_keys(row)}")


def text_or_number(row: dict[str, Any], *keys: str) -> str:
    for key in keys:
        if isinstance(value := row.get(key), int) and not isinstance(value, bool):
            return str(value)
    return text(row, *keys)


def maybe(row: dict[str, Any], key: str) -> str:
    """Text that may be missing, null or empty: "" then."""
    value = row.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"expected text in `{key}`, got {kind(value)}")
    return value or ""


def texts(row: dict[str, Any], key: str) -> list[str]:
    """A list of texts; [] where the key is missing or null."""
    value = row.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"expected a list of texts in `{key}`, got {kind_of_list(value)}")
    return value


def rows(row: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """A list of objects; [] where the key is missing or null."""
    value = row.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"expected a list of objects in `{key}`, got {kind(value)}")
    return [mapping(one, f"each of `{key}`") for one in value]


def from_json(value: Any) -> Any:
    """A value that some copies of a dataset carry as JSON text."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"expected JSON, got {value[:60]!r}: {error}") from None
    return value


def facts(value: Any, what: str) -> list[Triple]:
    """[[head, relation, tail], ...] as triples; those with an empty part, which say nothing, are left out."""
    if not isinstance(value, list):
        raise ValueError(f"expected a list of [head, relation, tail] in `{what}`, got {kind(value)}")
    made = []
    for fact in value:
        if not isinstance(fact, list) or len(fact) not in (3, 4) or not all(isinstance(part, str) for part in fact):
            raise ValueError(f"expected [head, relation, tail] in `{what}`, three names, got {fact!r:.80}")
        if all(fact[:3]):
            made.append(Triple(*fact))
    return made


class Answers:
    """The answers of one question: names in the order they came, each once, and what else each goes by.

    >>> answers = Answers()
    >>> answers.add("Paris", "m.05qtj", "Paris")
    >>> answers.add("", "m.0x")
    >>> answers.names, answers.aliases
    (['Paris', 'm.0x'], {'Paris': ['m.05qtj']})
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.aliases: dict[str, list[str]] = {}

    def add(self, *names: str | None) -> None:
        """One answer: the first name that is not empty is its own, the others are aliases."""
        name, *others = [name for name in names if name] or [""]
        if not name:
            return
        if name not in self.names:
            self.names.append(name)
        known = self.aliases.get(name, [])
        fresh = [other for other in dict.fromkeys(others) if other != name and other not in known]
        if known or fresh:
            self.aliases[name] = known + fresh


def without_none(values: dict[str, Any]) -> dict[str, Any]:
    """Only the keys that say something: null, empty lists and empty texts are left out."""
    return {key: value for key, value in values.items() if value is not None and value != [] and value not in ("", {})}


def unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name))


def _listed(keys: Iterable[str]) -> str:
    return " or ".join(f"`{key}`" for key in keys)


def _keys(row: dict[str, Any]) -> str:
    return f"the keys {', '.join(list(row)[:8])}" if row else "an empty object"
