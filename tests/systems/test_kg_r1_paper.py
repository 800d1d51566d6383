"""KG-R1 to the letter: every form of turn, observation, error and answer that its figures, tables and appendices print
is read, and earns what equations 1 to 3 say. The syntax is the paper's, the content the bundled graph's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kgwalk.config.recipe import load_recipe
from kgwalk.data.bundled import world_folder
from kgwalk.data.dataset import load_dataset
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.score.episode import measure, union
from kgwalk.score.judge.verdict import any_run_passes, score_from_vector
from kgwalk.score.rewards import Outcome, RewardFunction
from kgwalk.systems.kg_r1.protocol import parse
from kgwalk.training.advantages import Rewards, advantages
from kgwalk.training.loss import Totals, token_weights
from kgwalk.types import Answer, Call, Malformed, Question
from kgwalk.walk.policy import protocol_named
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import Budget, rollout

WIDE = Budget(turn_tokens=1 << 12, observation_tokens=1 << 12, total_tokens=1 << 16)
BORDERS = Question("mali", "Which countries does Mali border?", ["Mali"], ["Niger", "Senegal"])
CODE = ("reward_settings.equation_1=code", "rewards.f1=0.5", "rewards.retrieval=0.5")


@pytest.fixture(scope="module")
def world() -> StoredGraph:
    dataset = load_dataset(world_folder())
    found = dataset.graph_for(dataset.questions("train")[0])
    assert isinstance(found, StoredGraph)
    return found


@pytest.fixture
def small(store: Callable[..., StoredGraph]) -> StoredGraph:
    """Mali borders two; a name has a comma; two relations of Freebase's form."""
    return store(
        [
            ("Mali", "borders", "Niger"),
            ("Mali", "borders", "Senegal"),
            ("Niger", "capital", "Niamey"),
            ("Niger", "location.country.capital", "Niamey"),
            ("Niger", "location.location.containedby", "Africa"),
            ("United States", "capital", "Washington, D.C."),
        ]
    )


def walked(graph: StoredGraph, *script: str, question: Question = BORDERS, **settings: Any) -> Outcome:
    protocol = protocol_named("kg-r1", **settings)
    task = Task(question, question.topic_entities)
    [episode] = rollout([(task, Environment(graph))], protocol, ScriptedEngine(list(script)), budget=WIDE)
    return Outcome(episode, measure(episode, graph))


def paid(outcome: Outcome, *values: str) -> tuple[list[float], float]:
    rewarded = RewardFunction.of(load_recipe("kg-r1").with_values(values))(outcome)
    return rewarded.turns, rewarded.whole


# Transcripts

FIGURE_10 = (  # line breaks as printed; a list without quotes or brackets as the answer
    "<think> I need to find the countries that Mali borders. I will start by finding any relations. </think> "
    '<kg-query> get_tail_relations("Mali") </kg-query>',
    '<think> The relation borders is relevant. </think> <kg-query> get_tail_entities("Mali", "borders") </kg-query>',
    '<think> I will verify by checking each. </think> <kg-query> get_head_relations("Niger") </kg-query>',
    '<think> Confirming with borders. </think> <kg-query> get_head_entities("Niger", "borders") </kg-query>',
    "<think> All confirm. </think> <answer> Niger, Senegal </answer>",
)
FIGURE_14 = tuple(  # the same turns with a line for each tag, as Figures 12, 14 and 16 have them
    turn.replace("> ", ">\n").replace(" <", "\n<") for turn in FIGURE_10
)


@pytest.mark.parametrize("script", [FIGURE_10, FIGURE_14], ids=["Figure 10", "Figures 12, 14 and 16"])
def test_a_figures_walk_earns_all_there_is(script: tuple[str, ...], small: StoredGraph) -> None:
    """Five turns of 0.5 + 0.5; F1 = 1 and both were shown: R = 2. With lambda = 1 every return is 3."""
    outcome = walked(small, *script)
    assert [type(turn.step) for turn in outcome.episode.turns] == [Call] * 4 + [Answer]
    assert outcome.episode.answers == ["Niger", "Senegal"]
    assert paid(outcome) == ([1.0] * 5, 2.0)
    assert paid(outcome, *CODE) == ([1.0] * 5, 1.0)


