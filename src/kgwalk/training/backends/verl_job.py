"""What verl's processes read of a run: its questions in verl's format, and the run itself, rebuilt from its folder.

    run/run.json                what was run, with every setting resolved
    run/grpo/verl/config.yaml   verl's configuration (`verl_config`)
    run/grpo/verl/train.parquet the questions of all steps, in the curriculum's order; held_out.parquet to validate on
    run/grpo/walks/*.jsonl      a row for each walk, one file for each process that walked
    run/grpo/checkpoints        verl's own

A question's row says where it stands (split, number), not what it is: every process opens the dataset and its graph
itself, so both must lie where every node finds them, and the run's folder as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgwalk.config.recipe import Recipe, read_section
from kgwalk.config.run_folder import open_run
from kgwalk.data.mixture import load_data
from kgwalk.training.curriculum import Curriculum
from kgwalk.training.settings import GrpoSettings
from kgwalk.types import Question, silent
from kgwalk.walk.policy import budget_of

if TYPE_CHECKING:
    from kgwalk.training.run import TrainingRun

STAGE, VERL, WALKS = "grpo", "verl", "walks"


@dataclass(frozen=True)
class VerlJob:
    """A run whose GRPO is done by verl, as its processes see it."""

    folder: Path
    recipe: Recipe
    run_settings: dict[str, Any]  # of run.json

    @classmethod
    def read(cls, folder: Path) -> VerlJob:
        settings = open_run(folder).about["settings"]
        return cls(folder, Recipe(settings["recipe"], settings["sections"]), settings)

    @property
    def stage(self) -> Path:
        return self.folder / STAGE

    @property
    def settings(self) -> GrpoSettings:
        return read_section(GrpoSettings, self.recipe, "grpo")

    @property
    def context(self) -> int:
        return budget_of(self.recipe).total_tokens

    def training_run(self) -> TrainingRun:
        """The run with its questions, environments and rewards; nothing is trained with it."""
        from kgwalk.training.run import TrainingRun
        from kgwalk.training.updater import Processes

        given = self.run_settings
        return TrainingRun(
            recipe=self.recipe,
            dataset=load_data(_data_of(given["data"]), given["seed"]),
            path=self.folder,
            split=given["split"],
            dev=given["dev"],
            limit=given["limit"],
            incomplete=self.recipe.section("train").get("incomplete"),
            seed=given["seed"],
            start=None if given["start"] is None else Path(given["start"]),
            demos=None,
            judge=None,
            device="cpu",
            report_to="none",
            progress=silent,
            processes=Processes("cpu"),
        )


def _data_of(place: Any) -> str | list[str]:
    """What `load_data` takes, of what a dataset says of its place."""
    return place if isinstance(place, str) else [f"{part['data']}:{part['take']}" for part in place]


def write_questions(path: Path, questions: Sequence[Question], chosen: Sequence[Sequence[int]], split: str) -> None:
    """A file in verl's format: of each step the chosen questions, by their numbers, one row each.

    verl wants a prompt and a right answer in each row. It shows them in its logs; walks have prompts of their own.
    """
    import pyarrow
    import pyarrow.parquet

    rows = [
        {
            "data_source": split,
            "prompt": [{"role": "user", "content": questions[number].question}],
            "reward_model": {"style": "rule", "ground_truth": ", ".join(questions[number].answers)},
            "extra_info": {"index": number, "number": number, "place": place, "split": split},
        }
        for step in chosen
        for place, number in enumerate(step)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), str(path))


def questions_of_steps(curriculum: Curriculum, steps: int) -> list[list[int]]:
    """The questions of each step, as the native trainer asks them: for orders that no reward decides."""
    return [curriculum.questions(step) for step in range(1, steps + 1)]
