"""KILT's slot filling, T-REx and zero-shot RE: `Head [SEP] relation`, and what fills the slot.

Where the source gives template questions the first is asked, else the slot is put as one. KILT scores any of its
outputs as right, so they are one answer: the first, with the others as aliases. Knows nothing of Wikipedia's text.
"""

from __future__ import annotations

from typing import Any

from kgwalk.data.formats import fields
from kgwalk.data.formats.format import Format, Reading
from kgwalk.data.formats.records import Record, json_records
from kgwalk.types import Question, Triple

SEPARATOR = "[SEP]"


def _question(record: Record, reading: Reading) -> Question:
    row = fields.mapping(record.value)
    meta = fields.mapping(row.get("meta") or {}, "`meta`")
    given, outputs = fields.text(row, "input"), fields.rows(row, "output")
    head, is_slot, relation = (part.strip() for part in given.partition(SEPARATOR))
    if is_slot and not (head and relation):
        raise ValueError(f"expected a head and a relation around {SEPARATOR} in `input`, got {given!r:.80}")
    answers = fields.Answers()
    answers.add(
        *[fields.maybe(output, "answer") for output in outputs], *(fields.texts(meta, "obj_surface") if is_slot else [])
    )
    templates = fields.texts(meta, "template_questions")
    path = [Triple(head, relation, answers.names[0])] if is_slot and answers.names else None
    return Question(
        id=fields.text_or_number(row, "id"),
        question=templates[0] if templates else f"what is the {relation} of {head}?" if is_slot else given,
        topic_entities=[head] if is_slot else [],
        answers=answers.names,
        hops=1 if is_slot else None,
        gold_paths=None if path is None else [path],
        type=relation or None,
        aliases=answers.aliases,
        extra=fields.without_none(
            {
                "answer_kind": "entity" if is_slot else None,
                "template_questions": templates[1:],
                "subject_aliases": fields.texts(meta, "subj_aliases"),
                "pages": _pages(outputs),
            }
        ),
    )


def _pages(outputs: list[dict[str, Any]]) -> list[str]:
    """The Wikipedia titles that the answers come from."""
    return fields.unique(
        str(source.get("title") or "") for output in outputs for source in fields.rows(output, "provenance")
    )


FORMAT = Format(
    name="kilt",
    about="KILT: T-REx and zero-shot relation extraction (and its plain questions)",
    files="trex-train-kilt.jsonl, structured_zeroshot-dev-kilt.jsonl",
    records=json_records,
    question=_question,
    keys=frozenset({"input", "output"}),
)
