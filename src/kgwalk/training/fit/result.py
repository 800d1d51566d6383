"""The result of a fit: which weights become the agent, where they are put, and the report.

The trained weights become the agent only if they walk the held-out questions better than the agent that the fit started
from, and by more than chance. `Walks` walks the held-out questions: a few first, to see how long one takes, then as
many as there is time for.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kgwalk.config.recipe import Recipe, read_section
from kgwalk.config.run_folder import RunFolder
from kgwalk.data.bundled import beside
from kgwalk.data.dataset import Data
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.evaluation.report import compare
from kgwalk.kg.graph import Graph
from kgwalk.llm.engine import Engine, open_engine
from kgwalk.llm.models import is_adapter, read_adapter
from kgwalk.training.checkpoint import copy_files, whole_or_not
from kgwalk.training.fit.plan import AFTER, BEFORE, EXAMPLES, REPORT, TRAINED, FitPlan, FitRequest, FitTime
from kgwalk.training.run import ADAPTER
from kgwalk.training.settings import ModelSettings
from kgwalk.types import KgwalkError, Progress, Question
from kgwalk.walk.examples import ENDING, read_examples, write_examples
from kgwalk.walk.policy import place_of, shipped

SHOWN = ("f1", "hits_at_1", "hit_any", "retrieval_rate", "generated_tokens", "turns")
CARD = "README.md"
BY = ("type", "hops")
MOST_P = 0.1  # a gain with a higher p may be chance, and the start's weights stay
NOWHERE = "a smoke run: the agent knows nothing, and is not put beside the graph"


def reported(
    asked: FitRequest,
    folder: RunFolder,
    prepared: dict[str, Any],
    first: dict[str, Any],
    second: dict[str, Any],
    stages: dict[str, Any],
    time: FitTime,
) -> dict[str, Any]:
    """Put the agent in its place, and write and return the report."""
    gain = compare(folder.file(BEFORE), folder.file(AFTER))["metrics"]["f1"]
    # examples cost no weights, and who has learnt to read them is better with them in doubt (docs/guides/fit.md)
    reads = not asked.train and asked.start is not None and bool(read_adapter(asked.start).learnt.get("examples"))
    kept = asked.start is not None and not is_better(gain, in_doubt=reads)
    trained = folder.file(TRAINED)
    stays = asked.start is not None and (kept or not asked.train)
    source, card = (asked.start, None) if stays and asked.start else (trained / ADAPTER, trained / CARD)
    if asked.smoke:
        place, words = source, [NOWHERE]
    elif not asked.train:  # nothing is new but the examples
        place, words = source, []
    elif source == shipped():  # it is found where it is, and so is a newer one
        place, words = source, _others(source, asked.store)
    else:
        place, words = _put(source, card, asked.store)
    examples, more = (None, []) if asked.smoke else put_examples(asked, folder, kept=kept)
    plan = FitPlan(**prepared["plan"])
    report = {
        "graph": asked.name,
        "smoke": asked.smoke,
        "folder": str(folder.path),
        "adapter": str(place),
        "found": not asked.smoke and _found(place, asked.store),  # by `ask --graph`, without --adapter
        "start": None if asked.start is None else str(asked.start),
        "kept": "start" if kept else "result",  # whose weights the adapter has; or whether examples are shown
        "trained": asked.train,
        # at most so many in a prompt, and where they lie; `learnt`: the agent shows them without being told
        "examples": {
            "shown": asked.examples,
            "file": None if examples is None else str(examples),
            "learnt": bool(read_adapter(source).learnt.get("examples")),
        },
        **prepared,
        "before": _scores(first),
        "after": _scores(second) | {"by": {name: second["by"][name] for name in BY if name in second["by"]}},
        "gain": gain,
        "stages": stages,
        "minutes": asked.minutes,
        "used": time.used,
        "notes": [
            *_notes(plan, stages, gain, minutes=asked.minutes, spent=time.spent, kept=kept, trained=asked.train),
            *words,
            *more,
        ],
        "seconds": round(time.spent, 1),
    }
    folder.write(REPORT, report)
    return report


def is_better(gain: Mapping[str, float], *, in_doubt: bool = False) -> bool:
    """Whether the result walks better than the start on the questions that both walked, by more than chance.

    p is that of the paired difference. In doubt the start stays: it has learnt more than these questions show. With
    `in_doubt` it is the other way round: what is not worse is taken.

    >>> [is_better({"first": 0.5, "second": second, "p": p}) for second, p in ((0.4, 0.01), (0.6, 0.01), (0.6, 0.5))]
    [False, True, False]
    >>> is_better({"first": 0.5, "second": 0.5, "p": 1.0}, in_doubt=True)
    True
    """
    if in_doubt:
        return gain["second"] >= gain["first"]
    return gain["second"] > gain["first"] and gain["p"] < MOST_P


def _found(place: Path, store: Path) -> bool:
    """Whether `ask --graph` finds the agent in this place: beside the graph, or shipped with none beside it."""
    return place == place_of(store) or (place == shipped() and not is_adapter(place_of(store)))


def _others(agent: Path, store: Path) -> list[str]:
    own = place_of(store)
    if own == agent or not is_adapter(own):
        return []
    return [f"{own}, of another fit, is left where it is, and found before the agent that comes with kgwalk"]


def _put(source: Path, card: Path | None, store: Path) -> tuple[Path, list[str]]:
    """Copy the adapter beside its graph, where `ask --graph` finds it; returns the place, and notes for the report.

    If the place cannot be written, the adapter stays where it is.
    """
    place = place_of(store)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with whole_or_not(place, "the adapter", f"it lies in {source}") as copied:
            copy_files(source, copied, without=[])
            if card is not None:
                shutil.copyfile(card, copied / CARD)
    except PermissionError as error:
        return source, [f"{place} cannot be written ({error.strerror}): give --adapter {source} to ask"]
    return place, []


def put_examples(asked: FitRequest, folder: RunFolder, *, kept: bool) -> tuple[Path | None, list[str]]:
    """Copy the worked examples beside the graph if they helped; returns where they are, and notes for the report.

    Those of an earlier fit, which were tried for the agent of that time, go if these do not help this one.
    """
    place, made = beside(asked.store, ENDING), folder.file(EXAMPLES)
    if kept or not asked.examples:
        if asked.train or not place.exists():
            return None, []
        place.unlink()
        return None, [f"{place}, of an earlier fit, is removed"]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_examples(place, read_examples(made).examples)
    except (KgwalkError, OSError) as error:
        return made, [f"{place} cannot be written ({error}): give --set world.examples={made} to ask"]
    return place, []


def _scores(report: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of an evaluation that a fit shows."""
    return {"n": report["n"], **{name: report["metrics"][name] for name in SHOWN if name in report["metrics"]}}


