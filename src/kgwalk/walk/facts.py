"""The facts around an entity: which are relevant, how they are written, how they lead to an answer.

A search first reads an entity's relations, keeps the relevant ones, then reads their facts (KG-Hopper, section III-A;
KG-Reasoner, section 4.2.1, which asks for incoming relations too). How many are kept is a setting, as the papers do not
say. Facts and names are written so that a name with a comma can be told from two names (`spell`, `read_name`).

`nearest_facts` is what a graph says where it does not say what was asked, `path_to` the evidence behind an answer,
`chains_of` the relation chains behind a question, `candidates_around` the entities where a walk may go next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kgwalk.kg.graph import Graph, with_nearest
from kgwalk.kg.names import split_words
from kgwalk.llm.embeddings import Embedder
from kgwalk.types import Question, Triple, UnknownEntity
from kgwalk.walk.ranking import Candidate, rank
from kgwalk.walk.tagged_text import escape, escape_name, quote, split_arguments, unescape


class DirectedRelation(NamedTuple):
    """A relation of an entity, and its direction: `out` where the entity is the head."""

    relation: str
    out: bool


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A triple as found from one of its ends: `other` is the end that was found; `dates` are all it holds for."""

    triple: Triple
    other: str
    dates: tuple[str, ...] = ()


def entity_named(graph: Graph, text: str) -> str:
    """The entity of this name, or the best connected one whose name differs in case, accents or punctuation only.

    (KG-Hopper's example searches for "utah".) Raises UnknownEntity with the nearest names.
    """
    if text in graph:
        return text
    found = next(iter(graph.find(text, 1)), None)
    if found is not None and found.how in ("exact", "normalised"):
        return found.name
    raise with_nearest(graph, UnknownEntity(text))


def directed_relations(graph: Graph, entity: str) -> list[DirectedRelation]:
    """The entity's relations, the outgoing ones first."""
    return [DirectedRelation(relation, out) for out in (True, False) for relation in graph.relations(entity, out=out)]


def relevant_relations(
    graph: Graph, entity: str, question: str, keep: int | None, embedder: Embedder | None
) -> list[DirectedRelation]:
    """The relations nearest to the question, best first, at most `keep`, or all."""
    every = directed_relations(graph, entity)
    order = rank(question, [way.relation for way in every], embedder)
    return [every[at] for at in order[:keep]]


def facts_along(
    graph: Graph, entity: str, along: Sequence[DirectedRelation], each: int | None
) -> tuple[list[Neighbour], int]:
    """The facts of these relations, the best connected first, of one at most `each`, or all; and how many there are."""
    facts: list[Neighbour] = []
    total = 0
    for relation, out in along:
        found = graph.neighbors(entity, relation, out=out, limit=each)
        total += found.total
        for at, other in enumerate(found.names):
            triple = Triple(entity, relation, other) if out else Triple(other, relation, entity)
            facts.append(Neighbour(triple, other, tuple(found.times[at]) if found.times else ()))
    return facts, total


NEAREST_OF = 5  # entities whose relations are looked at for the nearest fact


def nearest_facts(question: str, graph: Graph, names: Iterable[str], most: int = 3) -> list[Triple]:
    """What a graph does say of these entities, where it does not say what was asked: facts whose relation and value
    come nearest to the question in words, at most one of each relation.
    """
    found: list[Triple] = []
    for name in list(dict.fromkeys(names))[:NEAREST_OF]:
        if name in graph:
            along = directed_relations(graph, name)
            found += [fact.triple for way in along for fact in facts_along(graph, name, [way], 1)[0]]
    found = list(dict.fromkeys(found))
    order = rank(question, [f"{split_words(fact.relation)} {fact.tail}" for fact in found])
    return [found[at] for at in order[:most]]


def spell(name: str) -> str:
    """A name as it stands in a list: as it is, or in double quotes if it could be taken for something else.

    >>> spell("Tom Hanks"), spell("Washington, D.C.")
    ('Tom Hanks', '"Washington, D.C."')
    """
    plain = name.strip() == name and "," not in name and '"' not in name
    return escape_name(name) if plain else quote(name)


