"""MultiTQ: questions about dated events, and its graph, rows of head, relation, tail and date.

The source names no topics; the linker finds them in the question. Knows nothing of stores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kgwalk.data.formats import fields
from kgwalk.data.formats.format import Format, Reading
from kgwalk.data.formats.records import Record, json_records, line_records
from kgwalk.types import Question, Triple


def _question(record: Record, reading: Reading) -> Question:
    row = fields.mapping(record.value)
    answers = fields.Answers()
    for name in fields.texts(row, "answers"):
        answers.add(name)
    return Question(
        id=fields.text_or_number(row, "quid"),
        question=fields.text(row, "question"),
        topic_entities=fields.unique(fields.texts(row, "entities")),
        answers=answers.names,
        type=fields.maybe(row, "qtype") or None,
        extra=fields.without_none(
            {
                "answer_kind": row.get("answer_type"),  # entity or time
                "time_level": row.get("time_level"),  # day, month or year
                "qlabel": row.get("qlabel"),  # Single or Multiple
            }
        ),
    )


def dated_facts(path: Path, reading: Reading) -> Iterator[Triple]:
    """Rows of head, relation, tail and date, between tabs."""
    for record in line_records(path):
        columns = record.value.split("\t")
        if len(columns) not in (3, 4) or not all(columns[:3]):
            reading.refuse(record.error(f"expected head<TAB>relation<TAB>tail<TAB>date, got {len(columns)} columns"))
        else:
            yield Triple(*columns)


def _facts(path: Path, reading: Reading) -> Iterator[Triple]:
    """full.txt holds what train, valid and test do: beside it their facts would come twice."""
    if not path.name.startswith("full.") and any(path.parent.glob("full.*")):
        return iter(())
    return dated_facts(path, reading)


FORMAT = Format(
    name="multitq",
    about="MultiTQ: dated events (ICEWS), answers are entities or times",
    files="questions/train.json, dev.json, test.json; kg/full.txt (or train, valid, test) is the graph",
    records=json_records,
    question=_question,
    is_questions=re.compile(r"(?<!kg/)[^/]*(train|dev|test)[^/]*\.jsonl?(\.gz|\.zst)?$"),
    is_graph=re.compile(r"(^|/)kg/(full|train|valid|dev|test)\.(txt|tsv)(\.gz)?$"),
    facts=_facts,
    keys=frozenset({"quid", "question"}),
)
