"""When the server opens its model: in the background at the start, or at the first question; and what is told when."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import FILMS
from kgwalk.bench.servers import ScanGraph
from kgwalk.cli.serve import chosen_agent as served_agent
from kgwalk.kg.store import StoredGraph
from kgwalk.llm import engine as kinds
from kgwalk.llm.engine import Engine, ScriptedEngine
from kgwalk.serve import engine as serve_engine
from kgwalk.serve.app import create_app
from kgwalk.serve.engine import check_engine
from kgwalk.serve.run import in_background
from kgwalk.serve.settings import ServeSettings
from kgwalk.types import EngineError, KgwalkError

BODY = {"question": "who directed Big?", "topics": ["Big"]}
SCRIPT = str(Path(sys.executable).with_name("kgwalk"))


class Opening:
    """Stands for what opens an engine: takes as long as the test says, and counts."""

    def __init__(self, failing: int = 0) -> None:
        self.failing, self.times = failing, 0
        self.begun, self.go_on, self.made = threading.Event(), threading.Event(), list[Closing]()

    def __call__(self, settings: ServeSettings) -> Engine:
        self.times += 1
        self.begun.set()
        assert self.go_on.wait(20)
        if self.times <= self.failing:
            raise EngineError("no such model at http://secret-host")
        self.made.append(Closing(lambda request: '<answer>["Penny Marshall"]</answer>'))
        return self.made[-1]


class Closing(ScriptedEngine):
    closed = False

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> Opening:
    made = Opening()
    monkeypatch.setattr(serve_engine, "open_engine", made)
    return made


@contextmanager
def serving(**options: Any) -> Iterator[httpx.Client]:
    app = create_app(ServeSettings(**{"model": "tiny", **options}), {"films": ScanGraph(FILMS)})
    with in_background(app) as url, httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
        yield client


# --- when


def test_the_model_is_opened_in_the_background_and_graphs_are_served_meanwhile(opening: Opening) -> None:
    with serving() as client:
        assert opening.begun.wait(20)  # nobody has asked
        assert client.get("/health").json()["model"] == "opening"
        found: list[httpx.Response] = []
        first = threading.Thread(target=lambda: found.append(client.post("/v1/ask", json=BODY)))
        first.start()
        time.sleep(0.1)
        assert not found  # the first question waits for what is left
        opening.go_on.set()
        first.join()
        assert found[0].json()["answers"] == ["Penny Marshall"]
        assert opening.times == 1
        assert client.get("/health").json()["model"] == "open"
    assert opening.made[0].closed


@pytest.mark.parametrize(
    "options",
    [
        {"warm": False},
        {"model": None},  # graphs alone: there is nothing to open
        {"workers": 2},  # each would have a model of its own
    ],
)
def test_what_is_not_opened_before_a_question(opening: Opening, options: dict[str, Any]) -> None:
    opening.go_on.set()
    with serving(**options) as client:
        assert not opening.begun.wait(0.5)
        assert client.get("/health").json()["model"] == (None if options.get("model", "") is None else "closed")
        status = client.post("/v1/ask", json=BODY).status_code
    assert (status, opening.times) == ((503, 0) if options.get("model", "") is None else (200, 1))


def test_several_workers_are_warmed_where_that_is_asked_for() -> None:
    assert [ServeSettings(workers=n, warm=w).warms for n, w in ((1, None), (2, None), (2, True), (1, False))] == [
        True,
        False,
        True,
        False,
    ]
    with pytest.raises(KgwalkError, match="`warm` must be true, false or null, not 'no'"):
        ServeSettings(warm="no")  # type: ignore[arg-type]


def test_a_failure_is_logged_once_and_the_next_question_tries_again(
    opening: Opening, caplog: pytest.LogCaptureFixture
) -> None:
    opening.failing = 2
    opening.go_on.set()
    with serving() as client:
        assert opening.begun.wait(20)
        for _ in range(200):
            if caplog.records:
                break
            time.sleep(0.01)
        told = "the language model cannot be opened: no such model at http://secret-host"
        assert [record.getMessage() for record in caplog.records] == [told]
        failed = client.post("/v1/ask", json=BODY)
        assert (failed.status_code, failed.json()["error"]["kind"]) == (502, "engine_failed")
        assert "secret" not in failed.text
        assert [record.getMessage() for record in caplog.records] == [told, told]
        assert client.post("/v1/ask", json=BODY).json()["answers"] == ["Penny Marshall"]


def test_a_server_that_is_stopped_does_not_wait_for_the_model(
    opening: Opening, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "kgwalk.serve"), serving():
        assert opening.begun.wait(20)
    (thread,) = [one for one in threading.enumerate() if one.name == "kgwalk-open"]
    assert thread.daemon
    opening.go_on.set()
    thread.join(20)
    assert opening.made[0].closed  # it came too late, and nobody else would close it
    assert caplog.records == []


SLOW_TO_OPEN = """
import sys, time
from kgwalk.serve import engine
from kgwalk.serve.run import run_server
from kgwalk.serve.settings import ServeSettings

