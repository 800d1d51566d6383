"""The report of runs: what stands in the file, that it loads nothing, and that no name can speak in it."""

from __future__ import annotations

import csv
import json
import re
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from commands import Cli
from films_questions import RIGHT, TURNS, engine, write_films
from kgwalk.config.run_folder import RowFile, begin_run, episode_row
from kgwalk.evaluation.charts import Bar, Curve, bar_chart, line_chart, reliability_chart
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.evaluation.html_report import make_report
from kgwalk.evaluation.report import accuracy_by, compare, read_predictions
from kgwalk.score.statistics import reliability
from kgwalk.types import Answer, Call, Episode, KgwalkError, Question, StopReason, Triple, Turn, transcript_html
from kgwalk.walk.agent import AskResult

EVIL = "<img src=x onerror=alert(1)>"
approx = pytest.approx


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def films(tmp_path: Path) -> Path:
    return write_films(tmp_path / "films")


def evaluated(films: Path, out: str, **answers: Any) -> Path:
    evaluate("kgwalk", films, engine=engine(**answers), values=[TURNS], out=out)
    return Path(out)


class Tags(HTMLParser):
    """The elements of a page, their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def loads_nothing(html: str) -> Tags:
    page = Tags(html)
    assert not {"script", "img", "link", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    for name, value in page.attributes:
        assert not name.startswith("on"), name
        assert name not in ("src", "srcset", "action")
        assert name != "href" or (value or "").startswith("#")
    assert "url(" not in html
    assert "@import" not in html
    return page


def episode(name: str) -> Episode:
    fact = Triple(name, "likes", name)
    turns = [
        Turn([7], [-0.5], f'tail_entities("{name}")', Call("tail_entities", (name,)), f"$2 = 1: {name}", [8]),
        Turn([9], [-0.5], f"<answer>{name}</answer>", Answer((name,))),
    ]
    question = Question("q", f"who likes {name}?", [name], ["Ann"], hops=1, type=name)
    return Episode(question, [name], [1, 2], f"about {name}", turns, [name], {name: [fact]}, StopReason.answered)


def trained(path: Path, name: str = "Big") -> Path:
    with begin_run(path, "train", {"recipe": "kgwalk", "data": "films", "split": "train", "sections": {}}):
        for stage in ("sft", "grpo"):
            (path / stage).mkdir()
        with RowFile(path / "sft" / "metrics.jsonl") as rows:
            for step in (1, 2):
                rows.add({"stage": "sft", "step": step, "loss": 2.0 / step, "tokens": 100.0, "seconds": 0.5})
        with RowFile(path / "grpo" / "metrics.jsonl") as rows:
            for step in (1, 2, 3):
                row = {"stage": "grpo", "step": step, "reward": step / 10, "f1": 0.5, "kl": 0.0, "entropy": 1.0}
                rows.add(row | {"generated_tokens": 30.0, "episodes": 4.0, "seconds": 2.0})
        with RowFile(path / "grpo" / "episodes.jsonl") as rows:
            rewards = {"turns": [0.25, 0.0], "whole": 0.5, "parts": {"f1": 0.5}}
            rows.add({"step": 1, "rewards": rewards, "advantages": [1.5, -0.5], "episode": episode_row(episode(name))})
    return path


def test_the_report_of_two_evaluations(films: Path) -> None:
    """F1 of the first is (1 + 2/3 + 2/3) / 5, and of its question `big` 1 (tests/evaluation/test_compare.py)."""
    first, second = evaluated(films, "first"), evaluated(films, "second", hanks=RIGHT)
    report = make_report([first, second])
    tables = {table.name: table for table in report.tables}
    f1 = next(row for row in tables["metrics"].rows if row[1] == "f1")
    assert f1[2].value == approx((1 + 4 / 3) / 5)  # type: ignore[union-attr]
    paired = next(row for row in tables["compared-second-against-first"].rows if row[0] == "f1")
    expected = compare(first, second)["metrics"]["f1"]
    assert paired[1:4] == [5, expected["first"], expected["second"]]
    assert paired[5] == f"{expected['p']:.4f}"
    page = loads_nothing(report.html())
    for text in ("first, second", "Accuracy by group", "second against first", "Cost", "1 gained", "right answer:"):
        assert text in page.text
    walks = [walk.right for walk in report.sections[-1].walks]
    assert walks == sorted(walks)  # wrong ones first
    assert not walks[0]
    assert len(walks) == 10  # all there are, of twelve asked for
    assert len(make_report([first, second], episodes=3).sections[-1].walks) == 3


def test_accuracy_by_group_by_hand(films: Path) -> None:
    rows = list(read_predictions(evaluated(films, "one") / "predictions.jsonl").values())
    found = accuracy_by(rows)
    assert sum(score.n for score in found["answer kind"].values()) == 5
    for lines in found.values():
        total = sum(score.n * score.scores["f1"][0] for score in lines.values())
        assert total == approx(1 + 4 / 3)
        assert all(low <= mean <= high for score in lines.values() for mean, low, high in score.scores.values())
    assert all("answer kind" not in row["groups"] for row in rows)  # what was given is as it was


def test_a_training_that_goes_on(tmp_path: Path) -> None:
    report = make_report([trained(tmp_path / "training")])
    assert [figure.name for figure in report.figures][:3] == ["sft-loss", "sft-tokens", "sft-seconds"]
    assert {"grpo-reward", "grpo-f1", "grpo-kl", "grpo-entropy"} < {figure.name for figure in report.figures}
    cost = next(table for table in report.tables if table.name == "cost-training")
    assert cost.rows == [["training", "sft", 2, 1.0, 0, 200], ["training", "grpo", 3, 6.0, 12, 360]]
    page = loads_nothing(report.html())
    assert "Not ended yet: training." in page.text
    assert "reward 0.25 · advantage +1.50" in page.text
    assert "reward 0.00 · advantage -0.50" in page.text


def test_a_name_is_never_markup(films: Path, tmp_path: Path) -> None:
    """In a question, an answer, a group, a run's name, and what the model was told."""
    run = evaluated(films, "one")
    path = run / "predictions.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for at, row in enumerate(rows):
        row |= {"question": EVIL, "answers": [EVIL], "groups": {"hops": EVIL, "type": f"{EVIL}{at}", EVIL: "yes"}}
        row |= {"episode": episode_row(episode(EVIL)), "answer_kind": f"{EVIL}{at % 2}"}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    named = run.rename(tmp_path / EVIL)
    report = make_report([named, trained(tmp_path / "training", EVIL)])
    html = report.html()
    page = loads_nothing(html)
    assert EVIL in page.text
    assert "<img" not in html
    for figure in report.figures:
        ET.fromstring(figure.svg)
        assert "<img" not in figure.svg
        assert re.fullmatch(r"[a-z0-9-]+", figure.name)


