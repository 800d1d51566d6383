"""Demonstrations from a teacher: a model walks each question several times, and what passes the filters is kept.

Rejection sampling, as in the papers (Graph-RFT: QwQ-32B; Explore-on-Graph: Gemini 2.5 Flash). The teacher may be any
engine; its text is kept, and the learner's tokenizer makes ids of it. Knows no protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from kgwalk.demos.demo import Demo, messages_of
from kgwalk.demos.filter import DemoSettings, Fallen, Walked, lacking, reason_against, web_turns
from kgwalk.demos.route import topics_of
from kgwalk.kg.graph import Graph
from kgwalk.score.answers import f1
from kgwalk.score.gold import gold_of
from kgwalk.types import Episode, Message, Question
from kgwalk.walk.policy import ProtocolPolicy
from kgwalk.walk.protocol import Environment, Task
from kgwalk.walk.rollout import Watch

QUESTIONS = 64  # walked together


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
) -> tuple[Iterator[Demo], Fallen]:
    """Demos as they are made, and the counts of what fell out. `name` of the teacher is the demos' style.

    Of the samples of a question the first `per_question` that pass are kept, the shortest first. `graph_for` gives the
    whole graph of a question, `world_of` the world in which it is walked, if that is not the whole graph.
    """
    fallen = Fallen()
    settings = (settings or DemoSettings()).checked()
    sampling = replace(teacher.sampling, temperature=settings.temperature, seed=seed)
    environment_of = environment_of or (lambda question: teacher.environment(graph_for(question)))
    teaching = _Teaching(replace(teacher, sampling=sampling), settings, name, watch, fallen, graph_for, environment_of)
    return teaching.make(settings.asked(questions, seed)), fallen


@dataclass
class _Teaching:
    teacher: ProtocolPolicy
    settings: DemoSettings
    name: str
    watch: Watch
    fallen: Fallen
    graph_for: Callable[[Question], Graph]
    environment_of: Callable[[Question], Environment]

    def make(self, questions: Iterable[Question]) -> Iterator[Demo]:
        rest = iter(questions)
        while some := list(islice(rest, QUESTIONS)):
            for demo in self._taught(some):
                if self.settings.limit is not None and self.fallen.kept >= self.settings.limit:
                    return
                self.fallen.keep(web=demo.web)
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
                    self.fallen.add(made, question.id)
                else:
                    kept += 1
                    yield made

    def _demo(self, episode: Episode, number: int) -> Demo | str:
        if not episode.trainable and episode.failure is not None and not episode.prompt_ids:
            return f"teacher: {episode.stop}"
        question, protocol = episode.question, self.teacher.protocol
        score = f1(episode.answers, gold_of(question), self.graph_for(question))
        walked = Walked(
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
        """An episode keeps its prompt as one text; its messages are those that the protocol began with."""
        tokens = self.teacher.engine.tokens
        task = Task(episode.question, episode.topics, episode.key)
        return self.teacher.protocol.begin(
            task, self.environment_of(episode.question), lambda text: len(tokens.encode(text))
        ).prompt()


_ENOUGH = "teacher: a shorter walk of the question was kept"


def _cut(text: str, stop: Iterable[str]) -> str:
    """The turn up to its stop text: the token that completed it may have had more.

    >>> _cut('<answer>["Big"]</answer>\\n\\n', ["</answer>"])
    '<answer>["Big"]</answer>'
    """
    ends = [at + len(end) for end in stop if (at := text.find(end)) >= 0]
    return text[: min(ends)] if ends else text
