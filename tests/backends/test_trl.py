"""GRPO on the real TRL: the native trainer's gradient, weights and runs, also as two processes, stopped and resumed,
and with a graph server that dies. In an environment with trl (`make test-trl`); elsewhere skipped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="trl is not installed here; `make test-trl` makes an environment that has it")

import torch
from case import TOLERANCE, difference, make_case
from safetensors.torch import load_file

from commands import ENVIRONMENT, Cli
from kgwalk.config.run_folder import read_rows
from kgwalk.data.dataset import Dataset, load_dataset
from kgwalk.kg.graph import Graph
from kgwalk.kg.http import HttpGraph
from kgwalk.training.pipeline import train
from kgwalk.types import KgwalkError, Question
from tiny_models import UNTAUGHT
from training_helpers import difference as apart

HERE = Path(__file__).parent
# A random model with an adapter, whose rewards are luck alone: the whole stage in seconds. Two epochs with a reference.
VALUES = UNTAUGHT | {
    "train.stages": "['grpo']",
    "protocol.turns": 2,
    "rollout.turn_tokens": 8,
    "rollout.observation_tokens": 48,
    "grpo.steps": 3,
    "grpo.questions": 4,
    "grpo.group": 3,
    "grpo.lr": 1e-3,
    "grpo.kl": 0.01,
    "grpo.epochs": 2,
    "grpo.schedule": "cosine",
    "grpo.warmup": 0.4,
    "grpo.weight_decay": 0.01,
    "grpo.eval_questions": 0,
    "grpo.episodes": 2,
}
FREE = {"protocol.constrain": "false"}  # for comparisons: what TRL is given is sampled so in any case


def values(**more: Any) -> list[str]:
    return [f"{name}={value}" for name, value in (VALUES | more).items()]


def run_on(
    backend: str,
    out: Path,
    *,
    recipe: str = "kgwalk",
    data: Any = "world",
    more: dict[str, Any] | None = None,
    **options: Any,
) -> None:
    train(
        recipe,
        data,
        out=out,
        profile="smoke",
        values=values(**(more or {})),
        device="cpu",
        backend=backend,
        report_to="none",
        **options,
    )


def rows_of(run: Path, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    return list(read_rows(run / "grpo" / name))


def weights_of(run: Path) -> dict[str, torch.Tensor]:
    return load_file(str(run / "adapter" / "adapter_model.safetensors"))


def started(*arguments: object, processes: int = 1) -> str:
    """The output of a program in this environment, as so many processes."""
    alone = [sys.executable]
    several = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    env = ENVIRONMENT | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [*(several if processes > 1 else alone), *map(str, arguments)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.mark.parametrize(("name", "suffix"), [("kg-r1", "-moved"), ("eog", "")])
def test_an_update_on_trl_is_the_native_one(cases: Path, tmp_path: Path, name: str, suffix: str) -> None:
    """Credit by turns with a KL term whose reference is another model, and credit by walks; each in one process with
    all rows at once, and in two processes with microbatches of two rows. A failed walk and a group whose walks earned
    the same are among the rows."""
    place = make_case(name, cases)
    for processes, rows in ((1, 0), (2, 2)):
        out = tmp_path / str(processes)
        started(HERE / "trl_update.py", place, out, processes, suffix, rows, processes=processes)
        for what in ("gradient", "weights"):
            found = load_file(str(out / f"{what}.safetensors"))
            assert difference(found, place / f"{what}{suffix}.safetensors") < TOLERANCE


def test_a_run_on_trl_is_the_native_run(tmp_path: Path) -> None:
    """Two epochs a step with a schedule, weight decay and a reference; alone, and as two processes."""
    for backend in ("native", "trl"):
        run_on(backend, tmp_path / backend, more=FREE)
    options = [part for value in values(**FREE) for part in ("--set", value)]
    command = ["-m", "kgwalk", "train", "kgwalk", "--data", "world", "--smoke", "--backend", "trl", "--processes", "2"]
    said = started(*command, "-o", tmp_path / "two", "--device", "cpu", "--report-to", "none", *options, processes=2)
    assert "grpo runs on trl 1.16.0 in 2 processes" in said
    native = rows_of(tmp_path / "native")
    assert [row["step"] for row in native] == [1, 2, 3]
    assert all(row["updates"] == 2 for row in native)
    for other in ("trl", "two"):
        for row, wanted in zip(rows_of(tmp_path / other), native, strict=True):
            exact = ["reward", "turns", "generated_tokens", "episodes", "dropped_groups", "left_out", "updates", "lr"]
            assert {name: row[name] for name in exact} == pytest.approx({name: wanted[name] for name in exact})
            near = ["loss", "grad_norm", "kl", "entropy"]
            assert {name: row[name] for name in near} == pytest.approx(
                {name: wanted[name] for name in near}, rel=1e-3, abs=1e-6
            )
            assert row["mismatch_max"] < 1e-4  # TRL computes what the engine did
        assert apart(weights_of(tmp_path / other), weights_of(tmp_path / "native")) < 1e-4
    kept = [(row["step"], row["episode"]["key"]) for row in rows_of(tmp_path / "trl", "episodes.jsonl")]
    assert kept == [(row["step"], row["episode"]["key"]) for row in rows_of(tmp_path / "native", "episodes.jsonl")]


@pytest.mark.parametrize("recipe", ["graph-rft", "kg-hopper", "kg-reasoner"])
def test_a_step_of_the_other_systems(tmp_path: Path, recipe: str) -> None:
    more = {"grpo.steps": 1, "grpo.questions": 2, "grpo.epochs": 1, "grpo.warmup": 0, "curriculum.order": "shuffled"}
    more |= {"world.ranker": "none"} if recipe == "kg-reasoner" else {}
    for backend in ("native", "trl"):
        run_on(backend, tmp_path / backend, recipe=recipe, more=more)
    [wanted], [found] = rows_of(tmp_path / "native"), rows_of(tmp_path / "trl")
    assert found["updates"] == 1
    for name in ("reward", "turns", "generated_tokens", "grad_norm"):
        assert found[name] == pytest.approx(wanted[name], rel=1e-4)


class Stopped(Exception):
    """What a test raises in the middle of a run."""


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    """Two minibatches, dropout, activations computed twice, and a curriculum that looks back: bit for bit."""
    more = {"grpo.minibatches": 2, "model.lora_dropout": 0.1, "curriculum.order": "variance"}
    more |= {"model.checkpoint_activations": "true"}
    run_on("trl", tmp_path / "whole", more=more)

    def stop(what: str, done: int, total: int | None, figures: Any = None, /) -> None:
        if what == "grpo" and done == 2:
            raise Stopped

    with pytest.raises(Stopped):
        run_on("trl", tmp_path / "stopped", more=more, progress=stop)
    assert [row["step"] for row in rows_of(tmp_path / "stopped")] == [1, 2]
    with pytest.raises(KgwalkError, match="holds another run: `backend`"):
        run_on("native", tmp_path / "stopped", more=more, resume=True)
    run_on("trl", tmp_path / "stopped", more=more, resume=True)
    assert [row["step"] for row in rows_of(tmp_path / "stopped")] == [1, 2, 3]
    assert apart(weights_of(tmp_path / "stopped"), weights_of(tmp_path / "whole")) == 0


# A graph server that dies


@contextmanager
def graph_server(port: int = 0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A real `kgwalk serve` of the bundled world, and its address."""
    command = [sys.executable, "-m", "kgwalk", "serve", "--data", "world", "--port", str(port)]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as one:
        assert one.stderr is not None
        try:
            line = one.stderr.readline()
            assert line.startswith("kgwalk serves at http"), line + one.stderr.read()
            yield one, line.split()[3]
        finally:
            one.kill()


