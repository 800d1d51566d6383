"""The engine `cpu`: Hugging Face causal language models on a processor, run by OpenVINO.

Weights are int8 by default, so its log-probabilities are those of the rounded weights. For answering and evaluation
that is as good; for training use `dtype="float32"` or the engine `local`. A model is converted at its first use, with
its adapter merged, and the converted model is kept (`model.converted_folder`); from then on a start needs no torch.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kgwalk.config.runtime import most_threads, threads_asked
from kgwalk.llm.automaton import automaton_of
from kgwalk.llm.engine import Generation, Request, StopDetector, activate
from kgwalk.llm.models import DEFAULT_MODEL, LoadedModel, need
from kgwalk.llm.openvino_engine.blocks import BlockTable
from kgwalk.llm.openvino_engine.scheduler import PagedScheduler, PagedSequence
from kgwalk.llm.tokenizers import HfTokenizer
from kgwalk.types import EngineError

BATCH = 8  # sequences at once
PREFILL_TOKENS = 512  # new tokens in one pass; the next tokens of other sequences wait for it
CACHE_TOKENS = 32_768  # that the cache may hold; at least a whole context
DRAFT_TOKENS = 3  # a pass of 4 tokens takes 1.2 times as long as one of 1; one of 5 takes 1.6


class CpuEngine:
    """`model` is a name (see `models`), or a model in memory; without one it is the adapter's own, else the default.

    `adapter` is a LoRA folder. `dtype` of weights is "int8" or "float32". `context` may be less than the model's own.
    `batch` sequences run at once. Sessions keep their cache between turns, as long as it has room for all their tokens
    (`tokens`); its memory grows as needed. `threads` is by default OMP_NUM_THREADS, else the runtime's choice. Where
    several sequences are under way, `streams` passes of so many threads each run at the same time: two by default, if
    the command line chose the threads and there are cores for both. `seed` serves requests that have none. `guesses`
    draft tokens (prompt-lookup decoding) go through the model with a sequence that is alone, and save a pass for each
    that is right; what is sampled is the same without them.
    """

    exact = True

    def __init__(
        self,
        model: str | Path | LoadedModel | None = None,
        *,
        adapter: str | Path | None = None,
        dtype: str = "int8",
        context: int | None = None,
        batch: int = BATCH,
        tokens: int = CACHE_TOKENS,
        threads: int | None = None,
        streams: int | None = None,
        seed: int | None = None,
        guesses: int = DRAFT_TOKENS,
    ) -> None:
        _need_openvino()
        from kgwalk.llm.openvino_engine.model import PagedModel, converted_folder, graph_of, open_tokenizer, read_facts

        _check(dtype, batch, guesses, streams)
        threads = threads_asked() if threads is None else threads
        streams = _streams(threads) if streams is None else streams
        if isinstance(model, LoadedModel):
            if adapter is not None:
                raise EngineError("an adapter is merged when a model is loaded; this one is in memory already")
            graph, facts = graph_of(model, dtype)
            self.model, run = model.name, PagedModel(graph, threads=threads, streams=streams)
            self.tokens: HfTokenizer = model.tokens
            self._source = model.module  # the graph's constants lie in its memory
        else:
            if model is None:
                model, adapter = adapter or DEFAULT_MODEL, None  # an adapter's folder names its base
            folder = converted_folder(model, adapter, dtype)
            facts = read_facts(folder)
            with ThreadPoolExecutor(1) as beside:  # the two take about as long
                compiled = beside.submit(PagedModel, folder / "model.xml", threads=threads, streams=streams)
                self.tokens = open_tokenizer(folder, facts)
                self.model, run = str(model), compiled.result()
        if context is not None and not 1 < context <= facts.context:
            raise EngineError(f"the context of {self.model} is 2 to {facts.context:,} tokens; {context:,} was asked")
        self.context = context or facts.context
        self.at_once = batch
        self._vocabulary = facts.vocabulary
        self._seed = seed
        texts = self.tokens  # not self: what the scheduler holds must not keep the engine alive
        self._piece = functools.lru_cache(maxsize=1 << 17)(lambda number: texts.decode([number]))
        blocks = -(-max(tokens, self.context) // run.size) + batch
        self._scheduler = PagedScheduler(
            run,
            BlockTable(run.size, blocks),
            batch=batch,
            prefill_tokens=PREFILL_TOKENS,
            draft_tokens=guesses,
            streams=streams,
        )
        # Also when the engine is dropped without being closed: the thread ends, and the weights are freed.
        self._end = weakref.finalize(self, self._scheduler.close)

    async def generate(self, request: Request) -> Generation:
        sequence = activate(
            PagedSequence,
            request,
            StopDetector(self.tokens, request.sampling.stop, self._piece),
            seed=self._seed,
            context=self.context,
            vocabulary=self._vocabulary,
            automaton=None if request.grammar is None else automaton_of(self.tokens),
        )
        if sequence is None:
            return Generation([], [], "length")
        return await asyncio.wrap_future(self._scheduler.submit(sequence))

    async def forget(self, session: str) -> None:
        self._scheduler.forget(session)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._end)

    def kept_sessions(self) -> list[str]:
        """The sessions whose cache is kept."""
        return self._scheduler.kept_sessions()

    @property
    def computed(self) -> int:
        """How many tokens went through the model so far and were kept; those found in the cache did not."""
        return self._scheduler.computed

    @property
    def guessed(self) -> tuple[int, int]:
        """How many draft tokens there were so far, and how many of them were right."""
        return self._scheduler.drafted, self._scheduler.accepted


def _need_openvino() -> None:
    if importlib.util.find_spec("openvino") is None:
        raise EngineError(
            "the engine cpu needs the package openvino, which is not installed: pip install 'kgwalk[cpu]'\n"
            "  The engine local runs the same models with torch alone, more slowly."
        )
    need("transformers")


def _check(dtype: str, batch: int, guesses: int, streams: int | None) -> None:
    from kgwalk.llm.openvino_engine.model import DTYPES

    if dtype not in DTYPES:
        raise EngineError(f"unknown dtype {dtype!r} of the engine cpu; there are {', '.join(DTYPES)}")
    if batch < 1:
        raise EngineError(f"batch must be at least 1; it is {batch}")
    if streams is not None and streams < 1:
        raise EngineError(f"streams must be at least 1; they are {streams}")
    if guesses < 0:
        raise EngineError(f"guesses must be 0 or more; they are {guesses}")


def _streams(threads: int) -> int:
    """Two, where a person has set no number of threads and twice as many as were chosen have cores; else one."""
    most = most_threads()
    return 2 if threads and most is not None and most >= 2 * threads else 1
