"""A worker process: it has no model, walks what it is asked to, and measures the episodes.

    python -m kgwalk.training.workers.process FD

FD is the worker's end of a socket. When the other end is closed, for whatever reason, the worker exits. It ignores
Ctrl-C, which is for the process that started it. The model is reached through `RemoteEngine`, which does everything
that needs no model itself and sends requests in bundles. Needs no torch, unless a protocol's tools do.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from kgwalk.llm.engine import Generation, Request, draws, max_new_tokens, seed_at
from kgwalk.llm.grammar import Grammar
from kgwalk.llm.tokenizers import Tokenizer
from kgwalk.llm.torch_engine.sequence import prefix_hashes
from kgwalk.training.curriculum import MeasuredEpisode
from kgwalk.training.workers.messages import (
    HASHES,
    IDS,
    MOST_GRAMMARS,
    REALS,
    EnvironmentsMessage,
    EpisodesDone,
    Forget,
    Frames,
    GrammarMessage,
    PackedRequest,
    PackedResult,
    Prepare,
    Unfit,
    WalkFailed,
    WalkMessage,
    WorkerPayload,
    framed,
    pack_episode,
    pack_episodes,
    packed,
    unpack,
)
from kgwalk.types import EngineError, Episode, KgwalkError, Turn
from kgwalk.walk.environment import Environments
from kgwalk.walk.protocol import Task
from kgwalk.walk.rollout import rollout_async

BUNDLE = 16  # requests that are sent without waiting for more, so that the model can start


class Worker(asyncio.Protocol):
    """The worker's end of the socket. It never waits until the other end reads, so neither can block the other."""

    def __init__(self) -> None:
        self._frames = Frames()
        self._environments: dict[int, Environments] = {}
        self._walk: asyncio.Task[None] | None = None
        self._done: list[tuple[Any, ...]] = []
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # for type checkers: a socket's is one
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        for message in self._frames.feed(data):
            self._take(message)

    def _send(self, message: Any) -> None:
        self._transport.write(framed(message))

    def _take(self, message: Any) -> None:
        match message:
            case list():
                self._engine.settle(message)
            case WalkMessage():
                self._engine.begin_walk()
                self._walk = asyncio.get_running_loop().create_task(self._carry_out(message))
            case Prepare() | EnvironmentsMessage():
                try:
                    self._prepare(message)
                except Exception as error:  # noqa: BLE001 - whatever loading raises is reported
                    self._send(Unfit(f"{type(error).__name__}: {error}"))

    def _prepare(self, message: Prepare | EnvironmentsMessage) -> None:
        if isinstance(message, EnvironmentsMessage):
            self._environments[message.number] = unpack(message.environments)
            gc.freeze()  # what is loaded stays, so the garbage collector need not look at it
            return
        payload: WorkerPayload = unpack(message.payload)
        self._payload = payload
        self._engine = RemoteEngine(payload.tokens, payload.context, payload.vocabulary, payload.at_once, self._send)

    async def _carry_out(self, asked: WalkMessage) -> None:
        try:
            await self._episodes(asked)
        except KgwalkError as error:
            self._send(WalkFailed(str(error), ours=False))
        except Exception:  # noqa: BLE001 - reported, and raised in the other process
            self._send(WalkFailed(traceback.format_exc(), ours=True))

    async def _episodes(self, asked: WalkMessage) -> None:
        environments = self._environments[asked.environments]
        tasks = []
        places: dict[tuple[int, str], list[int]] = {}
        for place, number, key in asked.asked:
            question = asked.questions[number]
            tasks.append((Task(question, question.topic_entities, key), environments.of(question)))
            places.setdefault((id(question), key), []).append(place)

        def watch(episode: Episode, turn: Turn | None) -> None:
            if turn is None:
                place = places[id(episode.question), episode.key].pop()
                measured = MeasuredEpisode.of(episode, environments)
                self._give(pack_episode(place, measured, self._engine.number_of))

        protocol, budget = self._payload.protocol, self._payload.budget
        await rollout_async(tasks, protocol, self._engine, sampling=asked.sampling, budget=budget, watch=watch)

    def _give(self, episode: tuple[Any, ...]) -> None:
        if not self._done:
            asyncio.get_running_loop().call_soon(self._flush)
        self._done.append(episode)

    def _flush(self) -> None:
        done, self._done = self._done, []
        self._send(EpisodesDone(len(done), pack_episodes(done)))


