"""KG-Hopper to the letter: the transcript that its section III-B prints is read, and earns what equations 1 to 5 say;
history resampling drops what was answered; questions without gold answers are trained on through a judge. The syntax is
the paper's, the content the bundled graph's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from api_server import completion, serving
from kgwalk.config.recipe import load_recipe
from kgwalk.config.run_folder import read_rows
from kgwalk.data.bundled import world_folder
from kgwalk.data.dataset import load_dataset
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.score.episode import measure
from kgwalk.score.judge.judge import Judge, reply_to
from kgwalk.score.judge.kinds import case_of
from kgwalk.score.rewards import Outcome, RewardFunction
from kgwalk.training.pipeline import train
from kgwalk.types import Answer, Call, KgwalkError, Malformed, Question
from kgwalk.walk.policy import protocol_named
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import Budget, rollout
from tiny_models import save_tiny  # noqa: F401  one thread for torch

WIDE = Budget(turn_tokens=1 << 12, observation_tokens=1 << 12, total_tokens=1 << 16)
NIAMEY = Question("niamey", "what is the capital of Niger?", ["Niger"], ["Niamey"])
# Section III-B: a search inside the thought, its entity in small letters; a full stop after what was found; the answer
# without quotes or brackets, after a blank.
PRINTED = (
    "<think>Given the information, I don't have specific knowledge about Niger's capital. I will perform a search for "
    "the required information. The query to search for is <search>niger</search>",
    ". Based on the search results, I found that its capital is Niamey.</think> <answer>The city of Niamey</answer>",
)


@pytest.fixture(scope="module")
def graph() -> StoredGraph:
    dataset = load_dataset(world_folder())
    found = dataset.graph_for(dataset.questions("train")[0])
    assert isinstance(found, StoredGraph)
    return found


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    return


def walked(graph: StoredGraph, *script: str, judged: dict[str, float | None] | None = None, **settings: Any) -> Outcome:
    protocol = protocol_named("kg-hopper", **settings)
    task = Task(NIAMEY, NIAMEY.topic_entities)
    [episode] = rollout([(task, Environment(graph))], protocol, ScriptedEngine(list(script)), budget=WIDE)
    return Outcome(episode, measure(episode, graph), judged=judged or {"reasoning": 0.7, "correct": 1})


def paid(outcome: Outcome, *values: str) -> float:
    return RewardFunction.of(load_recipe("kg-hopper").with_values(values))(outcome).whole


# Transcripts


@pytest.mark.parametrize("tag", ["searched_triples", "triples"])  # III-B has the first, III-D the second
def test_the_printed_transcript(tag: str, graph: StoredGraph) -> None:
    """One search, all tags in place, a grade of 0.7, an answer that means the same: 0.5 + 0.5 + 0.7 + 1 = 2.7."""
    outcome = walked(graph, *PRINTED, tag=tag)
    first, last = outcome.episode.turns
    assert first.step == Call("search", ("niger",))
    assert first.observation.startswith(f"<{tag}>")
    assert "(Niger, capital, Niamey)" in first.observation
    assert last.step == Answer(("The city of Niamey",))
    assert paid(outcome) == pytest.approx(2.7)
    # by rule the name is another one: that is what the judge of answers is for
    assert outcome.metrics["exact_set"] == 0
    assert outcome.right


def test_the_triples_are_masked(graph: StoredGraph) -> None:
    """III-D: what a search found counts in no loss, what the model wrote does."""
    episode = walked(graph, *PRINTED).episode
    flat = episode.flatten()
    assert sum(flat.mask) == sum(len(turn.ids) for turn in episode.turns)
    assert len(flat.ids) == len(episode.prompt_ids) + sum(flat.mask) + len(episode.turns[0].observation_ids)


SEARCH = "<think>I look. <search>Niger</search>"
MORE = "And <search>Niamey</search>"
MISSING = "And <search>Nowhere at all</search>"
END = "So.</think><answer>Niamey</answer>"


@pytest.mark.parametrize(
    ("script", "n", "search", "form"),
    [
        ((SEARCH, END), 1, 0.5, 0.5),
        ((SEARCH, MORE, END), 2, 0.8, 0.5),  # min(1.0, 0.8)
        ((SEARCH, MORE, MORE, END), 3, 0.8, 0.5),
        ((SEARCH, MISSING, END), 2, 0.8, 0.5),  # n: times the tool was invoked, whatever came back
        (("<think>I know.</think><answer>Niamey</answer>",), 0, 0.0, 0.0),  # no search tag: not all tags are there
        ((SEARCH, "Hm, what now?", END), 1, 0.5, 0.0),
        ((SEARCH, "So.</think> Niamey"), 1, 0.5, 0.0),
        ((SEARCH, "<searched_triples>(Niger, capital, Rome)</searched_triples>" + END, END), 1, 0.5, 0.0),
        (("<search>Niger</search>", SEARCH, END), 1, 0.5, 0.0),  # a search outside the thought
    ],
)
def test_equations_1_and_2(script: tuple[str, ...], n: int, search: float, form: float, graph: StoredGraph) -> None:
    outcome = walked(graph, *script, judged={"reasoning": 0.0, "correct": 0})
    assert outcome.metrics["calls"] == n
    assert paid(outcome, "rewards.format=0") == pytest.approx(search)
    assert paid(outcome) == pytest.approx(search + form)


def test_what_no_form_allows(graph: StoredGraph) -> None:
    """Observation tags of either name are not the model's to write."""
    for made_up in ("<searched_triples>(a, b, c)</searched_triples>", "<triples>(a, b, c)</triples>"):
        outcome = walked(graph, f"<think>I know. {made_up} <search>Niger</search>", SEARCH, END)
        assert isinstance(outcome.episode.turns[0].step, Malformed)


