"""The taskset and the harness for verifiers 0.4: real episodes of the real package, with a scripted model.

`make test-verifiers` runs this in an environment of its own; elsewhere it is skipped.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verifiers.v1", reason="verifiers 0.4 is not installed here: make test-verifiers")
pytest.importorskip("verifiers_kgwalk.taskset", reason="verifiers-kgwalk is not installed here: make test-verifiers")

import verifiers.v1 as vf
from verifiers.v1.envs.single_agent import SingleAgentEnvConfig

from api_server import failure, serving
from verifiers_films import RIGHT, own_evaluation, says, write_films


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KGWALK_AGENT", "none")
    monkeypatch.setenv("KEY_OF_THE_TEST", "sk-test")
    return write_films(tmp_path / "films")


def episodes(data: Path, url: str, each: int = 1, taskset: dict[str, Any] | None = None, **task: Any) -> list[Any]:
    """All episodes of the taskset, side by side, in the order of its tasks."""
    chosen = {"id": "verifiers-kgwalk", **(taskset or {}), "task": {"data": str(data), **task}}
    config = SingleAgentEnvConfig.model_validate({"taskset": chosen, "agent": {"runtime": {"type": "subprocess"}}})
    client = vf.EvalClientConfig(base_url=f"{url}/v1", api_key_var="KEY_OF_THE_TEST")

    async def run() -> list[Any]:
        env = vf.load_environment(config)
        async with env.serving():
            model = vf.ModelContext("scripted", client)
            slots = [slot for task in env.taskset for slot in env.slots(task, each)]
            return list(await asyncio.gather(*(env.run_slot(slot, model) for slot in slots)))

    return asyncio.run(run())


def test_a_right_walk_is_paid_as_our_own_evaluation_scores_it(data: Path) -> None:
    """Both directors: F1 1, found 1, all turns valid. The recipe pays 1.0, 0.2 and 0.1 of these: 1.3."""
    with serving(says(*RIGHT)) as (api, url):
        right, wrong = episodes(data, url)
        asked = list(api.asked)
        ours = own_evaluation(data, url, "hanks")
    assert right.ok
    (trace,) = right.traces
    assert trace.reward == pytest.approx(1.3)
    assert {name: (one.score, one.weight) for name, one in trace.rewards.items() if one.weight} == {
        "f1": (1.0, 1.0),
        "retrieval": (1.0, 0.2),
        "validity": (1.0, 0.1),
    }
    for name in ("f1", "hits_at_1", "retrieval_rate", "turns", "invalid_calls", "answered"):
        assert trace.metrics[name] == ours[name]
    assert trace.info["kgwalk"]["answers"] == ["Penny Marshall", "Robert Zemeckis"]
    assert trace.info["kgwalk"]["evidence"]["Penny Marshall"][-1] == ["Big", "directed_by", "Penny Marshall"]
    assert [node.message.role for node in trace.nodes] == ["system", *["user", "assistant"] * 3]
    assert wrong.traces[0].reward == 0.0
    assert all("</answer>" in body["stop"] for body in asked)


def test_turn_rewards_of_kg_r1_and_rollouts_side_by_side(data: Path) -> None:
    """Four rollouts at once keep apart; each turn is paid, and the reward has the mean of them."""
    walk = ['<think>t</think><kg-query>get_tail_entities("Big", "directed_by")</kg-query>']
    walk.append('<think>t</think><answer>["Penny Marshall"]</answer>')
    with serving(says(*walk, to="Big")) as (_, url):
        found = episodes(data, url, each=4, taskset={"split": "train"}, recipe="kg-r1")
    assert len(found) == 4
    for one in found:
        (trace,) = one.traces
        turns = trace.info["kgwalk"]["turn_rewards"]
        rewards = trace.info["kgwalk"]["rewards"]
        assert len(turns) == 2
        assert trace.reward == pytest.approx(rewards["f1"] + rewards["retrieval"] + sum(turns) / 2)


def test_a_model_that_fails_is_an_error_of_the_episode(data: Path) -> None:
    with serving([failure(400, "no")]) as (_, url):
        (broken,) = episodes(data, url, taskset={"limit": 1})
    assert not broken.ok
    assert broken.traces[0].errors
