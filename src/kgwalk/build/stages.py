"""The stages of a training run, each from what the run has to what it reports."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from kgwalk.build.checks import check_recipe
from kgwalk.build.run import Run
from kgwalk.config.section import read_section
from kgwalk.data.mixture import OF
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.runs.folder import RUN, open_run, read_json, write_json
from kgwalk.training.collecting import without_collecting
from kgwalk.training.curriculum import Curriculum, CurriculumSettings
from kgwalk.training.demos.demo import read_demos, write_line
from kgwalk.training.demos.lessons import Lessons
from kgwalk.training.demos.make import make_demos
from kgwalk.training.demos.settings import DemoSettings
from kgwalk.training.grpo import Grpo
from kgwalk.training.loop import Care, Stage, run_stage
from kgwalk.training.pace import Pace
from kgwalk.training.settings import GrpoSettings, SftSettings
from kgwalk.training.sft import Sft
from kgwalk.training.tracking import check_tracker
from kgwalk.training.updater import Updater
from kgwalk.types import KgwalkError

DEMOS = "demos.jsonl"
LOSSES = "losses.json"


def demos(run: Run) -> dict[str, Any]:
    """Demonstrations of the training questions; what fell out, and why."""
    done = run.folder.file("demos.json")
    if run.demos is not None:
        return {"file": str(run.demos)}
    if not run.processes.first(done.exists()):
        if run.processes.main:
            _make_demos(run)
        run.processes.wait()
    return dict(read_json(done))


def _make_demos(run: Run) -> None:
    made, fallen = make_demos(
        run.questions,
        run.dataset.graph_for,
        run.protocol,
        world_of=run.training_worlds.of,
        settings=DemoSettings.of(run.recipe),
        budget=run.budget,
        tokens=run.model.tokens,
        seed=run.seed,
    )
    beside = run.folder.file(f".{DEMOS}.partial")
    with open(beside, "wb") as file:
        for count, demo in enumerate(made, 1):
            file.write(write_line(demo))
            run.progress("demos", count, len(run.questions), {})
    run.progress("demos", len(run.questions), len(run.questions), {})  # some may have fallen out
    beside.replace(run.folder.file(DEMOS))
    if not fallen.kept:
        why = "; ".join(f"{count:,} {reason}" for reason, count in fallen.counts.items())
        raise KgwalkError(f"no demonstration could be made of {len(run.questions):,} questions: {why}")
    write_json(run.folder.file("demos.json"), fallen.as_json())


def sft(run: Run) -> dict[str, Any]:
    """Imitation of the demonstrations."""
    if (before := run.done("sft")) is not None:
        return before
    settings = read_section(SftSettings, run.recipe, "sft")
    pace = Pace(settings.minutes)
    file = run.demos or run.folder.file(DEMOS)
    if not file.exists():
        raise KgwalkError(f"there are no demonstrations in {file}; add the stage demos, or give a file of them")
    lessons = _lessons(run, file)
    updater = _updater(run, settings)
    stage = Sft(updater, lessons, lessons.names, settings, run.seed, pace=pace, ahead=lessons.ahead)
    _carry_out(
        run,
        stage.stage(),
        updater,
        Care(settings.save_every, 1, settings.eval_every, run.validation(settings.eval_questions)),
    )
    if run.processes.main:
        write_json(run.folder.file("sft") / LOSSES, stage.losses)
    return run.finish("sft", stage.steps, pace)


def _lessons(run: Run, file: Path) -> Lessons:
    """The demonstrations, if all follow the recipe's protocol."""
    with without_collecting(circles=False):  # nothing in them could be garbage; looking for it is a third of the time
        demonstrations = list(read_demos(file))
    for demo in demonstrations:
        if demo.protocol != run.protocol.name:
            raise KgwalkError(
                f"{file}: the demonstration {demo.id!r} follows {demo.protocol}, and the recipe {run.recipe.name} "
                f"follows {run.protocol.name}; make others with `kgwalk demos`"
            )
    return Lessons(demonstrations, run.model.tokens)


