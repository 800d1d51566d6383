"""WebQSP as first published: WebQSP.train.json, questions with their parses over Freebase.

Answers are those of every complete parse together, of all parses where none is complete. Knows nothing of graphs.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from kgwalk.data.formats import fields
from kgwalk.data.formats.format import Format, Reading
from kgwalk.data.formats.records import Record, json_records
from kgwalk.types import Question


def _question(record: Record, reading: Reading) -> Question:
    row = fields.mapping(record.value)
    parses = fields.rows(row, "Parses")
    chosen = [parse for parse in parses if _is_complete(parse)] or parses
    answers = fields.Answers()
    kinds: list[str] = []
    for parse in chosen:
        for answer in fields.rows(parse, "Answers"):
            answers.add(fields.maybe(answer, "EntityName"), fields.text_or_number(answer, "AnswerArgument"))
            kinds.append("entity" if answer.get("AnswerType") == "Entity" else "value")
    topics = {
        _either(parse, "TopicEntityName", "TopicEntityMid"): fields.maybe(parse, "TopicEntityMid") for parse in chosen
    }
    chain = next((chain for parse in chosen if (chain := fields.texts(parse, "InferentialChain"))), None)
    return Question(
        id=fields.text(row, "QuestionId"),
        question=fields.text(row, "RawQuestion", "ProcessedQuestion"),
        topic_entities=fields.unique(topics),
        answers=answers.names,
        hops=None if chain is None else len(chain),
        aliases=answers.aliases,
        extra=fields.without_none(
            {
                "answer_kind": max(kinds, key=kinds.count) if kinds else None,
                "topic_ids": {name: mid for name, mid in topics.items() if name and mid},
                "parses": [_parse(parse) for parse in chosen],
            }
        ),
    )


def _is_complete(parse: dict[str, Any]) -> bool:
    comment = parse.get("AnnotatorComment")
    return isinstance(comment, dict) and comment.get("ParseQuality") == "Complete"


def _either(row: dict[str, Any], first: str, second: str) -> str:
    return fields.maybe(row, first) or fields.maybe(row, second)


def _parse(parse: dict[str, Any]) -> dict[str, Any]:
    constraints = [
        [fields.maybe(one, "NodePredicate"), fields.maybe(one, "Operator"), _either(one, "EntityName", "Argument")]
        for one in fields.rows(parse, "Constraints")
    ]
    return fields.without_none(
        {"chain": parse.get("InferentialChain"), "constraints": constraints, "sparql": parse.get("Sparql")}
    )


FORMAT = Format(
    name="webqsp",
    about="WebQSP, the original with parses (Freebase ids and names)",
    files="WebQSP.train.json, WebQSP.test.json",
    records=partial(json_records, key="Questions"),
    question=_question,
    is_questions=re.compile(r"WebQSP[^/]*\.json(\.gz)?$", re.IGNORECASE),
)
