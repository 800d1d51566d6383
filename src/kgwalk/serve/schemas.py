"""The shapes of requests and replies as pydantic models, for OpenAPI and for tests.

Imported only when somebody asks for the description, since pydantic takes long to import. `model_of(ActionItem)` is a
model of the same name, fields, bounds and words as the TypedDict; it takes no other fields, unless the shape is
LENIENT, and turns no type into another.
"""

from __future__ import annotations

from functools import cache
from types import NoneType
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import BaseModel, ConfigDict, Field, create_model

from kgwalk.serve.reading import is_union, taken_apart
from kgwalk.serve.shapes import LENIENT, About


@cache
def model_of(shape: Any) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for name, hint in get_type_hints(shape, include_extras=True).items():
        default = ... if name in shape.__required_keys__ else None
        fields[name] = (_type_of(hint), Field(default, description=taken_apart(hint)[1].text or None))
    config = ConfigDict(extra="ignore" if shape in LENIENT else "forbid", strict=True)
    model: type[BaseModel] = create_model(shape.__name__, __config__=config, __doc__=shape.__doc__, **fields)
    return model


def _type_of(hint: Any, *, inner: bool = False) -> Any:
    """The type with models in the place of shapes, and pydantic's bounds in the place of ours."""
    kind, about = taken_apart(hint)
    made: Any = kind
    if is_typeddict(kind):
        made = model_of(kind)
    elif is_union(kind):
        made = Union[tuple(_type_of(one, inner=True) for one in get_args(kind))]  # noqa: UP007 - of a tuple
    elif get_origin(kind) in (list, dict):
        made = get_origin(kind)[tuple(_type_of(one, inner=True) for one in get_args(kind))]
    if said := _said(kind, about) | ({"description": about.text} if inner and about.text else {}):
        made = Annotated[made, Field(**said)]
    return made | None if _takes_null(hint) else made


def _said(kind: Any, about: About) -> dict[str, Any]:
    """The bounds and the tag in pydantic's words."""
    number = kind in (int, float)
    words = {"ge" if number else "min_length": about.least, "le" if number else "max_length": about.most}
    return {name: value for name, value in {**words, "discriminator": about.tag}.items() if value is not None}


def _takes_null(hint: Any) -> bool:
    while get_origin(hint) in (NotRequired, Annotated):
        hint = get_args(hint)[0]
    return is_union(hint) and NoneType in get_args(hint)
