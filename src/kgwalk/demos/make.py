"""Questions in, demonstrations out: find a route, write its turns, play them, filter the walk, count the rejects.

    demos, rejects = make_demos(questions, graph_for, protocol, settings=DemoSettings(limit=1000))

`make_demos` writes demonstrations itself. `teacher_demos` lets a model walk each question several times and keeps what
passes the filters: rejection sampling, as in the papers (Graph-RFT: QwQ-32B; Explore-on-Graph: Gemini 2.5 Flash).
`DemoSources` does first the one, then the other where no route was good enough, as a recipe says. The same questions,
settings and seed give the same demos, whatever else was asked for before.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

from kgwalk.config.recipe import unknown
from kgwalk.data.dataset import GRAPH_ID
from kgwalk.demos.dated_route import route_from_dates
from kgwalk.demos.demo import Demo, RoughTokenizer, messages_of
from kgwalk.demos.filter import CandidateWalk, DemoSettings, Rejects, lacking, reason_against, web_turns
from kgwalk.demos.route import (
    Route,
    RouteBuilder,
    route_from_evidence,
    route_from_gold,
    route_from_program,
    route_from_search,
    topics_of,
    with_asked_kind,
    with_distractor,
)
from kgwalk.demos.voice import Voice
from kgwalk.demos.writer import WRITERS, Played, Unwritable, Writer, play
from kgwalk.kg.graph import Graph
from kgwalk.kg.store import StoredGraph
from kgwalk.llm.tokenizers import Tokenizer
from kgwalk.score.answers import f1, gold_of
from kgwalk.types import Episode, KgwalkError, Message, Question
from kgwalk.walk.environment import environment_for
from kgwalk.walk.examples import MOST as MOST_EXAMPLES
from kgwalk.walk.examples import ExampleLibrary, WorkedExample
from kgwalk.walk.policy import NO_THOUGHTS, ProtocolPolicy
from kgwalk.walk.protocol import Environment, Protocol, Task, Walk
from kgwalk.walk.rollout import Budget, Watch

GIVEN_ROUTES: dict[str, Callable[[RouteBuilder, int], Route | None]] = {  # routes that a question itself gives
    "program": lambda builder, hops: route_from_program(builder),
    "dates": lambda builder, hops: route_from_dates(builder),
    "gold": lambda builder, hops: route_from_gold(builder),
    "evidence": route_from_evidence,
}


def make_demos(
    questions: Iterable[Question],
    graph_for: Callable[[Question], Graph],
    protocol: Protocol,
    *,
    settings: DemoSettings | None = None,
    budget: Budget | None = None,
    tokens: Tokenizer | None = None,
    seed: int = 0,
    environment_of: Callable[[Question], Environment] | None = None,
) -> tuple[Iterator[Demo], Rejects]:
    """Demos as they are made, and the counts of rejects, which fill meanwhile.

    `graph_for` gives the whole graph of a question, in which its route is found; `environment_of` the environment in
    which it is walked, if facts are hidden there. `tokens` is the learner's tokenizer, which decides where observations
    are cut and how long a demo may be. With a limit, the demos are of a seeded sample of the questions. Where the
    protocol shows worked examples, a share of the demos has some, of other questions of the same graph.
    """
    rejects = Rejects()
    if protocol.shows_examples:
        questions = list(questions)
        shown = ShownExamples(
            GraphExamples(questions, graph_for, protocol, seed), (settings or DemoSettings()).examples_share
        )
        plain = environment_of or (lambda question: environment_for(graph_for(question), protocol))
        environment_of = lambda question: replace(plain(question), examples=shown(question))  # noqa: E731
    maker = _DemoMaker(
        protocol,
        settings or DemoSettings(),
        budget or Budget(),
        tokens or RoughTokenizer(),
        seed,
        environment_of or (lambda question: environment_for(graph_for(question), protocol)),
        rejects,
    )
    return maker.make(questions, graph_for), rejects


class _DemoMaker:
    def __init__(
        self,
        protocol: Protocol,
        settings: DemoSettings,
        budget: Budget,
        tokens: Tokenizer,
        seed: int,
        environment_of: Callable[[Question], Environment],
        rejects: Rejects,
    ) -> None:
        self.writer = WRITERS.named(protocol.name)
        for style in settings.styles:
            if style not in self.writer.styles:
                raise unknown(f"style of {protocol.name}'s thoughts", style, self.writer.styles)
        self.protocol, self.settings, self.tokens, self.seed = protocol, settings.checked(), tokens, seed
        self.budget = replace(budget, seconds=float("inf"))  # a slow machine makes the same demos
        self.environment_of, self.rejects = environment_of, rejects

    def make(self, questions: Iterable[Question], graph_for: Callable[[Question], Graph]) -> Iterator[Demo]:
        for question in self.settings.asked(questions, self.seed):
            for demo in self._of(question, graph_for(question)):
                if self.settings.limit is not None and self.rejects.kept >= self.settings.limit:
                    return
                self.rejects.keep(wrong=demo.wrong, web=demo.web)
                yield demo

    def _of(self, question: Question, graph: Graph) -> Iterator[Demo]:
        chance = _chance(self.seed, question.id, "starts")
        if chance.random() < self.settings.distractors:
            question = with_distractor(question, graph, chance)
        if chance.random() < self.settings.asked_kinds:
            question = with_asked_kind(question, self.protocol.kinds_listed(graph), graph, chance)
        builder = RouteBuilder(question, graph, self.protocol.starts_from_kinds)
        found = self._route(builder)
        if isinstance(found, str):
            self.rejects.add(found, question.id)
            return
        route, source = found
        made: list[list[dict[str, object]]] = []
        for copy in range(self.settings.per_question):
            demo = self._demo(builder, route, source, copy)
            if isinstance(demo, Demo) and demo.messages in made:
                demo = "repeat: the same in other words is the same"
            if isinstance(demo, str):
                self.rejects.add(demo, question.id)
            else:
                made.append(demo.messages)
                yield demo

    def _route(self, builder: RouteBuilder) -> tuple[Route, str] | str:
        """The best route by F1 of those that the question itself gives; a search only if none is good enough."""
        if not builder.topics and not builder.kinds and not self.protocol.kinds_listed(builder.graph):
            return "route: no topic is in the graph"
        if (nothing := builder.unanswerable()) is not None:
            return nothing, "program"
        settings, best = self.settings, None
        least = settings.answer_f1 if "answer" in settings.filters else 0.0
        for source in settings.sources:
            route = GIVEN_ROUTES[source](builder, settings.hops) if source in GIVEN_ROUTES else None
            if route is not None and (best is None or route.f1 > best[0].f1):
                best = route, source
            if best is not None and best[0].f1 == 1:
                break
        if "search" in settings.sources and (best is None or best[0].f1 < least):
            route = route_from_search(builder, settings.hops)
            if route is not None and (best is None or route.f1 > best[0].f1):
                best = route, "search"
        if best is None:
            return "route: none was found"
        return best if best[0].f1 >= least else f"route: the best that was found has F1 below {least:g}"

    def _demo(self, builder: RouteBuilder, route: Route, source: str, copy: int) -> Demo | str:
        question, settings = builder.question, self.settings
        chance = _chance(self.seed, question.id, copy)
        style = chance.choice(settings.styles or self.writer.styles)
        wrong = chance.random() < settings.wrong
        try:
            played = self._play(builder, route, style, copy, wrong)
        except Unwritable as why:
            return str(why)
        episode = played.episode
        score = f1(episode.answers, builder.gold, builder.graph)
        counted = bool(route.steps) and route.steps[-1].tool == "count"
        walked = CandidateWalk(
            episode,
            self.protocol.name,
            score,
            played.untrained,
            settings.answer_f1,
            counted=counted,
            lacking=lacking(self.environment_of(question)),
        )
        turns = [(turn.text, turn.observation) for turn in episode.turns]
        return reason_against(walked, settings.filters) or Demo(
            id=question.id if settings.per_question == 1 else f"{question.id}#{copy}",
            question=question.question,
            protocol=self.protocol.name,
            inline=self.protocol.inline,
            messages=messages_of(played.prompt, turns, played.untrained),
            answers=episode.answers,
            gold=question.answers,
            f1=score,
            source=source,
            style=style,
            hops=question.hops or route.hops,
            wrong=played.writer.strayed,
            web=bool(web_turns(episode)),
        )

    def _play(self, builder: RouteBuilder, route: Route, style: str, copy: int, wrong: bool) -> Played:
        """Plays a route; if a wrong turn makes it too long, once more without it."""
        try:
            return self._walk(builder, route, style, copy, wrong)
        except Unwritable:
            if not wrong:
                raise
        return self._walk(builder, route, style, copy, False)

    def _walk(self, builder: RouteBuilder, route: Route, style: str, copy: int, wrong: bool) -> Played:
        question = builder.question
        chance = _chance(self.seed, question.id, copy, "words")

        def writer(walk: Walk) -> Writer:
            return self.writer(question, route, walk, builder.graph, Voice(style, chance), chance, wrong)

        task = Task(question, builder.topics)
        return play(task, self.environment_of(question), self.protocol, writer, self.tokens, self.budget)


def _chance(seed: int, *what: object) -> random.Random:
    text = "/".join(map(str, (seed, *what)))
    return random.Random(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()))


# Worked examples


GraphKey = tuple[object, str]


@dataclass
class GraphExamples:
    """Worked examples of each graph that questions with programs are asked over: the library of each is made when it is
    first asked for, of at most `examples.MOST` of its questions, by a seeded draw.
    """

    questions: Sequence[Question]
    graph_for: Callable[[Question], Graph]
    protocol: Protocol
    seed: int = 0
    _libraries: dict[GraphKey, ExampleLibrary] = field(default_factory=dict)
    _known: dict[str, WorkedExample | None] = field(default_factory=dict)  # by the question's id

    def __reduce__(self) -> Any:
        return GraphExamples, (self.questions, self.graph_for, self.protocol, self.seed)  # a worker makes its own

    @cached_property
    def _by_graph(self) -> dict[GraphKey, list[Question]]:
        by_graph: dict[GraphKey, list[Question]] = {}
        for question in self.questions:
            if question.extra.get("program"):
                by_graph.setdefault(_graph_key(question, self.graph_for(question)), []).append(question)
        return by_graph

    def library(self, question: Question) -> ExampleLibrary:
        """The examples of the question's graph, its own among them."""
        graph = self.graph_for(question)
        key = _graph_key(question, graph)
        if key not in self._libraries:
            own = self._by_graph.get(key, [])
            if len(own) > MOST_EXAMPLES:
                own = _chance(self.seed, "examples").sample(own, MOST_EXAMPLES)
            made = (self.example(one) for one in own)
            self._libraries[key] = ExampleLibrary([example for example in made if example is not None])
        return self._libraries[key]

    def example(self, question: Question) -> WorkedExample | None:
        """The question with the calls of its program; None if it has none that its graph can run."""
        if question.id not in self._known:
            self._known[question.id] = self._made(question, self.graph_for(question))
        return self._known[question.id]

    def _made(self, question: Question, graph: Graph) -> WorkedExample | None:
        builder = RouteBuilder(question, graph, self.protocol.starts_from_kinds)
        route = route_from_program(builder)
        if route is None or not route.steps:
            return None
        kinds = builder.kinds if self.protocol.starts_from_kinds else None
        walk = self.protocol.begin(Task(question, builder.topics, kinds=kinds), Environment(graph), len)
        chance = random.Random(0)
        writer = WRITERS.named(self.protocol.name)(question, route, walk, graph, Voice(NO_THOUGHTS, chance), chance)
        calls = writer.calls()
        named = tuple(kind.name for kind in builder.kinds)
        return WorkedExample(question.question, tuple(calls), tuple(builder.topics), named) if calls else None

    def others(self, question: Question) -> ExampleLibrary:
        """The examples of the question's graph that are not about what it asks itself."""
        own = self.example(question) or WorkedExample(question.question, ())
        return self.library(question).without(own)


