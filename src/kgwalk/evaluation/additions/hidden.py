"""What a run hid from its questions, and how much of that its proposals bring back.

Knows views and proposals; not how either was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from kgwalk.agent.worlds import crucial_facts
from kgwalk.evaluation.additions.proposals import Proposal
from kgwalk.kg.graph import Graph
from kgwalk.types import Question, Triple

BANDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.01)


class Hidden:
    """The facts that questions did not see, each triple once however many questions it was hidden from.

    `needed` are crucial facts of a question (its gold paths, else its evidence) that its view lacks and the whole
    graph has. `hidden` are these and every other fact between the two entities, which a view hides with them.
    `lone` are the needed ones with an end that has no fact left in the view: such a name is known from the store's list
    of names alone, and a graph that never had the fact would not have it.
    """

    def __init__(self) -> None:
        self.questions: set[str] = set()
        self.needed: set[Triple] = set()
        self.hidden: set[Triple] = set()
        self.lone: set[Triple] = set()
        self._whole: dict[Triple, bool] = {}

    def add(self, question: Question, whole: Graph, seen: Graph) -> None:
        for fact in crucial_facts(question):
            if not _has(seen, fact) and _has(whole, fact):
                self.questions.add(question.id)
                self.needed.add(fact)
                if fact.head not in seen or fact.tail not in seen:
                    self.lone.add(fact)
                pair = [*whole.match(fact.head, None, fact.tail), *whole.match(fact.tail, None, fact.head)]
                self.hidden.update(Triple(*one[:3]) for one in pair if not _has(seen, one))

    def look_up(self, triple: Triple, whole: Graph) -> None:
        """Remember whether a proposal is a fact of a question's whole graph."""
        self._whole[triple] = self._whole.get(triple, False) or _has(whole, triple)

    def is_fact(self, triple: Triple) -> bool:
        return self._whole[triple]

    def report(self, every: Sequence[Proposal], least: float) -> dict[str, Any]:
        """Recall of what was hidden and precision of what is proposed, at `least` and in bands of confidence."""
        proposed = [one for one in every if one.confidence >= least]
        right = [one for one in proposed if self.is_fact(one.triple)]
        found = {one.triple for one in right}
        return {
            "questions": len(self.questions),
            "needed": len(self.needed),
            "recovered": len(self.needed & found),
            "recall": _share(len(self.needed & found), len(self.needed)),
            "lone": len(self.lone),
            "lone_recovered": len(self.lone & found),
            "hidden": len(self.hidden),
            "recall_of_hidden": _share(len(self.hidden & found), len(self.hidden)),
            "right": len(right),
            "precision": _share(len(right), len(proposed)),
            "bands": self._bands(every),
        }

    def _bands(self, every: Sequence[Proposal]) -> list[dict[str, Any]]:
        bands = []
        for low, high in pairwise(BANDS):
            inside = [one for one in every if low <= one.confidence < high]
            right = [one.triple for one in inside if self.is_fact(one.triple)]
            counts = {"proposals": len(inside), "right": len(right), "precision": _share(len(right), len(inside))}
            bands.append({"from": low, "to": min(high, 1.0), **counts, "needed": len(self.needed.intersection(right))})
        return bands


def _has(graph: Graph, fact: Triple) -> bool:
    return next(graph.match(*fact[:3], limit=1), None) is not None


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
