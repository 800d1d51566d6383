"""Where the time of a rollout goes: how long the device works, and what Python does meanwhile.

The timers are put around an engine from outside and taken off again. This is the only module of the benchmarks that
reaches into the engine.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch

from kgwalk.llm.torch_engine.engine import LocalEngine
from kgwalk.walk.protocol import Environment, Protocol, Task, Walk

PASSES = ("prefill", "steps")
TOKENISED = ("encode", "decode", "open_chat", "next_turn")
WALKED = {"prompt": "prompt", "parse": "parse", "act": "graph", "resolve": "graph", "evidence": "graph"}
ENGINE = ("take_in", "prefill", "steps", "wait", "read")


def engine_times(engine: LocalEngine) -> dict[str, float]:
    """Seconds of the engine's thread so far, by part. Here `read` does not include `wait`."""
    times = {name: engine._batcher.times[name] for name in ENGINE}
    times["read"] -= times["wait"]
    return times


class TimedPasses(dict[Any, Any]):
    """Recorded passes by kind and size; each is timed when it is replayed, until `plain` undoes that."""

    def __init__(self, timed: Callable[[str, Callable[[], None]], Callable[[], None]]) -> None:
        self._timed = timed
        self._replays: dict[Any, Callable[[], None]] = {}

    def __setitem__(self, key: Any, one: Any) -> None:
        self._replays[key] = one.replay
        one.replay = self._timed(key[0], one.replay)
        super().__setitem__(key, one)

    def plain(self) -> dict[Any, Any]:
        for key, replay in self._replays.items():
            self[key].replay = replay
        return dict(self)


class DeviceWatch:
    """Measures for how many seconds passes of each kind keep the device busy, while it is entered.

    On a GPU events are put before and after every replayed pass, which costs microseconds; the few numbers that a round
    copies besides are not counted. Elsewhere a pass is over when its call returns.
    """

    def __init__(self, engine: LocalEngine) -> None:
        self._model: Any = engine._batcher.model
        self._events: list[tuple[str, Any, Any]] = []
        self._seconds: dict[str, float] = dict.fromkeys(PASSES, 0.0)

    def __enter__(self) -> DeviceWatch:
        if self._model.on_gpu:
            graphs = self._model._graphs
            timed = TimedPasses(self._on_gpu)
            for key, one in graphs._recorded.items():
                timed[key] = one
            graphs._recorded = timed
        else:
            for name in PASSES:
                setattr(self._model, name, self._in_place(name, getattr(self._model, name)))
        return self

    def __exit__(self, *error: object) -> None:
        if self._model.on_gpu:
            self._model._graphs._recorded = self._model._graphs._recorded.plain()
        else:
            for name in PASSES:
                delattr(self._model, name)

    def seconds(self) -> dict[str, float]:
        """Seconds by kind; waits for passes under way."""
        if self._events:
            torch.cuda.synchronize(self._model.device)
            for kind, begin, end in self._events:
                self._seconds[kind] += begin.elapsed_time(end) / 1000
            self._events.clear()
        return dict(self._seconds)

    def _on_gpu(self, kind: str, replay: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            begin: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call,unused-ignore]
            end: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call,unused-ignore]
            begin.record()
            replay()
            end.record()
            self._events.append((kind, begin, end))

        return run

    def _in_place(self, kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            begun = time.perf_counter()
            found = call(*given, **named)
            self._seconds[kind] += time.perf_counter() - begun
            return found

        return run


class ProcessorClock:
    """Processor time by kind, of all threads. A timed call inside another counts for its own kind only.

    It is processor time, as a thread that waits for Python's lock does nothing.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inside = threading.local()  # for each call under way in a thread, what the calls inside it took
        self._lock = threading.Lock()

    def timed(self, kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            inside: list[float] = self._inside.__dict__.setdefault("calls", [])
            inside.append(0.0)
            begun = time.thread_time()
            try:
                return call(*given, **named)
            finally:
                spent = time.thread_time() - begun
                own = spent - inside.pop()
                if inside:
                    inside[-1] += spent
                with self._lock:
                    self.seconds[kind] += own

        return run


class TimedProtocol:
    """A protocol whose walks are timed: `prompt`, `parse` and `graph`, which is tools and evidence."""

    def __init__(self, protocol: Protocol, clock: ProcessorClock) -> None:
        self._protocol, self._clock = protocol, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._protocol, name)

    def begin(self, task: Task, environment: Environment, count: Callable[[str], int]) -> Walk:
        walk: Walk = self._clock.timed("prompt", self._protocol.begin)(task, environment, count)
        for name, kind in WALKED.items():
            setattr(walk, name, self._clock.timed(kind, getattr(walk, name)))
        return walk


class TimedTokens:
    """Times the engine's tokenizer while it is entered."""

    def __init__(self, engine: LocalEngine, clock: ProcessorClock) -> None:
        self._tokens, self._clock = engine.tokens, clock

    def __enter__(self) -> None:
        for name in TOKENISED:
            setattr(self._tokens, name, self._clock.timed("tokenise", getattr(self._tokens, name)))

    def __exit__(self, *error: object) -> None:
        for name in TOKENISED:
            delattr(self._tokens, name)
