"""The formats by name.

Knows which there are; each is a module of its own.
"""

from __future__ import annotations

from typing import Any

from kgwalk.config.recipe import unknown
from kgwalk.data.formats import (
    creak,
    cwq,
    grailqa,
    kilt,
    metaqa,
    multitq,
    own,
    pathquestion,
    qald,
    rog,
    simplequestions,
    twowiki,
    webqsp,
    webquestions,
)
from kgwalk.data.formats.format import Format

_MODULES: tuple[Any, ...] = (
    rog,
    webqsp,
    cwq,
    webquestions,
    grailqa,
    simplequestions,
    qald,
    kilt,
    creak,
    multitq,
    metaqa,
    pathquestion,
    twowiki,
    own,
)
FORMATS: dict[str, Format] = {module.FORMAT.name: module.FORMAT for module in _MODULES}


def format_called(name: str) -> Format:
    if name not in FORMATS:
        raise unknown("format", name, FORMATS)
    return FORMATS[name]


def format_of(row: dict[str, Any]) -> Format | None:
    """The format whose keys a record has; the one with most of them, where several fit."""
    fit = [form for form in FORMATS.values() if form.keys and form.keys <= row.keys()]
    return max(fit, key=lambda form: len(form.keys), default=None)
