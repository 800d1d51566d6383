"""A writer's turns played against the protocol's own walk: true observations, and the ids that a rollout would have.

The rollout itself plays, with the writer in the engine's place; so nothing of it is written twice. No event loop: a
writer answers at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kgwalk.agent.budget import Budget
from kgwalk.agent.protocol import Protocol, Task, Walk, World
from kgwalk.agent.rollout import Run
from kgwalk.llm.engine import Generation, Request, Sampling
from kgwalk.llm.tokens import Tokenizer
from kgwalk.training.demos.demo import turn_ids
from kgwalk.training.demos.writers.writer import (
    CONTEXT_LENGTH,
    GRAPH_FAILED,
    PROMPT_LENGTH,
    TURN_LENGTH,
    Script,
    Unwritable,
    Writer,
)
from kgwalk.types import Episode, Message, StopReason

CONTEXT = 1 << 30  # the budget bounds a demo; the model that will learn from it has a context of its own


@dataclass
class Played:
    """The episode, the messages of its prompt, and the places of its wrong turns, which are not to be learned."""

    episode: Episode
    prompt: list[Message]
    untrained: set[int]
    writer: Writer


def play(
    task: Task,
    world: World,
    protocol: Protocol,
    writer_of: Callable[[Walk], Writer],
    tokens: Tokenizer,
    budget: Budget,
) -> Played:
    """One demo; raises Unwritable with the reason if there is none."""
    actor = _Actor(writer_of, tokens)
    sampling = Sampling(stop=protocol.stop, max_tokens=budget.turn_tokens)
    actor.run = Run(task, world, protocol, actor, sampling, budget, lambda episode, turn: None, task.question.id)
    episode = actor.run.run_now()
    if episode.stop == StopReason.tool_failed:
        raise Unwritable(GRAPH_FAILED)
    if episode.stop == StopReason.prompt:
        raise Unwritable(PROMPT_LENGTH)
    assert actor.writer is not None
    return Played(episode, actor.prompt, actor.untrained, actor.writer)


@dataclass
class _Actor:
    """An engine that says what the writer writes."""

    writer_of: Callable[[Walk], Writer]
    tokens: Tokenizer
    context: int = CONTEXT
    exact: bool = True
    at_once: int = 1
    prompt: list[Message] = field(default_factory=list)
    untrained: set[int] = field(default_factory=set)
    writer: Writer | None = None
    run: Run = field(init=False)
    _script: Script = field(init=False)

    async def generate(self, request: Request) -> Generation:
        turns = self.run.episode.turns
        if self.writer is None:
            self.prompt = list(request.messages)
            self.writer = self.writer_of(self.run.walk)
            self._script = self.writer.script()
        said = self._script.send(turns[-1]) if turns else next(self._script)
        if not said.train:
            self.untrained.add(len(turns))
        ids, ended = turn_ids(self.tokens, said.text, request.sampling.stop)
        if len(ids) > request.sampling.max_tokens:
            raise Unwritable(TURN_LENGTH if len(ids) > self.run.budget.turn_tokens else CONTEXT_LENGTH)
        return Generation(ids, [0.0] * len(ids), "eos" if ended else "stop")

    async def forget(self, session: str) -> None:
        if self.writer is not None:
            self._script.close()

    async def close(self) -> None:
        """Nothing was opened."""
