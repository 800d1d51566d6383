"""A recipe as verl's configuration: each setting of [grpo] under verl's name for it, and what verl cannot do refused.

The result is a file that verl's own entry point reads, over its own defaults (`ppo_trainer`). Three names in it are
kgwalk's: the agent loop, the advantage estimator and the policy loss are all called `kgwalk` (`verl_plugin`). Which
questions a step asks is decided here, in advance, by the recipe's curriculum: verl takes them in the order of the file.
Needs neither verl nor torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgwalk.config.recipe import Recipe, read_section, setting
from kgwalk.score.rewards import RewardFunction
from kgwalk.training.curriculum import CurriculumSettings
from kgwalk.training.settings import GrpoSettings, ModelSettings
from kgwalk.types import KgwalkError
from kgwalk.walk.policy import budget_of

NAME = "kgwalk"
MANAGER = "kgwalk.training.backends.verl_manager.WatchedAgentLoops"
# Orders that look at the rewards of earlier steps, which verl's loader of questions does not hear of.
BY_REWARD = ("history", "variance")
AGGREGATIONS = {  # kgwalk's names, and verl's
    "token-mean": "token-mean",
    "sequence-mean": "seq-mean-token-mean",
    "sequence-sum-constant": "seq-mean-token-sum-norm",
}
NO_DUAL_CLIP = 1e10  # verl bounds the loss of bad tokens at this ratio as well; ratios end at e^20, far below
TRACKERS = {"none": [], "tensorboard": ["tensorboard"], "wandb": ["wandb"], "trackio": ["trackio"]}


@dataclass(frozen=True, slots=True)
class VerlSettings:
    """[verl]: the machines, and how verl samples on them. Only `--backend verl` reads it."""

    nodes: int = setting(1, least=1)  # of a Ray cluster that is running; with 1, verl starts one here
    gpus: int = setting(1, least=1)  # of each node
    rollout: str = "vllm"  # verl's name of the engine that samples: vllm or sglang
    tensor_parallel: int = setting(1, least=1)  # GPUs that one sampling engine is cut over
    gpu_memory: float = setting(0.5, above=0, most=1)  # the share of a GPU's memory that sampling may take
    agents: int = setting(8, least=1)  # processes that walk
    overrides: tuple[str, ...] = ()  # more of verl's own settings, such as "actor_rollout_ref.nccl_timeout=1200"


def check_verl(recipe: Recipe, *, judge: str | None = None) -> None:
    """Raises for what a recipe asks and verl, or kgwalk on it, cannot do."""
    grpo, model = read_section(GrpoSettings, recipe, "grpo"), read_section(ModelSettings, recipe, "model")
    verl = read_section(VerlSettings, recipe, "verl")
    order = read_section(CurriculumSettings, recipe, "curriculum").order
    native = "or train without --backend"
    if order in BY_REWARD:
        raise KgwalkError(
            f"curriculum.order is {order}, which follows the rewards of earlier steps, and verl's questions are put in "
            f"order before the run; take shuffled, hops or hard, {native}"
        )
    if judge is not None or RewardFunction.of(recipe).judges:
        raise KgwalkError(
            f"a judge's verdicts are compared within a group, and verl walks each rollout by itself: rewards of "
            f"{recipe.name} that ask a judge cannot be trained on it; set their weights to 0, {native}"
        )
    if grpo.minutes:
        raise KgwalkError(f"grpo.minutes is {grpo.minutes:g}, and verl counts steps alone; set it to 0, {native}")
    if grpo.patience:
        raise KgwalkError(f"grpo.patience is {grpo.patience}, and verl takes all steps; set it to 0, {native}")
    if model.lora_rank:
        raise KgwalkError(
            f"model.lora_rank is {model.lora_rank}, and on verl all weights are trained; set it to 0, {native}"
        )
    if grpo.questions % grpo.minibatches:
        raise KgwalkError(
            f"grpo.questions is {grpo.questions} and grpo.minibatches is {grpo.minibatches}: verl cuts a step into "
            "minibatches of equally many questions; make the first a multiple of the second"
        )
    walks, gpus = grpo.questions // grpo.minibatches * grpo.group, verl.nodes * verl.gpus
    if walks % gpus:
        raise KgwalkError(
            f"a minibatch has {walks} walks (grpo.questions / grpo.minibatches * grpo.group), and verl deals them out "
            f"evenly to {gpus} GPUs; make it a multiple of {gpus}"
        )
    if gpus % verl.tensor_parallel:
        raise KgwalkError(
            f"verl.tensor_parallel is {verl.tensor_parallel} and there are {gpus} GPUs; it must divide them"
        )


def verl_config(
    recipe: Recipe,
    *,
    run: Path,
    stage: Path,
    model: Path,
    questions: Path,
    held_out: Path | None,
    seed: int,
    report_to: str = "none",
    variables: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The configuration of a run; `check_verl` has been asked.

    `run` and `stage` are folders that every node sees, `model` is a Hugging Face folder, `questions` and `held_out` are
    files in verl's format (`verl_job`). `variables` are set in the environment of every process.
    """
    grpo, verl = read_section(GrpoSettings, recipe, "grpo"), read_section(VerlSettings, recipe, "verl")
    needed = ("advantage", "whole_weight", "std", "aggregation")
    return {
        "defaults": ["ppo_trainer", "_self_"],
        "hydra": {"run": {"dir": str(stage / "hydra")}, "output_subdir": None},
        NAME: {"folder": str(run)},
        "algorithm": {
            "adv_estimator": NAME,
            NAME: {name: getattr(grpo, name) for name in needed},
            "rollout_correction": {"rollout_is": "token", "rollout_is_threshold": grpo.importance_cap},
        },
        "critic": {"enable": False},
        "data": _data(recipe, grpo, questions, held_out),
        "actor_rollout_ref": {
            "model": _model(recipe, model),
            "actor": _actor(recipe, grpo, seed),
            "ref": {"fsdp_config": _precision(recipe)},
            "rollout": _rollout(recipe, grpo, verl, seed),
        },
        "reward": {"num_workers": 1, "reward_model": {"rollout": {"name": verl.rollout}}},  # asked for nothing
        "trainer": _trainer(grpo, verl, stage, held_out, report_to),
        "ray_kwargs": {"ray_init": {"runtime_env": {"env_vars": dict(variables or {})}}},
    }


