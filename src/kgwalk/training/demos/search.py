"""Routes found by search: relation chains between a question's topics and its answers, where no path is given.

The search is that of training/paths: from both ends until they meet. Here the chains that reach most answers are walked
whole, and the one with the best F1 is taken. A chain may fit by accident: among equals the shorter one is taken, then
the one whose words are nearer to the question's. (`kgwalk paths find` verifies chains over a whole split.)
The same search over a question's `evidence` alone knows which facts matter. Knows no protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from kgwalk.agent.policies.chains import Chain
from kgwalk.llm.embed import words
from kgwalk.tools.rank import scores
from kgwalk.training.demos.route import Route, Survey, combinations
from kgwalk.training.paths.edges import Edges, FactEdges, GraphEdges
from kgwalk.training.paths.search import FoundChain, search
from kgwalk.types import Question

WALKED = 16  # of a topic, the best of those that were found


def route_from_search(survey: Survey, hops: int) -> Route | None:
    """The best route of at most `hops` relations."""
    return _best(survey, GraphEdges(survey.graph), hops)


def route_from_evidence(survey: Survey, hops: int) -> Route | None:
    """The best route whose chains the question's evidence shows."""
    return _best(survey, FactEdges(survey.question.evidence or []), hops)


def _best(survey: Survey, edges: Edges, hops: int) -> Route | None:
    found: list[int | None] = []
    best_of: list[list[Chain]] = []
    for topic in survey.topics:
        chains = _rank(survey.question, search(edges, topic, survey.question.answers, hops, paths=0).chains)
        if chains:
            found += combinations(survey, chains)
            best_of.append(chains[:4])
    if len(best_of) > 1:
        for some in product(*best_of):
            found += combinations(survey, some)
    return survey.best(found)


def _rank(question: Question, found: Sequence[FoundChain]) -> list[Chain]:
    """Those first that reach most answers, then the shortest, then those nearest to the question's words."""
    texts = [" ".join(words(way.relation) for way in one.chain.ways) for one in found]
    near = scores(question.question, texts).tolist()
    order = sorted(range(len(found)), key=lambda at: (-len(found[at].answers), len(found[at].chain.ways), -near[at]))
    return [found[at].chain for at in order[:WALKED]]
