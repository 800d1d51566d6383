"""Graph-RFT to the letter: every form of plan, transcript and answer that its figures print is read, and earns what
equations 2 to 8 say; its ablations by name. The syntax is the paper's, the content the bundled graph's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kgwalk.config.recipe import Recipe, load_recipe
from kgwalk.data.bundled import world_folder
from kgwalk.data.dataset import Dataset, load_dataset
from kgwalk.demos.filter import DemoSettings
from kgwalk.demos.make import make_demos
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.score.episode import measure
from kgwalk.score.rewards import WHOLE, Outcome, RewardFunction
from kgwalk.systems.graph_rft.plan import Combine, PlanError, SearchKG, read_plan
from kgwalk.types import Answer, Call, Episode, KgwalkError, Malformed, Question, Step, StopReason, Triple, Turn
from kgwalk.walk.environment import Environments, EnvironmentSettings, environment_settings
from kgwalk.walk.policy import budget_of, protocol_named, protocol_of
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import Budget, rollout
from tiny_models import save_tiny  # noqa: F401  one thread for torch

WIDE = Budget(turn_tokens=1 << 12, observation_tokens=1 << 12, total_tokens=1 << 16)
BORDERS, CAPITAL = Triple("Mali", "borders", "Niger"), Triple("Niger", "capital", "Niamey")
NIGER = Question(
    "niger",
    "Which country that borders Mali has the capital Niamey?",
    ["Mali", "Niamey"],
    ["Niger"],
    gold_paths=[[BORDERS], [CAPITAL]],
)


@pytest.fixture(scope="module", autouse=True)
def _cache(run_cache: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KGWALK_CACHE", str(run_cache))
        yield


@pytest.fixture(scope="module")
def world() -> Dataset:
    return load_dataset(world_folder())


@pytest.fixture(scope="module")
def graph(world: Dataset) -> StoredGraph:
    found = world.graph_for(world.questions("train")[0])
    assert isinstance(found, StoredGraph)
    return found


def place(graph: StoredGraph, *, drop: float) -> Environment:
    """Of the question above: with a web made of the graph, and all of its facts hidden or none."""
    settings = EnvironmentSettings(drop=drop, web="graph")
    return Environments(lambda question: graph, settings, Environment).of(NIGER)


def walked(environment: Environment, *script: str, **settings: Any) -> Outcome:
    """What the recipe's own rewards look at, after a walk in which the model says these turns."""
    protocol = protocol_named("graph-rft", **settings)
    task = Task(NIGER, NIGER.topic_entities)
    [episode] = rollout([(task, environment)], protocol, ScriptedEngine(list(script)), budget=WIDE)
    return Outcome(episode, measure(episode), environment.complete, web=environment.web is not None)


def paid(outcome: Outcome, *values: str) -> float:
    return RewardFunction.of(load_recipe("graph-rft").with_values(values))(outcome).whole


# Plans


@pytest.mark.parametrize(
    "plan",
    [
        # Figure 8
        "Step 1: Which country has the capital Niamey?\nAns1 = SearchKG( t1=country | h1=Niamey, r1=capital )\n"
        "Step 2: Which countries does Mali border?\nAns2 = SearchKG( t2=country | h2=Mali, r2= borders )\n"
        "Step 3: Return the answers that satisfies both Ans1 and Ans2.\nAns3 = Inter(Ans1, Ans2)",
        # Figure 2, both of its labels, and its Inter with a target
        "Step 1: Which country has the capital Niamey?\nLogic Function: Ans1 = KGSearch (t1=country | h1=Niamey, "
        "r1=capital)\nStep 2: Which countries does Mali border?\nLogic Form: Ans2 = KGSearch (t2=country | h2=Mali, "
        "r2=borders)\nStep 3: Return the country that is in both.\nLogic Function: Ans3 = Inter (t3=country | Ans1, "
        "Ans2)",
        # Figure 1: without t, h and r; and section 3.3.1's lower case
        "Step 1: Which? Ans1 = SearchKG(country|Niamey, capital) Step 2: Which? Ans2 = SearchKG(country|Mali, borders) "
        "Step 3: Both? Ans3 = inter(Ans1, Ans2)",
        # Figure 7's template
        "Ans=SearchKG (t=country | h = Niamey, r = capital)\nAns2=SearchKG (t=country | h = Mali, r = borders)\n"
        "Ans3 = Intersect (sub-problem1, sub-problem2)",
        # ours
        'Ans1 = SearchKG(t="country" | h="Niamey", r="capital") Ans2 = SearchKG(t="country" | h="Mali", r="borders") '
        "Ans3 = Intersect(Ans1, Ans2)",
    ],
)
def test_every_form_of_a_plan_says_the_same(plan: str) -> None:
    functions = [step.function for step in read_plan(plan).steps]
    assert functions == [
        SearchKG("country", "Niamey", "capital"),
        SearchKG("country", "Mali", "borders"),
        Combine("Intersect", (1, 2)),
    ]
    assert all("Logic" not in step.problem for step in read_plan(plan).steps)


