"""What the stages of a training run share: its settings, questions, model and engine.

A `TrainingRun` makes each part when it is first asked for, and keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from shutil import copyfile
from typing import Any

from kgwalk.config.recipe import Recipe, read_section
from kgwalk.config.run_folder import RESTORE, RunFolder, begin_run, open_run, read_object, write_json
from kgwalk.data.dataset import Data
from kgwalk.data.mixture import evenly
from kgwalk.demos.filter import DemoSettings
from kgwalk.demos.make import GraphExamples, ShownExamples
from kgwalk.evaluation.evaluate import chosen
from kgwalk.evaluation.report import STEP_METRICS
from kgwalk.score.judge.judge import Judge, JudgeSettings, opened_judge
from kgwalk.score.judge.kinds import case_of
from kgwalk.score.rewards import RewardFunction
from kgwalk.training.backends import NATIVE
from kgwalk.training.backends.exchange import unconstrained
from kgwalk.training.checkpoint import OPTIMISER, STATE, Checkpoints, copy_files, whole_or_not
from kgwalk.training.collect import Judged, no_verdicts
from kgwalk.training.curriculum import TrainingSet
from kgwalk.training.loop import TimeBudget, step_rows
from kgwalk.training.model import PolicyModel
from kgwalk.training.rollouts import Walker, worker_count
from kgwalk.training.settings import GrpoSettings, ModelSettings
from kgwalk.training.shards import asked_for
from kgwalk.training.updater import Processes
from kgwalk.types import Episode, KgwalkError, Progress, Question
from kgwalk.walk.environment import Environments, environment_for, environments_of, with_ranker_of
from kgwalk.walk.policy import budget_of, check_web, protocol_of
from kgwalk.walk.ranking import RANKER_CARD, RANKER_WEIGHTS

ADAPTER = "adapter"
RANKER = "ranker"
DONE = "done.json"


@dataclass(kw_only=True)
class TrainingRun:
    """`path` is the run's folder; `folder` is there once the run has `begun`.

    `start` is an adapter to begin with, `demos` a file of demonstrations to use instead of making them, `incomplete`
    the setting of [train], and `backend` the trainer that runs the GRPO stage (`backends`).
    """

    recipe: Recipe
    dataset: Data
    path: Path
    split: str
    dev: str
    limit: int | None
    incomplete: float | None
    seed: int
    start: Path | None
    demos: Path | None
    judge: str | None
    device: str
    report_to: str
    progress: Progress
    processes: Processes
    backend: str = NATIVE
    folder: RunFolder = field(init=False)

    @contextmanager
    def begun(self, *, resume: bool, force: bool) -> Iterator[RunFolder]:
        """Inside, the folder belongs to this run, and only the first process writes to it."""
        with ExitStack() as stack:
            stack.callback(self.close)
            if self.processes.main:
                begun = begin_run(self.path, "train", self._settings(), force=force)
                self.folder, before = stack.enter_context(begun)
                if before and not resume:
                    raise KgwalkError(
                        f"{self.path} holds this run already; --resume goes on with it, --force starts over"
                    )
            self.processes.wait()
            if not self.processes.main:
                self.folder = open_run(self.path)
            yield self.folder

    def _settings(self) -> dict[str, Any]:
        """The settings that decide what is computed; a run in the same folder must have the same."""
        return {
            "recipe": self.recipe.name,
            "sections": self.recipe.resolved(),
            "data": self.dataset.place(),
            "split": self.split,
            "dev": self.dev,
            "limit": self.limit,
            "seed": self.seed,
            "start": None if self.start is None else str(self.start.resolve()),
            "demos": None if self.demos is None else str(self.demos.resolve()),
            "judge": self.judge,
            **({} if self.backend == NATIVE else {"backend": self.backend}),
        }

    @cached_property
    def protocol(self) -> Any:
        return protocol_of(self.recipe)

    @cached_property
    def budget(self) -> Any:
        return budget_of(self.recipe)

    @cached_property
    def model(self) -> PolicyModel:
        settings = read_section(ModelSettings, self.recipe, "model")
        return PolicyModel(settings, device=self.device, start=self.start, seed=self.seed, shards=asked_for())

    @cached_property
    def walker(self) -> Walker:
        workers = read_section(GrpoSettings, self.recipe, "grpo").rollout_workers
        if isinstance(workers, str):
            workers = worker_count(self.model.device, self.processes.count)
        # Outside trainers know nothing of constrained decoding, so nothing that is learnt from is sampled under it.
        protocol = self.protocol if self.backend == NATIVE else unconstrained(self.protocol)
        return Walker(self.model, protocol, self.budget, workers=workers)

    @cached_property
    def questions(self) -> list[Question]:
        """The questions to learn from."""
        return [question for _, question in chosen(self.dataset.questions(self.split), self.limit, self.seed)]

    @property
    def ranker(self) -> Path | None:
        """The folder with the ranker that this run has trained, or that the adapter it starts from has; else None."""
        places = (self.path / RANKER, self.start)
        return next((place for place in places if place is not None and (place / RANKER_CARD).is_file()), None)

    @property
    def ranked_recipe(self) -> Recipe:
        """The recipe, with the folder of the ranker that is there by now."""
        return with_ranker_of(self.recipe, self.ranker)

    def ranker_changed(self) -> None:
        """Environments are made anew when next asked for: they hold the ranker."""
        for name in ("environments", "training_environments", "training_set"):
            self.__dict__.pop(name, None)

    @cached_property
    def environments(self) -> Environments:
        """What validation and evaluation walk in: as the recipe says."""
        check_web(self.recipe)
        base = partial(environment_for, protocol=self.protocol)
        return environments_of(self.ranked_recipe, self.dataset.graph_for, base)

    @cached_property
    def training_environments(self) -> Environments:
        """What training walks in: the same, but [train] may set the share of questions over an incomplete graph, and
        worked examples, where the protocol shows some, are those of other questions to learn from.
        """
        environments = self.environments
        shows = bool(self.protocol.shows_examples)
        if self.incomplete is None and not shows:
            return environments
        settings = environments.settings
        return Environments(
            environments.graph_for,
            settings if self.incomplete is None else replace(settings, share=self.incomplete),
            environments.base,
            environments.web,
            self._shown_examples() if shows else None,
        )

    def _shown_examples(self) -> ShownExamples:
        examples = GraphExamples(self.questions, self.dataset.graph_for, self.protocol, self.seed)
        return ShownExamples(examples, DemoSettings.of(self.recipe).examples_share)

    @cached_property
    def training_set(self) -> TrainingSet:
        return TrainingSet(self.questions, self.training_environments, self.reward.needs_answers)

    @cached_property
    def reward(self) -> RewardFunction:
        return RewardFunction.of(self.recipe)

    @property
    def evaluated(self) -> str | None:
        """The split to evaluate on: test, else the one for validation; None where there is neither."""
        return next((split for split in ("test", self.dev) if split in self.dataset.splits()), None)

    def validation(self, count: int) -> Callable[[], dict[str, float]] | None:
        """A function that walks `count` questions of the dev split greedily; None without such a split."""
        if not count or self.dev not in self.dataset.splits():
            return None
        sample = evenly(self.dataset.questions(self.dev), count, self.seed)
        held_out = TrainingSet(sample, self.environments)
        return lambda: self.walker.validate(held_out, self.processes)

    @contextmanager
    def judged(self) -> Iterator[Judged]:
        """A function that gives the verdicts that rewards need, and with a judge those that they can use; without such
        rewards it gives none."""
        kinds = self.reward.judges if self.judge is None else self.reward.judgeable
        if not kinds:
            yield no_verdicts
            return
        with opened_judge(self.check_judge(), read_section(JudgeSettings, self.recipe, "judge")) as judge:
            yield lambda episodes: _verdicts(judge, sorted(kinds), episodes)

    def check_judge(self) -> str:
        """The judge, as ENGINE[:MODEL]; raises if a reward needs one and none was given."""
        if self.reward.judges and self.judge is None:
            listed = ", ".join(sorted(self.reward.judges))
            raise KgwalkError(
                f"the recipe {self.recipe.name} rewards what a judge says ({listed}): give one with --judge "
                "ENGINE[:MODEL], or set the weights of these rewards to 0"
            )
        return self.judge or ""

    def card(self) -> dict[str, Any]:
        """What `kgwalk.json` of an adapter says: how it is to be asked."""
        return {"recipe": self.recipe.name, "protocol": self.recipe.section("protocol"), "data": self.dataset.name}

    def done(self, stage: str) -> dict[str, Any] | None:
        """What a finished stage reported, with its weights loaded into the model; None if it is not finished."""
        place = self.folder.file(stage)
        if not self.processes.first((place / DONE).exists()):
            return None
        self.model.load(_result(place))
        self.walker.weights_changed()
        report = read_object(place / DONE, "steps", "last", "best")
        best = report["best"]
        numbers = [best.get(name) for name in ("eval_f1", "step")] if isinstance(best, dict) else []
        proper = best is None or (numbers and all(type(number) in (int, float) for number in numbers))
        if not proper or type(report["steps"]) is not int:
            raise KgwalkError(f"{place / DONE} is damaged: no proper `steps` and `best`; {RESTORE}")
        return report

    def finish(self, stage: str, steps: int, time_budget: TimeBudget) -> dict[str, Any]:
        """End a stage that was planned to have `steps`: its best weights become the model's and the run's result."""
        place = self.folder.file(stage)
        if self.processes.main:
            rows = [row for row in step_rows(place / STEP_METRICS) if row.get("stage") == stage]
            if not rows:
                raise KgwalkError(f"{place / STEP_METRICS} has no row of the stage {stage}; {RESTORE}")
            validated = [row for row in rows if "eval_f1" in row]
            best = max(validated, key=lambda row: (row["eval_f1"], row["step"]), default=None)
            self._publish(_result(place))
            done = rows[-1]["step"]
            numbers = {"steps": done, "last": rows[-1], "best": best, **time_budget.report(done, steps)}
            if done < steps and not time_budget.ended and best is not None:
                waited = done - best["step"]
                why = f"F1 in validation had not risen for {waited:,} steps"
                numbers |= {"planned_steps": steps, "note": f"ended after {done:,} of {steps:,} steps: {why}"}
            write_json(place / DONE, numbers)
        self.processes.wait()
        report = self.done(stage)
        if report is None:
            raise KgwalkError(f"{place / DONE} was written and is gone; another process may have removed it")
        return report

    def _publish(self, source: Path) -> None:
        """Copy a checkpoint as the run's adapter, with the ranker that its walks had."""
        with whole_or_not(self.folder.file(ADAPTER), "the adapter", f"it lies in {source}") as beside:
            copy_files(source, beside, without=[OPTIMISER, STATE])
            if self.ranked_recipe is not self.recipe and self.ranker is not None:
                for name in (RANKER_CARD, RANKER_WEIGHTS):
                    copyfile(self.ranker / name, beside / name)

    def close(self) -> None:
        """Close the engine, if it was opened; `begun` does so at its end."""
        if "walker" in self.__dict__:
            self.walker.close()


def _result(place: Path) -> Path:
    """The weights of a finished stage: the best by validation, or the last."""
    best, last = place / "best", Checkpoints(place).latest()
    found = best if best.exists() else last
    if found is None:
        raise KgwalkError(f"{place} says that it is done, and has no checkpoint; remove it to do it again")
    return found


def _verdicts(judge: Judge, kinds: Sequence[str], episodes: Sequence[Episode]) -> list[dict[str, float | None]]:
    found: list[dict[str, float | None]] = [{} for _ in episodes]
    for kind in kinds:
        verdicts = judge.judge_all([case_of(kind, episode) for episode in episodes])
        for row, verdict in zip(found, verdicts, strict=True):
            row[kind] = verdict.number if verdict.scored else None
    return found
