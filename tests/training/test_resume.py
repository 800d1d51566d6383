"""`kgwalk train` as processes that are killed, interrupted, out of disk or several: what comes out is the same.

The uninterrupted run is the measure: weights, optimiser, numbers and episodes of a run that was stopped, however and
however often, are compared with its own bit for bit.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from safetensors.torch import load_file

from forks import Forks
from kgwalk.config.run_folder import read_rows
from kgwalk.training.checkpoint import OPTIMISER, Checkpoints
from tiny_models import UNTAUGHT
from training_helpers import difference, same

# Two epochs of two minibatches with a reference and dropout: old log-probabilities, reference and seeds all matter.
VALUES = UNTAUGHT | {
    "protocol.turns": 1,
    "rollout.turn_tokens": 8,
    "rollout.observation_tokens": 48,
    "model.lora_dropout": 0.1,
    "sft.batch": 2,
    "sft.eval_every": 2,
    "sft.save_every": 2,
    "sft.eval_questions": 2,
    "grpo.steps": 10,
    "grpo.questions": 2,
    "grpo.group": 3,
    "grpo.lr": 1e-3,
    "grpo.kl": 0.01,
    "grpo.epochs": 2,
    "grpo.minibatches": 2,
    "grpo.schedule": "cosine",
    "grpo.warmup": 0.2,
    "grpo.weight_decay": 0.01,
    "grpo.save_every": 2,
    "grpo.eval_every": 5,
    "grpo.episodes": 1,
    "curriculum.order": "variance",
}
STEPS = 10


class Place(NamedTuple):
    """Processes to run commands in, the command to run, and the folder of the run that nothing has stopped."""

    forks: Forks
    command: tuple[str, ...]
    whole: Path

    def start(self, out: Path, *more: object, **options: Any) -> Any:
        return self.forks.start(*self.command, "-o", out, *more, **options)

    def run(self, out: Path, *more: object, **options: Any) -> Any:
        return self.forks.run(*self.command, "-o", out, *more, **options)


@pytest.fixture(scope="module")
def place(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("resume")
    smoke = ("train", "kg-hopper", "--data", "world", "--smoke", "--report-to", "none")
    forks.run(*smoke, "--stages", "demos", "-o", folder / "demos")
    values = [part for key, value in VALUES.items() for part in ("--set", f"{key}={value}")]
    demos = str(folder / "demos" / "demos.jsonl")
    command = (*smoke, "--stages", "sft,grpo", "--demos", demos, *values)
    found = Place(forks, command, folder / "whole")
    found.run(found.whole)
    return found


def rows_of(file: Path) -> list[dict[str, Any]]:
    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: timeless(inside) for key, inside in value.items() if "second" not in key}
        return [timeless(inside) for inside in value] if isinstance(value, list) else value

    return [timeless(row) for row in read_rows(file)]


def check_same(run: Path, whole: Path) -> None:
    """Bit for bit, but for times."""
    last = f"grpo/checkpoint-{STEPS}"
    for name in ("adapter", "sft/best", "grpo/best", last):
        one, other = (load_file(str(place / name / "adapter_model.safetensors")) for place in (run, whole))
        assert same(one, other), name
    one, other = (load_file(str(place / last / "optimizer.safetensors")) for place in (run, whole))
    assert same(one, other)
    for name in ("sft/metrics.jsonl", "grpo/metrics.jsonl", "grpo/episodes.jsonl"):
        assert rows_of(run / name) == rows_of(whole / name), name
    for name in (f"{last}/trainer_state.json", "grpo/best/trainer_state.json", "sft/losses.json", "recipe.toml"):
        assert (run / name).read_bytes() == (whole / name).read_bytes(), name
    assert {path.name for path in (run / "grpo").iterdir()} == {path.name for path in (whole / "grpo").iterdir()}


def test_the_measure_itself(place: Place) -> None:
    """What the others are compared with has learnt, remembered and been validated."""
    rows = rows_of(place.whole / "grpo" / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    assert all(row["updates"] == 4 and row["grad_norm"] > 0 and row["mismatch_max"] < 1e-4 for row in rows)
    assert rows[-1]["kl"] > rows[0]["kl"] > 0
    assert [row["step"] for row in rows if "eval_f1" in row] == [5, 10]
    assert [row["step"] for row in rows_of(place.whole / "grpo" / "episodes.jsonl")] == list(range(1, STEPS + 1))
    weights = load_file(str(place.whole / "adapter" / "adapter_model.safetensors"))
    before = load_file(str(place.whole / "sft" / "best" / "adapter_model.safetensors"))
    assert difference(weights, before) > 1e-3


def test_whatever_stops_it_the_resumed_run_is_the_same_bit_for_bit(place: Place, tmp_path: Path) -> None:
    out, chance = tmp_path / "run", random.Random()

    def killed_after(path: Path) -> None:
        """Kill -9, some moments after a file has come."""
        command = place.start(out, "--resume")
        assert command.until(path.exists)
        time.sleep(chance.uniform(0, 0.3))
        assert command.kill() == -signal.SIGKILL

    killed_after(out / "sft" / "checkpoint-2")
    killed_after(out / "grpo" / "checkpoint-2")
    _on_a_full_disk(place, out)
    _interrupted(place, out, signal.SIGINT)
    _killed_while_it_writes_a_checkpoint(place, out)
    place.run(out, "--resume")
    check_same(out, place.whole)
    assert '"steps": 10' in place.run(out, "--resume", "--json").output  # nothing is left to do
    check_same(out, place.whole)


def _on_a_full_disk(place: Place, out: Path) -> None:
    """No file may be as long as the optimiser's: the next checkpoint does not fit, the one before is whole."""
    good = Checkpoints(out / "grpo").latest()
    assert good is not None
    said = place.run(out, "--resume", most_bytes=(good / OPTIMISER).stat().st_size - 1, code=1).error
    step = int(good.name.rpartition("-")[2]) + 2
    assert f"the checkpoint of step {step} could not be written in {out}/grpo: " in said
    assert f"the last good checkpoint is {good}. Free some space and go on with --resume" in said
    assert "Traceback" not in said
    assert Checkpoints(out / "grpo").latest() == good