class RemoteEngine:
    """The engine of the process with the model, for the walks of a worker.

    What needs no model is done here: a request is checked, its draws are made, its prefixes hashed. Of a session's
    context only what is new is sent. `send` gets the bundles.
    """

    exact = True

    def __init__(
        self, tokens: Tokenizer, context: int, vocabulary: int, at_once: int, send: Callable[[Any], None]
    ) -> None:
        self.tokens, self.context, self.at_once = tokens, context, at_once
        self._vocabulary, self._send = vocabulary, send
        self._wanted: list[PackedRequest] = []
        self._over: list[str] = []
        self._waiting: dict[int, asyncio.Future[Generation]] = {}
        self._last: dict[str, int] = {}  # by session: the number of its last request
        self._known: dict[str, list[int]] = {}  # by session, once that is answered: the context that both ends have
        self._grammars: dict[Grammar, int] = {}  # those that the other end has, by number
        self._asked = 0
        self._flushing = False

    def begin_walk(self) -> None:
        """Forgets the grammars if they are many, as the other end does."""
        if len(self._grammars) > MOST_GRAMMARS:
            self._grammars.clear()

    def number_of(self, grammar: Grammar | None) -> int:
        """The number of a grammar, which is sent when it is new; 0 for none."""
        if grammar is None:
            return 0
        if grammar not in self._grammars:
            self._grammars[grammar] = len(self._grammars) + 1
            self._send(GrammarMessage(self._grammars[grammar], grammar))
        return self._grammars[grammar]

    async def generate(self, request: Request) -> Generation:
        ids, sampling = list(request.ids), request.sampling
        most = max_new_tokens(ids, sampling, self.context, self._vocabulary)
        if most == 0:
            return Generation([], [], "length")
        drawn = draws(seed_at(sampling.seed, len(ids)), most) if sampling.temperature > 0 else []
        known = self._known.pop(request.session, [])
        held = len(known) if ids[: len(known)] == known else 0
        self._asked += 1
        number = self._last[request.session] = self._asked
        new, hashes = packed(IDS, ids[held:]), packed(HASHES, prefix_hashes(ids[:-1]))
        grammar = self.number_of(request.grammar)
        self._wanted.append((number, request.session, most, held, new, packed(REALS, drawn), hashes, grammar))
        future: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._flush_soon()
        generation = await future
        if self._last.get(request.session) == number:
            self._known[request.session] = ids + generation.ids
        return generation

    def settle(self, replies: Sequence[PackedResult]) -> None:
        """Give results to the walks that wait for them."""
        for number, ids, logprobs, finish, room, error in replies:
            future = self._waiting.pop(number)
            if future.done():
                continue  # the walk that asked has ended
            if error is None:
                future.set_result(Generation(ids, logprobs, finish, room))
            else:
                future.set_exception(EngineError(error))

    async def forget(self, session: str) -> None:
        self._last.pop(session, None)
        self._known.pop(session, None)
        self._over.append(session)
        self._flush_soon()

    async def close(self) -> None:
        """Nothing: the other process closes the engine."""

    def _flush_soon(self) -> None:
        """Send when all tasks that can go on have done so, or at once when a bundle is full."""
        if len(self._wanted) >= BUNDLE:
            self._flush()
        elif not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._over:  # first, since new requests need the room of ended sessions
            over, self._over = self._over, []
            self._send(Forget(over))
        if self._wanted:
            wanted, self._wanted = self._wanted, []
            self._send(wanted)


async def serve(fd: int) -> None:
    with socket.socket(fileno=fd) as end:
        _, worker = await asyncio.get_running_loop().create_connection(Worker, sock=end)
        await worker.closed


def main(fd: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a terminal sends it to all; the starting process decides
    asyncio.run(serve(fd))


if __name__ == "__main__":
    main(int(sys.argv[1]))
