"""Search and verify: gold paths for questions that have answers and no paths (Explore-on-Graph, appendix O).

    finding = Finding.of(questions, graph_for, hops=3)
    finding.search()            every chain between topics and answers
    finding.apply_rules()       rules over one question's chains
    finding.agree()             questions that are worded alike
    finding.ask(engine)         a model reads what is left; any of the three may be left out
    finding.questions(questions)  the same questions with the paths as `gold_paths`

Each stage is counted: chains before and after, and why a question has none. The questions' own gold paths and evidence
are taken off before anything looks at them. Knows nothing of files.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kgwalk.agent.protocols.eog import Eog
from kgwalk.agent.world import world_for
from kgwalk.kg.graph import Graph
from kgwalk.llm.embed import Embedder
from kgwalk.llm.engine import Engine
from kgwalk.training.paths.agreement import agreed
from kgwalk.training.paths.ask import AT_ONCE, Verdict, ask
from kgwalk.training.paths.edges import GraphEdges
from kgwalk.training.paths.measure import Measured, measure
from kgwalk.training.paths.rules import RULES
from kgwalk.training.paths.search import search
from kgwalk.types import Question

EMBEDDED = 256  # questions whose words are embedded together
NO_TOPIC, NO_ANSWER = "no topic in the graph", "no answer in the graph"
NO_PATH, REFUSED = "no path within the hops", "the model refused every path"

Progress = Callable[[str, int, int], None]


@dataclass
class Asked:
    """A question on its way: what it asks, without its paths, and the chains that are left by topic."""

    question: Question
    words: str  # without the names of its topics
    chains: dict[str, list[Measured]] = field(default_factory=dict)
    why: str | None = None  # it has no chains
    whole: bool = True

    @property
    def left(self) -> list[Measured]:
        return [one for of_topic in self.chains.values() for one in of_topic]


@dataclass
class Finding:
    """All questions of a split, from stage to stage. `paths` of a chain are written, each to another answer."""

    asked: list[Asked]
    graph_for: Callable[[Question], Graph]
    hops: int = 3
    paths: int = 3
    embed: bool = True  # by meaning, where MiniLM is installed; else by letters
    stages: list[dict[str, Any]] = field(default_factory=list)
    trouble: Counter[str] = field(default_factory=Counter)  # of a model's replies
    progress: Progress = lambda what, done, total: None
    watch: Callable[[str], None] = lambda stage: None  # told after each stage

    @classmethod
    def of(cls, questions: Iterable[Question], graph_for: Callable[[Question], Graph], **settings: Any) -> Finding:
        bare = [replace(one, gold_paths=None, evidence=None) for one in questions]
        return cls([Asked(one, without_names(one.question, one.topic_entities)) for one in bare], graph_for, **settings)

    def search(self) -> None:
        """Every chain of at most `hops` relations, with what the rules will go by."""
        for at, one in enumerate(self.asked):
            graph = self.graph_for(one.question)
            embedder = self._embedder(graph)
            if embedder is not None and at % EMBEDDED == 0:
                embedder.embed([other.words for other in self.asked[at : at + EMBEDDED]])  # it remembers them
            self._search(one, graph, embedder)
            self.progress("paths", at + 1, len(self.asked))
        self._count("search", 0)

    def apply_rules(self) -> None:
        for name, rule in RULES.items():
            before = self._chains
            for one in self.asked:
                one.chains = {topic: rule(chains) for topic, chains in one.chains.items()}
            self._count(name, before)

    def agree(self) -> None:
        before = self._chains
        some = [one for one in self.asked if one.chains]
        embedder = self._embedder(self.graph_for(some[0].question)) if some else None
        ways = [{chain.found.chain.ways for chain in one.left} for one in some]
        kept = agreed([one.words for one in some], [one.question.topic_entities for one in some], ways, embedder)
        for one, stay in zip(some, kept, strict=True):
            one.chains = {
                # a topic of several may have chains that none of the like questions has
                topic: [chain for chain in chains if chain.found.chain.ways in stay] or chains
                for topic, chains in one.chains.items()
            }
        self._count("agreement", before)

    def ask(self, engine: Engine) -> None:
        """What the model does not call right goes; without a verdict it stays, and is counted."""
        before = self._chains
        some = [one for one in self.asked if one.chains]
        done = iter(range(1, len(some) + 1))
        found = asyncio.run(
            ask(
                engine,
                [(one.question, [chain.found for chain in one.left]) for one in some],
                lambda: self.progress("asking", next(done), len(some)),
            )
        )
        for one, verdicts in zip(some, found, strict=True):
            self._keep(one, verdicts)
        self._count("engine", before)

    def questions(self, originals: Iterable[Question]) -> list[Question]:
        """The questions as they were given, with what was found in place of their gold paths."""
        return [
            replace(original, gold_paths=[list(path) for chain in one.left for path in chain.found.paths] or None)
            for original, one in zip(originals, self.asked, strict=True)
        ]

    def as_json(self) -> dict[str, Any]:
        why = Counter(one.why for one in self.asked if one.why is not None)
        return {
            "questions": len(self.asked),
            "with_paths": sum(bool(one.chains) for one in self.asked),
            "without": dict(why.most_common()),
            "cut_short": sum(not one.whole for one in self.asked),
            "stages": self.stages,
            "no_verdict": dict(self.trouble.most_common()),
        }

    @property
    def _chains(self) -> int:
        return sum(len(one.left) for one in self.asked)

    def _count(self, stage: str, before: int) -> None:
        left = self._chains
        self.stages.append({"stage": stage, "removed": max(0, before - left), "left": left})
        self.watch(stage)

    def _embedder(self, graph: Graph) -> Embedder | None:
        return world_for(graph, Eog()).embed if self.embed else None

    def _search(self, one: Asked, graph: Graph, embedder: Embedder | None) -> None:
        edges = GraphEdges(graph)
        topics = [topic for topic in dict.fromkeys(one.question.topic_entities) if topic in graph]
        answers = answers_in(one.question, graph)
        for topic in topics:
            found = search(edges, topic, answers, self.hops, paths=self.paths)
            one.whole = one.whole and found.whole
            if found.chains:
                one.chains[topic] = measure(edges, found.chains, answers, one.words, embedder)
        if not one.chains:
            one.why = NO_TOPIC if not topics else NO_ANSWER if not answers else NO_PATH

    def _keep(self, one: Asked, verdicts: Sequence[Verdict]) -> None:
        stay: set[int] = set()
        chains = one.left
        for number, verdict in enumerate(verdicts):
            start = number * AT_ONCE
            if verdict.right is None:
                self.trouble[verdict.why] += 1
                stay.update(range(start, min(start + AT_ONCE, len(chains))))
            else:
                stay.update(start + at for at in verdict.right)
        kept = {id(chains[at]) for at in stay}
        left = {topic: [chain for chain in of if id(chain) in kept] for topic, of in one.chains.items()}
        one.chains = {topic: of for topic, of in left.items() if of}
        if not one.chains:
            one.why = REFUSED


def answers_in(question: Question, graph: Graph) -> list[str]:
    """The entities that the answers are: of each the first of its names that the graph has."""
    names = ([answer, *question.aliases.get(answer, ())] for answer in question.answers)
    found = (next((name for name in of_one if name in graph), None) for of_one in names)
    return list(dict.fromkeys(name for name in found if name is not None))


def without_names(question: str, topics: Iterable[str]) -> str:
    """The question's words but for the names of its topics, which say nothing of relations.

    >>> without_names("who directed the films Tom Hanks starred in?", ["Tom Hanks"])
    'who directed the films starred in?'
    """
    text = question
    for topic in sorted(topics, key=len, reverse=True):
        for name in (topic, topic.replace("_", " ")):
            text = re.sub(re.escape(name), " ", text, flags=re.IGNORECASE) if name.strip() else text
    return " ".join(text.split()) or question
