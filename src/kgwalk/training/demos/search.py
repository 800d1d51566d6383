"""Routes found by search: relation chains between a question's topics and its answers, where no path is given.

Breadth first from both ends, with a cap on hubs, until they meet; then the chains that reach most answers are walked
whole, and the one with the best F1 is taken. A chain may fit by accident: among equals the shorter one is taken, then
the one whose words are nearer to the question's. (Explore-on-Graph, appendix: it has an LLM verify what was found.)
The same search over a question's `evidence` alone knows which facts matter. Knows no protocol.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import product

from kgwalk.agent.policies.chains import Chain
from kgwalk.kg.graph import Graph
from kgwalk.llm.embed import words
from kgwalk.tools.facts import Way
from kgwalk.tools.rank import scores
from kgwalk.training.demos.route import Route, Survey, combinations
from kgwalk.types import Question, Triple

HUB = 50  # facts of one entity and relation that are looked at
EXPANDED = 400  # entities looked around from each end
ANSWERS = 8  # of a question, from which the search begins
CHAINS = 400  # kept at each length
WALKED = 16  # of a topic, the best of those that were found

Edges = dict[str, dict[Way, dict[str, None]]]  # of an entity: where each relation leads


def route_from_search(survey: Survey, hops: int) -> Route | None:
    """The best route of at most `hops` relations."""
    region = _region(survey.graph, survey.topics, survey.question.answers[:ANSWERS], hops)
    return _best(survey, region, hops)


def route_from_evidence(survey: Survey, hops: int) -> Route | None:
    """The best route whose chains the question's evidence shows."""
    region: Edges = {}
    for fact in survey.question.evidence or []:
        _add(region, fact)
    return _best(survey, region, hops) if region else None


def _best(survey: Survey, region: Edges, hops: int) -> Route | None:
    found: list[int | None] = []
    best_of: list[list[Chain]] = []
    for topic in survey.topics:
        chains = _rank(survey.question, chains_between(region, topic, survey.question.answers, hops))
        if chains:
            found += combinations(survey, chains)
            best_of.append(chains[:4])
    if len(best_of) > 1:
        for some in product(*best_of):
            found += combinations(survey, some)
    return survey.best(found)


def chains_between(region: Edges, topic: str, answers: Sequence[str], hops: int) -> dict[Chain, int]:
    """The chains of at most `hops` relations that lead from the topic to an answer, with how many they reach.

    >>> region: Edges = {}
    >>> _add(region, Triple("Big", "star", "Tom Hanks"))
    >>> _add(region, Triple("Big", "director", "Penny Marshall"))
    >>> [chain.ways for chain in chains_between(region, "Tom Hanks", ["Penny Marshall"], 2)]
    [(Way(relation='star', out=False), Way(relation='director', out=True))]
    """
    left = _distances(region, answers, hops)
    wanted = set(answers)
    found: dict[Chain, int] = {}
    level: dict[tuple[Way, ...], set[str]] = {(): {topic}}
    for length in range(1, hops + 1):
        longer: dict[tuple[Way, ...], set[str]] = {}
        for ways, entities in level.items():
            for entity in sorted(entities):
                for way, others in region.get(entity, {}).items():
                    near = [
                        other
                        for other in others
                        if left.get(other, hops + 1) <= hops - length and (other != topic or other in wanted)
                    ]
                    if near:
                        longer.setdefault((*ways, way), set()).update(near)
        level = dict(sorted(longer.items(), key=lambda item: -len(item[1] & wanted))[:CHAINS])
        for ways, entities in level.items():
            if entities & wanted:
                found[Chain(topic, ways)] = len(entities & wanted)
    return found


def _rank(question: Question, found: dict[Chain, int]) -> list[Chain]:
    """Those first that reach most answers, then the shortest, then those nearest to the question's words."""
    chains = list(found)
    texts = [" ".join(words(way.relation) for way in chain.ways) for chain in chains]
    near = dict(zip(chains, scores(question.question, texts).tolist(), strict=True))
    return sorted(chains, key=lambda chain: (-found[chain], len(chain.ways), -near[chain]))[:WALKED]


def _distances(region: Edges, answers: Iterable[str], most: int) -> dict[str, int]:
    """How many facts each entity is away from the nearest answer."""
    far = dict.fromkeys((answer for answer in answers if answer in region), 0)
    queue = deque(far)
    while queue:
        here = queue.popleft()
        if far[here] == most:
            break
        for others in region[here].values():
            for other in others:
                if other not in far:
                    far[other] = far[here] + 1
                    queue.append(other)
    return far


def _region(graph: Graph, topics: Sequence[str], answers: Sequence[str], hops: int) -> Edges:
    """The facts around both ends, half the way from each: whatever joins them in `hops` has all its facts there."""
    region: Edges = {}
    for ends in (topics, answers):
        _grow(region, [end for end in ends if end in graph], (hops + 1) // 2, lambda entity: _around(graph, entity))
    return region


def _grow(region: Edges, ends: Iterable[str], depth: int, around: Callable[[str], list[Triple]]) -> None:
    far = dict.fromkeys(ends, 0)
    queue = deque(far)
    for _ in range(EXPANDED):
        if not queue or far[queue[0]] == depth:
            return
        here = queue.popleft()
        for fact in around(here):
            _add(region, fact)
            other = fact.tail if fact.head == here else fact.head
            if other not in far:
                far[other] = far[here] + 1
                queue.append(other)


def _around(graph: Graph, entity: str) -> list[Triple]:
    facts: list[Triple] = []
    for out in (True, False):
        for relation in graph.relations(entity, out=out):
            names = graph.neighbors(entity, relation, out=out, limit=HUB).names
            facts += [Triple(entity, relation, name) if out else Triple(name, relation, entity) for name in names]
    return facts


def _add(region: Edges, fact: Triple) -> None:
    region.setdefault(fact.head, {}).setdefault(Way(fact.relation, True), {})[fact.tail] = None
    region.setdefault(fact.tail, {}).setdefault(Way(fact.relation, False), {})[fact.head] = None
