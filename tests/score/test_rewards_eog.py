"""Explore-on-Graph's path rewards in full: awkward names, copying the graph, edit distance, a run's two phases."""

from __future__ import annotations

import doctest
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import FILMS
from kgwalk.config.recipe import load_recipe
from kgwalk.config.run_folder import read_rows
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.engine import Sampling, ScriptedEngine
from kgwalk.score import exploration as editing
from kgwalk.score.episode import measure
from kgwalk.score.exploration import EXACT, FactGraph, edit_distance, likeness
from kgwalk.score.rewards import WHOLE, Outcome, RewardFunction
from kgwalk.systems.eog.protocol import Eog
from kgwalk.types import Episode, Question, Triple
from kgwalk.walk.facts import Neighbour
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import Budget, rollout
from kgwalk.walk.subgraph import write_row

Stores = Callable[..., StoredGraph]
FORMS = ("path", "path_substring", "path_edit")


def walked(graph: StoredGraph, question: Question, thought: str, answer: str = "x") -> Outcome:
    script = [f'<think>{thought}</think><answer>["{answer}"]</answer>']
    task = Task(question, question.topic_entities)
    [episode] = rollout(
        [(task, Environment(graph))], Eog(hops=3), ScriptedEngine(script), budget=Budget(turn_tokens=4096)
    )
    return Outcome(episode, measure(episode, graph), progress=1.0)


# What is read


@pytest.mark.parametrize(
    "name",
    [
        '"Weird Al" Yankovic',
        "Washington, D.C.",
        "A -> B <- C",
        "two\nlines",
        "[brackets], (and more)",
        "back\\slash",
        "it's",
        "</think><answer>",
        "Ünïcödé 東京",
    ],
)
def test_awkward_names_copied_from_the_prompt_are_read(name: str, store: Stores) -> None:
    """As head, relation and tail: what the model copies as the prompt has it names the gold facts."""
    facts = [Triple("topic", "knows", name), Triple(name, f"rel {name}", "x")]
    question = Question("q", "who?", ["topic"], ["x"], gold_paths=[facts])
    rows = [write_row(Neighbour(fact, "")) for fact in facts]
    whole = walked(store(facts), question, " then ".join(rows))
    assert all(row in whole.episode.prompt for row in rows)
    assert [WHOLE[form](whole) for form in FORMS] == [1.0, 1.0, 1.0]
    half = walked(store(facts), question, f"Only {rows[0]}.")
    assert WHOLE["path"](half) == 0.5
    assert WHOLE["path_edit"](half) == pytest.approx(1 - 2 / 5)  # a node and an edge of 3 and 2 are missing


def test_copying_the_whole_graph_has_full_recall_and_shows_in_precision(store: Stores) -> None:
    """Two of seven facts are needed. `path` pays 1 for copying all; precision is 2/7, and `path_edit` pays little."""
    gold = [Triple("Big", "starred_actors", "Tom Hanks"), Triple("Big", "directed_by", "Penny Marshall")]
    question = Question("q", "who directed?", ["Tom Hanks"], ["Penny Marshall"], gold_paths=[gold])
    graph = store(FILMS)
    dump = ", ".join(write_row(Neighbour(Triple(*fact), "")) for fact in FILMS)
    all_of_it = walked(graph, question, dump)
    to_the_point = walked(graph, question, ", ".join(write_row(Neighbour(fact, "")) for fact in gold))
    assert WHOLE["path"](all_of_it) == WHOLE["path"](to_the_point) == 1.0
    assert all_of_it.metrics["exploration_coverage"] == to_the_point.metrics["exploration_coverage"] == 1.0
    assert all_of_it.metrics["exploration_precision"] == pytest.approx(2 / 7)
    assert to_the_point.metrics["exploration_precision"] == 1.0
    # 8 names and 7 facts are 15; the gold's 3 names and 2 facts are among them, so 10 must go
    assert WHOLE["path_edit"](all_of_it) == pytest.approx(1 - 10 / 15)
    assert WHOLE["path_edit"](to_the_point) == 1.0


# Edit distance


def test_the_docstrings_are_right() -> None:
    assert doctest.testmod(editing).failed == 0


def test_distances_by_hand() -> None:
    path = [("a", "r", "b"), ("b", "s", "c")]
    assert edit_distance(path, path) == 0
    assert edit_distance([], path) == 5  # three nodes, two edges
    assert edit_distance([("a", "r", "b"), ("b", "t", "c")], path) == 1  # one relation
    assert edit_distance([("b", "r", "a"), ("b", "s", "c")], path) == 2  # an arrow turned: one goes, one comes
    assert edit_distance([("a", "r", "x"), ("x", "s", "c")], path) == 1  # one name
    assert edit_distance([("a", "r", "b"), ("a", "q", "b")], path) == 3  # c and its edge come, q goes
    assert likeness([("x", "u", "y"), ("y", "v", "z")], path) == 0.0  # the same shape, and nothing else
    assert likeness([], []) == 1.0


def least_by_force(one: set[tuple[str, str, str]], two: set[tuple[str, str, str]]) -> int:
    """Every way to let the nodes of one stand for nodes of the other, or go."""
    mapping = editing._Mapping(FactGraph.of(one), FactGraph.of(two))
    ours, theirs = mapping.one.nodes, mapping.two.nodes
    every = set(itertools.permutations([*theirs, *[None] * len(ours)], len(ours)))
    return min(mapping.cost(dict(zip(ours, places, strict=True))) for places in every)


few = st.sets(st.tuples(st.sampled_from("abc"), st.sampled_from("rs"), st.sampled_from("bcd")), max_size=4)


