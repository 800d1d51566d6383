"""The numbers of an episode: walks on five facts, measured by hand; prompts with facts; failures; many at once."""

from __future__ import annotations

import doctest
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgwalk.bench.servers import ScanGraph
from kgwalk.llm.engine import Engine, ScriptedEngine
from kgwalk.score.answers import gold_of
from kgwalk.score.episode import measure, measure_all, retrieved, shown_to
from kgwalk.score.exploration import exploration, explored, gold_facts, named
from kgwalk.types import Answer, Call, Episode, Question, StopReason, Triple, Turn
from kgwalk.walk.policy import protocol_named
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import BYTES_A_TOKEN, Budget, rollout, tokens, tokens_used

FACTS = [
    Triple("Big", "starred_actors", "Tom Hanks"),
    Triple("Cast Away", "starred_actors", "Tom Hanks"),
    Triple("Big", "directed_by", "Penny Marshall"),
    Triple("Cast Away", "directed_by", "Robert Zemeckis"),
    Triple("Big", "genre", "Country music"),
]
QUESTION = Question(
    "q",
    "who directed the films Tom Hanks starred in?",
    ["Tom Hanks"],
    ["Penny Marshall", "Robert Zemeckis"],
    gold_paths=[[FACTS[0], FACTS[2]], [FACTS[1], FACTS[3]]],
    aliases={"Penny Marshall": ["m.01"]},
)
KG_R1 = [
    '<think>a</think><kg-query>get_head_entities("Tom Hanks", "starred_actors")</kg-query>',
    '<think>b</think><kg-query>get_tail_entities("Big", "directed_by")</kg-query>',
    '<think>c</think><answer>["penny marshall", "Nora Ephron"]</answer>',
]


def walk(name: str, script: list[str], question: Question = QUESTION, **settings: Any) -> Episode:
    protocol = protocol_named(name, **settings.pop("protocol", {}))
    task = Task(question, question.topic_entities)
    (episode,) = rollout(
        [(task, Environment(ScanGraph(FACTS)))], protocol, ScriptedEngine(script), budget=Budget(**settings)
    )
    return episode


def test_a_walk_by_hand() -> None:
    episode = walk("kg-r1", KG_R1)
    found = measure(episode)
    # Two predicted, one right, of two. Shown: Big, Cast Away, Penny Marshall. Told: three of the four gold facts.
    expected = {
        "f1": 0.5,
        "precision": 0.5,
        "recall": 0.5,
        "hits_at_1": 1.0,
        "exact_set": 0.0,
        "hit_any": 1.0,
        "hit_substring": 1.0,
        "em_token": 1.0,
        "retrieval_rate": 1.0,
        "retrieval_share": 0.5,
        "retrieval_all": 0.0,
        "turns": 3,
        "calls": 2,
        "invalid_calls": 0,
        "malformed": 0,
        "answered": 1.0,
        "failed": 0.0,
        "web_calls": 0,
        "web_failed": 0,
        "web_used": 0.0,
        "exploration_facts": 3.0,
        "exploration_coverage": 0.75,
        "exploration_precision": 1.0,
        "exploration_found": 1.0,
        "exploration_efficiency": 1.0,
    }
    assert {name: found[name] for name in expected} == expected
    assert found["generated_tokens"] == sum(map(len, KG_R1))  # an id a byte
    assert found["confidence"] == episode.confidence  # of the script's made-up chances
    others = {"generated_tokens", "prompt_tokens", "total_tokens", "seconds", "confidence", "likelihood"}
    assert set(found) - set(expected) == others


def test_mistakes_are_counted() -> None:
    episode = walk(
        "kg-r1", [KG_R1[0].replace("Tom", "Tim"), "hm", KG_R1[0], '<think>c</think><answer>["Big"]</answer>']
    )
    found = measure(episode)
    assert [found[name] for name in ("turns", "calls", "invalid_calls", "malformed")] == [4, 2, 1, 1]
    assert (found["f1"], found["retrieval_rate"]) == (0.0, 0.0)
    # Two facts told, both needed, though nothing right was answered.
    assert (found["exploration_coverage"], found["exploration_efficiency"]) == (0.5, 1.0)