def test_the_other_functions_of_figure_7_and_what_is_none() -> None:
    first = "Ans1 = KGSearch(t=a | h=b, r=c) Ans2 = KGSearch (t=a | h=Ans1, r=c) "
    assert read_plan(first + "Ans3 = Union (Ans1, Ans2)").steps[2].function == Combine("Union", (1, 2))
    assert read_plan(first + "Ans3 = Negation(Ans1, Ans2)").steps[2].function == Combine("Negation", (1, 2))
    assert read_plan(first).steps[1].function == SearchKG("a", 1, "c")
    for wrong in (
        "Ans1 = GraphSearch(t=a | h=b, r=c)",
        first + "Ans3 = Inter(Ans1)",
        first + "Ans3 = Inter(Ans1, Ans4)",
    ):
        with pytest.raises(PlanError):
            read_plan(wrong)


# Transcripts

FIGURE_8 = (
    "<think>Two conditions: the capital and the border.</think>\n<plan>Step 1: Which country has the capital Niamey?\n"
    "Ans1 = SearchKG( t1=country | h1=Niamey, r1=capital )\nStep 2: Which countries does Mali border?\n"
    "Ans2 = SearchKG( t2=country | h2=Mali, r2=borders )\nStep 3: Return the answers that satisfy both Ans1 and Ans2.\n"
    "Ans3 = Inter(Ans1, Ans2)</plan>\n<think>For step 1, which relations has Niamey?</think>\n"
    "<relation_search> Niamey, capital </relation_search>",
    "<think>capital fits.</think><neighbor_search> Niamey, capital </neighbor_search>",
    "<think>For step 2.</think><relation_search> Mali, borders </relation_search>",
    "<think>borders fits.</think><neighbor_search> Mali, borders </neighbor_search>",
    "<think>In both: Niger.</think><answer>Niger</answer>",
)
FIGURE_2 = (
    "<plan> Step 1: Identify the country with the capital Niamey. Logic Form: Ans1 = KGSearch (t1=country | h1=Niamey, "
    "r1=capital) Step 2: Which countries does Mali border? Logic Form: Ans2 = KGSearch (t2=country | h2=Mali, "
    "r2=borders) Step 3: Return the country that is in both. Logic Form: Ans3 = Inter (t3=country | Ans1, Ans2) </plan>"
    "<think> For Q1, we find the relation in graph using relation search tool. </think>"
    "<relation_search> Niamey, capital </relation_search>",
    "<think> Nothing fits, so the web. </think> <web_search>Niamey, capital of</web_search>",
    "<think> For Q2. </think> <web_search>Mali, borders</web_search>",
    "<think> In both. </think> <answer>Niger</answer>",
)


def test_figure_8_over_the_complete_graph(graph: StoredGraph) -> None:
    outcome = walked(place(graph, drop=0), *FIGURE_8)
    assert [type(turn.step) for turn in outcome.episode.turns] == [Call, Call, Call, Call, Answer]
    assert all(turn.ok for turn in outcome.episode.turns)
    assert outcome.episode.answers == ["Niger"]
    assert outcome.complete
    assert paid(outcome) == 1.0  # equation 2: max(0.1, F1) with F1 = 1


