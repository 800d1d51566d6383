"""A recipe carried out: demonstrations, SFT, GRPO, evaluation, one after the other, in one run folder.

    run/run.json        what was run, resolved
    run/recipe.toml     the recipe as it was used
    run/demos.jsonl     the demonstrations, and demos.json: what fell out and why
    run/sft, run/grpo   checkpoints, metrics.jsonl, TensorBoard events, episodes.jsonl
    run/adapter         the result: what `--adapter` takes
    run/eval            the evaluation of it

Stages that are done are not done again, so a run that is resumed goes on where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgwalk.config.plugins import unknown
from kgwalk.config.recipe import Recipe, load_recipe, read_section, setting
from kgwalk.config.run_folder import RUN, RunFolder, open_run, read_json, write_json
from kgwalk.config.runtime import outside_a_loop, without_collecting
from kgwalk.data.dataset import Data
from kgwalk.data.mixture import OF, load_data
from kgwalk.demos.demo import Lessons, read_demos, write_line
from kgwalk.demos.filter import DemoSettings
from kgwalk.demos.make import make_demos
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.training.curriculum import Curriculum, CurriculumSettings
from kgwalk.training.grpo import Grpo
from kgwalk.training.loop import Care, Stage, check_tracker, run_stage
from kgwalk.training.run import TrainingRun, check_device, check_recipe
from kgwalk.training.settings import GrpoSettings, SftSettings
from kgwalk.training.sft import Sft
from kgwalk.training.shards import Processes
from kgwalk.training.time_budget import TimeBudget
from kgwalk.training.updater import Updater
from kgwalk.types import KgwalkError, Progress, silent

# ----------------------------------------------------------------------------------------------------
# The stages of a training run, each from what the run has to what it reports.


DEMOS = "demos.jsonl"
LOSSES = "losses.json"


def demos(run: TrainingRun) -> dict[str, Any]:
    """Demonstrations of the training questions; what fell out, and why."""
    done = run.folder.file("demos.json")
    if run.demos is not None:
        return {"file": str(run.demos)}
    if not run.processes.first(done.exists()):
        if run.processes.main:
            _make_demos(run)
        run.processes.wait()
    return dict(read_json(done))


def _make_demos(run: TrainingRun) -> None:
    made, fallen = make_demos(
        run.questions,
        run.dataset.graph_for,
        run.protocol,
        environment_of=run.training_worlds.of,
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


def sft(run: TrainingRun) -> dict[str, Any]:
    """Imitation of the demonstrations."""
    if (before := run.done("sft")) is not None:
        return before
    settings = read_section(SftSettings, run.recipe, "sft")
    pace = TimeBudget(settings.minutes)
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


def _lessons(run: TrainingRun, file: Path) -> Lessons:
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


def grpo(run: TrainingRun) -> dict[str, Any]:
    """Reinforcement learning from the model's own walks."""
    if (before := run.done("grpo")) is not None:
        return before
    settings = read_section(GrpoSettings, run.recipe, "grpo")
    pace = TimeBudget(settings.minutes)
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


def _losses(run: TrainingRun) -> Path | None:
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


def eval(run: TrainingRun) -> dict[str, Any]:
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
        progress=lambda what, done, total, means={}, /: run.progress("eval", done, total, means),
    )
    parts = {"by": {OF: report["by"][OF]}} if OF in report["by"] else {}
    return {"n": report["n"], "metrics": report["metrics"], **parts}


STAGES = {"demos": demos, "sft": sft, "grpo": grpo, "eval": eval}


def check(run: TrainingRun, stages: Collection[str]) -> None:
    """What is wrong with the recipe or the questions is told before the first stage, not hours later."""
    check_recipe(run.recipe, stages, demos=run.demos is not None)
    if run.demos is not None and not run.demos.is_file():
        raise KgwalkError(f"there are no demonstrations in {run.demos}; make some with `kgwalk demos`")
    if run.start is not None and not run.start.is_dir():
        raise KgwalkError(f"there is no folder {run.start} to start from")
    assert run.questions
    assert run.environments.of(run.questions[0])  # a corpus that is not there, a graph that nothing can be hidden in
    check_tracker(run.report_to)
    if "sft" in stages:
        run.validation(read_section(SftSettings, run.recipe, "sft").eval_questions)
    if "grpo" in stages:
        run.validation(read_section(GrpoSettings, run.recipe, "grpo").eval_questions)
        assert run.course is not None
        run.check_judge()


def _updater(run: TrainingRun, settings: SftSettings | GrpoSettings) -> Updater:
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


def _carry_out(run: TrainingRun, stage: Stage, updater: Updater, care: Care) -> None:
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


# ----------------------------------------------------------------------------------------------------
# A run's README.md: the model card of its adapter, written from what the run recorded.


def write_card(folder: RunFolder, recipe: Recipe, data: str, report: dict[str, Any]) -> None:
    folder.file("README.md").write_text(card(folder, recipe, data, report), "utf-8")