@pytest.mark.parametrize("stop", [stop for stop in StopReason if stop != StopReason.answered])
def test_a_failure_has_zeros_and_all_its_numbers(stop: StopReason) -> None:
    episode = walk("kg-r1", KG_R1)
    whole = measure(episode)
    episode.stop, episode.turns, episode.evidence, episode.seen = (
        stop,
        [],
        {},
        [],
    )  # answers are left over: they do not count
    found = measure(episode)
    assert set(found) == set(whole) - {"exploration_efficiency", "confidence", "likelihood"}  # nothing was written
    zeros = set(found) - {"prompt_tokens", "total_tokens", "seconds", "failed"}
    assert {name: found[name] for name in zeros} == dict.fromkeys(zeros, 0.0)
    assert found["failed"] == float(stop in (StopReason.prompt, StopReason.tool_failed, StopReason.engine_failed))


def test_where_nothing_is_right_only_to_say_so_is() -> None:
    nothing = replace(QUESTION, answers=[], aliases={}, gold_paths=None)
    said = walk("kg-r1", ["<think>c</think><answer>[]</answer>"], nothing)
    assert (measure(said)["f1"], measure(said)["retrieval_rate"]) == (1.0, 0.0)
    said.stop = StopReason.turns
    assert measure(said)["f1"] == 0.0
    assert "exploration_facts" not in measure(said)


def test_yes_or_no() -> None:
    question = replace(QUESTION, answers=["True"], extra={"answer_kind": "boolean"})
    found = measure(walk("kg-r1", ['<think>c</think><answer>["yes"]</answer>'], question))
    assert (found["accuracy"], found["f1"], found["hits_at_1"]) == (1.0, 1.0, 1.0)
    assert "accuracy" not in measure(walk("kg-r1", KG_R1))


def test_retrieval_is_of_entities_not_of_letters() -> None:
    genre = '<think>a</think><kg-query>get_tail_entities("Big", "genre")</kg-query>'
    episode = walk("kg-r1", [genre, KG_R1[2]], replace(QUESTION, answers=["US"], aliases={}))
    assert shown_to(episode) == {"Country music": None}
    assert measure(episode)["retrieval_rate"] == 0.0
    assert retrieved(["country  MUSIC"], gold_of(Question("q", "?", [], ["Country music"]))).all == 1.0


def test_retrieval_is_of_what_was_left_after_truncation() -> None:
    many = [Triple(f"Film {number:03}", "starred_actors", "Tom Hanks") for number in range(200)]
    question = replace(QUESTION, answers=["Film 000", "Film 199"], aliases={}, gold_paths=[many[:1], many[-1:]])
    task = Task(question, ["Tom Hanks"])
    script = [KG_R1[0], '<think>c</think><answer>["Film 199"]</answer>']
    protocol, engine = protocol_named("kg-r1"), ScriptedEngine(script)
    (episode,) = rollout(
        [(task, Environment(ScanGraph(many)))], protocol, engine, budget=Budget(observation_tokens=400)
    )
    found = measure(episode)
    assert 0 < len(episode.turns[0].shown) < 100
    assert (found["retrieval_rate"], found["retrieval_share"], found["retrieval_all"]) == (1.0, 0.5, 0.0)
    assert found["exploration_facts"] == len(episode.turns[0].shown)
    assert found["exploration_efficiency"] == len(episode.turns[0].shown)  # one of them is needed


def test_facts_in_the_prompt_count_where_the_model_names_them() -> None:
    think = "[\"Big\", \"starred_actors\", \"Tom Hanks\"], ['Big', 'directed_by', 'Penny Marshall']. Cast Away?"
    episode = walk("eog", [f'<think>{think}</think><answer>["Penny Marshall"]</answer>'])
    assert len(episode.seen) == 5  # all that there is stands in the prompt
    assert measure(episode)["retrieval_all"] == 1.0  # and so was shown
    # All parts of "Cast Away starred_actors Tom Hanks" occur, but it is not named as a fact.
    told = {Triple("Big", "starred_actors", "Tom Hanks"), Triple("Big", "directed_by", "Penny Marshall")}
    assert explored(episode) == told
    assert measure(episode)["exploration_coverage"] == 0.5
    assert named([Triple("Big", "genre", "US")], "Big's genre is of the US") == set()