def read_name(text: str) -> str:
    """The inverse of `spell`: a name in double quotes or as it is.

    >>> read_name(' Tom Hanks '), read_name('"Washington, D.C."'), read_name('"Weird Al" Yankovic')
    ('Tom Hanks', 'Washington, D.C.', '"Weird Al" Yankovic')
    """
    stripped = text.strip()
    quoted = split_arguments(stripped) if stripped.startswith('"') else None
    return quoted[0] if quoted is not None and len(quoted) == 1 else unescape(stripped)


def write_fact(fact: Neighbour) -> str:
    """
    >>> write_fact(Neighbour(Triple("Iran", "visit", "Japan"), "Japan", ("2005-05", "2006-07")))
    '(Iran, visit, Japan) [2005-05; 2006-07]'
    """
    head, relation, tail, _ = fact.triple
    dates = f" [{escape('; '.join(fact.dates))}]" if fact.dates else ""
    return f"({spell(head)}, {spell(relation)}, {spell(tail)}){dates}"


def not_found(error: UnknownEntity) -> str:
    """What a model reads of a name that is not in the graph."""
    nearest = f"; the nearest names are {', '.join(map(spell, error.nearest))}" if error.nearest else ""
    return f"Entity {spell(error.name)} not found in KG{nearest}"


# The path behind an answer


def path_to(name: str, topics: Iterable[str], seen: Sequence[Triple]) -> list[Triple]:
    """The fewest facts, of those seen, that lead from a topic to a name, in either direction; [] if none do.

    >>> seen = [Triple("Big", "directed_by", "Penny Marshall"), Triple("Big", "starred_actors", "Tom Hanks")]
    >>> [t.relation for t in path_to("Penny Marshall", ["Tom Hanks"], seen)]
    ['starred_actors', 'directed_by']
    """
    beside: dict[str, list[tuple[Triple, str]]] = {}
    for triple in seen:
        beside.setdefault(triple.head, []).append((triple, triple.tail))
        beside.setdefault(triple.tail, []).append((triple, triple.head))
    came: dict[str, tuple[Triple, str] | None] = dict.fromkeys(topics)
    if name in came:
        return []
    queue = deque(came)
    while queue:
        here = queue.popleft()
        for triple, there in beside.get(here, ()):
            if there not in came:
                came[there] = (triple, here)
                if there == name:
                    return _back(name, came)
                queue.append(there)
    return []


def _back(name: str, came: dict[str, tuple[Triple, str] | None]) -> list[Triple]:
    path: list[Triple] = []
    while (step := came[name]) is not None:
        triple, name = step
        path.append(triple)
    return path[::-1]


# The relation chains behind a question


@dataclass(frozen=True, slots=True)
class Chain:
    """Relations to follow from a topic. `returns`: a path of this chain comes back to the topic on its way."""

    topic: str
    ways: tuple[DirectedRelation, ...]
    returns: bool = False


def chain_of(path: Sequence[Triple], topics: Iterable[str]) -> Chain | None:
    """The chain of a path that starts at one of the topics; None if it starts at none, or its facts do not join.

    >>> path = [Triple("Big", "starred_actors", "Tom Hanks"), Triple("Big", "directed_by", "Penny Marshall")]
    >>> [tuple(way) for way in chain_of(path, ["Tom Hanks"]).ways]
    [('starred_actors', False), ('directed_by', True)]
    """
    for topic in topics:
        at, ways, returns = topic, list[DirectedRelation](), False
        for head, relation, tail, _ in path:
            if at not in (head, tail):
                break
            out = at == head
            ways.append(DirectedRelation(relation, out))
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


# Where a walk may go next


def candidates_around(graph: Graph, entity: str, each: int) -> list[Candidate]:
    """All entities one fact away, in both directions, with the facts that lead there: at most `each` of one relation
    and direction, the best connected first, in the graph's order. Which of them matter is for a ranker to say.
    """
    return candidates_of(facts_along(graph, entity, directed_relations(graph, entity), each)[0])


def candidates_of(facts: Iterable[Neighbour]) -> list[Candidate]:
    """Facts grouped by the entity that they lead to."""
    leading: dict[str, list[Neighbour]] = {}
    for fact in facts:
        leading.setdefault(fact.other, []).append(fact)
    return [Candidate(name, tuple(fact.triple for fact in there)) for name, there in leading.items()]
