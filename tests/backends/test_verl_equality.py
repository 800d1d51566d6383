"""One step of verl, by its own entry point, with two FSDP processes: the native trainer's gradient and weights."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("verl", reason="verl is not installed here: `make test-verl` runs these tests")

from case import GROUPS, TOLERANCE, difference, make_case
from safetensors import safe_open
from safetensors.torch import load_file
from verl_process import CASE, GRADIENT, OVERRIDES, REFERENCE, TWO_PROCESSES, VARIABLES

from kgwalk.config.recipe import load_recipe
from kgwalk.training.backends.verl_config import check_verl, verl_config
from kgwalk.training.backends.verl_job import write_questions
from kgwalk.training.backends.verl_stage import MODULES, PLUGIN, command, write_config
from kgwalk.types import Question


def one_step(place: Path, folder: Path, reference: Path) -> tuple[Path, Path]:
    """verl trains for one step on the episodes of a case; the files of its first gradient and of its weights.

    The questions are numbers of the case's groups, for the agent loop `replay`; all else is as `kgwalk train` has it.
    """
    about = json.loads((place / "case.json").read_text("utf-8"))
    values = [f"grpo.{name}={json.dumps(value)}" for name, value in (about["settings"] | {"steps": 1}).items()]
    recipe = load_recipe(about["recipe"]).with_profile("smoke").with_values([*values, *TWO_PROCESSES])
    check_verl(recipe)
    questions = [Question(f"group {number}", "?", [], []) for number in range(GROUPS)]
    write_questions(folder / "train.parquet", questions, [range(GROUPS)], "train")
    config = verl_config(
        recipe,
        run=folder,
        stage=folder,
        model=place / "model",
        questions=folder / "train.parquet",
        held_out=None,
        seed=0,
    )
    config["actor_rollout_ref"]["rollout"]["agent"]["default_agent_loop"] = "replay"
    write_config(folder, config)
    gradient = folder / "gradient.safetensors"
    own = {CASE: str(place), GRADIENT: str(gradient), REFERENCE: str(reference), MODULES: f"verl_cpu,{PLUGIN}"}
    environment = os.environ | VARIABLES | own | {"VERL_FILE_LOGGER_PATH": str(folder / "metrics.jsonl")}
    said = subprocess.run(command(folder, OVERRIDES), env=environment, cwd=folder, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout[-4000:] + said.stderr[-4000:]
    return gradient, folder / "checkpoints" / "global_step_1" / "actor" / "huggingface" / "model.safetensors"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "moved"), [("kg-r1", "-moved"), ("eog", "")])
def test_verl_makes_the_native_update(tmp_path: Path, name: str, moved: str) -> None:
    """With a walk that failed and a group that earned the same; kg-r1 with a reference that was moved, so that the KL
    term has a gradient, too."""
    place = make_case(name, tmp_path / "cases")
    folder = tmp_path / "verl"
    folder.mkdir()
    gradient, weights = one_step(place, folder, place / ("reference" if moved else "model"))
    with safe_open(gradient, "pt") as file:
        assert file.metadata() == {"processes": "2", "engine": "FSDPLlamaForCausalLM"}
    apart = difference(load_file(gradient), place / f"gradient{moved}.safetensors")
    assert apart < TOLERANCE
    assert difference(load_file(weights), place / f"weights{moved}.safetensors") < TOLERANCE
    print(f"{name}: the gradient is {apart:.1e} from the native one")
