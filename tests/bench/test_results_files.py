"""docs/results: every table of the page is what its files say, and so are figures of its text."""

from __future__ import annotations

import doctest
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # benchmarks are no part of the package

from benchmarks.agents import markdown, measured, publish, result_files
from benchmarks.agents.measured import Measured, ResultFiles
from benchmarks.agents.tables import COMMAND, TABLES, in_page, remade

from kgwalk.types import KgwalkError

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
PAGES = ("results.md", "reference/metrics.md")
NO_RESULTS = ("| folder |",)  # tables of docs/results.md that show no result begin so
FILES = sorted(file.stem for file in RESULTS.iterdir())


def _page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def test_every_file_belongs_to_a_table_and_every_tables_files_are_there() -> None:
    assert {file for table in TABLES.values() for file in table.files} == set(FILES)


def test_every_table_of_the_results_names_its_files_and_its_command() -> None:
    page = _page("results.md")
    heads = re.findall(r"^(\|.*)\n\|---", page, re.MULTILINE)
    assert len(in_page(page)) == sum(not head.startswith(NO_RESULTS) for head in heads) == 16
    for found in re.finditer(rf"^From (.*): {COMMAND}", page, re.MULTILINE):
        linked = re.findall(r"\[([\w-]+)\.json\]\(results/\1\.json\)", found[1])
        assert tuple(linked) == TABLES[found["name"]].files


@pytest.mark.parametrize("page", PAGES)
def test_the_tables_are_what_their_files_say(page: str) -> None:
    shown = in_page(_page(page))
    assert shown
    for name, text in shown.items():
        own = Measured(ResultFiles.read(RESULTS, TABLES[name].files))  # no other file is needed
        assert TABLES[name].make(own) == text, name
    assert remade(_page(page), Measured.of(RESULTS)) == _page(page)


def test_a_report_is_in_one_file_and_where_a_new_one_would_be_put() -> None:
    places: dict[tuple[str, str], str] = {}
    for file in FILES:
        for section, reports in result_files.read(RESULTS / f"{file}.json").items():
            for name in reports:
                assert (section, name) not in places
                places[section, name] = file
    assert places["tests", "agent-metaqa"] == publish.file_of("agent") == "shipped-agent"
    assert places["tests", "graph-rft-on-metaqa-23-metaqa-23-drop-0.4"] == "hidden-facts"
    assert places["steps", "kg-r1-without-nothing-1"] == publish.file_of("kg-r1-without-nothing-1")
    for (section, name), file in places.items():
        if section == "steps":
            assert publish.file_of(name) == file
    assert len([section for section, _ in places if section == "tests"]) >= 144


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_written_as_it_is_read(file: str, tmp_path: Path) -> None:
    result_files.write(tmp_path / "again.json", result_files.read(RESULTS / f"{file}.json"))
    assert (tmp_path / "again.json").read_text() == (RESULTS / f"{file}.json").read_text()


def test_figures_of_the_text() -> None:
    """As a reader would look them up, with json alone."""
    page = " ".join(_page("results.md").split())
    shipped = json.loads((RESULTS / "shipped-agent.json").read_text())["tests"]
    types = shipped["agent-cwq-fbpool"]["by"]["type"]
    f1 = {kind: row[types["columns"].index("f1")] for kind, row in types["rows"].items()}
    assert f"composition {f1['composition']:.3f}, conjunction {f1['conjunction']:.3f}," in page
    low, high = shipped["agent-metaqa"]["intervals"]["f1"]
    assert f"| 3,000 | {shipped['agent-metaqa']['metrics']['f1']:.3f} ({low:.3f} to {high:.3f}) |" in page

    unseen = result_files.read(RESULTS / "unseen-graphs.json")
    hops = unseen["tests"]["worlds-grpo-metaqa"]["by"]["hops"]
    assert "after GRPO: metaqa {:.3f}, {:.3f}, {:.3f};".format(*(hops[hop]["f1"] for hop in "123")) in page
    fit = unseen["fits"]["fit-pq-3h"]
    assert f"pq-3h {fit['before']['f1']:.3f} to {fit['after']['f1']:.3f}," in page

    walks = result_files.read(RESULTS / "several-walks.json")["tests"]["agent-runs-cwq-fbpool-runs-3"]
    assert f"cwq-fbpool {walks['metrics']['f1']:.3f}, {walks['several']['union_f1']:.3f}, 0.616;" in page

    steps = result_files.read(RESULTS / "grpo-seeds.json")["steps"]
    at_45 = [row["eval_f1/webqsp-fbpool"] for rows in steps.values() for row in rows if row["step"] == 45]
    assert len(at_45) == 3
    assert f"({sum(at_45) / 3:.3f} after 45 steps," in page


