"""WebQuestions: an utterance, the Freebase page it is about, and answers as `(list (description "a") ...)`.

Copies with plain columns (url, question, answers) are read as well. Knows nothing of graphs.
"""

from __future__ import annotations

import re
from typing import Any

from kgwalk.data.formats import fields
from kgwalk.data.formats.format import Format, Reading, record_id
from kgwalk.data.formats.records import Record, json_records
from kgwalk.types import Question

_ITEM = re.compile(r'\s*\(description\s+(?:"((?:[^"\\]|\\.)*)"|([^\s()"]+))\s*\)')
_ESCAPED = re.compile(r"\\(.)")


def _question(record: Record, reading: Reading) -> Question:
    row = fields.mapping(record.value)
    if "targetValue" not in row and "answers" not in row:
        raise ValueError(f"expected `targetValue` or `answers`, got the keys {', '.join(list(row)[:8])}")
    answers = fields.Answers()
    for name in described(fields.text(row, "targetValue")) if "targetValue" in row else fields.texts(row, "answers"):
        answers.add(name)
    url = fields.maybe(row, "url")
    topic = url.rstrip("/").rpartition("/")[2].replace("_", " ")  # .../view/en/natalie_portman
    return Question(
        id=record_id(record, reading, "webquestions"),
        question=fields.text(row, "utterance", "question"),
        topic_entities=fields.unique([topic]),
        answers=answers.names,
        extra=fields.without_none({"url": url}),
    )


def described(value: str) -> list[str]:
    r"""The descriptions of a list in Lisp's way.

    >>> described('(list (description "New York") (description Rome))')
    ['New York', 'Rome']
    """
    inside = value.strip()
    if not (inside.startswith("(list") and inside.endswith(")")):
        raise ValueError(f'expected (list (description "a") ...) in `targetValue`, got {value!r:.80}')
    inside, at, names = inside[len("(list") : -1].rstrip(), 0, []
    while at < len(inside):
        found: Any = _ITEM.match(inside, at)
        if found is None:
            raise ValueError(f'expected (description "a") in `targetValue`, got {inside[at:].strip()!r:.80}')
        quoted, plain = found.groups()
        names.append(_ESCAPED.sub(r"\1", quoted) if quoted is not None else plain)
        at = found.end()
    return names


FORMAT = Format(
    name="webquestions",
    about="WebQuestions, with answers by name",
    files="webquestions.examples.train.json, webquestions.examples.test.json",
    records=json_records,
    question=_question,
    keys=frozenset({"url"}),
)
