"""An engine in another process, for the walks of a worker: requests go out in bundles, results come back in bundles.

What can be done for a request without a model is done here: it is checked, its luck is drawn, its beginnings are
hashed. Of a session's context only what is new is sent. Needs no torch. Knows nothing of sockets: bundles are handed to
`send`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from kgwalk.llm.asked import draws, seed_at, tokens_to_choose
from kgwalk.llm.engine import Generation, Request
from kgwalk.llm.slots import marks
from kgwalk.llm.tokens import Tokenizer
from kgwalk.training.workers.messages import IDS, MARKS, REALS, Forget, Reply, Wanted, packed
from kgwalk.types import EngineError

BUNDLE = 16  # requests that do not wait for more: the model may begin while the other prompts are written


class RemoteEngine:
    exact = True

    def __init__(
        self, tokens: Tokenizer, context: int, vocabulary: int, at_once: int, send: Callable[[Any], None]
    ) -> None:
        self.tokens, self.context, self.at_once = tokens, context, at_once
        self._vocabulary, self._send = vocabulary, send
        self._wanted: list[Wanted] = []
        self._over: list[str] = []
        self._waiting: dict[int, asyncio.Future[Generation]] = {}
        self._last: dict[str, int] = {}  # of a session: the number of its last request
        self._known: dict[str, list[int]] = {}  # and, when that is answered, what both ends have of its context
        self._asked = 0
        self._flushing = False

    async def generate(self, request: Request) -> Generation:
        ids, sampling = list(request.ids), request.sampling
        most = tokens_to_choose(ids, sampling, self.context, self._vocabulary)
        if most == 0:
            return Generation([], [], "length")
        luck = draws(seed_at(sampling.seed, len(ids)), most) if sampling.temperature > 0 else []
        known = self._known.pop(request.session, [])
        held = len(known) if ids[: len(known)] == known else 0
        self._asked += 1
        number = self._last[request.session] = self._asked
        new, found = packed(IDS, ids[held:]), packed(MARKS, marks(ids[:-1]))
        self._wanted.append((number, request.session, most, held, new, packed(REALS, luck), found))
        future: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._flush_soon()
        generation = await future
        if self._last.get(request.session) == number:
            self._known[request.session] = ids + generation.ids
        return generation

    def settle(self, replies: Sequence[Reply]) -> None:
        """What came of requests, to those who wait."""
        for number, ids, logprobs, finish, error in replies:
            future = self._waiting.pop(number)
            if future.done():
                continue  # whoever asked has gone
            if error is None:
                future.set_result(Generation(ids, logprobs, finish))
            else:
                future.set_exception(EngineError(error))

    async def forget(self, session: str) -> None:
        self._last.pop(session, None)
        self._known.pop(session, None)
        self._over.append(session)
        self._flush_soon()

    async def close(self) -> None:
        """The engine is another process's to close."""

    def _flush_soon(self) -> None:
        """When all tasks that can go on have done so, or when there is a bundle."""
        if len(self._wanted) >= BUNDLE:
            self._flush()
        elif not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._over:  # first: those who come need the room of those who go
            over, self._over = self._over, []
            self._send(Forget(over))
        if self._wanted:
            wanted, self._wanted = self._wanted, []
            self._send(wanted)