def _data(recipe: Recipe, grpo: GrpoSettings, questions: Path, held_out: Path | None) -> dict[str, Any]:
    budget = budget_of(recipe)
    return {
        "train_files": str(questions),
        "val_files": str(held_out or questions),  # verl wants one, asked or not
        "train_batch_size": grpo.questions,
        "shuffle": False,  # the file is in the curriculum's order
        "dataloader_num_workers": 0,
        "max_prompt_length": max(1, budget.total_tokens - budget.turn_tokens),
        "max_response_length": min(budget.turn_tokens, budget.total_tokens - 1),
    }


def _model(recipe: Recipe, folder: Path) -> dict[str, Any]:
    again = read_section(ModelSettings, recipe, "model").checkpoint_activations
    return {"path": str(folder), "enable_gradient_checkpointing": again is not False}


def _dtype(recipe: Recipe) -> str:
    """The type that passes run in; the weights that learn are float32."""
    asked = read_section(ModelSettings, recipe, "model").dtype
    return "bfloat16" if asked == "auto" else asked


def _precision(recipe: Recipe) -> dict[str, Any]:
    """verl's `dtype` does not decide what passes run in: without `mixed_precision` that is bfloat16, whatever it is."""
    dtype = _dtype(recipe)
    return {"dtype": dtype, "mixed_precision": {"param_dtype": dtype, "reduce_dtype": "fp32", "buffer_dtype": "fp32"}}


def _actor(recipe: Recipe, grpo: GrpoSettings, seed: int) -> dict[str, Any]:
    constant = grpo.aggregation == "sequence-sum-constant"
    return {
        "strategy": "fsdp2",
        "fsdp_config": _precision(recipe),
        "ppo_mini_batch_size": grpo.questions // grpo.minibatches,
        "ppo_epochs": grpo.epochs,
        "shuffle": True,
        "data_loader_seed": seed,
        "use_dynamic_bsz": True,  # microbatches by tokens; a walk is never cut
        "ppo_max_token_len_per_gpu": max(grpo.microbatch_tokens, budget_of(recipe).total_tokens + 1),
        "policy_loss": {"loss_mode": NAME},
        "loss_agg_mode": AGGREGATIONS[grpo.aggregation],
        "loss_scale_factor": grpo.sequence_tokens if constant else None,
        "clip_ratio": grpo.clip_low,
        "clip_ratio_low": grpo.clip_low,
        "clip_ratio_high": grpo.clip_high,
        "clip_ratio_c": NO_DUAL_CLIP,
        "use_kl_loss": grpo.kl > 0,
        "kl_loss_coef": grpo.kl,
        "kl_loss_type": "low_var_kl",  # K3
        "entropy_coeff": 0,
        "grad_clip": grpo.clip,
        "optim": {
            "optimizer": "AdamW",
            "optimizer_impl": "kgwalk.training.backends.verl_credit",
            "lr": grpo.lr,
            "betas": [0.9, 0.95],
            "weight_decay": grpo.weight_decay,
            "clip_grad": grpo.clip,
            "lr_scheduler_type": grpo.schedule,
            "lr_warmup_steps": math.ceil(grpo.warmup * grpo.steps),
        },
        "checkpoint": {"save_contents": ["model", "optimizer", "extra", "hf_model"]},
    }


def _rollout(recipe: Recipe, grpo: GrpoSettings, verl: VerlSettings, seed: int) -> dict[str, Any]:
    return {
        "name": verl.rollout,
        "dtype": _dtype(recipe),
        "n": grpo.group,
        "temperature": grpo.temperature,
        "seed": seed,
        "tensor_model_parallel_size": verl.tensor_parallel,
        "gpu_memory_utilization": verl.gpu_memory,
        "calculate_log_probs": True,
        "agent": {"num_workers": verl.agents, "default_agent_loop": NAME, "agent_loop_manager_class": MANAGER},
    }


def _trainer(
    grpo: GrpoSettings, verl: VerlSettings, stage: Path, held_out: Path | None, report_to: str
) -> dict[str, Any]:
    return {
        "nnodes": verl.nodes,
        "n_gpus_per_node": verl.gpus,
        "total_epochs": 1,  # the file has the questions of all steps
        "total_training_steps": grpo.steps,
        "save_freq": grpo.save_every,
        "max_actor_ckpt_to_keep": grpo.keep,
        "default_local_dir": str(stage / "checkpoints"),
        "resume_mode": "auto",
        "val_before_train": False,
        "test_freq": -1 if held_out is None else grpo.eval_every or grpo.steps,
        "logger": ["console", "file", *TRACKERS[report_to]],
        "project_name": NAME,
        "experiment_name": stage.parent.name,
    }
