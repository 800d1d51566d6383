"""One evaluation under way: walk every question, score each episode as it ends, write its row at once.

Rows already in the folder are not walked again, so the same call goes on after a kill, and its table is the same:
the table is made from the rows, in the order of the questions. Knows policies by their interface only.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgwalk.agent.link import link
from kgwalk.agent.link import topics as linked_topics
from kgwalk.agent.policy import Policy
from kgwalk.agent.protocol import Task, World
from kgwalk.agent.worlds import Worlds, WorldSettings
from kgwalk.data.dataset import Data
from kgwalk.data.mixture import OF
from kgwalk.evaluation.predictions import Key, Row, asks, read_predictions
from kgwalk.kg.graph import Graph
from kgwalk.runs.episodes import episode_row
from kgwalk.runs.rows import Rows
from kgwalk.score.episode import measure
from kgwalk.score.errors import error_class
from kgwalk.score.gold import Gold, gold_of
from kgwalk.tools.web.search import WebSearch
from kgwalk.types import Episode, KgwalkError, Question, Turn

BLOCK = 8192  # tasks in memory at a time
RUNNING = ("f1", "hits_at_1")  # the means that progress is told
Progress = Callable[[int, int, dict[str, float]], None]  # done, of how many, running means


def silent(done: int, total: int, means: dict[str, float]) -> None:
    """Progress that nobody wants to see."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which questions are walked and how often. `limit` takes a seeded sample, the same for every policy."""

    runs: int = 1
    limit: int | None = None
    seed: int = 0
    link: bool = False  # find the topics in the question; else they are given, as in the papers
    retry_failed: bool = False  # walk those again whose engine or tool had failed


def chosen(questions: Sequence[Question], limit: int | None, seed: int) -> list[tuple[int, Question]]:
    """The questions with their places; with a limit, a seeded sample of them in their order.

    The first few of a file are rarely like the rest: MetaQA's begin with one-hop questions.
    """
    if limit is None or limit >= len(questions):
        return list(enumerate(questions))
    numbers = sorted(random.Random(f"kgwalk/{seed}").sample(range(len(questions)), limit))
    return [(number, questions[number]) for number in numbers]