def test_what_an_answer_rests_on_was_explored() -> None:
    calls = ['head_entities($1, "starred_actors")', 'tail_entities($2, "directed_by")', "<answer>$3</answer>"]
    episode = walk("kgwalk", calls, protocol={"names": 1})
    assert [turn.shown for turn in episode.turns[:2]] == [["Big"], ["Penny Marshall"]]
    assert explored(episode) == set(FACTS[:4])
    found = measure(episode)
    assert (found["f1"], found["retrieval_share"], found["exploration_efficiency"]) == (1.0, 0.5, 1.0)


def test_dates_are_set_aside() -> None:
    dated = Triple("Iran", "visit", "Japan", "2005-05")
    question = Question("q", "?", ["Iran"], ["Japan"], evidence=[dated])
    episode = Episode(question, ["Iran"], [], "", seen=[dated._replace(time="2006"), Triple("Iran", "visit", "Oman")])
    walked = exploration(explored(episode), gold_facts(question))
    assert (walked.explored, walked.both, walked.efficiency, walked.coverage) == (2, 1, 2.0, 1.0)
    nowhere = exploration(set(), gold_facts(question))
    assert (nowhere.efficiency, nowhere.coverage, nowhere.precision, nowhere.found) == (None, 0.0, 0.0, 0.0)


class Bytes(ScriptedEngine):
    exact = False


@pytest.mark.parametrize("counted", [None, (50, 7)])
@pytest.mark.parametrize("engine", [ScriptedEngine([]), Bytes([])])
def test_tokens_are_those_of_the_command_line(counted: tuple[int, int] | None, engine: Engine) -> None:
    episode = walk("kg-r1", KG_R1)
    for turn in episode.turns:
        turn.counted = counted
    used = tokens_used([episode], engine)
    found = measure(episode, ids_a_token=1 if engine.exact else BYTES_A_TOKEN)
    assert [found[f"{name}_tokens"] for name in ("prompt", "generated", "total")] == [
        used[name] for name in ("prompt", "generated", "total")
    ]
    turns = len(episode.turns)
    assert tokens(episode, 10**9) == ((50 * turns, 7 * turns) if counted else (1, 1))
    episode.turns[-1].counted = None  # a count for some turns is none for the episode
    assert tokens(episode, 10**9) == (1, 1)


def many_episodes(count: int) -> list[Episode]:
    """Walks of three turns that were shown twenty entities, no two alike, and answered one of two rightly."""
    syllables = ("ba", "den", "ko", "li", "mar", "no", "ras", "ta", "vik", "zem")
    episodes = []
    for number in range(count):
        names = [
            "".join(syllables[int(digit)] for digit in f"{number}{at:02}").title() + f" {syllables[at % 10].title()}"
            for at in range(20)
        ]
        facts = [Triple("Topic", f"relation_{at % 7}", name) for at, name in enumerate(names)]
        turns = [
            Turn([1] * 40, [0.0] * 40, "x" * 160, Call("get_tail_entities", ("Topic", "r")), shown=names[at : at + 10])
            for at in (0, 10)
        ]
        turns.append(Turn([1] * 20, [0.0] * 20, "answer", Answer((names[3], "Wrong"))))
        question = Question(str(number), "?", ["Topic"], [names[3], "Never Shown"], gold_paths=[[facts[3]]])
        answers = [names[3], "Wrong"]
        episodes.append(
            Episode(question, ["Topic"], [1] * 300, "", turns, answers, {}, StopReason.answered, seen=facts)
        )
    return episodes


def test_many_episodes_take_no_longer_each() -> None:
    def seconds(count: int) -> float:
        episodes = many_episodes(count)
        started = time.process_time()
        rows = measure_all(episodes)
        assert [row["f1"] for row in rows] == [0.5] * count
        return time.process_time() - started

    few, many = (min(seconds(count) for _ in range(3)) for count in (100, 1000))  # other jobs are no fault of ours
    assert many < 10 * few * 3


def test_the_examples_on_the_page_of_metrics() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert (result.attempted > 4, result.failed) == (True, 0)


def test_every_number_is_on_the_page_of_metrics() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text()
    boolean = replace(QUESTION, extra={"answer_kind": "boolean"})
    for name in measure(walk("kg-r1", KG_R1, boolean)):
        assert f"`{name}`" in text


def test_runs_of_one_question_share_its_gold() -> None:
    episode = walk("kg-r1", KG_R1)
    assert measure_all([episode, episode]) == [measure(episode), measure(episode, gold=gold_of(QUESTION))]
