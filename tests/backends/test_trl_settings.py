"""A recipe as TRL's configuration, by hand; what cannot be is refused before anything is made. Needs no trl."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from commands import Cli
from kgwalk.config.recipe import load_recipe
from kgwalk.training.backends import BACKENDS, check_backend
from kgwalk.training.backends.trl_settings import LOSS_TYPES, trl_values
from kgwalk.training.loss import AGGREGATIONS
from kgwalk.types import KgwalkError


def test_kg_r1_on_two_processes() -> None:
    """128 questions of 16 rollouts: 1,024 rows a process; of 8,192 tokens each, 2 are at most 21,000 tokens."""
    values = trl_values(load_recipe("kg-r1"), 2, steps=400, device="cuda:0", dtype="bfloat16")
    assert values["loss_type"] == "dr_grpo"
    assert (values["epsilon"], values["epsilon_high"], values["beta"]) == (0.2, 0.2, 0.01)
    assert (values["num_generations"], values["per_device_train_batch_size"]) == (16, 2)
    assert values["gradient_accumulation_steps"] == values["steps_per_generation"] == 512
    assert (values["num_iterations"], values["max_steps"]) == (1, 400)
    assert values["gradient_checkpointing"]
    assert values["bf16"]
    assert not values["use_cpu"]


def test_eog_has_four_updates_a_step() -> None:
    """Two epochs of two minibatches: TRL generates once, cuts in two, and goes over it twice."""
    values = trl_values(load_recipe("eog"), 1, steps=108, device="cpu", dtype="float32")
    assert values["loss_type"] == "grpo"
    assert (values["per_device_train_batch_size"], values["gradient_accumulation_steps"]) == (1, 768)
    assert (values["steps_per_generation"], values["num_iterations"], values["max_steps"]) == (1536, 2, 432)
    assert not values["bf16"]


def test_every_aggregation_has_a_loss_type() -> None:
    assert LOSS_TYPES.keys() == AGGREGATIONS.keys()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("grpo.questions=5", "grpo.questions is 5, and TRL gives each of 2 processes equally many questions"),
        ("grpo.minibatches=3", "grpo.minibatches is 3, and TRL cuts the 256 rollouts of a process"),
    ],
)
def test_what_cannot_be_shared_is_refused(value: str, message: str) -> None:
    with pytest.raises(KgwalkError, match=message):
        trl_values(load_recipe("kgwalk").with_values([value]), 2, steps=1, device="cpu", dtype="float32")


def test_a_backend_that_is_not_there() -> None:
    with pytest.raises(KgwalkError, match="unknown backend `trll`; did you mean `trl`"):
        check_backend("trll")
    check_backend("native")
    for name in BACKENDS:
        if importlib.util.find_spec(name) is None:
            with pytest.raises(KgwalkError, match=rf"--backend {name} needs the package {name}.*requirements/{name}"):
                check_backend(name)


def test_another_number_of_processes_is_refused(cli: Cli, tmp_path: Path) -> None:
    """`accelerate launch --cpu --num_processes 2` starts one, and says nothing."""
    done = cli("train", "kgwalk", "--data", "world", "--smoke", "--processes", "2", "-o", str(tmp_path / "run"))
    assert done.status == 1
    assert "2 processes were asked for, and this run has 1; start them with torchrun" in done.stderr
    assert not (tmp_path / "run").exists()