def test_the_observations_of_figures_12_14_and_16(small: StoredGraph, store: Callable[..., StoredGraph]) -> None:
    told = [turn.observation for turn in walked(small, *FIGURE_10).episode.turns]
    assert told[:4] == [
        '<information>Tail relations for entity "Mali": borders</information>',
        '<information>Tail entities for relation "borders" with head "Mali": Niger, Senegal</information>',
        '<information>Head relations for entity "Niger": borders</information>',
        '<information>Head entities for relation "borders" with tail "Niger": Mali</information>',
    ]
    # Figure 16: dates in brackets, semicolons between them and between names
    facts = [("Iran", "negotiates", "Malaysia", "2006-05"), ("Iran", "negotiates", "Malaysia", "2006-07")]
    dated = store([*facts, ("Japan", "negotiates", "Malaysia", "2005-05")])
    query = '<think>\nWho?\n</think>\n<kg-query>\nget_head_entities("Malaysia", "negotiates")\n</kg-query>'
    [turn, _] = walked(dated, query, "<think>These.</think><answer>Iran</answer>").episode.turns
    assert turn.observation.endswith("Iran [2006-05; 2006-07]; Japan [2005-05]</information>")


def test_both_formats_of_table_10(small: StoredGraph) -> None:
    query = '<think>Which?</think><kg-query> get_tail_relations("Niger") </kg-query>'
    end = "<think>Enough.</think><answer>Niger</answer>"
    flat = walked(small, query, end).episode.turns[0].observation
    assert flat.endswith(": capital, location.country.capital, location.location.containedby</information>")
    tree = walked(small, query, end, relation_format="hierarchical").episode.turns[0].observation
    lines = ["location", "  country: capital", "  location: containedby", "capital</information>"]
    assert tree.splitlines()[1:] == lines


def test_head_entities_takes_its_arguments_in_either_printed_order(small: StoredGraph) -> None:
    """Section 3.2 and Table 11: the relation first. Appendix D.2 and the figures: the entity first."""
    relation_first = '<think>Who?</think><kg-query>get_head_entities("capital", "Niamey")</kg-query>'
    entity_first = '<think>Who?</think><kg-query>get_head_entities("Niamey", "capital")</kg-query>'
    end = "<think>It.</think><answer>Niger</answer>"
    first, second = (walked(small, query, end).episode.turns[0] for query in (relation_first, entity_first))
    assert first.observation == second.observation
    assert first.observation.endswith('relation "capital" with tail "Niamey": Niger</information>')
    assert first.ok
    # in neither order: told of the entity-first one; the other three actions are printed one way only
    for query, message in (
        ('get_head_entities("Nowhere", "capital")', 'Entity "Nowhere" not found in KG'),
        ('get_tail_entities("capital", "Niger")', 'Entity "capital" not found in KG'),
        ('get_head_entities("borders", "Niamey")', "No head entities found"),  # understood, and there are none
    ):
        [turn, _] = walked(small, f"<think>Who?</think><kg-query>{query}</kg-query>", end).episode.turns
        assert not turn.ok
        assert message in turn.observation


@pytest.mark.parametrize(
    ("query", "message", "in_form"),
    [
        (
            'get_entity_info("Mali")',
            'Action "get_entity_info" not available (use: get_head_relations, get_tail_relations, get_head_entities, '
            "get_tail_entities)",
            False,
        ),
        ('get_tail_entities("Mali")', "Missing required fields for get_tail_entities: relation_name", False),
        ('get_tail_relations("Mali", "borders")', "get_tail_relations accepts only one entity argument", False),
        ('get_tail_relations("Malii")', 'Entity "Malii" not found in KG', True),
        ('get_tail_entities("Mali", "location.capital")', 'Relation "location.capital" not found in KG', True),
        ('get_head_relations("Mali")', 'No head relations found for entity "Mali" in knowledge graph', True),
        (
            'get_tail_entities("Mali", "capital")',
            'No tail entities found for relation "capital" with head "Mali" in knowledge graph',
            True,
        ),
    ],
)
def test_the_errors_of_figure_5(query: str, message: str, in_form: bool, small: StoredGraph) -> None:
    """None retrieves anything. An action of the set with its arguments is in form: 0.5; an unknown one, or another
    number of arguments, which the figure calls errors of the format, is not: 0. By the code any action is: 0.5."""
    script = (f"<think>Perhaps.</think><kg-query>{query}</kg-query>", "<think>So.</think><answer>Niger</answer>")
    outcome = walked(small, *script)
    assert outcome.episode.turns[0].observation == f"<information><error>{message}</error></information>"
    assert paid(outcome)[0] == [0.5 * in_form, 1.0]
    assert paid(outcome, *CODE)[0] == [0.5, 1.0]


