"""verl itself, by its own entry point and with two FSDP processes: the native update, and a run with processes killed.

The first two tests hand it recorded walks. The last is `kgwalk train --backend verl` from the command to an answer.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl", reason="verl is not installed here: `make test-verl` runs these tests")

import psutil
from case import GROUPS, TOLERANCE, difference, make_case
from safetensors import safe_open
from safetensors.torch import load_file
from verl_process import CASE, GRADIENT, OVERRIDES, REFERENCE, TWO_PROCESSES, VARIABLES

from kgwalk.config.recipe import load_recipe
from kgwalk.config.run_folder import read_rows
from kgwalk.training.backends.verl_config import check_verl, verl_config
from kgwalk.training.backends.verl_job import write_questions
from kgwalk.training.backends.verl_stage import MODULES, PLUGIN, command, write_config
from kgwalk.types import Question


def one_step(place: Path, folder: Path, reference: Path) -> tuple[Path, Path]:
    """verl trains for one step on the episodes of a case; the files of its first gradient and of its weights.

    The questions are numbers of the case's groups, for the agent loop `replay`; all else is as `kgwalk train` has it.
    """
    about = json.loads((place / "case.json").read_text("utf-8"))
    values = [f"grpo.{name}={json.dumps(value)}" for name, value in (about["settings"] | {"steps": 1}).items()]
    recipe = load_recipe(about["recipe"]).with_profile("smoke").with_values([*values, *TWO_PROCESSES])
    check_verl(recipe)
    questions = [Question(f"group {number}", "?", [], []) for number in range(GROUPS)]
    write_questions(folder / "train.parquet", questions, [range(GROUPS)], "train")
    config = verl_config(
        recipe,
        run=folder,
        stage=folder,
        model=place / "model",
        questions=folder / "train.parquet",
        held_out=None,
        seed=0,
    )
    config["actor_rollout_ref"]["rollout"]["agent"]["default_agent_loop"] = "replay"
    write_config(folder, config)
    gradient = folder / "gradient.safetensors"
    own = {CASE: str(place), GRADIENT: str(gradient), REFERENCE: str(reference), MODULES: f"verl_cpu,{PLUGIN}"}
    environment = os.environ | VARIABLES | own | {"VERL_FILE_LOGGER_PATH": str(folder / "metrics.jsonl")}
    status, said = finished(command(folder, OVERRIDES), folder, environment)
    assert status == 0, said[-8000:]
    assert not working_in(folder)
    return gradient, folder / "checkpoints" / "global_step_1" / "actor" / "huggingface" / "model.safetensors"


def finished(words: list[str], folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """The exit code of a program and what it said. If it takes too long, nothing of what it started is left."""
    with (folder / "log.txt").open("w+b") as log:
        process = subprocess.Popen(words, env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        try:
            status = process.wait()
        finally:  # pytest's timeout is an exception, too
            if process.poll() is None:
                for one in [*psutil.Process(process.pid).children(recursive=True), process]:
                    one.kill()
    return status, (folder / "log.txt").read_text("utf-8", "replace")


def working_in(folder: Path, seconds: float = 30) -> list[str]:
    """The processes of verl and Ray that a step in this folder has left behind, after they had some time to end."""
    end = time.monotonic() + seconds
    while True:
        left = [_title(one) or str(one) for one in psutil.process_iter() if _place(one) == str(folder)]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.1)


def _place(process: psutil.Process) -> str:
    try:
        return process.cwd()
    except psutil.Error:  # it has ended, or is another user's
        return ""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "moved"), [("kg-r1", "-moved"), ("eog", "")])
def test_verl_makes_the_native_update(cases: Path, tmp_path: Path, name: str, moved: str) -> None:
    """With a walk that failed and a group that earned the same; kg-r1 with a reference that was moved, so that the KL
    term has a gradient, too."""
    place = make_case(name, cases)
    gradient, weights = one_step(place, tmp_path, place / ("reference" if moved else "model"))
    with safe_open(gradient, "pt") as file:
        assert file.metadata() == {"processes": "2", "engine": "FSDPLlamaForCausalLM"}
    apart = difference(load_file(gradient), place / f"gradient{moved}.safetensors")
    assert apart < TOLERANCE
    assert difference(load_file(weights), place / f"weights{moved}.safetensors") < TOLERANCE
    print(f"{name}: the gradient is {apart:.1e} from the native one")


# A whole run

STEPS, QUESTIONS, GROUP = 3, 2, 3
VALUES = (
    *TWO_PROCESSES,
    f"grpo.steps={STEPS}",
    f"grpo.questions={QUESTIONS}",
    f"grpo.group={GROUP}",
    "grpo.eval_questions=0",
    "train.stages=['grpo']",
    "rewards.luck=1.0",  # so that walks of a group differ, whatever the model can
    f"verl.overrides={json.dumps(OVERRIDES)}",
)
ENVIRONMENT = os.environ | VARIABLES | {"KGWALK_AGENT": "none"}


def train(folder: Path, model: Path, *more: str) -> subprocess.Popen[str]:
    words = ["train", "kg-r1", "--data", "world", "--smoke", "--backend", "verl", "--report-to", "none", "--json"]
    words += ["--model", str(model)]
    sets = [word for value in VALUES for word in ("--set", value)]
    return subprocess.Popen(
        [sys.executable, "-m", "kgwalk", *words, "-o", str(folder), *sets, *more],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(process: subprocess.Popen[str], done: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not done():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


def kill(process: subprocess.Popen[str], name: str) -> None:
    """kill -9 of one of verl's actors, among the processes that this one has started."""
    found = [one for one in psutil.Process(process.pid).children(recursive=True) if _title(one).startswith(name)]
    assert found, name
    os.kill(found[0].pid, signal.SIGKILL)


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it has ended
        return ""


