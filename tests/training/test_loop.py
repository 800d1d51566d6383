"""The loop around a stage: what is saved when, what a resumed run does again, how it stops, what it says."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kgwalk.config.run_folder import read_json, read_rows
from kgwalk.training.checkpoint import STATE, Checkpoints
from kgwalk.training.loop import CheckpointPolicy, Metrics, Stage, Tracking, keep_rows, run_stage
from kgwalk.training.microbatch import collate
from kgwalk.training.updater import Updater, rate
from kgwalk.types import KgwalkError
from training_helpers import Weights, longest_file, policy, same, sequences, updater_of, weights_of

CARD: dict[str, Any] = {"recipe": "kgwalk"}


class Toy:
    """A stage that learns another sequence in each step, with dropout, and remembers what it has seen."""

    def __init__(self, steps: int, *, factor: Callable[[int], float] = lambda step: 1.0) -> None:
        self.updater: Updater = updater_of(policy(lora_dropout=0.2))
        self.seen: list[int] = []
        self.before: Callable[[int], None] = lambda step: None
        self.stage = Stage("toy", steps, self.step, lambda: {"seen": self.seen}, self.restore)
        self.factor = factor

    def step(self, number: int) -> Metrics:
        self.before(number)
        batch = collate(sequences(2, seed=number), None, 0)
        numbers, _ = self.updater.update(
            [batch], lambda batch, scores: (-scores.logprobs_BT.mean() * self.factor(number), None)
        )
        self.seen.append(number)
        return numbers

    def restore(self, state: dict[str, Any]) -> None:
        self.seen = list(state["seen"])

    def run(
        self, folder: Path, saving: CheckpointPolicy | None = None, *, resume: bool = True, **options: Any
    ) -> Weights:
        saving = saving or CheckpointPolicy(save_every=1, keep=2, eval_every=0)
        run_stage(
            self.stage,
            self.updater,
            folder,
            saving,
            seed=3,
            card=CARD,
            resume=resume,
            report_to="none",
            **options,
        )
        return weights_of(self.updater.model)


class Killed(BaseException):
    """As good as a kill: nothing that the loop does may catch it."""


def killed_in(step: int) -> Callable[[int], None]:
    def before(number: int) -> None:
        if number == step:
            raise Killed

    return before


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in read_rows(folder / METRICS)]


METRICS = "metrics.jsonl"


@pytest.mark.parametrize("save_every", [1, 3])
def test_a_run_that_is_killed_and_resumed_is_the_run_that_was_not(save_every: int, tmp_path: Path) -> None:
    saving = CheckpointPolicy(save_every, 2, 0)
    whole = Toy(7).run(tmp_path / "whole", saving)
    for step in (1, 3, 4, 7):
        toy = Toy(7)
        toy.before = killed_in(step)
        with pytest.raises(Killed):
            toy.run(tmp_path / "cut", saving)
    last = Toy(7)
    assert same(last.run(tmp_path / "cut", saving), whole)
    assert last.seen == [1, 2, 3, 4, 5, 6, 7]
    assert rows_of(tmp_path / "cut") == rows_of(tmp_path / "whole")
    assert [row["step"] for row in rows_of(tmp_path / "cut")] == [1, 2, 3, 4, 5, 6, 7]
    assert same(Toy(7).run(tmp_path / "cut", saving), whole)  # nothing is left to do


def test_without_resume_a_folder_with_checkpoints_is_not_touched(tmp_path: Path) -> None:
    Toy(2).run(tmp_path)
    with pytest.raises(KgwalkError, match="has checkpoints already; --resume goes on from checkpoint-2"):
        Toy(4).run(tmp_path, resume=False)
    assert [path.name for path in Checkpoints(tmp_path).all()] == ["checkpoint-1", "checkpoint-2"]


def scores(*values: float) -> Callable[[], Metrics]:
    left = iter(values)
    return lambda: {"f1": next(left), "turns": 2.0}


def test_a_stage_ends_when_its_best_is_old_and_stays_ended(tmp_path: Path) -> None:
    """Validated after steps 2, 4, 6 and 8: the best is of step 4, and four steps later nothing is better."""
    patient = {"save_every": 100, "keep": 1, "eval_every": 2, "patience": 4}
    toy = Toy(20)
    toy.run(tmp_path, CheckpointPolicy(validate=scores(0.1, 0.5, 0.4, 0.3), **patient))
    assert toy.seen == [1, 2, 3, 4, 5, 6, 7, 8]
    assert read_json(tmp_path / "best" / STATE)["step"] == 4
    resumed = Toy(20)
    resumed.run(tmp_path, CheckpointPolicy(validate=scores(), **patient))  # nothing is left to do
    assert resumed.seen == toy.seen


def test_a_stage_that_is_resumed_between_validations_ends_where_it_would_have(tmp_path: Path) -> None:
    """Killed after step 7, three steps after the best: step 8 is due, since only a validation ends a stage."""
    patient = {"save_every": 1, "keep": 1, "eval_every": 4, "patience": 3}
    toy = Toy(20)
    toy.before = killed_in(8)
    with pytest.raises(Killed):
        toy.run(tmp_path, CheckpointPolicy(validate=scores(0.5), **patient))
    resumed = Toy(20)
    resumed.run(tmp_path, CheckpointPolicy(validate=scores(0.4), **patient))
    assert resumed.seen == [1, 2, 3, 4, 5, 6, 7, 8]


def test_the_best_is_kept_beside_the_latest_and_of_equals_the_later(tmp_path: Path) -> None:
    told: list[tuple[str, int, int, Metrics]] = []
    toy = Toy(6)
    saving = CheckpointPolicy(save_every=100, keep=1, eval_every=1, validate=scores(0.1, 0.5, 0.5, 0.2, 0.4, 0.1))
    toy.run(tmp_path, saving, progress=lambda *one: told.append(one))
    assert read_json(tmp_path / "best" / STATE)["step"] == 3
    assert [path.name for path in Checkpoints(tmp_path).all()] == ["checkpoint-6"]  # the last step is always saved
    assert read_json(tmp_path / "checkpoint-6" / STATE)["best"] == [0.5, 3]
    assert [row["eval_f1"] for row in rows_of(tmp_path)] == [0.1, 0.5, 0.5, 0.2, 0.4, 0.1]
    assert [one[:3] for one in told] == [("toy", step, 6) for step in range(1, 7)]
    assert told[0][3].keys() >= {"loss", "grad_norm", "lr", "seconds", "eval_f1", "eval_turns"}


@pytest.mark.parametrize(
    ("every", "validated"), [(0, [5]), (2, [2, 4, 5]), (5, [5]), (100, [5])], ids=["end", "two", "five", "never"]
)
def test_validation_is_due_every_so_many_steps_and_at_the_end(every: int, validated: list[int], tmp_path: Path) -> None:
    Toy(5).run(tmp_path, CheckpointPolicy(10, 1, every, scores(*[0.0] * 5)))
    assert [row["step"] for row in rows_of(tmp_path) if "eval_f1" in row] == validated


def test_a_run_resumed_before_its_first_validation_knows_no_best(tmp_path: Path) -> None:
    saving = CheckpointPolicy(1, 2, 4, scores(0.0, 0.3))
    toy = Toy(5)
    toy.before = killed_in(3)
    with pytest.raises(Killed):
        toy.run(tmp_path, saving)
    assert read_json(tmp_path / "checkpoint-2" / STATE)["best"] == [0.0, 0]
    Toy(5).run(tmp_path, saving)
    assert read_json(tmp_path / "checkpoint-5" / STATE)["best"] == [0.3, 5]


@pytest.mark.parametrize("left", ["older", "nothing"])
def test_a_best_that_was_being_copied_when_the_run_was_killed_is_copied_again(left: str, tmp_path: Path) -> None:
    toy = Toy(4)
    toy.before = killed_in(3)
    saving = CheckpointPolicy(1, 2, 1, scores(0.1, 0.9, 0.2, 0.3))
    with pytest.raises(Killed):
        toy.run(tmp_path, saving)
    checkpoints = Checkpoints(tmp_path)
    if left == "older":
        checkpoints.keep_best(checkpoints.all()[0])
    else:
        (tmp_path / "best").rename(tmp_path / ".best.partial")
    Toy(4).run(tmp_path, saving)
    assert read_json(tmp_path / "best" / STATE)["step"] == 2


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (float("nan"), "the loss is nan"),
        (1e9, r"the loss is [\d.e+]+ and the gradient's norm"),
        (-1e9, "the loss is -"),
    ],
)
def test_training_that_diverges_stops_with_the_last_good_checkpoint(factor: float, said: str, tmp_path: Path) -> None:
    toy = Toy(9, factor=lambda step: factor if step == 4 else 1.0)
    good: list[Weights] = []
    toy.before = lambda step: good.append(weights_of(toy.updater.model))
    with pytest.raises(KgwalkError, match=said) as caught:
        toy.run(tmp_path)
    assert str(caught.value).startswith("training of toy stopped in step 4: the loss is ")
    where = f"the last good checkpoint is {tmp_path}/checkpoint-3. Try a lower learning rate, or float32"
    assert str(caught.value).endswith(where)
    assert same(weights_of(toy.updater.model), good[3])
    assert [row["step"] for row in rows_of(tmp_path)] == [1, 2, 3]
    assert same(Toy(3).run(tmp_path), good[3])


def test_what_goes_wrong_in_a_step_says_where_to_go_on(tmp_path: Path) -> None:
    def fails(error: Exception) -> str:
        toy = Toy(2)

        def before(step: int) -> None:
            raise error

        toy.before = before
        with pytest.raises(KgwalkError) as caught:
            toy.run(tmp_path)
        return str(caught.value)

    assert fails(KgwalkError("the graph is away")) == (
        "training of toy stopped in step 1: the graph is away; there is no checkpoint yet"
    )
    said = fails(torch.OutOfMemoryError("CUDA out of memory"))
    assert said.endswith("Lower toy.microbatch_tokens, or set model.checkpoint_activations=true")
    assert "could not be recorded: [Errno 28]" in fails(OSError(28, "No space left on device"))


def test_a_full_disk_stops_the_run_and_a_resumed_one_is_the_same(tmp_path: Path) -> None:
    whole = Toy(4).run(tmp_path / "whole")
    Toy(2).run(tmp_path / "cut")
    size = (tmp_path / "cut" / "checkpoint-2" / "optimizer.safetensors").stat().st_size
    with (
        longest_file(size - 1),
        pytest.raises(KgwalkError, match=r"step 3 could not be written .*checkpoint-2\. Free"),
    ):
        Toy(4).run(tmp_path / "cut")
    with longest_file((tmp_path / "cut" / METRICS).stat().st_size - 60), pytest.raises(KgwalkError, match="recorded"):
        Toy(4).run(tmp_path / "cut")
    assert same(Toy(4).run(tmp_path / "cut"), whole)
    assert rows_of(tmp_path / "cut") == rows_of(tmp_path / "whole")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_finishes_the_step_and_saves(number: int, tmp_path: Path) -> None:
    whole = Toy(4).run(tmp_path / "whole")
    handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    toy = Toy(4)
    toy.before = lambda step: os.kill(os.getpid(), number) if step == 2 else None
    with pytest.raises(KeyboardInterrupt, match=r"stopped after step 2 of toy; the last good checkpoint is .*-2$"):
        toy.run(tmp_path / "cut", CheckpointPolicy(save_every=100, keep=1, eval_every=0))
    assert {one: signal.getsignal(one) for one in handlers} == handlers
    assert [path.name for path in Checkpoints(tmp_path / "cut").all()] == ["checkpoint-2"]
    assert same(Toy(4).run(tmp_path / "cut"), whole)


def test_asked_twice_it_stops_at_once(tmp_path: Path) -> None:
    toy = Toy(4)

    def before(step: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("not reached")

    toy.before = before
    with pytest.raises(KeyboardInterrupt, match="at once"):
        toy.run(tmp_path)
    assert Checkpoints(tmp_path).latest() is None


def test_asked_to_stop_in_the_last_step_it_is_done(tmp_path: Path) -> None:
    toy = Toy(2)
    toy.before = lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 2 else None
    toy.run(tmp_path)
    assert toy.seen == [1, 2]


def test_numbers_of_steps_that_come_again_are_dropped(tmp_path: Path) -> None:
    first = Tracking(tmp_path, "sft", report_to="none")
    other = Tracking(tmp_path, "grpo", report_to="none")
    for step in (1, 2, 3):
        first.log(step, {"loss": step / 2})
        other.log(step, {"loss": 0.0})
    first.close()
    other.close()
    with open(tmp_path / METRICS, "ab") as file:
        file.write(b'{"stage":"sft","st')  # cut off by a kill
    again = Tracking(tmp_path, "sft", report_to="none", after=1)
    again.log(2, {"loss": 9.0})
    again.close()
    found = [(row["stage"], row["step"], row["loss"]) for row in read_rows(tmp_path / METRICS)]
    assert found == [("sft", 1, 0.5), ("grpo", 1, 0.0), ("grpo", 2, 0.0), ("grpo", 3, 0.0), ("sft", 2, 9.0)]
    keep_rows(tmp_path / "none.jsonl", lambda row: False)


TRACKER = """
told = []
class Run:
    def log(self, values, step):
        told.append((step, values))
    def finish(self):
        told.append("finished")
