"""CREAK: sentences about an entity that are true or false. The answer is "true" or "false".

Knows nothing of graphs.
"""

from __future__ import annotations

from kgwalk.data.formats import fields
from kgwalk.data.formats.format import Format, Reading
from kgwalk.data.formats.records import Record, json_records
from kgwalk.types import Question

_NO_ENTITY = ("n/a", "none", "")


def _question(record: Record, reading: Reading) -> Question:
    row = fields.mapping(record.value)
    entity = fields.maybe(row, "entity")
    label = "" if row.get("label") is None else row["label"]
    if isinstance(label, bool):
        label = "true" if label else "false"
    if label not in ("", "true", "false"):
        raise ValueError(f'expected "true" or "false" in `label`, got {label!r}')
    return Question(
        id=fields.text_or_number(row, "ex_id"),
        question=fields.text(row, "sentence"),
        topic_entities=[] if entity.lower() in _NO_ENTITY else [entity],
        answers=[label] if label else [],
        extra=fields.without_none(
            {
                "answer_kind": "boolean",
                "explanation": row.get("explanation"),
                "wikipedia_id": row.get("en_wiki_pageid"),
            }
        ),
    )


FORMAT = Format(
    name="creak",
    about="CREAK: is the sentence true? (answers true, false)",
    files="train.json, dev.json, contrast_set.json (JSON lines all)",
    records=json_records,
    question=_question,
    keys=frozenset({"ex_id", "sentence"}),
)
