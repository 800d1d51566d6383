"""Whoever walks: tasks in, episodes out. A protocol with an engine is one; baselines without a model are others.

The evaluator and the command line know this interface only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol as Interface

from kgwalk.agent.budget import Budget
from kgwalk.agent.counted import Counted
from kgwalk.agent.protocol import Protocol, Task, World
from kgwalk.agent.rollout import Watch, rollout_async
from kgwalk.agent.world import world_for
from kgwalk.kg.graph import Graph
from kgwalk.llm.engine import Engine, Sampling
from kgwalk.types import Episode


class Policy(Interface):
    """`watch(episode, None)` is told of each episode as it ends; the list comes back in the tasks' order.

    An episode's `key` is its task's.
    """

    async def walk(self, tasks: Sequence[tuple[Task, World]], watch: Watch) -> list[Episode]: ...

    def world(self, graph: Graph) -> World:
        """The graph, with what else this policy's tools use."""
        ...


@dataclass(frozen=True)
class Agent:
    """A language model that follows a protocol: the policy of every recipe that is trained."""

    protocol: Protocol
    engine: Engine
    budget: Budget = field(default_factory=Budget)
    sampling: Sampling = field(default_factory=Sampling)

    async def walk(self, tasks: Sequence[tuple[Task, World]], watch: Watch) -> list[Episode]:
        counted = Counted(self.engine)
        budget = counted.budget(self.budget)
        return await rollout_async(tasks, self.protocol, counted, sampling=self.sampling, budget=budget, watch=watch)

    def world(self, graph: Graph) -> World:
        return world_for(graph, self.protocol)
