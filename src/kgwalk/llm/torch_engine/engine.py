"""The engine `local`: Hugging Face causal language models, run by torch for many requests at once.

Requests come one by one from any number of tasks and event loops; a thread runs them together (`scheduler`). Ids and
log-probabilities are the model's own, so its episodes can be trained on. What a request gets does not depend on the
others in the batch, except that sums may be rounded differently, which can decide between two almost equally likely
tokens.
"""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgwalk.llm.automaton import automaton_of
from kgwalk.llm.engine import REPLACEMENT, Generation, Request, Sampling, StopDetector, activate, start_state
from kgwalk.llm.grammar import Grammar
from kgwalk.llm.models import DEFAULT_MODEL, LoadedModel, load_model, need
from kgwalk.types import EngineError

if TYPE_CHECKING:
    from kgwalk.llm.tokenizers import HfTokenizer
    from kgwalk.llm.torch_engine.scheduler import SchedulerLimits
    from kgwalk.llm.torch_engine.sequence import Ended


# The scheduler's limits (see `SchedulerLimits`) by device. A CPU is busy with a few sequences; on a GPU a pass takes
# nearly as long for one sequence as for many, and the GPU must not wait for Python.
BATCH = {"cpu": 16, "cuda": 1024}
PREFILL_TOKENS = {"cpu": 512, "cuda": 16384}
PATIENCE = {"cpu": 0, "cuda": 2}
STEPS = {"cpu": 1, "cuda": 4}
AHEAD = {"cpu": 0, "cuda": 1}
# Slots for each sequence of the batch: sessions keep theirs while they wait for a tool.
SLOTS_PER_SEQUENCE = {"cpu": 2, "cuda": 1}
SETTLE = 8  # turns of the event loop from a generation's end to its episode's next request, and some to spare
KEPT_DETECTORS = 64  # sets of stop texts whose detector and possible end tokens are kept


# A request of `LocalEngine.ask`: receiver, session, number of tokens to sample, ids, draws, prefix hashes and grammar.
PreparedRequest = tuple[Any, str, int, list[int], Sequence[float], Sequence[int], Grammar | None]


