"""A graph as TRL's environment: its tools and its reward by hand, in TRL's own loop, and the example as it stands."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from commands import ENVIRONMENT
from conftest import FILMS, store_of
from kgwalk.kg.graph import Graph
from kgwalk.training.backends.trl_environment import GraphEnvironment, question_rows
from kgwalk.types import KgwalkError, Question, RemoteError

ROOT = Path(__file__).parents[2]
ASKED = Question(
    "q", "who directed the films Tom Hanks starred in?", ["Tom Hanks"], ["Penny Marshall", "Robert Zemeckis"]
)
HAS_TRL = importlib.util.find_spec("trl") is not None
needs_trl = pytest.mark.skipif(not HAS_TRL, reason="trl is not installed here; `make test-trl` makes an environment")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return store_of(tmp_path_factory.mktemp("films"), FILMS)


def test_a_rollout_by_hand(graph: Graph) -> None:
    environment = GraphEnvironment(lambda question: graph)
    row = question_rows([ASKED])[0]
    assert environment.reset(**row) is None
    assert environment.get_head_relations("Tom Hanks") == 'Head relations for entity "Tom Hanks": starred_actors'
    found = environment.get_head_entities("Tom Hanks", "starred_actors")
    assert found == 'Head entities for relation "starred_actors" with tail "Tom Hanks": Big, Cast Away'
    assert environment.get_tail_entities("Big", "director") == 'Relation "director" not found in KG'
    assert environment.get_reward() == 0.0  # nothing was answered yet
    environment.answer(["Penny Marshall"])
    assert environment.get_reward() == pytest.approx(2 / 3)  # 1 of 1 is right, 1 of 2 is found
    environment.reset(**row)
    assert environment.get_reward() == 0.0


def test_a_graph_that_fails_is_no_fault_of_the_model() -> None:
    def away(question: Question) -> Graph:
        raise RemoteError("the graph is away")

    environment = GraphEnvironment(away)
    with pytest.raises(KgwalkError, match="before `reset`"):
        environment.get_tail_relations("Big")
    environment.reset(**question_rows([ASKED])[0])
    with pytest.raises(RemoteError):
        environment.get_tail_relations("Big")  # TRL tells the model
    assert environment.get_reward() is None
    with pytest.raises(KgwalkError, match="no column kgwalk_question; make them with `question_rows`"):
        environment.reset(prompt="who?")


@needs_trl
def test_tools_are_called_in_trls_loop(graph: Graph, tmp_path: Path) -> None:
    """What the model writes is given; the tools, the mask and the reward are TRL's and the environment's."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    spec = importlib.util.spec_from_file_location("example", ROOT / "examples" / "trl_environment.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)

    def call(tool: str, **arguments: Any) -> str:
        return f"<tool_call>\n{json.dumps({'name': tool, 'arguments': arguments})}\n</tool_call><|im_end|>"

    walk = [
        call("get_head_entities", entity="Tom Hanks", relation="starred_actors"),
        call("answer", names=["Penny Marshall", "Robert Zemeckis"]),
        "Done.<|im_end|>",
    ]
    lazy = ["I do not know.<|im_end|>"]

    class Scripted(GRPOTrainer):  # type: ignore[misc]
        """The first of two rollouts walks, the second does not."""

        def _generate_single_turn(self, prompt_ids: list[list[int]], *others: Any, **options: Any) -> Any:
            rows = [walk, lazy] if len(prompt_ids) == 2 else [walk]
            self.turn = 0 if len(prompt_ids) == 2 else self.turn + 1
            told.append(self._tokenizer.decode(prompt_ids[0]))
            ids = [self._tokenizer(row[self.turn], add_special_tokens=False)["input_ids"] for row in rows]
            return ids, [[0.0] * len(row) for row in ids]

        def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
            out: dict[str, Any] = super()._generate_and_score_completions(inputs)
            made.append(out)
            return out

    told: list[str] = []
    made: list[dict[str, Any]] = []
    trainer = Scripted(
        model=example.tiny(tmp_path / "tiny"),
        args=GRPOConfig(
            output_dir=str(tmp_path / "out"),
            max_steps=1,
            num_generations=2,
            per_device_train_batch_size=2,
            max_completion_length=2000,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            logging_steps=1,
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list(question_rows([ASKED])),
        environment_factory=partial(GraphEnvironment, lambda question: graph),
    )
    trainer.train()
    assert "get_head_entities" in told[0]  # the tools stand in the prompt
    assert 'with tail "Tom Hanks": Big, Cast Away' in told[1]
    assert "The answer is noted." in told[2]
    row = next(row for row in trainer.state.log_history if "reward" in row)
    assert row["reward"] == 0.5  # F1 of 1 and of 0
    assert row["tools/call_frequency"] == 1.0  # two calls, two rollouts
    assert made[0]["advantages"].tolist() == pytest.approx([0.7071, -0.7071], abs=1e-3)
    own, all_ids = (int(made[0][name][0].sum()) for name in ("tool_mask", "completion_mask"))
    assert own < all_ids  # what the tools said is masked


@needs_trl
def test_the_example_runs() -> None:
    env = ENVIRONMENT | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(ROOT / "examples" / "trl_environment.py"), "tiny"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "'reward'" in done.stdout
