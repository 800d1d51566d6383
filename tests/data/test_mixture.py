"""Several datasets as one: what is taken of each, whose graph a question is asked over, a run on two of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from films_questions import write_films
from kgwalk.cli.main import main
from kgwalk.config.run_folder import read_rows
from kgwalk.data.dataset import Dataset, load_dataset
from kgwalk.data.mixture import Mixture, evenly, load_data
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.types import KgwalkError, Question
from kgwalk.walk.environment import KEPT, Environments, EnvironmentSettings
from kgwalk.walk.protocol import Environment
from tiny_models import SIZES  # also: one thread for torch

assert SIZES


@pytest.fixture(autouse=True)
def _own_place(run_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(run_cache))
    monkeypatch.chdir(tmp_path)


def write_rivers(folder: Path) -> Path:
    """Another graph with an entity of the film graph's, Big, and questions in another split as well."""
    folder.mkdir()
    (folder / "kg.tsv").write_text("Big\tflows_into\tNorth Sea\nSmall\tflows_into\tBig\n")
    asked = {"id": "big", "question": "where does Big flow?", "topic_entities": ["Big"], "answers": ["North Sea"]}
    small = {"id": "small", "question": "where does Small flow?", "topic_entities": ["Small"], "answers": ["Big"]}
    for split in ("train", "dev"):
        lines = [orjson.dumps(row | {"gold_paths": None}) for row in (asked, small)]
        (folder / f"{split}.jsonl").write_bytes(b"\n".join(lines))
    return folder


@pytest.fixture
def both(tmp_path: Path) -> Mixture:
    mixture = load_data([write_films(tmp_path / "films"), write_rivers(tmp_path / "rivers")])
    assert isinstance(mixture, Mixture)
    return mixture


def test_questions_of_both_each_over_its_own_graph(both: Mixture) -> None:
    assert both.name == "films+rivers"
    assert both.splits() == ["test", "train", "dev"]
    assert [question.id for question in both.questions("train")] == ["rivers/big", "rivers/small"]
    films, rivers = both.questions("test")[0], both.questions("train")[0]
    assert (films.id, films.extra["dataset"], rivers.extra["dataset"]) == ("films/big", "films", "rivers")
    assert films.topic_entities == rivers.topic_entities == ["Big"]
    assert both.graph_for(films).relations("Big") == ["directed_by", "release_year", "starred_actors"]
    assert both.graph_for(rivers).relations("Big") == ["flows_into"]
    with pytest.raises(KgwalkError, match=r"no split 'tset' in films\+rivers; there are test, train, dev"):
        both.questions("tset")
    with pytest.raises(KgwalkError, match=r"question 'lakes/1' is of no part of films\+rivers"):
        both.graph_for(Question("lakes/1", "?", [], []))


def test_one_dataset_is_itself(tmp_path: Path) -> None:
    folder = write_films(tmp_path / "films")
    assert isinstance(load_data(folder), Dataset)
    assert load_data(["world"]) == load_dataset("world")
    assert load_data(opened := load_dataset("world")) is opened


def ids(data: Any, split: str = "test") -> list[str]:
    return [question.id for question in data.questions(split)]


def test_a_share_or_a_number_of_the_questions(tmp_path: Path) -> None:
    films = write_films(tmp_path / "films")  # five questions
    two = load_data([f"{films}:0.4"])
    assert two.name == "films:0.4"
    assert len(ids(two)) == 2
    assert set(ids(two)) < set(ids(load_data([films, films])))
    assert ids(load_data(f"{films}:0.4")) == ids(two)  # seeded
    assert len({tuple(ids(load_data(f"{films}:0.4", seed))) for seed in range(8)}) > 1
    assert len(ids(load_data([f"{films}:3"]))) == 3
    assert len(ids(load_data([f"{films}:300"]))) == len(ids(load_data([f"{films}:1.0"]))) == 5
    assert len(ids(load_data([f"{films}:1"]))) == 1
    again = load_data([films, f"{films}:2"])
    assert [part.name for part in again.parts] == ["films", "films-2"]  # type: ignore[attr-defined]
    assert len(ids(again)) == len(set(ids(again))) == 7


@pytest.mark.parametrize("amount", ["0", "0.0", "1.5", "-2", "half", "nan", ""])
def test_an_amount_that_is_none(amount: str) -> None:
    with pytest.raises(KgwalkError, match=r"after the colon stands a share .* such as world:0\.5, or a number"):
        load_data([f"world:{amount}"])


