"""`kgwalk eval` as a person runs it: tables, errors, a judge, and processes that are killed and go on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from commands import Cli
from films_questions import QUESTIONS, SCRIPT, TURNS, write_films
from kgwalk.cli.eval import show
from kgwalk.config.run_folder import read_rows
from kgwalk.evaluation.evaluate import evaluate
from kgwalk.evaluation.report import grouped
from kgwalk.llm.engine import Request, Sampling
from kgwalk.score.judge.judge import reply_to
from kgwalk.score.judge.kinds import BUILDERS
from kgwalk.types import Message


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGWALK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


class Api(ThreadingHTTPServer):
    """An OpenAI-compatible server that says the film script's turns, and judges when asked to."""

    daemon_threads = True
    request_queue_size = 128
    delay = 0.0  # seconds for a reply
    calls = 0
    with_reasons = 0  # of these, calls of a judge that is to give reasons

    def reply(self, request: dict[str, Any]) -> tuple[int, str]:
        self.calls += 1
        time.sleep(self.delay)
        messages = [Message(one["role"], one["content"]) for one in request["messages"]]
        if messages[0].content.startswith("You grade"):
            self.with_reasons += any("Give your reasons first" in message.content for message in messages)
            return 200, self.verdict(messages)
        said = sum(message.role == "assistant" for message in messages)
        turns = next(turns for text, turns in SCRIPT.items() if any(text in message.content for message in messages))
        return (200, turns[said]) if turns else (400, "no such thing")

    def verdict(self, messages: list[Message]) -> str:
        if "when was" in messages[1].content:
            return "I would rather not say."
        return reply_to(Request([], messages, Sampling()), {"correct": int("Tom Hanks" not in messages[1].content)})


