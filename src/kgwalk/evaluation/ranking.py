"""How well rankers find the way: recall at k of the next gold entity, over the expansions along gold paths.

An expansion is an entity on a gold path with all entities a fact away, in both directions. `recall@k` is the share of
its gold neighbours among the first k, `hit@k` whether any of them is; both are means over expansions. Gold neighbours
that the cap cut off count as missed. Knows rankers by their interface only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgwalk.data.dataset import Dataset
from kgwalk.kg.graph import Graph
from kgwalk.tools.rank import Candidate, Ranker
from kgwalk.tools.ranker.features import without_source
from kgwalk.tools.ranker.recall import Recalls, best_first
from kgwalk.training.ranker.expansions import Expansion, expansions, sample
from kgwalk.types import KgwalkError


class Unranked:
    """A `Ranker` that finds all alike: the graph's order stays, outgoing relations by name, best connected first."""

    def score(self, question: str, candidates: Sequence[Candidate], graph: Graph) -> Sequence[float]:
        return [0.0] * len(candidates)


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A `Ranker` that asks another one with the name of where the walk stands left out of the question.

    The learned ranker reads such a question too: beside it, this shows how much of its lead is learned.
    """

    inner: Ranker

    def score(self, question: str, candidates: Sequence[Candidate], graph: Graph) -> Sequence[float]:
        return self.inner.score(without_source(question, candidates), candidates, graph)


@dataclass(frozen=True)
class Asked:
    """Which expansions: `limit` questions of a split, drawn; at most `facts` of one relation and direction.

    `visited_last`: entities that the path has been at come after all others, as in a search of the tool.
    """

    split: str = "dev"
    limit: int | None = None
    facts: int = 1000
    visited_last: bool = False
    seed: int = 0


def compare_rankers(
    dataset: Dataset,
    rankers: Mapping[str, Ranker],
    asked: Asked,
    progress: Callable[[str, int, int | None], None] = lambda what, done, total: None,
) -> dict[str, Any]:
    """A row for each ranker, and what the expansions are: how many, their candidates, their gold neighbours."""
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
