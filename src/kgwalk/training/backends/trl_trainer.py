"""TRL's GRPOTrainer with kgwalk's walks and credit: one advantage for each token, failed walks left out.

TRL calls a rollout function for the rows of a step, computes one advantage for each row, and then the loss. Here the
rollout function hands over walks (`TrainerEpisode`), and the advantages are replaced by those of turns, (B, T), before
the loss is computed. Four more things are as in the native trainer:

- Rows that nothing is learnt from have a mask of zeros, and the loss is a mean over the others (`trl_settings.scale`).
- The reference of the KL term is the model before GRPO, also where it does not start from a model's published weights.
- Rows are padded on the left, and their tokens still have the positions that they had in the walk (`_positions`).
- Tokens are weighed by how likely they are to the trainer over how likely to the engine (`loss.truncated_importance`).

TRL calls its rollout functions experimental, and methods are overridden that are its own business: the version is
pinned, and tests compare gradient and weights with the native trainer's. Imports trl; nothing light may import this.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from kgwalk.training.backends.exchange import TokenCredit, TrainerEpisode, token_credit
from kgwalk.training.backends.trl_settings import scale
from kgwalk.training.loss import k3, truncated_importance
from kgwalk.training.model import PolicyModel
from kgwalk.training.settings import GrpoSettings
from kgwalk.training.updater import Diverged, Processes
from kgwalk.types import KgwalkError

# The walks of a process in groups, given the prompts that TRL has for it: one for each rollout.
RollOut = Callable[[Sequence[str]], Sequence[Sequence[TrainerEpisode]]]
Errors = Callable[[], contextlib.AbstractContextManager[None]]


class TurnGrpoTrainer(GRPOTrainer):  # type: ignore[misc]
    """Trains `policy` on what `roll_out` hands over. `errors` surrounds the work of a step, to say where it failed.

    `args.beta` is the weight of the KL term; the reference is the policy's own (`PolicyModel.keep_reference`).
    """

    def __init__(
        self,
        policy: PolicyModel,
        settings: GrpoSettings,
        args: GRPOConfig,
        prompts: Sequence[str],
        roll_out: RollOut,
        optimiser: torch.optim.Optimizer,
        processes: Processes,
        *,
        callbacks: Sequence[TrainerCallback] = (),
        errors: Errors = contextlib.nullcontext,
    ) -> None:
        self.policy, self.settings, self.roll_out = policy, settings, roll_out
        self.processes, self.errors = processes, errors
        self.noted = StepNotes()
        self._credit: TokenCredit | None = None
        self._loss_inputs: dict[str, Any] | None = None  # of the loss that is being computed
        weight, args.beta = args.beta, 0.0  # so that TRL loads no reference of its own
        super().__init__(
            model=policy.trained,
            reward_funcs=_earned,
            args=args,
            train_dataset=Dataset.from_dict({"prompt": list(prompts)}),
            processing_class=policy.tokens.hf,
            rollout_func=self._walked,
            optimizers=(optimiser, None),
            callbacks=list(callbacks),
        )
        self.remove_callback(PrinterCallback)
        policy.module.register_forward_pre_hook(_positions, with_kwargs=True)
        args.beta = self.beta = weight
        if self.accelerator.num_processes != processes.count:
            raise KgwalkError(
                f"TRL runs in {self.accelerator.num_processes} processes and kgwalk in {processes.count}; start both "
                "with torchrun or accelerate launch, without other settings of processes"
            )

    # The rollouts of a step

    def _walked(self, prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
        training = self.policy.trained.training
        groups = self.roll_out(prompts)
        self.policy.trained.train(training)  # the engine has switched dropout off
        self._credit = token_credit(groups, self.settings)
        rows = []
        for group, values in zip(groups, self._credit.advantages, strict=True):
            rows += [one if row is not None else one.silenced() for one, row in zip(group, values, strict=True)]
        if len(rows) != len(prompts):
            raise KgwalkError(f"TRL asked for {len(prompts)} rollouts, and {len(rows)} were walked")
        return {
            "prompt_ids": [one.prompt_ids for one in rows],
            "completion_ids": [one.completion_ids for one in rows],
            "logprobs": [one.logprobs for one in rows],
            "env_mask": [one.mask for one in rows],
            "earned": [one.whole_reward + sum(one.turn_rewards) for one in rows],
        }

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        weight, self.beta = self.beta, 0.0  # TRL would look for a reference model that is not there
        try:
            out: dict[str, Any] = super()._generate_and_score_completions(inputs)
        finally:
            self.beta = weight
        assert self._credit is not None
        values = [row for group in self._credit.advantages for row in group]
        advantages_BT = torch.zeros(out["completion_ids"].shape, device=out["completion_ids"].device)
        for at, row in enumerate(values):
            if row is not None:
                advantages_BT[at, : len(row)] = torch.tensor(row)
        out["advantages"] = advantages_BT
        counts = self.processes.gathered([(len(values), self._credit.learnt_from)])
        rows, kept = (sum(column) for column in zip(*counts, strict=True))
        out["loss_scale"] = torch.tensor(scale(self.settings, rows, kept), device=advantages_BT.device)
        if weight:
            out["ref_per_token_logps"] = self._reference_logprobs(out)
        return out

    @torch.no_grad()
    def _reference_logprobs(self, out: dict[str, Any]) -> torch.Tensor:
        ids = torch.cat([out["prompt_ids"], out["completion_ids"]], dim=1)
        mask = torch.cat([out["prompt_mask"], out["completion_mask"]], dim=1)
        model, training = self.policy.trained, self.policy.trained.training
        model.eval()
        try:
            with self.policy.reference():
                found: torch.Tensor = self._get_per_token_logps_and_entropies(
                    model, ids, mask, out["completion_ids"].size(1), self.args.per_device_train_batch_size
                )[0]
        finally:
            model.train(training)
        return found

    # The loss and the update

    def training_step(self, *args: Any, **options: Any) -> torch.Tensor:
        with self.errors():
            loss: torch.Tensor = super().training_step(*args, **options)
            return loss

    def _compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
        self._loss_inputs = dict(inputs)
        try:
            loss: torch.Tensor = super()._compute_loss(model, self._loss_inputs) * inputs["loss_scale"]
        finally:
            self._loss_inputs = None
        self.noted.losses.append(loss.detach())
        self.noted.tokens.append((inputs["completion_mask"] * inputs["tool_mask"]).sum())
        return loss

    def _get_per_token_logps_and_entropies(self, *args: Any, **options: Any) -> Any:
        found = super()._get_per_token_logps_and_entropies(*args, **options)
        if self._loss_inputs is not None:  # TRL reads the advantages after this
            self._weigh(self._loss_inputs, *found[:2])
        return found

    @torch.no_grad()
    def _weigh(self, inputs: dict[str, Any], logps_BT: torch.Tensor, entropy_BT: torch.Tensor) -> None:
        """Multiply the advantages by the weights that correct the sampler's log-probabilities; note what to watch."""
        start_BT = inputs.get("old_per_token_logps", logps_BT).detach()
        mask_BT = (inputs["completion_mask"] * inputs["tool_mask"]).bool()
        sampler_BT = inputs["sampling_per_token_logps"]
        weights_BT = truncated_importance(start_BT, sampler_BT, self.settings.importance_cap)
        inputs["advantages"] = torch.where(mask_BT, inputs["advantages"] * weights_BT, 0.0)
        apart_BT = torch.where(mask_BT, (start_BT - sampler_BT).abs(), 0.0)
        self.noted.most_apart.append(apart_BT.amax())
        self.noted.add("mismatch", apart_BT.sum())
        self.noted.add("entropy", torch.where(mask_BT, entropy_BT, 0.0).sum())
        if "ref_per_token_logps" in inputs:
            self.noted.add("kl", torch.where(mask_BT, k3(logps_BT, inputs["ref_per_token_logps"]), 0.0).sum())

    def _clip_grad_norm(self, model: torch.nn.Module) -> Any:
        """The last thing before the optimiser: weights must not change if the gradient is bad, or there is none."""
        with self.errors():
            norm = super()._clip_grad_norm(model)
            loss, tokens = self._totals()
            size = float(norm)
            if not math.isfinite(size) or not math.isfinite(loss) or abs(loss) > self.settings.most_loss:
                raise Diverged(f"the loss is {loss:.4g} and the gradient's norm {size:.4g}")
        if tokens:
            self.noted.numbers |= {"loss": loss, "grad_norm": size}
            self.noted.updates += 1
        else:  # all groups were dropped: without gradients the optimiser does nothing, decays nothing
            for parameter in model.parameters():
                parameter.grad = None
        return norm

    def _totals(self) -> tuple[float, int]:
        """The loss of this update, and its tokens, over its microbatches and all processes."""
        noted = self.noted
        own = torch.stack([torch.stack(noted.losses).sum(), torch.stack(noted.tokens).sum().float()])
        loss, tokens = self.processes.sum(own).tolist()
        noted.all_tokens += tokens
        noted.losses, noted.tokens = [], []
        return loss / self.processes.count, int(tokens)  # TRL's losses are averaged over the processes

    def step_numbers(self) -> dict[str, float]:
        """What a step computed, under the names that the native trainer's rows have; then all start anew."""
        noted, self.noted = self.noted, StepNotes()
        made: dict[str, float] = {"updates": float(noted.updates), **noted.numbers}
        clipped = [value for value in self._metrics["train"].get("clip_ratio/region_mean", []) if not math.isnan(value)]
        self._metrics["train"].clear()
        if noted.all_tokens:
            sums = self.processes.sum(torch.stack(list(noted.sums.values()))).tolist()
            made |= {name: value / noted.all_tokens for name, value in zip(noted.sums, sums, strict=True)}
            made["mismatch_max"] = max(self.processes.gathered([float(torch.stack(noted.most_apart).amax())]))
            made["clip_fraction"] = sum(clipped) / max(1, len(clipped))
        return made


