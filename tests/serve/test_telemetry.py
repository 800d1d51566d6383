"""What a server tells those who run it: its log as text and as JSON, ids of requests, what became of questions."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from api_server import Said, completion, failure
from api_server import serving as api_serving
from conftest import FILMS
from kgwalk.bench.servers import ScanGraph
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.serve.app import create_app
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings
from kgwalk.types import KgwalkError

CAPITAL = "what is the capital of France?"
WALK = ['tail_entities($1, "capital")', "<answer>$2</answer>"]


def walks(path: str, body: Any) -> Said:
    """A model that walks to the capital, by how often it has spoken; of Spain it fails."""
    messages = body["messages"]
    if any("Spain" in message["content"] for message in messages):
        return failure(400, "no such model")
    return completion(WALK[sum(message["role"] == "assistant" for message in messages)])


@contextmanager
def kgwalk_serve(api: str, *arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """`kgwalk serve` in a process of its own, its URL, and the line that says so."""
    command = [sys.executable, "-m", "kgwalk", "serve", "--port", "0", "--graph", "world", "--adapter", "none"]
    command += ["--engine", "api", "--base-url", f"{api}/v1", "--model", "tiny", "--access-log", *arguments]
    env = {**os.environ, "OPENAI_API_KEY": "sk-1", **environment}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as server:
        assert server.stderr is not None
        try:
            first = server.stderr.readline()
            found = re.search(r"http://[\d.]+:\d+", first)
            assert found is not None, first + server.stderr.read()
            yield server, found[0], first
        finally:
            server.kill()


def rest_of(server: subprocess.Popen[str]) -> str:
    """What it has written until its end, to which it is brought."""
    assert server.stderr is not None
    server.terminate()
    return server.stderr.read()


def post(url: str, question: str, **headers: str) -> httpx.Response:
    return httpx.post(f"{url}/v1/ask", json={"question": question}, headers=headers, timeout=60, trust_env=False)


def get(url: str) -> httpx.Response:
    return httpx.get(url, timeout=60, trust_env=False)


def test_a_log_for_programs_is_objects_and_holds_no_question() -> None:
    with api_serving(walks) as (_, api), kgwalk_serve(api, "--log-format", "json") as (server, url, first):
        answered = post(url, CAPITAL, **{"X-Request-ID": "mine-7"})
        assert (answered.json()["answers"], answered.headers["x-request-id"]) == (["Paris"], "mine-7")
        unknown = post(url, "who is Zaphod?")
        failed = post(url, "what is the capital of Spain?")
        assert (unknown.status_code, failed.status_code) == (422, 502)
        assert get(f"{url}/kg/suggest?q=capital+of+Fra").status_code == 200
        assert get(f"{url}/no where?for=France").status_code == 404
        lines = [json.loads(line) for line in [first, *rest_of(server).splitlines()]]
    assert lines[0]["message"].startswith(f"kgwalk serves at {url} ")
    assert not re.search("France|Paris|Zaphod|Spain|capital", json.dumps(lines))

    def of(request: str | None) -> list[dict[str, Any]]:
        return [line for line in lines if request is not None and line.get("request_id") == request]

    asked, request = of("mine-7")
    assert (asked["level"], asked["logger"], asked["message"]) == ("info", "kgwalk.access", "question: answered")
    assert {name: asked[name] for name in ("outcome", "stop", "turns", "walks", "answers")} == {
        "outcome": "answered",
        "stop": "answered",
        "turns": 2,
        "walks": 1,
        "answers": 1,
    }
    assert asked["tokens"] == {"generated": 20, "prompt": 38, "total": 58}  # as the API counts each turn
    assert {name: request[name] for name in ("method", "path", "status", "client")} == {
        "method": "POST",
        "path": "/v1/ask",
        "status": 200,
        "client": "127.0.0.1",
    }
    assert 0 < asked["milliseconds"] <= request["milliseconds"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", request["time"])
    outcomes = [line["outcome"] for line in lines if "outcome" in line]
    assert outcomes == ["answered", "unknown_entity", "engine_failed"]
    error, asked, request = of(failed.headers["x-request-id"])
    assert (error["level"], error["logger"]) == ("error", "kgwalk.serve")
    assert "a walk failed" in error["message"]
    paths = [line["path"] for line in lines if "path" in line]
    assert paths == ["/v1/ask", "/v1/ask", "/v1/ask", "/kg/suggest", "/no%20where"]


def test_a_server_that_cannot_start_says_so_in_the_form_that_is_read() -> None:
    arguments = ["--graph", "world", "--adapter", "none", "--log-format", "json", "--host", "0.0.0.0"]
    command = [sys.executable, "-m", "kgwalk", "serve", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    [line] = map(json.loads, done.stderr.splitlines())
    assert line["level"] == "error"
    assert "KGWALK_API_KEY" in line["message"]
    with pytest.raises(KgwalkError, match="`log_format` must be text or json, not 'xml'"):
        ServeSettings(log_format="xml")


def script(request: Any) -> str:
    return WALK[sum(message.role == "assistant" for message in request.messages)].replace("capital", "directed_by")


@contextmanager
def films(**options: Any) -> Iterator[str]:
    settings = ServeSettings(model="tiny", **options)
    app = create_app(settings, {"films": ScanGraph(FILMS)}, engine=ScriptedEngine(script))
    with in_background(app) as url:
        yield url


def test_a_log_for_people_has_the_id_of_the_reply_and_the_question_if_that_is_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "kgwalk.access")
    with films(log_questions=True) as url:
        ids = [
            post(url, "who directed Big?", **{"X-Request-ID": own}).headers["x-request-id"] for own in ("a-1", "no id")
        ]
        post(url, "who is nobody?")
    with films() as url:
        post(url, "who directed Big?")
    questions, requests = [], []
    for record in caplog.records:
        line = re.sub(r"[\d.]+ (s|ms)\b", r"0 \1", record.getMessage())  # whatever it took
        (questions if line.startswith("question:") else requests).append(line)
    assert (ids[0], len(ids[1])) == ("a-1", 16)
    cost = "0 s, 2 turns, 1127 tokens, confidence 0.002"
    assert questions[:2] == [f"question: answered, {cost}, who directed Big?, Penny Marshall {id_}" for id_ in ids]
    assert questions[2].startswith("question: unknown_entity, 0 s, who is nobody? ")
    assert questions[3].startswith(f"question: answered, {cost} ")
    assert "Big" not in questions[3]
    assert requests[:2] == [f'127.0.0.1 - "POST /v1/ask HTTP/1.1" 200 0 ms {id_}' for id_ in ids]


def test_what_becomes_of_questions_is_counted() -> None:
    with films() as url:
        replies = [post(url, "who directed Big?").json() for _ in range(2)]
        post(url, "who is nobody?")
        body = {"model": "kgwalk", "messages": [{"role": "user", "content": "who directed Cast Away?"}]}
        chat = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60, trust_env=False).json()
        text = get(f"{url}/metrics").text
    counts = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("kgwalk_ask")
    }
    assert counts["kgwalk_asks_total", "answered"] == 3
    assert counts["kgwalk_asks_total", "unknown_entity"] == 1
    assert (counts["kgwalk_ask_turns_count",], counts["kgwalk_ask_turns_sum",]) == (3, 6)
    assert (counts["kgwalk_ask_turns_bucket", "1.0"], counts["kgwalk_ask_turns_bucket", "2.0"]) == (0, 3)
    assert counts["kgwalk_ask_seconds_count",] == 3
    generated = chat["usage"]["completion_tokens"] + sum(reply["tokens"]["generated"] for reply in replies)
    prompt = chat["usage"]["prompt_tokens"] + sum(reply["tokens"]["prompt"] for reply in replies)
    assert counts["kgwalk_ask_tokens_total", "generated"] == generated > 0
    assert counts["kgwalk_ask_tokens_total", "prompt"] == prompt > 0
    assert counts["kgwalk_ask_confidence_bucket", "false", "0.1"] == 3  # a script finds all it says unlikely
