"""The rows of an evaluation as they lie in its folder: one an episode, by the question's place and the run.

Knows nothing of how they were made, nor what is made of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kgwalk.runs.folder import RunFolder
from kgwalk.runs.rows import read_rows
from kgwalk.types import KgwalkError, Question

PREDICTIONS = "predictions.jsonl"
METRICS = "metrics.json"  # written when all episodes are there
Row = dict[str, Any]
Key = tuple[int, int]  # a question's place in its split, and which of its runs


def key_of(row: Row) -> Key:
    return row["number"], row["run"]


def read_predictions(path: Path) -> dict[Key, Row]:
    """Each episode's row without the episode itself; of one that was walked again, the last."""
    found: dict[Key, Row] = {}
    for row in read_rows(path):
        del row["episode"]
        found[key_of(row)] = row
    return found


def by_question(rows: Iterable[Row]) -> dict[int, list[Row]]:
    """The rows of each question in the questions' order, its runs in theirs."""
    questions: dict[int, list[Row]] = {}
    for row in sorted(rows, key=key_of):
        questions.setdefault(row["number"], []).append(row)
    return questions


def asks(row: Row, question: Question) -> bool:
    """Whether the row is an episode of this question, as far as scores depend on it."""
    return (row["id"], row["question"], row["gold"]) == (question.id, question.question, question.answers)


def check_finished(folder: RunFolder) -> None:
    """Only a whole evaluation is judged or compared: what is done first is rarely like the rest."""
    if folder.kind != "eval":
        raise KgwalkError(f"{folder.path} is a run of kind {folder.kind!r}, not an evaluation")
    if not folder.file(METRICS).exists():
        raise KgwalkError(f"the evaluation in {folder.path} has not ended; the same `kgwalk eval` command goes on")
