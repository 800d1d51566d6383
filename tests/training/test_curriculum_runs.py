"""Which questions a run asks again, end to end: KG-Hopper's history with a judge's rewards, KG-Reasoner's hard cases.

Six questions, three a step: two steps are an epoch, and the third is the first of the second epoch. The model is random
and says nonsense, so that what it earns is what the judge says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from api_server import completion, serving
from kgwalk.config.recipe import load_recipe
from kgwalk.config.run_folder import read_json, read_rows
from kgwalk.data.dataset import Dataset, load_dataset
from kgwalk.training.pipeline import train
from tiny_models import UNTAUGHT_VALUES  # also: one thread for torch

LANDS = {"Norway": "Oslo", "Sweden": "Stockholm", "Finland": "Helsinki", "Denmark": "Copenhagen"}
ONE_HOP = ("Norway", "Sweden")
SIZES = (*UNTAUGHT_VALUES, "grpo.questions=3", "grpo.steps=3", "grpo.episodes=3", "protocol.turns=2", "rewards.luck=0")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The capital of two lands (one hop), and the river of the capital of each (two hops)."""
    folder = tmp_path_factory.mktemp("lands")
    capitals = [(land, "capital", city) for land, city in LANDS.items()]
    rivers = [(city, "river", f"River of {city}") for city in LANDS.values()]
    (folder / "kg.tsv").write_text("".join("\t".join(fact) + "\n" for fact in [*capitals, *rivers]))
    rows = [
        {
            "id": f"{land} {len(path)}",
            "question": f"what is the {' of the '.join(fact[1] for fact in reversed(path))} of {land}?",
            "topic_entities": [land],
            "answers": [path[-1][2]],
            "hops": len(path),
            "gold_paths": [path],
        }
        for facts in zip(capitals, rivers, strict=True)
        for path in ([facts[0]], [*facts])
        if (land := facts[0][0]) in ONE_HOP or len(path) == 2
    ]
    for split in ("train", "dev"):
        (folder / f"{split}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return load_dataset(folder)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    return


def asked(run: Path) -> dict[int, set[str]]:
    """The ids of the questions of each step."""
    found: dict[int, set[str]] = {}
    for row in read_rows(run / "grpo" / "episodes.jsonl"):
        found.setdefault(row["step"], set()).add(row["episode"]["question"]["id"])
    return found


def grade(body: Any) -> float:
    """The reasoning about Finland is perfect, any other poor."""
    return 1.0 if "Finland" in body["messages"][1]["content"] else 0.25


def judged(path: str, body: Any) -> Any:
    key = re.findall(r'"key": "([0-9a-f]{8})"', body["messages"][-1]["content"])[-1]
    return completion(f'{{"verdict": {{"reasoning": {grade(body)}}}, "key": "{key}"}}')


def test_kg_hopper_is_paid_by_a_judge_and_asks_again_what_is_not_solved(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both rollouts of the question about Finland have a reward of 1, by their reasoning alone: nothing is answered, so
    nothing is solved. In the second epoch there is no question of a single hop: the four of two hops are left,
    also that about Finland. Counted by the reward, `solved = 0.8` would have dropped it."""
    recipe = load_recipe("kg-hopper")
    assert recipe.section("curriculum") == {"order": "history", "first_epochs": 1}
    assert (recipe.section("rewards")["reasoning"], recipe.section("rewards")["correct"]) == (1.0, 1.0)
    rewards = ["rewards.reasoning=1", "rewards.correct=1", "rewards.exact=0", "curriculum.solved=0.8"]
    with serving(judged) as (api, url):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
        values = [*SIZES, *rewards, "grpo.steps=4", 'train.stages=["grpo"]']
        train(
            "kg-hopper", data, out=tmp_path / "run", profile="smoke", values=values, judge="api:judge", report_to="none"
        )
        assert {body["model"] for body in api.asked} == {"judge"}
        assert all("graph" in body["messages"][0]["content"] for body in api.asked)
    rows = list(read_rows(tmp_path / "run" / "grpo" / "episodes.jsonl"))
    for row in rows:
        verdict = 1.0 if row["episode"]["question"]["id"].startswith("Finland") else 0.25
        assert row["rewards"]["parts"]["reasoning"] == verdict
        assert row["rewards"]["parts"]["correct"] == 0  # without an answer there is nothing to ask
        assert row["rewards"]["whole"] == verdict
    first, second, *_ = read_rows(tmp_path / "run" / "grpo" / "metrics.jsonl")
    assert first["reward"] + second["reward"] == pytest.approx((1.0 + 5 * 0.25) / 3)  # six questions, three a step
    assert first["no_verdict"] == second["no_verdict"] == 0
    steps = asked(tmp_path / "run")
    assert steps[1] | steps[2] == {"Norway 1", "Norway 2", "Sweden 1", "Sweden 2", "Finland 2", "Denmark 2"}
    assert steps[3] | steps[4] == {"Norway 2", "Sweden 2", "Finland 2", "Denmark 2"}


def test_a_judge_that_fails_pays_nothing_and_is_counted(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(lambda path, body: completion("It is fine. 1")) as (_, url):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
        values = [*SIZES, "rewards.reasoning=1", "grpo.steps=1", 'train.stages=["grpo"]']
        train(
            "kg-hopper", data, out=tmp_path / "run", profile="smoke", values=values, judge="api:judge", report_to="none"
        )
    [row] = read_rows(tmp_path / "run" / "grpo" / "metrics.jsonl")
    assert (row["reward"], row["no_verdict"]) == (0, 1)


def test_kg_reasoner_asks_again_what_was_hard_in_sft(data: Dataset, tmp_path: Path) -> None:
    """The harder half of the six questions, by their loss, and of those the ones of two hops."""
    hard = {"order": "hard", "first_epochs": 1, "hard_unknown": "leave"}
    assert load_recipe("kg-reasoner").section("curriculum") == hard
    values = [*SIZES, 'train.stages=["demos", "sft", "grpo"]', "grpo.questions=2", "grpo.steps=4"]
    train("kg-reasoner", data, out=tmp_path / "run", profile="smoke", values=values, report_to="none")
    losses = read_json(tmp_path / "run" / "sft" / "losses.json")
    assert len(losses) == 6
    harder = {name for name in sorted(losses, key=losses.__getitem__)[3:] if name.endswith("2")}
    steps = asked(tmp_path / "run")
    assert steps[1] | steps[2] | steps[3] == set(losses)
    assert steps[4] <= harder
    assert len(steps[4]) == min(2, len(harder))