def test_a_colon_in_a_name(tmp_path: Path) -> None:
    assert load_data(write_films(tmp_path / "films:2")).name == "films:2"
    with pytest.raises(KgwalkError, match="unknown dataset `wrld`; did you mean `world`"):
        load_data(["world", "wrld:0.5"])
    with pytest.raises(KgwalkError, match="no dataset is given"):
        load_data([])


def test_a_small_sample_has_something_of_each() -> None:
    """9 of sizes 1, 3 and 100: 1, 3 and 5. Of one dataset it is the sample that an evaluation would take."""
    sizes = {"a": 100, "b": 1, "c": 3}
    questions = [Question(f"{n}/{i}", "?", [], [], extra={"dataset": n}) for n in sizes for i in range(sizes[n])]
    sample = evenly(questions, 9, 0)
    assert {name: sum(one.extra["dataset"] == name for one in sample) for name in sizes} == {"a": 5, "b": 1, "c": 3}
    assert [one.id for one in sample] == [one.id for one in questions if one in sample]
    assert evenly(questions, 500, 0) == questions


def test_a_world_is_made_once_for_each_graph(both: Mixture) -> None:
    made: list[Environment] = []

    def base(graph: Any) -> Environment:
        made.append(Environment(graph))
        return made[-1]

    environments = Environments(both.graph_for, EnvironmentSettings(), base)
    for question in [both.questions("test")[0], both.questions("train")[0]] * 3:
        assert environments.of(question).graph is both.graph_for(question)
    assert len(made) == 2
    views = [environments._complete(made[0].graph.subgraph(np.array([number % 7]))) for number in range(KEPT + 5)]  # type: ignore[attr-defined]
    assert len(environments._whole) == KEPT
    assert len({id(view.graph) for view in views}) == KEPT + 5


def test_an_evaluation_has_a_line_for_each(both: Mixture) -> None:
    report = evaluate("oracle", load_data([part.data for part in both.parts] + ["world:4"]), "test")
    assert {name: line["n"] for name, line in report["by"]["dataset"].items()} == {"films": 5, "world": 4}
    assert report["by"]["dataset"]["world"]["f1"] == 1.0


def test_a_run_on_two_datasets(both: Mixture, tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each dataset's validation has a number; the settings say what was mixed, so that another mixture is refused."""
    command = ["kgwalk", "train", "kgwalk", "--data", "rivers", "--data", "world:40", "--smoke", "--json", "-o", "run"]
    short = [f"--set={value}" for value in ("protocol.turns=1", "rollout.turn_tokens=48", "grpo.steps=1")]
    more = [f"--set={value}" for value in ("sft.eval_questions=4", "grpo.eval_questions=4", "demos.answer_f1=0.0")]

    def cli(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [*command, *short, *more, *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capfd.readouterr()  # type: ignore[return-value]

    status, stdout, stderr = cli()
    assert status == 0, stderr
    report = json.loads(stdout)
    assert set(report["stages"]["eval"]["by"]["dataset"]) == {"world"}  # rivers has no test questions
    row = list(read_rows(tmp_path / "run" / "grpo" / "metrics.jsonl"))[-1]
    assert row["eval_f1"] == (row["eval_f1/rivers"] + row["eval_f1/world"]) / 2  # two questions of each
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert [(part["name"], part["take"]) for part in settings["data"]] == [("rivers", 1.0), ("world", 40)]
    assert "# kgwalk on rivers+world:40" in (tmp_path / "run" / "README.md").read_text()
    demos = [orjson.loads(line)["id"] for line in (tmp_path / "run" / "demos.jsonl").read_bytes().splitlines()]
    assert all(name.partition("/")[0] in ("rivers", "world") for name in demos)
    assert cli("--resume")[0] == 0
    assert "holds another run: `data` was" in cli("--resume", "--data", "films")[2]


def test_demos_of_two_datasets(both: Mixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["kgwalk", "demos", "kgwalk", "--data", "films", "--data", "world:6", "--split", "test", "-o", "demos"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit, match="0"):
        main()
    found = [orjson.loads(line)["id"] for line in (tmp_path / "demos").read_bytes().splitlines()]
    assert {name.partition("/")[0] for name in found} == {"films", "world"}