# The judge, equations 3 and 4


def test_the_judges_are_shown_the_walk_and_the_answer(graph: StoredGraph) -> None:
    """f_r reads the reasoning and what was retrieved, and no gold answer; f_a the answer and the gold one; without gold
    answers it is told to go by what it knows."""
    episode = walked(graph, *PRINTED).episode
    asked: dict[str, str] = {}

    def script(request: Any) -> str:
        text = "\n".join(message.content for message in request.messages)
        kind = "reasoning" if '"reasoning"' in text else "correct"
        asked[kind] = text
        return reply_to(request, {kind: 1 if kind == "correct" else 0.7})

    with Judge(ScriptedEngine(script), model_name="scripted") as judge:
        verdicts = judge.judge_all([case_of(kind, episode) for kind in ("reasoning", "correct")])
    assert [verdict.number for verdict in verdicts] == [0.7, 1]
    assert "(Niger, capital, Niamey)" in asked["reasoning"]
    assert "<gold>" not in asked["reasoning"]
    assert '<gold>\n"Niamey"\n</gold>' in asked["correct"]
    episode.question = Question("niamey", NIAMEY.question, ["Niger"], [])
    with Judge(ScriptedEngine(script), model_name="scripted") as judge:
        assert judge.judge_all([case_of("correct", episode)])[0].number == 1
    assert "<gold>" not in asked["correct"]
    assert "from your own knowledge" in asked["correct"]


# Training


