"""The agent over HTTP, on real sockets with a scripted engine: questions, chat, streams, limits, kgwalk on kgwalk."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from conftest import FILMS
from kgwalk.bench.servers import ScanGraph
from kgwalk.kg.build import build
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.llm.api import ApiEngine
from kgwalk.llm.engine import Engine, Generation, Request, Sampling, ScriptedEngine
from kgwalk.serve import agent, shapes
from kgwalk.serve import engine as serve_engine
from kgwalk.serve.api import model_of
from kgwalk.serve.app import create_app
from kgwalk.serve.mcp.replies import first_answers, write_answers
from kgwalk.serve.run import in_background, run_server
from kgwalk.serve.settings import ServeSettings
from kgwalk.types import EngineError, KgwalkError, Message, Neighbors, RemoteError
from kgwalk.walk.agent import ask

JSON = {"Content-Type": "application/json"}
QUESTION = "who directed the films Tom Hanks starred in?"
WALK = ['head_entities($1, "starred_actors")', 'tail_entities($2, "directed_by")', "<answer>$3</answer>"]
DIRECTORS = ["Penny Marshall", "Robert Zemeckis"]
ABOUT = {
    "answers": DIRECTORS,
    "evidence": {
        "Penny Marshall": [["Big", "starred_actors", "Tom Hanks"], ["Big", "directed_by", "Penny Marshall"]],
        "Robert Zemeckis": [
            ["Cast Away", "starred_actors", "Tom Hanks"],
            ["Cast Away", "directed_by", "Robert Zemeckis"],
        ],
    },
    "topics": ["Tom Hanks"],
    "answer_kind": "entity",
    "walks": 1,
    "calibrated": False,
    "stop": "answered",
    "confidence": 0.0,  # a script finds each of its tokens unlikely
    "note": "the model was not sure of this walk; it may well be wrong",
}
R1 = '<think>known</think><answer>["Big"]</answer>'


def walking(request: Request) -> str:
    """The walk by the number of turns so far, so that plain chat can go through the same engine."""
    told = request.messages[-1].content if request.messages else ""
    if told.startswith("echo "):
        return told.removeprefix("echo ")
    if any("<kg-query>" in message.content for message in request.messages[:1]):
        return R1
    return WALK[sum(message.role == "assistant" for message in request.messages)]


class Slow(ScriptedEngine):
    """Takes its time, and remembers how many asked at once and who was forgotten."""

    def __init__(self, seconds: float = 0.05) -> None:
        super().__init__(walking)
        self.seconds, self.under_way, self.most, self.cancelled = seconds, 0, 0, 0

    async def generate(self, request: Request) -> Generation:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1
        return await super().generate(request)


@contextmanager
def serving(
    engine: Engine | None = None, graphs: Mapping[str, Graph] | None = None, **options: Any
) -> Iterator[httpx.Client]:
    engine = engine or ScriptedEngine(walking)
    settings = ServeSettings(**{"model": "tiny-llm", **options})
    app = create_app(settings, graphs or {"films": ScanGraph(FILMS)}, engine=engine)
    with in_background(app) as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
def films() -> Iterator[httpx.Client]:
    with serving() as client:
        yield client


def asked(client: httpx.Client, **body: Any) -> dict[str, Any]:
    response = client.post("/v1/ask", json=body)
    assert response.status_code == 200, response.text
    model_of(shapes.AskReply).model_validate_json(response.content)
    value: dict[str, Any] = response.json()
    return value


def chat(client: httpx.Client, *messages: str, **body: Any) -> dict[str, Any]:
    listed = [{"role": "user", "content": content} for content in messages]
    response = client.post("/v1/chat/completions", json={"model": "kgwalk", "messages": listed, **body})
    assert response.status_code == 200, response.text
    model_of(shapes.ChatReply).model_validate_json(response.content)
    value: dict[str, Any] = response.json()
    return value


def error_of(response: httpx.Response) -> tuple[int, str]:
    model_of(shapes.RequestError).model_validate_json(response.content)
    return response.status_code, response.json()["error"]["kind"]


def counts(client: httpx.Client, wait_for: str | None = None) -> dict[tuple[str, ...], float]:
    """(sample, label values...) -> value; a request is counted in the moment after it was answered."""
    for _ in range(200):
        found = {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(client.get("/metrics").text)
            for sample in family.samples
        }
        if wait_for is None or any(key[:2] == ("kgwalk_requests_total", wait_for) for key in found):
            return found
        time.sleep(0.02)
    raise AssertionError(f"no request of {wait_for} was counted")


# --- POST /v1/ask


def test_ask(films: httpx.Client) -> None:
    value = asked(films, question=QUESTION)
    assert {name: value[name] for name in ABOUT} == ABOUT
    assert value["turns"] == 3
    assert value["tokens"]["total"] == value["tokens"]["generated"] + value["tokens"]["prompt"]


def test_answers_of_a_graph_made_of_text_quote_its_sentences(tmp_path: Path) -> None:
    """In /v1/ask and in chat, for what the reply's evidence has."""
    fact, sentence = ["Big", "directed_by", "Penny Marshall"], "Penny Marshall directed Big."
    row = {"fact": fact, "document": "big.md", "start": 3, "end": 31, "sentence": sentence}
    (tmp_path / "films.tsv").write_text("".join("\t".join(fact) + "\n" for fact in FILMS))
    (tmp_path / "films.sources.jsonl").write_text(json.dumps(row) + "\n")
    build([tmp_path / "films.tsv"], tmp_path / "films.kg")
    told = [{**row, "title": "", "url": ""}]
    with serving(graphs={"films": open_graph(tmp_path / "films.kg")}) as client:
        assert asked(client, question=QUESTION)["sources"] == told
        assert chat(client, QUESTION)["choices"][0]["message"]["kgwalk"]["sources"] == told
        reply = {"answers": DIRECTORS, "answer_kind": "entity", "evidence": ABOUT["evidence"], "total": 2}
        text = write_answers({**reply, "sources": told})
        assert f'   because "Big" -["directed_by"]-> "Penny Marshall"\n      "{sentence}", in "big.md"' in text
        assert first_answers({**reply, "sources": told}, 1)["sources"] == told
        assert first_answers({**reply, "answers": DIRECTORS[1:], "sources": told}, 1)["sources"] == []