class _Handler(BaseHTTPRequestHandler):
    server: Api

    def do_POST(self) -> None:
        status, text = self.server.reply(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
        good = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
        body = json.dumps(good if status == 200 else {"error": {"message": text}}).encode()
        try:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:  # the client was killed
            pass

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    server = Api(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_address[1]}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def films(tmp_path: Path) -> Path:
    return write_films(tmp_path / "films")


# --- what it prints


def test_json_is_one_object_of_this_shape(cli: Cli, films: Path) -> None:
    done = cli("eval", "oracle", "--data", films, "--json")
    assert done.status == 0
    assert done.stderr == ""
    report = done.json
    keys = ["n", "runs", "metrics", "counts", "intervals", "clusters", "by", "errors", "stops"]
    assert list(report) == [*keys, "folder"]
    assert report["folder"] == "runs/eval-oracle-films-test"
    assert report["errors"] == {"unassigned": {"n": 1, "share": 1.0}}  # star, which has no gold path
    assert all(isinstance(value, float) for value in report["metrics"].values())
    several = cli("eval", "random-walk", "--data", films, "--runs", 2, "--json").json
    assert list(several) == [*keys, "several", "folder"]
    assert (several["n"], several["runs"]) == (5, 2)
    assert json.loads(Path("runs/eval-random-walk-films-test/metrics.json").read_text()) == several


def test_a_profile_has_values_of_its_own(cli: Cli, films: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "walker.toml"
    recipe.write_text('# Mine\n[policy]\nname = "random-walk"\n[profiles.thrice.eval]\nruns = 3\n')
    for profile, runs in (([], 1), (["--profile", "thrice"], 3)):
        done = cli("eval", str(recipe), "--data", str(films), "--json", "-o", str(tmp_path / str(runs)), *profile)
        assert done.status == 0, done.stderr
        assert done.json["runs"] == runs


def test_the_tables_for_a_person(cli: Cli, films: Path, api: Api) -> None:
    done = cli("eval", "kgwalk", "--data", films, "--engine", "api", "--model", "m", "--set", TURNS)
    assert done.status == 0, done.stderr
    lines = [line.replace("│", "|") for line in done.stdout.splitlines()]
    assert lines[0].strip() == "5 questions"
    first = [line.split("|")[1:6] for line in lines if line.startswith("|") and line.count("|") == 6]
    cells = [[cell.strip() for cell in row] for row in first]
    groups = [row[0] for row in cells if row[0]]
    assert groups == ["answers", "lenient", "retrieval", "exploration", "cost", "trouble"]
    assert cells[0][:3] == ["answers", "f1", "0.467"]
    assert cells[0][3].count(" - ") == cells[0][4].count(" - ") == 1  # by question, by cluster
    text = done.stdout
    assert "by cluster: the questions come from 4 seeds or topics, up to 2 from one" in text
    assert "by hops" in text
    assert "by answers" in text
    assert "stopped by: answered 3 (60.0%), engine_failed 1 (20.0%), turns 1 (20.0%)" in text
    assert "not wholly right: 4 of 5 episodes; why: reasoning 2 (50.0%), invalid_action 1" in text
    assert "--retry-failed walks those again" in text
    assert text.rstrip().endswith("rows: runs/eval-kgwalk-films-test/predictions.jsonl")


def test_several_runs_for_a_person(cli: Cli, films: Path) -> None:
    text = cli("eval", "random-walk", "--data", films, "--runs", 3).stdout
    assert "5 questions, 3 runs each" in text
    together = text.split("the runs of a question together")[1].split("by hops")[0]
    for word in ("union", "majority", "oracle_max", "pass@1", "pass@3"):
        assert word in together


def test_what_a_mean_is_over_is_shown(cli: Cli, tmp_path: Path) -> None:
    yes = {
        "id": "yes",
        "question": "is it so?",
        "topic_entities": ["Big"],
        "answers": ["yes"],
        "answer_kind": "boolean",
    }
    secret = {"id": "secret", "question": "who?", "topic_entities": ["Big"], "answers": []}
    text = cli("eval", "oracle", "--data", write_films(tmp_path / "films", [*QUESTIONS, yes, secret])).stdout
    assert "7 questions" in text
    assert "accuracy (of 1)" in text
    assert "exploration_coverage (of 4)" in text
    assert "1 question without a right answer: an empty list scores 1 there, all else 0" in text


def test_the_help_names_every_kind_of_judgement(cli: Cli) -> None:
    words = " ".join(cli("eval", "--help").stdout.replace("│", " ").split())
    assert f"Separated by commas: {', '.join(BUILDERS)}." in words


def test_every_metric_is_shown_somewhere(films: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = evaluate("oracle", films)
    shown = [name for names in grouped(report["metrics"]).values() for name in names]
    assert sorted(shown) == sorted(report["metrics"])
    assert "other" not in grouped(report["metrics"])
    many = {str(number): report["by"]["hops"]["1"] | {"n": 100 - number} for number in range(30)}
    show(report | {"by": {"type": many, "hops": {"1": report["by"]["hops"]["1"]}}})
    out = capsys.readouterr().out
    assert "and 10 more with fewer questions; --json has all" in out
    assert "by hops" not in out  # one line would say what the first table says


def test_a_line_now_and_then_where_there_is_no_terminal(cli: Cli, films: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgwalk.cli.eval.EVERY", 0.0)
    done = cli("eval", "oracle", "--data", films)
    assert "\n3 of 5  f1 " in done.stderr
    assert "reading" in done.stderr  # the graph, built the first time
    again = cli("eval", "oracle", "--data", films)
    assert again.stdout == done.stdout
    assert "reading" not in again.stderr


# --- what goes wrong


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["orakel", "--data", "films"], "unknown recipe `orakel`; did you mean `oracle`?"),
        (["oracle", "--data", "films", "--split", "tset"], "no split 'tset' of films; there are test"),
        (["oracle", "--data", "my/flims"], "my/flims does not exist; a dataset is a folder"),
        (["oracle", "--data", "flims"], "unknown dataset `flims`"),
        (
            ["oracle", "--data", "films", "-o", "films/kg.tsv/run"],
            "cannot write into films/kg.tsv/run: Not a directory",
        ),
        (["oracle", "--data", "films", "-o", "films/kg.tsv"], "films/kg.tsv is a file; give a folder for the run"),
        (["oracle", "--data", "films", "-o", "films"], "films is not empty and holds no run; choose another folder"),
        (["kgwalk", "--data", "films", "--engine", "apy"], "unknown engine 'apy'; did you mean 'api'?"),
        (["kgwalk", "--data", "films", "--engine", "api"], "the engine api needs the name of a model"),
        (["oracle", "--data", "films", "--set", "eval.run=2"], "unknown setting `eval.run`"),
        (["oracle", "--data", "films", "--judge", "apy:m"], "unknown engine of a judge `apy`"),
        (["oracle", "--data", "films", "--judge", "api"], "needs the name of a model: api:MODEL"),
        (["oracle", "--data", "films", "--judge", "api:m", "--judge-kinds", "corect"], "did you mean `correct`?"),
    ],
)
def test_errors_say_what_and_do_what(cli: Cli, films: Path, arguments: list[str], why: str) -> None:
    done = cli("eval", *arguments)
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert why in done.stderr
    told = cli("eval", *arguments, "--json")
    assert told.status == 1
    assert list(told.json) == ["error"]
    assert why in told.json["error"]["message"]
    assert not list(Path().glob("runs/*/predictions.jsonl"))


def test_wrong_usage_is_2(cli: Cli) -> None:
    assert cli("eval", "oracle").status == 2
    assert cli("eval", "oracle", "--data", "world", "--runs", "0").status == 2


def test_a_mistake_does_not_occupy_the_folder(cli: Cli, films: Path, api: Api) -> None:
    common = ("eval", "kgwalk", "--data", films, "--set", TURNS, "--json")
    assert cli(*common, "--engine", "api").status == 1  # no model; the folder has been begun
    assert cli(*common, "--engine", "api", "--model", "m").status == 0
    refused = cli(*common, "--engine", "api", "--model", "other")
    ways_out = "Choose another folder with -o, or start over with --force"
    assert f'`model` was "m", is "other". {ways_out}' in refused.json["error"]["message"]
    assert cli(*common, "--engine", "api", "--model", "other", "--force").status == 0


# --- a judge


def test_what_is_refused_leaves_no_folder(cli: Cli, films: Path, tmp_path: Path) -> None:
    (films / "kg.tsv.gz").unlink(missing_ok=True)
    (films / "kg.tsv").unlink(missing_ok=True)
    done = cli("eval", "oracle", "--data", films)
    assert (done.status, "has no graph" in done.stderr) == (1, True)
    assert not (tmp_path / "runs").exists()


def test_a_judge_over_an_api(cli: Cli, films: Path, api: Api) -> None:
    """big is the gold answer, so 1, and star has no answer, so 0, both without a call; hanks names Tom Hanks, so 0;
    year cannot be read; zemeckis failed."""
    command = ("eval", "kgwalk", "--data", films, "--engine", "api", "--model", "m", "--set", TURNS, "--json")
    judge = ("--judge", "api:gpt-judge", "--judge-kinds", "correct")
    report = cli(*command, *judge).json
    assert list(report)[-2:] == ["folder", "judge"]
    assert report["metrics"]["judge_correct"] == pytest.approx(1 / 3)
    assert report["intervals"]["judge_correct"] == [0.0, 1.0]
    assert report["judge"] == {
        "model": f"api:gpt-judge at http://127.0.0.1:{api.server_address[1]}/v1",
        "kinds": ["correct"],
        "verdicts": 5,
        "failed": 2,
        "cached": 0,
        "calls": 3,  # hanks, and year twice
        "prompt_tokens": 30,
        "generated_tokens": 9,
    }
    folder = Path(report["folder"])
    assert json.loads((folder / "metrics.json").read_text()) == report
    assert len(list(read_rows(folder / "judgements.jsonl"))) == 5
    before = api.calls
    again = cli(*command, *judge).json
    assert api.calls == before + 2  # only what could not be read is asked again, twice
    assert again["metrics"] == report["metrics"]
    assert (again["judge"]["cached"], again["judge"]["failed"]) == (1, 2)
    shown = cli(*command[:-1], *judge).stdout
    assert "judge_correct" in shown
    assert "judge: api:gpt-judge at http://127.0.0.1:" in shown
    assert ", 5 verdicts: 2 calls, 1 from the cache, 2 failed" in shown
    asked, api.calls, api.with_reasons = api.with_reasons, 0, 0
    alone = cli(*command, *judge, "--set", "judge.reasons=false").json  # other words, so nothing is in the cache
    assert asked == 3 + 2 + 2
    assert (api.calls, api.with_reasons) == (3, 0)
    assert alone["metrics"] == report["metrics"]
    wrong = cli(*command[:-1], *judge, "--set", "judge.reason=false")
    assert "unknown setting `judge.reason`; did you mean `judge.reasons`?" in wrong.stderr


# --- killed, and going on

MANY = [row | {"id": f"{row['id']}-{copy}"} for copy in range(16) for row in QUESTIONS]


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kgwalk.cli.main", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def rows_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for_rows(process: subprocess.Popen[str], path: Path, rows: int) -> None:
    end = time.monotonic() + 30
    while rows_of(path) < rows and process.poll() is None and time.monotonic() < end:
        time.sleep(0.002)


def killed_and_resumed(command: list[object], out: Path, kills: list[int]) -> dict[str, Any]:
    """The report after the command was killed each time that so many rows were there, and run once more."""
    killed = 0
    for rows in kills:
        process = start(*command, "-o", out)
        wait_for_rows(process, out / "predictions.jsonl", rows)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL and not (out / "metrics.json").exists()
    assert killed, "it always ended before it was killed"
    process = start(*command, "-o", out)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    return dict(json.loads(stdout))


def timeless(report: dict[str, Any]) -> dict[str, Any]:
    metrics = {name: mean for name, mean in report["metrics"].items() if name != "seconds"}
    return report | {"metrics": metrics, "folder": None}


def check_rows(out: Path, wanted: int) -> None:
    """Each episode once: nothing was lost and nothing walked twice, whatever line the kill cut."""
    rows = list(read_rows(out / "predictions.jsonl"))
    assert len({(row["number"], row["run"]) for row in rows}) == len(rows) == wanted


def test_killed_at_random_moments_with_a_model(api: Api, tmp_path: Path) -> None:
    films = write_films(tmp_path / "many", MANY)
    values = [TURNS, "rollout.at_once=16"]
    whole = evaluate("kgwalk", films, engine="api", model="m", values=values)
    asked, api.calls, api.delay = api.calls, 0, 0.02
    command = ["eval", "kgwalk", "--data", films, "--engine", "api", "--model", "m", "--json"]
    command += [part for value in values for part in ("--set", value)]
    draw = random.Random(os.urandom(8))
    kills = [draw.randint(1, 15), draw.randint(20, 35), draw.randint(40, 55)]
    report = killed_and_resumed(command, tmp_path / "run", kills)
    check_rows(tmp_path / "run", len(MANY))
    assert timeless(report) == timeless(whole)
    assert timeless(json.loads((tmp_path / "run" / "metrics.json").read_text())) == timeless(whole)
    # of three kills each loses the 16 episodes under way, of at most 3 turns; nothing else is asked again
    assert asked <= api.calls <= asked + 3 * 16 * 3


def test_killed_at_random_moments_without_a_model(tmp_path: Path) -> None:
    whole = evaluate("random-walk", "world", limit=100)
    command = ["eval", "random-walk", "--data", "world", "--limit", 100, "--json"]
    draw = random.Random(os.urandom(8))
    report = killed_and_resumed(command, tmp_path / "run", [draw.randint(0, 100), draw.randint(101, 300)])
    check_rows(tmp_path / "run", 1000)
    assert timeless(report) == timeless(whole)


def test_ctrl_c_keeps_the_rows_and_says_so(api: Api, tmp_path: Path) -> None:
    api.delay = 0.5  # 80 walks take seconds: the signal comes long before the end
    many = write_films(tmp_path / "many", MANY)
    command = ["eval", "kgwalk", "--data", many, "--engine", "api", "--model", "m", "--set", TURNS, "-o", "run"]
    process = start(*command)
    wait_for_rows(process, tmp_path / "run" / "predictions.jsonl", 3)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stdout == ""
    assert "stopped; what was done is kept in run, and the same command goes on from there" in stderr
    assert "Traceback" not in stderr
    assert 3 <= rows_of(tmp_path / "run" / "predictions.jsonl") < len(MANY)
    assert not (tmp_path / "run" / "metrics.json").exists()