class LocalEngine:
    """`model` is a name (see `models`), or a model in memory; without one it is the adapter's own, else the default.

    `adapter` is a LoRA folder. `device` "auto" is the GPU if there is one; `dtype` "auto" is bfloat16 there and float32
    elsewhere. `context` may be less than the model's own. `batch` sequences run at once, and `slots` sessions keep
    their cache between turns: memory grows with those in use, up to slots x context. `seed` serves requests that have
    none. `steps` is how many steps are made before results are read: with more of them the host has less to do, and the
    device computes more tokens past the end. The number of threads is torch's (OMP_NUM_THREADS).

    In `lockstep` there is no thread: a round runs when all tasks of the event loop wait for the engine. Which sequences
    run together, and so every rounding, is then the same in every run; the loop must do nothing else.
    """

    exact = True

    def __init__(
        self,
        model: str | Path | LoadedModel | None = None,
        *,
        adapter: str | Path | None = None,
        device: str = "auto",
        dtype: str = "auto",
        context: int | None = None,
        batch: int | None = None,
        slots: int | None = None,
        seed: int | None = None,
        steps: int | None = None,
        lockstep: bool = False,
    ) -> None:
        need("torch", "transformers")
        from kgwalk.llm.torch_engine.model import MAX_STEPS, SlotModel
        from kgwalk.llm.torch_engine.scheduler import Batcher

        model = _loaded(model, adapter, device, dtype)
        self.model = model.name
        self.tokens: HfTokenizer = model.tokens
        kind = model.module.device.type
        batch = BATCH.get(kind, BATCH["cpu"]) if batch is None else batch
        slots = batch * SLOTS_PER_SEQUENCE.get(kind, 1) if slots is None else slots
        if not 1 <= batch <= slots:
            raise EngineError(f"batch must be at least 1 and slots at least as many; they are {batch} and {slots}")
        if steps is not None and not 1 <= steps <= MAX_STEPS:
            raise EngineError(f"steps must be 1 to {MAX_STEPS}; {steps} was asked for")
        run = SlotModel(model.module, max_slots=slots, context=context)
        self.at_once = run.max_slots  # more than run at once: sessions that wait for a tool keep their slot
        self.context = run.context
        self._vocabulary = run.vocabulary
        self._seed = seed
        tokens = self.tokens  # not all of `model`: the weights are the batcher's alone
        self._piece = functools.lru_cache(maxsize=1 << 17)(lambda number: tokens.decode([number]))
        self._answered: list[Ended] = []
        self._batcher = Batcher(
            run,
            functools.partial(_deliver, self._answered),
            _limits(kind, batch=batch, slots=run.max_slots, steps=steps, lockstep=lockstep),
        )
        self._detectors: dict[tuple[tuple[str, ...], frozenset[int]], tuple[StopDetector, frozenset[int]]] = {}
        self._refresh = model.refresh
        self._lockstep = lockstep
        self._pumping: asyncio.Task[None] | None = None
        # Also when the engine is dropped without being closed: the thread ends, and the weights are freed.
        self._end = weakref.finalize(self, self._batcher.close)

    async def generate(self, request: Request) -> Generation:
        from kgwalk.llm.torch_engine.sequence import SlotSequence

        detector, ends = self._stop_detector(request.sampling.stop)
        sequence = activate(
            SlotSequence,
            request,
            detector,
            seed=self._seed,
            context=self.context,
            vocabulary=self._vocabulary,
            automaton=None if request.grammar is None else automaton_of(self.tokens),
        )
        if sequence is None:
            return Generation([], [], "length")
        future: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        sequence.ends, sequence.cancelled, sequence.receiver = ends, future.done, future
        self._batcher.submit([sequence])
        if self._lockstep and (self._pumping is None or self._pumping.done()):
            self._pumping = asyncio.create_task(self._pump())
        return await future

    # Without an event loop, in lockstep: the caller submits prepared requests, runs the rounds and takes the answers.

    @property
    def vocabulary(self) -> int:
        """How many ids the model knows."""
        return self._vocabulary

    def ask(self, sampling: Sampling, requests: Iterable[PreparedRequest], cancelled: Callable[[], bool]) -> None:
        """Submits requests that were checked already and have their draws and prefix hashes; `answers` has the results.

        Sampled tokens are added to a request's own list of ids. The next request of the session may bring the same
        list, if it has only grown.
        """
        from kgwalk.llm.torch_engine.sequence import SlotSequence

        detector, ends = self._stop_detector(sampling.stop)
        self._batcher.submit(
            [
                SlotSequence(
                    ids,
                    sampling,
                    max_new,
                    draws,
                    detector,
                    session,
                    None if grammar is None else start_state(automaton_of(self.tokens), grammar, max_new),
                    ends=ends,
                    cancelled=cancelled,
                    receiver=receiver,
                    prefix_hashes=hashes,
                )
                for receiver, session, max_new, ids, draws, hashes, grammar in requests
            ]
        )

    def begin_round(self) -> bool:
        """Begins a round, which must be ended; False if there was nothing to do."""
        return self._batcher.begin_round()

    def there(self) -> bool:
        """Whether the round can be ended without waiting for the device."""
        return self._batcher.results_ready()

    def end_round(self) -> None:
        """Waits for the device; `answers` has what ended in the round."""
        self._batcher.end_round()

    def turn(self) -> bool:
        """A whole round; False if there was nothing to do."""
        return self._batcher.run_round()

    def answers(self) -> list[tuple[Any, Generation | EngineError]]:
        """The receivers and outcomes of requests that have ended since this was last called."""
        answers = [(sequence.receiver, outcome) for sequence, outcome in self._answered]
        self._answered.clear()
        return answers

    def drop(self, sessions: Sequence[str]) -> None:
        """As `forget`, for several sessions."""
        self._batcher.forget(sessions)

    def _stop_detector(self, stops: tuple[str, ...]) -> tuple[StopDetector, frozenset[int]]:
        """The detector for these stop texts, and the tokens that may end a generation: end tokens, those that hold a
        stop text's last character, and those without text of their own.
        """
        key = stops, self.tokens.end_ids
        if key not in self._detectors:
            if len(self._detectors) == KEPT_DETECTORS:
                self._detectors.clear()
            lasts = {stop[-1] for stop in stops if stop} | {REPLACEMENT}
            pieces = enumerate(map(self._piece, range(self._vocabulary))) if len(lasts) > 1 else ()
            found = {number for number, piece in pieces if not piece or not lasts.isdisjoint(piece)}
            self._detectors[key] = StopDetector(self.tokens, stops, self._piece), self.tokens.end_ids | found
        return self._detectors[key]

    async def _pump(self) -> None:
        """In lockstep: runs rounds, each when no task of the event loop has a request to add."""
        while True:
            known = -1
            while known != self._batcher.submitted:
                known = self._batcher.submitted
                for _ in range(SETTLE):
                    await asyncio.sleep(0)
            if not self._batcher.run_round():
                return

    async def forget(self, session: str) -> None:
        self.drop([session])

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._end)

    def weights_changed(self) -> None:
        """To be called after training the model in memory, when no request is under way: all caches are dropped."""
        self._batcher.clear(self._refresh)

    def kept_sessions(self) -> list[str]:
        """The sessions whose cache is kept."""
        return self._batcher.kept_sessions()