@dataclass
class Served:
    """The bundled world, some of whose questions are asked over a server."""

    remote: HttpGraph
    over: Callable[[Question], bool]
    world: Dataset = field(default_factory=lambda: load_dataset("world"))
    name: str = "world"

    def splits(self) -> list[str]:
        return self.world.splits()

    def questions(self, split: str) -> list[Question]:
        return self.world.questions(split)

    def graph_for(self, question: Question) -> Graph:
        return self.remote if self.over(question) else self.world.graph_for(question)

    def prepare(self, progress: Any) -> None:
        self.world.prepare(progress)

    def place(self) -> str:
        return "served"


def test_a_graph_server_that_dies_during_a_run(tmp_path: Path) -> None:
    """Where half of the questions are asked over it, the others go on. Where all are, the run stops with a checkpoint,
    and goes on from it once the server is back. No walk is counted twice."""
    walks = VALUES["grpo.questions"] * VALUES["grpo.group"]

    def dying(server: subprocess.Popen[str]) -> Any:
        def watch(what: str, done: int, total: int | None, figures: Any = None, /) -> None:
            if what == "grpo" and done == 1:
                server.send_signal(signal.SIGKILL)
                server.wait(20)

        return watch

    def every(question: Question) -> bool:
        return True

    with graph_server() as (server, url), HttpGraph(url, retries=0) as remote:
        half = Served(remote, lambda question: sum(question.id.encode()) % 2 == 0)
        run_on("trl", tmp_path / "half", data=half, progress=dying(server))
    rows = rows_of(tmp_path / "half")
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert [row["episodes"] for row in rows] == [walks] * 3
    assert rows[0]["left_out"] == 0
    assert all(0 < row["left_out"] < walks for row in rows[1:])
    assert all(row["left_out"] % VALUES["grpo.group"] == 0 and row["updates"] == 2 for row in rows[1:])

    failed = rf"(?s)stopped in step 2: all {walks} rollouts failed.*checkpoint-1"
    with graph_server() as (server, url), HttpGraph(url, retries=0) as remote:
        with pytest.raises(KgwalkError, match=failed):
            run_on("trl", tmp_path / "all", data=Served(remote, every), progress=dying(server))
        assert [row["step"] for row in rows_of(tmp_path / "all")] == [1]
        with graph_server(int(url.rpartition(":")[2])):
            run_on("trl", tmp_path / "all", data=Served(remote, every), resume=True)
    rows = rows_of(tmp_path / "all")
    assert [(row["step"], row["episodes"], row["left_out"]) for row in rows] == [(n, walks, 0) for n in (1, 2, 3)]
    kept = [row["step"] for row in rows_of(tmp_path / "all", "episodes.jsonl")]
    assert kept == [1, 1, 2, 2, 3, 3]