def test_an_empty_thought_is_no_valid_format(small: StoredGraph) -> None:
    """The query is carried out and earns its 0.5, the format's 0.5 is not paid. F1 = 2/3: one of two; it was shown."""
    script = ('<think> </think><kg-query>get_tail_entities("Mali", "borders")</kg-query>',)
    outcome = walked(small, *script, "<think></think><answer>Niger</answer>")
    turns, whole = paid(outcome)
    assert turns == [0.5, 0.5]
    assert whole == pytest.approx(2 / 3 + 1)
    assert paid(outcome, *CODE)[0] == [1.0, 1.0]


def test_the_same_query_again(small: StoredGraph) -> None:
    """As printed it is valid and finds something, so it is paid again; by the code it is not."""
    query = '<think>Again.</think><kg-query>get_tail_entities("Mali", "borders")</kg-query>'
    outcome = walked(small, query, query, "<think>So.</think><answer>Niger, Senegal</answer>")
    assert paid(outcome) == ([1.0, 1.0, 1.0], 2.0)
    assert paid(outcome, *CODE) == ([1.0, 0.5, 1.0], 1.0)


def test_the_fabricated_information_of_table_11(small: StoredGraph) -> None:
    """What collapsed under PPO: the model writes the observation itself. Such a turn is malformed, and earns 0."""
    made_up = (
        '<think>Who?</think><kg-query> get_head_entities("borders", "Niger") </kg-query> <information> Head entities '
        'for relation "borders" with tail "Niger": Mali, Barack Obama </information> <answer>Niger, Senegal</answer>'
    )
    assert isinstance(parse(made_up), Malformed)
    [turn, *_] = walked(small, made_up.replace("<kg-query>", "<kg-query> "), *FIGURE_10[1:]).episode.turns
    assert "Barack Obama" not in turn.observation


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("\nUnited States\n", ["United States"]),  # Figure 12
        (" Niger, Senegal, Nowhere ", ["Niger", "Senegal", "Nowhere"]),  # Figure 15: wrong names among right ones
        ("Niger, Washington, D.C., Senegal", ["Niger", "Washington, D.C.", "Senegal"]),
        ('["Niger", "Senegal"]', ["Niger", "Senegal"]),  # ours
        ('["Niger, Senegal"]', ["Niger, Senegal"]),
        ("['Niger', 'Senegal']", ["Niger", "Senegal"]),
    ],
)
def test_every_form_of_an_answer(text: str, names: list[str], small: StoredGraph) -> None:
    assert walked(small, f"<think>So.</think>\n<answer>{text}</answer>").episode.answers == names


def test_figure_15s_answer_earns_its_share(small: StoredGraph) -> None:
    """Four names, two of the two right ones: F1 = 2 * 2 / (4 + 2) = 2/3. Nothing was retrieved: R = 2/3."""
    outcome = walked(small, "<think>Guess.</think><answer> Niger, Mali, Senegal, Nowhere </answer>")
    assert paid(outcome) == ([1.0], pytest.approx(2 / 3))


def test_after_h_queries_the_answer_is_asked_for(small: StoredGraph) -> None:
    query = '<think>Look.</think><kg-query>get_tail_relations("Mali")</kg-query>'
    outcome = walked(small, *[query] * 5, "<think>So.</think><answer>Niger, Senegal</answer>")
    assert load_recipe("kg-r1").section("protocol")["turns"] == 5
    assert len(outcome.episode.turns) == 6
    assert "No queries are left" in outcome.episode.turns[4].observation


def test_over_the_bundled_graph(world: StoredGraph) -> None:
    question = Question("niger", "Which country has the capital Niamey?", ["Niamey"], ["Niger"])
    query = '<think>\nWhose capital?\n</think>\n<kg-query>\nget_head_entities("capital", "Niamey")\n</kg-query>'
    end = "<think>\nFound.\n</think>\n<answer>\nNiger\n</answer>"
    assert paid(walked(world, query, end, question=question)) == ([1.0, 1.0], 2.0)


# Equations


