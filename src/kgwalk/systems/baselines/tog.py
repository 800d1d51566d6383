"""Think-on-Graph: a beam search over relations and entities, pruned by a prompted model.

At each depth, the model scores the relations of every entity of the beam, then the entities that the best of them lead
to; the best `width` go on. It is asked whether the facts found suffice, and answers from them at the latest at `depth`.
That is at most 2 * width * depth + depth calls. A reply that cannot be read is an error on its turn, and the search
goes on with the first choices as listed.

Every call has a prompt of its own: `Turn.observation` is the next one, `Episode.prompt` the first, and an episode is
not for training, as its tokens are no one sequence that a model was given. `Turn.counted` has what each call took.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from kgwalk.kg.graph import Graph
from kgwalk.llm.embeddings import Embedder
from kgwalk.llm.engine import Engine, Request, Sampling
from kgwalk.systems.baselines.trip import Trip, trips
from kgwalk.types import Answer, Call, Episode, Malformed, Message, Step, StopReason, Triple, Turn
from kgwalk.walk.facts import DirectedRelation, Neighbour, path_to, relevant_relations, spell, write_fact
from kgwalk.walk.policy import POLICIES
from kgwalk.walk.protocol import Environment, Observation, Task, written
from kgwalk.walk.rollout import Budget, Counted, Watch, ids_a_token, server_counts
from kgwalk.walk.tagged_text import escape_around, read_answer

# Prompts, in our words, and how the replies are read


_CHOICE = re.compile(r"<choice>(.*?)</choice>", re.DOTALL)
_ENOUGH = re.compile(r"<enough>(.*?)</enough>", re.DOTALL)
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)

_SCORE = """Choose at most {width}, and score each from 0 to 1 by how likely it leads to the answer.
Reply with the choices as pairs of number and score, the best first, as a JSON list inside choice tags, such as \
<choice>[[2, 0.7], [1, 0.3]]</choice>. If none helps, reply <choice>[]</choice>."""

RELATIONS = """You look for the answer to a question by walking a knowledge graph from entity to entity.

Question: {question}
You are at: {entity}
Its facts have these relations; -> leads away from it, <- leads to it:
{listed}

Which relations should be followed? """
ENTITIES = """You look for the answer to a question by walking a knowledge graph from entity to entity.

Question: {question}
You were at: {entity}
You followed: {way}
It leads to these entities:
{listed}

Which entities should be looked at further? """
ENOUGH = """These facts of a knowledge graph were found for a question.

Question: {question}
Facts:
{listed}

Do these facts, together with what you know, suffice to answer the question? Reply <enough>yes</enough> or \
<enough>no</enough>."""
ANSWER = """Answer the question from the facts of a knowledge graph that were found for it; where they do not tell, \
from what you know.

Question: {question}
Facts:
{listed}

Reply with the answer inside answer tags as a JSON list of names, for example <answer>["first name", "second \
name"]</answer>. List all the answers."""


@dataclass(frozen=True, slots=True)
class TogPrompt:
    text: str
    stop: str
    shown: list[str]
    choices: int = 0  # how many are numbered in it


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts about one question; a list takes `room` tokens as `count` counts them, `width` may be chosen."""

    question: str
    width: int
    room: int
    count: Callable[[str], int]
    topics: Sequence[str] = ()

    @property
    def asked(self) -> str:
        """The question as the model reads it."""
        return escape_around(self.question, self.topics)

    def relations(self, entity: str, ways: Sequence[DirectedRelation]) -> TogPrompt:
        texts = [_way(way) for way in ways]
        return self._choice(RELATIONS, [way.relation for way in ways], texts, entities=False, entity=spell(entity))

    def entities(self, entity: str, way: DirectedRelation, names: Sequence[str]) -> TogPrompt:
        return self._choice(
            ENTITIES, names, [spell(name) for name in names], entities=True, entity=spell(entity), way=_way(way)
        )

    def enough(self, facts: Sequence[Triple]) -> TogPrompt:
        return self._facts(ENOUGH, "</enough>", facts)

    def answer(self, facts: Sequence[Triple]) -> TogPrompt:
        return self._facts(ANSWER, "</answer>", facts)

    def _choice(
        self, form: str, items: Sequence[str], texts: Sequence[str], *, entities: bool, **values: str
    ) -> TogPrompt:
        lines = [f"{number}. {text}" for number, text in enumerate(texts, 1)]
        listed, choices = self._fit(items, lines)
        text = (form + _SCORE).format_map({"question": self.asked, "width": self.width, "listed": listed, **values})
        return TogPrompt(text, "</choice>", list(items[:choices]) if entities else [], choices)

    def _facts(self, form: str, stop: str, facts: Sequence[Triple]) -> TogPrompt:
        listed, kept = self._fit(
            [fact.tail for fact in facts], [write_fact(Neighbour(fact, fact.tail)) for fact in facts]
        )
        shown = list(dict.fromkeys(name for fact in facts[:kept] for name in (fact.head, fact.tail)))
        text = form.format_map({"question": self.asked, "listed": listed or "none"})
        return TogPrompt(text, stop, shown)

    def _fit(self, items: Sequence[str], lines: Sequence[str]) -> tuple[str, int]:
        """As many lines as there is room for, and how many these are."""
        listing = written("", items, lines, separator="\n")
        text, kept, _ = Observation("", "", [listing]).fit(self.count, self.room)
        return text, len(kept)


