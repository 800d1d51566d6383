"""How well rankers find the next entity of a gold path: recall and hit at k, over expansions.

An expansion is an entity on a gold path with all entities one fact away, in both directions (`Expansion`). `recall@k`
is the share of its gold neighbours among the first k, `hit@k` whether any of them is; both are means over expansions.
Gold neighbours that the cap on facts cut off count as missed. `kgwalk rank eval` calls `compare_rankers`; training a
ranker uses the same expansions.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgwalk.data.dataset import Data, Dataset
from kgwalk.kg.graph import Graph
from kgwalk.types import KgwalkError, Progress, Question, Triple, silent
from kgwalk.walk.facts import candidates_around
from kgwalk.walk.ranker_features import without_source
from kgwalk.walk.ranking import Candidate, Ranker, Recalls, best_first


class Unranked:
    """A `Ranker` that scores all alike: the graph's order stays (outgoing relations by name, best connected first)."""

    def score(self, question: str, candidates: Sequence[Candidate], graph: Graph) -> Sequence[float]:
        return [0.0] * len(candidates)


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A `Ranker` that asks another one, leaving the name of the entity where the walk stands out of the question.

    The learned ranker reads such questions too, so this shows how much of its lead is learned.
    """

    inner: Ranker

    def score(self, question: str, candidates: Sequence[Candidate], graph: Graph) -> Sequence[float]:
        return self.inner.score(without_source(question, candidates), candidates, graph)


@dataclass(frozen=True)
class ExpansionChoice:
    """Which expansions: those of `limit` questions of a split, drawn, with at most `facts` of a relation and direction.

    `visited_last`: entities that the path has visited come after all others, as in a search of the tool.
    """

    split: str = "dev"
    limit: int | None = None
    facts: int = 1000
    visited_last: bool = False
    seed: int = 0


def compare_rankers(
    dataset: Dataset,
    rankers: Mapping[str, Ranker],
    asked: ExpansionChoice,
    progress: Progress = silent,
) -> dict[str, Any]:
    """A row for each ranker, and a description of the expansions: how many, their candidates, their gold neighbours."""
    known = [question for question in dataset.questions(asked.split) if question.gold_paths]
    questions = sample(known, asked.limit, asked.seed)
    pairs = list(expansions(dataset, questions, asked.facts))
    if not pairs:
        raise KgwalkError(f"no question of {dataset.name}'s split {asked.split} has a gold path in its graph")
    rows = []
    for name, ranker in rankers.items():
        recalls, began = Recalls(), time.process_time()
        for at, (one, graph) in enumerate(pairs, 1):
            recalls.add(ranked(one, ranker, graph, visited_last=asked.visited_last), one.place.gold)
            progress(name, at, len(pairs))
        spent = 1000 * (time.process_time() - began) / len(pairs)
        rows.append({"name": name, **recalls.means(), "ms": spent})
    within = [len(one.place.gold & {each.name for each in one.candidates}) / len(one.place.gold) for one, _ in pairs]
    return {
        "data": dataset.name,
        "split": asked.split,
        "questions": len(questions),
        "n": len(pairs),
        "candidates": _mean([len(one.candidates) for one, _ in pairs]),
        "gold": _mean([len(one.place.gold) for one, _ in pairs]),
        "within_cap": _mean(within),
        "facts": asked.facts,
        "visited_last": asked.visited_last,
        "rows": rows,
    }


def ranked(one: Expansion, ranker: Ranker, graph: Graph, *, visited_last: bool) -> list[str]:
    """The candidates' names, best first."""
    names = [candidate.name for candidate in one.candidates]
    order = [names[at] for at in best_first(ranker.score(one.place.question.question, one.candidates, graph))]
    if not visited_last:
        return order
    seen = one.place.before | {one.place.entity}
    return [name for name in order if name not in seen] + [name for name in order if name in seen]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


# Expansions along gold paths


