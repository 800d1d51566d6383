"""One update by TRL on a case, as a program, so that it can be started as several processes:

    python tests/backends/trl_update.py PLACE OUT WORLD [-moved] [ROWS]

Writes the gradient before clipping and the weights after the step to OUT, and refuses to run in another number of
processes than WORLD. ROWS are those of a microbatch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from case import read_case, recipe_of
from safetensors.torch import save_file
from trl import GRPOConfig

from kgwalk.training.backends.exchange import TrainerEpisode
from kgwalk.training.backends.trl_settings import trl_values
from kgwalk.training.backends.trl_trainer import TurnGrpoTrainer, quiet
from kgwalk.training.model import PolicyModel
from kgwalk.training.settings import ModelSettings
from kgwalk.training.updater import Processes, optimiser_of
from kgwalk.walk.policy import budget_of


class Kept(TurnGrpoTrainer):
    """Keeps the gradient as it is before clipping."""

    def _clip_grad_norm(self, model: torch.nn.Module) -> Any:
        self.gradient = {name.removeprefix("module."): value.grad.clone() for name, value in model.named_parameters()}
        return super()._clip_grad_norm(model)


def main(place: Path, out: Path, world: int, suffix: str = "", rows: int = 0) -> None:
    torch.set_num_threads(1)
    settings, groups, _ = read_case(place)
    processes = Processes("cpu")
    assert processes.count == world, f"{processes.count} processes, not {world}"
    names = ModelSettings(name=str(place / "model"), lora_rank=0, compile=False)
    policy = PolicyModel(names, device="cpu", start=place / ("reference" if suffix else "model"))
    if settings.kl:
        policy.keep_reference()
    policy.load(place / "model")
    recipe = recipe_of(place.name)
    tokens = (rows or 1000) * budget_of(recipe).total_tokens
    recipe = recipe.with_values([f"grpo.microbatch_tokens={tokens}"])
    values = trl_values(recipe, world, steps=1, device="cpu", dtype="float32")
    assert not rows or values["per_device_train_batch_size"] == rows

    def roll_out(prompts: list[str]) -> list[list[TrainerEpisode]]:
        numbers = [int(prompt) for prompt in prompts[:: settings.group]]
        assert list(prompts) == [str(number) for number in numbers for _ in range(settings.group)]
        return [groups[number] for number in numbers]

    args = GRPOConfig(output_dir=str(out), **values)
    optimiser = optimiser_of(policy, lr=settings.lr, weight_decay=settings.weight_decay)
    with quiet():
        trainer = Kept(policy, settings, args, [str(n) for n in range(len(groups))], roll_out, optimiser, processes)
        trainer.train()
    numbers = trainer.step_numbers()
    if processes.main:
        out.mkdir(parents=True, exist_ok=True)
        save_file(trainer.gradient, str(out / "gradient.safetensors"))
        save_file({name: value.clone() for name, value in policy.weights().items()}, str(out / "weights.safetensors"))
        print(numbers)
    processes.wait()  # who leaves while another still writes takes the group's threads along, which ends in an abort
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    given = sys.argv[1:]
    main(Path(given[0]), Path(given[1]), int(given[2]), *(given[3:4]), *(int(rows) for rows in given[4:5]))