def test_ask_with_everything(films: httpx.Client) -> None:
    value = asked(films, question="which film?", graph="films", topics=["tom hanks"], recipe="kg-r1", runs=3)
    assert (value["answers"], value["topics"], value["turns"]) == (["Big"], ["Tom Hanks"], 3)
    assert value["votes"] == {"Big": 3}


@pytest.mark.parametrize(
    ("body", "expected", "message"),
    [
        (b"{", (400, "malformed_json"), "not JSON"),
        (b"[]", (422, "wrong_content"), "the body is an object, not a list"),
        (b"{}", (422, "wrong_content"), '"question" is missing'),
        (b'{"question": " "}', (422, "wrong_content"), "the question is empty"),
        (b'{"question": 5}', (422, "wrong_content"), '"question" must be a string'),
        (b'{"qestion": "?"}', (422, "wrong_content"), 'did you mean "question"'),
        (b'{"question": "?", "runs": 0}', (422, "wrong_content"), '"runs" must be between 1 and 16'),
        (b'{"question": "?", "runs": true}', (422, "wrong_content"), '"runs" must be a whole number'),
        (b'{"question": "?", "topics": "Big"}', (422, "wrong_content"), '"topics" must be a list of strings'),
        (b'{"question": "?", "topics": ["Bigg"]}', (422, "unknown_entity"), "did you mean 'Big'"),
        (b'{"question": "?", "graph": "x"}', (404, "unknown_graph"), 'there are "films"'),
        (b'{"question": "?", "recipe": "kg-r2"}', (422, "unknown_recipe"), "did you mean `kg-r1`"),
        (b'{"question": "?", "recipe": "/etc/x.toml"}', (422, "unknown_recipe"), "there are"),
    ],
)
def test_wrong_questions(films: httpx.Client, body: bytes, expected: tuple[int, str], message: str) -> None:
    response = films.post("/v1/ask", content=body, headers=JSON)
    assert error_of(response) == expected
    assert message in response.json()["error"]["message"]


def test_several_graphs_must_be_named() -> None:
    graphs = {"films": ScanGraph(FILMS), "none": ScanGraph([("a", "b", "c")])}
    with serving(graphs=graphs) as client:
        assert error_of(client.post("/v1/ask", json={"question": QUESTION})) == (422, "wrong_content")
        assert asked(client, question=QUESTION, graph="films")["answers"] == DIRECTORS
        assert chat(client, QUESTION, graph="films")["choices"][0]["message"]["kgwalk"] == ABOUT


def test_a_recipe_file_of_the_servers_own(tmp_path: Path) -> None:
    recipe = tmp_path / "one-turn.toml"
    recipe.write_text('[protocol]\nname = "kgwalk"\nturns = 1\n')
    with serving(recipe=str(recipe)) as client:
        value = asked(client, question=QUESTION)
    assert (value["stop"], value["turns"], value["answers"]) == ("turns", 2, [])


# --- without a model; failures