@dataclass(frozen=True, slots=True)
class GoldStep:
    """An entity on a gold path of a question, and the facts that gold paths take from it.

    A ranker is told the question and the candidates, not how the walk came here. So what several gold paths take from
    an entity, early or late, is gold there together. `hop` 0 is a topic; `before` are the entities that paths to here
    have visited.
    """

    question: Question
    entity: str
    facts: frozenset[Triple]
    hop: int
    before: frozenset[str] = frozenset()

    @property
    def gold(self) -> frozenset[str]:
        """The right entities to go to next."""
        return frozenset(other_end(fact, self.entity) for fact in self.facts)


@dataclass(frozen=True, slots=True)
class Expansion:
    place: GoldStep
    candidates: list[Candidate]


def other_end(fact: Triple, entity: str) -> str:
    """The entity at the other end of a fact.

    >>> other_end(Triple("Big", "directed_by", "Penny Marshall"), "Penny Marshall")
    'Big'
    """
    return fact.tail if fact.head == entity else fact.head


def places_of(question: Question) -> list[GoldStep]:
    """The entities on a question's gold paths, except the last of each; only paths that start at a topic count.

    >>> path = [Triple("Big", "starred_actors", "Tom Hanks"), Triple("Big", "directed_by", "Penny Marshall")]
    >>> asked = Question("q", "who directed the films of Tom Hanks?", ["Tom Hanks"], [], gold_paths=[path])
    >>> [(place.entity, sorted(place.gold), place.hop) for place in places_of(asked)]
    [('Tom Hanks', ['Big'], 0), ('Big', ['Penny Marshall'], 1)]
    """
    facts: dict[str, set[Triple]] = {}
    before: dict[str, set[str]] = {}
    hops: dict[str, int] = {}
    for path in question.gold_paths or []:
        steps = _steps(path, question.topic_entities)
        for hop, (entity, fact) in enumerate(steps):
            facts.setdefault(entity, set()).add(fact)
            before.setdefault(entity, set()).update(step[0] for step in steps[:hop])
            hops[entity] = min(hop, hops.get(entity, hop))
    return [
        GoldStep(question, entity, frozenset(there), hops[entity], frozenset(before[entity]))
        for entity, there in facts.items()
    ]


def _steps(path: Sequence[Triple], topics: Iterable[str]) -> list[tuple[str, Triple]]:
    """The facts of a path, each with the end that the walk comes from; empty unless they join and start at a topic."""
    for topic in topics:
        at, steps = topic, list[tuple[str, Triple]]()
        for fact in path:
            if at not in (fact.head, fact.tail):
                break
            steps.append((at, Triple(*fact[:3])))
            at = other_end(fact, at)
        else:
            return steps
    return []


def expand(place: GoldStep, graph: Graph, each: int, *, with_gold: bool = False) -> Expansion | None:
    """The candidates at a place, at most `each` of one relation and direction; None where there is no such entity.

    `with_gold` adds the gold facts that this cap would cut off: to learn from, not to measure on.
    """
    if place.entity not in graph:
        return None
    candidates = candidates_around(graph, place.entity, each)
    if with_gold:
        there = {fact for one in candidates for fact in one.facts}
        for fact in sorted(place.facts - there):
            candidates.append(Candidate(other_end(fact, place.entity), (fact,)))
    return Expansion(place, candidates) if candidates else None


def expansions(
    dataset: Data, questions: Iterable[Question], each: int, *, with_gold: bool = False
) -> Iterator[tuple[Expansion, Graph]]:
    """The expansions along the gold paths of some questions, each with its graph."""
    for question in questions:
        graph = dataset.graph_for(question)
        for place in places_of(question):
            made = expand(place, graph, each, with_gold=with_gold)
            if made is not None:
                yield made, graph


def sample(questions: Sequence[Question], limit: int | None, seed: int) -> list[Question]:
    """A seeded sample in the order given; all where there are no more."""
    if limit is None or limit >= len(questions):
        return list(questions)
    return [questions[at] for at in sorted(random.Random(seed).sample(range(len(questions)), limit))]