@given(few, few)
def test_the_distance_is_the_least_of_all_mappings(
    one: set[tuple[str, str, str]], two: set[tuple[str, str, str]]
) -> None:
    assert edit_distance(one, two) == least_by_force(one, two) == edit_distance(two, one)
    assert 0.0 <= likeness(one, two) <= 1.0
    assert (edit_distance(one, two) == 0) == (one == two)


def test_large_graphs_have_a_bound_that_is_right_for_what_was_copied() -> None:
    """A hundred facts of which two are gold: the other names and facts must go, and that is exact here."""
    chain = [(f"n{at}", "r", f"n{at + 1}") for at in range(100)]
    assert len(FactGraph.of(chain).nodes) > EXACT
    assert edit_distance(chain, chain[:2]) == 98 + 98
    assert likeness(chain, chain[:2]) == pytest.approx(1 - 196 / 201)
    other = [(f"m{at}", "r", f"m{at + 1}") for at in range(100)]
    assert 101 <= edit_distance(chain, other) <= 201 + 201


def test_the_form_is_chosen_by_name(store: Stores) -> None:
    gold = [Triple("Big", "starred_actors", "Tom Hanks"), Triple("Big", "directed_by", "Penny Marshall")]
    question = Question("q", "?", ["Big"], ["Penny Marshall"], gold_paths=[gold])
    half = walked(store(FILMS), question, write_row(Neighbour(gold[1], "")), "Penny Marshall")
    assert WHOLE["eog"](half, path_form="edit") == pytest.approx(1 + 0.25 * 0.6)
    assert WHOLE["eog"](half, path_form="edit", equation_5="code") == pytest.approx(0.8 + 0.2 * 0.6)
    assert WHOLE["path_edit"](walked(store(FILMS), Question("q", "?", ["Big"], ["x"]), "hm")) is None


# Two phases


def test_the_recipe_pays_in_two_phases_and_for_length(store: Stores) -> None:
    """F1 0, half of the path: 0 in step 74 of 108, 0.25 / 2 in step 75. 4,750 tokens cost 0.25 in both."""
    gold = [Triple("Big", "starred_actors", "Tom Hanks"), Triple("Big", "directed_by", "Penny Marshall")]
    question = Question("q", "?", ["Big"], ["Penny Marshall"], gold_paths=[gold])
    outcome = walked(store(FILMS), question, write_row(Neighbour(gold[1], "")), "Nobody")
    reward = RewardFunction.of(load_recipe("eog"))
    for step, expected in ((1, 0.0), (74, 0.0), (75, 0.125), (108, 0.125)):
        done = step / 108
        assert reward(Outcome(outcome.episode, outcome.metrics, progress=done)).whole == pytest.approx(expected)
        long = {**outcome.metrics, "generated_tokens": 4750.0}
        assert reward(Outcome(outcome.episode, long, progress=done)).whole == pytest.approx(expected - 0.25)


def test_the_step_of_a_run_reaches_the_rewards(store: Stores, tmp_path: Path) -> None:
    """Three steps of GRPO, the path paid from the second on. Rollouts are told what to say; all the rest is real."""
    from kgwalk.evaluation.report import STEP_EPISODES
    from kgwalk.training.curriculum import Curriculum, CurriculumSettings
    from kgwalk.training.grpo import Grpo
    from kgwalk.training.loop import CheckpointPolicy, run_stage
    from kgwalk.training.rollouts import TrainingSet, Walker
    from kgwalk.training.settings import GrpoSettings
    from training_helpers import policy, updater_of, worlds_over

    graph, model = store(FILMS), policy()
    gold = [Triple("Big", "starred_actors", "Tom Hanks"), Triple("Big", "directed_by", "Penny Marshall")]
    questions = [Question("q", "who directed Big?", ["Big"], ["Penny Marshall"], gold_paths=[gold])]
    row = write_row(Neighbour(gold[1], ""))
    said = [f'<think>{row}</think><answer>["Nobody"]</answer>', '<think>hm</think><answer>["Penny Marshall"]</answer>']
    values = [
        "reward_settings.path_from=0.6",  # the first step of three is 0.333, the second 0.667
        "reward_settings.overlong_from=1",
        "reward_settings.overlong_full=1001",
    ]
    protocol = Eog(graph_tokens=60)

    class Told(Walker):
        def walk(self, course: TrainingSet, asked: Sequence[tuple[int, str]], sampling: Sampling) -> list[Episode]:
            turns = iter(said * len(asked))
            engine = ScriptedEngine(lambda request: next(turns), tokens=self.engine.tokens)
            tasks = [(Task(questions[number], ["Big"], key), Environment(graph)) for number, key in asked]
            return rollout(tasks, protocol, engine)

    grpo = Grpo(
        updater_of(model),
        Told(model, protocol, Budget()),
        TrainingSet(questions, worlds_over(graph)),
        RewardFunction.of(load_recipe("eog").with_values(values)),
        Curriculum(questions, CurriculumSettings(), batch=1),
        GrpoSettings(steps=3, questions=1, group=2, advantage="trajectory"),
        0,
        tmp_path,
    )
    care = CheckpointPolicy(save_every=10, keep=1, eval_every=0)
    run_stage(grpo.stage(), grpo.updater, tmp_path, care, seed=0, card={}, resume=False, report_to="none")
    rows = list(read_rows(tmp_path / STEP_EPISODES))
    assert [(one["step"], round(one["rewards"]["parts"]["eog"], 6)) for one in rows] == [
        (1, 0.0),
        (2, 0.125),
        (3, 0.125),
    ]
    for one in rows:
        tokens = sum(len(turn["ids"]) for turn in one["episode"]["turns"])
        assert one["rewards"]["parts"]["overlong"] == pytest.approx(-(tokens - 1) / 1000)
        assert one["rewards"]["whole"] == pytest.approx(sum(one["rewards"]["parts"].values()))
    grpo.walker.close()
