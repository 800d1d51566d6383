"""The facts around an entity that bear on a question: first its relations, the relevant ones kept, then their facts.

KG-Hopper, section III-A; KG-Reasoner, section 4.2.1, which asks for incoming relations too. How many are kept is a
setting, as the papers do not say. Also how a fact and a name are written, so that a name with a comma can be told
from two names, and how a name is read back. Knows nothing of tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kgwalk.kg.graph import Graph, with_nearest
from kgwalk.llm.embed import Embedder
from kgwalk.tools.rank import rank
from kgwalk.tools.text import escape, quote, split_arguments, unescape
from kgwalk.types import Triple, UnknownEntity


class Way(NamedTuple):
    """A relation of an entity, and its direction: `out` where the entity is the head."""

    relation: str
    out: bool


@dataclass(frozen=True, slots=True)
class Fact:
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


def ways(graph: Graph, entity: str) -> list[Way]:
    """The entity's relations, the outgoing ones first."""
    return [Way(relation, out) for out in (True, False) for relation in graph.relations(entity, out=out)]


def relevant_ways(graph: Graph, entity: str, question: str, keep: int, embedder: Embedder | None) -> list[Way]:
    """The relations nearest to the question, best first, at most `keep`."""
    every = ways(graph, entity)
    order = rank(question, [way.relation for way in every], embedder)
    return [every[at] for at in order[:keep]]


def facts_along(graph: Graph, entity: str, along: Sequence[Way], each: int) -> tuple[list[Fact], int]:
    """The facts of these relations, at most `each` of one, the best connected first; and how many there are in all."""
    facts: list[Fact] = []
    total = 0
    for relation, out in along:
        found = graph.neighbors(entity, relation, out=out, limit=each)
        total += found.total
        for at, other in enumerate(found.names):
            triple = Triple(entity, relation, other) if out else Triple(other, relation, entity)
            facts.append(Fact(triple, other, tuple(found.times[at]) if found.times else ()))
    return facts, total


def spell(name: str) -> str:
    """A name as it stands in a list: as it is, or in double quotes if it could be taken for something else.

    >>> spell("Tom Hanks"), spell("Washington, D.C.")
    ('Tom Hanks', '"Washington, D.C."')
    """
    plain = name.strip() == name and "," not in name and '"' not in name
    return escape(name) if plain else quote(name)


def read_name(text: str) -> str:
    """The inverse of `spell`: a name in double quotes or as it is.

    >>> read_name(' Tom Hanks '), read_name('"Washington, D.C."'), read_name('"Weird Al" Yankovic')
    ('Tom Hanks', 'Washington, D.C.', '"Weird Al" Yankovic')
    """
    stripped = text.strip()
    quoted = split_arguments(stripped) if stripped.startswith('"') else None
    return quoted[0] if quoted is not None and len(quoted) == 1 else unescape(stripped)


def write_fact(fact: Fact) -> str:
    """
    >>> write_fact(Fact(Triple("Iran", "visit", "Japan"), "Japan", ("2005-05", "2006-07")))
    '(Iran, visit, Japan) [2005-05; 2006-07]'
    """
    head, relation, tail, _ = fact.triple
    dates = f" [{escape('; '.join(fact.dates))}]" if fact.dates else ""
    return f"({spell(head)}, {spell(relation)}, {spell(tail)}){dates}"


def not_found(error: UnknownEntity) -> str:
    """What a model reads of a name that is not in the graph."""
    nearest = f"; the nearest names are {', '.join(map(spell, error.nearest))}" if error.nearest else ""
    return f"Entity {spell(error.name)} not found in KG{nearest}"
