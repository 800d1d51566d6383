"""2WikiMultihopQA: questions with the Wikidata facts that lead to the answer.

The facts of all questions together are the graph, unless another is given; the paragraphs are left out. Copies with
JSON text or columns inside are read as well. Knows nothing of Wikipedia's text.
"""

from __future__ import annotations

import re
from typing import Any

from kgwalk.data.formats import fields
from kgwalk.data.formats.format import Format, Reading
from kgwalk.data.formats.records import Record, json_records
from kgwalk.types import Question, Triple

_HOPS = {"comparison": 1, "bridge_comparison": 2}  # two questions in one; the others are a single chain


def _question(record: Record, reading: Reading) -> Question:
    row = fields.mapping(record.value)
    evidence = fields.facts(_rows(row.get("evidences") or []), "evidences")
    answer, kind = fields.maybe(row, "answer"), fields.maybe(row, "type") or None
    answers = fields.Answers()
    answers.add(answer, fields.maybe(row, "answer_id"))
    path = None if kind in _HOPS else _chain(evidence, answer)
    supporting = _rows(row.get("supporting_facts") or [])
    return Question(
        id=fields.text_or_number(row, "_id", "id"),
        question=fields.text(row, "question"),
        topic_entities=_starts(evidence),
        answers=answers.names,
        hops=len(path) if path else _HOPS.get(kind or ""),
        gold_paths=[path] if path else None,
        evidence=evidence or None,
        type=kind,
        aliases=answers.aliases,
        extra=fields.without_none(
            {
                "answer_kind": "boolean" if answer in ("yes", "no") else "entity" if answer else None,
                "entity_ids": row.get("entity_ids"),
                "pages": fields.unique(_titles(supporting)),
            }
        ),
    )


def _rows(value: Any) -> Any:
    """A list of lists, from itself, from JSON text, or from columns: {"title": [...], "sent_id": [...]}."""
    value = fields.from_json(value)
    if isinstance(value, dict):
        columns = list(value.values())
        if not all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns):
            raise ValueError("expected columns of equal length")
        return [list(parts) for parts in zip(*columns, strict=True)]
    return value


def _titles(supporting: Any) -> list[str]:
    """The pages of [title, sentence] pairs."""
    pairs = supporting if isinstance(supporting, list) else []
    return [pair[0] for pair in pairs if isinstance(pair, list) and pair and isinstance(pair[0], str)]


def _starts(evidence: list[Triple]) -> list[str]:
    """Where the facts set out from: heads that no fact leads to."""
    tails = {fact.tail for fact in evidence}
    return fields.unique(fact.head for fact in evidence if fact.head not in tails)


def _chain(evidence: list[Triple], answer: str) -> list[Triple] | None:
    """The facts as a path to the answer, if each begins where the one before ended."""
    ends = [fact.tail for fact in evidence]
    joined = all(fact.head == end for fact, end in zip(evidence[1:], ends, strict=False))
    return evidence if evidence and joined and ends[-1] == answer else None


FORMAT = Format(
    name="2wiki",
    about="2WikiMultihopQA (Wikidata facts as evidence, which make up the graph)",
    files="train.json, dev.json, test.json, or train.parquet, ...",
    records=json_records,
    question=_question,
    is_questions=re.compile(r"(?<!aliases)\.(jsonl?|parquet)(\.gz|\.zst)?$"),
    evidence_is_graph=True,
    keys=frozenset({"question", "evidences"}),
)
