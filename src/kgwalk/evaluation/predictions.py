"""The rows of an evaluation as they lie in its folder: one an episode, by the question's place and the run.

Knows nothing of how they were made, nor what is made of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kgwalk.config.run_folder import RunFolder, read_rows
from kgwalk.types import InputError, KgwalkError, Question

PREDICTIONS = "predictions.jsonl"
METRICS = "metrics.json"  # written when all episodes are there
PredictionRow = dict[str, Any]
EpisodeKey = tuple[int, int]  # a question's place in its split, and which of its runs

# the columns of the tables by hop, type and number of answers
GROUPED = (
    "f1",
    "precision",
    "recall",
    "hits_at_1",
    "hit_any",
    "exact_set",
    "retrieval_rate",
    "generated_tokens",
    "turns",
)
_PARTS: dict[str, type | tuple[type, ...]] = {
    "number": int,
    "run": int,
    "id": str,
    "question": str,
    "gold": list,
    "aliases": dict,
    "answers": list,
    "metrics": dict,
    "error": (str, type(None)),
    "stop": str,
    "groups": dict,
    "episode": dict,
}
_NUMBERS = (*GROUPED, "answered", "failed")


def key_of(row: PredictionRow) -> EpisodeKey:
    return row["number"], row["run"]


def whole_rows(path: Path) -> Iterator[PredictionRow]:
    """Every row with its episode; one that no evaluation of this version wrote is an error with its line."""
    for number, row in enumerate(read_rows(path), 1):
        wrong = next((part for part, kind in _PARTS.items() if not isinstance(row.get(part, ...), kind)), None)
        if wrong is None and not all(isinstance(row["metrics"].get(name), int | float) for name in _NUMBERS):
            wrong = "metrics"
        if wrong is not None:
            hint = "restore the file, or start over with `kgwalk eval --force`"
            raise InputError(f"not a row of an evaluation: no proper `{wrong}`", path=str(path), line=number, hint=hint)
        yield row


def read_predictions(path: Path) -> dict[EpisodeKey, PredictionRow]:
    """Each episode's row without the episode itself; of one that was walked again, the last."""
    found: dict[EpisodeKey, PredictionRow] = {}
    for row in whole_rows(path):
        del row["episode"]
        found[key_of(row)] = row
    return found


def by_question(rows: Iterable[PredictionRow]) -> dict[int, list[PredictionRow]]:
    """The rows of each question in the questions' order, its runs in theirs."""
    questions: dict[int, list[PredictionRow]] = {}
    for row in sorted(rows, key=key_of):
        questions.setdefault(row["number"], []).append(row)
    return questions


def asks(row: PredictionRow, question: Question) -> bool:
    """Whether the row is an episode of this question, as far as scores depend on it."""
    row_is = (row["id"], row["question"], row["gold"], row["aliases"], row.get("answer_kind"))
    kind = question.extra.get("answer_kind")
    return row_is == (question.id, question.question, question.answers, question.aliases, kind)


def check_finished(folder: RunFolder) -> None:
    """Only a whole evaluation is judged or compared: what is done first is rarely like the rest."""
    if folder.kind != "eval":
        raise KgwalkError(f"{folder.path} is a run of kind {folder.kind!r}, not an evaluation")
    if not folder.file(METRICS).exists():
        raise KgwalkError(f"the evaluation in {folder.path} has not ended; the same `kgwalk eval` command goes on")