def test_without_a_model_the_routes_say_what_to_do() -> None:
    app = create_app(ServeSettings(), {"films": ScanGraph(FILMS)})
    with in_background(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        body = {"question": QUESTION, "model": "kgwalk", "messages": [{"role": "user", "content": "?"}]}
        for response in (
            client.post("/v1/ask", json={"question": QUESTION}),
            client.post("/v1/chat/completions", json=body),
            client.get("/v1/models"),
        ):
            assert error_of(response) == (503, "no_model")
            assert "--model" in response.json()["error"]["message"]
        assert not any(path.startswith("/v1") for path in client.get("/openapi.json").json()["paths"])
        assert client.get("/health").status_code == 200


def test_an_engine_that_fails_is_in_the_log_only(caplog: pytest.LogCaptureFixture) -> None:
    def fail(request: Request) -> str:
        raise EngineError("http://secret-host refused")

    with serving(ScriptedEngine(fail)) as client, caplog.at_level(logging.ERROR, "kgwalk.serve"):
        response = client.post("/v1/ask", json={"question": QUESTION})
        assert error_of(response) == (502, "engine_failed")
        body = {"model": "tiny-llm", "messages": [{"role": "user", "content": "?"}]}
        plain = client.post("/v1/chat/completions", json=body)
        assert error_of(plain) == (502, "engine_failed")
        # a stream has not begun yet, so it fails in the same way
        assert error_of(client.post("/v1/chat/completions", json={**body, "stream": True})) == (502, "engine_failed")
    assert "secret" not in response.text + plain.text
    assert caplog.text.count("secret-host") == 3


def test_a_graph_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ScanGraph):
        def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
            raise RemoteError("http://secret-host failed")

    with serving(graphs={"broken": Broken(FILMS)}) as client:
        response = client.post("/v1/ask", json={"question": QUESTION})
    assert error_of(response) == (502, "tool_failed")
    assert "secret" not in response.text
    assert "secret-host" in caplog.text


def test_a_bug_is_a_plain_500(caplog: pytest.LogCaptureFixture) -> None:
    def bug(request: Request) -> str:
        raise ZeroDivisionError("secret detail")

    with serving(ScriptedEngine(bug)) as client:
        response = client.post("/v1/ask", json={"question": QUESTION})
        assert counts(client)["kgwalk_exceptions_total",] == 1
    assert error_of(response) == (500, "internal")
    assert "secret detail" in caplog.text


def test_the_engine_is_opened_once_at_the_first_use_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Closing] = []

    class Closing(ScriptedEngine):
        closed = False

        async def close(self) -> None:
            self.closed = True

    def open_engine(settings: ServeSettings) -> Engine:
        if settings.model == "missing" and not opened:
            opened.append(Closing(walking))
            raise EngineError("no such model")
        time.sleep(0.05)
        opened.append(Closing(walking))
        return opened[-1]

    monkeypatch.setattr(serve_engine, "open_engine", open_engine)
    app = create_app(ServeSettings(model="tiny", warm=False), {"films": ScanGraph(FILMS)})
    with in_background(app) as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
        assert client.get("/v1/models").json()["data"][0]["id"] == "tiny"
        assert opened == []
        threads = [threading.Thread(target=asked, args=(client,), kwargs={"question": QUESTION}) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(opened) == 1
        assert not opened[0].closed
    assert opened[0].closed
    # one that could not be opened is tried again
    opened.clear()
    app = create_app(ServeSettings(model="missing", warm=False), {"films": ScanGraph(FILMS)})
    with in_background(app) as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
        assert error_of(client.post("/v1/ask", json={"question": QUESTION})) == (502, "engine_failed")
        assert asked(client, question=QUESTION)["answers"] == DIRECTORS


def test_an_engine_that_opens_for_longer_than_a_request_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Engine] = []

    def open_engine(settings: ServeSettings) -> Engine:
        time.sleep(0.5)
        opened.append(ScriptedEngine(walking))
        return opened[-1]

    monkeypatch.setattr(serve_engine, "open_engine", open_engine)
    app = create_app(ServeSettings(model="tiny", agent_time_limit=0.3), {"films": ScanGraph(FILMS)})
    with in_background(app) as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
        assert error_of(client.post("/v1/ask", json={"question": QUESTION})) == (504, "time_limit")
        time.sleep(0.4)
        assert asked(client, question=QUESTION)["answers"] == DIRECTORS
    assert len(opened) == 1


# --- GET /v1/models, POST /v1/chat/completions


def test_models(films: httpx.Client) -> None:
    response = films.get("/v1/models")
    model_of(shapes.ModelList).model_validate_json(response.content)
    names = [entry["id"] for entry in response.json()["data"]]
    assert names[:2] == ["tiny-llm", "kgwalk"]
    assert {"kgwalk/kgwalk", "kgwalk/kg-r1"} <= set(names)


