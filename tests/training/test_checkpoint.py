"""Checkpoints: whole or not there, the same again when read, and what is said when a disk or a file is at fault."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
import torch

from kgwalk.config.run_folder import read_json
from kgwalk.training.checkpoint import OPTIMISER, STATE, Checkpoints
from kgwalk.training.microbatch import collate
from kgwalk.training.updater import Updater
from kgwalk.types import KgwalkError
from training_helpers import longest_file, policy, same, sequences, updater_of, weights_of

CARD: dict[str, Any] = {"recipe": "kgwalk"}


def learn(updater: Updater, updates: int = 1) -> None:
    batch = collate(sequences(2), None, 0)
    for _ in range(updates):
        updater.update([batch], lambda batch, scores: (-scores.logprobs_BT.mean(), None))


def save(checkpoints: Checkpoints, updater: Updater, step: int, **state: Any) -> Path:
    return checkpoints.save(step, updater.model, updater.optimiser, state, CARD)


@pytest.mark.parametrize("rank", [4, 0])
def test_weights_and_optimiser_come_back_bit_for_bit(rank: int, tmp_path: Path) -> None:
    updater, checkpoints = updater_of(policy(rank)), Checkpoints(tmp_path)
    learn(updater, 2)
    path = save(checkpoints, updater, 2, stage={"asked": [[0, 0.1, 1 / 3]]}, best=[0.5, 2])
    other = updater_of(policy(rank, seed=7))
    assert checkpoints.restore(path, other.model, other.optimiser) == {
        "stage": {"asked": [[0, 0.1, 1 / 3]]},
        "best": [0.5, 2],
        "step": 2,
    }
    assert same(weights_of(updater.model), weights_of(other.model))
    learn(updater, 2)
    learn(other, 2)
    assert same(weights_of(updater.model), weights_of(other.model))
    assert other.optimiser.param_groups[0]["betas"] == [0.9, 0.95]
    names = {file.name for file in path.iterdir()}
    assert {OPTIMISER, STATE, "kgwalk.json", "tokenizer.json"} < names
    assert {"adapter_model.safetensors", "adapter_config.json"} < names if rank else "model.safetensors" in names
    assert not any(name.endswith((".bin", ".pt", ".pkl")) for name in names)


def test_an_optimiser_that_has_not_begun_is_saved_too(tmp_path: Path) -> None:
    """Where no group of the first steps taught anything, there was no update."""
    updater, checkpoints = updater_of(policy()), Checkpoints(tmp_path)
    path = save(checkpoints, updater, 1)
    other = updater_of(policy(seed=7))
    checkpoints.restore(path, other.model, other.optimiser)
    learn(updater)
    learn(other)
    assert same(weights_of(updater.model), weights_of(other.model))


def test_the_latest_stay_by_number_and_leftovers_are_no_checkpoints(tmp_path: Path) -> None:
    updater, checkpoints = updater_of(policy()), Checkpoints(tmp_path, keep=2)
    assert checkpoints.latest() is None
    assert checkpoints.good() == "there is no checkpoint yet"
    stale = tmp_path / ".checkpoint-40.partial"
    stale.mkdir()
    (stale / STATE).write_text("{")
    (tmp_path / "checkpoint-later").mkdir()
    for step in (8, 9, 10, 11):
        save(checkpoints, updater, step)
        assert checkpoints.latest() == tmp_path / f"checkpoint-{step}"
    assert [path.name for path in checkpoints.all()] == ["checkpoint-10", "checkpoint-11"]
    assert not stale.exists()
    assert not list(tmp_path.glob(".*"))
    again = save(checkpoints, updater, 11, note="anew")
    assert read_json(again / STATE)["note"] == "anew"


def test_the_best_is_a_copy_without_the_optimiser(tmp_path: Path) -> None:
    updater, checkpoints = updater_of(policy()), Checkpoints(tmp_path, keep=1)
    first = save(checkpoints, updater, 1)
    assert not checkpoints.is_best(first)
    checkpoints.keep_best(first)
    assert checkpoints.is_best(first)
    kept = weights_of(updater.model)
    learn(updater)
    second = save(checkpoints, updater, 2)
    assert not checkpoints.is_best(second)
    assert checkpoints.all() == [second]
    updater.model.load(tmp_path / "best")
    assert same(weights_of(updater.model), kept)
    assert not (tmp_path / "best" / OPTIMISER).exists()
    checkpoints.keep_best(second)
    assert checkpoints.is_best(second)


@pytest.mark.parametrize("size", [0, 500, 20_000, 200_000])
def test_a_full_disk_is_told_and_the_checkpoint_before_it_is_whole(size: int, tmp_path: Path) -> None:
    """Files may grow to `size` bytes only, so that another one fails each time: the first, a tokenizer's, tensors."""
    updater, checkpoints = updater_of(policy(16)), Checkpoints(tmp_path)
    learn(updater)
    before, first = weights_of(updater.model), save(checkpoints, updater, 1)
    learn(updater)
    with longest_file(size), pytest.raises(KgwalkError) as caught:
        save(checkpoints, updater, 2)
    assert f"the checkpoint of step 2 could not be written in {tmp_path}: " in str(caught.value)
    assert f"the last good checkpoint is {first}. Free some space and go on with --resume" in str(caught.value)
    assert checkpoints.all() == [first]
    assert not list(tmp_path.glob(".*"))
    with longest_file(size), pytest.raises(KgwalkError, match="the copy of checkpoint-1 as best could not be written"):
        checkpoints.keep_best(first)
    assert not (tmp_path / "best").exists()
    checkpoints.restore(first, updater.model, updater.optimiser)
    assert same(weights_of(updater.model), before)


