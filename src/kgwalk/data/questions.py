"""Questions from JSONL files, plain, .gz or .zst, a line each.

Reads the folder format of kgwalk's data (`id, question, topic_entities, answers, ...`) and RoG's keys (`q_entity,
a_entity`). Knows nothing of graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from kgwalk.kg.sources import Options, Tally
from kgwalk.kg.sources.source import Source
from kgwalk.kg.sources.stream import line_blocks, open_stream
from kgwalk.types import Question, Triple

_KNOWN = {
    "id",
    "question",
    "topic_entities",
    "q_entity",
    "answers",
    "a_entity",
    "hops",
    "gold_paths",
    "evidence",
    "type",
    "aliases",
}


def read_questions(path: str | Path) -> Iterator[Question]:
    """The questions of a file; a line that is not one is an InputError with its number."""
    source = Source(str(path), Options(), Tally())
    found = False
    with open_stream(source) as stream:
        for block in line_blocks(source, stream):
            for number, raw in enumerate(block.data.split(b"\n"), block.first):
                if raw.strip():
                    found = True
                    yield _question(source, number, raw)
    if not found:
        raise source.error("no questions")


def _question(source: Source, number: int, raw: bytes) -> Question:
    text = raw.decode("utf-8", "backslashreplace")
    try:
        row = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise source.error(f"not JSON: {error}", line=number, text=text) from None
    if not isinstance(row, dict):
        raise source.error("expected an object", line=number, text=text)
    topics, answers = row.get("topic_entities", row.get("q_entity")), row.get("answers", row.get("a_entity"))
    for key, value in (("topic_entities", topics), ("answers", answers)):
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise source.error(f"expected `{key}`, a list of names", line=number, text=text)
    assert isinstance(topics, list)
    assert isinstance(answers, list)
    return Question(
        id=str(row.get("id", number)),
        question=str(row.get("question", "")),
        topic_entities=topics,
        answers=answers,
        hops=row.get("hops"),
        gold_paths=_paths(row.get("gold_paths")),
        evidence=None if row.get("evidence") is None else [Triple(*t) for t in row["evidence"]],
        type=row.get("type"),
        aliases=_aliases(source, number, text, row.get("aliases")),
        extra={key: value for key, value in row.items() if key not in _KNOWN},
    )


def _aliases(source: Source, number: int, text: str, value: Any) -> dict[str, list[str]]:
    if value is None:
        return {}
    lists = list(value.values()) if isinstance(value, dict) else [None]
    if not all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists):
        raise source.error("expected `aliases`, an object with a list of names for an answer", line=number, text=text)
    return dict(value)


def _paths(value: Any) -> list[list[Triple]] | None:
    return None if value is None else [[Triple(*step) for step in path] for path in value]
