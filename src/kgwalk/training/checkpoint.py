"""Checkpoints: folders with all that the next step depends on, each there whole or not at all.

`checkpoint-20/` is what step 21 starts from:

    checkpoint-20/adapter_model.safetensors, adapter_config.json, tokenizer   what `--adapter` takes
    checkpoint-20/optimizer.safetensors    the optimiser's tensors
    checkpoint-20/trainer_state.json       step, best score, curriculum, the optimiser's plain numbers

Random generators need no state: each step seeds its own from the seed and the step's number. Weights and the
optimiser's tensors are stored whole, however many processes held shards of them, so a run may go on with any number of
processes. No pickle.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from kgwalk.config.cache import cannot_write
from kgwalk.config.run_folder import read_object, write_json
from kgwalk.training.model import PolicyModel, like, read_tensors, whole
from kgwalk.types import KgwalkError

OPTIMISER, STATE = "optimizer.safetensors", "trainer_state.json"
_NAME = re.compile(r"checkpoint-(\d+)")


class Checkpoints:
    """The checkpoints of one stage: the `keep` latest, and a copy of the best one's adapter as `best/`."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep

    def all(self) -> list[Path]:
        """Oldest first."""
        found = [
            (int(match.group(1)), path)
            for path in self.folder.glob("checkpoint-*")
            if (match := _NAME.fullmatch(path.name))
        ]
        return [path for _, path in sorted(found)]

    def latest(self) -> Path | None:
        return next(reversed(self.all()), None)

    def save(
        self,
        step: int,
        model: PolicyModel,
        optimiser: torch.optim.Optimizer,
        state: dict[str, Any],
        card: dict[str, Any],
        *,
        write: bool = True,
    ) -> Path:
        """Write a checkpoint under another name, then rename it, then drop the oldest ones.

        All processes call this, since each may hold a shard of the weights; one of them does `write`.
        """
        target = self.folder / f"checkpoint-{step}"
        weights = model.gathered(keep=write)
        tensors, plain = _flattened(optimiser, keep=write)
        if not write:
            return target
        for stale in self.folder.glob(".checkpoint-*.partial"):  # left by a process that was killed
            shutil.rmtree(stale, ignore_errors=True)
        with whole_or_not(target, f"the checkpoint of step {step}", self.good()) as beside:
            model.save(beside, card, weights)
            save_file(tensors, str(beside / OPTIMISER))
            write_json(beside / STATE, {**state, "step": step, "optimiser": plain})
        for old in self.all()[: -self.keep]:
            _remove(old)
        return target

    def keep_best(self, checkpoint: Path) -> None:
        """Copy its adapter as `best/`."""
        what = f"the copy of {checkpoint.name} as best"
        with whole_or_not(self.folder / "best", what, self.good()) as beside:
            copy_files(checkpoint, beside, without=[OPTIMISER])

    def is_best(self, checkpoint: Path) -> bool:
        """Whether `best/` is a copy of it."""
        state = self.folder / "best" / STATE
        return state.exists() and read_object(state, "step")["step"] == read_object(checkpoint / STATE)["step"]

    def restore(self, path: Path, model: PolicyModel, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
        """Load weights and optimiser; returns the state that was given to `save`."""
        state = read_object(path / STATE, "step", "optimiser")
        model.load(path)
        _restore(optimiser, read_tensors(path / OPTIMISER), state.pop("optimiser"))
        return state

    def good(self) -> str:
        """In words, for messages: the checkpoint from which training can go on."""
        last = self.latest()
        return f"the last good checkpoint is {last}" if last else "there is no checkpoint yet"


@contextmanager
def whole_or_not(target: Path, what: str, good: str) -> Iterator[Path]:
    """A folder to write into, which becomes `target` once all is on disk. `good` is added to a message of failure."""
    beside = target.with_name(f".{target.name}.partial")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
        yield beside
        _sync(beside)
        _remove(target)
        beside.rename(target)
        _sync(target.parent)
    except Exception as error:
        shutil.rmtree(beside, ignore_errors=True)
        if not cannot_write(error):
            raise
        raise KgwalkError(
            f"{what} could not be written in {target.parent}: {error}; {good}. Free some space and go on with --resume"
        ) from error


def copy_files(source: Path, target: Path, *, without: Sequence[str]) -> None:
    """Copy the files of a folder; shutil.copytree would not keep the reason of a failure."""
    for file in source.iterdir():
        if file.name not in without:
            shutil.copyfile(file, target / file.name)


def _remove(folder: Path) -> None:
    """Remove a folder. It is renamed first, so that if the process is killed what is left is no checkpoint."""
    if folder.exists():
        doomed = folder.with_name(f".{folder.name}.removed.partial")
        shutil.rmtree(doomed, ignore_errors=True)
        folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def _flattened(optimiser: torch.optim.Optimizer, *, keep: bool) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The optimiser's tensors by name (empty unless `keep`), and its plain numbers (rates, betas) for JSON."""
    state = optimiser.state_dict()
    tensors = {}
    for number, values in state["state"].items():
        for name, value in values.items():
            one = whole(value.detach())
            if keep:
                tensors[f"{number}.{name}"] = one.cpu().contiguous()
    return tensors, {"param_groups": state["param_groups"]}


def _restore(optimiser: torch.optim.Optimizer, tensors: dict[str, torch.Tensor], plain: dict[str, Any]) -> None:
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        parameter = parameters[int(number)]
        of_weights = value.shape == parameter.shape  # not the count of steps
        state.setdefault(int(number), {})[name] = like(parameter, value) if of_weights else value
    optimiser.load_state_dict({"state": state, "param_groups": plain["param_groups"]})


def _sync(folder: Path) -> None:
    """Flush a folder to disk, so that a power cut leaves no name without contents."""
    for path in (*folder.iterdir(), folder):
        if path.is_file() or path == folder:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
