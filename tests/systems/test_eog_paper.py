"""Explore-on-Graph to the letter: outputs in every form that its figures print are read, and earn what equations 3 to 7
say; its phases, its prompt, its ablations by name. The syntax is the paper's, the content the bundled graph's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kgwalk.config.recipe import load_recipe
from kgwalk.data.bundled import world_folder
from kgwalk.data.dataset import Dataset, load_dataset
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.score.episode import measure
from kgwalk.score.rewards import Outcome, RewardFunction, facts_named
from kgwalk.systems.eog.protocol import EXAMPLES, Eog, parse
from kgwalk.training.pipeline import answers_shown
from kgwalk.types import Answer, KgwalkError, Malformed, Question, StopReason, Triple
from kgwalk.walk.environment import Environments, EnvironmentSettings
from kgwalk.walk.policy import budget_of, protocol_of
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import Budget, rollout

NIGER, CHAD = Triple("Mali", "borders", "Niger"), Triple("Niger", "borders", "Chad")
CAPITAL = Triple("Niger", "capital", "Niamey")
QUESTION = Question(
    "q",
    "What is the capital of the country that borders Mali and Chad?",
    ["Mali", "Chad"],
    ["Niamey"],
    gold_paths=[[NIGER, CAPITAL], [CHAD, CAPITAL]],
)
WIDE = Budget(turn_tokens=1 << 14, total_tokens=1 << 19)
ALL = frozenset({NIGER, CHAD, CAPITAL})


@pytest.fixture(scope="module")
def world() -> Dataset:
    return load_dataset(world_folder())


@pytest.fixture(scope="module")
def graph(world: Dataset) -> StoredGraph:
    found = world.graph_for(world.questions("train")[0])
    assert isinstance(found, StoredGraph)
    return found


def walked(graph: StoredGraph, text: str, question: Question = QUESTION, *, progress: float = 1.0) -> Outcome:
    """What rewards look at after this output, in the last step of a run."""
    protocol = Eog(graph_tokens=1 << 18, hub=1000)
    task = Task(question, question.topic_entities)
    [episode] = rollout([(task, Environment(graph))], protocol, ScriptedEngine([text]), budget=WIDE)
    return Outcome(episode, measure(episode, graph), step=108, progress=progress)


def paid(outcome: Outcome, *values: str) -> float:
    return RewardFunction.of(load_recipe("eog").with_values(values))(outcome).whole


# Outputs

FIGURE_14 = """<think>1. Analyze the Question: The question asks for the capital of a country with two neighbours.

2. Identify Key Entities: The key entities are "Mali" and "Chad".

3. Find Countries that Mali borders:
- ['Mali', 'borders', 'Niger'] indicates that Mali borders Niger.

4. Find Countries that Chad borders:
- ['Niger', 'borders', 'Chad'] indicates that Niger borders Chad.

5. Find the Intersection: Niger. ['Niger', 'capital', 'Niamey'] indicates its capital.

6. Formulate the Answer: Niamey.</think>

