"""A graph in, an agent for it out: questions made from the graph, SFT, GRPO, a score on questions held out.

    fit("films.kg", out="runs/fit-films")

    run/questions   the questions that were made, a dataset over the graph
    run/plan.json   how fast the machine is, and what that leaves time for
    run/before      the held-out questions, walked by whatever the fit starts from
    run/train       the training run (build/pipeline)
    run/after       the held-out questions, walked by the result
    run/fit.json    the report

The adapter is put where `ask --graph` looks for it (agent/adapters). What is done is not done again, so a fit that is
resumed goes on where it stopped. Knows no recipe by name.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kgwalk.agent.adapters import place_of
from kgwalk.build.checks import check_device
from kgwalk.build.fit_plan import FitPlan, plan_for
from kgwalk.build.fit_questions import make, write
from kgwalk.build.fit_start import as_wide, check, start_of
from kgwalk.build.pipeline import TrainSettings, train
from kgwalk.build.run import ADAPTER
from kgwalk.build.speed import measure
from kgwalk.config.recipe import Recipe, load_recipe
from kgwalk.config.section import read_section
from kgwalk.data.dataset import Dataset
from kgwalk.evaluation.compare import compare
from kgwalk.evaluation.evaluate import evaluate, outside_a_loop
from kgwalk.kg.store import StoredGraph
from kgwalk.runs.folder import RUN, RunFolder, begin_run
from kgwalk.training.checkpoint import copy_files, whole_or_not
from kgwalk.training.loop import Progress, silent
from kgwalk.training.settings import GrpoSettings, ModelSettings
from kgwalk.types import KgwalkError

MINUTES = {"cpu": 40.0, "cuda": 8.0}
QUESTIONS = {"cpu": 1500, "cuda": 8000}  # to learn from, at most, unless told
GENTLY = 5e-4  # the rate of SFT that goes on from an agent: it shall learn this graph, and not forget how to walk
PLAN, REPORT, ASKED, TRAINED = "plan.json", "fit.json", "questions", "train"
BY = ("type", "hops")
SHOWN = ("f1", "hits_at_1", "hit_any", "retrieval_rate", "generated_tokens", "turns")
SMOKE = FitPlan(train=24, dev=4, test=6, before=3, batch=4, steps=2, seconds=60.0)


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What was asked for, resolved. `start` is an adapter to go on from."""

    graph: StoredGraph
    name: str
    recipe: Recipe
    path: Path
    minutes: float
    count: int
    seed: int
    start: Path | None
    device: str
    engine: str
    smoke: bool
    values: tuple[str, ...]  # of the recipe, anew: they are in it, and count for more than the plan's
    progress: Progress

    @property
    def store(self) -> Path:
        return Path(self.graph.store.folder.path).resolve()

    def settings(self) -> dict[str, Any]:
        """What decides what is computed; how fast it is computed decides, too, and is kept in plan.json."""
        return {
            "graph": str(self.store),
            "digest": self.graph.store.digest,
            "recipe": self.recipe.name,
            "sections": self.recipe.resolved(),
            "minutes": self.minutes,
            "count": self.count,
            "seed": self.seed,
            "start": None if self.start is None else str(self.start.resolve()),
            "smoke": self.smoke,
        }


