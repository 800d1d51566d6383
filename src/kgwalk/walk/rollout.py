"""Rollouts: many episodes at once within a budget, and their tokens counted alike for every engine.

    episodes = rollout([(task, environment)], protocol, engine, budget=Budget(turn_tokens=64))

Each episode goes on as soon as its own action is answered. The model's tokens are kept as they came; observations are
encoded once, when they are appended. A mistake of the model's becomes an observation; a backend that fails is recorded
on the episode; anything else is our bug and raises. Protocols and engines are known by their interfaces only.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from kgwalk.kg.store import StoredGraph
from kgwalk.llm.automaton import automaton_of
from kgwalk.llm.engine import Engine, Generation, Request, Sampling
from kgwalk.llm.grammar import Grammar
from kgwalk.llm.tokenizers import Tokenizer
from kgwalk.types import (
    Answer,
    Call,
    Constraint,
    EngineError,
    Episode,
    KgwalkError,
    Malformed,
    Message,
    Step,
    StopReason,
    Turn,
)
from kgwalk.walk.protocol import Environment, Observation, Protocol, Task, Walk

_T = TypeVar("_T")
ANSWERS = 4  # a prompt with a graph leaves this part of the room, a fourth, for the answer at least
_RUNS = itertools.count()  # sessions of two rollouts that share an engine must differ
Watch = Callable[[Episode, Turn | None], None]  # told of each turn as it is done, and of the end (None)


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds of an episode, the section [rollout] of a recipe; tokens are the engine's.

    An episode that ends for a bound has that bound's own StopReason.
    """

    turn_tokens: int = 256  # of one turn of the model's
    observation_tokens: int = 512
    total_tokens: int = 8192  # prompt, turns and observations together; the engine's context if that is less
    seconds: float = 600.0  # wall time of an episode
    tool_retries: int = 1  # a tool whose backend fails is tried again so often
    at_once: int = 1024  # episodes under way at the same time
    threads: int = 32  # calls to slow tools (a remote graph, the web) at the same time


def rollout(
    tasks: Sequence[tuple[Task, Environment]],
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
    tasks: Sequence[tuple[Task, Environment]],
    protocol: Protocol,
    engine: Engine,
    *,
    sampling: Sampling | None = None,
    budget: Budget | None = None,
    watch: Watch = lambda episode, turn: None,
) -> list[Episode]:
    """The same inside a running event loop. One seed gives every episode a seed of its own.

    The budget is in tokens, also for an engine whose ids are bytes (`Counted`).
    """
    counted = Counted(engine)
    budget = counted.budget(budget or Budget())
    sampling = replace(sampling or Sampling(), stop=protocol.stop, max_tokens=budget.turn_tokens)
    gate = asyncio.Semaphore(budget.at_once)
    run = next(_RUNS)
    threads = ThreadPoolExecutor(budget.threads, thread_name_prefix="kgwalk-tool")

    async def one(number: int, task: Task, environment: Environment) -> Episode:
        async with gate:
            key = task.key or f"{number}:{task.question.id}"
            own = replace(sampling, seed=_seed(sampling.seed, key))
            return await EpisodeRun(
                task, environment, protocol, counted, own, budget, watch, f"{run}:{number}:{key}", threads
            ).run()

    try:
        return list(await asyncio.gather(*(one(n, task, environment) for n, (task, environment) in enumerate(tasks))))
    finally:
        # Not waited for: when a rollout is cancelled, a slow tool must not hold up the event loop.
        threads.shutdown(wait=False, cancel_futures=True)


