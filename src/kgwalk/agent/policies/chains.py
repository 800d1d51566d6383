"""The relation chains behind a question: what its gold paths, or else its evidence, say of how to walk.

Pure functions of a question. Knows no graph and no tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kgwalk.agent.evidence import path_to
from kgwalk.tools.facts import Way
from kgwalk.types import Question, Triple


@dataclass(frozen=True, slots=True)
class Chain:
    """Relations to follow from a topic. `returns`: a path of this chain comes back to the topic on its way."""

    topic: str
    ways: tuple[Way, ...]
    returns: bool = False


def chain_of(path: Sequence[Triple], topics: Iterable[str]) -> Chain | None:
    """The chain of a path that starts at one of the topics; None if it starts at none, or its facts do not join.

    >>> path = [Triple("Big", "starred_actors", "Tom Hanks"), Triple("Big", "directed_by", "Penny Marshall")]
    >>> [tuple(way) for way in chain_of(path, ["Tom Hanks"]).ways]
    [('starred_actors', False), ('directed_by', True)]
    """
    for topic in topics:
        at, ways, returns = topic, list[Way](), False
        for head, relation, tail, _ in path:
            if at not in (head, tail):
                break
            out = at == head
            ways.append(Way(relation, out))
            at = tail if out else head
            returns = returns or at == topic
        else:
            return Chain(topic, tuple(ways), returns) if ways else None
    return None


def chains_of(question: Question) -> dict[str, list[Chain]]:
    """The distinct chains by the topic they start at.

    A topic from which no gold path starts gets its chains from the evidence, if there is any: the shortest path over
    those facts to each answer. Shortest gold paths often skip a constraint of the question that the evidence has.
    """
    found: dict[str, list[Chain]] = {}
    for path in question.gold_paths or []:
        _add(found, chain_of(path, question.topic_entities))
    for topic in [topic for topic in question.topic_entities if topic not in found]:
        for answer in question.answers:
            _add(found, chain_of(path_to(answer, [topic], question.evidence or []), [topic]))
    return found


def _add(found: dict[str, list[Chain]], chain: Chain | None) -> None:
    """Chains that differ only in whether they return are one, which may."""
    if chain is None:
        return
    chains = found.setdefault(chain.topic, [])
    for at, known in enumerate(chains):
        if known.ways == chain.ways:
            chains[at] = Chain(chain.topic, chain.ways, known.returns or chain.returns)
            return
    chains.append(chain)