class Evaluation:
    """The questions of a plan with the rows that are there; `walk` adds those that are `missing`."""

    def __init__(
        self,
        dataset: Data,
        questions: Sequence[Question],
        plan: Plan,
        predictions: Path,
        progress: Progress = silent,
        world: WorldSettings | None = None,
    ) -> None:
        self.dataset, self.plan, self.predictions, self.progress = dataset, plan, predictions, progress
        self.world = world or WorldSettings()
        self.questions = dict(chosen(questions, plan.limit, plan.seed))
        self._wanted: list[Key] = [(number, run) for number in self.questions for run in range(plan.runs)]
        self._done = self._read()
        self._sums = {name: sum(row["metrics"][name] for row in self._done.values()) for name in RUNNING}
        self._tell()

    @property
    def missing(self) -> list[Key]:
        return [key for key in self._wanted if key not in self._done]

    def rows(self) -> list[Row]:
        """The scored rows in the order of the questions and runs."""
        return [self._done[key] for key in self._wanted]

    def walk(self, policy: Policy, *, web: WebSearch | None = None, ids_a_token: int = 1) -> None:
        missing = self.missing
        worlds = Worlds(self.dataset.graph_for, self.world, policy.world, web)
        with Rows(self.predictions) as rows:
            for begin in range(0, len(missing), BLOCK):
                asyncio.run(self._walk(policy, worlds, missing[begin : begin + BLOCK], rows, ids_a_token))

    def _read(self) -> dict[Key, Row]:
        found = read_predictions(self.predictions)
        for (number, run), row in found.items():
            if run >= self.plan.runs or number not in self.questions or not asks(row, self.questions[number]):
                raise KgwalkError(
                    f"{self.predictions} was made from other questions than {self.dataset.name} has now "
                    f"(question {number}, {row['id']!r}); choose another folder with -o, or start over with --force"
                )
        return {key: row for key, row in found.items() if not (self.plan.retry_failed and row["metrics"]["failed"])}

    async def _walk(self, policy: Policy, worlds: Worlds, block: Sequence[Key], rows: Rows, ids_a_token: int) -> None:
        tasks: list[tuple[Task, World]] = []
        places: dict[str, tuple[Key, World]] = {}
        topics: dict[int, Sequence[str]] = {}
        for number, run in block:
            question = self.questions[number]
            world = worlds.of(question)
            if number not in topics:
                topics[number] = self._topics(question, world.graph)
            name = f"{self.plan.seed}:{number}:{run}"  # enters the seeds: a resumed run draws what it would have drawn
            tasks.append((Task(question, topics[number], name), world))
            places[name] = (number, run), world

        def watch(episode: Episode, turn: Turn | None) -> None:
            if turn is None:
                key, world = places.pop(episode.key)
                # names are compared over the whole graph: what is hidden from the walk is still a name of its own
                numbers = scored(episode, self.dataset.graph_for(episode.question), ids_a_token)
                if self.world.drop > 0:
                    numbers["groups"]["graph"] = "complete" if world.complete else "incomplete"
                row = {"number": key[0], "run": key[1], **numbers}
                rows.add(row | {"episode": episode_row(episode)})
                self._add(key, row)

        await policy.walk(tasks, watch)
        if places:
            raise AssertionError(f"{len(places)} tasks have no episode")

    def _topics(self, question: Question, graph: Graph) -> Sequence[str]:
        return linked_topics(link(question.question, graph)) if self.plan.link else question.topic_entities

    def _add(self, key: Key, row: Row) -> None:
        self._done[key] = row
        for name in RUNNING:
            self._sums[name] += row["metrics"][name]
        self._tell()

    def _tell(self) -> None:
        done = len(self._done)
        means = {name: value / done for name, value in self._sums.items()} if done else {}
        self.progress(done, len(self._wanted), means)


def scored(episode: Episode, graph: Graph | None = None, ids_a_token: int = 1) -> Row:
    """What the table needs of an episode: its numbers, its class of error, what it is grouped by."""
    question = episode.question
    gold = gold_of(question)
    error = error_class(episode, graph, gold)
    numbers = measure(episode, graph, gold, ids_a_token=ids_a_token)
    row = {
        "id": question.id,
        "question": question.question,
        "gold": question.answers,
        "aliases": question.aliases,
        "answers": episode.answers,
        "metrics": numbers,
        "error": None if error is None else str(error),
        "stop": str(episode.stop),
        "groups": dict(groups(question, gold)) | confident(numbers.get("confidence")),
    }
    kind = question.extra.get("answer_kind")
    return row if kind is None else row | {"answer_kind": kind}


def confident(chance: float | None) -> dict[str, str]:
    """The line of a table that shows whether walks the model was sure of are right more often, in percent.

    >>> confident(0.07), confident(1.0), confident(None)
    ({'confidence': '0-20'}, {'confidence': '80-100'}, {})
    """
    if chance is None:
        return {}
    low = min(int(chance * 5), 4) * 20
    return {"confidence": f"{low}-{low + 20}"}


def groups(question: Question, gold: Gold) -> Iterator[tuple[str, str]]:
    """The tables that a question belongs to, and its line in each."""
    if OF in question.extra:
        yield OF, str(question.extra[OF])
    yield "hops", "not known" if question.hops is None else str(question.hops)
    if question.type is not None:
        yield "type", question.type
    for name, value in question.extra.items():  # marks of the dataset, such as `unseen` of random worlds
        if isinstance(value, bool) and name not in ("hops", "type", "answers", OF):
            yield name, "yes" if value else "no"
    count = len(gold)
    yield "answers", str(count) if count < 2 else "2-4" if count < 5 else "5-9" if count < 10 else "10+"