def _interrupted(place: Place, out: Path, number: int) -> None:
    """Asked to stop, it finishes the step, saves it, and says how to go on."""
    command = place.start(out, "--resume")
    assert command.until(lambda: "grpo " in command.error)
    command.signal(number)
    assert command.wait() == 130
    good = Checkpoints(out / "grpo").latest()
    assert good is not None
    step = int(good.name.rpartition("-")[2])
    assert f"stopped after step {step} of grpo; the last good checkpoint is {good}; what was done" in command.error
    assert f"is kept in {out}, and the same command with --resume goes on" in command.error
    assert "Traceback" not in command.error


def _killed_while_it_writes_a_checkpoint(place: Place, out: Path) -> None:
    for _ in range(4):  # most times the first kill is quick enough
        command = place.start(out, "--resume")
        assert command.until(lambda: list((out / "grpo").glob(".checkpoint-*.partial")))
        assert command.kill() == -signal.SIGKILL
        if list((out / "grpo").glob(".checkpoint-*.partial")):
            return
    raise AssertionError("no kill met a checkpoint that was being written")


def test_one_process_at_a_time_and_one_run_a_folder(place: Place, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = place.start(out)
    assert command.until((out / "recipe.toml").exists)
    assert f"error: another process is writing into {out}" in place.run(out, "--resume", code=1).error
    command.kill()
    assert "holds this run already; --resume goes on with it, --force" in place.run(out, code=1).error
    said = place.run(out, "--resume", "--set", "grpo.lr=0.5", code=1).error
    assert "holds another run: `sections.grpo.lr` was 0.001, is 0.5" in said
    _interrupted(place, out, signal.SIGTERM)


@pytest.mark.slow
def test_two_processes_are_one_process(place: Place, tmp_path: Path) -> None:
    """Started by torchrun, with gloo over the loopback: the same updates, to the last digits of float32."""
    values = ("--set", "grpo.steps=2", "--set", "grpo.minibatches=1", "--set", "model.lora_dropout=0.0")
    place.run(tmp_path / "one", *values)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "KGWALK_CACHE": str(place.forks.folder / "cache")}
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    done = subprocess.run(
        [*launch, "-m", "kgwalk.cli.main", *place.command, *values, "-o", str(tmp_path / "two")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("grpo: 2 steps") == 1  # one of them speaks
    assert done.stderr.count("grpo 2/2") == 1
    for name in ("sft/best", "grpo/checkpoint-2", "adapter"):
        one, other = (load_file(str(tmp_path / run / name / "adapter_model.safetensors")) for run in ("one", "two"))
        print(name, difference(one, other))
        assert difference(one, other) < 1e-6, name
    for stage in ("sft", "grpo"):
        found = [rows_of(tmp_path / run / stage / "metrics.jsonl") for run in ("one", "two")]
        assert len(found[0]) == len(found[1])
        for one, other in zip(*found, strict=True):
            for name in {*one} - {"stage", "computed", "mismatch", "mismatch_max", "mismatch_min"}:
                assert one[name] == pytest.approx(other[name], rel=1e-3, abs=1e-5), name