def test_equation_3_and_the_advantages_by_hand() -> None:
    """Two rollouts: r = 1, 1 with R = 2, and r = 0.5 with R = 0. G = 3, 3 | 0.5: the mean is 6.5 / 3 = 2.1667, the
    squares 0.6944 + 0.6944 + 2.7778 = 4.1667, the deviation sqrt(4.1667 / 3) = 1.1785: 0.7071, 0.7071 | -1.4142.

    By whole walks (E.3): G = 1 + 2 = 3 and 0.5: z = 1, -1 by the population's deviation."""
    group = [Rewards([1.0, 1.0], 2.0), Rewards([0.5], 0.0)]
    lam = load_recipe("kg-r1").section("grpo")["whole_weight"]
    [[first, second]] = advantages("turn", [group], lam=lam).values
    assert [*first, *second] == pytest.approx([0.7071, 0.7071, -1.4142], abs=1e-4)
    [[first, second]] = advantages("trajectory", [group], lam=lam, ddof=0).values
    assert [*first, *second] == pytest.approx([1, 1, -1], abs=1e-4)


def test_the_objective_is_a_plain_sum_over_tokens() -> None:
    """Two rollouts of two tokens and one: each token weighs the same, whatever the lengths; the mean over rollouts.
    The published script divides by the width of its responses as well, token-mean by the tokens that there are."""
    grpo = load_recipe("kg-r1").section("grpo")
    mask, totals = torch.tensor([[True, True], [True, False]]), Totals(tokens=3, sequences=2)
    own = token_weights(grpo["aggregation"], mask, totals, constant=grpo["sequence_tokens"])
    assert own.tolist() == [[0.5, 0.5], [0.5, 0.0]]
    script = token_weights("sequence-sum-constant", mask, totals, constant=4500)
    assert torch.allclose(script * 4500, own)
    small = load_recipe("kg-r1").with_profile("135m").section("grpo")
    assert small["aggregation"] == "token-mean"


def test_the_union_of_n_runs(small: StoredGraph) -> None:
    """One run finds Niger, one Senegal: F1 is 2/3 each; of both together 1."""
    runs = [walked(small, f"<think>So.</think><answer>{name}</answer>") for name in BORDERS.answers]
    assert [run.metrics["f1"] for run in runs] == pytest.approx([2 / 3, 2 / 3])
    assert union(BORDERS, [run.episode.answers for run in runs], small)["f1"] == 1.0


# Appendix C.1: baselines and the judge


@pytest.mark.parametrize(
    ("name", "reply", "names"),
    [
        ("vanilla", 'Answers: ["Niger", "Senegal"]', ["Niger", "Senegal"]),
        ("vanilla", '["Niger", "Senegal"]', ["Niger", "Senegal"]),  # goes on after the prompt's "Answers:"
        ("cot", 'Reasoning: Mali has neighbours.\nAnswers: ["Niger", "Senegal"]', ["Niger", "Senegal"]),
        ("cot", ' Mali has neighbours, Niger too.\n\nAnswers: ["Niger"]', ["Niger"]),
    ],
)
def test_the_baselines_are_zero_shot(name: str, reply: str, names: list[str], small: StoredGraph) -> None:
    """One message with the task and the question; two examples before it by key."""
    protocol, task = protocol_named(name), Task(BORDERS, [])
    [episode] = rollout([(task, Environment(small))], protocol, ScriptedEngine([reply]), budget=WIDE)
    assert episode.answers == names
    [message] = protocol.begin(task, Environment(small), len).prompt()
    assert message.content.endswith(f"Question: {BORDERS.question}\n{'Answers' if name == 'vanilla' else 'Reasoning'}:")
    assert load_recipe(name).section("protocol")["examples"] is False
    two = protocol_named(name, examples=True).begin(task, Environment(small), len).prompt()
    assert [one.role for one in two] == ["user", "assistant", "user", "assistant", "user"]
    assert two[-1].content == f"Question: {BORDERS.question}"


def test_the_judges_vector_and_pass_at_k() -> None:
    """[0, 1, 0, 1] with three names: recall 1/2, precision 2/3; of two runs one passes."""
    scores = score_from_vector([0, 1, 0, 1], predicted=3)
    assert (scores.recall, scores.precision) == (0.5, pytest.approx(2 / 3))
    assert any_run_passes([[0, 0, 0, 0], [0, 1, 0, 1]]) == 1.0
