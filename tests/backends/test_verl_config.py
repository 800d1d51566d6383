"""A recipe as verl's configuration, what is refused, and the questions in verl's format. Needs no verl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from kgwalk.config.recipe import Recipe, load_recipe
from kgwalk.config.run_folder import begin_run
from kgwalk.data.dataset import load_dataset
from kgwalk.training.backends.verl_config import check_verl, verl_config
from kgwalk.training.backends.verl_job import VerlJob, questions_of_steps, write_questions
from kgwalk.training.curriculum import Curriculum, CurriculumSettings
from kgwalk.types import KgwalkError, Question


def config_of(recipe: Recipe) -> dict[str, Any]:
    check_verl(recipe)
    held_out, stage = Path("/run/held_out.parquet"), Path("/run/grpo")
    return verl_config(
        recipe,
        run=Path("/run"),
        stage=stage,
        model=Path("/model"),
        questions=Path("/run/train.parquet"),
        held_out=held_out,
        seed=5,
    )


def test_kg_r1() -> None:
    """Its appendix D.4 by verl's names: 128 questions of 16 rollouts on 8 GPUs."""
    config = config_of(load_recipe("kg-r1").with_values(["verl.gpus=8", "verl.tensor_parallel=2"]))
    actor, rollout = config["actor_rollout_ref"]["actor"], config["actor_rollout_ref"]["rollout"]
    assert (config["data"]["train_batch_size"], rollout["n"], rollout["temperature"]) == (128, 16, 1.0)
    assert (actor["loss_agg_mode"], actor["loss_scale_factor"]) == ("seq-mean-token-sum-norm", 1)
    assert (actor["use_kl_loss"], actor["kl_loss_coef"], actor["kl_loss_type"]) == (True, 0.01, "low_var_kl")
    assert (actor["clip_ratio_low"], actor["clip_ratio_high"], actor["optim"]["clip_grad"]) == (0.2, 0.2, 1.0)
    assert (actor["optim"]["lr"], actor["optim"]["weight_decay"], actor["optim"]["betas"]) == (1e-6, 0.01, [0.9, 0.95])
    assert (actor["ppo_mini_batch_size"], actor["ppo_epochs"], actor["ppo_max_token_len_per_gpu"]) == (128, 1, 21000)
    assert actor["fsdp_config"]["mixed_precision"]["param_dtype"] == "bfloat16"
    assert "hf_model" in actor["checkpoint"]["save_contents"]
    about = {"advantage": "turn", "whole_weight": 1.0, "std": True, "aggregation": "sequence-sum-constant"}
    assert config["algorithm"]["kgwalk"] == about
    assert config["algorithm"]["rollout_correction"]["rollout_is_threshold"] == 2.0
    trainer = config["trainer"]
    assert (trainer["total_training_steps"], trainer["save_freq"], trainer["test_freq"]) == (400, 50, 10)
    assert (config["data"]["max_prompt_length"], config["data"]["max_response_length"]) == (8192 - 256, 256)


def test_eog() -> None:
    """Two updates of each of two minibatches, and a warm-up of 10 of 108 steps."""
    actor = config_of(load_recipe("eog"))["actor_rollout_ref"]["actor"]
    assert (actor["ppo_mini_batch_size"], actor["ppo_epochs"]) == (128, 2)
    assert (actor["loss_agg_mode"], actor["loss_scale_factor"]) == ("seq-mean-token-mean", None)
    assert (actor["use_kl_loss"], actor["optim"]["lr_warmup_steps"]) == (False, 10)
    assert actor["ppo_max_token_len_per_gpu"] == 25001  # a walk is never cut: 25,000 tokens, and the one that closes it


@pytest.mark.parametrize(
    ("recipe", "value", "message"),
    [
        ("kgwalk", "model.lora_rank=16", "model.lora_rank is 16, and on verl all weights are trained"),
        ("kg-r1", "curriculum.order=variance", "curriculum.order is variance, which follows the rewards"),
        ("kg-r1", "grpo.minutes=5.0", "grpo.minutes is 5, and verl counts steps alone"),
        ("kg-r1", "grpo.patience=30", "grpo.patience is 30, and verl takes all steps"),
        ("kg-hopper", "curriculum.order=shuffled", "rewards of kg-hopper that ask a judge cannot be trained on it"),
        ("eog", "grpo.minibatches=3", "grpo.questions is 256 and grpo.minibatches is 3"),
        ("eog", "verl.gpus=5", "a minibatch has 768 walks"),
        ("eog", "verl.tensor_parallel=2", "verl.tensor_parallel is 2 and there are 1 GPUs"),
        ("eog", "verl.gpu=2", "unknown setting `verl.gpu`; did you mean `verl.gpus`"),
    ],
)
def test_refusals(recipe: str, value: str, message: str) -> None:
    with pytest.raises(KgwalkError) as error:
        check_verl(load_recipe(recipe).with_values([value]))
    assert message in str(error.value)


def test_questions_stand_in_the_order_of_the_curriculum(tmp_path: Path) -> None:
    """verl reads the file from top to bottom, so a step asks what it asks natively."""
    questions = [Question(f"q{number}", f"{number}?", ["x"], [str(number)]) for number in range(5)]
    native = Curriculum(questions, CurriculumSettings(), batch=2, seed=3)
    chosen = questions_of_steps(Curriculum(questions, CurriculumSettings(), batch=2, seed=3), 4)
    assert chosen == [native.questions(step) for step in (1, 2, 3, 4)]
    write_questions(tmp_path / "train.parquet", questions, chosen, "train")
    rows = pyarrow.parquet.read_table(tmp_path / "train.parquet").to_pylist()
    assert [row["extra_info"]["number"] for row in rows] == [number for step in chosen for number in step]
    first = chosen[0][1]
    assert rows[1] == {
        "data_source": "train",
        "prompt": [{"role": "user", "content": f"{first}?"}],
        "reward_model": {"style": "rule", "ground_truth": str(first)},
        "extra_info": {"index": first, "number": first, "place": 1, "split": "train"},
    }


def test_a_process_of_verl_rebuilds_the_run_from_its_folder(tmp_path: Path) -> None:
    recipe, data = load_recipe("kg-r1").with_profile("smoke"), load_dataset("world")
    about = {"recipe": "kg-r1", "sections": recipe.resolved(), "data": data.place(), "split": "train", "dev": "dev"}
    with begin_run(tmp_path, "train", {**about, "limit": 4, "seed": 3, "start": None}):
        job = VerlJob.read(tmp_path)
    run = job.training_run()
    assert (job.context, job.settings.group, run.protocol.name, len(run.questions)) == (4096, 5, "kg-r1", 4)
    assert {question.id for question in run.questions} <= {question.id for question in data.questions("train")}
