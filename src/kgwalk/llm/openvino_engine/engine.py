"""Hugging Face causal language models on a processor, run by OpenVINO: answers without a GPU, and soon.

Weights are 8 bits wide unless told otherwise, so its log-probabilities are those of the rounded weights: for answering
and evaluation that is as good, for training take `dtype="float32"` or the local engine. A model is made ready at its
first use, with its adapter merged, and kept; from then on a start needs no torch. Knows nothing of graphs or protocols.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kgwalk.llm.engine import Generation, Request, StopWatch, taken
from kgwalk.llm.models import DEFAULT_MODEL, LoadedModel, need
from kgwalk.llm.openvino_engine.blocks import BlockTable
from kgwalk.llm.openvino_engine.scheduler import PagedSequence, Runner
from kgwalk.llm.tokenizers import HfTokenizer
from kgwalk.types import EngineError

BATCH = 8  # rows at once
GROUP = 512  # new tokens in one pass: the others wait for as long as it takes
TOKENS = 32_768  # that the cache may hold, at least a context of them
GUESSES = 3  # a pass of 4 tokens takes 1.2 times as long as one of 1; one of 5 takes 1.6


class CpuEngine:
    """`model` is a name (see `models`), or a model in memory; without one it is the adapter's own, else the default.

    `adapter` is a LoRA folder. `dtype` of weights is "int8" or "float32". `context` may be less than the model's own.
    `batch` rows are run at once, and sessions keep their cache between turns while the cache has room for `tokens` of
    them; its memory grows with need. `threads`: else OMP_NUM_THREADS, else the runtime's choice. `seed` serves requests
    that have none. `guesses` of the next tokens go through the model with a row that is alone, and save it passes where
    they are right; what it writes is the same without them.
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
        tokens: int = TOKENS,
        threads: int | None = None,
        seed: int | None = None,
        guesses: int = GUESSES,
    ) -> None:
        if importlib.util.find_spec("openvino") is None:
            raise EngineError(
                "the engine cpu needs the package openvino, which is not installed: pip install 'kgwalk[cpu]'\n"
                "  The engine local runs the same models with torch alone, more slowly."
            )
        need("transformers")
        from kgwalk.llm.openvino_engine.converted import DTYPES, graph_of, kept_folder, open_tokenizer, read_facts
        from kgwalk.llm.openvino_engine.paged_model import PagedModel

        if dtype not in DTYPES:
            raise EngineError(f"unknown dtype {dtype!r} of the engine cpu; there are {', '.join(DTYPES)}")
        if batch < 1:
            raise EngineError(f"batch must be at least 1; it is {batch}")
        if guesses < 0:
            raise EngineError(f"guesses must be 0 or more; they are {guesses}")
        threads = _threads() if threads is None else threads
        if isinstance(model, LoadedModel):
            if adapter is not None:
                raise EngineError("an adapter is merged when a model is loaded; this one is in memory already")
            graph, facts = graph_of(model, dtype)
            self.model, run = model.name, PagedModel(graph, threads=threads)
            self.tokens: HfTokenizer = model.tokens
            self._source = model.module  # the graph's constants lie in its memory
        else:
            if model is None:
                model, adapter = adapter or DEFAULT_MODEL, None  # an adapter's folder names its base
            folder = kept_folder(model, adapter, dtype)
            facts = read_facts(folder)
            with ThreadPoolExecutor(1) as beside:  # the two take about as long
                compiled = beside.submit(PagedModel, folder / "model.xml", threads=threads)
                self.tokens = open_tokenizer(folder, facts)
                self.model, run = str(model), compiled.result()
        if context is not None and not 1 < context <= facts.context:
            raise EngineError(f"the context of {self.model} is 2 to {facts.context:,} tokens; {context:,} was asked")
        self.context = context or facts.context
        self.at_once = batch
        self._vocabulary = facts.vocabulary
        self._seed = seed
        texts = self.tokens  # not self: what the runner holds must not keep the engine alive
        self._piece = functools.lru_cache(maxsize=1 << 17)(lambda number: texts.decode([number]))
        blocks = -(-max(tokens, self.context) // run.size) + batch
        self._runner = Runner(run, BlockTable(run.size, blocks), batch=batch, group=GROUP, guesses=guesses)
        # Also when the engine is dropped without being closed: the thread ends, and the weights can go.
        self._end = weakref.finalize(self, self._runner.close)

    async def generate(self, request: Request) -> Generation:
        row = taken(
            PagedSequence,
            request,
            StopWatch(self.tokens, request.sampling.stop, self._piece),
            seed=self._seed,
            context=self.context,
            vocabulary=self._vocabulary,
        )
        return Generation([], [], "length") if row is None else await asyncio.wrap_future(self._runner.submit(row))

    async def forget(self, session: str) -> None:
        self._runner.forget(session)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._end)

    def kept_sessions(self) -> list[str]:
        """Those whose cache is kept."""
        return self._runner.kept()

    @property
    def computed(self) -> int:
        """Tokens that went through the model so far and were kept; those found in the cache did not."""
        return self._runner.computed

    @property
    def guessed(self) -> tuple[int, int]:
        """Tokens that were guessed so far, and how many of them were right."""
        return self._runner.guessed, self._runner.right


def _threads() -> int:
    """As many as whoever started us allows; 0 is the runtime's choice."""
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(asked) if asked.isdigit() else 0
