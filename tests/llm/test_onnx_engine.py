"""The engine `onnx`: the tokens and log-probabilities of transformers, a cache that turns share, and what it refuses.

Run: make test-onnx
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgwalk.llm.engine import Engine, Generation, check_kind, open_engine
from kgwalk.types import EngineError

installed = importlib.util.find_spec("onnxruntime_genai") is not None
needs_runtime = pytest.mark.skipif(not installed, reason="ONNX Runtime is in an environment of its own: make test-onnx")


def test_without_onnx_runtime_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if "onnx" in name else found(name))
    with pytest.raises(EngineError, match=r"ONNX needs onnxruntime-genai, not installed: pip install 'kgwalk\[onnx\]'"):
        open_engine("onnx", str(tmp_path))
    with pytest.raises(EngineError, match=r"the engine onnx needs onnxruntime_genai, not installed: pip install"):
        check_kind("onnx")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from kgwalk.training.export import save_onnx
    from tiny_models import tiny_model

    made = tmp_path_factory.mktemp("tiny") / "onnx"
    made.mkdir()
    save_onnx(tiny_model(), made, "f32")
    return made


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Any]:
    made: Any = open_engine("onnx", str(folder), threads=1)
    yield made
    asyncio.run(made.close())


@needs_runtime
def test_greedy_tokens_and_log_probabilities_are_those_of_transformers(engine: Any) -> None:
    from engine_helpers import ask, by_full_pass, by_transformers, prompt, run
    from tiny_models import tiny_module

    assert isinstance(engine, Engine)
    assert (engine.exact, engine.at_once, engine.context) == (True, 1, 1024)
    module = tiny_module()
    for seed in range(3):
        ids = prompt(40, seed)
        [made] = run(engine, ask(ids))
        assert made.ids == by_transformers(module, ids, 12, engine.tokens.end_ids)
        assert made.logprobs == pytest.approx(by_full_pass(module, ids, made.ids), abs=1e-4)


@needs_runtime
def test_the_next_turn_computes_what_is_new_in_it(engine: Any) -> None:
    from engine_helpers import ask, by_full_pass, by_transformers, prompt, run
    from tiny_models import tiny_module

    ids = prompt(200, seed=11)
    first = run(engine, ask(ids, "s", max_tokens=4))[0]
    before = engine.computed
    again = ids + first.ids + prompt(9, seed=1)
    second = run(engine, ask(again, "s", max_tokens=4))[0]
    assert engine.computed - before == 1 + 9 + 3  # the last token of the first turn had not been through the model
    assert second.ids == by_transformers(tiny_module(), again, 4, engine.tokens.end_ids)
    assert second.logprobs == pytest.approx(by_full_pass(tiny_module(), again, second.ids), abs=1e-4)
    before = engine.computed
    assert run(engine, ask(ids, "t", max_tokens=4))[0].ids == first.ids  # the same question again: its last token alone
    assert engine.computed - before == 1 + 3


@needs_runtime
def test_seeds_and_grammars_are_those_of_the_local_engine(engine: Any) -> None:
    from engine_helpers import ask, ask_for_a_call, by_constrained_pass, prompt, run
    from kgwalk.llm.torch_engine.engine import LocalEngine
    from tiny_models import tiny_model, tiny_module

    local = LocalEngine(tiny_model())
    for seed in range(4):
        ids = prompt(30, seed=20 + seed)
        free = ask(ids, temperature=1.0, top_p=0.9, seed=seed)
        call = ask_for_a_call(ids, seed=seed)
        for request in (free, call):
            own, other = run(local, request)[0], run(engine, request)[0]
            assert (own.ids, own.finish, own.room) == (other.ids, other.finish, other.room)
            assert own.logprobs == pytest.approx(other.logprobs, abs=1e-3)
        assert other.logprobs == pytest.approx(by_constrained_pass(tiny_module(), ids, other, engine.tokens), abs=1e-3)
    asyncio.run(local.close())


@needs_runtime
def test_requests_that_come_together_wait_for_each_other(engine: Any) -> None:
    from engine_helpers import ask, prompt, run

    requests = [ask(prompt(30, seed), f"s{seed}", temperature=1.0, seed=seed) for seed in range(5)]
    assert [one.ids for one in run(engine, *requests)] == [run(engine, one)[0].ids for one in requests]


@needs_runtime
def test_what_cannot_be_served_is_an_engine_error(folder: Path, tmp_path: Path) -> None:
    from engine_helpers import ask, prompt, run

    small: Any = open_engine("onnx", str(folder), context=64, threads=1)
    with pytest.raises(EngineError, match="70 tokens; with a context of 64 none can follow"):
        run(small, ask(prompt(70)))
    made = run(small, ask(prompt(60)))[0]
    assert (len(made.ids), made.finish) == (4, "length")
    assert run(small, ask(prompt(10), max_tokens=0)) == [Generation([], [], "length")]
    asyncio.run(small.close())
    with pytest.raises(EngineError, match="the engine is closed"):
        run(small, ask(prompt(10)))
    with pytest.raises(EngineError, match=r"the context of .* is 2 to 1,024 tokens; 5,000 was asked"):
        open_engine("onnx", str(folder), context=5000)
    with pytest.raises(EngineError, match=r"is no ONNX model: it has no genai_config\.json"):
        open_engine("onnx", str(tmp_path))
    with pytest.raises(EngineError, match="the engine onnx needs the name of a model"):
        open_engine("onnx")
    broken = shutil.copytree(folder, tmp_path / "broken")
    (broken / "model.onnx").write_bytes(b"not this")
    with pytest.raises(EngineError, match=r"ONNX Runtime does not open .*broken"):
        open_engine("onnx", str(broken))
    (broken / "genai_config.json").write_text(json.dumps({"model": {}}))
    with pytest.raises(EngineError, match=r"genai_config\.json cannot be read: KeyError"):
        open_engine("onnx", str(broken))


@needs_runtime
def test_onnx_runtime_is_told_not_to_report_its_use(folder: Path) -> None:
    code = (
        "import os, sys; from kgwalk.llm.engine import open_engine; open_engine('onnx', sys.argv[1]);"
        "print(os.environ['ORT_DISABLE_TELEMETRY'])"
    )
    clean = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    for given, seen in (({}, "1"), ({"ORT_DISABLE_TELEMETRY": "0"}, "0")):  # who sets the variable decides
        run = [sys.executable, "-c", code, str(folder)]
        done = subprocess.run(run, capture_output=True, text=True, env=clean | given)
        assert done.stdout.strip() == seen, done.stderr