class EpisodeRun:
    """One episode under way. Without `threads` its tools are called in place, and whoever drives it waits for them."""

    def __init__(
        self,
        task: Task,
        environment: Environment,
        protocol: Protocol,
        engine: Engine,
        sampling: Sampling,
        budget: Budget,
        watch: Watch,
        session: str,
        threads: ThreadPoolExecutor | None = None,
    ) -> None:
        self.task, self.environment, self.protocol, self.engine = task, environment, protocol, engine
        self.budget, self.watch = budget, watch
        self.sampling = sampling
        self.session, self.threads = session, threads
        # A store answers in microseconds: a hop to another thread would take longer than the answer.
        slow = (environment.web, environment.embed, environment.ranker)
        quick = isinstance(environment.graph, StoredGraph) and all(part is None for part in slow)
        self.in_place = quick or threads is None
        self.episode = Episode(task.question, list(task.topics), [], "", key=task.key)
        self.ids: list[int] = []
        self.started = time.monotonic()

    def count(self, text: str) -> int:
        return len(self.engine.tokens.encode(text))

    async def run(self) -> Episode:
        episode = self.episode
        try:
            await self._begin()
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

    def run_now(self) -> Episode:
        """The same without an event loop: for an engine that answers at once, such as a script."""
        steps = self.run()
        try:
            steps.send(None)
        except StopIteration as end:
            episode: Episode = end.value
            return episode
        steps.close()
        raise RuntimeError("run_now needs an engine that answers at once, and no threads")

    async def _begin(self) -> None:
        """The prompt; it may ask the graph, as a tool does."""

        def begin() -> tuple[Walk, list[Message]]:
            walk = self.protocol.begin(self.task, self.environment, self.count)
            messages = walk.prompt()
            if self.protocol.shows_graph:  # as much of it as leaves the model room to answer
                most = self._room() - min(self.budget.turn_tokens, self._room() // ANSWERS)
                over = len(self.engine.tokens.open_chat(messages)) - most
                messages = walk.shortened(over) if over > 0 else messages
            return walk, messages

        self.walk, self.messages = await self._ask("the prompt", begin)
        self.episode.seen = self.walk.seen
        self.episode.shown = list(dict.fromkeys(name for fact in self.walk.seen for name in (fact.head, fact.tail)))
        self.ids = self.engine.tokens.open_chat(self.messages)
        self.episode.prompt_ids = list(self.ids)
        self.episode.prompt = "\n\n".join(message.content for message in self.messages)

    async def _turns(self) -> StopReason:
        if len(self.ids) + 1 > self._room():
            self.episode.failure = f"the prompt has {len(self.ids):,} tokens and there is room for {self._room():,}"
            return StopReason.prompt
        for number in range(self.protocol.turns + 1):
            if time.monotonic() - self.started > self.budget.seconds:
                return StopReason.time
            if len(self.ids) >= self._room():
                return StopReason.tokens
            grammar = self.walk.grammar(answer=number == self.protocol.turns)
            if not self._fits(grammar):
                return StopReason.tokens
            turn = await self._generate(grammar)
            self.episode.turns.append(turn)
            if isinstance(turn.step, Answer):
                self._finish(turn.step)
                return StopReason.answered
            if number == self.protocol.turns:  # the forced answer was none
                turn.ok, turn.error = False, "no_turns"
                self.watch(self.episode, turn)
                return StopReason.turns
            observation = await self._answer_to(turn.step)
            turn.ok, turn.error, turn.made = observation.ok, observation.error, observation.made
            last = number + 1 == self.protocol.turns
            closing = self.walk.last_call() if last else None
            if last and closing is None:
                self.watch(self.episode, turn)
                return StopReason.turns
            told = self._append(turn, observation, closing)
            self.watch(self.episode, turn)
            if not told:
                return StopReason.tokens
        raise AssertionError("unreachable")

    def _room(self) -> int:
        return min(self.budget.total_tokens, self.engine.context)

    def _fits(self, grammar: Grammar | None) -> bool:
        """Whether the room that is left is enough for the shortest turn; looked at when it is less than a whole one."""
        left = self._room() - len(self.ids)
        if grammar is None or left >= self.sampling.max_tokens:
            return True
        automaton = automaton_of(self.engine.tokens)
        return automaton is None or automaton.start(grammar).need <= left

    async def _generate(self, grammar: Grammar | None) -> Turn:
        before = time.monotonic()
        most = min(self.sampling.max_tokens, self._room() - len(self.ids))
        request = Request(self.ids, self.messages, replace(self.sampling, max_tokens=most), self.session, grammar)
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
            counted=server_counts(generation),
            seconds=time.monotonic() - before,
            constraint=None if generation.room is None else Constraint(grammar, generation.room),
        )

    async def _answer_to(self, step: Step) -> Observation:
        if isinstance(step, Malformed):
            return self.walk.complain(step)
        assert isinstance(step, Call)
        return await self._ask(step.tool, lambda: self.walk.act(step))

    async def _ask(self, what: str, call: Callable[[], _T]) -> _T:
        """A call that may wait for a backend, tried again if that fails."""
        for attempt in range(self.budget.tool_retries + 1):
            try:
                if self.in_place:
                    return call()
                return await asyncio.get_running_loop().run_in_executor(self.threads, call)
            except KgwalkError as error:
                if attempt == self.budget.tool_retries:
                    raise _ToolFailed(f"{what}: {error}") from error
        raise AssertionError("unreachable")

    def _append(self, turn: Turn, observation: Observation, closing: Observation | None) -> bool:
        """Tell the model, with the last call if it is time; False if there is no room for it."""
        text, shown, documents = observation.fit(self.count, self.budget.observation_tokens)
        if closing is not None:
            text += ("" if self.protocol.inline else "\n") + closing.render(0)
        ids = told_ids(self.engine.tokens, text, inline=self.protocol.inline, ended=self.ended)
        if len(self.ids) + len(ids) + 1 > self._room():
            return False
        turn.observation, turn.observation_ids, turn.shown, turn.documents = text, ids, shown, documents
        seen = set(shown)
        self.walk.seen.extend(fact for fact in observation.triples if fact.head in seen or fact.tail in seen)
        self.ids.extend(ids)
        self.messages.append(Message("user", text))
        return True

    def _finish(self, answer: Answer) -> None:
        episode = self.episode
        episode.answers, episode.form = self.walk.resolve(answer), self.walk.answer_form(answer)
        episode.evidence = {name: self.walk.evidence(name) for name in episode.answers}
        self.watch(episode, episode.turns[-1])