def test_what_is_not_the_disks_fault_is_a_traceback_and_leaves_nothing(tmp_path: Path) -> None:
    updater, checkpoints = updater_of(policy()), Checkpoints(tmp_path)
    with pytest.raises(TypeError):
        save(checkpoints, updater, 1, strange=object())
    assert not list(tmp_path.iterdir())


def test_a_damaged_or_foreign_checkpoint_is_named(tmp_path: Path) -> None:
    updater, checkpoints = updater_of(policy()), Checkpoints(tmp_path / "run")
    learn(updater)
    path = save(checkpoints, updater, 3)

    def restore(what: str, model: Any = None) -> str:
        other = updater_of(policy() if model is None else model)
        before = weights_of(other.model)
        with pytest.raises(KgwalkError) as caught:
            checkpoints.restore(tmp_path / what, other.model, other.optimiser)
        assert same(weights_of(other.model), before) or what == "optimiser"
        return str(caught.value)

    def copied(what: str) -> Path:
        shutil.copytree(path, tmp_path / what)
        return tmp_path / what

    file = copied("weights") / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    assert restore("weights").startswith(f"{file} cannot be read: ")
    file = copied("optimiser") / OPTIMISER
    file.write_bytes(b"")
    assert restore("optimiser").startswith(f"{file} cannot be read: ")
    (copied("state") / STATE).write_text("{")
    assert "is not JSON" in restore("state")
    (copied("lost") / STATE).unlink()
    assert "is missing" in restore("lost")
    shutil.copytree(path, tmp_path / "rank")
    assert "of rank 4 and alpha 8, and this run is of rank 8" in restore("rank", policy(8))
    card = copied("base") / "kgwalk.json"
    card.write_bytes(orjson.dumps({"base_model": "another"}))
    assert "was trained from another" in restore("base")


def test_a_checkpoint_has_the_tensors_of_the_optimiser_by_parameter(tmp_path: Path) -> None:
    updater, checkpoints = updater_of(policy()), Checkpoints(tmp_path)
    learn(updater, 3)
    from safetensors.torch import load_file

    tensors = load_file(str(save(checkpoints, updater, 1) / OPTIMISER))
    assert {name.partition(".")[2] for name in tensors} == {"step", "exp_avg", "exp_avg_sq"}
    assert torch.equal(tensors["0.step"], torch.tensor(3.0))
    assert len(tensors) == 3 * len(updater.parameters)
