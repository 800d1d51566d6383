"""What an operator meets: a second Ctrl-C, texts that are too long, a damaged store, and what /health knows."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pytest
import xxhash

from conftest import FILMS, store_of
from kgwalk.bench.servers import ScanGraph
from kgwalk.kg.files import HEADER, write_header
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import StoredGraph, open_graph
from kgwalk.llm.engine import Generation, Request, ScriptedEngine
from kgwalk.llm.tokenizers import ByteTokenizer
from kgwalk.serve import shapes
from kgwalk.serve.api import model_of
from kgwalk.serve.app import create_app
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings
from kgwalk.types import StoreError
from kgwalk.walk.agent import NOTE

QUESTION = "who directed Big?"
WALK = ['tail_entities($1, "directed_by")', "<answer>$2</answer>"]


@contextmanager
def serving(engine: ScriptedEngine | None, graph: Graph | None = None, **options: Any) -> Iterator[httpx.Client]:
    app = create_app(ServeSettings(**options), {"films": graph or ScanGraph(FILMS)}, engine=engine)
    with in_background(app) as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
        yield client


def error_of(response: httpx.Response) -> tuple[int, str]:
    model_of(shapes.RequestError).model_validate_json(response.content)
    return response.status_code, response.json()["error"]["kind"]


def saying(content: str, **fields: Any) -> dict[str, Any]:
    return {"model": "kgwalk", "messages": [{"role": "user", "content": content}], **fields}


# --- a second Ctrl-C

SLOW_SERVER = """
import asyncio, sys
from conftest import FILMS
from kgwalk.bench.servers import ScanGraph
from kgwalk.llm.engine import ScriptedEngine
from kgwalk.serve.run import run_server
from kgwalk.serve.settings import ServeSettings

class Slow(ScriptedEngine):
    async def generate(self, request):
        if len(request.messages) > 2:
            await asyncio.sleep(SECONDS)
        return await super().generate(request)

