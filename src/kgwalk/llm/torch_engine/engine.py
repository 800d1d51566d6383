"""Any Hugging Face causal language model, run here by torch, for many requests at once.

Requests come one by one from any number of tasks and event loops; a thread runs them together (`batcher`). Ids and
log-probabilities are the model's own, so its episodes can be trained on. What a request gets does not depend on the
others in the batch, but for the rounding of floating-point sums, which can decide between two tokens that are as good
as equally likely. Knows nothing of graphs, tools or protocols.
"""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgwalk.llm.engine import BROKEN, Generation, Request, Sampling, StopWatch, taken
from kgwalk.llm.models import DEFAULT_MODEL, LoadedModel, load_model, need
from kgwalk.types import EngineError

if TYPE_CHECKING:
    from kgwalk.llm.tokenizers import HfTokenizer
    from kgwalk.llm.torch_engine.sequence import Ended


# Rows at once, new tokens in one pass, rounds to wait for more of them, steps in a round, and rounds begun before the
# last is read: a processor is busy with a few rows; to a GPU a pass is nearly the same for one row and for many, and it
# must not wait for Python.
BATCH = {"cpu": 16, "cuda": 1024}
GROUP = {"cpu": 512, "cuda": 16384}
PATIENCE = {"cpu": 0, "cuda": 2}
STEPS = {"cpu": 1, "cuda": 4}
AHEAD = {"cpu": 0, "cuda": 1}
SETTLE = 8  # turns of the event loop from a generation's end to its episode's next request, and some to spare
SLOTS_A_ROW = {"cpu": 2, "cuda": 1}  # sessions whose cache is kept while they wait for a tool, beside those at work

KEPT_WATCHES = 64  # stop texts for which a watch, and the tokens that may end them, are kept


# A request from one who has no event loop: whom it is for, its session, tokens to choose, ids, draws and marks.
GenerationRow = tuple[Any, str, int, list[int], Sequence[float], Sequence[int]]