def _way(way: DirectedRelation) -> str:
    return f"-> {spell(way.relation)}" if way.out else f"<- {spell(way.relation)}"


def read_choice(text: str, choices: int, width: int) -> list[tuple[int, float]] | Malformed:
    """Places, from 0, with their scores; the best first.

    >>> read_choice("<choice>[[2, 0.7], [1, 0.9]]</choice>", choices=3, width=3)
    [(0, 0.9), (1, 0.7)]
    >>> read_choice("<choice>[[4, 1]]</choice>", choices=3, width=3)
    Malformed(why='there is no choice 4: they are numbered from 1 to 3')
    """
    found = _CHOICE.search(text)
    pairs = None if found is None else _pairs(found.group(1))
    if pairs is None:
        return Malformed("the reply is no <choice> with a JSON list of pairs of number and score")
    if len(pairs) > width:
        return Malformed(f"{len(pairs)} were chosen, and {width} may be")
    for number, _ in pairs:
        if not 1 <= number <= choices:
            return Malformed(f"there is no choice {number}: they are numbered from 1 to {choices}")
    scores = {number - 1: score for number, score in pairs}
    if len(scores) < len(pairs):
        return Malformed("a number was chosen twice")
    return sorted(scores.items(), key=lambda item: -item[1])


def read_enough(text: str) -> bool | Malformed:
    """
    >>> read_enough("<enough> Yes </enough>"), read_enough("<enough>no</enough>"), read_enough("yes")
    (True, False, Malformed(why='the reply is neither <enough>yes</enough> nor <enough>no</enough>'))
    """
    found = _ENOUGH.search(text)
    said = "" if found is None else found.group(1).strip().lower()
    if said not in ("yes", "no"):
        return Malformed("the reply is neither <enough>yes</enough> nor <enough>no</enough>")
    return said == "yes"


def read_names(text: str) -> Answer | Malformed:
    found = _ANSWER.search(text)
    names = None if found is None else read_answer(found.group(1))
    return Malformed("the reply has no <answer> with a JSON list of names") if names is None else Answer(names)


def _pairs(text: str) -> list[tuple[int, float]] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, a thousand brackets
        return None
    if not isinstance(value, list):
        return None
    pairs: list[tuple[int, float]] = []
    for pair in value:
        match pair:
            case [bool(), _] | [_, bool()]:
                return None
            case [int(number), int(score) | float(score)] if 0 <= score <= 1:
                pairs.append((number, float(score)))
            case _:
                return None
    return pairs


_T = TypeVar("_T")
_SESSIONS = itertools.count()


@POLICIES.add("tog")
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

    async def walk(self, tasks: Sequence[tuple[Task, Environment]], watch: Watch) -> list[Episode]:
        counted = Counted(self.engine)
        budget = counted.budget(self.budget)
        each = ids_a_token(self.engine)
        return await trips(tasks, budget, watch, lambda trip: _Search(trip, self, counted, each).run())

    def environment(self, graph: Graph) -> Environment:
        return Environment(graph)


@dataclass(frozen=True, slots=True)
class _Beam:
    """Where a path stands, the entities on it, which it does not enter again, and the way by which it came."""

    entity: str
    path: tuple[str, ...]
    came: DirectedRelation | None = None

    def ways(self, graph: Graph, question: str, most: int, embed: Embedder | None) -> list[DirectedRelation]:
        """The relations to go on by: not back, unless that leads to others as well."""
        found = relevant_relations(graph, self.entity, question, most + 1, embed)
        if self.came is not None and (back := DirectedRelation(self.came.relation, not self.came.out)) in found:
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
        self.prompts = Prompts(self.question, tog.width, trip.budget.observation_tokens, self._count, trip.task.topics)
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
        graph, topics = self.trip.environment.graph, self.trip.task.topics
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

    async def _relations(self, one: _Beam) -> list[tuple[float, _Beam, DirectedRelation]]:
        environment = self.trip.environment
        look = partial(one.ways, environment.graph, self.question, self.tog.relations, environment.embed)
        ways = await self.trip.ask("relations", look)
        if not ways:
            return []
        prompt = self.prompts.relations(one.entity, ways)
        names = [way.relation for way in ways]
        chosen = await self._choose(prompt, "choose_relations", (one.entity,), names)
        return [(score, one, ways[place]) for place, score in chosen]

    async def _entities(self, one: _Beam, way: DirectedRelation) -> list[tuple[float, _Beam, Triple]]:
        graph, most = self.trip.environment.graph, self.tog.entities + len(one.path)
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
        self, prompt: TogPrompt, tool: str, about: tuple[str, ...], names: Sequence[str]
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

    async def _call(self, prompt: TogPrompt, read: Callable[[str], tuple[Step, _T]]) -> _T:
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

    def _tell(self, prompt: TogPrompt | None, ids: Sequence[int] = ()) -> None:
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