<answer>['niamey']</answer>"""
FIGURE_13 = (
    "<think>1. Analyze the Question. 2. I find [Mali, 'borders', 'Niger']. This means 'Mali' borders Niger. 3. I see "
    "['Niger', 'borders', 'Chad'] and ['Niger', 'capital', 'Niamey'].</think><answer>[\"Niamey\"]</answer>"
)
FIGURE_8 = (
    '<think>1) Identify the begin_entity: Mali.\\n2) Find:\\n - Triple: [\\"Mali\\", \\"borders\\", \\"Niger\\"] tells '
    'it, [\\"Niger\\", \\"borders\\", \\"Chad\\"] too.\\n3) [\\"Niger\\", \\"capital\\", \\"Niamey\\"].\\n</think>'
    '<answer>["Niamey"]</answer>'
)
OURS = (
    '<think>["Mali", "borders", "Niger"], ["Niger", "borders", "Chad"], ["Niger", "capital", "Niamey"].</think>'
    '<answer>["Niamey"]</answer>'
)


@pytest.mark.parametrize("text", [FIGURE_14, FIGURE_13, FIGURE_8, OURS], ids=["14", "13", "8", "ours"])
def test_an_output_in_the_form_of_each_figure_earns_all_of_it(text: str, graph: StoredGraph) -> None:
    """F1 = 1; all three gold facts: R_path = 1, and equation 5 gives 1 + 0.25 * 1. It named three facts, all needed:
    equation 6 gives 3 / 3, equation 7 3 / 3."""
    outcome = walked(graph, text)
    assert outcome.episode.stop == StopReason.answered
    assert outcome.metrics["f1"] == 1.0
    assert facts_named(text) == ALL
    assert paid(outcome) == pytest.approx(1.25)
    for form in ("substring", "triples", "edit"):
        assert paid(outcome, f"reward_settings.path_form={form}") == pytest.approx(1.25), form
    assert outcome.metrics["exploration_efficiency"] == 1.0
    assert outcome.metrics["exploration_coverage"] == 1.0


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ("['arizona', 'colorado', 'nevada']", ("arizona", "colorado", "nevada")),  # Figure 14
        ('["Beijing", "Washington DC"]', ("Beijing", "Washington DC")),  # Figure 10
        (' ["Washington, D.C."] ', ("Washington, D.C.",)),  # Figure 10
        ("['Washington, D.C.', \"Côte d'Ivoire\"]", ("Washington, D.C.", "Côte d'Ivoire")),
        ("['Côte d'Ivoire']", ("Côte d'Ivoire",)),
        ("[]", ()),
        ("Sudan", ("Sudan",)),  # Figure 13 names it without a list
    ],
)
def test_every_form_of_an_answer(answer: str, names: tuple[str, ...]) -> None:
    assert parse(f"<think>...</think>\n<answer>{answer}</answer>") == Answer(names)


def test_what_is_no_output() -> None:
    for text in ("['Niamey']", "<answer>['Niamey']</answer>", "<think>.</think>", "<think>.<answer>x</answer>"):
        assert isinstance(parse(text), Malformed), text


# Equations 3 to 7


def output(thought: str, *answers: str) -> str:
    return f"<think>{thought}</think><answer>{list(answers)}</answer>"


def test_equation_3(graph: StoredGraph) -> None:
    """Two answers, one of them right, of one: precision 1/2, recall 1, F1 = 2 * 1/2 / (3/2) = 2/3."""
    assert paid(walked(graph, output("", "Niamey", "Bamako"), progress=0.1)) == pytest.approx(2 / 3)
    assert paid(walked(graph, output("", "Bamako"), progress=0.1)) == 0.0
    assert paid(walked(graph, output(""), progress=0.1)) == 0.0  # A_p is empty
    assert paid(walked(graph, "Niamey", progress=0.1)) == 0.0  # no tags


def test_equation_4_looks_for_three_substrings(graph: StoredGraph) -> None:
    """Of the three gold facts: Mali, borders, Niger occur; Niger, borders, Chad; not the capital."""
    prose = output("Mali borders Nigeria, which is far from Chad.", "Bamako")
    assert paid(walked(graph, prose)) == pytest.approx(0.25 * 2 / 3)  # "Nigeria" has "Niger" in it
    assert paid(walked(graph, prose), "reward_settings.path_form=triples") == 0.0
    other_case = output("mali BORDERS niger", "Bamako")
    assert paid(walked(graph, other_case)) == 0.0  # a substring is one letter by letter
    assert paid(walked(graph, "<think>Mali borders Niger, then Chad.</think>")) == pytest.approx(0.25 * 2 / 3)


def test_equation_5_and_figure_15(graph: StoredGraph) -> None:
    """F1 2/3, one of three gold facts."""
    half = output("['Niger', 'capital', 'Niamey']", "Niamey", "Bamako")
    outcome = walked(graph, half)
    assert paid(outcome) == pytest.approx(2 / 3 + 0.25 / 3)
    assert paid(outcome, "reward_settings.alpha=1.0") == pytest.approx(2 / 3 + 1 / 3)
    code = "reward_settings.equation_5=code"
    assert paid(outcome, code) == pytest.approx(0.8 * 2 / 3 + 0.2 / 3)
    assert paid(outcome, code, "reward_settings.path_share=1.0") == pytest.approx(1 / 3)
    # the same order and, after the division by the spread, the same advantages: 1 + 0.25 p is 1.25 (0.8 + 0.2 p)
    assert paid(outcome) == pytest.approx(1.25 * paid(outcome, code))


@pytest.mark.parametrize(("steps", "first"), [(108, 75), (36, 25), (12, 9), (100, 69)])
def test_the_second_phase_starts_after_a_share_of_the_steps(steps: int, first: int, graph: StoredGraph) -> None:
    """Figure 15 has it from step 75 of 108; runs of 36 and 12 steps (Table 7) never came so far."""
    outcome = walked(graph, output("['Niger', 'capital', 'Niamey']", "Bamako"))
    for step, expected in ((first - 1, 0.0), (first, 0.25 / 3)):
        now = Outcome(outcome.episode, outcome.metrics, step=step, progress=step / steps)
        assert paid(now) == pytest.approx(expected)


def test_the_step_itself_can_be_named_as_before(graph: StoredGraph) -> None:
    outcome = walked(graph, output("['Niger', 'capital', 'Niamey']", "Bamako"))
    for step, expected in ((74, 0.0), (75, 0.25 / 3)):
        now = Outcome(outcome.episode, outcome.metrics, step=step, progress=step / 1000)
        assert paid(now, "reward_settings.path_from_step=75") == pytest.approx(expected)


def test_without_a_gold_path_it_is_the_outcome(graph: StoredGraph) -> None:
    plain = Question("p", QUESTION.question, ["Mali"], ["Niamey"])
    assert paid(walked(graph, OURS, plain)) == 1.0


def test_equations_6_and_7_count_only_what_was_named(graph: StoredGraph) -> None:
    """The right answer alone: the gold facts stand in the prompt and the answer rests on one, but none was explored.
    Then four facts of the graph and an invented one, two of them gold: 4 / 2 and 2 / 3."""
    silent = walked(graph, output("I know it: Mali borders Niger, Niger's capital is Niamey.", "Niamey"))
    assert silent.metrics["exploration_facts"] == 0
    assert silent.metrics["exploration_coverage"] == 0.0
    rows = ["['Mali', 'borders', 'Niger']", "['niger', 'capital', 'niamey']", "['Mali', 'borders', 'Algeria']"]
    rows += ["['Mali', 'capital', 'Bamako']", "['Mali', 'borders', 'Atlantis']", "['Mali', 'borders', 'Niger']"]
    four = walked(graph, output(" ".join(rows), "Niamey")).metrics
    assert (four["exploration_facts"], four["exploration_efficiency"]) == (4, 2.0)
    assert four["exploration_coverage"] == pytest.approx(2 / 3)


def test_the_penalty_for_length(graph: StoredGraph) -> None:
    """3,000 tokens cost nothing, 10,000 cost 1, 6,500 half; a factor multiplies it."""
    outcome = walked(graph, OURS)

    def of(tokens: int, *values: str) -> float:
        long = Outcome(outcome.episode, {**outcome.metrics, "generated_tokens": float(tokens)}, progress=0.1)
        return paid(long, *values) - 1.0

    assert [of(tokens) for tokens in (3000, 6500, 10_000, 20_000)] == pytest.approx([0, -0.5, -1, -1])
    assert of(6500, "reward_settings.overlong_factor=0.5") == pytest.approx(-0.25)
    assert of(8500, "reward_settings.overlong_from=7000") == pytest.approx(-0.5)


# Table 2


def test_without_outcome_reward_it_is_hit_at_1(graph: StoredGraph) -> None:
    """One right answer among three: F1 = 2 / (3 + 1), Hit@1 = 1."""
    outcome = walked(graph, output("", "Niamey", "Bamako", "Dakar"), progress=0.1)
    assert paid(outcome) == pytest.approx(0.5)
    assert paid(outcome, "reward_settings.outcome_reward=hit") == 1.0
    wrong = walked(graph, output("", "Bamako"), progress=0.1)
    assert paid(wrong, "reward_settings.outcome_reward=hit") == 0.0


def test_without_path_reward(graph: StoredGraph) -> None:
    assert paid(walked(graph, OURS), "reward_settings.path_form=none") == 1.0


def test_examples_in_the_prompt(graph: StoredGraph) -> None:
    """They are outputs as any other: each is read, and names facts of its own graph only."""
    recipe = load_recipe("eog").with_values(["protocol.examples=true"])
    walk = protocol_of(recipe).begin(Task(QUESTION, ["Mali"]), Environment(graph), len)
    assert EXAMPLES in walk.prompt()[1].content
    plain = protocol_of(load_recipe("eog")).begin(Task(QUESTION, ["Mali"]), Environment(graph), len)
    assert "Two examples" not in plain.prompt()[1].content
    for block in EXAMPLES.split("Question: ")[1:]:
        given, _, said = block.partition("<think>")
        step = parse("<think>" + said.partition("</answer>")[0] + "</answer>")
        assert isinstance(step, Answer)
        assert facts_named(said.partition("</think>")[0]) <= facts_named(given)
        assert all(any(name in fact for fact in facts_named(said)) for name in step.names)


@pytest.mark.parametrize("key", ["outcome_reward", "equation_5", "path_form"])
def test_a_value_that_is_none(key: str, graph: StoredGraph) -> None:
    with pytest.raises(KgwalkError, match=f"reward_settings.{key} `nonsense`"):
        paid(walked(graph, OURS), f"reward_settings.{key}=nonsense")


# The subgraph in the prompt


def test_the_whole_subgraph_stands_in_the_prompt(graph: StoredGraph) -> None:
    """With room for it: every fact within two hops of the topic, whatever the number of one relation."""
    protocol = Eog(hops=1, hub=1000, graph_tokens=1 << 18)
    walk = protocol.begin(Task(QUESTION, ["Mali"]), Environment(graph), len)
    walk.prompt()
    around = {*graph.match("Mali"), *graph.match(None, None, "Mali")}
    assert set(walk.seen) == around
    assert len(around) > 20


def test_a_context_that_is_too_small_cuts_the_graph_and_leaves_room_to_answer(graph: StoredGraph) -> None:
    """The recipe's 14,000 tokens do not fit into 8,192 of a small model; a token is a byte here."""
    task = Task(QUESTION, QUESTION.topic_entities)
    protocol = protocol_of(load_recipe("eog"))
    whole = protocol.begin(task, Environment(graph), len)
    assert sum(len(message.content) for message in whole.prompt()) > 8192
    budget = Budget(turn_tokens=10_000, total_tokens=8192)
    [episode] = rollout([(task, Environment(graph))], protocol, ScriptedEngine([OURS]), budget=budget)
    assert episode.stop == StopReason.answered
    assert 8192 * 0.6 < len(episode.prompt_ids) <= 8192 * 0.75
    assert 0 < len(episode.seen) < len(whole.seen)