def init(project, name):
    told.append((project, name))
    return Run()
"""


def test_trackers_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KgwalkError, match="unknown tracker `tensorbord`; did you mean `tensorboard`"):
        Tracking(tmp_path, "sft", report_to="tensorbord")
    with pytest.raises(KgwalkError, match="--report-to wandb needs the package wandb: pip install wandb"):
        Tracking(tmp_path, "sft", report_to="wandb")
    (tmp_path / "trackio.py").write_text(TRACKER)
    monkeypatch.syspath_prepend(str(tmp_path))
    tracking = Tracking(tmp_path / "my-run" / "sft", "sft", report_to="trackio")
    tracking.log(7, {"loss": 0.5})
    tracking.close()
    import trackio

    assert trackio.told == [("kgwalk", "my-run-sft"), (7, {"sft/loss": 0.5}), "finished"]
    pytest.importorskip("tensorboard")
    tracking = Tracking(tmp_path, "sft", report_to="tensorboard")
    tracking.log(1, {"loss": 2.5})
    tracking.close()
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(one.step, one.value) for one in events.Scalars("sft/loss")] == [(1, 2.5)]


def test_rates_rise_and_fall() -> None:
    warm = [rate(update, 10, schedule="cosine", warmup=0.3) for update in range(10)]
    assert warm[:3] == pytest.approx([1 / 3, 2 / 3, 1])
    assert warm[3] == 1  # the cosine begins at its top
    assert warm[3:] == sorted(warm[3:], reverse=True)
    assert 0 < warm[-1] < 0.1
    assert [rate(update, 3, schedule="constant", warmup=0) for update in range(3)] == [1, 1, 1]
    assert rate(0, 1, schedule="cosine", warmup=1) == 1
