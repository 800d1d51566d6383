"""SimpleQuestions: a Freebase fact and a question about it, in four tab-separated columns.

`www.freebase.com/m/04whkz5` is written `m.04whkz5`, as the other Freebase sets have it. FB2M and FB5M, its graphs, are
read beside it. Knows nothing of stores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kgwalk.data.formats import fields
from kgwalk.data.formats.format import Format, Reading, record_id
from kgwalk.data.formats.records import Record, line_records
from kgwalk.types import Question, Triple

_SITE = "www.freebase.com/"


def _question(record: Record, reading: Reading) -> Question:
    columns = record.value.split("\t")
    if len(columns) != 4 or not all(part.strip() for part in columns):
        raise ValueError(f"expected subject<TAB>relation<TAB>object<TAB>question, got {len(columns)} columns")
    subject, relation, object_, question = columns
    head, tail = freebase_id(subject), freebase_id(object_)
    answers = fields.Answers()
    answers.add(reading.name(tail), tail)
    return Question(
        id=record_id(record, reading, "simplequestions"),
        question=question.strip(),
        topic_entities=[reading.name(head)],
        answers=answers.names,
        hops=1,
        gold_paths=[[Triple(reading.name(head), freebase_id(relation), reading.name(tail))]],
        aliases=answers.aliases,
        extra={"answer_kind": "entity", "topic_ids": {reading.name(head): head}},
    )


def _facts(path: Path, reading: Reading) -> Iterator[Triple]:
    """FB2M's rows: a subject, a relation and objects between spaces."""
    for record in line_records(path):
        columns = record.value.split("\t")
        if len(columns) != 3:
            reading.refuse(record.error(f"expected subject<TAB>relation<TAB>objects, got {len(columns)} columns"))
            continue
        head, relation = freebase_id(columns[0]), freebase_id(columns[1])
        for object_ in columns[2].split():
            yield Triple(reading.name(head), relation, reading.name(freebase_id(object_)))


def freebase_id(text: str) -> str:
    """
    >>> freebase_id("www.freebase.com/book/written_work/subjects"), freebase_id("fb:m.01cj3p")
    ('book.written_work.subjects', 'm.01cj3p')
    """
    return text.strip().removeprefix(_SITE).removeprefix("fb:").strip("/").replace("/", ".")


FORMAT = Format(
    name="simplequestions",
    about="SimpleQuestions (Freebase ids; --names gives them names)",
    files="annotated_fb_data_train.txt, _valid.txt, _test.txt; freebase-FB2M.txt is the graph",
    records=line_records,
    question=_question,
    is_questions=re.compile(r"annotated_fb_data[^/]*\.(txt|tsv)(\.gz)?$"),
    is_graph=re.compile(r"freebase-FB[25]M\.txt(\.gz)?$"),
    facts=_facts,
)