def test_the_command_and_its_files(films: Path, cli: Cli) -> None:
    evaluated(films, "one")
    done = cli("report", "one", "--svg", "figures", "--csv", "tables", "--json").json
    assert done["runs"] == ["one"]
    assert done["bytes"] == Path("report.html").stat().st_size < 5_000_000
    assert sorted(done["svg"]) == sorted(map(str, Path("figures").iterdir()))
    with open("tables/metrics.csv") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["group", "metric", "one", "one low", "one high"]
    assert float(rows[1][2]) == approx((1 + 4 / 3) / 5)
    assert "1 run" in cli("report", "one").stdout  # a report is written anew
    Path("mine.html").write_text("mine")
    refused = cli("report", "one", "-o", "mine.html")
    assert refused.status == 1
    assert "--force" in refused.stderr
    assert Path("mine.html").read_text() == "mine"


def test_png_says_what_to_install(films: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated(films, "one")
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    done = cli("report", "one", "--png", "figures")
    assert (done.status, done.stdout) == (1, "")
    assert "pip install 'kgwalk[png]'" in done.stderr
    assert not Path("report.html").exists()


def test_what_is_no_finished_run_is_refused(films: Path) -> None:
    run = evaluated(films, "one")
    (run / "metrics.json").unlink()
    with pytest.raises(KgwalkError, match="has not ended"):
        make_report([run])
    with begin_run(Path("other"), "rank", {}), pytest.raises(KgwalkError, match="kgwalk fit"):
        make_report([Path("other")])
    with pytest.raises(KgwalkError, match=r"no run\.json"):
        make_report([films])


def test_charts_by_hand() -> None:
    """The axis ends where the numbers do: the first point lies at the left end and the top of 0 to 1."""
    curve = ET.fromstring(line_chart("c", [Curve(0, [(1, 1.0), (3, 0.0)])], ["a"]))
    assert next(curve.iter("{http://www.w3.org/2000/svg}polyline")).get("points") == "52.0,34.0 466.0,192.0"
    bars = ET.fromstring(bar_chart("b", [Bar("x", 0, 0.5, 0.25, 0.75, "n 4")], ["a"]))
    bar = next(bars.iter("{http://www.w3.org/2000/svg}rect"))
    assert (bar.get("x"), bar.get("width")) == ("158", "128.0")  # half of 158 to 414
    assert "95% interval 0.250 to 0.750, n 4" in "".join(bars.itertext())
    plot = ET.fromstring(reliability_chart("r", [(0, reliability([0.5, 0.5], [True, False]))], ["a"]))
    dot = next(plot.iter("{http://www.w3.org/2000/svg}circle"))
    assert (dot.get("cx"), dot.get("r")) == ("259.0", "10.0")
    many = line_chart("m", [Curve(0, [(step, step % 7) for step in range(100_000)])], ["a"])
    assert len(many) < 10_000


def test_an_answer_and_an_episode_draw_themselves() -> None:
    one = episode(EVIL)
    asked = AskResult(EVIL, [EVIL], [EVIL], one.evidence, 2, {}, 0.1, one.stop, {EVIL: 1}, episodes=[one])
    for html in (one._repr_html_(), asked._repr_html_()):
        page = loads_nothing(html)
        assert EVIL in page.text
        assert "likes" in page.text
    assert "turn 2" in one._repr_html_()
    assert f"{EVIL} → likes → {EVIL}" in Tags(asked._repr_html_()).text
    assert "(96 characters more)" in transcript_html(Episode(one.question, [], [], "x" * 196), longest=100)
    none = AskResult("?", [], [], {}, 1, {}, 0.1, StopReason.answered, {})
    assert "the graph does not say" in none._repr_html_()
