"""ComplexWebQuestions as first published: ComplexWebQuestions_train.json, with SPARQL and answers with aliases.

The source names no topics; they are the Freebase ids that its SPARQL mentions. Knows nothing of graphs.
"""

from __future__ import annotations

import re

from kgwalk.data.formats import fields
from kgwalk.data.formats.format import Format, Reading
from kgwalk.data.formats.records import Record, json_records
from kgwalk.types import Question

_MID = re.compile(r"\bns:([mg]\.[0-9a-z_]+)")


def _question(record: Record, reading: Reading) -> Question:
    row = fields.mapping(record.value)
    sparql = fields.maybe(row, "sparql")
    answers = fields.Answers()
    for answer in fields.rows(row, "answers" if "answers" in row else "answer"):
        key = fields.maybe(answer, "answer_id")
        answers.add(fields.maybe(answer, "answer") or reading.name(key), key, *fields.texts(answer, "aliases"))
    mids = fields.unique(_MID.findall(sparql))
    return Question(
        id=fields.text(row, "ID"),
        question=fields.text(row, "question"),
        topic_entities=[reading.name(mid) for mid in mids],
        answers=answers.names,
        type=fields.maybe(row, "compositionality_type") or None,
        aliases=answers.aliases,
        extra=fields.without_none(
            {
                "topic_ids": {reading.name(mid): mid for mid in mids},
                "composition_answer": row.get("composition_answer"),
                "webqsp_id": row.get("webqsp_ID"),
                "sparql": sparql,
            }
        ),
    )


FORMAT = Format(
    name="cwq",
    about="ComplexWebQuestions, the original with SPARQL (Freebase ids; --names gives topics their names)",
    files="ComplexWebQuestions_train.json, _dev.json, _test.json",
    records=json_records,
    question=_question,
    is_questions=re.compile(r"ComplexWebQuestions[^/]*\.json(\.gz)?$", re.IGNORECASE),
    keys=frozenset({"ID", "question"}),
)