class StepNotes:
    """What the microbatches of a step leave behind; tensors stay on the device until they are asked for."""

    def __init__(self) -> None:
        self.losses: list[torch.Tensor] = []  # of the update under way
        self.tokens: list[torch.Tensor] = []
        self.sums: dict[str, torch.Tensor] = {}  # over all tokens of the step's updates
        self.most_apart: list[torch.Tensor] = []
        self.all_tokens = 0.0  # of all processes
        self.updates = 0
        self.numbers: dict[str, float] = {}

    def add(self, name: str, value: torch.Tensor) -> None:
        self.sums[name] = self.sums[name] + value if name in self.sums else value


def _positions(module: torch.nn.Module, args: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Positions that count from a row's first token, where a caller gives a mask and no positions.

    transformers would count padding too. Relative positions stay the same, but not their rounding, and a model with
    absolute positions would see others than in the walk.
    """
    mask = given.get("attention_mask")
    if mask is None or mask.ndim != 2 or given.get("position_ids") is not None:
        return args, given
    return args, given | {"position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}


def _earned(prompts: list[Any], earned: list[float], **others: Any) -> list[float]:
    """TRL's reward function: what the walks earned. TRL logs it; the credit of turns is computed from the parts."""
    return earned


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Inside, TRL does not warn that its rollout functions are experimental: the version is pinned."""
    import os

    before = os.environ.get("TRL_EXPERIMENTAL_SILENCE")
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TRL_EXPERIMENTAL_SILENCE"]
        else:
            os.environ["TRL_EXPERIMENTAL_SILENCE"] = before