def walks(folder: Path) -> list[dict[str, Any]]:
    return [row for file in (folder / "grpo" / "walks").glob("*.jsonl") for row in read_rows(file)]


def checkpoint(folder: Path) -> int:
    file = folder / "grpo" / "checkpoints" / "latest_checkpointed_iteration.txt"
    return int(file.read_text() or 0) if file.exists() else 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_processes_cost_walks_or_time_and_nothing_is_counted_twice(cases: Path, tmp_path: Path) -> None:
    folder, start = tmp_path / "run", make_case("kg-r1", cases) / "model"
    first = train(folder, start)

    # A process that walks: its groups are given up, and the run goes on.
    until(first, lambda: len(walks(folder)) >= 3)
    kill(first, "ray::AgentLoopWorkerTQ")
    until(first, lambda: checkpoint(folder) >= 1)
    [lost] = read_rows(folder / "grpo" / "verl" / "lost.jsonl")
    assert (lost["process"], lost["partition"]) == (0, "train")

    # A process that trains: the run stops, says so, and can go on.
    kill(first, "ray::WorkerDict")
    said, _ = first.communicate()
    assert first.returncode == 1
    error = json.loads(said)["error"]["message"]
    assert error.startswith("verl stopped with exit code 1 and its last checkpoint is of step ")
    assert error.endswith("--resume goes on")
    [attempt] = read_rows(folder / "grpo" / "verl" / "attempts.jsonl")
    assert (attempt["exit"], attempt["from"]) == (1, 0)
    saved = attempt["checkpoint"]
    assert 1 <= saved <= STEPS

    second = train(folder, start, "--resume")
    said, complaints = second.communicate()
    assert second.returncode == 0, complaints
    assert json.loads(said)["stages"]["grpo"]["steps"] == STEPS
    attempts = list(read_rows(folder / "grpo" / "verl" / "attempts.jsonl"))
    assert [(one["exit"], one["from"]) for one in attempts] == [(1, 0), (0, saved)]

    # Each rollout of each step once; of the first step, those that were lost are missing.
    counted = Counter((row["step"], row["place"], row["rollout"]) for row in walks(folder))
    assert set(counted.values()) == {1}
    by_step = Counter(step for step, _, _ in counted)
    assert by_step[1] <= QUESTIONS * GROUP
    assert [by_step[step] for step in range(2, STEPS + 1)] == [QUESTIONS * GROUP] * (STEPS - 1)
    rows = list(read_rows(folder / "grpo" / "metrics.jsonl"))
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    assert rows[0]["left_out"] == QUESTIONS * GROUP - by_step[1]
    assert rows[-1]["grad_norm"] > 0

    # What came of it can be asked.
    asked = ["ask", "What is the capital of Norway?", "--recipe", str(folder / "recipe.toml"), "--json"]
    model = ["--model", str(folder / "adapter"), "--engine", "local"]
    answered = subprocess.run(
        [sys.executable, "-m", "kgwalk", *asked, *model], env=ENVIRONMENT, capture_output=True, text=True
    )
    assert json.loads(answered.stdout)["stop"] in ("answered", "turns"), answered.stderr