walk = ['tail_entities($1, "directed_by")', "<answer>$2</answer>"]
turn = lambda request: walk[sum(message.role == "assistant" for message in request.messages)]
run_server(ServeSettings(port=0), graphs={"films": ScanGraph(FILMS)}, engine=Slow(turn))
"""


@contextmanager
def slow_server(seconds: float) -> Iterator[tuple[subprocess.Popen[str], str]]:
    code = SLOW_SERVER.replace("SECONDS", str(seconds))
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]) as server:
        try:
            assert server.stderr is not None
            found = re.search(r"http://\S+:\d+", server.stderr.readline())
            assert found is not None, server.stderr.read()
            yield server, found[0]
        finally:
            server.kill()


def asking(url: str, path: str, body: dict[str, Any], found: list[httpx.Response]) -> threading.Thread:
    """A question that is under way when this returns."""
    thread = threading.Thread(
        target=lambda: found.append(httpx.post(f"{url}{path}", json=body, timeout=20, trust_env=False))
    )
    before = httpx.get(f"{url}/health", trust_env=False).json()["under_way"]
    thread.start()
    for _ in range(200):
        if httpx.get(f"{url}/health", trust_env=False).json()["under_way"] > before:
            time.sleep(0.5)  # the first turn is done, so a stream has begun
            return thread
        time.sleep(0.02)
    raise AssertionError("the question did not get under way")


def test_the_first_ctrl_c_says_what_it_waits_for() -> None:
    found: list[httpx.Response] = []
    with slow_server(1.5) as (server, url):
        thread = asking(url, "/v1/ask", {"question": QUESTION}, found)
        server.send_signal(signal.SIGINT)
        thread.join()
        assert server.wait(10) == 0
        assert server.stderr is not None
        assert server.stderr.read() == "stopping, 1 question under way; Ctrl-C again stops at once\n"
    assert found[0].json()["answers"] == ["Penny Marshall"]


def test_the_second_ctrl_c_tells_the_clients_and_leaves_no_traceback() -> None:
    plain: list[httpx.Response] = []
    stream: list[httpx.Response] = []
    with slow_server(60) as (server, url):
        threads = [
            asking(url, "/v1/ask", {"question": QUESTION}, plain),
            asking(url, "/v1/chat/completions", saying(QUESTION, stream=True), stream),
        ]
        server.send_signal(signal.SIGINT)
        time.sleep(0.5)
        server.send_signal(signal.SIGINT)
        assert server.wait(10) == 0
        for thread in threads:
            thread.join()
        assert server.stderr is not None
        assert server.stderr.read().splitlines() == [
            "stopping, 2 questions under way; Ctrl-C again stops at once",
            "stopped at once; 2 questions not answered",
        ]
    assert error_of(plain[0]) == (503, "stopping")
    *_, last, done = stream[0].text.strip().split("\n\n")  # it had begun with 200
    assert json.loads(last.removeprefix("data: "))["error"]["kind"] == "stopping"
    assert done == "data: [DONE]"


# --- texts that are too long


class Counting(ByteTokenizer):
    """Remembers the longest text that it was given."""

    longest = 0

    def encode(self, text: str) -> list[int]:
        self.longest = max(self.longest, len(text))
        return super().encode(text)


class Reader(ScriptedEngine):
    def __init__(self, context: int = 1 << 20) -> None:
        super().__init__(
            lambda request: WALK[sum(one.role == "assistant" for one in request.messages)], context=context
        )
        self.tokens = Counting()


LONG = f"{QUESTION} {'please ' * 3000}"  # 21,018 bytes, a token each; a walk has 3,072


@pytest.mark.parametrize("stream", [False, True])
def test_a_question_that_is_too_long(stream: bool) -> None:
    with serving(Reader()) as client:
        for question in (LONG, LONG[:3000]):  # the second fits, but not with the prompt around it
            for path, body in (
                ("/v1/ask", {"question": question}),
                ("/v1/chat/completions", saying(question, stream=stream)),
            ):
                response = client.post(path, json=body)
                assert error_of(response) == (400, "context_length_exceeded")
                assert re.search(r"has [\d,]+ tokens and there is room for 3,072", response.text)
        assert client.post("/v1/ask", json={"question": QUESTION}).json()["answers"] == ["Penny Marshall"]


def test_what_no_context_can_hold_is_not_tokenised() -> None:
    reader = Reader(context=9000)
    with serving(reader, model="tiny-llm") as client:
        for path, body in (
            ("/v1/ask", {"question": "x" * 3_000_000}),
            ("/v1/chat/completions", saying("x" * 3_000_000)),
            ("/v1/chat/completions", {**saying("x" * 3_000_000), "model": "tiny-llm"}),
        ):
            response = client.post(path, json=body)
            assert error_of(response) == (400, "context_length_exceeded")
            assert "3,000,000 characters" in response.json()["error"]["message"]
    assert reader.tokens.longest == 0


def test_the_advice_to_who_sends_too_much_fits_the_route() -> None:
    with serving(Reader(), max_body=100) as client:
        told = {
            path: client.post(path, json={"question": "x" * 100}).json()["error"]["message"]
            for path in ("/v1/ask", "/v1/chat/completions", "/kg/actions", "/kg/query", "/elsewhere")
        }
    assert told == {
        "/v1/ask": "the body is over 100 bytes; ask a shorter question",
        "/v1/chat/completions": "the body is over 100 bytes; send fewer or shorter messages",
        "/kg/actions": "the body is over 100 bytes; send smaller batches",
        "/kg/query": "the body is over 100 bytes; send smaller batches",
        "/elsewhere": "the body is over 100 bytes; send less",
    }


# --- a damaged store


def damaged_store(folder: Path, array: str = "out.other") -> StoredGraph:
    """FILMS with every byte of an array 0xff but its last item: its numbers stand for no name. The checksums are right,
    as somebody would make them who wants to break what reads it.
    """
    store_of(folder, FILMS)
    path = folder / "graph.kg"
    body = orjson.loads((path / HEADER).read_bytes())["header"]
    entry, file = body["arrays"][array], path / f"{array}.bin"
    kept = file.read_bytes()[-np.dtype(entry["dtype"]).itemsize :] if array == "out.groups" else b""
    file.write_bytes(b"\xff" * (file.stat().st_size - len(kept)) + kept)
    entry["xxh3"] = xxhash.xxh3_64_hexdigest(file.read_bytes())
    write_header(path, body)
    return open_graph(path)


MESSAGE = r"^the store \S+graph\.kg is damaged; `kgwalk kg verify \S+` says where, `kgwalk kg build` makes it anew$"


@pytest.mark.parametrize(
    ("array", "ask"),
    [
        ("out.other", lambda graph: graph.neighbors("Big", "directed_by")),
        ("out.other", lambda graph: list(graph.match("Big"))),
        ("out.relation", lambda graph: graph.relations("Big")),
        ("in.triple", lambda graph: list(graph.match(None, None, "Tom Hanks"))),
        ("out.groups", lambda graph: "Big" in graph.subgraph([])),
        ("entity.byhash", lambda graph: "Big" in graph),
        ("find.ids", lambda graph: graph.find("tom hanks")),
        ("relation.heap", lambda graph: graph.relations("Big")),  # 0xff is no UTF-8
    ],
)
def test_a_damaged_array_is_one_error(tmp_path: Path, array: str, ask: Callable[[StoredGraph], object]) -> None:
    graph = damaged_store(tmp_path, array)
    with pytest.raises(StoreError, match=MESSAGE):
        ask(graph)


def test_a_damaged_store_on_the_command_line(tmp_path: Path) -> None:
    damaged_store(tmp_path)
    command = [sys.executable, "-m", "kgwalk.cli.main", "kg", "query", str(tmp_path / "graph.kg"), "Big", "directed_by"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert re.search(r"^error: the store .* is damaged; `kgwalk kg verify", done.stderr)


def test_an_item_that_meets_the_damage_fails_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    about = {"entity": "Big", "relation": "directed_by"}
    with serving(None, damaged_store(tmp_path)) as client:
        items = [{"action": "get_tail_entities", **about}, {"action": "get_tail_relations", "entity": "Big"}]
        bad, good = client.post("/kg/actions", json=items).json()["results"]
        assert (bad["error"]["kind"], good["items"][0]) == ("GRAPH_FAILED", "directed_by")
        queries = [{"op": "neighbors", **about}, {"op": "match", "head": "Big"}, {"op": "contains", "entity": "Big"}]
        neighbors, match, contains = client.post("/kg/query", json=queries).json()["results"]
        assert [one["error"]["kind"] for one in (neighbors, match)] == ["graph_failed"] * 2
        assert contains["value"] is True
    assert caplog.text.count("is damaged; `kgwalk kg verify") == 3
    assert "Traceback" not in caplog.text


# --- the note, the words, /health


class Sure(ScriptedEngine):
    """Finds each walk as likely as it is told to."""

    chance = 0.0

    async def generate(self, request: Request) -> Generation:
        made = await super().generate(request)
        return Generation(made.ids, [self.chance / 2] + [0.0] * (len(made.ids) - 1), made.finish)


def test_the_note_is_there_below_the_threshold_of_confidence() -> None:
    engine = Sure(lambda request: WALK[sum(one.role == "assistant" for one in request.messages)])
    with serving(engine) as client:
        for log_chance, expected in ((-1.0, NOTE), (-0.5, None)):  # of the walk: 37% and 61%; the threshold is 40%
            engine.chance = log_chance
            asked = client.post("/v1/ask", json={"question": QUESTION})
            model_of(shapes.AskReply).model_validate_json(asked.content)
            assert asked.json()["note"] == expected
            chatted = client.post("/v1/chat/completions", json=saying(QUESTION))
            model_of(shapes.ChatReply).model_validate_json(chatted.content)
            assert chatted.json()["choices"][0]["message"]["kgwalk"]["note"] == expected


def test_a_question_that_names_nothing_is_told_of_topics() -> None:
    with serving(Reader()) as client:
        response = client.post("/v1/ask", json={"question": "who is it?"})
        assert error_of(response) == (422, "unknown_entity")
        assert '(`--topic`, or "topics" over HTTP)' in response.json()["error"]["message"]


def test_health_knows_the_model_and_who_waits() -> None:
    release = threading.Event()

    class Held(Reader):
        async def generate(self, request: Request) -> Generation:
            await asyncio.to_thread(release.wait)
            return await super().generate(request)

    with serving(Held(), agent_at_once=1) as client:
        quiet = {"model": "open", "under_way": 0, "waiting": 0}
        assert quiet.items() <= client.get("/health").json().items()
        found: list[httpx.Response] = []
        threads = [
            threading.Thread(
                target=lambda: found.append(
                    httpx.post(f"{client.base_url}/v1/ask", json={"question": QUESTION}, timeout=20, trust_env=False)
                )
            )
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for _ in range(200):
            health = client.get("/health").json()
            if health["waiting"] == 2:
                break
            time.sleep(0.02)
        assert (health["under_way"], health["waiting"]) == (1, 2)
        model_of(shapes.Health).model_validate(health)
        release.set()
        for thread in threads:
            thread.join()
        assert [one.status_code for one in found] == [200] * 3
        assert quiet.items() <= client.get("/health").json().items()
    with serving(None) as client:
        assert client.get("/health").json()["model"] is None