def test_chat_with_the_agent(films: httpx.Client) -> None:
    reply = chat(films, "never mind", QUESTION)
    (choice,) = reply["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Penny Marshall, Robert Zemeckis", "kgwalk": ABOUT}
    assert choice["finish_reason"] == "stop"
    usage = reply["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["completion_tokens"] == asked(films, question=QUESTION)["tokens"]["generated"]
    other = chat(films, "which film?", model="kgwalk/kg-r1", topics=["Tom Hanks"], runs=2)
    assert other["choices"][0]["message"]["content"] == "Big"
    assert other["model"] == "kgwalk/kg-r1"


def test_a_walk_without_an_answer_is_cut_by_length() -> None:
    with serving(ScriptedEngine(lambda request: "hm")) as client:
        (choice,) = chat(client, QUESTION)["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("length", "")
    assert choice["message"]["kgwalk"]["stop"] == "turns"


def test_chat_with_the_language_model(films: httpx.Client) -> None:
    reply = chat(films, "echo one </a> two", model="tiny-llm", stop=["</b>", "</a>"])
    assert reply["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "one "},
            "finish_reason": "stop",
            "stop_reason": "</a>",
        }
    ]
    # the bytes of the prompt with three markers, and of what was generated with its stop text
    counted = {"prompt_tokens": len("echo one </a> two") + 3, "completion_tokens": len("one </a>")}
    assert reply["usage"] == {**counted, "total_tokens": sum(counted.values())}
    cut = chat(films, "echo one two", model="tiny-llm", max_tokens=3)["choices"][0]
    assert (cut["message"]["content"], cut["finish_reason"], cut["stop_reason"]) == ("one", "length", None)
    newer = chat(films, "echo one two", model="tiny-llm", max_completion_tokens=3, max_tokens=9)["choices"][0]
    assert newer["message"]["content"] == "one"


def test_sampling_and_roles_reach_the_engine() -> None:
    seen: list[Request] = []

    def say(request: Request) -> str:
        seen.append(request)
        return "ok"

    messages = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
    ]
    with serving(ScriptedEngine(say)) as client:
        chat(client, model="tiny-llm", messages=messages, temperature=0, top_p=0.5, max_tokens=9, stop="x", seed=3)
        chat(client, "?", model="tiny-llm", temperature=None, user="me", frequency_penalty=0.1)
    assert [(one.role, one.content) for one in seen[0].messages] == [
        ("system", "be brief"),
        ("user", "ab"),
        ("assistant", "c"),
        ("user", "d"),
    ]
    assert seen[0].sampling == Sampling(0.0, 0.5, 9, ("x",), 3)
    assert seen[1].sampling == Sampling(1.0, 1.0, 1024, (), None)
    assert seen[0].session != seen[1].session


def test_messages_longer_than_the_context() -> None:
    with serving(ScriptedEngine(lambda request: "y" * 100, context=20)) as client:
        body = {"model": "tiny-llm", "messages": [{"role": "user", "content": "x" * 50}]}
        response = client.post("/v1/chat/completions", json=body)
        assert error_of(response) == (400, "context_length_exceeded")
        assert chat(client, "x" * 10, model="tiny-llm")["usage"]["total_tokens"] == 20


USER = [{"role": "user", "content": "?"}]


