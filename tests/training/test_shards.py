"""Weights in shards, one for each of two processes (FSDP2, gloo, a CPU): what is learnt is what one process learns.

The processes are started as `accelerate launch` would start them, by what stands in their environment.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from safetensors.torch import load_file

from forks import Command, Forks
from kgwalk.config.run_folder import read_rows
from tiny_models import UNTAUGHT
from training_helpers import difference, same

# Three questions and three demonstrations a step for two processes, and few tokens in a microbatch: one process has
# more passes to do than the other.
VALUES = UNTAUGHT | {
    "protocol.turns": 1,
    "rollout.turn_tokens": 8,
    "rollout.observation_tokens": 48,
    "sft.batch": 3,
    "sft.eval_every": 1,
    "sft.eval_questions": 1,
    "sft.save_every": 1,
    "sft.microbatch_tokens": 600,
    "grpo.steps": 2,
    "grpo.questions": 3,
    "grpo.group": 3,
    "grpo.lr": 1e-3,
    "grpo.kl": 0.01,
    "grpo.epochs": 2,
    "grpo.weight_decay": 0.01,
    "grpo.save_every": 1,
    "grpo.eval_questions": 1,
    "grpo.microbatch_tokens": 600,
}
LAUNCHED = {  # what `accelerate launch --use_fsdp --fsdp_version 2` says of itself
    "VERSION": "2",
    "RESHARD_AFTER_FORWARD": "true",
    "OFFLOAD_PARAMS": "false",
    "CPU_RAM_EFFICIENT_LOADING": "true",
    "SYNC_MODULE_STATES": "true",
}
SMOKE = ("train", "kg-hopper", "--data", "world", "--smoke", "--report-to", "none", "--device", "cpu")


class Place(NamedTuple):
    """Processes to run commands in, and demonstrations to learn from."""

    forks: Forks
    demos: Path

    def command(self, out: Path, stages: str, values: dict[str, Any]) -> list[object]:
        sets = [part for key, value in (VALUES | values).items() for part in ("--set", f"{key}={value}")]
        return [*SMOKE, "--stages", stages, "--demos", self.demos, *sets, "-o", out]

    def start(self, *command: object, **settings: str) -> list[Command]:
        """Two processes of one run, each with a shard; `settings` are as accelerate calls them, without FSDP_."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        everyone = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        asked = {f"FSDP_{name}": value for name, value in (LAUNCHED | settings).items()}
        asked |= {"ACCELERATE_USE_CPU": "true", "ACCELERATE_USE_FSDP": "true"}
        return [self.forks.start(*command, RANK=rank, LOCAL_RANK=rank, **everyone, **asked) for rank in ("0", "1")]

    def run(self, *command: object, **settings: str) -> list[Command]:
        commands = self.start(*command, **settings)
        for one in commands:
            assert one.wait() == 0, one.error
        return commands


@pytest.fixture(scope="module")
def place(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("fsdp")
    forks.run(*SMOKE, "--stages", "demos", "-o", folder / "demos")
    few = folder / "few.jsonl"  # six of them: two steps
    few.write_text("".join((folder / "demos" / "demos.jsonl").read_text().splitlines(keepends=True)[:6]))
    return Place(forks, few)


def check_alike(one: Path, two: Path, file: str, stages: list[str]) -> None:
    """Weights to 1e-5, and the numbers of every step."""
    for stage in stages:
        for name in (f"{stage}/best", f"{stage}/checkpoint-2"):
            weights = [load_file(str(run / name / file)) for run in (one, two)]
            assert difference(*weights) < 1e-5, name
        steps = [list(read_rows(run / stage / "metrics.jsonl")) for run in (one, two)]
        assert len(steps[0]) == len(steps[1]) == 2
        for alone, shared in zip(*steps, strict=True):
            assert alone["grad_norm"] > 0
            for name in ("loss", "grad_norm", "eval_f1", "reward", "kl", "entropy", "clip_fraction"):
                if name in alone:
                    assert shared[name] == pytest.approx(alone[name], rel=1e-3, abs=1e-5), name
            if stage == "grpo":
                assert shared["mismatch_max"] < 1e-4  # the engine has the weights that learn, as they are now:
                assert (alone["sync_seconds"], shared["sync_seconds"]) == (0, pytest.approx(0.5, abs=0.5))  # a copy
                assert shared["sync_seconds"] > 0


def test_an_adapter_in_shards_is_that_of_one_process_killed_or_not(place: Place, tmp_path: Path) -> None:
    one, two, killed = (tmp_path / name for name in ("one", "two", "killed"))
    place.forks.run(*place.command(one, "sft,grpo", {}))
    first, second = place.run(*place.command(two, "sft,grpo", {}))
    assert first.output.count("grpo: 2 steps") == 1
    assert not second.output
    check_alike(one, two, "adapter_model.safetensors", ["sft", "grpo"])
    last = "grpo/checkpoint-2/optimizer.safetensors"
    assert difference(*(load_file(str(run / last)) for run in (one, two))) < 1e-4  # whole, under the same names

    commands = place.start(*place.command(killed, "sft,grpo", {}))
    assert commands[0].until((killed / "grpo" / "checkpoint-1").exists)
    for command in commands:
        command.kill()
    place.run(*place.command(killed, "sft,grpo", {}), "--resume")
    for name in (last, "grpo/checkpoint-2/adapter_model.safetensors", "adapter/adapter_model.safetensors"):
        assert same(*(load_file(str(run / name)) for run in (two, killed))), name


def test_all_weights_in_shards(place: Place, tmp_path: Path) -> None:
    """Kept whole between the forward and the backward pass."""
    one, two = tmp_path / "one", tmp_path / "two"
    values = {"model.lora_rank": 0, "grpo.lr": 1e-4}
    place.forks.run(*place.command(one, "sft,grpo", values))
    place.run(*place.command(two, "sft,grpo", values), RESHARD_AFTER_FORWARD="false")
    check_alike(one, two, "model.safetensors", ["sft", "grpo"])


def test_a_new_adapter_is_its_own_reference_and_a_process_may_have_nothing_to_do(place: Place, tmp_path: Path) -> None:
    """Off, the adapter is the reference; activations are computed again. One question, and two processes."""
    one, two = tmp_path / "one", tmp_path / "two"
    values = {"model.checkpoint_activations": "true", "grpo.questions": 1}
    place.forks.run(*place.command(one, "grpo", values))
    place.run(*place.command(two, "grpo", values))
    check_alike(one, two, "adapter_model.safetensors", ["grpo"])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"VERSION": "1"}, "sharded weights of FSDP 1 cannot be trained here, those of FSDP 2 can; give"),
        ({"OFFLOAD_PARAMS": "true"}, "shards cannot be kept in the host's memory here; leave --fsdp_offload_params"),
    ],
)
def test_what_cannot_be_done_is_refused(place: Place, tmp_path: Path, settings: dict[str, str], said: str) -> None:
    for command in place.start(*place.command(tmp_path / "run", "grpo", {}), **settings):
        assert command.wait() == 1
        assert said in command.error
        assert "Traceback" not in command.error
