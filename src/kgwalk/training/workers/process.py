"""A worker: a process without a model that walks what it is asked to, and measures it.

    python -m kgwalk.training.workers.process FD

FD is its end of a socket; when the other end is closed, for whatever reason, it exits. It leaves Ctrl-C to the process
that started it. Needs no torch, unless a protocol's tools do. Knows nothing of training.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
import traceback
from typing import Any

from kgwalk.agent.policy import Agent
from kgwalk.agent.protocol import Task
from kgwalk.agent.worlds import Worlds
from kgwalk.training.course import Measured
from kgwalk.training.workers.episodes import pack_episode, pack_episodes
from kgwalk.training.workers.frames import Frames, framed
from kgwalk.training.workers.luggage import Luggage, unpack
from kgwalk.training.workers.messages import Done, Failed, Places, Prepare, Unfit, Walk
from kgwalk.training.workers.remote_engine import RemoteEngine
from kgwalk.types import Episode, KgwalkError, Turn


class Worker(asyncio.Protocol):
    """The worker's end. Nothing here ever waits for the other end to read: neither can hold the other up."""

    def __init__(self) -> None:
        self._frames = Frames()
        self._worlds: dict[int, Worlds] = {}
        self._walk: asyncio.Task[None] | None = None
        self._done: list[tuple[Any, ...]] = []
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
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
            case Walk():
                self._walk = asyncio.get_running_loop().create_task(self._carry_out(message))
            case Prepare() | Places():
                try:
                    self._prepare(message)
                except Exception as error:  # noqa: BLE001 - whatever loading raises is told, and walked elsewhere
                    self._send(Unfit(f"{type(error).__name__}: {error}"))

    def _prepare(self, message: Prepare | Places) -> None:
        if isinstance(message, Places):
            self._worlds[message.number] = unpack(message.worlds)
            gc.freeze()  # what is there now stays: it need not be looked through for garbage again
            return
        given: Luggage = unpack(message.luggage)
        self._luggage = given
        self._engine = RemoteEngine(given.tokens, given.context, given.vocabulary, given.at_once, self._send)

    async def _carry_out(self, asked: Walk) -> None:
        try:
            await self._episodes(asked)
        except KgwalkError as error:
            self._send(Failed(str(error), ours=False))
        except Exception:  # noqa: BLE001 - told, and raised there
            self._send(Failed(traceback.format_exc(), ours=True))

    async def _episodes(self, asked: Walk) -> None:
        worlds = self._worlds[asked.worlds]
        tasks = []
        places: dict[tuple[int, str], list[int]] = {}
        for place, number, key in asked.asked:
            question = asked.questions[number]
            tasks.append((Task(question, question.topic_entities, key), worlds.of(question)))
            places.setdefault((id(question), key), []).append(place)

        def watch(episode: Episode, turn: Turn | None) -> None:
            if turn is None:
                place = places[id(episode.question), episode.key].pop()
                self._give(pack_episode(place, Measured.of(episode, worlds)))

        agent = Agent(self._luggage.protocol, self._engine, self._luggage.budget, asked.sampling)
        await agent.walk(tasks, watch)

    def _give(self, episode: tuple[Any, ...]) -> None:
        if not self._done:
            asyncio.get_running_loop().call_soon(self._flush)
        self._done.append(episode)

    def _flush(self) -> None:
        done, self._done = self._done, []
        self._send(Done(len(done), pack_episodes(done)))


async def serve(fd: int) -> None:
    with socket.socket(fileno=fd) as end:
        _, worker = await asyncio.get_running_loop().create_connection(Worker, sock=end)
        await worker.closed


def main(fd: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # sent to all of a terminal's processes; the first of them decides
    asyncio.run(serve(fd))


if __name__ == "__main__":
    main(int(sys.argv[1]))
