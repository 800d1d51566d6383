"""Many episodes at once: each goes on as soon as its own action is answered, whatever the others wait for.

The model's tokens are kept as they came; observations are encoded once, when they are appended. A model's mistake is
an observation; a backend that fails is recorded on the episode; anything else is our bug and raises.
Knows protocols and engines by their interfaces only.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from kgwalk.agent.budget import Budget
from kgwalk.agent.observation import Observation
from kgwalk.agent.protocol import Protocol, Task, Walk, World
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.engine import Engine, Request, Sampling
from kgwalk.types import (
    Answer,
    Call,
    EngineError,
    Episode,
    KgwalkError,
    Malformed,
    Message,
    Step,
    StopReason,
    Turn,
)

Watch = Callable[[Episode, Turn | None], None]  # told of each turn as it is done, and of the end (None)


def rollout(
    tasks: Sequence[tuple[Task, World]],
    protocol: Protocol,
    engine: Engine,
    *,
    sampling: Sampling | None = None,
    budget: Budget | None = None,
    watch: Watch = lambda episode, turn: None,
) -> list[Episode]:
    """Run an episode for each task, in a fresh event loop; the episodes come back in the tasks' order."""
    return asyncio.run(rollout_async(tasks, protocol, engine, sampling=sampling, budget=budget, watch=watch))


async def rollout_async(
    tasks: Sequence[tuple[Task, World]],
    protocol: Protocol,
    engine: Engine,
    *,
    sampling: Sampling | None = None,
    budget: Budget | None = None,
    watch: Watch = lambda episode, turn: None,
) -> list[Episode]:
    """The same inside a running event loop. One seed gives every episode a seed of its own."""
    budget = budget or Budget()
    sampling = replace(sampling or Sampling(), stop=protocol.stop, max_tokens=budget.turn_tokens)
    gate = asyncio.Semaphore(budget.at_once)
    with ThreadPoolExecutor(budget.threads, thread_name_prefix="kgwalk-tool") as threads:

        async def one(number: int, task: Task, world: World) -> Episode:
            async with gate:
                session = f"{number}:{task.question.id}"
                return await _Run(task, world, protocol, engine, sampling, budget, watch, session, threads).run()

        return list(await asyncio.gather(*(one(n, task, world) for n, (task, world) in enumerate(tasks))))


class _Run:
    """One episode under way."""

    def __init__(
        self,
        task: Task,
        world: World,
        protocol: Protocol,
        engine: Engine,
        sampling: Sampling,
        budget: Budget,
        watch: Watch,
        session: str,
        threads: ThreadPoolExecutor,
    ) -> None:
        self.protocol, self.engine, self.budget, self.watch = protocol, engine, budget, watch
        self.sampling = replace(sampling, seed=_seed(sampling.seed, session))
        self.session, self.threads = session, threads
        # A store answers in microseconds: a hop to another thread would take longer than the answer.
        self.quick = isinstance(world.graph, StoredGraph) and world.web is None
        self.count = lambda text: len(engine.tokens.encode(text))
        self.walk: Walk = protocol.begin(task, world, self.count)
        self.messages = self.walk.prompt()
        ids = engine.tokens.open_chat(self.messages)
        text = "\n\n".join(message.content for message in self.messages)
        self.episode = Episode(task.question, list(task.topics), ids, text)
        self.ids = list(ids)
        self.started = time.monotonic()

    async def run(self) -> Episode:
        episode = self.episode
        try:
            episode.stop = await self._turns()
        except EngineError as error:
            episode.stop, episode.failure = StopReason.engine_failed, str(error)
        except _ToolFailed as error:
            episode.stop, episode.failure = StopReason.tool_failed, str(error)
        finally:
            await self.engine.forget(self.session)
        episode.seconds = time.monotonic() - self.started
        self.watch(episode, None)
        return episode

    async def _turns(self) -> StopReason:
        if len(self.ids) + 1 > self._room():
            return StopReason.prompt
        for number in range(self.protocol.turns + 1):
            forced = number == self.protocol.turns
            if forced:
                closing = self.walk.last_call()
                if closing is None:
                    return StopReason.turns
                if not self._append(self.episode.turns[-1], closing):
                    return StopReason.tokens
            if time.monotonic() - self.started > self.budget.seconds:
                return StopReason.time
            if len(self.ids) >= self._room():
                return StopReason.tokens
            turn = await self._generate()
            self.episode.turns.append(turn)
            if isinstance(turn.step, Answer):
                self._finish(turn.step)
                return StopReason.answered
            observation = await self._answer_to(turn.step)
            turn.ok, turn.error = observation.ok, observation.error
            last = number + 1 >= self.protocol.turns
            if not forced and not (last and self.walk.last_call() is None):
                self.walk.seen.extend(observation.triples)
                if not self._append(turn, observation):
                    return StopReason.tokens
            self.watch(self.episode, turn)
            if forced:
                return StopReason.turns
        return StopReason.turns

    def _room(self) -> int:
        return min(self.budget.total_tokens, self.engine.context)

    async def _generate(self) -> Turn:
        before = time.monotonic()
        most = min(self.sampling.max_tokens, self._room() - len(self.ids))
        request = Request(self.ids, self.messages, replace(self.sampling, max_tokens=most), self.session)
        generation = await self.engine.generate(request)
        text = self.engine.tokens.decode(generation.ids)
        self.ids.extend(generation.ids)
        self.ended = bool(generation.ids) and generation.ids[-1] in self.engine.tokens.end_ids
        self.messages.append(Message("assistant", text))
        return Turn(
            list(generation.ids),
            list(generation.logprobs),
            text,
            self.walk.parse(text),
            seconds=time.monotonic() - before,
        )

    async def _answer_to(self, step: Step) -> Observation:
        if isinstance(step, Malformed):
            return self.walk.complain(step)
        assert isinstance(step, Call)
        for attempt in range(self.budget.tool_retries + 1):
            try:
                if self.quick:
                    return self.walk.act(step)
                return await asyncio.get_running_loop().run_in_executor(self.threads, self.walk.act, step)
            except KgwalkError as error:
                if attempt == self.budget.tool_retries:
                    raise _ToolFailed(f"{step.tool}: {error}") from error
        raise AssertionError("unreachable")

    def _append(self, turn: Turn, observation: Observation) -> bool:
        """Tell the model; False if there is no room for it."""
        text, shown = observation.fit(self.count, self.budget.observation_tokens)
        tokens = self.engine.tokens
        ids = tokens.encode(text) if self.protocol.inline else tokens.next_turn(text, ended=self.ended)
        if len(self.ids) + len(ids) + 1 > self._room():
            return False
        turn.observation += text
        turn.observation_ids.extend(ids)
        turn.shown.extend(shown)
        self.ids.extend(ids)
        self.messages.append(Message("user", text))
        self.ended = False
        return True

    def _finish(self, answer: Answer) -> None:
        episode = self.episode
        episode.answers = self.walk.resolve(answer)
        episode.evidence = {name: self.walk.evidence(name) for name in episode.answers}
        self.watch(episode, episode.turns[-1])


class _ToolFailed(Exception):
    pass


def _seed(seed: int | None, session: str) -> int | None:
    if seed is None:
        return None
    return int.from_bytes(hashlib.blake2b(f"{seed}/{session}".encode(), digest_size=7).digest())
