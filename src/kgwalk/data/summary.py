"""What a dataset holds, in counts: questions by split, hops, type and kind of answer, and the graph's size.

Knows nothing of how it is shown.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kgwalk.data.dataset import Dataset
from kgwalk.kg.build import Progress
from kgwalk.kg.store import StoredGraph
from kgwalk.runs.question_rows import row_of
from kgwalk.types import Question


def summary(splits: dict[str, list[Question]]) -> dict[str, Any]:
    """For each split: how many questions, answers a question, and counts by hops, type and kind of answer."""
    return {name: _split(questions) for name, questions in splits.items()}


def _split(questions: list[Question]) -> dict[str, Any]:
    answers = sum(len(question.answers) for question in questions)
    return {
        "questions": len(questions),
        "answers_a_question": round(answers / max(1, len(questions)), 2),
        "unanswered": sum(not question.answers for question in questions),
        "with_gold_path": sum(bool(question.gold_paths) for question in questions),
        "hops": dict(sorted(_counts(question.hops for question in questions).items())),
        "type": _counts(question.type for question in questions),
        "answer_kind": _counts(question.extra.get("answer_kind") for question in questions),
    }


def _counts(values: Any) -> dict[str, int]:
    """The most frequent first; {} where nothing is known of any question."""
    counts = Counter("unknown" if value is None else str(value) for value in values)
    return {} if set(counts) <= {"unknown"} else dict(counts.most_common())


def graph_facts(dataset: Dataset, progress: Progress) -> dict[str, Any] | None:
    """The size of the graph; None where the dataset has none."""
    if not dataset.has_graph():
        return None
    graph = dataset.graph(progress)
    assert isinstance(graph, StoredGraph)
    info = graph.info()
    facts = {key: info[key] for key in ("path", "triples", "entities", "relations", "timed", "questions")}
    return facts | {"skipped": graph.store.folder.header["skipped"]}


def question_facts(question: Question, split: str) -> dict[str, Any]:
    return {"split": split, **row_of(question)}
