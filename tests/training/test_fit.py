"""`kgwalk fit`: from a graph alone to an agent beside it and a score, in parts that are done once; errors that help."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from commands import Cli
from conftest import FILMS, store_of
from kgwalk.config.recipe import load_recipe
from kgwalk.config.run_folder import begin_run
from kgwalk.data.dataset import Dataset, load_dataset
from kgwalk.data.mixture import load_data
from kgwalk.demos.demo import RoughTokenizer
from kgwalk.demos.make import GraphExamples
from kgwalk.evaluation.evaluate import PREDICTIONS
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.llm.models import read_adapter
from kgwalk.training.fit.fit import fit
from kgwalk.training.fit.plan import (
    GENTLY,
    FitPlan,
    FitRequest,
    FitTime,
    MachineSpeed,
    a_walk,
    plan_for,
    stage_minutes,
)
from kgwalk.training.fit.questions import make, rehearsal_sets
from kgwalk.training.fit.result import First, put_examples
from kgwalk.types import KgwalkError
from kgwalk.walk.agent import Agent
from kgwalk.walk.examples import ENDING, read_examples, write_examples
from kgwalk.walk.policy import choose_adapter, place_of, protocol_of
from tiny_models import SIZES  # also: one thread for torch

assert SIZES
# a model that knows nothing, and walks that are soon over
TINY = [
    "model.name=tiny-random",
    "model.lora_rank=2",
    "model.lora_alpha=4.0",
    "protocol.turns=1",
    "rollout.turn_tokens=48",
    "demos.styles=['none']",
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_place(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(cache))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)


def studio(folder: Path) -> StoredGraph:
    """120 films by 30 directors from 5 cities, three actors each: enough to ask about."""
    facts = []
    for number in range(120):
        film = f"Film {number}"
        facts.append((film, "directed_by", f"Director {number % 30}"))
        facts += [(film, "starred_actors", f"Actor {(number * 7 + place * 13) % 60}") for place in range(3)]
        facts.append((film, "release_year", str(1960 + number % 50)))
    facts += [(f"Director {number}", "born_in", f"City {number % 5}") for number in range(30)]
    return store_of(folder, facts)


def test_every_part_runs(cli: Cli, tmp_path: Path) -> None:
    done = cli("fit", "world", "--smoke", "--count", 60)
    assert done.status == 0, done.stderr
    run = tmp_path / "runs" / "fit-world-smoke"
    report = json.loads((run / "fit.json").read_text())
    assert [report["plan"][split] for split in ("train", "dev", "test", "before")] == [24, 4, 6, 3]
    assert {split: len(load_dataset(run / "questions").questions(split)) for split in ("train", "dev", "test")} == {
        "train": 24,
        "dev": 4,
        "test": 6,
    }
    assert (report["before"]["n"], report["after"]["n"], report["gain"]["n"]) == (3, 6, 3)
    assert report["stages"]["grpo"]["steps"] == 2
    assert sum(line["n"] for line in report["after"]["by"]["type"].values()) == 6
    assert sum(line["n"] for line in report["after"]["by"]["hops"].values()) == 6
    # a model that knows nothing is put nowhere
    assert report["adapter"] == "runs/fit-world-smoke/train/adapter"
    assert "note: a smoke run: the agent knows nothing, and is not put beside the graph" in done.stderr
    assert "6 questions held out" in done.stdout
    assert re.search(r"minutes used: [\d.]+ \(start [\d.]+, questions .*, after [\d.]+\); at most 40", done.stdout)
    assert done.stdout.splitlines()[-1] == "every part runs; `kgwalk fit world` trains an agent to ask"
    assert "ask it:" not in done.stdout  # nine turns that lead nowhere
    assert cli("fit", "world", "--smoke", "--count", 60, "--json", "--resume").status == 0
    again = cli("fit", "world", "--smoke", "--count", 60)
    assert again.status == 1
    assert "holds this fit already; --resume goes on with it, --force starts over" in again.stderr


def test_a_fit_that_is_stopped_goes_on_and_its_agent_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = studio(tmp_path)

    def go(resume: bool, until: str = "") -> dict[str, Any]:
        def progress(stage: str, step: int, steps: int | None, numbers: Mapping[str, float] = {}, /) -> None:
            told.append(stage)
            if stage == until:
                raise KeyboardInterrupt

        return fit(
            graph,
            out="run",
            minutes=0.01,
            count=60,
            device="cpu",
            engine="local",
            values=TINY,
            resume=resume,
            progress=progress,
        )

    told: list[str] = []
    for until in ("speed", "before", "sft", "after"):
        told.clear()
        with pytest.raises(KeyboardInterrupt):
            go(until != "speed", until)
    assert "questions" not in told  # made once
    assert "sft" not in told  # and learnt once
    report = go(True)
    assert report["speed"]["demo"] > 0
    assert (report["plan"]["train"], report["plan"]["before"], report["plan"]["steps"]) == (32, 4, 0)  # the least
    assert report["notes"][0] == "no GRPO: 0.01 minutes do not allow for enough steps on this machine"
    assert list(report["stages"]) == ["demos", "sft"]
    # each part has its time, over all the times that it was begun; the stage has what is left: here, the least
    assert list(report["used"]) == ["start", "questions", "speed", "before", "training", "after"]
    assert report["seconds"] >= sum(report["used"].values()) - 0.1
    assert list(report["planned"]) == ["preparing", "loading", "before", "demos", "sft", "grpo", "after"]
    assert report["stages"]["sft"]["minutes"] == pytest.approx(1 / 60, abs=1e-4)
    assert any(note.startswith("it took ") and note.endswith(" minutes instead of 0.01") for note in report["notes"])
    assert (report["start"], report["kept"]) == (None, "result")
    beside = tmp_path / "graph.kg.agent"
    assert report["adapter"] == str(beside)
    assert report["found"] is True
    assert json.loads((beside / "kgwalk.json").read_text())["data"] == "graph"
    assert {"adapter_model.safetensors", "kgwalk.json", "README.md"} <= {file.name for file in beside.iterdir()}
    store = Path(graph.store.folder.path)
    choice = choose_adapter(None, store, load_recipe("kgwalk"), model=None, engine="local")
    assert (choice.folder, place_of(store)) == (str(beside), beside)

    # another fit goes on from it, whatever the rank that the recipe would have
    general = tmp_path / "general"  # as the one that comes with kgwalk
    shutil.copytree(beside, general)
    monkeypatch.setenv("KGWALK_AGENT", str(general))
    more = [value for value in TINY if "lora" not in value]
    weights = (beside / "adapter_model.safetensors").read_bytes()
    options: dict[str, Any] = {"minutes": 0.01, "count": 40, "device": "cpu", "engine": "local"}
    again = fit(graph, out="again", train=True, **options, values=[*more, "sft.batch=1", "sft.minutes=0.0001"])
    assert again["start"] == str(general)
    # it walks nothing rightly, so the rate is the common one for who goes on from an agent; the last weights are taken
    trained = load_recipe(str(tmp_path / "again" / "train" / "recipe.toml")).section("sft")
    assert (trained["lr"], trained["threads"], trained["eval_questions"]) == (GENTLY, again["speed"]["threads"], 0)
    assert again["stages"]["sft"]["best"] is None
    # a third of what it learns is about random worlds: of a course of 40 (there are no more), 13
    assert again["questions"]["worlds"] == 13
    learnt = load_data([Dataset("graph", tmp_path / "again" / "questions"), *rehearsal_sets(tmp_path / "again")])
    by_part = Counter(one.id.partition("/")[0] for one in learnt.questions("train"))
    assert by_part == {"graph": 27, "worlds": 13}
    assert learnt.questions("dev")[0].id.startswith("graph/")  # GRPO would be validated by its own graph alone
    # six thousandths of a second are over after a step; it has learnt nothing, so what it began from stays
    steps = again["stages"]["sft"]["planned_steps"]
    assert steps > 1
    assert "sft used its minutes up with step 1" in again["notes"]
    assert (again["gain"]["first"], again["gain"]["second"], again["kept"]) == (0, 0, "start")
    assert again["notes"][-2:] == [
        f"training made it no better: F1 on {again['gain']['n']} questions held out was 0.000 and is 0.000; "
        "the weights that it started from are kept",
        f"{beside}, of another fit, is left where it is, and found before the agent that comes with kgwalk",
    ]
    # it is found where it is, or would be without the first fit's, so it is put nowhere
    assert (again["adapter"], again["found"]) == (str(general), False)
    assert (beside / "adapter_model.safetensors").read_bytes() == weights
    assert (tmp_path / "again" / "train" / "adapter" / "adapter_model.safetensors").read_bytes() != weights
    assert read_adapter(beside).base == "tiny-random"
    assert json.loads((beside / "adapter_config.json").read_text())["r"] == 2

    # without a GPU, and unless told to train, a fit shows worked examples to the agent that `ask` would find
    earlier = tmp_path / f"graph.kg{ENDING}"
    earlier.write_text("")
    told.clear()
    options["minutes"] = 0.5
    shown = fit(graph, out="shown", **options, values=more, progress=lambda stage, *rest: told.append(stage))
    assert (shown["start"], shown["trained"], shown["stages"]) == (str(beside), False, {})
    assert set(told) == {"questions", "before", "after"}
    made = read_examples(tmp_path / "shown" / "examples.jsonl").examples
    assert len(made) == shown["questions"]["examples"] > 100
    asked = {one.question: one for one in load_dataset(tmp_path / "shown" / "questions").questions("train")}
    assert {one.question for one in made} <= asked.keys()  # none that is held out
    without, with_some = (
        sum(row["metrics"]["prompt_tokens"] for row in map(json.loads, path.read_text().splitlines()))
        for path in (tmp_path / "shown" / which / PREDICTIONS for which in ("before", "after"))
    )
    assert with_some > without
    # a model that knows nothing is helped by nothing: they are not kept, and neither are those of an earlier fit
    assert shown["examples"] == {"shown": 3, "file": None, "learnt": False}
    assert shown["notes"][-2:] == [
        f"worked examples made it no better: F1 on {shown['gain']['n']} questions held out was 0.000 and is 0.000; "
        "they are not kept",
        f"{earlier}, of an earlier fit, is removed",
    ]
    assert not earlier.exists()
    assert (beside / "adapter_model.safetensors").read_bytes() == weights


def test_examples_that_help_are_put_where_ask_finds_them(tmp_path: Path) -> None:
    graph = studio(tmp_path)
    recipe = load_recipe("kgwalk").with_values(["protocol.examples=2"])
    asked = FitRequest(
        graph=graph,
        name="studio",
        recipe=recipe,
        path=tmp_path / "run",
        minutes=3.0,
        count=100,
        seed=0,
        start=tmp_path / "agent",
        device="cpu",
        engine="local",
        smoke=False,
        train=False,
        values=(),
        progress=lambda *told: None,
    )
    made, _ = make(graph, "studio", 100, 0, asked.progress)
    questions = made.questions("train")
    library = GraphExamples(questions, made.graph_for, protocol_of(recipe)).library(questions[0])
    with begin_run(asked.path, "fit", {}) as (folder, _):
        write_examples(folder.file("examples.jsonl"), library.examples)
        place, notes = put_examples(asked, folder, kept=False)
    assert (place, notes) == (tmp_path / f"graph.kg{ENDING}", [])
    agent = Agent(graph, recipe, engine=ScriptedEngine(["<answer>[]</answer>"], tokens=RoughTokenizer()))
    prompt = agent.ask("who was Film 7 directed by?").episodes[0].prompt
    shown = [line for line in prompt.splitlines() if line.startswith("e.g. ")]
    assert len(shown) == 2
    assert all('"directed_by"' in line for line in shown)


def test_making_questions_ends_in_time(tmp_path: Path) -> None:
    with pytest.raises(KgwalkError, match="0 questions could be made"):
        make(studio(tmp_path), "studio", 60, 0, lambda *told: None, seconds=0.0)


def test_who_has_no_agent_cannot_do_without_training(tmp_path: Path) -> None:
    for options in ({}, {"smoke": True}, {"recipe": "kg-r1"}):
        with pytest.raises(KgwalkError, match="they need an agent of the kgwalk protocol: give --start ADAPTER"):
            fit(studio(tmp_path), out="run", train=False, **options)


def test_a_plan_keeps_to_the_time() -> None:
    for demo, walk in ((3.0, 2.0), (0.02, 0.01), (0.5, 0.1), (12.0, 7.0)):
        for seconds in (300.0, 2400.0, 36000.0):
            plan = plan_for(MachineSpeed(demo, walk), seconds, most=8000)
            least = plan.train == 32 or plan.test == 16
            assert plan.seconds <= seconds or least
            assert plan.before <= plan.test
            assert plan.steps == 0 or 10 <= plan.steps <= 60
    trained = plan_for(MachineSpeed(3.0, 2.0), 2400, most=1500, untrained=False)
    assert (trained.before, trained.test) == (120, 120)  # an agent walks at once: all of them, before and after
    hurried = plan_for(MachineSpeed(3.0, 2.0), 60, most=1500, untrained=False)
    assert (hurried.before, hurried.test) == (16, 16)  # fewer could not tell whether it got better
    assert isinstance(trained, FitPlan)


def test_the_first_few_questions_are_among_the_first_many() -> None:
    world = load_dataset("world")
    few, many = (First(world, count).questions("test") for count in (4, 16))
    assert few == many[:4] == world.questions("test")[:4]
    assert First(world, 4).place() == world.place()


def test_the_time_of_a_fit_is_kept_and_what_was_decided_stays(tmp_path: Path) -> None:
    now = [100.0]
    first = FitTime(tmp_path, 10, 97.0, clock=lambda: now[0])  # three seconds of imports
    with first.part("questions"):
        now[0] += 20

    def stopped() -> None:
        with first.part("before"):
            now[0] += 30
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert (first.spent, first.left) == (53, 547)
    assert first.known("minutes") is None
    assert first.decided("minutes", {"sft": 5.0}) == {"sft": 5.0}
    now[0] = 5000.0
    second = FitTime(tmp_path, 10, 4996.0, clock=lambda: now[0])
    with second.part("before"):
        now[0] += 10
    assert second.used == {"start": 7.0, "questions": 20.0, "before": 40.0}
    assert (second.spent, second.left) == (67, 533)
    assert second.decided("minutes", {"sft": 9.0}) == second.known("minutes") == {"sft": 5.0}


def test_a_slow_machine_shortens_the_stages_and_not_the_promise() -> None:
    # 40 minutes planned: 240 s for 120 walks of an agent before, as many after, 1,800 s of SFT. The walks before took
    # twice as long, so those after will; a quarter more is kept for them.
    speed = MachineSpeed(3.0, 2.0)
    walk = a_walk(speed, 4.0, untrained=False)
    assert stage_minutes(2400 - 480 - 1.25 * 120 * walk, {"sft": 1800.0}) == {"sft": 22.0}


def test_what_cannot_be(cli: Cli, tmp_path: Path) -> None:
    small = store_of(tmp_path, FILMS[:2])
    with pytest.raises(KgwalkError, match=r"tiny has 2 facts, and the least to learn from some .* are 50"):
        fit(small, out="runs/run", name="tiny", smoke=True, count=60)
    assert not (tmp_path / "runs").exists()  # what was never begun leaves nothing behind
    with pytest.raises(KgwalkError, match="no agent comes with this kgwalk; give an adapter"):
        fit(small, out="run", start="shipped")
    with pytest.raises(KgwalkError, match="baseline without a protocol"):
        fit(small, out="run", recipe="oracle")
    with pytest.raises(KgwalkError, match="rewards what a judge says, and a fit has none"):
        fit(small, out="run", recipe="kg-hopper", values=["rewards.reasoning=1.0"])
    elsewhere = cli("fit", "http://127.0.0.1:1")
    assert elsewhere.status == 1
    assert "is a graph elsewhere; this needs one here" in elsewhere.stderr
    assert "does not exist; build it with `kgwalk kg build" in cli("fit", "nowhere.kg").stderr


def test_a_handful_of_facts_is_refused_however_many_questions_are_made_of_it(tmp_path: Path) -> None:
    """Each fact is worded in dozens of ways, of which some would be held out, though the facts are the same."""
    teams = [(f"Player {n}", what, f"{what} {n % few}") for n in range(17) for what, few in (("team", 6), ("city", 7))]
    players = [*teams, *((f"Player {n}", "born", str(1970 + n)) for n in range(17))]  # 51 facts
    made, told = make(store_of(tmp_path, players), "players", 60, 0, lambda *told: None)
    assert all(made.by_split.values())
    assert told["made"] == 400
    with pytest.raises(KgwalkError, match=r"players has 49 facts, and .* \(a table needs `kg build --table`\)"):
        make(store_of(tmp_path, players[:49]), "players", 60, 0, lambda *told: None)
    texts = [("hall", "story", f"{'and so on ' * 20}{n}") for n in range(60)]  # too long to be asked about
    with pytest.raises(KgwalkError, match="hall has 60 facts; there is 1 thing to ask about it"):
        make(store_of(tmp_path, texts), "hall", 60, 0, lambda *told: None)


WRONG = {
    "sft.lrr=1": "unknown setting `sft.lrr`; did you mean `sft.lr`?",
    "sft.lr=abc": "`sft.lr` must be a number, not 'abc'",
    "sft.lr=-1": "`sft.lr` must be above 0, not -1",
    "grpo.step=3": "did you mean `grpo.steps`?",
    "model.lora_rank=-1": "`model.lora_rank` must be at least 0",
    "model.name=./nowhere": "nowhere: there is none",
    "demos.stiles=[]": "did you mean `demos.styles`?",
    "curriculum.order=hardest": "unknown value of curriculum.order `hardest`",
    "rewards.f1=-1": "`rewards.f1` must not be below 0",
    "world.drp=1": "did you mean `world.drop`?",
    "rollout.turn_token=1": "did you mean `rollout.turn_tokens`?",
    "eval.run=1": "did you mean `eval.runs`?",
    "train.stages=['sfd']": "unknown stage `sfd`; did you mean `sft`?",
    "train.stages=['sft']": "add the stage demos to `train.stages`",
    "train.stages=['eval']": "a fit learns by the stage sft, or grpo",
}


@pytest.mark.parametrize("value", WRONG)
def test_a_wrong_setting_is_told_before_a_question_is_made(value: str, tmp_path: Path) -> None:
    told: list[str] = []
    with pytest.raises(KgwalkError) as refused:
        fit(
            store_of(tmp_path, FILMS),
            out="runs/run",
            smoke=True,
            values=[value],
            progress=lambda stage, step, steps, numbers={}: told.append(stage),
        )
    assert WRONG[value] in str(refused.value)
    assert told == []
    assert not (tmp_path / "runs").exists()


def test_a_wrong_recipe_or_device_is_told_too(tmp_path: Path) -> None:
    graph = store_of(tmp_path, FILMS)
    can = "choose a recipe that can be trained: eog, graph-rft, kg-hopper, kg-r1, kg-reasoner, kgwalk"
    for options, message in (
        ({"device": "tpu"}, "unknown device `tpu`; there are auto, cpu and cuda"),
        ({"device": "cuda:99"}, "the device cuda:99 was asked for, and torch sees"),
        ({"recipe": "oracle"}, f"the recipe oracle is a baseline without a protocol; {can}"),
        ({"recipe": "cot"}, f"nothing writes demonstrations of its protocol cot; {can}"),
    ):
        with pytest.raises(KgwalkError) as refused:
            fit(graph, out="runs/run", smoke=True, **options)
        assert message in str(refused.value)
    assert not (tmp_path / "runs").exists()