def card(folder: RunFolder, recipe: Recipe, data: str, report: dict[str, Any]) -> str:
    base = recipe.section("model").get("name", "")
    about = folder.about
    lines = [
        "---",
        f"base_model: {base}",
        "library_name: peft",
        "tags: [kgwalk, knowledge-graph, question-answering]",
        "---",
        f"# {recipe.name} on {data}",
        "",
        recipe.about.splitlines()[-1] if recipe.about else "",
        "",
        f"Trained with kgwalk {about['versions']['kgwalk']}, commit {about['commit']}, begun {about['begun']}:",
        "",
        f"    {' '.join(about['command'])}",
        "",
        "| stage | outcome |",
        "|---|---|",
        *(f"| {name} | {_outcome(made)} |" for name, made in report["stages"].items()),
        "",
        "The recipe as it was used is recipe.toml; versions and settings are in run.json; the adapter is in adapter/.",
    ]
    return "\n".join(lines) + "\n"


def _outcome(made: dict[str, Any]) -> str:
    if "kept" in made:
        return f"{made['kept']:,} demonstrations of {made['tried']:,} tried"
    if "metrics" in made:
        shown = ", ".join(f"{name} {made['metrics'][name]:.3f}" for name in ("f1", "hits_at_1", "hit_any"))
        return f"{made['n']:,} questions: {shown}"
    if "steps" in made:
        best = made.get("best")
        validated = f", best F1 in validation {best['eval_f1']:.3f} (step {best['step']})" if best else ""
        note = f"; {made['note']}" if "note" in made else ""
        return f"{made['steps']:,} steps{validated}{note}"
    return ", ".join(f"{name} {value}" for name, value in made.items())


REPORT = "train.json"
DEV = "dev"


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """[train]: which stages a run has; of how many questions, if not of all."""

    stages: tuple[str, ...] = ("demos", "sft", "grpo")
    limit: int | None = setting(None, least=1)
    # where [world] hides facts: the share of the training questions that lose any; none: `world.share`
    incomplete: float | None = setting(None, least=0, most=1)

    def __post_init__(self) -> None:
        for stage in self.stages:
            if stage not in STAGES:
                raise unknown("stage", str(stage), STAGES)


def train(
    recipe: str | Recipe,
    data: str | Path | Data | Sequence[str | Path | Data],
    *,
    out: str | Path,
    profile: str | None = None,
    values: Iterable[str] = (),
    split: str = "train",
    dev: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    model: str | None = None,
    start: str | Path | None = None,
    demos: str | Path | None = None,
    judge: str | None = None,
    device: str = "auto",
    resume: bool = False,
    force: bool = False,
    report_to: str = "tensorboard",
    progress: Progress = silent,
    note: Callable[[str], None] = lambda words: None,
) -> dict[str, Any]:
    """Train a recipe on a dataset; the result is what `kgwalk train --json` prints.

    Several datasets are one course, each question over its own graph; of "name:0.5" half of the questions are taken, of
    "name:2000" so many, of every split.

    `start` is an adapter to go on from, `demos` a file of demonstrations to use instead of making them, `judge` an
    ENGINE[:MODEL] for rewards that ask one. `resume` goes on with the run in `out`. Started as several processes, all
    but the first return an empty report.

    `dev` is the split to validate on; without it `dev` if there is one. `note` is told, before the first stage, what
    has to be left out because a split is missing; the report has the same under `notes`.
    """
    check_device(device)
    chosen = load_recipe(recipe) if isinstance(recipe, str) else recipe
    chosen = chosen if profile is None else chosen.with_profile(profile)
    chosen = chosen.with_values([*([] if model is None else [f"model.name={json.dumps(model)}"]), *values])
    settings = read_section(TrainSettings, chosen, "train")
    dataset = load_data(data, seed)
    if dev is not None and dev not in dataset.splits():
        dataset.questions(dev)  # says which there are
    processes = Processes(device)
    run = TrainingRun(
        recipe=chosen,
        dataset=dataset,
        path=Path(out),
        split=split,
        dev=DEV if dev is None else dev,
        limit=settings.limit if limit is None else limit,
        incomplete=settings.incomplete,
        seed=seed,
        start=None if start is None else Path(start),
        demos=None if demos is None else Path(demos),
        judge=judge,
        device=device,
        report_to=report_to,
        progress=progress if processes.main else silent,
        processes=processes,
    )
    return outside_a_loop(lambda: _run_all(run, settings.stages, note, resume=resume, force=force))


def _run_all(
    run: TrainingRun, stages: tuple[str, ...], note: Callable[[str], None], *, resume: bool, force: bool
) -> dict[str, Any]:
    check(run, stages)
    notes = _left_out(run, stages)
    if run.evaluated is None:
        stages = tuple(stage for stage in stages if stage != "eval")
    with run.begun(resume=resume, force=force) as folder:
        main = run.processes.main
        if main:
            folder.file("recipe.toml").write_text(run.recipe.toml(), "utf-8")
            for words in notes:
                note(words)
        report: dict[str, Any] = {"folder": str(folder.path), "stages": {}, "notes": notes}
        for stage in stages:
            report["stages"][stage] = STAGES[stage](run)
            if main:
                folder.write(REPORT, report)
        if main:
            write_card(folder, run.recipe, run.dataset.name, report)
        return report if main else {}


def _left_out(run: TrainingRun, stages: tuple[str, ...]) -> list[str]:
    """What a run goes without because the dataset lacks a split for it."""
    there = f"{run.dataset.name} has only {', '.join(run.dataset.splits())}"
    notes = []
    if run.dev not in run.dataset.splits() and {"sft", "grpo"} & set(stages):
        notes.append(f"no validation: there is no split {run.dev}; {there} (--dev names another)")
    if run.evaluated is None and "eval" in stages:
        notes.append(f"no evaluation: there is no split test or {run.dev}; {there}")
    return notes
