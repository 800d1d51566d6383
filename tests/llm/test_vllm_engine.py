"""The vLLM engine: what it says without vLLM; what it makes of vLLM's answers, with a stand-in; and the real thing."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
import types
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kgwalk.llm.engine import Engine, Generation, Request, Sampling, open_engine
from kgwalk.types import EngineError

installed = importlib.util.find_spec("vllm") is not None


@pytest.mark.skipif(installed, reason="vllm is installed")
def test_without_vllm_it_is_said_what_to_install() -> None:
    with pytest.raises(EngineError, match="vllm, which is not installed: pip install vllm\n  It wants a GPU"):
        open_engine("vllm", "anything")


def loop_here() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class StandIn:
    """vLLM's AsyncLLMEngine, as far as it is used here: says what `script` makes of a prompt's ids."""

    def __init__(self, arguments: SimpleNamespace, usage_context: str) -> None:
        self.arguments, self.usage, self.asked = arguments, usage_context, []
        self.began_in = loop_here()  # vLLM's tasks belong to the loop that runs when it starts, if one does
        self.ended_in: list[Any] = []
        self.model_config = SimpleNamespace(max_model_len=getattr(arguments, "max_model_len", 256))
        self.down = False
        self.script: Any = lambda ids: ([], "stop")

    from_engine_args = classmethod(lambda cls, arguments, usage_context: cls(arguments, usage_context))

    async def generate(self, prompt: Any, parameters: Any, name: str, lora_request: Any) -> AsyncIterator[Any]:
        self.asked.append((prompt, parameters, name, lora_request))
        self.loop = loop_here()
        await asyncio.sleep(0)
        ids, finish = self.script(prompt["prompt_token_ids"])
        tables = [{number: SimpleNamespace(logprob=-number / 1000)} for number in ids]
        yield SimpleNamespace(outputs=[SimpleNamespace(token_ids=ids, logprobs=tables, finish_reason=finish)])

    def shutdown(self) -> None:
        self.ended_in.append(loop_here())
        self.down = True


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    if installed:
        pytest.skip("the real vllm is here")
    pytest.importorskip("torch")
    from tiny_models import save_tiny

    vllm: Any = types.ModuleType("vllm")
    vllm.__spec__ = SimpleNamespace()
    vllm.AsyncEngineArgs = vllm.SamplingParams = SimpleNamespace
    vllm.AsyncLLMEngine = StandIn
    kinds: Any = types.ModuleType("vllm.sampling_params")
    kinds.RequestOutputKind = SimpleNamespace(FINAL_ONLY="final")
    usage: Any = types.ModuleType("vllm.usage.usage_lib")
    usage.UsageContext = SimpleNamespace(LLM_CLASS="LLM_CLASS")
    parents = {"vllm.usage": types.ModuleType("vllm.usage")}
    for name, module in {"vllm": vllm, "vllm.sampling_params": kinds, **parents, "vllm.usage.usage_lib": usage}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("VLLM_LOGGING_STREAM", "")  # so that it is as it was after the test
    monkeypatch.delenv("VLLM_LOGGING_STREAM")
    made: Any = open_engine("vllm", str(save_tiny(tmp_path / "model")), context=128, gpu_memory_utilization=0.5)
    yield made
    asyncio.run(made.close())


def generate(engine: Any, ids: list[int], **sampling: Any) -> Generation:
    generation: Generation = asyncio.run(engine.generate(Request(ids, [], Sampling(**sampling), "s")))
    return generation


def test_tokens_go_in_and_come_out(engine: Any) -> None:
    assert isinstance(engine, Engine)
    assert (engine.exact, engine.context) == (True, 128)
    arguments = engine._engine.arguments
    assert (arguments.gpu_memory_utilization, arguments.logprobs_mode) == (0.5, "raw_logprobs")
    assert engine._engine.usage == "LLM_CLASS"  # else 128 requests at once, and 2,048 tokens
    assert os.environ["VLLM_LOGGING_STREAM"] == "ext://sys.stderr"
    end = min(engine.tokens.end_ids)
    engine._engine.script = lambda ids: ([30, 31, end], "stop")
    assert generate(engine, [5, 6, 7], seed=3, temperature=1.0) == Generation(
        [30, 31, end], [-0.03, -0.031, -end / 1000], "eos"
    )
    engine._engine.script = lambda ids: ([30, 31], "length")
    assert generate(engine, [5, 6, 7, 8], seed=3, max_tokens=500).finish == "length"  # and in another event loop
    first, second = (asked[1] for asked in engine._engine.asked)
    assert (first.logprobs, first.stop_token_ids, second.max_tokens) == (0, sorted(engine.tokens.end_ids), 124)
    assert first.seed != second.seed  # two turns of an episode
    assert (first.detokenize, first.stop) == (False, [])


def test_it_ends_with_the_token_that_completes_a_stop_text(engine: Any) -> None:
    said = engine.tokens.encode("<search>x</search>")
    engine._engine.script = lambda ids: (said + engine.tokens.encode(" and more"), "stop")
    generation = generate(engine, [5], stop=("</search>",))
    assert (generation.ids, generation.finish, len(generation.logprobs)) == (said, "stop", len(said))
    assert engine._engine.asked[0][1].detokenize  # vLLM finds no text in tokens


def test_vllm_lives_in_a_loop_of_its_own(engine: Any, tmp_path: Path) -> None:
    """It starts outside the caller's loop, answers in its own, and is shut down there, once."""

    async def opened() -> Any:
        return open_engine("vllm", str(tmp_path / "model"), context=128)

    other: Any = asyncio.run(opened())
    inner = other._engine
    assert inner.began_in is None
    end = min(other.tokens.end_ids)
    inner.script = lambda ids: ([end], "stop")
    generate(other, [5])
    asyncio.run(other.close())
    assert inner.ended_in == [inner.loop]
    idle: Any = open_engine("vllm", str(tmp_path / "model"), context=128)  # asked nothing: there was no loop
    asyncio.run(idle.close())
    assert idle._engine.ended_in == [None]


def test_what_goes_wrong_is_an_engine_error(engine: Any) -> None:
    with pytest.raises(EngineError, match="128 tokens; with a context of 128 none can follow"):
        generate(engine, [5] * 128)
    assert generate(engine, [5], max_tokens=0) == Generation([], [], "length")
    engine._engine.script = lambda ids: ([], "abort")
    with pytest.raises(EngineError, match="ended the request without an answer: abort"):
        generate(engine, [5])
    engine._engine.script = lambda ids: 1 / 0
    with pytest.raises(EngineError, match="vLLM failed: ZeroDivisionError"):
        generate(engine, [5])
    asyncio.run(engine.close())
    assert engine._engine.down
    with pytest.raises(EngineError, match="closed"):
        generate(engine, [5])


@pytest.mark.skipif(not installed, reason="needs vllm, and a GPU: pip install vllm")
def test_the_real_vllm_agrees_with_the_local_engine() -> None:
    chosen = []
    for kind, options in (("vllm", {"gpu_memory_utilization": 0.3, "context": 512}), ("local", {"dtype": "bfloat16"})):
        engine = open_engine(kind, **options)

        async def ask(engine: Engine = engine) -> Generation:
            ids = engine.tokens.encode("The capital of France is")
            generation = await engine.generate(Request(ids, [], Sampling(max_tokens=8), "s"))
            await engine.close()
            return generation

        chosen.append(asyncio.run(ask()))
    assert chosen[0].ids[:3] == chosen[1].ids[:3]
    assert chosen[0].logprobs[:3] == pytest.approx(chosen[1].logprobs[:3], abs=0.05)
