"""A recipe as TRL's configuration: each setting of [grpo] under TRL's name for it, and what TRL cannot do refused.

Walks, rewards, advantages, learning rate and optimiser are kgwalk's own also under TRL, so their settings mean what
they always mean. What is TRL's: the loss and its aggregation, the clipping, the KL term's weight, how a step's rollouts
are cut into updates and microbatches, and the processes. Needs neither trl nor torch.
"""

from __future__ import annotations

from typing import Any

from kgwalk.config.recipe import Recipe, read_section
from kgwalk.training.settings import GrpoSettings, ModelSettings
from kgwalk.types import KgwalkError
from kgwalk.walk.policy import budget_of

# Aggregations of `loss.AGGREGATIONS` and TRL's `loss_type`. TRL's means count rows that nothing is learnt from, and
# `dr_grpo` divides by the longest completion: `scale` makes up for both.
LOSS_TYPES = {"token-mean": "dapo", "sequence-mean": "grpo", "sequence-sum-constant": "dr_grpo"}
LENGTH = 1  # TRL's longest completion. It only divides by it: completions are as long as the walks are


def rows_a_process(settings: GrpoSettings, processes: int) -> int:
    """How many rollouts of an update each process has; raises unless all have equally many, and whole groups.

    >>> rows_a_process(GrpoSettings(questions=8, group=4, minibatches=2), 2)
    8
    """
    if settings.questions % processes:
        raise KgwalkError(
            f"grpo.questions is {settings.questions}, and TRL gives each of {processes} processes equally many "
            f"questions; set it to a multiple of {processes}"
        )
    own = settings.questions // processes * settings.group
    if own % settings.minibatches:
        raise KgwalkError(
            f"grpo.minibatches is {settings.minibatches}, and TRL cuts the {own} rollouts of a process into equal "
            f"parts; set it to a divisor of {own}"
        )
    return own // settings.minibatches


def microbatch_rows(settings: GrpoSettings, rows: int, longest: int) -> int:
    """The most rows of a microbatch that divide `rows` and keep to `microbatch_tokens`, each of `longest` tokens; or 1.

    >>> microbatch_rows(GrpoSettings(microbatch_tokens=16384), rows=12, longest=4096)
    4
    >>> microbatch_rows(GrpoSettings(microbatch_tokens=16384), rows=12, longest=20000)
    1
    """
    fit = settings.microbatch_tokens // longest
    return max(count for count in range(1, rows + 1) if rows % count == 0 and (count <= fit or count == 1))


def trl_values(recipe: Recipe, processes: int, *, steps: int, device: str, dtype: str) -> dict[str, Any]:
    """The arguments of TRL's GRPOConfig for `steps` steps of a recipe, without the folder and the seed.

    `device` and `dtype` are the model's.
    """
    settings = read_section(GrpoSettings, recipe, "grpo")
    model = read_section(ModelSettings, recipe, "model")
    rows = rows_a_process(settings, processes)
    micro = microbatch_rows(settings, rows, budget_of(recipe).total_tokens)
    checkpointing = model.checkpoint_activations
    return {
        # the loss
        "loss_type": LOSS_TYPES[settings.aggregation],
        "epsilon": settings.clip_low,
        "epsilon_high": settings.clip_high,
        "beta": settings.kl,
        "use_bias_correction_kl": False,  # TRL would add a term to the gradient of K3
        "max_completion_length": LENGTH,
        "importance_sampling_level": "token",
        "temperature": 1.0,  # of log-probabilities, which the native trainer takes at 1; the walks have their own
        # how a step is cut into updates and microbatches
        "num_generations": settings.group,
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": rows // micro,
        "steps_per_generation": settings.minibatches * rows // micro,
        "num_iterations": settings.epochs,
        "max_steps": steps * settings.epochs * settings.minibatches,
        "shuffle_dataset": False,  # the curriculum has put the questions in order
        # the update; the rate of each step is set by `updater.rate`
        "learning_rate": settings.lr,
        "lr_scheduler_type": "constant",
        "max_grad_norm": settings.clip,
        "bf16": dtype == "bfloat16" and device.startswith("cuda"),
        "gradient_checkpointing": device.startswith("cuda") if isinstance(checkpointing, str) else checkpointing,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "use_cpu": device == "cpu",
        # what kgwalk does itself
        "accelerator_config": {"use_configured_state": True},
        "ddp_find_unused_parameters": False,
        "save_strategy": "no",
        "logging_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }


def scale(settings: GrpoSettings, rows: int, kept: int) -> float:
    """What TRL's loss is multiplied by, given the rows of a batch and those that are learnt from.

    A mean over rows becomes one over the rows that are learnt from, and the constant is the recipe's:

    >>> scale(GrpoSettings(aggregation="sequence-mean"), rows=16, kept=12)
    1.3333333333333333
    >>> scale(GrpoSettings(aggregation="sequence-sum-constant", sequence_tokens=4), rows=16, kept=8)
    0.5
    >>> scale(GrpoSettings(aggregation="token-mean"), rows=16, kept=8)  # tokens are counted by their mask
    1.0
    """
    if settings.aggregation == "token-mean":
        return 1.0
    constant = LENGTH / settings.sequence_tokens if settings.aggregation == "sequence-sum-constant" else 1.0
    return rows / max(kept, 1) * constant
