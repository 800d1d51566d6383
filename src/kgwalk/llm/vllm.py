"""The engine `vllm`: for models and batches too large for the engine `local`.

vLLM batches, caches prefixes and finds stop texts itself. Token ids go in, token ids and their log-probabilities come
out, so its episodes can be trained on. It runs in an event loop of its own, which outlives those of its callers.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import itertools
import os
import weakref
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from kgwalk.config.runtime import LoopClosed, LoopThread
from kgwalk.llm.engine import Generation, Request, first_stop, seed_at
from kgwalk.llm.models import DEFAULT_MODEL, find_model, model_folder
from kgwalk.llm.tokenizers import HfTokenizer
from kgwalk.types import EngineError


class VllmEngine:
    """`model` and `adapter` as for the local engine; the adapter is served beside the weights, not merged.

    `dtype` and `context` are vLLM's `dtype` and `max_model_len`; `options` are passed on to it (its AsyncEngineArgs:
    tensor_parallel_size, gpu_memory_utilization, ...). What they leave open is as in vLLM's `LLM`, made for many
    requests at once. `seed` serves requests that have none.
    """

    exact = True
    at_once = 1024  # vLLM has a queue of its own

    def __init__(
        self,
        model: str | Path = DEFAULT_MODEL,
        *,
        adapter: str | Path | None = None,
        dtype: str = "auto",
        context: int | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise EngineError(
                "the engine vllm needs the package vllm, which is not installed: pip install vllm\n"
                "  It wants a GPU; without one use the engine local, or api for a server elsewhere."
            )
        from transformers import AutoTokenizer, GenerationConfig

        os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # stdout is for results, such as --json
        from vllm import AsyncEngineArgs, AsyncLLMEngine
        from vllm.usage.usage_lib import UsageContext

        place = find_model(model)
        folder = model_folder(model, "bfloat16" if dtype == "auto" else dtype)
        self.model = place.name
        self._seed = seed
        self._lora = _lora(adapter or place.adapter)
        given = {"max_model_len": context, **options} if context is not None else options
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
            arguments = AsyncEngineArgs(
                model=str(folder),
                dtype=dtype,
                load_format="safetensors",  # never a pickle
                trust_remote_code=False,
                enable_prefix_caching=True,
                enable_lora=self._lora is not None,
                logprobs_mode="raw_logprobs",  # before temperature and top_p, as `Generation` has them
                disable_log_stats=True,
                **given,
            )
            start = functools.partial(AsyncLLMEngine.from_engine_args, arguments, usage_context=UsageContext.LLM_CLASS)
            self._engine: Any = _outside_loops(start)
        except Exception as error:
            raise EngineError(f"vLLM does not start with {folder}: {type(error).__name__}: {error}") from error
        ends: Any = GenerationConfig.from_pretrained(str(folder)).eos_token_id if _has_generation(folder) else None
        self.tokens = HfTokenizer(tokenizer, end_ids=[ends] if isinstance(ends, int) else ends or [])
        self.context = int(self._engine.model_config.max_model_len)
        self._numbers = itertools.count()
        shut_down = functools.cache(self._engine.shutdown)  # once
        self._loop = LoopThread("kgwalk-vllm", _ending(shut_down))
        self._end = weakref.finalize(self, _shut_down, self._loop, shut_down)

    async def generate(self, request: Request) -> Generation:
        most = min(request.sampling.max_tokens, self.context - len(request.ids))
        if most < 1:
            if len(request.ids) < self.context:
                return Generation([], [], "length")
            raise EngineError(
                f"the prompt has {len(request.ids):,} tokens; with a context of {self.context:,} none can follow"
            )
        try:
            return await self._loop.run(lambda: self._generate(request, most))
        except LoopClosed:
            raise EngineError("the engine is closed") from None

    async def _generate(self, request: Request, most: int) -> Generation:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        sampling = request.sampling
        seed = self._seed if sampling.seed is None else sampling.seed
        parameters = SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=most,
            stop=list(sampling.stop),
            include_stop_str_in_output=True,
            stop_token_ids=sorted(self.tokens.end_ids),
            seed=None if seed is None else seed_at(seed, len(request.ids)),
            logprobs=0,  # of the sampled token alone
            detokenize=bool(sampling.stop),  # of texts only stop texts are looked for
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        prompt = {"prompt_token_ids": list(request.ids)}
        name = f"kgwalk-{next(self._numbers)}"
        final: Any = None
        try:
            async for output in self._engine.generate(prompt, parameters, name, lora_request=self._lora):
                final = output
        except Exception as error:
            raise EngineError(f"vLLM failed: {type(error).__name__}: {error}") from error
        if final is None or final.outputs[0].finish_reason not in ("stop", "length"):
            raise EngineError(f"vLLM ended the request without an answer: {final and final.outputs[0].finish_reason}")
        ids, tables = list(final.outputs[0].token_ids), final.outputs[0].logprobs
        logprobs = [float(table[number].logprob) for number, table in zip(ids, tables, strict=True)]
        return self._cut(ids, logprobs, sampling.stop)

    def _cut(self, ids: list[int], logprobs: list[float], stops: Sequence[str]) -> Generation:
        """Drops what follows the token that completes a stop text: vLLM may look for it only every few tokens."""
        stop = first_stop(self.tokens, ids, stops)
        if stop is not None:
            return Generation(ids[:stop], logprobs[:stop], "stop")
        finish: Literal["eos", "length"] = "eos" if ids and ids[-1] in self.tokens.end_ids else "length"
        return Generation(ids, logprobs, finish)

    async def forget(self, session: str) -> None:
        """Nothing to do: vLLM drops what it has not used for longest by itself."""

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._end)


def _outside_loops(start: Callable[[], Any]) -> Any:
    """Starts vLLM where no event loop runs: it would keep to that one, which may end before the engine does."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return start()
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(start).result()


def _lora(adapter: str | Path | None) -> Any:
    if adapter is None:
        return None
    from vllm.lora.request import LoRARequest

    folder = Path(adapter)
    if not (folder / "adapter_config.json").is_file():
        raise EngineError(f"the adapter {folder} has no adapter_config.json")
    return LoRARequest(folder.name, 1, str(folder))


def _has_generation(folder: Path) -> bool:
    return (folder / "generation_config.json").is_file()


def _ending(shut_down: Callable[[], None]) -> Callable[[], Coroutine[Any, Any, None]]:
    """The loop's last work: vLLM closes its connections in the loop that they belong to."""

    async def end() -> None:
        shut_down()

    return end


def _shut_down(loop: LoopThread, shut_down: Callable[[], None]) -> None:
    loop.close()
    shut_down()  # where no request ever started the loop