def _write(file: Path, value: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))


def test_reports_of_a_work_folder_are_published(tmp_path: Path) -> None:
    work, results = tmp_path / "work", tmp_path / "results"
    report = {"n": 300, "runs": 1, "metrics": {"f1": 0.123456789}, "intervals": {"f1": [0.1, 0.2]}, "folder": "/work"}
    _write(work / "evals/eog-on-metaqa-23-metaqa-23/metrics.json", report)
    about = {"commit": "abc", "versions": {"kgwalk": "1"}, "settings": {"seed": 7, "data": "x"}, "command": "kgwalk"}
    _write(work / "evals/eog-on-metaqa-23-metaqa-23/run.json", about)
    row = {"stage": "grpo", "step": 1, "episodes": 512.0, "rollout_seconds": 2.0, "grad_norm": 0.5}
    _write(work / "runs/eog-on-metaqa-23/grpo/metrics.jsonl", row)
    with open(work / "runs/eog-on-metaqa-23/grpo/metrics.jsonl", "a") as file:
        file.write("\n")
    noted = {"eog-on-metaqa-23": {"steps": 9}, "kg-r1-on-metaqa-23": {"steps": 2}}
    older = {"kg-r1-on-metaqa-23-metaqa-23": report | {"n": 1}}
    result_files.write(results / "recipes.json", {"tests": older, "noted": noted})

    assert publish.publish(work, results) == ["recipes: eog-on-metaqa-23-metaqa-23", "recipes: eog-on-metaqa-23"]
    found = result_files.read(results / "recipes.json")
    new = found["tests"]["eog-on-metaqa-23-metaqa-23"]
    assert new["metrics"] == {"f1": 0.123457}
    assert new["run"] == {"commit": "abc", "versions": {"kgwalk": "1"}, "seed": 7}
    assert "folder" not in new
    assert found["tests"]["kg-r1-on-metaqa-23-metaqa-23"]["n"] == 1  # stays
    assert found["steps"] == {"eog-on-metaqa-23": [{"step": 1, "episodes": 512.0, "rollout_seconds": 2.0}]}
    assert found["noted"] == {"kg-r1-on-metaqa-23": {"steps": 2}}  # the other is known better now
    recipes = TABLES["recipes"].make(Measured.of(results))
    assert recipes is not None
    assert "| eog | metaqa-23 | - | 0.123 | - | - | 1 | |" in recipes


def test_a_page_with_a_table_that_is_not_known(tmp_path: Path) -> None:
    page = "| a |\n|---|\n\nFrom it: `python -m benchmarks.agents tables docs/results {}`.\n"
    with pytest.raises(KgwalkError, match="did you mean `recipes`"):
        remade(page.format("recipe"), Measured.of(tmp_path))
    with pytest.raises(KgwalkError, match="nothing was measured of the table `recipes`"):
        remade(page.format("recipes"), Measured.of(tmp_path))


@pytest.mark.parametrize("module", [markdown, measured, publish, result_files])
def test_examples_in_the_code(module: Any) -> None:
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed
