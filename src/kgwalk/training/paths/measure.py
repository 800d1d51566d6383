"""What is known of a chain beside the answers it reaches: where else it leads, and whether it sounds like the question.

Numbers only: `rules` decides by them. Knows nothing of gold paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgwalk.agent.policies.chains import Chain
from kgwalk.llm.embed import Embedder
from kgwalk.tools.rank import scores
from kgwalk.training.paths.edges import Edges, back
from kgwalk.training.paths.search import FoundChain

FACTS = 20_000  # looked at for one chain: a chain through a hub may lead to half of the graph
ENDS = 20  # for each answer: a chain that leads to more is told apart no further


@dataclass(frozen=True, slots=True)
class Measured:
    """A chain that was found. `ends` is how many entities it leads to, `answers` how many of them are answers."""

    found: FoundChain
    answers: int  # of the question, as far as the graph has them
    ends: int  # at least: counting stops where there are far too many
    typed: float  # share of the answers that have the chain's last relation at all
    near: float  # mean nearness of its relations to the question's words

    @property
    def coverage(self) -> float:
        return len(self.found.answers) / self.answers

    @property
    def f1(self) -> float:
        """Of the chain's ends as an answer: 2 of 3 answers among 4 ends is 2 * 2 / (3 + 4) = 4/7."""
        return 2 * len(self.found.answers) / (self.answers + self.ends)


def measure(
    edges: Edges, chains: Sequence[FoundChain], answers: Sequence[str], words: str, embedder: Embedder | None
) -> list[Measured]:
    """`words` are the question's, without the names of its topics; `answers` are entities."""
    relations = list(dict.fromkeys(way.relation for one in chains for way in one.chain.ways))
    near = dict(zip(relations, scores(words, relations, embedder).tolist(), strict=True))
    measured = []
    for one in chains:
        ways = one.chain.ways
        last = back(ways[-1])
        ends = max(len(one.answers), count_ends(edges, one.chain, ENDS * len(answers)))
        typed = sum(last in edges.ways(answer) for answer in answers) / len(answers)
        sounds = sum(near[way.relation] for way in ways) / len(ways)
        measured.append(Measured(one, len(answers), ends, typed, sounds))
    return measured


def count_ends(edges: Edges, chain: Chain, enough: int) -> int:
    """The entities at a chain's end; more than `enough`, or FACTS looked at, and it is those counted so far.

    As in `search`, no step takes back the one before: from Big by its stars to other films is Cast Away alone.

    >>> from kgwalk.tools.facts import Way
    >>> from kgwalk.training.paths.edges import FactEdges
    >>> from kgwalk.types import Triple
    >>> facts = [("Big", "star", "Tom Hanks"), ("Cast Away", "star", "Tom Hanks"), ("Big", "star", "Jon Lovitz")]
    >>> count_ends(FactEdges(Triple(*fact) for fact in facts), Chain("Big", (Way("star", True), Way("star", False))), 9)
    1
    """
    level: dict[str, set[str]] = {chain.topic: set()}  # entity, and from where
    looked = 0
    for at, way in enumerate(chain.ways):
        turns = at > 0 and way == back(chain.ways[at - 1])
        last = at == len(chain.ways) - 1
        reached: dict[str, set[str]] = {}
        for entity, before in level.items():
            others = edges.others(entity, way)
            looked += len(others)
            for other in others:
                if not (turns and before == {other}):
                    reached.setdefault(other, set()).add(entity)
            if looked > FACTS or (last and len(reached) > enough):
                break
        level = reached
    return len(level)
