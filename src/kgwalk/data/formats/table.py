"""The formats by name.

Knows which there are; each is a module of its own.
"""

from __future__ import annotations

from typing import Any

from kgwalk.config.plugins import unknown
from kgwalk.data.formats.base import Format
from kgwalk.data.formats.freebase import CWQ, GRAILQA, ROG, SIMPLEQUESTIONS, WEBQSP, WEBQUESTIONS
from kgwalk.data.formats.paths_and_time import METAQA, MULTITQ, OWN, PATHQUESTION
from kgwalk.data.formats.wikidata import CREAK, KILT, QALD, TWOWIKI

FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        *(ROG, WEBQSP, CWQ, WEBQUESTIONS, GRAILQA, SIMPLEQUESTIONS, QALD),
        *(KILT, CREAK, MULTITQ, METAQA, PATHQUESTION, TWOWIKI, OWN),
    )
}


def format_called(name: str) -> Format:
    if name not in FORMATS:
        raise unknown("format", name, FORMATS)
    return FORMATS[name]


def format_of(row: dict[str, Any]) -> Format | None:
    """The format whose keys a record has; the one with most of them, where several fit."""
    fit = [form for form in FORMATS.values() if form.keys and form.keys <= row.keys()]
    return max(fit, key=lambda form: len(form.keys), default=None)