def test_the_whole_pipeline(tmp_path: Path, cli: Cli) -> None:
    """Demonstrations, SFT, GRPO on TRL and evaluation; what comes out is what all commands take."""
    run = tmp_path / "run"
    done = cli(
        "train", "kgwalk", "--data", "world", "--smoke", "--backend", "trl", "-o", run, "--device", "cpu", "--json"
    )
    assert done.status == 0, done.stderr
    assert done.json["notes"] == [
        "grpo runs on trl 1.16.0 in 1 process; its walks, and those of validation, are sampled without a grammar"
    ]
    assert list(done.json["stages"]) == ["demos", "sft", "grpo", "eval"]
    rows = rows_of(run)
    assert [row["step"] for row in rows] == [1, 2]
    assert all(row["reward"] > 0.5 and row["updates"] == 1 and row["left_out"] == 0 for row in rows)
    assert "eval_f1" in rows[-1]
    assert json.loads((run / "run.json").read_text())["settings"]["backend"] == "trl"
    # the adapter's card is the recipe's own: who asks it may constrain what it writes
    assert json.loads((run / "adapter" / "kgwalk.json").read_text())["protocol"].get("constrain", True)
    assert "trl" in (run / "README.md").read_text()
    report = cli("report", run, "-o", tmp_path / "report")
    assert report.status == 0, report.stderr
    asked = cli("ask", "what is the capital of Norway?", "--model", run / "adapter", "--engine", "local", "--json")
    assert asked.status == 0, asked.stderr
    assert "answers" in asked.json
