"""`kgwalk paths find`: a split comes back with paths, and is read as a dataset's."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kgwalk.cli.main import make_app
from kgwalk.data.dataset import load_dataset
from kgwalk.types import KgwalkError, Triple

FACTS = [
    ("Big", "star", "Tom Hanks"),
    ("Big", "director", "Penny Marshall"),
    ("Big", "writer", "Anne Spielberg"),
]
ROWS = [
    {"id": "1", "question": "who directed the film of Tom Hanks?", "answers": ["Penny Marshall"], "level": "easy"},
    {"id": "2", "question": "who wrote the film of Tom Hanks?", "answers": ["Nobody"], "gold_paths": None},
]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "films"
    folder.mkdir()
    (folder / "kg.tsv").write_text("".join("\t".join(fact) + "\n" for fact in FACTS))
    rows = [{"topic_entities": ["Tom Hanks"], **row} for row in ROWS]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def run(*args: object) -> Any:
    return CliRunner().invoke(make_app("paths"), ["paths", "find", *map(str, args)])


def test_the_file_is_a_split_of_a_dataset(data: Path, tmp_path: Path) -> None:
    found = tmp_path / "found"
    done = run("--data", data, "--hops", 2, "-o", found / "train.jsonl.gz", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["questions"], report["with_paths"]) == (2, 1)
    assert report["without"] == {"no answer in the graph": 1}
    assert [stage["left"] for stage in report["stages"]] == [1] * 6
    (found / "kg.tsv").write_bytes((data / "kg.tsv").read_bytes())
    first, second = load_dataset(found).questions("train")
    assert first.gold_paths == [[Triple("Big", "star", "Tom Hanks"), Triple("Big", "director", "Penny Marshall")]]
    assert first.extra == {"level": "easy"}
    assert second.gold_paths is None
    again = run("--data", data, "-o", found / "train.jsonl.gz")
    assert isinstance(again.exception, KgwalkError)
    assert "--force" in str(again.exception)
    bytes_before = (found / "train.jsonl.gz").read_bytes()
    assert run("--data", data, "--hops", 2, "-o", found / "train.jsonl.gz", "--force").exit_code == 0
    assert (found / "train.jsonl.gz").read_bytes() == bytes_before
    assert gzip.decompress(bytes_before).count(b"\n") == 2


def test_the_table_and_the_stages_that_were_asked_for(data: Path) -> None:
    done = run("--data", data, "--hops", 2)
    assert done.exit_code == 0
    assert "1 of 2 questions have paths" in done.stdout
    assert "without paths: 1 question, no answer in the graph" in done.stdout
    bare = json.loads(run("--data", data, "--verify", "none", "--limit", 1, "--json").stdout)
    assert [stage["stage"] for stage in bare["stages"]] == ["search"]
    assert bare["questions"] == 1


def test_a_file_that_is_no_split_is_refused(data: Path, tmp_path: Path) -> None:
    for name in ("paths.txt", "kg.jsonl", "train.jsonl.zst"):
        done = run("--data", data, "-o", tmp_path / name)
        assert isinstance(done.exception, KgwalkError)
        assert "names no split" in str(done.exception)
    assert run("--data", data, "--verify", "guess").exit_code == 2


class _Api(BaseHTTPRequestHandler):
    """A model that finds the first path right."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": "The first says what is asked.\n[1]"}
        body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Api)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_address[1]}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    yield
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_model_behind_an_api_verifies(data: Path, api: None) -> None:
    """The film's star is found by two relations; the model keeps the first."""
    with open(data / "kg.tsv", "a") as facts:
        facts.write("Big\tcast\tTom Hanks\n")
    done = run("--data", data, "--hops", 2, "--verify", "engine", "--engine", "api", "--model", "wise", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["stages"] == [
        {"stage": "search", "removed": 0, "left": 2},
        {"stage": "engine", "removed": 1, "left": 1},
    ]
    assert report["no_verdict"] == {}
