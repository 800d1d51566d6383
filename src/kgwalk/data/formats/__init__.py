"""The public formats of question sets, by name.

    FORMATS["webqsp"].read(Path("WebQSP.train.json"))

`base` says what a format is. The formats stand in three modules: sets over Freebase (`freebase`), over Wikidata or
DBpedia (`wikidata`), and sets that are published together with their graph (`graph_included`). To add one, write a
function from a record to a `Question`, make a `Format` of it, and list it here.
"""

from __future__ import annotations

from typing import Any

from kgwalk.config.recipe import unknown
from kgwalk.data.formats.base import Format
from kgwalk.data.formats.freebase import CWQ, GRAILQA, ROG, SIMPLEQUESTIONS, WEBQSP, WEBQUESTIONS
from kgwalk.data.formats.graph_included import METAQA, MULTITQ, OWN, PATHQUESTION
from kgwalk.data.formats.wikidata import CREAK, KILT, QALD, TWOWIKI

FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        *(ROG, WEBQSP, CWQ, WEBQUESTIONS, GRAILQA, SIMPLEQUESTIONS, QALD),
        *(KILT, CREAK, MULTITQ, METAQA, PATHQUESTION, TWOWIKI, OWN),
    )
}


def format_called(name: str) -> Format:
    """The format of this name; KgwalkError, with the nearest name, for an unknown one."""
    if name not in FORMATS:
        raise unknown("format", name, FORMATS)
    return FORMATS[name]


def format_of(row: dict[str, Any]) -> Format | None:
    """The format whose keys a record has; the one with the most keys, where several fit."""
    fit = [form for form in FORMATS.values() if form.keys and form.keys <= row.keys()]
    return max(fit, key=lambda form: len(form.keys), default=None)