def fit(
    graph: StoredGraph,
    *,
    out: str | Path,
    name: str | None = None,
    recipe: str | Recipe = "kgwalk",
    minutes: float | None = None,
    count: int | None = None,
    seed: int = 0,
    start: str | Path | None = None,
    device: str = "auto",
    engine: str = "auto",
    smoke: bool = False,
    values: Sequence[str] = (),
    resume: bool = False,
    force: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Train an agent for a graph without a single labelled question; the result is what `kgwalk fit --json` prints.

    It takes about `minutes` (40 on a CPU, 8 on a GPU), and learns from at most `count` questions. `start` is an
    adapter's folder, `shipped` or `none`; without it the shipped agent where it fits, else none. `engine` walks the
    questions held out, and is the one that `ask` would have. `resume` goes on with the fit in `out`.
    """
    check_device(device)
    chosen = load_recipe(recipe) if isinstance(recipe, str) else recipe
    chosen = chosen.with_profile("smoke") if smoke else chosen.with_profile("135m").with_profile("fit")
    chosen = chosen.with_values(values)
    check(chosen, read_section(TrainSettings, chosen, "train").stages)
    begin = start_of(start, chosen)
    if begin is not None:
        chosen = chosen.with_values([*as_wide(begin), *([] if smoke else [f"sft.lr={GENTLY}"]), *values])
    kind = _kind(device)
    asked = Fit(
        graph=graph,
        name=name or Path(graph.store.folder.path).name.removesuffix(".kg"),
        recipe=chosen,
        path=Path(out),
        minutes=MINUTES[kind] if minutes is None else minutes,
        count=QUESTIONS[kind] if count is None else count,
        seed=seed,
        start=begin,
        device=device,
        engine="local" if smoke else engine,
        smoke=smoke,
        values=tuple(values),
        progress=progress,
    )
    return outside_a_loop(lambda: _carry_out(asked, resume=resume, force=force))


def _carry_out(asked: Fit, *, resume: bool, force: bool) -> dict[str, Any]:
    started = time.monotonic()
    new = [place for place in (asked.path, *asked.path.parents) if not place.exists()]
    folder, before = begin_run(asked.path, "fit", asked.settings(), force=force)
    if before and not resume:
        raise KgwalkError(f"{asked.path} holds this fit already; --resume goes on with it, --force starts over")
    with folder.alone():
        if not folder.file(PLAN).exists():
            with _nothing_left(folder, new):
                _prepare(asked, folder, started)
        prepared = folder.read(PLAN)
        plan, data = FitPlan(**prepared["plan"]), Dataset(asked.name, folder.file(ASKED))
        first = _walked(asked, folder, data, "before", asked.start, plan.before)
        trained = _trained(asked, folder, data, plan)
        second = _walked(asked, folder, data, "after", folder.file(TRAINED) / ADAPTER, None)
        place, notes = _put(asked, folder)
        report = {
            "graph": asked.name,
            "folder": str(folder.path),
            "adapter": str(place),
            "beside_graph": place == place_of(asked.store),  # where `ask --graph` finds it
            "start": None if asked.start is None else str(asked.start),
            **prepared,
            "before": _scores(first),
            "after": _scores(second) | {"by": {name: second["by"][name] for name in BY if name in second["by"]}},
            "gain": compare(folder.file("before"), folder.file("after"))["metrics"]["f1"],
            "stages": trained["stages"],
            "notes": [*_left_out(plan, asked), *notes],
            "seconds": round(time.monotonic() - started, 1),
        }
        folder.write(REPORT, report)
        return report


@contextmanager
def _nothing_left(folder: RunFolder, new: Sequence[Path]) -> Iterator[None]:
    """A fit that is refused before there is a plan was never begun; `new` are the folders made for it, inmost first."""
    try:
        yield
    except KgwalkError:
        if folder.file(ASKED).exists():
            shutil.rmtree(folder.file(ASKED))
        folder.file(RUN).unlink()
        with suppress(OSError):  # another run has begun beside this one
            for place in new:
                place.rmdir()
        raise


def _prepare(asked: Fit, folder: RunFolder, started: float) -> None:
    """Questions, and how many of them there is time for."""
    made, about = make(asked.graph, asked.name, asked.count, asked.seed, asked.progress)
    if asked.smoke:
        speed, plan = None, SMOKE
    else:
        asked.progress("speed", 0, 1, {})
        begun = time.monotonic()
        speed = measure(asked.recipe, made, seed=asked.seed, start=asked.start, device=asked.device)
        asked.progress("speed", 1, 1, {})
        # to load a model three times more takes no longer than to load it and try it twice
        seconds = 60 * asked.minutes - (begun - started) - 3 * (time.monotonic() - begun)
        grpo = read_section(GrpoSettings, asked.recipe, "grpo")
        plan = plan_for(
            speed,
            seconds,
            asked.count,
            untrained=asked.start is None,
            questions=grpo.questions,
            group=grpo.group,
        )
    plan = plan.within({split: len(made.questions(split)) for split in made.splits()})
    write(made.limited({"train": plan.train, "dev": plan.dev, "test": plan.test}), folder.file(ASKED))
    measured = None if speed is None else asdict(speed)
    folder.write(PLAN, {"questions": about, "speed": measured, "plan": asdict(plan)})


def _trained(asked: Fit, folder: RunFolder, data: Dataset, plan: FitPlan) -> dict[str, Any]:
    asked_for = read_section(TrainSettings, asked.recipe, "train").stages
    stages = [stage for stage in asked_for if stage != "eval" and (plan.steps or stage != "grpo")]
    values = [f"train.stages={stages}", f"sft.batch={plan.batch}", f"grpo.steps={max(1, plan.steps)}"]
    return train(
        asked.recipe.with_values([*values, *asked.values]),
        data,
        out=folder.file(TRAINED),
        seed=asked.seed,
        start=asked.start,
        device=asked.device,
        resume=True,  # the fit's door has asked whether to
        progress=asked.progress,
    )


def _walked(
    asked: Fit, folder: RunFolder, data: Dataset, which: str, adapter: Path | None, limit: int | None
) -> dict[str, Any]:
    """The held-out questions, or some of them, by a model and adapter; the engine is the one that `ask` has."""
    return evaluate(
        asked.recipe,
        data,
        "test",
        out=folder.file(which),
        engine=asked.engine,
        model=read_section(ModelSettings, asked.recipe, "model").name,
        adapter=None if adapter is None else str(adapter),
        limit=limit,
        seed=asked.seed,
        progress=lambda done, total, means: asked.progress(which, done, total, means),
    )


def _put(asked: Fit, folder: RunFolder) -> tuple[Path, list[str]]:
    """The adapter beside its graph, where `ask --graph` finds it; it stays in the run if that cannot be written to."""
    source, place = folder.file(TRAINED) / ADAPTER, place_of(asked.store)
    if asked.smoke:
        return source, ["a smoke run: the agent knows nothing, and is not put beside the graph"]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with whole_or_not(place, "the adapter", f"it lies in {source}") as beside:
            copy_files(source, beside, without=[])
            shutil.copyfile(folder.file(TRAINED) / "README.md", beside / "README.md")
    except PermissionError as error:
        return source, [f"{place} cannot be written ({error.strerror}): give --adapter {source} to ask"]
    return place, []


def _scores(report: dict[str, Any]) -> dict[str, Any]:
    return {"n": report["n"], **{name: report["metrics"][name] for name in SHOWN if name in report["metrics"]}}


def _left_out(plan: FitPlan, asked: Fit) -> list[str]:
    notes = []
    if not plan.steps:
        notes.append(f"no GRPO: {asked.minutes:g} minutes do not allow for enough steps on this machine")
    if plan.seconds > 60 * asked.minutes:
        notes.append(f"the least that makes sense should take {plan.seconds / 60:.1f} minutes on this machine")
    return notes


def _kind(device: str) -> str:
    if device == "auto":
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"
    return "cuda" if device.startswith("cuda") else "cpu"