def _graph_key(question: Question, graph: Graph) -> GraphKey:
    """What questions of the same graph have in common: its store and, of a part of it, the part's id."""
    store = getattr(graph, "store", None)
    if store is None:
        return id(graph), ""
    whole = type(graph) is StoredGraph
    return str(store.folder.path), "" if whole else str(question.extra.get(GRAPH_ID, question.id))


@dataclass(frozen=True)
class ShownExamples:
    """The worked examples of a question to learn from: those of others, for a share of the questions. The rest have
    none, so that who learns from both walks with and without.
    """

    examples: GraphExamples
    share: float

    def __call__(self, question: Question) -> ExampleLibrary | None:
        shown = _chance(self.examples.seed, question.id, "examples").random() < self.share
        return self.examples.others(question) if shown else None


# Demonstrations from a teacher


QUESTIONS = 64  # that a teacher walks together


def teacher_demos(
    questions: Iterable[Question],
    graph_for: Callable[[Question], Graph],
    teacher: ProtocolPolicy,
    *,
    settings: DemoSettings | None = None,
    name: str = "teacher",
    seed: int = 0,
    watch: Watch = lambda episode, turn: None,
    environment_of: Callable[[Question], Environment] | None = None,
) -> tuple[Iterator[Demo], Rejects]:
    """Demos as they are made, and the counts of rejects. The teacher's `name` becomes the demos' style.

    The shortest `per_question` samples of a question that pass are kept. `graph_for` gives the whole graph of a
    question, `environment_of` the environment in which it is walked, if its graph is not the whole one. The teacher may
    be any engine: its text is kept, and the learner's tokenizer makes ids of it.
    """
    rejects = Rejects()
    settings = (settings or DemoSettings()).checked()
    sampling = replace(teacher.sampling, temperature=settings.temperature, seed=seed)
    environment_of = environment_of or (lambda question: teacher.environment(graph_for(question)))
    teaching = _TeacherDemos(
        replace(teacher, sampling=sampling), settings, name, watch, rejects, graph_for, environment_of
    )
    return teaching.make(settings.asked(questions, seed)), rejects


