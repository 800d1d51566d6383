"""QALD: questions in several languages with SPARQL over Wikidata or DBpedia and the answers it gave.

An answer is the last part of its IRI (`Q3931`, `Angela_Merkel`), or the name that `--names` gives it; the IRI is an
alias. Topics are the entities that the SPARQL mentions. Knows nothing of graphs.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from kgwalk.data.formats import fields
from kgwalk.data.formats.format import Format, Reading
from kgwalk.data.formats.records import Record, json_records
from kgwalk.types import Question

_ENTITY = re.compile(
    r"<https?://(?:www\.)?(?:wikidata\.org/entity|dbpedia\.org/resource)/([^>]+)>"
    r"|\bwd:([QL]\d+)\b|\b(?:dbr|res):([^\s;,.){}]+(?:\.[^\s;,.){}]+)*)"
)
_NUMBERS = ("integer", "decimal", "double", "float", "int", "long", "nonNegativeInteger", "positiveInteger")
_TIMES = ("date", "dateTime", "gYear", "gYearMonth")


def _question(record: Record, reading: Reading) -> Question:
    row = fields.mapping(record.value)
    query = fields.mapping(row.get("query") or {}, "`query`")
    sparql = fields.maybe(query, "sparql")
    answers, kind = _answers(row, reading)
    keys = fields.unique("".join(found) for found in _ENTITY.findall(sparql))
    return Question(
        id=fields.text_or_number(row, "id"),
        question=_in_language(fields.rows(row, "question"), reading.language),
        topic_entities=[reading.name(key) for key in keys],
        answers=answers.names,
        aliases=answers.aliases,
        extra=fields.without_none(
            {
                "answer_kind": kind,
                "language": reading.language,
                "topic_ids": {reading.name(key): key for key in keys if reading.name(key) != key},
                "sparql": sparql,
            }
        ),
    )


def _in_language(versions: list[dict[str, Any]], language: str) -> str:
    for version in versions:
        if version.get("language") == language:
            return fields.text(version, "string")
    there_are = ", ".join(str(version.get("language")) for version in versions) or "none"
    raise ValueError(f"expected the question in {language!r}; it is given in {there_are}")


def _answers(row: dict[str, Any], reading: Reading) -> tuple[fields.Answers, str | None]:
    answers, kind = fields.Answers(), None
    for answer in fields.rows(row, "answers"):
        if isinstance(answer.get("boolean"), bool):
            answers.add("true" if answer["boolean"] else "false")
            kind = "boolean"
        results = fields.mapping(answer.get("results") or {}, "`results`")
        for binding in fields.rows(results, "bindings"):
            for term in binding.values():
                value = fields.text_or_number(fields.mapping(term, "a term"), "value")
                kind = kind or _kind(term)
                if term.get("type") == "uri":
                    key = re.split(r"[/#]", value)[-1] or value
                    answers.add(reading.name(key), key, value)
                else:
                    answers.add(value)
    return answers, kind


def _kind(term: dict[str, Any]) -> str:
    datatype = fields.maybe(term, "datatype").rpartition("#")[2]
    if term.get("type") == "uri":
        return "entity"
    return "number" if datatype in _NUMBERS else "time" if datatype in _TIMES else "value"


FORMAT = Format(
    name="qald",
    about="QALD-9, QALD-9-plus, QALD-10 (Wikidata or DBpedia ids; --language, --names)",
    files="qald_10.json, qald_9_plus_train_wikidata.json, ...",
    records=partial(json_records, key="questions"),
    question=_question,
    is_questions=re.compile(r"qald[^/]*\.json(\.gz)?$", re.IGNORECASE),
)