def test_the_share_of_the_answers_that_a_prompt_shows(world: Dataset, graph: StoredGraph) -> None:
    """Niamey is two facts from Mali: within one hop it is not shown, within two it is."""
    environments = Environments(lambda question: graph, EnvironmentSettings(), Environment)
    tokens = ScriptedEngine([]).tokens
    near = Question("n", "?", ["Mali"], ["Bamako", "Niamey"])
    for hops, expected in ((1, 0.5), (2, 1.0)):
        protocol = Eog(hops=hops, hub=1000, graph_tokens=1 << 18)
        assert answers_shown(protocol, [near], environments, tokens) == expected
    two: Sequence[Question] = [near, Question("m", "?", ["Mali"], ["Bamako"])]
    assert answers_shown(Eog(hops=1, hub=1000, graph_tokens=1 << 18), two, environments, tokens) == 0.75


def test_the_profiles_fit_into_their_context() -> None:
    recipe = load_recipe("eog")
    for profile in ("135m", "smoke"):
        small = recipe.with_profile(profile)
        protocol, budget = protocol_of(small), budget_of(small)
        assert isinstance(protocol, Eog)
        assert protocol.graph_tokens + budget.turn_tokens + 600 < budget.total_tokens <= 8192
    own = protocol_of(recipe)
    assert isinstance(own, Eog)
    assert own.graph_tokens + budget_of(recipe).turn_tokens + 600 < budget_of(recipe).total_tokens
