"""The report of an evaluation, and the comparison of two.

A report has means with intervals; tables by hop, type and number of answers; what several runs give together; classes
of error and reasons of stopping. It is made from the rows in `predictions.jsonl` alone, so an evaluation that was
resumed, or is read again from its folder, gives the same report. Every mean is over all questions that have the metric:
a failure counts with its zeros. `compare` pairs two evaluations question by question.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kgwalk.config.run_folder import RESTORE, RunFolder, episode_from, open_run, read_rows
from kgwalk.data.dataset import GRAPH_ID
from kgwalk.data.mixture import DATASET_KEY
from kgwalk.score.episode import majority, oracle_max, pass_at_k, union
from kgwalk.score.statistics import (
    Calibration,
    CalibrationSpread,
    bootstrap_interval,
    calibration,
    calibration_spread,
    cluster_interval,
    paired_test,
)
from kgwalk.types import Episode, InputError, KgwalkError, Question
from kgwalk.walk.confidence import Confidence, fitted, is_started, seen_in

PREDICTIONS = "predictions.jsonl"
METRICS = "metrics.json"  # written when all episodes are there
STEP_METRICS = "metrics.jsonl"  # of a stage of training: a row a step
STEP_EPISODES = "episodes.jsonl"  # and some of the walks of each step
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
_NUMBERS = (*GROUPED, "answered", "failed")

ACCURACY = ("f1", "exact_set", "hits_at_1")  # the columns of `accuracy_by`
ANSWER_KIND = "answer kind"  # the table by what was asked for: names, a number, a table, yes or no

WITH_INTERVAL = ("f1", "precision", "recall", "hits_at_1", "hit_any", "exact_set", "accuracy", "retrieval_rate")
JUDGED = "judge_"  # a judge's metrics begin with it, and have intervals as well
Means = dict[str, float]

# The metrics as people are shown them, in this order; a name that ends in _ stands for all that begin with it.
GROUPS = {
    "answers": ("f1", "precision", "recall", "hits_at_1", "exact_set", "accuracy", "rows_f1"),
    "lenient": ("hit_any", "hit_substring", "em_token"),
    "retrieval": ("retrieval_",),
    "exploration": ("exploration_",),
    "judge": ("judge_",),
    "web": ("web_",),
    "cost": ("generated_tokens", "prompt_tokens", "total_tokens", "turns", "calls", "seconds"),
    "sureness": ("confidence", "likelihood"),
    "trouble": ("invalid_calls", "malformed", "answered", "failed"),
}


def finish(folder: RunFolder, rows: Sequence[PredictionRow], **more: Any) -> dict[str, Any]:
    """The report that `eval --json` prints; it is also written to the folder."""
    report = summarise(rows) | {"folder": str(folder.path)} | more
    folder.write(METRICS, report)
    return report


def summarise(rows: Sequence[PredictionRow]) -> dict[str, Any]:
    """The report of rows, which may come in any order."""
    questions = by_question(rows)
    runs = max(len(several) for several in questions.values())
    means = {number: _means(several) for number, several in questions.items()}
    return {
        "n": len(questions),
        "runs": runs,
        "metrics": _means_of(means.values()),
        "counts": _counts(means),
        "intervals": _intervals(means.values()),
        **_clustered(questions, means),
        "by": _tables(questions, means),
        "errors": _shares(row["error"] for row in rows if row["error"] is not None),
        "stops": _shares(row["stop"] for row in rows),
        **_calibration(rows),
        **({"several": _several(questions, runs)} if runs > 1 else {}),
    }


def _means(rows: Sequence[PredictionRow]) -> Means:
    """One question's metrics: the mean over its runs, or over those runs that have the metric."""
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
    """How many questions a mean is over, for metrics that not all have: accuracy, exploration, a judge's."""
    counts = Counter(name for means in questions.values() for name in means)
    return {name: count for name, count in counts.items() if count < len(questions)}


def _intervals(questions: Iterable[Means]) -> dict[str, list[float]]:
    """95% bootstrap intervals over questions."""
    values: dict[str, list[float]] = defaultdict(list)
    for means in questions:
        for name in filter(_has_interval, means):
            values[name].append(means[name])
    return {name: list(bootstrap_interval(each)) for name, each in values.items()}


def _has_interval(name: str) -> bool:
    return name in WITH_INTERVAL or name.startswith(JUDGED)


