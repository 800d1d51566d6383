"""A judge over the episodes of an evaluation: verdicts beside the strict scores, under names of their own.

`judgements.jsonl` has a row for each verdict, and for each that failed: a failed one is counted (`judge.failed` of the
report) and enters no mean. Knows no kind of judgement by name.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kgwalk.config.cache import cache_folder
from kgwalk.config.episode_rows import episode_from
from kgwalk.config.plugins import unknown
from kgwalk.config.run_folder import RowFile, RunFolder, open_run
from kgwalk.config.runtime import outside_a_loop
from kgwalk.evaluation.predictions import PREDICTIONS, EpisodeKey, PredictionRow, check_finished, key_of, whole_rows
from kgwalk.evaluation.report import JUDGED, finish
from kgwalk.llm.engine import KINDS, needs_model, open_engine
from kgwalk.score.answers import distinct
from kgwalk.score.judge.judge import Judge, name_of
from kgwalk.score.judge.kinds import BUILDERS, Case, case_of
from kgwalk.score.judge.verdict import JudgeCost, Verdict, score_from_vector
from kgwalk.types import KgwalkError, Progress, silent

JUDGEMENTS = "judgements.jsonl"


def judge_run(path: Path, judge: str, kinds: Sequence[str], *, progress: Progress = silent) -> dict[str, Any]:
    """Judge every episode of an evaluation by `ENGINE[:MODEL]`; the report with the verdicts' means in its metrics.

    Verdicts are kept in the cache, so the same judge is not asked the same twice.
    """
    check_judge(judge, kinds)
    folder = open_run(path)
    check_finished(folder)
    kind, _, model = judge.partition(":")

    def work() -> dict[str, Any]:
        engine = open_engine(kind, model or None)
        try:
            with (
                folder.alone(),
                Judge(engine, model_name=name_of(kind, engine), cache=cache_folder() / "judge") as judging,
            ):
                return judged(folder, judging, kinds, progress=progress)
        finally:
            asyncio.run(engine.close())

    return outside_a_loop(work)


def check_judge(judge: str, kinds: Iterable[str]) -> None:
    """Wrong names are told at once, not when all questions have been walked."""
    kind, _, model = judge.partition(":")
    if kind not in KINDS:
        raise unknown("engine of a judge", kind, KINDS)
    if not model and needs_model(kind):
        raise KgwalkError(f"a judge by the engine {kind} needs the name of a model: {kind}:MODEL")
    for name in kinds:
        if name not in BUILDERS:
            raise unknown("kind of judgement", name, BUILDERS)


def judged(folder: RunFolder, judge: Judge, kinds: Sequence[str], *, progress: Progress = silent) -> dict[str, Any]:
    """The same with a judge that is open."""
    kinds = list(dict.fromkeys(kinds))
    rows, cases = _cases(folder.file(PREDICTIONS), kinds)
    folder.file(JUDGEMENTS).unlink(missing_ok=True)
    before, values = judge.cost, defaultdict[str, list[float]](list)

    def seen(verdict: Verdict) -> None:
        done = judge.cost.verdicts - before.verdicts
        progress(
            "verdicts", done, len(rows) * len(kinds), {name: sum(each) / len(each) for name, each in values.items()}
        )

    with RowFile(folder.file(JUDGEMENTS)) as written:
        for kind in kinds:
            verdicts = judge.judge_all(cases[kind], seen)
            for row, verdict in zip(rows, verdicts, strict=True):
                numbers = {} if verdict.failure else _numbers(kind, verdict, row["answers"])
                row["metrics"] |= numbers
                for name, value in numbers.items():
                    values[name].append(value)
                written.add(_row(row, kind, numbers, verdict))
    return finish(folder, rows, judge=_about(judge, kinds, before))


def _cases(predictions: Path, kinds: Sequence[str]) -> tuple[list[PredictionRow], dict[str, list[Case]]]:
    """The rows in order, and for each kind their cases; the episodes themselves are let go."""
    found: dict[EpisodeKey, tuple[PredictionRow, list[Case]]] = {}
    for row in whole_rows(predictions):
        episode = episode_from(row.pop("episode"))
        found[key_of(row)] = row, [case_of(kind, episode) for kind in kinds]
    ordered = [found[key] for key in sorted(found)]
    return [row for row, _ in ordered], {kind: [cases[at] for _, cases in ordered] for at, kind in enumerate(kinds)}


def _row(row: PredictionRow, kind: str, numbers: dict[str, float], verdict: Verdict) -> PredictionRow:
    return {
        "number": row["number"],
        "run": row["run"],
        "kind": kind,
        "numbers": numbers,
        "failure": verdict.failure,
        "reply": verdict.reply,
        "tokens": [verdict.prompt_tokens, verdict.generated_tokens],
        "cached": verdict.cached,
    }


def _about(judge: Judge, kinds: Sequence[str], before: JudgeCost) -> dict[str, Any]:
    names = ("verdicts", "failed", "cached", "calls", "prompt_tokens", "generated_tokens")
    spent = {name: getattr(judge.cost, name) - getattr(before, name) for name in names}
    return {"model": judge.model_name, "kinds": list(kinds), **spent}


def _numbers(kind: str, verdict: Verdict, predicted: Sequence[str]) -> dict[str, float]:
    """A verdict as numbers of their own names: `judge_correct`, `judge_recall`, `judge_relevance`...

    A name that was predicted twice is one, as in the strict scores.
    """
    value = verdict.value
    if isinstance(value, list):
        scores = score_from_vector(value, len(distinct(predicted)))
        return {f"{JUDGED}{name}": float(getattr(scores, name)) for name in ("precision", "recall", "f1", "any")}
    if isinstance(value, dict):
        return {f"{JUDGED}{name}": float(score) for name, score in value.items()}
    return {} if value is None else {f"{JUDGED}{kind}": float(value)}