def slow(settings):
    print("opening", file=sys.stderr, flush=True)
    time.sleep(60)

engine.open_engine = slow
run_server(ServeSettings({"films": sys.argv[1]}, port=0, model="tiny"))
"""


def test_a_process_that_is_stopped_does_not_wait_either(store: Callable[..., StoredGraph]) -> None:
    path = str(store(FILMS).store.folder.path)
    command = [sys.executable, "-W", "error", "-c", SLOW_TO_OPEN, path]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        assert " serves at " in server.stderr.readline()  # ready first, then the model
        assert server.stderr.readline() == "opening\n"
        server.terminate()
        assert server.wait(20) == 0
        assert server.stderr.read() == ""


def test_graphs_alone_load_no_model(store: Callable[..., StoredGraph]) -> None:
    """An agent's libraries stay outside where none is served, however long the server runs."""
    code = """
import sys, threading
from kgwalk.serve.run import run_server
from kgwalk.serve.settings import ServeSettings
import os, signal
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
run_server(ServeSettings({"films": sys.argv[1]}, port=0))
print(*({"torch", "transformers", "openvino", "kgwalk.walk.agent", "httpx"} & set(sys.modules)))
"""
    path = str(store(FILMS).store.folder.path)
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "\n"


# --- what is told at the start


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"engine": "lokal"}, "unknown engine 'lokal'; did you mean 'local'?; there are:"),
        ({"engine": "api"}, "the engine api needs the name of a model"),
        ({"engine": "api", "model": "m"}, "there is no key for https://api.openai.com/v1"),
    ],
)
@pytest.mark.parametrize("check", [check_engine, lambda settings: create_app(settings, {"g": ScanGraph(FILMS)})])
def test_an_engine_that_cannot_be_had(
    settings: dict[str, Any], message: str, check: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(EngineError, match=re.escape(message)):
        check(ServeSettings(**settings))


def test_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = dict.fromkeys(("cpu", "local", "vllm"), (("no_such_a", "no_such_b"), "pip install both"))
    monkeypatch.setattr(kinds, "PACKAGES", missing)
    words = "the engine vllm needs no_such_a and no_such_b, not installed: pip install both"
    with pytest.raises(EngineError, match=words):
        check_engine(ServeSettings(engine="vllm"))
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "openvino" else found(name))
    words = "nothing here runs a model: pip install 'kgwalk[cpu]' for a processor, or 'kgwalk[local]' for a GPU"
    with pytest.raises(EngineError, match=re.escape(words)):
        check_engine(ServeSettings(model="tiny"))
    check_engine(ServeSettings())  # nobody asked for a model: graphs are served


def test_an_agent_that_nobody_asked_for_is_left_out_where_nothing_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `pip install kgwalk[serve]`: the action server needs no torch, though an agent comes with kgwalk."""
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "smollm2-135m"}')
    (tmp_path / "adapter_model.safetensors").touch()
    monkeypatch.setenv("KGWALK_AGENT", str(tmp_path))

    def chosen(model: str | None, kind: str) -> tuple[str | None, str | None, list[str]]:
        return served_agent(None, model, {"g": "g.kg"}, None, "kgwalk", kind)

    found = f"agent: {tmp_path}"
    assert chosen(None, "auto") == (str(tmp_path), "smollm2-135m", [found])
    monkeypatch.setattr(kinds, "PACKAGES", dict.fromkeys(("cpu", "local"), (("no_such",), "pip install it")))
    *nothing, (first, second) = chosen(None, "auto")
    assert (nothing, first) == ([None, None], found)
    assert re.match(r"not used: that agent, since the engine \w+ needs no_such", second)
    for model, kind in (("smollm2-135m", "auto"), (None, "local")):  # asked for, so the start will say what is missing
        assert chosen(model, kind) == (str(tmp_path), "smollm2-135m", [found])


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_command_refuses_an_engine_that_is_not_there(store: Callable[..., StoredGraph], workers: str) -> None:
    path = str(store(FILMS).store.folder.path)
    command = [SCRIPT, "serve", "--graph", path, "--port", "0", "--engine", "bogus", "--workers", workers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | {"COLUMNS": "120"})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: unknown engine 'bogus'; there are:\n  auto: local with a GPU, else cpu")
