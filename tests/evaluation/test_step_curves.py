"""Metrics as curves: thinned without losing an extreme, read on from a token, and begun anew in a new file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kgwalk.evaluation.step_curves import StepCurves
from kgwalk.types import InputError
from run_folders import add_steps, trained


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return trained(tmp_path / "run", steps=50) / "grpo" / "metrics.jsonl"


def test_a_short_file_is_given_whole(path: Path) -> None:
    found = StepCurves(path).read(["reward", "eval_f1"])
    assert (found["stage"], found["rows"], found["new"], found["thinned"]) == ("grpo", 50, 50, False)
    assert found["curves"]["reward"]["steps"] == list(range(1, 51))
    assert found["curves"]["reward"]["values"][:3] == [0.1, 0.2, 0.3]
    assert "eval_f1" not in found["curves"]  # no row has it
    assert {"reward", "entropy", "seconds"} <= set(found["names"])


def test_a_long_one_keeps_its_ends_and_extremes(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"step": 51, "reward": 99.0, "kl": null}\n')
    add_steps(path.parents[1], range(52, 2001))
    found = StepCurves(path).read(["reward", "entropy"], most=40)
    reward = found["curves"]["reward"]
    assert found["thinned"]
    assert len(reward["steps"]) <= 40
    assert (reward["steps"][0], reward["steps"][-1]) == (1, 2000)
    assert dict(zip(reward["steps"], reward["values"], strict=True))[51] == 99.0
    assert found["curves"]["entropy"]["values"][0] == 1.0


def test_what_is_new_since_the_last_reading(path: Path) -> None:
    curves = StepCurves(path)
    token = curves.read(["reward"])["next"]
    assert curves.read(["reward"], since=token)["new"] == 0
    add_steps(path.parents[1], range(51, 53))
    with path.open("ab") as file:
        file.write(b'{"step": 53, "rew')  # it is being written
    found = curves.read(["reward"], since=token)
    assert (found["new"], found["rows"], found["curves"]["reward"]["steps"]) == (2, 52, [51, 52])
    assert curves.read(["loss", "reward"], since=token)["curves"]["reward"]["steps"] == [51, 52]  # another curve too
    for wrong in ("", "x", "0.0", f"{token}1", token.replace(".", ".1")):
        assert curves.read(["reward"], since=wrong)["since"] is None


def test_a_resumed_run_has_a_new_file(path: Path) -> None:
    curves = StepCurves(path)
    token = curves.read(["reward"])["next"]
    beside = path.with_name("new")
    beside.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:10]))
    shutil.move(beside, path)
    add_steps(path.parents[1], range(11, 60))
    found = curves.read(["reward"], since=token)
    assert (found["since"], found["new"], found["rows"]) == (None, 59, 59)


@pytest.mark.parametrize("line", [b"{\n", b"5\n", b'{"step": 1.5}\n', b'{"reward": 1}\n'])
def test_a_damaged_row_is_named(path: Path, line: bytes) -> None:
    with path.open("ab") as file:
        file.write(line)
    curves = StepCurves(path)
    for _ in range(2):
        with pytest.raises(InputError, match=r"metrics.jsonl:51"):
            curves.read(["reward"])