@pytest.mark.parametrize(
    ("body", "expected", "message"),
    [
        ([], (422, "wrong_content"), "an object"),
        ({"messages": USER}, (422, "wrong_content"), '"model" is missing'),
        ({"model": "kgwalk"}, (422, "wrong_content"), '"messages" must be a list'),
        ({"model": "kgwalk", "messages": []}, (422, "wrong_content"), '"messages" must be a list'),
        ({"model": "gpt", "messages": USER}, (404, "unknown_model"), "there are tiny-llm, kgwalk"),
        ({"model": "kgwalk/x", "messages": USER}, (404, "unknown_model"), "is not served"),
        ({"model": "kgwalk", "messages": [5]}, (422, "wrong_content"), "a message is an object"),
        ({"model": "kgwalk", "messages": [{"role": "tool", "content": ""}]}, (422, "wrong_content"), 'role "tool"'),
        ({"model": "kgwalk", "messages": [{"role": "user"}]}, (422, "wrong_content"), '"content" must be'),
        (
            {"model": "kgwalk", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            (422, "wrong_content"),
            "must be text",
        ),
        (
            {"model": "kgwalk", "messages": [{"role": "assistant", "content": "x"}]},
            (422, "wrong_content"),
            "the question is empty",
        ),
        ({"model": "kgwalk", "messages": USER, "n": 2}, (422, "wrong_content"), '"n" must be 1'),
        ({"model": "kgwalk", "messages": USER, "tools": [{}]}, (422, "wrong_content"), '"tools"'),
        ({"model": "kgwalk", "messages": USER, "stream": 1}, (422, "wrong_content"), '"stream" must be true'),
        ({"model": "kgwalk", "messages": USER, "graph": "x", "stream": True}, (404, "unknown_graph"), "not served"),
        ({"model": "tiny-llm", "messages": USER, "temperature": 3}, (422, "wrong_content"), "between 0 and 2"),
        ({"model": "tiny-llm", "messages": USER, "stop": [""]}, (422, "wrong_content"), '"stop" must be'),
        ({"model": "tiny-llm", "messages": USER, "stop": 5}, (422, "wrong_content"), '"stop" must be'),
        ({"model": "tiny-llm", "messages": USER, "seed": "x"}, (422, "wrong_content"), '"seed" must be'),
        ({"model": "tiny-llm", "messages": USER, "max_tokens": 0}, (422, "wrong_content"), '"max_tokens" must be'),
    ],
)
def test_wrong_chats(films: httpx.Client, body: object, expected: tuple[int, str], message: str) -> None:
    response = films.post("/v1/chat/completions", json=body)
    assert error_of(response) == expected
    assert message in response.json()["error"]["message"]


# --- streams


def events(client: httpx.Client, content: str, **body: Any) -> list[tuple[float, Any]]:
    """(when, chunk) of a stream; the last must be [DONE]."""
    request = {"model": "kgwalk", "messages": [{"role": "user", "content": content}], "stream": True, **body}
    found: list[tuple[float, Any]] = []
    with client.stream("POST", "/v1/chat/completions", json=request) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        for line in response.iter_lines():
            if line:
                assert line.startswith("data: ")
                found.append((time.monotonic(), line.removeprefix("data: ")))
    assert found.pop()[1] == "[DONE]"
    chunks = [(at, json.loads(text)) for at, text in found]
    for _, chunk in chunks:
        if "error" not in chunk:
            model_of(shapes.ChatChunk).model_validate(chunk)
    return chunks


def test_a_stream_has_the_turns_as_they_happen() -> None:
    with serving(Slow(0.15)) as client:
        chunks = events(client, QUESTION, stream_options={"include_usage": True})
    times = [at for at, _ in chunks]
    deltas = [chunk["choices"][0]["delta"] for _, chunk in chunks if chunk["choices"]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    turns = [delta["kgwalk"] for delta in deltas[1:4]]
    assert [turn["text"] for turn in turns] == WALK
    assert [(turn["run"], turn["turn"], turn["ok"]) for turn in turns] == [(1, 1, True), (1, 2, True), (1, 3, True)]
    assert turns[0]["observation"].startswith("$2 = 2: ")
    assert times[2] - times[1] > 0.1
    assert deltas[4] == {"content": "Penny Marshall, Robert Zemeckis", "kgwalk": ABOUT}
    assert deltas[5] == {}
    assert chunks[5][1]["choices"][0]["finish_reason"] == "stop"
    assert chunks[6][1]["usage"]["completion_tokens"] > 0
    assert len({chunk["id"] for _, chunk in chunks}) == 1


def test_a_stream_of_several_runs_and_of_plain_chat(films: httpx.Client) -> None:
    chunks = [chunk for _, chunk in events(films, QUESTION, runs=2)]
    runs = [chunk["choices"][0]["delta"]["kgwalk"]["run"] for chunk in chunks[1:-2]]
    assert sorted(runs) == [1, 1, 1, 2, 2, 2]
    plain = [chunk["choices"][0] for _, chunk in events(films, "echo hi", model="tiny-llm")]
    assert [choice["delta"] for choice in plain] == [{"role": "assistant", "content": ""}, {"content": "hi"}, {}]
    assert [choice["finish_reason"] for choice in plain] == [None, None, "stop"]


def test_a_stream_that_fails_on_the_way(caplog: pytest.LogCaptureFixture) -> None:
    def turn(request: Request) -> str:
        if len(request.messages) > 2:
            raise EngineError("gone")
        return WALK[0]

    with serving(ScriptedEngine(turn)) as client:
        chunks = [chunk for _, chunk in events(client, QUESTION)]
    assert chunks[-1]["error"]["kind"] == "engine_failed"
    assert "gone" in caplog.text


# --- bounds


def test_questions_at_once_are_bounded_and_graph_requests_are_not_held_up() -> None:
    engine = Slow(0.1)
    with serving(engine, agent_at_once=2) as client:
        threads = [threading.Thread(target=asked, args=(client,), kwargs={"question": QUESTION}) for _ in range(4)]
        for thread in threads:
            thread.start()
        waits: list[float] = []
        while any(thread.is_alive() for thread in threads) and len(waits) < 20:
            started = time.monotonic()
            body = [{"action": "get_tail_relations", "entity": "Big"}]
            assert client.post("/kg/actions", json=body).status_code == 200
            waits.append(time.monotonic() - started)
        for thread in threads:
            thread.join()
    assert engine.most == 2
    assert min(waits) < 0.05


def test_a_walk_that_computes_for_long_does_not_hold_up_graph_requests() -> None:
    class Busy(ScanGraph):
        def neighbors(self, entity: str, relation: str, *, out: bool = True, limit: int | None = None) -> Neighbors:
            until = time.monotonic() + 0.3
            while time.monotonic() < until:  # work, not sleep
                pass
            return super().neighbors(entity, relation, out=out, limit=limit)

    with serving(graphs={"busy": Busy(FILMS)}) as client:
        thread = threading.Thread(target=asked, args=(client,), kwargs={"question": QUESTION})
        thread.start()
        waits: list[float] = []
        while thread.is_alive() and len(waits) < 30:
            started = time.monotonic()
            client.get("/health")
            waits.append(time.monotonic() - started)
            time.sleep(0.01)
        thread.join()
    assert min(waits) < 0.1


def test_too_many_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "MOST_WAITING", 1)
    with serving(Slow(0.4), agent_at_once=1) as client:
        body = {"model": "tiny-llm", "messages": USER}
        threads = [threading.Thread(target=chat, args=(client, "echo x"), kwargs={"model": "tiny-llm"}) for _ in "ab"]
        for thread in threads:
            thread.start()
            time.sleep(0.1)
        response = client.post("/v1/chat/completions", json=body)
        for thread in threads:
            thread.join()
    assert error_of(response) == (503, "busy")
    assert response.headers["retry-after"] == "5"


def test_the_time_limit_is_the_agents_own() -> None:
    engine = Slow(0.06)
    # longer than the graph routes' limit is no matter
    with serving(engine, time_limit=0.1) as client:
        assert asked(client, question=QUESTION)["answers"] == DIRECTORS
    engine = Slow(5)
    with serving(engine, agent_time_limit=0.3) as client:
        started = time.monotonic()
        assert error_of(client.post("/v1/ask", json={"question": QUESTION})) == (504, "time_limit")
        assert time.monotonic() - started < 3
        body = {"model": "tiny-llm", "messages": USER, "stream": True}
        assert error_of(client.post("/v1/chat/completions", json=body)) == (504, "time_limit")
    assert engine.cancelled == 2


def test_who_waits_has_all_of_the_time_from_its_turn_on() -> None:
    """Two generations of 0.6 s, one after the other, within 1 s each: the second is answered after 1.2 s."""
    body = {"model": "tiny-llm", "messages": USER}
    with serving(Slow(0.6), agent_at_once=1, agent_time_limit=1.0) as client, ThreadPoolExecutor(2) as both:
        replies = [both.submit(client.post, "/v1/chat/completions", json=body) for _ in range(2)]
        assert [one.result().status_code for one in replies] == [200, 200]


def test_a_walk_ends_between_turns_when_time_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "SOFT", 0.1)  # of 5 s

    def turn(request: Request) -> str:
        time.sleep(0.2)
        return "hm"

    with serving(ScriptedEngine(turn), agent_time_limit=5) as client:
        value = asked(client, question=QUESTION)
    assert (value["stop"], value["answers"]) == ("time", [])
    assert 1 <= value["turns"] <= 3


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_who_leaves_ends_the_walk(stream: bool) -> None:
    engine = Slow(0.2 if stream else 5)
    with serving(engine) as client:
        body = json.dumps({"model": "kgwalk", "messages": [{"role": "user", "content": QUESTION}], "stream": stream})
        about = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        head = f"POST /v1/chat/completions HTTP/1.1\r\n{about}\r\n\r\n"
        with socket.create_connection((client.base_url.host, client.base_url.port or 0)) as leaving:
            leaving.sendall((head + body).encode())
            if stream:
                assert b"event-stream" in leaving.recv(4096)
            else:
                time.sleep(0.3)
        for _ in range(100):
            if engine.cancelled:
                break
            time.sleep(0.02)
        assert engine.cancelled == 1
        after = counts(client, "/v1/chat/completions")
    status = "200" if stream else "499"
    assert after["kgwalk_requests_total", "/v1/chat/completions", status] == 1


