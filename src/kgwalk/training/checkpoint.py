"""A run's checkpoints: `checkpoint-N/` holds all that the step after N depends on, and is there whole or not at all.

    checkpoint-20/adapter_model.safetensors, adapter_config.json, tokenizer   what `--adapter` takes
    checkpoint-20/optimizer.safetensors    the optimiser's tensors
    checkpoint-20/trainer_state.json       step, best score, curriculum, the optimiser's plain numbers

Random numbers need no state: each step's come from the seed and the step's number. No pickle.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from kgwalk.runs.folder import read_json, write_json
from kgwalk.training.model import PolicyModel
from kgwalk.types import KgwalkError

OPTIMISER, STATE, WEIGHTS = "optimizer.safetensors", "trainer_state.json", "weights.safetensors"
_NAME = re.compile(r"checkpoint-(\d+)")


class Checkpoints:
    """Those of one run. `keep` of them stay, and the one called best."""

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
    ) -> Path:
        """Write the checkpoint beside, then give it its name; then drop the oldest ones."""
        target, beside = self.folder / f"checkpoint-{step}", self.folder / f".checkpoint-{step}.partial"
        shutil.rmtree(beside, ignore_errors=True)
        try:
            beside.mkdir(parents=True)
            model.save(beside, card)
            save_file(_contiguous(model.weights()), str(beside / WEIGHTS))
            tensors, plain = _flattened(optimiser)
            save_file(tensors, str(beside / OPTIMISER))
            write_json(beside / STATE, {**state, "step": step, "optimiser": plain})
            _sync(beside)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(beside, ignore_errors=True)
            last = self.latest()
            raise KgwalkError(
                f"the checkpoint of step {step} could not be written in {self.folder}: {error}. "
                + (f"The last good one is {last}" if last else "There is no earlier one")
                + "; free some space and go on with --resume"
            ) from error
        shutil.rmtree(target, ignore_errors=True)
        beside.rename(target)
        for old in self.all()[: -self.keep]:
            shutil.rmtree(old, ignore_errors=True)
        return target

    def keep_best(self, checkpoint: Path) -> None:
        """A copy of its adapter as `best/`."""
        beside = self.folder / ".best.partial"
        shutil.rmtree(beside, ignore_errors=True)
        shutil.copytree(checkpoint, beside, ignore=shutil.ignore_patterns(OPTIMISER, WEIGHTS))
        shutil.rmtree(self.folder / "best", ignore_errors=True)
        beside.rename(self.folder / "best")

    def restore(self, path: Path, model: PolicyModel, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
        """Weights and optimiser as they were; the state that was given to `save`."""
        state: dict[str, Any] = read_json(path / STATE)
        try:
            model.load_weights(load_file(str(path / WEIGHTS)), str(path))
            tensors = load_file(str(path / OPTIMISER))
        except (OSError, SafetensorError) as error:
            raise KgwalkError(
                f"the checkpoint {path} cannot be read: {error}; remove it to use the one before"
            ) from error
        _restore(optimiser, tensors, state.pop("optimiser"))
        return state


def _contiguous(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}


def _flattened(optimiser: torch.optim.Optimizer) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The optimiser's state as named tensors, and its numbers (rates, betas) as JSON."""
    state = optimiser.state_dict()
    tensors = {
        f"{number}.{name}": value.detach().cpu().contiguous()
        for number, values in state["state"].items()
        for name, value in values.items()
    }
    return tensors, {"param_groups": state["param_groups"]}


def _restore(optimiser: torch.optim.Optimizer, tensors: dict[str, torch.Tensor], plain: dict[str, Any]) -> None:
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    optimiser.load_state_dict({"state": state, "param_groups": plain["param_groups"]})


def _sync(folder: Path) -> None:
    """On disk before it has its name: a power cut must not leave a name without contents."""
    for path in folder.iterdir():
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