def grpo(run: Run) -> dict[str, Any]:
    """Reinforcement learning from the model's own walks."""
    if (before := run.done("grpo")) is not None:
        return before
    settings = read_section(GrpoSettings, run.recipe, "grpo")
    pace = Pace(settings.minutes)
    losses = _losses(run)
    curriculum = Curriculum(
        run.questions,
        read_section(CurriculumSettings, run.recipe, "curriculum"),
        batch=settings.questions,
        seed=run.seed,
        losses=None if losses is None else by_question(read_json(losses)),
    )
    updater = _updater(run, settings)
    place = run.folder.file("grpo")
    with run.judged() as judged:
        stage = Grpo(updater, run.walker, run.course, run.reward, curriculum, settings, run.seed, place, judged, pace)
        care = Care(settings.save_every, settings.keep, settings.eval_every, run.validation(settings.eval_questions))
        _carry_out(run, stage.stage(), updater, care)
    return run.finish("grpo", settings.steps, pace)


def _losses(run: Run) -> Path | None:
    """Of this run's SFT, or of that of the run whose adapter it goes on from, if its questions were the same."""
    own = run.folder.file("sft") / LOSSES
    if own.exists() or run.start is None:
        return own if own.exists() else None
    before = run.start.resolve().parent
    losses = before / "sft" / LOSSES
    if not losses.exists() or not (before / RUN).exists():
        return None
    asked, asked_before = run.folder.about["settings"], open_run(before).about["settings"]
    return losses if all(asked[key] == asked_before.get(key) for key in ("data", "split")) else None


def by_question(losses: dict[str, float]) -> dict[str, float]:
    """The mean loss of a question's demonstrations; several of one are called id#0, id#1, ...

    >>> by_question({"q7": 1.0, "q8#0": 0.5, "q8#1": 1.5})
    {'q7': 1.0, 'q8#0': 0.5, 'q8#1': 1.5, 'q8': 1.0}

    Both names are kept: a question's own id may end like that.
    """
    several: dict[str, list[float]] = {}
    for name, loss in losses.items():
        question, mark, number = name.rpartition("#")
        if mark and number.isdecimal():
            several.setdefault(question, []).append(loss)
    return losses | {name: sum(each) / len(each) for name, each in several.items()}


def eval(run: Run) -> dict[str, Any]:
    """The result on the split that is left for it, by the same evaluation as everywhere."""
    if not run.processes.main:
        return {}
    split = run.evaluated
    assert split is not None  # else the stage is left out
    report = evaluate(
        run.recipe,
        run.dataset,
        split,
        out=run.folder.file("eval"),
        engine=run.walker.engine,
        limit=run.limit,
        seed=run.seed,
        progress=lambda done, total, means: run.progress("eval", done, total, means),
    )
    parts = {"by": {OF: report["by"][OF]}} if OF in report["by"] else {}
    return {"n": report["n"], "metrics": report["metrics"], **parts}


STAGES = {"demos": demos, "sft": sft, "grpo": grpo, "eval": eval}


def check(run: Run, stages: Collection[str]) -> None:
    """What is wrong with the recipe or the questions is told before the first stage, not hours later."""
    check_recipe(run.recipe, stages, demos=run.demos is not None)
    if run.demos is not None and not run.demos.is_file():
        raise KgwalkError(f"there are no demonstrations in {run.demos}; make some with `kgwalk demos`")
    if run.start is not None and not run.start.is_dir():
        raise KgwalkError(f"there is no folder {run.start} to start from")
    assert run.questions
    assert run.worlds.of(run.questions[0])  # a corpus that is not there, a graph that nothing can be hidden in
    check_tracker(run.report_to)
    if "sft" in stages:
        run.validation(read_section(SftSettings, run.recipe, "sft").eval_questions)
    if "grpo" in stages:
        run.validation(read_section(GrpoSettings, run.recipe, "grpo").eval_questions)
        assert run.course is not None
        run.check_judge()


def _updater(run: Run, settings: SftSettings | GrpoSettings) -> Updater:
    # The engine changes how the module attends, and so how it rounds: before the first update, in every run alike.
    assert run.walker is not None
    imitated = settings if isinstance(settings, SftSettings) else None
    return Updater(
        run.model,
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        clip=settings.clip,
        most_loss=settings.most_loss,
        half=imitated is not None and imitated.half,
        threads=0 if imitated is None else imitated.threads,
    )


def _carry_out(run: Run, stage: Stage, updater: Updater, care: Care) -> None:
    run_stage(
        stage,
        updater,
        run.folder.file(stage.name),
        care,
        seed=run.seed,
        card=run.card(),
        resume=True,  # the run's door has asked whether to
        report_to=run.report_to,
        progress=run.progress,
    )
