"""`kgwalk demos` as a person runs it: a dataset's folder, the file it writes, the table, and what goes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from api_server import listening
from conftest import FILMS
from kgwalk.cli.main import make_app
from kgwalk.demos.demo import read_demos
from kgwalk.types import KgwalkError

GOOD = ['head_entities($1, "starred_actors")', 'tail_entities($2, "directed_by")', "<answer>$3</answer>"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("films")
    (folder / "kg.tsv").write_text("".join("\t".join(fact) + "\n" for fact in FILMS))
    both = ["Penny Marshall", "Robert Zemeckis"]
    path = [["Big", "starred_actors", "Tom Hanks"], ["Big", "directed_by", "Penny Marshall"]]
    rows: list[dict[str, Any]] = [
        {"id": "given", "question": "who directed films with Tom Hanks", "answers": both, "gold_paths": [path]},
        {"id": "searched", "question": "directors of Tom Hanks", "answers": both},
        {"id": "lost", "question": "where was Tom Hanks born", "answers": ["Concord"]},
    ]
    lines = [json.dumps({"topic_entities": ["Tom Hanks"], **row}) + "\n" for row in rows]
    (folder / "train.jsonl").write_text("".join(lines))
    return folder


def demos(data: Path, tmp_path: Path, *arguments: str, recipe: str = "kgwalk", **more: str) -> Any:
    environment = {**os.environ, "KGWALK_CACHE": str(data / "cache"), **more}
    return subprocess.run(
        [sys.executable, "-m", "kgwalk.cli.main", "demos", recipe, "--data", str(data), *arguments],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_profile_has_values_of_its_own(data: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('# Mine\n[protocol]\nname = "kgwalk"\n[demos]\nwrong = 0.0\n[profiles.few.demos]\nlimit = 1\n')
    for profile, kept in (([], 2), (["--profile", "few"], 1)):
        done = demos(data, tmp_path, "-o", f"{kept}.jsonl", "--json", *profile, recipe=str(recipe))
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["kept"] == kept
    done = demos(data, tmp_path, "-o", "none.jsonl", "--profile", "fewer", recipe=str(recipe))
    assert (done.returncode, "did you mean `few`" in done.stderr) == (1, True)


def test_a_file_and_what_fell_out(data: Path, tmp_path: Path) -> None:
    done = demos(data, tmp_path, "-o", "some/demos.jsonl", "--set", "demos.wrong=0", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["tried"], report["kept"], report["mean_f1"]) == (3, 2, 1.0)
    assert report["fallen"] == {"route: none was found": {"count": 1, "examples": ["lost"]}}
    assert report["by"]["source"] == {"gold": 1, "search": 1}
    assert report["path"] == "some/demos.jsonl"
    written = list(read_demos(tmp_path / "some" / "demos.jsonl"))
    assert [(demo.id, demo.turns) for demo in written] == [("given", GOOD), ("searched", GOOD)]
    assert [path.name for path in (tmp_path / "some").iterdir()] == ["demos.jsonl"]

    again = demos(data, tmp_path, "-o", "some/demos.jsonl")
    assert (again.returncode, again.stdout) == (1, "")
    assert "some/demos.jsonl is there already; --force replaces it" in again.stderr
    forced = demos(
        data, tmp_path, "-o", "some/demos.jsonl", "--force", "--source", "gold", "--limit", "1", recipe="kg-r1"
    )
    assert forced.returncode == 0, forced.stderr
    assert "1 demo in some/demos.jsonl" in forced.stdout
    assert [demo.protocol for demo in read_demos(tmp_path / "some" / "demos.jsonl")] == ["kg-r1"]


def test_the_table_says_why(data: Path, tmp_path: Path) -> None:
    done = demos(data, tmp_path, "-o", "demos.jsonl", "--source", "gold")
    assert done.returncode == 0, done.stderr
    assert "fell out: 2 of 3" in done.stdout
    assert "route: none was found" in done.stdout
    assert "searched, lost" in done.stdout


def test_what_cannot_be(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KGWALK_CACHE", str(data / "cache"))

    def error(*arguments: str, recipe: str = "kgwalk") -> str:
        call = ["demos", recipe, "--data", str(data), "-o", "demos.jsonl", *arguments]
        failed = CliRunner().invoke(make_app("demos"), call)
        assert isinstance(failed.exception, KgwalkError)
        assert failed.stdout == ""
        return str(failed.exception)

    assert error("--set", "demos.wrng=1") == "unknown setting `demos.wrng`; did you mean `demos.wrong`?"
    assert error("--source", "gld") == "unknown source `gld`; did you mean `gold`?"
    assert "no split 'tset'" in error("--split", "tset")
    assert "needs the name of a model" in error("--source", "teacher", "--engine", "api")
    assert error(recipe="kgwlk") == "unknown recipe `kgwlk`; did you mean `kgwalk`?"
    can = "choose a recipe that can be trained: eog, graph-rft, kg-hopper, kg-r1, kg-reasoner, kgwalk"
    assert error(recipe="oracle") == f"the recipe oracle is a baseline without a protocol; {can}"
    assert error(recipe="cot").endswith(f"nothing writes demonstrations of its protocol cot; {can}")
    assert CliRunner().invoke(make_app("demos"), ["demos", "kgwalk"]).exit_code == 2
    assert not list(tmp_path.iterdir())
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert error("-o", "folder", "--force") == "folder is a folder; name a file to write, such as folder/demos.jsonl"
    assert error("-o", "file/demos.jsonl").startswith("cannot write file/demos.jsonl: ")
    (tmp_path / "folder").chmod(0o500)
    if not os.access(tmp_path / "folder", os.W_OK):  # whoever is root may write anywhere
        assert "folder/demos.jsonl: Permission denied; choose another place" in error("-o", "folder/demos.jsonl")


class _Api(BaseHTTPRequestHandler):
    """A teacher that knows the way to the directors."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = sum(message["role"] == "assistant" for message in request["messages"])
        message = {"role": "assistant", "content": GOOD[said]}
        body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def api() -> Iterator[str]:
    with listening(_Api) as url:
        yield f"{url}/v1"


def test_a_teacher_behind_an_api(data: Path, tmp_path: Path, api: str) -> None:
    key = {"OPENAI_BASE_URL": api, "OPENAI_API_KEY": "secret"}
    chosen = ["-o", "demos.jsonl", "--source", "gold,teacher", "--engine", "api", "--model", "wise"]
    done = demos(data, tmp_path, *chosen, "--set", "demos.samples=2", "--json", **key)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["kept"] == 2
    assert report["teacher"]["fallen"] == {
        "answer: F1 below 0.5": {"count": 2, "examples": ["lost"]},
        "teacher: a shorter walk of the question was kept": {"count": 1, "examples": ["searched"]},
    }
    given, taught = read_demos(tmp_path / "demos.jsonl")
    assert (given.source, taught.source, taught.style, taught.id) == ("gold", "teacher", "wise", "searched#0")
    assert taught.turns == GOOD