def _clustered(questions: dict[int, list[PredictionRow]], means: dict[int, Means]) -> dict[str, Any]:
    """`clusters`: how many there are, the size of the largest, and intervals over them; nothing where no questions
    share one. Rows of an older version name none."""
    of = {number: str(rows[0].get("cluster", f"question {number}")) for number, rows in questions.items()}
    sizes = Counter(of.values())
    if len(sizes) == len(of):
        return {}
    names = dict.fromkeys(name for one in means.values() for name in filter(_has_interval, one))
    intervals = {}
    for name in names:
        having = [number for number, one in means.items() if name in one]
        values, clusters = [means[number][name] for number in having], [of[number] for number in having]
        intervals[name] = list(cluster_interval(values, clusters))
    return {"clusters": {"n": len(sizes), "largest": max(sizes.values()), "intervals": intervals}}


def _tables(questions: dict[int, list[PredictionRow]], means: dict[int, Means]) -> dict[str, dict[str, Any]]:
    members = _members(questions)
    # rows of an older version have no metrics of the web
    names = [*GROUPED, *(["web_used"] if all("web_used" in one for one in means.values()) else [])]
    return {
        table: {
            line: {"n": len(numbers)} | {name: float(np.mean([means[n][name] for n in numbers])) for name in names}
            for line, numbers in lines.items()
        }
        for table, lines in members.items()
    }


def _members(questions: dict[int, list[PredictionRow]]) -> dict[str, dict[str, list[int]]]:
    """The questions of each line of each table, the lines in order."""
    members: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, rows in questions.items():
        for table, line in rows[0]["groups"].items():
            members[table][line].append(number)
    return {table: dict(sorted(lines.items(), key=lambda entry: _order(entry[0]))) for table, lines in members.items()}


@dataclass(frozen=True, slots=True)
class GroupScore:
    """The questions of one line of a table: how many, and for each of `ACCURACY` the mean, low and high."""

    n: int
    scores: dict[str, tuple[float, float, float]]


def accuracy_by(rows: Sequence[PredictionRow]) -> dict[str, dict[str, GroupScore]]:
    """Accuracy by hops, type and the other groups of an evaluation, and by the kind of answer, with 95% intervals.

    An interval of a few questions that are all alike has no width; that is no proof, so `n` belongs beside it.
    """
    questions = by_question(rows)
    for several in questions.values():
        kind = several[0].get("answer_kind", "entity")
        several[0] = several[0] | {"groups": several[0]["groups"] | {ANSWER_KIND: str(kind)}}
    means = {number: _means(several) for number, several in questions.items()}

    def scored(numbers: list[int]) -> GroupScore:
        values = {name: [means[number][name] for number in numbers] for name in ACCURACY}
        found = {name: (float(np.mean(each)), *bootstrap_interval(each)) for name, each in values.items()}
        return GroupScore(len(numbers), found)

    return {
        table: {line: scored(numbers) for line, numbers in lines.items()}
        for table, lines in _members(questions).items()
    }


def _order(line: str) -> tuple[int, str]:
    """Numbers by size, then texts."""
    digits = line.split("-")[0].rstrip("+")
    return (int(digits), line) if digits.isdecimal() and len(digits) < 10 else (1 << 40, line)


def grouped(values: dict[str, float]) -> dict[str, list[str]]:
    """The names of the metrics that there are, in groups and in a readable order; none is left out.

    >>> grouped({"turns": 2.0, "judge_f1": 1.0, "f1": 1.0, "sparkle": 1.0, "judge_recall": 1.0})
    {'answers': ['f1'], 'judge': ['judge_f1', 'judge_recall'], 'cost': ['turns'], 'other': ['sparkle']}
    """
    found: dict[str, list[str]] = {}
    for group, wanted in GROUPS.items():
        for want in wanted:
            begins = want.endswith("_")
            found.setdefault(group, []).extend(n for n in values if n == want or (begins and n.startswith(want)))
    taken = {name for names in found.values() for name in names}
    found["other"] = [name for name in values if name not in taken]
    return {group: names for group, names in found.items() if names}


def _several(questions: dict[int, list[PredictionRow]], runs: int) -> dict[str, float]:
    """What several runs give together: their union as in KG-R1's paper, a majority vote, the best run, pass@k."""
    found: dict[str, list[float]] = defaultdict(list)
    for rows in questions.values():
        question, answers = _question(rows[0]), [row["answers"] for row in rows]
        # where the right answer is none, saying so is right, and ending without an answer is not
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


def _calibration(rows: Sequence[PredictionRow]) -> dict[str, Any]:
    """Whether `confidence` can be relied on, over all walks with an answer; nothing where no walk has one."""
    chances, right = chances_of(rows)
    return {"calibration": calibration(chances, right)} if chances else {}


def chances_of(rows: Sequence[PredictionRow]) -> tuple[list[float], list[bool]]:
    """The confidence of each walk with an answer, and whether that was right."""
    sure = [row for row in rows if row["metrics"]["answered"] and "confidence" in row["metrics"]]
    return [row["metrics"]["confidence"] for row in sure], [row["metrics"]["exact_set"] == 1 for row in sure]


def _shares(values: Iterable[str]) -> dict[str, Any]:
    """How often each value occurs, the most frequent first, and its share of all that are listed."""
    counts = Counter(values)
    total = sum(counts.values())
    listed = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return {name: {"n": count, "share": count / total} for name, count in listed}


# The rows of an evaluation: one for each episode, by the question's place and the run


def key_of(row: PredictionRow) -> EpisodeKey:
    return row["number"], row["run"]


def whole_rows(path: Path) -> Iterator[PredictionRow]:
    """Every row with its episode; a row that no evaluation wrote is an error that names its line."""
    for number, row in enumerate(read_rows(path, hint=RESTORE), 1):
        wrong = next((part for part, proper in _PARTS.items() if not proper(row.get(part, ...))), None)
        if wrong is not None:
            raise _damaged(f"no proper `{wrong}`", path, number)
        yield row


def whole_episodes(path: Path) -> Iterator[tuple[PredictionRow, Episode]]:
    """Every row with its episode as an `Episode`."""
    for number, row in enumerate(whole_rows(path), 1):
        try:
            yield row, episode_from(row["episode"])
        except ValueError as error:
            raise _damaged(f"its `episode`: {error}", path, number) from None


def _damaged(why: str, path: Path, line: int) -> InputError:
    return InputError(f"not a row of an evaluation: {why}", path=str(path), line=line, hint=RESTORE)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_metrics(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(type(number) in (int, float) for number in value.values())
        and all(name in value for name in _NUMBERS)
    )


_PARTS: dict[str, Callable[[Any], bool]] = {
    "number": _is_count,
    "run": _is_count,
    "id": lambda value: isinstance(value, str),
    "question": lambda value: isinstance(value, str),
    "gold": _is_names,
    "aliases": lambda value: isinstance(value, dict) and all(map(_is_names, value.values())),
    "answers": _is_names,
    "metrics": _is_metrics,
    "error": lambda value: value is None or isinstance(value, str),
    "stop": lambda value: isinstance(value, str),
    "groups": lambda value: isinstance(value, dict) and all(isinstance(line, str) for line in value.values()),
    "episode": lambda value: isinstance(value, dict),
}


def read_predictions(path: Path) -> dict[EpisodeKey, PredictionRow]:
    """Each episode's row without the episode itself; the last one if it was walked again."""
    found: dict[EpisodeKey, PredictionRow] = {}
    for row in whole_rows(path):
        del row["episode"]
        found[key_of(row)] = row
    return found


def by_question(rows: Iterable[PredictionRow]) -> dict[int, list[PredictionRow]]:
    """The rows of each question, in the order of the questions and of their runs."""
    questions: dict[int, list[PredictionRow]] = {}
    for row in sorted(rows, key=key_of):
        questions.setdefault(row["number"], []).append(row)
    return questions


def asks(row: PredictionRow, question: Question) -> bool:
    """Whether the row is of this question, in everything that scores depend on."""
    row_is = (row["id"], row["question"], row["gold"], row["aliases"], row.get("answer_kind"))
    kind = question.extra.get("answer_kind")
    return row_is == (question.id, question.question, question.answers, question.aliases, kind)


def check_finished(folder: RunFolder) -> None:
    """Raises unless the evaluation is finished: the first questions are rarely like the rest."""
    if folder.kind != "eval":
        raise KgwalkError(f"{folder.path} is a run of kind {folder.kind!r}, not an evaluation")
    if not folder.file(METRICS).exists():
        raise KgwalkError(f"the evaluation in {folder.path} has not ended; the same `kgwalk eval` command goes on")


# How sure an agent is, fitted on its evaluations

FEWEST = 50  # walks to fit on: with fewer the weights are noise


@dataclass(frozen=True)
class Calibrated:
    """A fitted `model`, and how it and the likelihood do on graphs that it was not fitted on, in all and of each;
    `spread` says how far that may be chance, whole graphs resampled.
    """

    model: Confidence
    held_out: Calibration
    spread: CalibrationSpread
    likelihood: Calibration
    by_graph: dict[str, Calibration]


