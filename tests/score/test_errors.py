"""Classes of errors: a worked walk for each rule, in several protocols, on the same small graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kgwalk.bench.servers import ScanGraph
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.score.errors import error_class, gold_steps
from kgwalk.types import Episode, Question, StopReason, Triple
from kgwalk.walk.policy import protocol_named
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import rollout

FACTS = [
    Triple("Kenya", "borders", "Uganda"),
    Triple("Kenya", "borders", "Somalia"),
    Triple("Kenya", "capital", "Nairobi"),
    Triple("Uganda", "borders", "Rwanda"),
    Triple("Uganda", "borders", "Congo"),
    Triple("Uganda", "capital", "Kampala"),
    Triple("Uganda", "anthem", "Oh Uganda"),
    Triple("Somalia", "capital", "Mogadishu"),
    Triple("Congo", "borders", "Rwanda"),
]
# The capital of the neighbour of Kenya that is not Somalia.
CAPITAL = Question("c", "?", ["Kenya"], ["Kampala"], gold_paths=[[FACTS[0], FACTS[5]]])
CAPITALS = replace(CAPITAL, answers=["Kampala", "Mogadishu"], gold_paths=[[FACTS[0], FACTS[5]], [FACTS[1], FACTS[7]]])
COMMON = Question("b", "?", ["Uganda", "Congo"], ["Rwanda"], gold_paths=[[FACTS[3]], [FACTS[8]]])
COUNT = Question("n", "?", ["Kenya"], ["2"], evidence=FACTS[:2])


def call(tool: str, *names: str) -> str:
    return f"<think>t</think><kg-query>{tool}({', '.join(f'{chr(34)}{name}{chr(34)}' for name in names)})</kg-query>"


def tails(entity: str, relation: str) -> str:
    return call("get_tail_entities", entity, relation)


def answer(*names: str) -> str:
    return f"<think>t</think><answer>[{', '.join(f'{chr(34)}{name}{chr(34)}' for name in names)}]</answer>"


def walk(question: Question, *script: str, name: str = "kg-r1", **settings: Any) -> Episode:
    task, environment = Task(question, question.topic_entities), Environment(ScanGraph(FACTS))
    (episode,) = rollout([(task, environment)], protocol_named(name, **settings), ScriptedEngine(list(script)))
    return episode


def test_1_a_right_answer_has_no_error() -> None:
    assert error_class(walk(CAPITAL, answer("kampala"))) is None


@pytest.mark.parametrize("stop", [StopReason.engine_failed, StopReason.tool_failed, StopReason.prompt])
def test_2_a_failure_is_not_the_models(stop: StopReason) -> None:
    episode = walk(CAPITAL, "hm", turns=1)
    assert error_class(replace(episode, stop=stop)) == "unassigned"


def test_3_invalid_actions() -> None:
    assert error_class(walk(CAPITAL, tails("Kenya", "borders"), "hm", turns=1)) == "invalid_action"  # the last
    half = [call("get_everything", "Kenya"), tails("Kenya", "borders"), tails("Uganda", "anthem")]
    assert error_class(walk(CAPITAL, half[0], *half, turns=3)) == "invalid_action"  # no answer, two of four
    assert error_class(walk(CAPITAL, tails("Kenia", "borders"), answer("Nairobi"))) == "invalid_action"  # none worked
    # A call past the last turn is well formed; here the walk had what it needed.
    found = [tails("Kenya", "borders"), tails("Uganda", "capital"), tails("Uganda", "anthem")]
    assert error_class(walk(CAPITAL, *found, turns=2)) == "reasoning"


def test_4_a_topic_that_was_forgotten() -> None:
    one = walk(COMMON, tails("Uganda", "borders"), answer("Rwanda", "Congo"))
    assert error_class(one) == "decomposition"  # though Rwanda was shown
    both = walk(COMMON, tails("Uganda", "borders"), tails("Congo", "borders"), answer("Rwanda", "Congo"))
    assert error_class(both) == "reasoning"


def test_5_all_was_there() -> None:
    shown = walk(CAPITAL, tails("Kenya", "borders"), tails("Uganda", "capital"), answer("Uganda"))
    assert error_class(shown) == "reasoning"
    counted = walk(COUNT, tails("Kenya", "borders"), answer("3"))
    assert error_class(counted) == "reasoning"
    more = walk(CAPITAL, answer("Kampala", "Nairobi"))  # answered from memory, with something wrong
    assert error_class(more) == "reasoning"


def test_6_nothing_to_go_by() -> None:
    unknown = replace(CAPITAL, gold_paths=None)
    assert error_class(walk(unknown, tails("Kenya", "capital"), answer("Nairobi"))) == "unassigned"
    assert error_class(walk(unknown, tails("Uganda", "capital"), answer("Nairobi"))) == "reasoning"  # shown


def test_7_the_relation_was_right_and_its_end_did_not_come_up() -> None:
    incomplete = replace(CAPITAL, gold_paths=[[FACTS[0], Triple("Uganda", "borders", "Kampala")]])
    episode = walk(incomplete, tails("Kenya", "borders"), tails("Uganda", "borders"), answer("Congo"))
    assert error_class(episode) == "neighbor_selection"


def test_8_another_relation() -> None:
    episode = walk(CAPITAL, tails("Kenya", "borders"), tails("Uganda", "anthem"), answer("Oh Uganda"))
    assert error_class(episode) == "relation_selection"
    looked = walk(CAPITAL, tails("Kenya", "borders"), call("get_tail_relations", "Uganda"), answer("Uganda"))
    assert error_class(looked) == "relation_selection"
    first = walk(CAPITAL, tails("Kenya", "capital"), answer("Nairobi"))
    assert error_class(first) == "relation_selection"


def test_9_another_entity() -> None:
    episode = walk(CAPITAL, tails("Kenya", "borders"), tails("Somalia", "capital"), answer("Mogadishu"))
    assert error_class(episode) == "neighbor_selection"


def test_10_stopped_short() -> None:
    assert error_class(walk(CAPITAL, tails("Kenya", "borders"), answer("Uganda"))) == "decomposition"
    assert error_class(walk(CAPITAL, answer("Nairobi"))) == "decomposition"  # looked at nothing
    branch = walk(CAPITALS, tails("Kenya", "borders"), tails("Uganda", "capital"), answer("Kampala"))
    assert error_class(branch) == "decomposition"  # Somalia was left out, and nothing else was asked


@pytest.mark.parametrize(
    ("name", "script", "expected"),
    [
        ("kgwalk", ['tail_entities($1, "borders")', "<answer>$2</answer>"], "decomposition"),
        ("kgwalk", ['tail_entities($1, "capital")', "<answer>$2</answer>"], "relation_selection"),
        (
            "kgwalk",
            ['tail_entities($1, "borders")', 'tail_entities("Somalia", "capital")', "<answer>$3</answer>"],
            "neighbor_selection",
        ),
        (
            "kgwalk",
            ['tail_entities($1, "borders")', 'tail_entities($2, "capital")', "<answer>$3</answer>"],
            "reasoning",
        ),
        (
            "kgwalk",
            ['tail_entities($9, "x")', "hm", 'tail_entities($1, "no")', "<answer>[]</answer>"],
            "invalid_action",
        ),
        ("kg-hopper", ["<think>a<search>Kenya</search>", 'b</think><answer>["Uganda"]</answer>'], "decomposition"),
        (
            "kg-hopper",
            ["<think>a<search>Kenya</search>", "b<search>Somalia</search>", 'c</think><answer>["Mogadishu"]</answer>'],
            "neighbor_selection",
        ),
        (
            "graph-rft",
            [
                "<think>a</think><plan>Step 1: x Ans1 = SearchKG(t=country | h=Kenya, r=neighbour)</plan>"
                '<relation_search>"Kenya", "neighbour"</relation_search>',
                '<think>b</think><neighbor_search>"Kenya", "borders"</neighbor_search>',
                '<think>c</think><answer>["Uganda"]</answer>',
            ],
            "decomposition",
        ),
        ("eog", ['<think>Kenya borders Uganda.</think><answer>["Uganda"]</answer>'], "reasoning"),
        ("eog", ["hm"], "invalid_action"),
    ],
)
def test_the_rules_know_no_protocol(name: str, script: list[str], expected: str) -> None:
    assert error_class(walk(CAPITAL, *script, name=name)) == expected


def test_gold_paths_are_walked_from_a_topic() -> None:
    backwards = Question("q", "?", ["Nairobi"], ["Uganda"], gold_paths=[[FACTS[2], FACTS[0]]])
    assert [(step.here, step.there) for step in gold_steps(backwards)[0]] == [("Nairobi", "Kenya"), ("Kenya", "Uganda")]
    assert [[step.there for step in path] for path in gold_steps(COUNT)] == [["Uganda"], ["Somalia"]]
    deep = Question("q", "?", ["Kenya"], [], evidence=[FACTS[5], FACTS[0]])
    assert [[step.there for step in path] for path in gold_steps(deep)] == [["Uganda", "Kampala"], ["Uganda"]]
    assert gold_steps(Question("q", "?", [], [])) == []