def _notes(
    plan: FitPlan,
    stages: Mapping[str, Any],
    gain: Mapping[str, Any],
    *,
    minutes: float,
    spent: float,
    kept: bool,
    trained: bool = True,
) -> list[str]:
    """What was left out or cut short, and why. `spent` is in seconds; `kept` says that the start's weights stay."""
    found = []
    if not plan.steps and trained:
        found.append(f"no GRPO: {minutes:g} minutes do not allow for enough steps on this machine")
    if plan.seconds > 60 * minutes:
        found.append(f"the least that makes sense should take {plan.seconds / 60:.1f} minutes on this machine")
    used_up = [(name, made["steps"]) for name, made in stages.items() if "note" in made]
    found += [f"{name} used its minutes up with step {done:,}" for name, done in used_up]
    if spent > 60 * minutes:
        found.append(f"it took {spent / 60:.1f} minutes instead of {minutes:g}")
    if kept:
        luck = f", or by luck alone (p = {gain['p']:.2f})" if gain["second"] > gain["first"] else ""
        what, rest = ("training", "the weights that it started from are kept")
        if not trained:
            what, rest = "worked examples", "they are not kept"
        found.append(
            f"{what} made it no better{luck}: F1 on {gain['n']:,} questions held out was {gain['first']:.3f} and is "
            f"{gain['second']:.3f}; {rest}"
        )
    return found


# Walking the held-out questions

SPLIT = "test"


class Took(NamedTuple):
    """Seconds that walking took."""

    load: float  # until the engine was loaded
    each: float  # a walk; many walked together take less each than a few


@dataclass(frozen=True)
class First:
    """A dataset with only the first `count` questions of each split (`kgwalk.data.dataset.Data`).

    Made questions are in random order, so the first few are like the rest.
    """

    data: Data
    count: int

    @property
    def name(self) -> str:
        return self.data.name

    def splits(self) -> list[str]:
        return self.data.splits()

    def questions(self, split: str) -> list[Question]:
        return self.data.questions(split)[: self.count]

    def graph_for(self, question: Question) -> Graph:
        return self.data.graph_for(question)

    def prepare(self, progress: Progress) -> None:
        self.data.prepare(progress)

    def place(self) -> Any:
        return self.data.place()


@dataclass(frozen=True, kw_only=True)
class Walks:
    """Who walks: `engine` is the kind that `ask` uses; without an adapter the model walks as it is."""

    recipe: Recipe
    data: Data
    engine: str
    adapter: Path | None
    seed: int
    progress: Progress

    def into(self, folder: Path, few: int, decide: Callable[[float], int]) -> tuple[dict[str, Any], Took]:
        """Evaluate a few questions, then as many as `decide` says, given the seconds of each of the first few walks.

        Returns the report and how long it took; walks that were in the folder before count with 0 seconds.
        """
        begun = time.monotonic()
        with self._opened() as engine:
            opened = time.monotonic()
            told: list[int] = []

            def each(count: int) -> float:
                walked = count - told[0]
                return (time.monotonic() - opened) / walked if walked > 0 else 0.0

            def tell(what: str, done: int, total: int | None, means: Mapping[str, float] = {}, /) -> None:
                told.append(done)
                self.progress(what, done, total, means)

            self._evaluate(folder, engine, few, tell)
            count = decide(each(few))
            report = self._evaluate(folder, engine, count, self.progress)
            return report, Took(opened - begun, each(count))

    def _evaluate(self, folder: Path, engine: Engine, count: int, progress: Progress) -> dict[str, Any]:
        return evaluate(
            self.recipe,
            First(self.data, count),
            SPLIT,
            out=folder,
            engine=engine,
            model=self._model,
            adapter=None if self.adapter is None else str(self.adapter),
            seed=self.seed,
            progress=progress,
        )

    @property
    def _model(self) -> str:
        return read_section(ModelSettings, self.recipe, "model").name

    @contextmanager
    def _opened(self) -> Iterator[Engine]:
        engine = open_engine(self.engine, self._model, **({} if self.adapter is None else {"adapter": self.adapter}))
        try:
            yield engine
        finally:
            asyncio.run(engine.close())
