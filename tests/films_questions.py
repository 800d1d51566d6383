"""A dataset small enough to score by hand: conftest's film graph, five questions, and what a model says to each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from conftest import FILMS
from kgwalk.llm.engine import ScriptedEngine

HANKS = "who directed the films that Tom Hanks starred in?"
QUESTIONS: list[dict[str, Any]] = [
    {
        "id": "big",
        "question": "who directed Big?",
        "topic_entities": ["Big"],
        "answers": ["Penny Marshall"],
        "hops": 1,
        "type": "plain",
        "gold_paths": [[["Big", "directed_by", "Penny Marshall"]]],
    },
    {
        "id": "hanks",
        "question": HANKS,
        "topic_entities": ["Tom Hanks"],
        "answers": ["Penny Marshall", "Robert Zemeckis"],
        "hops": 2,
        "type": "long",
        "gold_paths": [
            [["Big", "starred_actors", "Tom Hanks"], ["Big", "directed_by", "Penny Marshall"]],
            [["Cast Away", "starred_actors", "Tom Hanks"], ["Cast Away", "directed_by", "Robert Zemeckis"]],
        ],
    },
    {
        "id": "year",
        "question": "when was Cast Away released?",
        "topic_entities": ["Cast Away"],
        "answers": ["2000"],
        "hops": 1,
        "type": "plain",
        "gold_paths": [[["Cast Away", "release_year", "2000"]]],
    },
    {
        "id": "zemeckis",
        "question": "which films did Robert Zemeckis direct?",
        "topic_entities": ["Robert Zemeckis"],
        "answers": ["Cast Away", "Contact"],
        "hops": 1,
        "gold_paths": [
            [["Cast Away", "directed_by", "Robert Zemeckis"]],
            [["Contact", "directed_by", "Robert Zemeckis"]],
        ],
    },
    {"id": "star", "question": "who starred in Big?", "topic_entities": ["Big"], "answers": ["Tom Hanks"]},
]
RIGHT = ['head_entities($1, "starred_actors")', 'tail_entities($2, "directed_by")', "<answer>$3</answer>"]
# right; one of two; one too many, and that first; the engine fails at once; nothing but words
SCRIPT: dict[str, Sequence[str]] = {
    "who directed Big?": ['tail_entities($1, "directed_by")', "<answer>$2</answer>"],
    HANKS: [*RIGHT[:2], '<answer>["Robert Zemeckis"]</answer>'],
    "when was Cast Away released?": ['<answer>["1988", "2000"]</answer>'],
    "which films did Robert Zemeckis direct?": [],
    "who starred in Big?": ["I do not know."] * 9,
}
TURNS = "protocol.turns=2"  # and one for the forced answer


def write_films(folder: Path, questions: Sequence[dict[str, Any]] = QUESTIONS) -> Path:
    """The dataset's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kg.tsv").write_text("".join("\t".join(fact) + "\n" for fact in FILMS))
    (folder / "test.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in questions))
    return folder


def engine(**answers: Sequence[str]) -> ScriptedEngine:
    """The script above; a question's id with other turns says something else."""
    asked = {row["id"]: row["question"] for row in QUESTIONS}
    return ScriptedEngine(SCRIPT | {asked[name]: turns for name, turns in answers.items()})
