"""The routes of runs: each answer as it is described, what is refused, and that only the folder of --runs is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from commands import Cli
from conftest import FILMS
from films_questions import RIGHT, write_films
from kgwalk.bench.servers import ScanGraph
from kgwalk.evaluation.report import compare
from kgwalk.evaluation.runs import RunAbout
from kgwalk.evaluation.step_curves import StepPoints
from kgwalk.serve.api import model_of
from kgwalk.serve.app import create_app
from kgwalk.serve.run import in_background
from kgwalk.serve.run_replies import FigureList, RunComparison, RunList, WalkList
from kgwalk.serve.settings import ServeSettings
from kgwalk.types import KgwalkError
from run_folders import EVIL, add_steps, evaluated, trained

RUNS = "/v1/runs"
PATHS = [RUNS, *(f"{RUNS}/{name}" for name in ("run", "metrics", "walks", "compare", "figures", "report"))]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("served")
    films = write_films(place / "films")
    evaluated(films, trained(place / "runs" / "first") / "eval")
    evaluated(films, trained(place / "runs" / "second", reward=0.2, name=EVIL) / "eval", hanks=RIGHT)
    trained(place / "outside")
    return place / "runs"


@contextmanager
def serving(runs: Path | None, **options: Any) -> Iterator[httpx.Client]:
    settings = ServeSettings(runs=None if runs is None else str(runs), **options)
    with (
        in_background(create_app(settings, {"films": ScanGraph(FILMS)})) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=30) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client(runs: Path) -> Iterator[httpx.Client]:
    with serving(runs) as client:
        yield client


def asked(client: httpx.Client, path: str, shape: Any, **query: Any) -> Any:
    """The reply, which has just the fields that are described."""
    reply = client.get(path, params=query)
    assert reply.status_code == 200, reply.text
    model_of(shape).model_validate_json(reply.content)
    return reply.json()


def refused(client: httpx.Client, path: str, **query: Any) -> tuple[int, str, str]:
    reply = client.get(path, params=query)
    error = reply.json()["error"]
    return reply.status_code, error["kind"], error["message"]


def test_the_list_and_one_run(client: httpx.Client) -> None:
    listed = asked(client, RUNS, RunList)
    assert listed["folder"] == "runs"
    assert [run["name"] for run in listed["runs"]] == ["first", "first/eval", "second", "second/eval"]
    about = asked(client, f"{RUNS}/run", RunAbout, name="first")
    assert (about["summary"]["f1_of"], about["evaluated"], about["walks"]) == ("evaluation", "first/eval", True)
    assert about["settings"]["sections"]["grpo"] == {"steps": 10, "lr": 0.1}
    assert asked(client, f"{RUNS}/run", RunAbout, name="first/eval")["evaluation"]["n"] == 5


def test_the_curves_and_what_is_new_in_them(client: httpx.Client, runs: Path) -> None:
    trained(runs / "live", steps=2)
    first = asked(client, f"{RUNS}/metrics", StepPoints, name="live")
    assert (first["stage"], first["curves"]["reward"]) == ("grpo", {"steps": [1, 2], "values": [0.1, 0.2]})
    add_steps(runs / "live", range(3, 4))
    news = asked(client, f"{RUNS}/metrics", StepPoints, name="live", since=first["next"], curves="reward,kl")
    assert news["curves"] == {"reward": {"steps": [3], "values": [0.3]}, "kl": {"steps": [3], "values": [0.01]}}
    sft = asked(client, f"{RUNS}/metrics", StepPoints, name="live", stage="sft")
    assert sft["curves"]["loss"]["values"] == [2.0, 1.0]
    assert refused(client, f"{RUNS}/metrics", name="first/eval") == (404, "no_metrics", "first/eval has no steps yet")
    assert refused(client, f"{RUNS}/metrics", name="live", most=5)[2] == '"most" must be between 10 and 4,000, not 5'


def test_walks_by_filter_and_page(client: httpx.Client) -> None:
    found = asked(client, f"{RUNS}/walks", WalkList, name="first", show="wrong", step=2)
    assert (found["total"], found["found"], found["read"], found["steps"]) == (6, 1, 1.0, [1, 2, 3])
    assert found["counts"]["show"]["malformed"] == 1  # of this step
    (walk,) = found["walks"]
    assert [turn["advantage"] for turn in walk["turns"]] == [1.5, -0.5, -1.0]
    page = asked(client, f"{RUNS}/walks", WalkList, name="first", offset=4, limit=1)
    assert [(one["line"], one["step"]) for one in page["walks"]] == [(4, 3)]
    (first, *_) = asked(client, f"{RUNS}/walks", WalkList, name="second", text="onerror")["walks"]
    assert first["question"].startswith(EVIL)
    evaluation = asked(client, f"{RUNS}/walks", WalkList, name="first/eval", show="right")
    assert [one["id"] for one in evaluation["walks"]] == ["big"]
    assert refused(client, f"{RUNS}/walks", name="first", show="odd")[:2] == (422, "wrong_content")


def test_two_runs_are_paired_as_the_command_pairs_them(client: httpx.Client, runs: Path) -> None:
    found = asked(client, f"{RUNS}/compare", RunComparison, a="first", b="second")
    expected = compare(runs / "first" / "eval", runs / "second" / "eval")
    assert found["paired"]["metrics"] == expected["metrics"]
    assert [one["id"] for one in found["paired"]["gained"]] == ["hanks"]
    assert found["evaluated"] == ["first/eval", "second/eval"]
    assert {"key": "sections.grpo.lr", "a": 0.1, "b": 0.2} in found["differing"]
    trained(runs / "alone")
    alone = asked(client, f"{RUNS}/compare", RunComparison, a="first", b="alone")
    assert "without a finished evaluation" in alone["why"]


def test_the_figures_and_the_report_are_those_of_kgwalk_report(client: httpx.Client) -> None:
    sections = asked(client, f"{RUNS}/figures", FigureList, name="first", beside="second")["sections"]
    assert [section["title"] for section in sections] == ["Scores", "Accuracy by group", "Calibration", "Errors"]
    assert sections[0]["figures"][0]["svg"].startswith("<svg ")
    report = client.get(f"{RUNS}/report", params={"name": "second"})
    assert (report.status_code, report.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert report.headers["content-disposition"] == 'attachment; filename="report.html"'
    assert "sandbox" in report.headers["content-security-policy"]
    assert EVIL not in report.text


@pytest.mark.parametrize("name", ["../outside", "first/../../outside", "/etc", "..", "first/eval/../../../outside"])
@pytest.mark.parametrize("path", PATHS[1:])
def test_no_name_leads_outside(client: httpx.Client, path: str, name: str) -> None:
    query = {"a": name, "b": "first"} if path.endswith("compare") else {"name": name}
    assert refused(client, path, **query)[:2] == (404, "unknown_run")


def test_unknown_runs_have_a_hint_and_damaged_ones_a_message(client: httpx.Client, runs: Path) -> None:
    status, kind, message = refused(client, f"{RUNS}/run", name="frist")
    assert (status, kind) == (404, "unknown_run")
    assert "did you mean first" in message
    broken = trained(runs / "broken")
    with (broken / "grpo" / "metrics.jsonl").open("a") as file:
        file.write("{\n")
    status, kind, message = refused(client, f"{RUNS}/metrics", name="broken")
    assert (status, kind) == (422, "damaged_run")
    assert message.startswith("broken/grpo/metrics.jsonl:4: not the row of a step")
    assert str(runs) not in message
    (broken / "run.json").write_text("[]")
    assert refused(client, f"{RUNS}/run", name="broken")[:2] == (422, "damaged_run")
    assert [one["state"] for one in asked(client, RUNS, RunList)["runs"] if one["name"] == "broken"] == ["damaged"]


def test_the_key_and_the_host_are_checked(runs: Path) -> None:
    with serving(runs, api_key="s3cret") as client:
        for path in PATHS:
            assert client.get(path).status_code == 401
        assert client.get(RUNS, headers={"Authorization": "Bearer s3cret"}).status_code == 200
    with serving(runs) as client:
        assert client.get(RUNS, headers={"Host": "evil.example"}).status_code == 421
        assert client.get(RUNS, headers={"Origin": "http://evil.example"}).status_code == 403


def test_without_a_folder_they_say_so(runs: Path) -> None:
    with serving(None) as client:
        for path in PATHS:
            assert refused(client, path)[:2] == (404, "no_runs")
        assert RUNS not in client.get("/openapi.json").json()["paths"]
    with serving(runs) as client:
        described = client.get("/openapi.json").json()["paths"]
    assert [path in described for path in PATHS] == [True] * len(PATHS)
    names = [one["name"] for one in described["/v1/runs/metrics"]["get"]["parameters"]]
    assert names == ["name", "stage", "since", "most", "curves"]
    with pytest.raises(KgwalkError, match="is no folder"):
        create_app(ServeSettings(runs=str(runs / "nothing")), {"films": ScanGraph(FILMS)})


def test_the_command_wants_something_to_serve(cli: Cli) -> None:
    assert "--runs FOLDER" in cli("serve").stderr
