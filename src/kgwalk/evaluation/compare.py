"""Two evaluations of the same questions, question by question: differences, their intervals, and who gained what.

What the two have in common is decided by their questions, wherever the data lay. Knows nothing of policies.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgwalk.evaluation.predictions import PREDICTIONS, by_question, check_finished, read_predictions
from kgwalk.runs.folder import RunFolder, open_run
from kgwalk.score.statistics import paired_test
from kgwalk.types import KgwalkError

METRICS = (
    "f1",
    "precision",
    "recall",
    "hits_at_1",
    "hit_any",
    "exact_set",
    "accuracy",  # of questions that ask whether something is so
    "retrieval_rate",
    "generated_tokens",
    "turns",
)
_Questions = dict[int, dict[str, Any]]


def compare(first: Path, second: Path) -> dict[str, Any]:
    """The object that `compare --json` prints: for each metric both means, the difference, its interval and p.

    `n` of a metric is below that of all where only some questions have it, as accuracy.
    """
    runs = [open_run(first), open_run(second)]
    rows = [_rows(run) for run in runs]
    shared = sorted(set(rows[0]) & set(rows[1]))
    if not shared:
        raise KgwalkError(f"{first} and {second} have no question in common{_data(runs)}")
    for number in shared:
        if rows[0][number]["asked"] != rows[1][number]["asked"]:
            raise KgwalkError(f"{first} and {second} cannot be paired: question {number} differs{_data(runs)}")
    metrics = {}
    for name in METRICS:
        having = [number for number in shared if all(name in of[number]["metrics"] for of in rows)]
        if having:
            pairs = [[of[number]["metrics"][name] for number in having] for of in rows]
            metrics[name] = {"n": len(having), **paired_test(*pairs)}
    return {
        "n": len(shared),
        "left_out": [len(of) - len(shared) for of in rows],
        "metrics": metrics,
        "gained": _changed(rows, shared, 1),
        "lost": _changed(rows, shared, -1),
    }


def _data(runs: list[RunFolder]) -> str:
    named = [f"{run.about['settings'].get('data')} {run.about['settings'].get('split')}" for run in runs]
    return f" ({named[0]}; {named[1]})"


def _rows(run: RunFolder) -> _Questions:
    """Each question's numbers, means over its runs."""
    check_finished(run)
    found = {}
    for number, rows in by_question(read_predictions(run.file(PREDICTIONS)).values()).items():
        names = [name for name in METRICS if all(name in row["metrics"] for row in rows)]
        means = {name: sum(row["metrics"][name] for row in rows) / len(rows) for name in names}
        asked = tuple(rows[0][part] for part in ("id", "question", "gold", "aliases"))
        found[number] = {"asked": asked, "metrics": means}
    return found


def _changed(rows: list[_Questions], shared: list[int], sign: int) -> list[dict[str, Any]]:
    """Questions whose F1 rose (sign 1) or fell (-1), those first that changed most; `f1` is of the first and second."""
    found = []
    for number in shared:
        one, other = (of[number]["metrics"]["f1"] for of in rows)
        if sign * (other - one) > 0:
            name, question, *_ = rows[0][number]["asked"]
            found.append({"number": number, "id": name, "question": question, "f1": [one, other]})
    return sorted(found, key=lambda row: (sign * (row["f1"][0] - row["f1"][1]), row["number"]))
