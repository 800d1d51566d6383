"""The environment for verifiers 0.3: real rollouts of the real package, with a scripted model behind a server.

`make test-verifiers` runs this in an environment of its own; elsewhere it is skipped.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verifiers.legacy", reason="verifiers 0.3 is not installed here: make test-verifiers")
pytest.importorskip("verifiers_kgwalk", reason="verifiers-kgwalk is not installed here: make test-verifiers")

import verifiers as vf
from openai import AsyncOpenAI
from verifiers.types import ClientConfig
from verifiers_kgwalk import KgwalkEnv, load_environment

import kgwalk
from api_server import Api, failure, serving
from kgwalk.types import KgwalkError
from verifiers_films import HALF, RIGHT, own_evaluation, says, write_films


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KGWALK_AGENT", "none")
    monkeypatch.setenv("KEY_OF_THE_TEST", "sk-test")
    return write_films(tmp_path / "films")


def evaluated(env: vf.Environment, url: str, **other: Any) -> list[dict[str, Any]]:
    client = ClientConfig(api_base_url=f"{url}/v1", api_key_var="KEY_OF_THE_TEST", max_retries=0)
    asked = {"model": "scripted", "state_columns": ["kgwalk", "trajectory"], "on_progress": lambda *told: None, **other}
    found = asyncio.run(env.evaluate(client, **asked))
    return sorted(found["outputs"], key=lambda output: output["example_id"])


def test_a_right_walk_is_paid_as_our_own_evaluation_scores_it(data: Path) -> None:
    """Both directors: F1 1, found 1, all turns valid. The recipe pays 1.0, 0.2 and 0.1 of these: 1.3."""
    env = vf.load_environment("verifiers-kgwalk", data=str(data), recipe="kgwalk")
    with serving(says(*RIGHT)) as (api, url):
        found, other = evaluated(env, url)
        asked = list(api.asked)
        ours = own_evaluation(data, url, "hanks")
    assert found["reward"] == pytest.approx(1.3)
    assert found["metrics"]["f1"] == ours["f1"] == 1.0
    for name in ("hits_at_1", "retrieval_rate", "turns", "invalid_calls", "answered"):
        assert found["metrics"][name] == ours[name]
    assert found["kgwalk"]["answers"] == ["Penny Marshall", "Robert Zemeckis"]
    assert found["kgwalk"]["evidence"]["Robert Zemeckis"] == [
        ["Cast Away", "starred_actors", "Tom Hanks"],
        ["Cast Away", "directed_by", "Robert Zemeckis"],
    ]
    assert found["kgwalk"]["stop"] == "answered"
    assert (other["reward"], other["kgwalk"]["answers"]) == (0.0, ["nobody"])
    assert [message["role"] for message in found["completion"]] == ["assistant", "user"] * 2 + ["assistant"]
    assert all(body["max_completion_tokens"] == 64 for body in asked)  # rollout.turn_tokens
    assert all("</answer>" in body["stop"] for body in asked)


def test_the_model_reads_what_our_own_rollout_tells_it(data: Path) -> None:
    """The last request of a walk has the whole conversation: the same here and in `kgwalk eval`."""
    env = vf.load_environment("verifiers-kgwalk", data=str(data))

    def last(api: Api) -> list[dict[str, str]]:
        bodies = [body["messages"] for body in api.asked if any("Hanks" in one["content"] for one in body["messages"])]
        return [{"role": one["role"], "content": one["content"]} for one in max(bodies, key=len)]

    with serving(says(*RIGHT)) as (here, url):
        evaluated(env, url)
        theirs = last(here)
    with serving(says(*RIGHT)) as (there, url):
        own_evaluation(data, url, "hanks")
        ours = last(there)
    assert [one for one in theirs if one["role"] != "assistant"] == [one for one in ours if one["role"] != "assistant"]
    assert len(theirs) == len(ours)


def test_half_of_the_answer_is_paid_less(data: Path) -> None:
    """One of two: F1 2/3. Nothing that was shown names it: found 0. Valid turns are paid in proportion to F1."""
    env = vf.load_environment("verifiers-kgwalk", data=str(data))
    with serving(says(*HALF)) as (_, url):
        found = evaluated(env, url)[0]
    assert found["metrics"]["f1"] == pytest.approx(2 / 3)
    paid = found["kgwalk"]["rewards"]
    assert found["reward"] == pytest.approx(paid["f1"] + 0.2 * paid["retrieval"] + 0.1 * paid["validity"])


def test_turn_rewards_of_kg_r1_and_rollouts_side_by_side(data: Path) -> None:
    """Eight rollouts at once keep apart; KG-R1 pays each turn, and the reward has the mean of them."""
    env = vf.load_environment("verifiers-kgwalk", data=str(data), recipe="kg-r1", eval_split="train")
    walk = ['<think>t</think><kg-query>get_tail_entities("Big", "directed_by")</kg-query>']
    walk.append('<think>t</think><answer>["Penny Marshall"]</answer>')
    with serving(says(*walk, to="Big")) as (_, url):
        found = evaluated(env, url, rollouts_per_example=8)
    assert len(found) == 8
    for one in found:
        rewards = one["kgwalk"]["rewards"]
        turns = [step["extras"]["turn_reward"] for step in one["trajectory"]]
        assert one["metrics"]["f1"] == 1.0
        whole = rewards["f1"] + rewards["retrieval"]
        assert one["reward"] == pytest.approx(whole + sum(turns) / len(turns))


def test_another_graph_for_the_same_questions(data: Path, tmp_path: Path) -> None:
    """A graph in which Big was directed by somebody else: the walk answers with her, and is wrong by the dataset."""
    (tmp_path / "other.tsv").write_text("Big\tdirected_by\tGreta Gerwig\n")
    kgwalk.build_graph([tmp_path / "other.tsv"], tmp_path / "other.kg")
    env = vf.load_environment("verifiers-kgwalk", graph=str(tmp_path / "other.kg"), data=str(data), eval_split="train")
    with serving(says('tail_entities($1, "directed_by")', "<answer>$2</answer>", to="Big")) as (_, url):
        found = evaluated(env, url)[0]
    assert found["kgwalk"]["answers"] == ["Greta Gerwig"]
    assert found["reward"] == 0.0


def test_a_model_that_fails_and_one_that_never_answers(data: Path) -> None:
    """A server that refuses is an error of the rollout; verifiers' own limit of turns ends a walk unpaid."""
    env = vf.load_environment("verifiers-kgwalk", data=str(data), limit=1)
    with serving([failure(400, "no")]) as (_, url):
        broken = evaluated(env, url)[0]
    assert broken["error"] is not None
    assert broken["reward"] == 0.0
    short = vf.load_environment("verifiers-kgwalk", data=str(data), limit=1, max_turns=1)
    with serving(says(*RIGHT)) as (_, url):
        cut = evaluated(short, url)[0]
    assert cut["stop_condition"] == "max_turns_reached"
    assert cut["kgwalk"]["answers"] == []
    assert cut["reward"] == 0.0


def test_the_training_questions_and_a_client_of_openai(data: Path) -> None:
    env = vf.load_environment("verifiers-kgwalk", data=str(data))
    assert isinstance(env, KgwalkEnv)
    assert [row["answer"] for row in env.get_dataset()] == ["Penny Marshall"]
    assert [row["info"]["id"] for row in env.get_eval_dataset()] == ["hanks", "big"]
    with serving(says(*RIGHT)) as (_, url):
        row = env.get_eval_dataset().to_list()[0]

        async def rolled_out() -> Any:
            async with AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-test") as client:
                return await env.rollout(row, vf.OpenAIChatCompletionsClient(client), "scripted", {"temperature": 1.0})

        state = asyncio.run(rolled_out())
    assert state["kgwalk"]["answers"] == ["Penny Marshall", "Robert Zemeckis"]


def test_what_cannot_be_paid_is_refused(data: Path) -> None:
    with pytest.raises(KgwalkError, match=r"need a judge of correct, reasoning, .*set their weights to 0"):
        load_environment(data=str(data), recipe="kg-hopper")
    by_rule = ["rewards.reasoning=0", "rewards.correct=0", "rewards.f1=1"]
    assert load_environment(data=str(data), recipe="kg-hopper", values=by_rule).questions["train"]
