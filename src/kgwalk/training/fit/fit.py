"""`kgwalk fit`: a graph in, an agent for it out, helped by questions made from the graph.

    fit("films.kg", out="runs/fit-films")

Where there is no GPU to train on, the questions become worked examples for the agent that there is
(`kgwalk.walk.examples`); held-out ones, walked with and without examples, say whether these help. Training is as
follows; an agent that has learnt with examples is trained and walks with them.

    run/questions   the questions that were made, a dataset over the graph
    run/examples.jsonl    those to learn from as worked examples, where the prompt shows some
    run/worlds      questions about invented graphs, if the fit goes on from an agent: what it must not forget
    run/plan.json   how fast the machine is, and what that leaves time for
    run/time.json   what the time was used for, and the minutes that each stage was given
    run/before      the held-out questions, walked by the agent that the fit starts from
    run/train       the training run (training/pipeline)
    run/after       the held-out questions, walked by the result
    run/fit.json    the report

The adapter is put where `ask --graph` looks for it (walk/adapters), unless it is the one shipped with kgwalk. What is
done is not done again, so a fit that is resumed goes on where it stopped. If training made the agent no better on the
held-out questions, or perhaps only by chance, the weights stay as they were; so with examples, which then are not kept.
"""

from __future__ import annotations

import math
import shutil
import time as clock
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

from kgwalk.config.recipe import Recipe, load_recipe, read_section
from kgwalk.config.run_folder import RESTORE, RunFolder, begin_run, read_object
from kgwalk.config.runtime import outside_a_loop
from kgwalk.data.dataset import Dataset
from kgwalk.demos.make import GraphExamples
from kgwalk.evaluation.report import METRICS
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.models import adapter_scale, check_base, find_model, is_adapter, read_adapter, same_model
from kgwalk.score.rewards import RewardFunction
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.training.fit.plan import (
    AFTER,
    ASKED,
    BEFORE,
    BOTH,
    CONVERTED,
    EXAMPLE_MINUTES,
    EXAMPLE_QUESTIONS,
    EXAMPLES,
    LEAST_BEFORE,
    LEAST_EVAL,
    LOADED,
    MAKING,
    MARGIN,
    MINUTES,
    MOST_BEFORE,
    MOST_TEST,
    PLAN,
    QUESTIONS,
    ROOM,
    TIME,
    TRAINED,
    VALIDATING,
    FitPlan,
    FitRequest,
    FitTime,
    MachineSpeed,
    a_walk,
    kind_of,
    measure,
    parts_of,
    plan_for,
    rate_after,
    stage_minutes,
    walks_within,
)
from kgwalk.training.fit.questions import (
    INVENTED,
    MadeData,
    make,
    rehearsal_count,
    rehearsal_sets,
    write,
    write_rehearsal,
)
from kgwalk.training.fit.result import Took, Walks, reported
from kgwalk.training.pipeline import TrainSettings, train
from kgwalk.training.run import ADAPTER
from kgwalk.training.settings import GrpoSettings, ModelSettings, SftSettings, check_device, check_recipe
from kgwalk.types import KgwalkError, Progress, silent
from kgwalk.walk.examples import SHOWN, WorkedExample, write_examples
from kgwalk.walk.policy import NONE, asked_for, place_of, protocol_of, shipped, walked_as_learnt

ALL = ("demos", "sft", "grpo", "eval")  # stages whose settings a fit reads, whichever it trains by
FEW = {"cpu": 16, "cuda": 128}  # walks, to see how long one takes: enough to tell, and to fill a GPU
LEARNING: dict[str, type[SftSettings | GrpoSettings]] = {"sft": SftSettings, "grpo": GrpoSettings}
SMOKE = FitPlan(train=24, dev=4, test=6, before=3, batch=4, steps=2, seconds=60.0)


class _PlanCase(TypedDict):
    """What a plan depends on besides the machine's speed (`plan_for`)."""

    untrained: bool
    questions: int
    group: int


