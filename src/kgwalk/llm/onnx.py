"""The engine `onnx`: an agent that was exported as ONNX, run by onnxruntime-genai on the processor.

One sequence at a time, and one cache: what a prompt has in common with the tokens before it is not computed again, so
the turns of a walk cost what is new in them. Logits come out and tokens are chosen here, so grammars, seeds and
log-probabilities are those of the other engines.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kgwalk.config.runtime import threads_asked
from kgwalk.llm.automaton import automaton_of
from kgwalk.llm.engine import ActiveRequest, Generation, Request, StopDetector, activate, common_length
from kgwalk.llm.onnx_files import CachedTokens, need_onnx, read_config
from kgwalk.llm.sampling import sample
from kgwalk.llm.tokenizers import HfTokenizer
from kgwalk.types import EngineError

CONTEXT = 8192  # tokens at most, unless asked: memory for all of them is taken at once, 380 MB for SmolLM2-135M


class OnnxEngine:
    """`model` is a folder that `kgwalk export --format onnx` or onnxruntime-genai's builder wrote.

    `context` may be less than the model's own. `threads` is by default OMP_NUM_THREADS, else the runtime's choice.
    `seed` serves requests that have none.
    """

    exact = True
    at_once = 1

    def __init__(
        self, model: str | Path, *, context: int | None = None, threads: int | None = None, seed: int | None = None
    ) -> None:
        need_onnx("onnxruntime_genai")
        from transformers import AutoTokenizer

        folder = Path(model).expanduser()
        told = read_config(folder)
        longest = int(told["context_length"])
        if context is not None and not 1 < context <= longest:
            raise EngineError(f"the context of {model} is 2 to {longest:,} tokens; {context:,} was asked")
        self.model = str(model)
        self.context = context or min(longest, CONTEXT)
        self.tokens = HfTokenizer(
            AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False), end_ids=told["eos_token_id"]
        )
        self._vocabulary = int(told["vocab_size"])
        self._seed = seed
        self._sequence = CachedTokens(folder, self.context, threads_asked() if threads is None else threads)
        self._cached: list[int] = []  # the tokens that the sequence has read
        self._computed = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kgwalk-onnx")
        self._end = weakref.finalize(self, self._thread.shutdown, wait=False, cancel_futures=True)

    async def generate(self, request: Request) -> Generation:
        sequence = activate(
            ActiveRequest,
            request,
            StopDetector(self.tokens, request.sampling.stop),
            seed=self._seed,
            context=self.context,
            vocabulary=self._vocabulary,
            automaton=None if request.grammar is None else automaton_of(self.tokens),
        )
        if sequence is None:
            return Generation([], [], "length")
        let_go = threading.Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._write, sequence, let_go)
        except asyncio.CancelledError:
            let_go.set()  # others wait behind it
            raise
        except RuntimeError as error:  # onnxruntime-genai's own errors, and a thread that takes no more work
            if not self._end.alive:
                raise EngineError("the engine is closed") from None
            raise EngineError(f"ONNX Runtime failed: {error}") from error

    def _write(self, sequence: ActiveRequest, let_go: threading.Event) -> Generation:
        """All tokens, or those that came before nobody waited for them any more."""
        finish: Literal["stop", "eos"] | None = None
        while finish is None and len(sequence.logprobs) < sequence.max_new and not let_go.is_set():
            done = len(sequence.logprobs)
            logits_V = self._read(sequence.ids)
            draw = sequence.draws[done] if sequence.draws else 0.0
            state, sampling = sequence.state, sequence.sampling
            allowed = None if state is None else state.allowed(sequence.max_new - done)
            token, logprob = sample(logits_V, sampling.temperature, sampling.top_p, draw, allowed)
            sequence.state = None if state is None else state.after(token)
            sequence.ids.append(token)
            sequence.logprobs.append(logprob)
            finish = sequence.stop_detector.end(sequence.ids, sequence.prompt_length)
        return sequence.made(finish)

    def _read(self, ids: list[int]) -> NDArray[np.float64]:
        """The logits after these tokens; at least the last of them goes through the model."""
        kept = min(common_length(self._cached, ids), len(ids) - 1)
        if kept < len(self._cached):
            self._sequence.keep(kept)
            del self._cached[kept:]
        try:
            logits_V = self._sequence.read(ids[kept:])
        except RuntimeError:  # what it has read of them is not known
            self._cached.clear()
            self._sequence.keep(0)
            raise
        self._cached += ids[kept:]
        self._computed += len(ids) - kept
        return logits_V

    async def forget(self, session: str) -> None:
        """Nothing to do: the next prompt takes the cache over, with what it has in common."""

    async def close(self) -> None:
        self._end()

    @property
    def computed(self) -> int:
        """How many tokens went through the model so far; those found in the cache did not."""
        return self._computed