def test_stopping_the_server_ends_walks() -> None:
    engine = Slow(30)
    app = create_app(ServeSettings(time_limit=0.1), {"films": ScanGraph(FILMS)}, engine=engine)
    before = set(threading.enumerate())
    found: list[object] = []

    def leave_it(url: str) -> None:
        try:
            found.append(httpx.post(f"{url}/v1/ask", json={"question": QUESTION}, timeout=20, trust_env=False))
        except httpx.HTTPError as error:
            found.append(error)

    with in_background(app) as url:
        thread = threading.Thread(target=leave_it, args=(url,))
        thread.start()
        time.sleep(0.3)
        started = time.monotonic()
        app.agent.close()
    thread.join()
    assert time.monotonic() - started < 10
    (response,) = found
    assert isinstance(response, httpx.Response)
    assert error_of(response) == (503, "stopping")
    assert set(threading.enumerate()) <= before


# --- the door, the counts, the description


def test_the_key_covers_the_agent() -> None:
    with serving(api_key="s3cret") as client:
        assert error_of(client.post("/v1/ask", json={"question": QUESTION})) == (401, "unauthorized")
        assert error_of(client.get("/v1/models")) == (401, "unauthorized")
        assert error_of(client.post("/v1/chat/completions", json={})) == (401, "unauthorized")
        client.headers["Authorization"] = "Bearer s3cret"
        assert asked(client, question=QUESTION)["answers"] == DIRECTORS


