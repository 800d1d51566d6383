"""Run folders as a page reads them: the list, how far each run is, and that nothing outside the folder is read."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from films_questions import write_films
from kgwalk.config.lock import sole_writer
from kgwalk.config.run_folder import begin_run, write_json
from kgwalk.evaluation.runs import RunsFolder, UnknownRun, last_rows
from kgwalk.types import KgwalkError
from run_folders import evaluated, trained


@pytest.fixture
def runs(tmp_path: Path) -> RunsFolder:
    (tmp_path / "runs").mkdir()
    return RunsFolder(tmp_path / "runs")


def test_the_list_has_every_run_and_how_far_it_is(runs: RunsFolder) -> None:
    trained(runs.root / "group" / "first")
    (first,) = runs.listed()
    assert first == {
        "name": "group/first",
        "kind": "train",
        "inside": None,
        "state": "stopped",
        "recipe": "kgwalk",
        "data": "films",
        "split": "train",
        "model": "tiny",
        "stage": "grpo",
        "step": 3,
        "steps": 10,
        "f1": 0.5,
        "f1_of": "training",
        "begun": first["begun"],
        "updated": first["updated"],
        "error": None,
    }


def test_an_evaluation_inside_a_training_is_a_part_of_it_and_gives_its_f1(runs: RunsFolder, tmp_path: Path) -> None:
    """F1 is (1 + 2/3 + 2/3) / 5 (tests/evaluation/test_compare.py)."""
    path = trained(runs.root / "first")
    evaluated(write_films(tmp_path / "films"), path / "eval")
    (path / "README.md").write_text("the card")
    first, inner = runs.listed()
    assert (first["state"], first["stage"], first["f1_of"]) == ("finished", "grpo", "evaluation")
    assert first["f1"] == pytest.approx(7 / 15)
    assert (inner["name"], inner["inside"], inner["kind"]) == ("first/eval", "first", "eval")
    assert (inner["state"], inner["stage"], inner["step"], inner["steps"]) == ("finished", "walks", 5, 5)
    about = runs.about("first")
    assert [part["name"] for part in about["parts"]] == ["first/eval"]
    assert about["evaluated"] == "first/eval"
    sft, grpo = about["stages"]
    assert (sft["step"], sft["done"], sft["best"]) == (2, True, 0.25)
    assert (grpo["step"], grpo["steps"], grpo["done"], grpo["last"]["entropy"]) == (3, 10, False, pytest.approx(1 / 3))
    means = runs.about("first/eval")["evaluation"]
    assert means is not None
    assert (means["n"], means["groups"]["answers"][0]) == (5, "f1")
    assert sum(means["errors"].values()) == 4
    (path / "eval" / "metrics.json").unlink()
    inner = runs.summary("first/eval")
    assert (inner["state"], inner["step"], inner["steps"], inner["f1"]) == ("stopped", 5, None, None)
    with sole_writer(path):
        assert runs.summary("first")["stage"] == "eval"


def test_a_run_is_running_while_a_process_writes_into_it(runs: RunsFolder) -> None:
    path = trained(runs.root / "first")
    with sole_writer(path):
        assert runs.summary("first")["state"] == "running"
        holder = json.loads((path / ".lock.holder").read_text())
    write_json(path / ".lock.holder", holder | {"pid": 2**22 + 1})  # no such process: it was killed
    assert runs.summary("first")["state"] == "stopped"
    write_json(path / ".lock.holder", holder | {"host": "elsewhere"})  # it has written just now
    assert runs.summary("first")["state"] == "running"
    for inside in path.iterdir():
        os.utime(inside, (0, 0))
    assert runs.summary("first")["state"] == "stopped"


def test_the_progress_of_a_fit(runs: RunsFolder) -> None:
    path = runs.root / "fit"
    with begin_run(path, "fit", {"recipe": "kgwalk", "graph": "films.kg", "minutes": 8.0}):
        write_json(path / "time.json", {"used": {"start": 1.0, "questions": 9.0}, "decided": {}})
        early = runs.about("fit")["fit"]
        write_json(path / "plan.json", {"planned": {"before": 30.0, "demos": 10.0, "sft": 90.0, "after": 30.0}})
        write_json(path / "time.json", {"used": {"start": 1.0, "questions": 9.0, "before": 25.0}, "decided": {}})
        late = runs.about("fit")["fit"]
    assert early is not None
    assert late is not None
    assert [(one["part"], one["state"]) for one in early["parts"]][:3] == [
        ("questions", "done"),
        ("speed", "running"),
        ("worlds", "waiting"),
    ]
    assert [(one["part"], one["planned"], one["used"], one["state"]) for one in late["parts"]] == [
        ("questions", None, 9.0, "done"),
        ("before", 30.0, 25.0, "done"),
        ("training", 100.0, None, "running"),
        ("after", 30.0, None, "waiting"),
    ]
    assert (late["minutes"], late["spent"]) == (8.0, 35.0)
    write_json(path / "fit.json", {"before": {"n": 3, "f1": 0.25}, "after": {"n": 3, "f1": 0.5}, "notes": ["kept"]})
    about = runs.about("fit")
    ended = about["fit"]
    assert ended is not None
    assert about["summary"]["state"] == "finished"
    assert {one["state"] for one in ended["parts"]} == {"done"}
    assert (ended["before"]["f1"], ended["after"]["f1"], ended["notes"]) == (0.25, 0.5, ["kept"])


def test_damaged_runs_are_listed_with_what_is_wrong(runs: RunsFolder) -> None:
    trained(runs.root / "good")
    trained(runs.root / "bad") / "run.json"
    (runs.root / "bad" / "run.json").write_text("{")
    bad, good = runs.listed()
    assert (good["state"], bad["state"]) == ("stopped", "damaged")
    assert bad["error"] is not None
    assert bad["error"].startswith("bad/run.json is not JSON")
    with pytest.raises(KgwalkError, match="not JSON"):
        runs.about("bad")


@pytest.mark.parametrize(
    "name", ["../outside", "/", "first/../../outside", "", "first/", "./first", "fir\0st", "x" * 5000]
)
def test_only_names_of_the_list_are_runs(runs: RunsFolder, name: str) -> None:
    trained(runs.root / "first")
    trained(runs.root.parent / "outside")
    with pytest.raises(UnknownRun):
        runs.about(name)
    with pytest.raises(UnknownRun, match="did you mean first"):
        runs.about("frist")


def test_links_that_lead_outside_are_not_followed(runs: RunsFolder) -> None:
    outside = trained(runs.root.parent / "outside")
    (runs.root / "linked").symlink_to(outside)
    first = trained(runs.root / "first")
    shutil.rmtree(first / "sft")
    (first / "eval").symlink_to(outside)
    (first / "recipe.toml").symlink_to("/etc/passwd")
    assert runs.names() == ["first"]
    with pytest.raises(UnknownRun):
        runs.about("linked")
    with pytest.raises(KgwalkError, match=r"first/recipe.toml lies outside"):
        runs.about("first")
    with pytest.raises(KgwalkError, match=r"first/eval/run.json lies outside"):
        runs.checked("first")
    (first / "grpo" / "metrics.jsonl").unlink()
    (first / "grpo" / "metrics.jsonl").symlink_to(outside / "grpo" / "metrics.jsonl")
    assert runs.summary("first")["error"] == "first/grpo/metrics.jsonl lies outside the folder of runs, and is not read"


def test_the_folder_may_be_a_run_itself(tmp_path: Path) -> None:
    runs = RunsFolder(trained(tmp_path / "first"))
    assert runs.names() == ["."]
    assert runs.about(".")["summary"]["step"] == 3


def test_settings_that_differ(runs: RunsFolder) -> None:
    trained(runs.root / "first")
    trained(runs.root / "second", reward=0.2)
    assert runs.differing("first", "second") == [("sections.grpo.lr", 0.1, 0.2)]


def test_the_last_rows_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\nnot json\n{"a": "' + b"x" * 200 + b'"}\n{"a": 3')
    assert len(last_rows(path, size=40)[-1]["a"]) == 200  # the one that is being written is left out
    assert len(last_rows(path)) == 2