def calibrate(folders: Sequence[Path]) -> Calibrated:
    """Fit the probability that an answer is right to the walks of finished evaluations, all of one agent.

    Right is an answer that is just the gold set, the gold table, or the gold number as exactly as that is given
    (`is_right`). Each graph is left out in turn, the others fitted, and the probabilities of its walks are what is
    measured; the model that is kept is fitted on all of them. Walks without an answer, and those that `kgwalk ask`
    would have refused since there is nothing to start from, have no confidence.
    """
    walks = [walk for folder in folders for walk in _walks(open_run(folder))]
    names = [graph for graph, *_ in walks]
    graphs = list(dict.fromkeys(names))
    rights = [right for _, _, right, _ in walks]
    if len(walks) < FEWEST or len(graphs) < 2 or len(set(rights)) < 2:
        raise KgwalkError(
            f"there are {len(walks)} walks with an answer over {len(graphs)} graphs, {sum(rights)} of them right; "
            f"it takes {FEWEST} walks of at least 2 graphs, some right and some wrong: give more evaluations"
        )
    figures = [found for _, found, *_ in walks]
    chances = [0.0] * len(walks)
    for graph in graphs:
        inside = [at for at, name in enumerate(names) if name != graph]
        model = fitted([figures[at] for at in inside], [rights[at] for at in inside])
        for at in (at for at, name in enumerate(names) if name == graph):
            chances[at] = model.of_figures(figures[at])
    held_out = calibration(chances, rights)
    each = {
        graph: calibration(
            [chance for chance, name in zip(chances, names, strict=True) if name == graph],
            [right for right, name in zip(rights, names, strict=True) if name == graph],
        )
        for graph in graphs
    }
    about = {"questions": len(walks), "graphs": graphs, "held_out": held_out}
    likely = calibration([likelihood for *_, likelihood in walks], rights)
    spread = calibration_spread(chances, rights, names)
    return Calibrated(fitted(figures, rights, about), held_out, spread, likely, each)


def _walks(run: RunFolder) -> Iterator[tuple[str, dict[str, float], bool, float]]:
    """Of each walk that was answered: its graph, what is seen in it, whether it was right, and its likelihood."""
    check_finished(run)
    settings = run.about["settings"]
    data = Path(str(settings["data"])).name
    for row, episode in whole_episodes(run.file(PREDICTIONS)):
        found = seen_in(episode) if row["metrics"]["answered"] else {}
        if found and is_started(episode):
            graph = episode.question.extra.get(GRAPH_ID)  # of a dataset of many graphs
            graph = row["groups"].get(DATASET_KEY, data) if graph is None else f"{data}/{graph}"
            yield graph, found, is_right(row), episode.likelihood or 0.0


def is_right(row: PredictionRow) -> bool:
    """Whether a row's answer is all that was asked for: its set, its table, or its number as exactly as the gold one.

    >>> is_right({"metrics": {"exact_set": 0.0}, "gold": ["76.13"], "answers": ["76.13333333"]})
    True
    >>> is_right({"metrics": {"exact_set": 0.0}, "gold": ["76"], "answers": ["76.13333333"]})  # a count is whole
    False
    """
    metrics = row["metrics"]
    if metrics["exact_set"] == 1 or metrics.get("rows_f1") == 1:
        return True
    if len(row["gold"]) != 1 or len(row["answers"]) != 1 or "." not in row["gold"][0]:
        return False
    try:
        digits = len(row["gold"][0].partition(".")[2])
        return round(float(row["answers"][0]), digits) == float(row["gold"][0])
    except ValueError:
        return False


# Two evaluations of the same questions

COMPARED = (
    "f1",
    "precision",
    "recall",
    "hits_at_1",
    "hit_any",
    "exact_set",
    "accuracy",  # of questions that ask whether something is so
    "rows_f1",  # of questions that ask for a table
    "retrieval_rate",
    "generated_tokens",
    "turns",
)
_Questions = dict[int, dict[str, Any]]


def compare(first: Path, second: Path) -> dict[str, Any]:
    """What `compare --json` prints: for each metric both means, the difference, its interval and p.

    Questions are paired by place and must be the same, wherever the data lay. `n` of a metric is smaller where only
    some questions have it, as accuracy.
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
    """Each question's metrics, means over its runs."""
    check_finished(run)
    found = {}
    for number, rows in by_question(read_predictions(run.file(PREDICTIONS)).values()).items():
        names = [name for name in COMPARED if all(name in row["metrics"] for row in rows)]
        means = {name: sum(row["metrics"][name] for row in rows) / len(rows) for name in names}
        asked = tuple(rows[0][part] for part in ("id", "question", "gold", "aliases"))
        found[number] = {"asked": asked, "metrics": means}
    return found


def _changed(rows: list[_Questions], shared: list[int], sign: int) -> list[dict[str, Any]]:
    """Questions whose F1 rose (sign 1) or fell (-1), the largest change first; `f1` is that of both evaluations."""
    found = []
    for number in shared:
        one, other = (of[number]["metrics"]["f1"] for of in rows)
        if sign * (other - one) > 0:
            name, question, *_ = rows[0][number]["asked"]
            found.append({"number": number, "id": name, "question": question, "f1": [one, other]})
    return sorted(found, key=lambda row: (sign * (row["f1"][0] - row["f1"][1]), row["number"]))