def test_figure_2_over_the_incomplete_graph_asks_the_web(graph: StoredGraph) -> None:
    environment = place(graph, drop=1)
    assert not environment.complete
    outcome = walked(environment, *FIGURE_2)
    assert [turn.step.tool for turn in outcome.episode.turns if isinstance(turn.step, Call)] == [
        "relation_search",
        "web_search",
        "web_search",
    ]
    assert outcome.in_form
    assert paid(outcome) == 1.0
    told = "".join(turn.observation for turn in outcome.episode.turns)
    assert "Niger" in told  # a document that was written from the graph has what the graph lacks
    # the same walk without its answer, R_graph = 0 and R_web = 1: 0.1 with an incomplete graph, else -0.1
    unfinished = walked(environment, *FIGURE_2[:-1], "Niger, I think.")
    assert not unfinished.in_form
    assert paid(unfinished) == 0.1
    assert paid(Outcome(unfinished.episode, unfinished.metrics, complete=True)) == -0.1


def test_a_hidden_fact_is_not_in_the_graph_and_the_paper_says_what_is_told(graph: StoredGraph) -> None:
    asked = (FIGURE_8[0], "<think>.</think><neighbor_search>Niger, capital</neighbor_search>")
    environment = place(graph, drop=1)
    outcome = walked(environment, *asked, "<think>.</think><answer>Niger</answer>")
    told = "<neighbor_information>No information in the KG, please use web tool</neighbor_information>"
    assert outcome.episode.turns[1].observation == told
    assert "Niger" not in [fact.head for fact in environment.graph.match(None, "capital", "Niamey")]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Niger", ("Niger",)),
        ("Mali, Niger", ("Mali", "Niger")),  # Figure 2 has a comma between answers
        ('["Mali", "Niger"]', ("Mali", "Niger")),
        ("['Mali', 'Niger']", ("Mali", "Niger")),
        ('["Mali, Niger"]', ("Mali, Niger",)),  # in brackets a comma inside a name is its own
        ("Washington, D.C.", ("Washington, D.C.",)),  # which is an entity
    ],
)
def test_every_form_of_an_answer(text: str, names: tuple[str, ...], graph: StoredGraph) -> None:
    outcome = walked(place(graph, drop=0), FIGURE_8[0], f"<think>.</think><answer>{text}</answer>")
    last = outcome.episode.turns[-1].step
    assert isinstance(last, Answer)
    assert last.names == names
    f1 = {1: 1.0 if names == ("Niger",) else 0.0, 2: 2 / 3}[len(last.names)]
    assert paid(outcome) == pytest.approx(max(0.1, f1))


@pytest.mark.parametrize(
    "first",
    [
        "<relation_search>Mali, borders</relation_search>",  # neither thought nor plan
        "<think>.</think><relation_search>Mali, borders</relation_search>",  # no plan
        FIGURE_2[0].replace("<think> For Q1, we find the relation in graph using relation search tool. </think>", ""),
        FIGURE_8[0].replace("SearchKG", "GraphSearch"),  # no function of the paper's
    ],
)
def test_what_is_out_of_form_earns_no_accuracy(first: str, graph: StoredGraph) -> None:
    outcome = walked(place(graph, drop=0), first, FIGURE_8[0], FIGURE_8[-1])
    assert isinstance(outcome.episode.turns[0].step, Malformed)
    assert not outcome.in_form
    assert paid(outcome) == 0.0


# Equation 8

GRAPH = Turn([], [], "", Call("neighbor_search", ("Niamey", "capital")), "told", shown=["Niger"])
JUNK = Turn([], [], "", Malformed("junk"), ok=False)


def web_turn(text: str) -> Turn:
    return Turn([], [], "", Call("web_search", ("Niamey", "capital")), f"<web_information>{text}</web_information>")


