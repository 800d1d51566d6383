"""The table of an evaluation: means with intervals, by hop, type and number of answers, several runs, errors, stops.

Made from rows alone, so an evaluation that was resumed, or read again from its folder, gives the same table.
Every mean is over all questions that have the number: a failure counts with its zeros.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kgwalk.config.run_folder import RunFolder, open_run, read_rows
from kgwalk.score.episode import majority, oracle_max, pass_at_k, union
from kgwalk.score.statistics import bootstrap_interval, paired_test
from kgwalk.types import InputError, KgwalkError, Question

# ----------------------------------------------------------------------------------------------------
# The rows of an evaluation as they lie in its folder: one an episode, by the question's place and the run.
#
# Knows nothing of how they were made, nor what is made of them.


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


WITH_INTERVAL = ("f1", "precision", "recall", "hits_at_1", "hit_any", "exact_set", "accuracy", "retrieval_rate")
JUDGED = "judge_"  # a judge's numbers begin with it, and have intervals as well
Means = dict[str, float]


def finish(folder: RunFolder, rows: Sequence[PredictionRow], **more: Any) -> dict[str, Any]:
    """The object that `eval --json` prints, also written into the folder."""
    report = summarise(rows) | {"folder": str(folder.path)} | more
    folder.write(METRICS, report)
    return report


def summarise(rows: Sequence[PredictionRow]) -> dict[str, Any]:
    """The table; `rows` may come in any order."""
    questions = by_question(rows)
    runs = max(len(several) for several in questions.values())
    means = {number: _means(several) for number, several in questions.items()}
    return {
        "n": len(questions),
        "runs": runs,
        "metrics": _means_of(means.values()),
        "counts": _counts(means),
        "intervals": _intervals(means.values()),
        "by": _tables(questions, means),
        "errors": _shares(row["error"] for row in rows if row["error"] is not None),
        "stops": _shares(row["stop"] for row in rows),
        **({"several": _several(questions, runs)} if runs > 1 else {}),
    }


def _means(rows: Sequence[PredictionRow]) -> Means:
    """Of one question: each number's mean over its runs. A number that only some runs have is over those."""
    if len(rows) == 1:
        return dict(rows[0]["metrics"])
    values: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, value in row["metrics"].items():
            values[name].append(value)
    return {name: sum(each) / len(each) for name, each in values.items()}


def _means_of(questions: Iterable[Means]) -> Means:
    values: dict[str, list[float]] = defaultdict(list)
    for means in questions:
        for name, value in means.items():
            values[name].append(value)
    return {name: float(np.mean(each)) for name, each in values.items()}


def _counts(questions: dict[int, Means]) -> dict[str, int]:
    """How many questions a mean is over, for those that are not over all: accuracy, exploration, a judge's."""
    counts = Counter(name for means in questions.values() for name in means)
    return {name: count for name, count in counts.items() if count < len(questions)}


def _intervals(questions: Iterable[Means]) -> dict[str, list[float]]:
    """95% bootstrap intervals over questions."""
    values: dict[str, list[float]] = defaultdict(list)
    for means in questions:
        for name, value in means.items():
            if name in WITH_INTERVAL or name.startswith(JUDGED):
                values[name].append(value)
    return {name: list(bootstrap_interval(each)) for name, each in values.items()}


def _tables(questions: dict[int, list[PredictionRow]], means: dict[int, Means]) -> dict[str, dict[str, Any]]:
    members: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, rows in questions.items():
        for table, line in rows[0]["groups"].items():
            members[table][line].append(number)
    # rows of an older version have no numbers of the web
    names = [*GROUPED, *(["web_used"] if all("web_used" in one for one in means.values()) else [])]
    return {
        table: {
            line: {"n": len(numbers)} | {name: float(np.mean([means[n][name] for n in numbers])) for name in names}
            for line, numbers in sorted(lines.items(), key=lambda entry: _order(entry[0]))
        }
        for table, lines in members.items()
    }


def _order(line: str) -> tuple[int, str]:
    """Numbers by size, then texts."""
    digits = line.split("-")[0].rstrip("+")
    return (int(digits), line) if digits.isdecimal() and len(digits) < 10 else (1 << 40, line)


def _several(questions: dict[int, list[PredictionRow]], runs: int) -> dict[str, float]:
    """What several runs give together: united as in KG-R1's paper, voted on, the best of them, pass@k."""
    found: dict[str, list[float]] = defaultdict(list)
    for rows in questions.values():
        question, answers = _question(rows[0]), [row["answers"] for row in rows]
        # where nothing is right, only to say so is: not to end without an answer
        answered = any(row["metrics"]["answered"] for row in rows)
        for way, scores in (("union", union(question, answers)), ("majority", majority(question, answers))):
            for name, value in scores.items():
                found[f"{way}_{name}"].append(value if answered else 0.0)
        for name in ("f1", "hits_at_1", "hit_any"):
            found[f"oracle_max_{name}"].append(oracle_max([row["metrics"][name] for row in rows]))
        right = sum(row["metrics"]["exact_set"] == 1 for row in rows)
        for k in (1, runs):
            found[f"pass@{k}"].append(pass_at_k(len(rows), right, min(k, len(rows))))
    return {name: float(np.mean(values)) for name, values in found.items()}


def _question(row: PredictionRow) -> Question:
    """As much of the question as scores depend on."""
    kind = row.get("answer_kind")
    extra = {} if kind is None else {"answer_kind": kind}
    return Question(row["id"], row["question"], [], row["gold"], aliases=row["aliases"], extra=extra)


def _shares(values: Iterable[str]) -> dict[str, Any]:
    """How often each comes up, the most frequent first; the share is of all that are listed."""
    counts = Counter(values)
    total = sum(counts.values())
    listed = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return {name: {"n": count, "share": count / total} for name, count in listed}


# ----------------------------------------------------------------------------------------------------
# Two evaluations of the same questions, question by question: differences, their intervals, and who gained what.
#
# What the two have in common is decided by their questions, wherever the data lay. Knows nothing of policies.


COMPARED = (
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
    for name in COMPARED:
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
        names = [name for name in COMPARED if all(name in row["metrics"] for row in rows)]
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