# What a fit makes is an adapter, and a random model learns nothing by heart with one.
SMOKE_VALUES = ("model.lora_rank=4", "sft.epochs=2")


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
    train: bool | None = None,
    values: Sequence[str] = (),
    resume: bool = False,
    force: bool = False,
    progress: Progress = silent,
    started: float | None = None,
) -> dict[str, Any]:
    """An agent for a graph without a single labelled question; the result is what `kgwalk fit --json` prints.

    It takes at most `minutes` (3 without training; 40 of training on a CPU, 8 on a GPU), unless they are too few for
    anything, counted from `started` (`time.monotonic`) if given. It learns from at most `count` questions. `start` is
    an adapter's folder, `shipped` or `none`; by default it is the shipped agent if that is of the recipe's model, and
    without training the one that `ask` would find. `train` says whether weights are learnt; by default they are on a
    GPU, and where there is no agent that could be shown examples. `engine` walks the held-out questions, and is the one
    that `ask` would use. `resume` goes on with the fit in `out`.
    """
    started = clock.monotonic() if started is None else started
    check_device(device)
    chosen = load_recipe(recipe) if isinstance(recipe, str) else recipe
    chosen = (
        chosen.with_profile("smoke").with_values(SMOKE_VALUES)
        if smoke
        else chosen.with_profile("135m").with_profile("fit")
    )
    chosen = chosen.with_values(values)
    check(chosen, read_section(TrainSettings, chosen, "train").stages)
    kind, store = kind_of(device), Path(graph.store.folder.path)
    begin = start_of(start, chosen)
    learns = trains(train, begin, chosen, gpu=kind == "cuda", smoke=smoke)
    if begin is not None:
        if not learns and start is None:
            begin = found_beside(store, chosen) or begin
        # One walk of each question: what begins has a confidence to choose among several by, what is made has none.
        chosen = walked_as_learnt(chosen.with_values([*as_wide(begin), "ask.walks=1", *values]), begin)
    if not learns and not protocol_of(chosen).shows_examples:
        chosen = chosen.with_values([f"protocol.examples={SHOWN}"])
    minutes_of, questions_of = (MINUTES, QUESTIONS) if learns else ({kind: EXAMPLE_MINUTES}, {kind: EXAMPLE_QUESTIONS})
    asked = FitRequest(
        graph=graph,
        name=name or store.name.removesuffix(".kg"),
        recipe=chosen,
        path=Path(out),
        minutes=minutes_of[kind] if minutes is None else minutes,
        count=questions_of[kind] if count is None else count,
        seed=seed,
        start=begin,
        device=device,
        engine="local" if smoke else engine,
        smoke=smoke,
        train=learns,
        values=tuple(values),
        progress=progress,
    )
    return outside_a_loop(lambda: _carry_out(asked, started, resume=resume, force=force))


def _carry_out(asked: FitRequest, started: float, *, resume: bool, force: bool) -> dict[str, Any]:
    with begin_run(asked.path, "fit", asked.settings(), force=force) as (folder, before):
        if before and not resume:
            raise KgwalkError(f"{asked.path} holds this fit already; --resume goes on with it, --force starts over")
        time = FitTime(folder.path, asked.minutes, started)
        if not folder.file(PLAN).exists():
            with folder.unless_refused(), _undone_if_refused(folder):
                _prepare(asked, folder, time)
        prepared = _read_plan(folder.file(PLAN))
        plan, data = FitPlan(**prepared["plan"]), Dataset(asked.name, folder.file(ASKED))
        with time.part(BEFORE):
            first = _walked(asked, folder, data, plan, time, BEFORE)
        stages: dict[str, Any] = {}
        if asked.train:
            with time.part("training"):
                stages = _trained(asked, folder, data, prepared, first["metrics"]["f1"], time)["stages"]
        with time.part(AFTER):
            second = _walked(asked, folder, data, plan, time, AFTER)
        return reported(asked, folder, prepared, first, second, stages, time)


def _read_plan(file: Path) -> dict[str, Any]:
    prepared = read_object(file, "questions", "speed", "plan", "planned")
    try:
        FitPlan(**prepared["plan"])
        if prepared["speed"] is not None:
            MachineSpeed(**prepared["speed"])
    except TypeError as error:
        raise KgwalkError(f"{file} is damaged: {error}; {RESTORE}") from None
    return prepared


@contextmanager
def _undone_if_refused(folder: RunFolder) -> Iterator[None]:
    """Remove what a fit has written if it is refused before there is a plan."""
    try:
        yield
    except KgwalkError:
        if folder.file(ASKED).exists():
            shutil.rmtree(folder.file(ASKED))
        folder.file(TIME).unlink(missing_ok=True)
        raise


