"""kgwalk's own keys in JSON lines, arrays or parquet, to be written as a dataset folder.

The folder format itself, for files that lie elsewhere or are named otherwise. Knows nothing of graphs' files but
their names.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from kgwalk.data.formats import fields
from kgwalk.data.formats.format import Format, Reading
from kgwalk.data.formats.records import Record, json_records
from kgwalk.data.questions import GRAPH
from kgwalk.runs.question_rows import question_of
from kgwalk.types import Question, Triple


def _question(record: Record, reading: Reading) -> Question:
    row: dict[str, Any] = fields.mapping(record.value)
    fields.text(row, "question")
    question = question_of({key: value for key, value in row.items() if value is not None}, str(record.number))
    return replace(question, extra={key: value for key, value in question.extra.items() if key != GRAPH})


def _graph(record: Record) -> list[Triple]:
    return fields.facts(record.value.get(GRAPH) or [], GRAPH)


FORMAT = Format(
    name="kgwalk",
    about="the keys of kgwalk's own folders, in JSON lines, an array or parquet",
    files="train.jsonl, dev.jsonl.gz, test.parquet, ...; kg.tsv.gz is the graph",
    records=json_records,
    question=_question,
    is_questions=re.compile(r"^(?!.*\.kg/)(.*/)?(?!kg\.|graphs\.)[^/]*\.(jsonl?|parquet)(\.gz|\.zst)?$"),
    is_graph=re.compile(r"^(kg\.(tsv|csv|nt|ttl|nq|jsonl|ndjson)|graphs\.jsonl|names\.tsv)(\.gz|\.zst)?$"),
    graph=_graph,
    keys=frozenset({"question", "topic_entities", "answers"}),
)
