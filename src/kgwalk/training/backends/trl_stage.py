"""`kgwalk train --backend trl`: the GRPO stage on TRL, in the same run folder and with the same checkpoints.

TRL runs the loop of updates and calls back: before a step for its walks (`Collector`, the native trainer's own), and
after it for metrics, validation and checkpoints (`StageRun`, as around the native steps). Its dataset has one row for
each question of each step, whose prompt is only the place of the question, `12:3`: which question that is, the
curriculum decides when the step has come. So a run goes on from a checkpoint with a dataset of the steps that are
missing, and TRL needs no state of its own; there is nothing in a checkpoint but safetensors and JSON.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from kgwalk.config.recipe import read_section
from kgwalk.training.advantages import Credit
from kgwalk.training.backends.exchange import TrainerEpisode
from kgwalk.training.backends.trl_settings import trl_values
from kgwalk.training.collect import Collector, Rollout
from kgwalk.training.grpo import PARTS
from kgwalk.training.loop import CheckpointPolicy, Metrics, Stage, StageRun, TimeBudget
from kgwalk.training.model import PolicyModel
from kgwalk.training.settings import GrpoSettings
from kgwalk.training.shards import asked_for
from kgwalk.training.updater import Processes, optimiser_of, rate
from kgwalk.types import KgwalkError

if TYPE_CHECKING:
    from kgwalk.training.backends.trl_trainer import TurnGrpoTrainer
    from kgwalk.training.run import TrainingRun


def check(run: TrainingRun) -> None:
    """Raises if the recipe, or how the processes were started, cannot be run on TRL."""
    if asked_for() is not None:
        raise KgwalkError(
            "--backend trl keeps whole weights in every process, and shards of them were asked for (FSDP); start it "
            "with torchrun, or leave --backend out"
        )
    trl_values(run.recipe, run.processes.count, steps=1, device="cpu", dtype="float32")


@dataclass
class TrlLearner:
    """What `StageRun` saves and restores."""

    model: PolicyModel
    optimiser: torch.optim.Optimizer
    processes: Processes


def processes(run: TrainingRun) -> int:
    """How many processes train: those that the launcher started."""
    return run.processes.count


def grpo(run: TrainingRun) -> dict[str, Any]:
    """Learn from the rewards of the model's own walks, on TRL."""
    from kgwalk.training.pipeline import curriculum_of

    settings = read_section(GrpoSettings, run.recipe, "grpo")
    time_budget, place = TimeBudget(settings.minutes), run.folder.file("grpo")
    learner = TrlLearner(
        run.model, optimiser_of(run.model, lr=settings.lr, weight_decay=settings.weight_decay), run.processes
    )
    if settings.kl:
        run.model.keep_reference()
    validate = run.validation(settings.eval_questions)
    policy = CheckpointPolicy(
        settings.save_every, settings.keep, settings.eval_every, validate, patience=settings.patience
    )
    with run.judged() as judged:
        collector = Collector(
            run.processes,
            run.model.clock,
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
        stage = Stage("grpo", settings.steps, _never, collector.state, collector.restore, time_budget)
        with StageRun(
            stage,
            learner,
            place,
            policy,
            seed=run.seed,
            card=run.card(),
            resume=True,  # `TrainingRun.begun` has refused already where --resume was missing
            report_to=run.report_to,
            progress=run.progress,
        ) as around:
            if around.missing:
                TrlSteps(run, settings, collector, around, learner).train()
    return run.finish("grpo", settings.steps, time_budget)


def _never(step: int) -> Metrics:
    raise AssertionError("TRL runs the steps")


class TrlSteps:
    """The steps that a stage is missing, run by TRL. Each has `epochs` times `minibatches` updates."""

    def __init__(
        self, run: TrainingRun, settings: GrpoSettings, collector: Collector, around: StageRun, learner: TrlLearner
    ) -> None:
        self.run, self.settings, self.collector, self.around = run, settings, collector, around
        self.updates = settings.epochs * settings.minibatches
        self.step = around.done + 1
        self._begun = 0.0
        self._groups: list[list[Rollout]] = []
        self._pad = run.model.tokens.hf.pad_token_id or 0
        self.trainer = self._trainer(learner)

    def _trainer(self, learner: TrlLearner) -> TurnGrpoTrainer:
        from transformers import TrainerCallback
        from trl import GRPOConfig

        from kgwalk.training.backends.trl_trainer import TurnGrpoTrainer, quiet

        steps, run = self, self.run

        class Callback(TrainerCallback):  # type: ignore[misc,unused-ignore]
            """Tells these steps where TRL is."""

            def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
                steps.begin_update(state.global_step)

            def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
                if steps.end_update(state.global_step):
                    control.should_training_stop = True

        missing = self.around.missing
        values = trl_values(
            run.recipe, run.processes.count, steps=len(missing), device=run.model.device, dtype=run.model.dtype
        )
        prompts = [f"{step}:{place}" for step in missing for place in range(self.settings.questions)]
        with quiet(), _warnings_only():
            return TurnGrpoTrainer(
                run.model,
                self.settings,
                GRPOConfig(output_dir=str(run.folder.file("grpo")), seed=run.seed, **values),
                prompts,
                self.roll_out,
                learner.optimiser,
                run.processes,
                callbacks=[Callback()],
                errors=self.errors,
            )

    def train(self) -> None:
        with _warnings_only():
            self.trainer.train()

    @contextmanager
    def errors(self) -> Iterator[None]:
        with self.around.errors(self.step):
            yield

    def begin_update(self, done: int) -> None:
        """Before each update; `done` are those that are."""
        if done % self.updates == 0:
            self.run.model.clock.read()  # what validation took
            self._begun = self.around.begin(self.step)
        settings, budget = self.settings, self.collector.time_budget
        now = rate(
            self.step - 1, settings.steps, schedule=settings.schedule, warmup=settings.warmup, time=budget.progress
        )
        for group in self.trainer.optimizer.param_groups:
            group["lr"] = settings.lr * now
        self.trainer.noted.numbers["lr"] = settings.lr * now

    def roll_out(self, prompts: Sequence[str]) -> list[list[TrainerEpisode]]:
        """The walks for TRL's rows, which must be whole groups of questions of this step."""
        size = self.settings.group
        rows = [prompt.split(":") for prompt in prompts[::size]]
        whole = list(prompts) == [":".join(row) for row in rows for _ in range(size)]
        if not whole or {int(step) for step, _ in rows} != {self.step}:
            raise KgwalkError(f"TRL asked in step {self.step} for other rows than whole groups of it: {prompts[:3]}...")
        self._groups = self.collector.collect(self.step, [int(place) for _, place in rows])
        return [
            [TrainerEpisode.of(walked.episode, walked.rewards, pad_id=self._pad) for walked in group]
            for group in self._groups
        ]

    def end_update(self, done: int) -> bool:
        """After each update; whether it was the last of the stage."""
        if done % self.updates:
            return False
        clock, collector, groups = self.run.model.clock, self.collector, self._groups
        credit: Credit = collector.credit(groups)
        collector.record(self.step, groups, credit)
        watched = collector.watch(groups, credit)
        numbers = self.trainer.step_numbers()
        seconds = clock.read(*PARTS)
        took = time.monotonic() - self._begun
        # TRL's updates are not timed apart: they are what is left of the step
        seconds["update_seconds"] = max(0.0, took - seconds["rollout_seconds"] - seconds["reward_seconds"])
        written = watched["generated_tokens"] * watched["episodes"]
        speed = {"tokens_a_second": written / max(1e-9, seconds["rollout_seconds"])}
        last = self.around.end(self.step, watched | numbers | seconds | speed | {"seconds": took})
        self.step += 1
        return last


@contextmanager
def _warnings_only() -> Iterator[None]:
    """Inside, the loggers of TRL and transformers say only what is wrong: rows and progress are kgwalk's to show."""
    names = ("trl", "transformers", "accelerate")
    before = [logging.getLogger(name).level for name in names]
    for name in names:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name, level in zip(names, before, strict=True):
            logging.getLogger(name).setLevel(level)
