"""Think-on-Graph: a beam search over relations and entities in which a prompted model does the pruning.

At each depth, the model scores the relations of every entity of the beam, then the entities that the best of them lead
to; the best `width` go on. It is asked whether the facts found suffice, and answers from them at the latest at `depth`.
That is at most 2 * width * depth + depth calls. A reply that cannot be read is an error on its turn, and the search
goes on with the first choices as listed.

Every call has a prompt of its own: `Turn.observation` is the next one, `Episode.prompt` the first, and an episode is
not for training, as its tokens are no one sequence that a model was given. `Turn.counted` has what each call took.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from kgwalk.agent.budget import Budget
from kgwalk.agent.counted import Counted, ids_a_token, server_counts
from kgwalk.agent.evidence import path_to
from kgwalk.agent.policies.tog_prompts import Prompt, Prompts, read_choice, read_enough, read_names
from kgwalk.agent.policies.trip import Trip, trips
from kgwalk.agent.protocol import Task, World
from kgwalk.agent.rollout import Watch
from kgwalk.kg.graph import Graph
from kgwalk.llm.embed import Embedder
from kgwalk.llm.engine import Engine, Request, Sampling
from kgwalk.tools.facts import Way, relevant_ways
from kgwalk.types import Answer, Call, Episode, Malformed, Message, Step, StopReason, Triple, Turn

_T = TypeVar("_T")
_SESSIONS = itertools.count()


@dataclass(frozen=True)
class Tog:
    """`width` and `depth` are the paper's N and D. A prompt lists at most `relations` of an entity, the nearest to the
    question first, or `entities`, the best connected first. `budget.total_tokens` bounds each call."""

    engine: Engine
    budget: Budget = field(default_factory=Budget)
    sampling: Sampling = field(default_factory=Sampling)
    width: int = 3
    depth: int = 3
    relations: int = 40
    entities: int = 20

    async def walk(self, tasks: Sequence[tuple[Task, World]], watch: Watch) -> list[Episode]:
        counted = Counted(self.engine)
        budget = counted.budget(self.budget)
        each = ids_a_token(self.engine)
        return await trips(tasks, budget, watch, lambda trip: _Search(trip, self, counted, each).run())

    def world(self, graph: Graph) -> World:
        return World(graph)


@dataclass(frozen=True, slots=True)
class _Beam:
    """Where a path stands, the entities on it, which it does not enter again, and the way by which it came."""

    entity: str
    path: tuple[str, ...]
    came: Way | None = None

    def ways(self, graph: Graph, question: str, most: int, embed: Embedder | None) -> list[Way]:
        """The relations to go on by: not back, unless that leads to others as well."""
        found = relevant_ways(graph, self.entity, question, most + 1, embed)
        if self.came is not None and (back := Way(self.came.relation, not self.came.out)) in found:
            others = graph.neighbors(self.entity, back.relation, out=back.out, limit=len(self.path) + 1)
            if all(name in self.path for name in others):
                found.remove(back)
        return found[:most]


class _NoRoom(Exception):
    """A prompt that is longer than the context."""


class _Search:
    """One question's search."""

    def __init__(self, trip: Trip, tog: Tog, engine: Counted, ids_a_token: int) -> None:
        self.trip, self.tog, self.engine, self.each = trip, tog, engine, ids_a_token
        self.question = trip.task.question.question
        self.prompts = Prompts(self.question, tog.width, trip.budget.observation_tokens, self._count)
        seed = tog.sampling.seed
        self.seed = None if seed is None else trip.chance(seed).getrandbits(56)
        self.session = f"tog:{next(_SESSIONS)}"
        self.facts: dict[Triple, None] = {}  # on the paths that were kept, in the order they were found
        self.untold: Turn | None = None  # the last turn, while what comes after it is not known

    def _count(self, text: str) -> int:
        return len(self.engine.tokens.encode(text))

    async def run(self) -> StopReason:
        try:
            return await self._search()
        except _NoRoom as error:
            self.trip.episode.failure = str(error)
            return StopReason.tokens if self.trip.episode.turns else StopReason.prompt
        finally:
            self._tell(None)
            await self.engine.forget(self.session)

    async def _search(self) -> StopReason:
        graph, topics = self.trip.world.graph, self.trip.task.topics
        known = await self.trip.ask("the topics", lambda: [topic for topic in topics if topic in graph])
        beam = [_Beam(topic, (topic,)) for topic in known[: self.tog.width]]
        for depth in range(1, self.tog.depth + 1):
            beam = await self._deepen(beam)
            if not beam or depth == self.tog.depth or await self._enough():
                break
        return await self._answer()

    async def _deepen(self, beam: Sequence[_Beam]) -> list[_Beam]:
        """One hop: relations, then entities. A path's score is that of its relation times that of its entity."""
        width = self.tog.width
        followed = [scored for one in beam for scored in await self._relations(one)]
        followed = sorted(followed, key=lambda scored: -scored[0])[:width]
        reached: list[tuple[float, _Beam, Triple]] = []
        for score, one, way in followed:
            reached += [(score * own, there, fact) for own, there, fact in await self._entities(one, way)]
        best = sorted(reached, key=lambda scored: -scored[0])[:width]
        self.facts.update(dict.fromkeys(fact for _, _, fact in best))
        self._see([fact for _, _, fact in best])
        kept: dict[str, _Beam] = {}
        for _, there, _ in best:
            kept.setdefault(there.entity, there)  # two paths to one entity go on as one
        return list(kept.values())

    async def _relations(self, one: _Beam) -> list[tuple[float, _Beam, Way]]:
        world = self.trip.world
        look = partial(one.ways, world.graph, self.question, self.tog.relations, world.embed)
        ways = await self.trip.ask("relations", look)
        if not ways:
            return []
        prompt = self.prompts.relations(one.entity, ways)
        names = [way.relation for way in ways]
        chosen = await self._choose(prompt, "choose_relations", (one.entity,), names)
        return [(score, one, ways[place]) for place, score in chosen]

    async def _entities(self, one: _Beam, way: Way) -> list[tuple[float, _Beam, Triple]]:
        graph, most = self.trip.world.graph, self.tog.entities + len(one.path)
        look = partial(graph.neighbors, one.entity, way.relation, out=way.out, limit=most)
        names = [name for name in (await self.trip.ask("entities", look)).names if name not in one.path]
        names = names[: self.tog.entities]
        facts = [
            Triple(one.entity, way.relation, name) if way.out else Triple(name, way.relation, one.entity)
            for name in names
        ]
        if len(names) > 1:
            prompt = self.prompts.entities(one.entity, way, names)
            self._see(facts[: prompt.choices])
            chosen = await self._choose(prompt, "choose_entities", (one.entity, way.relation), names)
        else:
            chosen = [(at, 1.0) for at in range(len(names))]  # nothing to choose
        return [(score, _Beam(names[at], (*one.path, names[at]), way), facts[at]) for at, score in chosen]

    async def _choose(
        self, prompt: Prompt, tool: str, about: tuple[str, ...], names: Sequence[str]
    ) -> list[tuple[int, float]]:
        width = self.tog.width
        first = [(place, 1 / width) for place in range(min(width, len(names)))]

        def read(text: str) -> tuple[Step, list[tuple[int, float]]]:
            chosen = read_choice(text, prompt.choices, width)
            if isinstance(chosen, Malformed):
                return chosen, first
            return Call(tool, (*about, *(names[place] for place, _ in chosen))), chosen

        return await self._call(prompt, read)

    async def _enough(self) -> bool:
        def read(text: str) -> tuple[Step, bool]:
            said = read_enough(text)
            return (said, False) if isinstance(said, Malformed) else (Call("enough", ("yes" if said else "no",)), said)

        return await self._call(self.prompts.enough(list(self.facts)), read)

    async def _answer(self) -> StopReason:
        def read(text: str) -> tuple[Step, Answer | None]:
            said = read_names(text)
            return said, said if isinstance(said, Answer) else None

        answer = await self._call(self.prompts.answer(list(self.facts)), read)
        if answer is None:
            return StopReason.turns
        episode = self.trip.episode
        episode.answers = list(dict.fromkeys(str(name) for name in answer.names))
        episode.evidence = {name: path_to(name, episode.topics, episode.seen) for name in episode.answers}
        return StopReason.answered

    async def _call(self, prompt: Prompt, read: Callable[[str], tuple[Step, _T]]) -> _T:
        """One call of the model's, which is one turn; what it comes to, or stands for if it cannot be read."""
        self.trip.check_time()
        messages = [Message("user", prompt.text)]
        ids = self.engine.tokens.open_chat(messages)
        self._tell(prompt, ids)
        room = min(self.trip.budget.total_tokens, self.engine.context) - len(ids)
        if room < 1:
            raise _NoRoom(f"a prompt has {len(ids):,} tokens and there is room for {room + len(ids):,}")
        most = min(self.trip.budget.turn_tokens, room)
        sampling = replace(self.tog.sampling, stop=(prompt.stop,), max_tokens=most, seed=self.seed)
        before = time.monotonic()
        generation = await self.engine.generate(Request(ids, messages, sampling, self.session))
        text = self.engine.tokens.decode(generation.ids)
        step, value = read(text)
        own = (-(-len(ids) // self.each), -(-len(generation.ids) // self.each))
        counted = server_counts(generation) or own
        turn = Turn(list(generation.ids), list(generation.logprobs), text, step, counted=counted)
        turn.seconds = time.monotonic() - before
        if isinstance(step, Malformed):
            turn.ok, turn.error = False, "malformed"
        self.trip.episode.turns.append(turn)
        self.untold = turn
        return value

    def _see(self, facts: Sequence[Triple]) -> None:
        """Facts that the next prompt tells."""
        known = set(self.trip.episode.seen)
        self.trip.episode.seen.extend(fact for fact in facts if fact not in known)

    def _tell(self, prompt: Prompt | None, ids: Sequence[int] = ()) -> None:
        """The next prompt is what the model was shown after its last turn; None at the end."""
        episode = self.trip.episode
        if self.untold is not None:
            if prompt is not None:
                self.untold.observation, self.untold.observation_ids = prompt.text, list(ids)
                self.untold.shown = prompt.shown
            self.trip.watch(self.untold)
            self.untold = None
        elif prompt is not None:
            episode.prompt, episode.prompt_ids = prompt.text, list(ids)