@dataclass
class _TeacherDemos:
    teacher: ProtocolPolicy
    settings: DemoSettings
    name: str
    watch: Watch
    rejects: Rejects
    graph_for: Callable[[Question], Graph]
    environment_of: Callable[[Question], Environment]

    def make(self, questions: Iterable[Question]) -> Iterator[Demo]:
        rest = iter(questions)
        while some := list(islice(rest, QUESTIONS)):
            for demo in self._taught(some):
                if self.settings.limit is not None and self.rejects.kept >= self.settings.limit:
                    return
                self.rejects.keep(web=demo.web)
                yield demo

    def _taught(self, asked: list[Question]) -> Iterator[Demo]:
        samples = self.settings.samples
        tasks = []
        for question in asked:
            topics, environment = topics_of(question, self.graph_for(question)), self.environment_of(question)
            tasks += [(Task(question, topics, f"{question.id}#{number}"), environment) for number in range(samples)]
        episodes = asyncio.run(self.teacher.walk(tasks, self.watch))
        for at, question in enumerate(asked):
            of_one = list(enumerate(episodes[at * samples : (at + 1) * samples]))
            of_one.sort(key=lambda numbered: numbered[1].generated_tokens)
            kept = 0
            for number, episode in of_one:
                made = self._demo(episode, number) if kept < self.settings.per_question else _ENOUGH
                if isinstance(made, str):
                    self.rejects.add(made, question.id)
                else:
                    kept += 1
                    yield made

    def _demo(self, episode: Episode, number: int) -> Demo | str:
        if not episode.trainable and episode.failure is not None and not episode.prompt_ids:
            return f"teacher: {episode.stop}"
        question, protocol = episode.question, self.teacher.protocol
        score = f1(episode.answers, gold_of(question), self.graph_for(question))
        walked = CandidateWalk(
            episode,
            protocol.name,
            score,
            answer_f1=self.settings.answer_f1,
            lacking=lacking(self.environment_of(question)),
        )
        turns = [(_cut(turn.text, protocol.stop), turn.observation) for turn in episode.turns]
        return reason_against(walked, self.settings.filters) or Demo(
            id=f"{question.id}#{number}",
            question=question.question,
            protocol=protocol.name,
            inline=protocol.inline,
            messages=messages_of(self._prompt(episode), turns),
            answers=episode.answers,
            gold=question.answers,
            f1=score,
            source="teacher",
            style=self.name,
            hops=question.hops,
            web=bool(web_turns(episode)),
        )

    def _prompt(self, episode: Episode) -> list[Message]:
        """The messages of the prompt, made by the protocol again: an episode keeps its prompt as one text."""
        tokens = self.teacher.engine.tokens
        task = Task(episode.question, episode.topics, episode.key)
        return self.teacher.protocol.begin(
            task, self.environment_of(episode.question), lambda text: len(tokens.encode(text))
        ).prompt()


