"""Training over complete and incomplete graphs mixed, with a web for what is missing (Graph-RFT)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from kgwalk.cli.main import main
from kgwalk.config.recipe import load_recipe
from kgwalk.config.run_folder import read_json, read_rows
from kgwalk.data.dataset import Dataset, load_dataset
from kgwalk.demos.demo import read_demos
from kgwalk.training.pipeline import train
from kgwalk.types import KgwalkError, Question, Triple
from kgwalk.walk.environment import Environments, EnvironmentSettings
from kgwalk.walk.protocol import Environment
from tiny_models import UNTAUGHT_VALUES  # also: one thread for torch

CAPITALS = {
    "Norway": "Oslo",
    "Sweden": "Stockholm",
    "Finland": "Helsinki",
    "Denmark": "Copenhagen",
    "Iceland": "Reykjavik",
    "Estonia": "Tallinn",
    "Latvia": "Riga",
    "Lithuania": "Vilnius",
}
ALL, HALF = EnvironmentSettings(drop=0.4), EnvironmentSettings(drop=0.4, share=0.5)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Eight lands and their capitals, each with a fact more, and a question about each."""
    folder = tmp_path_factory.mktemp("lands")
    facts = [(land, "capital", city) for land, city in CAPITALS.items()]
    facts += [(name, "continent", "Europe") for land, city in CAPITALS.items() for name in (land, city)]
    (folder / "kg.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts))
    questions = [
        {
            "id": land,
            "question": f"what is the capital of {land}?",
            "topic_entities": [land],
            "answers": [city],
            "hops": 1,
            "gold_paths": [[[land, "capital", city]]],
        }
        for land, city in CAPITALS.items()
    ]
    for split in ("train", "dev", "test"):
        (folder / f"{split}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in questions))
    return load_dataset(folder)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A document for each land."""
    file = tmp_path_factory.mktemp("web") / "corpus.jsonl"
    rows = [{"title": land, "text": f"The capital of {land} is {city}."} for land, city in CAPITALS.items()]
    file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return file


@pytest.fixture(scope="module", autouse=True)
def _cache(run_cache: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KGWALK_CACHE", str(run_cache))
        yield


def environments(data: Dataset, settings: EnvironmentSettings) -> Environments:
    return Environments(data.graph_for, settings, Environment)


@pytest.fixture(scope="module")
def run(data: Dataset, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A smoke run in which four of ten facts are hidden: of one question in two in training, of any elsewhere."""
    folder = tmp_path_factory.mktemp("run") / "run"
    values = [*UNTAUGHT_VALUES, "world.share=1", f"world.web={orjson.dumps(str(corpus)).decode()}", "rewards.luck=0"]
    more = ["grpo.questions=8", "grpo.steps=1", "grpo.episodes=8", "protocol.turns=2", "demos.limit=8"]
    more.append("rollout.turn_tokens=80")  # what a demonstration needs
    train("graph-rft", data, out=folder, profile="smoke", values=[*values, *more], report_to="none")
    return folder


def hidden(data: Dataset, settings: EnvironmentSettings) -> set[str]:
    """The questions whose graph lacks their fact."""
    found = environments(data, settings)
    return {question.id for question in data.questions("train") if not found.of(question).complete}


def test_half_of_the_questions_are_asked_over_an_incomplete_graph(data: Dataset) -> None:
    assert load_recipe("graph-rft").section("train")["incomplete"] == 0.5
    everyone = hidden(data, EnvironmentSettings(drop=1.0))
    assert everyone == set(CAPITALS)
    assert everyone > hidden(data, ALL) > hidden(data, HALF) > set()
    land = next(iter(hidden(data, HALF)))
    question = next(question for question in data.questions("train") if question.id == land)
    one, other = (environments(data, settings).of(question).graph for settings in (HALF, ALL))
    assert list(one.match(land)) == list(other.match(land)) == [Triple(land, "continent", "Europe")]


def test_demonstrations_ask_the_web_where_the_fact_is_hidden_and_only_there(run: Path, data: Dataset) -> None:
    demos = list(read_demos(run / "demos.jsonl"))
    assert {demo.id for demo in demos} == set(CAPITALS)
    assert {demo.id for demo in demos if demo.web} == hidden(data, HALF)
    assert read_json(run / "demos.json") == {
        "tried": 8,
        "kept": 8,
        "wrong": 0,
        "web": len(hidden(data, HALF)),
        "fallen": {},
    }
    assert read_json(run / "train.json")["stages"]["demos"]["web"] == len(hidden(data, HALF))


def test_the_penalty_knows_whose_graph_was_incomplete(run: Path, data: Dataset) -> None:
    """A model that knows nothing writes in the wrong form and never asks the web: equation 8 gives -0.1 where the graph
    was incomplete, and 0 where it was whole."""
    rows = list(read_rows(run / "grpo" / "episodes.jsonl"))
    assert {row["episode"]["question"]["id"] for row in rows} == set(CAPITALS)
    punished = {row["episode"]["question"]["id"] for row in rows if row["rewards"]["parts"]["graph_rft"] == -0.1}
    spared = {row["episode"]["question"]["id"] for row in rows if row["rewards"]["parts"]["graph_rft"] == 0}
    assert punished == hidden(data, HALF)
    assert spared == set(CAPITALS) - punished
    [row] = read_rows(run / "grpo" / "metrics.jsonl")
    assert row["reward"] == pytest.approx(-0.1 * len(punished) / 8)


def test_the_evaluation_takes_the_world_as_it_is(run: Path, data: Dataset) -> None:
    """As `kgwalk eval --graph-drop 0.4` would have it: any question may lose its fact."""
    rows = list(read_rows(run / "eval" / "predictions.jsonl"))
    assert {row["id"] for row in rows if row["groups"]["graph"] == "incomplete"} == hidden(data, ALL)
    assert {row["id"] for row in rows if row["groups"]["graph"] == "complete"} == set(CAPITALS) - hidden(data, ALL)
    settings = read_json(run / "run.json")["settings"]["sections"]
    assert (settings["world"]["drop"], settings["train"]["incomplete"]) == (0.4, 0.5)


def test_the_options_are_values_of_the_recipe(
    data: Dataset, corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def kgwalk(*arguments: object) -> Any:
        options = ["--data", data.path, "--graph-drop", 0.4, "--web", corpus, "--json"]
        monkeypatch.setattr(sys, "argv", ["kgwalk", *map(str, (*arguments, *options))])
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        printed = capfd.readouterr()
        assert not end.value.code, printed.err
        return orjson.loads(printed.out)

    count = len(hidden(data, HALF))
    report = kgwalk("train", "graph-rft", "--smoke", "--stages", "demos", "-o", tmp_path / "run")
    assert report["stages"]["demos"]["web"] == count > 0
    environment = read_json(tmp_path / "run" / "run.json")["settings"]["sections"]["world"]
    assert environment == {"drop": 0.4, "share": 0.5, "web": str(corpus)}
    report = kgwalk("demos", "graph-rft", "--set", "world.share=1", "-o", tmp_path / "demos.jsonl")
    assert report["web"] == report["by"]["web"]["True"] == len(hidden(data, ALL)) > count
    assert report["kept"] == 8


@pytest.mark.parametrize(
    ("recipe", "values", "message"),
    [
        ("kg-r1", ["world.web=corpus"], "the recipe kg-r1 has no web search; choose one that has, such as graph-rft"),
        ("graph-rft", ["world.drop=2"], "`world.drop` must be at most 1, not 2"),
        ("graph-rft", ["world.drops=0.2"], "unknown setting `world.drops`; did you mean `world.drop`"),
        ("graph-rft", ["train.incomplete=1.5"], "`train.incomplete` must be at most 1, not 1.5"),
        ("graph-rft", ["world.web=not-there.jsonl"], "not-there.jsonl"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_done(
    recipe: str, values: list[str], message: str, data: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(KgwalkError) as caught:
        train(recipe, data, out=tmp_path / "run", profile="smoke", values=values)
    assert message in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_question_without_gold_paths_keeps_its_graph(data: Dataset) -> None:
    question = Question("q", "?", ["Norway"], ["Oslo"])
    assert environments(data, EnvironmentSettings(drop=1.0)).of(question).complete