WEB = {"not used": [], "in vain": [web_turn("Niamey is a city.")], "showed": [web_turn("It is Niger's capital.")]}
# R_graph, the web; then by hand: printed CKG, IKG; top-down CKG, IKG; use CKG, IKG
TABLE = [
    (0, "not used", (0, -0.1), (0, -0.1), (0, -0.1)),
    (0, "in vain", (0, -0.1), (0, -0.1), (-0.1, 0)),
    (0, "showed", (-0.1, 0.1), (0.1, 0.1), (-0.1, 0.1)),
    (1, "not used", (0.1, -0.1), (0.1, 0.1), (0.1, -0.1)),
    (1, "in vain", (0.1, -0.1), (0.1, 0.1), (-0.1, 0.1)),
    (1, "showed", (-0.1, 0.1), (0.1, 0.1), (-0.1, 0.1)),
]
READINGS = ("printed", "top-down", "use")


def ended(*turns: Turn, answer: Step | None = None, complete: bool = True, web: bool = True) -> Outcome:
    episode = Episode(NIGER, NIGER.topic_entities, [], "", list(turns))
    if isinstance(answer, Answer):
        episode.turns.append(Turn([], [], "", answer))
        episode.answers, episode.stop = [str(name) for name in answer.names], StopReason.answered
    return Outcome(episode, measure(episode), complete, web=web)


@pytest.mark.parametrize(("graph_shows", "web", "printed", "top_down", "use"), TABLE)
def test_equation_8_by_three_readings(
    graph_shows: int, web: str, printed: tuple[float, ...], top_down: tuple[float, ...], use: tuple[float, ...]
) -> None:
    for reading, expected in zip(READINGS, (printed, top_down, use), strict=True):
        for complete, value in zip((True, False), expected, strict=True):
            outcome = ended(*[GRAPH] * graph_shows, *WEB[web], JUNK, complete=complete)
            assert paid(outcome, f"reward_settings.equation_8={reading}") == pytest.approx(value), (reading, complete)
            if reading == "printed":
                assert paid(outcome) == pytest.approx(value)  # the default


def test_as_printed_the_lines_of_equation_8_overlap() -> None:
    """Each printed line, by itself: where two hold, the readings differ in which comes first."""

    def lines(graph: bool, web: bool, complete: bool) -> list[float]:
        holds = [(0.1, graph or web), (-0.1, web if complete else not web), (0.0, not graph and not web)]
        return [value for value, true in holds if true]

    for graph, web, complete in itertools.product((False, True), repeat=3):
        found = lines(graph, web, complete)
        turns = [*([GRAPH] if graph else []), *(WEB["showed"] if web else []), JUNK]
        outcome = ended(*turns, complete=complete)
        assert paid(outcome, "reward_settings.equation_8=top-down") == pytest.approx(found[0])
        assert paid(outcome) == pytest.approx(-0.1 if -0.1 in found else found[0])


def test_the_right_form_comes_before_all() -> None:
    right, wrong = Answer(("Niger",)), Answer(("Chad",))
    for reading, complete in itertools.product(READINGS, (True, False)):
        value = f"reward_settings.equation_8={reading}"
        assert paid(ended(*WEB["showed"], answer=right, complete=complete), value) == 1.0
        assert paid(ended(*WEB["in vain"], answer=wrong, complete=complete), value) == 0.1
    two = ended(answer=Answer(("Niger", "Chad")))
    assert paid(two) == pytest.approx(2 / 3)  # equation 3: 2 * 1 / (2 + 1)


def test_where_there_is_no_web_none_can_be_wrong_about_it() -> None:
    """Over an incomplete graph every walk in the wrong form got -0.1 for a web that it did not have."""
    assert paid(ended(JUNK, complete=False)) == -0.1
    assert paid(ended(JUNK, complete=False, web=False)) == 0.0
    assert paid(ended(GRAPH, JUNK, complete=False, web=False)) == 0.1


def test_a_reading_that_is_none() -> None:
    with pytest.raises(KgwalkError, match=r"equation_8 `topdown`; did you mean `top-down`"):
        paid(ended(JUNK), "reward_settings.equation_8=topdown")


# Ablations