_ENOUGH = "teacher: a shorter walk of the question was kept"


def _cut(text: str, stop: Iterable[str]) -> str:
    """The turn up to its stop text: the token that completed it may have more text.

    >>> _cut('<answer>["Big"]</answer>\\n\\n', ["</answer>"])
    '<answer>["Big"]</answer>'
    """
    ends = [at + len(end) for end in stop if (at := text.find(end)) >= 0]
    return text[: min(ends)] if ends else text


# Demonstrations from all sources of a recipe


@dataclass
class DemoSources:
    """Written demos, then a teacher's for questions without one.

    `written` and `taught` count the rejects of each while `demos` goes on.
    """

    questions: Sequence[Question]
    graph_for: Callable[[Question], Graph]
    protocol: Protocol
    settings: DemoSettings
    budget: Budget = field(default_factory=Budget)
    tokens: Tokenizer | None = None  # the learner's
    teacher: ProtocolPolicy | None = None
    teacher_name: str = "teacher"
    seed: int = 0
    environment_of: Callable[[Question], Environment] | None = None
    written: Rejects = field(default_factory=Rejects)
    taught: Rejects = field(default_factory=Rejects)

    def __post_init__(self) -> None:
        if "teacher" in self.settings.sources and self.teacher is None:
            raise KgwalkError("the source `teacher` needs a language model; give one, or leave it out of the sources")

    def demos(self) -> Iterator[Demo]:
        questions, settings = self.questions, self.settings
        if set(settings.sources) != {"teacher"}:
            made, self.written = make_demos(
                questions,
                self.graph_for,
                self.protocol,
                settings=settings,
                budget=self.budget,
                tokens=self.tokens,
                seed=self.seed,
                environment_of=self.environment_of,
            )
            done = set()
            for demo in made:
                done.add(demo.id.rsplit("#", 1)[0] if settings.per_question > 1 else demo.id)
                yield demo
            questions = [question for question in questions if question.id not in done]
        yield from self._taught(questions)

    def _taught(self, questions: Sequence[Question]) -> Iterator[Demo]:
        settings = self.settings
        if settings.limit is not None:
            settings = replace(settings, limit=settings.limit - self.written.kept)
        if "teacher" not in settings.sources or settings.limit == 0:
            return
        assert self.teacher is not None
        made, self.taught = teacher_demos(
            questions,
            self.graph_for,
            self.teacher,
            settings=settings,
            name=self.teacher_name,
            seed=self.seed,
            environment_of=self.environment_of,
        )
        yield from made
