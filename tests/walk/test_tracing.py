"""Traces of questions, as a collector gets them: a real receiver of OTLP over HTTP, commands in processes of their own.

`make test-otel` has the packages. Without them the last tests alone run: what is missing is said.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx
import pytest

from api_server import Said, completion, failure, listening
from api_server import serving as api_serving

CAPITAL = "what is the capital of France?"
WALK = ['tail_entities($1, "capitl")', 'tail_entities($1, "capital")', "<answer>$2</answer>"]
CALLER = "0af7651916cd43dd8448eb211c80319c"
ASK = ["ask", "--engine", "api", "--model", "tiny", "--adapter", "none"]

traced = pytest.mark.skipif(
    importlib.util.find_spec("opentelemetry") is None or importlib.util.find_spec("opentelemetry.sdk") is None,
    reason="needs the extra otel: pip install 'kgwalk[otel]', or make test-otel",
)


def walks(path: str, body: Any) -> Said:
    """A model that misspells a relation, then walks to the capital; of Spain it fails."""
    messages = body["messages"]
    if any("Spain" in message["content"] for message in messages):
        return failure(400, "no such model")
    return completion(WALK[sum(message["role"] == "assistant" for message in messages)])


class Collector:
    """The spans that came in, and the resource that each is of."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []

    def take(self, body: bytes) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _plain(group.resource.attributes)
            for scope in group.scope_spans:
                for span in scope.spans:
                    about = {name: getattr(span, name) for name in ("name", "trace_id", "span_id", "parent_span_id")}
                    about |= {"began": span.start_time_unix_nano, "ended": span.end_time_unix_nano}
                    about |= {"status": span.status.code, "words": span.status.message, "resource": resource}
                    self.spans.append(about | {"told": _plain(span.attributes)})

    def named(self, name: str) -> list[dict[str, Any]]:
        return sorted((span for span in self.spans if span["name"] == name), key=lambda span: span["ended"])


def _plain(attributes: Any) -> dict[str, Any]:
    def value(one: Any) -> Any:
        kind = one.WhichOneof("value")
        return [value(each) for each in one.array_value.values] if kind == "array_value" else getattr(one, kind)

    return {one.key: value(one.value) for one in attributes}


@contextmanager
def collector() -> Iterator[tuple[Collector, str]]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            right = (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
            if right:
                found.take(body)
            self.send_response(200 if right else 400)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with listening(Handler) as url:
        yield found, url


def environment(api: str, **more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "KGWALK_LOG"))}
    return {**clean, "OPENAI_BASE_URL": f"{api}/v1", "OPENAI_API_KEY": "sk-1", **more}


def kgwalk(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kgwalk", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, env=variables)


@traced
def test_a_question_is_a_span_and_each_turn_a_child() -> None:
    with api_serving(walks) as (_, api), collector() as (found, url):
        variables = environment(
            api, OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_RESOURCE_ATTRIBUTES="deployment.environment=test"
        )
        done = kgwalk(*ASK, "--json", CAPITAL, **variables)
    assert (done.returncode, json.loads(done.stdout)["answers"]) == (0, ["Paris"]), done.stderr
    [ask], turns = found.named("ask"), found.named("turn")
    assert len(found.spans) == 4
    assert {span["trace_id"] for span in turns} == {ask["trace_id"]}
    assert {span["parent_span_id"] for span in turns} == {ask["span_id"]}
    assert ask["parent_span_id"] == b""
    assert (ask["resource"]["service.name"], ask["resource"]["deployment.environment"]) == ("kgwalk", "test")
    expected = {"kgwalk.protocol": "kgwalk", "kgwalk.outcome": "answered", "kgwalk.stop": "answered", "kgwalk.turns": 3}
    expected |= {"kgwalk.answers": 1, "gen_ai.usage.input_tokens": 57, "gen_ai.usage.output_tokens": 30}
    assert expected.items() <= ask["told"].items()  # the API counts 19 and 10 for each turn
    told = [span["told"] for span in turns]
    assert [one["kgwalk.call"] for one in told] == ["tail_entities", "tail_entities", "answer"]
    assert [one["kgwalk.turn"] for one in told] == [1, 2, 3]
    assert [one["gen_ai.usage.output_tokens"] for one in told] == [10, 10, 10]
    assert (told[1]["kgwalk.set_size"], "kgwalk.set_size" in told[0]) == (1, False)
    # the misspelt relation is an error of that turn, and of no other
    assert [span["status"] for span in turns] == [2, 0, 0]
    assert (told[0]["error.type"], ask["status"]) == ("set_error", 0)
    times = [time for span in turns for time in (span["began"], span["ended"])]
    assert times == sorted(times)
    assert ask["began"] <= times[0] <= times[-1] <= ask["ended"]
    assert all(
        0 < 1e6 * one["kgwalk.model_milliseconds"] < span["ended"] - span["began"]
        for one, span in zip(told, turns, strict=True)
    )
    # neither the question nor names from it
    assert not re.search("France|Paris|capital", repr(found.spans))


@traced
def test_texts_are_told_where_that_is_asked_for_and_what_is_raised_by_its_kind() -> None:
    with api_serving(walks) as (_, api), collector() as (found, url):
        variables = environment(
            api, OTEL_EXPORTER_OTLP_ENDPOINT=url, KGWALK_LOG_QUESTIONS="1", OTEL_SERVICE_NAME="mine"
        )
        lines = f"{CAPITAL}\nwhat is the capital of Spain?\n"
        command = [sys.executable, "-m", "kgwalk", *ASK, "--json", "--trace"]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=180, env=variables)
        assert done.returncode == 1
    [france, spain] = found.named("ask")
    assert france["resource"]["service.name"] == "mine"
    assert france["told"]["kgwalk.question"] == CAPITAL
    assert france["told"]["kgwalk.answered"] == ["Paris"]
    assert [span["told"]["kgwalk.text"] for span in found.named("turn")] == WALK
    assert (spain["status"], spain["told"]["error.type"]) == (2, "engine_failed")
    assert "no such model" in spain["words"]


