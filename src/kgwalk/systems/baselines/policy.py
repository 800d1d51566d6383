"""The baselines that walk without a protocol, and the random walk, their floor; importing this file registers them all.

`POLICIES` imports `policy.py` of every system's folder, as `PROTOCOLS` imports `protocol.py`; the oracle and
Think-on-Graph have files of their own. A policy is a dataclass: `engine`, `budget` and `sampling` are given by
the caller, its other fields are keys of a recipe's [policy].

The random walk goes from a random topic along random facts; where it ends is the answer. Every fact of an
entity is as likely as any other, in either direction, and the walk may turn back. So it is right as often as the
graph's shape makes it by chance: what a system scores is to be read against that. Of the question only the number of
hops is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from kgwalk.kg.graph import Graph
from kgwalk.llm.engine import Sampling
from kgwalk.systems.baselines.oracle import Oracle
from kgwalk.systems.baselines.tog import Tog
from kgwalk.systems.baselines.trip import Trip, trips
from kgwalk.systems.kgwalk.protocol import Kgwalk
from kgwalk.types import Answer, Call, Episode, StopReason, Triple
from kgwalk.walk.facts import DirectedRelation, directed_relations
from kgwalk.walk.policy import POLICIES
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import Budget, Watch
from kgwalk.walk.tagged_text import escape_name

__all__ = ["Oracle", "RandomWalk", "Tog", "step"]


@POLICIES.add("random-walk")
@dataclass(frozen=True)
class RandomWalk:
    """`hops` are for questions that do not say how many they take; the seed is the sampling's."""

    budget: Budget = field(default_factory=Budget)
    sampling: Sampling = field(default_factory=Sampling)
    hops: int = 2

    async def walk(self, tasks: Sequence[tuple[Task, Environment]], watch: Watch) -> list[Episode]:
        return await trips(tasks, self.budget, watch, self._walk)

    def environment(self, graph: Graph) -> Environment:
        return Environment(graph)

    async def _walk(self, trip: Trip) -> StopReason:
        graph, episode, chance = trip.environment.graph, trip.episode, trip.chance(self.sampling.seed)
        known = await trip.ask("the topics", lambda: [topic for topic in trip.task.topics if topic in graph])
        if not known:
            episode.failure = "no topic is in the graph"
            return StopReason.turns
        at = chance.choice(known)
        for _ in range(trip.task.question.hops or self.hops):
            draw = chance.random()  # before the call, which may be tried again
            way, there = await trip.ask("a step", partial(step, graph, at, draw))
            call = Call("tail_entities" if way.out else "head_entities", (at, way.relation))
            episode.seen.append(Triple(at, way.relation, there) if way.out else Triple(there, way.relation, at))
            trip.told(call, Kgwalk.render(call), escape_name(there), [there])
            at = there
        episode.answers, episode.evidence = [at], {at: list(episode.seen)}
        answer = Answer((at,))
        trip.told(answer, Kgwalk.render(answer))
        return StopReason.answered


def step(graph: Graph, entity: str, draw: float) -> tuple[DirectedRelation, str]:
    """The fact at `draw`, in [0, 1), of the entity's facts laid end to end, and the entity at its other end.

    Facts that differ in their dates alone count once. Only the relation drawn is listed, and only up to the draw.
    """
    every = directed_relations(graph, entity)
    counts = [graph.neighbors(entity, way.relation, out=way.out, limit=1).total for way in every]
    place = int(draw * sum(counts))
    for way, count in zip(every, counts, strict=True):
        if place < count:
            names = graph.neighbors(entity, way.relation, out=way.out, limit=place + 1).names
            return way, names[place]
        place -= count
    raise AssertionError(f"{entity!r} is in the graph and has no facts")