def questions(folder: Path, *, answers: bool) -> Path:
    """The capitals of four lands, said to be two hops away; with or without their answers."""
    lands = {"Norway": "Oslo", "Sweden": "Stockholm", "Finland": "Helsinki", "Denmark": "Copenhagen"}
    folder.mkdir()
    (folder / "kg.tsv").write_text("".join(f"{land}\tcapital\t{city}\n" for land, city in lands.items()))
    rows = [
        {
            "id": land,
            "question": f"what is the capital of {land}?",
            "topic_entities": [land],
            "answers": [city] if answers else [],
            "hops": 2,
        }
        for land, city in lands.items()
    ]
    (folder / "train.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return folder


def judged(grade: float, correct: int) -> Any:
    def reply(path: str, body: Any) -> Any:
        text = body["messages"][-1]["content"]
        key = re.findall(r'"key": "([0-9a-f]{8})"', text)[-1]
        verdict = f'"reasoning": {grade}' if '"reasoning"' in text else f'"correct": {correct}'
        return completion(f'{{"verdict": {{{verdict}}}, "key": "{key}"}}')

    return reply


VALUES = (
    *('train.stages=["grpo"]', "train.limit=100", "rewards.reasoning=1", "rewards.correct=1", "rewards.exact=0"),
    *(
        "grpo.questions=4",
        "grpo.group=2",
        "grpo.eval_questions=0",
        "grpo.episodes=4",
        "protocol.turns=2",
    ),
)


def run_judged(data: Path, out: Path, reply: Any, monkeypatch: pytest.MonkeyPatch, *values: str) -> list[Any]:
    with serving(reply) as (api, url):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
        settings = {"profile": "smoke", "judge": "api:judge", "report_to": "none"}
        train("kg-hopper", load_dataset(data), out=out, values=[*VALUES, *values], **settings)  # type: ignore[arg-type]
        return list(api.asked)


def test_questions_without_answers_are_trained_on_through_the_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = questions(tmp_path / "lands", answers=False)
    asked = run_judged(data, tmp_path / "run", judged(0.75, 1), monkeypatch, "grpo.steps=1")
    assert asked
    assert not any("<gold>" in body["messages"][-1]["content"] for body in asked)
    [row] = read_rows(tmp_path / "run" / "grpo" / "metrics.jsonl")
    assert row["reward_reasoning"] == 0.75
    with pytest.raises(KgwalkError, match="question 'Norway' has no answer") as refused:  # exact looks at the answers
        run_judged(data, tmp_path / "other", judged(1, 1), monkeypatch, "grpo.steps=1", "rewards.exact=1")
    assert "--judge" in str(refused.value)


def test_a_smoke_run_with_a_judge_earns_every_part_of_equation_5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four demonstrations learnt by heart, then walked again: searches, the form, and the judge's two verdicts. It is
    asked for verdicts alone, without reasons."""
    data = questions(tmp_path / "lands", answers=True)
    values = ("train.stages=['demos', 'sft', 'grpo']", "demos.sources=['search']", "grpo.steps=1", "protocol.turns=3")
    asked = run_judged(data, tmp_path / "run", judged(0.75, 1), monkeypatch, *values, "judge.reasons=false")
    [row] = read_rows(tmp_path / "run" / "grpo" / "metrics.jsonl")
    for part in ("search", "format", "reasoning", "correct"):
        assert row[f"reward_{part}"] > 0, part
    assert not any("Give your reasons first" in body["messages"][-1]["content"] for body in asked)


def test_good_reasoning_with_wrong_answers_stays_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reasoning is perfect and nothing is answered. Two epochs of four questions, two a step: in the second all
    are asked again. By the reward alone, `solved = 1.0`, they would have been solved."""
    assert load_recipe("kg-hopper").section("curriculum") == {"order": "history", "first_epochs": 1}
    data = questions(tmp_path / "lands", answers=True)
    values = ("curriculum.solved=1.0", "grpo.questions=2", "grpo.steps=4")
    run_judged(data, tmp_path / "run", judged(1.0, 0), monkeypatch, *values)
    asked: dict[int, list[str]] = {}
    for row in read_rows(tmp_path / "run" / "grpo" / "episodes.jsonl"):
        assert row["rewards"]["whole"] >= 1.0
        asked.setdefault(row["step"], []).append(row["episode"]["question"]["id"])
    assert sorted(asked[3] + asked[4]) == ["Denmark", "Finland", "Norway", "Sweden"]