def _prepare(asked: FitRequest, folder: RunFolder, time: FitTime) -> None:
    """Make the questions, measure the machine, and plan how many questions there is time for."""
    with time.part("questions"):
        seconds = math.inf if asked.train else MAKING * time.left
        made, about = make(
            asked.graph, asked.name, asked.count, asked.seed, asked.progress, language=asked.language, seconds=seconds
        )
    if asked.smoke:
        speed, plan, planned = None, SMOKE, {}
    elif not asked.train:
        train, dev, test = (len(made.questions(split)) for split in ("train", "dev", "test"))
        test = min(test, MOST_TEST)
        plan = FitPlan(train, dev, test, before=test, batch=0, steps=0, seconds=60 * asked.minutes)
        speed, planned = None, dict[str, float]()
    else:
        asked.progress("speed", 0, 1, {})
        with time.part("speed"):
            speed = measure(asked.recipe, made, seed=asked.seed, start=asked.start, device=asked.device)
        asked.progress("speed", 1, 1, {})
        grpo = read_section(GrpoSettings, asked.recipe, "grpo")
        case: _PlanCase = {"untrained": asked.start is None, "questions": grpo.questions, "group": grpo.group}
        prepared = time.spent
        plan = plan_for(speed, time.left - LOADED * speed.load - speed.setup, asked.count, **case)
        plan = plan.within({split: len(made.questions(split)) for split in made.splits()})
        planned = {"preparing": round(prepared, 1), **parts_of(plan, speed, **case)}
    # More than planned: the time budget ends the training, and the machine may turn out faster than measured.
    fixed = asked.smoke or not asked.train
    train_size = plan.train if fixed else max(plan.train, min(asked.count, ROOM * plan.train))
    rehearsed = 0 if asked.start is None or not asked.train else rehearsal_count(train_size)
    if rehearsed:
        with time.part(INVENTED):
            write_rehearsal(folder.path, rehearsed, asked.seed, asked.progress, asked.language)
    made = made.limited({"train": train_size - rehearsed, "dev": plan.dev, "test": plan.test})
    write(made, folder.file(ASKED))
    if asked.examples:
        with time.part("examples"):
            about |= {"examples": write_examples(folder.file(EXAMPLES), _examples(asked, made))}
    measured = None if speed is None else asdict(speed)
    about |= {INVENTED: rehearsed} if rehearsed else {}
    folder.write(PLAN, {"questions": about, "speed": measured, "plan": asdict(plan), "planned": planned})


def _examples(asked: FitRequest, made: MadeData) -> Sequence[WorkedExample]:
    """The questions to learn from as worked examples; those held out are not among them."""
    questions = made.questions("train")
    return (
        GraphExamples(questions, made.graph_for, protocol_of(asked.recipe), asked.seed).library(questions[0]).examples
    )


def _trained(
    asked: FitRequest, folder: RunFolder, data: Dataset, prepared: dict[str, Any], before: float, time: FitTime
) -> dict[str, Any]:
    """The report of the training run; `before` is the F1 of the agent that the fit starts from."""
    plan = FitPlan(**prepared["plan"])
    asked_for = read_section(TrainSettings, asked.recipe, "train").stages
    without = ("rank", "eval", *(() if plan.steps else ("grpo",)))  # a fit's minutes are for the model; texts rank
    stages = [stage for stage in asked_for if stage not in without]
    values = [f"train.stages={stages}", f"sft.batch={plan.batch}", f"grpo.steps={max(1, plan.steps)}"]
    if not asked.smoke:
        decided = time.known("stages") or time.decided("stages", _stage_settings(asked, prepared, stages, time))
        values += [f"{stage}.{key}={value}" for stage, settings in decided.items() for key, value in settings.items()]
        values.append(f"sft.threads={prepared['speed']['threads']}")
        values += [] if asked.start is None else [f"sft.lr={rate_after(before, plan.train)}"]
    return train(
        asked.recipe.with_values([*values, *asked.values]),
        [data, *rehearsal_sets(folder.path)],
        out=folder.file(TRAINED),
        seed=asked.seed,
        start=asked.start,
        device=asked.device,
        resume=True,  # `_carry_out` has refused already where --resume was missing
        progress=asked.progress,
    )


def _stage_settings(
    asked: FitRequest, prepared: dict[str, Any], stages: Sequence[str], time: FitTime
) -> dict[str, dict[str, float]]:
    """The minutes of each learning stage, and how many questions it validates on.

    The stages get the time that is left, less what comes before and after them. Validation may take a tenth of a stage.
    """
    plan, speed, planned = FitPlan(**prepared["plan"]), MachineSpeed(**prepared["speed"]), prepared["planned"]
    took, untrained = Took(**(time.known(f"{BEFORE} took") or {"load": speed.load, "each": 0.0})), asked.start is None
    # An agent walks the same questions again. A model that could not walk yet was slower than it will be (`a_walk`).
    walk = a_walk(speed, took.each, untrained=untrained)
    after = (plan.test if untrained else time.known(BEFORE)) * walk
    load = max(took.load, CONVERTED * speed.demo)
    others = speed.load + load + MARGIN * (planned["demos"] + after)
    minutes = stage_minutes(time.left - others, {stage: planned[stage] for stage in stages if stage != "demos"})
    most = {stage: read_section(LEARNING[stage], asked.recipe, stage).eval_questions for stage in minutes}
    return {
        stage: {
            "minutes": given,
            "eval_questions": walks_within(VALIDATING * 60 * given, max(walk, speed.walk), LEAST_EVAL, most[stage]),
        }
        for stage, given in minutes.items()
    }


