"""RoG's WebQSP and CWQ: a question a line or parquet row, with a Freebase subgraph of its own.

Columns: id, question, answer, q_entity, a_entity, graph, choices. Names only, no ids. Knows nothing of stores.
"""

from __future__ import annotations

from kgwalk.data.formats import fields
from kgwalk.data.formats.format import Format, Reading
from kgwalk.data.formats.records import Record, json_records
from kgwalk.types import Question, Triple


def _question(record: Record, reading: Reading) -> Question:
    row = fields.mapping(record.value)
    # `answer` is what RoG scores by; `a_entity` are those of it that are entities
    given, entities = fields.texts(row, "answer"), fields.texts(row, "a_entity")
    answers = fields.Answers()
    for name in given or entities:
        answers.add(name)
    return Question(
        id=fields.text_or_number(row, "id"),
        question=fields.text(row, "question"),
        topic_entities=fields.unique(fields.texts(row, "q_entity")),
        answers=answers.names,
        extra=fields.without_none(
            {"a_entity": entities if entities != given else None, "choices": fields.texts(row, "choices")}
        ),
    )


def _graph(record: Record) -> list[Triple]:
    return fields.facts(record.value.get("graph") or [], "graph")


FORMAT = Format(
    name="rog",
    about="RoG's WebQSP and CWQ with a subgraph for each question",
    files="train.jsonl, or data/train-00000-of-00002.parquet, ...",
    records=json_records,
    question=_question,
    graph=_graph,
    keys=frozenset({"question", "q_entity"}),
)