def test_counts() -> None:
    with serving() as client:
        asked(client, question=QUESTION)
        client.post("/v1/ask", json={})
        events(client, QUESTION)
        after = counts(client, "/v1/chat/completions")
    assert after["kgwalk_requests_total", "/v1/ask", "200"] == 1
    assert after["kgwalk_requests_total", "/v1/ask", "422"] == 1
    assert after["kgwalk_requests_total", "/v1/chat/completions", "200"] == 1
    assert after["kgwalk_request_seconds_count", "/v1/ask"] == 2


def test_openapi(films: httpx.Client) -> None:
    description = films.get("/openapi.json").json()
    assert {"/v1/ask", "/v1/chat/completions", "/v1/models"} <= set(description["paths"])
    for path, model in (("/v1/ask", "AskBody"), ("/v1/chat/completions", "ChatBody")):
        body = description["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert body == {"$ref": f"#/components/schemas/{model}"}
        assert {"502", "503", "504"} <= set(description["paths"][path]["post"]["responses"])
    known = description["components"]["schemas"]
    assert set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(description))) <= set(known)


def test_fastapi_alone_gives_the_same() -> None:
    app = create_app(ServeSettings(model="m"), {"films": ScanGraph(FILMS)}, engine=ScriptedEngine(walking))

    async def answers(app: Any) -> list[str]:
        chat = {"model": "m", "messages": [{"role": "user", "content": "echo hi"}]}
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=JSON) as client:
            replies = [
                await client.post("/v1/ask", json={"question": QUESTION, "runs": 99}),
                await client.post("/v1/chat/completions", json=chat),
                await client.post("/v1/chat/completions", json={**chat, "stream": True}),
                await client.get("/v1/models"),
            ]
        varying = r'"(?:id":"chatcmpl-\w+|created":\d+)"?'
        return [re.sub(varying, "", reply.text) for reply in replies]

    async def both() -> None:
        assert await answers(app) == await answers(await app.api())

    try:
        asyncio.run(both())
    finally:
        app.agent.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"agent_at_once": 0}, "`agent_at_once` must be a whole number of at least 1, not 0"),
        ({"agent_time_limit": 0}, "`agent_time_limit` must be a number of seconds above 0, not 0"),
        ({"model": " "}, "`model` must be text, not ' '"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(KgwalkError, match=re.escape(message)):
        ServeSettings(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"engine": "cloud"}, "unknown engine 'cloud'; there are:\\n  auto: local with a GPU"),
        ({"engine": "api", "adapter": "lora"}, "an adapter is for a model that runs here"),
        ({"engine": "local", "base_url": "http://h"}, "`base_url` is for the engine `api`"),
        ({"recipe": "kgwolk"}, "unknown recipe `kgwolk`; did you mean `kgwalk`"),
    ],
)
def test_an_engine_that_cannot_be_is_found_out_at_the_start(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(KgwalkError, match=message):
        create_app(ServeSettings(model="m", **settings), {"films": ScanGraph(FILMS)})


def test_an_open_engine_stays_in_its_process() -> None:
    with pytest.raises(KgwalkError, match="name its model"):
        run_server(ServeSettings({"g": "x"}, port=0, workers=2), engine=ScriptedEngine([]))


# --- one kgwalk as the engine of another


@contextmanager
def engine_over(client: httpx.Client, model: str) -> Iterator[ApiEngine]:
    engine = ApiEngine(model, base_url=str(client.base_url), retries=0)
    try:
        yield engine
    finally:
        asyncio.run(engine.close())


@pytest.mark.parametrize("protocol", ["kgwalk", "kg-r1"])
def test_a_walk_whose_model_is_behind_another_kgwalk(films: httpx.Client, protocol: str) -> None:
    with engine_over(films, "tiny-llm") as engine:
        found = ask(QUESTION, ScanGraph(FILMS), protocol=protocol, engine=engine)
        assert found.tokens["total"] == engine.usage.prompt_tokens + engine.usage.completion_tokens
    assert found.answers == (DIRECTORS if protocol == "kgwalk" else ["Big"])
    assert [turn.text for turn in found.episodes[0].turns] == (WALK if protocol == "kgwalk" else [R1])


def test_a_kgwalk_served_over_another_kgwalk(films: httpx.Client) -> None:
    with engine_over(films, "tiny-llm") as engine, serving(engine, model="far-llm") as near:
        assert asked(near, question=QUESTION)["answers"] == DIRECTORS
        reply = chat(near, "echo hi </a> there", model="far-llm", stop=["</a>"])
        assert reply["choices"][0]["message"]["content"] == "hi "
        assert reply["choices"][0]["stop_reason"] == "</a>"
        # as the server behind it counted: the prompt's bytes with three markers
        assert reply["usage"]["prompt_tokens"] == len("echo hi </a> there") + 3


def test_the_agent_itself_through_an_api_engine(films: httpx.Client) -> None:
    with engine_over(films, "kgwalk") as engine:
        request = Request([], [Message("user", QUESTION)], Sampling())
        generation = asyncio.run(engine.generate(request))
        assert engine.tokens.decode(generation.ids) == "Penny Marshall, Robert Zemeckis"
    missing = r"has no model 'tiny-lm'; did you mean 'tiny-llm'\? there are"
    with engine_over(films, "tiny-lm") as engine, pytest.raises(EngineError, match=missing):
        asyncio.run(engine.generate(request))


def test_a_server_in_a_process_of_its_own_over_another(films: httpx.Client, store: Callable[..., StoredGraph]) -> None:
    path = str(store(FILMS).store.folder.path)
    settings = {"graphs": {"films": path}, "port": 0, "model": "tiny-llm", "engine": "api", "agent_time_limit": 20}
    command = [sys.executable, "-W", "error", "-m", "kgwalk.serve.run", json.dumps(settings)]
    environment = {**os.environ, "OPENAI_BASE_URL": str(films.base_url)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stderr is not None
            found = re.search(r"http://\S+:\d+", server.stderr.readline())
            assert found is not None
            with httpx.Client(base_url=found[0], timeout=20, trust_env=False) as client:
                assert asked(client, question=QUESTION)["answers"] == DIRECTORS
        finally:
            server.terminate()
        assert server.wait(10) == 0
        assert server.stderr.read() == ""


# --- answers as they are asked for


def test_a_limit_a_guess_and_the_walk(films: httpx.Client) -> None:
    value = asked(films, question=QUESTION, limit=1, min_confidence=0.5)
    assert (value["answers"], value["left_out"], value["guess"]) == (DIRECTORS[:1], 1, True)
    assert [turn["text"] for turn in value["walk"]] == WALK
    said = chat(films, QUESTION, limit=1)["choices"][0]["message"]
    assert said["content"] == f"{DIRECTORS[0]}, ... and 1 more"
    assert said["kgwalk"]["left_out"] == 1
    assert error_of(films.post("/v1/ask", json={"question": QUESTION, "min_confidence": 2})) == (422, "wrong_content")


def test_a_second_look_is_said(films: httpx.Client) -> None:
    value = asked(films, question=QUESTION, walks=3)  # a script finds its tokens unlikely
    assert (value["walks"], value["answers"]) == (3, DIRECTORS)


def test_the_graph_does_not_say(tmp_path: Path) -> None:
    recipe = tmp_path / "full.toml"
    recipe.write_text('[protocol]\nname = "kgwalk"\nlanguage = "full"\n')
    turns = ['filter($1, "release_year", ">", "1999")', "<answer>$2</answer>"]
    script = ScriptedEngine(lambda request: turns[sum(one.role == "assistant" for one in request.messages)])
    with serving(script, recipe=str(recipe)) as client:
        value = asked(client, question="what came after Big?")
        assert (value["answers"], value["answer_kind"]) == ([], "none")
        assert ["Big", "release_year", "1988"] in value["nearest"]
        assert chat(client, "what came after Big?")["choices"][0]["message"]["content"] == "the graph does not say"