def _walked(
    asked: FitRequest, folder: RunFolder, data: Dataset, plan: FitPlan, time: FitTime, which: str
) -> dict[str, Any]:
    """Walk the held-out questions, or as many as there is time for; `which` is before or after training, and without or
    with worked examples.
    """
    before = which == BEFORE
    if before or not asked.train:
        adapter, most = asked.start, plan.before if before else time.known(BEFORE)
    else:
        adapter, most = folder.file(TRAINED) / ADAPTER, plan.test
    examples = NONE if before or not asked.examples else str(folder.file(EXAMPLES).resolve())
    few = min(most, LEAST_BEFORE if before and asked.start is None else FEW[kind_of(asked.device)])
    done = folder.file(which) / METRICS
    if done.exists() and (report := read_object(done, "n", "metrics"))["n"] == time.known(which):
        return report

    def decide(each: float) -> int:
        if before and not asked.train:
            seconds = (few * each + time.left) / BOTH
        else:
            seconds = MOST_BEFORE * 60 * asked.minutes if before else few * each + time.left / MARGIN
        return int(time.decided(which, walks_within(seconds, each, few, most)))

    walks = Walks(
        recipe=asked.recipe.with_values([f"world.examples={examples}"] if asked.examples else []),
        data=data,
        engine=asked.engine,
        adapter=adapter,
        seed=asked.seed,
        progress=lambda what, done, total, means={}, /: asked.progress(which, done, total, means),
    )
    report, took = walks.into(folder.file(which), few, decide)
    time.decided(f"{which} took", took._asdict())
    return report


# The recipe and the adapter that a fit starts from


def check(recipe: Recipe, stages: Collection[str]) -> None:
    """Raises if the recipe cannot be fitted, before a question is made; `stages` are those of [train]."""
    check_recipe(recipe, ALL)
    if "sft" in stages and "demos" not in stages:
        raise KgwalkError("the stage sft learns from demonstrations: add the stage demos to `train.stages`")
    if not {"sft", "grpo"} & set(stages):
        raise KgwalkError("a fit learns by the stage sft, or grpo, and `train.stages` has neither")
    if RewardFunction.of(recipe).judges:
        raise KgwalkError(
            f"the recipe {recipe.name} rewards what a judge says, and a fit has none; `kgwalk questions make` and "
            "`kgwalk train --judge` do the same in two steps"
        )
    find_model(read_section(ModelSettings, recipe, "model").name)


def start_of(asked: str | Path | None, recipe: Recipe) -> Path | None:
    """The adapter to go on from: the one asked for, else the shipped one if it fits the recipe's model and protocol."""
    if asked == NONE:
        return None
    folder = shipped() if asked is None else asked_for(str(asked))
    if folder is None:
        return None
    adapter, model = read_adapter(folder), read_section(ModelSettings, recipe, "model").name
    if asked is not None:
        check_base(adapter, model)
    fits = same_model(adapter.base, model) and adapter.protocol in ("", recipe.section("protocol").get("name"))
    return folder if asked is not None or fits else None


def trains(asked: bool | None, start: Path | None, recipe: Recipe, *, gpu: bool, smoke: bool) -> bool:
    """Whether weights are learnt: as `asked`, else on a GPU, and where worked examples would be shown to nobody."""
    shown = start is not None and isinstance(protocol_of(recipe), Kgwalk)
    if asked is None:
        return gpu or smoke or not shown
    if not asked and (smoke or not shown):
        raise KgwalkError(
            "without training there are only worked examples, and they need an agent of the kgwalk protocol: give "
            "--start ADAPTER, or leave --no-train out"
        )
    return asked


def found_beside(store: Path, recipe: Recipe) -> Path | None:
    """The agent beside the graph, if it fits the recipe's model and protocol."""
    place = place_of(store)
    if not is_adapter(place):
        return None
    adapter, model = read_adapter(place), read_section(ModelSettings, recipe, "model").name
    return place if same_model(adapter.base, model) and adapter.protocol == Kgwalk.name else None


def as_wide(start: Path) -> list[str]:
    """Settings that give the recipe's adapter the rank and alpha of the one that it goes on from."""
    rank, alpha = adapter_scale(start)
    return [f"model.lora_rank={rank}", f"model.lora_alpha={alpha}"]
