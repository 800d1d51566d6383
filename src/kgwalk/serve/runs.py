"""GET /v1/runs and below: the run folders of `--runs`, their curves, their walks, and two of them compared.

What is read and how is in `kgwalk.evaluation` (runs, step_curves, recorded_walks, report); here are the questions, the
threads and the errors. Two threads read, so that a large file holds up neither questions nor graphs. The files of the
last few runs that were looked at are remembered, and only what is new in them is read again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import orjson

from kgwalk.serve.asgi import HttpError, HttpReply
from kgwalk.serve.reading import ItemError, QueryStringReader, given
from kgwalk.serve.run_queries import POINTS, WALKS, BesideQuery, CompareQuery, MetricsQuery, RunQuery, WalksQuery
from kgwalk.types import KgwalkError

if TYPE_CHECKING:
    from kgwalk.evaluation.recorded_walks import RecordedWalks
    from kgwalk.evaluation.runs import RunAbout, RunsFolder
    from kgwalk.evaluation.step_curves import StepCurves, StepPoints
    from kgwalk.serve.run_replies import FigureList, PairedRuns, RunComparison, RunList, WalkList

log = logging.getLogger("kgwalk.serve")

SECONDS = 60.0  # for one answer: pairing two evaluations of 14,000 questions takes some
SLOW = 0.05  # seconds for the list, from which on it is remembered
REMEMBERED = 8  # files of each kind
CHANGED = 50  # questions that a comparison names each way
NO_RUNS = "this server shows no runs; start it with `--runs FOLDER`"
Handler = Callable[[bytes, float], Awaitable[HttpReply]]
T = TypeVar("T")


class RunRoutes:
    """The routes by path. Without a folder each answers 404 and says what to do."""

    def __init__(self, folder: str | None) -> None:
        if folder is not None and not Path(folder).is_dir():
            raise KgwalkError(f"{folder} is no folder; --runs takes one that holds runs, such as runs/")
        self._folder = folder
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="runs")
        self._list: RunList | None = None
        self._list_until = 0.0
        self._curves: _Remembered[StepCurves] = _Remembered()
        self._walks: _Remembered[RecordedWalks] = _Remembered()
        self.handlers: dict[str, Handler] = {
            "/v1/runs": self._handler(None, lambda query: self.listed()),
            "/v1/runs/run": self._handler(RunQuery, self.about),
            "/v1/runs/metrics": self._handler(MetricsQuery, self.metrics),
            "/v1/runs/walks": self._handler(WalksQuery, self.walks),
            "/v1/runs/compare": self._handler(CompareQuery, self.compared),
            "/v1/runs/figures": self._handler(BesideQuery, self.figures),
            "/v1/runs/report": self._handler(BesideQuery, self.report),
        }

    def warm(self) -> None:
        """Import what the first answer needs; it takes half a second, and nobody should wait for it."""
        if self._folder is not None:
            self._threads.submit(lambda: self._runs)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    @cached_property
    def _runs(self) -> RunsFolder:
        from kgwalk.evaluation.runs import RunsFolder

        assert self._folder is not None
        return RunsFolder(Path(self._folder))

    def _handler(self, shape: Any, answer: Callable[[Any], Any]) -> Handler:
        """A route that reads its query, answers in a thread, and turns errors into replies."""
        reader = None if shape is None else QueryStringReader(shape)

        async def handle(query: bytes, deadline: float) -> HttpReply:
            if self._folder is None:
                raise HttpError(404, "no_runs", NO_RUNS)
            try:
                asked = None if reader is None else reader(query)
            except ItemError as error:
                raise HttpError(422, "wrong_content", error.message) from error
            work = asyncio.get_running_loop().run_in_executor(self._threads, self._answered, answer, asked)
            try:
                return await asyncio.wait_for(work, max(0.1, deadline - monotonic()))
            except TimeoutError as error:
                raise HttpError(504, "time_limit", f"there was no answer within {SECONDS:g} s") from error

        return handle

    def _answered(self, answer: Callable[[Any], Any], asked: Any) -> HttpReply:
        from kgwalk.evaluation.runs import UnknownRun

        try:
            found = answer(asked)
        except UnknownRun as error:
            raise HttpError(404, "unknown_run", self._runs.said(error), nearest=error.nearest) from error
        except (KgwalkError, OSError) as error:
            said = self._runs.said(error)
            log.warning("a run cannot be read: %s", said)
            raise HttpError(422, "damaged_run", said) from error
        if isinstance(found, HttpReply):
            return found
        # a run's settings may hold whatever somebody wrote into run.json, NaN and numbers as keys among it
        return HttpReply(200, orjson.dumps(found, option=orjson.OPT_NON_STR_KEYS))

    # The answers, each in a thread

    def listed(self) -> RunList:
        """Of hundreds of runs one answer serves for a while: pages that follow them take a fifth of a core at most."""
        began = monotonic()
        if self._list is None or began >= self._list_until:
            self._list = {"folder": self._runs.root.name, "runs": self._runs.listed()}
            took = monotonic() - began
            self._list_until = began + (5 * took if took > SLOW else 0)
        return self._list

    def about(self, query: RunQuery) -> RunAbout:
        return self._runs.about(query["name"])

    def metrics(self, query: MetricsQuery) -> StepPoints:
        from kgwalk.evaluation.html_report import CURVES, STAGES
        from kgwalk.evaluation.report import STEP_METRICS
        from kgwalk.evaluation.step_curves import StepCurves

        name, stage = query["name"], query.get("stage")
        self._runs.run(name)
        begun = [one for one in STAGES if self._runs.file(name, one, STEP_METRICS).is_file()]
        if not begun or (stage is not None and stage not in begun):
            raise HttpError(404, "no_metrics", f"{name} has no steps{'' if stage is None else f' of {stage}'} yet")
        path = self._runs.file(name, stage or begun[-1], STEP_METRICS)
        wanted = [one for one in (query.get("curves") or "").split(",") if one]
        curves = self._curves.of(path, StepCurves)
        return curves.read(wanted or list(CURVES), since=query.get("since"), most=given(query.get("most"), POINTS))

    def walks(self, query: WalksQuery) -> WalkList:
        from kgwalk.evaluation.recorded_walks import RecordedWalks, WalkFilter
        from kgwalk.evaluation.report import PREDICTIONS, STEP_EPISODES

        name = query["name"]
        parts = (PREDICTIONS,) if self._runs.run(name).kind == "eval" else ("grpo", STEP_EPISODES)
        path = self._runs.file(name, *parts)
        if not path.is_file():
            raise HttpError(404, "no_walks", f"{name} has no walks to read yet")
        kept = self._walks.of(path, RecordedWalks)
        kept.read()
        names = ("step", "number", "hops", "kind", "type", "error", "text")
        chosen: dict[str, Any] = {key: query.get(key) for key in names}
        wanted = WalkFilter(show=given(query.get("show"), "all"), **chosen)
        found = kept.found(wanted)
        if query.get("order") == "last":
            found.reverse()
        offset, limit = given(query.get("offset"), 0), given(query.get("limit"), WALKS)
        return {
            "name": name,
            "total": len(kept.marks),
            "found": len(found),
            "offset": offset,
            "read": kept.end / kept.size if kept.size else 1.0,
            "steps": kept.steps(),
            "counts": kept.counts(wanted),
            "walks": [kept.shown(at, marks) for at, marks in found[offset : offset + limit]],
        }

    def compared(self, query: CompareQuery) -> RunComparison:
        names = query["a"], query["b"]
        evaluated = [self._runs.evaluated(name) for name in names]
        paired, why = None, None
        try:
            paired = self._paired(evaluated[0], evaluated[1])
        except KgwalkError as error:
            why = self._runs.said(error)
        differing = self._runs.differing(*names)
        return {
            "a": self._runs.summary(names[0]),
            "b": self._runs.summary(names[1]),
            "evaluated": evaluated,
            "differing": [{"key": key, "a": one, "b": other} for key, one, other in differing],
            "paired": paired,
            "why": why,
        }

    def _paired(self, first: str | None, second: str | None) -> PairedRuns:
        from kgwalk.evaluation.report import compare

        if first is None or second is None:
            raise KgwalkError("a run without a finished evaluation cannot be paired; `kgwalk eval` makes one")
        found = compare(self._runs.checked(first), self._runs.checked(second))
        gained, lost = found["gained"], found["lost"]
        changed = {"gained": gained[:CHANGED], "lost": lost[:CHANGED]}
        counts = {"gained_count": len(gained), "lost_count": len(lost)}
        paired: PairedRuns = {**found, **changed, **counts}  # type: ignore[typeddict-item]
        return paired

    def figures(self, query: BesideQuery) -> FigureList:
        from kgwalk.evaluation.html_report import make_report

        names = [name for name in self._named(query) if name is not None]
        evaluated = [name for name in map(self._runs.evaluated, names) if name is not None]
        if not evaluated:
            return {"sections": []}
        report = make_report([self._runs.checked(name) for name in dict.fromkeys(evaluated)], episodes=0)
        return {
            "sections": [
                {
                    "title": section.title,
                    "note": section.note,
                    "figures": [{"name": figure.name, "svg": figure.svg} for figure in section.figures],
                }
                for section in report.sections
                if section.figures
            ]
        }

    def report(self, query: BesideQuery) -> HttpReply:
        from kgwalk.evaluation.html_report import make_report

        report = make_report([self._runs.checked(name) for name in self._named(query)])
        headers = (
            (b"content-disposition", b'attachment; filename="report.html"'),
            (b"content-security-policy", b"sandbox; default-src 'none'; style-src 'unsafe-inline'"),
            (b"cache-control", b"no-cache"),
        )
        return HttpReply(200, report.html().encode(), b"text/html; charset=utf-8", headers)

    def _named(self, query: BesideQuery) -> list[str]:
        beside = query.get("beside")
        return [query["name"], *([] if beside is None else [beside])]


class _Remembered(Generic[T]):
    """The readers of the files that were last looked at."""

    def __init__(self) -> None:
        self._lock, self._kept = Lock(), OrderedDict[Path, T]()

    def of(self, path: Path, make: Callable[[Path], T]) -> T:
        with self._lock:
            found = self._kept.pop(path, None) or make(path)
            self._kept[path] = found
            while len(self._kept) > REMEMBERED:
                self._kept.popitem(last=False)
            return found
