"""Training that ends in time: the schedule, the last step, what a resumed run has left; the timer of a step's parts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgwalk.cli.main import main
from kgwalk.config.run_folder import read_json, read_rows
from kgwalk.training.checkpoint import STATE, Checkpoints
from kgwalk.training.loop import SAVE, STEP, VALIDATION, CheckpointPolicy, Metrics, Stage, TimeBudget, run_stage
from kgwalk.training.microbatch import collate
from kgwalk.training.model import PartTimer
from kgwalk.training.settings import SftSettings
from kgwalk.training.sft import Sft
from kgwalk.training.updater import rate
from kgwalk.types import KgwalkError
from tiny_models import UNTAUGHT_VALUES
from training_helpers import Weights, policy, same, sequences, updater_of, weights_of


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def alone(values: list[float]) -> list[float]:
    """One process."""
    return values


def timed(limit: float, *taken: tuple[str, float]) -> tuple[TimeBudget, Clock]:
    """A time_budget of so many seconds after parts that took theirs."""
    clock = Clock()
    time_budget = TimeBudget(limit / 60, clock=clock)
    for what, seconds in taken:
        clock.now += seconds
        time_budget.mark(what, alone)
    return time_budget, clock


def test_without_minutes_there_is_no_clock() -> None:
    def never() -> float:
        raise AssertionError("not asked")

    time_budget = TimeBudget(clock=never)
    time_budget.mark(STEP, alone)
    assert (time_budget.progress, time_budget.over, time_budget.unsure, time_budget.used) == (0.0, False, False, 0.0)
    assert time_budget.report(3, 9) == {}


def test_progress_is_by_the_end_of_the_next_step() -> None:
    # the first step took 30 s of 130, most of it to compile: the schedule has the other 100
    time_budget, _ = timed(130, (STEP, 30))
    assert time_budget.progress == 0
    # a step of 10 s: 10 used, 20 when the next is done
    time_budget, _ = timed(130, (STEP, 30), (STEP, 10))
    assert time_budget.progress == pytest.approx(20 / 100)
    # a validation of 15 s and a save of 5 are used, and as much is needed at the end: 30 + 10 of 80
    time_budget, _ = timed(130, (STEP, 30), (STEP, 10), (VALIDATION, 15), (SAVE, 5))
    assert time_budget.progress == pytest.approx(40 / 80)
    # the longest of the last five steps is what the next may take
    time_budget, _ = timed(130, (STEP, 30), (STEP, 20), *[(STEP, 4)] * 4)
    assert time_budget.progress == pytest.approx((36 + 20) / 100)
    time_budget, _ = timed(130, (STEP, 30), (STEP, 20), *[(STEP, 4)] * 5)
    assert time_budget.progress == pytest.approx((40 + 4) / 100)
    time_budget, _ = timed(130, (STEP, 140))
    assert time_budget.progress == 1  # nothing is left


def test_it_is_over_when_a_step_and_what_comes_at_the_end_do_not_fit() -> None:
    fits = [(STEP, 30.0), (STEP, 10.0), (VALIDATION, 15.0), (SAVE, 5.0)]  # 60 s; the next with its end: 30
    assert not timed(90, *fits)[0].over
    assert timed(89, *fits)[0].over
    # a first step is no measure of the next
    assert not timed(50, (STEP, 30))[0].over


def test_half_way_it_must_be_known_how_long_a_validation_takes() -> None:
    assert not timed(100, (STEP, 49))[0].unsure
    assert timed(100, (STEP, 50))[0].unsure
    assert not timed(100, (STEP, 20), (VALIDATION, 1), (STEP, 40))[0].unsure


def test_processes_go_by_the_slowest() -> None:
    clocks = [Clock(), Clock()]
    paces = [TimeBudget(1, clock=clock) for clock in clocks]
    for seconds in ((10, 14), (30, 10)):
        for clock, each in zip(clocks, seconds, strict=True):
            clock.now += each
        for time_budget in paces:
            time_budget.mark(STEP, lambda own: [clock.now - 1000 for clock in clocks])
    assert [time_budget.used for time_budget in paces] == [40, 40]
    assert paces[0].progress == paces[1].progress == 1  # 40 used, 14 of them first; 26 more would be too much
    assert [time_budget.over for time_budget in paces] == [True, True]


def test_the_rate_runs_out_with_the_time() -> None:
    cosine: dict[str, Any] = {"schedule": "cosine", "warmup": 0.0}
    assert rate(3, 100, **cosine, time=1.0) == pytest.approx(0)
    assert rate(3, 100, **cosine, time=0.5) == pytest.approx(0.5)
    assert rate(50, 100, **cosine, time=0.2) == pytest.approx(0.5)  # the steps are further along than the time
    # of 100 updates 10 are to warm up in; when 5% of the time is over, it is as if 5 had been done
    assert rate(1, 100, schedule="constant", warmup=0.1, time=0.05) == pytest.approx(0.6)


class Toy:
    """Steps that take the seconds they are told to, by a clock of their own; so do validations."""

    def __init__(self, minutes: float, *, seconds: Callable[[int], float], validation: float = 0.0) -> None:
        self.clock, self.seconds, self.validation = Clock(), seconds, validation
        self.updater = updater_of(policy())
        self.seen: list[int] = []
        self.rates: list[float] = []
        self.time_budget = TimeBudget(minutes, clock=self.clock)

    def step(self, number: int) -> Metrics:
        self.rates.append(round(rate(number - 1, 20, schedule="cosine", warmup=0, time=self.time_budget.progress), 3))
        self.clock.now += self.seconds(number)
        batch = collate(sequences(2, seed=number), None, 0)
        numbers, _ = self.updater.update([batch], lambda batch, scores: (-scores.logprobs_BT.mean(), None))
        self.seen.append(number)
        return numbers

    def validate(self) -> Metrics:
        self.clock.now += self.validation
        return {"f1": 0.1 * len(self.seen)}

    def run(self, folder: Path, *, save_every: int = 100, eval_every: int = 0) -> Weights:
        stage = Stage("toy", 20, self.step, time_budget=self.time_budget)
        saving = CheckpointPolicy(save_every, 1, eval_every, self.validate)
        run_stage(stage, self.updater, folder, saving, seed=3, card={}, resume=True, report_to="none")
        return weights_of(self.updater.model)


def test_a_stage_ends_when_its_time_is_over(tmp_path: Path) -> None:
    # 100 s: a first step of 20, then 10 each; half way, after the fourth, a validation of 15
    toy = Toy(100 / 60, seconds=lambda number: 20 if number == 1 else 10, validation=15)
    toy.run(tmp_path)
    assert toy.seen == [1, 2, 3, 4, 5, 6]  # 20 + 10 + 10 + 10 + 15 + 10 + 10 = 85, and 15 for the last validation
    assert toy.clock.now - 1000 == 100
    rows = list(read_rows(tmp_path / "metrics.jsonl"))
    assert [row["step"] for row in rows if "eval_f1" in row] == [4, 6]
    assert rows[-1]["minutes_used"] == pytest.approx(100 / 60)
    # by steps 0 and 1/20; by time 20/80, 30/80, and then, with 15 kept for the end, 55/65 and 65/65
    assert toy.rates == [1.0, 0.994, 0.854, 0.691, 0.057, 0.0]
    assert Checkpoints(tmp_path).latest() == tmp_path / "checkpoint-6"
    assert read_json(tmp_path / "best" / STATE)["step"] == 6
    assert toy.time_budget.report(6, 20) == {
        "minutes": pytest.approx(100 / 60),
        "minutes_used": 1.67,
        "planned_steps": 20,
        "note": "ended after 6 of 20 steps: its minutes were over",
    }
    # there is nothing to go on with
    again = Toy(100 / 60, seconds=lambda number: 0.0)
    again.run(tmp_path)
    assert again.seen == []


def test_a_validation_on_the_way_that_takes_all_the_time_is_that_of_the_end(tmp_path: Path) -> None:
    toy = Toy(1, seconds=lambda number: 5, validation=25)
    toy.run(tmp_path, eval_every=2)
    assert toy.seen == [1, 2]  # 10 s and a validation: 35; another step and another validation would end at 65
    assert toy.clock.now - 1000 == 35
    assert [row["step"] for row in read_rows(tmp_path / "metrics.jsonl") if "eval_f1" in row] == [2]


def test_with_time_enough_all_steps_are_done(tmp_path: Path) -> None:
    toy = Toy(10, seconds=lambda number: 1, validation=5)
    weights = toy.run(tmp_path / "timed")
    assert toy.seen == list(range(1, 21))
    assert "note" not in toy.time_budget.report(20, 20)
    without = Toy(0, seconds=lambda number: 1)
    assert same(without.run(tmp_path / "plain"), weights)
    assert without.rates == toy.rates  # by steps
    assert "pace" not in read_json(tmp_path / "plain" / "checkpoint-20" / STATE)
    assert "minutes_used" not in next(iter(read_rows(tmp_path / "plain" / "metrics.jsonl")))


def test_a_resumed_stage_has_what_is_left(tmp_path: Path) -> None:
    def broken(number: int) -> float:
        if number == 4:
            raise KgwalkError("the graph is away")
        return 10

    toy = Toy(1, seconds=broken)
    with pytest.raises(KgwalkError, match="the graph is away"):
        toy.run(tmp_path, save_every=1)
    assert read_json(tmp_path / "checkpoint-3" / STATE)["pace"]["used"] == 30  # of 60 s, after three steps
    again = Toy(1, seconds=lambda number: 10)
    again.clock.now += 4  # to load a model
    again.run(tmp_path)
    assert again.seen == [4, 5]  # 30 + 4 + 20, and another would end at 64
    assert again.time_budget.used == 54


def test_sft_learns_at_the_rate_of_its_time() -> None:
    clock = Clock()
    time_budget = TimeBudget(1, clock=clock)
    settings = SftSettings(batch=1, lr=1e-3, warmup=0.0, minutes=1)
    sft = Sft(
        updater_of(policy(), lr=1e-3),
        sequences(100),
        [str(n) for n in range(100)],
        settings,
        0,
        time_budget=time_budget,
    )
    assert sft.step(1)["lr"] == pytest.approx(1e-3)
    for seconds in (10, 15):
        clock.now += seconds
        time_budget.mark(STEP, alone)
    assert sft.step(3)["lr"] == pytest.approx(1e-3 * rate(60, 100, schedule="cosine", warmup=0.0))  # (15 + 15) / 50


def test_a_run_says_that_its_minutes_were_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Six thousandths of a second for two steps of SFT, and for two of GRPO: one of each is done."""
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    values = [*UNTAUGHT_VALUES, "sft.minutes=0.0001", "grpo.minutes=0.0001"]
    command = ["train", "kgwalk", "--data", "world", "--smoke", "--stages", "demos,sft,grpo", "--report-to", "none"]
    options = [part for value in values for part in ("--set", value)]
    for more in ([], ["--resume"]):  # there is nothing to go on with
        monkeypatch.setattr(sys, "argv", ["kgwalk", *command, *options, "-o", str(tmp_path / "run"), *more])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capfd.readouterr()
        assert end.value.code == 0, printed.err
        assert printed.out.count("  ended after 1 of 2 steps: its minutes were over\n") == 2
    stages = read_json(tmp_path / "run" / "train.json")["stages"]
    for name in ("sft", "grpo"):
        assert stages[name]["minutes"] == 0.0001
        assert stages[name]["best"]["step"] == stages[name]["steps"] == 1  # validated, and kept
    assert "steps: its minutes were over" in (tmp_path / "run" / "README.md").read_text()


# The parts of a step: they add up, one is inside another, and reading starts anew.


def test_parts_add_up_and_are_read_once() -> None:
    clock = PartTimer("cpu")
    for _ in range(2):
        with clock.device("update"):
            with clock.device("optimiser"):
                time.sleep(0.02)
            time.sleep(0.02)
    with clock.host("rollout"):
        time.sleep(0.02)
    found = clock.read("rollout", "update", "optimiser", "sync")
    assert list(found) == ["rollout_seconds", "update_seconds", "optimiser_seconds", "sync_seconds"]
    assert found["optimiser_seconds"] >= 0.04
    assert found["update_seconds"] >= found["optimiser_seconds"] + 0.04
    assert found["rollout_seconds"] >= 0.02
    assert found["sync_seconds"] == 0
    assert clock.read("update") == {"update_seconds": 0}


def test_a_part_that_fails_is_timed_too() -> None:
    clock = PartTimer("cpu")
    try:
        with clock.device("update"):
            time.sleep(0.01)
            raise KeyError
    except KeyError:
        pass
    assert clock.read("update")["update_seconds"] >= 0.01
