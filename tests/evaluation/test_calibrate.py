"""`kgwalk calibrate`: how sure an agent may be, fitted on evaluations of it, kept beside its adapter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import Cli
from kgwalk.config.recipe import load_recipe
from kgwalk.config.run_folder import episode_from, episode_row
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.evaluation.report import calibrate, is_right
from kgwalk.llm.engine import Request, ScriptedEngine
from kgwalk.types import Episode, KgwalkError, Question, SecondLook
from kgwalk.walk.confidence import read_confidence


def walk(request: Request) -> str:
    """Whatever is asked, it says where somebody works."""
    if "wer ist das" in request.messages[-1].content:
        return "<answer>[]</answer>"
    turn = sum(message.role == "assistant" for message in request.messages)
    return ['tail_entities($1, "works_in")', "<answer>$2</answer>"][turn]


def evaluated(place: Path, name: str, people: int = 30, strangers: int = 0, language: str = "core") -> Path:
    """Half of the questions ask where somebody works, which the walk says, half where somebody was born; then come
    questions that name nobody.
    """
    folder = place / name
    folder.mkdir()
    facts = [f"P{n} {name}\t{r}\t{r[:4]} {name} {n % 3}\n" for n in range(people) for r in ("works_in", "born_in")]
    (folder / "kg.tsv").write_text("".join(facts))
    rows = []
    for n in range(people):
        relation, words = ("works_in", "works") if n % 2 else ("born_in", "was born")
        who = f"P{n} {name}"
        answers = [f"{relation[:4]} {name} {n % 3}"]
        rows.append({"id": str(n), "question": f"where {who} {words}", "topic_entities": [who], "answers": answers})
    for n in range(strangers):
        rows.append({"id": f"s{n}", "question": "wer ist das denn", "topic_entities": [], "answers": ["x"]})
    (folder / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    adapter = place / "adapter"
    adapter.mkdir(exist_ok=True)
    (adapter / "kgwalk.json").write_text('{"base_model": "tiny"}')
    run = place / f"run-{name}"
    recipe = load_recipe("kgwalk").with_values([f'protocol.language="{language}"', "protocol.documented=false"])
    evaluate(recipe, folder, "dev", out=run, engine=ScriptedEngine(walk), adapter=str(adapter), link=True)
    return run


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))


def test_what_is_left_out_is_told_apart(tmp_path: Path) -> None:
    """The likelihood is the same for all walks; what the question's words say is not."""
    found = calibrate([evaluated(tmp_path, "mill"), evaluated(tmp_path, "yard")])
    assert found.likelihood["auroc"] == 0.5
    assert found.held_out["auroc"] == 1.0
    assert found.held_out["ece"] < 0.1
    assert set(found.by_graph) == {"mill", "yard"}
    assert found.spread["auroc"] == [1.0, 1.0]
    low, high = found.spread["ece"]
    assert low <= found.held_out["ece"] <= high
    assert found.model.about["graphs"] == ["mill", "yard"]


def test_each_graph_of_a_dataset_of_many_is_left_out(tmp_path: Path) -> None:
    """As of invented graphs, whose questions name the graph that they are about."""
    folder = tmp_path / "places"
    folder.mkdir()
    graphs, rows = [], []
    for place in ("mill", "yard"):
        who = [f"P{n} {place}" for n in range(30)]
        facts = [[name, r, f"{r[:4]} {n % 3}"] for n, name in enumerate(who) for r in ("works_in", "born_in")]
        graphs.append({"id": place, "graph": facts})
        for n, name in enumerate(who):
            words, answer = ("works", f"work {n % 3}") if n % 2 else ("was born", f"born {n % 3}")
            asked = {"id": f"{place}-{n}", "question": f"where {name} {words}", "topic_entities": [name]}
            rows.append(asked | {"answers": [answer], "graph_id": place})
    (folder / "graphs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in graphs))
    (folder / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = tmp_path / "run"
    evaluate("kgwalk", folder, "dev", out=run, engine=ScriptedEngine(walk), link=True)
    assert set(calibrate([run]).by_graph) == {"places/mill", "places/yard"}


def test_an_evaluation_then_has_probabilities(tmp_path: Path, cli: Cli) -> None:
    runs = [evaluated(tmp_path, "mill"), evaluated(tmp_path, "yard")]
    done = cli("calibrate", *map(str, runs), "--dry-run")
    assert done.stdout.endswith("nothing is written\n")
    assert read_confidence(tmp_path / "adapter") is None
    done = cli("calibrate", *map(str, runs))
    assert done.stdout.startswith("fitted, on graphs left out: ECE 0.")
    assert "95% intervals, graphs resampled: ECE 0." in done.stdout
    assert read_confidence(tmp_path / "adapter") is not None
    report = evaluate(
        "kgwalk", tmp_path / "mill", "dev", engine=ScriptedEngine(walk), adapter=str(tmp_path / "adapter"), link=True
    )
    assert report["calibration"]["auroc"] == 1.0
    assert 0.4 < report["metrics"]["confidence"] < 0.6  # half of the answers are right
    assert report["metrics"]["likelihood"] < 0.1


def test_what_counts_as_right() -> None:
    """A table by its rows, a number as exactly as the gold one is given; a set by its names."""
    row = {"metrics": {"exact_set": 0.0}, "gold": ["0.333"], "answers": ["0.3333333333"]}
    assert is_right(row)
    assert not is_right(row | {"answers": ["0.334"]})
    assert not is_right(row | {"answers": ["a third"]})
    assert not is_right(row | {"answers": ["0.333", "0.4"]})
    assert not is_right(row | {"gold": ["3"], "answers": ["3.2"]})
    assert is_right(row | {"metrics": {"exact_set": 0.0, "rows_f1": 1.0}, "gold": ["Ann", "1"], "answers": ["Ann"]})
    assert not is_right(row | {"metrics": {"exact_set": 0.0, "rows_f1": 0.5}, "gold": ["Ann"], "answers": []})


def test_a_question_that_would_have_been_refused_is_not_fitted_on(tmp_path: Path) -> None:
    """The evaluation walks it, `kgwalk ask` does not: nothing in it is an entity of the graph."""
    runs = [evaluated(tmp_path, name, strangers=5, language="full") for name in ("mill", "yard")]
    assert calibrate(runs).held_out["n"] == 60


def test_too_little_to_fit_on(tmp_path: Path) -> None:
    with pytest.raises(
        KgwalkError, match="there are 30 walks with an answer over 1 graphs, 15 of them right; it takes 50"
    ):
        calibrate([evaluated(tmp_path, "mill")])


def test_a_second_look_is_kept_with_the_walk() -> None:
    row = episode_row(Episode(Question("q", "?", [], []), [], [], "", probability=0.5, looked=SecondLook(3, 2, 40, 5)))
    again = episode_from(json.loads(json.dumps(row)))
    assert (again.probability, again.looked) == (0.5, SecondLook(3, 2, 40, 5))
    with pytest.raises(ValueError, match="expected `walks`, a whole number"):
        episode_from(row | {"looked": {"walks": "3"}})
    with pytest.raises(ValueError, match="expected `probability`, a number"):
        episode_from(row | {"probability": "high"})