def test_the_ablations_of_the_rewards() -> None:
    """Table 4: without R_graph and R_web; Figure 3: without the penalty. Each takes its own line and nothing else."""
    graph, web = ended(GRAPH, JUNK), ended(*WEB["showed"], JUNK, complete=False)
    bad = ended(*WEB["showed"], JUNK)
    expected = {  # graph showed on CKG; web showed on IKG; web showed on CKG
        (): (0.1, 0.1, -0.1),
        ("reward_settings.graph_retrieval=false",): (0.0, 0.1, -0.1),
        ("reward_settings.web_retrieval=false",): (0.1, 0.0, -0.1),
        ("reward_settings.penalty=0",): (0.1, 0.1, 0.1),
        ("reward_settings.penalty=0.3",): (0.1, 0.1, -0.3),
    }
    for values, numbers in expected.items():
        assert tuple(paid(outcome, *values) for outcome in (graph, web, bad)) == pytest.approx(numbers), values


def test_rollouts_without_planning_steps(graph: StoredGraph) -> None:
    """Table 3, KR + WR: no plan in the prompt, none in a turn, none in a demonstration."""
    without = load_recipe("graph-rft").with_values(["protocol.plan=false"])
    assert not protocol_of(without).plan  # type: ignore[attr-defined]
    later = FIGURE_8[1:]
    outcome = walked(place(graph, drop=0), *later, plan=False)
    assert outcome.in_form
    assert paid(outcome) == 1.0
    assert "plan" not in outcome.episode.prompt
    assert "SearchKG" not in outcome.episode.prompt
    with_one = walked(place(graph, drop=0), FIGURE_8[0], *later, plan=False)
    assert isinstance(with_one.episode.turns[0].step, Malformed)
    demos, rejects = make_demos(
        [NIGER], lambda question: graph, protocol_of(without), settings=DemoSettings.of(without), budget=WIDE
    )
    [demo] = demos
    assert rejects.kept == 1
    assert not any("<plan>" in turn for turn in demo.turns)


def test_rollouts_without_web_retrieval(graph: StoredGraph) -> None:
    """Table 3, PS + KR: the prompt offers no web, and the paper's sentence does not send the model there."""
    settings = EnvironmentSettings(drop=1, web="none")
    environment = Environments(lambda question: graph, settings, Environment).of(NIGER)
    asked = "<think>.</think><neighbor_search>Niger, capital</neighbor_search>"
    outcome = walked(environment, FIGURE_8[0], asked, "<think>.</think><answer>Niger</answer>")
    assert "There is no web search here" in outcome.episode.prompt
    told = "<neighbor_information>No information in the KG</neighbor_information>"
    assert outcome.episode.turns[1].observation == told


# By its name alone


def test_the_recipe_hides_facts_and_has_a_web() -> None:
    recipe = load_recipe("graph-rft")
    assert environment_settings(recipe) == EnvironmentSettings(drop=0.4, share=0.5, web="graph")
    assert recipe.section("train")["incomplete"] == 0.5
    for profile in ("135m", "smoke"):
        assert environment_settings(recipe.with_profile(profile)) == environment_settings(recipe)
        assert budget_of(recipe.with_profile(profile)).total_tokens <= 8192


def test_a_graph_without_gold_paths_is_told_of(world: Dataset) -> None:
    from kgwalk.training.pipeline import _of_environments

    plain = Question("q", "?", ["Mali"], ["Niger"])
    run = SimpleNamespace(
        protocol=protocol_named("graph-rft"),
        training_environments=Environments(world.graph_for, EnvironmentSettings(drop=0.4), Environment),
    )
    [note] = _of_environments(cast("Any", SimpleNamespace(questions=[plain], **vars(run))))
    assert "every graph stays complete" in note
    assert "kgwalk paths" in note
    assert _of_environments(cast("Any", SimpleNamespace(questions=[plain, NIGER], **vars(run)))) == []


def test_a_recipe_of_before_is_read() -> None:
    """Without the new keys everything has the paper's default, but for what a run's own recipe says."""
    old = Recipe("old", {"protocol": {"name": "graph-rft", "turns": 3}, "rewards": {"graph_rft": 1.0}})
    assert protocol_of(old).plan  # type: ignore[attr-defined]
    assert RewardFunction.of(old)(ended(JUNK, complete=False)).whole == WHOLE["graph_rft"](ended(JUNK, complete=False))