@traced
def test_a_server_goes_on_with_the_trace_of_who_asks() -> None:
    with api_serving(walks) as (_, api), collector() as (found, url):
        command = [
            sys.executable,
            "-m",
            "kgwalk",
            "serve",
            "--graph",
            "world",
            "--port",
            "0",
            "--trace",
            "--access-log",
        ]
        command += ["--log-format", "json", *ASK[1:]]
        variables = environment(api, OTEL_EXPORTER_OTLP_ENDPOINT=url)
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=variables) as server:
            assert server.stderr is not None
            first = server.stderr.readline()
            place = re.search(r"http://[\d.]+:\d+", first)
            assert place is not None, first
            headers = {"traceparent": f"00-{CALLER}-b7ad6b7169203331-01", "X-Request-ID": "mine"}
            with httpx.Client(base_url=place[0], headers=headers, timeout=60, trust_env=False) as client:
                assert client.post("/v1/ask", json={"question": CAPITAL}).json()["answers"] == ["Paris"]
                assert client.post("/v1/ask", json={"question": "who is Zaphod?"}).status_code == 422
                client.get("/health")
            server.terminate()
            lines = [json.loads(line) for line in server.stderr]
            assert server.wait(20) == 0
    [answered, refused] = found.named("POST /v1/ask")
    assert {span["trace_id"].hex() for span in found.spans} == {CALLER}
    assert {answered["parent_span_id"].hex(), refused["parent_span_id"].hex()} == {"b7ad6b7169203331"}
    [ask] = found.named("ask")
    assert ask["parent_span_id"] == answered["span_id"]
    status = ["http.response.status_code", "kgwalk.outcome", "kgwalk.request_id"]
    assert [answered["told"][name] for name in status] == [200, "answered", "mine"]
    assert [refused["told"][name] for name in status] == [422, "unknown_entity", "mine"]
    assert len(found.spans) == 2 + 1 + 3  # and none of /health
    assert {line.get("trace_id") for line in lines if line.get("path") == "/v1/ask"} == {CALLER}


@traced
def test_no_collector_is_no_failure_and_nothing_is_sent_where_it_is_switched_off() -> None:
    with api_serving(walks) as (_, api), collector() as (found, url):
        for off in ({"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}):
            done = kgwalk(*ASK, "--json", CAPITAL, **environment(api, OTEL_EXPORTER_OTLP_ENDPOINT=url, **off))
            assert done.returncode == 0
        kgwalk(*ASK, "--no-trace", CAPITAL, **environment(api, OTEL_EXPORTER_OTLP_ENDPOINT=url))
        assert found.spans == []
        nowhere = environment(api, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", OTEL_EXPORTER_OTLP_TIMEOUT="1")
        done = kgwalk(*ASK, "--json", CAPITAL, **nowhere)
    assert (done.returncode, json.loads(done.stdout)["answers"]) == (0, ["Paris"])


# Without the packages


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.startswith("opentelemetry.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)


@pytest.mark.usefixtures("absent")
def test_a_missing_package_is_an_error_where_traces_are_asked_for_and_else_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from kgwalk.types import KgwalkError
    from kgwalk.walk import tracing

    with pytest.raises(
        KgwalkError, match=r"traces need opentelemetry, which is not installed; pip install 'kgwalk\[otel\]'"
    ):
        tracing.start_tracing(True)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    tracing.start_tracing()()
    assert caplog.records == []
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    tracing.start_tracing()()
    assert "no traces are sent: they need opentelemetry" in caplog.text
    assert not tracing.on()
    assert tracing.trace_id() == ""
