"""`kgwalk data` as a newcomer meets it: converting, fetching from a hub on this machine, looking."""

from __future__ import annotations

import hashlib
import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from commands import ENVIRONMENT, SCRIPT, Done, quickly
from kgwalk.cli.data import KNOWN_HELP
from kgwalk.data.convert import HUB_DATASETS
from kgwalk.data.dataset import load_dataset

FIXTURES = Path(__file__).parents[1] / "fixtures" / "formats"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # `quickly` sets the environment of the command to ENVIRONMENT
    monkeypatch.setitem(ENVIRONMENT, "KGWALK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


# convert


def test_convert_says_what_it_made(tmp_path: Path) -> None:
    done = quickly("data", "convert", "metaqa", FIXTURES / "metaqa", "-o", "metaqa", cwd=tmp_path)
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout == "metaqa: train: 3 questions\nmetaqa: test: 1 question\nmetaqa: graph: 7 facts\n"
    again = quickly("data", "convert", "metaqa", FIXTURES / "metaqa", "-o", "metaqa", cwd=tmp_path)
    assert (again.status, again.stderr) == (
        1,
        "error: metaqa exists; choose another name, or replace it with --force\n",
    )
    forced = quickly("data", "convert", "metaqa", FIXTURES / "metaqa", "-o", "metaqa", "--force", cwd=tmp_path)
    assert forced.stdout == done.stdout
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["metaqa"]


def test_convert_with_a_graph_and_as_json(tmp_path: Path) -> None:
    arguments = ("data", "convert", "qald", FIXTURES / "qald" / "qald_10.json", "-o", "qald", "--split", "test")
    done = quickly(*arguments, cwd=tmp_path)
    assert done.stdout == "qald: test: 3 questions\n"
    assert done.stderr == "note: no graph came with it; put one in with --graph\n"
    (tmp_path / "facts.tsv").write_text("Q17\tP36\tQ1490\n")
    more = ("--graph", "facts.tsv", "--language", "de", "--skip-bad", "--force", "--json")
    report = quickly(*arguments, *more, cwd=tmp_path).json
    (dropped,) = report.pop("dropped")
    assert "record 3: expected the question in 'de'" in dropped
    assert report == {
        "path": "qald",
        "questions": {"test": 2},
        "unanswered": {},
        "facts": None,
        "graph": "facts.tsv",
        "own_graphs": 0,
    }
    dataset = load_dataset(tmp_path / "qald")
    first, _ = dataset.questions("test")
    assert (first.question, first.topic_entities) == ("Was ist die Hauptstadt von Japan?", ["Q17"])
    assert "Q17" in dataset.graph_for(first)


def test_bad_records_stop_or_are_listed(tmp_path: Path) -> None:
    good = {"id": "a", "question": "?", "q_entity": [], "answer": []}
    lines = [json.dumps(good), *(["nonsense"] * 7)]
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    arguments = ("data", "convert", "rog", "train.jsonl", "-o", "out")
    done = quickly(*arguments, cwd=tmp_path)
    assert done.status == 1
    assert done.stderr.startswith("error: train.jsonl:2: not JSON")
    assert done.stderr.endswith("  the line: nonsense\n  give --skip-bad to leave such records out\n")
    skipped = quickly(*arguments, "--skip-bad", cwd=tmp_path)
    assert skipped.stdout == "out: train: 1 question (1 without answers)\nleft out: 7 malformed records\n"
    assert skipped.stderr.count("note: train.jsonl:") == 5
    assert skipped.stderr.endswith("note: and 2 more; --json lists all\n")
    report = quickly(*arguments, "--skip-bad", "--force", "--json", cwd=tmp_path).json
    assert len(report["dropped"]) == 7


def test_a_format_that_is_none(tmp_path: Path) -> None:
    done = quickly("data", "convert", "webqps", ".", "-o", "out", "--json", cwd=tmp_path)
    assert done.status == 2
    assert done.json["error"]["kind"] == "UsageError"
    assert "webqsp" in done.json["error"]["message"]


# get


def test_the_help_names_the_known() -> None:
    assert ", ".join(HUB_DATASETS) in KNOWN_HELP


def test_get_from_a_folder_laid_out_like_a_repository(tmp_path: Path, cache: Path) -> None:
    shutil.copytree(FIXTURES / "rog", tmp_path / "RoG-webqsp" / "data")
    (tmp_path / "RoG-webqsp" / "dataset_infos.json").write_text("{}")
    done = quickly("data", "get", "RoG-webqsp", cwd=tmp_path)
    where = cache / "datasets" / "RoG-webqsp"
    assert done.stdout.startswith(f"{where}: train: 2 questions\n{where}: test: 2 questions\n")
    shown = quickly("data", "show", "RoG-webqsp", "--split", "test", "-n", "1", "--json", cwd=tmp_path / "cache").json
    assert shown["graph"]["questions"] == 3
    assert [question["id"] for question in shown["questions"]] == ["WebQTest-1"]
    again = quickly("data", "get", "RoG-webqsp", cwd=tmp_path)
    assert (again.status, again.stderr) == (1, f"error: {where} exists; fetch it again with --force\n")


def test_get_tells_the_format_or_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.jsonl").write_text('{"text": "?"}\n')
    done = quickly("data", "get", "./mine", "-o", "out", cwd=tmp_path)
    assert done.status == 1
    assert "unknown format: its questions have the keys text" in done.stderr
    assert "give --format: rog, webqsp" in done.stderr
    text = quickly("data", "get", FIXTURES / "metaqa", "-o", "out", cwd=tmp_path)
    assert "no file of JSON or parquet to tell the format by" in text.stderr
    assert "give --format: rog, webqsp" in text.stderr
    given = quickly("data", "get", FIXTURES / "creak", "--format", "creak", "-o", "out", cwd=tmp_path)
    assert given.stdout.startswith("out: train: 2 questions\n")


def test_names_that_are_not_there(tmp_path: Path) -> None:
    done = quickly("data", "get", "webqps", cwd=tmp_path)
    assert (done.status, done.stderr) == (
        1,
        "error: unknown dataset `webqps`; did you mean `webqsp`?\n"
        "  Or give a repository on the hub, owner/name, or a folder.\n",
    )


def test_check_of_a_store_says_how_to_make_questions(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("Big\tdirected_by\tPenny Marshall\n")
    assert quickly("kg", "build", "facts.tsv", "-o", "facts.kg", cwd=tmp_path).status == 0
    done = quickly("data", "check", "facts.kg", cwd=tmp_path)
    assert (done.status, done.stderr) == (
        1,
        "error: facts.kg is a graph's store, without questions; "
        "`kgwalk questions make facts.kg -o DIR` makes a dataset of it\n",
    )


@contextmanager
def hub(folder: Path) -> Iterator[str]:
    """A model hub with one dataset, someone/questions."""
    commit, asked = "a" * 40, "/api/datasets/someone/questions/"
    files = {path.name: path.read_bytes() for path in folder.iterdir()}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.reply(body=False)

        def do_GET(self) -> None:
            self.reply(body=True)

        def reply(self, *, body: bool) -> None:
            path, headers = self.path.split("?")[0], {}
            data: bytes | None = None
            if path.startswith(f"{asked}revision/"):
                siblings = [{"rfilename": name} for name in files]
                data = json.dumps({"id": "someone/questions", "sha": commit, "siblings": siblings}).encode()
            elif path.startswith(f"{asked}tree/"):
                entries: list[dict[str, Any]] = [
                    {"type": "file", "path": name, "size": len(text), "oid": hashlib.sha1(text).hexdigest()}
                    for name, text in files.items()
                ]
                data = json.dumps(entries).encode()
            elif path.startswith("/datasets/someone/questions/resolve/"):
                data = files.get(path.rpartition("/")[2])
                headers = {"ETag": f'"{hashlib.sha1(data or b"").hexdigest()}"', "X-Repo-Commit": commit}
            if data is None:
                headers = {"X-Error-Code": "RepoNotFound"}
            self.send_response(404 if data is None else 200)
            for name, value in {**headers, "Content-Length": str(len(data or b""))}.items():
                self.send_header(name, value)
            self.end_headers()
            if body and data:
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def fetch(name: str, home: Path, **settings: str) -> Done:
    """In a process of its own: the hub's library reads its settings when it is imported."""
    environment = {**ENVIRONMENT, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1", **settings}
    environment = {key: value for key, value in environment.items() if not key.lower().endswith("_proxy")}
    done = subprocess.run(
        [SCRIPT, "data", "get", name, "--json", "--force"], env=environment, capture_output=True, timeout=120
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_get_from_a_hub_and_then_without_it(tmp_path: Path, cache: Path) -> None:
    pytest.importorskip("huggingface_hub")
    home = tmp_path / "home"
    with hub(FIXTURES / "rog") as address:
        done = fetch("someone/questions", home, HF_ENDPOINT=address)
        assert (done.status, done.stderr) == (0, "")
        assert done.json["path"] == str(cache / "datasets" / "someone--questions")
        assert (done.json["questions"], done.json["own_graphs"]) == ({"train": 2, "test": 2}, 3)
        missing = fetch("someone/else", home, HF_ENDPOINT=address)
        assert (missing.status, missing.json["error"]["kind"]) == (1, "KgwalkError")
        assert f"someone/else on the hub ({address}): no such dataset" in missing.json["error"]["message"]
    dataset = load_dataset("someone/questions")
    assert dataset.questions("train")[0].answers == ["Paris"]
    offline = fetch("someone/questions", home, HF_HUB_OFFLINE="1")
    assert offline.json["questions"] == {"train": 2, "test": 2}
    nothing = fetch("webqsp", tmp_path / "empty", HF_HUB_OFFLINE="1")
    assert "rmanluo/RoG-webqsp on the hub" in nothing.json["error"]["message"]
    assert "HF_HUB_OFFLINE is set" in nothing.json["error"]["message"]


# show


def test_show_a_dataset(tmp_path: Path) -> None:
    quickly("data", "convert", "2wiki", FIXTURES / "2wiki", "-o", "wiki", cwd=tmp_path)
    done = quickly("data", "show", "wiki", "-n", "1", cwd=tmp_path)
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout == (
        "wiki\n"
        "dev                3 questions, 1.0 answers each\n"
        "  hops:        1: 1, 2: 2\n"
        "  type:        compositional: 1, comparison: 1, bridge_comparison: 1\n"
        "  answer_kind: entity: 2, boolean: 1\n"
        "graph       7 triples, 8 entities, 4 relations\n"
        "\n"
        "w1  (dev)\n"
        "  Where was the director of the film Big born?\n"
        "  topics:  Big\n"
        "  answers: The Bronx [Q18426]\n"
        "  path:    (Big, director, Penny Marshall) (Penny Marshall, place of birth, The Bronx)\n"
    )
    one = quickly("data", "show", "wiki", "--id", "w3", cwd=tmp_path)
    assert one.stdout.startswith("w3  (dev)\n")
    none = quickly("data", "show", "wiki", "--id", "w9", cwd=tmp_path)
    assert (none.status, none.stderr) == (1, "error: no question 'w9' in wiki (dev); ids look like w1\n")


def test_show_as_json(tmp_path: Path) -> None:
    shown = quickly("data", "show", "world", "--split", "dev", "-n", "2", "--json", cwd=tmp_path).json
    assert set(shown) == {"name", "path", "splits", "graph", "questions"}
    assert shown["splits"]["dev"]["questions"] == 128
    assert shown["splits"]["dev"]["with_gold_path"] == 121  # counts are no place to walk to
    assert shown["graph"]["triples"] == 34_162
    assert [question["split"] for question in shown["questions"]] == ["dev", "dev"]
    assert {"id", "question", "topic_entities", "answers", "gold_paths"} <= shown["questions"][0].keys()


def test_show_what_has_no_graph(tmp_path: Path) -> None:
    quickly("data", "convert", "creak", FIXTURES / "creak", "-o", "creak", cwd=tmp_path)
    done = quickly("data", "show", "creak", "-n", "0", cwd=tmp_path)
    assert done.stdout.endswith("graph       none\n")
    split = quickly("data", "show", "creak", "--split", "dev", cwd=tmp_path)
    assert (split.status, split.stderr) == (1, "error: no split 'dev' of creak; there are train, test\n")