class LocalEngine:
    """`model` is a name (see `models`), or a model in memory; without one it is the adapter's own, else the default.

    `adapter` is a LoRA folder. `device` "auto" is the GPU if there is one; `dtype` "auto" is bfloat16 there and float32
    elsewhere. `context` may be less than the model's own. `batch` rows are run at once, and `slots` sessions keep their
    cache between turns: memory grows with those that are used, up to slots x context. `seed` serves requests that have
    none. `steps` are taken before results are read: with more of them the host has less to do, and the device computes
    more that nobody wants. Threads are torch's to set (OMP_NUM_THREADS). In `lockstep` a step is taken when all tasks
    of the event loop wait for it: which rows run together, and so every rounding, is the same in every run; the loop
    does nothing else.
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
        from kgwalk.llm.torch_engine.model import STEPS as MOST_STEPS
        from kgwalk.llm.torch_engine.model import SlotModel
        from kgwalk.llm.torch_engine.scheduler import Batcher, SchedulerLimits

        if model is None:
            model, adapter = adapter or DEFAULT_MODEL, None  # an adapter's folder names its base
        if not isinstance(model, LoadedModel):
            device = _device(device)
            dtype = ("float32" if device.startswith("cpu") else "bfloat16") if dtype == "auto" else dtype
            model = load_model(model, adapter=adapter, device=device, dtype=dtype)
        elif adapter is not None:
            raise EngineError("an adapter is merged when a model is loaded; this one is in memory already")
        self.model = model.name
        self.tokens: HfTokenizer = model.tokens
        kind = model.module.device.type
        batch = BATCH.get(kind, BATCH["cpu"]) if batch is None else batch
        slots = batch * SLOTS_A_ROW.get(kind, 1) if slots is None else slots
        if not 1 <= batch <= slots:
            raise EngineError(f"batch must be at least 1 and slots at least as many; they are {batch} and {slots}")
        if steps is not None and not 1 <= steps <= MOST_STEPS:
            raise EngineError(f"steps must be 1 to {MOST_STEPS}; {steps} was asked for")
        run = SlotModel(model.module, most_slots=slots, context=context)
        self.at_once = run.most_slots  # those that wait for a tool keep their cache
        self.context = run.context
        self._vocabulary = run.vocabulary
        self._seed = seed
        self._piece = functools.lru_cache(maxsize=1 << 17)(lambda number: model.tokens.decode([number]))
        self._answered: list[Ended] = []
        self._batcher = Batcher(
            run,
            functools.partial(_deliver, self._answered),
            SchedulerLimits(
                batch=batch,
                slots=run.most_slots,
                group=GROUP.get(kind, GROUP["cpu"]),
                patience=PATIENCE.get(kind, PATIENCE["cpu"]),
                steps=STEPS.get(kind, STEPS["cpu"]) if steps is None else steps,
                ahead=AHEAD.get(kind, AHEAD["cpu"]),
                lockstep=lockstep,
            ),
        )
        self._watches: dict[tuple[tuple[str, ...], frozenset[int]], tuple[StopWatch, frozenset[int]]] = {}
        self._refresh = model.refresh
        self._lockstep = lockstep
        self._pumping: asyncio.Task[None] | None = None
        # Also when the engine is dropped without being closed: the thread ends, and the weights can go.
        self._end = weakref.finalize(self, self._batcher.close)

    async def generate(self, request: Request) -> Generation:
        from kgwalk.llm.torch_engine.sequence import SlotSequence

        watch, ends = self._watch(request.sampling.stop)
        row = taken(SlotSequence, request, watch, seed=self._seed, context=self.context, vocabulary=self._vocabulary)
        if row is None:
            return Generation([], [], "length")
        future: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        row.ends, row.cancelled, row.whom = ends, future.done, future
        self._batcher.submit([row])
        if self._lockstep and (self._pumping is None or self._pumping.done()):
            self._pumping = asyncio.create_task(self._pump())
        return await future

    # For one who has no event loop and runs the rounds himself, in lockstep.

    @property
    def vocabulary(self) -> int:
        """How many ids the model knows."""
        return self._vocabulary

    def ask(self, sampling: Sampling, wanted: Iterable[GenerationRow], cancelled: Callable[[], bool]) -> None:
        """Requests that were checked already, each with what `asked` and `slots` give for it; see `answers`. What is
        chosen is added to their `ids`. The next request of a session may bring the same list, if it has only grown.
        """
        from kgwalk.llm.torch_engine.sequence import SlotSequence

        watch, ends = self._watch(sampling.stop)
        self._batcher.submit(
            [
                SlotSequence(
                    ids, sampling, most, draws, watch, session, ends=ends, cancelled=cancelled, whom=whom, marks=marks
                )
                for whom, session, most, ids, draws, marks in wanted
            ]
        )

    def begin_round(self) -> bool:
        """A round that has to be ended; False if there was nothing to do, and none was begun."""
        return self._batcher.begin_round()

    def there(self) -> bool:
        """Whether the round can be ended without waiting for the device."""
        return self._batcher.there()

    def end_round(self) -> None:
        """Waits for the device, and has answers then."""
        self._batcher.end_round()

    def turn(self) -> bool:
        """A whole round."""
        return self._batcher.turn()

    def answers(self) -> list[tuple[Any, Generation | EngineError]]:
        """What has come of requests since this was last called, with whom they were for."""
        answers = [(row.whom, outcome) for row, outcome in self._answered]
        self._answered.clear()
        return answers

    def drop(self, sessions: Sequence[str]) -> None:
        """As `forget`, of several."""
        self._batcher.forget(sessions)

    def _watch(self, stops: tuple[str, ...]) -> tuple[StopWatch, frozenset[int]]:
        """What finds the end of a generation, and the tokens with which it may end: end tokens, and those that hold a
        stop text's last character, or that show only among others.
        """
        key = stops, self.tokens.end_ids
        if key not in self._watches:
            if len(self._watches) == KEPT_WATCHES:
                self._watches.clear()
            lasts = {stop[-1] for stop in stops if stop} | {BROKEN}
            pieces = enumerate(map(self._piece, range(self._vocabulary))) if len(lasts) > 1 else ()
            found = {number for number, piece in pieces if not piece or not lasts.isdisjoint(piece)}
            self._watches[key] = StopWatch(self.tokens, stops, self._piece), self.tokens.end_ids | found
        return self._watches[key]

    async def _pump(self) -> None:
        """Rounds of the batcher, each when no task of the loop has a request to add."""
        while True:
            known = -1
            while known != self._batcher.submitted:
                known = self._batcher.submitted
                for _ in range(SETTLE):
                    await asyncio.sleep(0)
            if not self._batcher.turn():
                return

    async def forget(self, session: str) -> None:
        self.drop([session])

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._end)

    def weights_changed(self) -> None:
        """To be called by whoever trains the model in memory, when no request is under way: no cache holds now."""
        self._batcher.clear(self._refresh)

    def kept_sessions(self) -> list[str]:
        """Those whose cache is kept."""
        return self._batcher.kept()


def _deliver(answered: list[Ended], ended: list[Ended]) -> None:
    """What has ended, to those who wait: an event loop is called once for all that are its own. Others come for it."""
    of_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Generation], Generation | EngineError]]] = {}
    for row, outcome in ended:
        if not isinstance(row.whom, asyncio.Future):
            answered.append((row, outcome))
            continue
        of_loop.setdefault(row.whom.get_loop(), []).append((row.whom, outcome))
    for loop, some in of_loop.items():
        with suppress(RuntimeError):  # the loop is closed: whoever asked has gone
            loop.call_soon_threadsafe(_settle, some)


def _settle(some: list[tuple[asyncio.Future[Generation], Generation | EngineError]]) -> None:
    for future, outcome in some:
        if future.done():
            continue  # whoever asked has gone
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