def _loaded(model: str | Path | LoadedModel | None, adapter: str | Path | None, device: str, dtype: str) -> LoadedModel:
    """The model in memory: as given, or loaded with its adapter merged."""
    if isinstance(model, LoadedModel):
        if adapter is not None:
            raise EngineError("an adapter is merged when a model is loaded; this one is in memory already")
        return model
    if model is None:
        model, adapter = adapter or DEFAULT_MODEL, None  # an adapter's folder names its base
    device = _device(device)
    dtype = ("float32" if device.startswith("cpu") else "bfloat16") if dtype == "auto" else dtype
    return load_model(model, adapter=adapter, device=device, dtype=dtype)


def _limits(kind: str, *, batch: int, slots: int, steps: int | None, lockstep: bool) -> SchedulerLimits:
    """The scheduler's limits on this kind of device."""
    from kgwalk.llm.torch_engine.scheduler import SchedulerLimits

    return SchedulerLimits(
        batch=batch,
        slots=slots,
        prefill_tokens=PREFILL_TOKENS.get(kind, PREFILL_TOKENS["cpu"]),
        patience=PATIENCE.get(kind, PATIENCE["cpu"]),
        steps=STEPS.get(kind, STEPS["cpu"]) if steps is None else steps,
        ahead=AHEAD.get(kind, AHEAD["cpu"]),
        lockstep=lockstep,
    )


def _deliver(answered: list[Ended], ended: list[Ended]) -> None:
    """Hands results to their receivers: each event loop is called once, with all futures of its own. The results of
    other receivers are kept in `answered`, for `answers`.
    """
    of_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Generation], Generation | EngineError]]] = {}
    for sequence, outcome in ended:
        if not isinstance(sequence.receiver, asyncio.Future):
            answered.append((sequence, outcome))
            continue
        of_loop.setdefault(sequence.receiver.get_loop(), []).append((sequence.receiver, outcome))
    for loop, results in of_loop.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, results)


def _settle(results: list[tuple[asyncio.Future[Generation], Generation | EngineError]]) -> None:
    for future, outcome in results:
        if future.done():
            continue  # the request was cancelled
        if isinstance(outcome, Generation):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)


def _device(asked: str) -> str:
    import torch

    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(asked).type
    except RuntimeError as error:
        raise EngineError(f"unknown device {asked!r}; auto, cpu, cuda or cuda:1, say") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise EngineError(f"device {asked!r} was asked for, and torch sees no GPU here")
    return asked