def told_ids(tokens: Tokenizer, text: str, *, inline: bool, ended: bool) -> list[int]:
    """An observation after the model's turn; `ended`: with an end token of its own.

    A message that the model ended itself cannot be continued: what follows must come as another's.
    """
    return tokens.encode(text) if inline and not ended else tokens.next_turn(text, ended=ended)


class _ToolFailed(Exception):
    pass


def _seed(seed: int | None, key: str) -> int | None:
    if seed is None:
        return None
    return int.from_bytes(hashlib.blake2b(f"{seed}/{key}".encode(), digest_size=7).digest())


# Tokens, whatever an engine counts in

BYTES_A_TOKEN = 4  # English has about so many


def ids_a_token(engine: Engine) -> int:
    """How many ids a token has: an engine that sends text (an API) has bytes for ids."""
    return 1 if engine.exact else BYTES_A_TOKEN


def server_counts(generation: Generation) -> tuple[int, int] | None:
    """Prompt and generated tokens as an API's server counted them; None without a server, or with one that does not.

    A server that reports nothing must not make a turn free.
    """
    usage = getattr(generation, "usage", None)  # an API engine's generations have it
    return (usage.prompt_tokens, usage.completion_tokens) if usage is not None and usage.prompt_tokens else None


def tokens(episode: Episode, ids_a_token: int = 1) -> tuple[int, int]:
    """Those the model was told and those it generated.

    A server's own counts are taken where every turn has them; they count the context again with every turn. After a
    second look those of the other walks are counted as well.

    >>> from kgwalk.types import Call, Question, Turn
    >>> turn = Turn([7, 8, 9], [0.0] * 3, "", Call("look"), observation_ids=[3, 4])
    >>> episode = Episode(Question("q", "?", [], []), [], [1] * 10, "", [turn])
    >>> tokens(episode), tokens(episode, ids_a_token=4)
    ((12, 3), (3, 1))
    """
    prompt, generated = _own_tokens(episode, ids_a_token)
    if (looked := episode.looked) is not None:
        return prompt + looked.prompt_tokens, generated + looked.generated_tokens
    return prompt, generated


def _own_tokens(episode: Episode, ids_a_token: int) -> tuple[int, int]:
    counts = [turn.counted for turn in episode.turns if turn.counted is not None]
    if counts and len(counts) == len(episode.turns):
        return sum(prompt for prompt, _ in counts), sum(generated for _, generated in counts)
    generated = episode.generated_tokens
    return -(-(episode.total_tokens - generated) // ids_a_token), -(-generated // ids_a_token)


def tokens_used(episodes: Iterable[Episode], engine: Engine) -> dict[str, int]:
    """`tokens` of all: those "generated" by the model, those of the "prompt" (all that it was told) and the "total"."""
    counts = [tokens(episode, ids_a_token(engine)) for episode in episodes]
    prompt, generated = sum(count[0] for count in counts), sum(count[1] for count in counts)
    return {"generated": generated, "prompt": prompt, "total": generated + prompt}


class Counted:
    """An engine whose context and limits are in tokens for the caller, in ids for the rollout.

    So budgets are in tokens for every engine, also for one whose ids are bytes.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ids = ids_a_token(engine)

    @property
    def tokens(self) -> Tokenizer:
        return self._engine.tokens

    @property
    def context(self) -> int:
        return self._engine.context * self._ids

    @property
    def exact(self) -> bool:
        return self._engine.exact

    @property
    def at_once(self) -> int:
        return self._engine.at_once

    def budget(self, budget: Budget) -> Budget:
        return replace(
            budget,
            turn_tokens=budget.turn_tokens * self._ids,
            observation_tokens=budget.observation_tokens * self._ids,
            total_tokens=budget.total_tokens * self._ids,
            # more than the engine serves would wait for each other, on their own time
            at_once=min(budget.at_once, self.at_once),
        )

    async def generate(self, request: Request) -> Generation:
        most = -(-request.sampling.max_tokens // self._ids)
        sampling = replace(request.sampling, max_tokens=most)
        return await self._engine.generate(replace(request, sampling=sampling))

    async def forget(self, session: str) -> None:
        await self._engine.forget(session)

    async def close(self) -> None:
        """The engine is not this caller's to close."""


@contextmanager
def without_garbage_collection(*, circles: bool = True) -> Iterator[None]:
    """No garbage collection inside. Every few thousand new objects Python looks through all there are, which took more
    than half of the time of a thousand episodes, all of which stay. Objects in no reference cycle are freed as ever.

    `circles=False` says that the work makes no reference cycles: then all that was made counts as old at once, since
    to look through a thousand episodes later takes a tenth of the time that it took to receive them.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not circles and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()  # to the oldest generation
        if before:
            gc.enable()
