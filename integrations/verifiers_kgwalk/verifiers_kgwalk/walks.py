"""Walks of kgwalk that somebody else's model makes: the rollout of `kgwalk eval`, with its turns brought from outside.

    walks = walks_of(graph=None, data="world", recipe="kgwalk")
    walk = walks.walk(question)
    prompt = await walk.begin()
    observation = await walk.turn('tail_entities($1, "directed_by")', "stop")    # None when the walk is over
    rewarded, metrics = walks.paid(walk.episode, walk.environment)

A walk here is `walk/rollout.py`'s own, so that budgets, errors, observations and evidence are those of `kgwalk eval`.
It asks `RelayedEngine` for each turn, which waits until the reply is there. Knows nothing of verifiers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kgwalk import load_graph
from kgwalk.config.recipe import Recipe, load_recipe
from kgwalk.data.dataset import load_dataset
from kgwalk.kg.graph import Graph
from kgwalk.llm.api import close_text
from kgwalk.llm.engine import Generation, Request, Sampling
from kgwalk.llm.tokenizers import ByteTokenizer
from kgwalk.score.episode import measure
from kgwalk.score.rewards import Outcome, Rewarded, RewardFunction
from kgwalk.types import Episode, KgwalkError, Question
from kgwalk.walk.environment import (
    Environments,
    environment_for,
    environment_settings,
    opened_web,
    with_ranker_of,
)
from kgwalk.walk.linking import link as links
from kgwalk.walk.linking import topics as linked_topics
from kgwalk.walk.policy import budget_of, check_web, protocol_of
from kgwalk.walk.protocol import Environment, Protocol, Task
from kgwalk.walk.rollout import BYTES_A_TOKEN, Budget, Counted, EpisodeRun
from kgwalk.walk.starts import starts_in

METRICS = ("hits_at_1", "exact_set", "retrieval_rate", "answered", "invalid_calls", "malformed", "turns")


def walks_of(
    graph: str | None = None,
    data: str = "world",
    recipe: str = "kgwalk",
    *,
    profile: str | None = None,
    values: Sequence[str] = (),
    link: bool = False,
) -> Walks:
    """Walks over the graph of `data`, or over `graph` (a store's folder or an address).

    `recipe`, `profile` and `values` ("protocol.turns=5") decide prompt, tools, budget and rewards, as in `kgwalk eval`.
    `link` finds the topics in the question's text; otherwise they are given.
    """
    chosen = load_recipe(recipe)
    chosen = with_ranker_of((chosen if profile is None else chosen.with_profile(profile)).with_values(values))
    dataset = load_dataset(data)
    whole = None if graph is None else load_graph(graph)
    return Walks(chosen, dataset.graph_for if whole is None else lambda question: whole, link)


def questions_of(data: str, split: str, limit: int | None = None) -> list[Question]:
    return list(load_dataset(data).questions(split))[:limit]


class Walks:
    """Makes the walk of any question, and pays it. All rollouts share it; it keeps nothing of them."""

    def __init__(self, recipe: Recipe, graph_for: Callable[[Question], Graph], link: bool = False) -> None:
        self.protocol: Protocol = protocol_of(recipe)
        self.reward = RewardFunction.of(recipe)
        if self.reward.judges:
            raise KgwalkError(
                f"the rewards of {recipe.name} need a judge of {', '.join(sorted(self.reward.judges))}, and there is "
                "none here; set their weights to 0, such as values=['rewards.NAME=0']"
            )
        check_web(recipe)
        settings = environment_settings(recipe)
        base = lambda graph: environment_for(graph, self.protocol)  # noqa: E731
        self.environments = Environments(graph_for, settings, base, opened_web(settings))
        self.graph_for, self.link = graph_for, link
        self.plain: Budget = budget_of(recipe)
        self.threads = ThreadPoolExecutor(self.plain.threads, thread_name_prefix="kgwalk-tool")

    def task(self, question: Question) -> tuple[Task, Environment]:
        environment = self.environments.of(question)
        topics: Sequence[str] = question.topic_entities
        if self.link:
            text, graph = question.question, environment.graph
            found = starts_in(text, graph)[0] if self.protocol.starts_from_kinds else links(text, graph)
            topics = linked_topics(found)
        return Task(question, topics), environment

    def walk(self, question: Question) -> RelayedWalk:
        task, environment = self.task(question)
        engine = RelayedEngine(self.protocol.stop, self.plain.total_tokens)
        counted = Counted(engine)
        sampling = Sampling(stop=self.protocol.stop, max_tokens=counted.budget(self.plain).turn_tokens)
        run = EpisodeRun(
            task,
            environment,
            self.protocol,
            counted,
            sampling,
            counted.budget(self.plain),
            lambda episode, turn: None,
            question.id,
            self.threads,
        )
        return RelayedWalk(engine, run, environment)

    def paid(self, episode: Episode, environment: Environment) -> tuple[Rewarded, dict[str, float]]:
        """The rewards of the recipe and the metrics of `kgwalk eval`, names compared over the whole graph."""
        numbers = measure(episode, self.graph_for(episode.question), ids_a_token=BYTES_A_TOKEN)
        outcome = Outcome(episode, numbers, complete=environment.complete, web=environment.web is not None)
        return self.reward(outcome), numbers


class RelayedEngine:
    """An engine without a model: a request waits until somebody else brings the reply. Ids are bytes of the text."""

    exact = False
    at_once = 1

    def __init__(self, stops: Sequence[str], context: int) -> None:
        self.tokens = ByteTokenizer()
        self.context, self.stops = context, stops
        self.asked: asyncio.Queue[Request] = asyncio.Queue()
        self._replies: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def reply(self, text: str, finish: str) -> None:
        """What the model said to the request that was taken from `asked` last."""
        self._replies.put_nowait((text, finish))

    async def generate(self, request: Request) -> Generation:
        self.asked.put_nowait(request)
        text, finish = await self._replies.get()
        whole, ended = close_text(text, finish, self.stops)
        ids = self.tokens.encode(whole)
        return Generation([*ids, self.tokens.END] if ended == "eos" else ids, [], ended)

    async def forget(self, session: str) -> None:
        pass

    async def close(self) -> None:
        pass


@dataclass
class RelayedWalk:
    """One episode under way, in a task of its own: `begin` gives the prompt, `turn` what a reply is answered with."""

    engine: RelayedEngine
    run: EpisodeRun
    environment: Environment
    _running: asyncio.Task[Episode] | None = None
    _told: int = 0

    @property
    def episode(self) -> Episode:
        return self.run.episode

    async def begin(self) -> list[dict[str, str]] | None:
        self._running = asyncio.create_task(self.run.run())
        return await self._next()

    async def turn(self, text: str, finish: str) -> list[dict[str, str]] | None:
        """The observation, or None if the walk is over."""
        self.engine.reply(text, finish)
        self._told += 1  # the model's own message is not told to it
        return await self._next()

    async def _next(self) -> list[dict[str, str]] | None:
        """The messages that are new when the walk asks for another turn; None when it ends instead."""
        assert self._running is not None
        asked = asyncio.create_task(self.engine.asked.get())
        await asyncio.wait({asked, self._running}, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            asked.cancel()
            await self._running  # a bug of ours is raised here
            return None
        messages = asked.result().messages
        new, self._told = messages[self._told :], len(messages)
        return [{"role": message.role, "content": message.content} for message in new]

    async def stop(self) -> None:
        """Ends it wherever it is, as when verifiers' own limits are reached."""
        if self._running is not None and not self._running.done():
            self._running.cancel()
            await asyncio.wait({self._running})


def result_of(episode: Episode, rewarded: Rewarded, metrics: dict[str, float]) -> dict[str, Any]:
    """What came of a walk, as JSON: answers, the facts behind each, why it stopped, rewards and metrics."""
    return {
        "answers": episode.answers,
        "evidence": {name: [list(fact[:3]) for fact in facts] for name, facts in episode.evidence.items()},
        "stop": str(episode.stop),
        "failure": episode.failure,
        "rewards": rewarded.parts,
        "turn_rewards": rewarded.turns,
        "metrics": metrics,
    }
